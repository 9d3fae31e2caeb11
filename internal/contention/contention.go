// Package contention says what it costs messages that others use the same
// sender, receiver or host at the same time.
//
// # Definition
//
// The slowdown of a message is its time / the median time of the same message
// when its pattern ran alone. Contention compares messages of the workload that
// met messages of other patterns (package overlap) with a control group: runs of
// the same messages in the same workload that did not. Where these are too few,
// the control group are the runs alone, and Control says so.
//
// The figure is the ratio of the two groups' geometric means of slowdowns, each
// message against itself, so that messages which are slower in the workload for
// other reasons, and overlap more often too, do not pass for contention. 1 means
// that overlapping costs nothing, 2 that it doubles the time.
//
// A message that lasts longer has more time to meet another: it met the other
// because it was slow, and not the other way round. So a message that met another
// after a time is compared with those of the control group that lasted longer than
// that, and one that had by then lasted as long as alone counts as one that did
// not meet any. Where the clocks of the hosts are too uncertain to say which of these
// a message is, it is in neither group.
//
// # Interval
//
// Messages of one run share their fate, so errors are summed up by run before they
// are squared (Liang and Zeger, Biometrika 73, 1986). The interval is the logarithm
// of the ratio plus and minus Student's t, with as many degrees of freedom as the
// smaller group has runs less one, times this standard error, widened by
// n / (n - 1) for small n. With fewer than MinRuns runs there is no interval, and
// nothing is shown.
//
// Pairs are compared in the same way, each at the level 5 % / the number of pairs
// that overlapped (Bonferroni), so that one of many is not named by chance.
package contention

import (
	"cmp"
	"maps"
	"math"
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
	// mostAlone bounds the times alone that are kept of a message.
	mostAlone = 31
	// mostGroups bounds what is kept of each pair: further runs join those that are there.
	mostGroups = 64
)

// mostPending bounds the messages of the workload that are kept one by one. Beyond it, sums by pair and run are. Tests
// lower it.
var mostPending = 16 << 20

var lacking = float32(math.NaN())

// The control groups.
const (
	Workload = "workload" // messages of the same workload that did not overlap
	Alone    = "alone"    // the runs of patterns alone
)

