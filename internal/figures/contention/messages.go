package contention

import (
	"math"
	"slices"

	"perigee/internal/kit/stats"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// message is one of a pattern's, by its sender and receiver.
type message struct {
	from, to int32
	first    float64   // time alone; 0 if it never ran alone
	more     []float64 // nil of one
	waits    []wait    // alone, of the first mostAlone of those that are known
	median   float64   // of so many of these
	of       int
	pair     *groups // nil until the first run of the workload comes
	slow     sums    // of the workload's runs that are in the groups
	kept     []kept  // runs of the workload that are not in the groups yet
}

// kept is a message in a run of the workload. What is said of it depends on how long it takes alone, which may be
// measured later.
type kept struct {
	run   int32
	took  float32
	first float32 // after which it met another; NaN if it did not overlap
	may   float32 // after which it may have met another, by the clocks; NaN if not
	wait  wait
}

// reference is the time that the message is held against: alone, or, if it never ran alone, the median of the runs that
// are kept in which it did not overlap; NaN without either.
func (a *message) reference() float64 {
	if a.first > 0 {
		return a.isolated()
	}
	var calm []float64
	for _, k := range a.kept {
		if k.first != k.first && k.may != k.may {
			calm = append(calm, float64(k.took))
		}
	}
	return stats.Median(calm)
}

// keep makes what is kept of a message in a run.
func keep(run int, p series.PeerRun, took float64, w wait) kept {
	k := kept{int32(run), float32(took), lacking, lacking, w}
	if p.Overlap != nil {
		k.first = float32(p.Overlap.FirstNS)
	}
	if p.MayMeetNS != nil {
		k.may = float32(*p.MayMeetNS)
	}
	return k
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
	waiting  waiting          // of runs that are not kept any more
}

// What a run says of a message.
const (
	unsure  = iota // whether it overlapped
	met            // another, before it had lasted as long as alone
	late           // it met another after that
	without        // overlap
)

// look says what became of a message whose isolated time is known, and the logarithms of its slowdown and of that which
// it would have had if it had ended when it first met another.
func (k kept) look(isolated float64) (is int, log, until float64) {
	log, until = math.Log(result.Slowdown(float64(k.took), isolated)), math.Inf(-1)
	first := float64(k.first)
	switch {
	case first < isolated:
		return met, log, math.Log(first / isolated)
	case float64(k.may) < isolated:
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

// phased is the number of the phase of each run of the workload.
type phased []int32

// workloadRun is the place of a run of the workload in a contrast. Beyond mostGroups the places look random, since runs
// with overlap may follow each other in any steps.
func workloadRun(run int32) int {
	if run < mostGroups {
		return mostAlone + int(run)
	}
	h := uint64(run) * 0x9E3779B97F4A7C15
	h = (h ^ h>>32) * 0xD6E8FEB86659FD93
	return mostAlone + int(h>>32%mostGroups)
}

// compare adds the kept runs of a message, which has a reference, to the group of its pair, against itself, and those
// in which it did not overlap to calm, by phase only if it takes at least so long alone. Runs are set against others of
// their phase: what one phase adds to all messages is no contention.
func (a *message) compare(pair, calm *groups, runs phased, least float64) {
	isolated := a.reference()
	var own []value // alone
	if a.first > 0 {
		own = append(own, value{aloneRun(0), math.Log(a.first / isolated), math.Inf(-1)})
	}
	for k, took := range a.more {
		own = append(own, value{aloneRun(k + 1), math.Log(took / isolated), math.Inf(-1)})
	}
	slices.SortStableFunc(a.kept, func(x, y kept) int { return int(runs[x.run] - runs[y.run]) })
	var over, others []value
	fromOver, fromOthers := 0, 0 // of the phase
	for i, k := range a.kept {
		v := value{run: workloadRun(k.run)}
		var is int
		switch is, v.log, v.met = k.look(isolated); is {
		case met:
			over = append(over, v)
			pair.overlapped.merge(sums{v.log, 1})
		case late, without:
			others = append(others, v)
			if own != nil {
				calm.overlapped.merge(sums{v.log, 1})
			}
			pair.calm++
			if is == late {
				pair.late++
			}
		}
		if i+1 < len(a.kept) && runs[a.kept[i+1].run] == runs[k.run] {
			continue
		}
		if met := over[fromOver:]; len(met) > 0 { // no other message knows what overlapping costs this one
			p := pair.phase(int(runs[k.run]))
			beside := others[fromOthers:]
			enough := fewestRuns*len(beside) >= len(met)
			if enough {
				p.within.add(met, beside, true)
			}
			if own != nil {
				p.against.add(met, own, false)
				if !enough {
					p.lacking.add(met, own, false)
				}
			}
			if own != nil || enough {
				p.overlapped += len(met)
			}
		}
		if beside := others[fromOthers:]; len(beside) > 0 && own != nil && isolated >= least {
			p := calm.phase(int(runs[k.run]))
			p.overlapped += len(beside)
			p.against.add(beside, own, false)
		}
		fromOver, fromOthers = len(over), len(others)
	}
	if own == nil {
		return
	}
	if len(others) > 0 {
		calm.against.add(others, own, false)
	}
	if len(over) > 0 {
		pair.against.add(over, own, false)
	}
}

// slowed is the slowdowns of a message.
func (a *message) slowed() sums {
	slow := a.slow
	if a.first == 0 {
		return slow
	}
	isolated := a.isolated()
	for _, k := range a.kept {
		_, log, _ := k.look(isolated)
		slow.merge(sums{log, 1})
	}
	return slow
}

// meets reports whether a message overlapped in time in one of the kept runs.
func (a *message) meets() bool {
	isolated := a.reference()
	return slices.ContainsFunc(a.kept, func(k kept) bool { return float64(k.first) < isolated })
}
