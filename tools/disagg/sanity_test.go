package disagg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// Configurations as those of TensorRT-LLM's perf-sanity: the document's rules refuse them and say which rules take them.
func TestPerfSanity(t *testing.T) {
	const relaxed = "upstream has relaxed this rule since: --validation upstream takes it"
	for _, name := range []string{"ratio0", "no_max_seq_len", "ctx_seq_len_below_sum"} {
		file := "testdata/perf-sanity/" + name + ".yaml"
		out, _, code := perigee(t, nil, "validate", file)
		if code != 3 || strings.Count(out, relaxed) != strings.Count(out, "yaml:") || !strings.Contains(out, "0 valid, 1 invalid (rules: strict); 1 valid under --validation upstream") {
			t.Errorf("%s: exit code %d, %s", name, code, out)
		}
		if out, _, code := perigee(t, nil, "validate", "--validation", "upstream", file); code != 0 || out != "1 configuration: 1 valid, 0 invalid (rules: upstream)\n" {
			t.Errorf("%s: exit code %d, %s", name, code, out)
		}
		list, _, _ := perigee(t, map[string]string{"DISAGG_VALIDATION": "upstream"}, "list", file)
		if strings.Contains(list, "invalid") {
			t.Errorf("%s: %s", name, list)
		}
		list, said, _ := perigee(t, nil, "run", "--dry-run", "--output", t.TempDir(), file)
		if !strings.Contains(list, relaxed) {
			t.Errorf("%s: a run says %s%s", name, list, said)
		}
	}
	out, _, _ := perigee(t, nil, "validate", "testdata/perf-sanity", "testdata/configs/00_base_valid.yaml", "testdata/configs/05_concurrency_over_batch.yaml")
	if !strings.Contains(out, "5 configurations: 2 valid, 3 invalid (rules: strict); 4 valid under --validation upstream") {
		t.Error(out)
	}
	if _, said, code := perigee(t, map[string]string{"DISAGG_VALIDATION": "strong"}, "validate", "testdata/perf-sanity"); code != 2 || !strings.Contains(said, `DISAGG_VALIDATION: wanted strict or upstream, got "strong"`) {
		t.Errorf("exit code %d, %s", code, said)
	}
}

// What upstream still refuses, and the levels that perf-sanity does not check.
func TestPerfSanityRefused(t *testing.T) {
	text := must.Read(t, "testdata/perf-sanity/ratio0.yaml")
	for _, c := range []struct{ old, new, want string }{
		{"use_nv_sa_benchmark: false", "use_nv_sa_benchmark: true", "benchmark.benchmark_ratio: wanted more than 0 and at most 1, got 0\n"},
		{"benchmark_ratio: 0.0", "benchmark_ratio: -0.1", "benchmark.benchmark_ratio: wanted a number from 0 to 1, got -0.1\n"},
		{"max_seq_len: 9280\n    tensor_parallel_size: 4", "max_seq_len: 8191\n    tensor_parallel_size: 4", "max_seq_len is 8191, must be >= 8192 (input_length)\n"},
		{"concurrency_list: '512'", "concurrency_list: '513'", "warning: FILE:3: benchmark.concurrency_list: concurrency 513 exceeds gen max_batch_size*tensor_parallel_size 512: requests wait"},
		{"num_gen_servers: 1", "num_gen_servers: 2", "the client runs each level times num_gen_servers (2), perf-sanity's own runner as it stands"},
		{"mode: e2e", "mode: ctx_only", "benchmark.mode: the template trtllm does not measure ctx_only: wanted e2e"},
	} {
		file := filepath.Join(t.TempDir(), "a.yaml")
		must.Do(t, os.WriteFile(file, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o600))
		out, _, code := perigee(t, nil, "validate", "--validation", "upstream", file)
		if want := strings.ReplaceAll(c.want, "FILE", file); !strings.Contains(out, want) || (code == 0) != strings.Contains(out, "warning: ") {
			t.Errorf("%s: exit code %d, %s", c.new, code, out)
		}
	}
}

