package contention

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"perigee/internal/kit/stats"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// Where figures begin to count.
const (
	// MinRuns is how many runs of each group an interval takes.
	MinRuns = 5
	// minControl is how many messages that did not overlap make a control group, and minCalm from how many on they are
	// heeded where they make none.
	minControl, minCalm = 8, 3
	// level is the part of the intervals that miss the true ratio, and besideLevel that of those that say what others
	// take longer than alone: what is taken off may be too much rather than too little.
	level, besideLevel = 0.01, 0.05
	// mostAlone and mostGroups bound the runs alone and of the workload that are kept apart of each pair: further ones
	// join those that are there.
	mostAlone, mostGroups = 31, 64
	// mostTimes bounds the times alone that are kept of all messages. Beyond it, only mostAlone of each are.
	mostTimes = 8 << 20
)

// mostPending bounds the messages of the workload that are kept one by one. Beyond it, sums by pair and run are. Tests
// lower it.
var mostPending = 8 << 20

var lacking = float32(math.NaN())

// The control groups.
const (
	Workload = "workload" // messages of the same phase that did not overlap
	Alone    = "alone"    // the runs of patterns alone
	Both     = "both"     // Workload in some phases, Alone in others
)

// Estimate says how much overlapping costs a set of messages.
type Estimate struct {
	Overlapped int     `json:"overlapped"` // messages that overlapped, and have a control group
	Control    int     `json:"control"`    // messages of the control group
	Of         string  `json:"control_of"` // Workload, Alone or Both; empty without a control group
	Runs       int     `json:"runs"`       // of the smaller group
	Slowdown   float64 `json:"slowdown"`   // of the overlapped messages, geometric mean; NaN of none
	Ratio      float64 `json:"ratio"`      // to the control group; NaN without one
	Low        float64 `json:"low"`        // interval of Ratio; NaN without one
	High       float64 `json:"high"`
	// Off is how much longer than alone the phase's messages take that do not overlap, where Ratio is against the
	// runs alone and is shown to be more than 1; else 1. It is taken off Ratio and its interval. With Masked these
	// are no more than that, nothing is taken off, and what of them overlapping costs is not known.
	Off    float64 `json:"off"`
	Masked bool    `json:"masked"`
	// Beside is Off as it would be if Ratio were shown to be more than 1.
	Beside float64 `json:"-"`
	// alone is the part of the messages that is against the runs alone, by phase.
	alone [mostPhases]float64
}

// Verdict is what the interval of an estimate shows. Costs and Small exclude each other's side of one limit, so that
// a repetition hardly ever says the contrary: near the limit both say Open.
type Verdict string

// The verdicts.
const (
	Unknown Verdict = "unknown"       // there is no interval
	Open    Verdict = "not separated" // the interval holds Little, or what of the ratio overlapping costs is not known
	Small   Verdict = "small"         // it ends at Little or below
	Costs   Verdict = "contention"    // it begins above Little
)

// Verdict judges by the interval. Messages that overlapped and took no longer than alone show no cost.
func (e Estimate) Verdict() Verdict {
	switch {
	case math.IsNaN(e.Low) || math.IsNaN(e.High):
		return Unknown
	case e.Masked:
		return Open
	case e.High <= Little:
		return Small
	case e.Low > Little && !(e.Slowdown <= 1):
		return Costs
	}
	return Open
}

// Slows reports whether overlapping made messages slower beyond chance, and not only a little.
func (e Estimate) Slows() bool { return e.Verdict() == Costs }

// Shown reports whether overlapping made a difference beyond chance, however little.
func (e Estimate) Shown() bool { return e.Low > 1 && !e.Masked || e.High < 1 }

// Most is the most that overlapping may cost: Ratio before anything is taken off.
func (e Estimate) Most() float64 {
	if e.Masked {
		return e.Ratio
	}
	return e.Ratio * e.Off
}

// Pair is the estimate of the messages between two ranks.
type Pair struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	Shared string `json:"shared"` // what most of them shared
	Estimate
}

// Report sums up the contention in a result.
type Report struct {
	Messages int     `json:"messages"` // of the workload
	Marked   int     `json:"marked"`   // of these, that overlapped
	Share    float64 `json:"share"`    // mean part of their time that they overlapped; 0 of none
	// Late of those that also ran alone had lasted as long as alone before they met others.
	Late int `json:"late"`
	// LeftOut counts the overlapped messages that are compared with nothing: they have no runs alone and too few in
	// their phase that did not overlap, or it is not known since when they did.
	LeftOut int `json:"left_out"`
	// Unsure counts the messages that may have overlapped, if the clocks of the hosts are off as far as they may be.
	Unsure int `json:"unsure"`
	// NotAlone counts the runs of the phase isolated that do not count as runs alone, since a message overlapped.
	NotAlone int `json:"not_alone"`
	Estimate
	// Lacking is how much longer than alone the messages took that overlapped in all runs of their phase, and are
	// not in Estimate.
	Lacking Estimate `json:"lacking"`
	// Calm is how much longer than alone the messages took that did not overlap, whose Overlapped counts them.
	Calm   Estimate `json:"calm"`
	Looked int      `json:"looked"` // pairs that overlapped
	Pairs  []Pair   `json:"pairs"`  // those of them that are slower beyond chance, the slowest first
	// MaskedPairs is how many further ones are slower than alone, and masked.
	MaskedPairs int `json:"masked_pairs"`
	// Shared counts the overlapped messages by what they shared.
	Shared map[string]int `json:"shared"`
	// Resources is the same by each of what they shared, the one that most shared first.
	Resources []Resource `json:"resources"`
}

