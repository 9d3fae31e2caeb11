package model

import (
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/conf"
)

// This file reads the classes in which layers keep different tokens.

// alternating reads a class in which one layer of every so many keeps all tokens and the others a window. every and
// window are the class's defaults, for files that do not say.
func alternating(window, every int64) func(*config) {
	return func(c *config) {
		c.attention()
		c.alternate(window, every)
	}
}

func (c *config) alternate(window, every int64) {
	window = c.gemmaWindow(c.window(window, "sliding_window", "sliding_window_size"))
	every = c.numberOrOff(every, "sliding_window_pattern", "global_attn_every_n_layers", "_sliding_window_pattern")
	if words := c.list("layer_types"); words != nil {
		c.byWords(words, window)
		return
	}
	c.fullEvery(every, func() Keep { return windowOf(c.full, window) })
}

// fullEvery gives full attention to the last of each so many layers, and something else to the others.
func (c *config) fullEvery(every int64, others func() Keep) {
	c.each(func(i int64) Keep {
		if (i+1)%every == 0 {
			return c.full
		}
		return others()
	})
}

// gemmaWindow is a window that embedding models see in both directions: half of it lies behind a token.
func (c *config) gemmaWindow(window int64) int64 {
	if v := c.value("use_bidirectional_attention"); window > 0 && (v.Bool() || v.Text() == "all") {
		return window/2 + 1
	}
	return window
}

// cohere2 takes the size of a head from the hidden size, whatever head_dim says.
func cohere2(c *config) {
	c.attention()
	c.full = heading(c.full.Heads, c.hiddenByHeads())
	c.understand("layer_switch", "order_of_interleaved_layers")
	c.alternate(4096, 4)
}

// listed reads a class in which only a list says which layers have a window: what a missing one means is not known.
func listed(c *config) {
	c.attention()
	c.byList()
}

func (c *config) byList() {
	if words := c.needed("layer_types"); words != nil {
		c.byWords(words, c.window(0, "sliding_window"))
	}
}

// cohere2MoE repeats its list of layers as a pattern.
func cohere2MoE(c *config) {
	c.understand("sliding_window_pattern", "prefix_dense_sliding_window_pattern")
	listed(c)
}

// laguna has layers with more query heads than others, and as many KV heads.
func laguna(c *config) {
	listed(c)
	for _, v := range c.list("num_attention_heads_per_layer") {
		if n := c.whole(v, 1, MaxNumber); n%c.full.Heads != 0 {
			c.fail(v, "wanted query heads that %d KV heads divide, got %d", c.full.Heads, n)
		}
	}
}

// shareLast makes the last n layers read the cache of the last one before them that keeps the same.
func (c *config) shareLast(n int64) {
	if n == 0 || c.err != nil {
		return
	}
	first, at := c.layers-n, c.value("num_kv_shared_layers")
	if at == nil {
		at = c.v
	}
	for _, g := range c.groups {
		if g.Layers[0] >= first {
			c.fail(at, "the last %d layers read caches of earlier ones, and no earlier one keeps what layer %d reads", n,
				g.Layers[0])
			return
		}
	}
	whole := Model{Groups: c.groups}
	c.groups = whole.Stage(0, first).Groups
	for i := first; i < c.layers; i++ {
		c.add(i, Keep{Kind: SharedKV})
	}
}

func gemma3n(c *config) {
	alternating(512, 5)(c)
	c.shareLast(c.layerNumber(15, "num_kv_shared_layers"))
}

