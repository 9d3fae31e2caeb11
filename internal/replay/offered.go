package replay

import (
	"time"

	"perigee/internal/traffic/load"
)

// OfferedBy returns the load by windows of a length, which follow each other from the schedule's zero: the bytes that
// are due in the busiest window over its length, and how many windows there are; both are 0 of a span shorter than a
// window. The mean is that of the span, whatever the windows, and 0 if all is due at zero. Rates are bytes per second.
func (s *Schedule) OfferedBy(window time.Duration) (peak, mean float64, windows int) {
	var busiest peaks
	for i, t := range s.Transfers {
		bytes := s.Requests[t.Request].Bytes
		if len(s.geometry.layers) > 1 {
			bytes = 0
			for _, p := range s.Parts(nil, i) {
				bytes += bytesOf(p)
			}
		}
		busiest.add(t.DueNS/int64(window), bytes)
	}
	return s.rates(busiest.most, s.Bytes, window)
}

// OfferedToRank is OfferedBy of the decode rank with the highest peak; the mean is that of all decode ranks.
func (s *Schedule) OfferedToRank(window time.Duration) (peak, mean float64, windows int) {
	ranks := make([]peaks, s.Decode.Ranks())
	var parts []load.Part
	var most int64
	for i, t := range s.Transfers {
		parts = s.Parts(parts[:0], i)
		for _, p := range parts {
			rank := &ranks[p.To-s.Prefill.Ranks()]
			rank.add(t.DueNS/int64(window), bytesOf(p))
			most = max(most, rank.most)
		}
	}
	peak, mean, windows = s.rates(most, s.Bytes, window)
	return peak, mean / float64(len(ranks)), windows
}

// rates turns bytes into rates.
func (s *Schedule) rates(most, all int64, window time.Duration) (peak, mean float64, windows int) {
	if s.SpanNS > 0 {
		mean = float64(all) / (float64(s.SpanNS) / 1e9)
	}
	if s.SpanNS < int64(window) {
		return 0, mean, 0
	}
	return float64(most) / window.Seconds(), mean, int(s.SpanNS/int64(window)) + 1
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

// bytesOf are those of all descriptors of a part.
func bytesOf(p load.Part) (sum int64) {
	for _, r := range p.Runs {
		sum += r.Count * r.Bytes
	}
	return sum
}
