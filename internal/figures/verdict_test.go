package figures

import (
	"strings"
	"testing"

	"perigee/internal/figures/contention"
	"perigee/internal/result"
)

// The verdict, the level and the sentence come from the same figures, and an interval prints on the side of 1.1 on which
// it lies.
func TestSentences(t *testing.T) {
	whole := func(low, high Num) Contention {
		return Contention{Messages: 9, Overlapped: 8, Shared: "receiver", Share: 1, Looked: 2, Cost: Cost{
			Compared: 8, Of: contention.Alone, Runs: 9, Ratio: (low + high) / 2, Low: low, High: high, Off: 1, Slowdown: None}}
	}
	slow := Cost{Compared: 3, Of: contention.Alone, Runs: 9, Ratio: 2, Low: 1.8, High: 2.2, Off: 1, Slowdown: None}
	pair, always, masked := whole(0.9, 1.3), whole(0.9, 1.05), whole(1.8, 2.2)
	pair.Pairs = []ContentionPair{{From: 0, To: 1, Shared: "receiver", Cost: slow}}
	always.Lacking = slow
	masked.Masked, masked.Off = true, 1.9
	few, never := whole(None, None), whole(None, None)
	few.Runs, never.Compared = 3, 0
	for want, c := range map[string]Contention{
		"bad contention Contention: messages that overlap take 2.00 times as long as in the runs alone (99 % interval 1.80 to 2.20).":           whole(1.8, 2.2),
		"note contention Contention: messages that overlap take 1.15 times as long as in the runs alone (99 % interval 1.10 to 1.20).":          whole(1.1001, 1.1999),
		"good small Overlapping costs little, if anything: messages take 1.06 times as long as in the runs alone (99 % interval 1.01 to 1.10).": whole(1.0192, 1.1),
		"note not separated Not separated: messages that overlap take 1.10 times as long as in the runs alone (99 % interval 1.09 to 1.11); " +
			"the interval holds 1.10, where contention begins.": whole(1.0999, 1.1001),
		"bad contention Contention at 1 of 2 pairs that overlapped, the most at 0 \u2192 1, sharing the receiver: its messages take 2.00 times " +
			"as long as in the runs alone (99 % interval 1.80 to 2.20).": pair,
		"bad contention Contention: messages that overlapped in all runs of their phase, or nearly all, take 2.00 times as long as in the runs alone " +
			"(99 % interval 1.80 to 2.20).": always,
		"note not separated Not separated: messages that overlap take 2.00 times as long as in the runs alone (99 % interval 1.80 to 2.20), but " +
			"messages of the same phase that did not overlap take longer than alone, too, 1.90 times as long: how much of it overlapping costs is not shown.": masked,
		"note unknown What overlapping costs is not known: 3 runs are too few, it takes 5 (--iters, --isolation-iters).": few,
		"note unknown What overlapping costs is not known: no message that overlapped was also measured alone.":          never,
	} {
		f := &Figures{Document: &result.Document{Overlaps: true}, Slowdown: 1, Contention: c}
		f.Document.World.Hosts = []result.Host{{Name: "a", CPUs: 1, Ranks: []int{0}}, {Name: "b", CPUs: 1, Ranks: []int{1}}}
		f.Ranks, f.Pairs = []Rank{{}, {Rank: 1, Host: 1}}, []Pair{{From: 0, To: 1, Slowdown: 2, Contention: None}}
		f.judgeContention()
		a := sayTraffic(f)
		if got := a.Level + " " + string(f.Contention.Verdict) + " " + a.Sentence; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if f.Pairs[0].Contention.Known() != (len(c.Pairs) > 0) || !strings.HasPrefix(a.Why, "8 of 9 messages") {
			t.Errorf("%s: %+v, %s", want, f.Pairs, a.Why)
		}
	}
}
