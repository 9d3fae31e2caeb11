package job

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"perigee/internal/ep/moe"
)

// Copies copies what an iteration of dispatch and combine moves through memory, in the same pieces and between areas
// of the same sizes, by one thread for each rank, and computes nothing: tokens to messages, messages to the ranks of
// their experts, to where they are packed, rows back, and rows to the token that they are summed for. It returns the
// median time of so many passes. ranks divides topK.
func Copies(ranks, tokens, hidden, topK, passes int) time.Duration {
	c := newCopier(ranks, tokens, hidden, topK)
	var done sync.WaitGroup
	for rank := range ranks {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for pass := range passes + 2 {
				start := time.Now()
				c.pass(rank, pass%2)
				if rank == 0 && pass >= 2 {
					c.times = append(c.times, time.Since(start))
				}
			}
		})
	}
	done.Wait()
	slices.Sort(c.times)
	median := c.times[len(c.times)/2]
	c.ranks = nil
	debug.FreeOSMemory() // what is measured next needs as much
	return median
}

// copier has the areas of all ranks.
type copier struct {
	tokens, messages    int // of each rank
	token, message, row int // bytes
	ranks               []copierRank
	arrived             atomic.Int64
	times               []time.Duration
	topK                int
}

type copierRank struct {
	input, quantised, packed, rows, output []byte
	slots, places                          [2][]byte // an iteration uses the one, the next the other
}

// newCopier allocates what the ranks of an exchange would, so that the copies meet caches of the same state.
func newCopier(ranks, tokens, hidden, topK int) *copier {
	c := &copier{
		tokens: tokens, messages: tokens * topK, topK: topK, row: 2 * hidden,
		token: 2 * hidden, message: moe.HeaderBytes + int(moe.FP8.TokenBytes(hidden)), ranks: make([]copierRank, ranks),
	}
	for i := range c.ranks {
		c.ranks[i] = copierRank{
			input: area(tokens * c.token), quantised: area(tokens * c.message), output: area(tokens * c.row),
			packed: area(c.messages * c.message), rows: area(c.messages * c.row),
		}
		for parity := range 2 {
			c.ranks[i].slots[parity] = area(c.messages * c.message)
			c.ranks[i].places[parity] = area(c.messages * c.row)
		}
	}
	return c
}

// area is memory whose pages are there.
func area(size int) []byte {
	b := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
	return b
}

// pass is one iteration of a rank. Message i goes to rank i % ranks, and what lies in another order at the other end
// is strewn over it as routing does.
func (c *copier) pass(rank, parity int) {
	me, ranks := &c.ranks[rank], len(c.ranks)
	for t := range c.tokens {
		copy(piece(me.quantised, t, c.message), piece(me.input, t, c.token))
	}
	for i := range c.messages {
		at := i/ranks*ranks + rank // in turns with what the other ranks send there
		copy(piece(c.ranks[(i+rank)%ranks].slots[parity], at, c.message),
			piece(me.quantised, c.strewn(i)/c.topK, c.message))
	}
	c.meet()
	for i := range c.messages {
		copy(piece(me.packed, c.strewn(i), c.message), piece(me.slots[parity], i, c.message))
	}
	for i := range c.messages {
		at := i/ranks*ranks + rank
		copy(piece(c.ranks[(i+rank)%ranks].places[parity], at, c.row), piece(me.rows, i, c.row))
	}
	c.meet()
	for i := range c.messages {
		copy(piece(me.output, i/c.topK, c.row), piece(me.places[parity], c.strewn(i), c.row))
	}
}

func piece(area []byte, i, size int) []byte { return area[i*size : (i+1)*size] }

// strewn is another place for each of the messages.
func (c *copier) strewn(i int) int { return i * stride % c.messages }

// stride is a prime larger than any number of choices of a token, and no divisor of a number of messages.
const stride = 7919

// meet waits for all ranks.
func (c *copier) meet() {
	n := int64(len(c.ranks))
	target := (c.arrived.Add(1) + n - 1) / n * n
	for c.arrived.Load() < target {
		runtime.Gosched()
	}
}
