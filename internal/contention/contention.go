// Package contention says what it costs messages that others use the same
// sender, receiver or host at the same time.
//
// # Definition
//
// The slowdown of a message is its time / the median time of the same message
// when its pattern ran alone. Contention compares messages of the workload that
// overlapped with messages of other patterns (package overlap) with a control
// group: messages of the same workload that did not. Where these are too few,
// the control group are the runs alone, and Control says so.
//
// The figure is the ratio of the two groups' geometric means of slowdowns. So 1
// means that overlapping costs nothing, 2 that it doubles the time.
//
// # Interval
//
// The sample is the run, since messages of one run share their fate: runs are
// drawn with replacement from those of each group, 1000 times from a fixed seed. The
// interval is the logarithm of the ratio plus and minus Student's t, with as many
// degrees of freedom as the smaller group has runs less one, times the standard
// deviation of the draws, widened by n / (n - 1) for small n. With fewer than
// MinRuns runs there is no interval, and nothing is shown.
//
// Pairs are compared in the same way, each at the level 5 % / the number of pairs
// that overlapped (Bonferroni), so that one of many is not named by chance.
package contention

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"perigee/internal/result"
	"perigee/internal/stats"
	"perigee/internal/traffic/series"
)

// Where figures begin to count.
const (
	// MinRuns is how many runs of each group an interval takes.
	MinRuns = 5
	// minControl is how many messages that did not overlap make a control group.
	minControl = 8
	level      = 0.05
	draws      = 1000
	// mostAlone bounds the times alone that are kept of a message.
	mostAlone = 31
	// mostGroups bounds what is kept of each pair: further runs join those that are there.
	mostGroups = 64
)

// The control groups.
const (
	Workload = "workload" // messages of the same workload that did not overlap
	Alone    = "alone"    // the runs of patterns alone
)

// Estimate is what overlapping costs a set of messages.
type Estimate struct {
	Overlapped int     `json:"overlapped"` // messages that overlapped and also ran alone
	Control    int     `json:"control"`    // messages of the control group
	Of         string  `json:"control_of"` // Workload or Alone; empty without a control group
	Runs       int     `json:"runs"`       // of the smaller group
	Slowdown   float64 `json:"slowdown"`   // of the overlapped messages, geometric mean; NaN of none
	Ratio      float64 `json:"ratio"`      // to the control group; NaN without one
	Low        float64 `json:"low"`        // interval of Ratio; NaN without one
	High       float64 `json:"high"`
}

// Shown reports whether overlapping made a difference beyond chance.
func (e Estimate) Shown() bool { return e.Low > 1 || e.High < 1 }

// Slows reports whether overlapping made messages slower beyond chance.
func (e Estimate) Slows() bool { return e.Low > 1 }

// Pair is the estimate of the messages between two ranks.
type Pair struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	Shared string `json:"shared"` // what most of them shared
	Estimate
}

// Report is what is known of contention in a result.
type Report struct {
	Messages int     `json:"messages"` // of the workload
	Marked   int     `json:"marked"`   // of these, that overlapped
	Share    float64 `json:"share"`    // mean part of their time that they overlapped; 0 of none
	Estimate
	Looked int    `json:"looked"` // pairs that overlapped
	Pairs  []Pair `json:"pairs"`  // those of them that are slower beyond chance, the slowest first
	// Shared counts the overlapped messages by what they shared.
	Shared map[string]int `json:"shared"`
	// Resources is the same by each of what they shared, the one that most shared first.
	Resources []Resource `json:"resources"`
}

// Resource is what messages shared with others: the sender, the receiver, or the host of one of them.
type Resource struct {
	Name     string  `json:"name"`
	Messages int     `json:"messages"` // that shared it
	Share    float64 `json:"share"`    // mean part of their time that they did
	Others   float64 `json:"others"`   // mean number of messages that used it meanwhile
}

// sums adds up the logarithms of slowdowns of one run.
type sums struct {
	log float64
	n   int
}

func (s *sums) merge(o sums) { s.log, s.n = s.log+o.log, s.n+o.n }

// group is a set of messages by run. A run without any has n 0.
type group []sums

func (g *group) add(run int, log float64) {
	run %= mostGroups
	for len(*g) <= run {
		*g = append(*g, sums{})
	}
	(*g)[run].merge(sums{log, 1})
}

func (g *group) merge(o group) {
	for len(*g) < len(o) {
		*g = append(*g, sums{})
	}
	for run, s := range o {
		(*g)[run].merge(s)
	}
}

// runs lists the runs with messages.
func (g group) runs() []sums {
	return slices.DeleteFunc(slices.Clone(g), func(s sums) bool { return s.n == 0 })
}

// groups are the messages of a set.
type groups struct {
	overlapped, control, alone group
	shared                     map[string]int // nil of none
}

// alone are the times of a message when its pattern ran alone.
type alone struct {
	from, to int32
	first    float64   // most messages run alone once
	more     []float64 // nil once the median is known
	pair     *groups   // nil until the first message of the workload comes, as is the median
	median   float64
	slow     sums // of the workload's
}

