package matrix

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// maxDrawn is how many cells Random looks at, at most: a few seconds of work.
const maxDrawn = 1 << 30

// AllToAll makes every rank send bytes to every rank, to itself too if self. It fails on a size that CheckSize
// refuses, on negative bytes, and where the sum does not fit an int64, as all generators do.
func AllToAll(n int, bytes int64, self bool) (*Matrix, error) {
	if n > 0 && n > MaxCells/n {
		return nil, fmt.Errorf("all to all between %d ranks: wanted at most %d cells", n, MaxCells)
	}
	return generate(n, func(set setter) error {
		for i := range n {
			for j := range n {
				if i == j && !self {
					continue
				}
				if err := set(i, j, bytes); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Ring makes every rank i send bytes to rank i+step, modulo n. A negative step
// goes the other way round; a multiple of n makes every rank send to itself.
func Ring(n int, bytes int64, step int) (*Matrix, error) {
	return generate(n, func(set setter) error {
		forward := (step%n + n) % n
		for i := range n {
			if err := set(i, (i+forward)%n, bytes); err != nil {
				return err
			}
		}
		return nil
	})
}

// Incast makes every rank but root send bytes to root.
func Incast(n, root int, bytes int64) (*Matrix, error) {
	return star(n, root, func(set setter, other int) error { return set(other, root, bytes) })
}

// Outcast makes root send bytes to every other rank.
func Outcast(n, root int, bytes int64) (*Matrix, error) {
	return star(n, root, func(set setter, other int) error { return set(root, other, bytes) })
}

// star calls connect for every rank but root.
func star(n, root int, connect func(set setter, other int) error) (*Matrix, error) {
	return generate(n, func(set setter) error {
		if root < 0 || root >= n {
			return fmt.Errorf("root %d: wanted a rank of 0 to %d", root, n-1)
		}
		for other := range n {
			if other == root {
				continue
			}
			if err := connect(set, other); err != nil {
				return err
			}
		}
		return nil
	})
}

// Permutation makes every rank send bytes to one rank and receive bytes from
// one rank, never itself if n > 1. The ranks form one random cycle, drawn with
// Sattolo's algorithm, every cycle being as likely as any other. The same n
// and seed give the same matrix on every machine and with every Go release.
func Permutation(n int, bytes int64, seed uint64) (*Matrix, error) {
	return generate(n, func(set setter) error {
		draw := newDraw(seed)
		target := make([]int, n)
		for i := range target {
			target[i] = i
		}
		for i := n - 1; i > 0; i-- {
			j := int(draw.below(uint64(i)))
			target[i], target[j] = target[j], target[i]
		}
		for i, j := range target {
			if err := set(i, j, bytes); err != nil {
				return err
			}
		}
		return nil
	})
}

// Random fills each cell with the probability density (0 to 1) with a number
// of bytes drawn evenly from minBytes to maxBytes, both included. No rank
// sends to itself. The same arguments give the same matrix on every machine
// and with every Go release. As every cell is drawn, 32768 ranks are the most.
func Random(n int, density float64, minBytes, maxBytes int64, seed uint64) (*Matrix, error) {
	if !(density >= 0 && density <= 1) {
		return nil, fmt.Errorf("density %v: wanted a number of 0 to 1", density)
	}
	if minBytes < 0 || maxBytes < minBytes {
		return nil, fmt.Errorf("%d to %d bytes: wanted a smallest size of 0 or more and a largest not below it",
			minBytes, maxBytes)
	}
	if n > 0 && n > maxDrawn/n {
		return nil, fmt.Errorf("a random matrix of %d ranks: wanted at most %d cells to draw", n, maxDrawn)
	}
	return generate(n, func(set setter) error {
		draw := newDraw(seed)
		for i := range n {
			for j := range n {
				if i == j || !draw.chance(density) {
					continue
				}
				bytes := minBytes + int64(draw.below(uint64(maxBytes-minBytes)+1))
				if err := set(i, j, bytes); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// setter is Matrix.Set.
type setter func(i, j int, bytes int64) error

func generate(n int, fill func(set setter) error) (*Matrix, error) {
	if err := CheckSize(n); err != nil {
		return nil, err
	}
	m := New(n)
	if err := fill(m.Set); err != nil {
		return nil, err
	}
	return m, nil
}

// draw makes random numbers from PCG, whose stream for a seed is fixed. How a
// rand.Rand turns the stream into ranges is not promised to stay the same, so
// that is done here.
type draw struct{ source *rand.PCG }

func newDraw(seed uint64) draw { return draw{rand.NewPCG(seed, 0)} }

// below returns a number of 0 to n-1, each equally likely; n must not be 0.
// The source's word, seen as a fraction of 2^64, is multiplied by n; the few
// words that would make some numbers likelier are drawn again (Lemire, "Fast
// random integer generation in an interval", 2019).
func (d draw) below(n uint64) uint64 {
	high, low := bits.Mul64(d.source.Uint64(), n)
	for reject := -n % n; low < reject; {
		high, low = bits.Mul64(d.source.Uint64(), n)
	}
	return high
}

// chance is true with probability p, in steps of 2^-53.
func (d draw) chance(p float64) bool {
	return float64(d.source.Uint64()>>11)*0x1p-53 < p
}
