package metric

import (
	"fmt"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// everything is a result with samples of each kind: runs of a pattern in two phases, blocks, and labelled samples.
func everything(t *testing.T) *result.Document {
	d := grown(grown(nil, "isolated", 10, 20), "workload", 30, 60, 90)
	d.Patterns = append(d.Patterns, result.Pattern{Name: "ring {0}", Senders: 1})
	for i, size := range []int64{4096, 65536, 1 << 20} {
		var m result.Lanes
		m.Phase, m.BlockBytes, m.Batch, m.Bandwidth, m.EndNS = "sweep", size, 1<<i, float64(size)*1e5, 1e9
		m.Latency.Mean = 1000 * float64(i+1)
		d.Lanes = append(d.Lanes, m)
	}
	for i, l := range []result.Labels{
		nil, {"size": "4096", "dir": "up"}, {"size": "65536", "dir": "down"}, {"size": "0.5"}, {"size": "x", "null": "1"},
		{"size": "1e3"}, {"size": "NaN"}, {"size": "-5"}, {"true": "yes"},
	} {
		must.Do(t, d.AddLabelled("own", l, float64(10*i), int64(i)*1e9))
	}
	return d
}

// Thresholds mean what they have meant: testdata/meanings.txt has what each measured when the language was smaller,
// but for labels that no sample has: they are taken for mistakes now.
func TestMeanings(t *testing.T) {
	data := must.Read(t, "testdata/meanings.txt")
	d := everything(t)
	for line := range strings.Lines(string(data)) {
		text, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " => ")
		got := "refused"
		if th, err := Parse(text); err == nil {
			o := th.Judge(d)
			got = fmt.Sprint(o.Value, o.Samples, o.Passed)
			if again, err := Parse(th.String()); err != nil || again.Judge(d).Samples != o.Samples {
				t.Errorf("%s is written as %s, which means something else: %v", text, th, err)
			}
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}
