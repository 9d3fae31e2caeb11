package metric

import (
	"slices"

	"perigee/internal/kit/expr"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
	"perigee/internal/result"
)

// Isolated is the name of the phase in which patterns run alone. Its runs count for
// isolated_latency_ms, and for others only where this phase is asked for.
const Isolated = result.IsolatedPhase

// Def describes a metric.
type Def struct {
	expr.Entry
	// each calls yield for every sample that a run has; nil for metrics that belong to a whole
	// pattern, which have all.
	each func(v *view, m *result.Measurement, yield func(Sample))
	all  func(v *view, yield func(Sample))
	// revised says that runs which come later may change the samples of those that are there.
	revised bool
	// labels are those of its samples, if they have any.
	labels []string
	// atEnd says that it is known at the end of a run, ofReplay that it is of a trace that was replayed.
	atEnd, ofReplay bool
	// percentiles says that its samples are the percentiles of what is not in the result.
	percentiles bool
}

// Revised reports whether runs that come later may change the samples of a metric that are there: they may have been
// at the same time.
func Revised(name string) bool {
	def, _ := Find(name)
	return def.revised
}

// revised makes a metric one whose samples may change.
func revised(d Def) Def {
	d.revised = true
	return d
}

// Sample is one number, and what it belongs to.
type Sample struct {
	Value     float64
	Pattern   int // index into the result's patterns; -1 if it belongs to none
	Phase     string
	Iteration int // -1 if it belongs to no single run
	Rank      int // the initiator; -1 if it belongs to several
	Peer      int // the other end of a message; -1 if it belongs to several
	// Block is the size of the blocks in bytes, Batch their number at a time; 0 if it belongs to no size of blocks.
	Block, Batch int64
	// Labels are those that a scenario has given to the sample; nil for none.
	Labels result.Labels
	// LabelSet is the number of these labels among those of the metric in its result.
	LabelSet int
	// StartNS and EndNS are when it was measured, on the common time line.
	StartNS, EndNS int64
}

// all are the metrics of every result, in the order of the documentation.
var all = slices.Concat(known, blocks, network, []Def{utilisation}, replayed)

// Find returns a metric of every result.
func Find(name string) (Def, bool) {
	i := slices.IndexFunc(all, func(d Def) bool { return d.Name == name })
	if i < 0 {
		return Def{}, false
	}
	return all[i], true
}

// Check refuses a name that is neither a known metric nor one of the scenario's own.
// The error, of the kind Usage, names the nearest.
func Check(name string, own []result.MetricDef) error {
	if _, ok := Find(name); ok || slices.ContainsFunc(own, func(d result.MetricDef) bool { return d.Name == name }) {
		return nil
	}
	names := Names(own)
	if near := value.Suggestion(name, names); near != "" {
		return fault.New(fault.Usage, "there is no metric %q%s", name, near).
			WithHint("docs/thresholds.md has all metrics")
	}
	return fault.New(fault.Usage, "there is no metric %q", name).
		WithHint("metrics are %s; see docs/thresholds.md", list(names))
}

// Names lists all metrics, those of a scenario last.
func Names(own []result.MetricDef) []string {
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
	}
	for _, d := range own {
		names = append(names, d.Name)
	}
	return names
}

func list(names []string) string {
	text := ""
	for i, n := range names {
		switch {
		case i == 0:
		case i == len(names)-1:
			text += " and "
		default:
			text += ", "
		}
		text += n
	}
	return text
}

// Of returns all samples of a metric in a result, in the order of its measurements.
// A name that is neither known nor in the result has none.
func Of(d *result.Document, name string) []Sample {
	var out []Sample
	Each(d, name, func(s Sample) { out = append(out, s) })
	return out
}

// Each yields the samples that [Of] returns, of which there may be millions, one by one.
func Each(d *result.Document, name string, yield func(Sample)) {
	def, ok := Find(name)
	if !ok {
		own(d, name, 0, yield)
		return
	}
	if def.all != nil {
		v := newView(d)
		v.learn()
		def.all(v, yield)
		return
	}
	each := OfRuns(d, name)
	for i := range d.Measurements {
		each(&d.Measurements[i], yield)
	}
}

// OfRuns returns what yields the samples of a metric that one measurement of a result has, or nil
// if the metric is none that single runs have.
func OfRuns(d *result.Document, name string) func(m *result.Measurement, yield func(Sample)) {
	def, _ := Find(name)
	if def.each == nil {
		return nil
	}
	v := newView(d)
	v.learn()
	return func(m *result.Measurement, yield func(Sample)) { def.each(v, m, yield) }
}

// Follower yields the samples of a metric while a result grows.
type Follower struct {
	name string
	def  Def
	view *view
	next int
}

// Follow begins at the first measurement of a result.
func Follow(d *result.Document, name string) *Follower {
	def, _ := Find(name)
	return &Follower{name: name, def: def, view: newView(d)}
}

// New returns what has come since the last call. replaces says that it is all there
// is, and what came before is out of date: so it is for metrics of whole patterns, and those that are Revised.
func (f *Follower) New() (samples []Sample, replaces bool) {
	keep := func(s Sample) { samples = append(samples, s) }
	f.view.learn()
	switch {
	case f.def.all != nil:
		f.def.all(f.view, keep)
		return samples, true
	case f.def.each != nil:
		if replaces = f.def.revised; replaces {
			f.next = 0
		}
		for ; f.next < len(f.view.d.Measurements); f.next++ {
			f.def.each(f.view, &f.view.d.Measurements[f.next], keep)
		}
	default:
		f.next = own(f.view.d, f.name, f.next, keep)
	}
	return samples, replaces
}

// own yields the samples of a scenario's metric from the given one on, and returns how
// many there are.
func own(d *result.Document, name string, from int, yield func(Sample)) int {
	i := slices.IndexFunc(d.Metrics, func(m result.Metric) bool { return m.Name == name })
	if i < 0 {
		return 0
	}
	m := &d.Metrics[i]
	for k := from; k < len(m.Values); k++ {
		at, set := m.TimesNS[k], 0
		if m.Labels != nil {
			set = max(0, m.Labels[k])
		}
		yield(Sample{
			Value: m.Values[k], Pattern: -1, Phase: d.PhaseAt(at), Iteration: -1, Rank: -1, Peer: -1,
			StartNS: at, EndNS: at, Labels: m.LabelsOf(k), LabelSet: set,
		})
	}
	return len(m.Values)
}
