package batch

import (
	"fmt"
	"strings"
	"time"

	"perigee/internal/slurm"
	"perigee/tools/disagg/judge"
)

// attempt keeps apart what a job leaves in its folder each time that Slurm runs it: the parts that Slurm has ended to
// run it once more are no failures.
type attempt struct {
	seen      time.Time // when Slurm last said how the job is
	ran       bool      // the job, as far as Slurm has said
	restarted time.Time // when Slurm first said that it runs the job once more; zero if it has not

	mark   string    // of the part that has ended
	marked time.Time // when that was first seen
	old    string    // the last mark that is of an earlier attempt
}

// see takes what Slurm says of the job now, and said before, and reports whether it runs once more.
func (a *attempt) see(before, now slurm.Job) (again bool) {
	a.seen = time.Now()
	again = a.ran && (now.Started.After(before.Started) || before.State == "PENDING" && now.State == "RUNNING")
	if again {
		a.restarted = a.seen
	}
	a.ran = a.ran || now.State == "RUNNING"
	return again
}

// isOver reports whether the part that has ended is, or may be, of an attempt that Slurm has ended to run the job
// again: it has not said since that the job runs.
func (a *attempt) isOver(death *judge.Death, state string) bool {
	const grace = 10 * time.Second // in which a script that is run once more removes what the first attempt has left
	if markOf(death) != a.mark {
		a.mark, a.marked = markOf(death), time.Now()
	}
	waits := state == "PENDING" || state == "CONFIGURING" || strings.HasPrefix(state, "REQUEUE")
	if waits && a.seen.After(a.marked) {
		a.ran, a.old = true, a.mark // before it waits
	}
	switch {
	case a.mark == a.old, !a.restarted.IsZero() && time.Since(a.restarted) < grace:
		return true
	case !death.BySignal():
		return state != "RUNNING"
	}
	return state != "RUNNING" || a.seen.Before(a.marked)
}

// markOf distinguishes the end of a part from that in another attempt.
func markOf(d *judge.Death) string { return fmt.Sprint(d.Part, d.Noted.UnixNano()) }
