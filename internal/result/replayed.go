package result

import (
	"fmt"
	"math"
	"slices"

	"perigee/internal/kit/stats"
)

// check makes sure that the columns of requests have as many rows each, and that those played alone are there.
func (r *Replay) check() error {
	if r == nil {
		return nil
	}
	q, n := &r.Requests, len(r.Requests.Index)
	for _, c := range []struct {
		name string
		rows int
	}{
		{"prefill", len(q.Prefill)}, {"decode", len(q.Decode)}, {"tokens", len(q.Tokens)}, {"bytes", len(q.Bytes)},
		{"due_ns", len(q.Due)}, {"admitted_ns", len(q.Admitted)}, {"posted_ns", len(q.Posted)},
		{"late_ns", len(q.Late)}, {"done_ns", len(q.Done)}, {"prefill_ns", len(q.PrefillNS)},
	} {
		if c.rows != n {
			return fmt.Errorf("requests: %d rows of index, but %d of %s", n, c.rows, c.name)
		}
	}
	for i, a := range r.Isolated {
		if a.Request < 0 || a.Request >= n {
			return fmt.Errorf("isolated[%d]: there is no request %d", i, a.Request)
		}
	}
	return nil
}

// ReplaySharesOf are the percentiles of values, which it sorts; nil of none.
func ReplaySharesOf(values []float64) *ReplayShares {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	at := func(q float64) float64 { return stats.Quantile(values, q) }
	return &ReplayShares{P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: at(1)}
}

// ReplayTimesOf are the percentiles of nanoseconds, which it sorts; nil of none.
func ReplayTimesOf(values []float64) *ReplayTimes {
	s := ReplaySharesOf(values)
	if s == nil {
		return nil
	}
	return &ReplayTimes{P50NS: int64(s.P50), P90NS: int64(s.P90), P99NS: int64(s.P99), MaxNS: int64(s.Max)}
}

// List are the percentiles in their order, in nanoseconds; NaN where there are none.
func (t *ReplayTimes) List() [4]float64 {
	if t == nil {
		return unknown
	}
	return [4]float64{float64(t.P50NS), float64(t.P90NS), float64(t.P99NS), float64(t.MaxNS)}
}

// List are the percentiles in their order; NaN where there are none.
func (s *ReplayShares) List() [4]float64 {
	if s == nil {
		return unknown
	}
	return [4]float64{s.P50, s.P90, s.P99, s.Max}
}

// List are the percentiles in their order, in nanoseconds. The 90th, which is not known, is NaN, and so are all of no
// posts.
func (l *ReplayLateness) List() [4]float64 {
	if l.Posts == 0 {
		return unknown
	}
	return [4]float64{float64(l.P50NS), math.NaN(), float64(l.P99NS), float64(l.MaxNS)}
}

var unknown = [4]float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}

// between is the time between two stamps in nanoseconds, NaN where one of them is missing.
func between(from, to int64) float64 {
	if from < 0 || to < 0 {
		return math.NaN()
	}
	return float64(to - from)
}

// WaitNS is how long request i waited for its admission, in nanoseconds; NaN where it was not admitted. Without a limit
// of transfers at a time none waits.
func (r *Replay) WaitNS(i int) float64 {
	if r.InFlight == 0 {
		return math.NaN()
	}
	return between(r.Requests.Due[i], r.Requests.Admitted[i])
}

// LateNS is how late the latest post of request i was, in nanoseconds, after it was due, or after it was admitted where
// transfers wait for that; NaN where it was not posted.
func (r *Replay) LateNS(i int) float64 {
	if r.Requests.Posted[i] < 0 {
		return math.NaN()
	}
	return float64(r.Requests.Late[i])
}

// LatencyNS is the time from when request i was due until it was done, in nanoseconds; NaN where it was not.
func (r *Replay) LatencyNS(i int) float64 { return between(r.Requests.Due[i], r.Requests.Done[i]) }
