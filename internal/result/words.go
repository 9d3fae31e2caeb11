package result

import (
	"fmt"
	"slices"
)

// CongestionWords words the gain of a counter of congestion: "2174 retransmitted TCP segments". Names of TCP's counters
// begin with "tcp ". place orders counters, the plainest sign first; ok is false where a counter is part of another
// one, or unknown.
func CongestionWords(name string, n int64) (text string, place int, ok bool) {
	place = slices.IndexFunc(congestion, func(c struct{ name, words string }) bool { return c.name == name })
	if place < 0 {
		return "", 0, false
	}
	plural := "s"
	if n == 1 {
		plural = ""
	}
	return fmt.Sprintf("%d "+congestion[place].words, n, plural), place, true
}

// CongestionTotals sums up, over all hosts and NICs, what each counter of congestion with words has gained in the
// phases in which something was measured. It is nil where no counters were looked at.
func (d *Document) CongestionTotals() map[string]int64 {
	if d.Network == nil {
		return nil
	}
	totals, measured := map[string]int64{}, d.measuredPhases()
	for i := range d.Network.Windows {
		w := &d.Network.Windows[i]
		if len(measured) > 0 && !measured[w.Phase] {
			continue
		}
		d.Counted(w, func(name, _ string, n int64) {
			if _, _, ok := CongestionWords(name, n); ok {
				totals[name] += n
			}
		})
	}
	return totals
}
