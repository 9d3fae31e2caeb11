package contention

import (
	"math"
	"testing"
)

// alone adds runs alone.
func (m *made) alone(runs, pairs int, spread float64) {
	for i := range runs {
		for pair := range pairs {
			m.add("isolated", i, pair, 1000, spread, nil)
		}
	}
}

// near reports whether an estimate is shown, and near a ratio.
func (e Estimate) near(ratio float64) bool {
	return e.Slows() && math.Abs(e.Ratio/ratio-1) < 0.1 && e.Low < ratio && e.High > ratio
}

// A phase in which all overlap is not left out because another one has a control group.
func TestPhaseWithoutControl(t *testing.T) {
	for _, phases := range []int{1, 2*mostPhases - 1} { // with a control group
		m := newMade(1, 5)
		m.alone(20, 1, 0.03)
		for p := range phases {
			for i := range 12 {
				m.add(string(rune('a'+p)), i, 0, 1000, 0.03, nil)
				m.add(string(rune('a'+p)), 12+i, 0, 1000, 0.03, shared)
			}
		}
		for i := range 12 * phases {
			m.add("heavy", i, 0, 4000, 0.03, shared)
		}
		if r := m.c.Report(); r.Of != Both || !r.near(2) || len(r.Pairs) != 1 || !r.Pairs[0].near(2) || r.Overlapped != 24*phases || r.Lacking.Overlapped != 0 {
			t.Errorf("%d phases: got %+v, want 2 times", phases, r)
		}
		if costs := m.c.Costs(); costs[0].Of != Both || math.Abs(costs[0].Ratio/2-1) > 0.1 {
			t.Errorf("%d phases: costs %+v", phases, costs[0])
		}
	}
}

// Messages that overlap in all runs of a phase, beside others that do not, have their own figure.
func TestMessagesWithoutControl(t *testing.T) {
	m := newMade(4, 5)
	m.alone(20, 4, 0.03)
	for i := range 24 {
		for pair := range 3 {
			if i%2 == 0 {
				m.add("workload", i, pair, 1000, 0.03, nil)
			} else {
				m.add("workload", i, pair, 1000, 0.03, shared)
			}
		}
		m.add("workload", i, 3, 3000, 0.03, shared)
	}
	r := m.c.Report()
	if r.Of != Workload || r.Slows() || r.Overlapped != 36 || r.Lacking.Overlapped != 24 || r.Lacking.Of != Alone || !r.Lacking.near(3) {
		t.Errorf("got %+v, want 1 times, and 3 times of the 24 without a control group", r)
	}
	if len(r.Pairs) != 1 || r.Pairs[0].From != 6 || !r.Pairs[0].near(3) {
		t.Errorf("pairs %+v", r.Pairs)
	}
}

// Pairs with too few messages in the control group are compared with the runs alone, less what makes those of the phase
// slower that do not overlap, too.
func TestPairsBesideSlowMessages(t *testing.T) {
	m := newMade(6, 5)
	m.alone(20, 6, 0.03)
	for i := range 18 {
		for pair := range 6 {
			ns, o := 2000., shared
			if (i+pair)%3 == 0 {
				o = nil
			} else if pair == 5 {
				ns = 8000
			}
			m.add("workload", i, pair, ns, 0.03, o)
		}
	}
	for i := range 60 { // where nothing is slower
		for pair := range 6 {
			m.add("quiet", i, pair, 1000, 0.03, nil)
		}
	}
	r := m.c.Report()
	if r.Of != Workload || len(r.Pairs) != 1 || r.Pairs[0].From != 10 || r.Pairs[0].Of != Alone || !r.Pairs[0].near(4) ||
		math.Abs(r.Pairs[0].Off/2-1) > 0.05 {
		t.Errorf("got %+v, want pair 10 to 11 only, 4 times", r)
	}
	for _, c := range m.c.Costs()[1:] {
		slower := c.From == 10
		if slower && math.Abs(c.Ratio/4-1) > 0.1 || !slower && c.Overlapped > 0 && !c.Masked {
			t.Errorf("costs of %d to %d: %+v", c.From, c.To, c.Estimate)
		}
	}
}

// So it is with messages that overlap in all runs of the phase, or in nearly all: those that do not are few, and may have
// been held up by something else.
func TestAlwaysBesideSlowMessages(t *testing.T) {
	for _, slow := range []float64{1, 3} { // pair 3, by overlapping
		for _, last := range []bool{false, true} {
			m := newMade(4, 5)
			m.alone(20, 4, 0.03)
			for i := range 30 {
				for pair := range 4 {
					ns, o := 1500., shared
					switch {
					case pair == 3 && last && i == 29:
						ns, o = 1500*slow, nil // by something else
					case pair == 3:
						ns *= slow
					case i%2 == 0:
						o = nil
					}
					m.add("workload", i, pair, ns, 0.03, o)
				}
			}
			r := m.c.Report()
			if r.Of != Workload || r.Low > 1.01 || r.Lacking.near(3) != (slow > 1) || slow == 1 && r.Lacking.Slows() || r.Lacking.Overlapped < 29 {
				t.Errorf("%v, %v: got %+v", slow, last, r)
			}
		}
	}
}

