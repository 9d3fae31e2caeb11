package disagg

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/must"
	"perigee/internal/serving/judge"
)

// A case of six levels, as its config and its log.
const sixLevels = "1 2 4 8 16 32"

// goodLevel is the log of one level of 10,000 requests with 10 tokens each.
const goodLevel = `Benchmarking with concurrency C ... 10000 prompts
============ Serving Benchmark Result ============
Total requests:                          10000
Successful requests:                     10000
Failed requests:                         0
Benchmark duration (s):                  10.00
Total generated tokens:                  100000
Output token throughput (tok/s):         10000.00
Median TTFT (ms):                        100.50
Median E2EL (ms):                        200.25
==================================================
Benchmark with concurrency C done
`

func goodLog() string {
	var b strings.Builder
	for c := range strings.SplitSeq(sixLevels, " ") {
		b.WriteString(strings.ReplaceAll(goodLevel, "concurrency C ", "concurrency "+c+" "))
	}
	return b.String()
}

// caseFolder makes a result folder with a config of six levels.
func caseFolder(t *testing.T, log string, marked bool) string {
	t.Helper()
	dir := t.TempDir()
	base := must.Read(t, "testdata/configs/00_base_valid.yaml")
	text := strings.NewReplacer("concurrency_list: 1 2 4 8", "concurrency_list: "+sixLevels, "num_gen_servers: 2", "num_gen_servers: 1",
		"output_length: 1024", "output_length: 10").Replace(string(base))
	files := map[string]string{"effective.yaml": text, "6_bench.log": log}
	if marked {
		files["8_done_17.txt"] = "node1\n"
	}
	for name, content := range files {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	return dir
}

// S6: everything that looks green and is not, and what is just green.
func TestFalseGreens(t *testing.T) {
	swap := func(old, new string) string { return strings.Replace(goodLog(), old, new, 1) }
	failing := func(n, ok, tokens string) string {
		return strings.NewReplacer("Failed requests:                         0", "Failed requests: "+n, "Successful requests:                     10000", "Successful requests: "+ok,
			"100000", tokens, "10000.00", tokens[:4]+".00").Replace(goodLog())
	}
	withoutEnd := swap("Benchmark with concurrency 8 done\n", "")
	whole := goodLog()
	_, block, _ := strings.Cut(goodLevel, "prompts\n")
	block, _, _ = strings.Cut(block, "Benchmark with")
	warmup := strings.NewReplacer("Benchmarking with concurrency 1 ... 10000 prompts\n", "warming up\n", "Benchmark with concurrency 1 done\n", "UCX warmup done\nSUCCESS\n").
		Replace(strings.SplitAfter(whole, "concurrency 1 done\n")[0])
	for _, c := range []struct {
		name, log string
		args      []string
		reason    string // "": green
	}{
		{"good", whole, nil, ""},
		{"good with a prefix", "12: " + strings.ReplaceAll(strings.TrimSuffix(whole, "\n"), "\n", "\n12: ") + "\n", nil, ""},
		{"good with mpirun's prefix", "[1,0]<stdout>:" + strings.ReplaceAll(strings.TrimSuffix(whole, "\n"), "\n", "\n[1,0]<stdout>:") + "\n", nil, ""},
		{"no token", swap("100000", "0"), nil, "level 1: no token was generated"},
		{"few tokens", swap("100000", "89999"), nil, "89999 tokens were generated, fewer than 90000"},
		{"just enough tokens", strings.Replace(swap("100000", "90000"), "10000.00", "9000.00", 1), nil, ""},
		{"5.01 percent failed", failing("501", "9499", "94990"), []string{"--max-failed", "5"}, "501 of 10000 requests failed (5.01 %), more than 5 %"},
		{"5 percent failed", failing("500", "9500", "95000"), []string{"--max-failed", "5"}, ""},
		{"a failed one", failing("1", "9999", "99990"), nil, "1 of 10000 requests failed"},
		{"five of six", swap(strings.ReplaceAll(goodLevel, "concurrency C ", "concurrency 8 "), ""), nil, "level 8 is missing: 5 of 6 levels"},
		{"five of six, allowed", swap(strings.ReplaceAll(goodLevel, "concurrency C ", "concurrency 8 "), ""), []string{"--allow-missing-levels"}, ""},
		{"no end line", withoutEnd, nil, "level 8 has no end line"},
		{"end line of another level", swap("Benchmark with concurrency 8 done", "Benchmark with concurrency 16 done"), nil, "level 8 has no end line"},
		{"cut within a line", whole[:len(whole)-20], nil, "ends within a line"},
		{"cut after the last word", strings.TrimSuffix(whole, "\n"), nil, ""},
		{"a terminal's sequence at the end", whole + "\x1b[?25h", nil, ""},
		{"cut behind a terminal's sequence", whole + "\x1b[?25hBench", nil, "ends within a line"},
		{"warm-up only", warmup, nil, "1 result block outside of levels (a warm-up run) does not count"},
		{"a metric is missing", swap("Median E2EL (ms):                        200.25\n", ""), nil, "level 1 lacks SERVER_MEDIAN_E2EL"},
		{"a level twice", whole + strings.ReplaceAll(goodLevel, "concurrency C ", "concurrency 8 "), nil, "level 8 is in the log more often"},
		{"neither failed nor successful", swap("Successful requests:                     10000", "Successful requests: 9999"), nil, "1 of 10000 requests failed"},
		{"lost requests", swap("Total requests:                          10000", "Total requests: 9000"), nil, "9000 of 10000 prompts are accounted for"},
		{"E2EL below TTFT", swap("200.25", "20.25"), nil, "Median E2EL 20.25 ms is below TTFT 100.5 ms"},
		{"a wrong rate", swap("10000.00", "20000.00"), nil, "the log says 20000 tok/s"},
		{"no tokens in the log", swap("Total generated tokens:                  100000\n", ""), nil, "does not say how many tokens"},
		{"empty", "", nil, "the log is empty"},
		{"not a number", swap("100.50", "nan"), nil, "level 1 lacks SERVER_MEDIAN_TTFT"},
		{"not a number after a warm-up", swap("====\nBenchmark with", "====\n"+strings.Replace(block, "100.50", "1,234.5", 1)+"Benchmark with"), nil, "level 1 lacks SERVER_MEDIAN_TTFT"},
		{"a second block without a figure", swap("====\nBenchmark with", "====\n"+strings.Replace(block, "Median E2EL (ms):                        200.25\n", "", 1)+"Benchmark with"), nil, "level 1 lacks SERVER_MEDIAN_E2EL"},
		{"SGLang's names", strings.ReplaceAll(whole, "Median E2EL (ms)", "Median E2E Latency (ms)"), nil, ""},
	} {
		p, code := parse(t, append([]string{caseFolder(t, c.log, true)}, c.args...)...)
		reasons := strings.Join(p.Reasons, "\n")
		if green := c.reason == ""; green != (p.State == "passed") || green != (code == 0) || !strings.Contains(reasons, c.reason) {
			t.Errorf("%s: %s, exit code %d, %s\nwant %q", c.name, p.State, code, reasons, c.reason)
		}
	}
}

// A log that does not say how many prompts a level had is held against the configuration, or has to say what failed.
func TestPromptsThatTheLogDoesNotSay(t *testing.T) {
	level := func(first, counts string) string {
		return "Benchmarking with concurrency 4" + first + "\n============ Serving Benchmark Result ============\n" + counts +
			"Total generated tokens: 120\nMedian TTFT (ms): 73\nMedian E2EL (ms): 500\nBenchmark with concurrency 4 done\n"
	}
	const text = "metadata: {model_name: toy}\nbenchmark: {concurrency_list: 4, input_length: 10, output_length: 10ROUNDS}\n" +
		"job: {command: 'true'}\n"
	const unknown = "level 4: the log does not say how many requests failed"
	const ok1, ok12 = "Successful requests: 1\n", "Successful requests: 12\n"
	for _, c := range []struct{ first, counts, rounds, reason string }{
		{"", ok1, ", multi_round: 3", "level 4: 1 of 12 prompts (concurrency times benchmark.multi_round) are accounted for"},
		{"", ok1 + "Failed requests: 0\n", ", multi_round: 3", "1 of 12 prompts"}, {"", ok12, ", multi_round: 3", ""},
		{" ... 12 prompts, ISL 10", ok1, "", "level 4: 1 of 12 prompts are accounted for"}, {" ... 12 prompts, ISL 10", ok12, "", ""},
		{"", ok1, "", unknown}, {"", ok1 + "Failed requests: 1,000\n", "", unknown}, {"", "Total requests: 12\n", "", unknown},
		{"", ok1 + "Failed requests: 0\n", "", ""}, {"", ok1 + "Total requests: 1\n", "", ""},
	} {
		dir := t.TempDir()
		log, config := filepath.Join(dir, "6_bench.log"), filepath.Join(dir, "c.yaml")
		if err := errors.Join(os.WriteFile(log, []byte(level(c.first, c.counts)), 0o600),
			os.WriteFile(config, []byte(strings.Replace(text, "ROUNDS", c.rounds, 1)), 0o600)); err != nil {
			t.Fatal(err)
		}
		for _, relaxed := range []bool{false, true} {
			args := []string{log, "--config", config, "--settle", "0s"}
			if relaxed {
				args = append(args, "--allow-unknown-tokens")
			}
			p, _ := parse(t, args...)
			reasons := strings.Join(p.Reasons, "\n")
			green := c.reason == "" || relaxed && c.first == ""
			if green != (p.State == "passed") || !green && !strings.Contains(reasons, c.reason) {
				t.Errorf("%q, relaxed %v: %s, %s\nwant %q", c, relaxed, p.State, reasons, c.reason)
			}
		}
	}
}

// A count that cannot be read is named, and a verdict that is none said to be none.
func TestWhatIsNotThere(t *testing.T) {
	p, _ := parse(t, caseFolder(t, strings.Replace(goodLog(), "Failed requests:                         0", "Failed requests: 0x", 1), true))
	if text := strings.Join(p.Warnings, "\n"); !strings.Contains(text, `Failed requests: wanted a whole number, got "0x"`) {
		t.Errorf("warnings: %s", text)
	}
	p, _ = parse(t, caseFolder(t, strings.Replace(goodLog(), "100.50", "inf", 1), true))
	if text := strings.Join(p.Warnings, "\n"); !strings.Contains(text, `line 9: Median TTFT (ms): wanted a number, got "inf"`) {
		t.Errorf("warnings: %s", text)
	}
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "slurm_logs", "a;touch $(id)"), 0o755))
	hint := "hint: parse the case again: perigee disagg parse '" + filepath.Join(dir, "slurm_logs", "a;touch $(id)") + "'\n"
	for _, text := range []string{"null", "{}", `{"verdict":null}`} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "slurm_logs", "a;touch $(id)", "verdict.json"), []byte(text), 0o600))
		if _, said, code := perigee(t, nil, "report", dir); code != 3 || !strings.Contains(said, "wanted a verdict of perigee disagg, got none") || !strings.Contains(said, hint) {
			t.Errorf("%s: exit code %d, %s", text, code, said)
		}
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "slurm_logs", "a;touch $(id)", "verdict.json"), []byte("{"), 0o600))
	if _, said, code := perigee(t, nil, "report", dir); code != 3 || !strings.Contains(said, "hint: without the folder "+dir) {
		t.Errorf("a cut verdict: exit code %d, %s", code, said)
	}
}

