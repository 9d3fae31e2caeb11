package matgen

import (
	"fmt"
	"slices"
	"strings"

	"perigee/internal/fault"
)

// Side is one of the two sides of the system: consecutive ranks, cut into
// workers of equal size. Only the original cuts a shorter last worker.
type Side struct {
	First      int // rank
	Ranks      int
	WorkerSize int // ranks
}

// Workers returns the number of workers.
func (s Side) Workers() int { return (s.Ranks + s.WorkerSize - 1) / s.WorkerSize }

// Worker returns the ranks of a worker as a range [from, to).
func (s Side) Worker(i int) (from, to int) {
	from = s.First + i*s.WorkerSize
	return from, min(from+s.WorkerSize, s.First+s.Ranks)
}

// sides places the prefill ranks before the decode ranks.
func (o *Options) sides() (prefill, decode Side, err error) {
	p, okP := product(int64(o.NumPrefillNodes), int64(o.PPN))
	d, okD := product(int64(o.NumDecodeNodes), int64(o.PPN))
	if !okP || !okD || p+d > maxRanks {
		return Side{}, Side{}, usage("(%d prefill nodes + %d decode nodes) x ppn %d are too many ranks: wanted at most %d",
			o.NumPrefillNodes, o.NumDecodeNodes, o.PPN, maxRanks)
	}
	prefill = Side{0, int(p), o.PrefillTP * o.PrefillCP}
	decode = Side{int(p), int(d), o.DecodeTP * o.DecodeCP}
	return prefill, decode, nil
}

// checkShape refuses what cannot be planned, with the numbers that can.
func (o *Options) checkShape(m Model) error {
	if o.PrefillPP != 1 || o.DecodePP != 1 {
		return usage("--prefill-pp %d, --decode-pp %d: wanted 1: the stages of a pipeline send at different times, which one matrix per batch cannot say",
			o.PrefillPP, o.DecodePP)
	}
	if o.DecodeCP != 1 {
		return usage("--decode-cp %d: wanted 1: how decode ranks share out the tokens of a sequence differs between engines", o.DecodeCP)
	}
	if o.RailOptimized && o.DecodeTP != len(railOrder) {
		return usage("--rail-optimized: wanted --decode-tp %d, got %d", len(railOrder), o.DecodeTP)
	}
	if o.RailOptimized && o.PrefillTP != len(railOrder)/2 {
		return usage("--rail-optimized: wanted --prefill-tp %d, got %d", len(railOrder)/2, o.PrefillTP)
	}
	if o.PrefillTP%o.DecodeTP != 0 && o.DecodeTP%o.PrefillTP != 0 {
		return usage("--prefill-tp %d and --decode-tp %d: one must be a multiple of the other", o.PrefillTP,
			o.DecodeTP).
			WithHint("with --decode-tp %d, --prefill-tp can be %s or a multiple of %d", o.DecodeTP,
				list(divisors(o.DecodeTP)), o.DecodeTP)
	}
	return o.checkModelShape(m)
}

// checkModelShape refuses ranks that would hold parts of heads.
func (o *Options) checkModelShape(m Model) error {
	for _, side := range []struct {
		flag string
		tp   int
	}{{"prefill-tp", o.PrefillTP}, {"decode-tp", o.DecodeTP}} {
		if !m.fits(side.tp) {
			return usage("--%s %d: the %d KV heads of %s do not divide among so many ranks, nor the ranks among the heads", side.flag, side.tp, m.KVHeads, m.Name).
				WithHint("--%s can be %s or a multiple of %d", side.flag, list(divisors(int(min(m.KVHeads, maxRanks)))),
					m.KVHeads)
		}
	}
	return nil
}

// fits reports whether each of tp ranks holds a number of whole KV heads, or
// each head is held by a number of ranks. With MLA every rank holds all.
func (m Model) fits(tp int) bool {
	return m.MLA() || int64(tp)%m.KVHeads == 0 || m.KVHeads%int64(tp) == 0
}

// checkWhole refuses a side whose ranks do not divide into workers.
func (o *Options) checkWhole(m Model) error {
	if err := whole("prefill", o.NumPrefillNodes, o.PPN, o.PrefillTP, o.PrefillCP, o.DecodeTP, m); err != nil {
		return err
	}
	return whole("decode", o.NumDecodeNodes, o.PPN, o.DecodeTP, o.DecodeCP, o.PrefillTP, m)
}

