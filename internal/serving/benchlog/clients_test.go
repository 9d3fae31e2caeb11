package benchlog

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/internal/serving"
)

// known are figures of the texts in testdata, as they stand there; "TTFT.p50" is a latency in ms, -1 stands for
// "the text does not say".
var known = map[string][]map[string]float64{
	"vllm.log": {{
		"concurrency": 10, "total": 100, "successful": 100, "failed": 0, "generated": 12800, "input": 102400, "duration": 26.4,
		"rate": 484.85, "requests": 3.79, "tokens": 4363.64, "TTFT.mean": 151.2, "TTFT.p50": 120.1, "TTFT.p90": 300, "TTFT.p99": 402.9,
		"TTFT.p99.9": 410, "TPOT.mean": 19.5, "ITL.p99": 40, "E2EL.mean": 2627.7, "E2EL.p50": 2600, "E2EL.p99": 3000,
	}},
	"vllm.json": {{
		"concurrency": 10, "total": 100, "successful": 98, "failed": 2, "generated": 12544, "input": 100352, "duration": 26.4012,
		"rate": 475.13, "requests": 3.712, "tokens": 4276.2, "TTFT.mean": 151.2, "TTFT.std": 60.5, "TPOT.std": -1, "ITL.p99.9": 40, "ITL.p99": -1,
	}},
	"sglang.log": {{
		"concurrency": 8, "total": 64, "successful": 60, "failed": -1, "generated": 15360, "retokenized": 15350, "input": 61440,
		"duration": 40, "rate": 384, "requests": 1.5, "inputs": 1536, "tokens": 1920, "E2EL.mean": 5200, "E2EL.p90": 5400,
		"E2EL.p99": 5500, "TTFT.p50": 90, "ITL.p95": 25, "ITL.max": 95,
	}},
	"sglang.jsonl": {
		{"concurrency": 8, "total": -1, "successful": 64, "retokenized": 16380, "asked": 192, "inputs": 1638.4, "E2EL.p99": 5500, "ITL.p95": 25},
		{"concurrency": 0, "total": 4, "successful": 3, "failed": -1, "E2EL.p50": 5150},
	},
	"trtllm.json": {{
		"concurrency": 4, "total": 32, "successful": 31, "failed": -1, "generated": 31744, "duration": 61.25, "E2EL.p50": 7855.73,
		"TTFT.std": 20,
	}},
	"aiperf.log": {{
		"concurrency": 0, "successful": 32, "failed": -1, "generated": -1, "duration": 0, "rate": 1244.1, "TTFT.mean": 15559.05,
		"TTFT.min": 235.66, "TTFT.max": 53537.74, "TTFT.p99": 43402.67, "TTFT.p50": 11524.15, "E2EL.mean": 71956.33,
	}},
	"aiperf.json": {{
		"concurrency": 8, "successful": 64, "failed": 1, "generated": 16384, "input": 65536, "duration": 40, "rate": 409.6,
		"requests": 1.6, "TTFT.min": 10.5, "E2EL.p1": 5000, "ITL.mean": 20, "ITL.std": 1,
	}},
	"genai-perf.log": {{
		"concurrency": 2, "successful": 40, "generated": 10476, "input": 22002, "rate": 520.87, "requests": 1.99, "TTFT.p75": 16.56,
		"TTFT.p50": -1, "ITL.mean": 1.85, "E2EL.p90": 526.13,
	}},
	"trtllm-bench.log": {{
		"concurrency": 0, "successful": 10, "generated": 1287, "input": 4116, "duration": 6.9254963, "rate": 185.8351,
		"requests": 1.4439, "tokens": 780.1607, "TTFT.mean": 67.0339, "TTFT.min": 14.7621, "TTFT.p50": 60.5, "TPOT.max": 48.4667,
		"TPOT.p99": 46.5821, "E2EL.p90": 5514.4701, "E2EL.mean": 3671.8441,
	}},
	"trtllm-bench.json": {{
		"successful": 10, "generated": 1287, "duration": 6.9254963, "rate": 185.8351, "TTFT.min": 14.7, "TPOT.mean": 28.2,
		"E2EL.max": 5514.47,
	}},
	"trtllm-bench-latency.log": {{
		"successful": 10, "generated": 1280, "input": 1280, "duration": 5, "rate": 256, "tokens": 0, "requests": 2, "E2EL.mean": 500,
		"TTFT.mean": 15.5, "ITL.mean": 3.815, "TPOT.mean": -1,
	}},
	"sglang-old.log": {{
		"concurrency": 16, "successful": 64, "failed": -1, "generated": 8192, "retokenized": 8180, "input": 65536, "duration": 40,
		"rate": 204.8, "requests": 1.6, "E2EL.mean": 9875, "TTFT.p99": 1500, "ITL.p95": 80, "ITL.max": 400, "TPOT.mean": -1,
	}},
	"inferencex.json": {{
		"concurrency": 64, "total": -1, "successful": -1, "failed": -1, "generated": -1, "rate": 200, "inputs": 1600, "tokens": 1800,
		"asked": 1024, "TTFT.mean": 1500, "TTFT.p50": 1400, "TTFT.p99": 3000, "TPOT.mean": 38.5, "ITL.p99": 90, "E2EL.mean": 40900,
		"E2EL.p99": 45000,
	}},
	"inferencex-ms.json": {{ // in seconds, whatever the names say
		"concurrency": 32, "rate": 400, "inputs": 800, "TTFT.mean": 250, "TTFT.p99": 900, "TPOT.mean": 9.765, "TPOT.p50": 9.7,
		"ITL.p50": 9.6, "E2EL.mean": 10240, "E2EL.std": 500,
	}},
	"embeddings.log": {{
		"concurrency": 0, "successful": 10, "generated": 0, "input": 1997, "E2EL.mean": 162, "TTFT.mean": -1, "TPOT.mean": -1,
	}},
	"max.log": {{ // of a client that is not known
		"concurrency": 10, "total": -1, "successful": 100, "failed": 0, "generated": 6100, "duration": 7.5, "requests": 13.33333,
		"rate": 0, "TTFT.mean": 60, "TTFT.p99": 130, "ITL.mean": 10, "E2EL.mean": 660, "E2EL.p99": 1150,
	}},
	"trtllm-bench-old.log": {{"successful": 3000, "generated": 384000, "duration": 13.5256862, "rate": 28390.4265, "requests": 221.8002}},
}

