package page

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/fault"
	"perigee/tools/disagg/history"
)

// The trade-off is that of medians, and of runs that count.
func TestTrades(t *testing.T) {
	run := func(id string, gpus int, tpot, throughput float64, sound bool) Case {
		return Case{ID: id, GPUs: gpus, Sound: sound, Levels: []Level{{Concurrency: 4, Complete: true, Metrics: map[string]float64{"SERVER_MEDIAN_TPOT": tpot}, Throughput: throughput},
			{Concurrency: 8, Metrics: map[string]float64{"SERVER_MEDIAN_TPOT": 1}, Throughput: 9999}}}
	}
	cases := []Case{run("a", 2, 10, 100, true), run("a", 2, 20, 400, true), run("a", 2, 5, 300, true), run("b", 2, 20, 90, true), run("lies", 0, 1, 99999, false)}
	want := []trade{{Case: "a", Concurrency: 4, X: 100, Y: 150, Front: true}, {Case: "b", Concurrency: 4, X: 50, Y: 45}}
	got, perGPU := trades(cases)
	if diff := cmp.Diff(want, got); diff != "" || !perGPU {
		t.Errorf("per GPU: %v\n%s", perGPU, diff)
	}
	cases[0].GPUs = 0
	want[0].Y, want[1].Y = 300, 90
	got, perGPU = trades(cases)
	if diff := cmp.Diff(want, got); diff != "" || perGPU {
		t.Errorf("per GPU: %v\n%s", perGPU, diff)
	}
}

// A page has no more text than its reader and the machine can take.
func TestSizeIsBounded(t *testing.T) {
	long := strings.Repeat("<", most/4+1)
	for what, write := range map[string]func() error{
		"reasons": func() error {
			return Write(io.Discard, []Case{{Reasons: []string{long, long}, Warnings: []string{long, long}}}, nil, Options{})
		},
		"names": func() error {
			return Write(io.Discard, []Case{{ID: long, Job: long}, {Detail: long, Nodes: long}}, nil, Options{})
		},
		"cases": func() error { return Write(io.Discard, make([]Case, most/64+1), nil, Options{}) },
		"figures": func() error {
			return Write(io.Discard, nil, []history.Series{{Key: history.Key{Test: long, Metric: long}}, {Key: history.Key{Test: long, Metric: long}}}, Options{})
		},
	} {
		if err := write(); fault.KindOf(err) != fault.Input || fault.HintOf(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
}
