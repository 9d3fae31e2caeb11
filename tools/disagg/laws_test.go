package disagg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// A client that has measured no first token prints 0 for it: that wins every comparison, and fails the case.
func TestNoFirstToken(t *testing.T) {
	const log = "testdata/logs/8_no_first_token.log"
	p, code := parse(t, log)
	reasons := strings.Join(p.Reasons, "\n")
	if p.State != "failed" || code != 12 || len(p.Reasons) != 2 ||
		!strings.Contains(reasons, "level 4: Mean, Median, P99 TTFT is 0 ms, and nothing takes no time (--allow-implausible lets it pass)") ||
		!strings.Contains(reasons, "level 4: Mean ITL is 0 ms") {
		t.Errorf("%s, exit code %d:\n%s", p.State, code, reasons)
	}
	if p, code := parse(t, log, "--allow-implausible"); p.State != "passed" || code != 0 {
		t.Errorf("relaxed: %s, exit code %d: %q", p.State, code, p.Reasons)
	}
	// The configuration may say that answers come whole: then there is no first token.
	config := filepath.Join(t.TempDir(), "c.yaml")
	const text = "metadata: {model_name: toy}\nbenchmark: {concurrency_list: 4, multi_round: 8, input_length: 1024, output_length: 1024, streaming: STREAMING}\n" +
		"job: {command: 'true'}\n"
	for streaming, state := range map[string]string{"true": "failed", "false": "passed"} {
		must.Do(t, os.WriteFile(config, []byte(strings.Replace(text, "STREAMING", streaming, 1)), 0o600))
		if p, _ := parse(t, log, "--config", config); p.State != state {
			t.Errorf("streaming %s: %s, want %s: %q", streaming, p.State, state, p.Reasons)
		}
	}
}

// Laws between figures fail a level by name, and a length that the configuration asks for makes them tight.
func TestLawsOfALevel(t *testing.T) {
	golden := must.Read(t, "testdata/logs/1_clean_two_levels.log")
	for _, c := range []struct{ old, new, reason string }{
		{"61.25", "31.25", "level 4: 32 requests of 7911 ms in 31.25 s keep 8.101 in flight, more than the concurrency of 4 (Little's law)"},
		{"534.99", "53499.00", "level 4: 32768 tokens in 61.25 s are 535 tok/s, the log says 53499 tok/s"},
		{"Median E2EL (ms):                        7855.73", "Median E2EL (ms): 9855.73", "level 4: Median E2EL 9855.73 ms is above the P99, 9120.4 ms"},
		{"Mean E2EL (ms):                          7911.00", "Mean E2EL (ms): 791.10", "level 4: Mean E2EL 791.1 ms is less than Median, P99 allow"},
		{"Mean TPOT (ms):                          7.60", "Mean TPOT (ms): 4.60", "level 4: TTFT + (1024 tokens - 1) x TPOT are 4853.9 ms, the mean E2EL is 7911 ms"},
		{"Mean TTFT (ms):                          148.10", "Mean TTFT (ms): -1.00", "level 4: Mean TTFT is -1 ms"},
	} {
		dir := caseFolder(t, strings.ReplaceAll(string(golden), "concurrency 8 ", "concurrency 2 "), true)
		config := filepath.Join(dir, "effective.yaml")
		text := must.Read(t, config)
		text = []byte(strings.NewReplacer("concurrency_list: "+sixLevels, "concurrency_list: 4 8", "output_length: 10\n", "output_length: 1024\n").Replace(string(text)))
		must.Do(t, os.WriteFile(config, text, 0o600))
		log := strings.Replace(string(golden), c.old, c.new, 1)
		if log == string(golden) {
			t.Fatalf("%q is not in the log", c.old)
		}
		file := filepath.Join(dir, "6_bench.log")
		must.Do(t, os.WriteFile(file, []byte(log), 0o600))
		for _, args := range [][]string{{dir}, {dir, "--allow-implausible"}} {
			p, _ := parse(t, args...)
			list := map[bool][]string{false: p.Reasons, true: p.Warnings}[len(args) == 2]
			if text := strings.Join(list, "\n"); !strings.Contains(text, c.reason) || (p.State == "passed") != (len(args) == 2) {
				t.Errorf("%q -> %q, %v: %s:\n%s", c.old, c.new, args[1:], p.State, text)
			}
		}
	}
}

