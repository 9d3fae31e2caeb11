package disagg

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/serving/batch"
	"perigee/internal/serving/judge"
	"perigee/tools/disagg/report"
)

// with adds lines to the section metadata of a config.
func with(t *testing.T, config, lines string) {
	t.Helper()
	data := must.Read(t, config)
	text := strings.NewReplacer("metadata:\n", "metadata:\n  "+lines+"\n", "local.slurm", "trtllm").Replace(string(data))
	must.Do(t, os.WriteFile(config, []byte(text), 0o644))
}

// A reference that no figure was held against has not been met.
func TestReferencesThatJudgeNothing(t *testing.T) {
	for _, c := range []struct {
		reference, option, says string
		code                    int
	}{
		{"SERVER_MEDIAN_TTFT: [100, -0.05, 0.05]", "", "passed", 0},
		{"SERVER_MEDIAN_TTFT: [90, -0.05, 0.05]", "", "SERVER_MEDIAN_TTFT is 100.5, wanted 85.5 to 94.5", 12},
		{"SERVER_MEDIAN_TPOT: [90, -0.05, 0.05]", "", "nothing was held against the reference of SERVER_MEDIAN_TPOT", 12},
		{"SERVER_MEDIAN_TPOT@8: [90, -0.05, 0.05]", "", "nothing was held against the reference of SERVER_MEDIAN_TPOT@8", 12},
		{"SERVER_MEDIAN_TPOT: [90, -0.05, 0.05]", "--allow-missing-metrics", "passed", 0},
		{"SERVER_MEDIAN_TTTF: [90, -0.05, 0.05]", "", "there is no metric SERVER_MEDIAN_TTTF", 3},
		{"SERVER_MEDIAN_TTFT@64: [90, -0.05, 0.05]", "", "the benchmark has no concurrency 64", 3},
	} {
		dir := caseFolder(t, goodLog(), true)
		with(t, filepath.Join(dir, "effective.yaml"), "references: {"+c.reference+"}")
		args := []string{"parse", dir}
		if c.option != "" {
			args = append(args, c.option)
		}
		out, said, code := perigee(t, nil, args...)
		if code != c.code || !strings.Contains(out+said, c.says) {
			t.Errorf("%s %s: exit code %d, want %d with %s\n%s%s", c.reference, c.option, code, c.code, c.says, out, said)
		}
	}
}

// A log of many levels and evaluations does not make a verdict without end.
func TestReasonsAreBounded(t *testing.T) {
	var levels, table strings.Builder
	for range 1000 {
		levels.WriteString("Benchmarking with concurrency 4 ... 32 prompts\nBenchmark with concurrency 4 done\n")
		table.WriteString("|other|1|none|0|acc||0.5||0.1|\n")
	}
	dir := caseFolder(t, levels.String(), true)
	with(t, filepath.Join(dir, "effective.yaml"), "accuracy: {datasets: [{dataset_name: gsm8k, expected_value: 0.95}]}\n  id: disagg/stress/acc")
	must.Do(t, os.WriteFile(filepath.Join(dir, "7_accuracy_eval_x.log"), []byte(table.String()), 0o644))
	out, said, code := perigee(t, nil, "parse", dir, "--format", "json", "--allow-implausible")
	var v judge.Verdict
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 12 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	if n := len(v.Reasons); n != 102 || !strings.HasSuffix(v.Reasons[100], "more reasons") || v.Reasons[101] != "accuracy: and 1000 more reasons" {
		t.Errorf("%d reasons, %q, %q", n, v.Reasons[100], v.Reasons[n-1])
	}
}

