package model

import "perigee/internal/conf"

// twin are models in which all query heads share two KV heads.
var twin = family{
	name:  "twin",
	parts: []string{"twin"},
	keys: []conf.Field{
		number("num_query_heads", "query heads"),
		number("head_size", "values of a head"),
	},
	arch: func(number func(string) int64) Arch {
		return Arch{Heads: number("num_query_heads"), KVHeads: 2, HeadDim: number("head_size")}
	},
}
