package report

import (
	"fmt"
	"strings"
	"testing"

	"perigee/internal/figures"
	"perigee/internal/result"
)

// Without --full a result takes at most 40 lines, whatever it holds and however wide the terminal is, and says what is
// left.
func TestTextIsShort(t *testing.T) {
	large := func(d *result.Document) {
		s := synthetic{ranks: 16, hosts: 2, patterns: 100, senders: 4, peers: 2, isolated: 2, iterations: 2}
		*d = *s.document()
		s.each(d, func(m *result.Measurement) { d.Measurements = append(d.Measurements, *m) })
		no := false
		for i := range 30 {
			limit := result.Threshold{Threshold: fmt.Sprintf("latency_ms.p99 < %dms", i)}
			if i == 29 {
				limit.Passed, limit.Value = &no, new(float64)
			}
			d.Thresholds = append(d.Thresholds, limit)
		}
	}
	tables := func(d *result.Document) {
		d.Measurements = nil
		for range 20 {
			t := result.Table{Title: "mine", Columns: []string{"Size"}}
			for i := range 30 {
				t.Rows = append(t.Rows, []any{float64(i)})
			}
			d.Tables = append(d.Tables, t)
		}
	}
	changes := map[string]func(*result.Document){"large": large, "tables": tables}
	for name, change := range oddResults {
		changes[name] = change
	}
	for name, change := range changes {
		for _, width := range []int{40, 100, 300} {
			for _, bars := range []bool{false, true} {
				d := smallDocument()
				change(d)
				text := textOf(t, d, look{width: width, bars: bars})
				if n := strings.Count(text, "\n"); n > mostLines {
					t.Errorf("%s: %d lines, width %d, bars %v:\n%s", name, n, width, bars, text)
				}
			}
		}
	}
	d := smallDocument()
	large(d)
	text := textOf(t, d, look{width: 100})
	for _, want := range []string{"\nviolated    latency_ms.p99 < 29ms", "# more by --full: all 30 thresholds", "pairs and a map of the traffic; columns that do not fit: Name ("} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := textOf(t, d, look{width: 100, full: true}); strings.Contains(text, "--full") || strings.Count(text, "not judged  ") != 29 {
		t.Errorf("--full leaves something out:\n%s", text)
	}
}

// A chart in a terminal: bars from 0, in order, with the machine's limit beside them; of many places some, with the
// first and the last.
func TestBars(t *testing.T) {
	c := figures.Chart{
		Title: "bandwidth", X: figures.Axis{Label: "size", Unit: "bytes", Log: true}, Y: figures.Axis{Label: "rate", Unit: "bytes/s"},
		Series: []figures.Series{
			{Name: "read", Points: []figures.Point{{X: 4096, Y: 1e9}, {X: 65536, Y: 2e9}}}, {Name: "write", Points: []figures.Point{{X: 65536, Y: figures.None}}},
		},
		Limits: []figures.Limit{{Name: "copy", Points: []figures.Point{{Y: 4e9}}}},
	}
	draw := func(c figures.Chart) string {
		var out strings.Builder
		writeBars(&printer{w: &out, room: 40}, c, look{width: 40})
		return out.String()
	}
	const want = `
# bandwidth
 4 KiB  read  ███▎ 1.00 GB/s
        copy  █████████████ 4.00 GB/s
64 KiB  read  ██████▌ 2.00 GB/s
        copy  █████████████ 4.00 GB/s
`
	if got := draw(c); got != want {
		t.Errorf("got %s", got)
	}
	many := figures.Chart{Title: "many", X: figures.Axis{Words: make([]string, 100)}, Series: []figures.Series{{}}}
	for i := range 100 {
		many.X.Words[i] = fmt.Sprintf("word %d", i)
		many.Series[0].Points = append(many.Series[0].Points, figures.Point{X: figures.Num(i), Y: 1})
	}
	got := draw(many)
	if strings.Count(got, "\n") != 2+mostBarLines || !strings.Contains(got, "# many (16 of 100)\n") || !strings.Contains(got, "\n word 0 ") || !strings.Contains(got, "\nword 99 ") {
		t.Errorf("of many places:%s", got)
	}
	if got := draw(figures.Chart{}); got != "" {
		t.Errorf("nothing becomes %q", got)
	}
}

// A bar is as long as its share, to an eighth of a character; what is not nothing shows.
func TestBarLengths(t *testing.T) {
	for _, c := range []struct {
		share float64
		want  string
	}{{1, "████████"}, {0.5, "████"}, {0.25 + 1.0/64, "██▏"}, {1e-9, "▏"}, {0, ""}} {
		if got := bar(c.share, 8); got != c.want {
			t.Errorf("%v of 8 is %q, want %q", c.share, got, c.want)
		}
	}
}

// Without a terminal the picture is a table; two pictures of the same places share one, those of others have their own.
func TestPictureTable(t *testing.T) {
	points := func(y ...figures.Num) (s figures.Series) {
		s.Name = "0 → 1"
		for i, v := range y {
			s.Points = append(s.Points, figures.Point{X: figures.Num(int(1000) << i), Y: v})
		}
		return s
	}
	x := figures.Axis{Label: "bytes", Unit: "bytes"}
	rate := figures.Chart{Title: "Bandwidth", X: x, Y: figures.Axis{Unit: "bytes/s"}, Series: []figures.Series{points(1e9, 2e9), points(3e9, figures.None)}}
	took := figures.Chart{Title: "Latency", X: x, Y: figures.Axis{Unit: "ns"}, Series: []figures.Series{points(1e3, 2e3)}}
	draw := func(charts ...figures.Chart) string {
		var out strings.Builder
		p := &printer{w: &out, room: 40}
		writePictureTable(p, charts, look{width: 100})
		if p.err != nil {
			t.Error(p.err)
		}
		return out.String()
	}
	const both = `
# Bandwidth; Latency
  bytes    0 → 1 BW    0 → 1 BW (2)    Latency
-------  ----------  --------------  ---------
1.00 kB   1.00 GB/s       3.00 GB/s    1.00 µs
2.00 kB   2.00 GB/s               -    2.00 µs
`
	if got := draw(rate, took); got != both {
		t.Errorf("got %s", got)
	}
	took.Series = []figures.Series{points(1e3)}
	if got := draw(took, rate); !strings.Contains(got, "\n# Latency\n  bytes    Latency\n") || strings.Contains(got, "GB/s") {
		t.Errorf("other places: %s", got)
	}
}
