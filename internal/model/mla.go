package model

import "perigee/internal/conf"

// mla are models with multi-head latent attention: per token and layer they
// keep one latent vector and one rotated key that all heads share.
var mla = family{
	name:  "mla",
	parts: []string{"deepseek_r1", "deepseek_v2", "deepseek_v3", "kimi_k2"},
	keys: []conf.Field{
		number("num_query_heads", "query heads; enters no size"),
		number("query_head_dimension", "values of a head; enters no size"),
		number("embedding_dimension", "size of the hidden state"),
		number("rope_mla_dimension", "values of the rotated key"),
		number("mla_latent_vector_dimension", "values of the latent vector"),
	},
	arch: func(number func(string) int64) Arch {
		return Arch{
			Heads: number("num_query_heads"), HeadDim: number("query_head_dimension"),
			Hidden:    number("embedding_dimension"),
			LatentDim: number("mla_latent_vector_dimension"), RopeDim: number("rope_mla_dimension"),
		}
	},
}
