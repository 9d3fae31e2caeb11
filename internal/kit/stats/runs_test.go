package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"perigee/internal/kit/must"
)

// The reference is scipy; testdata/runs.py says how the table was made.
func TestCompareRunsAgreesWithScipy(t *testing.T) {
	data := must.Read(t, "testdata/runs.json")
	var golden struct {
		Alpha float64
		Cases []struct {
			Name                      string
			N                         int
			Rows                      [][]float64
			T, P, Adjusted, Low, High []float64
		}
	}
	must.Do(t, json.Unmarshal(data, &golden))
	if len(golden.Cases) < 80 {
		t.Errorf("only %d cases", len(golden.Cases))
	}
	for _, c := range golden.Cases {
		for i, o := range CompareRuns(rowsOf(c.Rows), c.N, golden.Alpha) {
			for _, v := range []struct {
				name      string
				got, want float64
			}{{"t", o.T, c.T[i]}, {"p", o.P, c.P[i]}, {"adjusted p", o.Adjusted, c.Adjusted[i]}, {"low", o.Low, c.Low[i]}, {"high", o.High, c.High[i]}} {
				if math.Abs(v.got-v.want) > 1e-6*max(1e-3, math.Abs(v.want)) {
					t.Errorf("%s, %d and %d runs, row %d: %s is %v, want %v", c.Name, c.N, len(c.Rows[0])-c.N, i, v.name, v.got, v.want)
				}
			}
		}
	}
}

func rowsOf(values [][]float64) []Quantity {
	rows := make([]Quantity, len(values))
	for i, v := range values {
		rows[i].Values = v
	}
	return rows
}

// draws are ways in which the logarithms of runs spread when nothing has changed: rows by runs, in the order of time.
var draws = map[string]func(rng *rand.Rand, rows [][]float64){
	"normal": func(rng *rand.Rand, rows [][]float64) {
		each(rows, func(int, int) float64 { return 0.05 * rng.NormFloat64() })
	},
	"heavy tail": func(rng *rand.Rand, rows [][]float64) {
		each(rows, func(int, int) float64 { return 0.02 * rng.NormFloat64() / math.Sqrt(rng.ExpFloat64()) }) // t with 2 degrees of freedom
	},
	"outliers": func(rng *rand.Rand, rows [][]float64) {
		each(rows, func(int, int) float64 { return 0.02*rng.NormFloat64() + 3*math.Floor(rng.Float64()+0.1) })
	},
	"spreads differ": func(rng *rand.Rand, rows [][]float64) {
		each(rows, func(i, _ int) float64 { return 0.001 * math.Pow(3, float64(i%6)) * rng.NormFloat64() })
	},
	"whole runs differ": func(rng *rand.Rand, rows [][]float64) {
		whole := make([]float64, len(rows[0]))
		for k := range whole {
			whole[k] = 0.3 * rng.NormFloat64()
		}
		each(rows, func(_, k int) float64 { return whole[k] + 0.02*rng.NormFloat64() })
	},
	"ties": func(rng *rand.Rand, rows [][]float64) {
		each(rows, func(int, int) float64 { return float64(rng.IntN(3)) })
	},
	"drift": func(rng *rand.Rand, rows [][]float64) {
		each(rows, func(_, k int) float64 { return 0.05*float64(k) + 0.05*rng.NormFloat64() })
	},
	"random walk": func(rng *rand.Rand, rows [][]float64) {
		at := make([]float64, len(rows))
		each(rows, func(i, _ int) float64 { at[i] += 0.05 * rng.NormFloat64(); return at[i] })
	},
}

func each(rows [][]float64, value func(row, run int) float64) {
	for i := range rows {
		for k := range rows[i] {
			rows[i][k] = value(i, k)
		}
	}
}

// alternate puts runs that were made in the order ABBAABBA... in the order of their sides.
func alternate(rows [][]float64) [][]float64 {
	out := make([][]float64, len(rows))
	for i, r := range rows {
		var a, b []float64
		for k, v := range r {
			if k%4 == 0 || k%4 == 3 {
				a = append(a, v)
			} else {
				b = append(b, v)
			}
		}
		out[i] = append(a, b...)
	}
	return out
}

