package model

import (
	"slices"
	"strings"

	"perigee/internal/conf"
)

// families reads the config.json of a class of models, by model_type. All others are read by plain. The defaults are
// those of transformers 5.24, November 2026; where engines differ, docs/models.md says so.
var families map[string]func(*config)

func init() {
	families = map[string]func(*config){}
	for types, read := range map[string]func(*config){
		"gemma2 vaultgemma":    alternating(patterned{window: 4096, every: 2, head: 256}),
		"gemma3 gemma3_text":   alternating(patterned{window: 4096, every: 6, head: 256, heads: 8, kv: 4}),
		"gemma3n gemma3n_text": gemma3n,
		"gemma4 gemma4_text":   gemma4,
		"gpt_oss":              alternating(patterned{window: 128, every: 2, head: 64, heads: 64, kv: 8}),
		"cohere2":              alternating(patterned{window: 4096, every: 4, ignoreHeadDim: true}),
		"olmo3":                alternating(patterned{window: 4096, every: 4}),
		"afmoe":                alternating(patterned{window: 1024, every: 4}),
		"exaone4 exaone_moe":   exaone4,
		"llama4 llama4_text":   llama4,
		"mistral ministral":    windowed(4096),
		"mixtral phi3 phimoe starcoder2 ministral3": windowed(0),
		"qwen2 qwen3 qwen2_vl_text qwen2_5_vl_text": qwen(func(i, most int64) bool { return i >= most }),
		"qwen2_moe":                                qwen(func(i, most int64) bool { return i%2 == 0 && i < most }),
		"qwen3_moe":                                qwen(func(int64, int64) bool { return true }),
		"mimo_v2_flash mimo_v2":                    mimoV2,
		"step3p5 step3p7":                          step3p5,
		"step3_text step3 step3_vl":                step3,
		"mllama mllama_text_model":                 mllama,
		"deepseek_v32 glm_moe_dsa":                 sparseMLA,
		"deepseek_v4 deepseek_ref":                 deepseekV4,
		"longcat_flash":                            longcat,
		"minimax_m3 minimax_m3_vl minimax_m3_text": minimaxM3,
		"minimax_m2":                               minimaxM2,
		"falcon RefinedWeb RefinedWebModel":        falcon,
		"gpt_bigcode":                              bigCode,
		"chatglm":                                  chatGLM,
		"dbrx":                                     dbrx,
		"mpt":                                      mpt,
		"nemotron-nas":                             nemotronNAS,
		"whisper":                                  whisper,
		"iquestloopcoder nanbeige":                 looped,
		"jamba":                                    jamba,
		"bamba":                                    bamba,
		"nemotron_h":                               nemotronH,
		"falcon_h1":                                falconH1,
		"granitemoehybrid":                         graniteHybrid,
		"zamba2":                                   zamba2,
		"qwen3_next qwen3_5_text qwen3_5_moe_text":         gatedDeltaNet,
		"qwen3_5 qwen3_5_moe":                              gatedDeltaNet,
		"kimi_linear kimi_k3":                              kimiLinear,
		"minimax_text_01 minimax MiniMaxText01 minimax_m1": minimaxText,
		"lfm2 lfm2_moe":                                    lfm2,
	} {
		for _, t := range strings.Fields(types) {
			families[strings.ToLower(t)] = read
		}
	}
}

// notKnown are classes whose caches perigee does not describe, and why.
var notKnown = map[string]string{}

func init() {
	const newer = "its caches (linear attention beside latent ones, pooled indexers, rings) are not known to perigee"
	for _, t := range []string{"bailing_hybrid", "bailing_moe_linear", "bailing_moe_v2_5", "olmo_hybrid", "qwen4_exp", "glm5_next",
		"deepseek_v41", "dots3", "hy_v4", "inkling"} {
		notKnown[t] = newer
	}
	for _, t := range []string{"recurrent_gemma", "xlstm", "rwkv", "rwkv5", "rwkv6", "rwkv7", "mamba", "mamba2"} {
		notKnown[t] = "neither vLLM nor SGLang hands its state from prefill to decode"
	}
	notKnown["phi4flash"] = "half of its layers read the cache of one other, in code of its own"
}