func whole(side string, nodes, ppn, tp, cp, otherTP int, m Model) error {
	ranks, size := nodes*ppn, tp*cp
	if ranks%size == 0 {
		return nil
	}
	near := fmt.Sprint((ranks/size + 1) * size)
	if ranks > size {
		near = fmt.Sprintf("%d or %s", ranks/size*size, near)
	}
	hint := fmt.Sprintf("such workers fill %s GPUs", near)
	if ranks%cp == 0 {
		possible := slices.DeleteFunc(divisors(ranks/cp), func(tp int) bool {
			return !m.fits(tp) || tp%otherTP != 0 && otherTP%tp != 0
		})
		hint += fmt.Sprintf("; %d GPUs can have --%s-tp %s", ranks, side, list(possible)) // 1 is always possible
	}
	return usage("%s: the %d GPUs (%d x ppn %d) do not divide into workers of %d (%s)", side, ranks, nodes, ppn, size,
		shape(tp, cp)).
		WithHint("%s", hint)
}

// divisors returns the divisors of n in ascending order.
func divisors(n int) []int {
	var found []int
	for d := 1; d*d <= n; d++ {
		if n%d != 0 {
			continue
		}
		found = append(found, d)
		if d*d != n {
			found = append(found, n/d)
		}
	}
	slices.Sort(found)
	return found
}

func list(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, ", ")
}

// railOrder are the places of the TP ranks of a decode worker on its node when
// rails are optimized: the two that prefill rank r feeds stand at r and r + 4.
var railOrder = [...]int{0, 4, 1, 5, 2, 6, 3, 7}

// Cell is one message of a pattern.
type Cell struct {
	From, To int // ranks
	Bytes    int64
}

// layout says which rank sends which part of a cache to which; see the package
// comment.
type layout struct {
	prefillTP, prefillCP, decodeTP int
	replicas                       int // decode ranks that each receive the same bytes
	rail                           bool
}

func (o *Options) layout(m Model) layout {
	return layout{o.PrefillTP, o.PrefillCP, o.DecodeTP, o.replicas(m), o.RailOptimized}
}

// replicas returns how many decode ranks receive the same bytes.
func (o *Options) replicas(m Model) int {
	if o.KVReplicas == replicasSplit {
		return 1
	}
	return holders(m, o.DecodeTP)
}

// holders returns how many of tp ranks hold the same cache.
func holders(m Model, tp int) int {
	switch {
	case m.MLA():
		return tp
	case int64(tp) > m.KVHeads:
		return tp / int(m.KVHeads)
	default:
		return 1
	}
}

// senders returns how many prefill ranks each decode rank receives from.
func (l layout) senders() int { return l.prefillCP * max(1, l.prefillTP/l.decodeTP) }

// cells shares out the bytes of a batch, replicas not counted, between the
// prefill worker that begins at rank prefill and the decode worker that begins
// at rank decode. The order is that of the decode TP ranks, then of the parts
// of the sequence.
func (l layout) cells(bytes int64, prefill, decode int) []Cell {
	perSlice := max(1, l.prefillTP/l.decodeTP)
	cells := make([]Cell, 0, l.decodeTP*l.senders())
	groups := splitEven(bytes, l.decodeTP/l.replicas)
	for j := range l.decodeTP {
		parts := splitEven(groups[j/l.replicas], l.senders())
		firstTP := j * l.prefillTP / l.decodeTP
		for i, part := range parts {
			from := prefill + i/perSlice*l.prefillTP + firstTP + i%perSlice
			cells = append(cells, Cell{from, decode + l.place(j), part})
		}
	}
	return cells
}

// place returns where in a decode worker its TP rank j stands.
func (l layout) place(j int) int {
	if l.rail {
		return railOrder[j]
	}
	return j
}

// splitEven cuts total into n whole parts that differ by at most 1 and add up
// to total: the largest-remainder method for equal shares.
func splitEven(total int64, n int) []int64 {
	parts := make([]int64, n)
	for i := range parts {
		parts[i] = total / int64(n)
		if int64(i) < total%int64(n) {
			parts[i]++
		}
	}
	return parts
}

// errTooMuch refuses byte counts beyond 63 bits.
func errTooMuch(what string) *fault.Error {
	return usage("%s does not fit 63 bits", what)
}
