package play

import (
	"slices"
	"sort"

	"perigee/internal/traffic/series"
	"perigee/internal/traffic/session"
)

// addWaits says of each message for how long threads of its ranks waited for a CPU while it was under way. What a rank
// waited between two looks belongs to the time in which it had messages: while it has none, the threads that move bytes
// have nothing to run for.
func addWaits(s *session.Session, list []Collected, looks [][]series.Look) {
	w := s.World()
	busy := make([][]span, len(looks))
	eachMessage(list, func(k *series.RankRun, p *series.PeerRun) {
		s := span{k.StartNS, p.EndNS}
		busy[k.Rank] = append(busy[k.Rank], s)
		if p.Peer != k.Rank {
			busy[p.Peer] = append(busy[p.Peer], s)
		}
	})
	own, moving := make([]*waited, len(looks)), make([]*waited, len(looks))
	for rank, of := range looks {
		if len(of) < 2 || len(busy[rank]) == 0 {
			continue
		}
		t, common := newBusy(busy[rank]), func(ns int64) int64 { return w.ToCommon(rank, ns) }
		own[rank] = newWaited(common, t, of, func(l series.Look) int64 { return l.Own })
		moving[rank] = newWaited(common, t, of, func(l series.Look) int64 { return l.Moving })
	}
	eachMessage(list, func(k *series.RankRun, p *series.PeerRun) {
		if own[k.Rank] == nil {
			return
		}
		of := span{k.StartNS, p.EndNS}
		switch polls := own[k.Rank].in(of); {
		case s.Info().Can.Copies:
			p.CPUWaitNS = &polls
		case moving[p.Peer] != nil:
			moves := max(moving[k.Rank].in(of), moving[p.Peer].in(of))
			p.CPUWaitNS, p.PollWaitNS = &moves, &polls
		}
	})
}

func eachMessage(list []Collected, f func(k *series.RankRun, p *series.PeerRun)) {
	for i := range list {
		for j := range list[i].Runs {
			for r := range list[i].Runs[j].Ranks {
				k := &list[i].Runs[j].Ranks[r]
				for m := range k.Peers {
					f(k, &k.Peers[m])
				}
			}
		}
	}
}

// span is a time on the common time line, in nanoseconds.
type span struct{ start, end int64 }

// busy is the time in which a rank had messages: spans that do not overlap, in their order, and for each the time
// before.
type busy struct {
	spans  []span
	before []int64
}

func newBusy(spans []span) *busy {
	slices.SortFunc(spans, func(a, b span) int { return int(min(max(a.start-b.start, -1), 1)) })
	t := &busy{}
	sum := int64(0)
	for _, s := range spans {
		last := len(t.spans) - 1
		switch {
		case last >= 0 && s.end <= t.spans[last].end:
		case last >= 0 && s.start <= t.spans[last].end:
			sum += s.end - t.spans[last].end
			t.spans[last].end = s.end
		default:
			t.spans, t.before = append(t.spans, s), append(t.before, sum)
			sum += s.end - s.start
		}
	}
	return t
}

// until is for how long the rank had messages until an instant.
func (t *busy) until(ns int64) int64 {
	i := sort.Search(len(t.spans), func(i int) bool { return t.spans[i].start >= ns }) - 1
	if i < 0 {
		return 0
	}
	return t.before[i] + min(ns, t.spans[i].end) - t.spans[i].start
}

// waited is what a thread waited for, by the time in which its rank had messages.
type waited struct {
	busy *busy
	at   []int64 // busy time until each look
	sum  []int64 // waited until then
}

func newWaited(common func(ns int64) int64, t *busy, looks []series.Look, of func(series.Look) int64) *waited {
	k := &waited{busy: t}
	for i, l := range looks {
		at := t.until(common(l.NS))
		if i == 0 {
			k.at, k.sum = append(k.at, at), append(k.sum, 0)
			continue
		}
		if last := len(k.at) - 1; at > k.at[last] {
			k.at, k.sum = append(k.at, at), append(k.sum, k.sum[last]+max(0, of(l)-of(looks[i-1])))
		}
	}
	return k
}

// in is what was waited in a span, no more than it lasts.
func (k *waited) in(s span) int64 {
	return min(max(s.end-s.start, 0), int64(k.until(s.end)-k.until(s.start)))
}

func (k *waited) until(ns int64) float64 {
	at := k.busy.until(ns)
	i := sort.Search(len(k.at), func(i int) bool { return k.at[i] > at })
	switch {
	case i == 0:
		return 0
	case i == len(k.at):
		return float64(k.sum[i-1])
	}
	part := float64(at-k.at[i-1]) / float64(k.at[i]-k.at[i-1])
	return float64(k.sum[i-1]) + part*float64(k.sum[i]-k.sum[i-1])
}
