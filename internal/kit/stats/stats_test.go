package stats

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"perigee/internal/kit/must"
)

// The reference is scipy; testdata/mannwhitney.py says how the table was made.
func TestMannWhitneyAgreesWithScipy(t *testing.T) {
	data := must.Read(t, "testdata/mannwhitney.json")
	var golden struct {
		Cases []struct {
			Name  string
			X, Y  []float64
			Exact bool
			U, P  float64
		}
	}
	must.Do(t, json.Unmarshal(data, &golden))
	exact := 0
	for _, c := range golden.Cases {
		got := MannWhitney(c.X, c.Y)
		if got.U != c.U || got.Exact != c.Exact {
			t.Errorf("%s: got U %v, exact %v, want %v, %v", c.Name, got.U, got.Exact, c.U, c.Exact)
		}
		if math.Abs(got.P-c.P) > 1e-9*min(1, c.P*1e3) {
			t.Errorf("%s: got p %v, want %v", c.Name, got.P, c.P)
		}
		if c.Exact {
			exact++
		}
	}
	if len(golden.Cases) < 70 || exact < 35 {
		t.Errorf("only %d cases, %d of them exact", len(golden.Cases), exact)
	}
}

func TestMannWhitneyOfNothing(t *testing.T) {
	for _, c := range [][2][]float64{{nil, nil}, {{1}, nil}, {nil, {1}}, {{math.NaN()}, {1}}, {{1}, {2, math.NaN()}}} {
		if got := MannWhitney(c[0], c[1]); !math.IsNaN(got.P) {
			t.Errorf("%v: got %v", c, got)
		}
	}
	if got := MannWhitney([]float64{2, 2}, []float64{2, 2, 2}); got.P != 1 {
		t.Errorf("all equal: got %v", got)
	}
	if got := MannWhitney([]float64{math.Inf(1), 1}, []float64{math.Inf(1), math.Inf(-1)}); got.U != 2.5 {
		t.Errorf("infinities: got %v", got)
	}
}

// sample draws n values; whole makes ties likely.
func sample(t *rapid.T, name string) []float64 {
	if rapid.Bool().Draw(t, name+" whole") {
		whole := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 70).Draw(t, name)
		list := make([]float64, len(whole))
		for i, v := range whole {
			list[i] = float64(v)
		}
		return list
	}
	return rapid.SliceOfN(rapid.Float64Range(1e-3, 1e3), 1, 70).Draw(t, name)
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := sample(t, "x"), sample(t, "y")
		a, b := MannWhitney(x, y), MannWhitney(y, x)
		n := float64(len(x) * len(y))
		if a.P != b.P || a.U+b.U != n || a.P < 0 || a.P > 1 || math.IsNaN(a.P) {
			t.Fatalf("one way %+v, the other %+v", a, b)
		}
		if a.Exact && a.P < SmallestP(len(x), len(y))*(1-1e-12) {
			t.Fatalf("p %v is smaller than the smallest, %v", a.P, SmallestP(len(x), len(y)))
		}
		var u float64
		for _, v := range x {
			for _, w := range y {
				switch {
				case v > w:
					u++
				case v == w:
					u += 0.5
				}
			}
		}
		if a.U != u {
			t.Fatalf("U is %v, counted %v", a.U, u)
		}
		// Every ordered ratio is what sorting all of them gives.
		var all []float64
		for _, v := range x {
			for _, w := range y {
				all = append(all, w/v)
			}
		}
		slices.Sort(all)
		slices.Sort(x)
		slices.Sort(y)
		k := rapid.IntRange(1, len(all)).Draw(t, "k")
		if got := kthRatio(x, y, int64(k)); got != all[k-1] {
			t.Fatalf("ratio %d is %v, sorted %v", k, got, all[k-1])
		}
		// The interval, if there is one, is around their median.
		r, ok := RatioOf(x, y, 0.05)
		if !ok || r.Low > all[(len(all)-1)/2] || r.High < all[len(all)/2] {
			t.Fatalf("%+v", r)
		}
	})
}

// Where no values are equal, the interval holds 1 just when the test finds nothing.
func TestIntervalAndTestAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		x, y := lognormal(rng, 1+rng.IntN(20), 0, 0.3), lognormal(rng, 1+rng.IntN(20), rng.Float64()*0.4, 0.3)
		const alpha = 0.05
		r, _ := RatioOf(x, y, alpha)
		found := MannWhitney(x, y).P <= alpha
		outside := r.Low > 1 || r.High < 1
		if found != outside {
			t.Fatalf("p %v, interval %+v of %v and %v", MannWhitney(x, y).P, r, x, y)
		}
	}
}

func lognormal(rng *rand.Rand, n int, mean, sigma float64) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = math.Exp(mean + sigma*rng.NormFloat64())
	}
	return list
}

// simulations is chosen so that a share near 0.05 is known to about 0.004 (one
// standard deviation). The numbers are the same in every run.
const simulations = 3000

