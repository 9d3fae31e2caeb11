package model

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"perigee/internal/conf"
	"perigee/internal/fault"
	"perigee/internal/fuzztest"
)

func parse(text string) (Arch, error) {
	v, err := conf.Parse("m.yaml", []byte(text))
	if err != nil {
		return Arch{}, err
	}
	return Parse(v)
}

func TestShipped(t *testing.T) {
	for _, name := range Names() {
		a, ok := Shipped(name)
		if !ok {
			t.Errorf("%s: not found", name)
			continue
		}
		if err := a.CheckHeads(); err != nil {
			t.Error(err)
		}
		if a.Hidden == 0 || a.Params < 1e9 {
			t.Errorf("%s: %+v", name, a)
		}
		if want := strings.ReplaceAll(strings.ToLower(a.Name), "_", "-"); want != name {
			t.Errorf("the file %s holds the model %s", name, a.Name)
		}
	}
	// Bytes of a token at one byte per value, added up from the models' cards.
	for name, want := range map[string]int64{
		"deepseek-r1": 61 * 576, "LLAMA3.1_8B": 32 * 2 * 8 * 128, "llama3.1-405b": 126 * 2 * 8 * 128, "gpt-oss-20b": 24 * 2 * 8 * 64,
		"qwen3-235b-a22b": 94 * 2 * 4 * 128, "gemma3-27b": 62 * 2 * 16 * 128, "llama-405b": 126 * 2 * 8 * 128, "qwen3-30B": 48 * 2 * 4 * 128,
	} {
		a, err := Load(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := a.Values(a.KVHeads) * a.Layers; got != want {
			t.Errorf("%s: %d bytes per token, wanted %d", name, got, want)
		}
	}
}

func TestFamilies(t *testing.T) {
	const heads = "num_query_heads: 32\nnum_kv_heads: 8\nquery_head_dimension: 64\n"
	const rest = "num_layers: 10\nnum_model_params: 5.1e9\n"
	for _, tt := range []struct {
		text string
		want Arch
	}{
		{"model_name: LLAMA3.1_X\nnum_query_heads_with_mha: 40\ngqa_num_queries_in_group: 3\nquery_head_dimension: 96\nhidden_size:\n",
			Arch{Name: "LLAMA3.1_X", Family: "llama", Heads: 40, KVHeads: 14, Group: 3, HeadDim: 96}},
		{"model_name: MyQwen3\n" + heads + "hidden_size: 7\n", Arch{Name: "MyQwen3", Family: "gqa", Heads: 32, KVHeads: 8, HeadDim: 64, Hidden: 7}},
		{"model: gpt-oss-7b\n" + heads, Arch{Name: "gpt-oss-7b", Family: "gpt-oss", Heads: 32, KVHeads: 8, HeadDim: 64, Window: 128, FullEvery: 2}},
		{"model_name: mine\nfamily: gqa\n" + heads + "sliding_window: 9\n", Arch{Name: "mine", Family: "gqa", Heads: 32, KVHeads: 8, HeadDim: 64, Window: 9}},
		{"model_name: DeepSeek_R1_distill_llama\nfamily: gqa\n" + heads, Arch{Name: "DeepSeek_R1_distill_llama", Family: "gqa", Heads: 32, KVHeads: 8, HeadDim: 64}},
		{"model_name: deepseek-r1\nnum_query_heads: 16\nquery_head_dimension: 8\nembedding_dimension: 99\nrope_mla_dimension: 4\nmla_latent_vector_dimension: 20\ngqa_num_queries_in_group:\n",
			Arch{Name: "deepseek-r1", Family: "mla", Heads: 16, HeadDim: 8, LatentDim: 20, RopeDim: 4, Hidden: 99}},
	} {
		tt.want.Layers, tt.want.Params = 10, 5.1e9
		got, err := parse(tt.text + rest)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(Arch{})); diff != "" {
			t.Errorf("%s(-want +got):\n%s", tt.text, diff)
		}
	}
}

// A family needs no more than what docs/kvbench.md shows.
func TestNewFamily(t *testing.T) {
	before := families
	families = append(families[:len(families):len(families)], twin)
	defer func() { families = before }()
	a, err := parse("model_name: Twin_9B\nnum_layers: 3\nnum_query_heads: 8\nhead_size: 16\nnum_model_params: 9e9\n")
	if err != nil {
		t.Fatal(err)
	}
	if a.Family != "twin" || a.KVHeads != 2 || a.Values(a.KVHeads) != 2*2*16 {
		t.Errorf("%+v", a)
	}
}

const qwen = "model_name: qwen3\nnum_layers: 10\nnum_query_heads: 32\nnum_kv_heads: 8\nquery_head_dimension: 64\nnum_model_params: 1\n"

