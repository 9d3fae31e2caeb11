package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/clock"
	"perigee/internal/result"
)

// Plans that separate calls save are all saved, and what overlaps is found out among all of their runs, whenever they were saved or
// collected.
func TestRunsSavedApart(t *testing.T) {
	dir := harness.Files(t, map[string]string{"s.lua": `return { ranks = 2, run = function()
 local big = transfer.prepare { name = "big", matrix = matrix.from { { 0, "256M" }, { 0, 0 } }, lane = 1, mem = "dram" }
 local small = transfer.prepare { name = "small", matrix = matrix.from { { 0, "64K" }, { 0, 0 } }, mem = "dram" }
 world.phase("workload")
 local began, done = clock.now(), false
 while not done do
  big:post()
  for i = 1, 3 do
   clock.sleep(0.001)
   small:run()
  end
  big:wait()
  transfer.save { small }
  clock.sleep(0.05)
  transfer.save { big }
  clock.sleep(0.05)
  done = world.broadcast(clock.now() - began > 7)
 end
 transfer.collect { small }
 transfer.collect { big }
end }`})
	file := filepath.Join(dir, "r.json")
	p := harness.Start(t, harness.Command{Dir: dir, Argv: []string{harness.Program, "run", "s.lua", "--engine", "shm", "--result", file}})
	both := false
	for running := true; running && !both; {
		select {
		case <-p.Ended():
			running = false
		case <-time.After(20 * time.Millisecond):
			if d, err := result.Read(file); err == nil && d.Status == result.Partial {
				n := runsOf(d)
				both = n[0] > 0 && n[1] > 0
			}
		}
	}
	if !both {
		t.Error("no result on the way holds runs of both plans")
	}
	o := p.Wait()
	d, err := result.Read(file)
	if err != nil || o.Code != 0 {
		t.Fatalf("exit code %d, %v\n%s", o.Code, err, o.Stderr)
	}
	for _, m := range d.Measurements {
		met := false
		for _, other := range d.Measurements {
			met = met || other.Pattern != m.Pattern && other.StartNS < m.EndNS && m.StartNS < other.EndNS
		}
		if got := m.Ranks[0].Peers[0].Overlap != nil; got != met {
			t.Errorf("pattern %d, run %d: overlap is %v, want %v", m.Pattern, m.Iteration, got, met)
		}
	}
	if n := runsOf(d); n[0]*n[1] == 0 {
		t.Errorf("runs of the plans: %v", n)
	}
}

// saved reports whether a job has something in its result, or beside it, while it still runs.
func saved(file string) bool {
	_, err := result.Read(file)
	return err == nil
}

// However fast runs are, and whenever rank 0 is killed, those of its last two seconds are missing at most. Where the
// disk is busy the moment of the kill is not that of the last run that could be there, so that this allows a second more.
func TestKilledAtAnyMoment(t *testing.T) {
	dir := harness.Files(t, map[string]string{"m.txt": "0 8\n8 0\n", "one.yaml": "traffic_pattern: {matrix_file: m.txt, mem_type: dram}\n",
		"list.yaml": "isolation_iters: 5\ntraffic_patterns: [{matrix_file: m.txt, mem_type: dram}]\n"})
	for name, args := range map[string][]string{
		"ct": {"ct-perftest", "one.yaml", "--iters", "1000000"}, "sequential": {"sequential-ct-perftest", "list.yaml", "--iters", "400000"},
		"data plane": {"ep", "data-plane", "--iters", "100000000", "--tokens", "64", "--hidden", "256", "--entry", "steady"},
		"kvbench":    {"run", "kvbench", "--start_block_size", "64K", "--num_iter", "100000000"},
	} {
		file := filepath.Join(dir, name+".json")
		p := harness.Start(t, harness.Command{Dir: dir, Argv: append(append([]string{harness.Program}, args...), "-n", "2", "--engine", "shm", "--result", file)})
		p.Until("some runs", func() bool {
			d, err := result.Read(file)
			return err == nil && lastOf(d) > 0
		})
		time.Sleep(time.Duration(rand.Int64N(int64(3 * time.Second))))
		harness.Signal(t, p.Rank(0), syscall.SIGKILL)
		killed := clock.Now()
		o := p.Wait()
		harness.Contains(t, "stderr", o.Stderr, "perigee: partial result: "+file)
		d, err := result.Read(file)
		if err != nil || d.Failure == nil {
			t.Fatalf("%s: %v\n%s", name, err, o.Stderr)
		}
		if lost := time.Duration(killed - lastOf(d)); lost > 3*time.Second {
			t.Errorf("%s: what the last %v have measured is lost", name, lost)
		}
		os.Remove(file)
		os.Remove(file + result.PartEnding)
	}
}

// lastOf is when the last of what a result holds was measured, or came to rank 0; 0 where it holds nothing.
func lastOf(d *result.Document) (ns int64) {
	for _, m := range d.Measurements {
		ns = max(ns, m.EndNS)
	}
	for _, l := range d.Lanes {
		ns = max(ns, l.EndNS)
	}
	for _, m := range d.Metrics {
		for _, at := range m.TimesNS {
			ns = max(ns, at)
		}
	}
	return ns
}

// runsOf counts the runs of each pattern.
func runsOf(d *result.Document) map[int]int {
	n := map[int]int{}
	for _, m := range d.Measurements {
		n[m.Pattern]++
	}
	return n
}
