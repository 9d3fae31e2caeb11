package model

import (
	"slices"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
)

// Model holds the parts of a model's architecture that decide the bytes of a request.
type Model struct {
	Name   string  // as the file spells it
	Family string  // model_type, or the family of a KVBench file
	Layers int64   // all of them, with or without a cache
	Heads  int64   // of queries
	Hidden int64   // size of the hidden state; 0: the file does not say
	Params float64 // parameters; enters no figure
	Draft  int64   // layers that predict further tokens (MTP), which no figure counts

	Experts int64 // routed experts of a layer that has some; 0: none
	TopK    int64 // routed experts for each token
	Shared  int64 // experts that every token uses

	Groups []Group // in the order of their first layers

	// DType and CacheDType are the model's precision and that of its cache, as the file says them; empty: it does not.
	DType, CacheDType string
	// ByName is the name, as the user gave it, by which alone the model is known; empty: its file says all of it.
	ByName string
	// OfID reports whether it is a checkpoint in the local cache of Hugging Face: its files decide the precision of the
	// cache where the user does not.
	OfID bool
	// StateDType is the precision of the states that the file or the class fixes; empty: the engine decides.
	StateDType string

	// cacheDTypeBy is what says CacheDType, where that is not the model's own file; noAuto is why nothing says in what
	// precision engines keep the cache, empty where something does.
	cacheDTypeBy, noAuto string
	// recurrent reports whether any layer of the whole model has a recurrence whose state vLLM hands over.
	recurrent bool
	// expanded are the keys and values that vLLM keeps instead of a latent vector, in models where it expands that to
	// all heads.
	expanded Keep
	// queriesPerHead are the query heads that share a KV head, where the file says that instead of the KV heads; it
	// need not divide Heads. Otherwise 0.
	queriesPerHead int64
	ratio          *conf.Value // the key of a KVBench file that relates KV heads to query heads; may be nil
}

// Kind names the sort of state that a group of layers keeps.
type Kind string

// The kinds of caches.
const (
	Full       Kind = "full"
	Window     Kind = "window"
	Chunk      Kind = "chunk"
	MLA        Kind = "mla"
	Indexer    Kind = "indexer"
	IndexKey   Kind = "index_key"
	Compressed Kind = "compressed"
	Cross      Kind = "cross"
	SharedKV   Kind = "shared"
)

// Kinds lists all kinds in the order in which they are told.
func Kinds() []Kind {
	return []Kind{Full, Window, Chunk, MLA, Indexer, IndexKey, Compressed, Cross, Mamba1, Mamba2, GDN, KDA, Lightning,
		ShortConv, CCA, Ring, SharedKV}
}

// Group describes layers that keep the same.
type Group struct {
	Keep
	Layers []int64 // from 0, ascending; one that keeps it twice stands there twice
}

// Keep counts what one layer keeps of a request in one cache: of which tokens, and what of each.
type Keep struct {
	Kind Kind

	Last  int64 // tokens that are kept at most, the last ones; 0: all
	Every int64 // tokens that one entry stands for; 0: 1. A number of tokens that is not full keeps none.
	Fixed int64 // cross: entries, whatever the tokens

	Heads      int64 // KV heads; 0: one vector for all heads
	Key, Value int64 // values of a head's key and value
	Latent     int64 // values of the one vector
	Rope       int64 // values of its rotated part, besides
	Index      int64 // values of an indexer's key

	// Packing names the layouts in which engines pack a latent vector beside the plain ones: packingDSA, packingV4, or
	// none.
	Packing string

	State State // of fixed size, instead of all the above
}

const (
	packingDSA = "dsa"
	packingV4  = "v4"
)

// Copied reports whether every rank of tensor parallelism holds all of it.
func (k Keep) Copied() bool { return k.Heads == 0 && !k.State.Any() }

// Fixes reports whether its size does not depend on the tokens of a request. It may still depend on the precision of
// the cache, where it is one.
func (k Keep) Fixes() bool { return k.State.Any() || k.Fixed > 0 }

// Entries returns what is kept of a request of so many tokens: tokens, or groups of them.
func (k Keep) Entries(tokens int64) int64 {
	switch {
	case k.State.Any():
		return 1
	case k.Fixed > 0:
		return k.Fixed
	case k.Kind == SharedKV:
		return 0
	case k.Every > 1:
		tokens /= k.Every
	}
	if k.Last > 0 {
		return min(tokens, k.Last)
	}
	return tokens
}

