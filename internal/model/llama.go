package model

import "perigee/internal/conf"

// llama are models whose file says how many query heads share a KV head.
var llama = family{
	name:  "llama",
	parts: []string{"llama3.1"},
	keys: []conf.Field{
		number("num_query_heads_with_mha", "query heads"),
		number("query_head_dimension", "values of a head"),
		number("gqa_num_queries_in_group", "query heads that share a KV head"),
		optional(number("hidden_size", "size of the hidden state")),
	},
	ratio: "gqa_num_queries_in_group",
	arch: func(number func(string) int64) Arch {
		heads, group := number("num_query_heads_with_mha"), number("gqa_num_queries_in_group")
		return Arch{
			Heads: heads, Group: group, KVHeads: (heads + group - 1) / group, HeadDim: number("query_head_dimension"),
			Hidden: number("hidden_size"),
		}
	},
}
