package spmd

import (
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/kit/must"
)

// alone is a group of one rank.
type alone struct{}

func (alone) Latest(v [2]int64) ([2]int64, error) { return v, nil }

// play calls Due after each of so many steps, of which one takes each, and what is due cost.
func play(t *testing.T, steps int, each, cost time.Duration) (due, met int, longest time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		var p Interval
		p.Begin()
		last := time.Now()
		for range steps {
			time.Sleep(each)
			longest = max(longest, time.Since(last))
			now, together, err := p.Due(alone{})
			must.Do(t, err)
			if together {
				met++
			}
			if now {
				time.Sleep(cost)
				p.Did()
				due++
				last = time.Now()
			}
		}
	})
	return due, met, longest
}

func TestDue(t *testing.T) {
	for name, c := range map[string]struct {
		steps                 int
		each, cost            time.Duration
		least, most, meetings int
		longest               time.Duration
	}{
		"what is over soon":     {1000, time.Millisecond, time.Millisecond, 0, 1, 8, 2 * time.Second},
		"short steps":           {100_000, time.Millisecond, 10 * time.Millisecond, 90, 100, 400, 2 * time.Second},
		"steps of microseconds": {1_000_000, 10 * time.Microsecond, time.Millisecond, 9, 10, 60, 2 * time.Second},
		"long steps":            {20, 100 * time.Second, time.Millisecond, 20, 20, 20, 101 * time.Second},
		"steps of a second":     {60, time.Second, time.Millisecond, 50, 60, 60, 3 * time.Second},
		"what takes a second":   {100_000, 10 * time.Millisecond, time.Second, 18, 20, 2500, 60 * time.Second},
	} {
		due, met, longest := play(t, c.steps, c.each, c.cost)
		if due < c.least || due > c.most || met > c.meetings || longest > c.longest {
			t.Errorf("%s: due %d times, in %d meetings, at most %v apart", name, due, met, longest)
		}
	}
}

// Steps that become a hundred times as long are noticed soon.
func TestSlower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Interval
		p.Begin()
		for range 500 {
			time.Sleep(time.Millisecond)
			p.Due(alone{})
		}
		began := time.Now()
		for due := false; !due; due, _, _ = p.Due(alone{}) {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 52*time.Second {
			t.Errorf("due after %v", took)
		}
	})
}
