package disagg

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"perigee/internal/conf"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
	"perigee/tools/disagg/probe"
	"perigee/tools/disagg/verdict"
)

// The result of a case is one of perigee, whatever is known of its job.
func TestResult(t *testing.T) {
	tree, err := conf.FromPlain("a.yaml", map[string]any{"benchmark": map[string]any{"concurrency_list": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	level := verdict.Level{Concurrency: 4, Complete: true, Metrics: map[string]float64{"SERVER_MEDIAN_TTFT": 131.42}}
	for _, nodes := range []string{"", "node[1-3]", "(null)]["} {
		path := filepath.Join(t.TempDir(), "result.json")
		c := Case{ID: "disagg_perf_a", Nodes: nodes, Began: time.Now(), Ended: time.Now(), Probe: &probe.Result{Error: "none"},
			Verdict: &verdict.Verdict{Levels: []verdict.Level{level}, State: verdict.Passed, Reasons: []string{}}}
		if err := writeResult(path, c, tree); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := resulttest.Validate(text); err != nil {
			t.Errorf("%q: %v", nodes, err)
		}
		d, err := result.Read(path)
		if err != nil || len(d.Metrics) != 1 || d.Metrics[0].Name != "SERVER_MEDIAN_TTFT_c4" || d.Metrics[0].Values[0] != 131.42 {
			t.Errorf("%q: %v, %+v", nodes, err, d)
		}
	}
}
