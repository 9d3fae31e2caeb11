package model

import (
	"cmp"
	"strings"

	"perigee/internal/kit/conf"
)

// families reads the config.json of a class of models, by model_type. All others are read by plain. The rules and
// defaults are those of transformers 5.24, November 2026; where engines differ, docs/models.md says so.
var families map[string]func(*config)

// Each key lists the values of model_type, separated by blanks, that one reader understands.
func init() {
	families = byType(map[string]func(*config){
		"gemma2 vaultgemma":    alternating(4096, 2),
		"gemma3 gemma3_text":   alternating(4096, 6),
		"gemma3n gemma3n_text": gemma3n,
		"gemma4 gemma4_text":   gemma4,
		"gpt_oss":              alternating(128, 2),
		"cohere2":              cohere2,
		"cohere2_moe":          cohere2MoE,
		"laguna laguna_text":   laguna,
		"beam granite_swa granitemoe_swa mellum muse_glimmer muse_glimmer_text": listed,
		"olmo3":              alternating(4096, 4),
		"afmoe":              alternating(1024, 4),
		"exaone4 exaone_moe": exaone4,
		"llama4 llama4_text": llama4,
		"mistral ministral":  windowed(4096),
		"mixtral phi3 phimoe starcoder2 ministral3": windowed(0),
		"qwen2 qwen3":                       qwen(28, from),
		"qwen2_vl qwen2_vl_text qwen2_5_vl": qwen(80, from),
		"qwen2_5_vl_text":                   qwen(80, from),
		"qwen2_moe":                         qwen(28, evenBelow),
		"qwen3_moe":                         qwen(28, all),
		"mimo_v2_flash mimo_v2":             mimoV2,
		"step3p5 step3p7":                   step3p5,
		"step3_text step3 step3_vl":         step3,
		"mllama mllama_text_model":          mllama,
		"deepseek_v2 deepseek_v3 kimi_k2 glm4_moe_lite": plain,
		"deepseek_vl_v2 deepseek_ocr kimi_vl kimi_k25":  plain,
		"deepseek_v32 glm_moe_dsa axk2 axk2_text":       sparseMLA,
		"hy_v4 hy_v4_text":                              hyV4,
		"glm5_next glm5_next_text":                      glm5Next,
		"bailing_hybrid bailing_hybrid_text":            bailingHybrid,
		"mistral_large4 mistral_large4_text":            mistralLarge4,
		"deepseek_v4 deepseek_ref":                      deepseekV4,
		"longcat_flash longcat_flash_ngram":             longcat,
		"minicpm3":                                      miniCPM3,
		"minimax_m3 minimax_m3_text":                    minimaxM3,
		"minimax_m3_vl minimax_m3_vl_text":              minimaxM3,
		"minimax_m2":                                    minimaxM2,
		"falcon refinedweb refinedwebmodel":             falcon,
		"gpt_bigcode":                                   bigCode,
		"chatglm":                                       chatGLM,
		"dbrx":                                          nestedAttention,
		"mpt":                                           nestedAttention,
		"nemotron-nas":                                  nemotronNAS,
		"whisper":                                       whisper,
		"iquestloopcoder nanbeige":                      looped,
		"jamba":                                         jamba,
		"bamba":                                         bamba,
		"nemotron_h":                                    nemotronH,
		"falcon_h1":                                     falconH1,
		"granitemoehybrid":                              graniteHybrid,
		"zamba2":                                        zamba2,
		"qwen3_next qwen3_5_text qwen3_5_moe_text":      gatedDeltaNet,
		"qwen3_5 qwen3_5_moe":                           gatedDeltaNet,
		"olmo_hybrid":                                   olmoHybrid,
		"zaya zaya_text":                                zaya,
		"kimi_linear kimi_k3":                           kimiLinear,
		"minimax_text_01 minimax minimaxtext01 minimax_m1": minimaxText,
		"lfm2 lfm2_moe":  lfm2,
		"lfm3 lfm3_text": lfm3,
	})
}

// byType gives each of the types that a key lists an entry.
func byType[T any](listed map[string]T) map[string]T {
	entries := map[string]T{}
	for types, entry := range listed {
		for _, t := range strings.Fields(types) {
			entries[t] = entry
		}
	}
	return entries
}

// classDefaults stand for keys that a file of a class lacks: query heads, where published files lack them, KV
// heads, and values of a head. 0: as many KV heads as query heads; hidden size / heads. mustSay: the class has its own
// number, which perigee does not know.
type classDefaults struct{ heads, kv, head int64 }

const mustSay = -1

