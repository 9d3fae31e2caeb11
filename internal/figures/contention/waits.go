package contention

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"perigee/internal/kit/stats"
	"perigee/internal/traffic/series"
)

// Waits says for how much of the time of messages the threads that move their bytes wait for a CPU: of each message the
// median over its runs, of each pattern the median over its messages, and the median of these. Where messages overlap,
// they are of those that do. All are NaN where that is not known.
type Waits struct {
	Workload stats.Num `json:"workload"` // part of the time
	Alone    stats.Num `json:"alone"`
	// Slowdown is the part of what messages take longer than alone; NaN where they do not, or only a little.
	Slowdown stats.Num `json:"slowdown"`
	// Times is how many times as long as alone they take.
	Times stats.Num `json:"times"`
	// Copies says that the threads which post move the bytes themselves. With a CPU for each of them they wait for none
	// but where other programs take it.
	Copies bool `json:"copies"`
	// Short is what a host has that is less than a CPU for each of its ranks; empty if none is such.
	Short string `json:"short"`
}

// Limits between traffic and waits for CPUs. In 74 runs over TCP, half of them held up by the network and half by CPUs,
// with 3 to 20 ranks on 2 CPUs and beside programs that took these, the threads that move bytes waited for at most
// 18 % of the time in the former and at least 37 % in the latter, which was at most 16 % and at least 59 % of the
// slowdown, but where the runs alone waited as much. In 150 more, in which messages of 4 to 16 MiB on 2 Gbit/s left 2
// CPUs little rest, the network's came to 43 % and 51 %.
const (
	fewWaits, littleOfSlowdown = 0.25, 0.30
	mostOfSlowdown             = 0.55
	// Where the runs alone wait for more than manyWaits, too, so much of a slowdown may be theirs: up to evenAlone, and
	// up to twiceAlone where those of the workload wait for most of their time.
	manyWaits, mostWaits  = 0.35, 0.5
	evenAlone, twiceAlone = 1.5, 2
	// slower is from which slowdown on a run of a message is longer than alone.
	slower = 1.02
)

// CPUs is what waits for a CPU have to do with the times of a result.
type CPUs string

// The answers.
const (
	CPUsUnknown CPUs = "unknown"
	CPUsRemark  CPUs = "remark" // little: what is said of traffic holds
	CPUsCause   CPUs = "cause"  // the times do not show what traffic costs
	CPUsPartly  CPUs = "partly" // both
)

// CPUs judges.
func (w Waits) CPUs() CPUs {
	switch {
	case !w.Workload.Known():
		return CPUsUnknown
	case w.Slowdown >= mostOfSlowdown, w.Workload > manyWaits && w.Times <= Little:
		return CPUsCause
	case w.Alone > manyWaits && (w.Workload > manyWaits && w.Times <= evenAlone ||
		w.Workload > mostWaits && w.Times <= twiceAlone):
		return CPUsCause
	case w.Copies && w.Short == "" || w.Workload <= fewWaits && !(w.Slowdown > littleOfSlowdown):
		return CPUsRemark
	}
	return CPUsPartly
}

// Known reports whether the kernel said how long threads waited.
func (w Waits) Known() bool { return w.CPUs() != CPUsUnknown }

// Text says for how long threads wait.
func (w Waits) Text() string {
	text := fmt.Sprintf("the threads that move the bytes wait for a CPU for %s of the time", percent(w.Workload))
	switch {
	case w.Slowdown >= 0.005:
		text += fmt.Sprintf(", which is %s of the slowdown", percent(w.Slowdown))
	case w.Alone > manyWaits:
		text += fmt.Sprintf(", alone for %s", percent(w.Alone))
	}
	return text
}

func percent(part stats.Num) string { return fmt.Sprintf("%.0f %%", 100*min(part, 1)) }

// Crowded says why the times of a result do not show what traffic costs, since threads wait for a CPU; empty if they
// show it. Where it is not known for how long they wait, a host with less than a CPU for each of its ranks is such.
func (w Waits) Crowded() string {
	switch w.CPUs() {
	case CPUsRemark:
		return ""
	case CPUsUnknown:
		return w.Short
	}
	return w.Text()
}

// wait holds the parts of a message's time for which threads waited for a CPU: the one that moves its bytes, and the
// one that polls, where that is another; NaN where it is not known.
type wait struct{ moves, polls float32 }

func waitOf(p *series.PeerRun, took float64) wait {
	part := func(ns *int64) float32 {
		if ns == nil {
			return lacking
		}
		return float32(min(1, float64(*ns)/took))
	}
	return wait{part(p.CPUWaitNS), part(p.PollWaitNS)}
}

// of is the part that counts. Where the threads that post move the bytes that is the larger one: they have help of
// another, or none.
func (w wait) of(copies bool) float64 {
	if copies && w.polls == w.polls {
		return float64(max(w.moves, w.polls))
	}
	return float64(w.moves)
}

// waiting are the parts of messages of a pattern, as in Waits.
type waiting struct{ workload, alone, slowdown, times []float64 }

// wait adds the waits of what is kept of a message to its pattern's.
func (a *message) wait(to *waiting, overlapped, copies bool) {
	var shares, parts, times, own []float64
	for _, w := range a.waits {
		own = append(own, w.of(copies))
	}
	alone, isolated := stats.Median(own), a.isolated()
	for _, k := range a.kept {
		share, took := k.wait.of(copies), float64(k.took)
		if math.IsNaN(share) || overlapped && k.first != k.first {
			continue
		}
		shares, times = append(shares, share), append(times, took/isolated)
		if took > slower*isolated && !math.IsNaN(alone) {
			parts = append(parts, max(0, (share*took-alone*isolated)/(took-isolated)))
		}
	}
	if len(shares) == 0 {
		return
	}
	to.workload = append(to.workload, stats.Median(shares))
	to.times = append(to.times, stats.Median(times))
	if !math.IsNaN(alone) {
		to.alone = append(to.alone, alone)
	}
	if 2*len(parts) > len(shares) { // else the message is as fast as alone
		to.slowdown = append(to.slowdown, stats.Median(parts))
	}
}

// copies is that of Waits. The ways that the bytes took are known at the end of a run.
func (c *Collector) copies() bool { return c.own || c.doc != nil && c.doc.Copies() }

// Waits are those of what has been added.
func (c *Collector) Waits() Waits {
	var all waiting
	for _, pattern := range slices.Sorted(maps.Keys(c.patterns)) {
		s, of := c.patterns[pattern], waiting{}
		of.add(s.waiting)
		for i := range s.messages {
			s.messages[i].wait(&of, c.report.Marked > 0, c.copies())
		}
		all.add(waiting{median(of.workload), median(of.alone), median(of.slowdown), median(of.times)})
	}
	of := func(list []float64) stats.Num { return stats.Num(stats.Median(list)) }
	w := Waits{of(all.workload), of(all.alone), of(all.slowdown), of(all.times), c.copies(), c.short}
	if !(w.Times > Little) {
		w.Slowdown = stats.None
	}
	return w
}

func (w *waiting) add(o waiting) {
	w.workload = append(w.workload, o.workload...)
	w.alone = append(w.alone, o.alone...)
	w.slowdown = append(w.slowdown, o.slowdown...)
	w.times = append(w.times, o.times...)
}

// median is that of a list, in a list; empty for none.
func median(values []float64) []float64 {
	if len(values) == 0 {
		return nil
	}
	return []float64{stats.Median(values)}
}