// CheckExperts returns an error of kind Usage where the model lacks a size of its layers with experts. name is the one
// that the user calls it.
func (m *Model) CheckExperts(name string) error {
	if min(m.Experts, m.TopK, m.Hidden) > 0 {
		return nil
	}
	return fault.New(fault.Usage, "the model %s: its file does not say how many experts it has, "+
		"how many of them a token uses, or its hidden size", name).
		WithHint("a config.json has n_routed_experts, num_experts or num_local_experts, num_experts_per_tok, and " +
			"hidden_size; a file of your own num_experts, experts_per_token and hidden_size (docs/models.md)")
}

// Stateful reports whether any layer keeps a state of fixed size.
func (m *Model) Stateful() bool {
	return slices.ContainsFunc(m.Groups, func(g Group) bool { return g.State.Any() })
}

// expand is the model as vLLM keeps it.
func (m *Model) expand() *Model {
	if m.expanded.Heads == 0 {
		return m
	}
	x := *m
	x.Groups, x.expanded = slices.Clone(m.Groups), Keep{}
	for i, g := range x.Groups {
		if g.Kind == MLA {
			x.Groups[i].Keep = m.expanded
		}
	}
	return &x
}

// Uniform returns the one cache that all layers keep alike, for formulas that know no other models: those of KVBench.
// The layers of GPT-OSS count as alike, since KVBench takes their windows for full attention.
func (m *Model) Uniform() (k Keep, ok bool) {
	var layers int64
	for _, g := range m.Groups {
		layers += int64(len(g.Layers))
		same := g.Keep
		if g.Kind == Window && (m.Family == "gpt_oss" || m.Family == "gpt-oss") {
			same.Kind, same.Last = Full, 0
		}
		if same.Kind != Full && same.Kind != MLA || k.Kind != "" && k != same || same.Key != same.Value {
			return Keep{}, false
		}
		k = same
	}
	return k, layers == m.Layers && layers > 0
}

// QueriesPerHead returns the query heads that share a KV head, as a fraction: heads / kv.
func (m *Model) QueriesPerHead(k Keep) (heads, kv int64) {
	if m.queriesPerHead > 0 {
		return m.queriesPerHead, 1
	}
	return m.Heads, k.Heads
}

// CheckHeads returns an error of kind Input where a KVBench file makes a fraction of a KV head, which no real model
// has: KVBench's formulas can count it, and so [Parse] lets it be. Parse refuses such heads of all other files.
func (m *Model) CheckHeads() error {
	if m.queriesPerHead > 0 && m.Heads%m.queriesPerHead != 0 {
		return m.indivisible()
	}
	return nil
}

// indivisible is the error of a KVBench file whose query heads its ratio does not divide.
func (m *Model) indivisible() error {
	return m.ratio.Errorf("wanted a number that divides the %d query heads, got %d", m.Heads, m.ratio.Int())
}

// Uneven reports whether groups have KV heads of different numbers.
func (m *Model) Uneven() bool {
	var heads int64
	for _, g := range m.Groups {
		if g.Heads > 0 && heads > 0 && g.Heads != heads {
			return true
		}
		heads = max(heads, g.Heads)
	}
	return false
}

// builder puts what layers keep together into groups.
type builder struct {
	groups []Group
}

// add makes a layer keep something.
func (b *builder) add(layer int64, k Keep) {
	i := slices.IndexFunc(b.groups, func(g Group) bool { return g.Keep == k })
	if i < 0 {
		i = len(b.groups)
		b.groups = append(b.groups, Group{Keep: k})
	}
	b.groups[i].Layers = append(b.groups[i].Layers, layer)
}

// OfHeads is a model whose layers all keep keys and values of so many heads.
func OfHeads(name string, layers, heads, kvHeads, head, hidden int64) *Model {
	m := &Model{Name: name, Family: "gqa", Layers: layers, Heads: heads, Hidden: hidden}
	var b builder
	for i := range layers {
		b.add(i, Keep{Kind: Full, Heads: kvHeads, Key: head, Value: head})
	}
	m.Groups = b.groups
	return m
}
