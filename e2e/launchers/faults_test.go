package launchers

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/fault"
)

// atOnce is how long a job may last after its failure.
const atOnce = 5 * time.Second

// nameOf is what a message should call the host of a rank.
func nameOf(t testing.TB, w way, rank, ranks int) string {
	t.Helper()
	return cmp.Or(w.host(rank, ranks), harness.Hostname(t))
}

// An error of one rank ends all, is reported once, and gives the exit code.
func TestScriptError(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			j := launch(t, w, 4, nil, "run", harness.Script(t, "stay.lua"), "--engine", "shm", "--fail")
			if code := j.Wait().Code; code != int(fault.Script) {
				t.Errorf("exit code %d, want %d", code, fault.Script)
			}
			complaint := fmt.Sprintf("perigee: rank 1 on %s, phase stay: ", nameOf(t, w, 1, 4))
			if stderr := j.Stderr.String(); strings.Count(stderr, complaint) != 1 || !strings.Contains(stderr, "on purpose") {
				t.Errorf("stderr:\n%s\nwant once: %s", stderr, complaint)
			}
			if took := time.Since(j.Started); took > 2*atOnce {
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
					j := launch(t, w, 4, nil, "run", harness.Script(t, "stay.lua"), "--engine", "shm")
					j.UntilPrints("all are here")
					since := time.Now()
					if err := syscall.Kill(j.Rank(rank), s); err != nil {
						t.Fatal(err)
					}
					code := j.Wait().Code
					if took := time.Since(since); took > atOnce {
						t.Errorf("the job went on for %v", took)
					}
					checkSignalled(t, j, w, rank, s, code)
				})
			}
		}
	}
}

func checkSignalled(t *testing.T, j *harness.Process, w way, rank int, s syscall.Signal, code int) {
	t.Helper()
	stderr := j.Stderr.String()
	where := fmt.Sprintf("perigee: rank %d on %s, phase stay: ", rank, nameOf(t, w, rank, 4))
	switch {
	case s == syscall.SIGTERM:
		if code != int(fault.Interrupt) {
			t.Errorf("exit code %d, want %d", code, fault.Interrupt)
		}
		harness.Contains(t, "stderr", stderr, where+"ended by signal: terminated")
	case code == 0:
		t.Error("exit code 0")
	case w.obituary != "" && strings.Contains(j.Stdout.String()+stderr, w.obituary):
		// It kills everybody, with an exit code of its own.
	default:
		if code != int(fault.RankLost) && code != 128+int(s) {
			t.Errorf("exit code %d, want %d or that of the signal", code, fault.RankLost)
		}
		if rank == 0 {
			harness.Contains(t, "stderr", stderr, "perigee: lost the connection to rank 0, the coordinator of the job")
		} else {
			harness.Contains(t, "stderr", stderr, where+"its process is gone")
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
			j := start(t, harness.Command{Argv: slices.Concat(words, []string{"sh", "-c", quit, "sh", harness.Program, "run", harness.Script(t, "whoami.lua")}), Env: env})
			if code := j.Wait().Code; code == 0 {
				t.Errorf("exit code 0\n%s", j.Stderr)
			}
			if took := time.Since(j.Started); took > 2*atOnce {
				t.Errorf("it took %v\n%s", took, j.Stderr)
			}
		})
	}
}

// Plain Slurm without a way to carry a secret refuses, and says what to do.
func TestNoMunge(t *testing.T) {
	w := ways[slices.IndexFunc(ways, func(w way) bool { return w.name == "srun none" })]
	lost := filepath.Join(t.TempDir(), "no.socket")
	j := launch(t, w, 2, []string{"PERIGEE_MUNGE_SOCKET=" + lost}, "run", harness.Script(t, "whoami.lua"))
	if code := j.Wait().Code; code != int(fault.Launch) {
		t.Errorf("exit code %d, want %d", code, fault.Launch)
	}
	harness.Contains(t, "stderr", j.Stderr.String(), "munge cannot carry one", lost, "export PERIGEE_SECRET=", "--mpi=pmi2")
	out := launch(t, w, 2, []string{"PERIGEE_MUNGE_SOCKET=" + lost, "PERIGEE_SECRET=of this job"}, "run", harness.Script(t, "whoami.lua")).MustEnd().Stdout
	harness.Contains(t, "stdout", out, "launcher slurm", "rank 1 of 2")
}

// --launcher chooses among several, and --ranks cannot contradict a launcher.
func TestLauncherFlag(t *testing.T) {
	pmi2 := ways[slices.IndexFunc(ways, func(w way) bool { return w.name == "srun pmi2" })]
	out := launch(t, pmi2, 2, nil, "run", harness.Script(t, "whoami.lua"), "--launcher", "slurm").MustEnd().Stdout
	harness.Contains(t, "stdout", out, "2 ranks on 1 host: node1+node2 (2), launcher slurm\n")
	out = launch(t, pmi2, 1, nil, "run", "--launcher=local", "-n", "3", harness.Script(t, "whoami.lua")).MustEnd().Stdout
	harness.Contains(t, "stdout", out, "3 ranks on 1 host", "launcher local\n", "rank 2 of 3")
	j := launch(t, pmi2, 2, nil, "run", "-n", "3", harness.Script(t, "whoami.lua"))
	if code := j.Wait().Code; code != int(fault.Usage) {
		t.Errorf("exit code %d, want %d", code, fault.Usage)
	}
	harness.Contains(t, "stderr", j.Stderr.String(), "--ranks is 3, but the pmi2 launcher has started 2 ranks", "--launcher local")
	j = launch(t, pmi2, 1, nil, "run", harness.Script(t, "whoami.lua"), "--launcher", "pmi1x")
	if code := j.Wait().Code; code != int(fault.Usage) {
		t.Errorf("exit code %d, want %d", code, fault.Usage)
	}
	harness.Contains(t, "stderr", j.Stderr.String(), `there is no launcher "pmi1x"`)
}

// The links may use IPv6.
func TestIPv6(t *testing.T) {
	out := launch(t, ways[0], 2, []string{"PERIGEE_IFACE=fd00:bad::/32"}, "run", harness.Script(t, "whoami.lua"), "--iface", "::1").MustEnd().Stdout
	harness.Contains(t, "stdout", out, "rank 1 of 2")
	j := launch(t, ways[0], 2, []string{"PERIGEE_IFACE=fd00:bad::/32"}, "run", harness.Script(t, "whoami.lua"))
	if code := j.Wait().Code; code != int(fault.Launch) {
		t.Errorf("exit code %d, want %d", code, fault.Launch)
	}
	harness.Contains(t, "stderr", j.Stderr.String(), "fd00:bad::/32", "means no address of this host", "lo 127.0.0.1", "--iface")
}
