package figures

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"perigee/internal/figures/contention"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/clock"
	"perigee/internal/result"
)

// Contention describes the contention in a result, as package contention defines it.
type Contention struct {
	// Verdict is what is said of it: the sentence, the marked pairs, the matrix and JSON follow it.
	Verdict contention.Verdict `json:"verdict"`

	Messages   int `json:"messages"`   // of the workload
	Overlapped int `json:"overlapped"` // of these, that overlapped with messages of other patterns
	Share      Num `json:"share"`      // mean part of their time that they overlapped
	// Shared is what most of them shared. Where all ranks are on one host, that is not counted; empty is nothing else.
	Shared string `json:"shared"`
	Met    int    `json:"met"` // of Overlapped, at a sender or receiver
	// Late of them had already lasted as long as alone when they first met another.
	Late int `json:"late"`
	// LeftOut of them are compared with nothing, as package contention defines it.
	LeftOut int `json:"left_out"`
	// Unsure may have overlapped, if the clocks of the hosts are off as far as they may be.
	Unsure int `json:"unsure"`
	// NotAlone runs of the phase isolated do not count as runs alone, since a message overlapped.
	NotAlone int `json:"not_alone"`
	// Resources lists what they shared, one by one, the one that most shared first.
	Resources []contention.Resource `json:"resources"`
	Cost
	// Lacking is of those that overlapped in all runs of their phase, and are not in Cost, against the runs alone.
	Lacking Cost `json:"lacking"`
	Calm    Cost `json:"calm"` // of those that did not overlap, against the runs alone
	// Slower are the patterns that took longer than alone, beyond chance, though they did not overlap.
	Slower []contention.Slower `json:"slower"`
	// Unsteady are the patterns whose runs alone do not say what they take alone.
	Unsteady []contention.Unsteady `json:"unsteady"`
	Open     bool                  `json:"open"`   // some took longer, in too few runs to say whether that is chance
	Looked   int                   `json:"looked"` // pairs that overlapped
	Pairs    []ContentionPair      `json:"pairs"`  // those of them that are slower beyond chance
	// Waits are those of the threads that move the bytes.
	Waits contention.Waits `json:"cpu_waits"`
	// MaskedPairs is how many further ones are slower than alone, but hardly more than those that did not overlap.
	MaskedPairs int `json:"masked_pairs"`
}

// Cost is an estimate with its interval.
type Cost struct {
	Compared int    `json:"compared"` // overlapped messages that also ran alone
	Control  int    `json:"control"`  // messages that they are compared with
	Of       string `json:"control_of"`
	Runs     int    `json:"runs"`
	Slowdown Num    `json:"slowdown"`
	Ratio    Num    `json:"ratio"`
	Low      Num    `json:"low"`
	High     Num    `json:"high"`
	Off      Num    `json:"off"`    // taken off Ratio and its interval, as package contention defines it
	Masked   bool   `json:"masked"` // nothing is, and what of Ratio overlapping costs is not known
}

// ContentionPair is a pair of ranks whose messages are slower when they overlap.
type ContentionPair struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	Shared string `json:"shared"`
	Cost
}

func costOf(e contention.Estimate) Cost {
	return Cost{
		e.Overlapped, e.Control, e.Of, e.Runs, Num(e.Slowdown), Num(e.Ratio), Num(e.Low), Num(e.High), Num(e.Off),
		e.Masked,
	}
}

// besideHosts returns what was shared without hosts, if there is only one: all messages share that.
func besideHosts(shared string, hosts int) string {
	if hosts > 1 {
		return shared
	}
	isHost := func(name string) bool { return strings.HasSuffix(name, "host") }
	return strings.Join(slices.DeleteFunc(strings.Split(shared, ", "), isHost), ", ")
}

// contentionOf describes the contention in a result on so many hosts. Its verdict comes later.
func contentionOf(r contention.Report, w contention.Waits, hosts int) Contention {
	c := Contention{
		Waits:    w,
		Messages: r.Messages, Overlapped: r.Marked, Share: Num(r.Share), Late: r.Late, Unsure: r.Unsure,
		LeftOut:  r.LeftOut,
		NotAlone: r.NotAlone,
		Cost:     costOf(r.Estimate), Lacking: costOf(r.Lacking), Calm: costOf(r.Calm), Looked: r.Looked,
		Pairs: []ContentionPair{}, MaskedPairs: r.MaskedPairs, Resources: []contention.Resource{},
	}
	counts := map[string]int{}
	for k, n := range r.Shared {
		if counts[besideHosts(k, hosts)] += n; besideHosts(k, 1) != "" {
			c.Met += n
		}
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		if counts[k] > counts[c.Shared] {
			c.Shared = k
		}
	}
	for _, p := range r.Pairs {
		c.Pairs = append(c.Pairs, ContentionPair{p.From, p.To, besideHosts(p.Shared, hosts), costOf(p.Estimate)})
	}
	for _, by := range r.Resources {
		if besideHosts(by.Name, hosts) != "" {
			c.Resources = append(c.Resources, by)
		}
	}
	return c
}

