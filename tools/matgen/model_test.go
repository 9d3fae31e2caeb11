package matgen

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/internal/model"
)

const (
	llamaYAML = `model_name: LLAMA3.1_70B
num_layers: 80
num_query_heads_with_mha: 64
query_head_dimension: 128
gqa_num_queries_in_group: 8
num_model_params: 70600000000
`
	deepseekYAML = `model_name: deepseek_r1
num_layers: 61
num_query_heads: 128
query_head_dimension: 128
embedding_dimension: 7168
rope_mla_dimension: 64
mla_latent_vector_dimension: 512
num_model_params: 671000000000
gqa_num_queries_in_group:
`
	qwenYAML = `model_name: QWEN3_235B_A22B
num_layers: 94
num_query_heads: 64
num_kv_heads: 4
query_head_dimension: 128
num_model_params: 235000000000
`
	gptYAML = `model_name: GPT_OSS_120B
num_layers: 36
num_query_heads: 64
num_kv_heads: 8
query_head_dimension: 64
num_model_params: 117000000000
`
)

func TestModelFiles(t *testing.T) {
	tests := []struct {
		yaml    string
		args    []string
		tokens  int64
		hidden  int64
		guessed bool
	}{
		{llamaYAML, nil, 80 * 8 * 128 * 2 * 2, 8192, true},
		{llamaYAML, []string{"--dtype-size", "1", "--hidden-size", "8192"}, 80 * 8 * 128 * 2, 8192, false},
		{deepseekYAML, nil, 70272, 7168, false},
		{qwenYAML, []string{"--hidden-size", "4096"}, 94 * 4 * 128 * 2 * 2, 4096, false},
		{gptYAML, nil, 18 * 8 * 64 * 2 * 2, 4096, true},
	}
	for _, tt := range tests {
		args := append([]string{"--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--model-file", writeFile(t, "m.yaml", tt.yaml)}, tt.args...)
		w := mustPlan(t, args...)
		if w.Model.BytesPerToken != tt.tokens || w.Model.Hidden != tt.hidden || w.Model.hiddenGuessed != tt.guessed {
			t.Errorf("%v: %+v, wanted %d bytes per token and hidden size %d", args, w.Model, tt.tokens, tt.hidden)
		}
		if warned := strings.Contains(fmt.Sprint(w.Warnings), "says no hidden size"); warned != tt.guessed {
			t.Errorf("%v: warnings %q", args, w.Warnings)
		}
	}
}

// TestModelFilePreset checks that a preset and the file of the same model give
// the same workload.
func TestModelFilePreset(t *testing.T) {
	base := []string{"--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--prefill-tp", "4", "--decode-tp", "8", "--num-user-requests", "5"}
	for preset, text := range map[string]string{"deepseek-r1": deepseekYAML, "deepseek-r1-distill-llama-70b": llamaYAML} {
		a := mustPlan(t, append(base, "--model", preset)...)
		b := mustPlan(t, append(base, "--model-file", writeFile(t, "m.yml", text))...)
		for k := range a.Patterns {
			if !reflect.DeepEqual(a.Patterns[k], b.Patterns[k]) {
				t.Errorf("%s, batch %d: %+v by its name, %+v by its file", preset, k, a.Patterns[k], b.Patterns[k])
			}
		}
	}
}

