package launchers

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/internal/fault"
)

// atOnce is how long a job may last after its failure.
const atOnce = 5 * time.Second

// nameOf is what a message should call the host of a rank.
func nameOf(t testing.TB, w way, rank, ranks int) string {
	t.Helper()
	if h := w.host(rank, ranks); h != "" {
		return h
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// An error of one rank ends all, is reported once, and gives the exit code.
func TestScriptError(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			j := launch(t, w, 4, nil, "run", script(t, "stay.lua"), "--engine", "shm", "--fail")
			if code := j.wait(); code != int(fault.Script) {
				t.Errorf("exit code %d, want %d", code, fault.Script)
			}
			complaint := fmt.Sprintf("perigee: rank 1 on %s, phase stay: ", nameOf(t, w, 1, 4))
			if stderr := j.stderr.String(); strings.Count(stderr, complaint) != 1 || !strings.Contains(stderr, "on purpose") {
				t.Errorf("stderr:\n%s\nwant once: %s", stderr, complaint)
			}
			if took := time.Since(j.started); took > 2*atOnce {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A rank is killed or told to end: rank 0, which coordinates, or another.
func TestSignal(t *testing.T) {
	for _, w := range ways {
		for _, rank := range []int{0, 2} {
			for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
				t.Run(fmt.Sprintf("%s/%s/rank %d", w.name, s, rank), func(t *testing.T) {
					j := launch(t, w, 4, nil, "run", script(t, "stay.lua"), "--engine", "shm")
					j.untilPrints("all are here")
					since := time.Now()
					if err := syscall.Kill(ranksOf(j.token)[rank], s); err != nil {
						t.Fatal(err)
					}
					code := j.wait()
					if took := time.Since(since); took > atOnce {
						t.Errorf("the job went on for %v", took)
					}
					j.checkSignalled(w, rank, s, code)
				})
			}
		}
	}
}

func (j *job) checkSignalled(w way, rank int, s syscall.Signal, code int) {
	j.t.Helper()
	stderr := j.stderr.String()
	where := fmt.Sprintf("perigee: rank %d on %s, phase stay: ", rank, nameOf(j.t, w, rank, 4))
	switch {
	case s == syscall.SIGTERM:
		if code != int(fault.Interrupt) {
			j.t.Errorf("exit code %d, want %d", code, fault.Interrupt)
		}
		contains(j.t, "stderr", stderr, where+"ended by signal: terminated")
	case code == 0:
		j.t.Error("exit code 0")
	case w.obituary != "" && strings.Contains(j.stdout.String()+stderr, w.obituary):
		// It kills everybody, with an exit code of its own.
	default:
		if code != int(fault.RankLost) && code != 128+int(s) {
			j.t.Errorf("exit code %d, want %d or that of the signal", code, fault.RankLost)
		}
		if rank == 0 {
			contains(j.t, "stderr", stderr, "perigee: lost the connection to rank 0, the coordinator of the job")
		} else {
			contains(j.t, "stderr", stderr, where+"its process is gone")
		}
	}
}

// A rank that ends before it has spoken to anybody.
func TestRankNeverComes(t *testing.T) {
	const quit = `if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PMI_ID:-$SLURM_PROCID}}}" = 1 ]; then exit 7; fi; exec "$@"`
	for _, w := range ways {
		if w.launcher == "pmi1" {
			continue // hydra does not mind a rank that never spoke to it
		}
		t.Run(w.name, func(t *testing.T) {
			words, env := w.command(t, 2)
			if words[0] == "srun" {
				words = append(words, "-K1") // without it srun leaves the others alone
			}
			j := launchWords(t, slices.Concat(words, []string{"sh", "-c", quit, "sh", program, "run", script(t, "whoami.lua")}), env, nil)
			if code := j.wait(); code == 0 {
				t.Errorf("exit code 0\n%s", j.stderr)
			}
			if took := time.Since(j.started); took > 2*atOnce {
				t.Errorf("it took %v\n%s", took, j.stderr)
			}
		})
	}
}

// Plain Slurm without a way to carry a secret refuses, and says what to do.
func TestNoMunge(t *testing.T) {
	w := ways[slices.IndexFunc(ways, func(w way) bool { return w.name == "srun none" })]
	lost := filepath.Join(t.TempDir(), "no.socket")
	j := launch(t, w, 2, []string{"PERIGEE_MUNGE_SOCKET=" + lost}, "run", script(t, "whoami.lua"))
	if code := j.wait(); code != int(fault.Launch) {
		t.Errorf("exit code %d, want %d", code, fault.Launch)
	}
	contains(t, "stderr", j.stderr.String(), "munge cannot carry one", lost, "export PERIGEE_SECRET=", "--mpi=pmi2")
	out := launch(t, w, 2, []string{"PERIGEE_MUNGE_SOCKET=" + lost, "PERIGEE_SECRET=of this job"}, "run", script(t, "whoami.lua")).mustEnd()
	contains(t, "stdout", out, "launcher slurm", "rank 1 of 2")
}

// --launcher chooses among several, and --ranks cannot contradict a launcher.
func TestLauncherFlag(t *testing.T) {
	pmi2 := ways[slices.IndexFunc(ways, func(w way) bool { return w.name == "srun pmi2" })]
	out := launch(t, pmi2, 2, nil, "run", script(t, "whoami.lua"), "--launcher", "slurm").mustEnd()
	contains(t, "stdout", out, "2 ranks on 1 host: node1+node2 (2), launcher slurm\n")
	out = launch(t, pmi2, 1, nil, "run", "--launcher=local", "-n", "3", script(t, "whoami.lua")).mustEnd()
	contains(t, "stdout", out, "3 ranks on 1 host", "launcher local\n", "rank 2 of 3")
	j := launch(t, pmi2, 2, nil, "run", "-n", "3", script(t, "whoami.lua"))
	if code := j.wait(); code != int(fault.Usage) {
		t.Errorf("exit code %d, want %d", code, fault.Usage)
	}
	contains(t, "stderr", j.stderr.String(), "--ranks is 3, but the pmi2 launcher has started 2 ranks", "--launcher local")
	j = launch(t, pmi2, 1, nil, "run", script(t, "whoami.lua"), "--launcher", "pmi1x")
	if code := j.wait(); code != int(fault.Usage) {
		t.Errorf("exit code %d, want %d", code, fault.Usage)
	}
	contains(t, "stderr", j.stderr.String(), `there is no launcher "pmi1x"`)
}

// The links may use IPv6.
func TestIPv6(t *testing.T) {
	out := launch(t, ways[0], 2, []string{"PERIGEE_IFACE=fd00:bad::/32"}, "run", script(t, "whoami.lua"), "--iface", "::1").mustEnd()
	contains(t, "stdout", out, "rank 1 of 2")
	j := launch(t, ways[0], 2, []string{"PERIGEE_IFACE=fd00:bad::/32"}, "run", script(t, "whoami.lua"))
	if code := j.wait(); code != int(fault.Launch) {
		t.Errorf("exit code %d, want %d", code, fault.Launch)
	}
	contains(t, "stderr", j.stderr.String(), "fd00:bad::/32", "means no address of this host", "lo 127.0.0.1", "--iface")
}