// sayNotAlone says that runs of the phase isolated do not count as such.
func sayNotAlone(c Contention, say sayer) {
	if c.NotAlone > 0 {
		say("note", "%s of the phase isolated do not count as runs alone: messages of other patterns overlapped with theirs.",
			cli.Count(c.NotAlone, "run"))
	}
}

// sayJudged says how the verdict on contention came about, and what else may have made messages slow.
func sayJudged(f *Figures, say sayer) {
	c := f.Contention
	sayNotAlone(c, say)
	if c.Open && c.Overlapped == 0 {
		say("note", "Some patterns took longer than alone, in too few runs to say whether that is chance.")
	}
	if c.Of == contention.Alone && c.Low.Known() {
		say("detail", "Compared with the runs alone, since too few runs of these messages in their phase were without overlap.")
	}
	if c.LeftOut > 0 && c.Compared > 0 {
		say("detail", "Not compared: %s overlapped for which there are no runs alone, or no others in their phase that last as long, or whose overlap the clocks of the hosts leave open.",
			cli.Count(c.LeftOut, "message"))
	}
	if c.Late > 0 && c.Compared > 0 {
		say("detail", "Counted as not overlapping: %d of the %d, since the other pattern came only after the time that the message takes alone.",
			c.Late, c.Overlapped)
	}
	if c.Unsure > 0 && c.Overlapped > 0 {
		say("detail", "Of %d messages it is not known whether they overlapped: the clocks of the hosts are uncertain by up to %s.",
			c.Unsure, Duration(clocksApart(f.Document)))
	}
	if len(c.Resources) > 1 {
		say("detail", "By what was shared: %s.", c.shared())
	}
	if c.Verdict == Waits || c.Verdict == Partly {
		say("note", "With a CPU for each rank, by fewer ranks on a host or more hosts, the report says what traffic costs.")
		if c.Low.Known() {
			say("note", "With these waits, messages that overlapped take %s.", c.took(" as "+c.control()))
		}
		sayOverlappedPairs(c, say) // of hosts with a CPU for each rank
	} else {
		sayLacking(c.Lacking, say)
		sayOverlappedPairs(c, say)
		if c.Verdict != Longer {
			saySlower(f, say)
		}
	}
	sayCauses(f, say)
}

// slowest says what took longest, compared with alone, and met no other.
func slowest(f *Figures) (level, sentence, why string) {
	c := f.Contention
	patterns := map[int]bool{}
	for _, s := range c.Slower {
		patterns[s.Pattern] = true
	}
	s := c.Slower[0]
	how := fmt.Sprintf("the median of %d runs is %s that of %d alone", s.Runs, times(Num(s.Times())), s.Alone)
	if s.Longer > 0 {
		how = fmt.Sprintf("%d of %d runs are longer than each of %d alone, and take %s as long", s.Longer, s.Runs, s.Alone, times(Num(s.Times())))
	}
	who := fmt.Sprintf("%d of %d patterns take", len(patterns), len(f.Patterns))
	switch {
	case len(f.Patterns) == 1:
		who = "The pattern takes"
	case len(patterns) == 1:
		who = fmt.Sprintf("1 of %d patterns takes", len(f.Patterns))
	}
	return severity(Num(s.Times())), fmt.Sprintf("%s longer than alone, beyond chance, where no message overlapped with others: "+
			"in the phase %.60q of pattern %d %s (%s, alone %s).",
			who, s.Phase, s.Pattern, how, Duration(Num(s.TookNS)), Duration(Num(s.AloneNS))),
		"What slows them down does not show here: a link between switches that they share, traffic that is not in this " +
			"result (of others, or of runs that were not recorded), waits for a CPU, or a change since the runs alone."
}

// saySlower names what took longer than alone and met no other.
func saySlower(f *Figures, say sayer) {
	if len(f.Contention.Slower) > 0 {
		level, sentence, why := slowest(f)
		say(level, "%s %s", sentence, why)
	}
}

func areRuns(n int) string {
	if n == 1 {
		return "1 run is"
	}
	return fmt.Sprintf("%d runs are", n)
}

