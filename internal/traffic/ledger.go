package traffic

import (
	"cmp"
	"slices"
	"sync"

	"perigee/nixl"
)

// Ledger is what every rank knows of all ranks' buffers and connections: it follows
// from the patterns alone, in the order in which they are prepared. The ranks of
// a simulation, which live in one process, share one.
type Ledger struct {
	mu     sync.Mutex
	steps  []*step
	caps   [2]*need            // by nixl.Mem: what the buffers hold; nil if there are none
	linked map[[2]int]struct{} // pairs of ranks, lower first, that are connected
	degree []int               // by rank, how many others it is connected with
	told   bool                // every rank has the present cards of all
}

// NewLedger begins a ledger.
func NewLedger() *Ledger { return &Ledger{linked: map[[2]int]struct{}{}} }

// step is what one call of Prepare asks of the ranks.
type step struct {
	before   [2]*need // what the buffers held
	toldAll  bool     // ... and whether every rank had the cards of all
	exchange exchange
	grown    [2]*need // by nixl.Mem: what the new buffers must hold; nil where the old ones do
	pairs    []pair   // that exchange bytes for the first time, both ways, sorted
	patterns []roles
	cards    [][]byte // of all ranks, after buffers have grown
}

// exchange is how ranks learn how to reach the buffers of others.
type exchange int

const (
	tellNobody exchange = iota // all that is needed is known
	tellFresh                  // those who meet for the first time tell each other
	tellPeers                  // all who have ever met do: buffers have grown
	tellAll                    // everybody tells everybody
)

// fewPeers is which part of all ranks a rank's peers may be to be told one by one. It
// takes a message and maybe a new link for each.
const fewPeers = 8

// pair is a rank and one that it exchanges bytes with.
type pair struct{ rank, peer int }

// roles are who does what in a pattern.
type roles struct{ ranks, initiators []int }

// need is what one kind of memory must be able to hold at every rank.
type need struct{ send, recv []int64 }

// step returns the number'th call's step, where all ranks make the same calls.
func (l *Ledger) step(number int, patterns []Pattern) *step {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number < len(l.steps) {
		return l.steps[number]
	}
	s := &step{before: l.caps, toldAll: l.told, pairs: l.newPairs(patterns)}
	for _, p := range patterns {
		s.patterns = append(s.patterns, roles{p.Matrix.Ranks(), p.Initiators()})
	}
	grown := false
	for mem, d := range needs(patterns) {
		old := l.caps[mem]
		if d == nil || old != nil && covers(old.send, d.send) && covers(old.recv, d.recv) {
			continue
		}
		if old != nil {
			raise(d.send, old.send)
			raise(d.recv, old.recv)
		}
		l.caps[mem], s.grown[mem], grown = d, d, true
	}
	s.exchange = l.exchange(grown, len(s.pairs) > 0)
	l.steps = append(l.steps, s)
	return s
}

// exchange decides who must tell whom, and notes it as done.
func (l *Ledger) exchange(grown, met bool) exchange {
	switch {
	case grown && len(l.degree) > 0 && slices.Max(l.degree)*fewPeers > len(l.degree):
		l.told = true
		return tellAll
	case grown:
		l.told = false
		return tellPeers
	case met && !l.told:
		return tellFresh
	}
	return tellNobody
}

// keep returns what all ranks' cards are after a step, only one copy for all that
// share the ledger.
func (l *Ledger) keep(number int, cards [][]byte) [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.steps[number]
	if s.cards == nil {
		s.cards = cards
	}
	return s.cards
}

// drop takes back the latest step, whose buffers could not be had.
func (l *Ledger) drop(number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number != len(l.steps)-1 {
		return // another rank has done so
	}
	s := l.steps[number]
	l.steps, l.caps, l.told = l.steps[:number], s.before, s.toldAll
	for _, p := range s.pairs {
		delete(l.linked, [2]int{p.rank, p.peer})
		l.degree[p.rank]--
	}
}

// needs returns what patterns need, by nixl.Mem.
func needs(patterns []Pattern) (needs [2]*need) {
	for _, p := range patterns {
		n := p.Matrix.Size()
		d := needs[p.Mem]
		if d == nil {
			d = &need{make([]int64, n), make([]int64, n)}
			needs[p.Mem] = d
		}
		for r := range n {
			d.send[r] = max(d.send[r], p.Matrix.RowSum(r))
			d.recv[r] = max(d.recv[r], p.Matrix.ColumnSum(r))
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

// newPairs notes the pairs of ranks that meet for the first time.
func (l *Ledger) newPairs(patterns []Pattern) (fresh []pair) {
	for _, p := range patterns {
		if l.degree == nil {
			l.degree = make([]int, p.Matrix.Size())
		}
		for i := range p.Matrix.Size() {
			for _, c := range p.Matrix.Row(i) {
				key := [2]int{min(i, c.Peer), max(i, c.Peer)}
				if _, known := l.linked[key]; known {
					continue
				}
				l.linked[key] = struct{}{}
				fresh = append(fresh, pair{key[0], key[1]})
				if key[0] != key[1] {
					fresh = append(fresh, pair{key[1], key[0]})
				}
			}
		}
	}
	for _, p := range fresh {
		l.degree[p.rank]++
	}
	slices.SortFunc(fresh, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.peer, b.peer))
	})
	return fresh
}

// peersOf returns the peers that a rank meets for the first time, ascending.
func (s *step) peersOf(rank int) (peers []int) {
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
