package figures

import (
	"cmp"
	"fmt"
	"slices"

	"perigee/internal/result"
)

// pathLine is the path in a line.
func pathLine(p *result.Paths) string {
	if p == nil || len(p.Uses) == 0 {
		return ""
	}
	u := p.Uses[0]
	var all int64
	for _, o := range p.Uses {
		all += o.Count
	}
	return fmt.Sprintf("path: %s %s-%s %s/%s %s %.0f %%", u.Op, u.Local, u.Remote, u.Transport, u.Device, u.How,
		100*float64(u.Count)/float64(max(all, 1)))
}

// congestionWords say what a counter counts, those first that say most of congestion. The names are those of
// docs/network.md; those of TCP are marked.
var congestionWords = []struct{ name, words string }{
	{"tcp.retransmits", "%s segments of TCP were retransmitted"},
	{"tx_discards", "%s packets were discarded before they were sent"},
	{"rx_discards", "%s packets were discarded on arrival"},
	{"ecn_marked", "%s packets came with a mark of congestion (ECN)"},
	{"cnp_received", "%s notifications of congestion (CNP) came"},
	{"cnp_sent", "%s notifications of congestion (CNP) were sent"},
	{"pause_received", "%s pause frames came"},
	{"pause_sent", "%s pause frames were sent"},
	{"retransmits", "%s packets were retransmitted"},
	{"out_of_sequence", "%s packets came out of sequence"},
	{"sequence_errors", "%s packets were asked for again"},
	{"xmit_wait", "%s ticks passed in which data waited for the other end's credits"},
	{"tcp.timeouts", "%s time-outs of TCP passed"},
	{"ack_timeouts", "%s acknowledgements did not come in time"},
	{"out_of_buffer", "%s packets found no buffer"},
	{"shaped_sent", "%s packets were held back by the limit of the instance"},
}

// byWeight orders counters: first those with words, in their order.
func byWeight(names []string) []string {
	place := func(name string) int {
		for i, w := range congestionWords {
			if w.name == name {
				return i
			}
		}
		return len(congestionWords)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(place(a)-place(b), cmp.Compare(a, b)) })
	return names
}

// rise says what a counter counted.
func rise(name string, n int64) string {
	for _, w := range congestionWords {
		if w.name == name {
			return fmt.Sprintf(w.words, Grouped(n))
		}
	}
	return fmt.Sprintf("%s rose by %s", name, Grouped(n))
}
