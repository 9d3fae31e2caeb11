package disagg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		if err := os.WriteFile(config, []byte(strings.Replace(text, "STREAMING", streaming, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, _ := parse(t, log, "--config", config); p.State != state {
			t.Errorf("streaming %s: %s, want %s: %q", streaming, p.State, state, p.Reasons)
		}
	}
}

// Laws between figures fail a level by name, and a length that the configuration asks for makes them tight.
func TestLawsOfALevel(t *testing.T) {
	golden, err := os.ReadFile("testdata/logs/1_clean_two_levels.log")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, reason string }{
		{"61.25", "31.25", "level 4: 32 requests of 7911 ms in 31.25 s keep 8.101 in flight, more than the concurrency of 4 (Little's law)"},
		{"534.99", "53499.00", "level 4: 32768 tokens in 61.25 s are 535 tok/s, the log says 53499 tok/s"},
		{"Median E2EL (ms):                        7855.73", "Median E2EL (ms): 9855.73", "level 4: Median E2EL 9855.73 ms is above the P99, 9120.4 ms"},
		{"Mean E2EL (ms):                          7911.00", "Mean E2EL (ms): 791.10", "level 4: Mean E2EL 791.1 ms is less than Median, P99 allow"},
		{"Mean TPOT (ms):                          7.60", "Mean TPOT (ms): 5.60", "level 4: TTFT + (1024 tokens - 1) x TPOT are 5876.9 ms, the mean E2EL is 7911 ms"},
		{"Mean TTFT (ms):                          148.10", "Mean TTFT (ms): -1.00", "level 4: Mean TTFT is -1 ms"},
	} {
		dir := caseFolder(t, strings.ReplaceAll(string(golden), "concurrency 8 ", "concurrency 2 "), true)
		config := filepath.Join(dir, "effective.yaml")
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.NewReplacer("concurrency_list: "+sixLevels, "concurrency_list: 4 8", "output_length: 10\n", "output_length: 1024\n").Replace(string(text)))
		if err := os.WriteFile(config, text, 0o600); err != nil {
			t.Fatal(err)
		}
		log := strings.Replace(string(golden), c.old, c.new, 1)
		if log == string(golden) {
			t.Fatalf("%q is not in the log", c.old)
		}
		file := filepath.Join(dir, "6_bench.log")
		if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{dir}, {dir, "--allow-implausible"}} {
			p, _ := parse(t, args...)
			list := map[bool][]string{false: p.Reasons, true: p.Warnings}[len(args) == 2]
			if text := strings.Join(list, "\n"); !strings.Contains(text, c.reason) || (p.State == "passed") != (len(args) == 2) {
				t.Errorf("%q -> %q, %v: %s:\n%s", c.old, c.new, args[1:], p.State, text)
			}
		}
	}
}