func TestModelFileErrors(t *testing.T) {
	tests := []struct{ yaml, says string }{
		{strings.Replace(llamaYAML, "model_name", "name", 1), "wanted a map with the text model_name"},
		{"- a\n", "wanted a map with the text model_name"},
		{"model_name: [llama3.1]\n", "wanted a map with the text model_name"},
		{"model_name: falcon\n", `m.yaml:1: model_name: model "falcon" is of no known family`},
		{llamaYAML + "page_size: 3\n", "m.yaml:7: page_size: "},
		{strings.Replace(llamaYAML, "num_layers: 80\n", "", 1), "the key num_layers is missing"},
		{strings.Replace(llamaYAML, "80", "80.5", 1), "m.yaml:2: num_layers: wanted a whole number"},
		{strings.Replace(llamaYAML, "80", "0", 1), "m.yaml:2: num_layers: wanted a whole number from 1 to 16384"},
		{strings.Replace(llamaYAML, "80", "-3", 1), "m.yaml:2: num_layers: wanted a whole number from 1 to 16384"},
		{strings.Replace(llamaYAML, "group: 8", "group: 7", 1), "m.yaml:5: gqa_num_queries_in_group: wanted a number that divides the 64 query heads, got 7"},
		{strings.Replace(qwenYAML, "heads: 4", "heads: 5", 1), "m.yaml:4: num_kv_heads: wanted a number that divides the 64 query heads, got 5"},
		{llamaYAML + "num_layers: 3\n", "m.yaml:7: "},
		{"", "m.yaml"},
		{"a: [", "this is not YAML"},
	}
	for _, tt := range tests {
		_, err := run(t, "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--dry-run", "--model-file", writeFile(t, "m.yaml", tt.yaml))
		must.Fail(t, err, fault.Input, tt.says)
	}
	path := writeFile(t, "m.yaml", qwenYAML)
	for _, tt := range []struct{ flag, value, says string }{
		{"--num-layers", "3", "--num-layers: --model says that already"},
		{"--dtype-size", "0", "--dtype-size: wanted whole bits for a value"},
		{"--compat", "", "--model-file cannot be combined with --compat"},
	} {
		args := []string{"--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--dry-run", "--model-file", path, tt.flag}
		if tt.value != "" {
			args = append(args, tt.value)
		}
		_, err := run(t, args...)
		must.Fail(t, err, fault.Usage, tt.says)
	}
	_, err := run(t, "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--model-file", "no/such.yaml")
	must.Fail(t, err, fault.Input, "no/such.yaml")
}

// TestWindow counts the bytes of GPT-OSS 120B by hand: 18 layers keep all
// tokens and 18 the last 128, 2 x 8 x 64 values of 2 bytes each.
func TestWindow(t *testing.T) {
	const layer = 2 * 8 * 64 * 2
	for isl, want := range map[string]int64{"100": 36 * 100 * layer, "128": 36 * 128 * layer, "5000": (18*5000 + 18*128) * layer} {
		for _, given := range [][]string{{"--model", "gpt-oss-120b"}, {"--model-file", writeFile(t, "m.yaml", gptYAML)}} {
			w := mustPlan(t, append(given, "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--isl-mean", isl, "--isl-scale", "0",
				"--min-isl", "1", "--num-user-requests", "1")...)
			if got := w.Patterns[0].Bytes; got != want {
				t.Errorf("%v, %s tokens: %d bytes, wanted %d", given, isl, got, want)
			}
		}
	}
}

func FuzzModelFile(f *testing.F) {
	for _, s := range []string{llamaYAML, deepseekYAML, qwenYAML, gptYAML, "", "model_name: qwen3\n", "model_name: qwen3\n\"\":\n", "model_name: &a [*a]\n", strings.Replace(qwenYAML, "94", "16384", 1), strings.Replace(qwenYAML, "94", "16385", 1), strings.Replace(deepseekYAML, "64", "-64", 1), strings.Replace(llamaYAML, "64", "60", 1), strings.Replace(llamaYAML, "128", "12.", 1), strings.Replace(qwenYAML, "94", "9.4e1", 1)} {
		f.Add(s)
	}
	o := DefaultOptions()
	o.NumPrefillNodes, o.NumDecodeNodes, o.PPN = 1, 1, 1
	o.NumUserRequests = new(1)
	fuzztest.RunDocuments(f, []string{llamaYAML, deepseekYAML, qwenYAML, gptYAML}, func(t *testing.T, text string) {
		v, err := conf.Parse("m.yaml", []byte(text))
		if err != nil {
			return // conf tests its own errors
		}
		m, err := model.Parse(v)
		if err != nil {
			return // model tests its own errors
		}
		w, err := Plan(o, Inputs{Model: m})
		if err != nil {
			if kind := fault.KindOf(err); kind != fault.Usage && kind != fault.Input {
				t.Errorf("error %q of kind %v", err, kind)
			}
			return
		}
		p := w.Patterns[0]
		kv, _, err := w.Model.cache.Bytes(p.ISL)
		if err != nil || p.Bytes != kv || p.Bytes <= 0 {
			t.Errorf("%d bytes of %d tokens, want %d (%v)", p.Bytes, p.ISL, kv, err)
		}
	})
}
