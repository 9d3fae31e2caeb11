// Package outcome puts together what became of a schedule that was played, at rank 0, of the posts of all ranks.
//
// A [Log] takes the posts as they come and fills a [result.Replay] at any time, so that a run which is killed leaves
// what it has measured. Bytes of a post count as moved evenly from its post until its end: whole at the end, they would
// make short windows carry more than the network can.
package outcome

import (
	"time"

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
	transfer []transfer
	requests []request
	posts    []post
	moved    []float64 // bytes in each bin of the steady window
	end      int64     // of the last post that is done, after zero
	zero     int64
	offered  []int64          // bytes that fell due in each bin
	perRank  []float64        // peak at a decode rank, by windows
	sent     map[[2]int]int64 // bytes from a rank to a rank
}

// transfer is one transfer of the schedule, over all of its ranks. Times count from zero.
type transfer struct {
	bytes, left            int64 // left: not done
	first, posted          int64 // by the first and by the last of its ranks
	admitted, done, ranked int64 // by the last of its ranks; ranked: posts so far
}

// request adds up its transfers.
type request struct {
	first, last int // its first transfer and its last one
	left        int // transfers that are not done
}

// post is when a rank posted a transfer.
type post struct {
	rank         int
	posted, late int64
}

// New makes the log of a schedule, in which nothing is done. It looks at every part of every transfer once.
func New(s *replay.Schedule) *Log {
	l := &Log{
		schedule: s, transfer: make([]transfer, len(s.Transfers)), requests: make([]request, len(s.Requests)),
		offered: make([]int64, s.SpanNS/bin+1), sent: map[[2]int]int64{},
	}
	l.moved = make([]float64, len(l.offered))
	for i := range l.requests {
		l.requests[i].first = -1
	}
	for _, bins := range windows {
		_, peak := s.PeakOffered(time.Duration(bins * bin))
		l.perRank = append(l.perRank, peak)
	}
	var parts []load.Part
	for i, t := range s.Transfers {
		q := &l.requests[t.Request]
		if q.first < 0 {
			q.first = i
		}
		q.last, q.left = i, q.left+1
		parts = s.Parts(parts[:0], i)
		for _, p := range parts {
			bytes := p.Bytes()
			l.transfer[i].bytes += bytes
			l.sent[[2]int{p.From, p.To}] += bytes
		}
		l.transfer[i].left = l.transfer[i].bytes
		l.offered[t.DueNS/bin] += l.transfer[i].bytes
	}
	l.Begin(0)
	return l
}

// Begin forgets what was done: zero is the schedule's, on the common time line.
func (l *Log) Begin(zero int64) {
	l.zero, l.end, l.posts = zero, 0, l.posts[:0]
	clear(l.moved)
	for i := range l.transfer {
		t := &l.transfer[i]
		*t = transfer{bytes: t.bytes, left: t.bytes, first: -1, posted: -1, admitted: -1, done: -1}
	}
	for i := range l.requests {
		l.requests[i].left = 0
	}
	for _, t := range l.schedule.Transfers {
		l.requests[t.Request].left++
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
		t := &l.transfer[p.Transfer]
		posted, admitted, end := p.Posted-l.zero, p.Admitted-l.zero, p.End-l.zero
		if t.ranked == 0 || posted < t.first {
			t.first = posted
		}
		t.ranked++
		t.posted, t.admitted, t.done = max(t.posted, posted), max(t.admitted, admitted), max(t.done, end)
		t.left -= p.Bytes
		if t.left == 0 {
			l.requests[l.schedule.Transfers[p.Transfer].Request].left--
		}
		l.posts = append(l.posts, post{rank, posted, p.Posted - p.Admitted})
		l.end = max(l.end, end)
		l.move(posted, end, p.Bytes)
	}
	return true
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
	r.ZeroNS, r.SpanNS, r.Bytes = l.zero, s.SpanNS, 0
	for _, t := range l.transfer {
		r.Bytes += t.bytes
	}
	r.Done = int64(l.Done())
	r.DrainNS = 0
	if r.Done == int64(len(l.requests)) {
		r.DrainNS = max(l.end-s.SpanNS, 0)
	}
	l.fillRows(r)
	l.fillRates(r)
	l.fillLateness(&r.Lateness)
	l.fillTimes(r)
}

// fillRows fills in the requests by column.
func (l *Log) fillRows(r *result.Replay) {
	rows := result.ReplayRequests{}
	for i, q := range l.schedule.Requests {
		of := l.requests[i]
		rows.Index = append(rows.Index, q.Index)
		rows.Prefill = append(rows.Prefill, q.Prefill)
		rows.Decode = append(rows.Decode, q.Decode)
		rows.Tokens = append(rows.Tokens, q.Moved)
		rows.Bytes = append(rows.Bytes, q.Bytes)
		rows.Due = append(rows.Due, q.DueNS)
		rows.PrefillNS = append(rows.PrefillNS, q.PrefillNS)
		admitted, posted, done := int64(-1), int64(-1), int64(-1)
		if of.first >= 0 {
			admitted, posted = l.transfer[of.first].admitted, l.transfer[of.first].posted
		}
		if of.left == 0 {
			done = l.doneAt(i)
		}
		rows.Admitted, rows.Posted = append(rows.Admitted, admitted), append(rows.Posted, posted)
		rows.Done = append(rows.Done, done)
	}
	r.Requests = rows
}

// doneAt is when the last transfer of a request was done.
func (l *Log) doneAt(request int) int64 {
	q, done := l.requests[request], int64(-1)
	for i := q.first; i <= q.last; i++ {
		if l.schedule.Transfers[i].Request == request {
			done = max(done, l.transfer[i].done)
		}
	}
	return done
}
