package compare

import (
	"fmt"
)

// meetings counts the messages of the workloads of a side, and how many of them met other patterns.
type meetings struct {
	messages, overlapped int
	unsure               int  // of which the clocks do not say whether they did
	unknown              bool // a result does not hold it
}

func (m *meetings) add(messages, overlapped, unsure int) {
	m.messages, m.overlapped, m.unsure = m.messages+messages, m.overlapped+overlapped, m.unsure+unsure
}

// share is the part of the messages that overlapped, and most what it would be if those that are not sure did, too.
func (m meetings) share() (share, most float64) {
	n := float64(m.messages)
	return float64(m.overlapped) / n, float64(m.overlapped+m.unsure) / n
}

func (m meetings) String() string {
	share, _ := m.share()
	if m.overlapped == 0 {
		return "none"
	}
	return fmt.Sprintf("%.3g %%", 100*share)
}

// differ says what part of the messages overlapped on each side where these parts differ strongly: one is more than a
// twentieth, and at least ten times the other. Else, or where it is not known, it is empty.
func differ(old, fresh meetings) string {
	if old.unknown || fresh.unknown || old.messages == 0 || fresh.messages == 0 {
		return ""
	}
	a, mostA := old.share()
	b, mostB := fresh.share()
	if max(a, b) <= 0.05 || max(a, b) < 10*min(mostA, mostB) {
		return ""
	}
	return fmt.Sprintf("OLD: %s of the messages overlapped with other patterns, NEW: %s", old, fresh)
}