// said are the figures of a level by the names of known.
func said(l Level) map[string]float64 {
	all := map[string]float64{
		"concurrency": float64(l.Concurrency), "total": Or(l.Requests, -1), "successful": Or(l.Completed, -1),
		"failed": Or(l.Failed, -1), "generated": Or(l.OutputTokens, -1), "retokenized": Or(l.Retokenized, -1),
		"input": Or(l.InputTokens, -1), "duration": Or(l.Duration, 0), "rate": Or(l.OutputRate, 0),
		"requests": Or(l.RequestRate, 0), "inputs": Or(l.InputRate, 0), "tokens": Or(l.TotalRate, 0), "asked": Or(l.AskedOutput, 0),
	}
	for quantity, stats := range l.Latency {
		for stat, ms := range stats {
			all[quantity+"."+stat] = ms
		}
	}
	return all
}

// differ compares a level with what is known of it.
func differ(t *testing.T, name string, l Level, want map[string]float64) {
	t.Helper()
	got := said(l)
	for key, value := range want {
		x, ok := got[key]
		if !ok {
			x = -1
		}
		if !cmp.Equal(x, value, cmpopts.EquateApprox(1e-12, 0)) {
			t.Errorf("%s: %s is %g, wanted %g", name, key, x, value)
		}
	}
}

func readFile(t *testing.T, name string) *Log {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	must.Do(t, err)
	defer file.Close()
	log, err := Read(file)
	if err != nil {
		t.Fatal(name, err)
	}
	return log
}