// A case's folder says what the case is: it stands in no tree of tests.
func TestFolderOfAnyType(t *testing.T) {
	dir := caseFolder(t, goodLog(), true)
	config := filepath.Join(dir, "effective.yaml")
	with(t, config, "accuracy: {datasets: [{dataset_name: gsm8k, expected_value: 0.95}]}\n  id: disagg/accuracy/acc")
	table := "|Tasks|Version|Filter|n-shot|Metric|   |Value |   |Stderr|\n|gsm8k|3|flexible-extract|5|exact_match|↑|0.5000|±|0.0060|\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "7_accuracy_eval_x.log"), []byte(table), 0o644))
	if out, said, code := perigee(t, nil, "parse", dir); code != 12 || !strings.Contains(out+said, "below the threshold 91.7975") {
		t.Errorf("exit code %d\n%s%s", code, out, said)
	}
	out, said, code := perigee(t, nil, "run", config, "--gpu", "GB200", "--output", filepath.Join(t.TempDir(), "o"), "--dry-run", "--format", "json")
	if code != 0 || !strings.Contains(out, "disagg_accuracy_acc") || !strings.Contains(out, "id: disagg/accuracy/acc") {
		t.Errorf("exit code %d\n%s%s", code, out, said)
	}
}

// What has failed beside the logs fails the case of a folder, too.
func TestFolderOfDeadPart(t *testing.T) {
	for name, c := range map[string]struct {
		marked  bool
		exits   string // of the part EVALUATE
		verdict string // or, without a brace, the parts that had ended before the mark
		code    int
		says    string
	}{
		"good":                 {true, "", "", 0, "passed"},
		"left":                 {true, "", "", 0, "warning: a task of SERVER_0 on node2 has ended with code 0 during the benchmark"},
		"no mark":              {false, "", "", 0, "warning: the job has left no end mark"},
		"dead":                 {false, "3 node1\n", "", 12, "EVALUATE on node1 has ended with code 3"},
		"time limit":           {false, "", `{"slurm_state": "TIMEOUT", "state": "failed", "levels": [], "reasons": ["x"]}`, 12, "Slurm has ended the job as TIMEOUT: its time limit (slurm.job_time) was over"},
		"preempted":            {false, "143 node1\n", `{"slurm_state": "FAILED", "preempted": true, "state": "failed", "levels": [], "reasons": ["x"]}`, 12, "Slurm has preempted the job"},
		"cancelled":            {false, "143 node1\n", `{"slurm_state": "CANCELLED", "state": "failed", "levels": [], "reasons": ["x"]}`, 12, "Slurm has ended the job as CANCELLED, during EVALUATE"},
		"stopped by the run":   {false, "143 node1\n", `{"slurm_state": "CANCELLED", "stopped": "too late", "state": "failed", "levels": [], "reasons": ["too late"]}`, 12, "too late"},
		"completed":            {false, "", `{"slurm_state": "COMPLETED", "state": "passed", "levels": []}`, 0, "passed"},
		"failed for others":    {true, "", `{"slurm_state": "COMPLETED", "state": "failed", "levels": [], "reasons": ["too late"]}`, 0, "warning: the run has recorded the case as failed: too late"},
		"dead before the mark": {true, "7 node1\n", "EVALUATE", 12, "EVALUATE on node1 has ended with code 7"},
		"ended with the job":   {true, "143 node1\n", "none", 0, "passed"},
	} {
		dir := caseFolder(t, goodLog(), c.marked)
		if !strings.HasPrefix(c.verdict, "{") {
			must.Do(t, os.WriteFile(filepath.Join(dir, "8_ended.txt"), []byte(c.verdict+"\n"), 0o644))
			c.verdict = ""
		}
		if name == "left" {
			must.Do(t, os.WriteFile(filepath.Join(dir, "8_left.txt"), []byte("SERVER_0 node2\nSERVER_0\n"+strings.Repeat("SERVER_0 node3\n", 5)), 0o644))
		}
		if c.exits != "" {
			must.Do(t, os.Mkdir(filepath.Join(dir, "exits"), 0o755), os.WriteFile(filepath.Join(dir, "exits", "EVALUATE"), []byte(c.exits), 0o644))
		}
		if c.verdict != "" {
			must.Do(t, os.WriteFile(filepath.Join(dir, judge.CaseName), []byte(c.verdict), 0o644))
		}
		if out, said, code := perigee(t, nil, "parse", dir); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit code %d, want %d and %s\n%s%s", name, code, c.code, c.says, out, said)
		}
	}
}

