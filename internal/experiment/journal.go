package experiment

import (
	"errors"
	"fmt"
	"io/fs"

	"perigee/internal/result"
)

// journal is what rank 0 writes beside the result while the run goes on: result.Journal, which begins with the first
// that is measured and ends when the result itself is there. It holds what was measured, whatever kills the process.
type journal struct {
	*result.Journal
	changed []int // measurements that are not as the journal has them
	lost    bool  // measurements that it has are no longer in the result
	failed  bool  // something that was measured could not be added
}

// stale reports whether the next time all of it is written again.
func (j *journal) stale() bool { return j.Journal != nil && (j.lost || j.Stale()) }

// orphan sets aside the journal that a killed job has left at the result's place, and says so.
func (e *Experiment) orphan() {
	if !replaceable(e.File) {
		return
	}
	path := e.File + result.PartEnding
	aside, err := result.Orphan(path)
	switch {
	case errors.Is(err, result.ErrBusy):
		e.Doc.Notes = append(e.Doc.Notes, "another job is at work on "+e.File+" now; each keeps its result, the later one under "+
			"another name")
	case err != nil:
		e.Doc.Notes = append(e.Doc.Notes, fmt.Sprintf("the journal of an earlier job lies in the way: %v", err))
	case aside != "":
		e.Doc.Notes = append(e.Doc.Notes, fmt.Sprintf("%s was left by a job that was killed; it is %s now, and perigee report %[2]s "+
			"shows what that job has measured", path, aside))
	}
}

// keep adds what is new to the journal, and begins it if it must.
func (e *Experiment) keep() (err error) {
	j := &e.journal
	if j.Journal == nil {
		if j.Journal, err = beginJournal(e.claim.asked); err != nil {
			return err
		}
	}
	if j.stale() {
		err = j.Restart(e.Doc)
	} else {
		err = j.Append(e.Doc, j.changed)
	}
	if err == nil {
		j.changed, j.lost = j.changed[:0], false
	}
	j.failed = err != nil
	return err
}

// kept says what of a result that cannot be written the journal has, or that it has nothing; then it is removed.
func (j *journal) kept() string {
	switch {
	case j.Journal == nil || j.Empty():
		j.end()
		return "nothing of what was measured is kept"
	case j.failed:
		return "the first of what was measured is in " + j.Path() + ", as far as it could be written"
	}
	return "what was measured is in " + j.Path()
}

// beginJournal makes a journal beside a result, or beside the next name for it that no other job is at work on.
func beginJournal(asked string) (*result.Journal, error) {
	for n := 1; ; {
		path := numbered(asked, n) + result.PartEnding
		j, err := result.NewJournal(path)
		if !errors.Is(err, fs.ErrExist) {
			return j, err
		}
		if _, err = result.Orphan(path); errors.Is(err, result.ErrBusy) {
			n++
		} else if err != nil {
			return nil, err
		}
	}
}

// end removes the journal, whose result is there.
func (j *journal) end() {
	if j.Journal != nil {
		j.Remove()
		j.Journal = nil
	}
}

// left finds the journal that a job has left for a result, and of how many bytes; "" if there is none.
func left(asked, job string) (path string, size int64) {
	for n := 1; ; n++ {
		path = numbered(asked, n) + result.PartEnding
		if regular(path) == nil {
			return "", 0
		}
		if d, size, err := result.Part(path); err == nil && d.Job != nil && d.Job.ID == job {
			return path, size
		}
	}
}
