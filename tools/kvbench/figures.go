package kvbench

import (
	"fmt"
	"math/big"

	"perigee/internal/fault"
	"perigee/internal/model"
)

// The accountings; the package comment explains them.
const (
	accountingKVBench = "kvbench"
	accountingExact   = "exact"
)

// Figures are the sizes of a plan by one accounting, in bytes but for the
// batches.
type Figures struct {
	// KV cache of a token: whole model, without replicas; layers with a sliding window count fully
	TokenBytes int64
	ISLBytes   int64      // KV cache of a request: whole model, without replicas
	Transfers  []Transfer // what is moved; the first has the larger blocks
	Bytes      int64      // moved in all: by all GPUs with kvbench, by the one with the most with exact
}

// Transfer is a number of blocks of one size.
type Transfer struct {
	Layers    string // which layers, where the plan has several transfers
	IOSize    int64  // bytes of a block
	IOSize1   int64  // bytes of a block if a page were one token
	BatchSize int64  // blocks
}

// figures computes both accountings.
func figures(a model.Arch, c Config) (kvbench, exact Figures, err error) {
	if kvbench, err = kvbenchFigures(a, c); err != nil {
		return Figures{}, Figures{}, err
	}
	exact, err = exactFigures(a, c)
	return kvbench, exact, err
}

// check refuses what no system can be.
func (c Config) check(a model.Arch) error {
	if c.PP > a.Layers {
		return c.errorf("pp_size", "wanted at most the %d layers of %s, got %d", a.Layers, a.Name, c.PP)
	}
	if c.TP > a.Heads {
		return c.errorf("tp_size", "wanted at most the %d query heads of %s, got %d", a.Heads, a.Name, c.TP)
	}
	return nil
}

// kvbenchFigures follows KVBench's formulas, with whole numbers instead of its
// floating-point ones:
//
//	token = floor(L * 2 * heads * dim * q)       GQA, q of model_quant_mode, heads maybe a fraction
//	token = L * (latent + rope) * q              MLA, q of kvcache_quant_mode
//	io    = floor(floor(token/L / tp) * L/pp) * P     GQA, block; without L/pp: layer
//	io    = floor(token/L / tp * ceil(L/pp) * P)      MLA, block; without ceil(L/pp): layer
//	batch = ceil(token * S * N / io)
func kvbenchFigures(a model.Arch, c Config) (Figures, error) {
	token, isl := tokenBytes(a, c, 1), tokenBytes(a, c, c.ISL)
	io, io1 := kvbenchIO(a, c, token, c.PageSize), kvbenchIO(a, c, token, 1)
	if io.Sign() == 0 {
		return Figures{}, c.errorf("tp_size",
			"%d ranks of tensor parallelism leave less than a byte of a layer of %s to each", c.TP, a.Name)
	}
	batch := ceilDiv(times(isl, c.Requests), io)
	return toFigures(a, token, isl, transfer{io: io, io1: io1, batch: batch})
}

func tokenBytes(a model.Arch, c Config, tokens int64) *big.Int {
	if a.MLA() {
		return times(big.NewInt(a.LatentDim+a.RopeDim), quantBytes[c.KVQuant], a.Layers, tokens)
	}
	heads, group := a.KVHeads, int64(1)
	if a.Group > 0 {
		heads, group = a.Heads, a.Group
	}
	values := times(big.NewInt(2), heads, a.HeadDim, quantBytes[c.ModelQuant], a.Layers, tokens)
	return values.Quo(values, big.NewInt(group))
}

func kvbenchIO(a model.Arch, c Config, token *big.Int, page int64) *big.Int {
	layer := new(big.Int).Quo(token, big.NewInt(a.Layers))
	tp, pp := big.NewInt(c.TP), big.NewInt(c.PP)
	if a.MLA() {
		if c.Access == accessBlock {
			layer = times(layer, ceil64(a.Layers, c.PP))
		}
		io := times(layer, page)
		return io.Quo(io, tp)
	}
	io := layer.Quo(layer, tp)
	if c.Access == accessBlock {
		io = times(io, a.Layers)
		io.Quo(io, pp)
	}
	return times(io, page)
}

// exactFigures counts what the GPU with the most to move has to: whole heads,
// the whole layers of its pipeline stage, whole pages of every request, in
// kvcache_quant_mode.
func exactFigures(a model.Arch, c Config) (Figures, error) {
	q := quantBytes[c.KVQuant]
	layer := big.NewInt(a.Values(ceil64(a.KVHeads, c.TP)) * q) // of a token
	full, windowed := largestStage(a, c)
	pages, kept := ceil64(c.ISL, c.PageSize), windowPages(a, c)
	if kept == pages {
		full, windowed = full+windowed, 0 // the window cuts nothing off
	}
	block := func(name string, layers, pages int64) transfer {
		return transfer{name, times(layer, c.PageSize, layers), times(layer, layers),
			times(big.NewInt(pages), c.Requests)}
	}
	var parts []transfer
	switch {
	case c.Access == accessLayer:
		parts = []transfer{{"", times(layer, c.PageSize), layer, times(big.NewInt(full*pages+windowed*kept),
			c.Requests)}}
	case windowed == 0:
		parts = []transfer{block("", full, pages)}
	case full == 0:
		parts = []transfer{block("", windowed, kept)}
	case full == windowed:
		parts = []transfer{block("", full, pages+kept)}
	default:
		parts = []transfer{
			block(fmt.Sprintf("the %d layers that keep all tokens", full), full, pages),
			block(fmt.Sprintf("the %d layers that keep the last %d tokens", windowed, a.Window), windowed, kept),
		}
	}
	token := times(big.NewInt(a.Values(a.KVHeads)), q, a.Layers)
	values, fits := a.RequestValues(c.ISL)
	if !fits {
		return Figures{}, tooMuch(a)
	}
	return toFigures(a, token, times(big.NewInt(values), q), parts...)
}

