package figures

import (
	"fmt"
	"math"
	"testing"
)

func TestSayLacking(t *testing.T) {
	unknown := Num(math.NaN())
	const who = "Not among these: 6 messages that overlapped in all runs of their phase, or nearly all. Against the runs alone they take "
	for want, c := range map[string]Cost{
		"": {},
		"note: " + who + "2.00 times as long, in too few runs to say whether that is chance.":      {Compared: 6, Ratio: 2, Low: unknown, High: unknown, Off: 1},
		"bad: " + who + "2.00 times as long (95 % interval 1.80 to 2.20).":                         {Compared: 6, Ratio: 2, Low: 1.8, High: 2.2, Off: 1},
		"note: " + who + "1.20 times as long (95 % interval 1.10 to 1.30).":                        {Compared: 6, Ratio: 1.2, Low: 1.1, High: 1.3, Off: 1},
		"note: " + who + "1.02 times as long (95 % interval 0.90 to 1.10): nothing beyond chance.": {Compared: 6, Ratio: 1.02, Low: 0.9, High: 1.1, Off: 1},
		"note: " + who + "3.00 times as long, and 1.20 times as long (95 % interval 1.10 to 1.30) if what those of the phase take longer that did not overlap, 2.50 times as long as alone, is taken off.": {
			Compared: 6, Ratio: 1.2, Low: 1.1, High: 1.3, Off: 2.5},
		"note: " + who + "2.00 times as long (95 % interval 1.80 to 2.20), but those of the phase that did not overlap take 1.90 times as long as alone, too: how much of it overlapping costs is not shown.": {
			Compared: 6, Ratio: 2, Low: 1.8, High: 2.2, Off: 1.9, Masked: true},
	} {
		got := ""
		sayLacking(c, func(level, format string, args ...any) { got += level + ": " + fmt.Sprintf(format, args...) })
		if got != want {
			t.Errorf("%+v:\n%s\nwant\n%s", c, got, want)
		}
	}
}
