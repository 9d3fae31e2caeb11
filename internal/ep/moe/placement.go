package moe

import (
	"cmp"
	"container/heap"
	"slices"

	"perigee/internal/kit/fault"
)

// Placement says which logical expert each physical slot holds. Rank r has the slots r*PerRank to (r+1)*PerRank-1.
type Placement struct {
	PerRank int   // slots of each rank
	Logical []int // expert of each slot

	slots [][]int32 // of each expert, ascending
	// With shared experts (Share), the first of them and the tokens of each rank; otherwise 0.
	atHome, tokens int
}

// Contiguous places expert x in slot x, on rank x / (E/R).
func Contiguous(s Shape) *Placement {
	logical := make([]int, s.Experts)
	for i := range logical {
		logical[i] = i
	}
	return NewPlacement(logical, s.Experts, s.ExpertsPerRank())
}

// NewPlacement makes a placement of slots that together hold every expert of 0 to experts-1.
func NewPlacement(logical []int, experts, perRank int) *Placement {
	p := &Placement{PerRank: perRank, Logical: logical, slots: make([][]int32, experts)}
	for slot, expert := range logical {
		p.slots[expert] = append(p.slots[expert], int32(slot))
	}
	return p
}

// Replicas returns the number of slots that hold an expert.
func (p *Placement) Replicas(expert int) int { return len(p.slots[expert]) }

// Owner returns the rank of a slot.
func (p *Placement) Owner(slot int) int { return slot / p.PerRank }

// Balancing says onto what experts are placed.
type Balancing struct {
	Replicas int // slots of all GPUs, experts or more
	Groups   int // of experts that a router restricts tokens to; 1 where there are none
	Nodes    int
	GPUs     int // of all nodes
}

// Balanced is the placement of one layer.
type Balanced struct {
	Logical     []int     // expert of each slot; GPU g has the slots g*Replicas/GPUs and following
	GPULoad     []float64 // sum over a GPU's slots of the expert's load divided by its replicas
	MaxOverMean float64   // of GPULoad; 1 where there is no load
}

// Balance places experts by the greedy method of EPLB: groups of experts onto nodes, replicas to the experts with the
// largest load per replica, replicas onto GPUs; each step gives the largest next item to the least loaded bin that
// has room. Where the groups cannot be divided among the nodes, there is one group and one node.
// Errors are of kind Usage.
func Balance(loads []float64, b Balancing) (*Balanced, error) {
	if err := b.check(loads); err != nil {
		return nil, err
	}
	groups, nodes := b.Groups, b.Nodes
	if groups%nodes != 0 {
		groups, nodes = 1, 1
	}
	result := &Balanced{Logical: make([]int, 0, b.Replicas)}
	for _, experts := range intoNodes(loads, groups, nodes) {
		replicas := replicate(loads, experts, b.Replicas/nodes)
		result.Logical = append(result.Logical, replicas.ontoGPUs(loads, b.GPUs/nodes)...)
	}
	result.GPULoad = gpuLoads(result.Logical, loads, b.GPUs)
	result.MaxOverMean = maxOverMean(result.GPULoad)
	return result, nil
}

// check refuses numbers that the balancing algorithm (EPLB of DeepSeek) is not defined for.
func (b Balancing) check(loads []float64) error {
	for _, n := range []struct {
		name string
		got  int
	}{{"replicas", b.Replicas}, {"groups", b.Groups}, {"nodes", b.Nodes}, {"gpus", b.GPUs}} {
		if n.got < 1 || n.got > MaxExperts {
			return fault.New(fault.Usage, "%s is %d, want 1 to %d", n.name, n.got, MaxExperts)
		}
	}
	experts := len(loads)
	switch {
	case experts == 0:
		return fault.New(fault.Usage, "there are no experts to place")
	case b.Replicas < experts:
		return fault.New(fault.Usage, "replicas is %d, fewer than the %d experts", b.Replicas, experts)
	case b.Replicas%b.GPUs != 0:
		return fault.New(fault.Usage, "replicas is %d, want a multiple of the %d gpus", b.Replicas, b.GPUs)
	case b.GPUs%b.Nodes != 0:
		return fault.New(fault.Usage, "gpus is %d, want a multiple of the %d nodes", b.GPUs, b.Nodes)
	case experts%b.Groups != 0:
		return fault.New(fault.Usage, "groups is %d, want a divisor of the %d experts", b.Groups, experts)
	}
	return nil
}

