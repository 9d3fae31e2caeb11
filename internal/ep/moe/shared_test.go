package moe_test

import (
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/ep/moe"
)

// With shared experts each token has its routed experts where they were, and all shared ones at its own rank.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := drawShape(t)
		s, err := moe.Route(shape, drawRouting(t, shape))
		if err != nil {
			return // no balance with so few tokens
		}
		p, n := moe.Contiguous(shape), rapid.IntRange(0, 3).Draw(t, "shared")
		more, placed := moe.Share(s, p, n)
		l := moe.NewLayout(more, placed)
		before, after := moe.Count(s, p), moe.Count(more, placed)
		for token := range shape.WorldTokens() {
			routed, weights := s.Of(token)
			all, allWeights := more.Of(token)
			if len(all) != len(routed)+n {
				t.Fatalf("token %d has %d experts, want %d and %d", token, len(all), len(routed), n)
			}
			for k, expert := range all {
				if k < len(routed) {
					if expert != routed[k] || allWeights[k] != weights[k] || expert != moe.None &&
						placed.Owner(placed.Slot(int(expert), token)) != p.Owner(p.Slot(int(expert), token)) {
						t.Fatalf("token %d, choice %d: expert %d", token, k, expert)
					}
					continue
				}
				if want := shape.Experts + k - len(routed); int(expert) != want || allWeights[k] != 1 ||
					placed.Owner(placed.Slot(want, token)) != token/shape.Tokens {
					t.Fatalf("token %d, shared choice %d: expert %d with weight %v at rank %d", token, k, expert, allWeights[k],
						placed.Owner(placed.Slot(want, token)))
				}
			}
		}
		for rank := range shape.Ranks {
			for other := range shape.Ranks {
				want := before.Sent[rank][other]
				if rank == other {
					want += int64(n * shape.Tokens)
				}
				if got := len(l.Pair(rank, other)); int64(got) != want {
					t.Fatalf("rank %d sends %d messages to rank %d, want %d", rank, got, other, want)
				}
			}
			if before.Sources[rank].Remote != after.Sources[rank].Remote {
				t.Fatalf("rank %d: a shared expert is remote", rank)
			}
		}
	})
}
