package report

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
	"perigee/internal/serving/judge"
	"perigee/internal/serving/probe"
)

// The result of a case is one of perigee, whatever is known of its job.
func TestResult(t *testing.T) {
	tree, err := conf.FromPlain("a.yaml", map[string]any{"benchmark": map[string]any{"concurrency_list": "1"}})
	must.Do(t, err)
	level := judge.Level{Concurrency: 4, Complete: true, Metrics: map[string]float64{"SERVER_MEDIAN_TTFT": 131.42}}
	many := slices.Repeat([]judge.Level{level}, result.MaxMetrics+1)
	for i := range many {
		many[i].Concurrency += i
	}
	for nodes, levels := range map[string][]judge.Level{"": {level}, "node[1-3]": {level}, "(null)][": {level}, "node7": many, "node8": {level, level}} {
		path := filepath.Join(t.TempDir(), "result.json")
		c := judge.Case{ID: "disagg_perf_a", Nodes: nodes, Began: time.Now(), Ended: time.Now(), Probe: &probe.Result{Error: "none"},
			Verdict: &judge.Verdict{Levels: levels, State: judge.Passed, Reasons: []string{}}}
		must.Do(t, WriteResult(path, &c, tree))
		text := must.Read(t, path)
		if err := resulttest.Validate(text); err != nil {
			t.Errorf("%q: %v", nodes, err)
		}
		d, err := result.Read(path)
		if err != nil || len(d.Metrics) != min(distinct(levels), result.MaxMetrics) || len(d.Tables[0].Rows) != len(levels) || d.Metrics[0].Name != "SERVER_MEDIAN_TTFT_c4" || d.Metrics[0].Values[0] != 131.42 {
			t.Errorf("%q: %v, %+v", nodes, err, d)
		}
	}
}

// A result, which people show each other, has the configuration without secrets; the configuration stays as it is.
func TestSecretsInResults(t *testing.T) {
	tree, err := conf.FromPlain("a.yaml", map[string]any{"job": map[string]any{"client": "curl http://me:hidden@host/x",
		"env": map[string]any{"HF_TOKEN": "hidden", "A": "shown"}}})
	must.Do(t, err)
	path := filepath.Join(t.TempDir(), "result.json")
	must.Do(t, WriteResult(path, &judge.Case{Verdict: &judge.Verdict{Reasons: []string{}}}, tree))
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), "hidden") || !strings.Contains(string(text), "shown") {
		t.Errorf("%v\n%s", err, text)
	}
	d, err := result.Read(path)
	if err != nil || d.Scenario.SHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte(d.Scenario.Source))) {
		t.Errorf("%v: %+v", err, d.Scenario)
	}
	if got := tree.Get("job").Get("env").Get("HF_TOKEN").Text(); got != "hidden" {
		t.Errorf("the configuration has %q", got)
	}
}

// Units and directions are those that are known.
func TestUnitsOfMetrics(t *testing.T) {
	tree, err := conf.FromPlain("a.yaml", map[string]any{})
	must.Do(t, err)
	path := filepath.Join(t.TempDir(), "result.json")
	level := judge.Level{Concurrency: 4, Complete: true, Metrics: map[string]float64{"SERVER_MEDIAN_TTFT": 1, "TPS": 2, "KV_HITS": 3}}
	must.Do(t, WriteResult(path, &judge.Case{Verdict: &judge.Verdict{Levels: []judge.Level{level}, Reasons: []string{}}}, tree))
	d, err := result.Read(path)
	must.Do(t, err)
	got := map[string]string{}
	for _, m := range d.Metrics {
		got[m.Help] = m.Better
	}
	must.Equal(t, map[string]string{"SERVER_MEDIAN_TTFT at concurrency 4, ms": "lower", "TPS at concurrency 4": "higher", "KV_HITS at concurrency 4": ""}, got)
}

// distinct is how many levels have different concurrencies: one that was run twice is twice in the table only.
func distinct(levels []judge.Level) int {
	seen := map[int]bool{}
	for _, l := range levels {
		seen[l.Concurrency] = true
	}
	return len(seen)
}
