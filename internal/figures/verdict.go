package figures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"perigee/internal/figures/contention"
	"perigee/internal/kit/cli"
	"perigee/internal/result"
)

// What is said of contention, where it is none of the verdicts of package contention.
const (
	Waits  contention.Verdict = "waits for CPUs"         // which are most of the slowdown, or may be
	Partly contention.Verdict = "waits for CPUs, too"    // which are a part of it
	Apart  contention.Verdict = "no overlap"             // so there is none
	Longer contention.Verdict = "longer without overlap" // than alone
)

// judgeContention sets the verdict, and marks the pairs of ranks of which contention is shown: none where the threads
// that move the bytes wait for CPUs, and none that takes no longer in the workload than alone. What fills a link is
// slow for that, whatever waits for a CPU meanwhile.
func (f *Figures) judgeContention() {
	c := &f.Contention
	cpus := c.Waits.CPUs()
	if f.Link.full() {
		cpus = contention.CPUsRemark
	}
	short := make([]bool, len(f.Document.World.Hosts))
	for i, h := range f.Document.World.Hosts {
		switch cpus {
		case contention.CPUsUnknown:
			short[i] = h.Crowded() != ""
		case contention.CPUsCause, contention.CPUsPartly:
			short[i] = true
		}
	}
	c.Pairs = slices.DeleteFunc(c.Pairs, func(p ContentionPair) bool {
		i, found := slices.BinarySearchFunc(f.Pairs, p, func(x Pair, p ContentionPair) int {
			return cmp.Or(x.From-p.From, x.To-p.To)
		})
		if !found || f.Pairs[i].Slowdown <= 1 || short[f.Ranks[p.From].Host] || short[f.Ranks[p.To].Host] {
			return true
		}
		f.Pairs[i].Contention = p.Ratio
		return false
	})
	switch {
	case !f.Document.Overlaps || c.Messages == 0 || !f.Slowdown.Known():
		c.Verdict = contention.Unknown
	case cpus == contention.CPUsUnknown && slices.Contains(short, true):
		c.Verdict = Waits
	case cpus == contention.CPUsCause && (c.Overlapped > 0 || len(c.Slower) > 0):
		c.Verdict = Waits
	case cpus == contention.CPUsPartly && c.verdict() != contention.Small && (c.Overlapped > 0 || len(c.Slower) > 0):
		c.Verdict = Partly
	case c.Overlapped == 0 && c.Unsure > 0:
		c.Verdict = contention.Unknown
	case c.Overlapped == 0 && len(c.Slower) > 0:
		c.Verdict = Longer
	case c.Overlapped == 0:
		c.Verdict = Apart
	case len(c.Pairs) > 0 || c.Lacking.verdict() == contention.Costs:
		c.Verdict = contention.Costs
	case c.Compared == 0:
		c.Verdict = contention.Unknown
	default:
		c.Verdict = c.verdict()
	}
}

// SlowdownOf says what Slowdown is of, and what it is not shown to be.
func (f *Figures) SlowdownOf() string {
	const of = "workload against alone, all messages"
	switch f.Contention.Verdict {
	case contention.Costs:
		return of
	case Waits, Partly:
		return of + ", with waits for CPUs"
	}
	return of + "; not shown to be contention"
}

// sayTraffic says what the workload's traffic costs its messages: the sentence, and why in a line.
func sayTraffic(f *Figures) (a Answer) {
	c, d := &f.Contention, f.Document
	a.Level = "note"
	switch {
	case !d.Overlaps && d.Status == result.Partial:
		a.Sentence = "The run ended before it was known which messages overlapped, so nothing can be said of contention."
		return a
	case !d.Overlaps:
		a.Sentence = "This result does not hold which messages overlapped, so nothing can be said of contention: measure again with this version."
		return a
	case c.Messages == 0:
		a.Sentence = "No pattern was measured in a workload, so nothing can be said of contention."
		return a
	}
	a.Why = strings.Join(slices.DeleteFunc([]string{c.met(d), f.Link.alone(c.Cost), f.sayUnsteady()},
		func(s string) bool { return s == "" }), " ")
	switch c.Verdict {
	case Waits:
		a.Sentence = f.sayWaits()
	case Partly:
		a.Sentence = "No verdict: " + c.Waits.Text()
		if f.Link.Text != "" {
			a.Sentence += "; " + f.Link.Text
		}
		a.Sentence += "."
	case Longer:
		a.Level, a.Sentence, a.Why = slowest(f)
	case Apart:
		a.Level, a.Sentence = "good", "No contention between these patterns: none of their messages overlapped."
	case contention.Unknown:
		a.Sentence = c.sayUnknown()
	case contention.Costs:
		a.Level, a.Sentence = c.sayCosts()
		if f.Link.full() {
			_, rest, _ := strings.Cut(a.Sentence, ":")
			a.Sentence = fmt.Sprintf("The link is full (%s):%s", f.Link.Text, rest)
		}
		if f.Moved != nil {
			a.Why = strings.TrimSpace(a.Why + " " + f.Moved.Congestion)
		}
	case contention.Small:
		a.Level, a.Sentence = "good", fmt.Sprintf("Overlapping costs little, if anything: messages take %s.", c.took(" as "+c.control()))
		if c.MaskedPairs > 0 || c.Lacking.unlike() {
			a.Level, a.Sentence = "note", strings.TrimSuffix(a.Sentence, ".")+"; that is not shown of all of them."
		}
	default:
		a.Sentence = fmt.Sprintf("Not separated: messages that overlap take %s%s.", c.took(" as "+c.control()), c.notSeparated())
	}
	return a
}

