package disagg

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// perigee runs `perigee disagg` with arguments and returns what it prints and
// its exit code.
func perigee(t *testing.T, env map[string]string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out bytes.Buffer
	stderr, code = perigeeTo(t, &out, env, args...)
	return out.String(), stderr, code
}

func perigeeTo(t *testing.T, out io.Writer, env map[string]string, args ...string) (stderr string, code int) {
	t.Helper()
	var errs bytes.Buffer
	s := cli.Streams{In: strings.NewReader(""), Out: out, Err: &errs, Env: func(name string) string { return env[name] }}
	var c struct {
		Disagg Cmd `cmd:""`
	}
	k, err := cli.Parser(&c, kong.Bind(s), kong.Writers(out, &errs), kong.Exit(func(int) {}))
	must.Do(t, err)
	ctx, err := k.Parse(append([]string{"disagg"}, args...))
	if err == nil {
		err = ctx.Run()
	} else {
		err = fault.New(fault.Usage, "%w", err)
	}
	if err != nil {
		cli.PrintError(&errs, err)
		code = int(fault.KindOf(err))
	}
	return errs.String(), code
}

// outcomes are the table of section 10 of the framework's description: what each
// config must say under both sets of rules; "" for nothing.
var outcomes = []struct {
	file, path, strict, upstream string
	line                         int
}{
	{"00_base_valid", "", "", "", 0},
	{"01_mtp_tokens_too_small", "worker_config.gen.max_num_tokens", "is 64, needs 128 = 32*(3+1)", "is 64, needs at least 128 = 32*(3+1)", 49},
	{"02_streaming_false", "benchmark.streaming", "streaming must be true", "streaming must be true", 23},
	{"03_gen_seq_len_equal_sum", "worker_config.gen.max_seq_len", "must be > 2048", "must be > 2048", 50},
	{"04_ctx_seq_len_equal_isl", "worker_config.ctx.max_seq_len", "must be > 2048", "must be > 1024", 64},
	{"05_concurrency_over_batch", "benchmark.concurrency_list", "", "concurrency 36 exceeds gen max_batch_size 32", 24},
	{"06_concurrency_over_batch_tp", "benchmark.concurrency_list", "", "concurrency 257 exceeds gen max_batch_size*tensor_parallel_size 256", 24},
	{"07_concurrency_list_commas", "benchmark.concurrency_list", `"1,2,4" is not an integer (blank-separated)`, `"1,2,4" is not an integer (blank-separated)`, 24},
	{"08_missing_gen_max_seq_len", "worker_config.gen.max_seq_len", "missing worker_config.gen.max_seq_len", "", 43},
	{"09_concurrency_list_blank", "benchmark.concurrency_list", "concurrency_list is empty", "concurrency_list is empty", 24},
	{"10_concurrency_list_int", "benchmark.concurrency_list", "", "concurrency 2048 exceeds gen max_batch_size 32", 24},
	{"11_strictness_split_ctx_between_isl_and_sum", "worker_config.ctx.max_seq_len", "must be > 2048", "", 64},
	{"12_tokens_above", "worker_config.gen.max_num_tokens", "is 256, needs 128", "", 49},
}