// largestStage returns the layers of the pipeline stage with the most to move,
// which keep all tokens and only a window. The stages are runs of layers; where they do
// not divide evenly the first ones have one layer more.
func largestStage(a model.Arch, c Config) (full, windowed int64) {
	pages, kept := ceil64(c.ISL, c.PageSize), windowPages(a, c)
	most := new(big.Int)
	var first int64
	for stage := range c.PP {
		end := first + a.Layers/c.PP
		if stage < a.Layers%c.PP {
			end++
		}
		f := a.FullLayers(first, end)
		w := end - first - f
		load := times(big.NewInt(f), pages)
		if load.Add(load, times(big.NewInt(w), kept)); load.Cmp(most) > 0 {
			most, full, windowed = load, f, w
		}
		first = end
	}
	return full, windowed
}

// windowPages returns how many pages of a request a layer with a sliding
// window keeps: those that the last tokens lie in.
func windowPages(a model.Arch, c Config) int64 {
	pages := ceil64(c.ISL, c.PageSize)
	if a.Window == 0 || c.ISL <= a.Window {
		return pages
	}
	return pages - (c.ISL-a.Window)/c.PageSize
}

// transfer is a Transfer whose numbers may be too large for one.
type transfer struct {
	layers         string
	io, io1, batch *big.Int
}

// toFigures puts figures together that must fit 63 bits.
func toFigures(a model.Arch, token, isl *big.Int, parts ...transfer) (Figures, error) {
	sum := new(big.Int)
	all := []*big.Int{token, isl, sum}
	for _, p := range parts {
		sum.Add(sum, new(big.Int).Mul(p.io, p.batch))
		all = append(all, p.io, p.batch)
	}
	for _, n := range all {
		if !n.IsInt64() {
			return Figures{}, tooMuch(a)
		}
	}
	f := Figures{TokenBytes: token.Int64(), ISLBytes: isl.Int64(), Bytes: sum.Int64()}
	for _, p := range parts {
		f.Transfers = append(f.Transfers, Transfer{p.layers, p.io.Int64(), p.io1.Int64(), p.batch.Int64()})
	}
	return f, nil
}

func tooMuch(a model.Arch) error {
	return fault.New(fault.Input, "the KV cache of these requests to %s does not fit 63 bits", a.Name).
		WithHint("fewer requests (num_requests) or shorter ones (isl)")
}

// times multiplies into a new number.
func times(n *big.Int, factors ...int64) *big.Int {
	result := new(big.Int).Set(n)
	for _, f := range factors {
		result.Mul(result, big.NewInt(f))
	}
	return result
}

func ceilDiv(a, b *big.Int) *big.Int {
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}

func ceil64(a, b int64) int64 {
	if a%b == 0 {
		return a / b
	}
	return a/b + 1
}

// differences says why the accountings differ for a model and a config, a
// reason each. Where there is none they are equal.
func differences(a model.Arch, c Config) []string {
	var all []string
	add := func(holds bool, format string, args ...any) {
		if holds {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	gpus := c.TP * c.PP
	add(!a.MLA() && quantBytes[c.ModelQuant] != quantBytes[c.KVQuant],
		"kvbench sizes the cache by model_quant_mode %s, exact by kvcache_quant_mode %s", c.ModelQuant, c.KVQuant)
	add(gpus > 1, "kvbench counts the cache of all %d GPUs (tp %d x pp %d), exact what one GPU moves", gpus, c.TP, c.PP)
	add(a.MLA() && c.TP > 1, "kvbench cuts the latent vector into %d parts, but every tp rank holds all of it", c.TP)
	add(a.Group > 0 && a.Heads%a.Group != 0, "%d query heads in groups of %d make a fraction of a KV head, exact counts %d", a.Heads, a.Group, a.KVHeads)
	add(!a.MLA() && c.TP > a.KVHeads, "the %d KV heads cannot be cut into %d parts: exact has at least one whole head on each rank", a.KVHeads, c.TP)
	add(!a.MLA() && c.TP <= a.KVHeads && a.KVHeads%c.TP != 0,
		"the %d KV heads do not divide among %d ranks: exact counts the %d of the fullest rank", a.KVHeads, c.TP,
		ceil64(a.KVHeads, c.TP))
	add(!a.MLA() && c.Access == accessBlock && a.Layers%c.PP != 0,
		"kvbench counts %.4g layers per pipeline stage, exact the %d of the largest", float64(a.Layers)/float64(c.PP),
		ceil64(a.Layers, c.PP))
	add(c.ISL%c.PageSize != 0, "the last page of each request is not full (%d tokens in pages of %d); kvbench rounds up once, exact for each request", c.ISL, c.PageSize)
	full := a.FullLayers(0, a.Layers)
	add(a.Window > 0 && c.ISL > a.Window, "%d of %d layers keep only the last %d of %d tokens; kvbench counts all tokens in all layers", a.Layers-full, a.Layers, a.Window, c.ISL)
	return all
}
