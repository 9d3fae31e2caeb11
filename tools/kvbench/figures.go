package kvbench

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"perigee/internal/kit/fault"
	"perigee/internal/model"
)

// The accountings; the package comment explains them.
const (
	accountingKVBench = "kvbench"
	accountingExact   = "exact"
)

// PlanFigures are the sizes of a plan by one accounting, in bytes but for the
// batches.
type PlanFigures struct {
	// KV cache of a token: whole model, without replicas; layers with a sliding window count fully
	TokenBytes int64
	ISLBytes   int64      // KV cache of a request: whole model, without copies or states; with an engine in its pages
	StateBytes int64      // states of a request, of fixed size; only exact knows them
	Transfers  []Transfer // what is moved; those that keep all tokens first
	Bytes      int64      // moved in all: by all GPUs with kvbench, by the one with the most with exact
}

// Transfer is a number of blocks of one size.
type Transfer struct {
	Layers    string // which layers, where the plan has several transfers
	IOSize    int64  // bytes of a block
	IOSize1   int64  // bytes of a block if a page were one token
	BatchSize int64  // blocks
}

// check refuses what no system can be.
func (c Config) check(m *model.Model) error {
	if c.PP > m.Layers {
		return c.errorf("pp_size", "wanted at most the %d layers of %s, got %d", m.Layers, m.Name, c.PP)
	}
	if m.Heads > 0 && c.TP > m.Heads {
		return c.errorf("tp_size", "wanted at most the %d query heads of %s, got %d", m.Heads, m.Name, c.TP)
	}
	return nil
}

// hasKVBench returns the cache of a layer by which KVBench's formulas go. They know models whose layers are alike, in
// four precisions.
func hasKVBench(m *model.Model, c Config) (model.Keep, bool) {
	k, ok := m.Uniform()
	return k, ok && quantBytes[c.KVQuant] > 0
}

// kvbenchFigures follows KVBench's formulas, with whole numbers instead of its
// floating-point ones:
//
//	token = floor(L * 2 * heads * dim * q)       GQA, q of model_quant_mode, heads maybe a fraction
//	token = L * (latent + rope) * q              MLA, q of kvcache_quant_mode
//	io    = floor(floor(token/L / tp) * L/pp) * P     GQA, block; without L/pp: layer
//	io    = floor(token/L / tp * ceil(L/pp) * P)      MLA, block; without ceil(L/pp): layer
//	batch = ceil(token * S * N / io)
func kvbenchFigures(m *model.Model, k model.Keep, c Config) (PlanFigures, error) {
	token, isl := tokenBytes(m, k, c, 1), tokenBytes(m, k, c, c.ISL)
	io, io1 := kvbenchIO(m, k, c, token, c.PageSize), kvbenchIO(m, k, c, token, 1)
	if io.Sign() == 0 {
		return PlanFigures{}, c.errorf("tp_size",
			"%d ranks of tensor parallelism leave less than a byte of a layer of %s to each", c.TP, m.Name)
	}
	batch := ceilDiv(times(isl, c.Requests), io)
	return toFigures(m, token, isl, transfer{io: io, io1: io1, batch: batch})
}

func tokenBytes(m *model.Model, k model.Keep, c Config, tokens int64) *big.Int {
	if k.Kind == model.MLA {
		return times(big.NewInt(k.Latent+k.Rope), quantBytes[c.KVQuant], m.Layers, tokens)
	}
	heads, group := k.Heads, int64(1)
	if queries, kv := m.QueriesPerHead(k); kv == 1 {
		heads, group = m.Heads, queries
	}
	values := times(big.NewInt(2), heads, k.Key, quantBytes[c.ModelQuant], m.Layers, tokens)
	return values.Quo(values, big.NewInt(group))
}

// kvbenchIO is KVBench's size of one I/O, in bytes, with its order of multiplications and integer divisions, as its
// rounding must be the same.
func kvbenchIO(m *model.Model, k model.Keep, c Config, token *big.Int, page int64) *big.Int {
	layer := new(big.Int).Quo(token, big.NewInt(m.Layers))
	tp, pp := big.NewInt(c.TP), big.NewInt(c.PP)
	if k.Kind == model.MLA {
		if c.Access == accessBlock {
			layer = times(layer, ceil64(m.Layers, c.PP))
		}
		io := times(layer, page)
		return io.Quo(io, tp)
	}
	io := layer.Quo(layer, tp)
	if c.Access == accessBlock {
		io = times(io, m.Layers)
		io.Quo(io, pp)
	}
	return times(io, page)
}