// What a relaxed gate lets pass has figures: those of the last try, and those that are there.
func TestFiguresBehindRelaxedGates(t *testing.T) {
	again := strings.NewReplacer("concurrency C ", "concurrency 8 ", "100.50", "50.5").Replace(goodLevel)
	p, code := parse(t, caseFolder(t, goodLog()+again, true), "--allow-missing-levels")
	complete := 0
	for _, l := range p.Levels {
		if l.Concurrency != 8 || !l.Complete {
			continue
		}
		if complete++; l.Metrics["SERVER_MEDIAN_TTFT"] != 50.5 {
			t.Errorf("level 8 has %v", l.Metrics)
		}
	}
	if code != 0 || complete != 1 || len(p.Levels) != 7 {
		t.Errorf("exit code %d, %d of %d levels are complete and of 8", code, complete, len(p.Levels))
	}
	p, code = parse(t, caseFolder(t, strings.Replace(goodLog(), "Median E2EL (ms):                        200.25\n", "", 1), true), "--allow-missing-metrics")
	if l := p.Levels[0]; code != 0 || !l.Complete || l.Metrics["SERVER_MEDIAN_TTFT"] != 100.5 || len(l.Metrics) != 1 {
		t.Errorf("exit code %d, %+v", code, l)
	}
}

