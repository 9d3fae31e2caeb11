package model

import (
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/lazyre"
)

// This file reads the classes with latent vectors, index keys and compressed entries.

// mla is the latent cache that the file describes, with a rotated part of at least so many values: 0 in classes that
// may have none.
func (c *config) mla(rope int64) Keep {
	c.understand("q_lora_rank", "qk_nope_head_dim", "v_head_dim", "qk_head_dim", "head_dim", "num_key_value_heads")
	k := Keep{Kind: MLA, Latent: c.required("kv_lora_rank")}
	if c.value("qk_rope_head_dim") == nil {
		c.miss("qk_rope_head_dim")
	}
	k.Rope = c.between(rope, MaxNumber, rope, "qk_rope_head_dim")
	return k
}

// sparseMLA keeps, beside the latent vector, an index key in layers that do not share those of another layer.
func sparseMLA(c *config) {
	c.attention()
	latent := c.mla(1)
	latent.Packing = packingDSA
	c.each(func(int64) Keep { return latent })
	c.indexed(c.list("layer_types"))
}

// indexed adds the index keys of sparseMLA. words are those of the layers, if there are some.
func (c *config) indexed(words []*conf.Value) {
	for _, word := range words {
		if word.Text() != "indexed_attention" {
			c.unknownWord(word)
		}
	}
	c.understand("index_topk", "index_n_heads")
	index := Keep{Kind: Indexer, Index: c.required("index_head_dim")}
	shared := c.sharedIndexes()
	c.each(func(i int64) Keep {
		if shared(i) {
			return Keep{}
		}
		return index
	})
}

// hyV4 shares index keys by a list; what the class means by a missing one is not known here.
func hyV4(c *config) {
	if c.value("indexer_types") == nil {
		c.miss("indexer_types")
	}
	sparseMLA(c)
}

// mistralLarge4 rotates keys in some layers only, and lets layers read the latent vectors of earlier ones.
func mistralLarge4(c *config) {
	c.attention()
	rotated, sources := c.needed("no_rope_layers"), c.list("kv_source_layers")
	latent := c.mla(1)
	latent.Packing = packingDSA
	whole := latent
	whole.Rope = 0
	c.each(func(i int64) Keep {
		switch {
		case rotated == nil:
			return Keep{}
		case sources != nil && c.whole(sources[i], 0, i) != i:
			return Keep{Kind: SharedKV}
		case c.code(rotated[i], 0, 1) == 0:
			return whole
		}
		return latent
	})
	c.indexed(c.list("layer_types"))
}

// glm5Next has layers of Kimi Delta Attention, and others with latent vectors whose index keys stand for several tokens
// each. The keys and gates of tokens that fill no entry yet lie in a ring, in 16 bit.
func glm5Next(c *config) {
	c.attention()
	c.full = c.mla(0)
	c.full.Packing = packingDSA
	c.kimiDelta()
	c.understand("index_topk", "index_n_heads", "index_kpool_always_select_tail", "linear_lower_bound")
	index := Keep{Kind: Indexer, Index: c.required("index_head_dim"), Every: c.required("index_kpool")}
	words, shared := c.needed("layer_types"), c.sharedIndexes()
	own := func(i int64, k Keep) Keep {
		if words == nil || words[i].Text() != "indexed_attention" || shared(i) {
			return Keep{}
		}
		return k
	}
	c.each(func(i int64) Keep {
		switch {
		case words == nil:
		case words[i].Text() == "indexed_attention":
			return c.full
		case words[i].Text() == "linear_attention":
			return c.keepState()
		default:
			c.unknownWord(words[i])
		}
		return Keep{}
	})
	c.each(func(i int64) Keep { return own(i, index) })
	c.each(func(i int64) Keep {
		return own(i, Keep{Kind: Ring, State: ring(index.Every * 2 * index.Index * convBytes)})
	})
}

// sharedIndexes reports of a layer whether it chooses the tokens that another one has chosen: by a list of words, by a
// text or a list of letters, or by every so manieth layer that has index keys.
func (c *config) sharedIndexes() func(i int64) bool {
	freq := c.numberOrOff(1, "index_topk_freq")
	offset := c.layerNumber(2, "index_skip_topk_offset")
	types, pattern := c.list("indexer_types"), c.value("index_topk_pattern")
	switch {
	case types != nil:
	case off(pattern):
		return func(i int64) bool { return max(i-offset+1, 0)%freq != 0 }
	case pattern.Kind == conf.List:
		types = c.list("index_topk_pattern")
	default:
		letters := pattern.Text()
		if int64(len(letters)) < c.layers || strings.Trim(letters, "FS") != "" {
			c.fail(pattern, "wanted F or S for each of the %d layers, got %v", c.layers, pattern.Plain())
		}
		return func(i int64) bool { return !c.failed() && letters[i] == 'S' }
	}
	return func(i int64) bool {
		if c.failed() {
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
			c.miss("compress_ratios")
			return 0
		}
		ratio, ok := compressedBy[words[i].Text()]
		if !ok {
			c.unknownWord(words[i])
		}
		return ratio
	}
}

// ofLongcat are keys of LongCat that change nothing of what it keeps: they scale norms, and embed n-grams.
var ofLongcat = lazyre.New(`^(mla_scale_(q|kv)_lora|ngram_\w+|emb_\w+)$`)

// longcat has two attentions in each layer. transformers counts each of them in num_hidden_layers.
func longcat(c *config) {
	c.understandLike(ofLongcat)
	if v := c.value("attention_method"); v != nil && v.Text() != "MLA" {
		c.unknownWord(v)
	}
	if c.layers = c.number(0, "num_layers"); c.layers == 0 {
		c.layers = (c.required("num_hidden_layers", "n_layers") + 1) / 2
	}
	c.attention()
	latent := c.mla(1)
	c.each(func(i int64) Keep {
		c.add(i, latent)
		return latent
	})
}

// minimaxM3 keeps an index key in layers with sparse attention, and a value beside it where that is not disabled. Files
// that transformers has written have words for the layers, and never the value.
func minimaxM3(c *config) {
	c.attention()
	c.each(func(int64) Keep { return c.full })
	if c.value("sparse_attention_config") == nil {
		c.sparseByWords(c.needed("layer_types"))
		return
	}
	s := c.section("sparse_attention_config")
	defer c.take(s)
	size := s.required("sparse_index_dim")
	sparse, alone := s.list("sparse_attention_freq"), s.list("sparse_disable_index_value")
	if sparse == nil {
		s.miss("sparse_attention_freq")
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

// sparseByWords adds the index keys of the layers of MiniMax-M3 that a list calls sparse.
func (c *config) sparseByWords(words []*conf.Value) {
	if words == nil {
		return
	}
	c.understand("index_n_heads", "index_block_size", "index_topk_blocks", "index_local_blocks")
	index := Keep{Kind: IndexKey, Latent: c.required("index_head_dim")}
	c.each(func(i int64) Keep {
		switch words[i].Text() {
		case "minimax_m3_sparse":
			return index
		case "full_attention":
			return Keep{}
		}
		c.unknownWord(words[i])
		return Keep{}
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
