package result_test

import (
	"strings"
	"testing"

	"perigee/internal/result"
)

// fullReplay returns a replay in which every field is set.
func fullReplay() *result.Replay {
	rate, times, shares := 2e9, &result.ReplayTimes{1, 2, 3, 4}, &result.ReplayShares{0.1, 0.2, 0.3, 0.4}
	return &result.Replay{
		Trace:   result.ReplayTrace{File: "t.jsonl", SHA256: strings.Repeat("0a", 32), Format: "Mooncake JSON lines", Requests: 2, Outside: 1, Empty: 1, GridNS: 3e9, FromS: 1, ToS: 9},
		Prefill: result.ReplayWorkers{N: 4, TP: 8}, Decode: result.ReplayWorkers{N: 4, TP: 8}, Model: "m", DType: "bf16", Routing: "round-robin", Moved: "miss",
		SpeedUp: 2, Scale: 0.5, Spread: true, FLOPS: 4e14, Waits: true, Op: "READ", InFlight: 3, Copies: true,
		ZeroNS: 5, SpanNS: 10e9, DrainNS: 1e6, Bytes: 20e9, Done: 1, Offered: 2e9, Carried: 1.9e9, Alone: &rate, Capacity: &rate, Stretches: []float64{2e9},
		Scales:   []result.ReplayScale{{WindowS: 0.1, Offered: 1, Carried: 1, PerRank: 1, Capacity: 0.5, Over: 1, Windows: 2}},
		Lateness: result.ReplayLateness{P50NS: 1, P99NS: 2, MaxNS: 3, LimitNS: 1e6, Posts: 4, Late: 1, Stalls: 1, OfGap: 0.1, Valid: true},
		Queue:    times, Latency: times, Transfer: times, Share: shares, Slowdown: shares, Fit: &result.ReplayFit{AlphaNS: 1, Rate: 1, R2: 1},
		Requests: result.ReplayRequests{Index: []int{0}, Prefill: []int{0}, Decode: []int{1}, Tokens: []int64{5}, Bytes: []int64{7}, Due: []int64{0}, Admitted: []int64{1}, Posted: []int64{1}, Late: []int64{1}, Done: []int64{9}, PrefillNS: []int64{9}},
		Isolated: []result.ReplayAlone{{Request: 0, Bytes: 7, NS: 3, Runs: 2}},
	}
}

