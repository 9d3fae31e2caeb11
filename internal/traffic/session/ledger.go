package session

import (
	"cmp"
	"slices"
	"sync"

	"perigee/internal/traffic/load"
	"perigee/nixl"
)

// Ledger keeps every rank's knowledge of all ranks' buffers and connections: it follows
// from the loads alone, in the order in which they are prepared. The ranks of a
// simulation, which live in one process, share one.
type Ledger struct {
	mu    sync.Mutex
	alone bool // one rank's own: steps that are over are forgotten
	steps []*step
	books map[load.Lane]*book
}

// book is the state of one lane at all ranks.
type book struct {
	caps   [2]*need // by nixl.Mem: what the buffers hold; nil if there are none
	linked [][]int  // by rank, the ranks not below it that it is connected with, ascending
	fresh  []pair   // of these, what newPairs has not returned yet
	degree []int    // by rank, how many ranks it is connected with
	told   bool     // every rank has the present cards of all
}

// NewLedger begins a ledger.
func NewLedger() *Ledger { return &Ledger{books: map[load.Lane]*book{}} }

// step holds the demands of one call of Reserve on the ranks.
type step struct {
	lanes []*laneStep // in the order in which lanes open
	roles []load.Roles
}

// laneStep is a step's part on one lane.
type laneStep struct {
	lane     load.Lane
	before   [2]*need // what the buffers held
	toldAll  bool     // ... and whether every rank had the cards of all
	exchange exchange
	grown    [2]*need // by nixl.Mem: what the new buffers must hold; nil where the old ones do
	pairs    []pair   // that exchange bytes for the first time, both ways, sorted
	cards    [][]byte // of all ranks, after buffers have grown
}

// exchange is how ranks learn how to reach the buffers of others.
type exchange int

const (
	tellNobody exchange = iota // all that is needed is known
	tellFresh                  // pairs that meet for the first time exchange cards
	tellPeers                  // all pairs that ever met do: buffers have grown
	tellAll                    // an all-gather of the cards of all ranks
)

// fewPeers is which part of all ranks a rank's peers may be to exchange cards one by one. It
// takes a message and maybe a new link for each.
const fewPeers = 8

// pair is a rank and one that it exchanges bytes with.
type pair struct{ rank, peer int }

// meeting is that of two ranks on a lane.
type meeting struct {
	lane      load.Lane
	low, high int
	took      bool // place, which rank 0's with itself must not find taken
}

// need counts the bytes that one kind of memory must be able to hold at every rank.
type need struct{ send, recv []int64 }

// step returns the number'th call's step, where all ranks make the same calls.
func (l *Ledger) step(number, ranks int, loads []load.Load) *step {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number < len(l.steps) {
		return l.steps[number]
	}
	if l.alone && number > 0 {
		l.steps[number-1] = nil
	}
	s := &step{}
	lanes := lanesOf(loads)
	for _, lane := range lanes {
		if l.books[lane] == nil {
			l.books[lane] = &book{linked: make([][]int, ranks), degree: make([]int, ranks)}
		}
	}
	var lately [1 << 12]meeting // by hash; patterns mostly repeat the pairs of those before them
	s.roles = load.RolesOf(loads, ranks, func(lane load.Lane, rank, peer int) {
		m := meeting{lane, min(rank, peer), max(rank, peer), true}
		if at := &lately[(m.low<<6^m.high)%len(lately)]; *at != m {
			*at = m
			l.books[lane].meet(m.low, m.high)
		}
	})
	for _, lane := range lanes {
		s.lanes = append(s.lanes, l.books[lane].step(lane, on(loads, lane)))
	}
	l.steps = append(l.steps, s)
	return s
}

// lanesOf lists the lanes that any of the loads uses, each once.
func lanesOf(loads []load.Load) (list []load.Lane) {
	for _, d := range loads {
		for _, lane := range d.Lanes() {
			if !slices.Contains(list, lane) {
				list = append(list, lane)
			}
		}
	}
	return list
}

// on returns the loads that use a lane.
func on(loads []load.Load, lane load.Lane) (list []load.Load) {
	for _, d := range loads {
		if slices.Contains(d.Lanes(), lane) {
			list = append(list, d)
		}
	}
	return list
}

