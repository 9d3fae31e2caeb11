package experts

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A wait that stands out is found among few ranks and among many, with its kind and its size, and nothing is said of
// waits that only scatter.
func TestVerdict(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{4, 5, 8, 64} {
		hosts := make([]string, n)
		for i := range hosts {
			hosts[i] = "h"
		}
		quiet := func() [][]float64 {
			rows := make([][]float64, n)
			for d := range rows {
				rows[d] = make([]float64, n)
				for s := range rows[d] {
					if s != d {
						rows[d][s] = 50 + 100*random.Float64()
					}
				}
			}
			return rows
		}
		for range 20 {
			for _, c := range []struct {
				name  string
				cause func(rows [][]float64, rank, other int)
				want  string
			}{
				{"nothing", func([][]float64, int, int) {}, ""},
				{"a source", func(rows [][]float64, rank, _ int) {
					for d := range rows {
						if d != rank {
							rows[d][rank] += 500
						}
					}
				}, "op: all wait for rank 2 (h): "},
				{"a source that was stopped, and waits meanwhile", func(rows [][]float64, rank, _ int) {
					for d := range rows {
						if d != rank {
							rows[d][rank], rows[rank][d] = rows[d][rank]+2200, rows[rank][d]+500
						}
					}
				}, "op: all wait for rank 2 (h): "},
				{"a destination", func(rows [][]float64, rank, _ int) {
					for s := range rows {
						if s != rank {
							rows[rank][s] += 500
						}
					}
				}, "op: rank 2 (h) waits for all: "},
				{"a pair", func(rows [][]float64, rank, other int) { rows[rank][other] += 5000 }, "op: rank 2 (h) waits for rank 1 (h): "},
				{"all", func(rows [][]float64, _, _ int) {
					for d := range rows {
						for s := range rows {
							if s != d {
								rows[d][s] += 5000
							}
						}
					}
				}, ""},
			} {
				rows := quiet()
				c.cause(rows, 2, 1)
				got := verdict("op", rows, hosts, 1000)
				if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
					t.Errorf("%d ranks, %s: %q, want %q", n, c.name, got, c.want)
				}
			}
		}
	}
	alone := [][]float64{{0, 0, 90, 0}, {0, 0, 90, 0}, {0, 0, 0, 0}, {0, 0, 90, 0}}
	hosts := []string{"a", "b", "c", "d"}
	if got := verdict("op", alone, hosts, 1000); got != "op: all wait for rank 2 (c): 90.0 us, and no others wait" {
		t.Error(got)
	}
	if got := verdict("op", alone, hosts, 1e5); got != "" {
		t.Errorf("waits of 0.02 %% of the time: %s", got)
	}
	apart := [][]float64{{0, 10, 60, 10}, {10, 0, 60, 10}, {10, 10, 0, 10}, {10, 10, 60, 0}}
	if got := verdict("op", apart, hosts, 1000); got != "op: all wait for rank 2 (c): 60.0 us, 6.0 times the mean wait of the others" {
		t.Error(got)
	}
}
