package disagg

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

const aiperfCase = "metadata: {model_name: toy, precision: fp8, supported_gpus: [LOCAL]}\n" +
	"benchmark:\n  concurrency_list: 4\n  multi_round: 8\n  input_length: 1024\n  output_length: 1024\n  streaming: true\n" +
	"  metrics: {log_file: aiperf.log, extractor_pattern: 'Time\\ to\\ First\\ Token\\ \\(ms\\)\\s+│\\s+([\\d.]+)(?:.|\\n)*?Request\\ Latency\\ \\(ms\\)\\s+│\\s+([\\d.]+)', " +
	"metric_names: [MEAN_TTFT_MS, MEAN_E2E_MS]}\njob: {client: a}\n"

// AIPerf's table says 15,559.05 ms: a pattern that takes 15 of it is refused, and the table is read without one.
func TestAIPerfTable(t *testing.T) {
	log, config := "testdata/logs/9_aiperf.log", filepath.Join(t.TempDir(), "c.yaml")
	must.Do(t, os.WriteFile(config, []byte(aiperfCase), 0o600))
	_, said, code := perigee(t, nil, "parse", log, "--config", config)
	if code != int(fault.Input) || !strings.Contains(said, `9_aiperf.log: line 6: the pattern takes "15" out of the number "15,559.05" for MEAN_TTFT_MS`) {
		t.Errorf("exit code %d: %s", code, said)
	}
	must.Do(t, os.WriteFile(config, []byte(strings.ReplaceAll(aiperfCase, `[\d.]`, `[\d.,]`)), 0o600))
	v, code := parse(t, log, "--config", config)
	if code != 0 || len(v.Levels) != 1 || v.Levels[0].Metrics["MEAN_TTFT_MS"] != 15559.05 || v.Levels[0].Metrics["MEAN_E2E_MS"] != 71956.33 {
		t.Errorf("with separators: exit code %d, %+v", code, v)
	}
	before, _, _ := strings.Cut(aiperfCase, "  metrics")
	must.Do(t, os.WriteFile(config, []byte(before+"job: {client: a}\n"), 0o600))
	for _, args := range [][]string{{log}, {log, "--config", config}} {
		v, code := parse(t, args...)
		if code != 0 || len(v.Levels) != 1 || v.Levels[0].Metrics["SERVER_MEDIAN_TTFT"] != 11524.15 || v.Levels[0].Metrics["SERVER_MEAN_E2EL"] != 71956.33 || *v.TotalRequests != 32 || *v.FailedRequests != 0 {
			t.Errorf("%q: exit code %d, %+v", args, code, v)
		}
	}
}

var blanks = regexp.MustCompile(` +`)

