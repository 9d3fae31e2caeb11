package result

import (
	"fmt"
	"math"
)

// check makes sure that the columns of requests have as many rows each, and that those played alone are there.
func (r *Replay) check() error {
	if r == nil {
		return nil
	}
	q, n := &r.Requests, len(r.Requests.Index)
	for i, rows := range []int{len(q.Prefill), len(q.Decode), len(q.Tokens), len(q.Bytes), len(q.Due), len(q.Admitted),
		len(q.Posted), len(q.Done), len(q.PrefillNS)} {
		if rows != n {
			names := []string{"prefill", "decode", "tokens", "bytes", "due_ns", "admitted_ns", "posted_ns", "done_ns",
				"prefill_ns"}
			return fmt.Errorf("requests: %d rows of index, but %d of %s", n, rows, names[i])
		}
	}
	for i, a := range r.Isolated {
		if a.Request < 0 || a.Request >= n {
			return fmt.Errorf("isolated[%d]: there is no request %d", i, a.Request)
		}
	}
	return nil
}

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

// LateNS is how long after it was due, or after it was admitted where transfers wait for that, request i was posted, in
// nanoseconds; NaN where it was not.
func (r *Replay) LateNS(i int) float64 {
	if r.InFlight == 0 {
		return between(r.Requests.Due[i], r.Requests.Posted[i])
	}
	return between(r.Requests.Admitted[i], r.Requests.Posted[i])
}

// LatencyNS is the time from when request i was due until it was done, in nanoseconds; NaN where it was not.
func (r *Replay) LatencyNS(i int) float64 { return between(r.Requests.Due[i], r.Requests.Done[i]) }

// TransferNS is the time from the post of request i until it was done, in nanoseconds; NaN where it was not.
func (r *Replay) TransferNS(i int) float64 { return between(r.Requests.Posted[i], r.Requests.Done[i]) }

// AloneNS is what so many bytes take alone by the line through the isolated requests, in nanoseconds; NaN without one.
func (r *Replay) AloneNS(bytes int64) float64 {
	if r.Fit == nil || !(r.Fit.Rate > 0) {
		return math.NaN()
	}
	return r.Fit.AlphaNS + float64(bytes)*1e9/r.Fit.Rate
}