// Estimate is what overlapping costs a set of messages.
type Estimate struct {
	Overlapped int     `json:"overlapped"` // messages that overlapped, and have a control group
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
	// Late of those that also ran alone had lasted as long as alone before they met others.
	Late int `json:"late"`
	// Unsure counts the messages that may have overlapped, if the clocks of the hosts are off as far as they may be.
	Unsure int `json:"unsure"`
	// NotAlone counts the runs of the phase isolated that do not count as runs alone, since a message overlapped.
	NotAlone int `json:"not_alone"`
	Estimate
	// Calm is how much longer than alone the messages took that did not overlap, whose Overlapped counts them.
	Calm   Estimate `json:"calm"`
	Looked int      `json:"looked"` // pairs that overlapped
	Pairs  []Pair   `json:"pairs"`  // those of them that are slower beyond chance, the slowest first
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

// sums adds up the logarithms of slowdowns.
type sums struct {
	log float64
	n   int
}

func (s *sums) merge(o sums) { s.log, s.n = s.log+o.log, s.n+o.n }

// mean is NaN of nothing.
func (s sums) mean() float64 { return s.log / float64(s.n) }

// alone are the times of a message when its pattern ran alone.
type alone struct {
	from, to int32
	first    float64   // most messages run alone once
	more     []float64 // nil of one
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
	pending  []*played        // runs of the workload that are not in the groups yet
}

// played is a run of a pattern in the workload, by its messages that ran alone.
type played struct {
	run  int
	logs []float32 // of slowdowns; NaN of messages that it lacks
	met  []float32 // as in value; NaN of messages that did not overlap
}

// find returns the place of a message, -1 if it has not run alone.
func (s *solo) find(from, to int32) int {
	if s.next < len(s.messages) {
		if a := &s.messages[s.next]; a.from == from && a.to == to {
			s.next++
			return s.next - 1
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
		return -1
	}
	s.next = at + 1
	return at
}

// add takes in the time of a message alone.
func (s *solo) add(from, to int32, took float64) {
	at := -1
	if s.whole {
		at = s.find(from, to)
	}
	switch {
	case at < 0:
		if s.at != nil {
			s.at[[2]int32{from, to}] = len(s.messages)
		}
		s.messages = append(s.messages, alone{from: from, to: to, first: took})
	case len(s.messages[at].more) < mostAlone-1:
		s.messages[at].more = append(s.messages[at].more, took)
	}
}

// runKey is a run of the workload: patterns that have the same play together.
type runKey struct {
	phase     string
	iteration int
}

// Collector takes in measurements. The zero value is ready.
type Collector struct {
	runs     map[runKey]int
	alone    map[int]*solo // by pattern
	pairs    map[[2]int]*groups
	report   Report
	shareSum float64
	pending  int    // messages of the runs that are not in the groups yet
	calm     groups // those that did not overlap, against themselves alone
	// times and the uncertainty of their clocks are for Slower.
	times     map[group][]float64
	uncertain int64
	// resources has sums in place of means.
	resources map[string]Resource
}

// Add takes in a run. Runs alone come before those of the workload.
func (c *Collector) Add(d *result.Document, m *result.Measurement) {
	if c.alone == nil {
		c.alone, c.pairs, c.runs = map[int]*solo{}, map[[2]int]*groups{}, map[runKey]int{}
		c.times = map[group][]float64{}
		c.report.Shared, c.resources = map[string]int{}, map[string]Resource{}
	}
	s := c.alone[m.Pattern]
	if s == nil {
		s = &solo{}
		c.alone[m.Pattern] = s
	}
	s.next = 0
	if m.NotAlone() {
		c.report.NotAlone++
		return
	}
	c.addTime(m)
	read := d.Patterns[m.Pattern].Op == "READ"
	w := &played{run: c.run(m)}
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
				c.add(s, w, s.find(from, to), p, took)
			}
		}
	}
	s.whole = s.whole || m.Phase == result.IsolatedPhase
	if w.logs != nil {
		s.pending, c.pending = append(s.pending, w), c.pending+len(w.logs)
		if c.pending > mostPending {
			c.settle()
		}
	}
}

// run is the number of a run of the workload, in the order in which they come.
func (c *Collector) run(m *result.Measurement) int {
	key := runKey{m.Phase, m.Iteration}
	n, ok := c.runs[key]
	if !ok && m.Phase != result.IsolatedPhase {
		n = len(c.runs)
		c.runs[key] = n
	}
	return n
}

