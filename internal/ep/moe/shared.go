package moe

// Share adds n shared experts to a selection and its placement: numbers E to E+n-1, each with a slot on every rank.
// Every token also goes to all of them, at its own rank and with weight 1; a rank sends nothing for them.
func Share(s *Selection, p *Placement, n int) (*Selection, *Placement) {
	if n == 0 {
		return s, p
	}
	more := &Selection{Shape: s.Shape, Sigma: s.Sigma}
	more.Experts, more.TopK = s.Experts+n, s.TopK+n
	shared, weights := make([]int32, n), make([]float32, n)
	for j := range n {
		shared[j], weights[j] = int32(s.Experts+j), 1
	}
	for token := range s.WorldTokens() {
		experts, w := s.Of(token)
		more.Expert = append(append(more.Expert, experts...), shared...)
		more.Weights = append(append(more.Weights, w...), weights...)
	}
	var logical []int
	for rank := range s.Ranks {
		logical = append(logical, p.Logical[rank*p.PerRank:(rank+1)*p.PerRank]...)
		for j := range n {
			logical = append(logical, s.Experts+j)
		}
	}
	placed := NewPlacement(logical, more.Experts, p.PerRank+n)
	placed.atHome, placed.tokens = s.Experts, s.Tokens
	return more, placed
}

// Slot returns the slot that serves an expert for a token, by the token's global number: replicas take tokens in turn,
// and a shared expert has the tokens of the rank that it is on.
func (p *Placement) Slot(expert, token int) int {
	slots := p.slots[expert]
	if p.tokens > 0 && expert >= p.atHome {
		return int(slots[token/p.tokens])
	}
	return int(slots[token%len(slots)])
}
