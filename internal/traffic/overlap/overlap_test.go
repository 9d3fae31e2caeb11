package overlap

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
	"perigee/internal/traffic/series"
)

// Pattern is the runs of one pattern.
type Pattern struct {
	Runs []series.Run
	Read bool
}

// Mark marks the runs of all patterns together.
func Mark(patterns []Pattern, hosts Hosts) {
	var all []PatternRun
	for i, p := range patterns {
		for k := range p.Runs {
			all = append(all, PatternRun{&p.Runs[k], i, p.Read})
		}
	}
	new(Timeline).Mark(context.Background(), len(all), func(i int) PatternRun { return all[i] }, hosts)
}

// single is one message of a pattern with a single initiator.
func single(from, to int, start, end int64) series.Run {
	r := series.Run{StartNS: start, EndNS: end}
	r.Ranks = []series.RankRun{{Rank: from, StartNS: start, EndNS: end, Peers: []series.PeerRun{{Peer: to, EndNS: end}}}}
	return r
}

// Two senders to one receiver, the second of which begins when half of the first is over; worked out by hand.
func TestMark(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second Pattern
		hosts         []int
		want          [2]*series.Overlap
	}{
		{
			"incast between hosts", Pattern{Runs: []series.Run{single(0, 2, 0, 100)}}, Pattern{Runs: []series.Run{single(1, 2, 50, 150)}}, []int{0, 1, 2, 3},
			[2]*series.Overlap{{Share: 0.5, Messages: 1, Shared: "receiver, receiving host", FirstNS: 50, By: []series.OverlapBy{{Resource: "receiver", Share: 0.5, Messages: 1}, {Resource: "receiving host", Share: 0.5, Messages: 1}}}, {Share: 0.5, Messages: 1, Shared: "receiver, receiving host", By: []series.OverlapBy{{Resource: "receiver", Share: 0.5, Messages: 1}, {Resource: "receiving host", Share: 0.5, Messages: 1}}}},
		},
		{
			"a sender of two messages", Pattern{Runs: []series.Run{single(0, 2, 0, 100)}},
			Pattern{Runs: []series.Run{single(0, 3, 10, 20), single(0, 3, 50, 60)}}, []int{0, 1, 2, 3},
			[2]*series.Overlap{{Share: 0.2, Messages: 2, Shared: "sender, sending host", FirstNS: 10, By: []series.OverlapBy{{Resource: "sender", Share: 0.2, Messages: 2}, {Resource: "sending host", Share: 0.2, Messages: 2}}}, {Share: 1, Messages: 1, Shared: "sender, sending host", By: []series.OverlapBy{{Resource: "sender", Share: 1, Messages: 1}, {Resource: "sending host", Share: 1, Messages: 1}}}},
		},
		{
			"nothing shared", Pattern{Runs: []series.Run{single(0, 1, 0, 100)}}, Pattern{Runs: []series.Run{single(2, 3, 0, 100)}}, []int{0, 1, 2, 3},
			[2]*series.Overlap{},
		},
		{
			"both ways", Pattern{Runs: []series.Run{single(0, 1, 0, 100)}}, Pattern{Runs: []series.Run{single(1, 0, 0, 100)}}, []int{0, 1, 2, 3},
			[2]*series.Overlap{},
		},
		{
			"one host", Pattern{Runs: []series.Run{single(0, 1, 0, 100)}}, Pattern{Runs: []series.Run{single(2, 3, 75, 100)}}, []int{0, 0, 0, 0},
			[2]*series.Overlap{{Share: 0.25, Messages: 1, Shared: "sending host, receiving host", FirstNS: 75, By: []series.OverlapBy{{Resource: "sending host", Share: 0.25, Messages: 1}, {Resource: "receiving host", Share: 0.25, Messages: 1}}}, {Share: 1, Messages: 1, Shared: "sending host, receiving host", By: []series.OverlapBy{{Resource: "sending host", Share: 1, Messages: 1}, {Resource: "receiving host", Share: 1, Messages: 1}}}},
		},
		{
			"one after the other", Pattern{Runs: []series.Run{single(0, 2, 0, 100)}}, Pattern{Runs: []series.Run{single(1, 2, 100, 150)}}, []int{0, 0, 0, 0},
			[2]*series.Overlap{},
		},
		{
			"a receiver that reads", Pattern{Runs: []series.Run{single(2, 0, 0, 100)}, Read: true}, Pattern{Runs: []series.Run{single(1, 2, 0, 100)}}, []int{0, 1, 2, 3},
			[2]*series.Overlap{{Share: 1, Messages: 1, Shared: "receiver, receiving host", By: []series.OverlapBy{{Resource: "receiver", Share: 1, Messages: 1}, {Resource: "receiving host", Share: 1, Messages: 1}}}, {Share: 1, Messages: 1, Shared: "receiver, receiving host", By: []series.OverlapBy{{Resource: "receiver", Share: 1, Messages: 1}, {Resource: "receiving host", Share: 1, Messages: 1}}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			Mark([]Pattern{c.first, c.second}, Hosts{Of: c.hosts})
			got := [2]*series.Overlap{c.first.Runs[0].Ranks[0].Peers[0].Overlap, c.second.Runs[0].Ranks[0].Peers[0].Overlap}
			must.Equal(t, c.want, got)
		})
	}
}

