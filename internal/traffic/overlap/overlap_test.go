package overlap

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/traffic/series"
)

// message is one message of a pattern with a single initiator.
func message(from, to int, start, end int64) series.Run {
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
			"incast between hosts", Pattern{Runs: []series.Run{message(0, 2, 0, 100)}}, Pattern{Runs: []series.Run{message(1, 2, 50, 150)}}, []int{0, 1, 2, 3},
			[2]*series.Overlap{{Share: 0.5, Messages: 1, Shared: "receiver, receiving host", FirstNS: 50, By: []series.OverlapBy{{Resource: "receiver", Share: 0.5, Messages: 1}, {Resource: "receiving host", Share: 0.5, Messages: 1}}}, {Share: 0.5, Messages: 1, Shared: "receiver, receiving host", By: []series.OverlapBy{{Resource: "receiver", Share: 0.5, Messages: 1}, {Resource: "receiving host", Share: 0.5, Messages: 1}}}},
		},
		{
			"a sender of two messages", Pattern{Runs: []series.Run{message(0, 2, 0, 100)}},
			Pattern{Runs: []series.Run{message(0, 3, 10, 20), message(0, 3, 50, 60)}}, []int{0, 1, 2, 3},
			[2]*series.Overlap{{Share: 0.2, Messages: 2, Shared: "sender, sending host", FirstNS: 10, By: []series.OverlapBy{{Resource: "sender", Share: 0.2, Messages: 2}, {Resource: "sending host", Share: 0.2, Messages: 2}}}, {Share: 1, Messages: 1, Shared: "sender, sending host", By: []series.OverlapBy{{Resource: "sender", Share: 1, Messages: 1}, {Resource: "sending host", Share: 1, Messages: 1}}}},
		},
		{
			"nothing shared", Pattern{Runs: []series.Run{message(0, 1, 0, 100)}}, Pattern{Runs: []series.Run{message(2, 3, 0, 100)}}, []int{0, 1, 2, 3},
			[2]*series.Overlap{},
		},
		{
			"both ways", Pattern{Runs: []series.Run{message(0, 1, 0, 100)}}, Pattern{Runs: []series.Run{message(1, 0, 0, 100)}}, []int{0, 1, 2, 3},
			[2]*series.Overlap{},
		},
		{
			"one host", Pattern{Runs: []series.Run{message(0, 1, 0, 100)}}, Pattern{Runs: []series.Run{message(2, 3, 75, 100)}}, []int{0, 0, 0, 0},
			[2]*series.Overlap{{Share: 0.25, Messages: 1, Shared: "sending host, receiving host", FirstNS: 75, By: []series.OverlapBy{{Resource: "sending host", Share: 0.25, Messages: 1}, {Resource: "receiving host", Share: 0.25, Messages: 1}}}, {Share: 1, Messages: 1, Shared: "sending host, receiving host", By: []series.OverlapBy{{Resource: "sending host", Share: 1, Messages: 1}, {Resource: "receiving host", Share: 1, Messages: 1}}}},
		},
		{
			"one after the other", Pattern{Runs: []series.Run{message(0, 2, 0, 100)}}, Pattern{Runs: []series.Run{message(1, 2, 100, 150)}}, []int{0, 0, 0, 0},
			[2]*series.Overlap{},
		},
		{
			"a receiver that reads", Pattern{Runs: []series.Run{message(2, 0, 0, 100)}, Read: true}, Pattern{Runs: []series.Run{message(1, 2, 0, 100)}}, []int{0, 1, 2, 3},
			[2]*series.Overlap{{Share: 1, Messages: 1, Shared: "receiver, receiving host", By: []series.OverlapBy{{Resource: "receiver", Share: 1, Messages: 1}, {Resource: "receiving host", Share: 1, Messages: 1}}}, {Share: 1, Messages: 1, Shared: "receiver, receiving host", By: []series.OverlapBy{{Resource: "receiver", Share: 1, Messages: 1}, {Resource: "receiving host", Share: 1, Messages: 1}}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			Mark([]Pattern{c.first, c.second}, c.hosts)
			got := [2]*series.Overlap{c.first.Runs[0].Ranks[0].Peers[0].Overlap, c.second.Runs[0].Ranks[0].Peers[0].Overlap}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// An overlap that is shorter than the clocks are uncertain is none.
func TestUncertainClocks(t *testing.T) {
	for uncertainty, want := range map[int64]bool{0: true, 4: true, 10: false, 60: false} {
		a, b := message(0, 2, 0, 100), message(1, 2, 90, 190)
		a.UncertaintyNS = uncertainty
		Mark([]Pattern{{Runs: []series.Run{a}}, {Runs: []series.Run{b}}}, []int{0, 1, 2})
		if got := a.Ranks[0].Peers[0].Overlap != nil; got != want {
			t.Errorf("10 ns with an uncertainty of %d: overlap %v, want %v", uncertainty, got, want)
		}
	}
}

// Whatever the runs, the marks are those of the definition, taken message by message and nanosecond by nanosecond.
func TestMarkIsTheDefinition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const ranks = 4
		hostOf := rapid.SliceOfN(rapid.IntRange(0, 2), ranks, ranks).Draw(rt, "hosts")
		patterns := make([]Pattern, rapid.IntRange(1, 3).Draw(rt, "patterns"))
		for i := range patterns {
			patterns[i].Read = rapid.Bool().Draw(rt, "read")
			for range rapid.IntRange(0, 3).Draw(rt, "runs") {
				var run series.Run
				for range rapid.IntRange(1, 3).Draw(rt, "initiators") {
					start := rapid.Int64Range(0, 60).Draw(rt, "start")
					k := series.RankRun{Rank: rapid.IntRange(0, ranks-1).Draw(rt, "rank"), StartNS: start, EndNS: start}
					for range rapid.IntRange(1, 3).Draw(rt, "peers") {
						end := start + rapid.Int64Range(1, 30).Draw(rt, "took")
						k.EndNS = max(k.EndNS, end)
						k.Peers = append(k.Peers, series.PeerRun{Peer: rapid.IntRange(0, ranks-1).Draw(rt, "peer"), EndNS: end})
					}
					run.Add(k)
				}
				patterns[i].Runs = append(patterns[i].Runs, run)
			}
		}
		Mark(patterns, hostOf)
		for i, p := range patterns {
			for _, run := range p.Runs {
				for _, k := range run.Ranks {
					for _, m := range k.Peers {
						wantOverlap(rt, patterns, hostOf, i, k, m)
					}
				}
			}
		}
	})
}

