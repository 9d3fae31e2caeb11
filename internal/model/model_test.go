package model

import (
	"testing"

	"perigee/internal/kit/must"
)

// TestUniform has the models whose layers keep alike, as KVBench's formulas want them.
func TestUniform(t *testing.T) {
	for name, want := range map[string]Keep{
		"llama3.1-8b": heading(8, 128), "gpt-oss-20b": heading(8, 64), "deepseek-r1": {Kind: MLA, Latent: 512, Rope: 64},
		"gemma3-27b": {}, "qwen3-next-80b-a3b": {}, "mimo-v2-flash": {}, "deepseek-v3.2": {}, "longcat-flash": {},
		"llama-3.3-nemotron-super-49b-v1": {},
	} {
		if got, ok := mustNamed(t, name).Uniform(); ok != (want != Keep{}) || ok && got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, ok, want)
		}
	}
}

// TestQueriesPerHead takes the ratio of a KVBench file that says it, whether or not it divides, or else that of the heads.
func TestQueriesPerHead(t *testing.T) {
	said, err := parse("model_name: llama3.1-x\nnum_layers: 2\nnum_query_heads_with_mha: 40\nquery_head_dimension: 8\n" +
		"gqa_num_queries_in_group: 3\nnum_model_params: 1\n")
	must.Do(t, err)
	for _, tt := range []struct {
		m         *Model
		heads, kv int64
	}{{said, 3, 1}, {mustNamed(t, "qwen3-8b"), 32, 8}} {
		if heads, kv := tt.m.QueriesPerHead(tt.m.Groups[0].Keep); heads != tt.heads || kv != tt.kv {
			t.Errorf("%s: %d query heads for %d KV heads, want %d for %d", tt.m.Name, heads, kv, tt.heads, tt.kv)
		}
	}
	if !mustNamed(t, "gemma-4-26b-a4b").Uneven() || mustNamed(t, "gpt-oss-20b").Uneven() || mustNamed(t, "deepseek-v3.2").Uneven() {
		t.Error("wanted Gemma 4 alone to have heads of different numbers")
	}
}

// TestExperts reads what different classes call experts.
func TestExperts(t *testing.T) {
	for text, want := range map[string][3]int64{
		configText("x", "num_experts: 8\nnum_experts_per_tok: 2"):                                     {8, 2, 0},
		configText("x", "n_routed_experts: 8\nnum_experts_per_token: 2\nn_shared_experts: 3"):         {8, 2, 3},
		configText("x", "num_local_experts: 8\nmoe_topk: [2, 2]\nshared_expert_intermediate_size: 4"): {8, 2, 1},
		configText("llama4", "num_local_experts: 8\nnum_experts_per_tok: 1"):                          {8, 1, 1},
		configText("dbrx", "ffn_config: {moe_num_experts: 16, moe_top_k: 4}"):                         {16, 4, 0},
		configText("x", "num_experts: 0"):                                                             {},
		configText("x", ""):                                                                           {},
	} {
		if m, err := parse(text); err != nil || [3]int64{m.Experts, m.TopK, m.Shared} != want {
			t.Errorf("%s: %+v, %v, want %v", text, m, err, want)
		}
	}
}
