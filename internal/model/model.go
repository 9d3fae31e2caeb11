// Package model knows the architectures of language models as far as they
// decide the size of a KV cache.
//
// A model is described by a YAML file (see [Parse]) in the layout of NIXL's
// KVBench. Its family says which keys the file has and what they mean; there
// is one file per family here. The models that are part of perigee are such
// files too: [Names], [Source]. [Load] takes a file or such a name.
package model

import (
	"math/big"

	"perigee/internal/conf"
	"perigee/internal/fault"
)

// Arch is a model's architecture.
//
// A model either has KVHeads heads of HeadDim values each, for keys and for
// values, or one vector of LatentDim + RopeDim values per token and layer that
// all heads share (multi-head latent attention, MLA).
type Arch struct {
	Name      string  // as the file spells it
	Family    string  // the name of its family
	Layers    int64   // with a KV cache
	Heads     int64   // of queries
	KVHeads   int64   // rounded up, see Group; 0: MLA
	Group     int64   // query heads per KV head, where the file says that instead of KVHeads; otherwise 0
	HeadDim   int64   // values
	LatentDim int64   // values; 0: not MLA
	RopeDim   int64   // values; 0: not MLA
	Hidden    int64   // size of the hidden state; 0: the file does not say
	Params    float64 // parameters; enters no figure
	Experts   int64   // routed experts of a layer that has some; 0: none
	TopK      int64   // routed experts for each token
	Shared    int64   // experts that every token uses

	// Window is how many of the last tokens most layers keep; 0: all layers keep
	// all tokens. Every FullEvery-th layer keeps all tokens; 0: none does.
	Window, FullEvery int64

	ratio *conf.Value // the key that relates KV heads to query heads
}

// MLA reports whether all heads share one latent vector.
func (a Arch) MLA() bool { return a.LatentDim > 0 }

// Full reports whether layer i, from 0, keeps all tokens.
func (a Arch) Full(i int64) bool {
	return a.Window == 0 || a.FullEvery > 0 && (i+1)%a.FullEvery == 0
}

// FullLayers returns how many of the layers from first up to, but without, end
// keep all tokens.
func (a Arch) FullLayers(first, end int64) int64 {
	switch {
	case a.Window == 0:
		return end - first
	case a.FullEvery == 0:
		return 0
	}
	return end/a.FullEvery - first/a.FullEvery
}

// Values returns how many values a layer keeps of a token: of one part of so
// many KV heads, which must be whole, or with MLA of the latent vector, which
// has no parts.
func (a Arch) Values(heads int64) int64 {
	if a.MLA() {
		return a.LatentDim + a.RopeDim
	}
	return 2 * heads * a.HeadDim // keys and values
}

// RequestValues returns how many values all layers together keep of a request
// of so many tokens, and whether that fits 63 bits.
func (a Arch) RequestValues(tokens int64) (int64, bool) {
	full := a.FullLayers(0, a.Layers)
	kept := tokens
	if a.Window > 0 {
		kept = min(tokens, a.Window)
	}
	cells := new(big.Int).Mul(big.NewInt(full), big.NewInt(tokens))
	cells.Add(cells, new(big.Int).Mul(big.NewInt(a.Layers-full), big.NewInt(kept)))
	values := cells.Mul(cells, big.NewInt(a.Values(a.KVHeads)))
	return values.Int64(), values.IsInt64()
}

// CheckHeads returns an error of kind Input where the KV heads do not divide
// the query heads, which no real model has.
func (a Arch) CheckHeads() error {
	divisor := a.KVHeads
	if a.Group > 0 {
		divisor = a.Group
	}
	if a.MLA() || a.Heads%divisor == 0 {
		return nil
	}
	err := fault.New(fault.Input, "wanted a number that divides the %d query heads, got %d", a.Heads, divisor)
	if a.ratio != nil {
		err = a.ratio.Errorf("%w", err)
	}
	return err
}
