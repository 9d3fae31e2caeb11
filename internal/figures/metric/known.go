package metric

import (
	"math"

	"perigee/internal/figures/contention"
	"perigee/internal/kit/expr"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

var known = []Def{
	perRun("latency_ms", "ms", expr.Lower, "last end - first start over the initiators; each run",
		func(v *view, m *result.Measurement) (float64, bool) { return float64(m.LatencyNS) / 1e6, true }),
	perResult("isolated_latency_ms", "ms", expr.Lower, "median latency of the runs alone; each pattern",
		func(v *view, yield func(Sample)) {
			for i := range v.d.Patterns {
				if ns := v.isolatedNS(i); !math.IsNaN(ns) {
					yield(ofPattern(i, Isolated, ns/1e6))
				}
			}
		}),
	revised(perRun("slowdown", "", expr.Lower,
		"latency / isolated latency of the pattern, 1 at most if no message overlapped with another pattern and it is less "+
			"than 1 ms longer; each run of a pattern that was also run alone",
		func(v *view, m *result.Measurement) (float64, bool) {
			slowdown := v.slowdown(m)
			return slowdown, !math.IsNaN(slowdown) && !m.NotAlone()
		})),
	revised(perResult("contention", "", expr.Lower,
		"time of messages that overlapped with other patterns / of those that did not, at most; 1 where the difference may be chance; the whole result",
		func(v *view, yield func(Sample)) {
			r := contention.Of(v.d).Report()
			if l := r.Lacking; l.Runs < contention.MinRuns && l.Ratio > contention.Little {
				return // the others do not stand for these
			}
			worst := math.Inf(-1)
			for _, e := range []contention.Estimate{r.Estimate, r.Lacking} {
				switch {
				case e.Shown(), e.Masked:
					worst = max(worst, e.Most())
				case e.Runs >= contention.MinRuns:
					worst = max(worst, 1)
				}
			}
			if !math.IsInf(worst, 0) {
				yield(ofPattern(-1, "", worst))
			}
		})),
	perRun("slo_attainment", "", expr.Higher,
		"1 where it took no longer than its pattern's slo_ms, else 0; each run of a pattern that has one",
		func(v *view, m *result.Measurement) (float64, bool) {
			slo := v.d.Patterns[m.Pattern].Terms().SLONS
			if float64(m.LatencyNS) <= slo {
				return 1, true
			}
			return 0, slo > 0
		}),
	overlap("overlap", "", "that a message overlapped with other patterns"),
	overlap("overlap_sender", "sender", "that other patterns used its sender"),
	overlap("overlap_receiver", "receiver", "that other patterns used its receiver"),
	overlap("overlap_sending_host", "sending host", "that other patterns sent from its sender's host"),
	overlap("overlap_receiving_host", "receiving host", "that other patterns sent to its receiver's host"),
	perRun("start_skew_us", "us", expr.Lower, "last start - first start of the initiators, us; each run with several",
		func(_ *view, m *result.Measurement) (float64, bool) {
			if m.StartSkewNS == nil {
				return 0, false
			}
			return float64(*m.StartSkewNS) / 1e3, true
		}),
	perRun("mean_bw_gb_per_s", "GB/s", expr.Higher, "mean over the initiators of bytes / own time; each run",
		func(v *view, m *result.Measurement) (float64, bool) { return m.MeanBandwidth / 1e9, true }),
	perSpan("total_time_s", "s", expr.Lower, "last end - first start over all runs, and the files beside them; each pattern",
		func(s span) float64 { return s.seconds }),
	perSpan("avg_latency_s", "s", expr.Lower, "total time / runs; each pattern",
		func(s span) float64 { return s.seconds / float64(s.runs) }),
	perSpan("algorithm_bw_gb_per_s", "GB/s", expr.Higher, "bytes of all runs / total time; each pattern",
		func(s span) float64 { return float64(s.bytes) / 1e9 / s.seconds }),
	perPattern("size_gb", "GB", "sum of all cells / 1e9; each pattern",
		func(d *result.Document, p result.Pattern) float64 { return float64(d.Matrices[p.Matrix].Bytes) / 1e9 }),
	perPattern("num_senders", "", "ranks that send anything; each pattern",
		func(_ *result.Document, p result.Pattern) float64 { return float64(p.Senders) }),
	perRank("rank_latency_ms", "ms", expr.Lower, "end - start; each initiator of each run",
		func(r *series.RankRun) float64 { return float64(r.DurationNS()) / 1e6 }),
	perRank("rank_bw_gb_per_s", "GB/s", expr.Higher, "bytes / (end - start); each initiator of each run",
		func(r *series.RankRun) float64 { return r.Bandwidth() / 1e9 }),
	perRank("rank_post_us", "us", expr.Lower, "posted - start; each initiator of each run",
		func(r *series.RankRun) float64 { return float64(r.PostNS-r.StartNS) / 1e3 }),
	perPair("pair_latency_ms", "ms", expr.Lower,
		"end of the message - start of its initiator; each message of each run",
		func(_ *result.Measurement, r *series.RankRun, p series.PeerRun) float64 {
			return float64(p.EndNS-r.StartNS) / 1e6
		}),
	perPair("pair_end_ms", "ms", expr.Lower,
		"end of the message - first start of its pattern; each message of each run",
		func(m *result.Measurement, _ *series.RankRun, p series.PeerRun) float64 {
			return float64(p.EndNS-m.StartNS) / 1e6
		}),
	perPair("pair_bw_gb_per_s", "GB/s", expr.Higher, "bytes / pair latency; each message of each run",
		func(_ *result.Measurement, r *series.RankRun, p series.PeerRun) float64 {
			return float64(p.Bytes) / float64(max(p.EndNS-r.StartNS, 1))
		}),
}

func ofRun(m *result.Measurement) Sample {
	return Sample{
		Pattern: m.Pattern, Phase: m.Phase, Iteration: m.Iteration, Rank: -1, Peer: -1, StartNS: m.StartNS,
		EndNS: m.EndNS,
	}
}

func ofPattern(i int, phase string, value float64) Sample {
	return Sample{Value: value, Pattern: i, Phase: phase, Iteration: -1, Rank: -1, Peer: -1}
}

func perRun(name, unit string, better expr.Better, help string,
	value func(v *view, m *result.Measurement) (float64, bool)) Def {
	d := Def{Entry: expr.Entry{Name: name, Unit: unit, Better: better, Help: help}}
	d.each = func(v *view, m *result.Measurement, yield func(Sample)) {
		s, ok := ofRun(m), false
		if s.Value, ok = value(v, m); ok {
			yield(s)
		}
	}
	return d
}

func perRank(name, unit string, better expr.Better, help string, value func(r *series.RankRun) float64) Def {
	d := Def{Entry: expr.Entry{Name: name, Unit: unit, Better: better, Help: help}}
	d.each = func(_ *view, m *result.Measurement, yield func(Sample)) {
		for i := range m.Ranks {
			r := &m.Ranks[i]
			s := ofRun(m)
			s.Value, s.Rank, s.StartNS, s.EndNS = value(r), r.Rank, r.StartNS, r.EndNS
			yield(s)
		}
	}
	return d
}

// perPair makes a metric of messages; NaN is no sample.
func perPair(name, unit string, better expr.Better, help string,
	value func(m *result.Measurement, r *series.RankRun, p series.PeerRun) float64) Def {
	d := Def{Entry: expr.Entry{Name: name, Unit: unit, Better: better, Help: help}}
	d.each = func(_ *view, m *result.Measurement, yield func(Sample)) {
		for i := range m.Ranks {
			r := &m.Ranks[i]
			for _, p := range r.Peers {
				s := ofRun(m)
				s.Value, s.Rank, s.Peer, s.StartNS, s.EndNS = value(m, r, p), r.Rank, p.Peer, r.StartNS, p.EndNS
				if !math.IsNaN(s.Value) {
					yield(s)
				}
			}
		}
	}
	return d
}

// overlap is about what overlaps at a resource, or anywhere if that is empty. Results without overlaps have no samples,
// and neither have messages of which the clocks of the hosts do not say whether they overlapped.
func overlap(name, resource, help string) Def {
	d := perPair(name, "", expr.Lower, "part of its time "+help+"; each message of the workload",
		func(_ *result.Measurement, _ *series.RankRun, p series.PeerRun) float64 {
			switch {
			case p.Overlap == nil && p.MayMeetNS != nil:
				return math.NaN()
			case p.Overlap == nil:
				return 0
			case resource == "":
				return p.Overlap.Share
			}
			for _, by := range p.Overlap.Each() {
				if by.Resource == resource {
					return by.Share
				}
			}
			return 0
		})
	pairs := d.each
	d.each = func(v *view, m *result.Measurement, yield func(Sample)) {
		if v.d.Overlaps && m.Phase != Isolated {
			pairs(v, m, yield)
		}
	}
	return revised(d)
}

func perResult(name, unit string, better expr.Better, help string, all func(v *view, yield func(Sample))) Def {
	return Def{Entry: expr.Entry{Name: name, Unit: unit, Better: better, Help: help}, all: all}
}

func perPattern(name, unit, help string, value func(d *result.Document, p result.Pattern) float64) Def {
	return perResult(name, unit, expr.Neither, help, func(v *view, yield func(Sample)) {
		for i, p := range v.d.Patterns {
			yield(ofPattern(i, "", value(v.d, p)))
		}
	})
}

// perSpan makes a metric of all runs of a pattern in a phase together.
func perSpan(name, unit string, better expr.Better, help string, value func(s span) float64) Def {
	return perResult(name, unit, better, help, func(v *view, yield func(Sample)) {
		for _, s := range spans(v.d) {
			if s.count(v.d); s.seconds <= 0 {
				continue
			}
			sample := ofPattern(s.pattern, s.phase, value(s))
			sample.StartNS, sample.EndNS = s.parts[0].start, s.parts[len(s.parts)-1].end
			yield(sample)
		}
	})
}

// span is all runs of a pattern in a phase.
type span struct {
	pattern int
	phase   string
	bytes   int64
	runs    int
	parts   []part  // between which buffers were filled and checked, or runs saved
	of      []int   // the part of each run
	seconds float64 // of all of them
}

// part is when runs that followed each other at once, with the files beside them, began and ended.
type part struct{ start, end int64 }

func (p *part) add(start, end int64) { p.start, p.end = min(p.start, start), max(p.end, end) }

// count works out what all runs come to, also those that the result does not keep.
func (s *span) count(d *result.Document) {
	s.runs, s.seconds = len(s.of), 0
	for _, p := range s.parts {
		s.seconds += float64(p.end-p.start) / 1e9
	}
	if t := d.TotalsOf(s.pattern, s.phase); t != nil {
		s.runs, s.seconds = t.Runs, float64(t.TotalNS)/1e9
	}
	s.bytes = d.Matrices[d.Patterns[s.pattern].Matrix].Bytes * int64(s.runs)
}

// spans joins the runs of each pattern in each phase into stretches without a gap. Bandwidths are bytes over such
// stretches: where buffers were filled and checked between two runs, that time belongs to no figure.
func spans(d *result.Document) []span {
	var list []span
	index := map[[2]any]int{}
	for i := range d.Measurements {
		m := &d.Measurements[i]
		key := [2]any{m.Pattern, m.Phase}
		k, ok := index[key]
		if !ok {
			k = len(list)
			index[key] = k
			list = append(list, span{pattern: m.Pattern, phase: m.Phase})
		}
		s := &list[k]
		if m.Filled || len(s.parts) == 0 {
			s.parts = append(s.parts, part{m.StartNS, m.EndNS})
		}
		s.of = append(s.of, len(s.parts)-1)
		s.parts[len(s.parts)-1].add(m.StartNS, m.EndNS)
	}
	for _, r := range d.Storage {
		if k, ok := index[[2]any{r.Pattern, r.Phase}]; ok {
			s := &list[k]
			s.parts[s.of[min(r.Iteration, len(s.of)-1)]].add(r.StartNS, r.EndNS)
		}
	}
	return list
}

// view is a result and what has been learnt of its patterns' runs so far.
type view struct {
	d        *result.Document
	next     int
	patterns map[int]*latencies
}

// latencies are those of a pattern, and their isolated latency as it was when it was last asked for.
type latencies struct {
	result.Latencies
	isolated float64
	of       int // runs alone
}

func newView(d *result.Document) *view { return &view{d: d, patterns: map[int]*latencies{}} }

// learn takes in the measurements that have come since the last call.
func (v *view) learn() {
	for ; v.next < len(v.d.Measurements); v.next++ {
		m := &v.d.Measurements[v.next]
		if m.Phase != Isolated {
			continue
		}
		l := v.patterns[m.Pattern]
		if l == nil {
			l = &latencies{}
			v.patterns[m.Pattern] = l
		}
		l.Add(m)
	}
}

// isolatedNS is the isolated latency of a pattern, NaN where it is not known.
func (v *view) isolatedNS(pattern int) float64 {
	l := v.patterns[pattern]
	if l == nil {
		return math.NaN()
	}
	if l.of != len(l.Alone) {
		l.isolated, l.of = l.Isolated(), len(l.Alone)
	}
	return l.isolated
}

// slowdown is that of a run, NaN where it is not known. What slows down a run that met no other is not of this result,
// or is behind its hosts; below LittleNS it is caches and waits for a CPU.
func (v *view) slowdown(m *result.Measurement) float64 {
	latency, isolated := float64(m.LatencyNS), v.isolatedNS(m.Pattern)
	slowdown := result.Slowdown(latency, isolated)
	little := max(contention.LittleNS, float64(m.UncertaintyNS))
	if v.d.Overlaps && latency-isolated < little && !m.Overlapped() {
		return min(slowdown, 1)
	}
	return slowdown
}
