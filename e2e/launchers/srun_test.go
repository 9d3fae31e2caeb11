package launchers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// What docs/launchers.md says of srun's ways.

// startApart starts ranks with srun, each on its own host as far as perigee
// can see: they share no memory.
func startApart(t *testing.T, flags ...string) *harness.Process {
	t.Helper()
	harness.NeedNIXL(t)
	words, env := srun("--mpi=pmi2")(t, ranks)
	const apart = `hostname "$SLURMD_NODENAME" && exec "$@"`
	p := start(t, harness.Command{
		Argv: slices.Concat(words, flags, []string{"unshare", "--uts", "sh", "-c", apart, "sh", harness.Program, "run", harness.Script(t, "stay.lua"),
			"--engine", "nixl", "--timeout", patienceOfRanks.String()}),
		Env: append(env, "PERIGEE_IFACE=lo"),
	})
	p.UntilPrints("all are here")
	return p
}

// No rank can wake a stopped one that is alone on its host. srun waits for that rank
// though the job has failed, or kills it if it was told to.
func TestStoppedAlone(t *testing.T) {
	for _, flags := range [][]string{{"-K1"}, nil} {
		t.Run(map[bool]string{true: "kill", false: "continue"}[len(flags) > 0], func(t *testing.T) {
			t.Parallel()
			p := startApart(t, flags...)
			stopped := p.Rank(2)
			harness.Signal(t, stopped, syscall.SIGSTOP)
			if flags == nil {
				for _, others := range []string{"task 0: Exited", "task 1: Exited", "task 3: Exited"} {
					p.UntilComplains(others)
				}
				select {
				case <-p.Ended():
					t.Error("srun did not wait for the stopped rank")
				default:
				}
				harness.Signal(t, stopped, syscall.SIGCONT)
			}
			o := p.Wait()
			harness.Contains(t, "standard error", o.Stderr, "rank 2 on node3, phase barrier: it does not answer: stopped, or cut off")
			if flags == nil && o.Code != int(fault.Timeout) {
				t.Errorf("exit code %d, want %d", o.Code, fault.Timeout)
			}
			// Slurm sends SIGTERM, and SIGKILL later.
			if flags != nil && !slices.Contains([]int{int(fault.Timeout), 137}, o.Code) {
				t.Errorf("exit code %d, want %d, or 137 of a killed rank", o.Code, fault.Timeout)
			}
		})
	}
}

// With --quit-on-interrupt one Ctrl-C is enough. It comes to the ranks first, but srun
// kills them before long.
func TestQuitOnInterrupt(t *testing.T) {
	words, env := srun("--mpi=pmi2", "--quit-on-interrupt")(t, ranks)
	dir := t.TempDir()
	p := start(t, harness.Command{Dir: dir, Argv: slices.Concat(words, []string{harness.Program, "run", harness.Script(t, "stay.lua"), "--engine", "shm", "--result", "r.json"}), Env: env})
	p.UntilPrints("all are here")
	harness.Signal(t, p.Cmd.Process.Pid, syscall.SIGINT)
	o := p.Wait()
	if !slices.Contains([]int{int(fault.Interrupt), 137, int(fault.RankLost)}, o.Code) {
		t.Errorf("exit code %d, want %d, 137 or %d\n%s", o.Code, fault.Interrupt, fault.RankLost, o.Stderr)
	}
	doc, err := result.Read(filepath.Join(dir, "r.json"))
	if err != nil || doc.Status != result.Partial || len(doc.Measurements) != 1 {
		t.Errorf("result: %v, %+v", err, doc)
	}
	// Killed right before the rename, rank 0 leaves what it has written, whole.
	left, _ := filepath.Glob(filepath.Join(dir, ".r.json"+file.TempMark+"*"))
	for _, path := range left {
		if _, err := result.Read(path); err != nil {
			t.Errorf("what was left: %v", err)
		}
		os.Remove(path)
	}
}