// Every figure of each client comes out as it stands in its text or JSON, in ms and seconds.
func TestClients(t *testing.T) {
	clients := map[string]string{
		"vllm": VLLM, "sglang": SGLang, "trtllm": TRTLLM, "aiperf": AIPerf, "genai-perf": GenAIPerf, "trtllm-bench": TRTLLMBench,
		"trtllm-bench-old": TRTLLMBench, "trtllm-bench-latency": TRTLLMBench, "sglang-old": SGLang, "embeddings": SGLang,
		"inferencex": InferenceX, "inferencex-ms": InferenceX, "max": "",
	}
	for name, want := range known {
		log := readFile(t, name)
		if len(log.Levels) != len(want) || !log.Unmarked || !log.Whole || log.Unread != nil {
			t.Errorf("%s: %d levels, wanted %d; %+v", name, len(log.Levels), len(want), log)
			continue
		}
		for i, l := range log.Levels {
			client := clients[strings.TrimSuffix(name, filepath.Ext(name))]
			if l.Client != client || !l.Complete || l.Mixed != "" {
				t.Errorf("%s: %+v, wanted a complete one of %s", name, l, client)
			}
			differ(t, name, l, want[i])
			for key, ms := range said(l) { // metrics are the same figures
				quantity, stat, isLatency := strings.Cut(key, ".")
				if name := metric(quantity, stat); isLatency && name != "" && l.Metrics[name] != ms {
					t.Errorf("%s is %g, wanted %g", name, l.Metrics[name], ms)
				}
			}
		}
	}
}

// The same texts in a level's marks, behind srun's prefix, coloured or with other ends of lines, say the same.
func TestClientsInLevels(t *testing.T) {
	for name, want := range known {
		if filepath.Ext(name) != ".log" {
			continue
		}
		text := must.Read(t, filepath.Join("testdata", name))
		prefixed := "0: " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n0: ") + "\n"
		for form, text := range map[string]string{
			"prefix": prefixed, "carriage returns": strings.ReplaceAll(prefixed, "\n", "\r\n"), "colours": strings.ReplaceAll(prefixed, "\n", "\x1b[0m\n"),
		} {
			log, err := Read(strings.NewReader("Benchmarking with concurrency 3 ... 7 prompts\n" + text + "Benchmark with concurrency 3 done\n"))
			if err != nil || len(log.Levels) != 1 || log.Unmarked || !log.Levels[0].Complete {
				t.Fatalf("%s, %s: %+v, %v", name, form, log, err)
			}
			inside := map[string]float64{}
			for key, value := range want[0] {
				if key != "concurrency" && key != "total" { // which the marks say
					inside[key] = value
				}
			}
			inside["concurrency"] = 3
			differ(t, name+", "+form, log.Levels[0], inside)
		}
	}
}

// Whatever stands before the lines, and tabs instead of blanks, all is read as without, in a log without marks, too.
func TestPrefixes(t *testing.T) {
	for name, want := range known {
		if filepath.Ext(name) != ".log" {
			continue
		}
		text := must.Read(t, filepath.Join("testdata", name))
		plain := readFile(t, name)
		for _, prefix := range []string{
			"12: ", "(BenchClient pid=1234) ", "(APIServer pid=7) (x=y) ", "level=info msg=", "client-1  | ", "a == b: ",
			"[2026-01-02 03:04:05,678] [INFO] ", "2026-01-02T03:04:05Z stdout F ", "pid = 7 ",
		} {
			behind := prefix + strings.ReplaceAll(strings.TrimSuffix(string(text), "\n"), "\n", "\n"+prefix) + "\n"
			log, err := Read(strings.NewReader(behind))
			if err != nil || len(log.Levels) != len(want) || log.Levels[0].Client != plain.Levels[0].Client || !log.Levels[0].Complete {
				t.Errorf("%s behind %q: %+v, %v", name, prefix, log, err)
				continue
			}
			differ(t, name+" behind "+prefix, log.Levels[0], want[0])
		}
		if strings.HasPrefix(name, "trtllm-bench") || strings.Contains(name, "perf") {
			continue
		}
		log, err := Read(strings.NewReader(regexp.MustCompile(`: {2,}`).ReplaceAllString(string(text), ":\t")))
		if err != nil || len(log.Levels) != len(want) {
			t.Fatalf("%s with tabs: %+v, %v", name, log, err)
		}
		differ(t, name+" with tabs", log.Levels[0], want[0])
	}
}

