package clock

import (
	"math"
	"slices"
)

// Sample is one measurement. A stamp AtNS of the clock is AtNS + OffsetNS on the
// reference's time line, to within UncertaintyNS. All are nanoseconds.
type Sample struct {
	AtNS          int64 `json:"at_ns"`
	OffsetNS      int64 `json:"offset_ns"`
	UncertaintyNS int64 `json:"uncertainty_ns"`
}

// Apart is how far stamps of any two clocks may be off each other, by the uncertainty of each: 0 of fewer than two.
func Apart(uncertainties []int64) int64 {
	if len(uncertainties) < 2 {
		return 0
	}
	var most, second int64
	for _, u := range uncertainties {
		most, second = max(most, u), max(second, min(most, u))
	}
	return most + second
}

// ClockLine is the history of one clock. The zero value is the reference itself.
type ClockLine struct{ samples []Sample }

// Add notes a sample, which must be later than all before it.
func (l *ClockLine) Add(s Sample) { l.samples = append(l.samples, s) }

// Last returns the latest sample, or a zero one.
func (l *ClockLine) Last() Sample {
	if len(l.samples) == 0 {
		return Sample{}
	}
	return l.samples[len(l.samples)-1]
}

// Len is the number of samples.
func (l *ClockLine) Len() int { return len(l.samples) }

// Recent is the uncertainty of stamps between the two latest samples.
func (l *ClockLine) Recent() int64 { return l.UncertaintyAt(l.Last().AtNS) }

// OffsetAt returns what must be added to a stamp to put it on the reference's time
// line. Before the first and after the last sample it is that sample's.
func (l *ClockLine) OffsetAt(ns int64) int64 {
	after, _ := slices.BinarySearchFunc(l.samples, ns, func(s Sample, ns int64) int {
		switch {
		case s.AtNS < ns:
			return -1
		case s.AtNS > ns:
			return 1
		}
		return 0
	})
	switch {
	case len(l.samples) == 0:
		return 0
	case after == 0:
		return l.samples[0].OffsetNS
	case after == len(l.samples):
		return l.Last().OffsetNS
	}
	a, b := l.samples[after-1], l.samples[after]
	part := float64(ns-a.AtNS) / float64(b.AtNS-a.AtNS)
	drift, atA := join(a, b)
	return a.OffsetNS + int64(math.Round(atA+part*drift))
}

// maxDrift is how fast two clocks drift apart at most, where samples do not prove more: what the kernel puts right.
const maxDrift = 500e-6

// join draws the line between two samples: by how much the offset changes from a to b, and by how much the line misses
// a. What lies beyond maxDrift is taken for errors of the samples, as far as their uncertainties allow, and shared by
// these. With clocks within maxDrift the line is then off by the larger uncertainty at most: if the offsets differ by r
// more than the drift explains, a and b lack room for errors that add to r, and r was shared as they share their room.
func join(a, b Sample) (drift, atA float64) {
	change, errors := float64(b.OffsetNS-a.OffsetNS), float64(a.UncertaintyNS+b.UncertaintyNS)
	drift = math.Abs(change)
	if drift > 0 {
		drift = math.Copysign(max(drift-errors, min(drift, maxDrift*float64(b.AtNS-a.AtNS))), change)
	}
	if errors > 0 {
		atA = (change - drift) * float64(a.UncertaintyNS) / errors
	}
	return drift, atA
}

// UncertaintyAt is how far OffsetAt may be off: the worse of the samples
// around the stamp.
func (l *ClockLine) UncertaintyAt(ns int64) int64 {
	var worst int64
	for i, s := range l.samples {
		beforeLater := i+1 < len(l.samples) && l.samples[i+1].AtNS < ns
		afterEarlier := i > 0 && l.samples[i-1].AtNS > ns
		if !beforeLater && !afterEarlier {
			worst = max(worst, s.UncertaintyNS)
		}
	}
	return worst
}

// minSpan is the shortest time over which a drift means anything.
const minSpan = 100e6 // ns

// DriftPPM is how fast the clock runs against the reference, in parts per million,
// over all samples: positive if it is too slow. It is 0 where they lie too close
// together to show one.
func (l *ClockLine) DriftPPM() float64 {
	if len(l.samples) < 2 {
		return 0
	}
	first, last := l.samples[0], l.Last()
	span := float64(last.AtNS - first.AtNS)
	if span < minSpan {
		return 0
	}
	return float64(last.OffsetNS-first.OffsetNS) / span * 1e6
}
