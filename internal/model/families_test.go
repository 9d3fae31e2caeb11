package model

import (
	"fmt"
	"strings"
	"testing"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

func parse(text string) (*Model, error) {
	v, err := conf.Parse("m.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	return Parse(v)
}

// configText is a config.json of four layers and eight heads of eight values, unless the keys say otherwise.
func configText(family, keys string) string {
	text := "model_type: " + family + "\n"
	for _, key := range []string{"num_hidden_layers: 4", "num_attention_heads: 8", "hidden_size: 64"} {
		name, _, _ := strings.Cut(key, " ")
		if !strings.Contains("\n"+keys, "\n"+name) {
			text += key + "\n"
		}
	}
	return text + keys + "\n"
}

// describe writes the groups of a model: kind, layers, heads x values of a key / of a value, or values + rotated ones, of a
// state those of the convolution + copied ones / of the recurrence; w window, : tokens in an entry, = entries.
func describe(m *Model) string {
	var parts []string
	for _, g := range m.Groups {
		text := fmt.Sprintf("%s %s", g.Kind, g.LayerText())
		switch {
		case g.State.Ring > 0:
			text += fmt.Sprintf(" =%d bytes", g.State.Ring)
		case g.State.Any():
			text += fmt.Sprintf(" %d+%d/%d", g.State.Conv, g.State.ConvCopied, g.State.SSM)
		case g.Heads > 0:
			text += fmt.Sprintf(" %dx%d", g.Heads, g.Key)
			if g.Value != g.Key {
				text += fmt.Sprintf("/%d", g.Value)
			}
		case g.Latent > 0:
			text += fmt.Sprintf(" %d+%d", g.Latent, g.Rope)
		case g.Index > 0:
			text += fmt.Sprintf(" %d", g.Index)
		}
		for mark, n := range map[string]int64{" w": g.Last, " =": g.Fixed, " :": g.Every} {
			if n > 0 {
				text += fmt.Sprintf("%s%d", mark, n)
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// list is a list of so many words of which every nth is the second one.
func list(n, every int, first, nth string) string {
	words := make([]string, n)
	for i := range words {
		words[i] = first
		if (i+1)%every == 0 {
			words[i] = nth
		}
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func TestFamilyRules(t *testing.T) {
	const full = "full 0 to 3 8x8"
	const mamba1, gdn = "mamba_d_state: 2\nmamba_d_conv: 3", "linear_num_key_heads: 2\nlinear_key_head_dim: 4\n" +
		"linear_num_value_heads: 4\nlinear_value_head_dim: 4\nhead_dim: 8\nnum_key_value_heads: 8"
	const mamba2 = "mamba_n_heads: 16\nmamba_d_state: 4\nnum_key_value_heads: 8"
	const mla, index = "kv_lora_rank: 32\nqk_rope_head_dim: 4", "\nindex_head_dim: 128"
	const v4 = "head_dim: 32\nqk_rope_head_dim: 4\nindex_head_dim: 128\nsliding_window: 16\n"
	const kimi = mla + "\nlinear_attn_config: {num_heads: 2, head_dim: 4, "
	for _, tt := range []struct{ family, keys, want string }{
		// Where the numbers stand.
		{"x", "", full},
		{"x", "num_hidden_layers: null\nn_layer: 2\nnum_attention_heads: null\nn_head: 4\nhidden_size: null\nn_embd: 64", "full 0 to 1 4x16"},
		{"x", "num_hidden_layers:\nn_layers: 2\nnum_attention_heads:\nn_heads: 4\nhidden_size:\nd_model: 64", "full 0 to 1 4x16"},
		{"x", "num_hidden_layers:\nnum_layers: 2", "full 0 to 1 8x8"},
		{"x", "num_key_value_heads: 2\nnum_kv_heads: 4", "full 0 to 3 2x8"},
		{"x", "num_key_value_heads: null\nnum_kv_heads: 4", "full 0 to 3 4x8"},
		{"x", "n_head_kv: 4\nnum_attention_groups: 2", "full 0 to 3 4x8"},
		{"x", "num_attention_groups: 2\nhead_dim: 16\nkv_channels: 4", "full 0 to 3 2x16"},
		{"x", "attention_head_dim: 5\nkv_channels: 4", "full 0 to 3 8x5"},
		{"x", "kv_channels: 4\nv_head_dim: 4", "full 0 to 3 8x4"},
		{"falcon", "num_kv_heads: 4", "full 0 to 3 1x8"},
		{"falcon", "num_kv_heads: 4\nmulti_query: false", full},
		{"falcon", "num_kv_heads: 4\nnew_decoder_architecture: true\nmulti_query: true", "full 0 to 3 4x8"},
		{"RefinedWeb", "n_head_kv: 4", "full 0 to 3 4x8"},
		{"RefinedWebModel", "", "full 0 to 3 1x8"},
		{"gpt_bigcode", "", "full 0 to 3 1x8"},
		{"gpt_bigcode", "multi_query: false", full},
		{"chatglm", "multi_query_group_num: 2", full},
		{"chatglm", "multi_query_group_num: 2\nmulti_query_attention: true\nkv_channels: 16", "full 0 to 3 2x16"},
		{"dbrx", "attn_config: {kv_n_heads: 4, clip_qkv: 8}", "full 0 to 3 4x8"},
		{"dbrx", "", "full 0 to 3 1x8"},
		{"mpt", "attn_config: {attn_impl: torch, attn_type: multihead_attention}", full},
		{"nemotron-nas", "block_configs: [{attention: {n_heads_in_group: 4}}, {attention: {no_op: true}}, {attention: {replace_with_linear: true}}, " +
			"{attention: {n_heads_in_group: 2, window_length: 9, num_sink_tokens: null}}, {}]", "full 0 2x8; window 3 4x8 w9"},
		{"iquestloopcoder", "loop_num: 3\nuse_sliding_window: false\nsliding_window: 8", full},
		{"nanbeige", "num_loops: 2\nnum_hidden_layers: 1", "full 0 8x8"},
		{"whisper", "num_hidden_layers: 32\ndecoder_layers: 2\ndecoder_attention_heads: 4\nencoder_layers: 32\nis_encoder_decoder: true",
			"full 0 to 1 4x16; cross 0 to 1 4x16 =1500"},

		// Defaults of classes; null is the same as missing.
		{"qwen3", "num_attention_heads: 32", "full 0 to 3 32x128"},
		{"gemma", "num_attention_heads: 16\nnum_key_value_heads: null", "full 0 to 3 16x256"},
		{"beam", "num_attention_heads: 16\nsliding_window: 9\nlayer_types: " + list(4, 2, "sliding_attention", "full_attention"), "window 0, 2 8x128 w9; full 1, 3 8x128"},
		{"granite_swa", "layer_types: " + list(4, 1, "", "full_attention"), "full 0 to 3 4x8"},
		{"muse_glimmer_text", "layer_types: " + list(4, 1, "", "full_attention"), "full 0 to 3 2x128"},
		{"qwen3_moe", "", "full 0 to 3 4x8"},
		{"step3_text", "share_q_dim: 8", "full 0 to 3 1x256"},
		{"gemma3_text", "num_attention_heads: null\nnum_hidden_layers: 1\nsliding_window: 0", "full 0 4x256"},

		// Lists of layers.
		{"x", "sliding_window: 9\nlayer_types: " + list(6, 2, "sliding_attention", "full_attention"), "window 0, 2 8x8 w9; full 1, 3 8x8"},
		{"x", "attention_chunk_size: 9\nlayer_types: [chunked_attention, attention, full_attention, chunked_attention]", "chunk 0, 3 8x8 w9; full 1 to 2 8x8"},
		{"x", "sliding_window: 9\nuse_sliding_window: false\nmax_window_layers: 2", full},
		{"x", "sliding_window: 0", full},
		{"x", "sliding_window: -1", full},

		// Windows.
		{"gemma2", "head_dim: 8", "window 0, 2 4x8 w4096; full 1, 3 4x8"},
		{"gemma3", "num_hidden_layers: 7", "window 0 to 4, 6 4x256 w4096; full 5 4x256"},
		{"gemma3", "sliding_window: 9\nsliding_window_pattern: 2", "window 0, 2 4x256 w9; full 1, 3 4x256"},
		{"gemma3", "sliding_window: 9\nsliding_window_pattern: 2\nuse_bidirectional_attention: true", "window 0, 2 4x256 w5; full 1, 3 4x256"},
		{"gemma3", "sliding_window: null", "full 0 to 3 4x256"},
		{"gemma3n", "num_hidden_layers: 20", "window 0 to 3 2x256 w512; full 4 2x256; shared 5 to 19"},
		{"gemma3n", "num_kv_shared_layers: 0", "window 0 to 3 2x256 w512"},
		{"gemma4", "num_global_key_value_heads: 1\nnum_hidden_layers: 8", "window 0 to 4, 6 4x256 w512; full 5, 7 4x512"},
		{"gemma4", "num_global_key_value_heads: 1\nattention_k_eq_v: true\nglobal_head_dim: 64\nsliding_window: 9", "window 0 to 2 4x256 w9; full 3 1x64"},
		{"gemma4", "layer_types: " + list(4, 2, "full_attention", "sliding_attention"), "full 0, 2 to 3 4x512; window 1 4x256 w512"},
		{"gemma4", "num_kv_shared_layers: 2\nlayer_types: " + list(4, 2, "sliding_attention", "full_attention"),
			"window 0 4x256 w512; full 1 4x512; shared 2 to 3"},
		{"gemma4_text", "num_key_value_heads: 4\nhead_dim: 16\nsliding_window: 9\nper_layer_config: {'02': {head_dim: 32, num_key_value_heads: 2}, '3': {intermediate_size: 7}}\n" +
			"layer_types: " + list(4, 3, "sliding_attention", "full_attention"), "window 0 to 1 4x16 w9; full 2 2x32; full 3 4x16"},
		{"gemma4_text", "per_layer_config: {}", "window 0 to 2 4x256 w512; full 3 4x512"},
		{"cohere2_moe", "num_key_value_heads: 2\nhead_dim: 16\nsliding_window: 9\nsliding_window_pattern: 4\nprefix_dense_sliding_window_pattern: 1\n" +
			"layer_types: " + list(4, 2, "sliding_attention", "full_attention"), "window 0, 2 2x16 w9; full 1, 3 2x16"},
		{"laguna", "num_key_value_heads: 2\nhead_dim: 16\nsliding_window: null\nnum_attention_heads_per_layer: [8, 6, 4, 2]\n" +
			"layer_types: " + list(4, 1, "", "full_attention"), "full 0 to 3 2x16"},
		{"gpt_oss", "num_attention_heads: 64", "window 0, 2 8x64 w128; full 1, 3 8x64"},
		{"cohere2", "head_dim: 100\nsliding_window_pattern: 2", "window 0, 2 8x8 w4096; full 1, 3 8x8"},
		{"cohere2", "", "window 0 to 2 8x8 w4096; full 3 8x8"},
		{"exaone4", "num_key_value_heads: 8\nnum_hidden_layers: 6", "window 0 to 2, 4 8x8 w4096; full 3, 5 8x8"},
		{"exaone_moe", "num_key_value_heads: 8\nsliding_window_pattern: LG\nsliding_window: 9", "window 0, 2 8x8 w9; full 1, 3 8x8"},
		{"exaone4", "num_key_value_heads: 8\nsliding_window_pattern: 3\nsliding_window: 9", "window 0 to 1 8x8 w9; full 2 to 3 8x8"},
		{"exaone4", "num_key_value_heads: 8\nlayer_types: " + list(4, 2, "sliding_attention", "full_attention"), "window 0, 2 8x8 w4096; full 1, 3 8x8"},
		{"exaone4", "num_key_value_heads: 8\nsliding_window_pattern: 0\nsliding_window: null", full},
		{"olmo3", "", "window 0 to 2 8x8 w4096; full 3 8x8"},
		{"afmoe", "global_attn_every_n_layers: 2", "window 0, 2 8x128 w1024; full 1, 3 8x128"},
		{"llama4", "no_rope_layers: []", "chunk 0 to 2 8x128 w8192; full 3 8x128"},
		{"llama4", "no_rope_layer_interval: 2\nattention_chunk_size: 9", "chunk 0, 2 8x128 w9; full 1, 3 8x128"},
		{"llama4", "no_rope_layers: [0, 1, 1, 0]", "full 0, 3 8x128; chunk 1 to 2 8x128 w8192"},
		{"llama4", "attention_chunk_size: null", "full 0 to 3 8x128"},
		{"llama4", "layer_types: " + list(4, 2, "chunked_attention", "full_attention"), "chunk 0, 2 8x128 w8192; full 1, 3 8x128"},
		{"mistral", "", "window 0 to 3 8x8 w4096"},
		{"ministral", "sliding_window: null", full},
		{"ministral", "sliding_window: 9\nlayer_types: " + list(4, 2, "sliding_attention", "full_attention"), "window 0, 2 8x8 w9; full 1, 3 8x8"},
		{"mixtral", "", full},
		{"phi3", "sliding_window: 9\nfull_attn_mod: 1", "window 0 to 3 8x8 w9"},
		{"qwen2", "num_key_value_heads: 8\nsliding_window: 9\nmax_window_layers: 2", full},
		{"qwen2", "num_key_value_heads: 8\nsliding_window: 9\nmax_window_layers: 2\nuse_sliding_window: true", "full 0 to 1 8x8; window 2 to 3 8x8 w9"},
		{"qwen2", "num_key_value_heads: 8\nnum_hidden_layers: 30\nuse_sliding_window: true", "full 0 to 27 8x8; window 28 to 29 8x8 w4096"},
		{"qwen2", "num_key_value_heads: 8\nsliding_window: null\nmax_window_layers: 0\nuse_sliding_window: true", full},
		{"qwen2", "num_key_value_heads: 8\nuse_sliding_window: true\nlayer_types: " + list(4, 2, "sliding_attention", "full_attention"),
			"window 0, 2 8x8 w4096; full 1, 3 8x8"},
		{"qwen2_vl", "num_hidden_layers: 30\nuse_sliding_window: true", "full 0 to 29 8x8"},
		{"qwen2_moe", "num_key_value_heads: 8\nsliding_window: 9\nmax_window_layers: 3\nuse_sliding_window: true", "window 0, 2 8x8 w9; full 1, 3 8x8"},
		{"qwen3_moe", "sliding_window: 9\nmax_window_layers: 3\nuse_sliding_window: true", "window 0 to 3 4x8 w9"},
		{"mimo_v2_flash", "head_dim: 12\nv_head_dim: 8\nsliding_window: 9\nswa_num_key_value_heads: 8\nattention_chunk_size: 9\nhybrid_layer_pattern: [0, 1, 1, 0, 1]",
			"full 0, 3 4x12/8; window 1 to 2 8x12/8 w9"},
		{"mimo_v2_flash", "num_key_value_heads: 2\nhead_dim: 12\nv_head_dim: 8\nsliding_window: 9\nlayer_types: " + list(4, 2, "full_attention", "sliding_attention"),
			"full 0, 2 2x12/8; window 1, 3 4x12/8 w8"},
		{"step3p5", "num_attention_groups: 2\nhead_dim: 8\nsliding_window: 9\nattention_other_setting: {num_attention_groups: 4, head_dim: 16, num_attention_heads: 96}\n" +
			"layer_types: " + list(5, 2, "full_attention", "sliding_attention"), "full 0, 2 2x8; window 1, 3 4x16 w9"},
		{"mllama", "", "full 0 to 2 8x8"},
		{"mllama", "cross_attention_layers: [0, 2]", "full 1, 3 8x8"},

		// Latent vectors.
		{"deepseek_v2", mla + "\nhead_dim: 7\nv_head_dim: 9\nnum_key_value_heads: 8", "mla 0 to 3 32+4"},
		{"deepseek_v3", "kv_lora_rank: null\nqk_rope_head_dim: 4\nv_head_dim: 8", full},
		{"deepseek_ocr", "kv_lora_rank: null\nqk_rope_head_dim: 0\nqk_nope_head_dim: 0\nv_head_dim: 0\nuse_mla: false", full},
		{"deepseek_v32", mla + index, "mla 0 to 3 32+4; indexer 0 to 3 128"},
		{"glm_moe_dsa", mla + index + "\nindexer_types: " + list(4, 2, "full", "shared"), "mla 0 to 3 32+4; indexer 0, 2 128"},
		{"glm_moe_dsa", mla + index + "\nindex_topk_pattern: FSSFS", "mla 0 to 3 32+4; indexer 0, 3 128"},
		{"glm_moe_dsa", mla + index + "\nindex_topk_pattern: " + list(4, 2, "full", "shared"), "mla 0 to 3 32+4; indexer 0, 2 128"},
		{"glm_moe_dsa", mla + index + "\nindex_topk_freq: 4\nnum_hidden_layers: 8", "mla 0 to 7 32+4; indexer 0 to 1, 5 128"},
		{"glm_moe_dsa", mla + index + "\nindex_topk_freq: 2\nindex_skip_topk_offset: 0", "mla 0 to 3 32+4; indexer 1, 3 128"},
		{"deepseek_v32", mla + index + "\nlayer_types: " + list(4, 2, "indexed_attention", "indexed_attention"), "mla 0 to 3 32+4; indexer 0 to 3 128"},
		{"deepseek_v4", v4 + "compress_ratios: [0, 4, 128, 4, 0]", "window 0 to 3 28+4 w16; compressed 1, 3 28+4 :4; compressed 2 28+4 :128; indexer 1, 3 128 :4"},
		{"deepseek_v4", v4 + "compress_rates: {compressed_sparse_attention: 4, heavily_compressed_attention: 128}\n" +
			"layer_types: [sliding_attention, compressed_sparse_attention, heavily_compressed_attention, compressed_sparse_attention]",
			"window 0 to 3 28+4 w16; compressed 1, 3 28+4 :4; compressed 2 28+4 :128; indexer 1, 3 128 :4"},
		{"hy_v4", mla + index + "\nindexer_types: [full, shared, full, shared]\nlayer_types: " + list(4, 1, "", "indexed_attention"), "mla 0 to 3 32+4; indexer 0, 2 128"},
		{"axk2", mla + index, "mla 0 to 3 32+4; indexer 0 to 3 128"},
		{"mistral_large4_text", mla + index + "\nno_rope_layers: [1, 0, 1, 0]\nkv_source_layers: [0, 1, 0, 1]\nindexer_types: [full, full, shared, full]",
			"mla 0 32+4; mla 1 32+0; shared 2 to 3; indexer 0 to 1, 3 128"},
		{"glm5_next", "kv_lora_rank: 32\nqk_rope_head_dim: 0\nhead_dim: 0\nindex_kpool: 4\nlinear_num_heads: 2\nlinear_head_dim: 4\nindexer_types: [full, full, full, shared]\n" +
			"layer_types: " + list(4, 2, "linear_attention", "indexed_attention") + index, "kda 0, 2 72+0/32; mla 1, 3 32+0; indexer 1 128 :4; ring 1 =2048 bytes"},
		{"longcat_flash", "num_hidden_layers: 4\nnum_layers: 2\n" + mla, "mla 0 to 1 32+4"},
		{"longcat_flash_ngram", "num_layers: 2\nmla_scale_q_lora: true\nattention_method: MLA\nngram_vocab_size_ratio: 78\nemb_split_num: 4\n" + mla, "mla 0 to 1 32+4"},
		{"longcat_flash", "num_hidden_layers: 4\n" + mla, "mla 0 to 1 32+4"},
		{"minicpm3", mla, "mla 0 to 3 32+4"},
		{"minimax_m3", "sparse_attention_config: {sparse_index_dim: 16, sparse_attention_freq: [0, 1, 1, 1], sparse_disable_index_value: [0, 1, 0, 1]}",
			"full 0 to 3 4x128; index_key 1, 3 16+0; index_key 2 32+0"},
		{"minimax_m3_vl_text", "index_head_dim: 16\nindex_n_heads: 4\nindex_block_size: 9\nindex_topk_blocks: 9\nindex_local_blocks: 1\nlayer_types: " +
			list(4, 2, "full_attention", "minimax_m3_sparse"), "full 0 to 3 4x128; index_key 1, 3 16+0"},
		{"minimax_m2", "attn_type_list: [1, 1, 1, 1]", "full 0 to 3 8x128"},

		// States.
		{"jamba", mamba1 + "\nnum_hidden_layers: 9", "mamba1 0 to 3, 5 to 8 256+0/256; full 4 8x8"},
		{"jamba", mamba1 + "\nattn_layer_period: 2\nattn_layer_offset: 0", "full 0, 2 8x8; mamba1 1, 3 256+0/256"},
		{"bamba", "mamba_n_heads: 16\nattn_layer_indices: [1]", "mamba2 0, 2 to 3 384+1536/32768; full 1 8x8"},
		{"bamba", mamba2, "mamba2 0 to 3 384+24/512"},
		{"nemotron_h", "hybrid_override_pattern: M*-EM\nhead_dim: 8\nexpand: 2", "mamba2 0, 4 30720+0/1048576; full 1 8x8"},
		{"nemotron_h", "layers_block_type: [mamba, attention, mlp, moe, linear_attention, full_attention]\nhead_dim: 8\nmamba_num_heads: 16\nmamba_head_dim: 4\nn_groups: 2\nssm_state_size: 4\nconv_kernel: 3",
			"mamba2 0, 4 160+0/256; full 1, 5 8x8"},
		{"falcon_h1", mamba2 + "\nmamba_d_ssm: 32", "full 0 to 3 8x8; mamba2 0 to 3 96+24/128"},
		{"falcon_h1", mamba2 + "\nmamba_d_head: auto", "full 0 to 3 8x8; mamba2 0 to 3 3072+24/4096"},
		{"falcon_h1", mamba2 + "\nmamba_d_ssm: null", "full 0 to 3 8x8; mamba2 0 to 3 384+24/512"},
		{"granitemoehybrid", mamba2 + "\nlayer_types: [mamba, attention, linear_attention, full_attention]", "mamba2 0, 2 384+24/512; full 1, 3 8x8"},
		{"granitemoehybrid", mamba2, "mamba2 0 to 3 384+24/512"},
		{"zamba2", "hybrid_layer_ids: [1, 3]\nmamba_d_state: 4", "mamba2 0 to 3 384+24/512; full 1, 3 8x16"},
		{"zamba2", "layers_block_type: [mamba, hybrid, linear_attention, mamba]\nhybrid_layer_ids: [1]\nmamba_d_state: 4\nmamba_ngroups: 2", "mamba2 0 to 3 432+0/512; full 1 8x16"},
		{"zamba2", "num_hidden_layers: 54\nmamba_d_state: 4", "mamba2 0 to 53 384+24/512; full 6, 12, ... 51 8x16"},
		{"qwen3_next", gdn, "gdn 0 to 2 96+0/64; full 3 8x8"},
		{"qwen3_5_text", gdn + "\nfull_attention_interval: 2", "gdn 0, 2 96+0/64; full 1, 3 8x8"},
		{"qwen3_5_moe", gdn + "\nlayer_types: " + list(4, 2, "full_attention", "linear_attention"), "full 0, 2 8x8; gdn 1, 3 96+0/64"},
		{"kimi_linear", kimi + "full_attn_layers: [4], kda_layers: [1, 2, 3]}", "kda 0 to 2 72+0/32; mla 3 32+4"},
		{"kimi_k3", mla + "\nlinear_num_heads: 2\nlinear_head_dim: 4\nlayer_types: " + list(4, 2, "linear_attention", "full_attention"), "kda 0, 2 72+0/32; mla 1, 3 32+4"},
		{"bailing_hybrid", mla + "\nlinear_num_heads: 2\nlinear_head_dim: 4\nlayer_group_size: 2\nkda_safe_gate: true", "kda 0, 2 72+0/32; mla 1, 3 32+4"},
		{"bailing_hybrid", mla + "\nlinear_num_heads: 2\nlinear_head_dim: 4\nshort_conv_kernel_size: 3\nlayer_group_size: 3\nlayer_types: " +
			list(4, 4, "linear_attention", "full_attention"), "kda 0 to 2 48+0/32; mla 3 32+4"},
		{"olmo_hybrid", gdn + "\nlinear_a_log_max: 16\nlinear_dt_min: 0.1\nlayer_types: " + list(4, 2, "linear_attention", "full_attention"), "gdn 0, 2 96+0/64; full 1, 3 8x8"},
		{"zaya", "head_dim: 4\nsliding_window: 9\nlayer_types: " + list(4, 4, "hybrid", "hybrid_sliding"), "full 0 to 2 2x4; window 3 2x4 w9; cca 0 to 3 80+4/0"},
		{"minimax_text_01", "attn_type_list: [0, 1, 0, 1]\nshared_moe_mode: sigmoid", "lightning 0, 2 0+0/512; full 1, 3 8x8"},
		{"minimax", "", "full 0, 2 8x8; lightning 1, 3 0+0/512"},
		{"minimax", "layer_types: " + list(4, 4, "linear_attention", "full_attention"), "lightning 0 to 2 0+0/512; full 3 8x8"},
		{"lfm2", "full_attn_idxs: [2]\nconv_dim: 32", "shortconv 0 to 1, 3 64+0/0; full 2 8x8"},
		{"lfm2", "layer_types: [conv, full_attention, conv, full_attention]\nconv_L_cache: 4", "shortconv 0, 2 192+0/0; full 1, 3 8x8"},
		{"lfm3", "layer_types: [conv, full_attention, sliding_attention, conv]\nsliding_window: 9\nconv_bias: false", "shortconv 0, 3 384+0/0; full 1 4x8; window 2 4x8 w9"},
	} {
		m, err := parse(configText(tt.family, tt.keys))
		if err != nil {
			t.Errorf("%s\n%s: %v", tt.family, tt.keys, err)
			continue
		}
		if got := describe(m); got != tt.want {
			t.Errorf("%s\n%s:\n got %s\nwant %s", tt.family, tt.keys, got, tt.want)
		}
	}
}

// The language part of a file may be nested, and its family is that of the innermost part.
func TestLanguagePart(t *testing.T) {
	const part = `{"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 16`
	for text, want := range map[string]string{
		`{"model_type": "a", "num_hidden_layers": 9, "text_config": ` + part + `}}`:                                           "a full 0 to 1 4x4",
		`{"llm_config": ` + part + `, "model_type": "qwen3_moe"}}`:                                                            "qwen3_moe full 0 to 1 4x4",
		`{"model_type": "a", "language_config": {"model_type": "b", "text_config": ` + part + `}}}`:                           "b full 0 to 1 4x4",
		`{"talker_config": {"text_config": {}}, "thinker_config": {"text_config": ` + part + `}, "model_type": "a_thinker"}}`: "a_thinker full 0 to 1 4x4",
		`{"architectures": ["AForCausalLM"], "dtype": null, ` + part[1:] + `}`:                                                " full 0 to 1 4x4",
	} {
		if m, err := parse(text); err != nil || m.Family+" "+describe(m) != want {
			t.Errorf("%s: %v, %v, want %s", text, m, err, want)
		}
	}
}

// A file that does not say enough, or says what nothing here knows, is an error with its line and key.
func TestConfigRefused(t *testing.T) {
	const index = "kv_lora_rank: 32\nqk_rope_head_dim: 4\nindex_head_dim: 128\n"
	for _, tt := range []struct{ family, keys, says string }{
		{"x", "num_hidden_layers: null", "m.yaml:1: the key num_hidden_layers is missing"},
		{"x", "num_hidden_layers: null\nnum_attention_heads: null\nhidden_size: null", "m.yaml:1: the keys num_hidden_layers, num_attention_heads, hidden_size are missing"},
		{"kimi_linear", "linear_attn_config: {full_attn_layers: [1]}", "the keys kv_lora_rank, qk_rope_head_dim are missing"},
		{"kimi_linear", "kv_lora_rank: 32\nqk_rope_head_dim: 4\nlinear_attn_config: {full_attn_layers: [1]}", "m.yaml:7: linear_attn_config: the keys num_heads, head_dim are missing"},
		{"x", "num_hidden_layers: 0", "m.yaml:4: num_hidden_layers: wanted a whole number from 1 to 1048576, got 0"},
		{"x", "num_attention_heads: 0", "m.yaml:4: num_attention_heads: wanted a whole number from 1 to 1048576, got 0"},
		{"x", "num_key_value_heads: 0", "m.yaml:5: num_key_value_heads: wanted a whole number from 1 to 1048576, got 0"},
		{"x", "num_key_value_heads: -8", "m.yaml:5: num_key_value_heads: wanted a whole number from 1 to 1048576, got -8"},
		{"x", "num_key_value_heads: 3", "m.yaml:5: num_key_value_heads: wanted a number that divides the 8 query heads, got 3"},
		{"x", "num_key_value_heads: 16", "m.yaml:5: num_key_value_heads: wanted a number that divides the 8 query heads, got 16"},
		{"x", "num_key_value_heads: '8'", `m.yaml:5: num_key_value_heads: wanted a whole number from 1 to 1048576, got "8" (a string)`},
		{"x", "num_key_value_heads: 8.5", "m.yaml:5: num_key_value_heads: wanted a whole number from 1 to 1048576, got 8.5"},
		{"x", "head_dim: 1048577", "m.yaml:5: head_dim: wanted a whole number from 1 to 1048576"},
		{"x", "head_dim: 0", "m.yaml:5: head_dim: wanted a whole number from 1"},
		{"x", "hidden_size: -64", "m.yaml:4: hidden_size: wanted a whole number from 1"},
		{"x", "v_head_dim: -8", "m.yaml:5: v_head_dim: wanted a whole number from 0"},
		{"deepseek_v3", "kv_lora_rank: -512\nqk_rope_head_dim: 64", "m.yaml:5: kv_lora_rank: wanted a whole number from 0"},
		{"deepseek_v3", "kv_lora_rank: 512\nqk_rope_head_dim: 0", "m.yaml:6: qk_rope_head_dim: wanted a whole number from 1"},
		{"x", "num_experts: '8'", `m.yaml:5: num_experts: wanted a whole number from 0 to 1048576, got "8" (a string)`},
		{"x", "num_experts: -1", "m.yaml:5: num_experts: wanted a whole number from 0 to 1048576, got -1"},
		{"chatglm", "multi_query_group_num: 3", "m.yaml:5: multi_query_group_num: wanted a number that divides"},
		{"dbrx", "attn_config: {kv_n_heads: 3}", "m.yaml:5: attn_config.kv_n_heads: wanted a number that divides"},
		{"zamba2", "num_key_value_heads: 3\nhybrid_layer_ids: [1]", "m.yaml:5: num_key_value_heads: wanted a number that divides"},
		{"step3p5", "attention_other_setting: {num_attention_heads: 6, num_attention_groups: 4}", "m.yaml:5: attention_other_setting.num_attention_groups: wanted a number that divides the 6 query heads, got 4"},
		{"mimo_v2", "sliding_window: 9\nhybrid_layer_pattern: [1, 1, 1, 1]\nswa_num_key_value_heads: 3", "m.yaml:7: swa_num_key_value_heads: wanted a number that divides"},
		{"laguna", "num_key_value_heads: 4\nhead_dim: 8\nnum_attention_heads_per_layer: [8, 6, 8, 8]\nlayer_types: " + list(4, 1, "", "full_attention"),
			"m.yaml:7: num_attention_heads_per_layer[1]: wanted query heads that 4 KV heads divide, got 6"},
		{"qwen3", "", "m.yaml:1: the key num_key_value_heads is missing, and the 32 KV heads that models of type \"qwen3\" have then do not divide the 8 query heads"},
		{"laguna", "", "the keys num_key_value_heads, head_dim, layer_types are missing"},
		{"beam", "sliding_window: 9", "the key layer_types is missing"},
		{"hy_v4", index, "the key indexer_types is missing"},
		{"minimax_m3", "", "the key layer_types is missing"},
		{"bamba", "attn_layer_indices: 5", "m.yaml:5: attn_layer_indices: wanted a list of numbers, got a whole number"},
		{"x", "num_hidden_layers: 16385", "wanted at most 16384 layers"},
		{"x", "hidden_size: 63", "wanted head_dim, or a hidden_size that num_attention_heads divides"},
		{"x", "v_head_dim: 4", "m.yaml:5: v_head_dim: values of 4 beside keys of 8"},
		{"x", "kv_lora_rank: 512", "the key qk_rope_head_dim is missing"},
		{"x", "sliding_window: 9", "m.yaml:5: sliding_window: sliding_window without layer_types"},
		{"x", "sliding_window: 9\nlayer_types: " + list(3, 2, "sliding_attention", "full_attention"), "m.yaml:6: layer_types: wanted a list with an element for each of the 4 layers, got one of 3"},
		{"x", "layer_types: " + list(4, 2, "full_attention", "sliding_attention"), "m.yaml:5: layer_types[1]: sliding_attention, and the file says no size of it"},
		{"x", "layer_types: " + list(4, 2, "full_attention", "linear_attention"), "m.yaml:5: layer_types[1]: a layer of the kind linear_attention is not known"},
		{"x", "layer_types: " + list(4, 2, "full_attention", "mlp"), "m.yaml:5: layer_types[1]: a layer of the kind mlp is not known"},
		{"qwen3_next", "layer_types: " + list(4, 2, "full_attention", "conv"), "a layer of the kind conv is not known"},
		{"lfm2", "layer_types: " + list(4, 2, "full_attention", "mamba"), "a layer of the kind mamba is not known"},
		{"lfm2", "", "wanted full_attn_idxs or layer_types"},
		{"lfm2", "full_attn_idxs: [1]\nhidden_size: null\nhead_dim: 8", "the key hidden_size is missing"},
		{"gemma3n", "num_kv_shared_layers: 4", "m.yaml:5: num_kv_shared_layers: the last 4 layers read caches of earlier ones, and no earlier one keeps what layer 0 reads"},
		{"gemma3n", "num_hidden_layers: 6\nnum_kv_shared_layers: 3", "no earlier one keeps what layer 4 reads"},
		{"gemma4", "per_layer_config: {4: {head_dim: 512}}", "m.yaml:5: per_layer_config.4: wanted a map for one of the layers 0 to 3"},
		{"gemma4", "per_layer_config: {1: {}, '01': {}}", "wanted a map for one of the layers 0 to 3"},
		{"gemma4", "per_layer_config: [1]", "m.yaml:5: per_layer_config: wanted a map with the numbers of layers, got one of 1"},
		{"gemma4", "per_layer_config: {1: {num_key_value_heads: 3}}", "m.yaml:5: per_layer_config.1.num_key_value_heads: wanted a number that divides"},
		{"gemma4", "per_layer_config: {1: {sliding_window: 3}}", "m.yaml:5: per_layer_config.1.sliding_window: it may say"},
		{"longcat_flash", "num_layers: 2\nattention_method: GQA\n" + index, "m.yaml:6: attention_method: a layer of the kind GQA"},
		{"glm_moe_dsa", index + "layer_types: " + list(4, 2, "indexed_attention", "full_attention"), "a layer of the kind full_attention"},
		{"mistral_large4", index + "no_rope_layers: [1, 1, 1, 1]\nkv_source_layers: [0, 2, 2, 3]", "kv_source_layers[1]: wanted a whole number from 0 to 1, got 2"},
		{"minimax_m3", "index_head_dim: 8\nlayer_types: " + list(4, 2, "full_attention", "sparse"), "a layer of the kind sparse"},
		{"bailing_hybrid", index + "linear_num_heads: 2\nlinear_head_dim: 4\nlayer_group_size: 3", "m.yaml:10: layer_group_size: wanted a number that divides the 4 layers"},
		{"mimo_v2_flash", "sliding_window: 1\nlayer_types: " + list(4, 2, "full_attention", "sliding_attention"), "m.yaml:5: sliding_window: wanted more than the token"},
		{"zaya", "layer_types: " + list(4, 2, "hybrid", "a"), "a layer of the kind a"},
		{"gemma4", "layer_types: " + list(4, 2, "full_attention", "chunked_attention"), "a layer of the kind chunked_attention"},
		{"exaone4", "num_attention_heads: 32\nsliding_window_pattern: LXG", "m.yaml:5: sliding_window_pattern: wanted a number, or letters L and G"},
		{"llama4", "layer_types: " + list(4, 2, "full_attention", "sliding_attention"), "a layer of the kind sliding_attention"},
		{"step3p5", "sliding_window: 9\nlayer_types: " + list(4, 2, "full_attention", "attention"), "a layer of the kind attention"},
		{"deepseek_v4", index + "sliding_window: null\ncompress_ratios: [0, 0, 4, 4]", "wanted a window, which every layer has"},
		{"nemotron-nas", "block_configs: [1, 2, 3, 4]", "block_configs[0]: wanted a map with the key attention"},
		{"x", "use_sliding_window: 1", "m.yaml:5: use_sliding_window: wanted true or false, got 1"},
		{"x", "layer_types: full_attention", "layer_types: wanted a list with an element for each of the 4 layers, got text"},
		{"llama4", "no_rope_layers: [0, 1, 2, 1]", "no_rope_layers[2]: a layer of the kind 2"},
		{"mimo_v2_flash", "sliding_window: 9", "the key hybrid_layer_pattern is missing"},
		{"mimo_v2_flash", "sliding_window: 9\nhybrid_layer_pattern: [0, 1, 2, 1]", "hybrid_layer_pattern[2]: a layer of the kind 2"},
		{"step3p5", "layer_types: " + list(4, 2, "full_attention", "sliding_attention"), "sliding_attention, and the file says no size of it"},
		{"step3p5", "", "the key layer_types is missing"},
		{"glm_moe_dsa", index + "index_topk_pattern: FSX", "wanted F or S for each of the 4 layers"},
		{"glm_moe_dsa", index + "index_topk_pattern: FSXS", "wanted F or S for each of the 4 layers"},
		{"glm_moe_dsa", index + "indexer_types: [full, full, half, full]", "a layer of the kind half"},
		{"mistral", "kv_lora_rank: 32\nqk_rope_head_dim: 4\nsliding_window: null", "m.yaml:5: kv_lora_rank: it may say"},
		{"deepseek_v3", index, "m.yaml:7: index_head_dim: it may say what layers keep"},
		{"deepseek_v4", index + "compress_ratios: [4, 8, 4, 4]", "compress_ratios[1]: a layer of the kind 8"},
		{"deepseek_v4", index + "layer_types: [full_attention, a, b, c]", "a layer of the kind full_attention"},
		{"deepseek_v4", index + "compress_ratios: [4, 4, 4, 4]\ncompress_rates: {compressed_sparse_attention: 8}", "compress_rates.compressed_sparse_attention: wanted 4 tokens"},
		{"deepseek_v4", index + "head_dim: 4", "qk_rope_head_dim: wanted fewer than the 4 values of head_dim"},
		{"deepseek_v4", index, "the key compress_ratios is missing"},
		{"minimax_m2", "attn_type_list: [1, 1, 0, 1]", "attn_type_list[2]: a layer of the kind 0"},
		{"minimax_m3", "sparse_attention_config: {sparse_index_dim: 1}", "the key sparse_attention_freq is missing"},
		{"minimax_text_01", "", "the key attn_type_list is missing"},
		{"nemotron-nas", "", "the key block_configs is missing"},
		{"nemotron-nas", "block_configs: [{attention: {n_heads_in_group: 3}}, {}, {}, {}]", "wanted a divisor of the 8 query heads"},
		{"nemotron-nas", "block_configs: [{attention: {mamba: {state_dim: 3}, n_heads_in_group: 8}}, {}, {}, {}]", "mamba: it may say what layers keep"},
		{"mpt", "attn_config: {attn_type: multiquery_attention}", "attn_type: it may say"},
		{"mpt", "attn_config: {sliding_window_size: 9}", "attn_config.sliding_window_size: it may say"},
		{"nanbeige", "num_loops: 65", "num_loops: wanted a whole number from 0 to 64"},
		{"nanbeige", "num_loops: 2\nsliding_window: 9", "sliding_window without layer_types"},
		{"jamba", "attn_layer_period: 4", "attn_layer_offset: wanted less than the attn_layer_period of 4, got 4"},
		{"bamba", "mamba_d_conv: 1025", "mamba_d_conv: wanted a whole number from 1 to 1024"},
		{"nemotron_h", "hybrid_override_pattern: M*X", "wanted hybrid_override_pattern, a letter for each layer"},
		{"nemotron_h", "layers_block_type: [mamba, conv]", "layers_block_type[1]: a layer of the kind conv"},
		{"nemotron_h", "hybrid_override_pattern: EE", "no layer of it keeps anything"},
		{"zamba2", "", "the key hybrid_layer_ids is missing"},
		{"zamba2", "layers_block_type: [mamba, attention, mamba, mamba]", "a layer of the kind attention"},
		{"kimi_linear", "kv_lora_rank: 32\nqk_rope_head_dim: 4", "the map linear_attn_config is missing"},
		{"kimi_linear", "kv_lora_rank: 32\nqk_rope_head_dim: 4\nlinear_attn_config: {num_heads: 2, head_dim: 4, full_attn_layers: [1], kda_layers: [1, 2, 3, 4]}", "layer 1, counted from 1"},
		{"qwen3_next", "mamba_ssm_dtype: int8", "m.yaml:5: mamba_ssm_dtype: wanted float32, bfloat16 or float16"},
		{"bailing_moe_linear", "", "m.yaml:1: model_type bailing_moe_linear: its caches"},
		{"qwen4_exp_text", "", "are not known to perigee"},
		{"rwkv7", "", "neither vLLM nor SGLang hands its state"},
		{"phi4flash", "", "half of its layers read the cache of one other"},
	} {
		_, err := parse(configText(tt.family, tt.keys))
		must.Fail(t, err, fault.Input, tt.says)
	}
}
