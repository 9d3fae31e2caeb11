// Package overlap finds out which messages ran at the same time as messages of
// other patterns, and what they shared with them. Messages of one pattern run
// together by design, so they do not count against each other.
//
// A message lasts from its initiator's first post until the initiator saw it
// complete. Two messages overlap where both last, beyond the uncertainty of the
// clocks, and share their sender, their receiver, the host of their senders or
// the host of their receivers.
package overlap

import (
	"cmp"
	"slices"
	"strings"

	"perigee/internal/traffic/series"
)

// Pattern is the runs of one pattern.
type Pattern struct {
	Runs []series.Run
	Read bool // the receivers initiate
}

// resource is one of series.Resources, by number of the rank or host.
type resource struct{ kind, number int }

// span is when a message lasted.
type span struct{ start, end int64 }

// Mark sets the overlap of every message. hostOf is the host of each rank.
func Mark(patterns []Pattern, hostOf []int) {
	type one struct {
		pattern int
		run     *series.Run
		busy    map[resource]*busy // made when it is first needed
	}
	var all []*one
	for i, p := range patterns {
		for k := range p.Runs {
			all = append(all, &one{pattern: i, run: &p.Runs[k]})
		}
	}
	slices.SortFunc(all, func(a, b *one) int { return cmp.Compare(a.run.StartNS, b.run.StartNS) })
	use := func(o *one) map[resource]*busy {
		if o.busy == nil {
			o.busy = busyIn(o.run, patterns[o.pattern].Read, hostOf)
		}
		return o.busy
	}
	others := make([][]*one, len(all))
	for i, a := range all {
		for k := i + 1; k < len(all) && all[k].run.StartNS < a.run.EndNS; k++ {
			if b := all[k]; b.pattern != a.pattern {
				others[i], others[k] = append(others[i], b), append(others[k], a)
			}
		}
	}
	for i, a := range all {
		if len(others[i]) == 0 {
			continue
		}
		list := make([]rival, len(others[i]))
		for k, b := range others[i] {
			list[k] = rival{use(b), max(a.run.UncertaintyNS, b.run.UncertaintyNS)}
		}
		markRun(a.run, patterns[a.pattern].Read, hostOf, list)
	}
}

// rival is a run of another pattern, and how far its stamps may be off.
type rival struct {
	busy        map[resource]*busy
	uncertainty int64
}

// busy is when one resource was used by a run: the messages by start and by end, and their union.
type busy struct {
	starts, ends []int64
	union        []span
}

func resources(initiator, peer int, read bool, hostOf []int) [4]resource {
	from, to := initiator, peer
	if read {
		from, to = to, from
	}
	return [4]resource{{0, from}, {1, to}, {2, hostOf[from]}, {3, hostOf[to]}}
}

func busyIn(r *series.Run, read bool, hostOf []int) map[resource]*busy {
	of := map[resource]*busy{}
	for _, k := range r.Ranks {
		for _, p := range k.Peers {
			for _, res := range resources(k.Rank, p.Peer, read, hostOf) {
				b := of[res]
				if b == nil {
					b = &busy{}
					of[res] = b
				}
				b.union = append(b.union, span{k.StartNS, p.EndNS})
			}
		}
	}
	for _, b := range of {
		for _, s := range b.union {
			b.starts, b.ends = append(b.starts, s.start), append(b.ends, s.end)
		}
		slices.Sort(b.starts)
		slices.Sort(b.ends)
		b.union = join(b.union)
	}
	return of
}

// join merges spans that touch.
func join(list []span) []span {
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	out := list[:0:0]
	for _, s := range list {
		if n := len(out); n > 0 && s.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
}

func markRun(r *series.Run, read bool, hostOf []int, rivals []rival) {
	for i := range r.Ranks {
		k := &r.Ranks[i]
		for j := range k.Peers {
			p := &k.Peers[j]
			p.Overlap = of(span{k.StartNS, p.EndNS}, resources(k.Rank, p.Peer, read, hostOf), rivals)
		}
	}
}

// of is what a message shares with rivals; nil for nothing.
func of(m span, shares [4]resource, rivals []rival) *series.Overlap {
	var covered []span
	var by [4]struct {
		covered  []span
		messages int
	}
	var messages int
	for _, v := range rivals {
		most := 0
		for kind, res := range shares {
			b := v.busy[res]
			if b == nil {
				continue
			}
			parts := within(b.union, m, v.uncertainty)
			if len(parts) == 0 {
				continue
			}
			n := b.during(m, v.uncertainty)
			covered, by[kind].covered = append(covered, parts...), append(by[kind].covered, parts...)
			by[kind].messages, most = by[kind].messages+n, max(most, n)
		}
		messages += most
	}
	if len(covered) == 0 {
		return nil
	}
	var shared []string
	first := slices.MinFunc(covered, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	o := &series.Overlap{Share: m.share(covered), Messages: messages, FirstNS: first.start - m.start}
	for kind, b := range by {
		if b.messages > 0 {
			shared = append(shared, series.Resources[kind])
			o.By = append(o.By,
				series.OverlapBy{Resource: series.Resources[kind], Share: m.share(b.covered), Messages: b.messages})
		}
	}
	if len(o.By) == 1 {
		o.By = nil
	}
	o.Shared = strings.Join(shared, ", ")
	return o
}

// share is which part of a span others cover.
func (s span) share(others []span) float64 {
	var time int64
	for _, o := range join(others) {
		time += o.end - o.start
	}
	return float64(time) / float64(s.end-s.start)
}

// within cuts spans, each shortened by the uncertainty at both ends, to a message.
func within(list []span, m span, uncertainty int64) (parts []span) {
	first, _ := slices.BinarySearchFunc(list, m.start, func(s span, at int64) int { return cmp.Compare(s.end, at) })
	for _, s := range list[first:] {
		if s.start >= m.end {
			break
		}
		cut := span{max(s.start+uncertainty, m.start), min(s.end-uncertainty, m.end)}
		if cut.start < cut.end {
			parts = append(parts, cut)
		}
	}
	return parts
}

// during counts the messages that last while another does.
func (b *busy) during(m span, uncertainty int64) int {
	begun, _ := slices.BinarySearch(b.starts, m.end-uncertainty)
	over, _ := slices.BinarySearch(b.ends, m.start+uncertainty+1)
	return max(begun-over, 1)
}