// shared says how many messages shared what, for how long, and with how many others.
func (c Contention) shared() string {
	var parts []string
	for _, r := range c.Resources {
		parts = append(parts, fmt.Sprintf("%d messages the %s, for %.0f %% of their time, with %.1f others on average",
			r.Messages, r.Name, 100*r.Share, r.Others))
	}
	return strings.Join(parts, "; ")
}

// control names what overlapped messages are compared with.
func (c Cost) control() string {
	switch c.Of {
	case contention.Alone:
		return "in the runs alone"
	case contention.Both:
		return "those of the same phase that did not overlap, or, of phases where these are too few, as in the runs alone"
	}
	return "those of the same phase that did not overlap"
}

// sayLacking says what overlapping costs those that did so in all runs of their phase, or in nearly all.
func sayLacking(l Cost, say sayer) {
	if l.Compared == 0 {
		return
	}
	who := fmt.Sprintf("Not among these: %s that overlapped in all runs of their phase, or nearly all", cli.Count(l.Compared, "message"))
	switch l.verdict() {
	case contention.Unknown:
		say("note", "%s. Against the runs alone they take %s as long, in too few runs to say whether that is chance.", who, times(l.Ratio))
	case contention.Small:
		say("note", "%s. Against the runs alone they take %s: little, if anything.", who, l.took(""))
	case contention.Costs:
		say(severity(l.Ratio), "%s. Against the runs alone they take %s.", who, l.took(""))
	default:
		open := ": whether overlapping costs them anything is not shown"
		if l.Masked { // which took says
			open = ""
		}
		say("note", "%s. Against the runs alone they take %s%s.", who, l.took(""), open)
	}
}

// unlike reports whether it is not shown of the messages, if there are any, that overlapping costs them little.
func (c Cost) unlike() bool { return c.Compared > 0 && c.verdict() != contention.Small }

// verdict is what the interval shows.
func (c Cost) verdict() contention.Verdict {
	return contention.Estimate{
		Low: float64(c.Low), High: float64(c.High), Masked: c.Masked, Slowdown: float64(c.Slowdown),
	}.Verdict()
}

// interval has two digits, rounded so that it holds whatever is in it: one that lies above 1.1 prints so.
func (c Cost) interval() string {
	const tiny = 1e-9 // 1.1 is no more than that
	return fmt.Sprintf("%.2f to %.2f", math.Floor(100*float64(c.Low)+tiny)/100, math.Ceil(100*float64(c.High)-tiny)/100)
}

// took says how many times as long the messages took, with the interval. to names the control group.
func (c Cost) took(to string) string {
	interval := fmt.Sprintf("(99 %% interval %s)", c.interval())
	if c.Off == 1 {
		return fmt.Sprintf("%s as long%s %s", times(c.Ratio), to, interval)
	}
	others := fmt.Sprintf("messages of the same phase that did not overlap take longer than alone, too, %s as long", times(c.Off))
	if c.Of == contention.Both {
		others += " on average over all that are compared"
	}
	if c.Masked {
		return fmt.Sprintf("%s as long%s %s, but %s: how much of it overlapping costs is not shown", times(c.Ratio), to, interval, others)
	}
	return fmt.Sprintf("%s as long%s, but %s; without that %s %s remain", times(c.Ratio*c.Off), to, others, times(c.Ratio), interval)
}

func sayOverlappedPairs(c Contention, say sayer) {
	if c.MaskedPairs > 0 && c.Looked > 1 && !c.Masked {
		say("note", "Of %d pairs that overlapped, %d take longer than alone, beyond chance, but hardly more so than messages of the same phase that did not overlap: what of that overlapping costs is not shown.",
			c.Looked, c.MaskedPairs)
	}
	if len(c.Pairs) == 0 || c.Looked < 2 {
		return
	}
	var names []string
	for _, p := range c.Pairs[:min(worstNamed, len(c.Pairs))] {
		alone := ""
		switch {
		case p.Of == c.Of:
		case p.Of == contention.Alone:
			alone = ", against the runs alone"
		case p.Of == contention.Both:
			alone = ", in some phases against the runs alone"
		}
		if p.Off > 1 {
			alone += fmt.Sprintf(", after %s are taken off", times(p.Off))
		}
		names = append(names, fmt.Sprintf("%d \u2192 %d (%s, %s, %s%s)", p.From, p.To, times(p.Ratio), p.interval(),
			p.sharing(), alone))
	}
	more := ""
	if n := len(c.Pairs) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	say(severity(c.Pairs[0].Ratio), "Of %d pairs that overlapped, these are slower beyond chance, corrected for their number: %s%s.",
		c.Looked, strings.Join(names, ", "), more)
}

// sharing says what the messages of the pair shared.
func (p ContentionPair) sharing() string {
	if p.Shared == "" {
		return "sharing the one host"
	}
	return "sharing the " + p.Shared
}

