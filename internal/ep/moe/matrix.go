package moe

import (
	"cmp"
	"slices"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/matrix"
)

// byMatrix deals each rank's assignments to the ranks in the proportions of its row. A rank whose row is empty sends
// nothing: its positions are masked. Choices of one destination go to as many tokens as there are, and take the
// destination's experts in turn.
func (s *Selection) byMatrix(m *matrix.Matrix) {
	perRank := s.ExpertsPerRank()
	for rank := range s.Ranks {
		own := s.Expert[rank*s.Tokens*s.TopK : (rank+1)*s.Tokens*s.TopK]
		for i := range own {
			own[i] = None
		}
		position := 0
		for _, part := range apportion(m.Row(rank), len(own)) {
			for turn := range part.count {
				token, slot := position%s.Tokens, position/s.Tokens
				row := own[token*s.TopK : (token+1)*s.TopK]
				row[slot] = nextExpert(row[:slot], part.peer*perRank, perRank, turn+rank)
				position++
			}
		}
	}
}

// nextExpert returns the expert of a rank whose turn it is, or else the next one that the token does not have; where
// it has all, it gets one again.
func nextExpert(taken []int32, first, count, turn int) int32 {
	for i := range count {
		if expert := int32(first + (turn+i)%count); !slices.Contains(taken, expert) {
			return expert
		}
	}
	return int32(first + turn%count)
}

// part is how many assignments go to a rank.
type part struct{ peer, count int }

// apportion divides n among peers in proportion to their bytes, the remainder to those that lost most by rounding
// down, the first of equals.
func apportion(cells []matrix.Cell, n int) []part {
	var total float64
	for _, c := range cells {
		total += float64(c.Bytes)
	}
	parts, lost, left := make([]part, len(cells)), make([]float64, len(cells)), n
	for i, c := range cells {
		exact := float64(float64(n) * (float64(c.Bytes) / total))
		parts[i] = part{c.Peer, min(int(exact), left)}
		lost[i] = exact - float64(parts[i].count)
		left -= parts[i].count
	}
	order := make([]int, len(cells))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lost[b], lost[a]) })
	for i := 0; left > 0 && len(order) > 0; i = (i + 1) % len(order) {
		parts[order[i]].count++
		left--
	}
	return parts
}

// The cells of a distance matrix are multiples of so many bytes.
const cellAlign = 16

// DistanceMatrix returns the matrix of nccl-tests' alltoallv generator: rank i sends rank j
//
//	perRank/n * (1 + spread*(2*d/(n-1) - 1))
//
// bytes, where d = (j-i) mod n, rounded down to a multiple of 16. Spread 0 sends the same to all, spread 1 nothing to
// the rank itself and twice the mean to the farthest. Errors are of kind Usage.
func DistanceMatrix(n int, perRank int64, spread float64) (*matrix.Matrix, error) {
	switch {
	case n < 2 || n > MaxRanks:
		return nil, fault.New(fault.Usage, "a matrix of %d ranks, want 2 to %d", n, MaxRanks)
	case perRank < 1 || perRank > 1<<50:
		return nil, fault.New(fault.Usage, "%d bytes for each rank, want 1 to 2^50", perRank)
	case !(spread >= 0 && spread <= 1):
		return nil, fault.New(fault.Usage, "spread is %v, want 0 to 1", spread)
	case n > matrix.MaxCells/n:
		return nil, fault.New(fault.Usage, "%d ranks have more than %d cells", n, matrix.MaxCells)
	}
	mean := float64(perRank) / float64(n)
	m := matrix.New(n)
	for i := range n {
		for j := range n {
			d := float64((j - i + n) % n)
			share := float64(float64(n-1)*(1-spread)) + float64(2*d*spread)
			bytes := int64(float64(mean*share)/float64(n-1)) / cellAlign * cellAlign
			if err := m.Set(i, j, bytes); err != nil {
				return nil, fault.New(fault.Usage, "%w", err)
			}
		}
	}
	return m, nil
}

// FirstRanks returns the matrix of the first n ranks of a larger one, as nccl-tests reads its files.
// A smaller matrix is an error of kind Input.
func FirstRanks(m *matrix.Matrix, n int) (*matrix.Matrix, error) {
	if m.Size() < n {
		return nil, fault.New(fault.Input, "the matrix has %d ranks, want %d or more", m.Size(), n)
	}
	first := matrix.New(n)
	for i := range n {
		for _, c := range m.Row(i) {
			if c.Peer >= n {
				continue
			}
			if err := first.Set(i, c.Peer, c.Bytes); err != nil {
				return nil, fault.New(fault.Input, "%w", err)
			}
		}
	}
	return first, nil
}
