package figures

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
)

// Who is waited for, if the measurement names it, and the best bandwidth.
func TestFindingsOfExperts(t *testing.T) {
	plane := func(entry, verdict, named string, rate float64) any {
		return map[string]any{
			"mode": "e2e", "entry": entry, "tokens": 64., "hidden": 1024., "verdict": verdict, "named": named,
			"gb_per_s": map[string]any{"assignment": rate},
		}
	}
	d := handMade()
	d.Measurements = nil
	d.Values = map[string]any{"ep": []any{
		plane("fresh", "dispatch: all wait for rank 2 (n): 90.0 us, 4.0 times as long as the others on average", "all wait for rank 2 (n)", 0.01234),
		plane("steady", "no rank was waited for much more than the others", "", 0.01),
	}}
	f, err := Of(d)
	must.Do(t, err)
	want := []Finding{
		{Level: "bad", Text: "e2e, fresh, 64 tokens: dispatch: all wait for rank 2 (n): 90.0 us, 4.0 times as long as the others on average."},
		{Level: "note", Text: "The best bandwidth of a rank is 12.3 MB/s by assignment: e2e, fresh, 64 tokens of 1024 channels."},
	}
	if !slices.Equal(f.Findings, want) {
		t.Errorf("got %q", f.Findings)
	}
}

// plane is a measurement of a data plane, as scenarios keep it: times in us, a rate in GB/s.
func plane(entry string, tokens, mean, wait float64) map[string]any {
	return map[string]any{
		"mode": "e2e", "entry": entry, "tokens": tokens, "hidden": 1024., "experts_per_rank": 8., "topk": 2.,
		"gb_per_s": map[string]any{"assignment": 100 / mean}, "latency_us": map[string]any{"avg": mean}, "shares": map[string]any{"wait": wait},
		"slowest_us": map[string]any{"p50": mean + 1, "p99": 2 * mean}, "rank_load": []any{tokens, tokens + 1},
	}
}

