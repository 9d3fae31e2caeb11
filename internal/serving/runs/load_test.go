package runs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
	"golang.org/x/sys/unix"

	"perigee/internal/kit/expr"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

const (
	sweepA = "../../../tools/sweep/testdata/sweepA"
	bad    = "../../../tools/sweep/testdata/bad"
	v02    = "../../../tools/sweep/testdata/v02"
)

// report returns the text of a good report of v0.1.
func report(t testing.TB) string {
	t.Helper()
	text := must.Read(t, filepath.Join(sweepA, "pd_4P_TP1_1D_TP4", "benchmark_report,_c8.yaml"))
	return string(text)
}

// standalone is a report of v0.1 with the given host section.
func standalone(t testing.TB, host string) string {
	t.Helper()
	text := report(t)
	from, to := strings.Index(text, "  host:\n"), strings.Index(text, "  model:\n")
	return text[:from] + host + text[to:]
}

func read(t *testing.T, text string) *Record {
	t.Helper()
	r, err := ReadReport("r.yaml", []byte(text))
	must.Do(t, err)
	return r
}

// cells are a run's values of some columns.
func cellsOf(t *testing.T, r *Record, names ...string) map[string]any {
	t.Helper()
	got := map[string]any{}
	for _, name := range names {
		c, err := Find(name)
		must.Do(t, err)
		got[name] = c.Of(r).Plain()
	}
	return got
}

// host writes the host section of v0.1 from "type tp dp pp" words.
func hostText(list ...string) string {
	types, accelerators := "", ""
	for _, h := range list {
		f := strings.Fields(h)
		types += "    - " + f[0] + "\n"
		accelerators += "    - {model: " + f[1] + ", memory: 80, count: 1, parallelism: {tp: " + f[2] + ", dp: " + f[3] + ", pp: " + f[4] + "}}\n"
	}
	return "  host:\n    type:\n" + types + "    accelerator:\n" + accelerators
}

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		name  string
		hosts []string
		want  map[string]any
	}{
		{"two TP4", []string{"replica A 4 1 1", "replica A 4 1 1"},
			map[string]any{"Name": "2R TP4", "Num_GPUs": int64(8), "TP": int64(4), "Replicas": int64(2), "Is_PD": false, "GPU": "A", "P_TP": nil, "Thpt_per_GPU": int64(90)}},
		{"TP4 and TP8", []string{"replica A 8 1 1", "replica A 4 1 1"},
			map[string]any{"Name": "1R TP4 + 1R TP8", "Num_GPUs": int64(12), "TP": "4+8", "Replicas": int64(2), "Thpt_per_GPU": int64(60)}},
		{"2R TP2 DP2", []string{"replica A 2 2 1", "replica A 2 2 1"},
			map[string]any{"Name": "2R TP2 DP2", "Num_GPUs": int64(8), "DP": int64(2)}},
		{"1R TP4 PP2", []string{"replica A 4 1 2"},
			map[string]any{"Name": "1R TP4 PP2", "Num_GPUs": int64(8)}},
		{"two GPUs", []string{"replica B 4 1 1", "replica A 4 1 1"},
			map[string]any{"Name": "2R TP4", "GPU": "A + B", "Num_GPUs": int64(8)}},
		{"prefill only", []string{"prefill A 4 1 1"},
			map[string]any{"Name": "1P TP4", "Is_PD": true, "P_Replicas": int64(1), "D_Replicas": nil, "Num_GPUs": int64(4)}},
		{"decode only", []string{"decode A 4 2 1"},
			map[string]any{"Name": "1D TP4 DP2", "Is_PD": true, "P_Replicas": nil, "D_DP": int64(2), "Num_GPUs": int64(8)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := read(t, standalone(t, hostText(c.hosts...)))
			var names []string
			for name := range c.want {
				names = append(names, name)
			}
			must.Equal(t, c.want, cellsOf(t, r, names...))
		})
	}
}

