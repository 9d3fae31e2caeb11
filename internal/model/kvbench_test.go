package model

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

func TestFamilies(t *testing.T) {
	const heads = "num_query_heads: 32\nnum_kv_heads: 8\nquery_head_dimension: 64\n"
	const rest = "num_layers: 4\nnum_model_params: 5.1e9\n"
	every := []int64{0, 1, 2, 3}
	gqa := []Group{{heading(8, 64), every}}
	for _, tt := range []struct {
		text string
		want Model
	}{
		{"model_name: LLAMA3.1_X\nnum_query_heads_with_mha: 40\ngqa_num_queries_in_group: 3\nquery_head_dimension: 96\nhidden_size:\n",
			Model{Name: "LLAMA3.1_X", Family: "llama", Heads: 40, Groups: []Group{{heading(14, 96), every}}}},
		{"model_name: MyQwen3\n" + heads + "hidden_size: 7\n", Model{Name: "MyQwen3", Family: "gqa", Heads: 32, Hidden: 7, Groups: gqa}},
		{"model: gpt-oss-7b\n" + heads, Model{Name: "gpt-oss-7b", Family: "gpt-oss", Heads: 32,
			Groups: []Group{{windowOf(heading(8, 64), 128), []int64{0, 2}}, {heading(8, 64), []int64{1, 3}}}}},
		{"model_name: mine\nfamily: gqa\n" + heads + "sliding_window: 9\n",
			Model{Name: "mine", Family: "gqa", Heads: 32, Groups: []Group{{windowOf(heading(8, 64), 9), every}}}},
		{"model_name: gemma_3\n" + heads + "sliding_window: 9\nsliding_window_pattern: 3\n", Model{Name: "gemma_3", Family: "gemma", Heads: 32,
			Groups: []Group{{windowOf(heading(8, 64), 9), []int64{0, 1, 3}}, {heading(8, 64), []int64{2}}}}},
		{"model_name: DeepSeek_R1_distill_llama\nfamily: gqa\n" + heads, Model{Name: "DeepSeek_R1_distill_llama", Family: "gqa", Heads: 32, Groups: gqa}},
		{"model_name: deepseek-r1\nnum_query_heads: 16\nquery_head_dimension: 8\nembedding_dimension: 99\nrope_mla_dimension: 4\nmla_latent_vector_dimension: 20\ngqa_num_queries_in_group:\n",
			Model{Name: "deepseek-r1", Family: "mla", Heads: 16, Hidden: 99, Groups: []Group{{Keep{Kind: MLA, Latent: 20, Rope: 4}, every}}}},
	} {
		tt.want.Layers, tt.want.Params = 4, 5.1e9
		got, err := parse(tt.text + rest)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(&tt.want, got, cmpopts.IgnoreUnexported(Model{})); diff != "" {
			t.Errorf("%s(-want +got):\n%s", tt.text, diff)
		}
	}
}

func TestKVBenchRefused(t *testing.T) {
	const qwen = "model_name: qwen3\nnum_layers: 10\nnum_query_heads: 32\nnum_kv_heads: 8\nquery_head_dimension: 64\nnum_model_params: 1\n"
	for _, tt := range []struct{ from, to, says string }{
		{"qwen3", "falcon", `m.yaml:1: model_name: model "falcon" is of no known family`},
		{"qwen3", "gemma3", "the keys sliding_window, sliding_window_pattern are missing"},
		{"qwen3", "deepseek_r1", `m.yaml:4: num_kv_heads: the key "num_kv_heads" is not known here`},
		{"qwen3\n", "qwen3\nfamily: gpa\n", `m.yaml:2: family: wanted one of llama, mla, gqa, gpt-oss, gemma, got "gpa"`},
		{"qwen3", "[a]", "wanted a map with the text model_name"},
		{"num_layers: 10\n", "", "the key num_layers is missing"},
		{"num_layers", "num_layer", `m.yaml:2: num_layer: the key "num_layer" is not known here; did you mean "num_layers"?`},
		{"10", "0", "m.yaml:2: num_layers: wanted a whole number from 1 to 16384, got 0"},
		{"10", "-1", "m.yaml:2: num_layers: wanted a whole number from 1 to 16384, got -1"},
		{"10", "10.5", "m.yaml:2: num_layers: wanted a whole number"},
		{"10", "'10'", "m.yaml:2: num_layers: wanted a whole number from 1 to 16384, got the text"},
		{"64", "9223372036854775807", "query_head_dimension: wanted a whole number from 1 to 1048576"},
		{"num_model_params: 1", "num_model_params: many", "m.yaml:6: num_model_params: wanted a number"},
		{"num_kv_heads: 8", "num_kv_heads: 5", "m.yaml:4: num_kv_heads: wanted a number that divides the 32 query heads, got 5"},
		{"num_kv_heads: 8", "num_kv_heads: 64", "m.yaml:4: num_kv_heads: wanted a number that divides the 32 query heads, got 64"},
		{"num_kv_heads: 8", "num_kv_heads: 0", "m.yaml:4: num_kv_heads: wanted a whole number from 1 to 1048576, got 0"},
		{"num_kv_heads: 8\nquery_head_dimension: 64\n", "", "m.yaml:1: the keys num_kv_heads, query_head_dimension are missing"},
		{"model_name: qwen3\n", "num_hidden_layers: 3\n", "with model_type or architectures (a config.json)"},
		{"num_layers: 10", "num_layers: 10\nnum_experts: 4", "m.yaml:3: num_experts: num_experts without experts_per_token"},
		{"num_layers: 10", "num_layers: 10\nexperts_per_token: 4", "m.yaml:3: experts_per_token: experts_per_token is 4, more than the 0 experts"},
	} {
		_, err := parse(strings.Replace(qwen, tt.from, tt.to, 1))
		must.Fail(t, err, fault.Input, tt.says)
	}
}

// TestCheckHeads has the ratio of KVBench's own files, which need not divide: its formulas know fractions of a head.
func TestCheckHeads(t *testing.T) {
	const llama = "model_name: llama3.1-x\nnum_layers: 2\nnum_query_heads_with_mha: 40\nquery_head_dimension: 8\nnum_model_params: 1\ngqa_num_queries_in_group: "
	for ratio, says := range map[string]string{
		"8": "", "40": "", "3": "m.yaml:6: gqa_num_queries_in_group: wanted a number that divides the 40 query heads, got 3",
	} {
		m, err := parse(llama + ratio)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := m.CheckHeads(); says == "" && err != nil || says != "" && (err == nil || err.Error() != says || fault.KindOf(err) != fault.Input) {
			t.Errorf("%s: %v, want %q", ratio, err, says)
		}
	}
	if _, err := parse(llama + "41"); err == nil || !strings.Contains(err.Error(), "m.yaml:6: gqa_num_queries_in_group: wanted a number that divides") {
		t.Errorf("41 of 40 query heads: %v", err)
	}
}
