package figures

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/size"
	"perigee/internal/trace"
)

// Link is what is asked whether a trace fits into it.
type Link struct {
	Text  string  // of a NIC's rate, as the user wrote it
	NIC   float64 // bytes per second
	NICs  int
	Bound *TimeBound // nil: none
}

// ParseLink reads the rate of a NIC, how many there are, and a bound, which may be empty.
func ParseLink(rate string, nics int, bound string) (*Link, error) {
	nic, err := size.ParseRate(rate)
	if err != nil {
		return nil, fault.New(fault.Usage, "--line: %w", err)
	}
	l := &Link{Text: rate, NIC: nic, NICs: nics}
	if bound == "" {
		return l, nil
	}
	l.Bound, err = parseBound(bound)
	return l, err
}

// TimeBound limits the time of a transfer: its mean, its largest, or a percentile.
type TimeBound struct {
	Text  string // P99<=50ms
	share float64
	mean  bool
	limit time.Duration
}

// parseBound reads such as P99<=50ms, max<1s or mean<=20ms; a time alone is for all transfers.
func parseBound(text string) (*TimeBound, error) {
	wrong := fault.New(fault.Usage, "--slo: wanted a bound on the time of a transfer such as P99<=50ms, max<=1s or mean<=20ms, got %q",
		text)
	of, limit, found := strings.Cut(text, "<")
	if !found {
		of, limit = "max", text
	}
	d, err := time.ParseDuration(strings.TrimSpace(strings.TrimPrefix(limit, "=")))
	if err != nil || d <= 0 {
		return nil, wrong
	}
	of = strings.ToLower(strings.TrimSpace(of))
	b := &TimeBound{Text: fmt.Sprintf("%s<=%v", of, d), share: 1, limit: d}
	switch percent, is := strings.CutPrefix(of, "p"); {
	case of == "mean":
		b.mean = true
	case is:
		p, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(p > 0 && p <= 100) {
			return nil, wrong
		}
		b.Text, b.share = "P"+b.Text[1:], p/100
	case of != "max":
		return nil, wrong
	}
	return b, nil
}

// of is the figure that is bounded, of sorted times.
func (b *TimeBound) of(sorted []float64) float64 {
	if b.mean {
		return mean(sorted)
	}
	return sorted[rankOf(b.share, len(sorted))]
}

// rankOf is the index of the nearest rank of a share of n sorted values.
func rankOf(share float64, n int) int {
	const rounding = 1e-9 // 0.99 x 100 is above 99
	return max(int(math.Ceil(share*float64(n)-rounding)), 1) - 1
}

func mean(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return sum / float64(len(list))
}

// Fit is a trace on a link of NICs that share all bytes evenly: one queue, first come, first served, and no other cost.
// No network is faster.
type Fit struct {
	Line    string  `json:"line"`
	NICs    int     `json:"nics"`
	Rate    float64 `json:"bytes_per_s"` // of all NICs
	Asked   float64 `json:"asked"`       // bytes that came before the last request / those of the link until then
	Waiting int     `json:"waiting"`     // transfers that wait for others
	WaitS   float64 `json:"longest_wait_s"`
	Queues  int     `json:"queues"`  // stretches of time in which transfers wait
	QueueS  float64 `json:"queue_s"` // all of them
	Longest Stretch `json:"longest_queue"`
	BehindS float64 `json:"behind_s"` // from the last request until all is moved
	MeanS   float64 `json:"mean_s"`   // of the time of a transfer, from its request to its last byte
	P50S    float64 `json:"p50_s"`
	P99S    float64 `json:"p99_s"`
	MaxS    float64 `json:"max_s"`
	Windows []Full  `json:"windows,omitempty"` // of the lengths of the load's
	SLO     *SLO    `json:"slo,omitempty"`
}

// Stretch is a piece of time.
type Stretch struct {
	StartS  float64 `json:"start_s"`
	LengthS float64 `json:"length_s"`
}

// Full counts windows of a length that ask for more than the link carries.
type Full struct {
	LengthS float64 `json:"length_s"`
	Peak    float64 `json:"peak_asked"` // bytes of the busiest / those of the link in such a window
	Beyond  int     `json:"beyond_line"`
	Of      int     `json:"windows"`
}

// SLO is a bound on the time of a transfer.
type SLO struct {
	Bound string  `json:"bound"`
	IsS   float64 `json:"is_s"` // on this link
	Kept  bool    `json:"kept"`
	Rate  float64 `json:"needs_bytes_per_s"` // the least that keeps the bound
	NICs  int     `json:"needs_nics"`        // as many as have it
}

// fit puts requests, whose input is bytes, on the link.
func fit(sized []trace.Request, l *Link) *Fit {
	f := &Fit{Line: l.Text, NICs: l.NICs, Rate: l.NIC * float64(l.NICs)}
	last := sized[len(sized)-1].At
	before := 0.0
	for _, r := range sized {
		if r.At < last {
			before += float64(r.Input)
		}
	}
	if last > 0 {
		f.Asked = before / (f.Rate * seconds(last))
	}
	times := f.queue(sized)
	f.MeanS, f.P50S = mean(times), times[rankOf(0.5, len(times))]
	f.P99S, f.MaxS = times[rankOf(0.99, len(times))], times[len(times)-1]
	for _, w := range windowsOf(sized) {
		most := f.Rate * w.LengthS
		full := Full{LengthS: w.LengthS, Peak: float64(w.Tokens) / most, Of: int(seconds(last)/w.LengthS) + 1}
		for _, bytes := range w.sums {
			if float64(bytes) > most {
				full.Beyond++
			}
		}
		f.Windows = append(f.Windows, full)
	}
	if b := l.Bound; b != nil {
		is, rate := b.of(times), needed(sized, b, f.Rate)
		const rounding = 1e-6
		f.SLO = &SLO{Bound: b.Text, IsS: is, Kept: is <= b.limit.Seconds(), Rate: rate,
			NICs: max(int(math.Ceil(rate/l.NIC-rounding)), 1)}
	}
	return f
}

// queue serves the requests in their order, and returns the sorted times of their transfers in seconds.
func (f *Fit) queue(sized []trace.Request) []float64 {
	times, free, until := make([]float64, len(sized)), 0.0, math.Inf(-1) // the link is free, and the queue empty, then
	var s Stretch
	for i, r := range sized {
		at := seconds(r.At)
		if start := free; start > at {
			if at > until {
				f.Queues, s = f.Queues+1, Stretch{StartS: at}
			}
			until = start
			f.QueueS += until - (s.StartS + s.LengthS)
			s.LengthS = until - s.StartS
			if s.LengthS > f.Longest.LengthS {
				f.Longest = s
			}
			f.Waiting, f.WaitS = f.Waiting+1, max(f.WaitS, start-at)
		}
		free = max(free, at) + float64(r.Input)/f.Rate
		times[i] = free - at
	}
	f.BehindS = free - seconds(sized[len(sized)-1].At)
	slices.Sort(times)
	return times
}

// needed is the least rate of a link that keeps a bound: no transfer takes longer on a faster one.
func needed(sized []trace.Request, b *TimeBound, rate float64) float64 {
	keeps := func(rate float64) bool { return b.of((&Fit{Rate: rate}).queue(sized)) <= b.limit.Seconds() }
	const exact = 1 + 1e-9
	low, high := rate, rate
	for !keeps(high) {
		low, high = high, high*2
	}
	for low > 1 && keeps(low) {
		low, high = low/2, low
	}
	for high/low > exact && high > 1 {
		if middle := math.Sqrt(low * high); keeps(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}