// gemma4 gives layers that keep all tokens heads of another size, and of another number where keys and values come of
// one projection; both are stored. The last layer keeps all tokens, also where a list says otherwise. Files that
// transformers 5.24 has written say layer by layer what differs.
func gemma4(c *config) {
	c.attention()
	local, size := c.full, int64(512)
	own := c.perLayer()
	if own != nil {
		size = local.Key
	}
	kv := c.kvHeads(c.heads, local.Heads, "num_global_key_value_heads")
	if !c.flag("attention_k_eq_v", false) {
		kv = local.Heads
	}
	global := heading(kv, c.number(size, "global_head_dim"))
	window := c.gemmaWindow(c.window(512, "sliding_window"))
	words := c.list("layer_types")
	c.each(func(i int64) Keep {
		full := (i+1)%6 == 0
		if words != nil {
			full = words[i].Text() == "full_attention"
			if !full && words[i].Text() != "sliding_attention" {
				c.unknownWord(words[i])
			}
		}
		if full || i == c.layers-1 {
			return c.with(own[i], global)
		}
		return windowOf(c.with(own[i], local), window)
	})
	c.shareLast(c.layerNumber(0, "num_kv_shared_layers"))
}

// perLayer reads per_layer_config: the maps of what single layers have instead, by their numbers; nil: there is none.
func (c *config) perLayer() map[int64]*conf.Value {
	v := c.value("per_layer_config")
	if off(v) {
		return nil
	}
	if v.Kind != conf.Map {
		c.fail(v, "wanted a map with the numbers of layers, got %s", described(v))
	}
	own := map[int64]*conf.Value{}
	for _, key := range v.Keys() {
		i, err := strconv.ParseInt(key, 10, 64) // with zeros in front: "05"
		layer := v.Get(key)
		if err != nil || i < 0 || i >= c.layers || layer.Kind != conf.Map || own[i] != nil {
			c.fail(layer, "wanted a map for one of the layers 0 to %d, got %q: %s", c.layers-1, key, described(layer))
		}
		own[i] = layer
	}
	return own
}

// with is k with the heads that a layer has instead; nil: none.
func (c *config) with(own *conf.Value, k Keep) Keep {
	if own == nil {
		return k
	}
	s := c.within(own)
	k = heading(s.kvHeads(s.number(c.heads, queryKeys[0]), k.Heads, kvKeys[0]), s.number(k.Key, "head_dim"))
	s.refuseUnread()
	c.take(s)
	return k
}

// exaone4 has its pattern as a number or as letters, L for a window and G for all tokens; the last layer keeps all.
func exaone4(c *config) {
	c.attention()
	window := c.window(4096, "sliding_window")
	pattern, words, letters := c.value("sliding_window_pattern"), c.list("layer_types"), "LLLG"
	switch {
	case window == 0:
		letters = "G"
	case pattern == nil && words != nil:
		c.byWords(words, window)
		return
	case pattern == nil:
	case pattern.Kind == conf.String:
		letters = strings.ToUpper(pattern.Text())
		if letters == "" || strings.Trim(letters, "LG") != "" {
			c.fail(pattern, "wanted a number, or letters L and G, got %q", pattern.Text())
			return
		}
	default:
		letters = strings.Repeat("L", int(c.whole(pattern, 1, MaxLayers))-1) + "G"
	}
	c.each(func(i int64) Keep {
		if letters[int(i)%len(letters)] == 'G' || i == c.layers-1 {
			return c.full
		}
		return windowOf(c.full, window)
	})
}

// llama4 attends within chunks in layers with a rotated position.
func llama4(c *config) {
	c.attention()
	every := c.numberOrOff(4, "no_rope_layer_interval")
	chunk := windowOf(c.full, c.window(8192, "attention_chunk_size"))
	if chunk.Last > 0 {
		chunk.Kind = Chunk
	}
	rotated, words := c.list("no_rope_layers"), c.list("layer_types")
	c.each(func(i int64) Keep {
		full := (i+1)%every == 0
		if rotated != nil {
			full = c.code(rotated[i], 0, 1) == 0
		} else if words != nil {
			full = words[i].Text() == "full_attention"
			if !full && words[i].Text() != "chunked_attention" {
				c.unknownWord(words[i])
			}
		}
		if full {
			return c.full
		}
		return chunk
	})
}

// windowed is a class whose layers all have the window, if there is one; missing stands for a missing key.
func windowed(missing int64) func(*config) {
	return func(c *config) {
		c.attention()
		window := c.window(missing, "sliding_window")
		if words := c.list("layer_types"); words != nil {
			c.byWords(words, window)
			return
		}
		c.each(func(int64) Keep { return windowOf(c.full, window) })
	}
}

