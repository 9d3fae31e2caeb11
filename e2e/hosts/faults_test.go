package hosts

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/result"
)

// stay starts the scenario that stays in a phase, and returns when it is there.
func (c *cluster) stay(t testing.TB, phase string, ranks int, args ...string) *job {
	t.Helper()
	j := c.start(t, spec{ranks: ranks, args: append([]string{"run", harness.Script(t, "stay.lua"), "--stay", phase, "--result", "r.json"}, args...)})
	j.untilPrints("in " + phase + "\n")
	return j
}

const (
	// atOnce is how long a job may last after its failure.
	atOnce = 5 * time.Second
	// whenCut is how long it may last where only silence shows the failure.
	whenCut = 10 * time.Second
)

// checkTime fails the test if a rank lasts longer than limit after the start of
// the watch; free is a time for which all of them sleep.
func (j *job) checkTime(watch *harness.Watch, limit, free time.Duration) {
	j.t.Helper()
	for r, p := range j.ranks {
		watch.Check(j.t, fmt.Sprint("the end of rank ", r), p.EndTime(), limit, free)
	}
}

// checkFailed checks how the ranks of a job have ended that has failed, and its
// partial result.
func (j *job) checkFailed(outcomes []harness.Outcome, kind fault.Kind, blamed int, phase string) {
	j.t.Helper()
	for r, o := range outcomes {
		if o.Code != int(kind) && o.Code >= 0 {
			j.t.Errorf("rank %d: exit code %d, want %d", r, o.Code, kind)
		}
	}
	complaint := fmt.Sprintf("perigee: rank %d on %s, phase %s: ", blamed, j.on[blamed].name, phase)
	if n := strings.Count(outcomes[0].Stderr, complaint); n != 1 {
		j.t.Errorf("%q is %d times in the report of rank 0", complaint, n)
	}
	doc, err := result.Read(filepath.Join(j.dir, "r.json"))
	if err != nil {
		j.t.Error(err)
	} else if f := doc.Failure; doc.Status != result.Partial || f == nil || f.Kind != kind || f.Rank != blamed || f.Host != j.on[blamed].name || len(doc.Measurements) == 0 {
		j.t.Errorf("result: %s, %d measurements, failure %+v", doc.Status, len(doc.Measurements), f)
	}
	if j.t.Failed() {
		j.t.Error(describe(outcomes))
	}
}

// A host is cut off while its ranks wait, collect, or move bytes. All ranks end, on
// both sides of the cut, and leave nothing; the ranks and hosts that are lost
// have their names in the report.
func TestCutHost(t *testing.T) {
	harness.NeedNIXL(t)
	t.Parallel()
	for _, test := range []struct {
		name, phase string
		ranks       int
		cut         func(c *cluster)
		blamed      int
		wanted      []string // in rank 0's report
		alone       []int    // ranks that hear nothing of it, and find out by themselves
	}{
		{"barrier", "barrier", 3, func(c *cluster) { c.hosts[1].unplug() }, 1, []string{"it does not answer: cut off, or its host is down"}, []int{1}},
		{"two ranks", "barrier", 6, func(c *cluster) { c.hosts[1].unplug() }, 1, []string{"ranks 1 4 on host2 do not answer: cut off"}, []int{1, 4}},
		{"collect", "collect", 3, func(c *cluster) { c.hosts[2].unplug() }, 2, []string{"it does not answer: cut off"}, []int{2}},
		{"transfer", "transfer", 3, func(c *cluster) { c.hosts[1].unplug() }, 1, []string{"it does not answer: cut off"}, []int{1}},
		{"interface removed", "transfer", 3, func(c *cluster) { c.hosts[2].remove() }, 2, []string{"it does not answer: cut off"}, []int{2}},
		{"host of rank 0", "transfer", 3, func(c *cluster) { c.hosts[0].unplug() }, 0,
			[]string{"this host is cut off from all others, or they are: ranks 1 on host2, 2 on host3 do not answer"}, []int{1, 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, ipv4)
			j := c.stay(t, test.phase, test.ranks)
			watch := harness.StartWatch()
			test.cut(c)
			outcomes := j.wait()
			j.checkTime(watch, whenCut, 0)
			harness.Contains(t, "report of rank 0", outcomes[0].Stderr, test.wanted...)
			said := map[string]string{} // by host: one rank speaks for all of it
			for _, r := range test.alone {
				said[j.on[r].name] += outcomes[r].Stderr
			}
			for _, r := range test.alone {
				// A rank that waits for rank 0 itself may find out by that first.
				text := said[j.on[r].name]
				if !strings.Contains(text, fmt.Sprintf("it does not answer: stopped, or cut off; rank %d timed out waiting", r)) {
					harness.Contains(t, "report of "+j.on[r].name, text,
						"lost the connection to rank 0, the coordinator of the job, at 10.77.0.1:29500: this host ("+j.on[r].name+") is cut off")
				}
			}
			j.checkFailed(outcomes, fault.RankLost, test.blamed, test.phase)
		})
	}
}

