package metric

import (
	"math"

	"perigee/internal/contention"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

var known = []Def{
	{
		Name: "latency_ms", Better: Lower, Help: "last end - first start over the initiators; each run",
		each: eachRun(func(v *view, m *result.Measurement) (float64, bool) { return float64(m.LatencyNS) / 1e6, true }),
	},
	{
		Name: "isolated_latency_ms", Better: Lower, Help: "median latency of the runs alone; each pattern",
		all: func(v *view, yield func(Sample)) {
			for i := range v.d.Patterns {
				if ns := v.isolatedNS(i); !math.IsNaN(ns) {
					yield(ofPattern(i, Isolated, ns/1e6))
				}
			}
		},
	},
	{
		Name: "slowdown", Better: Lower, Help: "latency / isolated latency of the pattern; each run of which a message overlapped with another pattern",
		each: eachRun(func(v *view, m *result.Measurement) (float64, bool) {
			slowdown := result.Slowdown(float64(m.LatencyNS), v.isolatedNS(m.Pattern))
			return slowdown, !math.IsNaN(slowdown) && m.Phase != Isolated && (!v.d.Overlaps || m.Overlapped())
		}),
	},
	{
		Name: "contention", Better: Lower, Help: "time of messages that overlapped with other patterns / of those that did not; 1 where the difference may be chance; the whole result",
		all: func(v *view, yield func(Sample)) {
			var c contention.Collector
			for i := range v.d.Measurements {
				c.Add(v.d, &v.d.Measurements[i])
			}
			if r := c.Report(); r.Runs >= contention.MinRuns {
				value := r.Ratio
				if !r.Shown() {
					value = 1
				}
				yield(ofPattern(-1, "", value))
			}
		},
	},
	{
		Name: "overlap", Better: Lower, Help: "part of its time that a message overlapped with other patterns; each message of the workload",
		each: eachOverlap(""),
	},
	{
		Name: "overlap_sender", Better: Lower, Help: "part of its time that other patterns used its sender; each message of the workload",
		each: eachOverlap("sender"),
	},
	{
		Name: "overlap_receiver", Better: Lower, Help: "part of its time that other patterns used its receiver; each message of the workload",
		each: eachOverlap("receiver"),
	},
	{
		Name: "overlap_sending_host", Better: Lower, Help: "part of its time that other patterns sent from its sender's host; each message of the workload",
		each: eachOverlap("sending host"),
	},
	{
		Name: "overlap_receiving_host", Better: Lower, Help: "part of its time that other patterns sent to its receiver's host; each message of the workload",
		each: eachOverlap("receiving host"),
	},
	{
		Name: "start_skew_us", Better: Lower, Help: "last start - first start of the initiators, us; each run with several",
		each: eachRun(func(_ *view, m *result.Measurement) (float64, bool) {
			if m.StartSkewNS == nil {
				return 0, false
			}
			return float64(*m.StartSkewNS) / 1e3, true
		}),
	},
	{
		Name: "mean_bw_gb_per_s", Better: Higher, Help: "mean over the initiators of bytes / own time; each run",
		each: eachRun(func(v *view, m *result.Measurement) (float64, bool) { return m.MeanBandwidth / 1e9, true }),
	},
	{Name: "total_time_s", Better: Lower, Help: "last end - first start over all runs; each pattern",
		all: whole(func(s span) float64 { return s.seconds })},
	{Name: "avg_latency_s", Better: Lower, Help: "total time / runs; each pattern",
		all: whole(func(s span) float64 { return s.seconds / float64(s.runs) })},
	{
		Name: "algorithm_bw_gb_per_s", Better: Higher, Help: "bytes of all runs / total time; each pattern",
		all: whole(func(s span) float64 { return float64(s.bytes) / 1e9 / s.seconds }),
	},
	{Name: "size_gb", Help: "sum of all cells / 1e9; each pattern",
		all: eachPattern(func(d *result.Document, p result.Pattern) float64 {
			return float64(d.Matrices[p.Matrix].Bytes) / 1e9
		})},
	{Name: "num_senders", Help: "ranks that send anything; each pattern",
		all: eachPattern(func(_ *result.Document, p result.Pattern) float64 {
			return float64(p.Senders)
		})},
	{
		Name: "rank_latency_ms", Better: Lower, Help: "end - start; each initiator of each run",
		each: eachRank(func(r *series.RankRun) float64 { return float64(r.DurationNS()) / 1e6 }),
	},
	{
		Name: "rank_bw_gb_per_s", Better: Higher, Help: "bytes / (end - start); each initiator of each run",
		each: eachRank(func(r *series.RankRun) float64 { return r.Bandwidth() / 1e9 }),
	},
	{
		Name: "rank_post_us", Better: Lower, Help: "posted - start; each initiator of each run",
		each: eachRank(func(r *series.RankRun) float64 { return float64(r.PostNS-r.StartNS) / 1e3 }),
	},
	{
		Name: "pair_latency_ms", Better: Lower,
		Help: "end of the message - start of its initiator; each message of each run",
		each: eachPair(func(r *series.RankRun, p series.PeerRun) float64 { return float64(p.EndNS-r.StartNS) / 1e6 }),
	},
	{
		Name: "pair_bw_gb_per_s", Better: Higher, Help: "bytes / pair latency; each message of each run",
		each: eachPair(func(r *series.RankRun, p series.PeerRun) float64 {
			return float64(p.Bytes) / float64(max(p.EndNS-r.StartNS, 1))
		}),
	},
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

func eachRun(value func(v *view, m *result.Measurement) (float64, bool)) func(*view, *result.Measurement,
	func(Sample)) {
	return func(v *view, m *result.Measurement, yield func(Sample)) {
		s, ok := ofRun(m), false
		if s.Value, ok = value(v, m); ok {
			yield(s)
		}
	}
}

func eachRank(value func(r *series.RankRun) float64) func(*view, *result.Measurement, func(Sample)) {
	return func(_ *view, m *result.Measurement, yield func(Sample)) {
		for i := range m.Ranks {
			r := &m.Ranks[i]
			s := ofRun(m)
			s.Value, s.Rank, s.StartNS, s.EndNS = value(r), r.Rank, r.StartNS, r.EndNS
			yield(s)
		}
	}
}

func eachPair(value func(r *series.RankRun, p series.PeerRun) float64) func(*view, *result.Measurement, func(Sample)) {
	return func(_ *view, m *result.Measurement, yield func(Sample)) {
		for i := range m.Ranks {
			r := &m.Ranks[i]
			for _, p := range r.Peers {
				s := ofRun(m)
				s.Value, s.Rank, s.Peer, s.StartNS, s.EndNS = value(r, p), r.Rank, p.Peer, r.StartNS, p.EndNS
				yield(s)
			}
		}
	}
}

// eachOverlap is about what overlaps at a resource, or anywhere if that is empty. Results without overlaps have no
// samples.
func eachOverlap(resource string) func(*view, *result.Measurement, func(Sample)) {
	pairs := eachPair(func(_ *series.RankRun, p series.PeerRun) float64 {
		switch {
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
	return func(v *view, m *result.Measurement, yield func(Sample)) {
		if v.d.Overlaps && m.Phase != Isolated {
			pairs(v, m, yield)
		}
	}
}

func eachPattern(value func(d *result.Document, p result.Pattern) float64) func(*view, func(Sample)) {
	return func(v *view, yield func(Sample)) {
		for i, p := range v.d.Patterns {
			yield(ofPattern(i, "", value(v.d, p)))
		}
	}
}

// span is all runs of a pattern in a phase.
type span struct {
	pattern    int
	phase      string
	runs       int
	bytes      int64
	start, end int64
	seconds    float64
}

// whole makes a metric of all runs of a pattern in a phase together.
func whole(value func(s span) float64) func(*view, func(Sample)) {
	return func(v *view, yield func(Sample)) {
		for _, s := range spans(v.d) {
			if s.seconds = float64(s.end-s.start) / 1e9; s.seconds <= 0 {
				continue
			}
			sample := ofPattern(s.pattern, s.phase, value(s))
			sample.StartNS, sample.EndNS = s.start, s.end
			yield(sample)
		}
	}
}

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
			list = append(list, span{pattern: m.Pattern, phase: m.Phase, start: m.StartNS, end: m.EndNS})
		}
		s := &list[k]
		s.runs++
		s.bytes += d.Matrices[d.Patterns[m.Pattern].Matrix].Bytes
		s.start, s.end = min(s.start, m.StartNS), max(s.end, m.EndNS)
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
