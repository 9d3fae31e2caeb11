package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/spmd/spmdtest"
)

// freePort returns a TCP port without a listener.
func freePort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(spmdtest.FreePort(t))
}

// torchrun starts ranks the way torchrun does: a process each, with variables.
func torchrun(t *testing.T, dir string, n int, args ...string) []*harness.Process {
	t.Helper()
	return torchrunEach(t, dir, slices.Repeat([][]string{args}, n))
}

// torchrunEach is torchrun with a command line for each rank.
func torchrunEach(t *testing.T, dir string, args [][]string) []*harness.Process {
	t.Helper()
	n := len(args)
	port := freePort(t)
	ranks := make([]*harness.Process, n)
	// The highest first: rank 0, which the others look for, comes last.
	for r := n - 1; r >= 0; r-- {
		ranks[r] = harness.Start(t, harness.Command{Dir: dir, Args: args[r], Env: []string{
			fmt.Sprint("RANK=", r), fmt.Sprint("WORLD_SIZE=", n), fmt.Sprint("LOCAL_RANK=", r),
			"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, "PERIGEE_SECRET=the secret of e2e " + port,
		}})
	}
	return ranks
}

// Ranks of one job that were started with different scenarios do not run rank 0's, and those that were started with
// other options of a scenario no mixture.
func TestDifferentCommands(t *testing.T) {
	five := []string{"run", "pingpong", "--iters", "5"}
	for name, c := range map[string]struct {
		ranks [][]string
		want  []string
	}{
		"scenarios": {[][]string{{"run", "alltoall"}, {"run", "pingpong"}}, []string{"ranks ask for different scenarios: alltoall (rank 0 on ", "; pingpong (rank 1 on "}},
		"options":   {[][]string{{"run", "alltoall", "--iters", "5"}, {"run", "alltoall", "--iters", "5"}, {"run", "alltoall", "--iters", "6"}}, []string{"ranks ask for different values of --iters: 5 (rank 0 on ", "; 6 (rank 2 on "}},
		"seeds":     {[][]string{five, append(slices.Clone(five), "--seed", "4")}, []string{"ranks ask for different values of --seed: 0 (rank 0 on ", "; 4 (rank 1 on "}},
		"thresholds": {[][]string{five, append(slices.Clone(five), "--threshold", "latency_ms.p99 < 1")},
			[]string{"ranks ask for different values of --threshold: none (rank 0 on ", "; latency_ms.p99 < 1 (rank 1 on "}},
	} {
		t.Run(name, func(t *testing.T) {
			for r, p := range torchrunEach(t, t.TempDir(), c.ranks) {
				o := p.Wait()
				if o.Code != int(fault.Usage) {
					t.Errorf("rank %d: exit code %d, %s", r, o.Code, o.Stderr)
				}
				if r == 0 {
					harness.Contains(t, "stderr", o.Stderr, c.want...)
				}
			}
		})
	}
}

func TestTorchrun(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{
			"c.yaml": "iters: 2\nisolation_iters: 2\nwarmup_iters: 1\n" + pattern("shards: 3"),
			"m.txt":  "0 64K 1\n1M 0 0\n0 7 0\n",
		})
		ranks := torchrun(t, dir, 3, "sequential-ct-perftest", "c.yaml", "--engine", engine, "--verify-buffers",
			"--result", "r.json", "--json-output-path", "o.json")
		for r, p := range ranks {
			o := p.Wait()
			if o.Code != 0 || o.Stderr != "" {
				t.Errorf("rank %d: exit code %d, %s", r, o.Code, o.Stderr)
			}
			// Rank 0 speaks for all.
			if (o.Stdout != "") != (r == 0) {
				t.Errorf("rank %d wrote:\n%s", r, o.Stdout)
			}
			if r == 0 {
				harness.Contains(t, "stdout", o.Stdout, "3 ranks on 1 host", "launcher torchrun", "engine: "+engine, "# note: verified: ")
				readTable(t, o.Stdout, columns...)
			}
		}
		doc, err := result.Read(filepath.Join(dir, "r.json"))
		if err != nil || doc.Status != result.Complete || doc.World.Launcher != "torchrun" || doc.World.Size != 3 {
			t.Errorf("result: %v, %+v", err, doc)
		}
		readOriginal(t, filepath.Join(dir, "o.json"))
	})
}

// Bad input is told once, by rank 0, and all ranks end with its exit code.
func TestTorchrunBadInput(t *testing.T) {
	dir := harness.Files(t, map[string]string{"c.yaml": pattern("shards: 0"), "m.txt": good})
	var told []string
	for r, p := range torchrun(t, dir, 3, "sequential-ct-perftest", "c.yaml", "--engine", "shm", "--result", "r.json") {
		o := p.Wait()
		if o.Code != int(fault.Input) {
			t.Errorf("rank %d: exit code %d, want %d\n%s", r, o.Code, fault.Input, o.Stderr)
		}
		told = append(told, complaintsIn(o.Stderr)...)
	}
	if len(told) != 1 || !strings.Contains(told[0], "c.yaml:3: traffic_patterns[0].shards: wanted a whole number from 1 to 1048576, got 0") {
		t.Errorf("the ranks said %q", told)
	}
	if left := harness.Names(dir); fmt.Sprint(left) != "[c.yaml m.txt]" {
		t.Errorf("files: %q", left)
	}
}

