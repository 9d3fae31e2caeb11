package experiment

import (
	"io"
	"strings"
	"time"

	"perigee/internal/result"
	"perigee/nixl/device"
	"perigee/spmd"
)

const (
	// mostWindows bounds how many phases of a host are kept apart: a script may begin a phase for each message.
	mostWindows = 200
	// laterPhases is the name of the last window where there are more.
	laterPhases = "later phases"
	// lookLimit is how long the counters may take. They are read in some milliseconds, but a driver whose firmware
	// does not answer may keep the reader for good.
	lookLimit = 2 * time.Second
	tooLate   = "the counters could not be read in time"
	// allLooks is how long the looks of a run may take together: those of later phases are left out.
	allLooks = 5 * time.Second
)

// looks are those of the first rank of a host at the counters of its network, at the edges of phases.
type looks struct {
	read    func() device.Counters // nil at other ranks, and once it has taken too long
	phase   string
	begun   bool  // phase was begun, else it is that of a run without phases
	start   int64 // of the phase
	last    device.Counters
	windows []result.NetworkWindow
	spent   time.Duration
}

// beginLooks has the first look. It has an effect at the first rank of each host.
func (e *Experiment) beginLooks() {
	if !e.World.LeadsHost() {
		return
	}
	e.looks.read = e.Network
	if e.Network == nil {
		e.looks.read = device.ThisNetwork().Read
	}
	ok := false
	e.looks.phase = e.World.CurrentPhase()
	if e.looks.last, ok = e.looks.look(); !ok {
		e.looks.windows = []result.NetworkWindow{{Phase: e.looks.phase, Note: tooLate}}
	}
	e.looks.start = e.World.Now()
}

// BeginPhase begins a phase of this rank, and at rank 0 of the result. What is counted at its edge is no part of any
// phase.
func (e *Experiment) BeginPhase(name string) {
	e.World.Phase(name)
	began := e.World.Now() // a look takes milliseconds
	e.looks.edge(name, e.World.Now)
	if e.Doc != nil {
		e.Doc.Phases = append(e.Doc.Phases, result.Phase{Name: name, StartNS: began})
		e.Checkpoint()
	}
}

// edge ends the window of a phase and begins that of the next, unless that has the same name.
func (l *looks) edge(next string, now func() int64) {
	if len(l.windows) >= mostWindows-2 || l.spent > allLooks {
		next = laterPhases
	}
	if next != l.phase || !l.begun {
		l.end(l.begun, now)
		l.phase, l.start, l.begun = next, now(), true
	}
}

// end ends a window, which is kept, or is what comes before the first phase and is no part of the run.
func (l *looks) end(kept bool, now func() int64) {
	if l.read == nil {
		return
	}
	w := result.NetworkWindow{Phase: l.phase, StartNS: l.start, EndNS: now(), Note: tooLate}
	counters, ok := l.look()
	if ok {
		fill(&w, counters, l.last)
		l.last = counters
	}
	if kept || !ok {
		l.windows = append(l.windows, w)
	}
}

// look reads the counters, unless that takes too long.
func (l *looks) look() (c device.Counters, ok bool) {
	began := time.Now()
	defer func() { l.spent += time.Since(began) }()
	read, done := l.read, make(chan device.Counters, 1)
	go func() { done <- read() }()
	select {
	case c = <-done:
		return c, true
	case <-time.After(lookLimit):
		l.read = nil
		return c, false
	}
}

// fill puts what the counters have gained into a window.
func fill(w *result.NetworkWindow, now, before device.Counters) {
	gained, notes := now.Since(before)
	w.TCP, w.Note = gained.TCP, strings.Join(notes, ", ")
	for _, n := range gained.NICs {
		w.NICs = append(w.NICs, result.NICWindow{Name: n.Name, Mbps: n.Mbps, Sent: n.Sent, Received: n.Received,
			Counters: n.Congestion})
	}
}

// observeNetwork gathers the windows of the run, and prints what the counters say of congestion. All ranks call it.
func (e *Experiment) observeNetwork() error {
	err := e.gatherWindows()
	if err != nil || e.Doc == nil {
		return err
	}
	if text := e.Doc.NetworkText(); text != "" {
		io.WriteString(e.Out, Comment("network: "+text))
	}
	return nil
}

// gatherWindows ends the last window and adds those of all hosts to the result, at rank 0. All ranks call it.
func (e *Experiment) gatherWindows() error {
	e.looks.end(true, e.World.Now)
	if e.looks.spent > 0 {
		e.World.Log().Debug("read the counters of the network", "elapsed", e.looks.spent)
	}
	mine := e.looks.windows
	e.looks.windows = nil
	all, err := spmd.GatherValue(e.World.All(), 0, mine)
	if err != nil || all == nil {
		return err
	}
	for rank, windows := range all {
		e.addWindows(e.World.HostOf(rank), windows)
	}
	e.Doc.Network.Sort()
	return nil
}

// addWindows adds windows of a host to the result.
func (e *Experiment) addWindows(host int, windows []result.NetworkWindow) {
	if e.Doc.Network == nil {
		e.Doc.Network = &result.Network{Windows: []result.NetworkWindow{}}
	}
	for _, w := range windows {
		w.Host = host
		e.Doc.Network.Windows = append(e.Doc.Network.Windows, w)
	}
}