// step works out what loads change on a lane: which kinds of memory must grow and which pairs meet for the first time.
// Capacities only grow, so that a load which was reserved before fits again.
func (b *book) step(lane load.Lane, loads []load.Load) *laneStep {
	s := &laneStep{lane: lane, before: b.caps, toldAll: b.told, pairs: b.newPairs()}
	grown := false
	for mem, d := range needs(len(b.degree), lane, loads) {
		old := b.caps[mem]
		if d == nil || old != nil && covers(old.send, d.send) && covers(old.recv, d.recv) {
			continue
		}
		if old != nil {
			raise(d.send, old.send)
			raise(d.recv, old.recv)
		}
		b.caps[mem], s.grown[mem], grown = d, d, true
	}
	s.exchange = b.exchange(grown, len(s.pairs) > 0)
	return s
}

// exchange decides which ranks exchange cards, and notes it as done.
func (b *book) exchange(grown, met bool) exchange {
	switch most := slices.Max(b.degree); {
	case grown && most*fewPeers > len(b.degree):
		b.told = true
		return tellAll
	case grown && most > 0:
		b.told = false
		return tellPeers
	case grown:
		b.told = false
	case met && !b.told:
		return tellFresh
	}
	return tellNobody
}

// keep returns what all ranks' cards are after a step, only one copy for all that
// share the ledger.
func (l *Ledger) keep(s *laneStep, cards [][]byte) [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.cards == nil {
		s.cards = cards
	}
	return s.cards
}

// drop reverts the latest step, whose buffers could not be allocated.
func (l *Ledger) drop(number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number != len(l.steps)-1 {
		return // another rank has done so
	}
	s := l.steps[number]
	l.steps = l.steps[:number]
	for _, lane := range s.lanes {
		b := l.books[lane.lane]
		b.caps, b.told = lane.before, lane.toldAll
		for _, p := range lane.pairs {
			if k, found := slices.BinarySearch(b.linked[p.rank], p.peer); found {
				b.linked[p.rank] = slices.Delete(b.linked[p.rank], k, k+1)
			}
			b.degree[p.rank]--
		}
	}
}

// needs returns what loads need on a lane, by nixl.Mem; nil where no rank needs any.
func needs(ranks int, lane load.Lane, loads []load.Load) (needs [2]*need) {
	for _, d := range loads {
		for r, n := range d.Needs(ranks, lane) {
			for mem := range needs {
				if n.Send[mem]|n.Recv[mem] == 0 {
					continue
				}
				if needs[mem] == nil {
					needs[mem] = &need{make([]int64, ranks), make([]int64, ranks)}
				}
				to := needs[mem]
				to.send[r], to.recv[r] = max(to.send[r], n.Send[mem]), max(to.recv[r], n.Recv[mem])
			}
		}
	}
	return needs
}

func covers(capacity, want []int64) bool {
	for r := range want {
		if want[r] > capacity[r] {
			return false
		}
	}
	return true
}

func raise(to, least []int64) {
	for r := range to {
		to[r] = max(to[r], least[r])
	}
}

// meet notes that two ranks, the lower first, exchange messages on this lane.
func (b *book) meet(low, high int) {
	k, known := slices.BinarySearch(b.linked[low], high)
	if known {
		return
	}
	b.linked[low] = slices.Insert(b.linked[low], k, high)
	b.fresh = append(b.fresh, pair{low, high})
	if low != high {
		b.fresh = append(b.fresh, pair{high, low})
	}
}

// newPairs returns the pairs of ranks that have met since the last call.
func (b *book) newPairs() []pair {
	fresh := b.fresh
	b.fresh = nil
	for _, p := range fresh {
		b.degree[p.rank]++
	}
	slices.SortFunc(fresh, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.peer, b.peer))
	})
	return fresh
}

// peersOf returns the peers that a rank meets for the first time, ascending.
func (s *laneStep) peersOf(rank int) (peers []int) {
	first, _ := slices.BinarySearchFunc(s.pairs, rank, func(p pair, rank int) int { return cmp.Compare(p.rank, rank) })
	for _, p := range s.pairs[first:] {
		if p.rank != rank {
			break
		}
		peers = append(peers, p.peer)
	}
	return peers
}

// memories are the kinds of memory in the order in which their buffers are made.
var memories = []nixl.Mem{nixl.DRAM, nixl.VRAM}
