package figures

import (
	"fmt"

	"perigee/internal/kit/size"
	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

// Link is what the busiest host has used of its line. The zero value is of none that is known.
type Link struct {
	Text  string `json:"text"`  // such as "node3 sends 95 % of 250 MB/s"; empty where the line is not known
	Share Num    `json:"share"` // of the line, in the workload
	Alone Num    `json:"alone"` // the same of the runs alone, in this direction; of the ceiling where Text is empty
	// Larger is the median rate of pairs of ranks alone, as a part of the best that larger messages reached alone;
	// where neither line nor ceiling is known.
	Larger Num `json:"larger"`
}

// full is from which share on a link is what messages wait for. What is above result.MostShare took another way.
const full = 0.9

func (l Link) full() bool { return l.Text != "" && l.Share >= full && l.Share <= result.MostShare }

// linkOf is that of the busiest host.
func linkOf(d *result.Document, flows *result.Flows) Link {
	l := Link{Share: None, Alone: None, Larger: None}
	b, ok := flows.Busiest(d)
	switch {
	case !ok || d.Line == nil:
	case d.Line.Host > 0:
		l.Share, l.Alone = Num(b.Rate/d.Line.Host), ratio(flows.Alone(b), d.Line.Host)
		l.Text = fmt.Sprintf("%s %.0f %% of %s", b.Text(d), 100*l.Share, size.Rate(d.Line.Host))
	case d.Line.Ceiling != nil:
		l.Alone = ratio(flows.Alone(b), d.Line.Ceiling.Rate)
	}
	return l
}

// beside compares, where neither line nor ceiling is known, the median rate of pairs of ranks alone with the fastest of
// those between hosts whose messages are larger.
func (l *Link) beside(f *Figures) {
	if l.Text != "" || l.Alone.Known() {
		return
	}
	var sizes, rates []float64
	for _, p := range f.Pairs {
		if f.Ranks[p.From].Host != f.Ranks[p.To].Host && p.IsolatedBandwidth.Known() {
			sizes = append(sizes, float64(p.Bytes)/float64(p.Messages))
			rates = append(rates, float64(p.IsolatedBandwidth))
		}
	}
	const larger = 2
	size, best := stats.Median(sizes), 0.
	for i, rate := range rates {
		if sizes[i] >= larger*size {
			best = max(best, rate)
		}
	}
	l.Larger = ratio(stats.Median(rates), best)
}

// alone says that the runs alone did not use the line, so that they are no measure of it: messages that take times as
// long as these take longer yet against what the line carries.
func (l Link) alone(c Cost) string {
	const least = 0.3 // below it messages are too small to use a line
	share, of := l.Alone, "of the line"
	switch {
	case l.Text == "" && l.Alone.Known():
		of = "of the ceiling"
	case l.Text == "":
		share, of = l.Larger, "of what larger messages reached"
	}
	switch {
	case !(share > 0 && share < full) || !c.Low.Known(): // nothing was compared
		return ""
	case share < least:
		return fmt.Sprintf("Alone, messages used %.0f %% %s.", 100*share, of)
	}
	return fmt.Sprintf("Alone, messages used %.0f %% %s; with all of it they would have been faster, and take %.2f times as long as that.",
		100*share, of, c.Ratio/share)
}
