package figures

import (
	"slices"

	"perigee/internal/trace"
)

// lruBlocks are the sizes of the caches of [Hits.LRU].
var lruBlocks = []int{1000, 10_000, 50_000}

// prompts are the hash ids of requests, numbered by their first use.
type prompts struct {
	requests    []trace.Request
	blocks      [][]int32
	distinct    int
	blockTokens int64
}

// tokens are those of the first n blocks of prompt i, whose last block may not be full.
func (p *prompts) tokens(i, n int) int64 { return min(int64(n)*p.blockTokens, p.requests[i].Input) }

// blocksAndHits describes hash ids, and what caches have of them. hits are the tokens of each request that an infinite
// cache has.
func blocksAndHits(requests []trace.Request, blockTokens int64) (b *Blocks, h *Hits, hits []int64) {
	p := &prompts{requests: requests, blocks: make([][]int32, len(requests)), blockTokens: blockTokens}
	ids := p.number()
	b = p.describe(ids)
	h = &Hits{}
	tail, found := p.lru(false)
	head, _ := p.lru(true)
	var full, blocks, all int64
	hits = make([]int64, len(requests))
	for i, n := range found {
		input := requests[i].Input
		hits[i] = p.tokens(i, n)
		h.HitTokens += hits[i]
		full += min(int64(n), input/blockTokens) * blockTokens
		blocks += int64(n)
		all += input
		if hits[i] > 0 {
			h.RequestsWithHit++
			if hits[i] == input {
				h.RequestsFully++
			}
		}
	}
	if all > 0 {
		h.Token, h.FullBlocks = float64(h.HitTokens)/float64(all), float64(full)/float64(all)
	}
	h.Block = float64(blocks) / float64(b.References)
	h.AnyPosition = float64(b.References-b.Distinct) / float64(b.References)
	h.Request = tail.at(p.distinct).Request
	for _, blocks := range lruBlocks {
		point := tail.at(blocks)
		h.LRU = append(h.LRU, LRU{blocks, point.Token, head.at(blocks).Token, point.Request})
	}
	for blocks := 1; ; blocks *= 2 {
		h.Curve = append(h.Curve, tail.at(blocks))
		if blocks >= p.distinct {
			return b, h, hits
		}
	}
}

// number gives ids numbers in the order of their first use, and returns the ids.
func (p *prompts) number() (ids []uint64) {
	numbers := map[uint64]int32{}
	for i, r := range p.requests {
		p.blocks[i] = make([]int32, len(r.HashIDs))
		for k, id := range r.HashIDs {
			number, ok := numbers[id]
			if !ok {
				number = int32(len(ids))
				numbers[id], ids = number, append(ids, id)
			}
			p.blocks[i][k] = number
		}
	}
	p.distinct = len(ids)
	return ids
}

// rules are those that the hash ids of Mooncake's traces follow, and those of [Blocks.Checks].
var rules = []string{
	"ids count from 0 in the order of first use",
	"an id always has the same index, and the same id before it",
	"a prompt has as many ids as blocks",
	"of a block seen before, all blocks before it were, too",
}

