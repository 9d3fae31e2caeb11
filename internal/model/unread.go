package model

import (
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/lazyre"
)

// This file refuses what no reader of a family has read.

// aboutCaches finds words of keys that may say what layers keep.
var aboutCaches = lazyre.New(`layer|head|window|cache|kv|attn|attention|query|mamba|ssm|state|conv|linear|latent|` +
	`lora|compress|index|chunk|block|pattern|swa|sparse|group|interval|offset|stride|loop|cross|share|sharing|local|` +
	`global|memor|encoder|decoder|recur|rnn|hybrid|yoco|retention|retnet|delta|mixer|hyena|rwkv|cycle|period|span|reuse|` +
	`(^|_)(cla|mem|lru|gdn|kda|every)(_|$)`)

// aboutOthers fits keys with such a word that are about something else: how attention is computed, experts, positions,
// vocabularies, pictures, training. It fits whole keys, so that no word of them can hide another one.
var aboutOthers = lazyre.New(`^(` + strings.Join([]string{
	// One word of several decides.
	`(\w+_)?(dropout|pdrop|layerdrop|bias|norm|layer_?norm|rms_?norm|eps|epsilon|softmax|act|activation|vocab|embed|` +
		`embeddings?|moe|experts?|router|mlp|ffn|mtp|nextn|draft|eagle|logits?|theta|multipliers?|temperature|dtype|` +
		`implementation|impl|softcap|softcapping|tokenizer)(_\w+)?`,
	// What they begin with.
	`(vision|image|img|audio|video|speech|mm|routed|rope|rotary|token|output|tie|classifier|initializer|beam|num_beam|` +
		`quantization|scale|lm_head|indexer_rope|index_share_for_mtp|fused?)_\w+`,
	// What they end in.
	`\w+_(token_id|token_index|scale|scalar|scaling|(alpha|beta|rotary)_factor|mamba_kernels|gate|init|drop|` +
		`per_layer_input|sinks?|res_block_size|lm_heads|reward_heads)`,
	// Others.
	`layer_?scale\w*|use_(kv_)?cache|is_decoder|head_type|[lr]m_head|use_(logn|flash)_attn|(use_)?gated_att\w+|` +
		`use_parallel_block|dual_chunk_attention_config|` +
		`q_lora_rank|o_lora_rank|o_groups|n_group|topk_group|use_grouped_topk|group_limited_greedy|num_dense_layers|` +
		`num_hash_layers|no_rope_layers|no_rope_layer_interval|decoder_sparse_step|decoder_start_token_id|` +
		`conv_template|ignored?_index|mask_index|unk_index|offset_alibi|clip_qkv|max_attn_val(ue)?|interleaved_qkv|` +
		`parallel_attn\w*|num_ln_in_parallel_attn|reorder_and_upcast_attn|qk_layernorm|apply_query_key_layer_scaling`,
}, "|") + `)$`)

// neutralAsOne finds words of keys whose value 1 changes nothing: that many layers share a cache, every so manieth one
// keeps all tokens, so many rounds are made.
var neutralAsOne = lazyre.New(`factor|ratio|_mod$|loop|cycle|period|interval|freq|stride|step|every|pattern`)

// refuseUnread refuses the first key that may say what layers keep and that nothing has read.
func (c *config) refuseUnread() {
	for _, key := range c.v.Keys() {
		v, word := c.v.Get(key), strings.ToLower(key)
		if c.failed() || c.read[key] || off(v) || !aboutCaches.MatchString(word) || aboutOthers.MatchString(word) ||
			v.Float() == 1 && neutralAsOne.MatchString(word) {
			continue
		}
		c.err = v.Errorf("it may say what layers keep of a request, and perigee does not know it in %s", c.ofType()).
			WithHint("%s; or leave the key away if it changes nothing of the cache", ownFile)
	}
}

// off reports whether a value, or a missing one, switches nothing on.
func off(v *conf.Value) bool {
	if v == nil {
		return true
	}
	switch v.Kind {
	case conf.Null:
		return true
	case conf.Bool:
		return !v.Bool()
	case conf.Int, conf.Float:
		return v.Float() <= 0
	case conf.String:
		return v.Text() == ""
	}
	return v.Len() == 0
}

// unknownWord is the error of a word or a number in a list of layers.
func (c *config) unknownWord(v *conf.Value) {
	if !c.failed() {
		c.err = v.Errorf("a layer of the kind %v is not known in %s", v.Plain(), c.ofType()).WithHint(ownFile)
	}
}
