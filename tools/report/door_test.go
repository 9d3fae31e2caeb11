package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/serving/judge"
	"perigee/internal/serving/runs/runstest"
)

// benchmarks writes 21 files of vllm bench serve in three configurations.
func benchmarks(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "release")
	for i, name := range []string{"tp4", "1p1d", "2p1d"} {
		for level := range 7 {
			runstest.VLLM(t, filepath.Join(dir, name, fmt.Sprintf("c%d.json", 1<<level)), 1<<level, 10+float64(i+level*level))
		}
	}
	return dir
}

const requests = `{"timestamp": 0, "input_length": 100, "output_length": 5}
{"timestamp": 1000, "input_length": 100, "output_length": 5}
`

// put writes a file into a new folder.
func put(t *testing.T, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Whatever a path holds is reported on: as text its first sentence answers, and a page is whole.
func TestAnyPath(t *testing.T) {
	for what, c := range map[string]struct{ path, first string }{
		"sweep":             {benchmarks(t), "best knee: tp4 at concurrency 2, 175.3 tok/s, mean E2EL 1.14 s; the highest rate is that of tp4 at concurrency 64"},
		"a log":             {"../../internal/serving/benchlog/testdata/sglang.log", "nothing to choose from; 1 of 1 run left out, for one: "},
		"folder of results": {filepath.Dir(put(t, "r.json", marshal(t, smallDocument()))), "# r.json: "},
		"trace":             {put(t, "t.jsonl", requests), "t.jsonl: 2 requests in 1 s, 200 tokens of prompts"},
		"disagg": {put(t, judge.FiguresName, "perf_case_name,perf_metric,test_name,start_timestamp,end_timestamp,total_time__sec,metric_type\n"+
			"test_benchmark[a]_con:1,12.5,test_benchmark[a]_con:1,2026-01-01 00:00:00,2026-01-01 00:01:00,60,SERVER_MEDIAN_TTFT\n"), "Test"},
	} {
		t.Run(what, func(t *testing.T) {
			text, _, err := report(t, Cmd{Results: []string{c.path}, Format: "text"})
			if err != nil || !strings.HasPrefix(strings.TrimPrefix(text, filepath.Dir(c.path)+"/"), c.first) {
				t.Fatalf("%v: %.300s", err, text)
			}
			json, _, err := report(t, Cmd{Results: []string{c.path}, Format: "json"})
			if err != nil || !strings.ContainsAny(json[:1], "[{") {
				t.Errorf("%v: %.100s", err, json)
			}
			page := filepath.Join(t.TempDir(), "p.html")
			if _, _, err := report(t, Cmd{Results: []string{c.path}, Output: page}); err != nil {
				t.Fatal(err)
			}
			if data, err := os.ReadFile(page); err != nil || !strings.HasSuffix(string(data), "</html>\n") {
				t.Errorf("%v", err)
			}
		})
	}
}

// What has no effect, what does not belong together and what is nothing are errors that say so.
func TestNoPath(t *testing.T) {
	dir, trace, empty := benchmarks(t), put(t, "t.jsonl", requests), t.TempDir()
	for want, c := range map[string]Cmd{
		"--pool has no effect: " + dir + " holds serving benchmarks":                     {Results: []string{dir, dir}, Pool: true},
		"--slo has no effect: " + trace + " holds a trace":                               {Results: []string{trace}, SLO: []string{"5ms"}},
		dir + " holds serving benchmarks, and " + trace + " a trace":                     {Results: []string{dir, trace}},
		empty + ": the folder holds no results, serving benchmarks or figures of disagg": {Results: []string{empty}},
		"--slo: wanted a time such as 50ms":                                              {Results: []string{write(t, smallDocument(), "r.json")}, SLO: []string{"P90_TTFT_ms<=5"}},
	} {
		c.Output = filepath.Join(t.TempDir(), "p.html")
		_, _, err := report(t, c)
		if err == nil || !strings.Contains(err.Error(), want) || fault.KindOf(err) != fault.Usage && fault.KindOf(err) != fault.Input {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
