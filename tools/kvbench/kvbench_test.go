package kvbench

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/model"
)

// runLine parses and runs a command line and returns what it printed.
func runLine(t testing.TB, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var cmd Cmd
	parser, err := cli.Parser(&cmd, kong.Name("kvbench"), kong.Exit(func(int) { t.Error("kong wants to exit") }))
	must.Do(t, err)
	context, err := parser.Parse(args)
	if err != nil {
		return "", "", fault.New(fault.Usage, "%w", err)
	}
	var out, errs bytes.Buffer
	err = context.Run(cli.Streams{Out: &out, Err: &errs})
	return out.String(), errs.String(), err
}

// mustRun is runLine for what must go well.
func mustRun(t testing.TB, line string) string {
	t.Helper()
	out, _, err := runLine(t, strings.Fields(line)...)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return out
}

func wantFault(t *testing.T, line string, err error, kind fault.Kind, says string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, wanted %q", line, says)
		return
	}
	if text := err.Error() + " | " + fault.HintOf(err); fault.KindOf(err) != kind || !strings.Contains(text, says) {
		t.Errorf("%s\ngot %q of kind %v\nwanted %q of kind %v", line, text, fault.KindOf(err), says, kind)
	}
}

// inFolder makes the files the only ones in the current folder.
func inFolder(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Do(t, os.WriteFile(name, []byte(text), 0o644))
	}
}

// TestDocumented runs the original manual's examples, word for word, on its
// own file names. The numbers of its pictures belong to the inputs in real, which
// the manual leaves out.
func TestDocumented(t *testing.T) {
	t.Chdir(t.TempDir())
	mustRun(t, "models --export examples")
	const model = " --model ./examples/model_deepseek_r1.yaml"
	const gds = ` --backend GDS --source gpu --etcd-endpoint http://localhost:2379`
	const real = " --isl 10000 --page_size 256"
	plan := func(config string, requests, pp, batch, block int, more string) string {
		return fmt.Sprintf(`%s
Model Config: ./examples/%s.yaml
ISL: 10000 tokens
Page Size: 256
Requests: %d
TP: 1
PP: %d
%s
nixlbench \
    --backend GDS \
    --max_batch_size %d \
    --max_block_size %d \
    --start_batch_size %d \
    --start_block_size %d \
    --target_seg_type VRAM%s

perigee run kvbench `, rule, config, requests, pp, rule, batch, block, batch, block, more)
	}
	for _, tt := range []struct{ line, want string }{
		{"plan" + model + " --model_config ./examples/block-tp1-pp16.yaml" + gds + real, plan("block-tp1-pp16", 10, 16, 5958, 589824, "")},
		{"plan" + model + " --model_config ./examples/layer-tp1-pp16.yaml" + gds + real, plan("layer-tp1-pp16", 10, 16, 23829, 147456, "")},
		// The manual leaves out the buffer, without which nixlbench refuses so many blocks.
		{"plan" + model + " --model_config ./examples/block-tp1-pp8.yaml" + gds + " --pp 32 --num_requests 100" + real,
			plan("block-tp1-pp8", 100, 32, 119141, 294912, " \\\n    --total_buffer_size 35136110592")},
		{"kvcache" + model + " --model_config ./examples/block-tp1-pp8.yaml --num_requests 1" + real,
			"Model                  : DEEPSEEK_R1\nInput Sequence Length  : 10000\nBatch Size             : 298\nIO Size                : 1.12 MB\n"},
		{"iosize" + model + " --model_config ./examples/block-tp1-pp8.yaml", "IO Size per GPU: 4608\n"},
	} {
		if got := mustRun(t, tt.line); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s\n(-want +got):\n%s", tt.line, cmp.Diff(tt.want, got))
		}
	}
}

