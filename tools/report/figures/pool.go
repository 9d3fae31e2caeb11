package figures

import (
	"fmt"
	"maps"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/result"
)

// Pool computes the figures of several results of one workload, with the runs of all of them. A run stays apart from
// those of other results, whose iterations have other numbers. Results that measured different things, or are the same
// run, are an error of the kind Input, which names the setting. Timeline, tables and values are those of the first.
func Pool(paths []string) (*Figures, error) {
	var b builder
	var docs []*result.Document
	runs := map[string]int{} // iterations of each phase so far
	for i, path := range paths {
		next := maps.Clone(runs)
		looked, unlike := i == 0, error(nil)
		d, err := result.Scan(path, func(d *result.Document, m *result.Measurement) error {
			if !looked { // the sums are those of the first result's patterns
				looked, unlike = true, alike(paths[0], docs[0], path, d)
			}
			if unlike != nil {
				return unlike
			}
			m.Iteration += runs[m.Phase]
			next[m.Phase] = max(next[m.Phase], m.Iteration+1)
			return b.add(d, m)
		})
		if unlike == nil && err == nil {
			for k, other := range docs {
				if unlike = alike(paths[k], other, path, d); unlike != nil {
					break
				}
			}
		}
		if unlike != nil {
			return nil, unlike
		}
		if err != nil {
			return nil, err
		}
		b.later, runs, docs = true, next, append(docs, d)
	}
	f, err := b.finish(merged(docs))
	if err != nil {
		return nil, fault.New(fault.Input, "result %s: %w", paths[0], err).WithHint("is it a result of perigee?")
	}
	f.LeftOut = append(f.LeftOut, fmt.Sprintf("%s are pooled: the timeline, tables and values are those of the first",
		cli.Count(len(docs), "result")))
	return f, nil
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
	if why != nil {
		return fault.New(fault.Input, "%s and %s are not of one workload: %s", pathA, pathB, strings.Join(why, "; ")).
			WithHint("perigee compare shows what such a difference does; without --pool the report has both side by side")
	}
	if a.Job != nil && b.Job != nil && a.Job.ID != "" && a.Job.ID == b.Job.ID && a.Started.Equal(b.Started) {
		return fault.New(fault.Input, "%s and %s are the same run (job %s): it would count twice", pathA, pathB, a.Job.ID).
			WithHint("name it once")
	}
	return nil
}

func placement(d *result.Document) string {
	var list []string
	for _, h := range d.World.Hosts {
		list = append(list, fmt.Sprint(h.Ranks))
	}
	return strings.Join(list, " ")
}

// merged is the first result with what the others hold beside the runs of patterns.
func merged(docs []*result.Document) *result.Document {
	all := docs[0]
	start := map[string]int64{}
	for _, p := range all.Phases {
		start[p.Name] = p.StartNS
	}
	for _, d := range docs[1:] {
		all.Overlaps = all.Overlaps && d.Overlaps
		all.Lanes, all.Storage = append(all.Lanes, d.Lanes...), append(all.Storage, d.Storage...)
		all.Thresholds = append(all.Thresholds, d.Thresholds...)
		if d.Status != result.Complete {
			all.Status, all.Failure = d.Status, d.Failure
		}
		for i := range d.Metrics {
			m := &d.Metrics[i]
			for k, at := range m.TimesNS {
				phase := ""
				for _, p := range d.Phases {
					if p.StartNS <= at {
						phase = p.Name
					}
				}
				// The time stands for the phase alone: each result counts its own. Labels are as many as in the first.
				_ = all.AddLabelled(m.Name, m.LabelsOf(k), m.Values[k], start[phase])
			}
		}
	}
	return all
}