// attention reads what the attention of most models says: layers, heads and their size. kv and head are the class's
// defaults; 0: as many KV heads as query heads, hidden size / heads.
func (c *config) attention(heads, kv, head int64) {
	if c.layers == 0 {
		c.layers = c.required("num_hidden_layers", "n_layer", "n_layers", "num_layers")
	}
	c.understand("num_hidden_layers", "num_layers")
	if heads > 0 {
		c.heads = c.number(heads, "num_attention_heads", "n_head", "n_heads")
	} else {
		c.heads = c.required("num_attention_heads", "n_head", "n_heads")
	}
	if kv == 0 {
		kv = c.heads
	}
	kv = c.number(kv, "num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_groups")
	c.full = c.heading(kv, c.headSize(head))
	if v := c.value("v_head_dim"); v != nil && c.value("kv_lora_rank") == nil && v.Int() != c.full.Key {
		c.fail(v, "values of %d beside keys of %d are not known in models of type %q", v.Int(), c.full.Key, c.kind)
	}
}

// heading is full attention of so many KV heads.
func (c *config) heading(kv, head int64) Keep {
	return Keep{Kind: Full, Heads: kv, Key: head, Value: head}
}

// headSize reads the size of a head.
func (c *config) headSize(fallback int64) int64 {
	if n := c.number(fallback, "head_dim", "attention_head_dim", "kv_channels"); n > 0 {
		return n
	}
	return c.hiddenByHeads()
}

func (c *config) hiddenByHeads() int64 {
	hidden := c.hidden()
	if hidden == 0 || hidden%c.heads != 0 {
		if c.value("kv_lora_rank") == nil {
			c.fail(c.v, "wanted head_dim, or a hidden_size that num_attention_heads divides")
		}
		return 1
	}
	return hidden / c.heads
}

// each lets every layer keep something; none where keep's kind is empty.
func (c *config) each(keep func(i int64) Keep) {
	for i := range min(c.layers, MaxLayers) {
		if k := keep(i); k.Kind != "" {
			c.add(i, k)
		}
	}
	if c.layers > MaxLayers {
		c.fail(c.v, "wanted at most %d layers, got %d", MaxLayers, c.layers)
	}
}

// MaxLayers bounds the layers of a model.
const MaxLayers = 1 << 14

// windowOf is k of the last w tokens; all where w is 0.
func windowOf(k Keep, w int64) Keep {
	if w > 0 {
		k.Kind, k.Last = Window, w
	}
	return k
}

// mla is the latent cache that the file describes.
func (c *config) mla() Keep {
	c.understand("q_lora_rank", "qk_nope_head_dim", "v_head_dim", "qk_head_dim", "head_dim", "num_key_value_heads")
	return Keep{Kind: MLA, Latent: c.required("kv_lora_rank"), Rope: c.required("qk_rope_head_dim")}
}

// plain reads models whose layers are alike, or differ as the list layer_types says, or keep latent vectors. It knows no
// class, and so refuses a window without a list of the layers that have it.
func plain(c *config) {
	c.attention(0, 0, 0)
	if c.value("kv_lora_rank") != nil {
		latent := c.mla()
		c.full = latent
	}
	if words := c.list("layer_types"); words != nil {
		c.byWords(words, c.number(0, "sliding_window"))
		return
	}
	if w := c.value("sliding_window"); w != nil && !off(w) && c.flag("use_sliding_window", true) {
		c.fail(w, "sliding_window without layer_types: which layers have it is not known in models of type %q", c.kind)
	}
	c.understand("use_sliding_window", "max_window_layers")
	c.each(func(int64) Keep { return c.full })
}

