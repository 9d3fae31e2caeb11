package report

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func sample(test, metric string, values ...float64) (list []Row) {
	for i, v := range values {
		list = append(list, Row{Test: test, Concurrency: 4, Metric: metric, Value: v, Start: time.Unix(int64(i), 0)})
	}
	return list
}

func TestMedianInterval(t *testing.T) {
	// The sign test's table: at 95 %, the ranks are 1 and 6 of 6, 2 and 9 of 10, 6 and 15 of 20.
	for _, c := range []struct {
		n         int
		low, high float64
	}{{6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {10, 2, 9}, {20, 6, 15}} {
		var values []float64
		for i := range c.n {
			values = append(values, float64(c.n-i))
		}
		if low, high, ok := MedianInterval(values, .05); !ok || low != c.low || high != c.high {
			t.Errorf("%d values: %g to %g, %v, want %g to %g", c.n, low, high, ok, c.low, c.high)
		}
	}
	if _, _, ok := MedianInterval([]float64{1, 2, 3, 4, 5}, .05); ok {
		t.Error("five values have an interval")
	}
	// It holds the true median as often as it says.
	r := rand.New(rand.NewPCG(1, 2))
	held, trials := 0, 4000
	for range trials {
		values := make([]float64, 12)
		for i := range values {
			values[i] = r.ExpFloat64()
		}
		if low, high, _ := MedianInterval(values, .05); low <= 0.6931 && 0.6931 <= high {
			held++
		}
	}
	if share := float64(held) / float64(trials); share < .945 {
		t.Errorf("the interval holds the median in %.3f of the trials", share)
	}
}

func compared(t *testing.T, old, fresh []Row) []Change {
	return Compare(Collect(old), Collect(fresh), .05, nil)
}

func TestCompare(t *testing.T) {
	old := append(sample("a", "TTFT", 100, 101, 102, 103, 104), sample("b", "TTFT", 10, 20, 30, 40, 50)...)
	old = append(append(old, sample("c", "OUTPUT_THROUGHPUT", 100, 101, 102, 103, 104)...), sample("d", "TTFT", 1)...)
	fresh := append(sample("a", "TTFT", 120, 121, 122, 123, 124), sample("b", "TTFT", 15, 25, 28, 41, 49)...)
	fresh = append(append(fresh, sample("c", "OUTPUT_THROUGHPUT", 120, 121, 122, 123, 124)...), sample("d", "TTFT", 2)...)
	fresh = append(fresh, sample("e", "TTFT", 2)...)
	want := map[string]string{"a": Worse, "b": Same, "c": Better, "d": TooFew, "e": OnlyHere}
	for _, c := range compared(t, old, fresh) {
		if c.Verdict != want[c.Test] {
			t.Errorf("%s: %s, want %s (%+v)", c.Test, c.Verdict, want[c.Test], c)
		}
		if c.Test == "a" && !(c.Low > 1.1 && c.High < 1.3 && c.Ratio > 1.19) {
			t.Errorf("%+v", c)
		}
		delete(want, c.Test)
	}
	if len(want) > 0 {
		t.Errorf("not compared: %v", want)
	}
}

// One of 16 figures that takes half as long again is found with 4 runs on each side, and nothing else; where nothing has
// changed, at most 5 % of the comparisons have a verdict. Sampling error: 3 sigma.
func TestOneOfMany(t *testing.T) {
	const trials = 300
	rng := rand.New(rand.NewPCG(3, 4))
	side := func(factor float64) (list []Row) {
		for run := range 4 {
			disturbance := math.Exp(0.02 * rng.NormFloat64())
			for level := range 16 {
				f := 1.
				if level == 5 {
					f = factor
				}
				list = append(list, Row{Test: "t", Concurrency: 1 << level, Metric: "TTFT",
					Value: 100 * f * disturbance * math.Exp(0.03*rng.NormFloat64()), Start: time.Unix(int64(1000*run), 0)})
			}
		}
		return list
	}
	found, others, alarms := 0, 0, 0
	for range trials {
		for _, c := range compared(t, side(1), side(1.5)) {
			switch {
			case c.Verdict == Worse && c.Concurrency == 1<<5:
				found++
			case c.Verdict != Same:
				others++
			}
		}
		for _, c := range compared(t, side(1), side(1)) {
			if c.Verdict != Same {
				alarms++
				break
			}
		}
	}
	most := 0.05*trials + 3*math.Sqrt(0.05*0.95*trials)
	if found < trials*9/10 || float64(others) > most || float64(alarms) > most {
		t.Errorf("of %d: found %d, others named %d, false alarms %d", trials, found, others, alarms)
	}
}

// Runs need not be complete, nor start at different times.
func TestRunsWithHoles(t *testing.T) {
	at := func(test, metric string, value float64, second int64) Row {
		return Row{Test: test, Concurrency: 1, Metric: metric, Value: value, Start: time.Unix(second, 0)}
	}
	var old, fresh []Row
	for k := range int64(6) {
		old = append(old, at("a", "TTFT", 100+float64(k), k), at("b", "TTFT", 7+float64(k)/10, 0))
		fresh = append(fresh, at("a", "TTFT", 150+float64(k), k/2), at("b", "TTFT", 7+float64(k)/10, 9))
		if k > 0 {
			old, fresh = append(old, at("a", "E2EL", 10+float64(k), k)), append(fresh, at("a", "E2EL", 30+float64(k), k))
		}
	}
	want := map[Key]string{{"a", 1, "TTFT"}: Worse, {"a", 1, "E2EL"}: Worse, {"b", 1, "TTFT"}: Same}
	for _, c := range compared(t, old, fresh) {
		if c.Verdict != want[c.Key] {
			t.Errorf("%+v: %s, want %s", c, c.Verdict, want[c.Key])
		}
	}
}
