package result

import (
	"math"
	"slices"

	"perigee/internal/kit/stats"
	"perigee/internal/traffic/series"
)

// IsolatedPhase is the name of the phase in which patterns run alone.
const IsolatedPhase = "isolated"

// FirstPhase is the name of the phase of a run before it begins one.
const FirstPhase = "start"

// PatternFigures are what the runs of a pattern come to. A figure is absent where there were no such runs.
type PatternFigures struct {
	LatencyMS         *float64 `json:"latency_ms,omitempty"`          // Latencies.Latency
	IsolatedLatencyMS *float64 `json:"isolated_latency_ms,omitempty"` // Latencies.Isolated
	Slowdown          *float64 `json:"slowdown,omitempty"`            // Latencies.Slowdown
	MeanBandwidth     *float64 `json:"mean_bandwidth_bytes_per_s,omitempty"`
}

// Latencies are those of one pattern's runs, in nanoseconds. This is the one definition of isolated latency and of
// slowdown: tables, results, metrics, reports and conversions all have it from here, so that a workload has one
// number wherever it appears.
type Latencies struct {
	Alone    []float64 // of the runs in the phase isolated, unless other patterns were at work in them
	Workload []float64 // of all others

	row RunSeries // of all others
	all *Totals   // of these, where not all are added; else nil
}

// Whole says that the workload has had more runs of the pattern than are added: see [Totals]. It does nothing where the
// document keeps all.
func (l *Latencies) Whole(d *Document, pattern int) { l.all = d.workloadTotals(pattern) }

// Runs counts those of the workload.
func (l *Latencies) Runs() int {
	if l.all != nil {
		return l.all.Runs
	}
	return len(l.Workload)
}

// Quantile is one of those of the workload; NaN without any.
func (l *Latencies) Quantile(q float64) float64 {
	if l.all != nil {
		return l.all.Latencies.Quantile(q)
	}
	return stats.Quantile(slices.Sorted(slices.Values(l.Workload)), q)
}

// Add adds a run, and reports whether it was to be alone.
func (l *Latencies) Add(m *Measurement) (alone bool) {
	switch {
	case m.Phase != IsolatedPhase:
		l.Workload = append(l.Workload, float64(m.LatencyNS))
		l.row.Add(m)
	case !m.NotAlone():
		l.Alone = append(l.Alone, float64(m.LatencyNS))
	}
	return m.Phase == IsolatedPhase
}

// Isolated is the median of the runs alone; NaN without any.
func (l *Latencies) Isolated() float64 { return stats.Median(l.Alone) }

// Latency is the median of the other runs, or what [Latencies.PerRun] says; NaN without any.
func (l *Latencies) Latency() float64 {
	if per := l.PerRun(); !math.IsNaN(per) {
		return per
	}
	return l.Quantile(0.5)
}

// PerRun is the total time / runs of a pattern that never ran alone and whose several initiators did not meet between
// runs: a single run has their drift in its latency. It is NaN of all others.
func (l *Latencies) PerRun() float64 {
	switch {
	case len(l.Alone) > 0:
		return math.NaN()
	case l.all != nil:
		return l.all.PerRun()
	}
	return l.row.PerRunNS()
}

// Cut says that the next run is of another job.
func (l *Latencies) Cut() { l.row.Cut() }

// DriftText says for messages what PerRun is, and why.
const DriftText = "initiators do not meet between runs, so a single run has their drift in its time; the total time / runs has not"

// Slowdown is Latency / Isolated; NaN without either.
func (l *Latencies) Slowdown() float64 { return Slowdown(l.Latency(), l.Isolated()) }

// Slowdown is how many times longer something took than alone; NaN where that is not known.
func Slowdown(latency, isolated float64) float64 {
	if !(isolated > 0) {
		return math.NaN()
	}
	return latency / isolated
}

// sumUp works out the figures of all patterns.
func (d *Document) sumUp() {
	latencies, bandwidths := make([]Latencies, len(d.Patterns)), make([][]float64, len(d.Patterns))
	for i := range d.Measurements {
		m := &d.Measurements[i]
		if !latencies[m.Pattern].Add(m) {
			bandwidths[m.Pattern] = append(bandwidths[m.Pattern], m.MeanBandwidth)
		}
	}
	for i := range d.Patterns {
		l := &latencies[i]
		l.Whole(d, i)
		d.Patterns[i].PatternFigures = PatternFigures{
			LatencyMS: known(l.Latency() / 1e6), IsolatedLatencyMS: known(l.Isolated() / 1e6),
			Slowdown: known(l.Slowdown()), MeanBandwidth: known(stats.Median(bandwidths[i])),
		}
	}
}

// known is nil for NaN.
func known(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

// Overlapped reports whether a message of the run overlapped with one of another pattern, or may have if the clocks of
// the hosts are off as far as they may be.
func (m *Measurement) Overlapped() bool {
	return m.any(func(p series.PeerRun) bool { return p.Overlap != nil || p.MayMeetNS != nil })
}

// NotAlone reports whether it is a run of the phase isolated in which other patterns were at work: one of its messages
// overlapped.
func (m *Measurement) NotAlone() bool {
	return m.Phase == IsolatedPhase && m.any(func(p series.PeerRun) bool { return p.Overlap != nil })
}

// any reports whether one of the run's messages is so.
func (m *Measurement) any(is func(p series.PeerRun) bool) bool {
	for i := range m.Ranks {
		if slices.ContainsFunc(m.Ranks[i].Peers, is) {
			return true
		}
	}
	return false
}
