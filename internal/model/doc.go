// Package model computes the bytes that language models keep of a request, and that a prefill worker hands to a
// decode worker.
//
// # A model is a list of groups of layers
//
// A [Group] is a cache, or a state, that several layers keep alike. Its [Kind] says what it is:
//
//	full        a key and a value of each token for each KV head
//	window      the same of the last W tokens
//	chunk       the same of at most C tokens, in models that attend within chunks
//	mla         one latent vector of each token for all heads, and a rotated key
//	indexer     the keys by which sparse attention chooses tokens, always fp8 with a scale for 128 values
//	index_key   the same in the precision of the cache
//	compressed  one vector for several tokens
//	cross       keys and values of what an encoder has read, whatever the tokens
//	mamba1 ...  a state of fixed size: see [State]
//	ring        fixed bytes that every rank holds whole
//	shared      nothing: the layer reads the cache of an earlier one
//
// A layer may stand in several groups, or in none.
//
// # Where models come from
//
// [Parse] reads the config.json of Hugging Face's transformers, NIXL's KVBench files, and perigee's own list of groups.
// The models that are part of perigee are such files, too: [Names], [Source]. [Load] takes a file or a name, and
// [Read] the texts of files, from which other processes make the same model.
//
// # Bytes
//
// [Model.Cache] fixes the precision and the way of serving, and gives bytes. [Model.Rank] gives the part that one rank
// of tensor parallelism holds of a model, [Model.Stage] what a stage of a pipeline holds: models, too. [Move] says
// which of the bytes each decode rank receives: the only place that decides it, for all commands.
//
// # Reading order
//
// model.go has the types, file.go reads perigee's own form, config.go that of transformers; families.go says which
// reader a model_type has, architectures.go which family a class is of, and heads.go, latent.go, windows.go, hybrids.go
// and state.go have the readers by the kind of attention. kvbench.go reads NIXL's files, others.go names those that are
// no model files. shipped.go and similar.go find models by name, hub.go in the cache of Hugging Face, and texts.go
// reads their files. cache.go computes bytes, parallel.go what one rank or stage holds, serving.go what a way of
// serving changes, move.go who receives what; flags.go has the options for all that.
//
// A key of config.json that changes the cache and is not understood is an error (unread.go). A wrong number of bytes
// would look as good as a right one.
package model
