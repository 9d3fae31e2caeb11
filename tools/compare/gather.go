package compare

import (
	"fmt"
	"math"
	"slices"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/cli"
	"perigee/internal/result"
)

// key has the fields that the samples of a row share.
type key struct {
	pattern          int
	phase            string
	sender, receiver int
	block, batch     int64
	labels           string // of a scenario's own metric
}

// gathered is the samples of one key: a list for each result of a side.
type gathered struct {
	key        key
	old, fresh [][]float64
}

// each brings together the samples of a metric that are to be compared, and hands them over in the order in which
// they first appear. take may empty the list as it goes on: one pattern may have very many pairs.
func (r *Report) each(name string, old, fresh []*result.Document, take func(list []*gathered)) {
	docs := slices.Concat(old, fresh)
	if metric.OfRuns(old[0], name) == nil { // of patterns, blocks or the scenario: there are few
		c := collector{docs: docs, olds: len(old), numbers: r.numbers}
		for i, d := range docs {
			metric.Each(d, name, func(s metric.Sample) { c.add(i, s) })
		}
		take(c.taken())
		return
	}
	// A big result has millions of messages, but the runs of one pattern have not.
	samples := make([]func(*result.Measurement, func(metric.Sample)), len(docs))
	for i, d := range docs {
		samples[i] = metric.OfRuns(d, name)
	}
	drifting := 0
	for _, runs := range grouped(name, docs, r.numbers) {
		c := collector{docs: docs, olds: len(old), numbers: r.numbers}
		perRun, drift := perRunNS(name, docs, runs)
		if drift {
			drifting++
		}
		for i, list := range runs {
			if name == "latency_ms" && !math.IsNaN(perRun[i]) {
				of := list[0]
				s := metric.Sample{Pattern: of.Pattern, Phase: of.Phase, Rank: -1, Peer: -1}
				s.Value = perRun[i] / 1e6
				c.add(i, s)
				continue
			}
			if all := totalsOf(name, docs[i], list); all != nil {
				of := list[0]
				s := metric.Sample{Pattern: of.Pattern, Phase: of.Phase, Rank: -1, Peer: -1}
				s.Value = all.Latencies.Quantile(0.5) / 1e6
				c.add(i, s)
				continue
			}
			for _, m := range list {
				samples[i](m, func(s metric.Sample) {
					if name == "pair_end_ms" && drift {
						s.Value = float64(s.EndNS-s.StartNS) / 1e6
					}
					c.add(i, s)
				})
			}
		}
		take(c.taken())
	}
	if drifting > 0 {
		r.Remarks = append(r.Remarks, fmt.Sprintf("initiators of %s drift apart, since they do not meet between runs: %s",
			cli.Count(drifting, "pattern"), withoutDrift[name]))
	}
}

// totalsOf are those of some runs of a result, whose median latency is that of all of them; nil for other metrics, and
// where the result keeps all.
func totalsOf(name string, d *result.Document, runs []*result.Measurement) *result.Totals {
	if name != "latency_ms" || len(runs) == 0 {
		return nil
	}
	return d.TotalsOf(runs[0].Pattern, runs[0].Phase)
}

// withoutDrift says for a metric that counts from the first start of a pattern what is compared in its place where
// initiators do not meet between runs.
var withoutDrift = map[string]string{
	"latency_ms":  "their latency_ms is the total time / runs",
	"pair_end_ms": "their pair_end_ms is each message's own time",
}

// perRunNS is the total time / runs of each result that ran a pattern without meetings, NaN of others, for a metric
// that has the drift of initiators in it. drift reports whether there is such a result.
func perRunNS(name string, docs []*result.Document, runs [][]*result.Measurement) (list []float64, drift bool) {
	list = slices.Repeat([]float64{math.NaN()}, len(runs))
	if withoutDrift[name] == "" {
		return list, false
	}
	for i, of := range runs {
		var row result.RunSeries
		for _, m := range of {
			row.Add(m)
		}
		list[i] = row.PerRunNS()
		if t := totalsOf("latency_ms", docs[i], of); t != nil {
			list[i] = t.PerRun()
		}
		drift = drift || !math.IsNaN(list[i])
	}
	return list, drift
}

// grouped returns the runs of each pattern in each phase that have samples to compare, result by result.
func grouped(name string, docs []*result.Document, numbers [][]int) (groups [][][]*result.Measurement) {
	type group struct {
		pattern int
		phase   string
	}
	index := map[group]int{}
	for i, d := range docs {
		for k := range d.Measurements {
			m := &d.Measurements[k]
			if name == "slowdown" && m.Phase == metric.Isolated {
				continue // 1 at the median, whatever happens
			}
			g := group{numbers[i][m.Pattern], m.Phase}
			at, ok := index[g]
			if !ok {
				at = len(groups)
				index[g] = at
				groups = append(groups, make([][]*result.Measurement, len(docs)))
			}
			groups[at][i] = append(groups[at][i], m)
		}
	}
	return groups
}

// collector sorts samples by their keys.
type collector struct {
	docs []*result.Document
	olds int // how many of docs are old
	// numbers are those of the patterns of docs.
	numbers [][]int
	list    []*gathered
	index   map[key]*gathered
	// labels are the texts of labels: thousands of samples share one.
	labels map[labelSet]string
}

// add puts a sample to those of its key, on its side and in its run.
func (c *collector) add(doc int, s metric.Sample) {
	k := c.keyOf(doc, s)
	g := c.index[k]
	if g == nil {
		if c.index == nil {
			c.index = map[key]*gathered{}
		}
		g = &gathered{key: k, old: make([][]float64, c.olds), fresh: make([][]float64, len(c.docs)-c.olds)}
		c.index[k] = g
		c.list = append(c.list, g)
	}
	if doc < c.olds {
		g.old[doc] = append(g.old[doc], s.Value)
	} else {
		g.fresh[doc-c.olds] = append(g.fresh[doc-c.olds], s.Value)
	}
}

// taken returns what has been collected, and keeps none of it.
func (c *collector) taken() []*gathered {
	list := c.list
	*c = collector{}
	return list
}

func (c *collector) keyOf(doc int, s metric.Sample) key {
	k := key{s.Pattern, s.Phase, -1, -1, s.Block, s.Batch, c.textOf(doc, s)}
	if s.Pattern >= 0 {
		k.pattern = c.numbers[doc][s.Pattern]
	}
	if s.Peer >= 0 {
		k.sender, k.receiver = s.Rank, s.Peer
		if c.docs[doc].Patterns[s.Pattern].Op == "READ" {
			k.sender, k.receiver = s.Peer, s.Rank
		}
	}
	return k
}

// labelSet is one of the labels that a document has for the metric.
type labelSet struct{ doc, set int }

// textOf writes the labels of a sample once for each set of labels: a metric has millions of samples and a few sets.
func (c *collector) textOf(doc int, s metric.Sample) string {
	if len(s.Labels) == 0 {
		return ""
	}
	same := labelSet{doc, s.LabelSet}
	text, ok := c.labels[same]
	if !ok {
		if c.labels == nil {
			c.labels = map[labelSet]string{}
		}
		text = s.Labels.String()
		c.labels[same] = text
	}
	return text
}