// What is not judged is not recorded either.
func TestBenchmarkOfAccuracyCase(t *testing.T) {
	dir := caseFolder(t, strings.ReplaceAll(goodLog(), "Failed requests:                         0", "Failed requests: 5"), true)
	with(t, filepath.Join(dir, "effective.yaml"), "accuracy: {datasets: [{dataset_name: gsm8k, expected_value: 0.5}]}\n  id: disagg/accuracy/acc")
	table := "|Tasks|Version|Filter|n-shot|Metric|   |Value |   |Stderr|\n|gsm8k|3|flexible-extract|5|exact_match|↑|0.5000|±|0.0060|\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "7_accuracy_eval_x.log"), []byte(table), 0o644))
	out, said, code := perigee(t, nil, "parse", dir)
	if code != 0 || !strings.Contains(out, "the benchmark in the log (6 levels) is neither judged nor recorded") || strings.Contains(out, "200.25") {
		t.Errorf("exit code %d\n%s%s", code, out, said)
	}
	with(t, filepath.Join(dir, "effective.yaml"), "references: {SERVER_MEDIAN_TTFT: [100, -0.1, 0.1]}")
	if _, said, code := perigee(t, nil, "parse", dir); code != 3 || !strings.Contains(said, "the figures of an accuracy case are not judged") {
		t.Errorf("references: exit code %d\n%s", code, said)
	}
}

// With a pattern that names the concurrency, too, figures outside of a level are a warm-up's, unless the client prints
// all figures behind the levels.
func TestPatternOutsideOfLevels(t *testing.T) {
	level := func(c, figure string) string {
		return "Benchmarking with concurrency " + c + " ... 80 prompts\nSuccessful requests: 80\nFailed requests: 0\nTotal generated tokens: 800\n" +
			figure + "Benchmark with concurrency " + c + " done\n"
	}
	figure := func(c, ms string) string { return "ttft=" + ms + " c=" + c + "\n" }
	one, two := level("1", figure("1", "100")), level("2", figure("2", "200"))
	long := strings.Repeat("x", 300_000) + "\n" // such lines are left out of what is read line by line
	const (
		before = "[\\s\\S]*?ttft=([0-9.]+)[ ]c=([0-9]+)"
		across = "first=([0-9.]+)[\\s\\S]*?ttft=[0-9.]+[ ]c=([0-9]+)"
	)
	for name, c := range map[string]struct{ log, want, pattern string }{
		"a long line before":             {long + level("1", strings.Repeat("a line\n", 20_000)+figure("1", "9")+figure("1", "100")) + two, "passed 100 200", ""},
		"a long line in a level":         {level("1", long+figure("1", "9")+strings.Repeat("a line\n", 50_000)+figure("1", "100")) + two, "passed 100 200", ""},
		"lines of Windows":               {strings.ReplaceAll(one+two, "\n", "\r\n"), "passed 100 200", "ttft=([0-9.]+)[ ]c=([0-9]+)$\\n^"},
		"lines of Windows behind":        {strings.ReplaceAll(level("1", "")+level("2", "")+figure("1", "100")+figure("2", "200"), "\n", "\r\n"), "passed 100 200", ""},
		"a match that begins before":     {level("1", figure("1", "9")+figure("1", "100")) + level("2", figure("2", "8")+figure("2", "200")), "passed 100 200", before},
		"a match into the next level":    {level("1", "first=100\n") + level("2", "first=8\n"+figure("2", "9")+"first=200\n"+figure("2", "9")), "failed - 200", across},
		"a match that begins far before": {figure("1", "9") + level("1", figure("1", "100")) + level("2", figure("2", "200")), "passed 100 200", before},
		"levels":                         {one + two, "passed 100 200", ""},
		"warm-ups before and between":    {figure("1", "9") + one + figure("1", "8") + two, "passed 100 200", ""},
		"a check behind":                 {one + two + figure("2", "7"), "passed 100 200", ""},
		"a warm-up in a level":           {level("1", figure("2", "9")+figure("1", "100")) + two, "passed 100 200", ""},
		"a level that has only warm-up":  {one + figure("2", "7") + level("2", ""), "failed 100 -", ""},
		"all behind":                     {level("1", "") + level("2", "") + figure("1", "100") + figure("2", "200"), "passed 100 200", ""},
		"each behind its level":          {level("1", "") + figure("1", "100") + level("2", "") + figure("2", "200"), "passed 100 200", ""},
		"all behind, and a warm-up":      {level("1", "") + figure("1", "100") + figure("1", "9") + level("2", "") + figure("2", "200"), "failed 9 200", ""},
		"no levels":                      {figure("1", "100") + figure("2", "200"), "passed 100 200", ""},
		"no levels, one twice":           {figure("1", "100") + figure("2", "200") + figure("2", "7"), "failed 100 7", ""},
		"no levels, one again":           {figure("1", "100") + figure("2", "200") + figure("2", "200"), "passed 100 200", ""},
	} {
		dir := caseFolder(t, c.log, true)
		config := filepath.Join(dir, "effective.yaml")
		pattern := cmp.Or(c.pattern, "ttft=([0-9.]+)[ ]c=([0-9]+)")
		with(t, config, "metrics: {extractor_pattern: '"+pattern+"', metric_names: [TTFT]}")
		text := must.Read(t, config)
		must.Do(t, os.WriteFile(config, []byte(strings.ReplaceAll(string(text), sixLevels, "1 2")), 0o644))
		out, said, _ := perigee(t, nil, "parse", dir, "--format", "json", "--allow-unknown-tokens")
		var v struct {
			State  string
			Levels []struct{ Metrics map[string]float64 }
		}
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatalf("%s: %v\n%s%s", name, err, out, said)
		}
		got := v.State
		for _, l := range v.Levels {
			if ms, ok := l.Metrics["TTFT"]; ok {
				got += fmt.Sprint(" ", ms)
			} else {
				got += " -"
			}
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s\n%s", name, got, c.want, out)
		}
	}
}