// solo are the messages of a pattern that ran alone, in the order of its first
// run. As a rule all runs list them in this order.
type solo struct {
	messages []alone
	next     int              // the message that is expected next
	whole    bool             // the first run is through
	at       map[[2]int32]int // by sender and receiver; nil until a run has another order
}

// find returns a message, nil if it has not run alone.
func (s *solo) find(from, to int32) *alone {
	if s.next < len(s.messages) {
		if a := &s.messages[s.next]; a.from == from && a.to == to {
			s.next++
			return a
		}
	}
	if s.at == nil {
		s.at = map[[2]int32]int{}
		for i, a := range s.messages {
			s.at[[2]int32{a.from, a.to}] = i
		}
	}
	at, ok := s.at[[2]int32{from, to}]
	if !ok {
		return nil
	}
	s.next = at + 1
	return &s.messages[at]
}

// add takes in the time of a message.
func (s *solo) add(from, to int32, took float64) {
	var a *alone
	if s.whole {
		a = s.find(from, to)
	}
	if a == nil {
		if s.at != nil {
			s.at[[2]int32{from, to}] = len(s.messages)
		}
		s.messages = append(s.messages, alone{from: from, to: to, first: took})
	} else if len(a.more) < mostAlone-1 {
		a.more = append(a.more, took)
	}
}

// Collector takes in measurements. The zero value is ready.
type Collector struct {
	alone    map[int]*solo // by pattern
	pairs    map[[2]int]*groups
	report   Report
	shareSum float64
	// resources has sums in place of means.
	resources map[string]Resource
}

// Add takes in a run. Runs alone come before those of the workload.
func (c *Collector) Add(d *result.Document, m *result.Measurement) {
	if c.alone == nil {
		c.alone, c.pairs = map[int]*solo{}, map[[2]int]*groups{}
		c.report.Shared, c.resources = map[string]int{}, map[string]Resource{}
	}
	s := c.alone[m.Pattern]
	if s == nil {
		s = &solo{}
		c.alone[m.Pattern] = s
	}
	s.next = 0
	read := d.Patterns[m.Pattern].Op == "READ"
	for i := range m.Ranks {
		r := &m.Ranks[i]
		for _, p := range r.Peers {
			from, to := int32(r.Rank), int32(p.Peer)
			if read {
				from, to = to, from
			}
			switch took := float64(p.EndNS - r.StartNS); {
			case took <= 0:
			case m.Phase == result.IsolatedPhase:
				s.add(from, to, took)
			default:
				c.add(s.find(from, to), m.Iteration, p, took)
			}
		}
	}
	s.whole = s.whole || m.Phase == result.IsolatedPhase
}

// add takes in a message of the workload; a is nil if it has not run alone.
func (c *Collector) add(a *alone, run int, p series.PeerRun, took float64) {
	c.report.Messages++
	if p.Overlap != nil {
		c.report.Marked++
		c.shareSum += p.Overlap.Share
		c.report.Shared[p.Overlap.Shared]++
		for _, by := range p.Overlap.Each() {
			r := c.resources[by.Resource]
			r.Messages, r.Share, r.Others = r.Messages+1, r.Share+by.Share, r.Others+float64(by.Messages)
			c.resources[by.Resource] = r
		}
	}
	if a == nil {
		return
	}
	if a.pair == nil {
		a.pair = c.pair(int(a.from), int(a.to))
		a.settle()
	}
	g := a.pair
	log := math.Log(result.Slowdown(took, a.median))
	a.slow.merge(sums{log, 1})
	if p.Overlap == nil {
		g.control.add(run, log)
		return
	}
	if g.shared == nil {
		g.shared = map[string]int{}
	}
	g.shared[p.Overlap.Shared]++
	g.overlapped.add(run, log)
}

// pair returns the messages between two ranks.
func (c *Collector) pair(from, to int) *groups {
	key := [2]int{from, to}
	g := c.pairs[key]
	if g == nil {
		g = &groups{}
		c.pairs[key] = g
	}
	return g
}

// settle works out the median and adds the times alone to the pair's.
func (a *alone) settle() {
	a.median = a.first
	if a.more != nil {
		a.median = stats.Median(append([]float64{a.first}, a.more...))
	}
	a.pair.alone.add(0, math.Log(a.first/a.median))
	for i, took := range a.more {
		a.pair.alone.add(i+1, math.Log(took/a.median))
	}
	a.more = nil
}

// Slowdowns is the geometric mean of the slowdowns of a set of messages. The zero value is of none.
type Slowdowns struct{ of sums }

// Add takes in those of another set.
func (s *Slowdowns) Add(o Slowdowns) { s.of.merge(o.of) }

// Mean is NaN of none.
func (s Slowdowns) Mean() float64 { return math.Exp(s.of.mean()) }

// Slowdowns hands over those of each message of each pattern, over its runs in the workload, by pattern, sender and
// receiver. Messages that did not run alone have none.
func (c *Collector) Slowdowns(f func(pattern, from, to int, s Slowdowns)) {
	for _, pattern := range slices.Sorted(maps.Keys(c.alone)) {
		for _, a := range c.alone[pattern].messages {
			if a.slow.n > 0 {
				f(pattern, int(a.from), int(a.to), Slowdowns{a.slow})
			}
		}
	}
}