// exactFigures counts what the GPU with the most to move has to: whole heads, the whole layers of its pipeline stage,
// whole pages of every request, states as they are. It receives all that it holds, or of what others hold, too, a part.
func exactFigures(all *model.Cache, c Config, replicas model.Replicas) (PlanFigures, error) {
	s, err := largestStage(all, c, model.Move{Serving: all.Serving, Replicas: replicas, From: c.TP, To: c.TP})
	if err != nil {
		return PlanFigures{}, err
	}
	kv, state, err := all.Bytes(c.ISL)
	if err != nil {
		return PlanFigures{}, err
	}
	f, err := toFigures(all.Model, big.NewInt(oneToken(all)), big.NewInt(kv), merged(s.moved(c))...)
	f.StateBytes = state
	return f, err
}

// oneToken counts the bytes that all layers keep of one token, those with a window as the others; of an entry for
// several tokens its share, rounded down in all.
func oneToken(c *model.Cache) int64 {
	var sum float64
	for i, g := range c.Model.Groups {
		if !g.Fixes() && g.Kind != model.SharedKV {
			sum += float64(c.EntryBytes(i)) * float64(len(g.Layers)) / float64(cmp.Or(g.Every, 1))
		}
	}
	return int64(sum)
}

// stage is what one rank of a pipeline stage holds, and for each group how many ranks share out its pages; 0: none do.
type stage struct {
	*model.Cache
	split []int64
	ranks int64 // of tensor parallelism
}

// blocks are the pages that the rank is sent of each layer of a group, and their bytes.
func (s stage) blocks(i int, isl int64) (count, bytes int64) {
	count, bytes = s.Blocks(i, isl)
	if n := s.split[i]; n > 0 {
		count = ceil64(count, n)
		copied := s.Model.Groups[i].CopiedBytes()
		bytes -= copied - ceil64(copied, s.ranks)
	}
	return count, bytes
}

// largestStage returns the pipeline stage with the most to move.
func largestStage(all *model.Cache, c Config, move model.Move) (largest stage, err error) {
	rank := all.Rank(c.TP)
	bounds, err := model.Stages(rank.Model.Layers, c.PP, rank.Serving)
	if err != nil {
		return largest, err
	}
	most := big.NewInt(-1)
	for i := range c.PP {
		s := stage{Cache: rank.Stage(bounds[i], bounds[i+1]), ranks: c.TP}
		for _, g := range all.Model.Stage(bounds[i], bounds[i+1]).Groups {
			s.split = append(s.split, move.Share(g.Keep).Split)
		}
		load := new(big.Int)
		for i, g := range s.Model.Groups {
			count, bytes := s.blocks(i, c.ISL)
			load.Add(load, times(big.NewInt(count), bytes, int64(len(g.Layers))))
		}
		if load.Cmp(most) > 0 {
			most, largest = load, s
		}
	}
	return largest, nil
}

// transfer is a Transfer whose numbers may be too large for one.
type transfer struct {
	layers         string
	io, io1, batch *big.Int
}

// moved lists the blocks of a stage: those of layers that keep all tokens first, states last. With the access pattern
// block, one block holds a page of all layers of the stage that keep as many.
func (s stage) moved(c Config) []transfer {
	page1 := *s.Cache
	page1.Block = 1
	var parts []transfer
	type class struct {
		state bool
		pages int64
	}
	blocks := map[class]int{} // to parts
	for _, i := range inOrder(s.Model) {
		g := s.Model.Groups[i]
		count, bytes := s.blocks(i, c.ISL)
		if count == 0 || bytes == 0 {
			continue
		}
		_, bytes1 := page1.Blocks(i, c.ISL)
		if g.Every > 1 && s.Block > 1 && s.Block%g.Every == 0 {
			bytes1 = s.EntryBytes(i)
		}
		layers := int64(len(g.Layers))
		all := times(big.NewInt(count), c.Requests, layers)
		t := transfer{layerWords(g, layers), big.NewInt(bytes), big.NewInt(bytes1), all}
		if c.Access == accessLayer {
			parts = append(parts, t)
			continue
		}
		t.io, t.io1, t.batch = times(t.io, layers), times(t.io1, layers), times(big.NewInt(count), c.Requests)
		key := class{g.Fixes() && g.Fixed == 0, count}
		if at, ok := blocks[key]; ok {
			p := &parts[at]
			p.io.Add(p.io, t.io)
			p.io1.Add(p.io1, t.io1)
			p.layers += " and " + t.layers
			continue
		}
		blocks[key] = len(parts)
		parts = append(parts, t)
	}
	return parts
}