// What is missing gives an empty cell, and never a wrong number.
func TestMissing(t *testing.T) {
	good := report(t)
	for _, c := range []struct {
		name, text string
		want       map[string]any
	}{
		{"no host", standalone(t, ""), map[string]any{"GPU": nil, "Num_GPUs": nil, "Is_PD": nil, "TP": nil, "Thpt_per_GPU": nil, "Name": nil, "Thpt_per_User": int64(90)}},
		{"no parallelism", standalone(t, "  host:\n    type: [replica]\n    accelerator: [{model: A, memory: 80, count: 4}]\n"),
			map[string]any{"Num_GPUs": int64(4), "TP": nil, "Replicas": int64(1), "Name": "1R"}},
		{"no output tokens", strings.Replace(good, "    output_tokens_per_sec: 720.0\n", "", 1),
			map[string]any{"Output_Token_Throughput": nil, "Thpt_per_GPU": nil, "Thpt_per_User": nil, "Total_Token_Throughput": int64(7920)}},
		{"no arguments", strings.Replace(good, "    args:\n      max_concurrency: 8\n      num_prompts: 500\n      request_rate: inf\n", "    args: null\n", 1),
			map[string]any{"Concurrency": nil, "Thpt_per_User": nil}},
		{"concurrency 0", strings.Replace(good, "max_concurrency: 8", "max_concurrency: 0", 1), map[string]any{"Concurrency": int64(0), "Thpt_per_User": nil}},
		{"concurrency in words", strings.Replace(good, "max_concurrency: 8", "max_concurrency: many", 1), map[string]any{"Concurrency": nil}},
		{"number as text", strings.Replace(good, "total: 500", "total: '500'", 1), map[string]any{"Completed": int64(500)}},
		{"NaN", strings.Replace(good, "mean: 95.0", "mean: .nan", 1), map[string]any{"Mean_TTFT_ms": nil, "P50_TTFT_ms": 90.25}},
		{"no version", strings.Replace(good, "version: '0.1'\n", "", 1), map[string]any{"Schema": "0.1"}},
		{"version is a number", strings.Replace(good, "version: '0.1'", "version: 0.1", 1), map[string]any{"Schema": "0.1"}},
		{"pixels", strings.Replace(good, "      units: count\n      mean: 1000.0", "      units: pixels\n      mean: 1000.0", 1), map[string]any{"Mean_ISL": nil, "Mean_OSL": int64(100)}},
		{"GuideLLM", strings.Replace(good, "max_concurrency: 8", "profile: {measured_concurrencies: [7.5, 15.5]}\n    metadata: {stage: 1}\n    unused:", 1),
			map[string]any{"Concurrency": 15.5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := read(t, c.text)
			var names []string
			for name := range c.want {
				names = append(names, name)
			}
			must.Equal(t, c.want, cellsOf(t, r, names...))
		})
	}
}

