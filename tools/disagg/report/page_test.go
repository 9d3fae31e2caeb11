package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
	"perigee/internal/serving/judge"
)

// The trade-off is that of medians, and of runs that count.
func TestTrades(t *testing.T) {
	run := func(id string, gpus int, tpot, throughput float64, sound bool) judge.Case {
		v := judge.Verdict{Levels: []judge.Level{{Concurrency: 4, Complete: true, Metrics: map[string]float64{"SERVER_MEDIAN_TPOT": tpot}, Throughput: throughput},
			{Concurrency: 8, Metrics: map[string]float64{"SERVER_MEDIAN_TPOT": 1}, Throughput: 9999}}}
		if !sound {
			v.Reasons = []string{"level 4: no token was generated"}
		}
		return judge.Case{ID: id, GPUs: gpus, Verdict: &v}
	}
	cases := []judge.Case{run("a", 2, 10, 100, true), run("a", 2, 20, 400, true), run("a", 2, 5, 300, true), run("b", 2, 20, 90, true), run("lies", 0, 1, 99999, false)}
	want := []trade{{Case: "a", Concurrency: 4, X: 100, Y: 150, Front: true}, {Case: "b", Concurrency: 4, X: 50, Y: 45}}
	got, perGPU := trades(cases)
	if diff := cmp.Diff(want, got); diff != "" || !perGPU {
		t.Errorf("per GPU: %v\n%s", perGPU, diff)
	}
	cases[4].State = judge.Failed
	said := []string{"The highest output rate is that of a at concurrency 4: 150 tokens/s per GPU (medians of 3 runs).",
		"3 cases in 5 runs; failed: lies."}
	must.Equal(t, said, Answer(cases))
	cases[0].GPUs = 0
	want[0].Y, want[1].Y = 300, 90
	got, perGPU = trades(cases)
	if diff := cmp.Diff(want, got); diff != "" || perGPU {
		t.Errorf("per GPU: %v\n%s", perGPU, diff)
	}
}
