// Package runstest writes files of clients of serving benchmarks for tests.
package runstest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// VLLM writes what vllm bench serve saves of a level: requests of 1000 and 100 tokens, by a closed loop. tpot is in ms.
func VLLM(t testing.TB, path string, concurrency int, tpot float64) {
	t.Helper()
	n := 10 * float64(concurrency)
	ttft := 50 + float64(concurrency)
	e2el := ttft + 99*tpot
	duration := 10 * e2el / 1000
	level := map[string]any{
		"date": "20260101-000000", "backend": "vllm", "model_id": "m", "num_prompts": n, "request_rate": "inf",
		"burstiness": 1.0, "max_concurrency": concurrency, "duration": duration, "completed": n, "failed": 0,
		"total_input_tokens": 1000 * n, "total_output_tokens": 100 * n, "request_throughput": n / duration,
		"output_throughput": 100 * n / duration, "total_token_throughput": 1100 * n / duration,
	}
	for name, ms := range map[string]float64{"ttft": ttft, "tpot": tpot, "itl": tpot, "e2el": e2el} {
		for _, statistic := range []string{"mean_", "median_", "p99_"} {
			level[statistic+name+"_ms"] = ms
		}
		level["std_"+name+"_ms"] = 0
	}
	text, err := json.Marshal(level)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