var defaults = byType(map[string]classDefaults{
	"gemma2 vaultgemma gemma3 gemma3_text gemma4 gemma4_text": {8, 4, 256},
	"gemma3n gemma3n_text": {8, 2, 256},
	"gpt_oss":              {64, 8, 64},
	"gemma":                {0, 16, 256},
	"afmoe":                {0, 0, 128},
	"helium":               {0, 20, 128},
	"qwen3 qwen3_vl_text":  {0, 32, 128},
	"qwen2 exaone4 exaone_moe stablelm chameleon":    {0, 32, 0},
	"qwen2_moe qwen3_vl_moe_text":                    {0, 16, 0},
	"mistral ministral mixtral phimoe mllama":        {0, 8, 0},
	"jamba bamba falcon_h1 lfm2 lfm2_moe minimax":    {0, 8, 0},
	"mllama_text_model exaone phi4_multimodal":       {0, 8, 0},
	"qwen2_vl qwen2_vl_text qwen2_5_vl":              {0, 8, 0},
	"qwen2_5_vl_text emu3_text_model glm4_moe":       {0, 8, 0},
	"llama4 llama4_text ministral3 nemotron_h cwm":   {0, 8, 128},
	"minimax_m2 step3p5 step3p7 seed_oss solar_open": {0, 8, 128},
	"hy_v3 iquestcoder higgs_audio_v2 molmo2_text":   {0, 8, 128},
	"bitnet":                                        {0, 5, 0},
	"mimo_v2_flash mimo_v2":                         {0, 4, 192},
	"qwen3_5 qwen3_5_text":                          {0, 4, 256},
	"minimax_m3 minimax_m3_text mellum":             {0, 4, 128},
	"minimax_m3_vl minimax_m3_vl_text":              {0, 4, 128},
	"sarvam_moe":                                    {0, 4, 64},
	"qwen3_moe qwen2_5_omni_text smollm3":           {0, 4, 0},
	"qwen3_omni_moe_text ernie4_5_moe":              {0, 4, 0},
	"qwen3_next qwen3_5_moe qwen3_5_moe_text":       {0, 2, 256},
	"glm glm4 internlm3 ernie4_5 paddleocr_vl_text": {0, 2, 128},
	"starcoder2 glm4v_text":                         {0, 2, 0},
	"step3_text step3 step3_vl":                     {0, 1, 256},
	"dbrx":                                          {0, 1, 0},
	"beam":                                          {0, 8, 128},
	"granite_swa lfm3 lfm3_text":                    {0, 4, 0},
	"muse_glimmer muse_glimmer_text":                {0, 2, 128},
	"zaya zaya_text":                                {0, 2, 128},
	"laguna laguna_text cohere2_moe":                {0, mustSay, mustSay},
	"granitemoe_swa olmo_hybrid":                    {0, mustSay, 0},
})

// newer are families, by what their names begin with, whose caches perigee does not describe.
var newer = strings.Fields("bailing_moe_linear bailing_moe_v2_5 qwen4_exp deepseek_v41 dots3 inkling")

// notServed are families whose states no engine hands over.
var notServed = strings.Fields("recurrent_gemma xlstm rwkv rwkv5 rwkv6 rwkv7 mamba mamba2 falcon_mamba")

// notKnown is the reason for which perigee does not describe a family; empty: it may.
func notKnown(family string) string {
	for _, name := range newer {
		if strings.HasPrefix(family, name) {
			return "its caches (linear attention beside latent ones, pooled indexers, rings) are not known to perigee"
		}
	}
	for _, name := range notServed {
		if family == name {
			return "neither vLLM nor SGLang hands its state from prefill to decode"
		}
	}
	if family == "phi4flash" {
		return "half of its layers read the cache of one other, in code that is not part of the engines"
	}
	return ""
}

// The keys of layers, query heads, and KV heads.
var (
	layerKeys = []string{"num_hidden_layers", "n_layer", "n_layers", "num_layers"}
	queryKeys = []string{"num_attention_heads", "n_head", "n_heads"}
	kvKeys    = []string{"num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_groups"}
)

// attention reads what the attention of most models says: layers, heads and their size.
func (c *config) attention() {
	class := defaults[c.kind]
	if c.layers == 0 {
		c.layers = c.required(layerKeys...)
	}
	c.understand("num_hidden_layers", "num_layers")
	c.heads = class.heads
	if c.heads == 0 || c.value(queryKeys...) != nil {
		c.heads = c.required(queryKeys...)
	}
	c.full = heading(c.kvHeads(c.heads, cmp.Or(class.kv, c.heads), kvKeys...), c.headSize(class.head))
	v := c.value("v_head_dim")
	if v == nil || c.latent() {
		return
	}
	if size := c.whole(v, 0, MaxNumber); size > 0 && size != c.full.Key {
		c.fail(v, "values of %d beside keys of %d are not known in %s", size, c.full.Key, c.ofType())
	}
}

