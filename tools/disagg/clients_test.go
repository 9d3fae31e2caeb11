package disagg

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// answer is what is known of a file of testdata/clients: the figures that it states, and whether a benchmark can have
// measured them.
type answer struct {
	File   string
	Honest bool
	Why    string
	Law    string // that an impossible one breaks
	Levels []struct {
		Concurrency      *int // nil where the file does not state it
		Requests, Failed *int
		Metrics          map[string]float64 // ms
	}
}

// saying is what the reasons say of a file that breaks a law.
var saying = map[string]*regexp.Regexp{
	"zero":        regexp.MustCompile(`(TTFT|ITL|TPOT).* 0(\.0+)?\b|0(\.0+)? ms`),
	"rate":        regexp.MustCompile(`throughput|tok/s|tokens per second`),
	"little":      regexp.MustCompile(`Little`),
	"order":       regexp.MustCompile(`(TTFT|ITL).* is (above|below) the (P\d+|Median)`),
	"sum":         regexp.MustCompile(`(TPOT|ITL).*E2EL|E2EL.*(TPOT|ITL)`),
	"count":       regexp.MustCompile(`(200|512).*requests|requests.*(200|512)`),
	"retokenized": regexp.MustCompile(`tokenized|text that came back`),
	"failed":      regexp.MustCompile(`[rR]equests.*failed|no request|0 requests`),
	"cut":         regexp.MustCompile(`ends|end line|cut|not whole`),
	"nan":         regexp.MustCompile(`(?i)nan|inf|number`),
	"duration":    regexp.MustCompile(`E2EL.*(duration| s\b)|duration.*E2EL`),
}

// answers returns those of a client.
func answers(t *testing.T, client string) []answer {
	t.Helper()
	text := must.Read(t, filepath.Join("testdata", "clients", client, "answers.json"))
	var list []answer
	must.Do(t, json.Unmarshal(text, &list))
	return list
}

