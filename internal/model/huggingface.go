package model

import (
	"slices"

	"perigee/internal/conf"
)

// isHuggingFace reports whether a document is the config.json of a model of Hugging Face's transformers.
func isHuggingFace(v *conf.Value) bool {
	return v.Kind == conf.Map && (v.Get("model_type") != nil || v.Get("architectures") != nil ||
		v.Get("text_config") != nil) && v.Get("model_name") == nil
}

// huggingFace reads a config.json. Of a model that also sees pictures, the part for text counts. What a KV cache of
// keys and values, or of latent vectors, does not describe is refused: states of other layers, layers that share a
// cache.
func huggingFace(v *conf.Value) (Arch, error) {
	if text := v.Get("text_config"); text != nil && text.Kind == conf.Map {
		v = text
	}
	r := hfReader{v: v}
	a := Arch{
		Name: r.name(), Family: "huggingface", Layers: r.number("num_hidden_layers", maxLayers, true),
		Heads: r.number("num_attention_heads", maxNumber, true), Hidden: r.number("hidden_size", maxNumber, false),
	}
	a.KVHeads, a.HeadDim = r.number("num_key_value_heads", maxNumber, false), r.number("head_dim", maxNumber, false)
	a.LatentDim, a.RopeDim = r.number("kv_lora_rank", maxNumber, false), r.number("qk_rope_head_dim", maxNumber, false)
	r.refuse("num_kv_shared_layers", "layers that share a KV cache")
	r.refuse("hybrid_override_pattern", "layers without a KV cache")
	r.refuse("layers_block_type", "layers without a KV cache")
	switch {
	case r.err != nil:
		return Arch{}, r.err
	case a.LatentDim > 0 && a.RopeDim == 0:
		return Arch{}, v.Errorf("wanted qk_rope_head_dim beside kv_lora_rank")
	case a.LatentDim > 0:
		a.KVHeads = 0
		return a, nil
	case a.KVHeads == 0:
		a.KVHeads = a.Heads // without grouped queries
	}
	if a.HeadDim == 0 {
		if a.Hidden == 0 || a.Hidden%a.Heads != 0 {
			return Arch{}, v.Errorf("wanted head_dim, or a hidden_size that num_attention_heads divides")
		}
		a.HeadDim = a.Hidden / a.Heads
	}
	r.window(&a)
	return a, r.err
}

// hfReader reads keys of a config.json; its first error stays.
type hfReader struct {
	v   *conf.Value
	err error
}

func (r *hfReader) name() string {
	for _, key := range []string{"_name_or_path", "name_or_path", "model_type"} {
		if t := r.v.Get(key); t != nil && t.Kind == conf.String && t.Text() != "" {
			return t.Text()
		}
	}
	return "model"
}

// number is a whole number; 0 where the key is missing and may be.
func (r *hfReader) number(key string, most int64, required bool) int64 {
	n := r.v.Get(key)
	switch {
	case r.err != nil:
	case n == nil && required:
		r.err = r.v.Errorf("the key %s is missing: is this the config.json of a language model?", key)
	case n == nil:
	case n.Kind != conf.Int || n.Int() < 0 || n.Int() > most || n.Int() == 0 && required:
		r.err = n.Errorf("wanted a whole number from 1 to %d, got %v", most, n.Plain())
	default:
		return n.Int()
	}
	return 0
}

func (r *hfReader) refuse(key, what string) {
	n := r.v.Get(key)
	if r.err != nil || n == nil || n.Kind == conf.Int && n.Int() == 0 {
		return
	}
	r.err = n.Errorf("%s: %s are not known to perigee", key,
		what).WithHint("describe the model in a file with the key family (docs/kvbench.md)")
}

// window finds out which layers keep all tokens: by the list layer_types, by sliding_window_pattern (every Nth layer
// does), or all alike.
func (r *hfReader) window(a *Arch) {
	window := r.number("sliding_window", maxTokensOfWindow, false)
	used := r.v.Get("use_sliding_window")
	types := r.v.Get("layer_types")
	switch {
	case r.err != nil:
	case types != nil && types.Kind == conf.List:
		r.layerTypes(types, window, a)
	case window == 0 || used != nil && used.Kind == conf.Bool && !used.Bool():
	default:
		a.Window, a.FullEvery = window, r.number("sliding_window_pattern", maxLayers, false)
	}
}

// maxTokensOfWindow bounds sliding_window.
const maxTokensOfWindow = 1 << 40

func (r *hfReader) layerTypes(types *conf.Value, window int64, a *Arch) {
	var full []int64 // layers from 1
	for i, t := range types.List() {
		switch {
		case t.Kind == conf.String && t.Text() == "full_attention":
			full = append(full, int64(i+1))
		case t.Kind == conf.String && t.Text() == "sliding_attention" && window > 0:
		default:
			r.err = t.Errorf("wanted full_attention, or sliding_attention with a sliding_window, got %v", t.Plain()).
				WithHint("states of other layers are not known to perigee")
			return
		}
	}
	if n := int64(len(types.List())); n != a.Layers {
		r.err = types.Errorf("wanted %d layers, as num_hidden_layers says, got %d", a.Layers, n)
		return
	}
	if int64(len(full)) == a.Layers {
		return
	}
	a.Window = window
	if len(full) == 0 {
		return
	}
	a.FullEvery = full[0]
	for i := range a.Layers {
		if a.Full(i) != slices.Contains(full, i+1) {
			r.err = types.Errorf("wanted full_attention in every Nth layer, got another order")
			return
		}
	}
}
