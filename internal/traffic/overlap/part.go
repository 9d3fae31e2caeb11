package overlap

import (
	"cmp"
	"context"
	"slices"

	"perigee/internal/traffic/series"
)

// part is the initiators of a run that were at work at once, or one after the other without a break. Ranks that meet in
// no barrier may be so far apart that a run, from the first to the last of them, lasts as long as thousands of others;
// its parts do not.
type part struct {
	PatternRun
	run    int // number of the run
	ranks  []series.RankRun
	span                        // of all of them
	others []*part              // of other patterns, which it may have met
	busy   map[resource][]*busy // made when it is first needed
}

// appendParts appends the parts of a run.
func appendParts(all []*part, number int, r PatternRun) []*part {
	spans := make([]span, 0, len(r.Ranks))
	latest, earliest := span{}, int64(0) // the latest start, the earliest end
	for i, k := range r.Ranks {
		s := spanOf(k)
		spans = append(spans, s)
		if i == 0 {
			latest, earliest = s, s.end
		}
		latest.start, latest.end, earliest = max(latest.start, s.start), max(latest.end, s.end), min(earliest, s.end)
	}
	if latest.start <= earliest { // all at once
		return append(all, &part{PatternRun: r, run: number, ranks: r.Ranks, span: span{r.StartNS, latest.end}})
	}
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(spans[a].start, spans[b].start) })
	var last *part
	for _, i := range order {
		if s := spans[i]; last == nil || s.start > last.end {
			last = &part{PatternRun: r, run: number, span: s}
			all = append(all, last)
		}
		last.ranks, last.end = append(last.ranks, r.Ranks[i]), max(last.end, spans[i].end)
	}
	return all
}

// spanOf is when a rank was at work in a run.
func spanOf(k series.RankRun) span {
	s := span{k.StartNS, k.StartNS}
	for _, p := range k.Peers {
		s.end = max(s.end, p.EndNS)
	}
	return s
}

// windows are spans in their order that do not touch.
type windows []span

// windowsOf are the windows of parts, in which all lies that may have met one of them: stamps may be off each other by
// worst.
func windowsOf(parts []*part, worst int64) windows {
	list := make([]span, 0, len(parts))
	for _, p := range parts {
		list = append(list, span{p.start - worst, p.end + worst})
	}
	return join(list)
}

func (w windows) meet(s span) bool {
	i, _ := slices.BinarySearchFunc(w, s.start, func(o span, start int64) int { return cmp.Compare(o.end, start) })
	return i < len(w) && w[i].start <= s.end
}

func (p *part) use(hostOf []int) map[resource][]*busy {
	if p.busy == nil {
		p.busy = busyIn(p.ranks, p.Read, hostOf)
	}
	return p.busy
}

// meet calls each for every part once its others are known, of parts whose stamps may be off each other by worst. It
// returns why ctx has ended, if it has.
func meet(ctx context.Context, all []*part, worst int64, each func(p *part)) error {
	slices.SortFunc(all, func(a, b *part) int { return cmp.Compare(a.start, b.start) })
	open := map[int][]*part{} // that may last yet, by pattern
	over := func(p *part) {
		each(p)
		p.others = nil
	}
	for i, a := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		all[i] = nil // it is in open, and in the others of those that it meets
		for pattern, list := range open {
			if pattern == a.Pattern {
				continue
			}
			lasting := list[:0]
			for _, b := range list {
				if a.start >= b.end+worst {
					over(b)
					continue
				}
				a.others, b.others = append(a.others, b), append(b.others, a)
				lasting = append(lasting, b)
			}
			clear(list[len(lasting):])
			if open[pattern] = lasting; len(lasting) == 0 {
				delete(open, pattern)
			}
		}
		open[a.Pattern] = append(open[a.Pattern], a)
	}
	for _, list := range open {
		for _, p := range list {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			over(p)
		}
	}
	return nil
}

// mark sets the overlap of the messages of a part.
func (p *part) mark(hosts Hosts) {
	slices.SortFunc(p.others, func(a, b *part) int { return cmp.Compare(a.run, b.run) })
	var s scratch
	for i := range p.ranks {
		k := &p.ranks[i]
		for j := range k.Peers {
			to := &k.Peers[j]
			m := message{span{k.StartNS, to.EndNS}, hosts.Of[k.Rank], resources(k.Rank, to.Peer, p.Read, hosts.Of)}
			to.Overlap, to.MayMeetNS = m.overlap(hosts, p.others, &s)
		}
	}
}
