package figures

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"perigee/internal/kit/must"
)

// measured is a pattern that takes 2 to 4 alone and 3 to 9 in traffic, in units of its number, counted from 1.
func measured(i int, bytes int64) PatternFigures {
	n := Num(i + 1)
	return PatternFigures{Index: i, Bytes: bytes, IsolatedFastestNS: 2 * n, IsolatedNS: 3 * n, IsolatedSlowestNS: 4 * n,
		FastestNS: 3 * n, LatencyNS: 6 * n, SlowestNS: 9 * n}
}

// Patterns are drawn over their bytes, or as bars where these are few, whose own number is few too or else summed up.
func TestTrafficCharts(t *testing.T) {
	never := measured(3, 5)
	never.IsolatedNS = None
	named := measured(1, 50)
	named.Name = "prompt"
	sizes := trafficCharts(&Figures{Patterns: []PatternFigures{measured(0, 200), named, measured(2, 100), never}})
	if len(sizes) != 1 || !sizes[0].X.Log || !sizes[0].Y.Log || sizes[0].X.Words != nil {
		t.Fatalf("%+v", sizes)
	}
	want := []Series{
		{"alone", []Point{{50, 6, 4, 8, "prompt"}, {100, 9, 6, 12, "pattern 2"}, {200, 3, 2, 4, "pattern 0"}}},
		{"in traffic", []Point{{50, 12, 6, 18, "prompt"}, {100, 18, 9, 27, "pattern 2"}, {200, 6, 3, 9, "pattern 0"}}},
	}
	if diff := cmp.Diff(want, sizes[0].Series); diff != "" {
		t.Errorf("over bytes (-want +got):\n%s", diff)
	}
	bars := trafficCharts(&Figures{Patterns: []PatternFigures{measured(0, 7), named}})[0]
	if diff := cmp.Diff([]string{"pattern 0", "prompt"}, bars.X.Words); diff != "" || bars.Y.Log || bars.Series[1].Points[1] != (Point{1, 12, 6, 18, ""}) {
		t.Errorf("bars: %+v %s", bars, diff)
	}
	var many []PatternFigures
	for i := range mostBars + 1 {
		many = append(many, measured(i, int64(1000*(1+i%2))))
	}
	summed := trafficCharts(&Figures{Patterns: many})[0]
	// Of 1 kB are the numbers 1, 3 ... 41, of 2 kB 2, 4 ... 40.
	last := Num(mostBars)
	points := []Point{{0, 3 * (last + 2) / 2, 2, 4 * (last + 1), "21 patterns"}, {1, 3 * (last + 2) / 2, 4, 4 * last, "20 patterns"}}
	if diff := cmp.Diff(points, summed.Series[0].Points, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("summed up (-want +got):\n%s", diff)
	}
	must.Equal(t, []string{"1.00 kB", "2.00 kB"}, summed.X.Words)
	if got := trafficCharts(&Figures{Patterns: []PatternFigures{never}}); got != nil {
		t.Errorf("a pattern that never ran alone: %+v", got)
	}
	empty := trafficCharts(&Figures{Patterns: []PatternFigures{measured(0, 0), measured(1, 5), measured(2, 9)}})[0]
	if empty.X.Log || fmt.Sprint(empty.X.Words) != "[pattern 0 pattern 1 pattern 2]" {
		t.Errorf("of no bytes: %+v", empty.X)
	}
}