// qwen is a class whose layers have a window only where use_sliding_window says so; has reports which, by
// max_window_layers, for which most stands where the key is missing.
func qwen(most int64, has func(i, most int64) bool) func(*config) {
	return func(c *config) {
		c.attention()
		used, window := c.flag("use_sliding_window", false), c.window(4096, "sliding_window")
		most := c.layerNumber(most, "max_window_layers")
		words := c.list("layer_types")
		if words != nil && used {
			c.byWords(words, window)
			return
		}
		c.each(func(i int64) Keep {
			if used && has(i, most) {
				return windowOf(c.full, window)
			}
			return c.full
		})
	}
}

func from(i, most int64) bool { return i >= most }

func evenBelow(i, most int64) bool { return i%2 == 0 && i < most }

func all(_, _ int64) bool { return true }

// mimoV2 has keys that are larger than values, and layers with a window that have heads of another number and size.
// Files that transformers has written have words for the layers instead of numbers. In them the window counts the token
// that sees it, which keeps a token less, and the class gives its layers twice the KV heads.
func mimoV2(c *config) {
	c.understand("v_head_dim", "sliding_window_size", "attention_chunk_size")
	c.layers, c.heads = c.required("num_hidden_layers"), c.required("num_attention_heads")
	kinds := c.list("hybrid_layer_pattern")
	written := kinds == nil && c.v.Has("layer_types")
	class := defaults[c.kind]
	full := heading(c.kvHeads(c.heads, class.kv, "num_key_value_heads"), c.number(class.head, "head_dim"))
	full.Value = c.number(full.Key, "v_head_dim")
	kv, self := full.Heads, int64(0)
	if written {
		kv, self = 2*full.Heads, 1
	}
	local := heading(c.kvHeads(c.number(c.heads, "swa_num_attention_heads"), kv, "swa_num_key_value_heads"),
		c.number(full.Key, "swa_head_dim"))
	local.Value = c.number(full.Value, "swa_v_head_dim")
	window := c.required("sliding_window")
	if window <= self {
		c.fail(c.value("sliding_window"), "wanted more than the token that sees the window, got %d", window)
	}
	local = windowOf(local, window-self)
	if written {
		c.byTwoWords(c.needed("layer_types"), full, local)
		return
	}
	if kinds == nil {
		c.miss("hybrid_layer_pattern")
		return
	}
	c.each(func(i int64) Keep {
		if c.code(kinds[i], 0, 1) == 1 {
			return local
		}
		return full
	})
}

// byTwoWords reads a list of layers with and without a window, which have other heads.
func (c *config) byTwoWords(words []*conf.Value, full, local Keep) {
	if words == nil {
		return
	}
	c.each(func(i int64) Keep {
		switch words[i].Text() {
		case "full_attention":
			return full
		case "sliding_attention":
			return c.windowFor(words[i], local, local.Last)
		}
		c.unknownWord(words[i])
		return Keep{}
	})
}

// step3p5 gives layers with a window other heads.
func step3p5(c *config) {
	c.attention()
	c.understand("yarn_only_types", "use_head_wise_attn_gate", "num_sliding_attention_heads")
	local := c.full
	if c.value("attention_other_setting") != nil {
		s := c.section("attention_other_setting")
		kv := s.kvHeads(s.number(c.heads, queryKeys[0]), local.Heads, "num_attention_groups", "num_key_value_heads")
		local = heading(kv, s.number(local.Key, "head_dim"))
		c.take(s)
	}
	c.byTwoWords(c.needed("layer_types"), c.full, windowOf(local, c.window(0, "sliding_window")))
}

// mllama has layers that read the picture alone, which a text leaves empty.
func mllama(c *config) {
	c.attention()
	cross := []int64{3, 8, 13, 18, 23, 28, 33, 38}
	if v := c.value("cross_attention_layers"); v != nil {
		cross = c.numbers(v)
	}
	c.each(func(i int64) Keep {
		if slices.Contains(cross, i) {
			return Keep{}
		}
		return c.full
	})
}
