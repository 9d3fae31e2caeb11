package model

import (
	"strings"

	"perigee/internal/conf"
)

// This file reads the classes with latent vectors, index keys and compressed entries.

// mla is the latent cache that the file describes.
func (c *config) mla() Keep {
	c.understand("q_lora_rank", "qk_nope_head_dim", "v_head_dim", "qk_head_dim", "head_dim", "num_key_value_heads")
	return Keep{Kind: MLA, Latent: c.required("kv_lora_rank"), Rope: c.required("qk_rope_head_dim")}
}

// sparseMLA keeps, beside the latent vector, an index key in layers that do not share those of another layer.
func sparseMLA(c *config) {
	c.attention()
	latent := c.mla()
	latent.Packing = packingDSA
	c.each(func(int64) Keep { return latent })
	c.understand("index_topk", "index_n_heads", "layer_types")
	index := Keep{Kind: Indexer, Index: c.required("index_head_dim")}
	shared := c.sharedIndexes()
	c.each(func(i int64) Keep {
		if shared(i) {
			return Keep{}
		}
		return index
	})
}

// sharedIndexes reports of a layer whether it chooses the tokens that another one has chosen: by a list of words, by a
// text or a list of letters, or by every so manieth layer that has index keys.
func (c *config) sharedIndexes() func(i int64) bool {
	freq := c.number(1, "index_topk_freq")
	offset := c.layerNumber(2, "index_skip_topk_offset")
	types, pattern := c.list("indexer_types"), c.value("index_topk_pattern")
	switch {
	case types != nil:
	case off(pattern):
		return func(i int64) bool { return max(i-offset+1, 0)%freq != 0 }
	case pattern.Kind == conf.List:
		types = c.list("index_topk_pattern")
	default:
		if letters := pattern.Text(); int64(len(letters)) < c.layers || strings.Trim(letters, "FS") != "" {
			c.fail(pattern, "wanted F or S for each of the %d layers, got %v", c.layers, pattern.Plain())
		}
		return func(i int64) bool { return c.err == nil && pattern.Text()[i] == 'S' }
	}
	return func(i int64) bool {
		if c.err != nil {
			return false
		}
		switch types[i].Text() {
		case "shared", "S":
			return true
		case "full", "F":
			return false
		}
		c.unknownWord(types[i])
		return false
	}
}

// miniCPM3 keeps latent vectors, which vLLM expands to all heads, with values padded to the size of keys.
func miniCPM3(c *config) {
	rope := c.required("qk_rope_head_dim")
	c.expanded = heading(0, c.number(64, "qk_nope_head_dim")+rope)
	plain(c)
	c.expanded.Heads = c.heads
}

// compressedBy are the tokens that stand in one entry, by the word of transformers for the layer.
var compressedBy = map[string]int64{
	"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128,
}

// deepseekV4 keeps a window in every layer, and in most one entry for several tokens; those of ratio 4 have an indexer.
func deepseekV4(c *config) {
	c.layers, c.heads = c.required("num_hidden_layers"), c.required("num_attention_heads")
	c.understand("num_key_value_heads", "index_topk", "index_n_heads")
	size, rope := c.number(512, "head_dim"), c.required("qk_rope_head_dim")
	if rope >= size {
		c.fail(c.value("qk_rope_head_dim"), "wanted fewer than the %d values of head_dim, got %d", size, rope)
		return
	}
	vector := Keep{Kind: Compressed, Latent: size - rope, Rope: rope, Packing: packingV4}
	window := windowOf(vector, c.window(128, "sliding_window"))
	if window.Last == 0 {
		c.fail(c.value("sliding_window"), "wanted a window, which every layer has")
	}
	indexer := Keep{Kind: Indexer, Index: c.required("index_head_dim"), Every: 4}
	ratios := c.ratios()
	c.each(func(int64) Keep { return window })
	c.each(func(i int64) Keep {
		vector.Every = ratios(i)
		if vector.Every == 0 {
			return Keep{}
		}
		return vector
	})
	c.each(func(i int64) Keep {
		if ratios(i) == indexer.Every {
			return indexer
		}
		return Keep{}
	})
}

// ratios returns how many tokens stand in an entry of a layer: 4, 128, or 0 for none.
func (c *config) ratios() func(i int64) int64 {
	numbers, words := c.list("compress_ratios"), c.list("layer_types")
	rates := c.value("compress_rates") // of the words
	for _, word := range rates.Keys() {
		if n := rates.Get(word); n.Int() != compressedBy[word] {
			c.fail(n, "wanted %d tokens for %s, got %v", compressedBy[word], word, n.Plain())
		}
	}
	return func(i int64) int64 {
		switch {
		case numbers != nil:
			return c.code(numbers[i], 0, 4, 128)
		case words == nil:
			c.fail(c.v, "the key compress_ratios is missing")
			return 0
		}
		ratio, ok := compressedBy[words[i].Text()]
		if !ok {
			c.unknownWord(words[i])
		}
		return ratio
	}
}

// longcat has two attentions in each layer. transformers counts each of them in num_hidden_layers.
func longcat(c *config) {
	c.understand("attention_method")
	c.layers = c.number(0, "num_layers")
	if c.layers == 0 {
		c.layers = (c.required("num_hidden_layers", "n_layers") + 1) / 2
	}
	c.attention()
	latent := c.mla()
	c.each(func(i int64) Keep {
		c.add(i, latent)
		return latent
	})
}

// minimaxM3 keeps an index key in layers with sparse attention, and a value beside it where that is not disabled.
func minimaxM3(c *config) {
	c.attention()
	c.each(func(int64) Keep { return c.full })
	if c.value("sparse_attention_config") == nil {
		return
	}
	s := c.section("sparse_attention_config")
	defer c.take(s)
	size := s.required("sparse_index_dim")
	sparse, alone := s.list("sparse_attention_freq"), s.list("sparse_disable_index_value")
	if sparse == nil {
		s.fail(s.v, "the key sparse_attention_freq is missing")
		return
	}
	c.each(func(i int64) Keep {
		k := Keep{Kind: IndexKey, Latent: size}
		if s.code(sparse[i], 0, 1) == 0 {
			return Keep{}
		}
		if alone == nil || s.code(alone[i], 0, 1) == 0 {
			k.Latent *= 2
		}
		return k
	})
}

func minimaxM2(c *config) {
	c.attention()
	kinds := c.list("attn_type_list")
	c.each(func(i int64) Keep {
		if kinds != nil {
			c.code(kinds[i], 1)
		}
		return c.full
	})
}