// byWords reads layer_types. A linear or recurrent layer has the family's state.
func (c *config) byWords(words []*conf.Value, window int64) {
	c.each(func(i int64) Keep {
		switch word := words[i]; word.Text() {
		case "full_attention", "attention", "global_attention":
			return c.full
		case "sliding_attention", "sliding_window_attention", "local_attention":
			if window == 0 {
				c.fail(word, "%s without a sliding_window", word.Text())
			}
			return windowOf(c.full, window)
		case "chunked_attention":
			k := windowOf(c.full, c.required("attention_chunk_size"))
			k.Kind = Chunk
			return k
		case "linear_attention", "mamba", "conv":
			if c.stateKind == "" {
				c.unknownWord(word)
			}
			return c.keepState()
		case "moe", "mlp", "dense", "experts":
			return Keep{}
		default:
			c.unknownWord(word)
			return Keep{}
		}
	})
}

func (c *config) keepState() Keep { return Keep{Kind: c.stateKind, State: c.state} }

// patterned are the defaults of a class in which every so manieth layer keeps all tokens, and the others a window.
type patterned struct {
	window, every   int64
	head, heads, kv int64
	ignoreHeadDim   bool
}

func alternating(p patterned) func(*config) {
	return func(c *config) {
		c.attention(p.heads, p.kv, p.head)
		if p.ignoreHeadDim {
			c.full = c.heading(c.full.Heads, c.hiddenByHeads())
		}
		c.understand("layer_switch", "order_of_interleaved_layers", "_sliding_window_pattern", "num_dense_layers")
		window := c.gemmaWindow(c.number(p.window, "sliding_window", "sliding_window_size"))
		every := c.number(p.every, "sliding_window_pattern", "global_attn_every_n_layers")
		if words := c.list("layer_types"); words != nil {
			c.byWords(words, window)
			return
		}
		c.each(func(i int64) Keep {
			if (i+1)%every == 0 {
				return c.full
			}
			return windowOf(c.full, window)
		})
	}
}

// gemmaWindow is a window that embedding models see in both directions: half of it lies behind a token.
func (c *config) gemmaWindow(window int64) int64 {
	if v := c.value("use_bidirectional_attention"); v.Bool() || v.Text() == "all" {
		return window/2 + 1
	}
	return window
}

// shareLast makes the last n layers read the cache of an earlier one.
func (c *config) shareLast(n int64) {
	first := c.layers - n
	if n == 0 || c.err != nil {
		return
	}
	if first < 1 {
		c.fail(c.value("num_kv_shared_layers"), "wanted fewer than the %d layers, got %d", c.layers, n)
		return
	}
	whole := Model{Groups: c.groups}
	c.groups = whole.Stage(0, first).Groups
	for i := first; i < c.layers; i++ {
		c.add(i, Keep{Kind: SharedKV})
	}
}

func gemma3n(c *config) {
	alternating(patterned{window: 512, every: 5, head: 256, heads: 8, kv: 2})(c)
	shared := int64(15)
	if v := c.value("num_kv_shared_layers"); v != nil {
		shared = c.whole(v, 0)
	}
	c.shareLast(min(shared, c.layers-1))
}

// gemma4 gives layers that keep all tokens heads of another size, and of another number where keys and values come of one
// projection; both are stored.
func gemma4(c *config) {
	c.attention(0, 0, 256)
	local := c.full
	kv := c.number(local.Heads, "num_global_key_value_heads")
	if !c.flag("attention_k_eq_v", false) {
		kv = local.Heads
	}
	global := c.heading(kv, c.number(512, "global_head_dim"))
	window := c.gemmaWindow(c.number(512, "sliding_window"))
	words := c.list("layer_types")
	c.each(func(i int64) Keep {
		switch {
		case words == nil && ((i+1)%6 == 0 || i == c.layers-1), words != nil && words[i].Text() == "full_attention":
			return global
		case words != nil && words[i].Text() != "sliding_attention":
			c.unknownWord(words[i])
		}
		return windowOf(local, window)
	})
	c.shareLast(c.number(0, "num_kv_shared_layers"))
}