// Resource names what messages shared with others: the sender, the receiver, or the host of one of them.
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

// runKey is a run of the workload: patterns that have the same play together.
type runKey struct {
	phase     string
	iteration int
}

// Collector takes in measurements. The zero value is ready.
type Collector struct {
	runs     map[runKey]int
	phases   map[string]int
	patterns map[int]*solo
	pairs    map[[2]int]*groups
	report   Report
	doc      *result.Document
	own      bool   // the engine has no other thread than the one that posts
	short    string // see Waits
	shareSum float64
	phased   phased
	pending  int             // messages of the runs that are not in the groups yet
	alone    int             // times of messages alone
	calm     groups          // those that did not overlap, against themselves alone
	times    map[group]times // for Slower
	// resources has sums in place of means.
	resources map[string]Resource
}

// Of has taken in all runs of a result.
func Of(d *result.Document) *Collector {
	c := &Collector{}
	for i := range d.Measurements {
		c.Add(d, &d.Measurements[i])
	}
	return c
}

// Add takes in a run.
func (c *Collector) Add(d *result.Document, m *result.Measurement) {
	if c.patterns == nil {
		c.patterns, c.pairs = map[int]*solo{}, map[[2]int]*groups{}
		c.runs, c.phases = map[runKey]int{}, map[string]int{}
		c.times = map[group]times{}
		c.doc, c.short = d, d.World.Crowded()
		c.report.Shared, c.resources = map[string]int{}, map[string]Resource{}
	}
	s := c.patterns[m.Pattern]
	if s == nil {
		s = &solo{}
		c.patterns[m.Pattern] = s
	}
	s.next = 0
	// A run alone beside which others were still at work would make everything look faster than it is.
	if m.NotAlone() {
		c.report.NotAlone++
		return
	}
	c.addTime(m)
	read := d.Patterns[m.Pattern].Op == "READ"
	run := 0
	if m.Phase != result.IsolatedPhase {
		run = c.number(m)
	}
	for i := range m.Ranks {
		r := &m.Ranks[i]
		for _, p := range r.Peers {
			took := float64(p.EndNS - r.StartNS)
			// It has no logarithm.
			if took <= 0 {
				continue
			}
			from, to := int32(r.Rank), int32(p.Peer)
			if read {
				from, to = to, from
			}
			a, wait := &s.messages[s.place(from, to)], waitOf(&p, took)
			c.own = c.own || p.CPUWaitNS != nil && p.PollWaitNS == nil
			if m.Phase == result.IsolatedPhase {
				c.addAlone(a, took, wait)
			} else {
				c.add(a, p)
				a.kept = append(a.kept, keep(run, p, took, wait))
				c.pending++
			}
		}
	}
	s.whole = s.whole || len(s.messages) > 0
	// What is kept of single messages is summed up from time to time, which bounds the memory.
	if c.pending > mostPending {
		c.settle()
	}
}

// number is that of a run of the workload, in the order in which they come.
func (c *Collector) number(m *result.Measurement) int {
	phase, ok := c.phases[m.Phase]
	if !ok {
		phase = len(c.phases)
		c.phases[m.Phase] = phase
	}
	key := runKey{m.Phase, m.Iteration}
	n, ok := c.runs[key]
	if !ok {
		n = len(c.runs)
		c.runs[key] = n
		c.phased = append(c.phased, int32(phase))
	}
	return n
}

// addAlone takes in the time of a message alone.
func (c *Collector) addAlone(a *message, took float64, w wait) {
	if w.moves == w.moves && len(a.waits) < mostAlone {
		a.waits = append(a.waits, w)
	}
	switch {
	case a.first == 0:
		a.first = took
	case c.alone < mostTimes || len(a.more) < mostAlone-1:
		a.more = append(a.more, took)
		c.alone++
	}
}

