package model

import (
	"fmt"
	"math"
	"math/bits"

	"perigee/internal/kit/fault"
)

// Options fix what a model's file leaves open.
type Options struct {
	DType   DType
	Serving Serving
	Page    int64 // tokens of a page; 0: the engine's own, without an engine 1
	// Ranks of tensor parallelism hold the cache of a request together. vLLM sizes the blocks of models with states by
	// what one of them holds. 0: 1.
	Ranks int64

	// StateDType is the precision of the states' recurrences, float32 or bfloat16, whatever the file says; empty: as
	// the file, the class or the engine has it.
	StateDType string
}

// Cache is a model in one precision, served in one way: what gives bytes.
type Cache struct {
	Model *Model
	Options

	// DTypeBy says what decided the precision.
	DTypeBy string
	// State is the precision of the states' recurrences, and StateBy what decided it.
	State, StateBy string

	// Block are the tokens of a page as the cache has it, and BlockBy says what decided that.
	Block   int64
	BlockBy string

	entry []int64 // bytes of an entry, or of the state, in one layer of Model.Groups[i]
}

// Cache fixes the precision and the way of serving. A model that cannot be served so is an error of the kind Input.
func (m *Model) Cache(o Options) (*Cache, error) {
	if o.Serving == VLLM {
		m = m.expand()
	}
	c := &Cache{Model: m, Options: o, entry: make([]int64, len(m.Groups))}
	c.State, c.StateBy = m.stateDType(o)
	ssm := int64(2)
	if c.State == float32Name {
		ssm = 4
	}
	for i, g := range m.Groups {
		var err error
		if c.entry[i], err = g.EntryBytes(o.DType); err != nil {
			return nil, fault.Wrap(err, "%s", m.Name)
		}
		if o.Serving == VLLM && g.Key != g.Value && (o.DType.scale > 0 || o.DType.block > 0) {
			return nil, fault.New(fault.Input, "%s: vLLM keeps keys of %d values and values of %d in 16 bit or fp8 only, not %s",
				m.Name, g.Key, g.Value, o.DType.Name)
		}
		if g.State.Any() {
			c.entry[i] = g.StateBytes(ssm)
		}
	}
	c.setBlock()
	return c, nil
}

// CacheIn is Cache in the precision of a name, see [Model.ParseDType]; without a name in bf16, the default.
func (m *Model) CacheIn(dtype string, o Options) (*Cache, error) {
	t, by, err := m.precision(dtype)
	if err != nil {
		return nil, err
	}
	o.DType = t
	c, err := m.Cache(o)
	if err != nil {
		return nil, err
	}
	c.DTypeBy = by
	return c, nil
}

// Precision says in words in what the cache is counted, and why.
func (c *Cache) Precision() string {
	if c.DTypeBy == "" {
		return c.DType.Name
	}
	return fmt.Sprintf("%s (%s)", c.DType.Name, c.DTypeBy)
}

const (
	float32Name  = "float32"
	bfloat16Name = "bfloat16"
)

// stateDType returns the precision of the recurrences and what decides it: the user, the file or its class, the engine.
// Where nothing does, float32 is assumed: it is the larger one, and SGLang's.
func (m *Model) stateDType(o Options) (name, by string) {
	switch {
	case !m.Stateful():
		return "", ""
	case o.StateDType != "":
		return o.StateDType, "as asked"
	case o.Serving == TRTLLM:
		return bfloat16Name, "TensorRT-LLM keeps the weights' precision"
	case m.StateDType != "":
		return m.StateDType, "the model's file or class says so"
	case o.Serving == SGLang:
		return float32Name, "SGLang's default"
	case o.Serving == VLLM:
		return bfloat16Name, "vLLM takes the model's precision"
	}
	return float32Name, "assumed: SGLang's default; vLLM takes the model's precision"
}

// States says in words in what the recurrences are counted, and why; empty where there are none.
func (c *Cache) States() string {
	if c.State == "" {
		return ""
	}
	return fmt.Sprintf("states in %s (%s)", c.State, c.StateBy)
}