// Where nothing has changed, a comparison finds any row different with at most the probability alpha.
func TestCompareRunsLevel(t *testing.T) {
	const rounds, alpha = 2000, 0.05
	bound := alpha + 3*math.Sqrt(alpha*(1-alpha)/rounds)
	for name, draw := range draws {
		for _, size := range []struct{ runs, rows int }{{4, 1}, {4, 8}, {5, 4}} {
			t.Run(fmt.Sprintf("%s/%d runs a side/%d rows", name, size.runs, size.rows), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(5, uint64(size.runs*100+size.rows)))
				alarms, covered := 0, 0
				rows := make([][]float64, size.rows)
				for i := range rows {
					rows[i] = make([]float64, 2*size.runs)
				}
				for range rounds {
					draw(rng, rows)
					found := false
					for _, o := range CompareRuns(rowsOf(alternate(rows)), size.runs, alpha) {
						found = found || o.Adjusted <= alpha
						if o.Low <= 0 && o.High >= 0 {
							covered++
						}
					}
					if found {
						alarms++
					}
				}
				if rate := float64(alarms) / rounds; rate > bound {
					t.Errorf("false alarms in a share of %.4f, want at most %.4f", rate, bound)
				}
				if rate := float64(covered) / float64(rounds*size.rows); rate < 1-bound && name == "normal" {
					t.Errorf("the interval holds the truth in a share of %.4f", rate)
				}
			})
		}
	}
}

// A row that is 22 times slower is found among 8 and among 1000 with four runs a side, and one that is 20 % slower with five.
func TestCompareRunsPower(t *testing.T) {
	for _, c := range []struct {
		name                  string
		runs, rows, rounds    int
		factor, spread, least float64
	}{
		{"22x, one of 8", 4, 8, 400, 22, 0.05, 0.99},
		{"22x, one of 8, noisy", 4, 8, 400, 22, 0.3, 0.9},
		{"22x, one of 1000", 4, 1000, 8, 22, 0.05, 0.99},
		{"20 %, the only one", 5, 1, 400, 1.2, 0.05, 0.95},
		{"20 %, one of 8", 5, 8, 200, 1.2, 0.05, 0.9},
		{"20 %, one of 100", 5, 100, 20, 1.2, 0.03, 0.95},
	} {
		rng := rand.New(rand.NewPCG(6, 7))
		found := 0
		rows := make([][]float64, c.rows)
		for range c.rounds {
			for i := range rows {
				rows[i] = make([]float64, 2*c.runs)
				for k := range rows[i] {
					if rows[i][k] = c.spread * rng.NormFloat64(); i == c.rows/2 && k >= c.runs {
						rows[i][k] += math.Log(c.factor)
					}
				}
			}
			if CompareRuns(rowsOf(rows), c.runs, 0.05)[c.rows/2].Adjusted <= 0.05 {
				found++
			}
		}
		t.Logf("%s: found in %d of %d", c.name, found, c.rounds)
		if rate := float64(found) / float64(c.rounds); rate < c.least {
			t.Errorf("%s: found in a share of %.3f, want %.3f", c.name, rate, c.least)
		}
	}
}

// With too few runs, missing values and equal values there is no test or none that finds anything, and no panic.
func TestCompareRunsOfLittle(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name   string
		n      int
		values []float64
		p      float64 // NaN: no test
	}{
		{"one and one", 1, []float64{1, 2}, nan},
		{"one and two", 1, []float64{1, 2, 3}, 2. / 3},
		{"only in the second", 2, []float64{nan, nan, 1, 2}, nan},
		{"one value each", 2, []float64{nan, 1, nan, 2}, nan},
		{"all equal", 3, []float64{1, 1, 1, 1, 1, 1}, 1},
		{"equal within the sides", 4, []float64{1, 1, 1, 1, 2, 2, 2, 2}, 1. / 35},
	} {
		o := CompareRuns(rowsOf([][]float64{c.values}), c.n, 0.05)[0]
		if math.Abs(o.P-c.p) > 1e-12 || math.IsNaN(o.P) != math.IsNaN(c.p) || math.IsNaN(o.Adjusted) != math.IsNaN(c.p) {
			t.Errorf("%s: %+v, want p %v", c.name, o, c.p)
		}
	}
	if got := CompareRuns(nil, 3, 0.05); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	// A value that is missing in one run takes nothing from other rows.
	rows := [][]float64{{1, 1.1, 0.9, 1, 3, 3.1, 2.9, 3}, {1, nan, 1.2, 1.1, 1, 1.1, 1.2, 1.3}}
	if got := CompareRuns(rowsOf(rows), 4, 0.05); got[0].P > 0.03 || math.IsNaN(got[1].P) {
		t.Errorf("%+v", got)
	}
}

// Many runs are compared with divisions drawn at random, with the same outcome every time.
func TestCompareRunsSampled(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	values := make([]float64, 40)
	for i := range values {
		if values[i] = rng.NormFloat64(); i >= 20 {
			values[i] += 2
		}
	}
	a, b := CompareRuns(rowsOf([][]float64{values}), 20, 0.05)[0], CompareRuns(rowsOf([][]float64{values}), 20, 0.05)[0]
	if a != b || a.P > 0.001 || a.P <= 0 || a.Low > 2 || a.High < 2 {
		t.Errorf("%+v and %+v", a, b)
	}
}