// The rate of false alarms is near alpha and never clearly above it, and the interval
// holds the truth as often as it says; for several sizes and distributions.
func TestFalseAlarmsAndCoverage(t *testing.T) {
	const alpha = 0.05
	rng := rand.New(rand.NewPCG(3, 4))
	draws := map[string]func() float64{
		"lognormal":  func() float64 { return math.Exp(0.5 * rng.NormFloat64()) },
		"heavy tail": func() float64 { return 1 + rng.ExpFloat64() + 100*max(0, rng.Float64()-0.99) },
		"two modes":  func() float64 { return 1 + 4*float64(rng.IntN(2)) + 0.1*rng.Float64() },
		"ties":       func() float64 { return float64(10 + rng.IntN(6)) },
	}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for k := range draws {
			if !yield(k) {
				return
			}
		}
	}) {
		for _, size := range [][2]int{{4, 4}, {10, 8}, {30, 30}, {60, 55}} {
			alarms, holds := 0, 0
			for range simulations {
				x, y := make([]float64, size[0]), make([]float64, size[1])
				for i := range x {
					x[i] = draws[name]()
				}
				const truth = 1.3
				for i := range y {
					y[i] = draws[name]()
				}
				if MannWhitney(x, y).P < alpha {
					alarms++
				}
				for i := range y {
					y[i] *= truth
				}
				if r, _ := RatioOf(x, y, alpha); r.Low <= truth*(1+1e-9) && truth*(1-1e-9) <= r.High {
					holds++
				}
			}
			rate, coverage := float64(alarms)/simulations, float64(holds)/simulations
			least := 0.6 * alpha
			if size[0] == 4 {
				least = 0.02 // p takes few values: 2/70, 4/70, ...
			}
			if rate > alpha+0.013 || rate < least {
				t.Errorf("%s, %v: false alarms at a rate of %.4f", name, size, rate)
			}
			if coverage < 1-alpha-0.013 {
				t.Errorf("%s, %v: the interval holds the truth in %.4f", name, size, coverage)
			}
		}
	}
}

func TestSmallestP(t *testing.T) {
	for _, c := range []struct {
		n, m int
		want float64
	}{{0, 5, 1}, {1, 1, 1}, {2, 2, 1. / 3}, {3, 3, 0.1}, {4, 4, 2. / 70}, {3, 5, 2. / 56}} {
		if got := SmallestP(c.n, c.m); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%d and %d: got %v, want %v", c.n, c.m, got, c.want)
		}
	}
}

// The expected values are those of numpy.quantile and of hand calculation.
func TestQuantiles(t *testing.T) {
	list := []float64{1, 2, 4, 8}
	for q, want := range map[float64]float64{0: 1, 0.25: 1.75, 0.5: 3, 0.9: 6.8, 1: 8} {
		if got := Quantile(list, q); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: got %v, want %v", q, got, want)
		}
	}
	if got := []float64{Median([]float64{5, 1, 3}), Median([]float64{4, 1}), Mean([]float64{1, 2, 6}), StdDev([]float64{2, 4, 4, 4, 5, 5, 7, 9})}; !cmp.Equal(got, []float64{3, 2.5, 3, math.Sqrt(32. / 7)}, cmpopts.EquateApprox(0, 1e-12)) {
		t.Errorf("got %v", got)
	}
	for _, v := range []float64{Median(nil), Mean(nil), StdDev([]float64{1})} {
		if !math.IsNaN(v) {
			t.Errorf("got %v of nothing", v)
		}
	}
	if got := Mean([]float64{math.MaxFloat64, math.MaxFloat64}); got != math.MaxFloat64 {
		t.Errorf("mean of large values: %v", got)
	}
}

func TestGeometricMean(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{1, 100}, 10}, {[]float64{2, 4, 8}, 4}, {nil, math.NaN()}, {[]float64{1, 0}, math.NaN()}, {[]float64{-1}, math.NaN()}} {
		if got := GeometricMean(c.values); math.Abs(got-c.want) > 1e-12 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("%v: got %v, want %v", c.values, got, c.want)
		}
	}
}

func TestRatioOfRefuses(t *testing.T) {
	for _, c := range [][2][]float64{{nil, {1}}, {{1}, nil}, {{0, 1}, {1}}, {{1}, {-1, 1}}, {{1}, {math.NaN()}}, {{1}, {math.Inf(1)}}} {
		if r, ok := RatioOf(c[0], c[1], 0.05); ok {
			t.Errorf("%v: got %+v", c, r)
		}
	}
	r, ok := RatioOf([]float64{1, 2, 3}, []float64{2, 4, 6}, 0.05)
	if !ok || !math.IsNaN(r.Low) || !math.IsNaN(r.High) {
		t.Errorf("three and three have no interval: %+v", r)
	}
}

func TestBeyond(t *testing.T) {
	for _, c := range []struct {
		k, m, n int
		want    float64
	}{{0, 5, 5, 1}, {1, 1, 1, 0.5}, {5, 5, 3, 1. / 56}, {8, 18, 10, 0.014077}, {1, 0, 5, 0}} {
		if got := Beyond(c.k, c.m, c.n); math.Abs(got-c.want) > 1e-5 {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}
