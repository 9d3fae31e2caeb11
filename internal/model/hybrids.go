package model

import (
	"cmp"
	"slices"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/lazyre"
)

// This file reads the classes whose layers keep states of fixed size.

// recurrence are the keys of a recurrence that change nothing of its size.
var recurrence = lazyre.New(`^(mamba|ssm|time_step|block|conv)_|^chunk_size$|^use_(mamba|conv|assoc)`)

// understandLike marks the keys that fit a pattern.
func (c *config) understandLike(pattern *lazyre.Regexp) {
	for _, key := range c.v.Keys() {
		if pattern.MatchString(key) {
			c.understand(key)
		}
	}
}

// mamba2Defaults are those of a class; head 0: the inner size / heads.
type mamba2Defaults struct{ heads, head, groups, state int64 }

// mamba2State reads a Mamba 2 of an inner size, or of heads * their size where it is 0.
func (c *config) mamba2State(inner int64, d mamba2Defaults) {
	c.stateKind = Mamba2
	heads, head := c.number(d.heads, "mamba_num_heads", "mamba_n_heads", "n_mamba_heads"), d.head
	if head == 0 {
		head = inner / heads
	}
	if v := c.value("mamba_head_dim", "mamba_d_head", "mamba_headdim"); v != nil && v.Text() != "auto" {
		head = c.whole(v, 1, MaxNumber)
	}
	if inner == 0 {
		inner = heads * head
	}
	c.state = mamba2(inner, heads, head, c.number(d.groups, "n_groups", "mamba_n_groups", "mamba_ngroups"),
		c.number(d.state, "ssm_state_size", "mamba_d_state"), c.kernel(4, "conv_kernel", "mamba_d_conv"))
	c.understandLike(recurrence)
}

// inner is the inner size of a Mamba.
func (c *config) inner() int64 {
	return c.number(2, "mamba_expand", "expand") * c.required(hiddenKeys...)
}

// jamba has attention in every so manieth layer and a Mamba 1 in the others.
func jamba(c *config) {
	c.attention()
	period, offset := c.number(8, "attn_layer_period"), c.layerNumber(4, "attn_layer_offset")
	if offset >= period {
		c.fail(c.v, "attn_layer_offset: wanted less than the attn_layer_period of %d, got %d", period, offset)
	}
	c.stateKind = Mamba1
	c.state = mamba1(c.inner(), c.number(16, "mamba_d_state"), c.kernel(4, "mamba_d_conv"))
	c.understandLike(recurrence)
	window := c.window(0, "sliding_window")
	c.each(func(i int64) Keep {
		if i%period == offset {
			return windowOf(c.full, window)
		}
		return c.keepState()
	})
}

func bamba(c *config) {
	c.attention()
	c.understand("attn_rotary_emb")
	c.mamba2State(c.inner(), mamba2Defaults{heads: 128, groups: 1, state: 256})
	c.each(c.attentionIn(c.numbers(c.value("attn_layer_indices"))))
}

// attentionIn keeps all tokens in some layers and the family's state in the others.
func (c *config) attentionIn(layers []int64) func(i int64) Keep {
	return func(i int64) Keep {
		if slices.Contains(layers, i) {
			return c.full
		}
		return c.keepState()
	}
}

// nemotronH has a letter or a word for each layer; there are as many layers.
func nemotronH(c *config) {
	letters, words := c.value("hybrid_override_pattern"), c.value("layers_block_type", "layer_types")
	named := map[string]string{
		"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E",
	}
	text := letters.Text()
	if letters == nil {
		for _, w := range words.List() {
			letter, ok := named[w.Text()]
			if !ok {
				c.unknownWord(w)
				return
			}
			text += letter
		}
	}
	if text == "" || strings.Trim(text, "M*-E") != "" {
		c.fail(c.v, "wanted hybrid_override_pattern, a letter for each layer: M, *, - or E; got %q", text)
		return
	}
	c.layers = int64(len(text))
	c.attention()
	c.stateDType = float32Name
	c.understand("sliding_window")
	if strings.Contains(text, "M") {
		c.understand("expand", "mamba_expand")
		c.mamba2State(0, mamba2Defaults{heads: 128, head: 64, groups: 8, state: 128})
	}
	c.each(func(i int64) Keep {
		switch text[i] {
		case 'M':
			return c.keepState()
		case '*':
			return c.full
		}
		return Keep{}
	})
}

