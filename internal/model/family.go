package model

import (
	"slices"
	"strings"

	"perigee/internal/conf"
)

// family is a kind of models whose files have the same keys.
type family struct {
	name  string
	parts []string // of the names of its models, in small letters; the longest part of all families that fits counts
	keys  []conf.Field
	arch  func(number func(key string) int64) Arch // from the checked keys; 0 for one that is missing
	ratio string                                   // the key that relates KV heads to query heads; "" for none
}

// families are all of them. A new one is a file beside this one and its line
// here.
var families = []family{llama, mla, gqa, gptOSS, gemma}

// The limits of a model's numbers, far beyond any model. Within them no
// product of them, times a few bytes, overflows 63 bits.
const (
	maxLayers = 1 << 14
	maxNumber = 1 << 20
)

var one = 1.0

// number makes a required key that holds a whole number.
func number(name, help string) conf.Field {
	most := float64(maxNumber)
	return conf.Field{Name: name, Type: "int", Required: true, Min: &one, Max: &most, Help: help}
}

// optional makes a key that may be missing.
func optional(f conf.Field) conf.Field {
	f.Required = false
	return f
}

// withDefault makes a key that may be missing and then has a value.
func withDefault(f conf.Field, value int64) conf.Field {
	f.Required, f.Default = false, value
	return f
}

// everyFamily are the keys of all families.
func everyFamily() conf.Schema {
	layers := number("num_layers", "layers with a KV cache")
	most := float64(maxLayers)
	layers.Max = &most
	return conf.Schema{
		{Name: "model_name", Type: "string", Required: true, Aliases: []string{"model"}},
		layers,
		{Name: "num_model_params", Type: "float", Required: true, Min: &one,
			Help: "parameters, for the reader: enters no figure"},
		{Name: "family", Type: "enum", Enum: familyNames()},
		optional(number("num_experts", "routed experts of a layer that has some")),
		optional(number("experts_per_token", "routed experts that each token is sent to")),
		optional(number("num_shared_experts", "experts of a layer that every token uses, at its own rank")),
	}
}

func familyNames() []string {
	var names []string
	for _, f := range families {
		names = append(names, f.name)
	}
	return names
}

// find returns the family of a model by the longest of all parts that its name
// contains.
func find(model string) (best family, ok bool) {
	model = strings.ReplaceAll(strings.ToLower(model), "-", "_")
	longest := 0
	for _, f := range families {
		for _, part := range f.parts {
			if len(part) > longest && strings.Contains(model, part) {
				best, longest = f, len(part)
			}
		}
	}
	return best, longest > 0
}

// Parse reads a model file. Keys without a value count as missing. All errors
// are of kind Input and say file, line and key.
//
// The key model_name, or else family, decides the family, and that the other
// keys. The config.json of a model of Hugging Face is one, too. Whether the KV heads divide the query heads is for
// [Arch.CheckHeads] to say.
func Parse(v *conf.Value) (Arch, error) {
	v = v.WithoutNulls()
	if isHuggingFace(v) {
		return huggingFace(v)
	}
	f, err := familyOf(v)
	if err != nil {
		return Arch{}, err
	}
	checked, err := append(everyFamily(), f.keys...).Check(v)
	if err != nil {
		return Arch{}, err
	}
	a := f.arch(func(key string) int64 { return checked.Get(key).Int() })
	a.Name, a.Family = checked.Get("model_name").Text(), f.name
	a.Layers, a.Params = checked.Get("num_layers").Int(), checked.Get("num_model_params").Float()
	if err := a.readExperts(checked); err != nil {
		return Arch{}, err
	}
	if f.ratio != "" {
		a.ratio = checked.Get(f.ratio)
	}
	return a, nil
}

func familyOf(v *conf.Value) (family, error) {
	name := v.Get("model_name")
	if name == nil {
		name = v.Get("model")
	}
	if name == nil || name.Kind != conf.String {
		return family{}, v.Errorf("wanted a map with the text model_name")
	}
	if own := v.Get("family"); own != nil && own.Kind == conf.String {
		if i := slices.Index(familyNames(), own.Text()); i >= 0 {
			return families[i], nil
		}
		return family{}, own.Errorf("wanted one of %s, got %q", strings.Join(familyNames(), ", "), own.Text())
	}
	f, ok := find(name.Text())
	if !ok {
		return family{}, name.Errorf("model %q is of no known family", name.Text()).
			WithHint("add the key family: gqa for grouped-query attention with num_query_heads, num_kv_heads and query_head_dimension; mla for multi-head latent attention")
	}
	return f, nil
}

// readExperts reads what every family may have.
func (a *Arch) readExperts(v *conf.Value) error {
	for _, key := range []struct {
		name string
		into *int64
	}{{"num_experts", &a.Experts}, {"experts_per_token", &a.TopK}, {"num_shared_experts", &a.Shared}} {
		if given := v.Get(key.name); given != nil {
			*key.into = given.Int()
		}
	}
	switch topk := v.Get("experts_per_token"); {
	case a.Experts > 0 && topk == nil:
		return v.Get("num_experts").Errorf("num_experts without experts_per_token")
	case topk != nil && a.TopK > a.Experts:
		return topk.Errorf("experts_per_token is %d, more than the %d experts of num_experts", a.TopK, a.Experts)
	}
	return nil
}
