package spmd

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/pack"
)

// The common time line is the monotonic clock of rank 0's host. Every other host
// measures its clock against another host's that is nearer to rank 0's in a
// binomial tree: with H hosts all are done after log2 H rounds, and a host's
// uncertainty is the sum of those on its way to the root.

// ClockState describes a host's clock.
type ClockState struct {
	OffsetNS      int64   `json:"offset_ns"`      // time there + this = time at rank 0's host
	UncertaintyNS int64   `json:"uncertainty_ns"` // how far the offset may be off
	DriftPPM      float64 `json:"drift_ppm"`      // positive: the clock is slower than that of rank 0's host
	Samples       int     `json:"samples"`        // how often it was measured
}

// Clocks returns the state of each host's clock, in the order of Hosts.
func (w *World) Clocks() []ClockState {
	lines := w.lines()
	states := make([]ClockState, len(lines))
	for h, line := range lines {
		last := line.Last()
		states[h] = ClockState{
			OffsetNS: last.OffsetNS, UncertaintyNS: last.UncertaintyNS,
			DriftPPM: line.DriftPPM(), Samples: line.Len(),
		}
	}
	return states
}

// Now is the time on the common time line, in nanoseconds.
func (w *World) Now() int64 { return w.ToCommon(w.rank, w.localNow()) }

// ToCommon turns a stamp of the monotonic clock of a rank's host into the time
// line of rank 0's. It is best for stamps between two calls of SyncClocks, and may be called while that runs.
func (w *World) ToCommon(rank int, ns int64) int64 {
	return ns + w.lines()[w.roster.hostOf(rank)].OffsetAt(ns)
}

// lines are the clocks by host, as far as they have been compared. Each comparison replaces them.
func (w *World) lines() []clock.ClockLine {
	if lines := w.clocks.Load(); lines != nil {
		return *lines
	}
	return nil
}

// Uncertainty is how far, in nanoseconds, two stamps of different ranks of
// these may be off each other. Within one host it is 0.
func (w *World) Uncertainty(ranks []int) int64 {
	var uncertainties []int64
	seen := map[int]bool{}
	for _, r := range ranks {
		if h := w.roster.hostOf(r); !seen[h] {
			seen[h] = true
			uncertainties = append(uncertainties, w.ClockUncertainty(h))
		}
	}
	return clock.Apart(uncertainties)
}

// ClockUncertainty is how far, in nanoseconds, recent stamps of a host may be off the common time line.
func (w *World) ClockUncertainty(host int) int64 { return w.lines()[host].Recent() }

// SyncClocks measures all clocks once more, so that drift since the last time can
// be put right. All ranks call it. In a world of one host it does nothing.
func (w *World) SyncClocks() error {
	before := w.lines()
	if before == nil {
		before = make([]clock.ClockLine, len(w.roster.hosts))
		w.clocks.Store(&before)
	}
	if len(w.roster.hosts) == 1 {
		return nil
	}
	mine, err := w.measureClock()
	if err != nil {
		return fault.Wrap(err, "compare the clocks of the hosts")
	}
	data, err := w.gatherClocks(mine)
	if err != nil {
		return err
	}
	if data, err = w.All().Broadcast(0, data); err != nil {
		return err
	}
	w.syncs++
	lines, err := shareValue(w.shared, fmt.Sprint("clocks ", w.syncs), func() ([]clock.ClockLine, error) {
		return addSamples(before, data)
	})
	if err == nil {
		w.clocks.Store(&lines)
		w.logClocks()
	}
	return err
}

// gatherClocks returns, at rank 0, the samples of all hosts, each against its
// parent in the tree.
func (w *World) gatherClocks(mine clock.Sample) ([]byte, error) {
	if w.leader(w.roster.hostOf(w.rank)) != w.rank {
		return nil, nil
	}
	g, err := w.Group(w.roster.leaders)
	if err != nil {
		return nil, err
	}
	var b []byte
	for _, v := range []int64{mine.AtNS, mine.OffsetNS, mine.UncertaintyNS} {
		b = binary.AppendVarint(b, v)
	}
	all, err := g.Gather(0, b)
	return slices.Concat(all...), err
}

