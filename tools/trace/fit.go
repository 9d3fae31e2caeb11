package trace

import (
	"fmt"
	"strings"

	"perigee/internal/figures"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/size"
	trace "perigee/internal/trace/figures"
)

// fitSentence says whether a trace fits into the line, when it queues, and which line a bound on the time of a transfer
// needs. It begins with the answer.
func fitSentence(f *trace.Fit) string {
	var b strings.Builder
	on := linkText(f)
	switch {
	case f.Asked >= 1:
		fmt.Fprintf(&b, "It does not fit into %s: it asks for %.3g times that, and all is moved %s after the last request.",
			on, f.Asked, duration(f.BehindS))
	case f.Asked == 0:
		fmt.Fprintf(&b, "All comes at once, and %s moves it in %s.", on, duration(f.BehindS))
	case f.Waiting == 0:
		fmt.Fprintf(&b, "It fits into %s: it asks for %s of that, and no transfer waits for another.", on, percent(f.Asked))
	default:
		fmt.Fprintf(&b, "It fits into %s on average, asking for %s of that, but queues: %s, %s at most.", on,
			percent(f.Asked), cli.Count(f.Waiting, "transfer")+" must wait", duration(f.WaitS))
	}
	if f.Asked > 0 && f.Waiting > 0 {
		fmt.Fprintf(&b, " Transfers wait for %s in all, in %s, the longest for %s from %s s on.", duration(f.QueueS),
			cli.Count(f.Queues, "place"), duration(f.Longest.LengthS), number(f.Longest.StartS))
	}
	fmt.Fprintf(&b, " A transfer takes %s (P50), %s (P99), %s at most.", duration(f.P50S), duration(f.P99S), duration(f.MaxS))
	if s := f.SLO; s != nil {
		verdict := "does not hold"
		if s.Kept {
			verdict = "holds"
		}
		fmt.Fprintf(&b, " %s %s (%s): it needs %s, %s of %s.", s.Bound, verdict, duration(s.IsS), rate(s.Rate),
			cli.Count(s.NICs, "NIC"), f.Line)
	}
	return b.String()
}

// linkText names the link.
func linkText(f *trace.Fit) string {
	return fmt.Sprintf("%d x %s (%s)", f.NICs, f.Line, size.Rate(f.Rate))
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

func duration(s float64) string { return figures.Duration(figures.Num(s * 1e9)) }

// rate is one of a line in the unit of its makers, and in bytes.
func rate(bytesPerS float64) string {
	const gbit = 1e9 / 8
	return fmt.Sprintf("%.4g Gbit/s (%s)", bytesPerS/gbit, size.Rate(bytesPerS))
}

// addFit has what the sentence leaves out, too.
func (r *rows) addFit(f *trace.Fit) {
	r.section("On the line, first come, first served")
	r.add("line", linkText(f))
	r.add("  asked for, of what it carries", percent(f.Asked))
	for _, w := range f.Windows {
		r.add(fmt.Sprintf("  in the busiest %s s", number(w.LengthS)), percent(w.Peak))
		r.add(fmt.Sprintf("  windows of %s s beyond the line", number(w.LengthS)),
			fmt.Sprintf("%d of %d", w.Beyond, w.Of))
	}
	r.add("transfers that wait for others", whole(f.Waiting))
	r.add("  the longest wait", duration(f.WaitS))
	r.add("queues", whole(f.Queues))
	r.add("  in all", duration(f.QueueS))
	r.add("  the longest, and when it begins (s)", duration(f.Longest.LengthS)+" / "+number(f.Longest.StartS))
	r.add("moved after the last request", duration(f.BehindS))
	r.add("time of a transfer: mean", duration(f.MeanS))
	r.add("  P50 / P99 / max", fmt.Sprintf("%s / %s / %s", duration(f.P50S), duration(f.P99S), duration(f.MaxS)))
	if s := f.SLO; s != nil {
		r.add(s.Bound+": it is", duration(s.IsS))
		r.add("  needs", rate(s.Rate))
		r.add("  NICs of "+f.Line, whole(s.NICs))
	}
}
