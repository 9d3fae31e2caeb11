package moe

import (
	"math"
	"slices"
)

// Payload is the form of a token on its way to an expert.
type Payload uint8

// The payloads. FP8 is e4m3 with a float32 scale for each group of 128 channels.
const (
	BF16 Payload = iota
	FP8
)

// String returns bf16 or fp8.
func (p Payload) String() string {
	if p == FP8 {
		return "fp8"
	}
	return "bf16"
}

// HeaderBytes stand before the payload of a dispatched message.
const HeaderBytes = 16

// TokenBytes returns the payload of a token: 2H bytes of BF16, or H + 4*(H/128) of FP8 with its scales.
func (p Payload) TokenBytes(hidden int) int64 {
	if p == FP8 {
		return int64(hidden) + 4*int64(hidden/groupChannels)
	}
	return 2 * int64(hidden)
}

// DispatchBytes returns what so many selections of one rank dispatch, headers included, and CombineBytes what comes
// back: the formulas of the NIXL EP tests, own rank included, counts and flags not.
func DispatchBytes(selections int64, hidden int, p Payload) int64 {
	return selections * (p.TokenBytes(hidden) + HeaderBytes)
}

// CombineBytes returns the BF16 rows that come back for so many selections.
func CombineBytes(selections int64, hidden int) int64 { return selections * 2 * int64(hidden) }

// BufferHint returns the bytes that the buffers of NIXL EP ask for at each rank, double-buffered and for the worst
// routing: what is needed here depends on the routing and is less.
func BufferHint(tokens, hidden, experts int) int64 {
	t, h, e := int64(tokens), int64(hidden), int64(experts)
	scales := 4 * (h / groupChannels)
	dispatch, combine := HeaderBytes+max(2*h, h+scales), scales+2*h
	send, recv, signals := max(t*dispatch, e*t*combine), e*t*max(dispatch, combine), (8*e+127)/128*128
	return (2*(send+recv+signals) + 128) / 128 * 128
}

// Spread is the range of a count.
type Spread struct {
	Min  int64   `json:"min"`
	Max  int64   `json:"max"`
	Mean float64 `json:"mean"`
}

func spreadOf(counts []int64) (s Spread) {
	if len(counts) == 0 {
		return s
	}
	var sum int64
	for _, n := range counts {
		sum += n
	}
	return Spread{slices.Min(counts), slices.Max(counts), float64(sum) / float64(len(counts))}
}

// MaxOverMean returns the hotspot figure of a spread, 1 where nothing was counted.
func (s Spread) MaxOverMean() float64 {
	if s.Mean == 0 {
		return 1
	}
	return float64(s.Max) / s.Mean
}

// Census counts what a selection moves under a placement.
type Census struct {
	Assignments int64  // positions that name an expert
	RankCopies  int64  // (token, rank) pairs with at least one assignment: a token crosses once for each rank
	LocalCopies int64  // rank copies that stay on the token's rank
	LocalAssign int64  // assignments that stay on the token's rank
	ExpertLoad  Spread // assignments of logical experts
	Fanout      Spread // ranks that a token visits, over all tokens
	RankLoad    Spread // assignments that ranks receive

	Sent     [][]int64 // assignments by source and destination rank; nil above mostPairs
	Received []int64   // assignments by destination rank
	Copies   []int64   // rank copies by destination rank
	Sources  []Sender  // by source rank
}

// Sender counts what a rank sends.
type Sender struct{ Assignments, Remote, Copies, RemoteCopies int64 }

// mostPairs bounds the table of pairs to 128 MiB.
const mostPairs = 1 << 24

// Count takes the census of a selection under a placement.
func Count(s *Selection, p *Placement) *Census {
	c := &Census{
		ExpertLoad: spreadOf(s.ExpertLoads()),
		Received:   make([]int64, s.Ranks), Copies: make([]int64, s.Ranks), Sources: make([]Sender, s.Ranks),
	}
	// The matrix grows with the square of the ranks, all else with the ranks.
	if s.Ranks <= mostPairs/s.Ranks {
		c.Sent = make([][]int64, s.Ranks)
		for r := range c.Sent {
			c.Sent[r] = make([]int64, s.Ranks)
		}
	}
	fanout, lastToken := make([]int64, s.WorldTokens()), make([]int, s.Ranks)
	for i, expert := range s.Expert {
		if expert == None {
			continue
		}
		token := i / s.TopK
		source, rank := token/s.Tokens, p.Owner(p.Slot(int(expert), token))
		c.Assignments++
		c.Received[rank]++
		if c.Sent != nil {
			c.Sent[source][rank]++
		}
		from := &c.Sources[source]
		from.Assignments++
		if source == rank {
			c.LocalAssign++
		} else {
			from.Remote++
		}
		// A token that several experts of one rank get is copied there once. Assignments come token by token, so that
		// the last one is all that must be remembered.
		if lastToken[rank] == token+1 {
			continue
		}
		lastToken[rank] = token + 1
		fanout[token]++
		c.RankCopies++
		c.Copies[rank]++
		from.Copies++
		if source == rank {
			c.LocalCopies++
		} else {
			from.RemoteCopies++
		}
	}
	c.Fanout, c.RankLoad = spreadOf(fanout), spreadOf(c.Received)
	return c
}

// Bytes are the payload of one dispatch of the whole world on three bases. Headers are not counted.
type Bytes struct {
	Assignment int64 `json:"assignment"` // a message for each assignment
	Rank       int64 `json:"rank"`       // a copy for each rank that a token visits
	Remote     int64 `json:"remote"`     // a copy for each other rank that a token visits
}

// Bytes returns the payload of a token times the copies.
func (c *Census) Bytes(token int64) Bytes {
	return Bytes{c.Assignments * token, c.RankCopies * token, (c.RankCopies - c.LocalCopies) * token}
}

// MeanFanout returns the expected number of ranks that a token visits if all experts are equally likely: R*(1 -
// C(E-E/R,K)/C(E,K)) where they are different, R*(1-(1-1/R)^K) with replacement.
func (s Shape) MeanFanout(replacement bool) float64 {
	ranks := float64(s.Ranks)
	if replacement {
		return ranks * (1 - math.Pow(1-1/ranks, float64(s.TopK)))
	}
	missed := 1.0 // the probability that none of K different experts is one of a rank's
	for k := range s.TopK {
		missed *= max(0, float64(s.Experts-s.ExpertsPerRank()-k)) / float64(s.Experts-k)
	}
	return ranks * (1 - missed)
}
