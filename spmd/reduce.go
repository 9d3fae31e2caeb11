package spmd

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/pack"
	"perigee/spmd/host"
)

// Number lists the types that AllReduce can combine.
type Number interface {
	~int | ~int64 | ~float64
}

// Combine is a reduction of two numbers.
type Combine string

// The reductions.
const (
	Sum Combine = "sum"
	Min Combine = "min"
	Max Combine = "max"
)

// combines lists the reductions as they stand in message headers.
var combines = []Combine{Sum, Min, Max}

// AllReduce combines the members' slices element by element, everywhere. All must have the same length, and how
// must be the same at all members. The order follows from the group alone, so floating-point sums are the same
// at all ranks and in every run. Numbers must be finite, sums too.
func AllReduce[T Number](g *Group, v []T, how Combine) ([]T, error) {
	at := slices.Index(combines, how)
	if at < 0 {
		return nil, fault.New(fault.Script, "unknown reduction %q: want sum, min or max", how)
	}
	for i, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fault.New(fault.Script, "reduce: number %d of %d is %v, want a finite one", i+1, len(v), f)
		}
	}
	mine := contribution[T]{g.w.rank, v}.encode()
	// The variant of the reduction travels where other collectives have their root.
	all, err := rooted(g, opReduce, variantOf[T](at), func(ctx context.Context, seq uint32) ([]byte, error) {
		return g.upAndDown(ctx, opReduce, seq, mine, func(mine, theirs []byte) ([]byte, error) {
			return reduce[T](mine, theirs, how)
		})
	})
	if err != nil {
		return nil, err
	}
	sum, err := decodeContribution[T](all)
	return sum.values, err
}

// Latest returns the largest first number and the largest second number of all members. None may be negative. It is
// for what must be known soon: inside a host it takes as long as a barrier.
func (g *Group) Latest(v [2]int64) ([2]int64, error) {
	if g.leaders != nil || g.local == nil {
		got, err := AllReduce(g, v[:], Max)
		if err != nil {
			return v, err
		}
		return [2]int64(got), nil
	}
	seq := g.beginBarrier()
	if err := g.w.aborted(); err != nil {
		return v, err
	}
	got, err := g.local.Max(seq, g.w.timeout, v)
	if errors.Is(err, host.ErrMixed) {
		return v, fault.New(fault.Script, "ranks disagree on what to do: rank %d agrees with others on an instant to start at (call %d of this group), another of this host is in %s (call %d)",
			g.w.rank, seq, opNames[opBarrier], seq).WithHint(disagreeHint)
	}
	if err != nil {
		return v, g.explain(opBarrier, err)
	}
	return got, nil
}

func variantOf[T Number](how int) int {
	if isFloat[T]() {
		return how + len(combines)
	}
	return how
}

// reduction names a variant for the user.
func reduction(variant int) string {
	kind := "whole numbers"
	if variant >= len(combines) {
		variant, kind = variant-len(combines), "numbers"
	}
	if variant < 0 || variant >= len(combines) {
		return opNames[opReduce]
	}
	return opNames[opReduce] + " (" + string(combines[variant]) + " of " + kind + ")"
}

func isFloat[T Number]() bool {
	half := 0.5
	return T(half) != 0
}

// contribution holds the part of a rank, or of all ranks below it in a tree, in a reduction.
type contribution[T Number] struct {
	rank   int
	values []T
}

func (c contribution[T]) encode() []byte {
	b := binary.AppendUvarint(make([]byte, 0, 16+8*len(c.values)), uint64(c.rank))
	b = binary.AppendUvarint(b, uint64(len(c.values)))
	for _, v := range c.values {
		if isFloat[T]() {
			b = pack.AppendFloat(b, float64(v))
		} else {
			b = binary.AppendVarint(b, int64(v))
		}
	}
	return b
}

func decodeContribution[T Number](data []byte) (contribution[T], error) {
	r := pack.Read(data)
	c := contribution[T]{rank: r.Number(maxNumber), values: make([]T, r.Count())}
	for i := range c.values {
		if isFloat[T]() {
			c.values[i] = T(r.Float())
		} else {
			c.values[i] = T(r.Signed())
		}
	}
	return c, r.End("numbers to reduce")
}

// reduce combines the contributions of two ranks. Where integers overflow, or lengths differ, the error names the rank
// whose contribution came last, which is the closest that is known.
func reduce[T Number](mine, theirs []byte, how Combine) ([]byte, error) {
	a, err := decodeContribution[T](mine)
	if err != nil {
		return nil, err
	}
	b, err := decodeContribution[T](theirs)
	if err != nil {
		return nil, err
	}
	if len(a.values) != len(b.values) {
		return nil, fault.New(fault.Script, "reduce: rank %d gave %d numbers, rank %d gave %d",
			a.rank, len(a.values), b.rank, len(b.values))
	}
	for i, x := range b.values {
		was := a.values[i]
		a.values[i] = combine(was, x, how)
		if how == Sum && overflows(was, x, a.values[i]) {
			return nil, fault.New(fault.Script, "reduce: number %d of %d overflows when that of rank %d is added", i+1,
				len(a.values), b.rank)
		}
	}
	return a.encode(), nil
}

func combine[T Number](a, b T, how Combine) T {
	switch how {
	case Min:
		return min(a, b)
	case Max:
		return max(a, b)
	}
	return a + b
}

// overflows reports whether sum is not the sum of a and b: infinite, or, of whole numbers, wrapped around.
func overflows[T Number](a, b, sum T) bool {
	if isFloat[T]() {
		return math.IsInf(float64(sum), 0)
	}
	return (b > 0 && sum < a) || (b < 0 && sum > a)
}
