package model

import (
	"strings"
	"testing"

	"perigee/internal/kit/fault"
)

// TestUnreadRefused gives a family that nothing knows keys of real and of invented models by which layers differ.
func TestUnreadRefused(t *testing.T) {
	for _, key := range strings.Split(`num_kv_shared_layers: 10
cla_share_factor: 2
use_cla: true
kv_share_factor: 2
kv_sharing: true
kv_reuse_layers: [1, 2]
attention_window_sizes: [128, 0]
attention_window_tokens: 128
local_window: 128
local_attention_window: 128
window_size: 128
keep_window_size: 128
sliding_window_pattern: 2
prefix_dense_sliding_window_pattern: [1, 0]
swa_layers: [1]
swa_head_dim: 64
global_attn_every_n_layers: 2
dense_attention_every_n_layers: 2
full_attn_mod: 2
full_attn_idxs: [1]
attn_every: 2
attn_layer_indices: [1]
attn_layer_period: 8
attn_type_list: [1, 0, 1, 0]
attention_types: [global]
attention_chunk_size: 8192
attention_span: 128
layer_group_size: 4
layers_block_type: [attention, mamba]
layer_overrides: {1: {}}
per_layer_config: {1: {head_dim: 4}}
block_types: [recurrent, attention]
hybrid_layer_ids: [1]
hybrid_override_pattern: M*M*
parallel_hybrid: true
mixer_types: [mamba, attention]
ssm_cfg: {d_state: 16}
ssm_state_size: 128
mamba_d_state: 16
parallel_ssm_layers: 2
conv_L_cache: 3
linear_attn_config: {kda_layers: [1]}
kda_layers: [1]
gdn_config: {heads: 1}
lru_width: 2560
retention_heads: 8
rnn_hidden_size: 64
recurrent_depth: 4
n_recurrent_loops: 2
H_cycles: 2
loop_num: 2
num_loops: 2
num_memory_tokens: 16
mem_len: 512
num_global_tokens: 16
yoco: true
use_yoco: true
cross_attention_layers: [3, 8]
cross_attention_every_n_layers: 5
add_cross_attention: true
is_encoder_decoder: true
encoder_layers: 12
compress_ratios: [4, 4, 4, 4]
kv_compression_ratio: 4
index_topk: 2048
index_head_dim: 128
sparse_attention_config: {sparse_index_dim: 16}
qk_rope_head_dim: 64
multi_query: true
multi_query_group_num: 2
num_query_groups: 2
num_key_value_heads_per_layer: [1, 2]
kv_heads_per_layer: [1, 2]
num_attention_heads_per_layer: [8, 4]
global_head_dim: 512
num_global_key_value_heads: 2
mla_scale_kv_lora: true
kv_source_layers: [0, 0, 2, 3]
index_kpool: 16
linear_num_heads: 8
kda_lower_bound: 5
layer_rope_dims: [0, 64]`, "\n") {
		name, _, _ := strings.Cut(key, ":")
		_, err := parse(configText("unheard_of", key))
		if err == nil || fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "m.yaml:5: "+name) ||
			!strings.Contains(err.Error(), `models of type "unheard_of"`) {
			t.Errorf("%s: got %v, want a refusal of %s", key, err, name)
		}
	}
}

// TestUnreadHarmless gives a family that nothing knows keys of published files, or switches off what would matter.
func TestUnreadHarmless(t *testing.T) {
	for _, key := range strings.Split(`rope_scaling: {factor: 8}
rope_parameters: {full_attention: {rope_theta: 1}, sliding_attention: {rope_theta: 2}}
rope_local_base_freq: 10000
no_rope_layers: [1, 1, 1, 0]
no_rope_layer_interval: 4
swa_rope_theta: 10000
attention_dropout: 0.1
attention_probs_dropout_prob: 0.1
attn_pdrop: 0.1
layerdrop: 0.1
attention_bias: true
use_qkv_bias: true
add_bias_linear: true
attention_multiplier: 0.5
attention_in_multiplier: 0.5
query_pre_attn_scalar: 168
attn_logit_softcapping: 50
attn_output_gate: true
attn_temperature_tuning: true
attention_value_scale: 0.7
scale_attn_weights: true
attention_softmax_in_fp32: true
apply_query_key_layer_scaling: true
add_swa_attention_sink_bias: true
use_gated_attention: true
use_parallel_block: true
use_embedding_sharing: true
max_attn_value: 30
clip_qkv: 8
qk_layernorm: true
use_qk_norm: true
layer_norm_eps: 1e-5
layernorm_epsilon: 1e-5
layer_norm_epsilon: 1e-5
layernorm_full_attention_alpha: 1
norm_head: true
apply_residual_connection_post_layernorm: true
offset_alibi: 100
use_logn_attn: true
use_flash_attn: auto
parallel_attn: true
attn_implementation: eager
_attn_implementation_autoset: true
cache_implementation: hybrid
use_cache: true
use_kv_cache: true
lm_head: true
dual_chunk_attention_config: {chunk_size: 262144}
is_decoder: true
max_window_layers: 28
use_sliding_window: true
chunk_size_feed_forward: 0
cross_attention_hidden_size: null
num_experts_per_tok: 8
num_local_experts: 8
n_shared_experts: 1
num_shared_expert: [1, 1, 1, 1]
shared_expert_intermediate_size: 64
moe_shared_expert_intermediate_size: 64
first_k_dense_replace: 3
moe_layer_freq: 1
moe_layer_start_index: 1
mlp_only_layers: [1]
mlp_layer_types: [dense, sparse]
interleave_moe_layer_step: 1
decoder_sparse_step: 1
expert_layer_period: 2
n_group: 8
topk_group: 4
group_limited_greedy: true
q_lora_rank: 1536
num_nextn_predict_layers: 1
mtp_num_hidden_layers: 1
mtp_layers_block_type: [attention]
index_share_for_mtp_iteration: true
initializer_range: 0.02
hidden_size_per_layer_input: 256
vocab_size: 1000
tokenizer_class: GPT2Tokenizer
boi_token_index: 7
vision_feature_layer: -2
mm_vision_select_layer: -2
image_token_index: 7
ignore_index: -100
classifier_dropout: 0.1
num_beam_groups: 1
pruned_heads: {}
tie_word_embeddings: true
quantization_config: {group_size: 128}
num_kv_shared_layers: 0
use_cla: false
layer_types: []
compress_ratios: null
sliding_window_size: -1
cla_share_factor: 1
compression_ratio: 1.0
loop_num: 1
attn_layer_period: 1`, "\n") {
		if m, err := parse(configText("unheard_of", key)); err != nil || describe(m) != "full 0 to 3 8x8" {
			t.Errorf("%s: %v", key, err)
		}
	}
	// HunYuan's files say by how many layers a cache would be shared, also where none is.
	if _, err := parse(configText("hunyuan", "use_cla: false\ncla_share_factor: 2")); err != nil {
		t.Error(err)
	}
}
