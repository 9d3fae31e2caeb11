package e2e

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
)

// memory reads a figure of a process's memory in KiB from a file in /proc.
func memory(t *testing.T, pid int, file, key string) int {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, file))
	must.Do(t, err)
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if rest, ok := strings.CutPrefix(s.Text(), key+":"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			must.Do(t, err)
			return kib
		}
	}
	t.Fatalf("no %s in %s", key, f.Name())
	return 0
}

// A rank that has nothing to do takes less than 40 MiB.
func TestIdleMemory(t *testing.T) {
	if harness.RaceEnabled {
		t.Skip("the race detector takes additional memory")
	}
	dir := harness.Files(t, map[string]string{"s.lua": "return { ranks = 8, run = function()\n world.barrier()\n print('idle')\n clock.sleep(1000)\nend }\n"})
	p := harness.Start(t, harness.Command{Dir: dir, Args: []string{"run", "s.lua"}})
	for r := 1; r < 8; r++ {
		p.UntilPrints(fmt.Sprintf("[%d] idle\n", r))
	}
	p.UntilPrints("\nidle\n")
	for r, pid := range p.Ranks() {
		rss := memory(t, pid, "status", "VmRSS")
		if rss > 40<<10 {
			t.Errorf("rank %d: %d KiB resident, want less than 40 MiB", r, rss)
		}
		if r == 0 || r == 7 {
			t.Logf("rank %d: %.1f MiB resident, its share %.1f MiB", r, float64(rss)/1024, float64(memory(t, pid, "smaps_rollup", "Pss"))/1024)
		}
	}
	t.Logf("launcher: %.1f MiB resident", float64(memory(t, p.Cmd.Process.Pid, "status", "VmRSS"))/1024)
}

// Many ranks on few cores start, meet and end.
func TestManyRanks(t *testing.T) {
	dir := harness.Files(t, map[string]string{"s.lua": "return { run = function() world.barrier() end }\n"})
	o := harness.MustRun(t, dir, "run", "-n", "64", "s.lua")
	harness.Contains(t, "stdout", o.Stdout, "64 ranks on 1 host")
	t.Logf("64 ranks of an empty scenario: %v", o.Took.Round(time.Millisecond))
}

// One all-to-all of 1 MiB, from the command to its end.
func TestWholeRuns(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for _, n := range []int{2, 4, 8} {
			row := strings.TrimSpace(strings.Repeat("1M ", n))
			dir := harness.Files(t, map[string]string{"c.yaml": pattern(), "m.txt": strings.Repeat(row+"\n", n)})
			o := harness.MustRun(t, dir, "sequential-ct-perftest", "c.yaml", "--engine", engine, "--iters", "3")
			t.Logf("1 MiB all-to-all, %d ranks: %v", n, o.Took.Round(time.Millisecond))
		}
	})
}