// A half of a title is no rule; a client that is mentioned beside no result is named.
func TestRulesAndMentions(t *testing.T) {
	for line, want := range map[string]bool{
		strings.Repeat("=", 50): true, "x=1 " + strings.Repeat("=", 50): true, strings.Repeat("=", 20): true, strings.Repeat("=", 19): false,
		strings.Repeat("=", 22) + " A " + strings.Repeat("=", 22): false,
	} {
		if isRule([]byte(line)) != want {
			t.Errorf("%s: wanted %v", line, want)
		}
	}
	for text, want := range map[string]string{
		"python -m benchmark_serving_multi_turn\nruntime_sec 5\n": "vLLM's multi-turn client", "2026 - evalscope - INFO: x\n": "EvalScope", "a\n": "",
		"Percentile results:\n":                      "EvalScope",
		`{"Number of concurrency": 4, "x": "a"}`:     "EvalScope",
		"0: input_num_turns   166.0     7.43\n":      "vLLM's multi-turn client",
		"[BENCHMARK] seq_throughput(seq/sec) 30.5\n": "TensorRT-LLM's old client (gptManagerBenchmark, benchmark.py)",
	} {
		if log, err := Read(strings.NewReader(text)); err != nil || log.Other != want {
			t.Errorf("%q: %q, %v", text, log.Other, err)
		}
	}
}

// Latencies of InferenceX's aggregates are in what their TPOT and tokens per second of a user agree on; where names say
// ms and these say nothing, they are not read.
func TestInferenceXUnits(t *testing.T) {
	for keys, want := range map[string]float64{
		`"mean_ttft": 0.5`: 500, `"mean_ttft": 0.5, "mean_tpot": 0.01, "mean_intvty": 100`: 500,
		`"mean_ttft_ms": 0.5, "mean_tpot_ms": 0.01, "mean_intvty_ms": 100`:                       500,
		`"mean_ttft_ms": 500, "mean_tpot_ms": 10, "mean_intvty_ms": 100`:                         500,
		`"mean_ttft_ms": 500, "median_tpot_ms": 10, "median_intvty": "x", "p99_intvty_ms": 5000`: -1,
		`"mean_ttft_ms": 0.5`: -1,
	} {
		log, err := Read(strings.NewReader(`{"hw": "x", "conc": 8, "framework": "vllm", "output_tput_per_gpu": 10, ` + keys + "}"))
		if err != nil || len(log.Levels) != 1 {
			t.Fatalf("%s: %+v, %v", keys, log, err)
		}
		l := log.Levels[0]
		differ(t, keys, l, map[string]float64{"TTFT.mean": want})
		if unread := want < 0; unread != slices.Contains(l.Unreadable(), "TTFT") || unread != (len(log.Unread) > 0) {
			t.Errorf("%s: unreadable %q, unread %q", keys, l.Unreadable(), log.Unread)
		}
	}
}