func wantOverlap(t *rapid.T, patterns []Pattern, hostOf []int, of int, k series.RankRun, m series.PeerRun) {
	mine := resources(k.Rank, m.Peer, patterns[of].Read, hostOf)
	busy := map[int64]bool{}
	var kinds [4]bool
	var byKind [4]map[int64]bool
	for kind := range byKind {
		byKind[kind] = map[int64]bool{}
	}
	for i, p := range patterns {
		for _, run := range p.Runs {
			for _, other := range run.Ranks {
				for _, o := range other.Peers {
					theirs := resources(other.Rank, o.Peer, p.Read, hostOf)
					for kind := range mine {
						if i == of || mine[kind] != theirs[kind] {
							continue
						}
						for ns := max(other.StartNS, k.StartNS); ns < min(o.EndNS, m.EndNS); ns++ {
							busy[ns], kinds[kind], byKind[kind][ns] = true, true, true
						}
					}
				}
			}
		}
	}
	if len(busy) == 0 {
		if m.Overlap != nil {
			t.Fatalf("%+v overlaps with nothing", *m.Overlap)
		}
		return
	}
	share := float64(len(busy)) / float64(m.EndNS-k.StartNS)
	if m.Overlap == nil || math.Abs(m.Overlap.Share-share) > 1e-9 || m.Overlap.Messages < 1 {
		t.Fatalf("got %+v, want share %v", m.Overlap, share)
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