// kvHeads reads the KV heads that so many query heads share. A number that does not divide them is no model's.
func (c *config) kvHeads(heads, fallback int64, keys ...string) int64 {
	at := c.value(keys...)
	if fallback == mustSay && at == nil {
		c.miss(keys[0])
	}
	switch kv := c.number(max(fallback, 1), keys...); {
	case heads%kv == 0:
		return kv
	case at != nil:
		c.fail(at, "wanted a number that divides the %d query heads, got %d", heads, kv)
	default:
		c.fail(c.v, "the key %s is missing, and the %d KV heads that %s have then do not divide the %d query heads",
			keys[0], kv, c.ofType(), heads)
	}
	return 1
}

// heading is full attention of so many KV heads.
func heading(kv, head int64) Keep { return Keep{Kind: Full, Heads: kv, Key: head, Value: head} }

// headSize reads the size of a head. Beside latent vectors it is not that of the cache, and may be 0.
func (c *config) headSize(fallback int64) int64 {
	keys := []string{"head_dim", "attention_head_dim", "kv_channels"}
	switch at := c.value(keys...); {
	case c.latent():
		return max(c.between(0, MaxNumber, 1, keys...), 1)
	case at == nil && fallback == mustSay:
		c.miss(keys[0])
		return 1
	case at == nil && fallback == 0:
		return c.hiddenByHeads()
	}
	return c.number(fallback, keys...)
}

func (c *config) hiddenByHeads() int64 {
	hidden := c.required(hiddenKeys...)
	if hidden%c.heads != 0 {
		c.fail(c.v, "wanted head_dim, or a hidden_size that num_attention_heads divides")
	}
	return max(hidden/c.heads, 1)
}

// latent reports whether the file describes latent vectors. It leaves the key unread: a class that does not keep them
// refuses it.
func (c *config) latent() bool {
	v := c.v.Get("kv_lora_rank")
	return v != nil && v.Kind != conf.Null && c.whole(v, 0, MaxNumber) > 0
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

// plain reads models whose layers are alike, or differ as the list layer_types says, or keep latent vectors. It knows
// no class, and so refuses a window without a list of the layers that have it.
func plain(c *config) {
	c.attention()
	if c.latent() {
		if c.kind == "" {
			c.fail(c.v.Get("kv_lora_rank"), "how many latent vectors a layer keeps depends on the class, and the file has no "+
				"model_type, nor an architecture in architectures that perigee knows")
		}
		c.full = c.mla(1)
	} else if c.v.Has("kv_lora_rank") {
		c.understand("q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim")
	}
	if v := c.v.Get("use_cla"); v != nil && off(v) {
		c.understand("cla_share_factor")
	}
	window := c.usedWindow()
	if words := c.list("layer_types"); words != nil {
		c.byWords(words, window)
		return
	}
	c.withoutWindow(window)
	c.understand("use_bidirectional_attention")
	c.each(func(int64) Keep { return c.full })
}

// usedWindow reads a window that the file may switch off.
func (c *config) usedWindow() int64 {
	window := c.window(0, "sliding_window")
	c.understand("max_window_layers")
	if !c.flag("use_sliding_window", true) {
		return 0
	}
	return window
}

// withoutWindow refuses a window of which nothing says what layers have it.
func (c *config) withoutWindow(window int64) {
	if window > 0 {
		c.fail(c.v.Get("sliding_window"),
			"sliding_window without layer_types: which layers have it is not known in %s", c.ofType())
	}
}

// byWords reads layer_types. A linear or recurrent layer has the family's state.
func (c *config) byWords(words []*conf.Value, window int64) {
	c.each(func(i int64) Keep {
		switch word := words[i]; word.Text() {
		case "full_attention", "attention":
			return c.full
		case "sliding_attention":
			return c.windowFor(word, c.full, window)
		case "chunked_attention":
			k := c.windowFor(word, c.full, c.window(0, "attention_chunk_size"))
			k.Kind = Chunk
			return k
		case "linear_attention", "mamba":
			if c.stateKind == "" || c.stateKind == ShortConv {
				c.unknownWord(word)
			}
			return c.keepState()
		case "conv":
			if c.stateKind != ShortConv {
				c.unknownWord(word)
			}
			return c.keepState()
		default:
			c.unknownWord(word)
			return Keep{}
		}
	})
}

// windowFor is windowOf for a layer that a word says to have a window.
func (c *config) windowFor(word *conf.Value, k Keep, window int64) Keep {
	if window == 0 {
		c.fail(word, "%s, and the file says no size of it", word.Text())
	}
	return windowOf(k, window)
}

func (c *config) keepState() Keep { return Keep{Kind: c.stateKind, State: c.state} }
