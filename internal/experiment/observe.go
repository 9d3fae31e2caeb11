package experiment

import (
	"errors"
	"slices"

	"perigee/internal/result"
	"perigee/internal/traffic/session"
	"perigee/nixl"
)

// Observe completes the result of a run that went well with what was seen beside the times, and closes the session,
// since libraries say what moved the bytes as their agents end. All ranks call it after the last transfer, before
// Finish. What cannot be found out is unknown in the result and no error; an error is one of closing the session.
func (e *Experiment) Observe() error {
	if err := e.noteStandstills(); err != nil {
		return err
	}
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

// observeEarly completes the result of a run that failed with what rank 0 knows by itself, the counters of its host up
// to now and what moved its own bytes, and says which ranks and hosts are missing. There are no accounts, which compare
// the bytes of all ranks.
func (e *Experiment) observeEarly() {
	if e.Doc.Network == nil { // else the run failed in Observe
		e.looks.end(true, e.World.Now)
		e.addWindows(e.World.HostOf(0), e.looks.windows)
		for host := range e.World.Hosts() {
			if host != e.World.HostOf(0) {
				e.addWindows(host, []result.NetworkWindow{{Phase: e.looks.phase, StartNS: e.looks.start,
					EndNS: e.World.Now(), Note: "not read: the job ended early"}})
			}
		}
		e.Doc.Network.Sort()
	}
	engine, ok := e.engine.(nixl.PathEngine)
	if ok && e.Doc.Paths == nil {
		all := slices.Repeat([]*nixl.Path{{Unknown: "the job ended before they said it"}}, e.World.Size())
		all[0] = new(engine.Path(session.AgentsOf(0)))
		e.addPaths(all)
	}
}
