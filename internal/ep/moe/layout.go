package moe

// Layout says where each message of a dispatch and of its combine lies. Every rank computes it for all ranks from the
// same selection, so that nothing is sent to agree on offsets.
//
// A pair lists the messages that one rank sends to another, ordered by slot, then by the token's number, then by
// choice. What a rank sends lies by destination, and what it receives by source, pair after pair: so a pair is in one
// piece at both ends, and in it each slot has its messages in one run. Rows come back the same way. A place is the
// position of an assignment where a rank packs what it has received densely, by slot alone.
type Layout struct {
	Selection *Selection
	Placement *Placement

	order  []int32   // assignments, by slot and then by their number
	starts []int32   // of each slot in order; one more than there are slots
	pairs  [][]int32 // by source*R + destination: assignments
	// Of each assignment, None where it is masked: its place at its destination, and its positions in what its source
	// sends and in what its destination receives.
	place, departure, arrival []int32
}

// NewLayout computes the layout.
func NewLayout(s *Selection, p *Placement) *Layout {
	l := &Layout{Selection: s, Placement: p, pairs: make([][]int32, s.Ranks*s.Ranks),
		place: make([]int32, len(s.Expert)), departure: make([]int32, len(s.Expert)),
		arrival: make([]int32, len(s.Expert))}
	slots := make([]int32, len(s.Expert))
	counts := make([]int32, p.PerRank*s.Ranks+1)
	for i, expert := range s.Expert {
		slots[i], l.place[i], l.departure[i], l.arrival[i] = None, None, None, None
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
	for rank := range s.Ranks {
		number(l.Departures(rank), l.departure)
		number(l.Arrivals(rank), l.arrival)
	}
	return l
}

func number(list, position []int32) {
	for n, i := range list {
		position[i] = int32(n)
	}
}

// At returns the assignments that a rank receives, in the order of their places, over all its slots.
func (l *Layout) At(rank int) []int32 {
	return l.order[l.starts[rank*l.Placement.PerRank]:l.starts[(rank+1)*l.Placement.PerRank]]
}

// InSlot returns the assignments of a slot, in the order of their places.
func (l *Layout) InSlot(slot int) []int32 { return l.order[l.starts[slot]:l.starts[slot+1]] }

// Departures returns the assignments that a rank sends, in the order in which their messages lie there.
func (l *Layout) Departures(rank int) (list []int32) {
	for destination := range l.Selection.Ranks {
		list = append(list, l.Pair(rank, destination)...)
	}
	return list
}

// Arrivals returns the assignments that a rank receives, in the order in which their messages lie there.
func (l *Layout) Arrivals(rank int) (list []int32) {
	for source := range l.Selection.Ranks {
		list = append(list, l.Pair(source, rank)...)
	}
	return list
}

// Departure returns the position of an assignment in Departures of its source, Arrival that in Arrivals of its
// destination.
func (l *Layout) Departure(assignment int32) int { return int(l.departure[assignment]) }

// Arrival: see Departure.
func (l *Layout) Arrival(assignment int32) int { return int(l.arrival[assignment]) }

// Pair returns the assignments that a source sends to a destination.
func (l *Layout) Pair(source, destination int) []int32 {
	return l.pairs[source*l.Selection.Ranks+destination]
}

// Place returns where an assignment lies at its destination, packed by slot.
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
