package runs

import (
	"math"
	"testing"
	"time"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/must"
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
		must.Do(t, err)
		if got := rateV01(v); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// Times are read as JSON, Python and PyYAML write them; one without a zone is of UTC.
func TestTimes(t *testing.T) {
	want := time.Date(2025, 11, 5, 18, 0, 42, 0, time.UTC)
	for _, text := range []string{
		"2025-11-05T18:00:42Z", "2025-11-05 18:00:42+00:00", "2025-11-05 18:00:42", "2025-11-05T18:00:42", "2025-11-05 20:00:42+02:00",
		"2025-11-05T18:00:42+0000",
	} {
		if got, ok := parseTime(text); !ok || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	if got, ok := parseTime("2025-11-05 18:00:42.250000+00:00"); !ok || !got.Equal(want.Add(250*time.Millisecond)) {
		t.Errorf("%v, %v", got, ok)
	}
	for _, text := range []string{"", "2025-11-05", "2025-11-05 ", "2025-11-05  18:00:42", "yesterday at noon"} {
		if got, ok := parseTime(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}