// The runs that overlap may follow each other in any steps.
func TestEveryNthRun(t *testing.T) {
	for _, n := range []int{8, 15, 16, 32, 64, 128} {
		m := newMade(1, 5)
		m.alone(20, 1, 0.03)
		for i := range 12 * n {
			if i%n == n-1 {
				m.add("workload", i, 0, 2000, 0.03, shared)
			} else {
				m.add("workload", i, 0, 1000, 0.03, nil)
			}
		}
		if r := m.c.Report(); r.Runs < 10 || !r.near(2) {
			t.Errorf("every %dth: got %+v, want 2 times of 12 runs", n, r)
		}
	}
}

// A message that never ran alone is held against its runs that did not overlap; where there are none it is left out.
func TestNeverAlone(t *testing.T) {
	for _, always := range []bool{false, true} {
		m := newMade(2, 5)
		m.alone(20, 1, 0.03)
		for i := range 40 {
			for pair := range 2 {
				if i%2 == 0 && !(always && pair == 1) {
					m.add("workload", i, pair, 1000, 0.03, nil)
				} else {
					m.add("workload", i, pair, 1000*float64(1+pair), 0.03, shared)
				}
			}
		}
		r := m.c.Report()
		switch {
		case always && (r.Overlapped != 20 || r.LeftOut != 40 || r.Slows() || len(r.Pairs) != 0):
			t.Errorf("always overlapping: %+v", r)
		case !always && (r.Overlapped != 40 || r.LeftOut != 0 || !r.near(math.Sqrt2) || len(r.Pairs) != 1 || r.Pairs[0].From != 2 || !r.Pairs[0].near(2)):
			t.Errorf("overlapping in half of the runs: %+v", r)
		}
	}
}

// Traffic of others, which slows down whole phases, is neither called contention nor does it hide contention, however
// few runs there are: in at most 1 % of results by chance, as far as half of the messages of a phase do not overlap.
func TestTrafficOfOthers(t *testing.T) {
	const results, pairs = 200, 3
	most := mostOf(results)
	for _, c := range []struct {
		name   string
		slower []float64   // by phase
		share  [][]float64 // of the runs that overlap, by phase and pair
		never  int         // pairs that are not measured alone
	}{
		{"none", []float64{1}, [][]float64{{.5, .5, .5}}, 0},
		{"in the phase", []float64{2}, [][]float64{{.5, .5, .5}}, 0},
		{"in one phase", []float64{1, 2}, [][]float64{{0, 0, 0}, {.5, .5, .5}}, 0},
		{"a pair that always overlaps", []float64{1.5}, [][]float64{{.5, .5, 1}}, 0},
		{"a pair that was never alone", []float64{1.5}, [][]float64{{.5, .5, .5}}, 1},
		{"in all phases", []float64{1, 2, 1.5}, [][]float64{{.3, 1, .5}, {.5, 1, .5}, {0, .5, 1}}, 0},
	} {
		for _, runs := range []int{6, 12, 30} {
			for _, cost := range []float64{1, 2} {
				said, logs, n := 0, 0., 0.
				for k := range results {
					m := newMade(pairs, uint64(k))
					m.alone(15, pairs-c.never, 0.1)
					for phase, slower := range c.slower {
						for i := range runs {
							for pair := range pairs {
								if m.rng.Float64() < c.share[phase][pair] {
									m.add(string(rune('a'+phase)), i, pair, 1000*slower*cost, 0.1, shared)
								} else {
									m.add(string(rune('a'+phase)), i, pair, 1000*slower, 0.1, nil)
								}
							}
						}
					}
					r := m.c.Report()
					if r.Slows() && r.High > Little {
						said++
					}
					if r.Of == Workload || cost > 1 && r.Slows() {
						logs, n = logs+math.Log(r.Ratio), n+1
					}
				}
				mean := math.Exp(logs / n)
				if cost == 1 && said > most || cost > 1 && runs > 6 && said < results-most || n > 0 && math.Abs(mean/cost-1) > 0.05 || n == 0 && cost > 1 {
					t.Errorf("%s, %d runs of a phase, cost %g: contention in %d of %d, mean %.3f", c.name, runs, cost, said, results, mean)
				}
			}
		}
	}
}