// An overlap that is shorter than the clocks are uncertain is not known, and neither is a gap that is. Within a host, and
// of one initiator with itself, all is known.
func TestUncertainClocks(t *testing.T) {
	for _, c := range []struct {
		name        string
		uncertainty int64 // of each of the clocks of two hosts
		start       int64 // of a message of host 1, beside one of host 0 from 0 to 100
		first, may  int64 // -1 for never
	}{
		{"exact", 0, 90, 90, -1},
		{"exact, none", 0, 100, -1, -1},
		{"surely", 2, 90, 94, 86},
		{"shorter than uncertain", 5, 90, -1, 80},
		{"much shorter than uncertain", 100, 90, -1, 0},
		{"a gap shorter than uncertain", 6, 110, -1, 98},
		{"a gap longer than uncertain", 5, 110, -1, -1},
	} {
		for _, other := range []int{1, 0} { // the host of the second initiator
			a, b := single(0, 2, 0, 100), single(1, 2, c.start, c.start+100)
			Mark([]Pattern{{Runs: []series.Run{b}}, {Runs: []series.Run{a}}}, Hosts{[]int{0, other, 2}, []int64{c.uncertainty, c.uncertainty, 7}})
			m, first, may := a.Ranks[0].Peers[0], int64(-1), int64(-1)
			if m.Overlap != nil {
				first = m.Overlap.FirstNS
			}
			if m.MayMeetNS != nil {
				may = *m.MayMeetNS
			}
			want := [2]int64{c.first, c.may}
			if other == 0 {
				want = [2]int64{c.start, -1}
				if c.start >= 100 {
					want[0] = -1
				}
			}
			if got := [2]int64{first, may}; got != want {
				t.Errorf("%s, hosts 0 and %d: first met after %d, maybe after %d; want %d and %d", c.name, other, first, may, want[0], want[1])
			}
		}
	}
}

// Whatever the runs, the marks are those of the definition, taken message by message and nanosecond by nanosecond.
func TestMarkIsTheDefinition(t *testing.T) {
	for range 20 { // a hundred each: what pieces leave out shows in one of some hundred
		rapid.Check(t, markIsTheDefinition)
	}
}

