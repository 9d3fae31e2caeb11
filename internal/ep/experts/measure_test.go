package experts

import (
	"errors"
	"slices"
	"testing"
	"time"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/must"
	"perigee/nixl"
	"perigee/nixl/device"
)

// Waits and bytes of pieces are those of all iterations so far, and halves are the halves of these.
func TestPiecesAddUp(t *testing.T) {
	var m measured
	piece := func(n int, first, second int64, nics device.Traffic) *Log {
		log := &Log{Iterations: make([]Iteration, n)}
		for kind := range kinds {
			log.Waits[kind] = [halves][]int64{{first}, {second}}
		}
		m.add(log, nics)
		return log
	}
	nic := func(names ...string) device.Traffic { return device.Traffic{Names: names, Sent: 10, Received: 1} }
	for i, c := range []struct {
		n             int
		first, second int64
		nics          device.Traffic
		want          [halves]int64
		sent          int64
	}{
		{1, 1, 0, nic("a"), [halves]int64{1, 0}, 10},
		{3, 20, 10, nic("a"), [halves]int64{1 + 20, 10}, 20},   // of 4 iterations 1 + 2 and 1, whose middle is the first half's
		{4, 200, 100, nic("a"), [halves]int64{31, 300}, 30},    // 4 and 4
		{8, 4000, 1000, nic("b"), [halves]int64{331, 5000}, 0}, // 8 and 8, and other NICs
		{16, 1, 1, nic("b"), [halves]int64{5331, 2}, 0},        // what came in between is not known
	} {
		log := piece(c.n, c.first, c.second, c.nics)
		for kind := range kinds {
			if got := [halves]int64{log.Waits[kind][0][0], log.Waits[kind][1][0]}; got != c.want || log.NICs.Sent != c.sent {
				t.Errorf("piece %d: waits %v, %d bytes; want %v, %d", i, got, log.NICs.Sent, c.want, c.sent)
			}
		}
	}
}

// Pieces take a second of the slowest rank's pace, or fifty times as long as saving takes.
func TestLengthOfPieces(t *testing.T) {
	s := spec(t, moe.Shape{Ranks: 2, Tokens: 4, Hidden: 128, Experts: 2, TopK: 2}, moe.FP8, moe.Routing{Family: "uniform"}, 0)
	const us, ms, second = 1000, 1000 * 1000, 1000 * 1000 * 1000
	must.Do(t, play(t, s, func(p *Plane) error {
		for _, c := range []struct {
			left         int
			entry        Entry
			pace, saving int64
			want         int
		}{
			{1_000_000, Steady, 100 * us, ms, 10_000}, {1_000_000, Steady, 100 * us, 0, 625}, // the first
			{15_000, Steady, 100 * us, 0, 625}, {14_999, Steady, 100 * us, 0, 14_999}, // less than one and a half seconds
			{15_000, Steady, 100 * us, ms, 10_000}, {14_999, Steady, 100 * us, ms, 14_999}, // a short rest
			{1_000_000, Fresh, 100 * us, second, 500_000},
			{1000, Steady, second, 0, 4}, {1000, Moving, 3 * second, 0, 2},
			{1000, Steady, 0, 0, 1000}, // not known
		} {
			pace := c.pace
			if p.me == 0 {
				pace /= 2
			}
			if got, err := p.piece(c.left, c.entry, pace, c.saving); err != nil || got != c.want {
				t.Errorf("%+v: %d, %v", c, got, err)
			}
		}
		return nil
	})...)
}

// firstPiece is how many figures there are after the first piece of pieces, without the first iteration.
var firstPiece = map[Entry]int{Steady: 3, Fresh: 1, Moving: 1}

// pieces measures 80 iterations at two ranks, in two pieces: they are believed to take 40 ms at first.
func pieces(t *testing.T, entry Entry, save func(*PlaneFigures), before func(p *Plane)) (last *PlaneFigures, errs []error) {
	t.Helper()
	s := spec(t, moe.Shape{Ranks: 2, Tokens: 4, Hidden: 128, Experts: 2, TopK: 2}, moe.FP8, moe.Routing{Family: "uniform"}, 0)
	errs = play(t, s, func(p *Plane) error {
		if err := p.First(); err != nil {
			return err
		}
		before(p)
		f, err := p.measure(EndToEnd, 0, 80, entry, int64(40*time.Millisecond), func(f *PlaneFigures) error {
			save(f)
			return nil
		})
		if f != nil {
			last = f
		}
		if err == nil {
			_, err = p.CheckState(EndToEnd)
		}
		return err
	})
	return last, errs
}

// failing writes a rank's messages so many times.
type failing struct {
	requests
	left *int
}

func (f failing) Run(ctl nixl.Control, n int, times []nixl.Times) error {
	if *f.left--; *f.left < 0 {
		return errors.New("broken in the middle")
	}
	return f.requests.Run(ctl, n, times)
}

// A rank that fails in the second piece leaves the figures of the first.
func TestFailureLeavesPieces(t *testing.T) {
	for _, entry := range []Entry{Steady, Fresh, Moving} {
		var saved *PlaneFigures
		_, errs := pieces(t, entry, func(f *PlaneFigures) { saved = f }, func(p *Plane) {
			left := 60
			for parity := range 2 {
				if o := &p.ops[dispatching]; p.me == 1 {
					o.batches[parity] = failing{o.batches[parity], &left}
				}
			}
		})
		if errs[0] == nil || errs[1] == nil {
			t.Errorf("%v: %v", entry, errs)
		}
		if f := saved; f == nil || f.Iterations != firstPiece[entry] || len(f.MostUS) != f.Iterations || f.Asked != 80 || f.Latency.Avg <= 0 || f.Bandwidth.Avg <= 0 {
			t.Errorf("%v: left are %+v", entry, f)
		}
	}
}

// Pieces leave out no iteration and count none twice. What they leave behind is right.
func TestFiguresOfPieces(t *testing.T) {
	for _, entry := range []Entry{Steady, Fresh, Moving} {
		var first []float64
		last, errs := pieces(t, entry, func(f *PlaneFigures) { first = f.MostUS }, func(*Plane) {})
		must.Do(t, errs...)
		if n := firstPiece[entry]; len(first) != n || len(last.MostUS) != 79 || last.Iterations != 79 || last.Asked != 0 ||
			!slices.Equal(first, last.MostUS[:n]) {
			t.Errorf("%v: %d and then %d iterations, asked for %d", entry, len(first), len(last.MostUS), last.Asked)
		}
		for kind, rows := range last.Waits { // which cover the time in which ranks wait
			if last.Ranks[0].WaitUS+last.Ranks[1].WaitUS > 0 && rows[0][1]+rows[1][0] <= 0 {
				t.Errorf("%v: %s waits %v", entry, kind, rows)
			}
		}
	}
}
