package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/nixl"
	"perigee/nixl/engines"
	"perigee/spmd"
)

// endSession closes the session and puts what its engine says of the path into the result. What was measured is saved
// before: a library may crash in its end.
func (e *Experiment) endSession() error {
	if e.engine.Info().Name != "shm" {
		e.checkpoint(0, 0)
	}
	closed := e.session.Close()
	all, err := spmd.GatherValue(e.World.All(), 0, e.session.Paths())
	if e.Doc == nil {
		return closed
	}
	if err != nil {
		all = [][]nixl.Path{{{Unknown: fmt.Sprintf("the ranks did not say it: %v", err)}}}
	}
	e.Doc.Paths = gatherPaths(all)
	if e.Doc.Paths == nil {
		return closed
	}
	if p := e.Doc.Paths; len(p.Uses) == 0 && p.Unknown == "" && e.moved() {
		p.Unknown = p.Source + " has counted nothing: it leaves out what ranks send to themselves, and tiny messages"
	}
	for _, line := range e.Doc.Paths.Lines() {
		fmt.Fprint(e.Out, Comment("path: "+line))
	}
	for _, warning := range e.Doc.PathWarnings() {
		e.Note(engines.Warning + warning)
	}
	return closed
}

// moved reports whether the result has bytes that went between ranks.
func (e *Experiment) moved() bool {
	return len(e.Doc.Lanes) > 0 || slices.ContainsFunc(e.Doc.Measurements, func(m result.Measurement) bool {
		return e.Doc.Matrices[e.Doc.Patterns[m.Pattern].Matrix].Bytes > 0
	})
}

// gatherPaths adds up what the agents of all ranks say; nil where none says anything.
func gatherPaths(ranks [][]nixl.Path) *result.Paths {
	var p result.Paths
	uses, lanes := map[result.PathUse]*result.PathUse{}, map[result.PathLanes]int{}
	reasons := map[string][]int{}
	for rank, agents := range ranks {
		usedHere, lanesHere := map[result.PathUse]bool{}, map[result.PathLanes]bool{}
		for _, a := range agents {
			p.Source = cmp.Or(p.Source, a.Source)
			if list := reasons[a.Unknown]; a.Unknown != "" && !slices.Contains(list, rank) {
				reasons[a.Unknown] = append(list, rank)
			}
			for _, u := range a.Uses {
				key := result.PathUse{Op: u.Op, Local: u.Local, Remote: u.Remote, Reach: u.Reach, Transport: u.Transport,
					Device: u.Device, How: u.How, MinBytes: u.MinBytes, MaxBytes: u.MaxBytes}
				if uses[key] == nil {
					uses[key] = new(key)
				}
				uses[key].Count += u.Count
				if !usedHere[key] {
					usedHere[key] = true
					uses[key].Ranks++
				}
			}
			for _, l := range a.Lanes {
				lanesHere[result.PathLanes{Reach: l.Reach, Lanes: l.Lanes}] = true
			}
		}
		for l := range lanesHere {
			lanes[l]++
		}
	}
	if p.Source == "" && len(reasons) == 0 {
		return nil
	}
	for _, u := range uses {
		p.Uses = append(p.Uses, *u)
	}
	for l, n := range lanes {
		l.Ranks = n
		p.Lanes = append(p.Lanes, l)
	}
	p.Unknown = joinReasons(reasons, len(ranks))
	slices.SortFunc(p.Uses, func(a, b result.PathUse) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	slices.SortFunc(p.Lanes, func(a, b result.PathLanes) int {
		return cmp.Or(cmp.Compare(b.Ranks, a.Ranks), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	return &p
}

// joinReasons says why ranks know no path: the reason of most of them.
func joinReasons(reasons map[string][]int, ranks int) string {
	text, most := "", 0
	for why, of := range reasons {
		if len(of) > most || len(of) == most && why < text {
			text, most = why, len(of)
		}
	}
	if text != "" && most < ranks {
		text = fmt.Sprintf("at %d of %s: %s", most, cli.Count(ranks, "rank"), text)
	}
	return text
}

// pathKnown refuses, before anything runs, thresholds of a path that the engine does not know.
func (e *Experiment) pathKnown() error {
	for _, t := range e.Thresholds {
		if t.Transport == nil {
			continue
		}
		why := "files have none"
		for _, p := range e.session.Paths() {
			if why = p.Unknown; why == "" {
				break
			}
		}
		if why != "" {
			return fault.New(fault.Usage, "threshold %s (%s): the path is not known: %s", t, t.From, why).
				WithHint("leave the threshold out, or use --engine nixl with UCX")
		}
	}
	return nil
}
