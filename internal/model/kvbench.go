package model

import (
	"slices"
	"strings"

	"perigee/internal/kit/conf"
)

// kvbenchFamily is a kind of models whose KVBench files have the same keys.
type kvbenchFamily struct {
	name  string
	parts []string // of the names of its models, in small letters; the longest part of all families that fits counts
	keys  []conf.Field
	keep  func(number func(key string) int64) Keep // what a layer keeps, from the checked keys; 0: it is missing
	heads string                                   // the key of the query heads
	ratio string                                   // the key that relates KV heads to query heads; "" for none
}

// groupKey is the ratio of KVBench's own files. In its examples it does not always divide the query heads, which its
// formulas take for a fraction of a KV head.
const groupKey = "gqa_num_queries_in_group"

// kvbenchFamilies are all of them: those of NIXL's KVBench and, with sliding windows, those that perigee added.
var kvbenchFamilies = []kvbenchFamily{
	{
		name:  "llama",
		parts: []string{"llama3.1"},
		keys: append([]conf.Field{
			number("num_query_heads_with_mha", "query heads"),
			number("query_head_dimension", "values of a head"),
			number(groupKey, "query heads that share a KV head"),
		}, optional(number("hidden_size", "size of the hidden state"))...),
		heads: "num_query_heads_with_mha", ratio: groupKey,
		keep: func(number func(string) int64) Keep {
			return ofHeads(ceilDiv(number("num_query_heads_with_mha"), number(groupKey)), number)
		},
	},
	{
		name:  "mla",
		parts: []string{"deepseek_r1", "deepseek_v2", "deepseek_v3", "kimi_k2"},
		keys: []conf.Field{
			number("num_query_heads", "query heads; enters no size"),
			number("query_head_dimension", "values of a head; enters no size"),
			number("embedding_dimension", "size of the hidden state"),
			number("rope_mla_dimension", "values of the rotated key"),
			number("mla_latent_vector_dimension", "values of the latent vector"),
		},
		heads: "num_query_heads",
		keep: func(number func(string) int64) Keep {
			return Keep{Kind: MLA, Latent: number("mla_latent_vector_dimension"), Rope: number("rope_mla_dimension")}
		},
	},
	grouped("gqa", []string{"qwen", "llama", "mistral", "mixtral", "glm"}, optional(windowKey, patternKey)),
	grouped("gpt-oss", []string{"gpt_oss"}, []conf.Field{withDefault(windowKey, 128), withDefault(patternKey, 2)}),
	grouped("gemma", []string{"gemma2", "gemma3", "gemma_2", "gemma_3"}, []conf.Field{windowKey, patternKey}),
}

var (
	windowKey  = number("sliding_window", "tokens that layers with a sliding window keep")
	patternKey = number("sliding_window_pattern", "every so manieth layer keeps all tokens")
)

// grouped is a family with grouped-query attention whose files say the number of KV heads.
func grouped(name string, parts []string, window []conf.Field) kvbenchFamily {
	return kvbenchFamily{
		name: name, parts: parts, heads: "num_query_heads", ratio: "num_kv_heads",
		keys: slices.Concat([]conf.Field{
			number("num_query_heads", "query heads"),
			number("num_kv_heads", "KV heads"),
			number("query_head_dimension", "values of a head"),
		}, optional(number("hidden_size", "size of the hidden state")), window),
		keep: func(number func(string) int64) Keep { return ofHeads(number("num_kv_heads"), number) },
	}
}

func ofHeads(heads int64, number func(string) int64) Keep {
	size := number("query_head_dimension")
	return Keep{Kind: Full, Heads: heads, Key: size, Value: size}
}

func familyNames() []string {
	var names []string
	for _, f := range kvbenchFamilies {
		names = append(names, f.name)
	}
	return names
}

// parseKVBench reads a file of NIXL's KVBench.
func parseKVBench(v *conf.Value) (*Model, error) {
	f, err := familyOf(v)
	if err != nil {
		return nil, err
	}
	own := conf.Schema{params(true), {Name: "family", Type: "enum", Enum: familyNames()}}
	schema := slices.Concat(common(), own, f.keys)
	v, err = schema.Check(v)
	if err != nil {
		return nil, err
	}
	m, err := readCommon(v)
	if err != nil {
		return nil, err
	}
	number := func(key string) int64 { return v.Get(key).Int() }
	m.Family, m.Heads = f.name, number(f.heads)
	m.Hidden = max(number("hidden_size"), number("embedding_dimension"))
	m.queriesPerHead = number(groupKey)
	if m.ratio = v.Get(f.ratio); m.ratio != nil {
		n := m.ratio.Int()
		if n > m.Heads || m.queriesPerHead == 0 && m.Heads%n != 0 {
			return nil, m.indivisible()
		}
	}
	window, every := number("sliding_window"), number("sliding_window_pattern")
	var b builder
	for i := range m.Layers {
		k := f.keep(number)
		if every == 0 || (i+1)%every != 0 {
			k = windowOf(k, window)
		}
		b.add(i, k)
	}
	m.Groups = b.groups
	return m, nil
}

// familyOf returns the family that the key family names, or else the name of the model: that with the longest part in
// it.
func familyOf(v *conf.Value) (best kvbenchFamily, err error) {
	name := v.Get("model_name")
	if name == nil {
		name = v.Get("model")
	}
	if name == nil || name.Kind != conf.String {
		return best, v.Errorf("wanted a map with the text model_name (KVBench's form), or with model_type or architectures (a config.json)")
	}
	if own := v.Get("family"); own != nil && own.Kind == conf.String {
		if i := slices.Index(familyNames(), own.Text()); i >= 0 {
			return kvbenchFamilies[i], nil
		}
		return best, own.Errorf("wanted one of %s, got %q", strings.Join(familyNames(), ", "), own.Text())
	}
	plain := strings.ReplaceAll(strings.ToLower(name.Text()), "-", "_")
	longest := 0
	for _, f := range kvbenchFamilies {
		for _, part := range f.parts {
			if len(part) > longest && strings.Contains(plain, part) {
				best, longest = f, len(part)
			}
		}
	}
	if longest == 0 {
		return best, unknownFamily(name)
	}
	return best, nil
}
