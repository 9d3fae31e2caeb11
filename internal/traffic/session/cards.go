package session

import (
	"encoding/json"
	"slices"

	"perigee/internal/kit/fault"
)

// exchangeCards makes the buffers of this rank's peers reachable. On lanes whose buffers
// have grown, that is all peers so far; on the others, those it meets for the first time.
func (s *Session) exchangeCards(step *step) error {
	if err := s.gatherCards(step); err != nil {
		return err
	}
	me := s.world.Rank()
	for _, n := range step.lanes {
		l := s.lanes[n.lane]
		if l == nil {
			continue
		}
		peers := n.peersOf(me)
		if n.exchange == tellPeers || n.exchange == tellAll {
			peers = slices.Concat(l.peers, peers)
		}
		var cards [][]byte
		if n.exchange == tellPeers || n.exchange == tellFresh {
			card, err := l.card()
			if err != nil {
				return err
			}
			if cards, err = s.world.All().Exchange(peers, card); err != nil {
				return err
			}
		} else {
			for _, p := range peers {
				cards = append(cards, l.cards[p])
			}
		}
		for i, p := range peers {
			if err := l.agent.AddPeer(p, cards[i]); err != nil {
				return fault.New(fault.Engine, "reach the buffers of rank %d: %w", p, err)
			}
		}
	}
	return nil
}

func (l *Lane) card() ([]byte, error) {
	card, err := l.agent.Card()
	if err != nil {
		return nil, fault.New(fault.Engine, "describe the buffers: %w", err)
	}
	return card, nil
}

// gatherCards gives the cards of all ranks to all, for the lanes that need it, in one all-gather.
func (s *Session) gatherCards(step *step) error {
	var lanes []*laneStep
	var mine [][]byte
	for _, n := range step.lanes {
		if n.exchange != tellAll {
			continue
		}
		card, err := s.lanes[n.lane].card()
		if err != nil {
			return err
		}
		lanes, mine = append(lanes, n), append(mine, card)
	}
	switch len(lanes) {
	case 0:
		return nil
	case 1:
		cards, err := s.world.All().AllGather(mine[0])
		if err == nil {
			s.lanes[lanes[0].lane].cards = s.ledger.keep(lanes[0], cards)
		}
		return err
	}
	return s.gatherMany(lanes, mine)
}

// gatherMany sends the cards of several lanes in one all-gather: a step with eight lanes would take eight times as
// long otherwise, as each waits for the slowest rank.
func (s *Session) gatherMany(lanes []*laneStep, mine [][]byte) error {
	data, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	all, err := s.world.All().AllGather(data)
	if err != nil {
		return err
	}
	cards := make([][][]byte, len(lanes)) // by lane, by rank
	for rank, data := range all {
		var theirs [][]byte
		if err := json.Unmarshal(data, &theirs); err != nil || len(theirs) != len(lanes) {
			return fault.New(fault.Internal, "the cards of rank %d are for %d lanes, want %d: %w", rank, len(theirs),
				len(lanes), err)
		}
		for i, card := range theirs {
			cards[i] = append(cards[i], card)
		}
	}
	for i, n := range lanes {
		s.lanes[n.lane].cards = s.ledger.keep(n, cards[i])
	}
	return nil
}

// connect opens the connections of ranks that exchange bytes for the first time.
func (s *Session) connect(step *step) error {
	var ways []Way
	for _, n := range step.lanes {
		if len(n.pairs) == 0 {
			continue
		}
		l, peers := s.lanes[n.lane], n.peersOf(s.world.Rank())
		l.peers = append(l.peers, peers...)
		ways = append(ways, Way{Agent: l.agent, Peers: peers})
	}
	if len(ways) == 0 {
		return nil
	}
	return Connect(s.world, ways...)
}