// add takes in a message of the workload.
func (c *Collector) add(a *message, p series.PeerRun) {
	if a.pair == nil {
		a.pair = c.pair(int(a.from), int(a.to))
	}
	c.report.Messages++
	if p.Overlap == nil && p.MayMeetNS != nil {
		c.report.Unsure++
	}
	if p.Overlap == nil {
		return
	}
	c.report.Marked++
	c.shareSum += p.Overlap.Share
	c.report.Shared[p.Overlap.Shared]++
	if a.pair.shared == nil {
		a.pair.shared = map[string]int{}
	}
	a.pair.shared[p.Overlap.Shared]++
	for _, by := range p.Overlap.Each() {
		r := c.resources[by.Resource]
		r.Messages, r.Share, r.Others = r.Messages+1, r.Share+by.Share, r.Others+float64(by.Messages)
		c.resources[by.Resource] = r
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

// least is the time alone from which on messages that do not overlap say what slows down those that do: what short ones
// wait for, a CPU for instance, is little beside long ones. It is NaN where none overlap.
func (c *Collector) least() float64 {
	const part = 0.1 // of the median of those that overlap
	var alone []float64
	for _, s := range c.patterns {
		for i := range s.messages {
			if a := &s.messages[i]; a.first > 0 && a.meets() {
				alone = append(alone, a.isolated())
			}
		}
	}
	return part * stats.Median(alone)
}

// settle turns the runs that are kept into sums. Those of messages that have no reference by now are lost.
func (c *Collector) settle() {
	least := c.least()
	for _, pattern := range slices.Sorted(maps.Keys(c.patterns)) {
		s := c.patterns[pattern]
		for i := range s.messages {
			a := &s.messages[i]
			if a.pair != nil && a.reference() > 0 {
				a.wait(&s.waiting, c.report.Marked > 0, c.copies())
				a.slow = a.slowed()
				a.compare(a.pair, &c.calm, c.phased, least)
			}
			a.kept = nil
		}
	}
	c.pending = 0
}

// each hands over the messages of each pair that have a reference, one after the other so that not all are in memory,
// and returns those that did not overlap. looked is how many pairs overlapped.
func (c *Collector) each(f func(key [2]int, g *groups, looked int)) (calm *groups) {
	looked, messages := 0, map[*groups][]*message{}
	for _, pattern := range slices.Sorted(maps.Keys(c.patterns)) {
		s := c.patterns[pattern]
		for i := range s.messages {
			if a := &s.messages[i]; a.pair != nil && a.reference() > 0 {
				messages[a.pair] = append(messages[a.pair], a)
			}
		}
	}
	for g, list := range messages {
		if g.overlapped.n > 0 || slices.ContainsFunc(list, (*message).meets) {
			looked++
		}
	}
	calm = c.calm.clone()
	least := c.least()
	for _, key := range slices.SortedFunc(maps.Keys(c.pairs), comparePairs) {
		g, list := c.pairs[key].clone(), messages[c.pairs[key]]
		for _, a := range list {
			a.compare(g, calm, c.phased, least)
		}
		if list != nil {
			f(key, g, looked)
		}
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
	for _, pattern := range slices.Sorted(maps.Keys(c.patterns)) {
		s := c.patterns[pattern]
		for i := range s.messages {
			a := &s.messages[i]
			if slow := a.slowed(); slow.n > 0 {
				f(pattern, int(a.from), int(a.to), Slowdowns{slow})
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
	r.Pairs = []Pair{}
	calm := c.each(func(key [2]int, g *groups, looked int) {
		r.Late, r.Looked = r.Late+g.late, looked
		if g.overlapped.n == 0 {
			return // others say nothing of those that overlapped
		}
		all.merge(g)
		p := Pair{From: key[0], To: key[1], Shared: most(g.shared)}
		if p.Estimate, _ = g.estimate(level / float64(looked)); p.Slows() {
			r.Pairs = append(r.Pairs, p)
		}
	})
	r.Estimate, r.Lacking = all.estimate(level)
	r.LeftOut = max(0, r.Marked-r.Late-r.Overlapped-r.Lacking.Overlapped)
	r.Calm, _ = calm.estimate(level)
	others := calm.others(all)
	r.Estimate.takeOff(others)
	r.Lacking.takeOff(others)
	for i := range r.Pairs {
		if r.Pairs[i].takeOff(others); r.Pairs[i].Masked {
			r.MaskedPairs++
		}
	}
	r.Pairs = slices.DeleteFunc(r.Pairs, func(p Pair) bool { return !p.Slows() })
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

// Costs are the estimates, each with its own interval, of the whole result (From and To are -1) and then of each pair
// of ranks with messages that also ran alone, those that did not overlap included.
func (c *Collector) Costs() []Pair {
	all, calm := &groups{}, &groups{}
	list := []Pair{{From: -1, To: -1}}
	others := c.each(func(key [2]int, g *groups, _ int) {
		e, _ := g.estimate(level)
		list = append(list, Pair{key[0], key[1], most(g.shared), e})
		if g.overlapped.n > 0 {
			all.merge(g)
		} else {
			calm.merge(g)
		}
	}).others(all)
	if all.overlapped.n == 0 {
		all = calm
	}
	list[0].Estimate, _ = all.estimate(level)
	for i := range list {
		list[i].takeOff(others)
	}
	return list
}

// Counts are the messages of the workload, of these those that overlapped, and those of which that is not known.
func (c *Collector) Counts() (messages, overlapped, unsure int) {
	return c.report.Messages, c.report.Marked, c.report.Unsure
}

func comparePairs(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) }
