package replay

import (
	"math/big"
	"math/bits"
	"strconv"

	"perigee/internal/model"
	"perigee/internal/traffic/load"
)

// geometry cuts the cache of a request into descriptors.
type geometry struct {
	cache  *model.Cache
	paged  bool
	a, b   int64     // ranks of a prefill and of a decode worker
	pairs  int64     // of ranks that exchange a cache; see model.Pairs
	layers [][]int64 // by run of layers, how many of each group
	copies []int64   // by group, pairs that share the same part of a page

	num, den uint64 // the scale
}

func newGeometry(o *Options) (g geometry, err error) {
	g = geometry{cache: o.Model, paged: o.PageTokens > 0, a: int64(o.Prefill.TP), b: int64(o.Decode.TP)}
	if g.paged {
		choice := o.Model.Options
		choice.Page = o.PageTokens
		if g.cache, err = o.Model.Model.Cache(choice); err != nil {
			return g, err
		}
	}
	g.pairs = model.Pairs(g.a, g.b)
	g.num, g.den = fraction(o.Scale)
	groups, runs := o.Model.Model.Groups, int64(max(o.LayerRuns, 1))
	for _, group := range groups {
		g.copies = append(g.copies, group.Copies(g.pairs))
	}
	first := int64(0)
	for run := range runs {
		end := first + model.EvenPart(o.Model.Model.Layers, runs, run)
		counts := make([]int64, len(groups))
		for i, group := range groups {
			for _, layer := range group.Layers {
				if layer >= first && layer < end {
					counts[i]++
				}
			}
		}
		g.layers, first = append(g.layers, counts), end
	}
	return g, nil
}

// fraction is a scale as the decimal number that it was given as. What does not fit is rounded.
func fraction(scale float64) (num, den uint64) {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(scale, 'g', -1, 64))
	if !ok || !r.Num().IsUint64() || !r.Denom().IsUint64() {
		return uint64(scale * (1 << 63)), 1 << 63
	}
	return r.Num().Uint64(), r.Denom().Uint64()
}

// scaled is so many bytes times the scale, rounded down.
func (g *geometry) scaled(n int64) int64 {
	if g.num == g.den {
		return n
	}
	high, low := bits.Mul64(uint64(n), g.num)
	quotient, _ := bits.Div64(high, low, g.den) // fits, as num <= den
	return int64(quotient)
}

// amount is what moves of a group of layers: so many descriptors before they are cut among the pairs of ranks.
type amount struct {
	group        int
	count, bytes int64
}

// amounts appends what moves of the tokens from, up to the last, of a request of so many, in a run of layers.
func (g *geometry) amounts(list []amount, run int, from, tokens int64) []amount {
	if from >= tokens {
		return list
	}
	for i, layers := range g.layers[run] {
		a := amount{group: i, count: layers}
		if g.paged {
			a.count, a.bytes = g.cache.BlocksFrom(i, from, tokens)
			a.count *= layers
		} else if layers > 0 {
			bytes, _ := g.cache.LayerBytes(i, from, tokens, tokens) // Make has seen that all of them fit
			a.count, a.bytes = 1, bytes*layers
		}
		if a.count > 0 && a.bytes > 0 {
			list = append(list, a)
		}
	}
	return list
}

// descriptors appends what a pair of ranks moves of a run of layers. Without pages each group is one descriptor, and
// what a pair moves together is its [model.PairPart] of all bytes, scaled. A page is cut by the heads or states that
// ranks hold of it; pairs that hold the same share the pages.
func (g *geometry) descriptors(list []load.Run, amounts []amount, pair int64) []load.Run {
	part := func(bytes int64) int64 { return model.PairPart(bytes, g.a, g.b, pair) }
	var before int64
	for _, x := range amounts {
		if g.paged {
			copies := g.copies[x.group]
			bytes := model.EvenPart(x.bytes, g.pairs/copies, pair/copies)
			list = g.equal(list, model.EvenPart(x.count, copies, pair%copies), bytes)
			continue
		}
		after := before + x.bytes
		bytes := part(g.scaled(after)) - part(g.scaled(before))
		if bytes == 0 && part(after) > part(before) {
			bytes = 1
		}
		list = add(list, 1, bytes)
		before = after
	}
	return list
}

// equal appends descriptors of so many bytes, scaled together and of at least one byte each.
func (g *geometry) equal(list []load.Run, count, bytes int64) []load.Run {
	if count == 0 || bytes == 0 {
		return list
	}
	all := max(g.scaled(count*bytes), count)
	list = add(list, all%count, all/count+1)
	return add(list, count-all%count, all/count)
}

// add appends descriptors of equal length, to the run before them where that has the same length.
func add(list []load.Run, count, bytes int64) []load.Run {
	switch last := len(list) - 1; {
	case count == 0 || bytes == 0:
	case last >= 0 && list[last].Bytes == bytes:
		list[last].Count += count
	default:
		list = append(list, load.Run{Count: count, Bytes: bytes})
	}
	return list
}

// count returns the bytes that all pairs of ranks move of a run of layers, and the most descriptors of a pair.
func (g *geometry) count(run int, from, tokens int64) (bytes, pieces int64) {
	var some [8]amount
	var room [16]load.Run
	amounts := g.amounts(some[:0], run, from, tokens)
	for pair := range g.pairs {
		var n int64
		for _, x := range g.descriptors(room[:0], amounts, pair) {
			bytes += x.Count * x.Bytes
			n += x.Count
		}
		pieces = max(pieces, n)
	}
	return bytes, pieces
}

// Parts appends what a transfer moves between which ranks to a list. It is called often.
func (s *Schedule) Parts(list []load.Part, transfer int) []load.Part {
	t := s.Transfers[transfer]
	r := &s.Requests[t.Request]
	var some [8]amount
	g := &s.geometry
	amounts := g.amounts(some[:0], t.Run, r.Input-r.Moved, r.Input)
	most := 2 * len(amounts) // runs of a pair, where pages do not divide
	room := make([]load.Run, g.pairs*int64(most))
	from, to := int64(r.Prefill)*g.a, int64(s.Prefill.Ranks())+int64(r.Decode)*g.b
	for pair := range g.pairs {
		runs := g.descriptors(room[:0:most], amounts, pair)
		if len(runs) > 0 {
			sender, receiver := from+pair*g.a/g.pairs, to+pair*g.b/g.pairs
			list = append(list, load.Part{From: int(sender), To: int(receiver), Runs: runs})
		}
		room = room[most:]
	}
	return list
}
