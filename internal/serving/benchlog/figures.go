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

// place returns where a field of a level is, a count or another value; nil for nothing.
func (l *Level) place(field string) (count, value *float64) {
	counts := map[string]*float64{
		total: &l.Requests, successful: &l.Completed, failed: &l.Failed, generated: &l.OutputTokens,
		retokenized: &l.Retokenized, input: &l.InputTokens, bounded: &l.Run.Concurrency, asked: &l.asked,
	}
	values := map[string]*float64{
		duration: &l.Duration, meanInput: &l.meanInput, meanOutput: &l.meanOutput, outputRate: &l.OutputRate,
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
	case count != nil && (x != math.Trunc(x) || x < 0 || x > mostCount):
		return wantedWhole
	case field == bounded:
		l.Concurrency = int(x)
	case count != nil:
		*count = x
	case field == duration && known:
		*value = x * factor / 1e3
	default:
		*value = x
	}
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
	if math.IsNaN(l.Requests) && l.asked > 0 && // SGLang's may make several of a prompt
		(l.Client == VLLM || l.asked >= Or(l.Completed, -1)+Or(l.Failed, 0)) {
		l.Requests = l.asked
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
		l.OutputRate, l.TotalRate, l.totalIsOutput = l.TotalRate, math.NaN(), false
	}
	if l.meanOutput > 0 {
		l.OutputTokens = Or(l.OutputTokens, math.Round(l.meanOutput*l.Completed))
	}
	if l.meanInput > 0 {
		l.InputTokens = Or(l.InputTokens, math.Round(l.meanInput*l.Completed))
	}
}

// Figures returns what the log says of a level, to be held against the laws.
func (l Level) Figures() serving.Run {
	f := l.Run
	f.Latency = map[string]serving.Latency{}
	f.Concurrency = float64(l.Concurrency)
	for _, figure := range []*float64{&f.Concurrency, &f.InFlight, &f.Peak, &f.AskedOutput, &f.LongestOutput} {
		if *figure == 0 { // which says nothing
			*figure = math.NaN()
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
	f.Streamed = l.Client != "" && l.Client != SGLang
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
	latency = serving.NoLatency()
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