// Slowdown is the geometric mean of the slowdowns of a pair's messages, and how many they are.
func (c *Collector) Slowdown(from, to int) (float64, int) {
	var s Slowdowns
	c.Slowdowns(func(_, f, t int, one Slowdowns) {
		if f == from && t == to {
			s.Add(one)
		}
	})
	return s.Mean(), s.of.n
}

// Report estimates from what has been added.
func (c *Collector) Report() Report {
	r := c.report
	if r.Marked > 0 {
		r.Share = c.shareSum / float64(r.Marked)
	}
	r.Resources = []Resource{}
	for _, name := range slices.Sorted(maps.Keys(c.resources)) {
		sum := c.resources[name]
		n := float64(sum.Messages)
		r.Resources = append(r.Resources, Resource{name, sum.Messages, sum.Share / n, sum.Others / n})
	}
	slices.SortStableFunc(r.Resources, func(a, b Resource) int { return b.Messages - a.Messages })
	all := &groups{}
	var overlapped [][2]int
	for _, key := range slices.SortedFunc(maps.Keys(c.pairs), comparePairs) {
		g := c.pairs[key]
		if len(g.overlapped) == 0 {
			continue // others say nothing of those that overlapped
		}
		overlapped = append(overlapped, key)
		all.merge(g)
	}
	r.Estimate = all.estimate(level)
	r.Looked, r.Pairs = len(overlapped), []Pair{}
	for _, key := range overlapped {
		g := c.pairs[key]
		p := Pair{From: key[0], To: key[1], Shared: most(g.shared),
			Estimate: g.estimate(level / float64(len(overlapped)))}
		if p.Slows() {
			r.Pairs = append(r.Pairs, p)
		}
	}
	slices.SortStableFunc(r.Pairs, func(a, b Pair) int { return cmp.Compare(b.Ratio, a.Ratio) })
	return r
}

// most returns the key with the highest count.
func most(counts map[string]int) (key string) {
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		if counts[k] > counts[key] {
			key = k
		}
	}
	return key
}

func (g *groups) merge(o *groups) {
	g.overlapped.merge(o.overlapped)
	g.control.merge(o.control)
	g.alone.merge(o.alone)
}

func (g group) total() (t sums) {
	for _, s := range g {
		t.merge(s)
	}
	return t
}

// mean is NaN of nothing.
func (s sums) mean() float64 { return s.log / float64(s.n) }

// Costs are the estimates, without intervals, of the whole result (From and To are -1) and then of each pair of ranks
// with messages that also ran alone, those that did not overlap included.
func (c *Collector) Costs() []Pair {
	all, calm := &groups{}, &groups{}
	list := []Pair{{From: -1, To: -1}}
	for _, key := range slices.SortedFunc(maps.Keys(c.pairs), comparePairs) {
		g := c.pairs[key]
		e, _, _ := g.compare()
		list = append(list, Pair{key[0], key[1], most(g.shared), e})
		if len(g.overlapped) > 0 {
			all.merge(g)
		} else {
			calm.merge(g)
		}
	}
	if len(all.overlapped) == 0 {
		all = calm
	}
	list[0].Estimate, _, _ = all.compare()
	return list
}

func comparePairs(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) }

// compare sets the overlapped messages against the control group. The estimate lacks the interval; x and y are the runs
// of both groups.
func (g *groups) compare() (e Estimate, x, y []sums) {
	control, of := g.control, Workload
	if t := control.total(); t.n < minControl || len(control.runs()) < MinRuns {
		control, of = g.alone, Alone
	}
	o, k := g.overlapped.total(), control.total()
	x, y = g.overlapped.runs(), control.runs()
	e = Estimate{
		Overlapped: o.n, Control: k.n, Of: of, Runs: min(len(x), len(y)),
		Slowdown: math.Exp(o.mean()), Ratio: math.Exp(o.mean() - k.mean()), Low: math.NaN(), High: math.NaN(),
	}
	if o.n == 0 || k.n == 0 {
		e.Of = ""
	}
	return e, x, y
}

// estimate compares the overlapped messages with the control group.
func (g *groups) estimate(level float64) Estimate {
	e, x, y := g.compare()
	if e.Runs < MinRuns {
		return e
	}
	n := float64(e.Runs)
	half := stats.StudentQuantile(1-level/2, n-1) * spread(x, y) * math.Sqrt(n/(n-1))
	e.Low, e.High = e.Ratio*math.Exp(-half), e.Ratio*math.Exp(half)
	return e
}

// spread is the standard deviation of the difference of the means of two groups, whose runs are drawn again.
func spread(x, y []sums) float64 {
	rng := rand.New(rand.NewPCG(1, uint64(len(x))<<32|uint64(len(y))))
	values := make([]float64, draws)
	for i := range values {
		values[i] = draw(rng, x) - draw(rng, y)
	}
	return stats.StdDev(values)
}

func draw(rng *rand.Rand, runs []sums) float64 {
	var t sums
	for range runs {
		t.merge(runs[rng.IntN(len(runs))])
	}
	return t.mean()
}
