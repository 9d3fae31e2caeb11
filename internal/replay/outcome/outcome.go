// Package outcome puts together what became of a schedule that was played, at rank 0, of the posts of all ranks.
//
// A [Log] takes the posts as they come and fills a [result.Replay] at any time, so that a run which is killed leaves
// what it has measured. Bytes of a post count as moved evenly from its post until its end: whole at the end, they would
// make short windows carry more than the network can.
package outcome

import (
	"perigee/internal/replay"
	"perigee/internal/result"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/play"
)

// bin is the shortest window, in nanoseconds; the others are multiples of it.
const bin = int64(1e8)

// windows are the lengths of windows in bins: 0.1, 1, 10 and 60 seconds.
var windows = []int64{1, 10, 100, 600}

// Log has what is known of a schedule's transfers.
type Log struct {
	schedule *replay.Schedule
	rows     result.ReplayRequests
	transfer []transfer
	requests []request
	posts    []post
	moved    []float64 // bytes in each bin of the steady window
	end      int64     // of the last post that is done, after zero
	zero     int64
	until    int64            // after zero: what was done before it is known, of all ranks
	offered  []int64          // bytes that fell due in each bin
	perRank  [][]int64        // the most at a decode rank, by lengths of windows, in each of them
	sent     map[[2]int]int64 // bytes from a rank to a rank
}

// transfer is one transfer of the schedule, over all of its ranks. Times count from zero.
type transfer struct {
	bytes, left int64 // left: not done
	first, done int64 // posted by the first of its ranks, done by the last
}

// request adds up its transfers.
type request struct {
	first, last int   // its first transfer and its last one
	left        int   // transfers that are not done
	done        int64 // the last of those that are
}

// post is when a rank posted a transfer.
type post struct {
	rank         int
	posted, late int64
}

// due is what falls due at a rank in a window.
type due struct{ window, bytes int64 }

// New makes the log of a schedule, in which nothing is done. It looks at every part of every transfer.
func New(s *replay.Schedule) *Log {
	n := len(s.Requests)
	l := &Log{
		schedule: s, transfer: make([]transfer, len(s.Transfers)), requests: make([]request, n),
		offered: make([]int64, s.SpanNS/bin+1), sent: map[[2]int]int64{},
		rows: result.ReplayRequests{Admitted: make([]int64, n), Posted: make([]int64, n), Late: make([]int64, n),
			Done: make([]int64, n)},
	}
	l.moved = make([]float64, len(l.offered))
	rows := &l.rows
	for i, q := range s.Requests {
		l.requests[i].first = -1
		rows.Index = append(rows.Index, q.Index)
		rows.Prefill, rows.Decode = append(rows.Prefill, q.Prefill), append(rows.Decode, q.Decode)
		rows.Tokens, rows.Bytes = append(rows.Tokens, q.Moved), append(rows.Bytes, q.Bytes)
		rows.Due, rows.PrefillNS = append(rows.Due, q.DueNS), append(rows.PrefillNS, q.PrefillNS)
	}
	latest := make([]map[int]due, len(windows))
	for k, bins := range windows {
		latest[k], l.perRank = map[int]due{}, append(l.perRank, make([]int64, s.SpanNS/(bins*bin)+1))
	}
	var parts []load.Part
	for i, t := range s.Transfers {
		q := &l.requests[t.Request]
		if q.first < 0 {
			q.first = i
		}
		q.last = i
		parts = s.Parts(parts[:0], i)
		for _, p := range parts {
			bytes := p.Bytes()
			l.transfer[i].bytes += bytes
			l.sent[[2]int{p.From, p.To}] += bytes
			for k, bins := range windows {
				at, before := t.DueNS/(bins*bin), latest[k][p.To]
				if before.window != at {
					before = due{window: at}
				}
				before.bytes += bytes
				latest[k][p.To], l.perRank[k][at] = before, max(l.perRank[k][at], before.bytes)
			}
		}
		l.offered[t.DueNS/bin] += l.transfer[i].bytes
	}
	l.Begin(0)
	return l
}

