package runs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/expr"
	"perigee/internal/kit/must"
)

// llmd holds what llm-d's converter writes for the results of six runs, with two of which no request was answered. It
// writes each in both versions of the schema, where 0.1 can hold it, and a report of sessions beside three of them.
const llmd = "testdata/llmd"

func loaded(t *testing.T, dir string) *Loaded {
	t.Helper()
	in, err := Load([]string{dir}, DefaultLoadOptions())
	must.Do(t, err)
	return in
}

func TestEachRunOfLLMDCountsOnce(t *testing.T) {
	in := loaded(t, llmd)
	if len(in.Runs) != 6 || len(in.Skipped) != 0 || len(in.Sessions) != 6 {
		t.Fatalf("%d runs, %v skipped, sessions %v", len(in.Runs), in.Skipped, in.Sessions)
	}
	older := 0
	for _, r := range in.Runs {
		if r.Schema != "0.2" {
			t.Errorf("%s counts", r.File)
		}
		if strings.Contains(strings.Join(r.Notes, "\n"), "in version 0.1 of the schema lies beside it; only this one, 0.2, counts") {
			older++
		}
	}
	if older != 5 {
		t.Errorf("%d runs note an older report, want 5", older)
	}
}

// Where the newest report cannot be read, the older one counts, and the newest is named.
func TestOlderReportOfADamagedOne(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS(filepath.Join(llmd, "vllm", "c4"))))
	damaged := filepath.Join(dir, "benchmark_report_v0.2,_openai-c4.json.yaml")
	must.Do(t, os.WriteFile(damaged, []byte("version: '0.2'\nresults: 3\n"), 0o600))
	in := loaded(t, dir)
	if len(in.Runs) != 1 || in.Runs[0].Schema != "0.1" || len(in.Runs[0].Notes) != 0 || len(in.Skipped) != 1 || in.Skipped[0].File != damaged {
		t.Errorf("%+v, %v", in.Runs, in.Skipped)
	}
}

