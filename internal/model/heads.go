package model

import "perigee/internal/kit/conf"

// This file reads the classes that say in other ways how many KV heads, or caches, a layer has.

// falcon counts its KV heads by two flags: with the new decoder their number stands in the file, without it multi_query
// makes them one. The first files of the 40B model, RefinedWeb, lack the flag of the new decoder.
func falcon(c *config) {
	c.attention()
	latest, single := c.flag("new_decoder_architecture", c.kind == "refinedweb"), c.flag("multi_query", true)
	if !latest {
		c.full.Heads = c.heads
		if single {
			c.full.Heads = 1
		}
	}
	c.each(func(int64) Keep { return c.full })
}

func bigCode(c *config) {
	c.attention()
	c.understand("pre_allocate_kv_cache", "inference_runner")
	c.full.Heads = c.heads
	if c.flag("multi_query", true) {
		c.full.Heads = 1
	}
	c.each(func(int64) Keep { return c.full })
}

func chatGLM(c *config) {
	c.attention()
	groups := c.kvHeads(c.heads, c.heads, "multi_query_group_num")
	c.full.Heads = c.heads
	if c.flag("multi_query_attention", false) {
		c.full.Heads = groups
	}
	c.each(func(int64) Keep { return c.full })
}

// nestedAttention reads the number of KV heads from attn_config.
func nestedAttention(c *config) {
	c.attention()
	if c.value("attn_config") != nil {
		s := c.section("attn_config")
		c.full.Heads = s.kvHeads(c.heads, c.full.Heads, "kv_n_heads")
		s.understand("attn_impl", "attn_uses_sequence_id")
		if v := s.v.Get("attn_type"); v.Text() == "multihead_attention" || v.Text() == "grouped_query_attention" {
			s.understand("attn_type")
		}
		s.refuseUnread()
		c.take(s)
	}
	c.each(func(int64) Keep { return c.full })
}

// nemotronNAS has a block for each layer, which may have no attention.
func nemotronNAS(c *config) {
	c.attention()
	blocks := c.needed("block_configs")
	if blocks == nil {
		return
	}
	c.each(func(i int64) Keep {
		b := c.within(blocks[i].Get("attention"))
		defer func() { c.take(b) }()
		if b.v == nil || b.v.Kind != conf.Map {
			c.fail(blocks[i], "wanted a map with the key attention")
			return Keep{}
		}
		if b.flag("no_op", false) || b.flag("replace_with_linear", false) {
			return Keep{}
		}
		group, window := b.required("n_heads_in_group"), b.window(0, "window_length")
		if c.heads%group != 0 {
			b.fail(b.value("n_heads_in_group"), "wanted a divisor of the %d query heads, got %d", c.heads, group)
		}
		if other := b.v.Get("llama4"); !off(other) {
			b.unknownWord(other)
		}
		b.refuseUnread()
		return windowOf(heading(c.heads/group, c.full.Key), window)
	})
}

// step3 shares its KV heads among more query heads than others do.
func step3(c *config) {
	c.understand("share_q_dim")
	plain(c)
}

// whisper keeps, beside what its decoder has said, the keys and values of what its encoder has heard.
func whisper(c *config) {
	c.understand("encoder_layers", "encoder_attention_heads", "num_hidden_layers", "num_attention_heads",
		"num_key_value_heads", "is_encoder_decoder", "use_weighted_layer_sum")
	c.layers, c.heads = c.required("decoder_layers"), c.required("decoder_attention_heads")
	c.full = heading(c.heads, c.hiddenByHeads())
	cross := c.full
	cross.Kind, cross.Fixed = Cross, c.number(1500, "max_source_positions")
	c.each(func(int64) Keep { return c.full })
	c.each(func(int64) Keep { return cross })
}

// looped runs its layers several times, and keeps a cache of each time.
func looped(c *config) {
	c.attention()
	c.understand("loop_window_size")
	c.withoutWindow(c.usedWindow())
	const most = 64
	times := max(c.between(0, most, 1, "loop_num", "num_loops"), 1) // 0: no loops
	c.each(func(i int64) Keep {
		for range times - 1 {
			c.add(i, c.full)
		}
		return c.full
	})
}