func TestRefusedWords(t *testing.T) {
	inFolder(t, map[string]string{
		"good.yaml":   "strategy: {tp_size: 2}\n",
		"key.yaml":    "strategy:\n  tp_size: 1\n  pp_sise: 2\n",
		"quant.yaml":  "strategy:\n  kvcache_quant_mode: fp4\n",
		"access.yaml": "system:\n  access_pattern: blok\n",
		"pp.yaml":     "strategy:\n  tp_size: 1\n  pp_size: 62\n",
		"tp.yaml":     "strategy:\n  tp_size: 129\n",
		"zero.yaml":   "runtime:\n  num_requests: 0\n",
		"isl.yaml":    "runtime:\n  isl: '12q'\n",
		"islf.yaml":   "runtime:\n  isl: 12.5\n",
		"empty.yaml":  "",
		"much.yaml":   "runtime: {isl: 1099511627776, num_requests: 4294967296}\n",
		"not.yaml":    "a: [",
		"model.yaml":  "model_name: deepseek_r1\nnum_layers: 61\n",
	})
	const ok = "--model deepseek-r1 --model_config good.yaml "
	for _, tt := range []struct {
		line string
		kind fault.Kind
		says string
	}{
		{"plan", fault.Usage, "--model"},
		{"plan --model deepseek-r1", fault.Usage, "--model_config or --model_configs is missing"},
		{"plan --model deepsek-r1 --model_config good.yaml", fault.Usage, `there is no model "deepsek-r1"; did you mean "deepseek-r1"?`},
		{"plan --model gone.yaml --model_config good.yaml", fault.Input, "gone.yaml: there is no such file"},
		{"plan --model ./x/model_gpt_oss_20b.yaml --model_config good.yaml", fault.Input, "--model gpt-oss-20b"},
		{"plan --model model.yaml --model_config good.yaml", fault.Input, "model.yaml:1: the keys num_model_params, num_query_heads, query_head_dimension, embedding_dimension, "},
		{"plan --model deepseek-r1 --model_config gone.yaml", fault.Input, "gone.yaml: there is no such file"},
		{"plan --model deepseek-r1 --model_config ./x/block-tp1-pp8.yaml", fault.Input, "--model_config block-tp1-pp8"},
		{"plan --model deepseek-r1 --model_config block-tp1-pp9", fault.Usage, `no model config "block-tp1-pp9"; did you mean`},
		{"plan --model deepseek-r1 --model_configs gone*.yaml", fault.Input, `no file fits "gone*.yaml"`},
		{"plan --model deepseek-r1 --model_configs [", fault.Usage, "is no pattern"},
		{"plan --model deepseek-r1 --model_config key.yaml", fault.Input, `key.yaml:3: strategy.pp_sise: the key "pp_sise" is not known here; did you mean "pp_size"?`},
		{"plan --model deepseek-r1 --model_config quant.yaml", fault.Input, "quant.yaml:2: strategy.kvcache_quant_mode: wanted one of fp8, int8, fp16, bfloat16, bf16, fp8_per_token_head, int8_per_token_head, int4_per_token_head, mxfp8, nvfp4, fp8_ds_mla, nvfp4_ds_mla, auto, got the text \"fp4\""},
		{"plan --model deepseek-r1 --model_config access.yaml", fault.Input, "access.yaml:2: system.access_pattern: wanted one of block, layer"},
		{"plan --model deepseek-r1 --model_config pp.yaml", fault.Input, "pp.yaml:3: strategy.pp_size: wanted at most the 61 layers of DEEPSEEK_R1, got 62"},
		{"plan --model deepseek-r1 --model_config tp.yaml", fault.Input, "tp.yaml:2: strategy.tp_size: wanted at most the 128 query heads of DEEPSEEK_R1, got 129"},
		{"plan --model deepseek-r1 --model_config zero.yaml", fault.Input, "zero.yaml:2: runtime.num_requests: wanted a whole number from 1 to"},
		{"plan --model deepseek-r1 --model_config isl.yaml", fault.Input, "isl.yaml:2: runtime.isl: wanted a whole number of tokens from 1 to 1099511627776, got the text \"12q\""},
		{"plan --model deepseek-r1 --model_config islf.yaml", fault.Input, "isl: wanted a whole number"},
		{"plan --model deepseek-r1 --model_config empty.yaml", fault.Input, "empty.yaml: wanted a YAML document"},
		{"plan --model deepseek-r1 --model_config much.yaml", fault.Input, "does not fit 63 bits"},
		{"plan --model deepseek-r1 --model_config not.yaml", fault.Input, "this is not YAML"},
		{"plan " + ok + "--pp 62", fault.Usage, "--pp: wanted at most the 61 layers of DEEPSEEK_R1, got 62"},
		{"kvcache " + ok + "--tp 129", fault.Usage, "--tp: wanted at most the 128 query heads"},
		{"plan " + ok + "--pp 0", fault.Usage, "--pp: wanted a whole number from 1 to"},
		{"plan " + ok + "--tp 0", fault.Usage, "--tp: wanted a whole number from 1 to"},
		{"plan " + ok + "--isl 0", fault.Usage, "--isl: wanted a whole number of tokens from 1 to"},
		{"plan " + ok + "--osl 0", fault.Usage, "--osl: wanted a whole number of tokens from 1 to"},
		{"iosize " + ok + "--num_requests=-1", fault.Usage, "--num-requests: wanted a whole number from 1 to"},
		{"kvcache " + ok + "--page_size 0", fault.Usage, "--page-size: wanted a whole number of tokens from 1 to"},
		{"plan " + ok + "--page_size 1.5", fault.Usage, "--page-size"},
		{"plan " + ok + "--access_pattern blok", fault.Usage, `--access_pattern: wanted block or layer, got "blok"; did you mean "block"?`},
		{"plan " + ok + "--format xml", fault.Usage, "--format must be one of"},
		{"plan " + ok + "--accounting right", fault.Usage, "--accounting must be one of"},
		{"plan " + ok + "--backend GSD", fault.Usage, `--backend: wanted one of UCX, UCX_MO, GPUNETIO, Mooncake, GDS, GDS_MT, POSIX, HF3FS, OBJ, LIBFABRIC, GUSLI, AZURE_BLOB, INFINIA, got "GSD"; did you mean`},
		{"plan " + ok + "--source file", fault.Usage, "--source file: UCX moves memory, wanted memory or gpu"},
		{"plan " + ok + "--destination file", fault.Usage, "--destination file: UCX moves memory"},
		{"plan " + ok + "--backend POSIX --source gpu", fault.Usage, "--source gpu: POSIX cannot, wanted file or memory"},
		{"plan " + ok + "--backend POSIX --destination gpu", fault.Usage, "--destination gpu: POSIX reads a file into memory"},
		{"plan " + ok + "--backend OBJ --source gpu --destination memory", fault.Usage, "one side of OBJ is the object store"},
		{"plan " + ok + "--backend OBJ --destination file", fault.Usage, "--destination file"},
		{"plan " + ok + "--num_iter 0", fault.Usage, "--num-iter: wanted a whole number from 1 to"},
		{"plan " + ok + "--num_threads 0", fault.Usage, "--num-threads: wanted a whole number from 1 to"},
		{"plan " + ok + "--total_buffer_size 100", fault.Usage, "--total_buffer_size: 122 blocks of 288 bytes need at least 35136 bytes; got 100"},
		{"plan " + ok + "--total_buffer_size 8K", fault.Usage, "need at least 35136 bytes; got 8192"},
		{"plan " + ok + "--num_threads 3 --total_buffer_size 8589934592", fault.Usage, "a multiple of 3"},
		{"plan " + ok + "--worker_type nvshmem", fault.Usage, "--worker_type nvshmem"},
		{"plan " + ok + "--num_threads 1000 --isl 1099511627776", fault.Usage, "do not fit 63 bits"},
		{"plan " + ok + "--num_threads 65536 --num_initiator_dev 65536", fault.Usage, "nixlbench counts both together, to 2147483647"},
		{"plan " + ok + "--num_threads 2147483647", fault.Usage, "--iters 1000: nixlbench rounds it up to a multiple of --num_threads x --large_blk_iter_ftr, 34359738352"},
		{"plan " + ok + "--num_iter 16 --warmup_iter 2147483647", fault.Usage, "--warmup_iter 2147483647: nixlbench rounds it up"},
		{"plan " + ok + "--device_list mlx5_0,mlx5_1", fault.Usage, "--device_list mlx5_0,mlx5_1: with the scheme pairwise wanted a device for each of --num_initiator_dev 1 and --num_target_dev 1, got 2"},
		{"plan " + ok + "--device_list mlx5_0 --num_target_dev 2", fault.Usage, "--num_target_dev 2, got 1"},
		{"profile " + ok + "-n 0", fault.Usage, "--ranks: wanted a whole number of at least 1, got 0"},
		{"profile " + ok + "--scale 0", fault.Usage, "--scale: wanted a number above 0 and up to 1, got 0"},
		{"profile " + ok + "--scale NaN", fault.Usage, "--scale: wanted a number, got NaN"},
		{"profile " + ok + "--isl 1099511627776", fault.Resource, "2 buffers in host memory with"},
		{"models --show qwn3-8b", fault.Usage, `there is no model or model config "qwn3-8b"; did you mean "qwen3-8b"?`},
		{"models --show block-tp1-pp9", fault.Usage, `there is no model or model config "block-tp1-pp9"; did you mean "block-tp1-pp`},
		{"models --show a --export b", fault.Usage, "exclude each other"},
	} {
		out, _, err := runLine(t, strings.Fields(tt.line)...)
		wantFault(t, tt.line, err, tt.kind, tt.says)
		if out != "" && !strings.HasPrefix(tt.line, "profile") {
			t.Errorf("%s: printed %q", tt.line, out)
		}
	}
}