// describe counts the uses of blocks, and checks the rules.
func (p *prompts) describe(ids []uint64) *Blocks {
	type place struct{ index, parent int32 }
	b := &Blocks{Tokens: p.blockTokens, Distinct: int64(p.distinct)}
	uses, places, last := make([]int64, p.distinct), make([]place, p.distinct), make([]int, p.distinct)
	for _, rule := range rules {
		b.Checks = append(b.Checks, Check{Rule: rule})
	}
	requests := make([]int64, p.distinct) // that have the block
	for i, blocks := range p.blocks {
		r := p.requests[i]
		isDense, hasParent, isPrefix, isNew, before := true, true, true, false, int32(-1)
		for k, n := range blocks {
			at := place{int32(k), before}
			if uses[n] == 0 {
				places[n], isNew = at, true
			}
			isPrefix = isPrefix && (uses[n] == 0 || !isNew)
			isDense = isDense && ids[n] == uint64(n)
			hasParent = hasParent && places[n] == at
			uses[n]++
			if last[n] != i+1 {
				last[n], requests[n] = i+1, requests[n]+1
			}
			before = n
		}
		b.References += int64(len(blocks))
		hasAll := int64(len(blocks)) == (r.Input+p.blockTokens-1)/p.blockTokens
		for rule, follows := range []bool{isDense, hasParent, hasAll, isPrefix} {
			b.Checks[rule].note(follows, r.Line)
		}
	}
	for n, count := range uses {
		if count == 1 {
			b.UsedOnce++
		}
		if requests[n] > b.HottestRequests {
			b.Hottest, b.HottestRequests = ids[n], requests[n]
		}
	}
	b.UsedOnceShare = float64(b.UsedOnce) / float64(b.Distinct)
	return b
}

// note counts a request that breaks the rule.
func (c *Check) note(follows bool, line int) {
	if follows {
		return
	}
	if c.Broken++; c.Broken == 1 {
		c.Line = line
	}
}

// ratios are hit ratios of caches of all sizes.
type ratios struct {
	tokens   []int64   // hit in caches of this many blocks, and not in smaller ones
	requests []float64 // the sum of requests' shares of such tokens
	all      int64     // tokens
	counted  int       // requests that have tokens
}

// at is the hit ratio of a cache of so many blocks.
func (r *ratios) at(blocks int) Point {
	p := Point{Blocks: blocks}
	var hit int64
	for n := 0; n <= min(blocks, len(r.tokens)-1); n++ {
		hit += r.tokens[n]
		p.Request += r.requests[n]
	}
	if r.counted > 0 {
		p.Token, p.Request = float64(hit)/float64(r.all), p.Request/float64(r.counted)
	}
	return p
}

// lru returns what caches of all sizes hit of which the least recently used block goes first, and how many leading
// blocks of each prompt a cache without end has. It is Mattson's stack algorithm (IBM Systems Journal 9, 1970): a cache
// has a block if no more blocks than it holds were used since, the block itself included. A prompt uses its blocks
// after it was looked up, its head or its tail last.
func (p *prompts) lru(headLast bool) (r *ratios, found []int) {
	r = &ratios{tokens: make([]int64, p.distinct+1), requests: make([]float64, p.distinct+1)}
	found = make([]int, len(p.blocks))
	references := 0
	for _, blocks := range p.blocks {
		references += len(blocks)
	}
	lastUse := make([]int, p.distinct) // the time, from 1
	used := make(fenwick, references+1)
	now, live := 0, 0
	for i, blocks := range p.blocks {
		input := p.requests[i].Input
		r.all += input
		if input > 0 {
			r.counted++
		}
		size := 0 // that has all blocks up to here
		for n, b := range blocks {
			if lastUse[b] == 0 {
				break
			}
			size = max(size, live-used.sum(lastUse[b]-1))
			found[i] = n + 1
			if tokens := p.tokens(i, n+1) - p.tokens(i, n); tokens > 0 {
				r.tokens[size] += tokens
				r.requests[size] += float64(tokens) / float64(input)
			}
		}
		if headLast {
			blocks = slices.Clone(blocks)
			slices.Reverse(blocks)
		}
		for _, b := range blocks {
			if lastUse[b] > 0 {
				used.add(lastUse[b], -1)
				live--
			}
			now, live = now+1, live+1
			lastUse[b] = now
			used.add(now, 1)
		}
	}
	return r, found
}

// fenwick holds numbers at places from 1, and adds up those to a place in the logarithm of how many there are.
type fenwick []int32

func (f fenwick) add(place int, n int32) {
	for ; place < len(f); place += place & -place {
		f[place] += n
	}
}

func (f fenwick) sum(last int) int {
	var n int32
	for ; last > 0; last &= last - 1 {
		n += f[last]
	}
	return int(n)
}
