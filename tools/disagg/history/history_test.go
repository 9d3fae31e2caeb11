package history

import (
	"math/rand/v2"
	"testing"
	"time"

	"perigee/tools/disagg/record"
)

func rows(test, metric string, values ...float64) (list []record.Row) {
	for i, v := range values {
		list = append(list, record.Row{Test: test, Concurrency: 4, Metric: metric, Value: v, Start: time.Unix(int64(i), 0)})
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

func TestCompare(t *testing.T) {
	old := append(rows("a", "TTFT", 100, 101, 102, 103, 104), rows("b", "TTFT", 10, 20, 30, 40, 50)...)
	old = append(append(old, rows("c", "OUTPUT_THROUGHPUT", 100, 101, 102, 103, 104)...), rows("d", "TTFT", 1)...)
	fresh := append(rows("a", "TTFT", 120, 121, 122, 123, 124), rows("b", "TTFT", 15, 25, 28, 41, 49)...)
	fresh = append(append(fresh, rows("c", "OUTPUT_THROUGHPUT", 120, 121, 122, 123, 124)...), rows("d", "TTFT", 2)...)
	fresh = append(fresh, rows("e", "TTFT", 2)...)
	want := map[string]string{"a": Worse, "b": Same, "c": Better, "d": TooFew, "e": OnlyHere}
	for _, c := range Compare(Collect(old), Collect(fresh), .05) {
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