// A config that fails does not stop the others.
func TestSomeFail(t *testing.T) {
	inFolder(t, map[string]string{
		"c/b.yaml": "strategy: {tp_size: 2}\n", "c/a.yaml": "strategy: {tp_size: 4}\n", "c/bad.yaml": "strategy: {tp: 1}\n", "one.yaml": "strategy: {pp_size: 2}\n",
	})
	for _, args := range [][]string{
		{"--model_config", "one.yaml", "--model_configs", "c/*.yaml", "--model_configs", "c/b*.yaml", "--model_configs", "none*"},
		{"--model_config", "one.yaml", "none*", "c/a.yaml", "./c/b.yaml", "c/bad.yaml", "./c/../c/a.yaml"},
	} {
		out, stderr, err := runLine(t, append([]string{"iosize", "--model", "deepseek-r1", "--format", "csv"}, args...)...)
		wantFault(t, fmt.Sprint(args), err, fault.Input, "2 of 5 model configs failed")
		if strings.Count(stderr, "perigee: ") < 2 || !strings.Contains(stderr, `c/bad.yaml:1: strategy.tp: the key "tp" is not known`) || !strings.Contains(stderr, `no file fits "none*"`) {
			t.Errorf("said %s", stderr)
		}
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		must.Do(t, err)
		var order []string
		for _, row := range rows[1:] {
			order = append(order, filepath.Base(row[0]))
		}
		if diff := cmp.Diff([]string{"one.yaml", "a.yaml", "b.yaml"}, order); diff != "" {
			t.Errorf("%v: order (-want +got):\n%s", args, diff)
		}
	}
}