func markIsTheDefinition(rt *rapid.T) {
	const ranks = 4
	hosts := Hosts{rapid.SliceOfN(rapid.IntRange(0, 2), ranks, ranks).Draw(rt, "hosts"), rapid.SliceOfN(rapid.Int64Range(0, 6), 3, 3).Draw(rt, "uncertainty")}
	patterns := make([]Pattern, rapid.IntRange(1, 3).Draw(rt, "patterns"))
	time, longest := rapid.Int64Range(10, 200).Draw(rt, "time"), rapid.Int64Range(1, 30).Draw(rt, "longest")
	for i := range patterns {
		patterns[i].Read = rapid.Bool().Draw(rt, "read")
		for range rapid.IntRange(0, 3).Draw(rt, "runs") {
			var run series.Run
			for range rapid.IntRange(1, 3).Draw(rt, "initiators") {
				start := rapid.Int64Range(0, time).Draw(rt, "start")
				k := series.RankRun{Rank: rapid.IntRange(0, ranks-1).Draw(rt, "rank"), StartNS: start, EndNS: start}
				for range rapid.IntRange(1, 3).Draw(rt, "peers") {
					end := start + rapid.Int64Range(1, longest).Draw(rt, "took")
					k.EndNS = max(k.EndNS, end)
					k.Peers = append(k.Peers, series.PeerRun{Peer: rapid.IntRange(0, ranks-1).Draw(rt, "peer"), EndNS: end})
				}
				run.Add(k)
			}
			patterns[i].Runs = append(patterns[i].Runs, run)
		}
	}
	markInPieces(rt, patterns, hosts)
	for i, p := range patterns {
		for _, run := range p.Runs {
			for _, k := range run.Ranks {
				for _, m := range k.Peers {
					wantOverlap(rt, patterns, hosts, i, k, m)
				}
			}
		}
	}
}

// markInPieces marks runs as they come, in any order.
func markInPieces(t *rapid.T, patterns []Pattern, hosts Hosts) {
	const pieces = 3
	var of [pieces][]PatternRun
	for i, p := range patterns {
		for k := range p.Runs {
			piece := rapid.IntRange(0, pieces-1).Draw(t, "piece")
			of[piece] = append(of[piece], PatternRun{&p.Runs[k], i, p.Read})
		}
	}
	var line Timeline
	var all []PatternRun
	for _, some := range of {
		all = append(all, some...)
		line.Mark(context.Background(), len(all), func(i int) PatternRun { return all[i] }, hosts)
	}
}

// wantOverlap demands of the message m what the definition says of it. What another host's messages cover is, for it, what
// they cover without a break, shortened by the uncertainty at both ends.
func wantOverlap(t *rapid.T, patterns []Pattern, hosts Hosts, of int, k series.RankRun, m series.PeerRun) {
	mine := resources(k.Rank, m.Peer, patterns[of].Read, hosts.Of)
	busy, first, may := map[int64]bool{}, m.EndNS, m.EndNS
	var kinds [4]bool
	var byKind [4]map[int64]bool
	for kind := range series.Resources {
		byKind[kind] = map[int64]bool{}
	}
	for i, p := range patterns {
		for _, run := range p.Runs {
			for kind := range series.Resources {
				covers := map[int]map[int64]bool{} // by host
				for _, other := range run.Ranks {
					for _, o := range other.Peers {
						if i == of || resources(other.Rank, o.Peer, p.Read, hosts.Of)[kind] != mine[kind] {
							continue
						}
						h := hosts.Of[other.Rank]
						if covers[h] == nil {
							covers[h] = map[int64]bool{}
						}
						for ns := other.StartNS; ns < o.EndNS; ns++ {
							covers[h][ns] = true
						}
					}
				}
				for h, at := range covers {
					u := hosts.apart(hosts.Of[k.Rank], h)
					for ns := k.StartNS; ns < m.EndNS; ns++ {
						all, any := true, false
						for near := ns - u; near <= ns+u; near++ {
							all, any = all && at[near], any || at[near]
						}
						if all {
							busy[ns], kinds[kind], byKind[kind][ns], first = true, true, true, min(first, ns)
						}
						if any {
							may = min(may, ns)
						}
					}
				}
			}
		}
	}
	if got := m.MayMeetNS; (got != nil) != (may < first) || got != nil && *got != may-k.StartNS {
		t.Fatalf("%+v: may meet at %v, want %d, at first %d", m, got, may-k.StartNS, first-k.StartNS)
	}
	if len(busy) == 0 {
		if m.Overlap != nil {
			t.Fatalf("%+v overlaps with nothing", *m.Overlap)
		}
		return
	}
	share := float64(len(busy)) / float64(m.EndNS-k.StartNS)
	if m.Overlap == nil || math.Abs(m.Overlap.Share-share) > 1e-9 || m.Overlap.Messages < 1 || m.Overlap.FirstNS != first-k.StartNS {
		t.Fatalf("got %+v, want share %v, first %d", m.Overlap, share, first-k.StartNS)
	}
	if n := countOverlapping(patterns, hosts, of, k, m); n > 0 && m.Overlap.Messages != n {
		t.Fatalf("got %+v, want %d messages", m.Overlap, n)
	}
	for _, by := range m.Overlap.Each() {
		kind := slices.Index(series.Resources, by.Resource)
		share := float64(len(byKind[kind])) / float64(m.EndNS-k.StartNS)
		if math.Abs(by.Share-share) > 1e-9 || by.Messages < 1 || by.Messages > m.Overlap.Messages {
			t.Fatalf("got %+v of %+v, want share %v", by, *m.Overlap, share)
		}
	}
	for kind, is := range kinds {
		if is != strings.Contains(m.Overlap.Shared+",", series.Resources[kind]+",") {
			t.Fatalf("shared: %q, want %v", m.Overlap.Shared, kinds)
		}
	}
}

