package moe_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/must"
)

// Every assignment has one place at the rank of its slot; pairs and counts cover them all.
func TestAnyLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := drawShape(t)
		s, err := moe.Route(shape, drawRouting(t, shape))
		if err != nil {
			return // no balance with so few tokens
		}
		p := moe.Contiguous(shape)
		if rapid.Bool().Draw(t, "balanced") {
			loads := make([]float64, shape.Experts)
			for i, n := range s.ExpertLoads() {
				loads[i] = float64(n)
			}
			perRank := shape.ExpertsPerRank() + rapid.IntRange(0, 2).Draw(t, "redundant")
			b, err := moe.Balance(loads, moe.Balancing{Replicas: perRank * shape.Ranks, Groups: 1, Nodes: 1, GPUs: shape.Ranks})
			must.Do(t, err)
			p = moe.NewPlacement(b.Logical, shape.Experts, perRank)
		}
		l := moe.NewLayout(s, p)
		census := moe.Count(s, p)
		for rank := range shape.Ranks {
			list := l.At(rank)
			if int64(len(list)) != census.Received[rank] {
				t.Fatalf("rank %d receives %d, want %d", rank, len(list), census.Received[rank])
			}
			for place, i := range list {
				slot := p.Slot(int(s.Expert[i]), int(i)/shape.TopK)
				if l.Place(i) != place || p.Owner(slot) != rank || p.Logical[slot] != int(s.Expert[i]) || !slices.Contains(l.InSlot(slot), i) {
					t.Fatalf("assignment %d is at place %d of rank %d, slot %d", i, place, rank, slot)
				}
			}
			sent, received := 0, 0
			for other := range shape.Ranks {
				pair := l.Pair(rank, other)
				for k, i := range pair { // in one piece at its source
					if l.Departure(i) != sent+k {
						t.Fatalf("assignment %d of the pair %d, %d departs at %d, want %d", i, rank, other, l.Departure(i), sent+k)
					}
				}
				for k, i := range l.Pair(other, rank) { // and at its destination
					if l.Arrival(i) != received+k {
						t.Fatalf("assignment %d of the pair %d, %d arrives at %d, want %d", i, other, rank, l.Arrival(i), received+k)
					}
				}
				sent, received = sent+len(pair), received+len(l.Pair(other, rank))
				if int64(len(pair)) != census.Sent[rank][other] {
					t.Fatalf("rank %d sends %d to %d, want %d", rank, len(pair), other, census.Sent[rank][other])
				}
				total := 0
				for _, n := range l.Counts(rank, other) {
					total += int(n)
				}
				last := -1
				for _, i := range pair {
					if l.Source(i) != rank || l.Place(i) <= last || l.Token(i) != l.Choice(i)/shape.TopK {
						t.Fatalf("assignment %d of the pair %d, %d", i, rank, other)
					}
					last = l.Place(i)
				}
				if total != len(pair) {
					t.Fatalf("the counts of %d, %d are %d, want %d", rank, other, total, len(pair))
				}
			}
			if len(l.Departures(rank)) != sent || len(l.Arrivals(rank)) != received || received != len(list) {
				t.Fatalf("rank %d: %d depart and %d arrive, want %d and %d", rank, len(l.Departures(rank)), len(l.Arrivals(rank)), sent, len(list))
			}
			if sent != l.Selections(rank) {
				t.Fatalf("rank %d has %d selections, want %d", rank, l.Selections(rank), sent)
			}
		}
	})
}