func TestExpertsCharts(t *testing.T) {
	d := handMade()
	d.Measurements = nil
	d.Values = map[string]any{"ep": []any{plane("fresh", 64, 100, 0.2), plane("steady", 64, 200, 0.5), plane("fresh", 128, 400, 0.2), plane("steady", 128, 401, 0.2)}}
	a := answer(t, d)
	var got []string
	for _, c := range a.Charts {
		for _, s := range c.Series {
			got = append(got, c.Title+", "+show(s))
		}
	}
	if diff := cmp.Diff([]string{
		"Bandwidth of a rank, e2e, fresh 64:1e+09 128:2.5e+08", "Bandwidth of a rank, e2e, steady 64:5e+08 128:2.494e+08",
		"Time of an iteration, e2e, fresh 64:1.01e+05(1.01e+05..2e+05) 128:4.01e+05(4.01e+05..8e+05)",
		"Time of an iteration, e2e, steady 64:2.01e+05(2.01e+05..4e+05) 128:4.02e+05(4.02e+05..8.02e+05)",
		"Load of each rank, tokens 64 0:64 1:65", "Load of each rank, tokens 128 0:128 1:129",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// 200 x 0.5 - 100 x 0.2 us of the 100 us between them.
	const why = "Steady iterations (e2e, 64 tokens) take 100 \u00b5s longer than fresh ones, 80.0 \u00b5s of that in waits for messages of others: without a barrier before each, waits pass on to the next iteration."
	if a.Why != why || a.Sentence != "The best bandwidth of a rank is 1.00 GB/s by assignment: e2e, fresh, 64 tokens of 1024 channels, 100 \u00b5s an iteration." {
		t.Errorf("%s\n%s", a.Sentence, a.Why)
	}
	d.Values["ep"] = []any{plane("fresh", 64, 100, 0.2), plane("steady", 64, 200, 0.2)}
	a = answer(t, d)
	if !strings.HasSuffix(a.Why, "take 100 \u00b5s longer than fresh ones, 20.0 \u00b5s of that in waits for messages of others.") || a.Charts[0].X.Words[0] != "e2e" || show(a.Charts[0].Series[1]) != "steady 0:5e+08" {
		t.Errorf("waits do not explain it, and one size: %+v", a)
	}
}

func TestOtherExperts(t *testing.T) {
	d := handMade()
	d.Measurements = nil
	phase := func(means ...float64) any {
		var ranks, present []any
		for i, m := range means {
			ranks, present = append(ranks, map[string]any{"mean_us": m}), append(present, float64(i))
		}
		return map[string]any{"by_rank": ranks, "present": present}
	}
	deadly := phase(7, 8).(map[string]any)
	deadly["killed"] = []any{1.}
	for _, c := range []struct {
		key      string
		value    any
		sentence string
		chart    string
	}{
		{"ep_control", map[string]any{"ranks": 4., "experts_per_rank": 8., "rounds": 3., "phases": []any{map[string]any{"phase": "init", "slowest_ms": 2.}, map[string]any{"phase": "connect", "slowest_ms": 0.5}}},
			"4 ranks, 8 experts each, the slowest rank of a round: init 2.00 ms, connect 500 \u00b5s. Rounds: 3.", "Control plane: init connect; 4 ranks, 8 experts each 0:2e+06 1:5e+05"},
		{"ep_elastic", map[string]any{"phases": []any{phase(10, 30, 20), phase(0, 5), phase(0), deadly}},
			"Mean iteration of the slowest rank: phase 1 with 3 ranks 30.0 \u00b5s, phase 2 with 2 ranks 5.00 \u00b5s, phase 4 with 2 ranks (1 killed) 8.00 \u00b5s.", "Iterations by phase: phase 1 with 3 ranks phase 2 with 2 ranks phase 4 with 2 ranks (1 killed); slowest rank 0:3e+04 1:5000 2:8000"},
		{"ep_beside", map[string]any{"slowdown": 1.5, "other_slowdown": 3., "alone_us": 10., "beside_us": 15., "other_alone_us": 1., "other_beside_us": 3., "busy_us": 14.},
			"An iteration of the experts takes 1.50 times as long beside KV transfers as alone (1.40 times beside a thread that only polls), a KV transfer 3.00 times as long beside them.",
			""},
		{"ep_beside", map[string]any{"slowdown": 3.1, "other_slowdown": 3., "alone_us": 10., "beside_us": 31., "other_alone_us": 1., "other_beside_us": 3., "busy_us": 49.1},
			"An iteration of the experts takes 3.10 times as long beside KV transfers as alone (4.91 times beside a thread that only polls, so nothing can be said of what the traffic costs), a KV transfer 3.00 times as long beside them.",
			""},
		{"ep_beside", map[string]any{"slowdown": 3., "other_slowdown": 3.1, "alone_us": 10., "beside_us": 30., "busy_us": 5., "other_alone_us": 10., "other_beside_us": 31., "other_busy_us": 49.1},
			"An iteration of the experts takes 3.00 times as long beside KV transfers as alone (0.50 times beside a thread that only polls: something else made it slow alone, so nothing can be said of what the traffic costs), a KV transfer 3.10 times as long beside them (4.91 times beside a thread that only polls, so nothing can be said of what the traffic costs).",
			""},
		{"ep_beside", map[string]any{"slowdown": 0.9, "other_slowdown": 2., "alone_us": 10., "beside_us": 9., "busy_us": 8., "other_alone_us": 10., "other_beside_us": 20., "other_busy_us": 9.8},
			"An iteration of the experts takes 0.90 times as long beside KV transfers as alone (0.80 times beside a thread that only polls: something else made it slow alone, so nothing can be said of what the traffic costs), a KV transfer 2.00 times as long beside them (0.98 times beside a thread that only polls).",
			""},
	} {
		d.Values = map[string]any{c.key: []any{c.value, "no object", nil}}
		a := answer(t, d)
		if len(a.Charts) != min(len(c.chart), 1) || a.Sentence != c.sentence {
			t.Fatalf("%s: %+v", c.key, a)
		}
		if c.chart == "" {
			continue
		}
		chart := a.Charts[0]
		if got := chart.Title + ": " + strings.Join(chart.X.Words, " ") + "; " + show(chart.Series[0]); got != c.chart {
			t.Errorf("%s: %s\nwant %s", c.key, got, c.chart)
		}
	}
	for _, junk := range []any{nil, 3., "x", []any{map[string]any{}}, []any{map[string]any{"tokens": []any{1.}, "mode": map[string]any{}, "rank_load": []any{"x", nil}, "phases": []any{nil, map[string]any{}}}}} {
		d.Values = map[string]any{"ep": junk, "ep_control": junk, "ep_elastic": junk, "ep_beside": junk}
		answer(t, d) // must not panic
	}
}
