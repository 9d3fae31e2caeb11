// Package overlap finds out which messages ran at the same time as messages of other patterns, and what they shared
// with them. Messages of one pattern run together by design, so they do not count against each other. Package
// experiment calls it each time runs have come to rank 0; reports explain slow messages by the result.
//
// A message lasts from its initiator's first post until the initiator saw it complete. Two messages overlap where both
// last, beyond the uncertainty of the clocks of their initiators' hosts, and share their sender, their receiver, the
// host of their senders or the host of their receivers. Where they would overlap if the clocks were off as far as they
// may be, it is not known; PeerRun.MayMeetNS keeps that.
//
// A Timeline remembers the order in which the marked runs ended, so that a later Mark looks only at the runs that the
// new ones can have met: a job that saves every few seconds would otherwise compare all runs with all others each
// time. A run is cut into parts (part.go) where its ranks were at work one after the other, since a run whose ranks
// meet in no barrier can last as long as thousands of others. Spans of time and their unions (overlap.go) are sorted,
// so that a message finds its rivals by binary search.
//
// All times are nanoseconds on the common time line. Mark changes PeerRun.Overlap and PeerRun.MayMeetNS of the runs it
// is given, and nothing else; it fails only when its context ends.
package overlap

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"

	"perigee/internal/kit/clock"
	"perigee/internal/traffic/series"
)

// PatternRun is a run of a pattern.
type PatternRun struct {
	*series.Run
	Pattern int
	Read    bool // the receivers initiate
}

// resource is one of series.Resources, by number of the rank or host.
type resource struct{ kind, number int }

// span is when a message lasted.
type span struct{ start, end int64 }

// Hosts are the hosts of the ranks, and how far their clocks may be off.
type Hosts struct {
	Of          []int   // the host of each rank
	Uncertainty []int64 // of the clock of each host, in nanoseconds; nil of exact ones
}

// apart is how far stamps of two hosts may be off each other.
func (h Hosts) apart(a, b int) int64 {
	if a == b || h.Uncertainty == nil {
		return 0
	}
	return h.Uncertainty[a] + h.Uncertainty[b]
}

// Timeline is the runs that have been marked. The zero value is that of none.
type Timeline struct {
	byEnd []int
	// Changed are those that were marked before the last Mark, which has marked them again; some several times.
	Changed []int
}

// Mark sets the overlap of every message of n runs, each of which at returns. Those of the last time must be in front.
// It looks at those only that may have met one that has come since. It returns why ctx has ended, if it has; then
// messages lack their overlap.
func (t *Timeline) Mark(ctx context.Context, n int, at func(i int) PatternRun, hosts Hosts) error {
	known := len(t.byEnd)
	t.Changed = t.Changed[:0]
	var fresh []*part
	for i := known; i < n; i++ {
		t.byEnd, fresh = append(t.byEnd, i), appendParts(fresh, i, at(i))
	}
	t.sort(known, at)
	worst := clock.Apart(hosts.Uncertainty)
	changed := windowsOf(fresh, worst)
	all := fresh
	if known > 0 {
		all = t.meeting(changed, at)
	}
	if len(all) > len(fresh) { // these have met others before
		all = t.meeting(windowsOf(all, worst), at)
	}
	return meet(ctx, all, worst, func(p *part) {
		if len(p.others) > 0 && changed.meet(p.span) {
			p.mark(hosts)
			if p.run < known {
				t.Changed = append(t.Changed, p.run)
			}
		}
	})
}

// meeting returns the parts of runs that meet windows.
func (t *Timeline) meeting(w windows, at func(i int) PatternRun) (list []*part) {
	if len(w) == 0 {
		return nil
	}
	var parts []*part
	for _, i := range endedAfter(t.byEnd, w[0].start-1, at) {
		r := at(i)
		if !slices.ContainsFunc(r.Ranks, func(k series.RankRun) bool { return w.meet(spanOf(k)) }) {
			continue // as with most runs of ranks that drift apart
		}
		parts = appendParts(parts[:0], i, r)
		for _, p := range parts {
			if w.meet(p.span) {
				list = append(list, p)
			}
		}
	}
	return list
}

// sort brings runs into the order of their ends, of which those from the known ones on may not be.
func (t *Timeline) sort(known int, at func(i int) PatternRun) {
	byEnd := func(a, b int) int { return cmp.Compare(at(a).EndNS, at(b).EndNS) }
	slices.SortFunc(t.byEnd[known:], byEnd)
	if known > 0 && known < len(t.byEnd) { // most of what is known ended before
		late := endedAfter(t.byEnd[:known], at(t.byEnd[known]).EndNS, at)
		slices.SortFunc(t.byEnd[known-len(late):], byEnd)
	}
}

// endedAfter returns those of runs in the order of their ends that ended after an instant.
func endedAfter(byEnd []int, ns int64, at func(i int) PatternRun) []int {
	from := sort.Search(len(byEnd), func(k int) bool { return at(byEnd[k]).EndNS > ns })
	return byEnd[from:]
}

// busy is when the initiators of a host used one resource in a part of a run: the messages by start and by end, and
// their union.
type busy struct {
	host         int
	starts, ends []int64
	union        []span
}

// The kinds of resources are in the order of series.Resources; the last, both, is two hosts together, which no result
// holds: with it messages that share several resources count once.
const both = 4

func resources(initiator, peer int, read bool, hostOf []int) [both + 1]resource {
	from, to := initiator, peer
	if read {
		from, to = to, from
	}
	return [...]resource{{0, from}, {1, to}, {2, hostOf[from]}, {3, hostOf[to]}, {both, hostOf[from]<<32 | hostOf[to]}}
}