// Of a level that is there twice only the last one is judged.
func TestLevelTwice(t *testing.T) {
	bad := strings.NewReplacer("concurrency C ", "concurrency 8 ", "Failed requests:                         0", "Failed requests: 400",
		"Successful requests:                     10000", "Successful requests: 9600", "100.50", "500").Replace(goodLevel)
	dir := caseFolder(t, bad+goodLog(), true)
	with(t, filepath.Join(dir, "effective.yaml"), "references: {SERVER_MEDIAN_TTFT: [100, -0.05, 0.05]}")
	out, said, code := perigee(t, nil, "parse", dir, "--allow-missing-levels")
	if code != 0 || !strings.Contains(out, "requests: 60000, 0 failed") || !strings.Contains(out, "the last one counts") {
		t.Errorf("exit code %d\n%s%s", code, out, said)
	}
	if _, _, code := perigee(t, nil, "parse", dir); code != 12 {
		t.Errorf("without --allow-missing-levels: exit code %d", code)
	}
}

// What a client prints outside of levels changes no level, but for the sum of failures behind its end.
func TestCountsOutsideOfLevels(t *testing.T) {
	failing := strings.NewReplacer("Failed requests:                         0", "Failed requests: 5", "Successful requests:                     10000", "Successful requests: 9995").Replace(goodLevel)
	warmup := "Total requests: 8\nSuccessful requests: 8\nFailed requests: 0\nTotal generated tokens: 1\nBenchmark duration (s): 1\n"
	for text, want := range map[string]string{
		failing + warmup:                                   "5 of 10000 requests failed",
		failing + "Total failed requests: 0\n":             "5 of 10000 requests failed",
		goodLevel + "Total failed requests: 7\n":           "7 of 10000 requests failed",
		strings.Replace(goodLevel, "10000.00", "1e999", 1): "Output token throughput (tok/s): wanted a number",
	} {
		file := filepath.Join(t.TempDir(), "6_bench.log")
		must.Do(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "concurrency C ", "concurrency 8 ")), 0o644))
		for _, format := range []string{"text", "json"} {
			if out, said, _ := perigee(t, nil, "parse", file, "--format", format); !strings.Contains(out, want) {
				t.Errorf("%.300s:\n%s%s, want %s", text, out, said, want)
			}
		}
	}
	// Two clients side by side: which figure is whose, nothing says.
	two := strings.Replace(goodLevel, "Median E2EL (ms):                        200.25", "1: Median TTFT (ms): 500\nMedian E2EL (ms): 700", 1)
	mixed := filepath.Join(t.TempDir(), "6_bench.log")
	must.Do(t, os.WriteFile(mixed, []byte(strings.ReplaceAll(two, "concurrency C ", "concurrency 8 ")), 0o644))
	if out, said, code := perigee(t, nil, "parse", mixed); code != 12 || !strings.Contains(out, "its result block says SERVER_MEDIAN_TTFT 100.5 and 500") {
		t.Errorf("mixed: exit code %d\n%s%s", code, out, said)
	}
	short := strings.NewReplacer("concurrency C ", "concurrency 8 ", "Median TTFT (ms):                        100.50", "P99 ITL (ms): 9\nMedian TTFT (ms): 7").Replace(goodLevel)
	file := filepath.Join(t.TempDir(), "6_bench.log")
	must.Do(t, os.WriteFile(file, []byte(short), 0o644))
	if out, said, code := perigee(t, nil, "parse", file); code != 0 || !strings.Contains(out, "9.00") || !strings.Contains(out, "7.00") {
		t.Errorf("short lines: exit code %d\n%s%s", code, out, said)
	}
}

