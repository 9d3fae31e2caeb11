package result

import (
	"math"
	"testing"

	"perigee/internal/traffic/series"
)

// run is one of initiators with a start and an end each.
func run(iteration int, times ...[2]int64) *Measurement {
	m := &Measurement{Iteration: iteration}
	m.StartNS, m.EndNS = times[0][0], times[0][1]
	for i, t := range times {
		m.StartNS, m.EndNS = min(m.StartNS, t[0]), max(m.EndNS, t[1])
		m.Ranks = append(m.Ranks, series.RankRun{Rank: i, StartNS: t[0], EndNS: t[1]})
	}
	return m
}

func TestRow(t *testing.T) {
	filled := run(2, [2]int64{1000, 1100}, [2]int64{1000, 1300})
	filled.Filled = true
	unsure := run(1, [2]int64{99, 200}, [2]int64{99, 200})
	unsure.UncertaintyNS = 5
	for name, c := range map[string]struct {
		runs []*Measurement
		want float64
	}{
		"drift": {[]*Measurement{ // 100 and 200 a run: the first is through after 300, all after 600
			run(0, [2]int64{0, 100}, [2]int64{0, 200}), run(1, [2]int64{100, 200}, [2]int64{200, 400}),
			run(2, [2]int64{200, 300}, [2]int64{400, 600})}, 200},
		"drift, then buffers are filled": {[]*Measurement{
			run(0, [2]int64{0, 100}, [2]int64{0, 200}), run(1, [2]int64{100, 200}, [2]int64{200, 400}), filled}, 700. / 3},
		"meetings": {[]*Measurement{
			run(0, [2]int64{0, 100}, [2]int64{0, 200}), run(1, [2]int64{201, 301}, [2]int64{201, 401})}, math.NaN()},
		"meetings, clocks off": {[]*Measurement{run(0, [2]int64{0, 90}, [2]int64{0, 100}), unsure}, math.NaN()},
		"one initiator":        {[]*Measurement{run(0, [2]int64{0, 100}), run(1, [2]int64{100, 200})}, math.NaN()},
		"one run":              {[]*Measurement{run(0, [2]int64{0, 100}, [2]int64{0, 200})}, math.NaN()},
		"two at a time": {[]*Measurement{
			run(0, [2]int64{0, 100}, [2]int64{0, 100}), run(1, [2]int64{50, 150}, [2]int64{50, 150})}, math.NaN()},
		"pauses": {[]*Measurement{
			run(0, [2]int64{0, 100}, [2]int64{500, 600}), run(1, [2]int64{500, 600}, [2]int64{1000, 1100})}, math.NaN()},
		"none": {nil, math.NaN()},
	} {
		var r RunSeries
		for _, m := range c.runs {
			r.Add(m)
		}
		if got := r.PerRunNS(); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}