// Kept are the tokens that need not move of those that a decode worker has of a request: whole pages, where pages
// count.
func (c *Cache) Kept(cached, tokens int64) int64 {
	if cached == tokens || c.Page == 0 && c.Serving == Exact {
		return cached
	}
	return cached / c.Block * c.Block
}

// Held are the bytes that a request of so many tokens takes in the memory of what the cache is of, a rank or all: more
// than moves, since vLLM does not move the last token of models with states, and pads a state to a page. ok is false
// where they do not fit 63 bits.
func (c *Cache) Held(tokens int64) (bytes int64, ok bool) {
	if c.Serving.sent(c.Model, tokens+1) == tokens {
		tokens++
	}
	kv, state, err := c.Bytes(tokens)
	page, fits := product(c.Block, c.attentionBytes())
	if err != nil || !fits {
		return 0, false
	}
	bytes = kv + state
	for i, g := range c.Model.Groups {
		if c.Serving != VLLM || !g.State.Any() {
			continue
		}
		padding, ok := product(max(page-c.entry[i], 0), int64(len(g.Layers)))
		if !ok || padding > math.MaxInt64-bytes {
			return 0, false
		}
		bytes += padding
	}
	return bytes, true
}

// Rank is the cache as one rank of tensor parallelism holds it; see [Model.Rank].
func (c *Cache) Rank(tp int64) *Cache {
	o := c.Options
	o.Ranks = 1
	r, _ := c.Model.Rank(tp).Cache(o) // it differs in numbers of heads and states alone
	r.DTypeBy = c.DTypeBy
	return r
}

// Stage is the cache of the layers from first up to, but without, end, in the blocks of the whole model.
func (c *Cache) Stage(first, end int64) *Cache {
	s, _ := c.Model.Stage(first, end).Cache(c.Options)
	s.Block, s.BlockBy, s.DTypeBy = c.Block, c.BlockBy, c.DTypeBy
	return s
}

// EntryBytes are the bytes of one entry, or of the state, in one layer of group i.
func (c *Cache) EntryBytes(i int) int64 { return c.entry[i] }

// LayerBytes are the bytes that each layer of group i keeps of the tokens from, up to but without, to, of a request of
// so many. What does not depend on the tokens comes with the last ones: a state is there only then.
func (c *Cache) LayerBytes(i int, from, to, tokens int64) (int64, bool) {
	g := c.Model.Groups[i]
	if from >= to {
		return 0, true
	}
	if g.Fixes() {
		if to < tokens {
			return 0, true
		}
		return product(g.Entries(tokens), c.entry[i])
	}
	if c.Serving != Exact {
		return c.servedBytes(i, from, to, tokens)
	}
	if g.Last > 0 && g.Every <= 1 {
		from = max(from, tokens-g.Last)
		to = max(from, to)
		return product(to-from, c.entry[i])
	}
	if g.Kind == SharedKV {
		return 0, true
	}
	every := max(g.Every, 1)
	return product(to/every-from/every, c.entry[i])
}

// servedBytes are those of LayerBytes as an engine sends them: whole pages.
func (c *Cache) servedBytes(i int, from, to, tokens int64) (int64, bool) {
	g := c.Model.Groups[i]
	tokens = c.Serving.sent(c.Model, tokens)
	first, end := int64(0), ceilDiv(tokens, c.Block)*c.Block
	if g.Last > 0 {
		first, end = c.Serving.window(c.Model, g.Keep, tokens, c.Block)
	}
	page := func(token int64) int64 { return min(ceilDiv(token, c.Block)*c.Block, end) }
	from, to = max(page(from), first), max(page(to), first)
	every := max(g.Every, 1)
	if c.Block%every != 0 { // smaller pages than an entry has tokens
		return product(min(to, tokens)/every-min(from, tokens)/every, c.entry[i])
	}
	whole, ok := c.pageBytes(i)
	if !ok {
		return 0, false
	}
	return product((to-from)/c.Block, whole)
}

// pageBytes are the bytes of a page of one layer of group i, as the engine pads it.
func (c *Cache) pageBytes(i int) (int64, bool) {
	g := c.Model.Groups[i]
	whole, ok := product(c.Block/max(g.Every, 1), c.entry[i])
	if unit := c.padding(g.Keep); ok && unit > 1 {
		whole = ceilDiv(whole, unit) * unit
	}
	return whole, ok
}