// A case without a job has failed, and its folder says so; what an earlier run has left there stays.
func TestCasesWithoutJobs(t *testing.T) {
	commands := t.TempDir()
	for name, text := range map[string]string{"squeue": "", "sbatch": "echo no such partition >&2; exit 1", "sacct": "exit 1", "scancel": ""} {
		must.Do(t, os.WriteFile(filepath.Join(commands, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	t.Setenv("PATH", commands+":"+os.Getenv("PATH"))
	for name, c := range map[string]struct {
		partition, says string
	}{"refused": {"p", "Job submission failed: sbatch: no such partition"}, "invalid": {"", "Validation failed: "}} {
		out, config := judged(t)
		own := filepath.Join(t.TempDir(), "effective.yaml")
		must.Do(t, os.Rename(config, own))
		with(t, own, "benchmark_type: perf")
		if said, code := rejudge(t, out, own); code != 0 {
			t.Fatalf("%s: exit code %d\n%s", name, code, said)
		}
		if c.partition == "" {
			with(t, own, "id: disagg/perf/effective\n  nonsense: 1")
		}
		env := map[string]string{"SLURM_PARTITION": "p", "SLURM_ACCOUNT": "a"}
		list, said, code := perigee(t, env, "run", own, "--gpu", "GB200", "--output", out, "--poll", "10ms", "--settle", "0s", "--format", "json")
		var cases []judge.Case
		if err := json.Unmarshal([]byte(list), &cases); err != nil || code != 12 || len(cases) != 1 || !strings.Contains(cases[0].Reasons[0], c.says) {
			t.Errorf("%s: exit code %d, %v\n%s%s", name, code, err, list, said)
		}
		if again, _, code := perigee(t, env, "run", own, "--gpu", "GB200", "--output", out, "--resume", "--format", "json"); code != 12 && code != 3 || code == 12 && !strings.Contains(again, c.says) {
			t.Errorf("%s, resumed: exit code %d\n%s", name, code, again)
		}
		report, said, code := perigee(t, nil, "report", out, "--format", "json")
		if code != 0 || !strings.Contains(report, c.says) || !strings.Contains(report, "200.25") {
			t.Errorf("%s: exit code %d\n%s%s", name, code, report, said)
		}
	}
}

// The GPUs of a job that runs commands are those of its resources.
func TestGPUsOfCommands(t *testing.T) {
	config := filepath.Join(t.TempDir(), "toy.yaml")
	must.Do(t, os.WriteFile(config, []byte("metadata: {model_name: toy, supported_gpus: [LOCAL]}\nbenchmark: {concurrency_list: 8, input_length: 10, output_length: 10}\n"+
		"job: {command: 'true'}\nresources: {gpus_per_node: 4, prefill_nodes: 1, decode_nodes: 2}\n"), 0o644))
	out := filepath.Join(t.TempDir(), "out")
	dir := filepath.Join(out, judge.LogsFolder, "disagg_perf_toy")
	must.Do(t, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "6_bench.log"), []byte(strings.ReplaceAll(goodLevel, "concurrency C ", "concurrency 8 ")), 0o644))
	list, said, code := perigee(t, map[string]string{"DEBUG_MODE": "1"}, "run", config, "--gpu", "LOCAL", "--output", out, "--settle", "0s", "--format", "json")
	var cases []judge.Case
	if err := json.Unmarshal([]byte(list), &cases); err != nil || code != 0 || len(cases) != 1 || cases[0].GPUs != 12 {
		t.Errorf("exit code %d, %v, %+v\n%s", code, err, cases, said)
	}
}

// Runs into different output folders may have the same log_dir: each has its own folder there, which report knows.
func TestCasesInLogDir(t *testing.T) {
	logs := t.TempDir()
	for _, name := range []string{"one", "two"} {
		out := filepath.Join(t.TempDir(), name)
		from := caseFolder(t, goodLog(), true)
		config := filepath.Join(t.TempDir(), "effective.yaml")
		must.Do(t, os.Rename(filepath.Join(from, "effective.yaml"), config))
		with(t, config, "benchmark_type: perf")
		data, err := os.ReadFile(config)
		must.Do(t, err, os.WriteFile(config, []byte(strings.Replace(string(data), "environment:\n", "environment:\n  log_dir: "+logs+"\n", 1)), 0o644))
		dir := filepath.Join(logs, batch.FolderName(out), "disagg_perf_effective")
		must.Do(t, os.MkdirAll(filepath.Dir(dir), 0o755), os.Rename(from, dir))
		if said, code := rejudge(t, out, config); code != 0 {
			t.Fatalf("exit code %d\n%s", code, said)
		}
		must.Do(t, os.WriteFile(filepath.Join(out, "jobs.jsonl"), []byte(`{"event":"submitting","task":"disagg_perf_effective","dir":"`+dir+`"}`+"\n"+
			`{"event":"submitting","task":"other","dir":"/etc/perigee/other"}`+"\n"), 0o600))
		if list, said, code := perigee(t, nil, "report", out, "--format", "json"); code != 0 || strings.Count(list, `"dir": "`+dir+`"`) != 1 {
			t.Errorf("exit code %d\n%s%s", code, list, said)
		}
	}
	if list := batch.Elsewhere("relative"); list != nil {
		t.Error(list)
	}
}

// Cases with equal names would take each other's results for their own.
func TestEqualNames(t *testing.T) {
	files := map[string]string{}
	long := "b/" + strings.Repeat("c", 230)
	for _, name := range []string{"a/toy", "b/toy", "b/toy.2", "b/c", long} {
		files[name] = filepath.Join(t.TempDir(), name+".yaml")
		must.Do(t, os.MkdirAll(filepath.Dir(files[name]), 0o755), os.Rename(filepath.Join(caseFolder(t, "", false), "effective.yaml"), files[name]))
		with(t, files[name], "benchmark_type: perf")
	}
	for _, c := range []struct {
		files  string
		repeat string
		says   string
	}{
		{"a/toy b/toy", "1", "are both the case disagg_perf_toy"}, {"a/toy b/toy.2", "2", "would use the same result folder"},
		{"a/toy b/toy.2", "1", ""}, {"a/toy b/c", "2", ""}, {long, "1", "whose name has 242 bytes; wanted 230 at most"},
	} {
		args := []string{"run", "--gpu", "GB200", "--output", filepath.Join(t.TempDir(), "o"), "--dry-run", "--repeat", c.repeat}
		for name := range strings.FieldsSeq(c.files) {
			args = append(args, files[name])
		}
		_, said, code := perigee(t, nil, args...)
		if want := map[bool]int{true: 0, false: 3}[c.says == ""]; code != want || !strings.Contains(said, c.says) {
			t.Errorf("%s, %s times: exit code %d, want %d with %q\n%s", c.files, c.repeat, code, want, c.says, said)
		}
	}
}

// Results that are read again are the same run: its figures stand once, with its job and times.
func TestReadAgain(t *testing.T) {
	out, config := judged(t)
	var first judge.Case
	var rows []byte
	for time := range 3 {
		if said, code := rejudge(t, out, config); code != 0 {
			t.Fatalf("exit code %d\n%s", code, said)
		}
		csv := must.Read(t, filepath.Join(out, report.CSVName))
		data, err := os.ReadFile(filepath.Join(out, judge.LogsFolder, "disagg_perf_effective", judge.CaseName))
		var c judge.Case
		must.Do(t, err, json.Unmarshal(data, &c))
		if time == 0 {
			first, rows = c, csv
			continue
		}
		if string(csv) != string(rows) || !c.Began.Equal(first.Began) || !c.Ended.Equal(first.Ended) || c.Job != first.Job {
			t.Errorf("again: job %s from %s to %s, want %s from %s to %s; the table\n%s", c.Job, c.Began, c.Ended, first.Job, first.Began, first.Ended, csv)
		}
	}
}

// A run that goes on counts what is recorded in its reports, and says where a config has changed since.
func TestReportsOfResumed(t *testing.T) {
	from := caseFolder(t, strings.Replace(goodLog(), "Total generated", "No", 1), true)
	out := filepath.Join(t.TempDir(), "out")
	config, result := filepath.Join(t.TempDir(), "effective.yaml"), filepath.Join(out, judge.LogsFolder, "disagg_perf_effective")
	with(t, filepath.Join(from, "effective.yaml"), "benchmark_type: perf")
	data, err := os.ReadFile(filepath.Join(from, "effective.yaml"))
	must.Do(t, err, os.WriteFile(config, data, 0o644), os.MkdirAll(filepath.Dir(result), 0o755), os.Rename(from, result))
	if said, code := rejudge(t, out, config); code != 12 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	must.Do(t, os.WriteFile(filepath.Join(out, "jobs.jsonl"), []byte(`{"time":"2026-01-14T02:03:04.5Z","event":"began"}
{"time":"2026-01-14T02:03:04.5Z","event":"submitting","task":"disagg_perf_effective","dir":"`+result+`"}
{"time":"2026-01-14T02:03:04.5Z","event":"submitted","task":"disagg_perf_effective","job":"17"}
{"time":"2026-01-14T02:33:04.5Z","event":"ended","task":"disagg_perf_effective","job":"17"}
{"time":"2026-01-14T02:33:04.5Z","event":"recorded","task":"disagg_perf_effective","job":"17","state":"failed"}
`), 0o600))
	list, said, code := perigee(t, map[string]string{"SLURM_PARTITION": "p", "SLURM_ACCOUNT": "a"}, "run", config, "--gpu", "GB200", "--output", out, "--resume", "--format", "json")
	var cases []judge.Case
	if err := json.Unmarshal([]byte(list), &cases); err != nil || len(cases) != 1 || cases[0].State != "failed" || cases[0].Dir != result+batch.FailedSuffix {
		t.Errorf("%v: %s", err, list)
	}
	junit, err := os.ReadFile(filepath.Join(out, "junit.xml"))
	if err != nil || code != 12 || !strings.Contains(string(junit), `failures="1"`) || !strings.Contains(string(junit), `skipped="0"`) {
		t.Errorf("exit code %d, %v\n%s\n%s", code, err, said, junit)
	}
	must.Do(t, os.Remove(filepath.Join(result+batch.FailedSuffix, judge.CaseName)))
	list, _, code = perigee(t, map[string]string{"SLURM_PARTITION": "p", "SLURM_ACCOUNT": "a"}, "run", config, "--gpu", "GB200", "--output", out, "--resume", "--format", "json")
	cases = nil
	if err := json.Unmarshal([]byte(list), &cases); err != nil || code != 12 || len(cases) != 1 || cases[0].State != "failed" || !strings.Contains(list, "without figures in") {
		t.Errorf("without its verdict: exit code %d, %v: %s", code, err, list)
	}
	if !strings.Contains(said, "changed") {
		t.Errorf("the config is not the one of the job (which had no partition):\n%s", said)
	}
}
