package contention

import (
	"cmp"
	"math"
	"slices"

	"perigee/internal/kit/stats"
)

// groups are the messages between two ranks, or of all.
type groups struct {
	overlapped sums           // slowdowns of those that overlapped and have a reference
	calm       int            // messages of the workload that have one and did not overlap
	late       int            // of these, that met others after they had lasted as long as alone
	shared     map[string]int // what those that overlapped shared; nil of none
	against    contrast       // of messages that overlapped with the same alone
	phases     []phase        // by number, at most mostPhases
}

// phase is the messages of groups in a phase of the workload, or of several.
type phase struct {
	overlapped int      // messages that overlapped
	within     contrast // of these with the same in other runs of the phase
	lacking    contrast // of these with the same alone, where they overlapped in all runs of the phase
	against    contrast // of all of these with the same alone
}

// mostPhases bounds the phases that are kept apart. Further ones join those that are there.
const mostPhases = 8

// fewest is how many times as many messages of a phase may overlap as do not, for these to be a control group, and
// fewestRuns is that of the runs of one message. Where nearly all overlap, the few that do not are those that something
// else held up.
const fewest, fewestRuns = 4, 16

// phase returns that of a number.
func (g *groups) phase(number int) *phase {
	number %= mostPhases
	for len(g.phases) <= number {
		g.phases = append(g.phases, phase{})
	}
	return &g.phases[number]
}

func (p *phase) merge(o *phase) {
	p.overlapped += o.overlapped
	p.within.merge(o.within)
	p.lacking.merge(o.lacking)
	p.against.merge(o.against)
}

func (g *groups) clone() *groups {
	o := *g
	o.against, o.phases = slices.Clone(g.against), make([]phase, len(g.phases))
	for i := range g.phases {
		o.phases[i].merge(&g.phases[i])
	}
	return &o
}

func (g *groups) merge(o *groups) {
	g.overlapped.merge(o.overlapped)
	g.calm, g.late = g.calm+o.calm, g.late+o.late
	g.against.merge(o.against)
	for i := range o.phases {
		g.phase(i).merge(&o.phases[i])
	}
}

// compare sets the overlapped messages against the control group. The estimate lacks the interval. lacking is of those
// that overlapped in all runs of their phase, where others of the phase have a control group.
func (g *groups) compare() (e Estimate, c, lacking contrast) {
	e = estimateOf(g.overlapped)
	if g.overlapped.n == 0 {
		e.Control = g.calm
		return e, nil, nil
	}
	var others contrast
	for i := range g.phases {
		p := &g.phases[i]
		if p.controlled() {
			c.merge(p.within)
			lacking.merge(p.lacking)
		} else {
			others.merge(p.against)
		}
	}
	of := Workload
	if t, runs := c.total(); t.others < minControl || runs < MinRuns {
		of, c, lacking = Alone, g.against, nil
	} else if others != nil {
		of = Both
		c.merge(others)
	}
	e.take(c, of)
	for i := range g.phases {
		if p := &g.phases[i]; of == Alone || of == Both && !p.controlled() {
			e.alone[i] = p.against.part(c)
		}
	}
	return e, c, lacking
}

// estimateOf is that of messages of which nothing is known yet but their slowdowns.
func estimateOf(slowdowns sums) Estimate {
	nan := math.NaN()
	return Estimate{Slowdown: math.Exp(slowdowns.mean()), Ratio: nan, Low: nan, High: nan, Off: 1, Beside: 1}
}

// controlled reports whether the phase has a control group. It has to stand for most of what overlapped.
func (p *phase) controlled() bool {
	t, _ := p.within.total()
	return t.others > 0 && 2*t.overlapped >= p.overlapped && fewest*t.others >= t.overlapped
}

// take takes the figures of a contrast.
func (e *Estimate) take(c contrast, of string) {
	t, runs := c.total()
	e.Overlapped, e.Control, e.Runs = t.overlapped, t.others, runs
	if t.weight > 0 {
		e.Of, e.Ratio = of, math.Exp(t.effect/t.weight)
	}
}

// part is that of the weight of all.
func (c contrast) part(all contrast) float64 {
	own, _ := c.total()
	t, _ := all.total()
	if t.weight == 0 {
		return 0
	}
	return own.weight / t.weight
}

