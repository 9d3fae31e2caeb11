package benchlog

import (
	"maps"
	"math"
	"strconv"
	"strings"

	"perigee/internal/kit/lazyre"
	"perigee/internal/serving"
)

// The fields of a level that are no latencies, by the names that readers of texts and of JSON have for them.
const (
	total, successful, failed     = "total", "successful", "failed"
	generated, retokenized, input = "generated", "retokenized", "input"
	bounded, asked                = "concurrency", "asked"
	inFlight, peak                = "in flight", "peak"

	duration, meanInput, meanOutput               = "duration", "mean input", "mean output"
	outputRate, requestRate, inputRate, totalRate = "rate", "request rate", "input rate", "total rate"
)

// place returns where a field of a level is: a count, another value, or nothing.
func (l *Level) place(field string) (count *int, value *float64) {
	counts := map[string]*int{
		total: &l.Total, successful: &l.Successful, failed: &l.Failed, generated: &l.Generated,
		retokenized: &l.Retokenized, input: &l.Input, bounded: &l.Concurrency, asked: &l.asked,
	}
	values := map[string]*float64{
		duration: &l.Duration, meanInput: &l.meanInput, meanOutput: &l.meanOutput, outputRate: &l.Throughput,
		inFlight: &l.InFlight, peak: &l.Peak,
		requestRate: &l.RequestRate, inputRate: &l.InputRate, totalRate: &l.TotalRate,
	}
	return counts[field], values[field]
}

// put gives a level a figure, and returns what was wanted if it cannot be that. The unit is that of a duration.
func (l *Level) put(field string, x float64, unit string) (wanted string) {
	count, value := l.place(field)
	factor, known := units[unit]
	switch {
	case count != nil && (x != math.Trunc(x) || x < 0 || x > 1e15):
		return wantedWhole
	case count != nil:
		*count = int(x)
		return ""
	case field == duration && known:
		*value = x * factor / 1e3
	default:
		*value = x
	}
	l.zero[field] = *value == 0
	return ""
}

const wantedWhole = "a whole number"

// units are factors to ms.
var units = map[string]float64{"ms": 1, "s": 1e3, "sec": 1e3, "seconds": 1e3, "us": 1e-3, "µs": 1e-3, "ns": 1e-6}

// statistics are the names of statistics that clients have others for.
var statistics = map[string]string{
	"median": "p50", "avg": "mean", "average": "mean", "minimum": "min", "maximum": "max", "std dev": "std",
}

// percentile matches the name of a percentile.
var percentile = lazyre.New(`^p[0-9]{1,2}(\.[0-9]+)?$|^p100$`)

// statistic returns the name of a statistic, "" for a word that is none.
func statistic(word string) string {
	word = strings.ToLower(word)
	if name, ok := statistics[word]; ok {
		word = name
	}
	switch {
	case word == "mean" || word == "min" || word == "max" || word == "std" || percentile.MatchString(word):
		return word
	}
	return ""
}

// metric returns the metric of a statistic and a quantity, "" for one that is no metric.
func metric(quantity, stat string) string {
	word, ok := map[string]string{"mean": "Mean", "p50": "Median", "p99": "P99"}[stat]
	if !ok {
		return ""
	}
	return Name(word, quantity)
}

// set gives a level a latency.
func (l *Level) set(quantity, stat string, ms float64) {
	if name := metric(quantity, stat); name != "" {
		l.Metrics[name] = ms
	}
	if l.Latency[quantity] == nil {
		l.Latency[quantity] = map[string]float64{}
	}
	l.Latency[quantity][stat] = ms
}

// unstreamed is the TTFT in ms of answers that TensorRT-LLM's client has asked for as a whole (--non-streaming): it
// counts -1 s as the time to the first token, and TPOT from then on.
const unstreamed = -1000

// derive completes a block by what follows from its figures.
func (l *Level) derive() {
	if l.Total < 0 && l.asked > 0 && // SGLang's may make several of a prompt
		(l.Client == VLLM || l.asked >= l.Successful+max(0, l.Failed)) {
		l.Total = l.asked
	}
	if ttft := l.Latency["TTFT"]; l.Client == TRTLLM && ttft["mean"] == unstreamed && ttft["p50"] == unstreamed {
		l.Unstreamed = true
		for _, quantity := range []string{"TTFT", "TPOT", "ITL"} {
			delete(l.Latency, quantity)
			for _, s := range Statistics {
				delete(l.Metrics, Name(s, quantity))
			}
		}
	}
	if l.totalIsOutput {
		l.Throughput, l.TotalRate, l.totalIsOutput = l.TotalRate, 0, false
	}
	if l.Successful < 0 {
		return
	}
	if l.Generated < 0 && l.meanOutput > 0 {
		l.Generated = int(math.Round(l.meanOutput * float64(l.Successful)))
	}
	if l.Input < 0 && l.meanInput > 0 {
		l.Input = int(math.Round(l.meanInput * float64(l.Successful)))
	}
}

// Figures returns what the log says of a level, to be held against the laws.
func (l Level) Figures() serving.Run {
	f := serving.Unknown()
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
		{l.AskedOutput, &f.AskedOutput}, {l.LongestOutput, &f.LongestOutput},
		{l.InFlight, &f.InFlight}, {l.Peak, &f.Peak},
	} {
		if figure.from != 0 {
			*figure.to = figure.from
		}
	}
	for field, to := range map[string]*float64{
		duration: &f.Duration, outputRate: &f.OutputRate, requestRate: &f.RequestRate, inputRate: &f.InputRate,
		totalRate: &f.TotalRate,
	} {
		if l.zero[field] {
			*to = 0
		}
	}
	if l.PerGPU { // of how many is not known
		f.OutputRate, f.InputRate, f.TotalRate = math.NaN(), math.NaN(), math.NaN()
	}
	for _, quantity := range Quantities {
		if latency, known := l.latency(quantity); known {
			f.Latency[quantity] = latency
		}
	}
	f.NoNumbers, f.Streamed, f.Unstreamed = l.NoNumbers, l.Client != "" && l.Client != SGLang, l.Unstreamed
	f.Closed, f.SameLength = l.Closed, l.SameLength
	if l.Client == AIPerf || l.Client == GenAIPerf || l.Client == TRTLLMBench { // TPOT of others
		if latency, known := f.Latency[serving.ITL]; known {
			f.Latency[serving.TPOT] = latency
			delete(f.Latency, serving.ITL)
		}
	}
	return f
}

// latency returns the figures of one quantity, and whether there is any. Metrics go first: a pattern may have found
// them.
func (l Level) latency(quantity string) (latency serving.Latency, known bool) {
	nan := math.NaN()
	latency = serving.Latency{Mean: nan, Min: nan, Max: nan, Percentiles: map[float64]float64{}, Std: nan}
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
		case stat == "std":
			latency.Std = value
		case err == nil:
			latency.Percentiles[percent] = value
		}
	}
	return latency, len(all) > 0
}
