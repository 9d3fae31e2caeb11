package outcome

import (
	"cmp"
	"slices"

	"perigee/internal/ep/moe"
	"perigee/internal/result"
)

// fillRates fills in what was offered and carried in the span of r, as a mean and by windows.
func (l *Log) fillRates(r *result.Replay) {
	span, n := r.SpanNS, int64(len(l.offered))
	r.Offered, r.Carried, r.Scales = 0, 0, []result.ReplayScale{}
	if span == 0 {
		return // all at once is no rate
	}
	if span < l.schedule.SpanNS {
		n = span / bin
	}
	offered, carried := l.between(0, n)
	r.Offered, r.Carried = perSecond(float64(offered), span), perSecond(carried, span)
	for k, bins := range windows {
		length := bins * bin
		if length > span {
			break
		}
		x := result.ReplayScale{WindowS: float64(length) / 1e9}
		for at := int64(0); at < n; at += bins {
			offered, carried := l.between(at, min(at+bins, n))
			rate := perSecond(float64(offered), length)
			x.Windows++
			x.Offered, x.Carried = max(x.Offered, rate), max(x.Carried, perSecond(carried, length))
			if at+bins <= n || n == int64(len(l.offered)) { // all of what is due in it counts
				x.PerRank = max(x.PerRank, perSecond(float64(l.perRank[k][at/bins]), length))
			}
			if r.Capacity != nil && rate > *r.Capacity {
				x.Over++
			}
		}
		if r.Capacity != nil && *r.Capacity > 0 {
			x.Capacity = x.Offered / *r.Capacity
		}
		r.Scales = append(r.Scales, x)
	}
}

// between adds up bytes that fell due and that moved in bins, the last one not included.
func (l *Log) between(first, last int64) (offered int64, carried float64) {
	for i := first; i < last; i++ {
		offered, carried = offered+l.offered[i], carried+l.moved[i]
	}
	return offered, carried
}

func perSecond(bytes float64, ns int64) float64 { return bytes / float64(ns) * 1e9 }

// fillLateness judges all posts by the limit that is there.
func (l *Log) fillLateness(r *result.ReplayLateness) {
	*r = result.ReplayLateness{LimitNS: r.LimitNS, Posts: int64(len(l.posts)), Valid: true}
	if len(l.posts) == 0 {
		return
	}
	slices.SortFunc(l.posts, func(a, b post) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.posted, b.posted))
	})
	late := make([]float64, len(l.posts))
	ranks, before := 0, post{rank: -1}
	for i, p := range l.posts {
		late[i] = float64(p.late)
		if p.rank != before.rank {
			ranks, before = ranks+1, post{}
		}
		if p.late > r.LimitNS {
			r.Late++
			if before.late <= r.LimitNS {
				r.Stalls++
			}
		}
		before = p
	}
	t := result.ReplayTimesOf(late)
	r.P50NS, r.P99NS, r.MaxNS = t.P50NS, t.P99NS, t.MaxNS
	r.Valid = r.P99NS <= r.LimitNS
	if played := min(l.end, l.schedule.SpanNS); played > 0 {
		r.OfGap = float64(r.P99NS) / (float64(played) * float64(ranks) / float64(len(l.posts)))
	}
}

// fillTimes fills in the times of requests that are complete, and what they are shares of.
func (l *Log) fillTimes(r *result.Replay) {
	var queue, latency, transfer, share, slowdown []float64
	rows := r.Requests
	for i, done := range rows.Done {
		if done < 0 {
			continue
		}
		of := l.requests[i]
		queue = append(queue, float64(rows.Admitted[i]-rows.Due[i]))
		latency = append(latency, float64(done-rows.Due[i]))
		transfer = append(transfer, float64(done-rows.Posted[i]))
		// Layers that leave while the prompt is prefilled cost no time: what is left begins at the prefill's end.
		exposed := max(done-l.schedule.Transfers[of.last].DueNS, 0)
		if exposed+rows.PrefillNS[i] > 0 {
			share = append(share, float64(exposed)/float64(exposed+rows.PrefillNS[i]))
		}
	}
	r.Queue = nil
	if r.InFlight > 0 {
		r.Queue = result.ReplayTimesOf(queue)
	}
	r.Latency, r.Transfer = result.ReplayTimesOf(latency), result.ReplayTimesOf(transfer)
	r.Share, r.Slowdown = result.ReplaySharesOf(share), nil
	if len(r.Isolated) == 0 {
		return
	}
	for _, t := range l.transfer {
		if t.left == 0 {
			slowdown = append(slowdown, float64(t.done-t.first)/alone(r.Isolated, t.bytes))
		}
	}
	r.Slowdown = result.ReplaySharesOf(slowdown)
}

// alone is how long so many bytes take alone, in nanoseconds: between two sizes that were played, by the line through
// both. list ascends.
func alone(list []result.ReplayAlone, bytes int64) float64 {
	bySize := func(a result.ReplayAlone, b int64) int { return cmp.Compare(a.Bytes, b) }
	k, _ := slices.BinarySearchFunc(list, bytes, bySize)
	if k == len(list) {
		k--
	}
	to := list[k]
	if k == 0 || to.Bytes <= bytes {
		return float64(to.NS)
	}
	from := list[k-1]
	return float64(from.NS) + float64(to.NS-from.NS)*float64(bytes-from.Bytes)/float64(to.Bytes-from.Bytes)
}

// Alone notes transfers that were played alone, by size, and what follows from them.
func Alone(r *result.Replay, list []result.ReplayAlone) {
	slices.SortFunc(list, func(a, b result.ReplayAlone) int { return cmp.Compare(a.Bytes, b.Bytes) })
	r.Isolated, r.Fit, r.Alone = list, nil, nil
	points := make([]moe.Point, len(list))
	for i, a := range list {
		points[i] = moe.Point{Bytes: float64(a.Bytes), Seconds: float64(a.NS) / 1e9}
	}
	if n := len(list); n > 0 {
		rate := perSecond(float64(list[n-1].Bytes), max(list[n-1].NS, 1))
		r.Alone = &rate
	}
	if line := moe.FitLine(points); line.Refused == "" {
		r.Fit = &result.ReplayFit{AlphaNS: line.Alpha * 1e9, Rate: line.Rate, R2: line.R2}
	}
}
