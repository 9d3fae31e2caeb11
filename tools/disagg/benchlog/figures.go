package benchlog

import (
	"maps"
	"math"
	"strconv"
	"strings"

	"perigee/tools/laws"
)

// Figures returns what the log says of a level, to be held against the laws.
func (l Level) Figures() laws.Figures {
	f := laws.Unknown()
	for _, count := range []struct {
		from int
		to   *float64
	}{
		{l.Total, &f.Requests}, {l.Successful, &f.Completed}, {l.Failed, &f.Failed}, {l.Generated, &f.OutputTokens},
		{l.Input, &f.InputTokens}, {l.Retokenized, &f.Retokenized},
	} {
		if count.from >= 0 {
			*count.to = float64(count.from)
		}
	}
	for _, figure := range []struct {
		from float64
		to   *float64
	}{
		{float64(l.Concurrency), &f.Concurrency}, {l.Duration, &f.Duration}, {l.Throughput, &f.OutputRate},
		{l.RequestRate, &f.RequestRate}, {l.InputRate, &f.InputRate}, {l.TotalRate, &f.TotalRate},
		{l.AskedOutput, &f.AskedOutput},
	} {
		if figure.from > 0 {
			*figure.to = figure.from
		}
	}
	for _, quantity := range Quantities {
		if latency, known := l.latency(quantity); known {
			f.Latency[quantity] = latency
		}
	}
	if l.Client == AIPerf || l.Client == GenAIPerf { // the mean of each request, as others define TPOT
		if latency, known := f.Latency[laws.ITL]; known {
			f.Latency[laws.TPOT] = latency
		}
	}
	return f
}

// latency returns the figures of one quantity, and whether there is any. Metrics go first: a pattern may have found
// them.
func (l Level) latency(quantity string) (latency laws.Latency, known bool) {
	nan := math.NaN()
	latency = laws.Latency{Mean: nan, Min: nan, Max: nan, Percentiles: map[float64]float64{}}
	all := maps.Clone(l.Latency[quantity])
	if all == nil {
		all = map[string]float64{}
	}
	for _, stat := range []string{"mean", "p50", "p99"} {
		if value, ok := l.Metrics[metric(quantity, stat)]; ok {
			all[stat] = value
		}
	}
	for stat, value := range all {
		switch percent, err := strconv.ParseFloat(strings.TrimPrefix(stat, "p"), 64); {
		case stat == "mean":
			latency.Mean = value
		case stat == "min":
			latency.Min = value
		case stat == "max":
			latency.Max = value
		case err == nil:
			latency.Percentiles[percent] = value
		}
	}
	return latency, len(all) > 0
}