// inOrder lists groups: those that keep all tokens, those that keep some, states.
func inOrder(m *model.Model) []int {
	order := make([]int, len(m.Groups))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) int {
		switch g := m.Groups[i]; {
		case g.Fixes() && g.Fixed == 0:
			return 2
		case g.Last > 0 || g.Fixed > 0:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	return order
}

// layerWords says which layers a block is of.
func layerWords(g model.Group, layers int64) string {
	keep := "keep all tokens"
	switch {
	case g.Kind == model.Window:
		keep = fmt.Sprintf("keep the last %d tokens", g.Last)
	case g.Kind == model.Chunk:
		keep = fmt.Sprintf("keep a chunk of %d tokens", g.Last)
	case g.Kind == model.MLA:
		keep = "keep a latent vector"
	case g.Kind == model.Indexer, g.Kind == model.IndexKey:
		keep = "keep an index key"
	case g.Kind == model.Compressed:
		keep = fmt.Sprintf("keep an entry for %d tokens", g.Every)
	case g.Kind == model.Cross:
		keep = "keep what the encoder has read"
	case g.Fixes():
		keep = fmt.Sprintf("keep a state (%s)", g.Kind)
	}
	return fmt.Sprintf("the %d layers that %s", layers, keep)
}

// merged puts blocks of one size together.
func merged(parts []transfer) []transfer {
	var all []transfer
	for _, p := range parts {
		i := slices.IndexFunc(all, func(t transfer) bool { return t.io.Cmp(p.io) == 0 && t.io1.Cmp(p.io1) == 0 })
		if i < 0 {
			all = append(all, p)
			continue
		}
		all[i].batch.Add(all[i].batch, p.batch)
		all[i].layers += " and " + p.layers
	}
	if len(all) == 1 {
		all[0].layers = ""
	}
	return all
}

// toFigures puts figures together that must fit 63 bits.
func toFigures(m *model.Model, token, isl *big.Int, parts ...transfer) (PlanFigures, error) {
	sum := new(big.Int)
	all := []*big.Int{token, isl, sum}
	for _, p := range parts {
		sum.Add(sum, new(big.Int).Mul(p.io, p.batch))
		all = append(all, p.io, p.batch)
	}
	for _, n := range all {
		if !n.IsInt64() {
			return PlanFigures{}, fault.New(fault.Input, "the KV cache of these requests to %s does not fit 63 bits", m.Name).
				WithHint("fewer requests (num_requests) or shorter ones (isl)")
		}
	}
	f := PlanFigures{TokenBytes: token.Int64(), ISLBytes: isl.Int64(), Bytes: sum.Int64()}
	for _, p := range parts {
		f.Transfers = append(f.Transfers, Transfer{p.layers, p.io.Int64(), p.io1.Int64(), p.batch.Int64()})
	}
	return f, nil
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

// differences says why the accountings differ for a model of the cache k and a config, a reason each. Where there is
// none they are equal.
func differences(m *model.Model, k model.Keep, c Config) []string {
	var all []string
	add := func(holds bool, format string, args ...any) {
		if holds {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	gpus, mla := c.TP*c.PP, k.Kind == model.MLA
	queries, kv := m.QueriesPerHead(k)
	add(!mla && quantBytes[c.ModelQuant] != quantBytes[c.KVQuant],
		"kvbench sizes the cache by model_quant_mode %s, exact by kvcache_quant_mode %s", c.ModelQuant, c.KVQuant)
	add(gpus > 1, "kvbench counts the cache of all %d GPUs (tp %d x pp %d), exact what one GPU moves", gpus, c.TP, c.PP)
	add(mla && c.TP > 1, "kvbench cuts the latent vector into %d parts, but every tp rank holds all of it", c.TP)
	add(!mla && kv == 1 && m.Heads%queries != 0, "%d query heads in groups of %d make a fraction of a KV head, exact counts %d",
		m.Heads, queries, k.Heads)
	add(!mla && c.TP > k.Heads, "the %d KV heads cannot be cut into %d parts: exact has at least one whole head on each rank",
		k.Heads, c.TP)
	add(!mla && c.TP <= k.Heads && k.Heads%c.TP != 0, "the %d KV heads do not divide among %d ranks: exact counts the %d of the fullest rank",
		k.Heads, c.TP, ceil64(k.Heads, c.TP))
	add(!mla && c.Access == accessBlock && m.Layers%c.PP != 0, "kvbench counts %.4g layers per pipeline stage, exact the %d of the largest",
		float64(m.Layers)/float64(c.PP), ceil64(m.Layers, c.PP))
	add(c.ISL%c.PageSize != 0, "the last page of each request is not full (%d tokens in pages of %d); kvbench rounds up once, exact for each request",
		c.ISL, c.PageSize)
	for _, g := range m.Groups {
		add(g.Last > 0 && c.ISL > g.Last, "%d of %d layers keep only the last %d of %d tokens; kvbench counts all tokens in all layers",
			len(g.Layers), m.Layers, g.Last, c.ISL)
	}
	return all
}