// falconH1 has attention and a Mamba 2 in every layer.
func falconH1(c *config) {
	c.attention()
	inner := c.number(1024, "mamba_d_ssm")
	if v := c.v.Get("mamba_d_ssm"); v != nil && v.Kind == conf.Null {
		inner = c.inner()
	}
	c.mamba2State(inner, mamba2Defaults{heads: 128, groups: 1, state: 256})
	c.understand("attn_layer_indices")
	c.each(func(int64) Keep { return c.full })
	c.each(func(int64) Keep { return c.keepState() })
}

func graniteHybrid(c *config) {
	c.attention()
	c.understand("shared_intermediate_size", "position_embedding_type")
	c.mamba2State(c.inner(), mamba2Defaults{heads: 128, groups: 1, state: 256})
	if words := c.list("layer_types"); words != nil {
		c.byWords(words, 0)
		return
	}
	c.each(func(int64) Keep { return c.keepState() })
}

// ofZamba2 are keys of Zamba 2 that change nothing of what it keeps.
var ofZamba2 = lazyre.New(`^(attention_hidden_size|num_mem_blocks|use_shared_|kv_channels|use_mem|` +
	`num_query_groups|gated_linear_unit|conv_dimension|lora_rank)`)

// zamba2 has a Mamba 2 in every layer, and attention of twice the hidden size beside it in some.
func zamba2(c *config) {
	c.layers, c.heads = c.required("num_hidden_layers"), c.required("num_attention_heads")
	c.full = heading(c.kvHeads(c.heads, c.heads, "num_key_value_heads"),
		c.number(max(2*c.required(hiddenKeys...)/c.heads, 1), "attention_head_dim"))
	c.understandLike(ofZamba2)
	c.mamba2State(c.inner(), mamba2Defaults{heads: 8, groups: 1, state: 64})
	with := []int64{6, 12, 18, 24, 30, 36, 42, 47, 51}
	words, ids := c.list("layers_block_type"), c.value("hybrid_layer_ids")
	if words == nil {
		words = c.list("layer_types")
	}
	switch {
	case words != nil:
		with = nil
		for i, w := range words {
			if w.Text() == "hybrid" {
				with = append(with, int64(i))
			} else if w.Text() != "mamba" && w.Text() != "linear_attention" {
				c.unknownWord(w)
			}
		}
	case ids != nil:
		with = c.numbers(ids)
	case c.layers != 54:
		c.miss("hybrid_layer_ids")
	}
	c.each(func(int64) Keep { return c.keepState() })
	c.each(func(i int64) Keep {
		if slices.Contains(with, i) {
			return c.full
		}
		return Keep{}
	})
}

// gatedDeltaNet keeps all tokens in every so manieth layer and a Gated DeltaNet in the others.
func gatedDeltaNet(c *config) {
	c.attention()
	c.understand("use_sliding_window", "sliding_window", "max_window_layers")
	c.stateKind = GDN
	c.state = gatedDelta(c.number(16, "linear_num_key_heads"), c.number(128, "linear_key_head_dim"),
		c.number(32, "linear_num_value_heads"), c.number(128, "linear_value_head_dim"),
		c.kernel(4, "linear_conv_kernel_dim"))
	words, every := c.list("layer_types"), c.numberOrOff(0, "full_attention_interval")
	if words != nil && every == 0 {
		c.byWords(words, 0)
		return
	}
	every = cmp.Or(every, 4)
	c.fullEvery(every, c.keepState)
}

// olmoHybrid has a Gated DeltaNet in most layers, whose sizes its files say.
func olmoHybrid(c *config) {
	c.attention()
	c.understand("linear_a_log_max", "linear_a_log_min", "linear_dt_init_floor", "linear_dt_max", "linear_dt_min",
		"linear_allow_neg_eigval") // how the recurrence begins
	c.stateKind = GDN
	c.state = gatedDelta(c.required("linear_num_key_heads"), c.required("linear_key_head_dim"),
		c.required("linear_num_value_heads"), c.required("linear_value_head_dim"),
		c.kernel(4, "linear_conv_kernel_dim"))
	c.byList()
}

