package model

import (
	"regexp"
	"slices"
	"strings"
)

// This file reads the classes whose layers keep states of fixed size.

// recurrence are the keys of a recurrence that change nothing of its size.
var recurrence = regexp.MustCompile(`^(mamba|ssm|time_step|block|conv)_|^chunk_size$|^use_mamba|^use_conv`)

// understandLike marks the keys that fit a pattern.
func (c *config) understandLike(pattern *regexp.Regexp) {
	for _, key := range c.v.Keys() {
		if pattern.MatchString(key) {
			c.understand(key)
		}
	}
}

// mamba2Defaults are those of a class.
type mamba2Defaults struct{ heads, groups, state int64 }

// mamba2State reads a Mamba 2. Its inner size is expand * hidden unless one of innerKeys says it.
func (c *config) mamba2State(d mamba2Defaults, innerKeys ...string) {
	c.stateKind = Mamba2
	inner := c.number(2, "mamba_expand", "expand") * c.hidden()
	if len(innerKeys) > 0 {
		inner = c.number(inner, innerKeys...)
	}
	heads := c.number(d.heads, "mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
	head := inner / heads
	if v := c.value("mamba_head_dim", "mamba_d_head", "mamba_headdim"); v != nil && v.Text() != "auto" {
		head = c.whole(v, 1)
	}
	if c.kind == "nemotron_h" {
		inner = heads * head
	}
	c.state = mamba2(inner, heads, head, c.number(d.groups, "n_groups", "mamba_n_groups", "mamba_ngroups"),
		c.number(d.state, "ssm_state_size", "mamba_d_state"), c.number(4, "conv_kernel", "mamba_d_conv"))
	c.understandLike(recurrence)
}

// jamba has attention in every so manieth layer and a Mamba 1 in the others.
func jamba(c *config) {
	c.attention(0, 0, 0)
	period, offset := c.number(8, "attn_layer_period"), int64(4)
	if v := c.value("attn_layer_offset"); v != nil {
		offset = c.whole(v, 0)
	}
	c.stateKind = Mamba1
	c.state = mamba1(c.number(2, "mamba_expand")*c.hidden(), c.number(16, "mamba_d_state"), c.number(4, "mamba_d_conv"))
	c.understandLike(recurrence)
	window := c.number(0, "sliding_window")
	c.each(func(i int64) Keep {
		if i%period == offset%period {
			return windowOf(c.full, window)
		}
		return c.keepState()
	})
}

func bamba(c *config) {
	c.attention(0, 0, 0)
	c.understand("attn_rotary_emb")
	attention := c.numbers(c.value("attn_layer_indices"))
	c.mamba2State(mamba2Defaults{128, 1, 256})
	c.each(func(i int64) Keep {
		if slices.Contains(attention, i) {
			return c.full
		}
		return c.keepState()
	})
}

// nemotronH has a letter or a word for each layer.
func nemotronH(c *config) {
	letters, words := c.value("hybrid_override_pattern"), c.value("layers_block_type", "layer_types")
	named := map[string]string{"mamba": "M", "attention": "*", "mlp": "-", "moe": "E", "full_attention": "*"}
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
	c.attention(0, 0, 0)
	c.stateDType = float32Name
	c.understand("sliding_window")
	if strings.Contains(text, "M") {
		c.mamba2State(mamba2Defaults{128, 8, 128})
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
	c.attention(0, 0, 0)
	c.mamba2State(mamba2Defaults{128, 1, 256}, "mamba_d_ssm")
	c.understand("attn_layer_indices")
	c.each(func(int64) Keep { return c.full })
	c.each(func(int64) Keep { return c.keepState() })
}

func graniteHybrid(c *config) {
	c.attention(0, 0, 0)
	c.understand("shared_intermediate_size", "position_embedding_type")
	c.mamba2State(mamba2Defaults{128, 1, 256})
	if words := c.list("layer_types"); words != nil {
		c.byWords(words, 0)
		return
	}
	c.each(func(int64) Keep { return c.keepState() })
}

// zamba2 has a Mamba 2 in every layer, and attention of twice the hidden size beside it in some.
func zamba2(c *config) {
	c.layers, c.heads = c.required("num_hidden_layers"), c.required("num_attention_heads")
	c.full = c.heading(c.number(c.heads, "num_key_value_heads"), c.number(2*c.hidden()/c.heads, "attention_head_dim"))
	c.understandLike(regexp.MustCompile(`^(attention_hidden_size|num_mem_blocks|use_shared_|kv_channels|use_mem)`))
	c.mamba2State(mamba2Defaults{8, 1, 64})
	with := []int64{6, 12, 18, 24, 30, 36, 42, 47, 51}
	switch words, ids := c.list("layers_block_type"), c.value("hybrid_layer_ids"); {
	case words != nil:
		with = nil
		for i, w := range words {
			if w.Text() == "hybrid" || w.Text() == "attention" {
				with = append(with, int64(i))
			} else if w.Text() != "mamba" {
				c.unknownWord(w)
			}
		}
	case ids != nil:
		with = c.numbers(ids)
	case c.layers != 54:
		c.fail(c.v, "the key hybrid_layer_ids is missing")
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
	c.attention(0, 0, 256)
	c.understand("use_sliding_window", "sliding_window", "max_window_layers")
	c.stateKind = GDN
	c.state = gatedDelta(c.number(16, "linear_num_key_heads"), c.number(128, "linear_key_head_dim"),
		c.number(32, "linear_num_value_heads"), c.number(128, "linear_value_head_dim"), c.number(4, "linear_conv_kernel_dim"))
	words, every := c.list("layer_types"), c.value("full_attention_interval")
	if words != nil && every == nil {
		c.byWords(words, 0)
		return
	}
	n := c.number(4, "full_attention_interval")
	c.each(func(i int64) Keep {
		if (i+1)%n == 0 {
			return c.full
		}
		return c.keepState()
	})
}

// kimiLinear lists its layers, counted from 1: those with latent vectors, and those with Kimi Delta Attention.
func kimiLinear(c *config) {
	c.attention(0, 0, 0)
	latent := c.mla()
	s := c.section("linear_attn_config")
	defer c.take(s)
	full := c.numbers(s.value("full_attn_layers"))
	linear := c.numbers(s.value("kda_layers"))
	c.stateKind, c.stateDType = KDA, float32Name
	c.state = kimiDelta(s.required("num_heads"), s.required("head_dim"), s.number(4, "short_conv_kernel_size"))
	c.each(func(i int64) Keep {
		inFull, inLinear := slices.Contains(full, i+1), slices.Contains(linear, i+1)
		if inFull == inLinear {
			s.fail(s.v, "layer %d, counted from 1: wanted it in either full_attn_layers or kda_layers", i+1)
		}
		if inFull {
			return latent
		}
		return c.keepState()
	})
}

// minimaxText has lightning attention in most layers.
func minimaxText(c *config) {
	c.attention(0, 0, 0)
	c.understand("block_size")
	c.stateKind, c.state = Lightning, lightning(c.heads, c.full.Key)
	kinds := c.list("attn_type_list")
	if words := c.list("layer_types"); words != nil && kinds == nil {
		c.byWords(words, 0)
		return
	}
	if kinds == nil && c.kind != "minimax" {
		c.fail(c.v, "the key attn_type_list is missing")
		return
	}
	c.each(func(i int64) Keep {
		if kinds != nil && c.whole(kinds[i], 0) == 1 || kinds == nil && i%2 == 0 {
			return c.full
		}
		return c.keepState()
	})
}

// lfm2 has short convolutions in most layers.
func lfm2(c *config) {
	c.attention(0, 0, 0)
	c.understand("num_heads", "block_auto_adjust_ff_dim")
	c.understandLike(recurrence)
	c.stateKind, c.stateDType = ShortConv, bfloat16Name
	c.state = shortConv(c.number(c.hidden(), "conv_dim"), c.number(3, "conv_L_cache"))
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
	with := c.numbers(attention)
	c.each(func(i int64) Keep {
		if slices.Contains(with, i) {
			return c.full
		}
		return c.keepState()
	})
}