// A rank that ends before perigee runs in it is waited for, for two minutes; not so if
// srun was told to end all ranks with the first.
func TestEndedEarly(t *testing.T) {
	words, env := srun("--mpi=none", "-K1")(t, ranks)
	// Not before all have been started: Slurm ends only those that have.
	const early = `: >started.$SLURM_PROCID
if [ "$SLURM_PROCID" = 2 ]; then
	until [ -e started.0 ] && [ -e started.1 ] && [ -e started.3 ]; do sleep 0.02; done
	exit 3
fi
exec "$@"`
	p := start(t, harness.Command{Dir: t.TempDir(), Argv: slices.Concat(words, []string{"sh", "-c", early, "sh", harness.Program, "run", harness.Script(t, "whoami.lua")}), Env: env})
	if o := p.Wait(); o.Code == 0 || o.Took >= harness.Patience {
		t.Errorf("exit code %d after %v\n%s", o.Code, o.Took, o.Stderr)
	}
}

// A rank that is stopped, or has ended, before it has met the others is named by those of its node.
func TestMissingIsNamed(t *testing.T) {
	for _, mpi := range []string{"pmi2", "pmix", "none", "none 0", "mpirun"} {
		mpi, first := strings.CutSuffix(mpi, " 0") // it is rank 0 that does not come
		for _, fate := range []struct{ do, says string }{
			{"echo $$ >stopped; kill -STOP $$", `it is stopped in \S+ \(process \d+\)`},
			{"exit 0", "its process has ended"},
		} {
			if mpi == "mpirun" && fate.do == "exit 0" {
				continue // it does not say who belongs on a host
			}
			name, missing := mpi+" "+fate.do, 1
			if first {
				name, missing = "rank 0 "+name, 0
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				command := srun("--mpi="+mpi, "-N2", "-w", "node1,node2")
				if mpi == "mpirun" {
					command = mpirun
				}
				words, env := command(t, 4)
				script := fmt.Sprintf(`if [ "${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}" = %d ]; then %s; fi; exec "$@"`, missing, fate.do)
				p := start(t, harness.Command{Dir: dir, Env: env, Argv: slices.Concat(words, []string{
					"sh", "-c", script, "sh", harness.Program, "run", harness.Script(t, "whoami.lua"), "--timeout", "4s",
				})})
				want := regexp.MustCompile(fmt.Sprintf(`perigee: rank %d on \S+, phase start: %s; rank \d waited \(`, missing, fate.says))
				if mpi == "none" && !first {
					want = regexp.MustCompile(`(?s)1 of 4 ranks have not come: 1; .*\n *hint: rank 1: ` + fate.says)
				}
				p.Until("name of the missing rank", func() bool { return want.MatchString(p.Stderr.String()) })
				if data, err := os.ReadFile(filepath.Join(dir, "stopped")); err == nil {
					pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
					must.Do(t, err)
					harness.Signal(t, pid, syscall.SIGKILL)
				}
				p.Wait()
			})
		}
	}
}

// Only rank 0 needs the files of a scenario, its modules among them: the others get its texts.
func TestModulesOfRankZero(t *testing.T) {
	words, env := srun("--mpi=pmi2")(t, ranks)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"s.lua":          `local m = require "lib.m" return { run = function() if world.rank == 3 then print(require("only3") + m) end end }`,
		"lib/m.lua":      "return 40",
		"libs/only3.lua": "return 2",
	} {
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666)))
	}
	const apart = `[ "$SLURM_PROCID" = 0 ] || cd /; exec "$@"`
	p := start(t, harness.Command{Dir: dir, Env: env, Argv: slices.Concat(words, []string{
		"sh", "-c", apart, "sh", harness.Program, "run", "s.lua", "--lib", "libs", "--engine", "shm",
	})})
	if o := p.Wait(); o.Code != 0 || !strings.Contains(o.Stdout, "42\n") {
		t.Errorf("exit code %d\n%s%s", o.Code, o.Stdout, o.Stderr)
	}
}