// What is no result of a generative benchmark, or of no known client, fails with what it is; rates of a GPU are said to
// be such; latencies that cannot be read fail without a configuration, too.
func TestSaysWhatItIs(t *testing.T) {
	const aiperf = `{"request_latency": {"unit": "fortnights", "avg": 5}, "request_count": {"unit": "requests", "avg": 64}, ` +
		`"output_token_throughput": {"unit": "tokens/sec", "avg": 409.6}, "input_config": {"concurrency": 8}}`
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	for file, want := range map[string]string{
		"../../internal/serving/benchlog/testdata/embeddings.log":                "failed: *no output tokens and no TTFT: not a generative benchmark (embeddings?)",
		"../../internal/serving/benchlog/testdata/inferencex.json":               "1 of 1 log passed*InferenceX*1500.00*38.50*40900.00*200.00*warning: *tokens per second are those of a GPU",
		"../../internal/serving/benchlog/testdata/max.log":                       "1 of 1 log passed* - 10 100 0 60.00*660.00*warning: *the client is not known: figures that it calls otherwise are not read",
		write("a.json", aiperf):                                                  "failed: *level 8: no figure of its E2EL can be read",
		write("e.log", "2026-01-02 - evalscope - INFO: Benchmarking summary:\n"): "failed: *it is of EvalScope, not a client that perigee knows (known: vLLM, SGLang, *InferenceX)",
		write("m.log", "python benchmark_serving_multi_turn.py\n"):               "failed: *it is of vLLM's multi-turn client, not a client that perigee knows",
		write("n.log", "hello\n"):                                                "failed: *no line \"Benchmarking with concurrency\", and no result of a known client (vLLM, *InferenceX)",
	} {
		out, said, code := perigee(t, map[string]string{}, "parse", "--settle", "0s", file)
		text := blanks.ReplaceAllString(out+said, " ")
		parts := strings.Split(want, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		if !regexp.MustCompile("(?s)"+strings.Join(parts, ".*")).MatchString(text) || strings.HasPrefix(want, "failed") != (code != 0) {
			t.Errorf("%s: exit %d\n%s\nwanted %s", file, code, out+said, want)
		}
	}
}

// The files of testdata/clients are made by hand and by a simulation of single requests, after what each client writes.
// Each is read without a configuration: an honest one passes with the figures that it states, one that no run can have
// measured fails.
func TestClients(t *testing.T) {
	for _, client := range []string{"vllm", "sglang", "aiperf", "trtllm-serving", "trtllm-bench"} {
		list := answers(t, client)
		honest := 0
		for _, a := range list {
			if a.Honest {
				honest++
			}
		}
		if honest < 5 || len(list)-honest < 5 {
			t.Errorf("%s: %d files, %d honest", client, len(list), honest)
		}
		for _, a := range list {
			t.Run(client+"/"+a.File, func(t *testing.T) {
				p, code := parse(t, filepath.Join("testdata", "clients", client, a.File))
				if want := map[bool]string{true: "passed", false: "failed"}[a.Honest]; p.State != want || (code == 0) != a.Honest {
					t.Errorf("state %s, exit code %d, wanted %s: %s\n%s", p.State, code, want, a.Why, strings.Join(p.Reasons, "\n"))
				}
				if reasons := strings.Join(p.Reasons, "\n"); !a.Honest && !saying[a.Law].MatchString(reasons) {
					t.Errorf("the reasons do not say %s: %s\n%s", saying[a.Law], a.Why, reasons)
				}
				t.Logf("%s: %q, warnings %q", a.Law, p.Reasons, p.Warnings)
				if a.Law != "cut" && a.Law != "failed" { // of which no level need be left
					compare(t, a, p, client == "aiperf")
				}
			})
		}
	}
}

// compare holds what was read against the answer. AIPerf calls ITL what others call TPOT: both names will do.
func compare(t *testing.T, a answer, p parsed, either bool) {
	t.Helper()
	if len(p.Levels) != len(a.Levels) {
		t.Errorf("%d levels, wanted %d", len(p.Levels), len(a.Levels))
		return
	}
	requests, failed := 0, 0
	for i, want := range a.Levels {
		got := p.Levels[i]
		if want.Concurrency != nil && got.Concurrency != *want.Concurrency {
			t.Errorf("level %d: concurrency %d, wanted %d", i, got.Concurrency, *want.Concurrency)
		}
		for name, value := range want.Metrics {
			x, ok := got.Metrics[name]
			if !ok && either {
				x, ok = got.Metrics[strings.Replace(name, "ITL", "TPOT", 1)]
			}
			if !ok || math.Abs(x-value) > 1e-9*math.Abs(value) {
				t.Errorf("level %d: %s is %v (there: %v), wanted %v", i, name, x, ok, value)
			}
		}
		for name, value := range got.Metrics {
			_, ok := want.Metrics[name]
			if !ok && strings.HasPrefix(name, "SERVER_") && !(either && strings.HasSuffix(name, "TPOT")) {
				t.Errorf("level %d: %s is %v, which the file does not state", i, name, value)
			}
		}
		if want.Requests != nil && want.Failed != nil {
			requests, failed = requests+*want.Requests, failed+*want.Failed
		}
	}
	if requests == 0 || a.Law == "count" {
		return
	}
	if p.TotalRequests == nil || *p.TotalRequests != requests || *p.FailedRequests != failed {
		t.Errorf("requests %v, %v failed, wanted %d and %d", p.TotalRequests, p.FailedRequests, requests, failed)
	}
}

// What srun and Windows put around lines changes nothing, and a file that ends early does not pass.
func TestClientsAltered(t *testing.T) {
	dir := t.TempDir()
	for _, client := range []string{"vllm", "sglang", "aiperf", "trtllm-serving", "trtllm-bench"} {
		for _, a := range answers(t, client) {
			text := must.Read(t, filepath.Join("testdata", "clients", client, a.File))
			if !a.Honest {
				continue
			}
			file := filepath.Join(dir, client+"-"+a.File)
			must.Do(t, os.WriteFile(file, text[:len(text)*2/5], 0o600))
			out, _, code := perigee(t, nil, "parse", "--settle", "0s", file)
			if code == 0 && strings.Contains(out, "state: passed") {
				t.Errorf("%s: the first two fifths pass\n%s", file, out)
			}
			if strings.HasPrefix(filepath.Ext(file), ".json") {
				continue
			}
			lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			must.Do(t, os.WriteFile(file, []byte("12: "+strings.Join(lines, "\r\n12: ")+"\r\n"), 0o600))
			t.Run(client+"/"+a.File, func(t *testing.T) {
				p, _ := parse(t, file)
				if p.State != "passed" {
					t.Errorf("with prefixes: %s, %q", p.State, p.Reasons)
				}
				compare(t, a, p, client == "aiperf")
			})
		}
	}
}

// Small changes of a result that say something else.
func TestClientsChanged(t *testing.T) {
	for _, c := range []struct {
		file, old, new string // old is an expression
		reason         string // "": it passes
	}{
		{"vllm/honest3.json", `"completed": \d+`, `"completed": 2000`, "2000 of .* requests succeeded"},
		{"vllm/honest3.json", `"mean_itl_ms": [\d.]+`, `"mean_itl_ms": Infinity`, "mean_itl_ms is Infinity, which is no number, although"},
		{"vllm/honest3.json", `"duration": [\d.]+`, `"duration": NaN`, "duration is NaN, which is no number"},
		{"vllm/honest3.json", `"duration": [\d.]+`, `"duration": 0`, "the duration is 0 s, and"},
		{"vllm/honest1.log", `duration \(s\): .*`, "duration (s): 0.00", "the duration is 0 s, and 20 requests completed"},
		{"vllm/honest1.log", `Output token throughput \(tok/s\): .*`, "Output token throughput (tok/s): 0.00", "the log says 0 tok/s"},
		{"vllm/honest1.log", `Request throughput \(req/s\): .*`, "Request throughput (req/s): 0.00", "the log says 0 req/s"},
		{"vllm/honest3.json", `"request_rate": [^,]+`, `"request_rate": Infinity`, ""},
		{"vllm/honest3.json", `"std_itl_ms": [\d.]+`, `"std_itl_ms": NaN`, ""},
		{"aiperf/honest3.json", `^\{`, `{"is_complete": false,`, "its result has no end, or its run was cancelled"},
		{"aiperf/honest3.json", `^\{`, `{"is_complete": true,`, ""},
		{"trtllm-bench/honest1.log", `concurrent requests: .*`, `concurrent requests: 12.5`, "in flight, the log says 12.5"},
		{"sglang/honest1.log", `\nConcurrency: .*`, "\nConcurrency: 500.00", "in flight, the log says 500"},
		{"aiperf/honest1.log", `[^\n]*(?:Output Token Throughput|Request Count|Sequence Length)[^\n]*\n`, "", ""}, // as short tables are
		{"aiperf/honest1.log", `[^\n]*(?:Throughput|Request Count|Sequence Length)[^\n]*\n`, "", "does not say how many"},
		{"aiperf/honest1.log", `N/A`, "  -", ""},
		// --non-streaming: TTFT is -1 s, from which TPOT counts.
		{"trtllm-serving/honest1.log", `(Mean|Median|P99) (TTFT|TPOT|ITL) \(ms\): .*`, "$1 $2 (ms): -1000.00", ""},
		{"trtllm-serving/honest1.log", `(Mean|P99) TTFT \(ms\): .*`, "$1 TTFT (ms): -1000.00", "Mean TTFT is -1000 ms"},
	} {
		text := must.Read(t, filepath.Join("testdata", "clients", c.file))
		changed := regexp.MustCompile(c.old).ReplaceAll(text, []byte(c.new))
		if string(changed) == string(text) {
			t.Fatalf("%s: no %s", c.file, c.old)
		}
		file := filepath.Join(t.TempDir(), filepath.Base(c.file))
		must.Do(t, os.WriteFile(file, changed, 0o600))
		p, _ := parse(t, file)
		reasons := strings.Join(p.Reasons, "\n")
		if passed := p.State == "passed"; passed != (c.reason == "") || !passed && !regexp.MustCompile(c.reason).MatchString(reasons) {
			t.Errorf("%s with %s: %s, wanted %q:\n%s", c.file, c.new, p.State, c.reason, reasons)
		}
	}
}
