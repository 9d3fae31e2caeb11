package spmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"

	"perigee/internal/fault"
)

// BroadcastValue is Broadcast for a value that JSON can carry.
func BroadcastValue[T any](g *Group, root int, v T) (T, error) {
	var data []byte
	if g.me == root {
		var err error
		if data, err = json.Marshal(v); err != nil {
			return v, err
		}
	}
	data, err := g.Broadcast(root, data)
	if err != nil {
		return v, err
	}
	return decode[T](data)
}

// GatherValue is Gather for values that JSON can carry.
func GatherValue[T any](g *Group, root int, v T) ([]T, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	all, err := g.Gather(root, data)
	if err != nil {
		return nil, err
	}
	return decodeAll[T](all)
}

// AllGatherValue is AllGather for values that JSON can carry.
func AllGatherValue[T any](g *Group, v T) ([]T, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	all, err := g.AllGather(data)
	if err != nil {
		return nil, err
	}
	return decodeAll[T](all)
}

// AllToAllValue is AllToAll for values that JSON can carry.
func AllToAllValue[T any](g *Group, v []T) ([]T, error) {
	pieces := make([][]byte, len(v))
	for i := range v {
		var err error
		if pieces[i], err = json.Marshal(v[i]); err != nil {
			return nil, err
		}
	}
	all, err := g.AllToAll(pieces)
	if err != nil {
		return nil, err
	}
	return decodeAll[T](all)
}

func decode[T any](data []byte) (T, error) {
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("value from another rank: %w", err)
	}
	return v, nil
}

func decodeAll[T any](all [][]byte) ([]T, error) {
	if all == nil {
		return nil, nil
	}
	values := make([]T, len(all))
	for i, data := range all {
		var err error
		if values[i], err = decode[T](data); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// Number is what AllReduce can combine.
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

// AllReduce combines the members' slices element by element, everywhere. All
// must have the same length. The order follows from the group alone, so
// floating-point sums are the same at all ranks and in every run. Numbers must be
// finite, sums too.
func AllReduce[T Number](g *Group, v []T, how Combine) ([]T, error) {
	combine, err := combiner[T](how)
	if err != nil {
		return nil, err
	}
	mine, err := json.Marshal(contribution[T]{g.w.rank, v})
	if err != nil {
		return nil, err
	}
	all, err := collective(g, opReduce, func(ctx context.Context, seq uint32) ([]byte, error) {
		return g.upAndDown(ctx, opReduce, seq, mine, func(mine, theirs []byte) ([]byte, error) {
			return reduce(mine, theirs, combine)
		})
	})
	if err != nil {
		return nil, err
	}
	sum, err := decode[contribution[T]](all)
	return sum.Values, err
}

// contribution is what a rank, or all ranks below it in a tree, give to a reduction.
type contribution[T Number] struct {
	Rank   int `json:"r"`
	Values []T `json:"v"`
}

func reduce[T Number](mine, theirs []byte, combine func(a, b T) T) ([]byte, error) {
	a, err := decode[contribution[T]](mine)
	if err != nil {
		return nil, err
	}
	b, err := decode[contribution[T]](theirs)
	if err != nil {
		return nil, err
	}
	if len(a.Values) != len(b.Values) {
		return nil, fault.New(fault.Script, "reduce: rank %d gave %d numbers, rank %d gave %d", a.Rank, len(a.Values), b.Rank, len(b.Values))
	}
	for i := range a.Values {
		a.Values[i] = combine(a.Values[i], b.Values[i])
		if math.IsInf(float64(a.Values[i]), 0) {
			return nil, fault.New(fault.Script, "reduce: number %d of %d becomes infinite when that of rank %d is added", i+1, len(a.Values), b.Rank)
		}
	}
	return json.Marshal(a)
}

func combiner[T cmp.Ordered](how Combine) (func(a, b T) T, error) {
	switch how {
	case Sum:
		return func(a, b T) T { return a + b }, nil
	case Min:
		return func(a, b T) T { return min(a, b) }, nil
	case Max:
		return func(a, b T) T { return max(a, b) }, nil
	}
	return nil, fault.New(fault.Script, "unknown reduction %q: want sum, min or max", how)
}