// The lengths of such a run are those of a data set: all tokens of all prompts have to be there.
func TestParsePerfSanity(t *testing.T) {
	log := strings.NewReplacer("(tok/s):         10000.00", "(tok/s):         524288.00", " 100000\n", " 5242880\n", "concurrency C ", "concurrency 512 ", "10000", "5120").Replace(goodLevel)
	for _, name := range []string{"ratio0", "no_max_seq_len", "ctx_seq_len_below_sum"} {
		text := must.Read(t, "testdata/perf-sanity/"+name+".yaml")
		for tokens, want := range map[string]string{"5242880": "state: passed\n", "2621440": "failed: level 512: 2621440 tokens were generated, fewer than 4718592"} {
			dir := t.TempDir()
			must.Do(t, os.WriteFile(filepath.Join(dir, "effective.yaml"), text, 0o600),
				os.WriteFile(filepath.Join(dir, "6_bench.log"), []byte(strings.ReplaceAll(log, "5242880", tokens)), 0o600))
			if out, said, _ := perigee(t, nil, "parse", dir); !strings.Contains(out, want) {
				t.Errorf("%s, %s tokens: %s%s", name, tokens, out, said)
			}
		}
	}
}

// What the newest configurations of perf-sanity have: keys for its runner, another client with sequences of exactly
// the longest request, and a variable in quotes.
func TestNewerPerfSanity(t *testing.T) {
	text := must.Read(t, "testdata/perf-sanity/ratio0.yaml")
	newer := strings.NewReplacer("benchmark_ratio: 0.0", "benchmark_ratio: 0.8, benchmark_client: agentx", "max_seq_len: 9280\n    tensor_parallel_size: 4", "max_seq_len: 8192\n    tensor_parallel_size: 4",
		"max_seq_len: 9280\n    tensor_parallel_size: 32", "max_seq_len: 9216\n    tensor_parallel_size: 32", "'512'", "'1156'", "metadata: {", "metadata: {architecture: A, ",
		"ENROOT_ALLOW_DEV=yes", `"PYTHONWARNINGS=ignore::DeprecationWarning:cutlass.cute.core"`, "environment:\n", "environment:\n  client_env_var: AGENTX_DURATION=3600\n",
		"profiling:", "ctx_router_config: {type: conversation}\nserver_config_extra: {server_keep_alive_timeout: 3600}\ncache_transceiver_precheck: {enabled: true}\nprofiling:").Replace(string(text))
	file := filepath.Join(t.TempDir(), "a.yaml")
	must.Do(t, os.WriteFile(file, []byte(newer), 0o600))
	out, _, code := perigee(t, nil, "validate", "--validation", "upstream", file)
	for _, want := range []string{"1 valid, 0 invalid", "benchmark.benchmark_client: has no effect: the job template trtllm does not use it", "ctx_router_config: has no effect",
		"server_config_extra: has no effect", "cache_transceiver_precheck: has no effect", "concurrency 1156 exceeds"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %q is missing in\n%s", code, want, out)
		}
	}
	script, said, _ := perigee(t, nil, "run", "--dry-run", "--validation", "upstream", "--format", "json", "--output", t.TempDir(), file)
	for _, want := range []string{`export AGENTX_DURATION=3600\nmeasuring`, `'export PYTHONWARNINGS=ignore::DeprecationWarning:cutlass.cute.core'`} {
		if !strings.Contains(script, want) {
			t.Errorf("%q is missing in\n%s%s", want, script, said)
		}
	}
	for old, want := range map[string]string{"max_seq_len: 8192": "max_seq_len is 8191, must be >= 8192 (input_length)", "max_seq_len: 9216": "max_seq_len is 9215, must be >= 9216 (input_length + output_length)"} {
		short := strings.NewReplacer("8192", "8191", "9216", "9215").Replace(old)
		must.Do(t, os.WriteFile(file, []byte(strings.Replace(newer, old, short, 1)), 0o600))
		if out, _, code := perigee(t, nil, "validate", "--validation", "upstream", file); code != 3 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, %s", short, code, out)
		}
	}
}