// countOverlapping counts the messages of other patterns that overlap with m; 0 where clocks leave it open.
func countOverlapping(patterns []Pattern, hosts Hosts, of int, k series.RankRun, m series.PeerRun) (n int) {
	mine := resources(k.Rank, m.Peer, patterns[of].Read, hosts.Of)
	for i, p := range patterns {
		for _, run := range p.Runs {
			for _, other := range run.Ranks {
				for _, o := range other.Peers {
					theirs := resources(other.Rank, o.Peer, p.Read, hosts.Of)
					shares := false
					for kind := range series.Resources {
						shares = shares || theirs[kind] == mine[kind]
					}
					if i == of || !shares {
						continue
					}
					if hosts.apart(hosts.Of[k.Rank], hosts.Of[other.Rank]) > 0 {
						return 0
					}
					if other.StartNS < m.EndNS && k.StartNS < o.EndNS {
						n++
					}
				}
			}
		}
	}
	return n
}

// Runs of ranks that are far apart, as in a loop without barriers, last from the first to the last of them: thousands at
// once. That takes little longer than runs after each other.
func TestRanksFarApart(t *testing.T) {
	took := func(patterns int, apart int64) time.Duration {
		list := make([]Pattern, patterns)
		for i := range int64(20000) {
			r := single(0, 1, 10*i, 10*i+8)
			r.Add(single(1, 0, 10*i+apart, 10*i+apart+8).Ranks[0])
			p := &list[int(i)%patterns]
			p.Runs = append(p.Runs, r)
		}
		began := time.Now()
		Mark(list, Hosts{Of: []int{0, 0}})
		took := time.Since(began)
		if got := list[0].Runs[9000].Ranks[0].Peers[0].Overlap; (got != nil) != (patterns > 1 && apart > 0) {
			t.Errorf("%d patterns, %d apart: overlap %+v", patterns, apart, got)
		}
		return took
	}
	for _, patterns := range []int{1, 2} {
		if together, apart := took(patterns, 0), took(patterns, 10*10001); apart > 20*together {
			t.Errorf("%d patterns: %v, together %v", patterns, apart, together)
		}
	}
}

// A job that has failed does not look at all messages first.
func TestMarkEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	a, b := single(0, 1, 0, 10), single(0, 1, 5, 15)
	all := []PatternRun{{Run: &a}, {Run: &b, Pattern: 1}}
	err := new(Timeline).Mark(ctx, len(all), func(i int) PatternRun { return all[i] }, Hosts{Of: []int{0, 0}})
	if err == nil || err.Error() != "interrupted" {
		t.Errorf("got %v", err)
	}
}
