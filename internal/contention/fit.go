package contention

import (
	"cmp"
	"math"
	"slices"

	"perigee/internal/stats"
)

// groups are the messages between two ranks, or of all.
type groups struct {
	overlapped sums           // slowdowns of those that overlapped and also ran alone
	calm       int            // messages of the workload that also ran alone and did not overlap
	late       int            // of these, that met others after they had lasted as long as alone
	shared     map[string]int // what those that overlapped shared; nil of none
	within     contrast       // of messages that overlapped with the same in other runs of the workload
	against    contrast       // with the same alone
}

func (g *groups) clone() *groups {
	o := *g
	o.within, o.against = slices.Clone(g.within), slices.Clone(g.against)
	return &o
}

func (g *groups) merge(o *groups) {
	g.overlapped.merge(o.overlapped)
	g.calm, g.late = g.calm+o.calm, g.late+o.late
	g.within.merge(o.within)
	g.against.merge(o.against)
}

// compare sets the overlapped messages against the control group. The estimate lacks the interval.
func (g *groups) compare() (Estimate, contrast) {
	e := Estimate{
		Slowdown: math.Exp(g.overlapped.mean()), Ratio: math.NaN(), Low: math.NaN(), High: math.NaN(),
	}
	if g.overlapped.n == 0 {
		e.Control = g.calm
		return e, nil
	}
	c, of := g.within, Workload
	t, runs := c.total()
	// The control group has to stand for most of what overlapped. And where nearly all messages overlap, the few that
	// do not are those that something else held up.
	if t.others < max(minControl, t.overlapped/3) || runs < MinRuns || 2*t.overlapped < g.overlapped.n {
		c, of = g.against, Alone
		t, runs = c.total()
	}
	e.Overlapped, e.Control, e.Runs = t.overlapped, t.others, runs
	if t.weight > 0 {
		e.Of, e.Ratio = of, math.Exp(t.effect/t.weight)
	}
	return e, c
}

// estimate compares the overlapped messages with the control group.
func (g *groups) estimate(level float64) Estimate {
	e, c := g.compare()
	if e.Runs < MinRuns {
		return e
	}
	n := float64(e.Runs)
	half := stats.StudentQuantile(1-level/2, n-1) * c.deviation() * math.Sqrt(n/(n-1))
	e.Low, e.High = e.Ratio*math.Exp(-half), e.Ratio*math.Exp(half)
	return e
}

// value is the logarithm of a slowdown, and the place in a contrast of the run that it is of. met is the logarithm of
// the slowdown that the message would have had if it had ended when it first met another.
type value struct {
	run      int
	log, met float64
}

// workloadRun and aloneRun are the places of runs. Runs beyond the bounds join others.
func workloadRun(run int) int { return mostAlone + run%mostGroups }
func aloneRun(run int) int    { return run % mostAlone }

// score is what the messages of a run say of the effect of overlapping: the sum over those that overlapped of weight
// * (logarithm of the slowdown - what is expected of it), less the part that those which did not overlap have in what
// is expected of others.
type score struct {
	effect, weight     float64
	overlapped, others int // messages
}

// contrast sets messages that overlapped against the same that did not, by run.
type contrast []score

func (c *contrast) at(run int) *score {
	for len(*c) <= run {
		*c = append(*c, score{})
	}
	return &(*c)[run]
}

// add takes in the runs of a message, those in which it overlapped and the others.
//
// A message that lasts longer has more time to meet another. So one that met another after a time is expected to take
// as long as those that did not overlap and lasted at least as long as that. With censored, those that overlapped
// would otherwise have been among the others; until they met another they are known to have lasted, and the others
// that lasted longer stand for them (Kaplan and Meier 1958).
func (c *contrast) add(overlapped, others []value, censored bool) {
	slices.SortFunc(overlapped, func(a, b value) int { return cmp.Compare(a.met, b.met) })
	slices.SortFunc(others, func(a, b value) int { return cmp.Compare(a.log, b.log) })
	n := len(others)
	// mass[k] is what the k-th of the others stands for, from[k] and sum[k] that of it and all longer ones, and this
	// times the logarithms.
	mass, from, sum := make([]float64, n), make([]float64, n+1), make([]float64, n+1)
	left, gone := 1., 0
	for k, v := range others {
		for censored && gone < len(overlapped) && overlapped[gone].met < v.log {
			gone++
		}
		lasting := n - k
		if censored {
			lasting += len(overlapped) - gone
		}
		mass[k] = left / float64(lasting)
		left -= mass[k]
	}
	for k := n - 1; k >= 0; k-- {
		from[k], sum[k] = from[k+1]+mass[k], sum[k+1]+mass[k]*others[k].log
	}
	// share[k] and expected[k] are the parts of those that overlapped for which the others stand from the k-th on.
	share, expected := make([]float64, n+1), make([]float64, n+1)
	k := 0
	for _, v := range overlapped {
		for k < n && others[k].log <= v.met {
			k++
		}
		if k == n {
			break // none of the others lasted as long
		}
		mean, weight := sum[k]/from[k], float64(n-k)/float64(n-k+1)
		s := c.at(v.run)
		s.effect, s.weight, s.overlapped = s.effect+weight*(v.log-mean), s.weight+weight, s.overlapped+1
		share[k], expected[k] = share[k]+weight/from[k], expected[k]+weight*mean/from[k]
	}
	for k, v := range others {
		if k > 0 {
			share[k], expected[k] = share[k]+share[k-1], expected[k]+expected[k-1]
		}
		if share[k] > 0 {
			s := c.at(v.run)
			s.effect, s.others = s.effect-mass[k]*(v.log*share[k]-expected[k]), s.others+1
		}
	}
}

func (c *contrast) merge(o contrast) {
	for run, s := range o {
		c.at(run).merge(s)
	}
}

func (s *score) merge(o score) {
	s.effect, s.weight = s.effect+o.effect, s.weight+o.weight
	s.overlapped, s.others = s.overlapped+o.overlapped, s.others+o.others
}

// total sums up the runs; runs is how many the smaller group has.
func (c contrast) total() (t score, runs int) {
	overlapped, others := 0, 0
	for _, s := range c {
		t.merge(s)
		if s.overlapped > 0 {
			overlapped++
		}
		if s.others > 0 {
			others++
		}
	}
	return t, min(overlapped, others)
}

// deviation is the standard error of the effect, by run: what is left of a run's messages, once the effect is taken
// off, is summed up before it is squared.
func (c contrast) deviation() float64 {
	t, _ := c.total()
	effect, sum := t.effect/t.weight, 0.
	for _, s := range c {
		rest := s.effect - effect*s.weight
		sum += rest * rest
	}
	return math.Sqrt(sum) / t.weight
}
