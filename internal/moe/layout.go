package moe

// Layout says where each message of a dispatch and of its combine lies. Every rank computes it for all ranks from the
// same selection, so that nothing is sent to agree on offsets.
//
// A rank keeps what it is sent ordered by slot, then by the token's number, then by choice: each slot has the tokens
// of each rank in one run. Rows come back to place t*K + k of the rank that chose.
type Layout struct {
	Selection *Selection
	Placement *Placement

	order  []int32   // assignments, by slot and then by their number
	starts []int32   // of each slot in order; one more than there are slots
	pairs  [][]int32 // by source*R + destination: assignments, in the destination's order
	place  []int32   // of each assignment in its destination's order; -1 where masked
}

// NewLayout computes the layout.
func NewLayout(s *Selection, p *Placement) *Layout {
	l := &Layout{Selection: s, Placement: p, pairs: make([][]int32, s.Ranks*s.Ranks),
		place: make([]int32, len(s.Expert))}
	slots := make([]int32, len(s.Expert))
	counts := make([]int32, p.PerRank*s.Ranks+1)
	for i, expert := range s.Expert {
		slots[i], l.place[i] = None, None
		if expert != None {
			slots[i] = int32(p.Slot(int(expert), i/s.TopK))
			counts[slots[i]+1]++
		}
	}
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
	l.starts = counts
	next := append([]int32(nil), counts...)
	l.order = make([]int32, counts[len(counts)-1])
	for i, slot := range slots {
		if slot != None {
			l.order[next[slot]] = int32(i)
			next[slot]++
		}
	}
	for rank := range s.Ranks {
		for place, i := range l.At(rank) {
			l.place[i] = int32(place)
			pair := l.Source(i)*s.Ranks + rank
			l.pairs[pair] = append(l.pairs[pair], i)
		}
	}
	return l
}

// At returns the assignments that a rank receives, in the order of their places, over all its slots.
func (l *Layout) At(rank int) []int32 {
	return l.order[l.starts[rank*l.Placement.PerRank]:l.starts[(rank+1)*l.Placement.PerRank]]
}

// InSlot returns the assignments of a slot, in the order of their places.
func (l *Layout) InSlot(slot int) []int32 { return l.order[l.starts[slot]:l.starts[slot+1]] }

// Pair returns the assignments that a source sends to a destination, in the destination's order.
func (l *Layout) Pair(source, destination int) []int32 {
	return l.pairs[source*l.Selection.Ranks+destination]
}

// Place returns where an assignment lies in its destination's order.
func (l *Layout) Place(assignment int32) int { return int(l.place[assignment]) }

// Source returns the rank that chose an assignment, Token its token's number on that rank, and Choice its position
// t*K + k there.
func (l *Layout) Source(assignment int32) int {
	return int(assignment) / l.Selection.TopK / l.Selection.Tokens
}

// Token returns the token of an assignment by its number on its rank.
func (l *Layout) Token(assignment int32) int {
	return int(assignment) / l.Selection.TopK % l.Selection.Tokens
}

// Choice returns the position t*K + k of an assignment on its rank.
func (l *Layout) Choice(assignment int32) int {
	return int(assignment) % (l.Selection.TopK * l.Selection.Tokens)
}

// Counts returns how many assignments of a source lie in each slot of a destination.
func (l *Layout) Counts(source, destination int) []uint32 {
	counts := make([]uint32, l.Placement.PerRank)
	for _, i := range l.Pair(source, destination) {
		slot := l.Placement.Slot(int(l.Selection.Expert[i]), int(i)/l.Selection.TopK)
		counts[slot-destination*l.Placement.PerRank]++
	}
	return counts
}

// Selections returns how many positions of a rank name an expert.
func (l *Layout) Selections(rank int) (n int) {
	for destination := range l.Selection.Ranks {
		n += len(l.Pair(rank, destination))
	}
	return n
}