// A rank dies in a job that has no launcher to watch it.
func TestTorchrunKill(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for _, victim := range []int{0, 1} {
			t.Run(fmt.Sprint("rank ", victim), func(t *testing.T) {
				dir := t.TempDir()
				ranks := torchrun(t, dir, 3, "run", harness.Script(t, "phases.lua"), "--engine", engine, "--stay", "workload", "--result", "r.json")
				ranks[0].UntilPrints("in workload\n")
				harness.Signal(t, ranks[victim].Cmd.Process.Pid, syscall.SIGKILL)
				since := time.Now()
				var told []string
				for r, p := range ranks {
					o := p.Wait()
					if r == victim {
						continue
					}
					if o.Code != int(fault.RankLost) {
						t.Errorf("rank %d: exit code %d, want %d\n%s", r, o.Code, fault.RankLost, o.Stderr)
					}
					told = append(told, complaintsIn(o.Stderr)...)
				}
				if took := time.Since(since); took > atOnce {
					t.Errorf("the job went on for %v", took)
				}
				for _, p := range ranks {
					p.CheckNothingLeft(harness.Patience)
				}
				if victim == 0 {
					// Each of the others has lost the rank that would report it.
					if len(told) == 0 || !strings.Contains(told[0], "rank 0") {
						t.Errorf("the ranks said %q", told)
					}
					return
				}
				if len(told) != 1 || !strings.Contains(told[0], "rank 1 on "+harness.Hostname(t)+", phase ") {
					t.Errorf("the ranks said %q", told)
				}
				doc, err := result.Read(filepath.Join(dir, "r.json"))
				must.Do(t, err)
				if doc.Status != result.Partial || doc.Failure == nil || doc.Failure.Rank != 1 || countRuns(doc, "isolated") != 1 {
					t.Errorf("status %s, failure %v", doc.Status, doc.Failure)
				}
			})
		}
	})
}

// A rank 0 that is ended in the middle of a loop has said in its result why.
func TestTorchrunFailureBesideALoop(t *testing.T) {
	dir := harness.Files(t, map[string]string{"s.lua": `return { run = function()
  local plan = transfer.prepare { matrix = matrix.all_to_all { bytes = 1024 } }
  plan:run { record = true }
  transfer.collect { plan }
  world.barrier() -- rank 0 has saved what there is
  if world.rank == 1 then error("enough") end
  while true do end
end }`})
	for r, p := range torchrun(t, dir, 2, "run", "s.lua", "--engine", "shm", "--result", "r.json") {
		o := p.Wait()
		if o.Code != int(fault.Script) {
			t.Errorf("rank %d: exit code %d, %s", r, o.Code, o.Stderr)
		}
		if r == 0 {
			harness.Contains(t, "stderr", o.Stderr, "s.lua:6: enough")
		}
	}
	doc, err := result.Read(filepath.Join(dir, "r.json"))
	if err != nil || doc.Failure == nil || doc.Failure.Rank != 1 || len(doc.Measurements) != 1 {
		t.Errorf("result: %v, %+v", err, doc)
	}
}

// Ranks of different jobs do not talk to each other.
func TestTorchrunSecret(t *testing.T) {
	port := freePort(t)
	var ranks []*harness.Process
	for r, secret := range []string{"the right secret", "the wrong secret"} {
		ranks = append(ranks, harness.Start(t, harness.Command{Args: []string{"run", "pingpong", "--engine", "shm"}, Env: []string{
			fmt.Sprint("RANK=", r), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, "PERIGEE_SECRET=" + secret,
		}}))
	}
	// They would wait for their peers for two minutes. That rank 1 is refused
	// while rank 0 waits on is what is to be seen here.
	o := ranks[1].Wait()
	checkComplaint(t, o, fault.Launch, "PERIGEE_SECRET")
	select {
	case <-ranks[0].Ended():
		t.Errorf("rank 0 ended, too: %s", ranks[0].Stderr)
	default:
	}
}

// What all ranks of a host find wrong with the environment one of them says.
func TestTorchrunWithoutSecret(t *testing.T) {
	var ranks []*harness.Process
	for r := range 4 {
		ranks = append(ranks, harness.Start(t, harness.Command{Args: []string{"run", "alltoall", "--engine", "shm"}, Env: []string{
			fmt.Sprint("RANK=", r), "WORLD_SIZE=4", fmt.Sprint("LOCAL_RANK=", r), "MASTER_ADDR=node1.example", "MASTER_PORT=29500", "PERIGEE_SECRET=",
		}}))
	}
	said := ""
	for r, p := range ranks {
		o := p.Wait()
		if said += o.Stderr; o.Code != int(fault.Launch) {
			t.Errorf("rank %d: exit code %d, want %d", r, o.Code, fault.Launch)
		}
	}
	if strings.Count(said, "the ranks have no secret to know each other by") != 1 || strings.Count(said, "\n") != 2 {
		t.Errorf("wanted one message with its hint, got\n%s", said)
	}
}

// A rank 0 that may not open enough files for all ranks says so, and all of them hear it, where it named those that it
// did not let in.
func TestRankZeroLacksDescriptors(t *testing.T) {
	const n = 8
	port := freePort(t)
	ranks := make([]*harness.Process, n)
	for r := range ranks {
		argv := []string{harness.Program, "run", "alltoall", "--engine", "shm"}
		if r == 0 {
			argv = append([]string{"sh", "-c", `ulimit -n 15; exec "$@"`, "sh"}, argv...)
		}
		ranks[r] = harness.Start(t, harness.Command{Argv: argv, Env: []string{
			fmt.Sprint("RANK=", r), fmt.Sprint("WORLD_SIZE=", n), "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port,
			"PERIGEE_SECRET=the secret of e2e " + port,
		}})
	}
	for r, p := range ranks {
		o := p.Wait()
		if o.Code != int(fault.Resource) {
			t.Errorf("rank %d: exit code %d, want %d\n%s", r, o.Code, fault.Resource, o.Stderr)
		}
		if r == 0 {
			harness.Contains(t, "stderr", o.Stderr, "perigee: rank 0 on ", "too many open files", "ulimit")
		}
	}
}
