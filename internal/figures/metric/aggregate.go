package metric

import (
	"math"
	"slices"

	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

// collection is the samples that a threshold looks at.
type collection struct {
	sorted     []float64 // ascending once all are added
	start, end int64     // of the earliest and of the latest
	of         map[runsOf]bool
}

// runsOf are the runs of a pattern in a phase.
type runsOf struct {
	pattern int
	phase   string
}

func (c *collection) add(s Sample) {
	if len(c.sorted) == 0 {
		c.start, c.end = s.StartNS, s.EndNS
	}
	c.start, c.end = min(c.start, s.StartNS), max(c.end, s.EndNS)
	c.sorted = append(c.sorted, s.Value)
	if k := (runsOf{s.Pattern, s.Phase}); !c.of[k] {
		if c.of == nil {
			c.of = map[runsOf]bool{}
		}
		c.of[k] = true
	}
}

// distribution is samples of which one number is made.
type distribution interface {
	Count() int64
	Mean() float64
	StdDev() float64
	Quantile(q float64) float64
}

// sorted is a distribution of values in ascending order.
type sorted []float64

func (s sorted) Count() int64               { return int64(len(s)) }
func (s sorted) Mean() float64              { return stats.Mean(s) }
func (s sorted) StdDev() float64            { return stats.StdDev(s) }
func (s sorted) Quantile(q float64) float64 { return stats.Quantile(s, q) }

// aggregate makes one number of samples, of which so many are one of the metric, over the time that c has; NaN
// where they are too few.
func (t Threshold) aggregate(of distribution, unit float64, c *collection) float64 {
	switch t.Aggregate {
	case "count":
		return float64(of.Count())
	case "rate":
		if c.end <= c.start {
			return math.NaN()
		}
		return float64(of.Count()) / (float64(c.end-c.start) / 1e9)
	case "mean":
		return of.Mean() / unit
	case "stddev":
		return of.StdDev() / unit
	}
	return of.Quantile(t.quantile) / unit
}

// ThresholdWatch looks at the thresholds that may end a run, while its result grows.
type ThresholdWatch struct {
	doc     *result.Document
	watched []watched
}

type watched struct {
	Threshold
	follower *Follower
	samples  collection // of which as many are sorted as were looked at
	last     Outcome    // what was seen then
	runs     int        // that the result held when samples were taken last
	judged   int        // samples as last was judged anew for the drift of initiators
}

// seldom is by which part the number of samples grows from one look at them to the next: else a
// long run would be spent on looking.
const seldom = 256

// NewThresholdWatch begins to look at those of a list that say abort. A threshold that more
// samples may yet fulfil, such as max > 5 or count >= 10, is left to the end.
func NewThresholdWatch(d *result.Document, list []Threshold) *ThresholdWatch {
	w := &ThresholdWatch{doc: d}
	for _, t := range list {
		if t.AbortAfter > 0 && !t.patient() {
			w.watched = append(w.watched, watched{Threshold: t, follower: Follow(d, t.Metric)})
		}
	}
	return w
}

// patient reports whether more samples can fulfil what is violated now, however
// bad those that are there.
func (t Threshold) patient() bool {
	more, less := t.Op == ">" || t.Op == ">=", t.Op == "<" || t.Op == "<="
	switch t.Aggregate {
	case "count":
		return !less
	case "rate":
		return true
	case "max":
		return more || t.Op == "=="
	case "min":
		return less || t.Op == "=="
	}
	return false
}

// Violated returns the first threshold that is violated by what the result holds now, or held
// a few samples ago. Samples that runs to come may change are looked at only if known says that there are no such runs.
func (w *ThresholdWatch) Violated(known bool) (Outcome, bool) {
	for i := range w.watched {
		v := &w.watched[i]
		n := len(w.doc.Measurements)
		switch revised := Revised(v.Metric); {
		case revised && !known, v.Metric == "slowdown" && n > 0 && w.doc.Measurements[n-1].Phase == Isolated:
			continue // runs alone change what all runs are held against
		case !revised || n-v.runs > v.runs/seldom:
			v.take(w.doc)
			v.runs = n
		}
		if looked := v.last.Samples; len(v.samples.sorted)-looked > looked/seldom {
			v.look(w.doc)
		}
		if looked := v.last.Samples; looked != v.judged && !v.last.Passed && drifting[v.Metric] {
			v.judged = looked
			v.last = v.over(w.doc, func(s Sample) bool { return v.admits(w.doc, s) })
		}
		if o := v.last; o.Samples >= v.AbortAfter && !math.IsNaN(o.Value) && !o.Passed {
			o.Note = v.alone(w.doc)
			return o, true
		}
	}
	return Outcome{}, false
}

// take adds what is new in the result.
func (v *watched) take(d *result.Document) {
	fresh, replaces := v.follower.New()
	if replaces {
		v.samples, v.last = collection{}, Outcome{}
	}
	for _, s := range fresh {
		if v.admits(d, s) {
			v.samples.add(s)
		}
	}
}

// look brings the samples into their order and holds the threshold against them.
func (v *watched) look(d *result.Document) {
	all, before := v.samples.sorted, v.last.Samples
	added := all[before:]
	slices.Sort(added)
	if before > 0 && added[0] < all[before-1] {
		merge(slices.Clone(all[:before]), slices.Clone(added), all[:0])
	}
	v.last = v.outcome(d, &v.samples)
}

// merge appends two ascending lists to out as one.
func merge(a, b, out []float64) []float64 {
	for len(a) > 0 && len(b) > 0 {
		if b[0] < a[0] {
			out, b = append(out, b[0]), b[1:]
		} else {
			out, a = append(out, a[0]), a[1:]
		}
	}
	return append(append(out, a...), b...)
}
