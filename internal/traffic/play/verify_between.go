package play

import (
	"slices"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/session"
)

// disturb notes that this plan is about to receive bytes where others have been filled and not checked yet. Plans of
// one call of Apart share no memory.
func (p *LoadPlan) disturb() {
	for filled, by := range p.s.Filled {
		apart := p.Group != 0 && filled.Group == p.Group
		if by == "" && filled != p.Reserved && !apart && sharesMemory(p.Reserved, filled) {
			p.s.Filled[filled] = p.Label()
		}
	}
}

// sharesMemory reports whether there is a rank where both plans receive into the same buffer.
func sharesMemory(a, b *session.Reserved) bool {
	for _, lane := range a.Lanes {
		too := slices.ContainsFunc(b.Lanes, func(l *session.Bound) bool { return l.Number == lane.Number })
		if !too || lane.Number == load.Files {
			continue
		}
		for _, rank := range a.Ranks {
			if !contains(b.Ranks, rank) {
				continue
			}
			_, of := a.Messages(rank, lane.Number)
			_, others := b.Messages(rank, lane.Number)
			for _, m := range of {
				for _, o := range others {
					if m.Place == o.Place {
						return true
					}
				}
			}
		}
	}
	return false
}

// filled notes that the plan's buffers hold known bytes, undisturbed.
func (p *LoadPlan) filled() { p.s.Filled[p.Reserved] = "" }

// undisturbed forgets what filled has noted. It is an error if another plan has run since.
func (p *LoadPlan) undisturbed() error {
	by := p.s.Filled[p.Reserved]
	delete(p.s.Filled, p.Reserved)
	if by == "" {
		return nil
	}
	return fault.New(fault.Script, "%s: check: %s has run since fill, into the same memory", p.Label(), by).
		WithHint("fill, run and check one plan after the other, give them different lanes, or let transfer.apart part them")
}