// Different runs may lie in one folder: those of other stems and of one schema.
func TestStems(t *testing.T) {
	for name, want := range map[string]string{
		"a/benchmark_report,_x.json.yaml":      "a/,_x.json",
		"a/benchmark_report_v0.2,_x.json.yaml": "a/,_x.json",
		"a/benchmark_report_v0.2.1,_x.json":    "a/,_x",
		"b/benchmark_report_v0.2.yaml":         "b",
		"b/benchmark_report_stage_3.yml":       "b/_stage_3",
	} {
		if got := stem(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// A run whose requests all failed stays a row of its scenario, without latencies.
func TestAllRequestsFailed(t *testing.T) {
	in := loaded(t, llmd)
	scenarios := Scenarios(in.Runs)
	if len(scenarios) != 2 {
		t.Fatalf("%d scenarios", len(scenarios))
	}
	for i, want := range []map[string]any{
		{"Failures": int64(500), "Total_Requests": int64(500), "ISL": int64(1000), "OSL": int64(100), "Mean_TTFT_ms": nil, "Mean_OSL": nil, "Thpt_per_GPU": int64(0)},
		{"Failures": int64(2500), "Total_Requests": int64(2500), "ISL": int64(2260), "OSL": int64(990), "Mean_TTFT_ms": nil, "Mean_OSL": nil, "Thpt_per_GPU": nil},
	} {
		if len(scenarios[i].Runs) != 3 {
			t.Fatalf("%s: %d runs", scenarios[i].Key, len(scenarios[i].Runs))
		}
		last := scenarios[i].Runs[2]
		got := map[string]any{}
		for name := range want {
			c, err := Find(name)
			must.Do(t, err)
			got[name] = c.Of(last).Plain()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", last.File, diff)
		}
		if !strings.Contains(strings.Join(last.Notes, "\n"), "no request was answered; ISL and OSL are those of the other runs") {
			t.Errorf("%s: %q", last.File, last.Notes)
		}
	}
}

// Where several scenarios fit, the folder decides; where it does not, the lengths stay unknown.
func TestAdoption(t *testing.T) {
	run := func(dir string, isl, failures float64) *Record {
		r := New(dir)
		r.Model, r.Directory, r.ISL, r.OSL, r.Requests, r.Failed = "m", dir, isl, 100, 10, failures
		if failures > 0 {
			r.OSL = math.NaN()
		}
		return r
	}
	all := []*Record{run("a", 1000, 0), run("a", 1000, 0), run("b", 1000, 0), run("b", 2000, 0),
		run("a", math.NaN(), 10), run("b", math.NaN(), 10), run("b", 2000, 10), run("b", 3000, 10)}
	adopt(all)
	for i, want := range map[int][2]float64{4: {1000, 100}, 5: {math.NaN(), math.NaN()}, 6: {2000, 100}, 7: {3000, math.NaN()}} {
		same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
		if r := all[i]; !same(r.ISL, want[0]) || !same(r.OSL, want[1]) || len(r.Notes) != 1 {
			t.Errorf("run %d: ISL %v, OSL %v, want %v; %q", i, r.ISL, r.OSL, want, r.Notes)
		}
	}
}

// A report of which no request was answered, as Python's json writes it: with NaN, or without figures.
func TestPythonsJSON(t *testing.T) {
	const text = `{"version": "0.1", "scenario": {"model": {"name": "m"}, "load": {"name": "vllm-benchmark", "args": {"max_concurrency": 4, "request_rate": Infinity}}},
		"metrics": {"time": {"duration": 10}, "requests": {"total": 500, "failures": 500, "input_length": {"units": "count", "mean": NaN}, "output_length": {"units": "count", "mean": NaN}},
		"latency": {"time_to_first_token": {"units": "ms", "mean": NaN, "p99": Infinity}}, "throughput": {"total_tokens_per_sec": NaN}}}`
	absent := strings.NewReplacer("NaN", "null", "Infinity", "null")
	for _, text := range []string{text, absent.Replace(text)} {
		r, err := ReadReport("r.json", []byte(text))
		if err != nil || r.Failed != 500 || r.Concurrency != 4 || !math.IsNaN(r.Stat(TTFT, P99)) || !math.IsNaN(r.TotalRate) {
			t.Errorf("%v, %+v", err, r)
		}
	}
	for change, want := range map[[2]string]string{ // of a run with answers, no figures may be absent
		{`"failures": 500`, `"failures": 20`}: "metrics.requests.input_length: the key mean is missing",
		{`"p99": null`, `"p99": -Infinity`}:   "wanted 0 or more, got -Inf",
	} {
		if _, err := ReadReport("r.json", []byte(strings.Replace(absent.Replace(text), change[0], change[1], 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", change, err)
		}
	}
}

// The columns of today's notebook, from a report of each version: the notebook itself has these figures for the first.
func TestColumnsOfTheNotebook(t *testing.T) {
	want := map[string]any{"KV_Cache_Scorer_Weight": 0.0, "Prefix_Cache_Scorer_Weight": 3.0, "Prefix_Cache_Scorer_Block_Size": 64.0,
		"Prefix_Cache_Scorer_LRU_Capacity_Per_Server": 31250.0, "Prefix_Cache_Scorer_Max_Blocks_To_Match": 256.0, "Prefix_Cache_Scorer_Mode": "default",
		"Queue_Scorer_Weight": 2.0, // the notebook has 0, as the plugin has a name
		"Target_OSL":          1000.0, "System_Prompt_Length": 2048.0, "Question_Length": 100.0, "Groups": 32.0, "Prompts_Per_Group": 8.0,
		"Max_QPS": 5.0, "Total_Requests": 250.0, "Max_Concurrency": nil, "Directory_Base": nil}
	for prefix, platform := range map[string]string{"benchmark_report": "vllm", "benchmark_report_v0.2": "llm-d"} {
		want["Platform"] = platform
		text := must.Read(t, filepath.Join(llmd, "ip", "r1", prefix+",_stage_1_lifecycle_metrics.json.yaml"))
		r := read(t, string(text))
		got := map[string]any{}
		for name := range want {
			c, err := Find(name)
			must.Do(t, err)
			if got[name] = c.Of(r).Plain(); c.Kind == expr.Number && got[name] != nil {
				got[name] = c.Of(r).Value()
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", prefix, diff)
		}
	}
}

// GuideLLM has its data as text of YAML, and since 0.7 as maps below spec; a text of another form says nothing.
func TestWorkloadOfGuideLLM(t *testing.T) {
	for config, want := range map[string]Workload{
		`data: ['{"prompt_tokens": 100, "prefix_tokens": 2048, "prefix_count": 8, "output_tokens": 1000}']`:                                      {1000, 2048, 100, 1, 8},
		`spec: {data: [{kind: synthetic_text, prompt_tokens: 100, output_tokens: 1000, prefix_buckets: [{prefix_tokens: 7, prefix_count: 9}]}]}`: {1000, 7, 100, 1, 9},
		`data: ["prompt_tokens=100"]`:                {math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()},
		`data: {output_distribution: {mean: 300.5}}`: {300.5, math.NaN(), math.NaN(), math.NaN(), math.NaN()},
	} {
		v, err := conf.Parse("x.yaml", []byte(config))
		must.Do(t, err)
		if got := workload(v); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", config, got, want)
		}
	}
}

// What the standardized part of 0.2 says counts where the generator's own configuration is not there.
func TestWorkloadOfStandardizedLoad(t *testing.T) {
	const load = `{standardized: {tool: TOOL, output_seq_len: {value: 55}, prefix: {prefix_len: {value: 1000}, num_groups: 32, num_users_per_group: 10, num_prefixes: 8}}}`
	for tool, want := range map[string]Workload{
		"guidellm": {55, 1000, math.NaN(), 32, 8}, "vllm-benchmark": {55, 1000, math.NaN(), 32, 10}, "inference-perf": {math.NaN(), 1000, math.NaN(), 32, 10},
	} {
		v, err := conf.Parse("x.yaml", []byte(strings.Replace(load, "TOOL", tool, 1)))
		must.Do(t, err)
		if got := workloadV02(v); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", tool, got, want)
		}
	}
}

func TestScorers(t *testing.T) {
	nan := math.NaN()
	for config, want := range map[string]Scorers{
		`{other: 1}`: {nan, nan, nan, nan, nan, nan, ""},
		`{plugins: [{type: prefix-cache-scorer}], schedulingProfiles: [{plugins: [{pluginRef: prefix-cache-scorer}]}]}`:                                                                      {0, 0, 1, 16, 31250, 256, "default"},
		`{plugins: [{type: kv-cache-utilization-scorer}], schedulingProfiles: [{plugins: [{pluginRef: kv-cache-utilization-scorer, weight: 0.5}]}, {plugins: [{pluginRef: queue-scorer}]}]}`: {0.5, 0, 0, nan, nan, nan, ""},
		`{plugins: 7, schedulingProfiles: x}`: {0, 0, 0, nan, nan, nan, ""},
	} {
		v, err := conf.Parse("x.yaml", []byte(config))
		must.Do(t, err)
		if got := scorers(v); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", config, got, want)
		}
	}
}
