package runs

import (
	"math"
	"testing"

	"perigee/internal/conf"
)

// The rate of inference-perf stands in the list of its stages.
func TestRateV01(t *testing.T) {
	for text, want := range map[string]float64{
		`{"metadata": {"stage": 1}, "args": {"load": {"type": "constant", "stages": [{"rate": 2, "duration": 30}, {"rate": 7.5}]}}}`: 7.5,
		`{"args": {"load": {"stages": [{"rate": 2}]}}}`:                             2,
		`{"metadata": {"stage": 3}, "args": {"load": {"stages": [{"rate": 2}]}}}`:   math.NaN(),
		`{"metadata": {"stage": 0}, "args": {"load": {"stages": [{"rate": "x"}]}}}`: math.NaN(),
		`{"args": {}}`: math.NaN(),
	} {
		v, err := conf.Parse("x.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := rateV01(v); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
