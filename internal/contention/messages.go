package contention

import (
	"math"
	"slices"

	"perigee/internal/result"
	"perigee/internal/stats"
	"perigee/internal/traffic/series"
)

// message is one of a pattern's, by its sender and receiver.
type message struct {
	from, to int32
	first    float64   // time alone; 0 if it never ran alone
	more     []float64 // nil of one
	median   float64   // of so many of these
	of       int
	pair     *groups // nil until the first run of the workload comes
	slow     sums    // of the workload's runs that are in the groups
}

// isolated is the median time of the message alone; NaN if it never ran alone.
func (a *message) isolated() float64 {
	if a.first == 0 {
		return math.NaN()
	}
	if n := 1 + len(a.more); a.of != n {
		a.median, a.of = stats.Median(append([]float64{a.first}, a.more...)), n
	}
	return a.median
}

// solo are the messages of a pattern, in the order of its first run. As a rule all runs list them in this order.
type solo struct {
	messages []message
	next     int              // the message that is expected next
	whole    bool             // the first run is through
	at       map[[2]int32]int // by sender and receiver; nil until a run has another order
	pending  []*played        // runs of the workload that are not in the groups yet
}

// played is a run of a pattern in the workload, by its messages. What is said of them depends on how long they took
// alone, which may be measured later.
type played struct {
	run, phase int
	took       []float32 // NaN of messages that it lacks
	first      []float32 // after which they met another; NaN of messages that did not overlap
	may        []float32 // after which they may have, by the clocks; nil if none may
}

// keep takes in a message.
func (w *played) keep(at int, p series.PeerRun, took float64) {
	for len(w.took) <= at {
		w.took, w.first = append(w.took, lacking), append(w.first, lacking)
	}
	w.took[at] = float32(took)
	if p.Overlap != nil {
		w.first[at] = float32(p.Overlap.FirstNS)
	}
	if p.MayMeetNS != nil {
		for len(w.may) <= at {
			w.may = append(w.may, lacking)
		}
		w.may[at] = float32(*p.MayMeetNS)
	}
}

// What a run says of a message.
const (
	absent  = iota
	unsure  // whether it overlapped
	met     // another, before it had lasted as long as alone
	late    // it met another after that
	without // overlap
)

// look says what became of a message whose isolated time is known, and the logarithms of its slowdown and of that which
// it would have had if it had ended when it first met another.
func (w *played) look(at int, isolated float64) (is int, log, until float64) {
	if at >= len(w.took) || w.took[at] != w.took[at] {
		return absent, 0, 0
	}
	log, until = math.Log(result.Slowdown(float64(w.took[at]), isolated)), math.Inf(-1)
	first := float64(w.first[at])
	switch {
	case first < isolated:
		return met, log, math.Log(first / isolated)
	case at < len(w.may) && float64(w.may[at]) < isolated:
		return unsure, log, until
	case first >= isolated:
		return late, log, until
	}
	return without, log, until
}

// place returns the place of a message.
func (s *solo) place(from, to int32) int {
	if s.next < len(s.messages) {
		if a := &s.messages[s.next]; a.from == from && a.to == to {
			s.next++
			return s.next - 1
		}
	}
	key := [2]int32{from, to}
	if s.whole {
		if s.at == nil {
			s.at = map[[2]int32]int{}
			for i, a := range s.messages {
				s.at[[2]int32{a.from, a.to}] = i
			}
		}
		if at, ok := s.at[key]; ok {
			s.next = at + 1
			return at
		}
		s.at[key] = len(s.messages)
	}
	s.messages = append(s.messages, message{from: from, to: to})
	s.next = len(s.messages)
	return s.next - 1
}

// order brings the kept runs into that of their phases.
func (s *solo) order() {
	slices.SortStableFunc(s.pending, func(a, b *played) int { return a.phase - b.phase })
}

// compare adds the kept runs of a message to the group of its pair, against itself, and those in which it did not
// overlap to calm. The runs are in the order of their phases: what one phase adds to all messages is no contention.
func (s *solo) compare(at int, pair, calm *groups) {
	a := &s.messages[at]
	isolated := a.isolated()
	var over, others, phaseOver, phaseOthers []value
	for i, w := range s.pending {
		v := value{run: workloadRun(w.run)}
		var is int
		switch is, v.log, v.met = w.look(at, isolated); is {
		case met:
			phaseOver = append(phaseOver, v)
			pair.overlapped.merge(sums{v.log, 1})
		case late, without:
			phaseOthers = append(phaseOthers, v)
			calm.overlapped.merge(sums{v.log, 1})
			pair.calm++
			if is == late {
				pair.late++
			}
		}
		if i+1 == len(s.pending) || s.pending[i+1].phase != w.phase {
			if len(phaseOver) > 0 { // no other message knows what overlapping costs this one
				pair.within.add(phaseOver, phaseOthers, true)
			}
			over, others = append(over, phaseOver...), append(others, phaseOthers...)
			phaseOver, phaseOthers = phaseOver[:0], phaseOthers[:0]
		}
	}
	if len(over)+len(others) == 0 {
		return
	}
	own := []value{{aloneRun(0), math.Log(a.first / isolated), math.Inf(-1)}}
	for k, took := range a.more {
		own = append(own, value{aloneRun(k + 1), math.Log(took / isolated), math.Inf(-1)})
	}
	calm.against.add(others, own, false)
	if len(over) > 0 {
		pair.against.add(over, own, false)
	}
}

// slowed is the slowdowns of a message.
func (s *solo) slowed(at int) sums {
	a := &s.messages[at]
	slow := a.slow
	if a.first == 0 {
		return slow
	}
	for _, w := range s.pending {
		if is, log, _ := w.look(at, a.isolated()); is != absent {
			slow.merge(sums{log, 1})
		}
	}
	return slow
}

// meets reports whether a message overlapped in time in one of the kept runs.
func (s *solo) meets(at int) bool {
	return slices.ContainsFunc(s.pending, func(w *played) bool {
		is, _, _ := w.look(at, s.messages[at].isolated())
		return is == met
	})
}