// Blocks are the pages that each layer of group i moves of a request of so many tokens: how many, and of how many
// bytes. Without an engine they are those in which the tokens lie that the layer keeps; what does not go into pages is
// a block by itself.
func (c *Cache) Blocks(i int, tokens int64) (count, bytes int64) { return c.BlocksFrom(i, 0, tokens) }

// BlocksFrom are those of Blocks without the pages before a token, which is the first one of a page.
func (c *Cache) BlocksFrom(i int, from, tokens int64) (count, bytes int64) {
	g, every := c.Model.Groups[i], max(c.Model.Groups[i].Every, 1)
	switch {
	case g.Kind == SharedKV || from >= tokens && from > 0:
		return 0, 0
	case g.State.Any():
		return 1, c.entry[i]
	case c.Block%every != 0:
		entries := g.Entries(tokens)
		return min(entries, tokens/every-from/every), c.entry[i]
	}
	bytes, _ = c.pageBytes(i)
	switch {
	case g.Fixed > 0:
		return ceilDiv(g.Fixed, c.Block), bytes
	case c.Serving != Exact:
		all, _ := c.servedBytes(i, from, tokens, tokens)
		return all / bytes, bytes
	case g.Last > 0 && tokens > g.Last:
		return ceilDiv(tokens, c.Block) - max(tokens-g.Last, from)/c.Block, bytes
	}
	return ceilDiv(tokens/every, c.Block/every) - from/c.Block, bytes
}

// padding returns of which number the bytes of a page are a multiple. DeepSeek-V4 has such pages; they hold whole
// entries of all its ratios.
func (c *Cache) padding(k Keep) int64 {
	const tokens = 128
	switch {
	case k.Packing != packingV4 && !(k.Kind == Indexer && k.Every > 1), c.Block%tokens != 0, c.Serving == TRTLLM:
		return 1
	case c.DType.Name == fp8DSMLA:
		return 576
	case c.Serving == VLLM:
		return 512
	}
	return 1
}

// GroupBytes are LayerBytes in all layers of the group.
func (c *Cache) GroupBytes(i int, from, to, tokens int64) (int64, bool) {
	layer, ok := c.LayerBytes(i, from, to, tokens)
	if !ok {
		return 0, false
	}
	return product(layer, int64(len(c.Model.Groups[i].Layers)))
}

// Bytes are those of a request of so many tokens: kv grows with them or is part of the cache, state is of fixed size.
// What does not fit 63 bits is an error.
func (c *Cache) Bytes(tokens int64) (kv, state int64, err error) {
	for i, g := range c.Model.Groups {
		n, ok := c.GroupBytes(i, 0, tokens, tokens)
		into := &kv
		if g.State.Any() {
			into = &state
		}
		if !ok || n > math.MaxInt64-kv-state {
			return 0, 0, fault.New(fault.Input, "the cache that %s keeps of %d tokens does not fit 63 bits", c.Model.Name, tokens)
		}
		*into += n
	}
	return kv, state, nil
}

// TokenBytes are the bytes of one token more of a long request: in all layers but those with a window, of entries for
// several tokens its share. once counts the bytes that windows and encoders' layers keep of a request that is longer
// than they are, state the states; what does not fit 63 bits is the largest number that does.
func (c *Cache) TokenBytes() (growing float64, once, state int64) {
	for i, g := range c.Model.Groups {
		entries, into := g.Last, &once // that do not grow
		switch {
		case g.State.Any():
			entries, into = 1, &state
		case g.Fixes():
			entries = g.Fixed
		case g.Last == 0:
			growing += float64(c.entry[i]) * float64(len(g.Layers)) / float64(max(g.Every, 1))
		}
		layer, fits := product(entries, c.entry[i])
		all, fit := product(layer, int64(len(g.Layers)))
		if !fits || !fit || all > math.MaxInt64-*into {
			all = math.MaxInt64 - *into
		}
		*into += all
	}
	return growing, once, state
}

// product multiplies numbers that are not negative and reports whether the result fits.
func product(a, b int64) (int64, bool) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	return int64(low), high == 0 && low <= math.MaxInt64
}
