package replay

import (
	"fmt"
	"math/big"
	"math/bits"
	"strconv"

	"perigee/internal/model"
	"perigee/internal/traffic/load"
)

// geometry cuts the cache of a request into descriptors.
type geometry struct {
	cache  *model.Cache
	move   model.Move
	pairs  int64     // of ranks that exchange a cache
	paged  bool      // each page is a descriptor, or each run of pages
	run    int64     // contiguous pages in a descriptor
	layers [][]int64 // by run of layers, how many of each group

	num, den uint64 // the scale
}

func newGeometry(o *Options) geometry {
	g := geometry{cache: o.Model, move: o.move(), paged: o.paged(), run: max(o.RunLength, 1)}
	g.pairs = g.move.Pairs()
	g.num, g.den = fraction(o.Scale)
	groups, runs := o.Model.Model.Groups, int64(max(o.LayerRuns, 1))
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
	return g
}

// paged reports whether pages move.
func (o *Options) paged() bool { return o.Model.Page > 0 || o.Model.Serving != model.Exact }

// Page are the tokens of a descriptor's page; 0: descriptors hold all of a group of layers.
func (s *Schedule) Page() int64 {
	if !s.geometry.paged {
		return 0
	}
	return s.Model.Block
}

// Served says in words what of the engine's choices counts, and who receives copies.
func (o *Options) Served() []string {
	var texts []string
	if o.Model.Serving != model.Exact {
		texts = append(texts, fmt.Sprintf("as %v, %s", o.Model.Serving, o.Model.BlockText()))
	}
	if o.RunLength > 1 {
		texts = append(texts, fmt.Sprintf("runs of %d contiguous pages, a descriptor each", o.RunLength))
	}
	if text := o.Copies(); text != "" {
		texts = append(texts, text)
	}
	return texts
}

// Copies says in words who receives the same bytes as others; see [model.Move.Text].
func (o *Options) Copies() string { return o.move().Text(o.Model.Model) }

// move is how a cache goes from the ranks of a prefill worker to those of a decode worker.
func (o *Options) move() model.Move {
	return model.Move{Serving: o.Model.Serving, Replicas: o.Replicas, From: int64(o.Prefill.TP), To: int64(o.Decode.TP)}
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

// amount is what moves of a group of layers in one way: so many descriptors before they are cut among the pairs of
// ranks.
type amount struct {
	share        model.Share
	count, bytes int64
}

// amounts appends what moves of the tokens from, up to the last, of a request of so many, in a run of layers. Of the
// contiguous pages of a layer the last run may have fewer.
func (g *geometry) amounts(list []amount, run int, from, tokens int64) []amount {
	if from >= tokens {
		return list
	}
	for i, layers := range g.layers[run] {
		if layers == 0 {
			continue
		}
		keep, count, each := g.cache.Model.Groups[i].Keep, int64(1), int64(0)
		if g.paged {
			count, each = g.cache.BlocksFrom(i, from, tokens)
			count *= layers
		} else {
			bytes, _ := g.cache.LayerBytes(i, from, tokens, tokens) // Make has seen that all of them fit
			each = bytes * layers
		}
		states := layers // in a descriptor
		if g.paged {
			states = 1
		}
		if count == 0 || each == 0 {
			continue
		}
		for _, lot := range g.move.Lots(keep, each, states) {
			list = g.runs(list, amount{lot.Share, count, lot.Bytes}, layers)
		}
	}
	return list
}

// runs appends an amount with its pages, which are those of so many layers, in runs.
func (g *geometry) runs(list []amount, x amount, layers int64) []amount {
	if g.run == 1 {
		return append(list, x)
	}
	pages := x.count / layers
	if whole := pages / g.run; whole > 0 {
		list = append(list, amount{x.share, whole * layers, g.run * x.bytes})
	}
	if rest := pages % g.run; rest > 0 {
		list = append(list, amount{x.share, layers, rest * x.bytes})
	}
	return list
}

// descriptors appends what a pair of ranks moves of a run of layers. Without pages each amount is one descriptor, and
// the scaled ones of all pairs that move different bytes add up to all bytes, scaled.
func (g *geometry) descriptors(list []load.DescriptorRun, amounts []amount, pair int64) []load.DescriptorRun {
	var before int64
	for _, x := range amounts {
		if g.paged {
			count, bytes := x.share.Pages(x.count, x.bytes, pair)
			list = g.equal(list, count, bytes)
			continue
		}
		after := before + x.bytes
		bytes, _ := x.share.Piece(g.scaled(after)-g.scaled(before), pair)
		if whole, _ := x.share.Piece(x.bytes, pair); bytes == 0 && whole > 0 {
			bytes = 1
		}
		list = add(list, 1, bytes)
		before = after
	}
	return list
}

// equal appends descriptors of so many bytes, scaled together and of at least one byte each.
func (g *geometry) equal(list []load.DescriptorRun, count, bytes int64) []load.DescriptorRun {
	if count == 0 || bytes == 0 {
		return list
	}
	all := max(g.scaled(count*bytes), count)
	list = add(list, all%count, all/count+1)
	return add(list, count-all%count, all/count)
}

// add appends descriptors of equal length, to the run before them where that has the same length.
func add(list []load.DescriptorRun, count, bytes int64) []load.DescriptorRun {
	switch last := len(list) - 1; {
	case count == 0 || bytes == 0:
	case last >= 0 && list[last].Bytes == bytes:
		list[last].Count += count
	default:
		list = append(list, load.DescriptorRun{Count: count, Bytes: bytes})
	}
	return list
}

// count returns the bytes that all pairs of ranks move of a run of layers, and the most descriptors of a pair.
func (g *geometry) count(run int, from, tokens int64) (bytes, pieces int64) {
	var some [8]amount
	var room [16]load.DescriptorRun
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
	room := make([]load.DescriptorRun, g.pairs*int64(most))
	from, to := int64(r.Prefill)*g.move.From, int64(s.Prefill.Ranks())+int64(r.Decode)*g.move.To
	for pair := range g.pairs {
		runs := g.descriptors(room[:0:most], amounts, pair)
		if len(runs) > 0 {
			sender, receiver := g.move.Ranks(pair)
			list = append(list, load.Part{From: int(from + sender), To: int(to + receiver), Runs: runs})
		}
		room = room[most:]
	}
	return list
}