// What no run can have measured fails, what is seldom is a warning, and neither is what only looks like equal lengths.
func TestLawsOfClients(t *testing.T) {
	for _, c := range []struct{ file, reason, warning string }{
		{"seconds.json", "level 50: 1000 requests, 50 at a time, take at most 11.01 s by their E2EL, the log says 220 s (Little's law)", ""},
		{"few-tokens.log", "level 10: 100 requests were answered with 3 tokens, less than one each", ""},
		{"retokenized.log", "", "level 8: the text that came back holds 14500 of 32768 tokens (44.3 %): 725 tok/s by those that came, 1638.4 by those that were counted"},
		{"mixed.json", "", ""},
		{"lognormal.json", "", ""},
	} {
		p, code := parse(t, "testdata/laws/"+c.file)
		reasons, warnings := strings.Join(p.Reasons, "\n"), strings.Join(p.Warnings, "\n")
		if (p.State == "failed") != (c.reason != "") || (code == 12) != (c.reason != "") || !strings.Contains(reasons, c.reason) ||
			!strings.Contains(warnings, c.warning) {
			t.Errorf("%s: %s, exit code %d:\n%s\n%s", c.file, p.State, code, reasons, warnings)
		}
		if p, code := parse(t, "testdata/laws/"+c.file, "--allow-implausible"); p.State != "passed" || code != 0 {
			t.Errorf("%s, relaxed: %s, exit code %d: %q", c.file, p.State, code, p.Reasons)
		}
	}
}

// A loop is closed only where the client says so: no rate, ramp or schedule.
func TestOpenLoopsMayBeIdle(t *testing.T) {
	text := must.Read(t, "testdata/laws/seconds.json")
	const aiperf = `{"request_throughput": {"unit": "requests/sec", "avg": 1}, "request_latency": {"unit": "ms", "avg": 5, "max": 6},
"request_count": {"unit": "requests", "avg": 64}, "time_to_first_token": {"unit": "ms", "avg": 1}, "output_token_throughput":
{"unit": "tokens/sec", "avg": 256}, "benchmark_duration": {"unit": "sec", "avg": 64}, "total_osl": {"unit": "tokens", "avg": 16384},
"error_summary": [], "input_config": {"loadgen": {"concurrency": 8, "request_count": 64, "warmup_request_rate": 3}, "input": {}}}`
	block := must.Read(t, "testdata/laws/few-tokens.log")
	vllm := "Traffic request rate: inf\n" + strings.NewReplacer("tokens:                  3\n", "tokens:                  100\n",
		" 0.40\n", " 13.33\n", "60.00", "0.66", "98.00", "0.66", "130.00", "0.70", " 10.00", " 0.00", " 11.00", " 0.00", "660.00", "0.66", "1150", "0.70").
		Replace(string(block))
	for _, c := range []struct {
		name, text, old, new string
		state                string
	}{
		{"vllm.json", string(text), "", "", "failed"},
		{"vllm.json", string(text), `"request_rate": "inf"`, `"request_rate": Infinity`, "failed"},
		{"vllm.json", string(text), `"request_rate": "inf"`, `"request_rate": 4.5`, "passed"},
		{"vllm.json", string(text), `"request_rate": "inf"`, `"request_rate": "inf", "ramp_up_strategy": "linear"`, "passed"},
		{"vllm.json", string(text), `"max_concurrency": 50`, `"max_concurrency": null`, "passed"},
		{"vllm.log", vllm, "", "", "failed"},
		{"vllm.log", vllm, "Traffic request rate: inf", "Traffic request rate: 13.5", "passed"},
		{"vllm.log", vllm, "Traffic request rate: inf", "Traffic ramp-up strategy: linear.", "passed"},
		{"aiperf.json", aiperf, "", "", "failed"},
		{"aiperf.json", aiperf, `"request_count": 64`, `"request_rate": 1.0`, "passed"},
		{"aiperf.json", aiperf, `"input": {}`, `"input": {"conversation": {"turn": {"delay": {"mean": 500}}}}`, "passed"},
		{"aiperf.json", aiperf, `"error_summary": [], `, "", "passed"},
	} {
		file := filepath.Join(t.TempDir(), c.name)
		changed := strings.Replace(c.text, c.old, c.new, 1)
		if (changed == c.text) != (c.old == c.new) {
			t.Fatalf("%q is not in %s", c.old, c.name)
		}
		must.Do(t, os.WriteFile(file, []byte(changed), 0o600))
		p, _ := parse(t, file)
		if reasons := strings.Join(p.Reasons, "\n"); p.State != c.state || strings.Contains(reasons, "at a time, take at most") != (c.state == "failed") {
			t.Errorf("%s, %q -> %q: %s, want %s:\n%s", c.name, c.old, c.new, p.State, c.state, reasons)
		}
	}
}

