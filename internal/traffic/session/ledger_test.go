package session

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
)

// TestLedger compares what a ledger says of every step with the definition: each
// rank meets each peer once, and buffers grow to the most that any pattern needs.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 5, 40}).Draw(t, "ranks")
		one, two := NewLedger(), NewLedger() // of two ranks, one of which tries something first that fails
		known := map[[2]int]bool{}
		send, recv := make([]int64, n), make([]int64, n)
		version, told := 0, map[[2]int]int{} // of the buffers, and which of them a rank was told of by another
		for call := range rapid.IntRange(1, 4).Draw(t, "calls") {
			patterns := []load.Load{anyPattern(t, n), anyPattern(t, n)}
			if rapid.Bool().Draw(t, "failed first") {
				two.step(call, n, []load.Load{anyPattern(t, n)})
				two.drop(call)
			}
			first := one.step(call, n, patterns)
			if one.step(call, n, nil) != first {
				t.Fatal("ranks that share a ledger got different steps")
			}
			s, again := first.lanes[0], two.step(call, n, patterns).lanes[0]
			want, grown := map[[2]int]bool{}, false
			var fresh [][2]int
			for _, l := range patterns {
				p := l.(load.Pattern)
				for i := range n {
					for _, c := range p.Matrix.Row(i) {
						for _, way := range [][2]int{{i, c.Peer}, {c.Peer, i}} {
							if !known[way] && !want[way] {
								fresh = append(fresh, way)
							}
							want[way] = want[way] || !known[way]
						}
					}
					grown = grown || p.Matrix.RowSum(i) > send[i] || p.Matrix.ColumnSum(i) > recv[i]
					send[i], recv[i] = max(send[i], p.Matrix.RowSum(i)), max(recv[i], p.Matrix.ColumnSum(i))
				}
			}
			for r := range n {
				var peers []int
				for p := range n {
					if want[[2]int{r, p}] {
						peers = append(peers, p)
					}
				}
				if got := s.peersOf(r); !slices.Equal(got, peers) || !slices.Equal(again.peersOf(r), peers) {
					t.Fatalf("rank %d meets %v and %v, want %v", r, got, again.peersOf(r), peers)
				}
			}
			for way := range want {
				known[way] = true
			}
			if grown != (s.grown[0] != nil) || grown != (again.grown[0] != nil) {
				t.Fatalf("call %d: buffers grow: %v and %v, want %v", call, s.grown[0] != nil, again.grown[0] != nil, grown)
			}
			if grown {
				version++
			}
			deal(told, version, s.exchange, n, known, fresh)
			for way := range known {
				if told[way] != version {
					t.Fatalf("call %d: rank %d reaches version %d of rank %d's buffers, which have version %d", call, way[0], told[way], way[1], version)
				}
			}
			if version > 0 && (!slices.Equal(caps(one), send) || !slices.Equal(caps(two), send)) {
				t.Fatalf("buffers hold %v and %v, want %v", caps(one), caps(two), send)
			}
		}
	})
}

func caps(l *Ledger) []int64 { return l.books[0].caps[0].send }

// deal plays an exchange of cards.
func deal(told map[[2]int]int, version int, e exchange, n int, known map[[2]int]bool, fresh [][2]int) {
	switch e {
	case tellAll:
		for a := range n {
			for b := range n {
				told[[2]int{a, b}] = version
			}
		}
	case tellPeers:
		for way := range known {
			told[way] = version
		}
	case tellFresh:
		for _, way := range fresh {
			told[way] = version
		}
	}
}

func anyPattern(t *rapid.T, n int) load.Pattern {
	m := matrix.New(n)
	for range rapid.IntRange(0, 6).Draw(t, "cells") {
		must.Do(t, m.Set(rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to"), rapid.Int64Range(1, 99).Draw(t, "bytes")))
	}
	return load.Pattern{Matrix: m, Shards: 1}
}