// addSamples returns lines with a new sample each, of all but the first.
func addSamples(lines []clock.ClockLine, data []byte) ([]clock.ClockLine, error) {
	steps := make([]clock.Sample, len(lines))
	p := pack.Read(data)
	for h := range steps {
		steps[h] = clock.Sample{AtNS: p.Signed(), OffsetNS: p.Signed(), UncertaintyNS: p.Signed()}
	}
	if err := p.End("the clocks of the hosts"); err != nil {
		return nil, err
	}
	lines = slices.Clone(lines)
	for h := 1; h < len(lines); h++ {
		s := steps[h]
		// From here up to the root each step adds its offset and its doubt. A
		// parent's sample is of a little earlier or later; what its clock drifts
		// in that time is far below the uncertainty.
		for up := h & (h - 1); up != 0; up &= up - 1 {
			s.OffsetNS += steps[up].OffsetNS
			s.UncertaintyNS += steps[up].UncertaintyNS
		}
		lines[h].Add(s)
	}
	return lines, nil
}

// measureClock is the part of the tree in which this rank's host has a place: the
// lowest rank of host h, whose lowest set bit is b, serves hosts h + 1, h + 2,
// ... below h + b, and then measures against host h - b.
func (w *World) measureClock() (clock.Sample, error) {
	h := w.roster.hostOf(w.rank)
	if w.leader(h) != w.rank {
		return clock.Sample{}, nil
	}
	for bit := 1; bit < len(w.roster.hosts); bit *= 2 {
		if h&bit != 0 {
			g, err := w.Group([]int{w.leader(h - bit), w.rank})
			if err != nil {
				return clock.Sample{}, err
			}
			return g.askTime()
		}
		if h+bit < len(w.roster.hosts) {
			g, err := w.Group([]int{w.rank, w.leader(h + bit)})
			if err != nil {
				return clock.Sample{}, err
			}
			if err := g.tellTime(); err != nil {
				return clock.Sample{}, err
			}
		}
	}
	return clock.Sample{}, nil
}

const pingRounds = 32

// askTime asks the group's first member for its time over and over, and believes
// the answer that came back fastest. The offset is exact if both ways took
// equally long, and cannot be further off than half the round trip.
func (g *Group) askTime() (clock.Sample, error) {
	return collective(g, opPing, func(ctx context.Context, seq uint32) (clock.Sample, error) {
		best := clock.Sample{UncertaintyNS: math.MaxInt64}
		for range pingRounds {
			before := g.w.localNow()
			if err := g.send(ctx, 0, opPing, seq, nil); err != nil {
				return best, err
			}
			answer, err := g.recv(ctx, 0, opPing, seq)
			if err != nil {
				return best, err
			}
			if len(answer) != 8 {
				return best, pack.ErrTorn
			}
			after := g.w.localNow()
			if half := (after - before + 1) / 2; half < best.UncertaintyNS {
				there := int64(binary.LittleEndian.Uint64(answer))
				here := before + half
				best = clock.Sample{AtNS: here, OffsetNS: there - here, UncertaintyNS: half}
			}
		}
		return best, nil
	})
}

// tellTime answers the group's second member.
func (g *Group) tellTime() error {
	_, err := collective(g, opPing, func(ctx context.Context, seq uint32) (struct{}, error) {
		for range pingRounds {
			if _, err := g.recv(ctx, 1, opPing, seq); err != nil {
				return struct{}{}, err
			}
			if err := g.send(ctx, 1, opPing, seq, binary.LittleEndian.AppendUint64(nil,
				uint64(g.w.localNow()))); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return err
}
