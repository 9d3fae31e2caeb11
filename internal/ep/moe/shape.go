package moe

import (
	"perigee/internal/kit/fault"
)

// Scale groups of FP8 have so many channels.
const groupChannels = 128

// The limits of a shape. They bound the table of a whole world's assignments,
// which every rank holds, to 512 MiB.
const (
	MaxRanks       = 1 << 16
	MaxExperts     = 1 << 20
	MaxHidden      = 1 << 20
	MaxTopK        = 1 << 10
	MaxAssignments = 1 << 27
	// maxComparisons bounds the time: each choice is compared with the others of its token.
	maxComparisons = 1 << 30
)

// Shape is the size of one expert-parallel layer.
type Shape struct {
	Ranks   int // R, all ranks of the world
	Tokens  int // T, of each rank
	Hidden  int // H, channels of a token; a multiple of 128
	Experts int // E, logical experts of the world; a multiple of Ranks
	TopK    int // K, experts for each token
}

// Check returns an error of kind Usage where the sizes do not go together.
func (s Shape) Check() error {
	for _, n := range []struct {
		name      string
		got, most int
	}{
		{"ranks", s.Ranks, MaxRanks}, {"tokens", s.Tokens, MaxAssignments}, {"hidden", s.Hidden, MaxHidden},
		{"experts", s.Experts, MaxExperts}, {"topk", s.TopK, MaxTopK},
	} {
		if n.got < 1 || n.got > n.most {
			return fault.New(fault.Usage, "%s is %d, want 1 to %d", n.name, n.got, n.most)
		}
	}
	switch {
	case s.Hidden%groupChannels != 0:
		return fault.New(fault.Usage, "hidden is %d, want a multiple of %d", s.Hidden, groupChannels).
			WithHint("each group of %d channels has one scale; the next larger size is %d", groupChannels,
				(s.Hidden/groupChannels+1)*groupChannels)
	case s.Experts%s.Ranks != 0:
		return fault.New(fault.Usage, "experts is %d, want a multiple of the %d ranks", s.Experts, s.Ranks)
	case s.TopK > s.Experts:
		return fault.New(fault.Usage, "topk is %d, more than the %d experts there are", s.TopK, s.Experts)
	case s.Tokens > MaxAssignments/s.TopK/s.Ranks:
		return fault.New(fault.Usage, "%d ranks x %d tokens x topk %d are more than %d assignments",
			s.Ranks, s.Tokens, s.TopK, MaxAssignments).WithHint("fewer tokens")
	case s.Tokens*s.Ranks*s.TopK > maxComparisons/s.TopK:
		return fault.New(fault.Usage, "%d ranks x %d tokens x topk %d are more than %d assignments, the most with this topk",
			s.Ranks, s.Tokens, s.TopK, maxComparisons/s.TopK).WithHint("fewer tokens, or a smaller topk")
	}
	return nil
}

// ExpertsPerRank returns E/R.
func (s Shape) ExpertsPerRank() int { return s.Experts / s.Ranks }

// WorldTokens returns R*T.
func (s Shape) WorldTokens() int { return s.Ranks * s.Tokens }

// Assignments returns R*T*K, masked ones included.
func (s Shape) Assignments() int { return s.Ranks * s.Tokens * s.TopK }
