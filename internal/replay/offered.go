package replay

import (
	"time"

	"perigee/internal/traffic/load"
)

// PeakOffered returns the most that is due within a window of a length, in bytes per second: of all decode ranks, and
// of the one that has the most. Windows follow each other from the schedule's zero. A span that is shorter than a
// window has 0.
func (s *Schedule) PeakOffered(window time.Duration) (all, rank float64) {
	if s.SpanNS < int64(window) {
		return 0, 0
	}
	ranks := make([]peaks, s.Decode.Ranks())
	var parts []load.Part
	var sum peaks
	var most int64
	for i, t := range s.Transfers {
		number := t.DueNS / int64(window)
		parts = s.Parts(parts[:0], i)
		for _, p := range parts {
			bytes, of := p.Bytes(), &ranks[p.To-s.Prefill.Ranks()]
			sum.add(number, bytes)
			of.add(number, bytes)
			most = max(most, of.most)
		}
	}
	return float64(sum.most) / window.Seconds(), float64(most) / window.Seconds()
}

// MeanOffered returns the bytes of all requests over the span, in bytes per second, and 0 if all is due at zero.
func (s *Schedule) MeanOffered() float64 {
	if s.SpanNS == 0 {
		return 0
	}
	return float64(s.Bytes) / (float64(s.SpanNS) / 1e9)
}

// peaks finds the window with the most bytes of those that come in their order.
type peaks struct{ window, bytes, most int64 }

func (p *peaks) add(window, bytes int64) {
	if window != p.window {
		p.window, p.bytes = window, 0
	}
	p.bytes += bytes
	p.most = max(p.most, p.bytes)
}
