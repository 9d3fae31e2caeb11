package model

import (
	"fmt"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
)

// Rank returns what one rank of tensor parallelism holds, the fullest where a number does not divide: its share of the
// KV heads, at least one; its share of the states; all of latent vectors, index keys and compressed entries.
func (m *Model) Rank(tp int64) *Model {
	r := *m
	r.Groups = slices.Clone(m.Groups)
	for i, g := range r.Groups {
		r.Groups[i].Heads = ceilDiv(g.Heads, tp)
		r.Groups[i].State = g.State.rank(tp)
	}
	return &r
}

// CheckTP returns why engines refuse to cut the model into so many ranks: the query heads do not divide, or what its
// layers keep; see [Model.CheckCut].
func (m *Model) CheckTP(tp int64) error {
	if m.Heads > 0 && m.Heads%tp != 0 {
		return fault.New(fault.Input, "the %d query heads of %s do not divide among %d ranks", m.Heads, m.Name, tp)
	}
	return m.CheckCut(tp)
}

// CheckCut returns why what the layers keep cannot be cut among so many ranks: KV heads that neither divide among the
// ranks nor are each held by as many of them, or states whose heads do not divide.
func (m *Model) CheckCut(tp int64) error {
	for _, g := range m.Groups {
		if g.Heads > 0 && g.Heads%tp != 0 && tp%g.Heads != 0 {
			return fault.New(fault.Input, "the %d KV heads of %s do not divide among %d ranks, nor the ranks among the heads",
				g.Heads, m.Name, tp)
		}
		for _, n := range []int64{g.State.CutA, g.State.CutB} {
			if n > 0 && n%tp != 0 {
				return fault.New(fault.Input, "the %d heads or groups of the states (%s) of %s do not divide among %d ranks", n,
					g.Kind, m.Name, tp)
			}
		}
	}
	return nil
}

// Copies returns how many of tp ranks hold the same part of a group.
func (k Keep) Copies(tp int64) int64 {
	switch {
	case k.State.Any():
		return 1
	case k.Copied():
		return tp
	case tp > k.Heads:
		return tp / k.Heads
	}
	return 1
}

// Stage returns the layers from first up to, but without, end as a model.
func (m *Model) Stage(first, end int64) *Model {
	s := *m
	s.Layers, s.Groups = end-first, nil
	for _, g := range m.Groups {
		from, _ := slices.BinarySearch(g.Layers, first)
		to, _ := slices.BinarySearch(g.Layers, end)
		g.Layers = g.Layers[from:to:to]
		if len(g.Layers) > 0 {
			s.Groups = append(s.Groups, g)
		}
	}
	return &s
}

// Stages returns where the layers of each stage of a pipeline begin, and after them the end. Where n layers do not
// divide among p stages, engines place the larger ones differently: TensorRT-LLM first, which is also what no engine
// gives, SGLang last, vLLM before the last one.
func Stages(n, p int64, s Serving) ([]int64, error) {
	if p > n {
		return nil, fault.New(fault.Input, "%d stages of a pipeline are more than the %d layers", p, n)
	}
	bounds := make([]int64, 1, p+1)
	longer := n % p
	for i := range p {
		size := n / p
		switch s {
		case SGLang:
			size += one(i >= p-longer)
		case VLLM:
			size += one(i >= p-1-longer && i < p-1)
		default:
			size += one(i < longer)
		}
		bounds = append(bounds, bounds[i]+size)
	}
	return bounds, nil
}

// StagesOf is Stages with the layers of each stage given.
func StagesOf(n int64, layers []int64) ([]int64, error) {
	bounds := []int64{0}
	for _, l := range layers {
		if l < 1 {
			return nil, fault.New(fault.Input, "a stage of %d layers: wanted at least 1", l)
		}
		bounds = append(bounds, bounds[len(bounds)-1]+l)
	}
	if sum := bounds[len(bounds)-1]; sum != n {
		return nil, fault.New(fault.Input, "the stages have %d layers together, the model has %d", sum, n)
	}
	return bounds, nil
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func ceilDiv(a, b int64) int64 {
	return (a + b - 1) / b
}

// LayerText names the layers of a group for people: "0 to 3, 5", "3, 7, ... 47", or of many runs the first and the
// last.
func (g Group) LayerText() string {
	layers := slices.Compact(slices.Clone(g.Layers))
	n := len(layers)
	if step, ok := evenStep(layers); ok && n > 2 && step > 1 {
		return fmt.Sprintf("%d, %d, ... %d", layers[0], layers[1], layers[n-1])
	}
	runs := plaintext.Runs(layers, " to ")
	if len(runs) > 4 {
		runs = []string{runs[0], runs[1], "... " + runs[len(runs)-1]}
	}
	return strings.Join(runs, ", ")
}

// evenStep returns the distance between neighbours, if it is the same everywhere.
func evenStep(layers []int64) (step int64, ok bool) {
	for i := 1; i < len(layers); i++ {
		if i > 1 && layers[i]-layers[i-1] != step {
			return 0, false
		}
		step = layers[i] - layers[i-1]
	}
	return step, true
}

// EvenPart returns the i-th of n whole parts of a total, from 0. They differ by at most 1, the larger ones come first,
// and add up to the total.
func EvenPart(total, n, i int64) int64 {
	return total/n + one(i < total%n)
}
