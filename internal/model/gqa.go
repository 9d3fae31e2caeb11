package model

import "perigee/internal/conf"

// gqa are models with grouped-query attention whose file says the number of KV
// heads.
var gqa = family{
	name:  "gqa",
	parts: []string{"qwen", "llama", "mistral", "mixtral", "glm"},
	keys:  gqaKeys(optional(windowKey), optional(patternKey)),
	ratio: "num_kv_heads",
	arch:  gqaArch,
}

var (
	windowKey  = number("sliding_window", "tokens that layers with a sliding window keep")
	patternKey = number("sliding_window_pattern", "every so manieth layer keeps all tokens")
)

func gqaKeys(window, pattern conf.Field) []conf.Field {
	return []conf.Field{
		number("num_query_heads", "query heads"),
		number("num_kv_heads", "KV heads"),
		number("query_head_dimension", "values of a head"),
		optional(number("hidden_size", "size of the hidden state")),
		window, pattern,
	}
}

func gqaArch(number func(string) int64) Arch {
	return Arch{
		Heads: number("num_query_heads"), KVHeads: number("num_kv_heads"), HeadDim: number("query_head_dimension"),
		Hidden: number("hidden_size"), Window: number("sliding_window"), FullEvery: number("sliding_window_pattern"),
	}
}
