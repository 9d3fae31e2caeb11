package figures

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"perigee/internal/figures/contention"
	"perigee/internal/result"
)

func TestSayLacking(t *testing.T) {
	unknown := Num(math.NaN())
	const who = "Not among these: 6 messages that overlapped in all runs of their phase, or nearly all. Against the runs alone they take "
	for want, c := range map[string]Cost{
		"": {},
		"2.00 times as long, in too few runs to say whether that is chance.":    {Ratio: 2, Low: unknown, High: unknown, Off: 1},
		"2.00 times as long (99 % interval 1.80 to 2.20).":                      {Ratio: 2, Low: 1.8, High: 2.2, Off: 1},
		"1.20 times as long (99 % interval 1.11 to 1.30).":                      {Ratio: 1.2, Low: 1.11, High: 1.3, Off: 1},
		"1.02 times as long (99 % interval 0.90 to 1.10): little, if anything.": {Ratio: 1.02, Low: 0.9, High: 1.1, Off: 1},
		"1.18 times as long (99 % interval 0.63 to 2.20): whether overlapping costs them anything is not shown.": {
			Ratio: 1.18, Low: 0.63, High: 2.2, Off: 1},
		"1.18 times as long (99 % interval 1.09 to 1.21): whether overlapping costs them anything is not shown.": {
			Ratio: 1.18, Low: 1.0999, High: 1.2001, Off: 1},
		"3.00 times as long, but messages of the same phase that did not overlap take longer than alone, too, 2.50 times as long; without that 1.20 times (99 % interval 1.15 to 1.30) remain.": {
			Ratio: 1.2, Low: 1.15, High: 1.3, Off: 2.5},
		"2.00 times as long (99 % interval 1.80 to 2.20), but messages of the same phase that did not overlap take longer than alone, too, 1.90 times as long on average over all that are compared: how much of it overlapping costs is not shown.": {
			Ratio: 2, Low: 1.8, High: 2.2, Off: 1.9, Masked: true, Of: contention.Both},
	} {
		got, level := "", "note"
		if want != "" {
			c.Compared, c.Slowdown, want = 6, None, who+want
		}
		if c.Ratio >= strong && c.Low.Known() && !c.Masked {
			level = "bad"
		}
		sayLacking(c, func(l, format string, args ...any) {
			if got += fmt.Sprintf(format, args...); l != level {
				t.Errorf("%s is %s, want %s", got, l, level)
			}
		})
		if got != want {
			t.Errorf("%+v:\n%s\nwant\n%s", c, got, want)
		}
	}
}

// Nothing is denied of pairs that are masked.
func TestSayMaskedPairs(t *testing.T) {
	for _, ratio := range []Num{0.95, 1, 1.05} { // less than alone, as alone, and a little longer
		f := &Figures{Document: &result.Document{Overlaps: true}, Slowdown: 1, Contention: Contention{
			Messages: 100, Overlapped: 50, Share: 0.5, Shared: "receiver", Looked: 10, MaskedPairs: 1,
			Cost: Cost{Compared: 50, Of: contention.Alone, Runs: 10, Ratio: ratio, Low: ratio - 0.01, High: ratio + 0.01, Off: 1, Slowdown: None}}}
		f.judgeContention()
		if a := sayTraffic(f); a.Level != "note" || !strings.HasPrefix(a.Sentence, "Overlapping costs little") || !strings.HasSuffix(a.Sentence, "; that is not shown of all of them.") {
			t.Errorf("%v: %+v", ratio, a)
		}
		var got []string
		sayJudged(f, func(level, format string, args ...any) { got = append(got, fmt.Sprintf(format, args...)) })
		if len(got) != 2 || !strings.HasPrefix(got[1], "Of 10 pairs that overlapped, 1 take longer than alone, beyond chance, but hardly more so than ") {
			t.Errorf("%v: %q", ratio, got)
		}
	}
}