// Begin forgets what was done: zero is the schedule's, on the common time line.
func (l *Log) Begin(zero int64) {
	l.zero, l.until, l.end, l.posts = zero, 0, 0, l.posts[:0]
	clear(l.moved)
	for i := range l.requests {
		l.requests[i].left, l.requests[i].done = 0, 0
		l.rows.Admitted[i], l.rows.Posted[i], l.rows.Late[i], l.rows.Done[i] = -1, -1, -1, -1
	}
	for i, t := range l.schedule.Transfers {
		l.requests[t.Request].left++
		l.transfer[i] = transfer{bytes: l.transfer[i].bytes, left: l.transfer[i].bytes}
	}
}

// Bytes are those of a transfer, of all its ranks.
func (l *Log) Bytes(transfer int) int64 { return l.transfer[transfer].bytes }

// Sent counts the bytes of the whole schedule, by sender and receiver.
func (l *Log) Sent() map[[2]int]int64 { return l.sent }

// Done counts the requests that are complete.
func (l *Log) Done() (n int) {
	for _, q := range l.requests {
		if q.left == 0 {
			n++
		}
	}
	return n
}

// Add takes posts of a rank that are done, in any order. It reports whether they are of this schedule.
func (l *Log) Add(rank int, list []play.Timed) bool {
	for _, p := range list {
		if p.Transfer < 0 || p.Transfer >= len(l.transfer) || l.transfer[p.Transfer].left < p.Bytes {
			return false
		}
		t, i := &l.transfer[p.Transfer], l.schedule.Transfers[p.Transfer].Request
		q := &l.requests[i]
		posted, end := p.Posted-l.zero, p.End-l.zero
		if t.left == t.bytes || posted < t.first {
			t.first = posted
		}
		late, rows := p.Posted-p.Admitted, &l.rows
		if p.Transfer == q.first {
			rows.Admitted[i] = max(rows.Admitted[i], p.Admitted-l.zero)
		}
		if rows.Posted[i] < 0 {
			rows.Posted[i], rows.Late[i] = posted, late
		}
		rows.Posted[i], rows.Late[i] = min(rows.Posted[i], posted), max(rows.Late[i], late)
		t.done, q.done = max(t.done, end), max(q.done, end)
		if t.left -= p.Bytes; t.left == 0 {
			q.left--
		}
		if q.left == 0 {
			rows.Done[i] = q.done
		}
		l.posts = append(l.posts, post{rank, posted, late})
		l.end = max(l.end, end)
		l.move(posted, end, p.Bytes)
	}
	return true
}

// Gathered says that what all ranks have done before an instant of the common time line was added.
func (l *Log) Gathered(instant int64) { l.until = max(l.until, instant-l.zero) }

// span is the time that figures are of: the steady window, or of a schedule that is still played as much of it as is
// known, in whole bins.
func (l *Log) span() int64 {
	if l.Done() == len(l.requests) {
		return l.schedule.SpanNS
	}
	return min(l.until/bin*bin, l.schedule.SpanNS)
}

// move spreads bytes over the bins of the steady window in which they were under way.
func (l *Log) move(from, to, bytes int64) {
	from = max(from, 0)
	to = max(to, from+1)
	for at := from; at < to && at < l.schedule.SpanNS; {
		next := min((at/bin+1)*bin, to, l.schedule.SpanNS)
		l.moved[at/bin] += float64(bytes) * float64(next-at) / float64(to-from)
		at = next
	}
}

// Fill fills in all that follows from the posts. What r says already counts: the limit of lateness, the capacity, the
// requests alone, whether transfers waited for their prefill.
func (l *Log) Fill(r *result.Replay) {
	s := l.schedule
	r.ZeroNS, r.SpanNS, r.Bytes, r.Requests = l.zero, l.span(), s.Bytes, l.rows
	r.Done, r.DrainNS = int64(l.Done()), 0
	if r.Done == int64(len(l.requests)) {
		r.DrainNS = max(l.end-s.SpanNS, 0)
	}
	l.fillRates(r)
	l.fillLateness(&r.Lateness)
	l.fillTimes(r)
}