// busyIn collects when each resource was in use, separately by the host of the initiators, since stamps of two hosts
// are off each other by the uncertainty of their clocks. read says that receivers initiate.
func busyIn(ranks []series.RankRun, read bool, hostOf []int) map[resource][]*busy {
	type user struct {
		of   resource
		host int
	}
	of, by := map[resource][]*busy{}, map[user]*busy{}
	for _, k := range ranks {
		host := hostOf[k.Rank]
		for _, p := range k.Peers {
			for _, res := range resources(k.Rank, p.Peer, read, hostOf) {
				b := by[user{res, host}]
				if b == nil {
					b = &busy{host: host}
					of[res], by[user{res, host}] = append(of[res], b), b
				}
				b.union = append(b.union, span{k.StartNS, p.EndNS})
			}
		}
	}
	for _, list := range of {
		for _, b := range list {
			for _, s := range b.union {
				// Starts and ends are sorted apart, so that messages at work at an instant are counted by two binary
				// searches.
				b.starts, b.ends = append(b.starts, s.start), append(b.ends, s.end)
			}
			slices.Sort(b.starts)
			slices.Sort(b.ends)
			b.union = join(b.union)
		}
	}
	return of
}

// join merges spans that touch, in their place.
func join(list []span) []span {
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	out := list[:0]
	for _, s := range list {
		if n := len(out); n > 0 && s.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
}

// message is when a message lasted, the host of its initiator, and what it used.
type message struct {
	span
	host   int
	shares [both + 1]resource
}

// scratch is memory that all messages of a part use.
type scratch struct {
	all []span
	by  [both + 1][]span
}

// overlap returns the part that the message shares with rivals, which are parts of runs, those of one run after each
// other; nil for nothing. It also returns how long the message may have lasted when it first met one of them, if that
// may be earlier.
func (m message) overlap(hosts Hosts, rivals []*part, s *scratch) (o *series.Overlap, mayMeet *int64) {
	for kind := range s.by {
		s.by[kind] = s.by[kind][:0]
	}
	var by [both + 1]int // messages
	messages, first := 0, m.end
	for len(rivals) > 0 {
		n := 1
		for n < len(rivals) && rivals[n].run == rivals[0].run {
			n++
		}
		counts, at := m.meet(hosts, rivals[:n], s)
		first = min(first, at)
		for kind, n := range counts {
			by[kind] += n
		}
		// What shares a rank shares its host, too.
		messages += max(slices.Max(counts[:]), counts[2]+counts[3]-counts[both])
		rivals = rivals[n:]
	}
	may := first - m.start
	if messages == 0 {
		if first < m.end {
			return nil, &may
		}
		return nil, nil
	}
	var shared []string
	o = &series.Overlap{Messages: messages}
	s.all = s.all[:0]
	for kind, n := range by[:both] {
		if n > 0 {
			s.by[kind] = join(s.by[kind])
			s.all = append(s.all, s.by[kind]...)
			shared = append(shared, series.Resources[kind])
			o.By = append(o.By,
				series.OverlapBy{Resource: series.Resources[kind], Share: m.share(s.by[kind]), Messages: n})
		}
	}
	s.all = join(s.all)
	o.Share, o.FirstNS = m.share(s.all), s.all[0].start-m.start
	if len(o.By) == 1 {
		o.By = nil
	}
	o.Shared = strings.Join(shared, ", ")
	if may < o.FirstNS {
		return o, &may
	}
	return o, nil
}

// meet adds to s.by what the message shares with parts of one run. It returns with how many of their messages, by kind
// of resource, and when it may first meet one.
func (m message) meet(hosts Hosts, parts []*part, s *scratch) (counts [both + 1]int, first int64) {
	first = m.end
	for _, p := range parts {
		busy := p.use(hosts.Of)
		for kind, res := range m.shares {
			for _, b := range busy[res] {
				u, before := hosts.apart(m.host, b.host), len(s.by[kind])
				var at int64
				at, s.by[kind] = b.within(m.span, u, s.by[kind])
				if first = min(first, at); len(s.by[kind]) > before {
					counts[kind] += b.during(m.span, u)
				}
			}
		}
	}
	return counts, first
}

// share is which part of a span others cover, which do not touch.
func (s span) share(others []span) float64 {
	var time int64
	for _, o := range others {
		time += o.end - o.start
	}
	return float64(time) / float64(s.end-s.start)
}

// within adds to parts what a message surely shares with the union, each span of which may be off by the uncertainty,
// and returns when it may first meet one of them: its end if none.
func (b *busy) within(m span, uncertainty int64, parts []span) (first int64, _ []span) {
	at, _ := slices.BinarySearchFunc(b.union, m.start-uncertainty+1,
		func(s span, at int64) int { return cmp.Compare(s.end, at) })
	if at == len(b.union) {
		return m.end, parts
	}
	first = min(max(b.union[at].start-uncertainty, m.start), m.end)
	for _, s := range b.union[at:] {
		if s.start >= m.end {
			break
		}
		cut := span{max(s.start+uncertainty, m.start), min(s.end-uncertainty, m.end)}
		if cut.start < cut.end {
			parts = append(parts, cut)
		}
	}
	return first, parts
}

// during counts the messages that last while another does.
func (b *busy) during(m span, uncertainty int64) int {
	begun, _ := slices.BinarySearch(b.starts, m.end-uncertainty)
	over, _ := slices.BinarySearch(b.ends, m.start+uncertainty+1)
	return max(begun-over, 1)
}
