#!/bin/bash
# A stand-in for a benchmark client: it prints what a real one prints, and goes
# wrong in the way that its first word says. It runs all levels itself.
#
#   bench.sh WAY SECONDS
#
# CONCURRENCIES, MULTI_ROUND, OSL and RESULT_DIR come from the job.
way=$1 seconds=${2:-0}

block() { # prompts, failed, tokens
    local ok=$(($1 - $2))
    cat <<END
============ Serving Benchmark Result ============
Total requests:                          $1
Successful requests:                     $ok
Failed requests:                         $2
Benchmark duration (s):                  10.00
Total generated tokens:                  $3
---------------Time to First Token----------------
Mean TTFT (ms):                          $((100 + $1)).25
Median TTFT (ms):                        $((90 + $1)).50
P99 TTFT (ms):                           $((200 + $1)).75
END
}

case $way in
silent) exit 0 ;;
hang) exec sleep 600 ;;
crash)
    echo "[E] Traceback (most recent call last):"
    echo "ConnectionResetError: [Errno 104] Connection reset by peer"
    exit 7 ;;
worker)
    cat > "$RESULT_DIR/3_output_GEN_0.log" <<END
3: [TRT-LLM] [RANK 3] [E] Traceback (most recent call last):
3:     result = mpi4py.MPI.Comm.allgather(comm, value)
END
    exec sleep 600 ;;
esac

echo "warming up with small requests..."
block 9 0 90
echo "warm-up done"
sleep "$seconds"
for c in $CONCURRENCIES; do
    p=$((c * MULTI_ROUND))
    echo "Benchmarking with concurrency $c ... $p prompts"
    printf '\rBenchmarking:  50%%|#####     | %d/%d' "$((p / 2))" "$p"
    printf '\rBenchmarking: 100%%|##########| %d/%d\n' "$p" "$p"
    case $way in
    failing) block "$p" 1 "$(((p - 1) * OSL))" ;;
    empty) block "$p" 0 0 ;;
    *) block "$p" 0 "$((p * OSL))" ;;
    esac
    if [ "$way" = midway ] && [ "$c" != "${CONCURRENCIES%% *}" ]; then
        echo "Traceback (most recent call last):"
        exit 0
    fi
    echo "Output token throughput (tok/s):         $((p * OSL / 10)).$((p * OSL % 10))"
    echo "Median TPOT (ms):                        $((9 + c)).25"
    echo "Median E2EL (ms):                        $((900 + p)).25"
    echo "Benchmark with concurrency $c done"
done
[ "$way" != scancel ] || exec scancel "$SLURM_JOB_ID"
