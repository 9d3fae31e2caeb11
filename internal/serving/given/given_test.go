package given

import (
	"os"
	"path/filepath"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/serving/judge"
	"perigee/internal/serving/runs/runstest"
)

// Content decides, whatever a file is called; what is of no kind is left to the reader of results.
func TestOf(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	client := filepath.Join(dir, "sweep", "tp4", "c1.json")
	runstest.VLLM(t, client, 1, 10)
	figures := put("out/"+judge.FiguresName, "network_name,perf_case_name,perf_metric,x\n")
	trace := put("azure.txt", "TIMESTAMP,ContextTokens,GeneratedTokens\n")
	for path, want := range map[string]Kind{
		put("r.json", `{"schema": "perigee.result/1"}`): Result,
		client: Serving, filepath.Join(dir, "sweep"): Serving,
		"../runs/testdata/llmd": Serving,
		"../benchlog/testdata":  Serving,
		figures:                 Disagg,
		filepath.Dir(figures):   Disagg,
		filepath.Dir(filepath.Dir(filepath.Dir(put("o2/"+judge.LogsFolder+"/a/"+judge.CaseName, "{}")))): Disagg,
		trace: Trace,
		put("mooncake.json", `{"timestamp": 0, "input_length": 1, "output_length": 2}`): Trace,
		put("notes.md", "nothing"): Result, put("x.json", "{"): Result, put("empty", ""): Result,
		filepath.Join(dir, "none"): Result, t.TempDir(): Result,
		os.DevNull: Result,
	} {
		if got := Of(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	_, err := OfAll([]string{client, client, trace})
	must.Fail(t, err, fault.Usage, client+" holds serving benchmarks, and "+trace+" a trace")
}
