package experiment

import "errors"

// Observe completes the result of a run that went well with what was seen beside the times, and closes the session,
// since libraries say what moved the bytes as their agents end. All ranks call it after the last transfer, before
// Finish. What cannot be found out is unknown in the result and no error; an error is one of closing the session.
func (e *Experiment) Observe() error {
	if err := e.observeNetwork(); err != nil {
		return err
	}
	if e.session == nil {
		return e.measureCeiling()
	}
	e.noteMemory()
	counts, err := e.gatherCounts()
	if err = errors.Join(err, e.endSession()); err == nil {
		e.account(counts)
		err = e.measureCeiling()
	}
	e.compareLine()
	return err
}
