package metric

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/expr"
	"perigee/internal/result"
)

// ReplayPhase is the phase of the samples of a replay.
const ReplayPhase = "replay"

// replayed are the metrics of a serving trace that was replayed, which are known at the end of a run.
var replayed = []Def{
	ofRequests("replay_latency_ms", "done - due; each request that is complete", (*result.Replay).LatencyNS),
	ofRequests("replay_queue_ms", "admitted - due; each request that was admitted, with --in-flight", (*result.Replay).WaitNS),
	ofPercentiles("replay_lateness_ms", "ms", "posted - due or admitted, over all posts; p50, p99 and max", 1e6,
		func(r *result.Replay) [4]float64 { return r.Lateness.List() }),
	ofPercentiles("replay_transfer_ms", "ms", "done - first posted, over requests; p50, p90, p99 and max", 1e6,
		func(r *result.Replay) [4]float64 { return r.Transfer.List() }),
	ofPercentiles("replay_slowdown", "", "time of transfer / that of as many bytes alone, over transfers; p50, p90, p99 and max", 1,
		func(r *result.Replay) [4]float64 { return r.Slowdown.List() }),
	ofPercentiles("replay_ttft_share", "", "part of prefill and transfer that the transfer is, over requests; p50, p90, p99 and max", 1,
		func(r *result.Replay) [4]float64 { return r.Share.List() }),
	ofReplay("replay_offered_gb_per_s", "GB/s", expr.Neither, "bytes of all requests / steady window; the replay",
		func(r *result.Replay) float64 { return r.Offered / 1e9 }),
	ofReplay("replay_carried_gb_per_s", "GB/s", expr.Higher, "bytes moved within the steady window / its length; the replay",
		func(r *result.Replay) float64 { return r.Carried / 1e9 }),
	ofReplay("replay_capacity_gb_per_s", "GB/s", expr.Higher,
		"what all ranks move together when each always has work; the replay",
		func(r *result.Replay) float64 { return positive(r.Capacity) / 1e9 }),
	ofReplay("replay_offered_of_capacity", "", expr.Neither, "offered / capacity over the steady window; the replay",
		func(r *result.Replay) float64 { return r.Offered / positive(r.Capacity) }),
	ofScales(),
	ofReplay("replay_late_posts", "", expr.Lower, "posts beyond the limit of lateness, --max-late; the replay",
		func(r *result.Replay) float64 { return played(r, float64(r.Lateness.Late)) }),
	ofReplay("replay_valid", "", expr.Higher, "1 where lateness kept its limit, else 0; the replay",
		func(r *result.Replay) float64 {
			v := 0.0
			if r.Lateness.Valid {
				v = 1
			}
			return played(r, v)
		}),
}

// played is a figure, NaN where nothing was posted, as of a run that ended before.
func played(r *result.Replay, v float64) float64 {
	if r.Lateness.Posts == 0 {
		return math.NaN()
	}
	return v
}

// positive is a figure, NaN where it is not known.
func positive(v *float64) float64 {
	if v == nil || !(*v > 0) {
		return math.NaN()
	}
	return *v
}

// eachReplay makes a metric of a replay. all yields values with when they began and ended; NaN is no sample.
func eachReplay(name, unit string, better expr.Better, help string, labels []string,
	all func(r *result.Replay, yield func(Sample))) Def {
	d := perResult(name, unit, better, help, func(v *view, yield func(Sample)) {
		if r := v.d.Replay; r != nil {
			all(r, func(s Sample) {
				if !math.IsNaN(s.Value) {
					yield(s)
				}
			})
		}
	})
	d.atEnd, d.ofReplay, d.labels = true, true, labels
	return d
}

// ofRequests makes a metric of times with a sample for each request that has one.
func ofRequests(name, help string, ns func(r *result.Replay, i int) float64) Def {
	return eachReplay(name, "ms", expr.Lower, help, nil, func(r *result.Replay, yield func(Sample)) {
		for i, due := range r.Requests.Due {
			s := ofPattern(-1, ReplayPhase, ns(r, i)/1e6)
			s.StartNS, s.EndNS = r.ZeroNS+due, r.ZeroNS+max(due, r.Requests.Done[i])
			yield(s)
		}
	})
}

// ofPercentiles makes a metric of which the result has only some percentiles, each per times the metric's unit: a
// sample for each, which a threshold with this aggregate takes.
func ofPercentiles(name, unit, help string, per float64, all func(r *result.Replay) [4]float64) Def {
	d := eachReplay(name, unit, expr.Lower, help, nil, func(r *result.Replay, yield func(Sample)) {
		for i, v := range all(r) {
			s := ofWhole(r, v/per)
			s.Labels, s.LabelSet = result.Labels{"aggregate": percentiles[i]}, i
			yield(s)
		}
	})
	d.percentiles = true
	return d
}

// percentiles are those that a result has of metrics without samples.
var percentiles = []string{"p50", "p90", "p99", "max"}

// ofWhole is a sample of the steady window.
func ofWhole(r *result.Replay, value float64) Sample {
	s := ofPattern(-1, ReplayPhase, value)
	s.StartNS, s.EndNS = r.ZeroNS, r.ZeroNS+r.SpanNS
	return s
}

// part is the aggregate of a sample of a metric of which only percentiles are there.
func (t Threshold) part() string {
	if t.Aggregate == "median" {
		return "p50"
	}
	return t.Aggregate
}

// Value aggregates the samples of a metric as a threshold does, such as p99; NaN where there are none.
func Value(d *result.Document, name, aggregate string) float64 {
	t, err := Parse(name + "." + aggregate + " > 0")
	if err != nil {
		return math.NaN()
	}
	return t.Judge(d).Value
}

// ofReplay makes a metric with one sample for all of the replay.
func ofReplay(name, unit string, better expr.Better, help string, value func(r *result.Replay) float64) Def {
	return eachReplay(name, unit, better, help, nil, func(r *result.Replay, yield func(Sample)) {
		yield(ofWhole(r, value(r)))
	})
}

// ofScales is the metric of the busiest window of each length.
func ofScales() Def {
	return eachReplay("replay_peak_of_capacity", "", expr.Neither,
		"bytes due in the busiest window / its length / capacity; each length of windows", []string{"window_s"},
		func(r *result.Replay, yield func(Sample)) {
			for i, x := range r.Scales {
				s := ofWhole(r, x.Offered/positive(r.Capacity))
				s.Labels, s.LabelSet = result.Labels{"window_s": strconv.FormatFloat(x.WindowS, 'g', -1, 64)}, i
				yield(s)
			}
		})
}

// unreplayed says why a metric of a replay has no samples, or none of those that were asked for.
func unreplayed(d *result.Document, name string) string {
	if d.Replay == nil {
		return ": this run has replayed no trace (perigee replay)"
	}
	var there []string
	Each(d, name, func(s Sample) { there = append(there, strings.Trim(s.Labels.String(), "{}")) })
	if len(there) > 0 {
		return ": there is only " + strings.Join(slices.Compact(there), ", ")
	}
	return ": the replay has no such figure"
}