// others is how much longer than alone the messages of each phase take that do not overlap, which g is, where that is
// shown. Few of them stand for many that overlapped only where they take no longer than these: else something held them
// up.
func (g *groups) others(overlapped *groups) (list [mostPhases]Estimate) {
	for i := range g.phases {
		p := &g.phases[i]
		if p.overlapped < minCalm {
			continue
		}
		e, met := estimateOf(sums{}), estimateOf(sums{})
		e.take(p.against, Alone)
		if i < len(overlapped.phases) {
			o := &overlapped.phases[i]
			if met.take(o.against, Alone); fewest*p.overlapped < o.overlapped && !(e.Ratio <= met.Ratio) {
				continue
			}
		}
		e.bound(p.against, besideLevel)
		if math.IsNaN(e.Low) { // too few runs: better too much is taken off than that others' traffic counts
			e.Low, e.High = e.Ratio, e.Ratio
		}
		if e.Low > 1 {
			e.bound(p.against, level)
			list[i] = e
		}
	}
	return list
}

// takeOff takes off what others are longer than alone from what is shown to be longer than alone, and not only a
// little: as much of it may come from something else. What hardly is longer than these take is masked by them.
func (e *Estimate) takeOff(others [mostPhases]Estimate) {
	off, low, high := 1., 1., 1.
	for i, o := range others {
		if o.Overlapped > 0 {
			off *= math.Pow(o.Ratio, e.alone[i])
			low, high = low*math.Pow(o.Low, e.alone[i]), high*math.Pow(o.High, e.alone[i])
		}
	}
	e.Beside = off
	if !e.Shown() || e.High <= Little {
		return
	}
	e.Off = off
	if e.Masked = off > 1 && (e.Low <= high || e.High <= Little*low); e.Masked {
		return
	}
	e.Ratio, e.Low, e.High = e.Ratio/off, e.Low/high, e.High/low
}

// bound adds the interval.
func (e *Estimate) bound(c contrast, level float64) {
	if e.Runs < MinRuns {
		return
	}
	n := float64(e.Runs)
	half := stats.StudentQuantile(1-level/2, n-1) * c.deviation() * math.Sqrt(n/(n-1))
	e.Low, e.High = e.Ratio*math.Exp(-half), e.Ratio*math.Exp(half)
}

// estimate compares the overlapped messages with the control group. lacking is of those that compare returns.
func (g *groups) estimate(level float64) (e, lacking Estimate) {
	e, c, without := g.compare()
	e.bound(c, level)
	lacking = estimateOf(sums{})
	lacking.take(without, Alone)
	lacking.bound(without, level)
	for i := range g.phases {
		if p := &g.phases[i]; p.controlled() {
			lacking.alone[i] = p.lacking.part(without)
		}
	}
	return e, lacking
}

// value is the logarithm of a slowdown, and the place in a contrast of the run that it is of. met is the logarithm of
// the slowdown that the message would have had if it had ended when it first met another.
type value struct {
	run      int
	log, met float64
}

// aloneRun is the place of a run alone. Runs beyond the bound join others.
func aloneRun(run int) int { return run % mostAlone }

// score sums up what the messages of a run say of the effect of overlapping: the sum over those that overlapped of
// weight * (logarithm of the slowdown - what is expected of it), less the part that those which did not overlap have
// in what is expected of others.
type score struct {
	effect, weight     float64
	drawn              float64 // what the others' residuals lack, since the mean is drawn to each by its part in it
	overlapped, others int     // messages
}

// mostKnown is which part of what lasted as long the others have to stand for, and mostDrawn the part in their mean up
// to which the residual of one of them is made up for.
const mostKnown, mostDrawn = 0.9, 0.75

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
	// times the logarithms. whole[k] is from[k] and what lasted longer than any of the others.
	mass, from, sum := make([]float64, n), make([]float64, n+1), make([]float64, n+1)
	whole := make([]float64, n)
	left, gone := 1., 0
	for k, v := range others {
		whole[k] = left
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
		if from[k] < mostKnown*whole[k] {
			continue // the others are those that were over soon
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
			part := mass[k] * (v.log*share[k] - expected[k])
			s.effect, s.others = s.effect-part, s.others+1
			if n > 1 {
				s.drawn -= part * (1/(1-min(mass[k]/from[0], mostDrawn)) - 1)
			}
		}
	}
}

func (c *contrast) merge(o contrast) {
	for run, s := range o {
		c.at(run).merge(s)
	}
}

func (s *score) merge(o score) {
	s.effect, s.weight, s.drawn = s.effect+o.effect, s.weight+o.weight, s.drawn+o.drawn
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
		rest := s.effect + s.drawn - effect*s.weight
		sum += rest * rest
	}
	return math.Sqrt(sum) / t.weight
}
