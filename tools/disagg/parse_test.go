package disagg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/serving/benchlog"
	"perigee/internal/serving/judge"
)

// What a log is judged by is there as it is meant: a mistake in the configuration relaxes no gate without a word.
func TestParseMistakes(t *testing.T) {
	const few = "metadata: {id: disagg/perf/x, model_name: toy}\nbenchmark: {concurrency_list: 4, input_length: 10, output_length: 1024, multi_round: 3}\n" +
		"job: {command: 'true'}\n"
	const log = "Benchmarking with concurrency 4\n============ Serving Benchmark Result ============\nSuccessful requests: 12\nFailed requests: 0\n" +
		"Total generated tokens: 120\nMedian TTFT (ms): 73\nMedian E2EL (ms): 500\nBenchmark with concurrency 4 done\n"
	dir := t.TempDir()
	file, config := filepath.Join(dir, "6_bench.log"), filepath.Join(dir, "c.yaml")
	must.Do(t, os.WriteFile(file, []byte(log), 0o600))
	for _, c := range []struct {
		old, new, says string
		code           fault.Kind
	}{
		{"", "", "120 tokens were generated, fewer than", fault.Threshold},
		{"1024", "'1024'", "c.yaml:2: benchmark.output_length: wanted a whole number", fault.Input},
		{"output_length", "outputlength", `c.yaml:2: benchmark.outputlength: the key "outputlength" is not known here; did you mean "output_length"?`, fault.Input},
		{"multi_round: 3", "multiround: 3", "multiround", fault.Input},
		{"multi_round: 3", "multi_round: 3, benchmark_ratio: 2", "wanted a number from 0 to 1", fault.Input},
		{"model_name: toy", "referenes: {X: [1, 0, 0]}", "referenes", fault.Input},
		{"benchmark:", "benchmarks:", `the key "benchmarks" is not known here`, fault.Input},
		{"model_name: toy", "model_name: toy, accuracy: {datasets: [{name: gsm8k}]}", "warning: " + config + ":1: metadata.accuracy.datasets: has no effect", fault.Threshold},
		{"job:", "sweep: {fraction: 0.8}\njob:", "c.yaml:3: sweep.fraction: wanted a list of values", fault.Input},
		{"job:", "sweep: {fraction: [1]}\nslurm: {partition: '${fraction}'}\njob:", "slurm.partition", fault.Input},
		{"job:", "slurm: {job_time: soon, partitoin: x}\njob:", "120 tokens were generated, fewer than", fault.Threshold}, // nothing of the log
	} {
		must.Do(t, os.WriteFile(config, []byte(strings.Replace(few, c.old, c.new, 1)), 0o600))
		out, said, code := perigee(t, nil, "parse", file, "--config", config, "--settle", "0s")
		if code != int(c.code) || !strings.Contains(out+said, c.says) {
			t.Errorf("%s: exit code %d, wanted %d with %q\n%s%s", c.new, code, c.code, c.says, out, said)
		}
	}
	out := filepath.Join(dir, "out")
	folder := filepath.Join(out, "slurm_logs", "disagg_perf_x")
	must.Do(t, os.MkdirAll(folder, 0o700), os.Rename(file, filepath.Join(folder, "6_bench.log")))
	must.Do(t, os.WriteFile(config, []byte(strings.Replace(few, "1024", "'1024'", 1)), 0o600))
	list, said, code := perigee(t, map[string]string{"DEBUG_MODE": "1"}, "run", config, "--gpu", "LOCAL", "--output", out, "--settle", "0s")
	if _, err := os.Stat(filepath.Join(folder, "verdict.json")); code != int(fault.Threshold) || !strings.Contains(list+said, "c.yaml:2: benchmark.output_length: wanted a whole number") || !os.IsNotExist(err) {
		t.Errorf("DEBUG_MODE: exit code %d, %v\n%s%s", code, err, list, said)
	}
	must.Do(t, os.WriteFile(config, []byte("metadata: {id: disagg/perf/x}\nbenchmark: {concurrency_list: 4, input_length: 10, dataset_file: <dataset_file>}\njob: {command: 'true'}\n"), 0o600))
	list, said, code = perigee(t, map[string]string{"DEBUG_MODE": "1"}, "run", config, "--gpu", "LOCAL", "--output", out, "--settle", "0s")
	if code != 0 || !strings.Contains(said, "c.yaml:1: benchmark.output_length: missing: the generated tokens are not counted") {
		t.Errorf("DEBUG_MODE without output_length: exit code %d\n%s%s", code, list, said)
	}
	for _, more := range []string{"", "hardware: {gpus_per_node: null}\n", "hardware: {gpus_per_node: 4}\n", "worker_config: {gen: {}}\n"} { // which trtllm would need to run it
		must.Do(t, os.WriteFile(config, []byte("metadata: {id: disagg/perf/x, supported_gpus: [LOCAL]}\nbenchmark: {concurrency_list: 4, input_length: 10, output_length: 10}\n"+more), 0o600))
		list, said, code = perigee(t, map[string]string{"DEBUG_MODE": "1"}, "run", config, "--gpu", "LOCAL", "--output", out, "--settle", "0s")
		if code != 0 || !strings.Contains(said, "[SUCCESS]") {
			t.Errorf("DEBUG_MODE with %q: exit code %d\n%s%s", more, code, list, said)
		}
	}
	file = filepath.Join(folder, "6_bench.log")
	must.Do(t, os.WriteFile(config, []byte("metadata: {id: disagg/perf/x}\nbenchmark: {streaming: true}\n\"a\\nstate: passed\": 1\n"), 0o600))
	text, _, _ := perigee(t, nil, "parse", file, "--config", config, "--settle", "0s", "--lenient")
	for _, want := range []string{"benchmark.concurrency_list: missing: no level has to be in the log", "benchmark.output_length: missing: the generated tokens are not counted", `a\nstate: passed: the key`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	must.Do(t, os.WriteFile(config, []byte(strings.Replace(few, "output_length", "outputlength", 1)), 0o600))
	out, said, code = perigee(t, nil, "parse", file, "--config", config, "--settle", "0s", "--lenient")
	if code != 0 || !strings.Contains(out, "warning: "+config+":2: benchmark.outputlength: the key") {
		t.Errorf("--lenient: exit code %d\n%s%s", code, out, said)
	}
}

// An evaluation counts only as a whole, as the benchmark does.
func TestCutEvaluation(t *testing.T) {
	const row = "|gsm8k|3|flexible-extract|5|exact_match|↑|0.95|±|0.006|\n"
	const text = "metadata: {id: disagg/accuracy/x, model_name: toy, accuracy: {datasets: [{name: gsm8k, expected_value: 0.9}]}}\n" +
		"benchmark: {concurrency_list: 4, input_length: 10, output_length: 10}\njob: {client: 'true', evaluate: 'true'}\n"
	for log, want := range map[string]string{
		row: "passed", row + row[:len(row)-8]: "failed", row + "|gsm8k|3|flex\x1b[?25h": "failed", row + "done\r": "passed", row + "\x1b[?25h": "passed",
	} {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "effective.yaml"), []byte(text), 0o600))
		must.Do(t, os.WriteFile(filepath.Join(dir, "7_accuracy_eval_x.log"), []byte(log), 0o600))
		p, _ := parse(t, dir)
		reasons := strings.Join(p.Reasons, "\n")
		if p.State != want || want == "failed" && !strings.Contains(reasons, `7_accuracy_eval_x.log ends within a line: "|gsm8k|3|flex`) {
			t.Errorf("%q: %s, wanted %s: %s", log, p.State, want, reasons)
		}
	}
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "7_accuracy_eval_x.log"), []byte(row), 0o600))
	e, err := judge.Gather(dir, judge.Expect{}, judge.Patience{Quiet: time.Hour, Limit: -1})
	if err != nil || len(e.Growing) != 1 || e.Growing[0] != "accuracy: 7_accuracy_eval_x.log" {
		t.Errorf("one that was written a moment ago: growing: %q, %v", e.Growing, err)
	}
}

// What a pattern takes for concurrencies may be something else: a case has no more levels than a verdict holds.
func TestConcurrenciesAreBounded(t *testing.T) {
	dir := t.TempDir()
	log := func(n int) {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "1 %d\n", i+1)
		}
		must.Do(t, os.WriteFile(filepath.Join(dir, "x.log"), []byte(b.String()), 0o600))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "effective.yaml"), []byte("metadata: {id: disagg/perf/x, metrics: {log_file: x.log, extractor_pattern: '^([0-9]+)[ ]([0-9]+)$', metric_names: [T]}}\n"+
		"benchmark: {concurrency_list: 1 2}\njob: {client: a}\n"), 0o600))
	log(benchlog.MaxLevels)
	if p, code := parse(t, dir); code != int(fault.Threshold) || len(p.Levels) != benchlog.MaxLevels {
		t.Errorf("%d levels, exit code %d", len(p.Levels), code)
	}
	log(benchlog.MaxLevels + 1)
	if _, said, code := perigee(t, nil, "parse", dir); code != int(fault.Input) || !strings.Contains(said, "more than 10000 concurrencies") {
		t.Errorf("exit code %d: %s", code, said)
	}
}