// intoNodes returns the experts of each node, group after group in the order in which the groups were packed.
func intoNodes(loads []float64, groups, nodes int) [][]int {
	size := len(loads) / groups
	sums := make([]float64, groups)
	for expert, load := range loads {
		sums[expert/size] += load
	}
	list := make([][]int, nodes)
	for node, packed := range pack(sums, nodes) {
		for _, group := range packed {
			for i := range size {
				list[node] = append(list[node], group*size+i)
			}
		}
	}
	return list
}

// pack puts items into bins of equal room, the heaviest first, each into the lightest bin that has room, the first of
// equals. It returns the items of each bin in the order of arrival.
func pack(weights []float64, bins int) [][]int {
	room := len(weights) / bins
	order := make([]int, len(weights))
	for i := range order {
		order[i] = i
	}
	if room > 1 { // bins of one item keep the items' order
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	}
	packed, sums := make([][]int, bins), make([]float64, bins)
	lightest := firsts(bins, func(a, b int) int { return cmp.Compare(sums[a], sums[b]) })
	for place, item := range order {
		best := place
		if room > 1 {
			best = lightest.items[0]
		}
		packed[best] = append(packed[best], item)
		sums[best] += weights[item]
		switch {
		case room == 1:
		case len(packed[best]) == room:
			heap.Pop(lightest)
		default:
			heap.Fix(lightest, 0)
		}
	}
	return packed
}

// ordered is a heap of numbers, the first by compare in front, the lowest number of equals.
type ordered struct {
	items   []int
	compare func(a, b int) int
}

// firsts orders the numbers below n.
func firsts(n int, compare func(a, b int) int) *ordered {
	o := &ordered{make([]int, n), compare}
	for i := range o.items {
		o.items[i] = i
	}
	heap.Init(o)
	return o
}

func (o *ordered) Len() int { return len(o.items) }

func (o *ordered) Less(i, k int) bool {
	a, b := o.items[i], o.items[k]
	return cmp.Or(o.compare(a, b), cmp.Compare(a, b)) < 0
}

func (o *ordered) Swap(i, k int) { o.items[i], o.items[k] = o.items[k], o.items[i] }

// Push is not used.
func (o *ordered) Push(x any) { o.items = append(o.items, x.(int)) }

// Pop takes the last one away.
func (o *ordered) Pop() any {
	last := o.items[len(o.items)-1]
	o.items = o.items[:len(o.items)-1]
	return last
}

// replicas are the physical experts of a node: every expert once, then the further ones in the order in which they
// were made.
type replicas struct {
	expert []int
	count  map[int]int
}

// replicate makes n physical experts: each further one is of the expert with the largest load for each of its
// replicas, the first of equals.
func replicate(loads []float64, experts []int, n int) replicas {
	r := replicas{slices.Clone(experts), make(map[int]int, len(experts))}
	for _, expert := range experts {
		r.count[expert] = 1
	}
	share := func(i int) float64 { return loads[experts[i]] / float64(r.count[experts[i]]) }
	largest := firsts(len(experts), func(a, b int) int { return cmp.Compare(share(b), share(a)) })
	for len(r.expert) < n {
		best := experts[largest.items[0]]
		r.expert = append(r.expert, best)
		r.count[best]++
		heap.Fix(largest, 0)
	}
	return r
}

// ontoGPUs returns the experts of a node's slots, GPU after GPU.
func (r replicas) ontoGPUs(loads []float64, gpus int) []int {
	weights := make([]float64, len(r.expert))
	for i, expert := range r.expert {
		weights[i] = loads[expert] / float64(r.count[expert])
	}
	var logical []int
	for _, items := range pack(weights, gpus) {
		for _, item := range items {
			logical = append(logical, r.expert[item])
		}
	}
	return logical
}

// gpuLoads returns what each GPU has to do if replicas share their expert's load evenly.
func gpuLoads(logical []int, loads []float64, gpus int) []float64 {
	count := make([]int, len(loads))
	for _, expert := range logical {
		count[expert]++
	}
	each := len(logical) / gpus
	sums := make([]float64, gpus)
	for slot, expert := range logical {
		sums[slot/each] += loads[expert] / float64(count[expert])
	}
	return sums
}

func maxOverMean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	if sum == 0 {
		return 1
	}
	return slices.Max(values) / (sum / float64(len(values)))
}
