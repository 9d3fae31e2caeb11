package result

import "math"

// RunSeries is the runs of one pattern in one phase, one after the other. Where its initiators go from run to run
// without meeting, they drift apart, and last end - first start of a run has the drift in it. The zero value is ready.
type RunSeries struct {
	runs, follow, early int // early of those that follow another began before that had ended
	total               int64
	start, end          int64   // of the stretch of runs at hand
	ends                []int64 // of each initiator in the run before
	busy, idle          int64   // of all initiators, in runs and between them
	apart               bool    // a run does not go on where the one before it ended
}

// Cut says that the next run begins a new stretch: what lies between belongs to no figure.
func (r *RunSeries) Cut() {
	r.total += r.end - r.start
	r.start, r.end, r.ends = 0, 0, r.ends[:0]
}

// Add adds the run that is next.
func (r *RunSeries) Add(m *Measurement) {
	r.runs++
	if m.Iteration == 0 || m.Filled {
		r.Cut()
	}
	if len(r.ends) == 0 {
		r.start, r.end = m.StartNS, m.EndNS
	} else {
		r.apart = r.apart || len(r.ends) != len(m.Ranks)
		r.follow++
		if m.StartNS+m.UncertaintyNS < r.end {
			r.early++
		}
	}
	for i := range m.Ranks {
		if i < len(r.ends) && len(r.ends) == len(m.Ranks) {
			gap := m.Ranks[i].StartNS - r.ends[i]
			r.apart = r.apart || gap < -m.UncertaintyNS
			r.idle += max(gap, 0)
		}
		r.busy += m.Ranks[i].DurationNS()
	}
	r.start, r.end, r.ends = min(r.start, m.StartNS), max(r.end, m.EndNS), r.ends[:0]
	if len(m.Ranks) > 1 {
		for i := range m.Ranks {
			r.ends = append(r.ends, m.Ranks[i].EndNS)
		}
	}
}

// PerRunNS is the total time / runs where several initiators did not meet between the runs: most runs began before the
// last end of the one before, and initiators hardly paused in between. Else it is NaN: each run has its own time.
func (r *RunSeries) PerRunNS() float64 {
	if r.apart || r.early == 0 || 2*r.early < r.follow || 2*r.idle > r.busy {
		return math.NaN()
	}
	return float64(r.total+r.end-r.start) / float64(r.runs)
}