// A KV transfer that is faster than the line fails the case: the time of the last chunk is not that of all bytes.
func TestTransfersAboveTheLine(t *testing.T) {
	golden := must.Read(t, "testdata/logs/1_clean_two_levels.log")
	for _, c := range []struct{ line, rate, log, reason string }{
		{"INFO KV Transfer metrics: Num successful transfers=6, Avg xfer time (ms)=1.2, Avg MB per transfer=125.0, Throughput (MB/s)=104000.5",
			"400Gbit", "", "a KV transfer of 109.1 GB/s is faster than the line of 50 GB/s: its time may be that of the last chunk"},
		{"INFO KV Transfer metrics: Throughput (MB/s)=45000.5", "400Gbit", "", ""},
		{`sglang:kv_transfer_speed_gb_s{model_name="m",tp_rank="0"} 104.2`, "50GB/s", "3_output_CTX_0.log", "3_output_CTX_0.log, line 1: a KV transfer of 104.2 GB/s"},
		{`{"kv_transfer_speed_gb_s": 9.5e1}`, "50GB/s", "4_output_server.log", "a KV transfer of 95 GB/s"},
		{`trtllm_kv_transfer_speed_gb_s_sum{model_name="m"} 1040.2`, "50GB/s", "4_output_server.log", ""},
		{"nothing of that", "50GB/s", "4_output_server.log", ""},
		{"INFO KV Transfer metrics: Num successful transfers=6, Avg xfer time (ms)=1.0, Avg MB per transfer=125.0", "400Gbit", "",
			"a KV transfer of 131.1 GB/s is faster"},
		{`[{"kv_cache_size": 1000, "kv_cache_transfer_start": 1.5, "kv_cache_transfer_end": 1.6}, {"kv_cache_size": 40000000000, ` +
			`"kv_cache_transfer_start": 2.5, "kv_cache_transfer_end": 3.0}]`, "400Gbit", "a.log", "a.log, line 1: a KV transfer of 80 GB/s"},
		{"KV Transfer metrics: Avg MB per transfer=50000.0, Throughput (MB/s)=20000", "400Gbit", "decode.log",
			"level 4: first tokens come within 402.9 ms, but a KV transfer of 5.243e+04 MB (decode.log, line 1) takes at least 1049 ms"},
		{"KV Transfer metrics: Avg MB per transfer=500.0, Throughput (MB/s)=20000", "400Gbit", "decode.log", ""},
	} {
		dir := t.TempDir()
		bench := string(golden)
		if c.log == "" {
			bench = c.line + "\n" + bench
		} else if err := os.WriteFile(filepath.Join(dir, c.log), []byte(c.line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		must.Do(t, os.WriteFile(filepath.Join(dir, "6_bench.log"), []byte(bench), 0o600))
		for _, args := range [][]string{{dir, "--line", c.rate}, {dir, "--line", c.rate, "--allow-implausible"}, {dir}} {
			p, _ := parse(t, args...)
			fails := c.reason != "" && len(args) == 3
			if reasons := strings.Join(p.Reasons, "\n"); (p.State == "failed") != fails || fails && !strings.Contains(reasons, c.reason) {
				t.Errorf("%s, %q: %s: %s", c.line, args[1:], p.State, reasons)
			}
			if warnings := strings.Join(p.Warnings, "\n"); len(args) == 4 && !strings.Contains(warnings, c.reason) {
				t.Errorf("%s: %s", c.line, warnings)
			}
		}
	}
}

// The line of the configuration holds for a run and for parse of its folder, and the page has the reason.
func TestTransfersAboveTheConfiguredLine(t *testing.T) {
	for line, reason := range map[string]string{
		"400Gbit": "a KV transfer of 109.1 GB/s is faster than the line of 50 GB/s", "1000Gbit": "",
	} {
		out, config := judged(t)
		text := must.Read(t, config)
		log := filepath.Join(filepath.Dir(config), "3_output_GEN_0.log")
		must.Do(t, os.WriteFile(config, fmt.Appendf(text, "\njob: {line: %s}\n", line), 0o600),
			os.WriteFile(log, []byte("KV Transfer metrics: Throughput (MB/s)=104000.5\n"), 0o600))
		said, code := rejudge(t, out, config)
		if (code != 0) != (reason != "") || !strings.Contains(said, reason) {
			t.Errorf("run with %s: exit code %d\n%s", line, code, said)
		}
		folder, err := filepath.Glob(filepath.Join(out, "slurm_logs", "disagg_perf_effective*"))
		must.Do(t, err)
		p, _ := parse(t, folder[0])
		if reasons := strings.Join(p.Reasons, "\n"); (p.State == "failed") != (reason != "") || !strings.Contains(reasons, reason) {
			t.Errorf("parse with %s: %s: %s", line, p.State, reasons)
		}
		if all, said, _ := perigee(t, nil, "report", out, "--format", "json"); !strings.Contains(all, reason) {
			t.Errorf("report with %s: %s%s", line, all, said)
		}
	}
	_, config := judged(t)
	text, err := os.ReadFile(config)
	must.Do(t, err, os.WriteFile(config, append(text, "\njob: {line: 400}\n"...), 0o600))
	if out, said, code := perigee(t, nil, "validate", config); code == 0 || !strings.Contains(out+said, "job.line: wanted a rate such as 200Gbit") {
		t.Errorf("exit code %d\n%s%s", code, out, said)
	}
}

// AIPerf's ITL is the mean of each request: that of few long and slow answers is not that of all tokens.
func TestSpreadLengthsOfAIPerf(t *testing.T) {
	const text = `{"request_throughput": {"unit": "requests/sec", "avg": 0.0296}, "request_latency": {"unit": "ms", "avg": 33966, "max": 338000},
"request_count": {"unit": "requests", "avg": 10}, "time_to_first_token": {"unit": "ms", "avg": 100}, "inter_token_latency": {"unit": "ms",
"avg": 13.2, "max": 84.5}, "total_osl": {"unit": "tokens", "avg": 4180}, "output_sequence_length": {"unit": "tokens", "avg": 418,
"min": 20, "max": 4000, "std": 1194}, "benchmark_duration": {"unit": "sec", "avg": 338.1}, "error_summary": [],
"output_token_throughput": {"unit": "tokens/sec", "avg": 12.36}, "input_config": {"loadgen": {"concurrency": 2}}}`
	file := filepath.Join(t.TempDir(), "aiperf.json")
	for _, c := range []struct{ old, new, state string }{
		{"", "", "passed"},
		{`"min": 20, "max": 4000, "std": 1194`, `"min": 418, "max": 418, "std": 0`, "failed"}, // then they are the same
	} {
		must.Do(t, os.WriteFile(file, []byte(strings.Replace(text, c.old, c.new, 1)), 0o600))
		if p, _ := parse(t, file); p.State != c.state || (len(p.Reasons) == 1) != (c.state == "failed") {
			t.Errorf("%q: %s, want %s: %q", c.new, p.State, c.state, p.Reasons)
		}
	}
}
