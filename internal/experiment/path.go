package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/result"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/nixl/engines"
	"perigee/spmd"
)

// endSession closes the session and puts what its engine says of the path into the result. What was measured is saved
// before: a library may crash in its end.
func (e *Experiment) endSession() error {
	if e.engine.Info().Library != "" {
		e.checkpoint(0)
	}
	closed := e.session.Close()
	var mine *nixl.Path
	if engine, ok := e.engine.(nixl.PathEngine); ok {
		mine = new(engine.Path(session.AgentsOf(e.World.Rank())))
	}
	all, err := spmd.GatherValue(e.World.All(), 0, mine)
	if e.Doc == nil {
		return closed
	}
	if err != nil {
		all = []*nixl.Path{{Unknown: fmt.Sprintf("the ranks did not say it: %v", err)}}
	}
	if e.addPaths(all); e.Doc.Paths == nil {
		return closed
	}
	for _, line := range e.Doc.Paths.Lines() {
		fmt.Fprint(e.Out, Comment("path: "+line))
	}
	for _, warning := range e.Doc.PathWarnings() {
		e.Note(engines.Warning + warning)
	}
	return closed
}

// addPaths puts into the result what ranks say.
func (e *Experiment) addPaths(all []*nixl.Path) {
	p := gatherPaths(all)
	if e.Doc.Paths = p; p != nil && len(p.Uses) == 0 && p.Unknown == "" && e.moved() {
		p.Unknown = p.Source + " has counted nothing: it leaves out what ranks send to themselves, and tiny messages"
	}
}

// moved reports whether the result has bytes that went between ranks.
func (e *Experiment) moved() bool {
	between := func(l result.Lanes) bool { return l.Remote != nixl.FILE.String() }
	sent := func(m result.Measurement) bool { return e.Doc.Matrices[e.Doc.Patterns[m.Pattern].Matrix].Bytes > 0 }
	return slices.ContainsFunc(e.Doc.Lanes, between) || slices.ContainsFunc(e.Doc.Measurements, sent)
}

// gatherPaths adds up what ranks say, nil where a rank says nothing; nil where none says anything.
func gatherPaths(ranks []*nixl.Path) *result.Paths {
	var p result.Paths
	uses, lanes, reasons := map[result.PathUse]*result.PathUse{}, map[result.PathLanes]int{}, map[string]int{}
	for _, r := range ranks {
		if r == nil {
			continue
		}
		p.Source = cmp.Or(p.Source, r.Source)
		if r.Unknown != "" {
			reasons[r.Unknown]++
		}
		usedHere, lanesHere := map[result.PathUse]bool{}, map[result.PathLanes]bool{}
		for _, u := range r.Uses {
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
		for _, l := range r.Lanes {
			key := result.PathLanes{Reach: l.Reach, Lanes: l.Lanes}
			if !lanesHere[key] {
				lanesHere[key] = true
				lanes[key]++
			}
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
func joinReasons(reasons map[string]int, ranks int) string {
	text := ""
	for why, n := range reasons {
		if n > reasons[text] || n == reasons[text] && why < text {
			text = why
		}
	}
	if n := reasons[text]; n > 0 && n < ranks {
		text = fmt.Sprintf("at %d of %s: %s", n, cli.Count(ranks, "rank"), text)
	}
	return text
}

// pathKnown refuses, before anything runs, thresholds of a path that the engine does not know.
func (e *Experiment) pathKnown() error {
	for _, t := range e.Thresholds {
		if t.Transport == nil {
			continue
		}
		why, hint := "files have none", ""
		if engine, ok := e.engine.(nixl.PathEngine); ok {
			p := engine.Path(noAgent)
			why, hint = p.Unknown, p.Hint
		}
		if why != "" {
			return fault.New(fault.Usage, "threshold %s (%s): the path is not known: %s", t, t.From, why).
				WithHint("%s", cmp.Or(hint, "leave the threshold out, or use --engine nixl with UCX"))
		}
	}
	return nil
}

// noAgent is the beginning of no agent's name: what is asked is whether the engine can say anything.
const noAgent = "\x00"