// Two hosts lose each other, and both still reach rank 0. One of the two says so.
func TestCutBetweenHosts(t *testing.T) {
	harness.NeedNIXL(t)
	t.Parallel()
	c := newCluster(t, ipv4)
	j := c.stay(t, "transfer", 3)
	watch := harness.StartWatch()
	part(c.hosts[1], c.hosts[2])
	outcomes := j.wait()
	j.checkTime(watch, whenCut, 0)
	blamed, other := 1, 2
	if strings.Contains(outcomes[0].Stderr, "perigee: rank 2 on host3") {
		blamed, other = 2, 1
	}
	harness.Contains(t, "report of rank 0", outcomes[0].Stderr, fmt.Sprintf("rank %d", other))
	j.checkFailed(outcomes, fault.RankLost, blamed, "transfer")
}

// A rank is killed on another host, and on that of rank 0.
func TestKill(t *testing.T) {
	harness.NeedNIXL(t)
	t.Parallel()
	for _, phase := range []string{"barrier", "transfer"} {
		for _, rank := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s rank %d", phase, rank), func(t *testing.T) {
				t.Parallel()
				c := newCluster(t, ipv4)
				j := c.stay(t, phase, 4)
				watch := harness.StartWatch()
				harness.Signal(t, j.ranks[rank].Rank(rank), syscall.SIGKILL)
				outcomes := j.wait()
				j.checkTime(watch, atOnce, 0)
				j.checkFailed(outcomes, fault.RankLost, rank, phase)
				gone := "its process is gone, or the network has closed the connection\n"
				if rank == 3 { // on rank 0's host
					gone = "its process is gone\n"
				}
				harness.Contains(t, "report of rank 0", outcomes[0].Stderr, gone)
			})
		}
	}
}

// Rank 0 is killed. The others say that they have lost it, and what it has
// measured stays readable.
func TestKillRankZero(t *testing.T) {
	harness.NeedNIXL(t)
	t.Parallel()
	c := newCluster(t, ipv4)
	j := c.stay(t, "transfer", 3)
	watch := harness.StartWatch()
	harness.Signal(t, j.ranks[0].Rank(0), syscall.SIGKILL)
	outcomes := j.wait()
	j.checkTime(watch, atOnce, 0)
	for r := 1; r < 3; r++ {
		if outcomes[r].Code != int(fault.RankLost) {
			t.Errorf("rank %d: exit code %d", r, outcomes[r].Code)
		}
		harness.Contains(t, fmt.Sprintf("report of rank %d", r), outcomes[r].Stderr,
			"lost the connection to rank 0, the coordinator of the job, at 10.77.0.1:29500: it has died, or the network has closed the connection")
	}
	if doc, err := result.Read(filepath.Join(j.dir, "r.json")); err != nil || doc.Status != result.Partial || len(doc.Measurements) == 0 {
		t.Errorf("result: %+v, %v", doc, err)
	}
}

// Ranks on different hosts call different collectives, and wait for each other: they
// find out without --timeout, and the report names both.
func TestDifferentCollectives(t *testing.T) {
	t.Parallel()
	c := newCluster(t, ipv4)
	j := c.start(t, spec{ranks: 3, args: []string{"run", harness.Script(t, "differ.lua")}})
	j.refused(fault.Script, "phase talk: ", "ranks disagree on what to do: ", "in gather", "in all-gather (call ")
}

// A rank that is stopped for longer than --timeout is named, with its host,
// while others wait for it, or for the bytes that it should send.
func TestStopped(t *testing.T) {
	harness.NeedNIXL(t)
	t.Parallel()
	for _, phase := range []string{"barrier", "transfer"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, ipv4)
			const patience = 4 * time.Second
			j := c.stay(t, phase, 3, "--timeout", patience.String())
			stopped := j.ranks[1].Rank(1)
			watch := harness.StartWatch()
			harness.Signal(t, stopped, syscall.SIGSTOP)
			<-j.ranks[0].Ended()
			<-j.ranks[2].Ended()
			// A stopped process ends only if one that may do so continues or kills it.
			// The rank's parent, nsenter, has stopped with it.
			harness.Signal(t, stopped, syscall.SIGCONT)
			harness.Signal(t, j.ranks[1].Cmd.Process.Pid, syscall.SIGCONT)
			outcomes := j.wait()
			j.checkTime(watch, atOnce, patience)
			j.checkFailed(outcomes, fault.Timeout, 1, phase)
			harness.Contains(t, "report of rank 0", outcomes[0].Stderr, "it does not answer: stopped, or cut off")
		})
	}
}
