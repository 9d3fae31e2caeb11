package resulttest

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"perigee/internal/result"
)

// Replayed invents the result of a trace of so many requests that was replayed on 8 ranks, 2xTP2 to 2xTP2: ten or so at
// each tick of 30 ms, of 2.4 MB on average, of which each decode worker carries 1 GB/s, one after the other.
func Replayed(requests int) *result.Document {
	const tick, perTick, rate, alpha = 30e6, 10, 1e9, 20_000.0
	d := Synthetic{Ranks: 8, Hosts: 1}.Document()
	d.Scenario.Name, d.Scenario.Options = "replay.lua", map[string]any{"trace": "conversation.jsonl"}
	d.Command = strings.Fields("perigee replay conversation.jsonl --model Qwen3-32B --speed-up 100 --scale 0.01")
	d.Notes = []string{"the trace stands on a grid"}
	d.Phases = []result.Phase{{Name: "isolated", StartNS: 1e9}, {Name: "capacity", StartNS: 2e9},
		{Name: "replay", StartNS: 4e9}}
	capacity, alone := 1.8*rate, rate
	r := &result.Replay{
		Trace: result.ReplayTrace{File: "conversation.jsonl", Format: "mooncake", Requests: requests + 7,
			Outside: 4, Empty: 3, GridNS: tick * 100, ToS: float64(requests) / perTick * 3},
		Prefill: result.ReplayWorkers{N: 2, TP: 2}, Decode: result.ReplayWorkers{N: 2, TP: 2},
		Model: "Qwen3-32B", DType: "bf16", Routing: "round-robin", Moved: "prompt", SpeedUp: 100,
		Scale: 0.01, FLOPS: 400e12, Op: "READ", ZeroNS: 4e9, Alone: &alone, Capacity: &capacity,
		Fit: &result.ReplayFit{AlphaNS: alpha, Rate: rate, R2: 0.999},
	}
	random, free, q := rand.New(rand.NewPCG(1, 2)), [2]float64{}, &r.Requests
	for i := range requests {
		due := int64(i/perTick) * tick
		bytes := int64(1.8e6 * math.Exp(0.8*random.NormFloat64()))
		posted := due + 5000 + int64(20_000*random.ExpFloat64())
		free[i%2] = max(free[i%2], float64(posted)) + alpha + float64(bytes)*1e9/rate
		q.Index, q.Prefill, q.Decode = append(q.Index, i), append(q.Prefill, i/2%2), append(q.Decode, i%2)
		q.Tokens, q.Bytes = append(q.Tokens, bytes/262), append(q.Bytes, bytes)
		q.Due, q.Admitted = append(q.Due, due), append(q.Admitted, due)
		q.Posted, q.Done = append(q.Posted, posted), append(q.Done, int64(free[i%2]))
		q.Late = append(q.Late, posted-due)
		q.PrefillNS = append(q.PrefillNS, bytes*4)
		if i < 5 {
			alone := result.ReplayAlone{Request: i, Bytes: bytes, NS: int64(alpha) + bytes, Runs: 5}
			r.Isolated = append(r.Isolated, alone)
		}
	}
	d.Replay = r
	SumUp(r, 1e6)
	return d
}

// SumUp works out the figures of the whole from the columns of the requests; limit is that of lateness, in nanoseconds.
func SumUp(r *result.Replay, limit int64) {
	q, n := &r.Requests, len(r.Requests.Index)
	transfer := func(i int) float64 {
		if q.Done[i] < 0 {
			return math.NaN()
		}
		return float64(q.Done[i] - q.Posted[i])
	}
	times := func(at func(int) float64) *result.ReplayTimes { return result.ReplayTimesOf(known(n, at)) }
	shares := func(at func(int) float64) *result.ReplayShares { return result.ReplaySharesOf(known(n, at)) }
	r.Latency, r.Transfer, r.Queue = times(r.LatencyNS), times(transfer), times(r.WaitNS)
	r.Slowdown = nil
	if r.Fit != nil {
		alone := func(i int) float64 { return r.Fit.AlphaNS + float64(q.Bytes[i])*1e9/r.Fit.Rate }
		r.Slowdown = shares(func(i int) float64 { return transfer(i) / alone(i) })
	}
	r.Share = shares(func(i int) float64 { return r.LatencyNS(i) / (r.LatencyNS(i) + float64(q.PrefillNS[i])) })
	late := known(n, r.LateNS)
	l := result.ReplayTimesOf(late)
	r.Lateness = result.ReplayLateness{P50NS: l.P50NS, P99NS: l.P99NS, MaxNS: l.MaxNS, LimitNS: limit,
		Posts: int64(len(late)), Valid: l.P99NS <= limit, OfGap: 0.01}
	kept, _ := slices.BinarySearch(late, float64(limit+1)) // sorted by now
	r.Lateness.Late = int64(len(late) - kept)
	r.Lateness.Stalls = min(r.Lateness.Late, 1)
	r.SpanNS, r.DrainNS, r.Bytes, r.Done = q.Due[n-1], 0, 0, 0
	var carried int64
	for i, done := range q.Done {
		r.Bytes += q.Bytes[i]
		if done >= 0 {
			r.Done, r.DrainNS = r.Done+1, max(r.DrainNS, done-r.SpanNS)
		}
		if done >= 0 && done <= r.SpanNS {
			carried += q.Bytes[i]
		}
	}
	seconds := float64(r.SpanNS) / 1e9
	r.Offered, r.Carried, r.Scales = float64(r.Bytes)/seconds, float64(carried)/seconds, []result.ReplayScale{}
	for _, window := range []float64{0.1, 1, 10, 60} {
		if window <= seconds {
			r.Scales = append(r.Scales, scaleOf(r, window))
		}
	}
}

// known are the values of so many requests that are known.
func known(n int, at func(int) float64) (list []float64) {
	for i := range n {
		if v := at(i); !math.IsNaN(v) {
			list = append(list, v)
		}
	}
	return list
}

// scaleOf sums up windows of one length, of which the last begins before the span ends.
func scaleOf(r *result.Replay, window float64) result.ReplayScale {
	s := result.ReplayScale{WindowS: window, Windows: int(math.Ceil(float64(r.SpanNS) / 1e9 / window))}
	due, done, rank := make([]float64, s.Windows+1), make([]float64, s.Windows+1), make([]float64, s.Windows+1)
	at := func(ns int64) int { return min(max(int(float64(ns)/1e9/window), 0), s.Windows) }
	for i, bytes := range r.Requests.Bytes {
		rate := float64(bytes) / window
		due[at(r.Requests.Due[i])] += rate
		if r.Requests.Done[i] >= 0 {
			done[at(r.Requests.Done[i])] += rate
		}
		if r.Requests.Decode[i] == 0 {
			rank[at(r.Requests.Due[i])] += rate / float64(r.Decode.TP)
		}
	}
	s.Offered, s.Carried, s.PerRank = slices.Max(due), slices.Max(done), slices.Max(rank)
	if r.Capacity != nil {
		s.Capacity = s.Offered / *r.Capacity
		for _, rate := range due[:s.Windows] {
			if rate > *r.Capacity {
				s.Over++
			}
		}
	}
	return s
}