// Several logs are judged one by one, without a configuration: a table for people, a list for programs.
func TestParseSeveral(t *testing.T) {
	const results = "benchlog/testdata/" // of a folder with short names, which a table has room for
	dir := t.TempDir()
	for to, from := range map[string]string{results: "../../internal/serving/benchlog/testdata", "testdata/logs": "testdata/logs"} {
		must.Do(t, os.CopyFS(filepath.Join(dir, to), os.DirFS(from)))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "benchlog", "lines.go"), []byte("package benchlog\n"), 0o600))
	t.Chdir(dir)
	for _, c := range []struct {
		paths string // below results
		code  int
		says  []string // with single blanks
	}{
		{"vllm.log aiperf.log", 0, []string{
			"2 of 2 logs passed", "vllm.log passed vLLM 10 100 0 151.20 19.50 19.40", "2627.70", "484.85",
			"aiperf.log passed AIPerf - 32 - 15559.05 - -", "71956.33", "1244.10",
		}},
		{"vllm.log", 0, []string{"1 of 1 log passed", "vllm.log passed vLLM 10 100 0"}},
		{"vllm.log vllm.json sglang.jsonl", int(fault.Threshold), []string{
			"1 of 3 logs passed", "vllm.json failed vLLM 10 100 2", "sglang.jsonl failed SGLang 8 64 -", "sglang.jsonl failed SGLang - 4 1",
			"failed: benchlog/testdata/vllm.json: level 10: 2 of 100 requests failed",
			"failed: benchlog/testdata/sglang.jsonl: the run of unknown concurrency: 1 of 4 requests failed",
			"warning: benchlog/testdata/sglang.jsonl: level 8: the log does not say how many requests failed",
		}},
		{"../../testdata/logs/1_clean_two_levels.log ../lines.go", int(fault.Threshold), []string{
			"1_clean_two_levels.log passed TensorRT-LLM 4 32 0 148.10 7.60 7.50", "lines.go failed - - - -", "no result of a known client",
		}},
		{"vllm.log absent", int(fault.Input), []string{"absent: no such file"}},
	} {
		var args []string
		for _, path := range strings.Fields(c.paths) {
			args = append(args, filepath.Join(results, path))
		}
		args = append([]string{"parse", "--settle", "0s", "--max-failed", "1"}, args...)
		out, said, code := perigee(t, map[string]string{}, args...)
		text := blanks.ReplaceAllString(out+said, " ")
		for _, want := range c.says {
			if !strings.Contains(text, want) {
				t.Errorf("%s: lacks %q:\n%s%s", c.paths, want, out, said)
			}
		}
		if code != c.code {
			t.Errorf("%s: exit code %d, wanted %d", c.paths, code, c.code)
		}
	}
	out, _, code := perigee(t, nil, "parse", "--format", "json", results+"vllm.log", results+"sglang.log")
	var list []struct {
		Path, State string
		Levels      []struct {
			Client  string
			Latency map[string]map[string]float64 `json:"latency_ms"`
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != int(fault.Threshold) || len(list) != 2 || list[0].State != "passed" ||
		list[1].Path != results+"sglang.log" || list[1].Levels[0].Latency["ITL"]["p95"] != 25 || list[1].Levels[0].Client != "SGLang" {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
}

// With a configuration the results of its concurrencies are the levels of a log without marks; others are warm-ups.
func TestUnmarkedByConfiguration(t *testing.T) {
	text := must.Read(t, "../../internal/serving/benchlog/testdata/vllm.log")
	export := must.Read(t, "../../internal/serving/benchlog/testdata/trtllm-bench.json")
	const case10 = "metadata: {id: disagg/perf/x, model_name: toy, metrics: {log_file: x}}\nbenchmark: {concurrency_list: 10, input_length: 1024, output_length: 128, multi_round: 10}\njob: {command: 'true'}\n"
	run := string(text)
	warmup := strings.NewReplacer("Maximum request concurrency:             10", "Maximum request concurrency:             2", "151.20", "9.00", "Namespace(", "N(").Replace(run)
	silent := strings.NewReplacer("oncurrency", "oncurrencies", "max_c", "c").Replace(run)
	for _, c := range []struct {
		log, state, says string
	}{
		{run, "passed", ""},
		{warmup + run, "passed", ""},
		{warmup, "failed", "the 1 result block outside of levels (a warm-up run) does not count"},
		{silent, "failed", "the 1 result block outside of levels (a warm-up run) does not count"},
		{run + run, "failed", "level 10 is in the log more often than in the config"},
		{strings.Replace(run, "Total generated tokens:                  12800", "Total generated tokens:                  1280", 1), "failed", "1280 tokens were generated, fewer than"},
		{strings.NewReplacer("num_prompts=100", "", "requests:                     100", "requests:                     90").Replace(run), "failed", "90 of 100 prompts"},
		{string(export), "failed", "10 of 100 prompts"}, // the only result of a JSON file is that of the only level
	} {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "effective.yaml"), []byte(case10), 0o600), os.WriteFile(filepath.Join(dir, "x"), []byte(c.log), 0o600))
		v, _ := parse(t, dir, "--settle", "0s", "--allow-implausible")
		if v.State != c.state || !strings.Contains(strings.Join(v.Reasons, "\n"), c.says) || c.state == "passed" && v.Levels[0].Metrics["SERVER_MEAN_TTFT"] != 151.2 {
			t.Errorf("%.200q: %s, wanted %s with %q: %+v", c.log, v.State, c.state, c.says, v)
		}
	}
}

// The folder of an AIPerf run is read, too.
func TestArtifactFolder(t *testing.T) {
	text := must.Read(t, "../../internal/serving/benchlog/testdata/aiperf.json")
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "profile_export_aiperf.json"), text, 0o600))
	v, code := parse(t, dir, "--settle", "0s", "--max-failed", "2")
	if code != 0 || len(v.Levels) != 1 || v.Levels[0].Metrics["SERVER_P99_E2EL"] != 5500 || *v.FailedRequests != 1 {
		t.Errorf("exit code %d, %+v", code, v)
	}
}