// In a log with a level's marks, what stands outside of them is a warm-up's.
func TestMarksGoFirst(t *testing.T) {
	text, _ := os.ReadFile("testdata/vllm.log")
	for _, log := range []string{string(text) + one, one + string(text)} {
		got, err := Read(strings.NewReader(log))
		if err != nil || len(got.Levels) != 1 || got.Levels[0].Concurrency != 4 || got.Warmups != 1 || got.Unmarked {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// A text that ends within a result has one less that counts, or is not whole, wherever it ends.
func TestCutResults(t *testing.T) {
	ends := map[string]string{".json": "}", ".jsonl": "}", "aiperf.log": "┘", "genai-perf.log": "┘"}
	for name, want := range known {
		end := ends[name] + ends[filepath.Ext(name)]
		switch {
		case strings.HasPrefix(name, "trtllm-bench") && end == "":
			end = "Total Latency" // its report goes on, and has no line that ends it
		case end == "":
			end = strings.Repeat("=", 40) + "\n"
		}
		text := must.Read(t, filepath.Join("testdata", name))
		for cut := range bytes.LastIndex(text, []byte(end)) {
			log, err := Read(bytes.NewReader(text[:cut]))
			if err != nil {
				t.Fatal(name, err)
			}
			complete := slices.DeleteFunc(log.Levels, func(l Level) bool { return !l.Complete })
			if len(complete) == len(want) && log.Whole {
				t.Fatalf("%s: complete at %d of %d bytes: %q", name, cut, len(text), text[max(0, cut-60):cut])
			}
		}
	}
}

const table1 = "Benchmarking with concurrency 4 ... 32 prompts\n" +
	"┃ Metric ┃ avg ┃ min ┃ p99 ┃\n" +
	"│ Time to First Token (ms) │ 15,559.05 │ 35.66 │ N/A │\n" +
	"│ Output Token │ 1,244.10 │ N/A │ N/A │\n" +
	"│ Throughput │ │ │ │\n" +
	"│ (tokens/sec) │ │ │ │\n" +
	"│ Output Token Throughput Per User │ 1.00 │ N/A │ N/A │\n" +
	"│ Request Latency (s) │ 71.95633 │ 2 │ 112 │\n" +
	"│ Request Count (requests) │ 32.00 │ N/A │ N/A │\n" +
	"└────┘\n" +
	"Benchmark with concurrency 4 done\n"

// Tables have other borders, names over several lines, units, and cells that hold no number.
func TestTables(t *testing.T) {
	want := map[string]float64{"TTFT.mean": 15559.05, "TTFT.min": 35.66, "TTFT.p99": -1, "rate": 1244.1, "E2EL.mean": 71956.33, "E2EL.min": 2000,
		"successful": 32}
	ascii := strings.NewReplacer("┃", "|", "│", "|", "└────┘", "+----+----+").Replace(table1)
	for form, text := range map[string]string{
		"box": table1, "ASCII": ascii, "an ASCII rule below the header": strings.Replace(ascii, "p99 |\n", "p99 |\n+---+---+\n", 1),
		"a rule of Markdown":     strings.Replace(ascii, "p99 |\n", "p99 |\n|---|---:|---|---|\n", 1),
		"without a lower border": strings.Replace(table1, "└────┘\n", "", 1),
	} {
		log, err := Read(strings.NewReader(text))
		if err != nil || len(log.Levels) != 1 || log.Unread != nil {
			t.Fatalf("%s: %+v, %v", form, log, err)
		}
		differ(t, form, log.Levels[0], want)
	}
	log, err := Read(strings.NewReader(strings.NewReplacer("15,559.05", "15,55…", "(s)", "(fortnights)", "32.00", "1.5", "35.66", "1,2,3").Replace(table1)))
	unread := []string{
		`line 3: time to first token (mean) wanted a number, got "15,55… ms"`, `line 3: time to first token (min) wanted a number, got "1,2,3 ms"`,
		`line 8: request latency (mean) wanted ms, s, us or ns, got "71.95633 fortnights"`, `line 8: request latency (min) wanted ms, s, us or ns, got "2 fortnights"`,
		`line 8: request latency (p99) wanted ms, s, us or ns, got "112 fortnights"`, `line 9: request count (mean) wanted a whole number, got "1.5 requests"`,
	}
	if diff := cmp.Diff(unread, log.Unread, cmpopts.SortSlices(strings.Compare)); err != nil || diff != "" {
		t.Error(diff, err)
	}
	differ(t, "unread", log.Levels[0], map[string]float64{"TTFT.mean": -1, "TTFT.min": -1, "E2EL.mean": -1, "successful": -1})
}

// AIPerf's summary of errors stands before or behind the figures of its run.
func TestErrorSummary(t *testing.T) {
	errs := "┃ Code ┃ Type ┃ Message ┃ Count ┃\n│ 500 │ X │ a long │ 1,002 │\n│ │ │ message │ │\n│ N/A │ Y │ b │ 3 │\n└──┘\n"
	head, end, _ := strings.Cut(table1, "\n")
	table, end, _ := strings.Cut(end, "Benchmark with")
	command := "CLI Command: aiperf profile --concurrency 16 --request-count 32\nBenchmark Duration: 61.25 sec\n"
	for _, text := range []string{table + errs + command, errs + table + command, errs + table + command + errs + table + command} {
		for _, text := range []string{text, head + "\n" + text + "Benchmark with" + end} {
			log, err := Read(strings.NewReader(text))
			if err != nil || len(log.Levels) == 0 {
				t.Fatalf("%q: %+v, %v", text, log, err)
			}
			for _, l := range log.Levels {
				if l.Failed != 1005 || l.Duration != 61.25 || log.Unmarked && l.Concurrency != 16 {
					t.Errorf("%q: %g failed, %g s, concurrency %d", text, l.Failed, l.Duration, l.Concurrency)
				}
			}
		}
	}
}

// JSON as Python and people write it: lists of runs, lines, NaN in figures, and lists of every token between them.
func TestDocuments(t *testing.T) {
	text, _ := os.ReadFile("testdata/vllm.json")
	object := strings.TrimSpace(string(text))
	long := strings.Replace(object, "{", `{"itls": [[`+strings.Repeat(`0.01, NaN, "]\"[", `, 100_000)+`1]], "errors": [`+strings.Repeat(`"", `, 400_000)+`"x"],`, 1)
	for form, text := range map[string]string{
		"lines": object + "\n" + object + "\n", "a list": "[\n" + object + ",\n" + object + "]", "without ends": object + object,
		"long lists": long + "\n" + long, "a mark": "\ufeff" + object + " \n" + object, "Infinity": strings.ReplaceAll(object+object, `"inf"`, "-Infinity"),
	} {
		log, err := Read(strings.NewReader(text))
		if err != nil || !log.JSON || !log.Whole || len(log.Levels) != 2 || log.Unread != nil {
			t.Fatalf("%s: %+v, %v", form, log, err)
		}
		for _, l := range log.Levels {
			differ(t, form, l, known["vllm.json"][0])
		}
	}
	log, err := Read(strings.NewReader(object + "\n" + object[:200]))
	if err != nil || log.Whole || len(log.Levels) != 1 || !strings.HasSuffix(object[:200], log.LastLine) {
		t.Errorf("cut: %+v, %v", log, err)
	}
	for behind, says := range map[string]string{
		"\n{\"a\": 1}": "line 2: wanted the result of a known client", "\n\nx": `line 3: wanted an object of JSON, got 'x'`, "\n{\"a\":\n\n}": "line 4: not JSON",
		"\n{]": "line 2: not JSON",
	} {
		if log, err := Read(strings.NewReader(object + behind)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %+v, %v; wanted %s", behind, log, err, says)
		}
	}
	for _, text := range []string{"{\"a\": 1}", "{}", "{\"completed\": 1}\n", "{} {}", "[]", "[{}]\n"} { // of something else
		if log, err := Read(strings.NewReader(text)); err != nil || !log.JSON || !log.Whole || len(log.Levels) > 0 {
			t.Errorf("%q: %+v, %v", text, log, err)
		}
	}
	for _, text := range []string{"{", "{x}", "{}\nx", "[\nx"} { // something else: a text without results
		if log, err := Read(strings.NewReader(text)); err != nil || log.JSON || len(log.Levels) > 0 {
			t.Errorf("%q: %+v, %v", text, log, err)
		}
	}
	if log, err := Read(strings.NewReader("{\"completed\": 1, \"request_throughput\": 1,\n\"completed\": 2}")); err == nil ||
		err.Error() != `line 2: the key "completed" is there twice: wanted it once` {
		t.Errorf("%+v, %v", log, err)
	}
	log, err = Read(strings.NewReader("{\"completed\": 1.5,\n\"failed\": -1, \"request_throughput\": 1,\n\"mean_ttft_ms\": \"15\",\n\"p99_ttft_ms\": 1e999, \"max_concurrency\": true}"))
	want := []string{`line 1: completed wanted a whole number, got "1.5"`, `line 2: failed wanted a whole number, got "-1"`,
		`line 3: mean_ttft_ms wanted a number, got "15"`, `line 4: max_concurrency wanted a number, got "true"`, `line 4: p99_ttft_ms wanted a number, got "1e999"`}
	if diff := cmp.Diff(want, log.Unread, cmpopts.SortSlices(strings.Compare)); err != nil || diff != "" {
		t.Error(diff, err)
	}
}

// AIPerf and GenAI-Perf write the concurrency at different places of their configurations; warm-ups have others.
func TestConcurrencyOfExports(t *testing.T) {
	for config, want := range map[string]int{
		`{"loadgen": {"concurrency": 8, "warmup_concurrency": 2}}`: 8, `{"loadgen": {"concurrency": null, "request_rate": 5}}`: 0,
		`{"perf_analyzer": {"stimulus": {"concurrency": 16}}}`: 16, `{"concurrency": 4}`: 4,
		`{"phases": [{"name": "warmup", "concurrency": 1}, {"name": "profiling", "concurrency": 32}]}`: 32,
		`{"phases": {"warmup": {"concurrency": 1}, "profiling": {"concurrency": 32}}}`:                 32,
		`{"a": {"concurrency": 1}, "b": {"concurrency": 2}}`:                                           0, `{"concurrency": -1}`: 0, `[]`: 0, `7`: 0,
	} {
		log, err := Read(strings.NewReader(`{"request_latency": {"unit": "ms", "avg": 5}, "input_config": ` + config + `}`))
		if err != nil || len(log.Levels) != 1 || log.Levels[0].Concurrency != want {
			t.Errorf("%s: %+v, %v; wanted %d", config, log, err, want)
		}
	}
}

// Latencies whose units cannot be read are none: of which quantities nothing is left is known.
func TestUnreadable(t *testing.T) {
	for text, want := range map[string]string{
		`{"request_latency": {"unit": "fortnights", "avg": 5, "p50": 4}, "time_to_first_token": {"unit": "ms", "avg": 5}}`: "E2EL",
		`{"request_latency": {"unit": "ms", "avg": "5"}, "time_to_first_token": {"unit": "", "avg": 5, "p99": 7}}`:         "TTFT E2EL",
		`{"request_latency": {"unit": "ms", "avg": "x", "p50": 4}}`:                                                        "",
		`{"request_latency": {"unit": "ms", "avg": NaN}}`:                                                                  "",
	} {
		log, err := Read(strings.NewReader(text))
		if err != nil || len(log.Levels) != 1 || strings.Join(log.Levels[0].Unreadable(), " ") != want {
			t.Errorf("%s: %+v, %v; wanted %s", text, log, err, want)
		}
	}
	log, err := Read(strings.NewReader(strings.ReplaceAll(table1, "(s)", "(fortnights)")))
	if err != nil || !slices.Equal(log.Levels[0].Unreadable(), []string{"E2EL"}) {
		t.Errorf("%+v, %v", log, err)
	}
	if readFile(t, "embeddings.log").Levels[0].Generative() || !readFile(t, "sglang.log").Levels[0].Generative() {
		t.Error("embeddings and generated tokens are not told apart")
	}
}

// A request that is neither counted as completed nor as failed is lost; SGLang's
// client may make several requests of a prompt.
func TestLostRequests(t *testing.T) {
	for counts, want := range map[string][2]int{
		`"num_prompts": 200, "completed": 150, "failed": 0`: {50, 200}, `"num_prompts": 200, "completed": 150`: {50, 200},
		`"num_prompts": 200, "completed": 150, "failed": 50`: {50, 200}, `"num_prompts": 20, "completed": 150, "failed": 1`: {1, 20},
		`"num_prompts": 20, "completed": 150, "failed": 1, "mean_e2e_latency_ms": 5`: {1, 151},
		`"completed": 150, "failed": 1`:                                              {1, 151}, `"completed": 150`: {0, 150}, `"completed": null, "num_prompts": 7`: {-1, 7},
		`"num_prompts": 4, "completed": 3, "errors": ["", "x", "", ""]`: {1, 4},
	} {
		log, err := Read(strings.NewReader(`{"request_throughput": 1, ` + counts + `}`))
		if err != nil || len(log.Levels) != 1 {
			t.Fatal(counts, log, err)
		}
		if failed, total := log.Levels[0].Counts(); [2]int{failed, total} != want {
			t.Errorf("%s: %d of %d failed, wanted %v", counts, failed, total, want)
		}
	}
}

// All that is read goes to the laws.
func TestFigures(t *testing.T) {
	f := readFile(t, "sglang.log").Levels[0].Figures()
	for name, got := range map[string][2]float64{
		"concurrency": {f.Concurrency, 8}, "requests": {f.Requests, 64}, "completed": {f.Completed, 60}, "duration": {f.Duration, 40},
		"input": {f.InputTokens, 61440}, "output": {f.OutputTokens, 15360}, "retokenized": {f.Retokenized, 15350}, "rate": {f.RequestRate, 1.5},
		"input rate": {f.InputRate, 1536}, "output rate": {f.OutputRate, 384}, "total rate": {f.TotalRate, 1920},
		"E2EL": {f.Latency[serving.E2EL].Mean, 5200}, "P90": {f.Latency[serving.E2EL].Percentiles[90], 5400}, "max": {f.Latency[serving.ITL].Max, 95},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %g, wanted %g", name, got[0], got[1])
		}
	}
	if f.Failed == f.Failed || f.AskedOutput == f.AskedOutput {
		t.Errorf("failed %g, asked %g; wanted none", f.Failed, f.AskedOutput)
	}
	f = readFile(t, "aiperf.json").Levels[0].Figures()
	if f.Latency[serving.TPOT].Mean != 20 || f.Latency[serving.TTFT].Min != 10.5 {
		t.Errorf("%+v", f.Latency)
	}
}

// A level of a log that cannot be rewound is read as text.
func TestPipe(t *testing.T) {
	if log, err := Read(io.MultiReader(strings.NewReader(one))); err != nil || len(log.Levels) != 1 {
		t.Errorf("%+v, %v", log, err)
	}
}

// sane fails where a text gives figures that are no numbers, counts below zero, or once this and once that.
func sane(t *testing.T, text []byte) {
	log, err := Read(bytes.NewReader(text))
	if err != nil {
		return
	}
	for _, l := range log.Levels {
		for key, x := range said(l) {
			if x-x != 0 {
				t.Fatalf("%s is %v", key, x)
			}
		}
		l.Figures().Check()
		if l.Concurrency < 0 || l.Completed < 0 || l.Failed < 0 || l.OutputTokens < 0 {
			t.Fatalf("%+v", l)
		}
	}
	if again, err := Read(bytes.NewReader(text)); err != nil || fmt.Sprint(again.Levels) != fmt.Sprint(log.Levels) {
		t.Fatalf("once %v, then %v", log.Levels, again.Levels)
	}
}

func FuzzClients(f *testing.F) {
	words := []string{"\n", "\r", "0: ", " ", "1.5", "15,559.05", "32", "N/A", "nan", "=", "(ms)", "|", "│", "Benchmarking with concurrency 4\n", "Benchmark with concurrency 4 done\n", "Total failed requests: 3\n"}
	for name := range known {
		text := must.Read(f, filepath.Join("testdata", name))
		if f.Add(text); filepath.Ext(name) == ".log" {
			words = append(words, strings.SplitAfter(string(text), "\n")...)
		}
	}
	slices.Sort(words)
	fuzztest.Run(f, slices.Compact(words), sane)
}

func FuzzDocuments(f *testing.F) {
	var documents []string
	for _, name := range []string{"vllm.json", "trtllm.json", "aiperf.json", "trtllm-bench.json"} {
		text := must.Read(f, filepath.Join("testdata", name))
		documents = append(documents, strings.ReplaceAll(string(text), "NaN", "null"))
	}
	fuzztest.RunDocuments(f, documents, sane)
}