func TestValidateGolden(t *testing.T) {
	for _, rules := range []string{"strict", "upstream"} {
		out, _, code := perigee(t, nil, "validate", "testdata/configs", "--format", "json", "--validation", rules)
		if code != int(fault.Input) {
			t.Errorf("%s: exit code %d", rules, code)
		}
		var got []struct {
			File, ID string
			Valid    bool
			Errors   []struct {
				Path, Message string
				Line          int
			}
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != len(outcomes) {
			t.Fatalf("%s: %d configs, %v", rules, len(got), err)
		}
		for i, want := range outcomes {
			g, message := got[i], want.strict
			if rules == "upstream" {
				message = want.upstream
			}
			if g.File != filepath.Join("testdata/configs", want.file+".yaml") || g.ID != "disagg_perf_"+want.file {
				t.Errorf("file %s, id %s", g.File, g.ID)
			}
			if g.Valid != (message == "") || len(g.Errors) > 1 {
				t.Errorf("%s, %s: valid %v, errors %v, want %q", want.file, rules, g.Valid, g.Errors, message)
				continue
			}
			if message == "" {
				continue
			}
			if e := g.Errors[0]; !strings.Contains(e.Message, message) || e.Path != want.path || e.Line != want.line {
				t.Errorf("%s, %s: got %+v, want %q at line %d", want.file, rules, e, message, want.line)
			}
		}
	}
	if out, _, code := perigee(t, nil, "validate", "testdata/configs/00_base_valid.yaml"); code != 0 || !strings.Contains(out, "1 valid, 0 invalid (rules: strict)") {
		t.Errorf("the valid config: exit code %d, %s", code, out)
	}
}

// What is wrong with all cases of a file is said once.
func TestValidateSaysOnce(t *testing.T) {
	base := must.Read(t, "testdata/configs/00_base_valid.yaml")
	file := filepath.Join(t.TempDir(), "a.yaml")
	must.Do(t, os.WriteFile(file, append(base, "sweep: {benchmark.multi_round: [1, 2, 3]}\nstrange: 1\n"...), 0o600))
	out, _, code := perigee(t, nil, "validate", file)
	if n := strings.Count(out, "the key \"strange\""); code != int(fault.Input) || n != 1 || !strings.Contains(out, "3 configurations: 0 valid, 3 invalid") {
		t.Errorf("exit code %d, named %d times\n%s", code, n, out)
	}
}

// level is a level in the JSON of parse.
type level struct {
	Concurrency int
	Complete    bool
	Metrics     map[string]float64
}

type parsed struct {
	Levels         []level
	FailedRequests *int `json:"failed_requests"`
	TotalRequests  *int `json:"total_requests"`
	Accuracy       []struct {
		Run          int
		Task, Filter string
		Value        float64
		Threshold    float64
		Passed       *bool
	}
	State    string
	Reasons  []string
	Warnings []string
}

func parse(t *testing.T, args ...string) (parsed, int) {
	t.Helper()
	out, errs, code := perigee(t, nil, append([]string{"parse", "--format", "json", "--settle", "0s"}, args...)...)
	var p parsed
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	return p, code
}

func TestParseGolden(t *testing.T) {
	type medians map[int][2]float64 // TTFT and E2EL by concurrency
	for _, c := range []struct {
		file          string
		levels        int
		complete      medians
		failed, total int
		state, reason string
	}{
		{"1_clean_two_levels", 2, medians{4: {131.42, 7855.73}, 8: {150.08, 8290.11}}, 0, 96, "passed", ""},
		{"2_srun_prefix_warmup_tqdm", 1, medians{16: {144.30, 8740.55}}, 0, 128, "passed", ""},
		{"3_failed_requests", 1, medians{64: {131.42, 7855.73}}, 17, 512, "failed", "17 of 512 requests failed"},
		{"4_level_crashed_midway", 3, medians{4: {130.10, 7850.20}, 16: {170.70, 9050.60}}, 0, 224, "failed", "level 8 has no end line"},
		{"5_truncated_no_done", 1, medians{}, -1, -1, "failed", "level 4 has no end line"},
		{"7_worker_early_failure", 0, medians{}, -1, -1, "failed", "no level in the log"},
	} {
		p, code := parse(t, "testdata/logs/"+c.file+".log")
		got := medians{}
		for _, l := range p.Levels {
			if !l.Complete {
				if len(l.Metrics) > 0 {
					t.Errorf("%s: level %d is not complete and has figures", c.file, l.Concurrency)
				}
				continue
			}
			got[l.Concurrency] = [2]float64{l.Metrics["SERVER_MEDIAN_TTFT"], l.Metrics["SERVER_MEDIAN_E2EL"]}
			if c.file[0] == '1' && len(l.Metrics) != 12 {
				t.Errorf("%s: level %d has %d metrics", c.file, l.Concurrency, len(l.Metrics))
			}
		}
		if diff := cmp.Diff(c.complete, got); diff != "" || len(p.Levels) != c.levels {
			t.Errorf("%s: %d levels, %s", c.file, len(p.Levels), diff)
		}
		if c.failed >= 0 && (p.FailedRequests == nil || *p.FailedRequests != c.failed || *p.TotalRequests != c.total) || c.failed < 0 && p.FailedRequests != nil {
			t.Errorf("%s: requests %v of %v", c.file, p.FailedRequests, p.TotalRequests)
		}
		if p.State != c.state || !strings.Contains(strings.Join(p.Reasons, "\n"), c.reason) || (code == 0) != (c.state == "passed") {
			t.Errorf("%s: %s, exit code %d, %q", c.file, p.State, code, p.Reasons)
		}
	}
}

func TestParseAccuracy(t *testing.T) {
	text := must.Read(t, "testdata/configs/00_base_valid.yaml")
	dir := filepath.Join(t.TempDir(), "disagg", "accuracy")
	must.Do(t, os.MkdirAll(dir, 0o755))
	config := filepath.Join(dir, "one.yaml")
	more := "metadata:\n  accuracy:\n    datasets:\n    - {dataset_name: gsm8k, expected_value: 0.9454}"
	must.Do(t, os.WriteFile(config, []byte(strings.Replace(string(text), "metadata:", more, 1)), 0o644))
	p, code := parse(t, "testdata/logs/6_accuracy_two_runs.log", "--config", config)
	if p.State != "failed" || code != int(fault.Threshold) || len(p.Accuracy) != 4 {
		t.Fatalf("%s, exit code %d: %+v", p.State, code, p)
	}
	for i, want := range []struct {
		run    int
		filter string
		value  float64
		passed bool
	}{{1, "flexible-extract", .9454, true}, {1, "strict-match", .9431, false}, {2, "flexible-extract", .9052, false}, {2, "strict-match", .9029, false}} {
		got := p.Accuracy[i]
		if got.Run != want.run || got.Filter != want.filter || got.Value != want.value || got.Task != "gsm8k" {
			t.Errorf("row %d: %+v", i, got)
		}
		if judged := want.filter == "flexible-extract"; judged != (got.Passed != nil) || judged && *got.Passed != want.passed {
			t.Errorf("row %d: passed is %v", i, got.Passed)
		}
	}
	if r := strings.Join(p.Reasons, "\n"); !strings.Contains(r, "run 2 of gsm8k reached 90.5200, below the threshold 91.3375") || strings.Contains(r, "run 1") {
		t.Error(r)
	}
	// Nothing is expected of it: no score passes.
	must.Do(t, os.WriteFile(config, []byte(strings.Replace(string(text), "metadata:", strings.ReplaceAll(more, ", expected_value: 0.9454", ""), 1)), 0o644))
	p, code = parse(t, "testdata/logs/6_accuracy_two_runs.log", "--config", config)
	if p.State != "unjudged" || code != 0 || p.Accuracy[0].Passed != nil || !strings.Contains(strings.Join(p.Warnings, "\n"), "not judged, since metadata.accuracy.datasets has no expected_value for it: gsm8k") {
		t.Errorf("without expected_value: %+v, exit code %d", p, code)
	}
	if p, code := parse(t, "testdata/logs/6_accuracy_two_runs.log"); p.State != "unjudged" || code != 0 {
		t.Errorf("without a reference: %s, exit code %d", p.State, code)
	}
}

// What else is wrong with configs, in one folder: each has its own message, and
// none stops the others.
func TestValidateAlso(t *testing.T) {
	base := must.Read(t, "testdata/configs/00_base_valid.yaml")
	root := t.TempDir()
	swap := func(old, new string) string { return strings.Replace(string(base), old, new, 1) }
	want := map[string]string{
		"disagg/smoke/category": "there are no metrics for disagg/smoke", "disagg/perf/syntax": "this is not YAML",
		"disagg/perf/list": "wanted a map with the sections", "disagg/perf/nvsa": "this client runs end to end only; mode is gen_only",
		"disagg/accuracy/reference": "missing metadata.accuracy.datasets", "wideep/accuracy/absolute": "wanted hypothesis_test, the only kind of test, got \"absolute\"",
		"disagg/perf/empty": "got an empty one", "wideep/perf/good": "", "disagg/perf/anchors": "",
	}
	for name, text := range map[string]string{
		"disagg/smoke/category": string(base), "disagg/perf/syntax": "a: [\n", "disagg/perf/list": "- a\n", "disagg/perf/empty": "",
		"disagg/perf/nvsa":          swap("mode: e2e\n  use_nv_sa_benchmark: false", "mode: gen_only\n  use_nv_sa_benchmark: true"),
		"disagg/accuracy/reference": string(base), "wideep/perf/good": string(base),
		"wideep/accuracy/absolute": swap("metadata:", "metadata:\n  accuracy: {datasets: [{name: gsm8k, threshold_type: absolute}]}"),
		"disagg/perf/anchors":      strings.Replace(swap("  gen:\n", "  gen:\n    more: &id001 {a: null}\n"), "  ctx:\n", "  ctx:\n    more: *id001\n", 1),
	} {
		path := filepath.Join(root, name+".yaml")
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	out, _, code := perigee(t, nil, "validate", root, "--format", "json")
	var got []struct {
		File   string
		Valid  bool
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 3 || len(got) != len(want) {
		t.Fatalf("%v, exit code %d, %d configs", err, code, len(got))
	}
	for _, g := range got {
		name, _ := strings.CutPrefix(strings.TrimSuffix(g.File, ".yaml"), root+"/")
		message, known := want[name]
		if !known || g.Valid != (message == "") || !g.Valid && !strings.Contains(g.Errors[0].Message, message) {
			t.Errorf("%s: %v %v, want %q", name, g.Valid, g.Errors, message)
		}
	}
}