func TestUnitsAndSpellings(t *testing.T) {
	text := report(t)
	for from, to := range map[string]string{
		"      units: ms\n      mean: 95.0\n":        "      units: s\n      mean: 0.095\n      p999: 0.5\n      median: 0.09\n      p05: 0.06\n",
		"      units: ms/token\n      mean: 10.4\n":  "      units: s/token\n      mean: 0.0104\n",
		"      p50: 90.25\n":                         "",
		"      min: 47.5\n      p10: 66.5\n":         "      min: 0.0475\n      p001: 0.05\n      p01: 0.055\n",
		"      units: ms\n      mean: 1124.6000000":  "      units: ms\n      p0p1: 7\n      p99p9: 8\n      mean: 1124.6000000",
		"      p90: 133.0\n      p95: 152.0\n":       "",
		"      p99: 190.0\n      max: 237.5\n    ti": "    ti",
		"      stddev: 9.5\n":                        "",
	} {
		if !strings.Contains(text, from) {
			t.Fatalf("the report has no %q", from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	want := map[string]any{
		"Mean_TTFT_ms": int64(95), "P99.9_TTFT_ms": int64(500), "P50_TTFT_ms": int64(90), "P5_TTFT_ms": int64(60), "P0.1_TTFT_ms": int64(50), "P1_TTFT_ms": int64(55),
		"Min_TTFT_ms": 47.5, "P90_TTFT_ms": nil, "Mean_TPOT_ms": 10.4, "P0.1_E2EL_ms": int64(7), "P99.9_E2EL_ms": int64(8),
	}
	var names []string
	for name := range want {
		names = append(names, name)
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	got := cellsOf(t, read(t, text), names...)
	for name, v := range got { // 0.06 * 1000 is not exactly 60
		if x, ok := v.(float64); ok && math.Abs(x-math.Round(x)) < 1e-9 {
			got[name] = int64(math.Round(x))
		}
	}
	must.Equal(t, want, got, near)
}

func TestV02(t *testing.T) {
	in, err := Load([]string{v02}, DefaultLoadOptions())
	if err != nil || len(in.Skipped) > 0 || len(in.Runs) != 3 {
		t.Fatalf("%v, %+v, %d runs", err, in.Skipped, len(in.Runs))
	}
	byName := map[string]*Record{}
	for _, r := range in.Runs {
		byName[r.Folder] = r
	}
	for folder, want := range map[string]map[string]any{
		"pd": {
			"Name": "2P TP4, 1D TP8 DP2 EP16", "Num_GPUs": int64(24), "Is_PD": true, "P_TP": int64(4), "P_Replicas": int64(2), "D_TP": int64(8), "D_DP": int64(2), "D_EP": int64(16),
			"Model": "Qwen/Qwen3-32B", "GPU": "NVIDIA-H200", "Backend": "vllm", "Concurrency": int64(64), "Max_QPS": 12.5, "Duration": 62.5, "Completed": int64(796),
			"Failures": int64(3), "Incomplete": int64(1), "ISL": int64(2000), "OSL": int64(250), "Mean_TTFT_ms": int64(250), "P90_TTFT_ms": int64(400), "P99.9_TTFT_ms": int64(1500),
			"Mean_TPOT_ms": 12.5, "Mean_ITL_ms": 12.75, "Mean_NTPOT_ms": int64(14), "Mean_E2EL_ms": int64(3400), "Request_Throughput": int64(12), "Total_Token_Throughput": int64(27000),
			"Thpt_per_GPU": int64(125), "Thpt_per_User": 46.875, "Thpt_per_User_TPOT": int64(80), "Start": "2025-11-05T18:00:42Z", "Schema": "0.2.1",
		},
		"replicas": { // count is that of one pod
			"Name": "4R TP2", "Num_GPUs": int64(8), "Thpt_per_GPU": int64(150), "Is_PD": false, "Concurrency": nil, "Thpt_per_User": nil, "Mean_TPOT_ms": nil, "Start": "2025-11-06T07:00:00Z",
			"Failures": nil, "Workload_Generator": "inference-perf",
		},
		"example": {
			"Name": "1R TP8", "Num_GPUs": int64(8), "Concurrency": "inf", "Thpt_per_User": nil, "Thpt_per_User_TPOT": int64(125), "Request_Throughput": 9.5, "Duration": 61.5,
			"ISL": int64(2260), "OSL": int64(998), "Start": nil,
		},
	} {
		var names []string
		for name := range want {
			names = append(names, name)
		}
		if diff := cmp.Diff(want, cellsOf(t, byName[folder], names...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", folder, diff)
		}
	}
	if len(byName["replicas"].Notes) != 1 || len(byName["pd"].Notes) != 0 {
		t.Errorf("notes %q and %q", byName["replicas"].Notes, byName["pd"].Notes)
	}
}

// The count of v0.2 is the total, unless the engines cannot do with so few.
func TestGPUsOfV02(t *testing.T) {
	text := must.Read(t, filepath.Join(v02, "replicas", "benchmark_report.json"))
	for _, c := range []struct {
		replicas, count, tp, dp string
		want                    float64
	}{
		{"4", "2", "2", "1", 8},   // of one pod
		{"4", "8", "2", "1", 8},   // the total
		{"4", "16", "2", "1", 16}, // the total, with idle ones
		{"2", "8", "1", "16", 32}, // of one of two nodes of a DP 16
		{"1", "8", "8", "1", 8},
		{"2", "4", "2", "2", 8},
		{"3", "0", "1", "1", 0}, // no GPU at all
	} {
		doc := strings.NewReplacer(`"replicas": 4`, `"replicas": `+c.replicas, `"count": 2`, `"count": `+c.count, `"tp": 2, "dp": 1`, `"tp": `+c.tp+`, "dp": `+c.dp).Replace(string(text))
		r, err := ReadReport("r.json", []byte(doc))
		must.Do(t, err)
		if got := r.NumGPUs(); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

// kinds are n engines that differ.
func kinds(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("replica A %d 1 1", i+1))
	}
	return list
}

// What a report says of engines that are alike takes no more memory than one of them.
func TestManyEngines(t *testing.T) {
	text := must.Read(t, filepath.Join(v02, "replicas", "benchmark_report.json"))
	r, err := ReadReport("r.json", []byte(strings.ReplaceAll(string(text), `"replicas": 4`, `"replicas": 65536`)))
	must.Do(t, err)
	if len(r.Hosts) != 1 || r.Engines() != 65536 {
		t.Errorf("%d hosts for %d engines", len(r.Hosts), r.Engines())
	}
	want := map[string]any{"Name": "65536R TP2", "Replicas": int64(65536), "Num_GPUs": int64(131072)}
	must.Equal(t, want, cellsOf(t, r, "Name", "Replicas", "Num_GPUs"))
	if r := read(t, standalone(t, hostText(kinds(64)...))); len(r.Hosts) != 64 {
		t.Errorf("%d kinds of engines of 64", len(r.Hosts))
	}
}

func TestBadReports(t *testing.T) {
	good := report(t)
	pd := must.Read(t, filepath.Join(v02, "pd", "benchmark_report_v0.2.yaml"))
	for _, c := range []struct{ text, from, to, want string }{
		{good, "version: '0.1'", "version: '0.3'", `r.yaml:1: version: wanted version 0.1, 0.2 or 0.2.1, got "0.3"`},
		{good, "      units: ms/token\n", "      units: ms\n", `r.yaml:104: metrics.latency.time_per_output_token.units: wanted the unit ms/token or s/token, got "ms"`},
		{good, "    - decode\n", "    - replica\n", `r.yaml:9: scenario.host.type[4]: wanted either replicas or prefill and decode engines, got both`},
		{good, "    - decode\n", "    - decoder\n", `r.yaml:9: scenario.host.type[4]: wanted one of replica, prefill, decode, got "decoder"; did you mean "decode"?`},
		{good, "    - prefill\n", "", `r.yaml:3: scenario.host: wanted as many accelerators (5) as types (4)`},
		{good, "    - name: vllm\n      version: 0.10.0\n      args: {}\n", "", `r.yaml:52: scenario.platform.engine: wanted 5 elements, as many as scenario.host.type has, got 4`},
		{good, "duration: 60.0", "duration: -60.0", `r.yaml:78: metrics.time.duration: wanted 0 or more, got -60`},
		{good, "duration: 60.0", "length: 60.0", `r.yaml:77: metrics.time: the key duration is missing`},
		{good, "total: 500", "total: many", `r.yaml:82: metrics.requests.total: wanted a number, got "many"`},
		{good, "total: 500", "total: true", `r.yaml:82: metrics.requests.total: wanted a number, got true`},
		{good, "total: 500", "total: '0x10'", `r.yaml:82: metrics.requests.total: wanted a number, got "0x10"`},
		{good, "        tp: 4\n", "        tp: 0\n", `r.yaml:47: scenario.host.accelerator[4].parallelism.tp: wanted a whole number from 1 to 1000000, got 0`},
		{good, "        tp: 4\n", "        tp: 1.5\n", `r.yaml:47: scenario.host.accelerator[4].parallelism.tp: wanted a whole number from 1 to 1000000, got 1.5`},
		{good, "metrics:\n", "metrics: 5\nother:\n", `r.yaml:76: metrics: wanted a map, got a whole number`},
		{good, "    name: meta-llama/Llama-3.1-70B-Instruct", "    name: [a]", `r.yaml:69: scenario.model.name: wanted text, got a list`},
		{string(pd), "concurrency: 64", "concurrency: 0", `r.yaml:50: scenario.load.standardized.concurrency: wanted a whole number from 1 or .inf, got 0`},
		{string(pd), "concurrency: 64", "concurrency: 1.5", `r.yaml:50: scenario.load.standardized.concurrency: wanted a whole number from 1 or .inf, got 1.5`},
		{string(pd), "duration: PT1M2.5S", "duration: P1Y", `r.yaml:5: run.time.duration: wanted a duration such as PT49.97S or PT1H2M, got "P1Y"`},
		{string(pd), "start: 2025-11-05T18:00:42Z", "start: yesterday", `r.yaml:5: run.time.start: wanted a time such as 2025-11-05T18:00:42Z, got "yesterday"`},
		{string(pd), "role: decode", "role: both", `r.yaml:33: scenario.stack[2].standardized.role: wanted one of replica, prefill, decode, aggregate, got "both"`},
		{string(pd), "    aggregate:\n", "    total:\n", `r.yaml:53: results.request_performance: the key aggregate is missing`},
		{string(pd), "units: queries/s", "units: s", `r.yaml:71: results.request_performance.aggregate.throughput.request_rate.units: wanted the unit queries/s, got "s"`},
		{standalone(t, hostText(kinds(64)...)), "    - replica\n", "    - replica\n    - replica\n", `r.yaml:3: scenario.host: wanted as many accelerators (64) as types (65)`},
		{standalone(t, hostText(kinds(65)...)), "version: '0.1'", "version: '0.1'", `r.yaml:135: scenario.host.accelerator[64]: wanted at most 64 kinds of engines, got more`},
		{string(pd), "replicas: 1", "replicas: 999999", `r.yaml:9: scenario.stack[0].standardized: wanted at most 65536 engines, got more`},
	} {
		if !strings.Contains(c.text, c.from) {
			t.Fatalf("the report has no %q", c.from)
		}
		_, err := ReadReport("r.yaml", []byte(strings.Replace(c.text, c.from, c.to, 1)))
		if err == nil || err.Error() != c.want || fault.KindOf(err) != fault.Input {
			t.Errorf("%q:\n got %v (%v)\nwant %s", c.to, err, fault.KindOf(err), c.want)
		}
	}
}

// Every file of the golden folder is read or skipped as the table of the document
// on the original has it.
func TestBadFiles(t *testing.T) {
	in, err := Load([]string{bad}, DefaultLoadOptions())
	must.Do(t, err)
	var read, skipped []string
	for _, r := range in.Runs {
		read = append(read, strings.TrimPrefix(r.File, bad+"/"))
	}
	for _, s := range in.Skipped {
		skipped = append(skipped, strings.TrimPrefix(s.Err.Error(), bad+"/"))
		if !strings.HasPrefix(s.Err.Error(), s.File+":") {
			t.Errorf("%s: the reason %q does not name file and line", s.File, s.Err)
		}
	}
	wantRead := []string{
		"prefill_only/benchmark_report,_x.yaml", "names/benchmark_report,_x.yml", "names/benchmark_report.yaml", "names/benchmark_report_v0.2,_x.yaml",
		"no_itl/benchmark_report,_x.yaml", "ttft_in_seconds/benchmark_report,_x.yaml", "concurrency_null/benchmark_report,_x.yaml",
	}
	wantSkipped := []string{
		"empty/benchmark_report,_x.yaml:1: wanted a YAML document with keys and values, got an empty one",
		"list/benchmark_report,_x.yaml:1: wanted a benchmark report, which is a map with version, scenario and metrics or results; got a list",
		"mixed_types/benchmark_report,_x.yaml:6: scenario.host.type[1]: wanted either replicas or prefill and decode engines, got both",
		"names/benchmark_report,_x.json:1: the key version is missing: this is no benchmark report of llm-d; perigee disagg parse reads results of clients",
		"no_model/benchmark_report,_x.yaml:2: scenario: the key model is missing",
		"no_ttft/benchmark_report,_x.yaml:55: metrics.latency: the key time_to_first_token is missing",
		"not_yaml/benchmark_report,_x.yaml:3: this is not YAML: found unexpected end of stream while scanning a quoted scalar of line 1",
		`ttft_bad_units/benchmark_report,_x.yaml:57: metrics.latency.time_to_first_token.units: wanted the unit ms or s, got "count"`,
		"type_len_mismatch/benchmark_report,_x.yaml:3: scenario.host: wanted as many accelerators (2) as types (1)",
		`unknown_harness/benchmark_report,_x.yaml:35: scenario.load.name: wanted one of guidellm, inference-perf, vllm-benchmark, fmperf, aiperf, inferencemax, nop, got "locust"`,
		`version_0_3/benchmark_report,_x.yaml:1: version: wanted version 0.1, 0.2 or 0.2.1, got "0.3"`,
	}
	if diff := cmp.Diff(wantRead, read); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantSkipped, skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	for _, r := range in.Runs {
		if r.Folder == "ttft_in_seconds" && (r.Stat(TTFT, Mean) != 100 || r.Stat(E2EL, Mean) != 1200) {
			t.Errorf("seconds became %v and %v ms", r.Stat(TTFT, Mean), r.Stat(E2EL, Mean))
		}
	}
}

func TestDurations(t *testing.T) {
	pd := must.Read(t, filepath.Join(v02, "pd", "benchmark_report_v0.2.yaml"))
	for text, want := range map[string]float64{
		"PT49.97206788184121S": 49.97206788184121, "PT0S": 0, "PT1H": 3600, "'P1DT2H3M4,5S'": 93784.5, "P2W": 1209600, "12.5": 12.5, "'7'": 7, "PT0.5H": 1800,
		"P": -1, "PT": -1, "1h": -1, "P1M": -1, "-PT5S": -1, "PT5": -1, "''": -1, "[1]": -1, "-3": -1, ".inf": -1,
	} {
		r, err := ReadReport("r.yaml", []byte(strings.Replace(string(pd), "PT1M2.5S", text, 1)))
		switch {
		case want < 0 && err == nil:
			t.Errorf("%s became %v", text, r.Duration)
		case want >= 0 && (err != nil || math.Abs(r.Duration-want) > 1e-9):
			t.Errorf("%s: want %v, got %v, %v", text, want, r, err)
		}
	}
}

// copyTree copies the good reports into a folder of the test.
func copyTree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sweep")
	must.Do(t, os.CopyFS(dir, os.DirFS(sweepA)))
	return dir
}

// Whatever the arguments' order, and however often a file can be reached, the
// runs are the same.
func TestOrderDoesNotMatter(t *testing.T) {
	dir := copyTree(t)
	folders, err := filepath.Glob(filepath.Join(dir, "*"))
	must.Do(t, err)
	names := func(args []string) (list []string) {
		in, err := Load(args, DefaultLoadOptions())
		must.Do(t, err)
		for _, r := range in.Runs {
			list = append(list, r.Name()+" "+expr.Num(r.Concurrency).String()+" "+r.File+" "+r.Directory)
		}
		return list
	}
	want := names([]string{dir})
	if len(want) != 13 {
		t.Fatalf("%d runs", len(want))
	}
	for range 10 {
		args := append([]string{filepath.Join(folders[0], "..")}, folders...)
		rand.Shuffle(len(args), func(i, j int) { args[i], args[j] = args[j], args[i] })
		if diff := cmp.Diff(want, names(args)); diff != "" {
			t.Fatalf("%v (-want +got):\n%s", args, diff)
		}
	}
}

func TestDirectories(t *testing.T) {
	dir := copyTree(t)
	run := filepath.Join(dir, "sa_2R_TP4")
	file := filepath.Join(run, "benchmark_report,_c1.yaml")
	for _, c := range []struct{ argument, want string }{
		{dir, dir}, {filepath.Dir(dir), dir}, {run, run}, {file, dir},
	} {
		in, err := Load([]string{c.argument}, DefaultLoadOptions())
		must.Do(t, err)
		for _, r := range in.Runs {
			if r.Folder == "sa_2R_TP4" && r.Directory != c.want {
				t.Errorf("%s: %s is of the sweep %s, want %s", c.argument, r.File, r.Directory, c.want)
			}
		}
	}
}

// No link is followed, no pipe waited for, no unreadable thing ends the import.
func TestHostileFolder(t *testing.T) {
	dir := copyTree(t)
	outside := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(outside, "benchmark_report.yaml"), []byte(report(t)), 0o644))
	for name, target := range map[string]string{
		"benchmark_report_link.yaml": filepath.Join(outside, "benchmark_report.yaml"), "linked": outside, "benchmark_report_loop.yaml": "benchmark_report_loop.yaml",
	} {
		must.Do(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	must.Do(t, unix.Mkfifo(filepath.Join(dir, "benchmark_report_pipe.yaml"), 0o600))
	must.Do(t, os.Mkdir(filepath.Join(dir, "benchmark_report_folder.yaml"), 0o700))
	must.Do(t, os.Mkdir(filepath.Join(dir, "odd\xff"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "odd\xff", "benchmark_report.yaml"), []byte("{"), 0o600))
	began := time.Now()
	in, err := Load([]string{dir}, DefaultLoadOptions())
	must.Do(t, err)
	if !slices.ContainsFunc(in.Skipped, func(s Skipped) bool { return strings.Contains(s.File, "odd\xff") }) {
		t.Errorf("a folder with an odd name was not read: %+v", in.Skipped)
	}
	if len(in.Runs) != 13 || len(in.Skipped) != 2 || in.Links != 3 {
		t.Errorf("%d runs, skipped %+v, %d links after %v", len(in.Runs), in.Skipped, in.Links, time.Since(began))
	}
	// But what the user names may be a link.
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(dir, link))
	if in, err := Load([]string{link}, DefaultLoadOptions()); err != nil || len(in.Runs) != 13 {
		t.Errorf("through a link: %v", err)
	}
	if _, err := Load([]string{filepath.Join(dir, "nowhere")}, DefaultLoadOptions()); fault.KindOf(err) != fault.Input {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestRounding(t *testing.T) {
	for _, c := range []struct{ x, step, want float64 }{
		{1000, 10, 1000}, {1003.4, 10, 1000}, {996.2, 10, 1000}, {9994.9, 10, 9990}, {10005, 10, 10000}, {10015, 10, 10020},
		{31.8, 1, 32}, {2.5, 1, 2}, {3.5, 1, 4}, {149, 100, 100},
	} {
		if got := Round(c.x, c.step); got != c.want {
			t.Errorf("%v to %v: got %v, want %v", c.x, c.step, got, c.want)
		}
	}
}

func FuzzReport(f *testing.F) {
	var documents []string
	for _, glob := range []string{"../../../tools/sweep/testdata/*/*/*.yaml", "../../../tools/sweep/testdata/*/*/*.yml", "../../../tools/sweep/testdata/*/*/*.json"} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			f.Fatal(glob, err)
		}
		for _, file := range files {
			text := must.Read(f, file)
			f.Add(text)
			if _, err := ReadReport(file, text); err == nil {
				documents = append(documents, string(text))
			}
		}
	}
	fuzztest.RunDocuments(f, documents, func(t *testing.T, text []byte) {
		name := "r.yaml"
		if bytes.HasPrefix(text, []byte("{")) {
			name = "r.json"
		}
		checkFigure(t, fuzztest.Random(text))
		r, err := ReadReport(name, text)
		if err != nil {
			if fault.KindOf(err) != fault.Input || !strings.HasPrefix(err.Error(), name) {
				t.Fatalf("%v (%v)", err, fault.KindOf(err))
			}
			return
		}
		for _, c := range Columns() {
			for _, x := range c.Of(r).Nums {
				if math.IsNaN(x) || x < 0 || math.IsInf(x, 0) && !strings.HasSuffix(c.Name, "Concurrency") {
					t.Fatalf("%s is %v", c.Name, x)
				}
			}
		}
	})
}

// checkFigure writes a figure into a good report, and looks for it in its column.
func checkFigure(t *testing.T, random *rand.Rand) {
	t.Helper()
	latencies := map[string]string{
		"time_to_first_token": "TTFT", "time_per_output_token": "TPOT", "inter_token_latency": "ITL", "request_latency": "E2EL",
		"normalized_time_per_output_token": "NTPOT",
	}
	statistics := map[string]string{
		"mean": "Mean", "stddev": "StdDev", "min": "Min", "p0p1": "P0.1", "p1": "P1", "p5": "P5", "p10": "P10", "p25": "P25", "p50": "P50", "p75": "P75",
		"p90": "P90", "p95": "P95", "p99": "P99", "p99p9": "P99.9", "max": "Max", "median": "P50", "p001": "P0.1", "p01": "P1", "p05": "P5", "p999": "P99.9",
	}
	pick := func(m map[string]string) string {
		names := slices.Sorted(maps.Keys(m))
		return names[random.IntN(len(names))]
	}
	latency, statistic := pick(latencies), pick(statistics)
	value, want := float64(random.IntN(1000))/8, "taken"
	if random.IntN(8) == 0 {
		value, want = -value-1, "refused"
	}
	unit, factor := "ms", 1.0
	if random.IntN(2) == 0 {
		unit, factor = "s", 1000
	}
	if strings.Contains(latency, "per_output") || strings.HasPrefix(latency, "inter") {
		unit += "/token"
	}
	var document map[string]any
	must.Do(t, yaml.Unmarshal([]byte(report(t)), &document))
	quantities := document["metrics"].(map[string]any)["latency"].(map[string]any)
	quantities[latency] = map[string]any{"units": unit, "mean": 1.5, statistic: value}
	text, err := json.Marshal(document)
	must.Do(t, err)
	r, err := ReadReport("r.json", text)
	if (err == nil) != (want == "taken") {
		t.Fatalf("%s of %s, %v %s, is to be %s: %v", statistic, latency, value, unit, want, err)
	}
	if err != nil {
		return
	}
	column, err := Find(statistics[statistic] + "_" + latencies[latency] + "_ms")
	must.Do(t, err)
	if got := column.Of(r).Nums; len(got) != 1 || math.Abs(got[0]-value*factor) > 1e-9*value*factor {
		t.Fatalf("%s is %v, want %v", column.Name, got, value*factor)
	}
}