// A log that grows is read when it has stopped, and never called complete before.
func TestGrowingLog(t *testing.T) {
	whole := goodLog()
	dir := caseFolder(t, whole[:len(whole)/2], false)
	file, err := os.OpenFile(filepath.Join(dir, "6_bench.log"), os.O_APPEND|os.O_WRONLY, 0)
	must.Do(t, err)
	defer file.Close()
	ended := make(chan error)
	go func() {
		rest := whole[len(whole)/2:]
		for i := range 10 {
			time.Sleep(30 * time.Millisecond)
			if _, err := file.WriteString(rest[i*len(rest)/10 : (i+1)*len(rest)/10]); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	p, _ := parse(t, dir, "--settle", "3s")
	must.Do(t, <-ended)
	if p.State != "passed" || len(p.Levels) != 6 {
		t.Errorf("%s with %d levels: %q", p.State, len(p.Levels), p.Reasons)
	}
	// One that never stops fails.
	stop := make(chan struct{})
	if _, err := file.WriteString("still here\n"); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			case <-time.After(5 * time.Millisecond):
				file.WriteString("still here\n")
			}
		}
	}()
	// parse would wait for ten times as long.
	e, err := judge.Gather(dir, judge.Expect{}, judge.Patience{Quiet: 3 * time.Second, Limit: time.Millisecond})
	close(stop)
	<-ended
	must.Do(t, err)
	if v := judge.Judge(e, judge.Expect{}, judge.Gates{}, nil); v.State != judge.Failed || !strings.Contains(strings.Join(v.Reasons, "\n"), "still growing") {
		t.Errorf("%s: %q", v.State, v.Reasons)
	}
}

func TestParseBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, data, 0o644))
		return path
	}
	for name, data := range map[string][]byte{
		"zeros": make([]byte, 1<<20), "one-line": []byte(strings.Repeat("x", 1<<20)), "latin": []byte("caf\xe9 M\xe9dian\nBenchmarking with concurrency 99999999999999999999 ... 1 prompts\n"),
		"negative": []byte("Benchmarking with concurrency -4 ... 1 prompts\nBenchmark with concurrency -4 done\n"),
	} {
		if p, code := parse(t, write(name, data)); p.State != "failed" || code == 0 || len(p.Levels) != 0 {
			t.Errorf("%s: %s, exit code %d, %v", name, p.State, code, p.Levels)
		}
	}
	if _, errs, code := perigee(t, nil, "parse", filepath.Join(dir, "nowhere")); code != 3 || !strings.Contains(errs, "no such file") {
		t.Errorf("a missing log: exit code %d, %s", code, errs)
	}
	if _, errs, code := perigee(t, nil, "parse", t.TempDir()); code != 3 || !strings.Contains(errs, "the folder of no case") {
		t.Errorf("an empty folder: exit code %d, %s", code, errs)
	}
	if _, errs, code := perigee(t, nil, "parse", dir, "--max-failed", "101"); code != 2 {
		t.Errorf("a limit of 101 percent: exit code %d, %s", code, errs)
	}
}
