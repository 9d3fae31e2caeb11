package experts

import (
	"math/rand/v2"
	"slices"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/kit/stats"
)

// The figures of all pieces are those of one that has all of their iterations.
func TestTallyOfPieces(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const ranks, n = 3, 1000
	hosts := []string{"a", "a", "b"}
	cut := func(from, to int, all []*rankPiece) (pieces []*rankPiece) {
		for _, p := range all {
			piece := &rankPiece{times: p.times[from:to], waits: p.waits}
			for _, ns := range piece.times {
				for kind := range piece.parts { // as one operation that takes half of it
					piece.parts[kind].add(Part{Send: ns / 4, Recv: ns / 4, Wait: ns / 8, Finish: 1})
				}
			}
			pieces = append(pieces, piece)
		}
		return pieces
	}
	all := make([]*rankPiece, ranks)
	for rank := range all {
		all[rank] = &rankPiece{}
		for range n {
			all[rank].times = append(all[rank].times, 8*(1000+random.Int64N(5000)))
		}
		for kind := range kinds {
			for half := range halves {
				all[rank].waits[kind][half] = make([]int64, ranks)
			}
		}
	}
	once, pieces := tally{mode: EndToEnd}, tally{mode: EndToEnd}
	must.Do(t, once.add(cut(0, n, all)))
	for from := 0; from < n; {
		to := min(n, from+1+random.IntN(200))
		must.Do(t, pieces.add(cut(from, to, all)))
		from = to
	}
	want, got := once.figures(hosts, n), pieces.figures(hosts, n)
	sorted := slices.Sorted(slices.Values(want.MostUS))
	if !slices.Equal(got.Ranks, want.Ranks) || !slices.Equal(got.MostUS, want.MostUS) || !slices.Equal(got.MedianUS, want.MedianUS) ||
		!slices.Equal(got.LeastUS, want.LeastUS) || got.Slowest != want.Slowest || got.Typical != want.Typical ||
		got.Fastest != want.Fastest || got.Latency != want.Latency || got.Shares != want.Shares || got.Iterations != n {
		t.Errorf("%+v\nwant %+v", got.Ranks, want.Ranks)
	}
	for i := range want.MostUS {
		column := []float64{microseconds(all[0].times[i]), microseconds(all[1].times[i]), microseconds(all[2].times[i])}
		slices.Sort(column)
		if want.LeastUS[i] != column[0] || want.MedianUS[i] != column[1] || want.MostUS[i] != column[2] {
			t.Fatalf("iteration %d: %v, %v, %v of %v", i, want.LeastUS[i], want.MedianUS[i], want.MostUS[i], column)
		}
	}
	if p99 := stats.Quantile(sorted, 0.99); want.Slowest.P99 != p99 || want.Ranks[2].MaxUS != microseconds(slices.Max(all[2].times)) {
		t.Errorf("p99 %v, want %v; rank 2 %+v", want.Slowest.P99, p99, want.Ranks[2])
	}
	torn := cut(0, 4, all)
	torn[1].times = torn[1].times[:3]
	if err := pieces.add(torn); err == nil {
		t.Error("ranks with different numbers of iterations are added")
	}
}