// kimiLinear lists its layers, counted from 1: those with latent vectors, and those with Kimi Delta Attention. Files
// that transformers has written have words for the layers instead.
func kimiLinear(c *config) {
	c.attention()
	c.full = c.mla(1)
	if words := c.list("layer_types"); words != nil && !c.v.Has("linear_attn_config") {
		c.kimiDelta()
		c.byWords(words, 0)
		return
	}
	c.stateKind, c.stateDType = KDA, float32Name
	s := c.section("linear_attn_config")
	defer c.take(s)
	full := c.numbers(s.value("full_attn_layers"))
	linear := c.numbers(s.value("kda_layers"))
	c.state = kimiDelta(s.required("num_heads"), s.required("head_dim"), s.kernel(4, "short_conv_kernel_size"))
	c.each(func(i int64) Keep {
		inFull, inLinear := slices.Contains(full, i+1), slices.Contains(linear, i+1)
		if inFull == inLinear {
			s.fail(s.v, "layer %d, counted from 1: wanted it in either full_attn_layers or kda_layers", i+1)
		}
		if inFull {
			return c.full
		}
		return c.keepState()
	})
}

// kimiDelta reads a Kimi Delta Attention as transformers writes it.
func (c *config) kimiDelta() {
	c.stateKind, c.stateDType = KDA, float32Name
	c.state = kimiDelta(c.required("linear_num_heads"), c.required("linear_head_dim"),
		c.kernel(4, "linear_conv_kernel_dim", "short_conv_kernel_size"))
}

// bailingHybrid has latent vectors in every so manieth layer and a Kimi Delta Attention in the others.
func bailingHybrid(c *config) {
	c.attention()
	c.full = c.mla(1)
	c.kimiDelta()
	c.understand("kda_lower_bound", "kda_safe_gate")
	if words := c.list("layer_types"); words != nil {
		c.understand("layer_group_size") // which repeats them
		c.byWords(words, 0)
		return
	}
	every := c.required("layer_group_size")
	if c.layers%every != 0 {
		c.fail(c.value("layer_group_size"), "wanted a number that divides the %d layers, or layer_types, got %d",
			c.layers, every)
	}
	c.fullEvery(every, c.keepState)
}

// zaya keeps, beside the keys and values of each layer, the last columns of the convolutions that make them.
func zaya(c *config) {
	c.attention()
	columns := c.kernel(2, "cca_time0") + c.kernel(2, "cca_time1") - 2
	words, window := c.needed("layer_types"), c.window(0, "sliding_window")
	if words == nil {
		return
	}
	c.each(func(i int64) Keep {
		switch words[i].Text() {
		case "hybrid":
			return c.full
		case "hybrid_sliding":
			return c.windowFor(words[i], c.full, window)
		}
		c.unknownWord(words[i])
		return Keep{}
	})
	c.stateDType = bfloat16Name
	state := convolved(c.heads, c.full.Heads, c.full.Key, columns)
	c.each(func(int64) Keep { return Keep{Kind: CCA, State: state} })
}

// minimaxText has lightning attention in most layers.
func minimaxText(c *config) {
	c.attention()
	c.understand("block_size")
	c.stateKind, c.state = Lightning, lightning(c.heads, c.full.Key)
	kinds := c.list("attn_type_list")
	if words := c.list("layer_types"); words != nil && kinds == nil {
		c.byWords(words, 0)
		return
	}
	if kinds == nil && c.kind != "minimax" {
		c.miss("attn_type_list")
		return
	}
	c.each(func(i int64) Keep {
		if kinds != nil && c.code(kinds[i], 0, 1) == 1 || kinds == nil && i%2 == 0 {
			return c.full
		}
		return c.keepState()
	})
}

// lfm2 has short convolutions in most layers.
func lfm2(c *config) {
	c.attention()
	c.understand("num_heads", "block_auto_adjust_ff_dim")
	c.shortConvolution(3)
	attention := c.value("full_attn_idxs")
	words := c.list("layer_types")
	switch {
	case attention == nil && words == nil:
		c.fail(c.v, "wanted full_attn_idxs or layer_types")
		return
	case attention == nil:
		c.byWords(words, 0)
		return
	}
	c.each(c.attentionIn(c.numbers(attention)))
}

// lfm3 has short convolutions of other lengths, and windows.
func lfm3(c *config) {
	c.attention()
	c.shortConvolution(7)
	c.byList()
}

func (c *config) shortConvolution(kernel int64) {
	c.understandLike(recurrence)
	c.stateKind, c.stateDType = ShortConv, bfloat16Name
	c.state = shortConv(c.number(c.required(hiddenKeys...), "conv_dim"), c.kernel(kernel, "conv_L_cache"))
}
