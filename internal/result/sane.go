package result

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/traffic/series"
)

// None of what is measured can be below zero: not a time, since both stamps of a rank are of one clock, nor a number of
// bytes. A file that says so is damaged, and what is worked out from it would pass for a measurement.

// figure is a number with its name in the file.
type figure struct {
	name  string
	value float64
}

// whole is a figure that is a whole number.
func whole(name string, value int64) figure { return figure{name, float64(value)} }

// span is the time between two stamps. One that does not fit 64 bits counts as below zero.
func span(start, end int64) figure {
	const name = "end_ns - start_ns"
	if end < start {
		return figure{name, float64(end) - float64(start)}
	}
	return whole(name, end-start)
}

// optional is a figure that may be missing.
func optional[T int64 | float64](name string, value *T) figure {
	if value == nil {
		return figure{name, 0}
	}
	return figure{name, float64(*value)}
}

// notBelowZero names the first figure that is.
func notBelowZero(figures ...figure) error {
	for _, f := range figures {
		if f.value < 0 {
			return fmt.Errorf("%s: wanted 0 or more, got %v", f.name, f.value)
		}
	}
	return nil
}

// checkFigures refuses a run that cannot have been measured.
func (m *Measurement) checkFigures() error {
	if want := m.Run.LatencyNS(); m.LatencyNS != want {
		return fmt.Errorf("latency_ns: wanted end_ns - start_ns, which is %d, got %d", want, m.LatencyNS)
	}
	if err := notBelowZero(span(m.StartNS, m.EndNS), whole("uncertainty_ns", m.UncertaintyNS),
		optional("barrier_exit_skew_ns", m.BarrierExitSkewNS), optional("start_skew_ns", m.StartSkewNS),
		figure{"mean_bandwidth_bytes_per_s", m.MeanBandwidth}); err != nil {
		return err
	}
	for i := range m.Ranks {
		r := &m.Ranks[i]
		if err := notBelowZero(span(r.StartNS, r.EndNS), whole("bytes", r.Bytes)); err != nil {
			return fmt.Errorf("ranks[%d]: %w", i, err)
		}
		if i > 0 && r.Rank <= m.Ranks[i-1].Rank {
			return fmt.Errorf("ranks[%d]: rank %d comes after rank %d: wanted each rank once, ascending",
				i, r.Rank, m.Ranks[i-1].Rank)
		}
		left := r.Bytes
		for k := range r.Peers {
			p := &r.Peers[k]
			if err := notBelowZero(span(r.StartNS, p.EndNS), whole("bytes", p.Bytes)); err != nil {
				return fmt.Errorf("ranks[%d].peers[%d]: %w", i, k, err)
			}
			if may := p.MayMeetNS; may != nil && (*may < 0 || *may >= p.EndNS-r.StartNS) {
				return fmt.Errorf("ranks[%d].peers[%d]: may_meet_ns: got %d of a message of %d ns", i, k, *may, p.EndNS-r.StartNS)
			}
			if p.Overlap != nil {
				if err := checkOverlap(p.Overlap, p.EndNS-r.StartNS); err != nil {
					return fmt.Errorf("ranks[%d].peers[%d].overlap: %w", i, k, err)
				}
			}
			if left -= p.Bytes; left < 0 {
				break // or the sum might not fit
			}
		}
		if left != 0 && len(r.Peers) > 0 {
			return fmt.Errorf("ranks[%d]: bytes: got %d, which is not the sum of those of its peers", i, r.Bytes)
		}
	}
	if want := m.Run.MeanBandwidth(); !near(m.MeanBandwidth, want) {
		return fmt.Errorf("mean_bandwidth_bytes_per_s: got %.6g, but bytes and times of its ranks make it %.6g",
			m.MeanBandwidth, want)
	}
	return nil
}

