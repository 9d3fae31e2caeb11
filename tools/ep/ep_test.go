package ep

import (
	"bytes"
	"encoding/json"
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
)

// call runs a command as main does.
func call(t *testing.T, words ...string) (out, stderr string, err error) {
	t.Helper()
	var c Cmd
	var o, e bytes.Buffer
	k, err := cli.Parser(&c, kong.Bind(cli.Streams{Out: &o, Err: &e, Env: os.Getenv}), kong.Exit(func(int) { t.Fatal("exit") }))
	must.Do(t, err)
	parsed, err := k.Parse(words)
	if err != nil {
		return "", "", fault.New(fault.Usage, "%w", err)
	}
	err = parsed.Run()
	return o.String(), e.String(), err
}

// The seed of a routing has one name in all commands; that of before goes on to work.
func TestRoutingSeed(t *testing.T) {
	var out [3]string
	for i, seed := range []string{"--routing-seed=67", "--seed=67", "--seed=68"} {
		var err error
		if out[i], _, err = call(t, "routing", "--routing", "zipf", "--format", "json", seed); err != nil {
			t.Fatal(err)
		}
	}
	if out[0] != out[1] || out[1] == out[2] {
		t.Errorf("%q", out)
	}
}

func TestRename(t *testing.T) {
	words := strings.Fields("--num-tokens 8 --hidden-dim=256 --num-topk 2 --num-experts-per-rank=4 --num-processes 2 --tokens=--num-tokens")
	rename(words)
	if got, want := strings.Join(words, " "), "--tokens 8 --hidden=256 --topk 2 --experts-per-rank=4 --num-processes 2 --tokens=--num-tokens"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// The published figures: 77.4 and 117.4 MB.
func TestRoutingJSON(t *testing.T) {
	out, _, err := call(t, strings.Fields("routing --routing keyed --routing-seed 67 --ranks 8 --tokens 128 --topk 8 --experts 256 --hidden 7168 --format json")...)
	must.Do(t, err)
	var got map[string]any
	must.Do(t, json.Unmarshal([]byte(out), &got))
	want := map[string]any{
		"assignments": 8192.0, "rank_copies": 5400.0, "local_copies": 688.0,
		"expert_load": map[string]any{"min": 17.0, "max": 48.0, "mean": 32.0},
		"fanout":      map[string]any{"min": 3.0, "max": 8.0, "mean": 5.2734375},
		"bytes":       map[string]any{"assignment": 117440512.0, "rank": 77414400.0, "remote": 67551232.0},
	}
	for key, value := range want {
		if diff := cmp.Diff(value, got[key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

// Loads of nothing have no imbalance, and an expert twice on one GPU does not help: both are said.
func TestPlacementNotes(t *testing.T) {
	zeros, hot := strings.Repeat("0 ", 16)+"\n", "1000"+strings.Repeat(" 0", 15)+"\n"
	out, _, err := call(t, "placement", "--loads", write(t, zeros+hot+strings.Repeat("5 ", 16)), "--replicas", "24", "--groups", "4", "--nodes", "2", "--gpus", "8")
	must.Do(t, err)
	_, notes, _ := strings.Cut(out, "# ")
	want := `layer 0: all 16 loads are 0: was the recorder on?
# layer 0: one expert more than once, which does not help, is on 2 GPUs (3, 7)
# layer 1: max/mean 3.2000
# layer 1: one expert more than once, which does not help, is on 2 GPUs (0, 7)
# layer 2: max/mean 1.0000
# layer 2: one expert more than once, which does not help, is on 8 GPUs (0, 1, 2, 3, 4, 5, 6, 7)
`
	if notes != want {
		t.Errorf("%s\nwanted %s\n%s", notes, want, out)
	}
	out, _, err = call(t, "placement", "--loads", write(t, zeros), "--replicas", "24", "--gpus", "8", "--format", "json")
	var got struct{ Layers []Layer }
	if err != nil || json.Unmarshal([]byte(out), &got) != nil || got.Layers[0].MaxOverMean != nil || len(got.Layers[0].Notes) < 1 {
		t.Errorf("%s, %v", out, err)
	}
}

func TestPlacementJSON(t *testing.T) {
	loads := write(t, "90 132 40 61 104 165 39 4 73 56 183 86\n20 107 104 64 19 197 187 157 172 86 16 27\n")
	out, _, err := call(t, "placement", "--loads", loads, "--replicas", "16", "--groups", "4", "--nodes", "2", "--gpus", "8", "--format", "json")
	must.Do(t, err)
	var got struct{ Layers []Layer }
	must.Do(t, json.Unmarshal([]byte(out), &got))
	if len(got.Layers) != 2 || *got.Layers[0].MaxOverMean < 1.2081 || *got.Layers[0].MaxOverMean > 1.20815 || got.Layers[0].Notes != nil ||
		!cmp.Equal(got.Layers[0].Logical, []int{5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1}) {
		t.Errorf("%+v", got)
	}
	if _, stderr, err := call(t, "placement", "--loads", loads, "--replicas", "16", "--groups", "3", "--nodes", "2", "--gpus", "8"); err != nil ||
		!strings.Contains(stderr, "3 groups cannot be divided among 2 nodes") {
		t.Errorf("%s, %v", stderr, err)
	}
}

// Balanced replicas even out what a skewed routing does to the ranks, on the same tokens.
func TestBeforeAndAfter(t *testing.T) {
	out, _, err := call(t, "routing", "--routing", "zipf", "--placement", "eplb", "--format", "json")
	must.Do(t, err)
	var got Census
	must.Do(t, json.Unmarshal([]byte(out), &got))
	if got.Contiguous == nil || got.Contiguous.RankLoad.MaxOverMean() < 3 || got.RankLoad.MaxOverMean() > 1.1 ||
		got.Contiguous.Assignments != got.Assignments {
		t.Errorf("before %+v, after %+v", got.Contiguous, got)
	}
}

func TestMatrix(t *testing.T) {
	out, _, err := call(t, "matrix", "--ranks", "4", "--bytes", "6M", "--spread", "0.5")
	if err != nil || !strings.HasPrefix(out, "786432 1310720 1835008 2359296\n") {
		t.Errorf("%s, %v", out, err)
	}
	// The file goes into the routing, and of a larger one the first ranks.
	out, _, err = call(t, "routing", "--ranks", "2", "--routing", "matrix", "--matrix", write(t, out), "--format", "json")
	if err != nil || !strings.Contains(out, `"assignments": 2048`) {
		t.Errorf("%s, %v", out, err)
	}
}

// The sizes are those of a model: by its name, its config.json, or a file of one's own.
func TestRoutingOfModels(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"config.json": qwen3Config, "own.yaml": ownModel} {
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	for name, want := range map[string]string{
		"deepseek-ai/DeepSeek-V3": "topk 8, 256 experts, hidden 7168,", "QWEN/qwen3-30b-a3b": "topk 8, 128 experts, hidden 2048,",
		"config.json": "topk 8, 128 experts, hidden 2048,", ".": "topk 8, 128 experts, hidden 2048,", "own.yaml": "topk 3, 8 experts, hidden 256,",
	} {
		out, _, err := call(t, "routing", "--tokens", "4", "--model", name)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %s, %v", name, out, err)
		}
	}
	loads := write(t, strings.Repeat("1 ", 128)+"\n")
	if out, _, err := call(t, "placement", "--model", "config.json", "--loads", loads, "--replicas", "128", "--gpus", "2"); err != nil || out == "" {
		t.Errorf("%s, %v", out, err)
	}
}

// qwen3Config is the config.json of Qwen3-30B-A3B, less what is about the words and the training.
const qwen3Config = `{"architectures": ["Qwen3MoeForCausalLM"], "decoder_sparse_step": 1, "head_dim": 128, "hidden_size": 2048,
	"intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [], "model_type": "qwen3_moe",
	"moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
	"num_hidden_layers": 48, "num_key_value_heads": 4, "rope_scaling": null, "sliding_window": null, "torch_dtype": "bfloat16",
	"use_sliding_window": false}`

const ownModel = `model_name: own
num_layers: 2
hidden_size: 256
num_experts: 8
experts_per_token: 3
groups: [{kind: full, layers: all, kv_heads: 2, head_dim: 8}]
`

// example is a command in the documentation and what stands below it.
var example = regexp.MustCompile("(?m)^```console\n\\$ perigee ep (.*)\n((?s:.*?))^```$")

// TestDocumentation runs the examples that need no ranks.
func TestDocumentation(t *testing.T) {
	text := must.Read(t, "../../docs/ep.md")
	t.Chdir(t.TempDir())
	must.Do(t, os.WriteFile("loads.txt", []byte("90 132 40 61 104 165 39 4 73 56 183 86\n"), 0o600))
	examples := example.FindAllStringSubmatch(string(text), -1)
	ran := 0
	for _, m := range examples {
		if words := strings.Fields(m[1]); words[0] == "routing" || words[0] == "placement" || words[0] == "matrix" {
			ran++
			got, _, err := call(t, words...)
			must.Do(t, err)
			if diff := cmp.Diff(m[2], got); diff != "" {
				t.Errorf("%s (-documented +got):\n%s", m[1], diff)
			}
		}
	}
	if ran < 3 {
		t.Errorf("%d examples", ran)
	}
}

func TestMistakes(t *testing.T) {
	loads := write(t, "1 2 3 4\n")
	bad := write(t, "1 2\n3\n")
	small := write(t, "1\n")
	for _, test := range []struct {
		words string
		kind  fault.Kind
		want  string
	}{
		{"routing --hidden 100", fault.Usage, "hidden is 100, want a multiple of 128"},
		{"routing --topk 9 --experts 8", fault.Usage, "topk is 9, more than the 8 experts"},
		{"routing --tokens 0", fault.Usage, "tokens is 0"},
		{"routing --tokens=-1", fault.Usage, "tokens is -1"},
		{"routing --ranks 3", fault.Usage, "want a multiple of the 3 ranks"},
		{"routing --hot 0.5", fault.Usage, "--hot has no effect without --routing khot"},
		{"routing --loads " + loads, fault.Usage, "--loads has no effect"},
		{"routing --routing loads", fault.Usage, "needs --loads"},
		{"routing --routing loads --loads " + loads, fault.Usage, "loads of 4 experts, want 256"},
		{"routing --routing loads --layer 1 --loads " + loads, fault.Usage, "--layer is 1, want 0 to 0"},
		{"routing --routing loads --loads " + bad, fault.Input, ":2: wanted 2 loads"},
		{"routing --routing loads --loads missing", fault.Input, "missing"},
		{"routing --routing matrix --matrix " + small, fault.Input, "the matrix has 1 ranks, want 8 or more"},
		{"routing --routing matrix --spread 2", fault.Usage, "spread is 2"},
		{"routing --placement eplb --redundant=-1", fault.Usage, "--redundant: wanted a whole number of at least 0, got -1"},
		{"routing --placement eplb --loads " + loads, fault.Input, "loads of 4 experts, want 256"},
		{"placement --replicas 3 --gpus 1 --loads " + loads, fault.Usage, "fewer than the 4 experts"},
		{"placement --replicas 5 --gpus 2 --loads " + loads, fault.Usage, "want a multiple of the 2 gpus"},
		{"placement --replicas 4194305 --gpus 1 --loads " + loads, fault.Usage, "--replicas: wanted at most 4194304 for 1 layer, got 4194305"},
		{"placement --replicas 4194304 --gpus 1 --loads " + loads, fault.Usage, "replicas is 4194304, want 1 to 1048576"},
		{"routing --model deepseek-v3 --hidden 7168", fault.Usage, "--hidden: --model deepseek-v3 says that"},
		{"routing --model deepseek-v3 --experts 8", fault.Usage, "--experts: --model deepseek-v3 says that"},
		{"routing --model deepseek-v3 --topk 8", fault.Usage, "--topk: --model deepseek-v3 says that"},
		{"routing --model deepseek-v3 --ranks 3", fault.Usage, "--model deepseek-v3: 256 experts cannot be spread evenly over 3 ranks"},
		{"routing --model deepseek-v3 --ranks 0", fault.Usage, "ranks is 0"},
		{"routing --model meta-llama/Llama-3.1-8B", fault.Usage, "the model meta-llama/Llama-3.1-8B: its file does not say how many experts"},
		{"routing --model deepseek-v33", fault.Usage, `there is no model "deepseek-v33"`},
		{"routing --model missing.json", fault.Input, "missing.json"},
		{"placement --model deepseek-v3 --replicas 4 --gpus 1 --loads " + loads, fault.Usage, "loads of 4 experts, and --model deepseek-v3 has 256"},
		{"placement --model qwen3-8b --replicas 4 --gpus 1 --loads " + loads, fault.Usage, "the model qwen3-8b: its file does not say"},
		{"matrix --ranks 1 --bytes 10", fault.Usage, "a matrix of 1 ranks"},
	} {
		out, _, err := call(t, strings.Fields(test.words)...)
		if err == nil || !strings.Contains(err.Error(), test.want) || fault.KindOf(err) != test.kind || out != "" {
			t.Errorf("%s: printed %q, got %v (%v), want %v: %s", test.words, out, err, fault.KindOf(err), test.kind, test.want)
		}
	}
}