// Shipped configs can be chosen by a pattern where no file fits it.
func TestShippedPattern(t *testing.T) {
	inFolder(t, nil)
	out := mustRun(t, "iosize --model llama3.1-8b --model_configs block-tp8-* --format csv")
	if n := strings.Count(out, "\r\n"); n != 7 || !strings.Contains(out, "\r\nblock-tp8-pp1,LLAMA3.1_8B,kvbench,fp8,\"model_quant_mode of the config, by which KVBench counts\",,16,,8192\r\n") {
		t.Errorf("got %q", out)
	}
}

func TestJSON(t *testing.T) {
	const line = "plan --model llama3.1-8b --model_config block-tp8-pp16 --tp 16 --enable_pt"
	var rows []map[string]any
	must.Do(t, json.Unmarshal([]byte(mustRun(t, line+" --format json")), &rows))
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	row := rows[0]
	for key, want := range map[string]any{
		"config_file": "block-tp8-pp16", "model": "LLAMA3.1_8B", "accounting": "kvbench", "backend": "UCX", "op_type": "WRITE",
		"max_batch_size": 1310720.0, "start_block_size": 4096.0, "enable_pt": true, "num_iter": 1000.0, "filepath": "",
		"total_buffer_size": 8589934592.0, "layers": nil,
	} {
		if row[key] != want {
			t.Errorf("%s is %v, wanted %v", key, row[key], want)
		}
	}
	want := map[string]any{
		"kvbench": map[string]any{
			"kv_bytes_per_token_all_gpus": 65536.0, "kv_bytes_for_isl": 536870912.0, "io_size_page1": 256.0, "io_size": 4096.0,
			"batch_size": 1310720.0, "second_io_size": nil, "second_batch_size": nil, "bytes": 5368709120.0,
		},
		"exact": map[string]any{
			"kv_bytes_per_token_all_gpus": 65536.0, "kv_bytes_for_isl": 536870912.0, "io_size_page1": 512.0, "io_size": 8192.0,
			"batch_size": 5120.0, "second_io_size": nil, "second_batch_size": nil, "bytes": 41943040.0,
			"state_bytes": 0.0, "kv_cache_dtype": "fp8", "kv_cache_dtype_by": "kvcache_quant_mode of the config, --kv_cache_dtype says another",
			"block": 16.0, "block_by": "page_size of the config", "state_dtype": nil, "state_dtype_by": nil, "serving": nil,
		},
		"differences": []any{
			"kvbench counts the cache of all 256 GPUs (tp 16 x pp 16), exact what one GPU moves",
			"the 8 KV heads cannot be cut into 16 parts: exact has at least one whole head on each rank",
		},
		"model_strategy": map[string]any{"tp_size": 16.0, "pp_size": 16.0, "model_quant_mode": "fp8", "kvcache_quant_mode": "fp8"},
	}
	for key := range want {
		if diff := cmp.Diff(want[key], row[key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	// The columns are those of the JSON, in its order, in every run.
	first := mustRun(t, line+" --format csv")
	for range 5 {
		if got := mustRun(t, line+" --format csv"); got != first {
			t.Fatalf("the same plan gives\n%s\n%s", first, got)
		}
	}
	header, _, _ := strings.Cut(first, "\r\n")
	if !strings.HasPrefix(header, "benchmark_group,backend,check_consistency,") || !strings.HasSuffix(header, "exact_serving,differences,warnings,notes,layers,nixlbench,perigee") {
		t.Errorf("columns %s", header)
	}
	if rows, err := csv.NewReader(strings.NewReader(first)).ReadAll(); err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// With exact, layers that keep different numbers of tokens need two commands.
func TestTwoCommands(t *testing.T) {
	const line = " --model gemma3-27b --model_config block-tp1-pp1 --isl 10000 --accounting exact"
	out := mustRun(t, "plan"+line)
	for _, want := range []string{
		"# the 10 layers that keep all tokens\nnixlbench", "--max_batch_size 6250 \\\n    --max_block_size 655360 ",
		"# the 52 layers that keep the last 1024 tokens\nnixlbench", "--max_batch_size 640 \\\n    --max_block_size 3407872 ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if got, want := mustRun(t, "iosize"+line), "IO Size per GPU: 40960 (the 10 layers that keep all tokens)\nIO Size per GPU: 212992 (the 52 layers that keep the last 1024 tokens)\nKV cache: fp8 ("; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, wanted %q", got, want)
	}
	if got := mustRun(t, "kvcache"+line); strings.Count(got, "Layers") != 2 || !strings.Contains(got, "IO Size                : 3.25 MB") {
		t.Errorf("got %s", got)
	}
}

func TestModels(t *testing.T) {
	text := mustRun(t, "models")
	for _, name := range append(model.Names(), ConfigNames()...) {
		if !strings.Contains(text, name) {
			t.Errorf("%s is not listed", name)
		}
		if name != "" && !strings.Contains(mustRun(t, "models --show "+name), ":") {
			t.Errorf("%s is not shown", name)
		}
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(mustRun(t, "models --format json")), &rows); err != nil || len(rows) != len(model.Names()) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows {
		if row["Model"] == "gpt-oss-120b" && (row["kvbench fp16"] != 73728.0 || row["exact fp8"] != 18432.0 || row["once fp8"] != 18.0*1024*128) {
			t.Errorf("%v", row)
		}
	}
	t.Chdir(t.TempDir())
	mustRun(t, "models --export e")
	_, _, err := runLine(t, "models", "--export", "e")
	wantFault(t, "models --export twice", err, fault.Output, "not empty")
}

// TestDescribe shows models layer by layer: the sums are the model's, and a rank holds a part.
func TestDescribe(t *testing.T) {
	inFolder(t, map[string]string{"m/config.json": `{"model_type": "gpt_oss", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 64}`})
	text := mustRun(t, "models m kimi-k3 --per-rank --isl 1000 --html p.html --plot p.svg")
	for _, want := range []string{
		"# gpt_oss: gpt_oss, 4 layers, 8 query heads; cache in bf16 (default)\n# a request of 1000 tokens keeps 1.16 MB (1155072 bytes)\n", "window         2  0, 2     the last 128 tokens              -         131 kB                  131 kB\n", "# states in float32 (the model's file or class says so)\n",
		"kda           69  0 to 2, 4 to 6, ... 88 to 90  a state                 -         449 MB", "  32        -       -       -       -\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for file, want := range map[string]string{"p.html": "Bytes by context", "p.svg": "Kimi-K3"} {
		if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: %v, no %q", file, err, want)
		}
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(mustRun(t, "models qwen3-next-80b-a3b --format json --kv_cache_dtype fp8 --state_dtype bfloat16")), &rows); err != nil || len(rows) != 2 {
		t.Fatalf("%v, %v", rows, err)
	}
	if g, f := rows[0], rows[1]; g["fixed_bytes"] != 39518208.0 || g["bytes_per_token"] != nil || f["bytes_per_token"] != 12288.0 || f["bytes_for_isl"] != 12288.0*32768 {
		t.Errorf("%v", rows)
	}
	for line, says := range map[string]string{
		"models --per-rank": "wanted the name of a model", "models m --plot x.jpg": "ends in .html, .svg or .png", "models m --kv_cache_dtype fp3": "no precision",
		"models m --kv_cache_dtype fp8_ds_mla": "fp8_ds_mla is a layout of latent vectors", "models m --isl 0": "wanted a whole number of tokens from 1 to",
	} {
		if _, _, err := runLine(t, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", line, err, says)
		}
	}
}

// TestBeside has what one GPU moves beside what KVBench says, not among the warnings, and not where they are the same.
func TestBeside(t *testing.T) {
	inFolder(t, nil)
	for line, want := range map[string]string{
		"kvcache --model deepseek-r1 --model_config block-tp1-pp8 --isl 10000 --page_size 256 --num_requests 1": "perigee: block-tp1-pp8: one GPU moves 40 blocks of 1179648 bytes, 4608 a token (--accounting exact)\n",
		"iosize --model deepseek-r1 --model_config block-tp8-pp8":                                               "perigee: block-tp8-pp8: one GPU moves 630 blocks of 73728 bytes, 4608 a token (--accounting exact)\n",
		"kvcache --model qwen3-8b --tp 1 --isl 64":                                                              "",
		"iosize --model deepseek-r1 --model_configs block-tp8-*":                                                "perigee: and 3 more, in --format json\n",
	} {
		_, stderr, err := runLine(t, strings.Fields(line)...)
		if err != nil || !strings.Contains(stderr, want) || want == "" && strings.Contains(stderr, "one GPU") {
			t.Errorf("%s: %v, said %q, want %q", line, err, stderr, want)
		}
	}
	_, _, err := runLine(t, "kvcache", "--model", "qwen3-next-80b-a3b", "--tp", "1", "--accounting", "kvbench")
	wantFault(t, "KVBench's formulas for a hybrid", err, fault.Usage, "--accounting kvbench: KVBench has formulas for models whose layers all keep the same")
}

func TestPlanAll(t *testing.T) {
	if n, err := PlanAll(); err != nil || n < 400 {
		t.Errorf("%d plans, %v", n, err)
	}
}

// BenchmarkPlanAll plans all shipped models with all shipped configs. The target is
// 100 ms.
func BenchmarkPlanAll(b *testing.B) {
	for b.Loop() {
		if n, err := PlanAll(); err != nil || n < 400 {
			b.Fatal(n, err)
		}
	}
}

// Configs and models of a stranger command neither the terminal nor a spreadsheet.
func TestHostileNames(t *testing.T) {
	model := must.Read(t, "../../internal/model/models/llama3.1-8b.yaml")
	const evil = `"=HYPERLINK(1)\e[2J\u202e"`
	named := regexp.MustCompile(`(?m)^model_name:.*$`).ReplaceAllString(string(model), `model_name: "=LLAMA3.1_8B\e[2J\u202e"`)
	inFolder(t, map[string]string{
		"m.yaml":         named,
		"=c\x1b[2J.yaml": "system: {hardware: " + evil + ", backend: " + evil + "}\n",
	})
	for _, command := range []string{"plan", "kvcache", "iosize"} {
		for _, format := range []string{"text", "csv", "json"} {
			out, errs, err := runLine(t, command, "--model", "./m.yaml", "--model_configs", "*.yaml", "--format", format)
			if out == "" {
				t.Errorf("%s, %s: nothing printed, %v", command, format, err)
			}
			for _, text := range []string{out, errs} {
				if strings.ContainsAny(text, "\x1b\u202e") {
					t.Errorf("%s, %s: raw controls: %q", command, format, text)
				}
			}
			if format != "csv" {
				continue
			}
			rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
			must.Do(t, err)
			for _, row := range rows {
				for _, cell := range row {
					if strings.HasPrefix(cell, "=") {
						t.Errorf("%s: a formula: %q", command, cell)
					}
				}
			}
		}
	}
}