// sayCauses names what else may have made messages slow, with its size.
func sayCauses(f *Figures, say sayer) {
	if w := f.Contention.Waits; w.Known() {
		if w.Short != "" && w.CPUs() == contention.CPUsRemark {
			say("note", "Ranks outnumber CPUs (%s), but %s.", w.Short, w.Text())
		}
		sayStarts(f, say)
		return
	}
	led := f.Contention.Verdict == Waits // by the first of these hosts
	for _, h := range f.Document.World.Hosts {
		if short := h.Crowded(); short != "" && !led {
			say("note", "%s: waits for a CPU are in these figures.", short)
		} else if short != "" {
			led = false
		}
	}
	sayStarts(f, say)
}

// clocksApart is how far, in nanoseconds, stamps of two hosts may be off each other.
func clocksApart(d *result.Document) Num {
	var uncertainties []int64
	for _, c := range d.World.Clocks {
		uncertainties = append(uncertainties, c.UncertaintyNS)
	}
	return Num(clock.Apart(uncertainties))
}

// sayClocks names a pattern whose times are hardly longer than the clocks of its initiators are uncertain.
func sayClocks(f *Figures, say sayer) {
	for _, p := range f.Patterns {
		if u := Num(p.UncertaintyNS); u > vague*p.LatencyNS {
			say("note", "The clocks of the hosts are uncertain by %s, of a latency of %s of pattern %d: its latency and the skew of its starts may be off by as much.",
				Duration(u), Duration(p.LatencyNS), p.Index)
			return
		}
	}
}

// vague is from which part of a time on the uncertainty of the clocks stands beside it.
const vague = 0.1

// vagueness returns the words that a sentence adds to a difference of stamps of the initiators of a pattern.
func vagueness(p PatternFigures, ns Num) string {
	if u := Num(p.UncertaintyNS); u > vague*ns {
		return fmt.Sprintf(" (\u00b1 %s, by the clocks of the hosts)", Duration(u))
	}
	return ""
}

// late is from which part of its latency on what the starts add to it is named.
const late = 0.2

// apart is from which start skew on a run of a pattern is one in which a rank was late.
func apart(p PatternFigures) Num { return max(p.LatencyNS/2, 5*p.StartSkewNS) }

// sayStarts names patterns whose initiators do not start together: as a rule, or in single runs, as when a rank is
// stopped or waits for a CPU.
func sayStarts(f *Figures, say sayer) {
	drifting := slices.DeleteFunc(slices.Clone(f.Patterns), func(p PatternFigures) bool { return !p.Drifts })
	if len(drifting) > 0 {
		p := slices.MaxFunc(drifting, func(a, b PatternFigures) int {
			return cmp.Compare(a.WorstStartSkewNS, b.WorstStartSkewNS)
		})
		say("note", "The initiators of pattern %d do not meet between its runs: they start a run up to %s apart.",
			p.Index, Duration(p.WorstStartSkewNS))
	}
	patterns := slices.DeleteFunc(slices.Clone(f.Patterns), func(p PatternFigures) bool { return p.Drifts })
	if len(patterns) == 0 {
		return
	}
	usual := slices.MaxFunc(patterns, func(a, b PatternFigures) int {
		return cmp.Compare(float64(a.StartWaitNS/a.LatencyNS), float64(b.StartWaitNS/b.LatencyNS))
	})
	if usual.StartWaitNS > late*usual.LatencyNS {
		say("note", "The initiators of pattern %d start %s apart%s, which adds %s to its latency of %s: that is no contention.",
			usual.Index, Duration(usual.StartSkewNS), vagueness(usual, usual.StartSkewNS), Duration(usual.StartWaitNS),
			Duration(usual.LatencyNS))
	}
	worst := slices.MaxFunc(patterns, func(a, b PatternFigures) int {
		return cmp.Or(cmp.Compare(min(a.ApartRuns, 1), min(b.ApartRuns, 1)),
			cmp.Compare(a.WorstStartSkewNS, b.WorstStartSkewNS))
	})
	if worst.ApartRuns > 0 {
		say("note", "In %d of %d runs of pattern %d the initiators start up to %s apart, where %s are usual: "+
			"a rank was late there, by a wait for a CPU for instance; that is no contention.",
			worst.ApartRuns, worst.SkewRuns, worst.Index, Duration(worst.WorstStartSkewNS), Duration(worst.StartSkewNS))
	}
	if s := f.Starts; s.Late > 0 {
		say("note", "%d of %d starts by the clock were late, by up to %s.", s.Late, s.Of, Duration(Num(s.Latest)))
	}
}
