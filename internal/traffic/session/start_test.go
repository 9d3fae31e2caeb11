package session

import "testing"

// The lead follows what ranks took lately, within bounds.
func TestLeadAdapts(t *testing.T) {
	var p pace
	if got := p.lead(1000); got != (firstLead+4000)*3/2 {
		t.Errorf("at first: %d", got)
	}
	for range len(p.took) {
		p.learned(100_000)
	}
	if got := p.lead(0); got != 150_000 {
		t.Errorf("after 100 us: %d", got)
	}
	p.learned(50_000_000)
	if got := p.lead(0); got != longestLead {
		t.Errorf("after 50 ms: %d", got)
	}
	for range len(p.took) {
		p.learned(-5) // clocks of hosts may differ by their uncertainty
	}
	if got := p.lead(0); got != shortestLead {
		t.Errorf("after no time: %d", got)
	}
}
