package figures

import (
	"fmt"
	"math"
	"testing"

	"perigee/internal/contention"
)

func TestSayLacking(t *testing.T) {
	unknown := Num(math.NaN())
	const who = "Not among these: 6 messages that overlapped in all runs of their phase, or nearly all. Against the runs alone they take "
	for want, c := range map[string]Cost{
		"": {},
		"2.00 times as long, in too few runs to say whether that is chance.":      {Ratio: 2, Low: unknown, High: unknown, Off: 1},
		"2.00 times as long (95 % interval 1.80 to 2.20).":                        {Ratio: 2, Low: 1.8, High: 2.2, Off: 1},
		"1.20 times as long (95 % interval 1.10 to 1.30).":                        {Ratio: 1.2, Low: 1.1, High: 1.3, Off: 1},
		"1.02 times as long (95 % interval 0.90 to 1.10): nothing beyond chance.": {Ratio: 1.02, Low: 0.9, High: 1.1, Off: 1},
		"1.18 times as long (95 % interval 0.63 to 2.20): whether that is more than chance is not shown.": {
			Ratio: 1.18, Low: 0.63, High: 2.2, Off: 1},
		"3.00 times as long, but messages of the same phase that did not overlap take longer than alone, too, 2.50 times as long; without that 1.20 times (95 % interval 1.10 to 1.30) remain.": {
			Ratio: 1.2, Low: 1.1, High: 1.3, Off: 2.5},
		"2.00 times as long (95 % interval 1.80 to 2.20), but messages of the same phase that did not overlap take longer than alone, too, 1.90 times as long on average over all that are compared: how much of it overlapping costs is not shown.": {
			Ratio: 2, Low: 1.8, High: 2.2, Off: 1.9, Masked: true, Of: contention.Both},
	} {
		got, level := "", "note"
		if want != "" {
			c.Compared, want = 6, who+want
		}
		if c.Ratio >= strong && c.Low > 1 && !c.Masked {
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
