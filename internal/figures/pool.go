package figures

import (
	"fmt"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/result"
)

// Pool computes the figures of several results of one workload, with the runs of all of them. A run stays apart from
// those of other results, whose iterations have other numbers. Results that measured different things, or are the same
// run, are an error of the kind Input, which names the setting. Timeline, tables and values are those of the first.
func Pool(paths []string) (*Figures, error) {
	var b builder
	var all *result.Document
	var totals poolTotals
	fileOf, runs := map[string]string{}, map[string]int{} // the iterations of each phase so far
	for i, path := range paths {
		d, err := result.Read(path)
		if err == nil {
			err = d.Once(path, fileOf)
		}
		if err == nil && i > 0 {
			err = alike(paths[0], all, path, d)
		}
		if err != nil {
			return nil, err
		}
		if d.Replay != nil {
			return nil, fault.New(fault.Usage, "%s is a replay: --pool takes runs of patterns together", path).
				WithHint("perigee compare takes several replays of one schedule")
		}
		b.later = i > 0
		for k := range b.patterns {
			b.patterns[k].latencies.Cut()
		}
		next := map[string]int{}
		for k := range d.Measurements {
			m := &d.Measurements[k]
			m.Iteration += runs[m.Phase]
			next[m.Phase] = max(next[m.Phase], m.Iteration+1)
			if err := b.add(d, m); err != nil {
				return nil, fault.New(fault.Input, "result %s: measurements[%d]: %w", path, k, err)
			}
		}
		for phase, n := range next {
			runs[phase] = n
		}
		totals.add(d)
		d.Measurements, d.Totals, d.Paths, d.Network, d.Accounts, d.Line = nil, nil, nil, nil, nil, nil
		if i == 0 {
			all = d
		} else {
			join(all, d, int64(i)<<50)
		}
	}
	all.Totals = totals.list()
	f, err := b.finish(all)
	if err != nil {
		return nil, fault.New(fault.Input, "result %s: %w", paths[0], err).WithHint("is it a result of perigee?")
	}
	f.LeftOut = append(f.LeftOut, fmt.Sprintf("%s are pooled: the timeline, tables and values are those of the first; what moved "+
		"the bytes stands in the report of each",
		cli.Count(len(paths), "result")))
	return f, nil
}

// poolTotals are the totals of several results.
type poolTotals struct {
	sums    []*result.Totals
	dropped bool // one of the results does not keep all its runs
}

// add takes in those of a result, which are those of its measurements where it has none.
func (p *poolTotals) add(d *result.Document) {
	p.dropped = p.dropped || len(d.Totals) > 0
	all := &result.Document{Totals: p.sums}
	for _, t := range d.AllTotals() {
		sum := all.TotalsOf(t.Pattern, t.Phase)
		if sum == nil {
			sum = &result.Totals{}
			all.Totals = append(all.Totals, sum)
		}
		sum.AddTotals(t)
	}
	p.sums = all.Totals
}

// list is empty where all runs are kept.
func (p *poolTotals) list() []*result.Totals {
	if !p.dropped {
		return nil
	}
	return p.sums
}

// alike is the error of two results that are not runs of one workload.
func alike(pathA string, a *result.Document, pathB string, b *result.Document) error {
	var why []string
	for _, d := range result.Differences(a, b) {
		if !d.Around {
			why = append(why, d.String())
		}
	}
	if x, y := placement(a), placement(b); why == nil && x != y {
		why = append(why, fmt.Sprintf("ranks of the hosts: %s and %s", x, y))
	}
	if why == nil {
		return nil
	}
	return fault.New(fault.Input, "%s and %s are not of one workload: %s", pathA, pathB, strings.Join(why, "; ")).
		WithHint("perigee compare shows what such a difference does; without --pool the report has both side by side")
}

func placement(d *result.Document) string {
	var list []string
	for _, h := range d.World.Hosts {
		list = append(list, fmt.Sprint(h.Ranks))
	}
	return strings.Join(list, " ")
}

// join adds what a result holds beside the runs of patterns to that of others. Its phases and samples are put after
// theirs, by so many nanoseconds: each result counts its own time.
func join(all, d *result.Document, after int64) {
	all.Overlaps = all.Overlaps && d.Overlaps
	all.Lanes, all.Storage = append(all.Lanes, d.Lanes...), append(all.Storage, d.Storage...)
	all.Thresholds = append(all.Thresholds, d.Thresholds...)
	if d.Status != result.Complete {
		all.Status, all.Failure = d.Status, d.Failure
	}
	for _, p := range d.Phases {
		all.Phases = append(all.Phases, result.Phase{Name: p.Name, StartNS: p.StartNS + after})
	}
	for i := range d.Metrics {
		m := &d.Metrics[i]
		for k, at := range m.TimesNS {
			_ = all.AddLabelled(m.Name, m.LabelsOf(k), m.Values[k], at+after) // labels are as many as in the first
		}
	}
}