// add takes in a message of the workload, whose place is at; -1 if it has not run alone.
func (c *Collector) add(s *solo, w *played, at int, p series.PeerRun, took float64) {
	c.report.Messages++
	if p.Overlap == nil && p.MayMeetNS != nil {
		c.report.Unsure++
	}
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
	if at < 0 {
		return
	}
	a := &s.messages[at]
	if a.pair == nil {
		a.pair = c.pair(int(a.from), int(a.to))
		a.median = stats.Median(append([]float64{a.first}, a.more...))
	}
	if w.logs == nil {
		none := []float32{lacking}
		w.logs, w.met = slices.Repeat(none, len(s.messages)), slices.Repeat(none, len(s.messages))
	}
	log := math.Log(result.Slowdown(took, a.median))
	a.slow.merge(sums{log, 1})
	met := p.Overlap != nil && float64(p.Overlap.FirstNS) < a.median
	if !met && p.MayMeetNS != nil && float64(*p.MayMeetNS) < a.median {
		return // in neither group
	}
	w.logs[at] = float32(log)
	switch {
	case p.Overlap == nil:
		a.pair.calm++
	case !met:
		a.pair.calm++
		c.report.Late++
	default:
		w.met[at] = float32(math.Log(float64(p.Overlap.FirstNS) / a.median))
		if a.pair.shared == nil {
			a.pair.shared = map[string]int{}
		}
		a.pair.shared[p.Overlap.Shared]++
		a.pair.overlapped.merge(sums{log, 1})
	}
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

// compare adds the kept runs of a message to the group of its pair, against itself, and those in which it did not
// overlap to calm.
func (s *solo) compare(at int, pair, calm *groups) {
	a := &s.messages[at]
	var over, others []value
	for _, w := range s.pending {
		switch {
		case at >= len(w.logs) || w.logs[at] != w.logs[at]:
		case w.met[at] == w.met[at]:
			over = append(over, value{workloadRun(w.run), float64(w.logs[at]), float64(w.met[at])})
		default:
			others = append(others, value{workloadRun(w.run), float64(w.logs[at]), math.Inf(-1)})
		}
	}
	if len(over)+len(others) == 0 {
		return
	}
	own := []value{{aloneRun(0), math.Log(a.first / a.median), math.Inf(-1)}}
	for k, took := range a.more {
		own = append(own, value{aloneRun(k + 1), math.Log(took / a.median), math.Inf(-1)})
	}
	calm.against.add(others, own, false)
	for _, v := range others {
		calm.overlapped.merge(sums{v.log, 1})
	}
	if len(over) > 0 { // no other message knows what overlapping costs this one
		pair.within.add(over, others, true)
		pair.against.add(over, own, false)
	}
}

// settle turns the runs that are kept into sums.
func (c *Collector) settle() {
	for _, pattern := range slices.Sorted(maps.Keys(c.alone)) {
		s := c.alone[pattern]
		for i := range s.messages {
			s.compare(i, s.messages[i].pair, &c.calm)
		}
		s.pending = nil
	}
	c.pending = 0
}

// place is that of a message.
type place struct {
	s  *solo
	at int
}

// each hands over the messages of each pair, one after the other so that not all are in memory, and returns those that
// did not overlap.
func (c *Collector) each(f func(key [2]int, g *groups)) (calm *groups) {
	messages := map[*groups][]place{}
	for _, pattern := range slices.Sorted(maps.Keys(c.alone)) {
		s := c.alone[pattern]
		for i := range s.messages {
			if g := s.messages[i].pair; g != nil {
				messages[g] = append(messages[g], place{s, i})
			}
		}
	}
	calm = c.calm.clone()
	for _, key := range slices.SortedFunc(maps.Keys(c.pairs), comparePairs) {
		g := c.pairs[key].clone()
		for _, m := range messages[c.pairs[key]] {
			m.s.compare(m.at, g, calm)
		}
		f(key, g)
	}
	return calm
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
	all, looked := &groups{}, 0
	for _, g := range c.pairs {
		if g.overlapped.n > 0 {
			looked++
		}
	}
	r.Looked, r.Pairs = looked, []Pair{}
	calm := c.each(func(key [2]int, g *groups) {
		if g.overlapped.n == 0 {
			return // others say nothing of those that overlapped
		}
		all.merge(g)
		p := Pair{From: key[0], To: key[1], Shared: most(g.shared), Estimate: g.estimate(level / float64(looked))}
		if p.Slows() {
			r.Pairs = append(r.Pairs, p)
		}
	})
	r.Estimate, r.Calm = all.estimate(level), calm.estimate(level)
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

// Costs are the estimates, without intervals, of the whole result (From and To are -1) and then of each pair of ranks
// with messages that also ran alone, those that did not overlap included.
func (c *Collector) Costs() []Pair {
	all, calm := &groups{}, &groups{}
	list := []Pair{{From: -1, To: -1}}
	c.each(func(key [2]int, g *groups) {
		e, _ := g.compare()
		list = append(list, Pair{key[0], key[1], most(g.shared), e})
		if g.overlapped.n > 0 {
			all.merge(g)
		} else {
			calm.merge(g)
		}
	})
	if all.overlapped.n == 0 {
		all = calm
	}
	list[0].Estimate, _ = all.compare()
	return list
}

func comparePairs(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) }