// exaone4 has its pattern as a number or as letters, L for a window and G for all tokens; the last layer keeps all.
func exaone4(c *config) {
	c.attention(0, 0, 0)
	window := c.number(4096, "sliding_window")
	if c.v.Get("sliding_window") != nil && c.v.Get("sliding_window").Kind == conf.Null {
		window = 0
	}
	pattern, words := c.value("sliding_window_pattern"), c.list("layer_types")
	letters := "LLLG"
	switch {
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
		letters = strings.Repeat("L", int(max(min(c.whole(pattern, 1), MaxLayers), 1))-1) + "G"
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
	c.attention(0, 0, 0)
	every := c.number(4, "no_rope_layer_interval")
	size := c.number(8192, "attention_chunk_size")
	if v := c.v.Get("attention_chunk_size"); v != nil && v.Kind == conf.Null {
		size = 0
	}
	chunk := windowOf(c.full, size)
	if size > 0 {
		chunk.Kind = Chunk
	}
	rotated := c.list("no_rope_layers")
	if words := c.list("layer_types"); words != nil && rotated == nil {
		c.byWords(words, 0)
		return
	}
	c.each(func(i int64) Keep {
		if rotated != nil && c.whole(rotated[i], 0) == 0 || rotated == nil && (i+1)%every == 0 {
			return c.full
		}
		return chunk
	})
}

// windowed is a class whose layers all have the window, if there is one; missing is what a missing key means.
func windowed(missing int64) func(*config) {
	return func(c *config) {
		c.attention(0, 0, 0)
		window := missing
		if v := c.v.Get("sliding_window"); v != nil {
			window = c.number(0, "sliding_window")
		}
		if words := c.list("layer_types"); words != nil {
			c.byWords(words, window)
			return
		}
		c.each(func(int64) Keep { return windowOf(c.full, window) })
	}
}

// qwen is a class whose layers have a window only where use_sliding_window says so; has reports which.
func qwen(has func(i, most int64) bool) func(*config) {
	return func(c *config) {
		c.attention(0, 0, 0)
		used, window := c.flag("use_sliding_window", false), c.number(4096, "sliding_window")
		most := int64(28)
		if v := c.value("max_window_layers"); v != nil {
			most = c.whole(v, 0)
		}
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

func mimoV2(c *config) {
	c.understand("v_head_dim", "sliding_window_size", "attention_chunk_size", "swa_num_attention_heads")
	c.layers, c.heads = c.required("num_hidden_layers"), c.required("num_attention_heads")
	full := Keep{Kind: Full, Heads: c.required("num_key_value_heads"), Key: c.required("head_dim")}
	full.Value = c.number(full.Key, "v_head_dim")
	local := Keep{Heads: c.number(full.Heads, "swa_num_key_value_heads"), Key: c.number(full.Key, "swa_head_dim"),
		Value: c.number(full.Value, "swa_v_head_dim"), Kind: Full}
	local = windowOf(local, c.required("sliding_window"))
	kinds := c.list("hybrid_layer_pattern")
	if kinds == nil {
		c.fail(c.v, "the key hybrid_layer_pattern is missing")
		return
	}
	c.each(func(i int64) Keep {
		if c.whole(kinds[i], 0) == 1 {
			return local
		}
		return full
	})
}

func step3p5(c *config) {
	c.attention(0, 0, 0)
	c.understand("yarn_only_types", "use_head_wise_attn_gate")
	local := c.full
	if c.value("attention_other_setting") != nil {
		s := c.section("attention_other_setting")
		s.heads = 1
		local = c.heading(s.number(local.Heads, "num_attention_groups", "num_key_value_heads"), s.number(local.Key, "head_dim"))
		c.take(s)
	}
	words, window := c.list("layer_types"), c.number(0, "sliding_window")
	if words == nil {
		c.fail(c.v, "the key layer_types is missing")
		return
	}
	c.each(func(i int64) Keep {
		switch words[i].Text() {
		case "full_attention":
			return c.full
		case "sliding_attention":
			return windowOf(local, window)
		}
		c.unknownWord(words[i])
		return Keep{}
	})
}

func step3(c *config) {
	c.understand("share_q_dim")
	plain(c)
}

// mllama has layers that read the picture alone, which a text leaves empty.
func mllama(c *config) {
	c.attention(0, 8, 0)
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

// sparseMLA keeps, beside the latent vector, an index key in layers that do not share those of another layer.
func sparseMLA(c *config) {
	c.attention(0, 0, 0)
	latent := c.mla()
	latent.Packing = "dsa"
	c.each(func(int64) Keep { return latent })
	c.understand("index_topk", "index_n_heads", "layer_types")
	index := Keep{Kind: Indexer, Index: c.required("index_head_dim")}
	types, pattern := c.list("indexer_types"), c.value("index_topk_pattern")
	freq, offset := c.number(1, "index_topk_freq"), int64(2)
	if v := c.value("index_skip_topk_offset"); v != nil {
		offset = c.whole(v, 0)
	}
	if pattern != nil && int64(len(pattern.Text())) < c.layers {
		c.fail(pattern, "wanted a letter for each of the %d layers, got %v", c.layers, pattern.Plain())
		return
	}
	c.each(func(i int64) Keep {
		switch {
		case types != nil && types[i].Text() != "full" && types[i].Text() != "shared":
			c.unknownWord(types[i])
		case types != nil && types[i].Text() == "shared",
			types == nil && pattern != nil && pattern.Text()[i] == 'S',
			types == nil && pattern == nil && max(i-offset+1, 0)%freq != 0:
			return Keep{}
		}
		return index
	})
}

// deepseekV4 keeps a window in every layer, and in most one entry for several tokens; those of ratio 4 have an indexer.
func deepseekV4(c *config) {
	c.layers, c.heads = c.required("num_hidden_layers"), c.required("num_attention_heads")
	c.understand("num_key_value_heads", "index_topk", "index_n_heads", "layer_types")
	rope := c.required("qk_rope_head_dim")
	vector := Keep{Kind: Compressed, Latent: c.number(512, "head_dim") - rope, Rope: rope, Packing: "v4"}
	window := windowOf(vector, c.number(128, "sliding_window"))
	indexer := Keep{Kind: Indexer, Index: c.required("index_head_dim")}
	ratios := c.list("compress_ratios")
	if ratios == nil {
		c.fail(c.v, "the key compress_ratios is missing")
		return
	}
	c.each(func(int64) Keep { return window })
	c.each(func(i int64) Keep {
		vector.Every = c.whole(ratios[i], 0)
		if vector.Every == 0 {
			return Keep{}
		}
		return vector
	})
	c.each(func(i int64) Keep {
		if indexer.Every = c.whole(ratios[i], 0); indexer.Every == 4 {
			return indexer
		}
		return Keep{}
	})
}

// longcat has two attentions in each layer.
func longcat(c *config) {
	c.understand("attention_method")
	c.attention(0, 0, 0)
	latent := c.mla()
	c.each(func(i int64) Keep {
		c.add(i, latent)
		return latent
	})
}

// minimaxM3 keeps an index key in layers with sparse attention, and a value beside it where that is not disabled.
func minimaxM3(c *config) {
	c.attention(0, 0, 0)
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
		if s.whole(sparse[i], 0) == 0 {
			return Keep{}
		}
		if alone == nil || s.whole(alone[i], 0) == 0 {
			k.Latent *= 2
		}
		return k
	})
}

func minimaxM2(c *config) {
	c.attention(0, 0, 0)
	kinds := c.list("attn_type_list")
	c.each(func(i int64) Keep {
		if kinds != nil && c.whole(kinds[i], 0) != 1 {
			c.unknownWord(kinds[i])
		}
		return c.full
	})
}

// falcon counts its KV heads by two flags: with the new decoder their number stands in the file, without it multi_query
// makes them one.
func falcon(c *config) {
	c.attention(0, 0, 0)
	newer, single := c.flag("new_decoder_architecture", false), c.flag("multi_query", true)
	if !newer {
		c.full.Heads = c.heads
		if single {
			c.full.Heads = 1
		}
	}
	c.each(func(int64) Keep { return c.full })
}

func bigCode(c *config) {
	c.attention(0, 0, 0)
	c.understand("pre_allocate_kv_cache", "inference_runner")
	if c.flag("multi_query", true) {
		c.full.Heads = 1
	}
	c.each(func(int64) Keep { return c.full })
}

func chatGLM(c *config) {
	c.attention(0, 0, 0)
	groups := c.number(c.heads, "multi_query_group_num")
	if c.flag("multi_query_attention", false) {
		c.full.Heads = groups
	}
	c.each(func(int64) Keep { return c.full })
}

func dbrx(c *config) { c.nestedAttention(1) }

func mpt(c *config) { c.nestedAttention(0) }

// nestedAttention reads the number of KV heads from attn_config; 0: as many as query heads.
func (c *config) nestedAttention(kv int64) {
	c.attention(0, kv, 0)
	if c.value("attn_config") != nil {
		s := c.section("attn_config")
		c.full.Heads = s.number(c.full.Heads, "kv_n_heads")
		c.take(s)
	}
	c.each(func(int64) Keep { return c.full })
}

// nemotronNAS has a block for each layer, which may have no attention.
func nemotronNAS(c *config) {
	c.attention(0, 0, 0)
	blocks := c.list("block_configs")
	if blocks == nil {
		c.fail(c.v, "the key block_configs is missing")
		return
	}
	c.each(func(i int64) Keep {
		b := &config{v: blocks[i].Get("attention"), read: map[string]bool{}, kind: c.kind}
		defer func() { c.take(b) }()
		if b.v == nil || b.v.Kind != conf.Map {
			c.fail(blocks[i], "wanted a map with the key attention")
			return Keep{}
		}
		if b.flag("no_op", false) || b.flag("replace_with_linear", false) {
			return Keep{}
		}
		group := b.required("n_heads_in_group")
		if c.heads%group != 0 {
			b.fail(b.v, "n_heads_in_group: wanted a divisor of the %d query heads, got %d", c.heads, group)
		}
		return windowOf(c.heading(c.heads/group, c.full.Key), b.number(0, "window_length"))
	})
}

// whisper keeps, beside its own, the keys and values of what its encoder has heard.
func whisper(c *config) {
	c.understand("encoder_layers", "encoder_attention_heads", "encoder_layerdrop", "decoder_layerdrop", "num_hidden_layers",
		"encoder_ffn_dim", "decoder_ffn_dim", "is_encoder_decoder", "apply_spec_augment")
	c.layers, c.heads = c.required("decoder_layers"), c.required("decoder_attention_heads")
	c.full = c.heading(c.heads, c.hiddenByHeads())
	cross := c.full
	cross.Kind, cross.Fixed = Cross, c.number(1500, "max_source_positions")
	c.each(func(int64) Keep { return c.full })
	c.each(func(int64) Keep { return cross })
}

// looped runs its layers several times, each time with a cache of its own.
func looped(c *config) {
	c.attention(0, 0, 0)
	times := c.number(1, "loop_num", "num_loops")
	c.understand("sliding_window", "use_sliding_window", "max_window_layers", "loop_window_size")
	c.each(func(i int64) Keep {
		for range min(times, 64) - 1 {
			c.add(i, c.full)
		}
		return c.full
	})
}