// The answer begins with the finding, says then whether it counts, and has no verdict on an invalid run, or near the
// capacity.
func TestReplayAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *result.Replay)
		want   []string
	}{
		"not saturated": {func(r *result.Replay) { *r.Capacity = 40e9 }, []string{
			"peaks ask for 3 x the capacity in 0.1 s (1 of 2 windows are beyond it), 0.5 x the capacity in 1 s",
			"offered 2.00 GB/s, carried 1.90 GB/s, capacity 40.0 GB/s: not saturated, 0.05 of the capacity on average"}},
		"invalid, peaks": {func(r *result.Replay) { *r.Capacity, r.Lateness.Valid = 40e9, false }, []string{
			"peaks ask for 3 x the capacity in 0.1 s (1 of 2 windows are beyond it), 0.5 x the capacity in 1 s",
			"INVALID", "offered 2.00 GB/s, carried 1.90 GB/s, capacity 40.0 GB/s"}},
		"no peaks": {func(r *result.Replay) { *r.Capacity, r.Scales[0].Over = 400e9, 0 }, []string{
			"offered 2.00 GB/s, carried 1.90 GB/s, capacity 400 GB/s: not saturated, 0.005 of the capacity on average",
			"peaks ask for 0.3 x the capacity in 0.1 s, 0.05 x the capacity in 1 s"}},
		"part of the load": {func(r *result.Replay) { *r.Capacity, r.Scale, r.SpeedUp = 40e9, 0.001, 100 }, []string{
			"peaks of this replay ask for 3 x the capacity in 0.1 s (1 of 2 windows are beyond it), 0.5 x the capacity in 1 s; 0.1 s of the replay are 10 s of the trace",
			"offered 2.00 GB/s, carried 1.90 GB/s, capacity 40.0 GB/s: not saturated by this replay, 0.05 of the capacity on average",
			"this replay is 0.1 of the trace's load (scale 0.001, 100 x its speed): in full it asks for 20.0 GB/s, 0.5 x the capacity, on average"}},
		"faster": {func(r *result.Replay) { r.Capacity, r.SpeedUp, r.Scales[0].Over = nil, 2.5, 0 }, []string{"offered 2.00 GB/s, carried 1.90 GB/s",
			"this replay is 2.5 of the trace's load (scale 1, 2.5 x its speed): in full it asks for 800 MB/s on average",
			"peaks of this replay ask for 60 x the mean in 0.1 s, 10 x the mean in 1 s; 0.1 s of the replay are 0.25 s of the trace"}},
		"as much": {func(r *result.Replay) { r.Capacity, r.SpeedUp, r.Scale, r.Scales[0].Over = nil, 100, 0.01, 0 }, []string{
			"offered 2.00 GB/s, carried 1.90 GB/s", "peaks ask for 60 x the mean in 0.1 s, 10 x the mean in 1 s; 0.1 s of the replay are 10 s of the trace"}},
		"near": {func(r *result.Replay) {}, []string{
			"offered 2.00 GB/s, carried 1.90 GB/s, capacity 2.00 GB/s: near its capacity, 1.00 of it on average"}},
		"saturated": {func(r *result.Replay) { r.Offered = 5e9 }, []string{
			"offered 5.00 GB/s, carried 1.90 GB/s, capacity 2.00 GB/s: saturated, 2.5 x the capacity on average"}},
		"held back": {func(r *result.Replay) { *r.Capacity, r.Carried, r.DrainNS = 40e9, 1e9, 2e9 }, []string{
			"peaks ask for 3 x the capacity in 0.1 s (1 of 2 windows are beyond it), 0.5 x the capacity in 1 s",
			"offered 2.00 GB/s, carried 1.00 GB/s, capacity 40.0 GB/s: the network has room, 0.05 of the capacity is asked for on average, but single ranks or --in-flight hold transfers back: 2s of drain"}},
		"no capacity": {func(r *result.Replay) { r.Capacity = nil; r.Scales[0].Over = 0; r.Scales[0].Offered = 240e9 }, []string{
			"offered 2.00 GB/s, carried 1.90 GB/s", "peaks ask for 120 x the mean in 0.1 s, 10 x the mean in 1 s"}},
		"carried more": {func(r *result.Replay) { r.Scales[0].Carried = 2.6e9 }, []string{
			"offered 2.00 GB/s, carried 1.90 GB/s, capacity 2.00 GB/s: no verdict",
			"in 0.1 s up to 2.60 GB/s were carried, 1.3 x the capacity as it was measured before, so that is too low: --capacity measures it for longer"}},
		"carried more, invalid": {func(r *result.Replay) { r.Scales[0].Carried, r.Lateness.Valid = 2.6e9, false }, []string{
			"offered 2.00 GB/s, carried 1.90 GB/s, capacity 2.00 GB/s", "INVALID", "in 0.1 s up to 2.60 GB/s were carried, 1.3 x"}},
		"stretches": {func(r *result.Replay) { r.Offered, r.Stretches = 2.8e9, []float64{2e9, 900e6, 2.5e9} }, []string{
			"offered 2.80 GB/s, carried 1.90 GB/s, capacity 2.00 GB/s (900 MB/s to 2.50 GB/s in 3 stretches): no verdict, since the capacity varies: 1.40 of it on average"}},
		"stretches, in part": {func(r *result.Replay) { r.Stretches, r.Scale, r.SpeedUp = []float64{2e9, 900e6, 2.5e9}, 0.1, 2 }, []string{
			"offered 2.00 GB/s, carried 1.90 GB/s, capacity 2.00 GB/s (900 MB/s to 2.50 GB/s in 3 stretches): near its capacity, 1.00 of it on average",
			"this replay is 0.2 of the trace's load (scale 0.1, 2 x its speed): in full it asks for 10.0 GB/s, 4 to 11 x the capacity, on average"}},
		"empty stretch": {func(r *result.Replay) { r.Stretches, r.Scale, r.SpeedUp = []float64{2e9, 0, 2.5e9}, 0.1, 2 }, []string{
			"offered 2.00 GB/s, carried 1.90 GB/s, capacity 2.00 GB/s (0 B/s to 2.50 GB/s in 3 stretches): near its capacity, 1.00 of it on average",
			"this replay is 0.2 of the trace's load (scale 0.1, 2 x its speed): in full it asks for 10.0 GB/s, at least 4 x the capacity, on average"}},
		"peaks within the best stretch": {func(r *result.Replay) { *r.Capacity, r.Stretches = 90e9, []float64{60e9, 90e9, 130e9} }, []string{
			"offered 2.00 GB/s, carried 1.90 GB/s, capacity 90.0 GB/s (60.0 to 130 in 3 stretches): not saturated, 0.022 of the capacity on average",
			"peaks ask for 1.3 x the capacity in 0.1 s (1 of 2 windows are beyond it), 0.22 x the capacity in 1 s"}},
		"a stretch below the mean": {func(r *result.Replay) { r.Offered, r.Stretches = 1.9e9, []float64{1.8e9, 2.1e9, 2e9} }, []string{
			"offered 1.90 GB/s, carried 1.90 GB/s, capacity 2.00 GB/s (1.80 to 2.10 in 3 stretches): near its capacity, 0.95 of it on average"}},
		"a part at its speed": {func(r *result.Replay) { r.Capacity, r.Scale, r.Scales[0].Over = nil, 0.1, 0 }, []string{
			"offered 2.00 GB/s, carried 1.90 GB/s",
			"this replay is 0.1 of the trace's load (scale 0.1): in full it asks for 20.0 GB/s on average"}},
		"low stretch": {func(r *result.Replay) { r.Offered, r.Stretches = 1e9, []float64{1.2e9, 2.5e9, 2e9} }, []string{
			"peaks ask for 60 x the capacity in 0.1 s (1 of 2 windows are beyond it), 10 x the capacity in 1 s",
			"offered 1.00 GB/s, carried 1.90 GB/s, capacity 2.00 GB/s (1.20 to 2.50 in 3 stretches): no verdict, since the capacity varies: 0.50 of it on average"}},
		"invalid": {func(r *result.Replay) { r.Lateness.Valid, r.Lateness.P99NS = false, 12345678 }, []string{
			"offered 2.00 GB/s, carried 1.90 GB/s, capacity 2.00 GB/s",
			"INVALID: posts came too late: p99 12.3ms of 4, wanted at most 1ms (--max-late); at most 3ns; stalls: 1. "}},
		"part": {func(r *result.Replay) {
			r.Done, r.Requests.Done, r.Requests.Bytes, r.Bytes = 1, []int64{7, -1, -1}, []int64{2e9, 3e9, 4e9}, 9e9
		}, []string{"in the first 10s offered 2.00 GB/s, carried 1.90 GB/s, capacity 2.00 GB/s: near its capacity, 1.00 of it on average", "1 of 3 requests are complete (2.00 GB of 9.00 GB)"}},
		"hardly begun": {func(r *result.Replay) { r.Done, r.SpanNS, r.Bytes, r.Requests.Due[0] = 0, 0, 7, 5 }, []string{
			"0 of 1 requests are complete (7 B of 7 B), too few for figures"}},
		"invalid inside a host": {func(r *result.Replay) { r.Lateness.Valid, r.Lateness.P99NS, r.Copies = false, 12345678, true }, []string{
			"offered 2.00 GB/s, carried 1.90 GB/s, capacity 2.00 GB/s",
			"INVALID: posts came too late: p99 12.3ms of 4, wanted at most 1ms (--max-late); at most 3ns; stalls: 1. This was not the trace's load: UCX copies inside a host"}},
		"at once": {func(r *result.Replay) { r.SpanNS = 0 }, []string{"20.0 GB were due at once, which is no rate; all was done after 1ms"}},
		"at once, cut off": {func(r *result.Replay) { r.SpanNS, r.DrainNS, r.Done = 0, 0, 0 }, []string{
			"20.0 GB were due at once, which is no rate; 0 of 1 requests were done"}},
		"nothing": {func(r *result.Replay) { r.Lateness = result.ReplayLateness{Valid: true} }, []string{"nothing was played"}},
	} {
		r := fullReplay()
		r.Scales = []result.ReplayScale{{WindowS: 0.1, Offered: 120e9, Over: 1, Windows: 2}, {WindowS: 1, Offered: 20e9, Windows: 1}}
		r.SpeedUp, r.Scale, r.Stretches, r.Copies = 1, 1, nil, false
		c.change(r)
		got := r.Answer()
		for i, want := range c.want {
			exact := !strings.HasPrefix(want, "INVALID") && i != 2 || !strings.Contains(name, "invalid") // has advice as well
			if i >= len(got) || exact && got[i] != want || !strings.HasPrefix(got[i], want) {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
				break
			}
		}
	}
}