func TestRefused(t *testing.T) {
	for _, tt := range []struct{ from, to, says string }{
		{"qwen3", "falcon", `m.yaml:1: model_name: model "falcon" is of no known family`},
		{"qwen3", "gemma3", "the key sliding_window is missing"},
		{"qwen3", "deepseek_r1", `m.yaml:4: num_kv_heads: the key "num_kv_heads" is not known here`},
		{"qwen3\n", "qwen3\nfamily: gpa\n", `m.yaml:2: family: wanted one of llama, mla, gqa, gpt-oss, gemma, got "gpa"`},
		{"qwen3", "[a]", "wanted a map with the text model_name"},
		{"num_layers: 10\n", "", "the key num_layers is missing"},
		{"num_layers", "num_layer", `m.yaml:2: num_layer: the key "num_layer" is not known here; did you mean "num_layers"?`},
		{"10", "0", "m.yaml:2: num_layers: wanted 1 to 16384, got 0"},
		{"10", "-1", "m.yaml:2: num_layers: wanted 1 to 16384, got -1"},
		{"10", "10.5", "m.yaml:2: num_layers: wanted a whole number"},
		{"10", "'10'", "m.yaml:2: num_layers: wanted a whole number, got the text"},
		{"64", "9223372036854775807", "query_head_dimension: wanted 1 to 1048576"},
		{"num_model_params: 1", "num_model_params: many", "m.yaml:6: num_model_params: wanted a number"},
		{"num_kv_heads: 8", "num_kv_heads: 5", "m.yaml:4: num_kv_heads: wanted a number that divides the 32 query heads, got 5"},
	} {
		a, err := parse(strings.Replace(qwen, tt.from, tt.to, 1))
		if err == nil {
			err = a.CheckHeads()
		}
		if err == nil || fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q instead of %q: got %v, wanted %s", tt.to, tt.from, err, tt.says)
		}
	}
	for name, says := range map[string]string{
		"lama3.1-8b": `there is no model "lama3.1-8b"; did you mean "llama3.1-8b"?`, "no.yaml": "no.yaml: there is no such file", "dir/x": "wanted a file that ends in",
	} {
		if _, err := Load(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, wanted %s", name, err, says)
		}
	}
}

// TestSimilar takes names as public cards write them.
func TestSimilar(t *testing.T) {
	for name, want := range map[string]string{
		"meta-llama/Llama-3.1-8B-Instruct": "llama3.1-8b", "Llama-3.1-405B-Instruct-FP8": "llama3.1-405b", "Llama-3.3-70B-Instruct": "llama3.3-70b",
		"openai/gpt-oss-120b": "gpt-oss-120b", "google/gemma-3-27b-it": "gemma3-27b", "Mixtral-8x7B-Instruct-v0.1": "mixtral-8x7b",
		"mistralai/Mistral-7B-Instruct-v0.3": "mistral-7b-v0.3", "Qwen/Qwen3-30B-A3B-Instruct-2507": "qwen3-30b-a3b", "deepseek-ai/DeepSeek-R1-0528": "deepseek-r1",
		"DeepSeek-V2-Lite-Chat": "deepseek-v2-lite", "deepseek_v3": "deepseek-v3", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": "deepseek-r1-distill-llama-70b",
		"DeepSeek-R1-Distill-Qwen-7B": "", "Qwen3-8": "", "Qwen3-Next-80B-A3B": "", "GLM-4.5V": "", "": "", "/": "",
	} {
		if got, ok := Similar(name); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, wanted %q", name, got, want)
		}
	}
	for _, name := range Names() {
		if got, _ := Similar(name); got != name {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if err := Unknown("Llama-3.1-8B-Instruct"); !strings.Contains(err.Error(), `; did you mean "llama3.1-8b"?`) {
		t.Error(err)
	}
}

// TestWindows compares the sums with a walk over all layers.
func TestWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Arch{
			Layers: rapid.Int64Range(1, 100).Draw(t, "layers"), KVHeads: rapid.Int64Range(1, 9).Draw(t, "heads"), HeadDim: 3,
			Window: rapid.Int64Range(0, 50).Draw(t, "window"), FullEvery: rapid.Int64Range(0, 7).Draw(t, "every"),
		}
		tokens := rapid.Int64Range(1, 200).Draw(t, "tokens")
		first := rapid.Int64Range(0, a.Layers).Draw(t, "first")
		end := rapid.Int64Range(first, a.Layers).Draw(t, "end")
		var full, values int64
		for i := range a.Layers {
			kept := tokens
			if a.Full(i) {
				if i >= first && i < end {
					full++
				}
			} else {
				kept = min(tokens, a.Window)
			}
			values += kept * 2 * a.KVHeads * 3
		}
		if got := a.FullLayers(first, end); got != full {
			t.Errorf("%d full layers from %d to %d, wanted %d", got, first, end, full)
		}
		if got, ok := a.RequestValues(tokens); !ok || got != values {
			t.Errorf("%d values (%v), wanted %d", got, ok, values)
		}
	})
	if _, ok := (Arch{Layers: 1 << 14, KVHeads: 1 << 20, HeadDim: 1 << 20}).RequestValues(1 << 40); ok {
		t.Error("2^95 values fit 63 bits")
	}
}

func FuzzParse(f *testing.F) {
	documents := []string{`{"model_type": "gpt_oss", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
		"head_dim": 8, "sliding_window": 128, "layer_types": ` + types(4, 2) + `}`}
	for _, name := range Names() {
		_, text, _ := Source(name)
		f.Add(text)
		documents = append(documents, string(text))
	}
	f.Add([]byte("model: a\nfamily: gqa\n"))
	fuzztest.RunDocuments(f, documents, func(t *testing.T, text []byte) {
		v, err := conf.Parse("m.yaml", text)
		if err != nil {
			return // conf tests its own errors
		}
		a, err := Parse(v)
		if err != nil {
			if fault.KindOf(err) != fault.Input {
				t.Errorf("error %q of kind %v", err, fault.KindOf(err))
			}
			return
		}
		if a.Layers < 1 || a.Values(a.KVHeads) < 1 || a.Values(a.KVHeads)*a.Layers < 1 || a.Name == "" {
			t.Errorf("%+v", a)
		}
	})
}
