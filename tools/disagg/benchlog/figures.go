package benchlog

import (
	"math"

	"perigee/tools/laws"
)

// Figures returns what the log says of a level, to be held against the laws.
func (l Level) Figures() laws.Figures {
	f := laws.Unknown()
	f.Concurrency = float64(l.Concurrency)
	for _, count := range []struct {
		from int
		to   *float64
	}{{l.Total, &f.Requests}, {l.Successful, &f.Completed}, {l.Failed, &f.Failed}, {l.Generated, &f.OutputTokens}} {
		if count.from >= 0 {
			*count.to = float64(count.from)
		}
	}
	if l.Duration > 0 {
		f.Duration = l.Duration
	}
	if l.Throughput > 0 {
		f.OutputRate = l.Throughput
	}
	for _, quantity := range Quantities {
		if latency, known := l.latency(quantity); known {
			f.Latency[quantity] = latency
		}
	}
	return f
}

// latency returns the figures of one quantity, and whether there is any.
func (l Level) latency(quantity string) (latency laws.Latency, known bool) {
	nan := math.NaN()
	latency = laws.Latency{Mean: nan, Min: nan, Max: nan, Percentiles: map[float64]float64{}}
	if mean, ok := l.Metrics[Name("Mean", quantity)]; ok {
		latency.Mean, known = mean, true
	}
	for statistic, percent := range map[string]float64{"Median": 50, "P99": 99} {
		if value, ok := l.Metrics[Name(statistic, quantity)]; ok {
			latency.Percentiles[percent], known = value, true
		}
	}
	return latency, known
}