// checkOverlap refuses what a message of so many nanoseconds cannot have shared.
func checkOverlap(o *series.Overlap, lasted int64) error {
	if o.FirstNS < 0 || o.FirstNS >= lasted {
		return fmt.Errorf("first_ns: got %d of a message of %d ns", o.FirstNS, lasted)
	}
	for _, by := range append([]series.OverlapBy{{Resource: "sender", Share: o.Share, Messages: o.Messages}}, o.By...) {
		if !(by.Share > 0 && by.Share <= 1) || by.Messages < 1 {
			return fmt.Errorf("wanted a share above 0, at most 1, with 1 message or more, got %v with %d", by.Share, by.Messages)
		}
		if !slices.Contains(series.Resources, by.Resource) {
			return fmt.Errorf("resource: wanted one of %q, got %.40q", series.Resources, by.Resource)
		}
	}
	for name := range strings.SplitSeq(o.Shared, ", ") {
		if !slices.Contains(series.Resources, name) {
			return fmt.Errorf("shared: wanted some of %q, got %.60q", series.Resources, o.Shared)
		}
	}
	return nil
}

// near reports whether a figure is what was worked out again, but for rounding.
func near(got, want float64) bool {
	const rounding = 1e-6
	return math.Abs(got-want) <= rounding*math.Abs(want)
}

// checkMoved refuses a run that has moved more than there is in its matrix.
func (r *Matrix) checkMoved(m *Measurement) error {
	left := max(r.Bytes, 0)
	for i := range m.Ranks {
		if left -= m.Ranks[i].Bytes; left < 0 {
			return fmt.Errorf("ranks[%d]: bytes: with %d its run has moved more than the %d bytes of the matrix",
				i, m.Ranks[i].Bytes, r.Bytes)
		}
	}
	return nil
}

// storageKey is what no two runs of storage operations have in common.
type storageKey struct {
	pattern   int
	phase     string
	rank      int
	op        string
	iteration int
}

// bound is the end of a threshold, as package threshold writes it.
var bound = regexp.MustCompile(` (<|<=|>|>=|==|!=) ([-+.0-9eE]+)( abort( after [0-9]+)?)?$`)

// checkFigures refuses a verdict that contradicts its own condition. Where a note says why it passed without samples,
// the value did not matter.
func (t *Threshold) checkFigures() error {
	if t.Samples < 0 {
		return errors.New("samples: wanted 0 or more, got " + strconv.Itoa(t.Samples))
	}
	end := bound.FindStringSubmatch(t.Threshold)
	if end == nil || t.Value == nil || t.Passed == nil || t.Note != "" && t.Samples == 0 {
		return nil
	}
	limit, err := strconv.ParseFloat(end[2], 64)
	if err != nil {
		return nil // another version's grammar
	}
	v := *t.Value
	holds := map[string]bool{"<": v < limit, "<=": v <= limit, ">": v > limit, ">=": v >= limit, "==": v == limit,
		"!=": v != limit}[end[1]]
	if holds != *t.Passed {
		return fmt.Errorf("passed: got %t, but with the value %v it is %t that %.80s",
			*t.Passed, v, holds, t.Threshold)
	}
	return nil
}

// checkFigures refuses a measurement of block transfers that cannot have been measured.
func (l *Lanes) checkFigures() error {
	figures := []figure{
		span(l.StartNS, l.EndNS), whole("uncertainty_ns", l.UncertaintyNS), whole("block_bytes", l.BlockBytes),
		whole("batch", l.Batch), whole("threads", int64(l.Threads)), whole("iterations", int64(l.Iterations)),
		whole("bytes", l.Bytes), {"bandwidth_bytes_per_s", l.Bandwidth}, {"cpu_seconds", l.CPUSeconds},
	}
	for name, s := range map[string]series.Stats{"latency": l.Latency, "prep": l.Prep, "post": l.Post, "tx": l.Tx} {
		figures = append(figures, whole(name+".count", s.Count), figure{name + ".mean_ns", s.Mean},
			whole(name+".min_ns", s.Min), whole(name+".p50_ns", s.P50), whole(name+".p99_ns", s.P99),
			whole(name+".p999_ns", s.P999), whole(name+".max_ns", s.Max))
	}
	if err := notBelowZero(figures...); err != nil {
		return err
	}
	if want := float64(l.Bytes) / (float64(max(l.EndNS-l.StartNS, 1)) * 1e-9); !near(l.Bandwidth, want) {
		return fmt.Errorf("bandwidth_bytes_per_s: got %.6g, but %d bytes in %d ns make it %.6g",
			l.Bandwidth, l.Bytes, l.EndNS-l.StartNS, want)
	}
	return nil
}