// sayWaits says that waits for CPUs are in the times.
func (f *Figures) sayWaits() string {
	w := f.Contention.Waits
	if !w.Known() {
		return fmt.Sprintf("Ranks wait for CPUs: %s, so these times do not show what traffic costs.", f.Document.World.Crowded())
	}
	text := w.Text()
	return strings.ToUpper(text[:1]) + text[1:] + ": these times do not show what traffic costs."
}

// sayUnsteady says that runs alone are no measure, since they differ from each other.
func (f *Figures) sayUnsteady() string {
	list := f.Contention.Unsteady
	if len(list) == 0 {
		return ""
	}
	u := list[0]
	one, other := Duration(Num(u.OneNS)), Duration(Num(u.OtherNS))
	text := fmt.Sprintf("The %d runs alone of pattern %d took %s at first and %s later", u.Runs, u.Pattern, one, other)
	if u.Groups {
		text = fmt.Sprintf("The %d runs alone of pattern %d fall into two groups, of %s and %s", u.Runs, u.Pattern, one, other)
	}
	if n := len(list) - 1; n > 0 {
		text += fmt.Sprintf(" (and those of %s likewise)", cli.Count(n, "more pattern"))
	}
	return text + ": what is compared with them may be wrong by as much."
}

// met says in a line how many messages met others, and where.
func (c *Contention) met(d *result.Document) string {
	switch {
	case c.Overlapped == 0 && c.Unsure > 0:
		return fmt.Sprintf("%d of %d messages may have used a sender, receiver or host at the same time as one of another pattern: the clocks of the hosts are uncertain by up to %s.",
			c.Unsure, c.Messages, Duration(clocksApart(d)))
	case c.Overlapped == 0:
		return "No message of the workload used a sender, receiver or host at the same time as one of another pattern."
	}
	where := "most shared the " + c.Shared
	if len(d.World.Hosts) == 1 {
		where = strings.Replace(fmt.Sprintf("all on one host, %d of them at the same sender or receiver", c.Met), " 0 ", " none ", 1)
	}
	return fmt.Sprintf("%d of %d messages overlapped with other patterns, for %.0f %% of their time on average (%s).",
		c.Overlapped, c.Messages, 100*float64(c.Share), where)
}

// notSeparated says what the interval lacks for contention.
func (c *Contention) notSeparated() string {
	switch {
	case c.Masked: // which took says
		return ""
	case c.Low > contention.Little:
		return ", but no longer than alone"
	}
	return fmt.Sprintf("; the interval holds %.2f, where contention begins", contention.Little)
}

// sayUnknown says why nothing is known of what overlapping costs.
func (c *Contention) sayUnknown() string {
	const not = "What overlapping costs is not known: "
	switch {
	case c.Overlapped == 0:
		return not + "it is open whether messages overlapped."
	case c.Compared == 0 && c.Late > 0:
		return not + "other patterns came only after the time that a message takes alone."
	case c.Compared == 0:
		return not + "no message that overlapped was also measured alone."
	}
	return fmt.Sprintf("%s%s too few, it takes %d (--iters, --isolation-iters).", not, areRuns(c.Runs), contention.MinRuns)
}

// sayCosts says what overlapping costs: of all that is compared, or else of pairs, or of those that always overlap.
func (c *Contention) sayCosts() (level, sentence string) {
	switch {
	case c.verdict() == contention.Costs:
		return severity(c.Ratio), fmt.Sprintf("Contention: messages that overlap take %s.", c.took(" as "+c.control()))
	case len(c.Pairs) > 0:
		p := c.Pairs[0]
		return severity(p.Ratio), fmt.Sprintf("Contention at %d of %d pairs that overlapped, the most at %d \u2192 %d, %s: its messages take %s.",
			len(c.Pairs), c.Looked, p.From, p.To, p.sharing(), p.took(" as "+p.control()))
	}
	l := c.Lacking
	return severity(l.Ratio), fmt.Sprintf("Contention: messages that overlapped in all runs of their phase, or nearly all, take %s.",
		l.took(" as "+l.control()))
}
