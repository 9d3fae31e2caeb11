package e2e

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/figures/contention"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// Without a number as many iterations are announced as fit into a minute, 3 to 10, by the rank that ends last. Where
// patterns have the same initiators their pauses add up.
func TestIterationsOfAMinute(t *testing.T) {
	const first, second = "0 1K 0\n0 0 0\n0 0 0\n", "0 0 0\n0 0 1K\n0 0 0\n"
	for name, c := range map[string]struct{ second, pause, want string }{
		"side by side":        {second, "7", "8 iterations of the workload, about 7.0 s each; --iters N sets another number"},
		"one after the other": {first, "7", "4 iterations of the workload, about 14.0 s each"},
		"at least":            {first, "70", "3 iterations of the workload, about 140.0 s each"},
		"at most":             {first, "0.1", "10 iterations of the workload, about 200."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := harness.Files(t, map[string]string{"a.txt": first, "b.txt": c.second, "c.yaml": fmt.Sprintf("isolation_iters: 2\ntraffic_patterns:\n"+
				"- {matrix_file: a.txt, sleep_before_launch_sec: %[1]s}\n- {matrix_file: b.txt, sleep_before_launch_sec: %[1]s}\n", c.pause)})
			p := harness.Start(t, harness.Command{Dir: dir, Args: []string{"sequential-ct-perftest", "c.yaml", "--engine", "shm"}})
			p.UntilPrints("# note: " + c.want)
			harness.Signal(t, p.Rank(0), syscall.SIGKILL)
			p.Wait()
		})
	}
}

// With --duration a scenario measures for a time instead of a number of iterations. The result says for how long, so that
// it can be repeated.
func TestDuration(t *testing.T) {
	paused := "- {matrix_file: m.txt, mem_type: cpu, sleep_before_launch_sec: 0.1}\n"
	dir := harness.Files(t, map[string]string{
		"m.txt": "0 1K\n1K 0\n", "one.yaml": "iters: 7\ntraffic_pattern: {matrix_file: m.txt}\n",
		"list.yaml": "iters: 100\nisolation_iters: 5\ntraffic_patterns:\n" + paused + paused,
	})
	for name, args := range map[string][]string{
		"sequential": {"sequential-ct-perftest", "list.yaml"}, "ct": {"ct-perftest", "one.yaml", "--verify-buffers"},
		"pingpong": {"run", "pingpong", "-b", "8", "-e", "16"}, "alltoall": {"run", "alltoall", "--size", "1K"},
		"kvbench":       {"run", "kvbench", "--max_block_size", "8K"},
		"data plane":    {"ep", "data-plane", "--num-processes", "2", "--tokens", "8", "--hidden", "256", "--entry", "steady"},
		"control plane": {"ep", "control-plane", "--num-processes", "2", "--experts-per-rank", "1"},
		"ep-kv":         {"run", "ep-kv", "--tokens", "8", "--hidden", "256", "--kv-size", "1K"},
	} {
		file := filepath.Join(dir, name+".json")
		duration, seconds := "20ms", 0.02
		if name == "sequential" {
			duration, seconds = "350ms", 0.35 // three and a half iterations, each of two pauses of 0.1 s
		}
		args = append(args, "--engine", "shm", "--duration", duration)
		harness.MustRun(t, dir, append(args, "--result", file)...)
		doc, err := result.Read(file)
		must.Do(t, err)
		if o := doc.Scenario.Options; o["duration"] != seconds || o["iters"] != nil || o["num_iter"] != nil || o["rounds"] != nil {
			t.Errorf("%s: the result has the options %v", name, o)
		}
		measured := len(doc.Measurements) + len(doc.Lanes)
		for _, key := range []string{"ep", "ep_control"} {
			if list, ok := doc.Values[key].([]any); ok {
				measured += len(list)
			}
		}
		if measured == 0 {
			t.Errorf("%s: nothing was measured", name)
		}
		if runs := countRuns(doc, "workload"); name == "sequential" && (runs < 2 || runs > 4 || countRuns(doc, "isolated") != 10) {
			t.Errorf("%s: %d runs in 0.35 s", name, runs)
		}
		if name == "sequential" {
			harness.MustRun(t, dir, "rerun", file, "--result", "again.json")
		}
	}
	o := harness.Run(t, dir, "run", "kvbench", "--duration", "1s", "--num_iter", "5")
	checkComplaint(t, o, fault.Usage, "--duration and --iters: one is instead of the other")
	o = harness.MustRun(t, dir, "sequential-ct-perftest", "list.yaml", "--engine", "shm", "--iters", "2")
	harness.Contains(t, "stdout", o.Stdout, fmt.Sprintf("that takes %d; --iters %[1]d, or more", contention.MinRuns))
}

// Flags come before the config, and the config before the defaults.
func TestIterations(t *testing.T) {
	dir := harness.Files(t, map[string]string{
		"set.yaml":   "iters: 2\nisolation_iters: 4\n" + pattern(),
		"unset.yaml": pattern(), "m.txt": "0 1K\n1K 0\n",
	})
	for _, c := range []struct {
		args               []string
		workload, isolated int
	}{
		{[]string{"unset.yaml"}, 10, 30},
		{[]string{"set.yaml"}, 2, 4},
		{[]string{"set.yaml", "--iters", "5", "--isolation-iters", "1"}, 5, 1},
		{[]string{"--iters=1", "unset.yaml", "--warmup-iters=0"}, 1, 30},
	} {
		harness.MustRun(t, dir, append([]string{"sequential-ct-perftest", "--engine", "shm", "--result", "r.json"}, c.args...)...)
		doc, err := result.Read(filepath.Join(dir, "r.json"))
		must.Do(t, err)
		if w, i := countRuns(doc, "workload"), countRuns(doc, "isolated"); w != c.workload || i != c.isolated {
			t.Errorf("%q: %d runs of the workload and %d isolated ones, want %d and %d", c.args, w, i, c.workload, c.isolated)
		}
	}
}
