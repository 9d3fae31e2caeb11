package history

import (
	"slices"
	"strings"
	"unicode"
)

// Direction says which values of a metric are good.
type Direction int

// The directions.
const (
	Unknown Direction = iota
	Lower             // times, failures
	Higher            // rates, scores
)

// Words that a metric's name holds between what is no letter or digit.
var (
	high = []string{"throughput", "goodput", "bandwidth", "bw", "accuracy", "score", "tps", "rps", "qps",
		"tflops", "mfu"}
	low = []string{"ttft", "tpot", "itl", "e2el", "e2e", "latency", "latencies", "time", "duration", "delay", "jitter",
		"ms", "us", "ns", "failed", "failures", "errors", "timeouts"}
	units = []string{"tok", "toks", "token", "tokens", "req", "reqs", "request", "requests", "sample", "samples",
		"mb", "mib", "gb", "gib"}
	spans = []string{"s", "sec", "second", "seconds"}
)

// DirectionOf returns what the name of a metric says: rates and scores are good when high, times and failures when low.
// Of a name that says both, or nothing, it is unknown.
func DirectionOf(metric string) Direction {
	words := strings.FieldsFunc(strings.ToLower(metric), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	rises, falls := false, false
	for i, word := range words {
		switch {
		case slices.Contains(high, word):
			rises = true
		case slices.Contains(low, word):
			falls = true
		case slices.Contains(spans, word) && i > 0 && (words[i-1] == "per" || slices.Contains(units, words[i-1])):
			rises = true
		case slices.Contains(spans, word):
			falls = true
		}
	}
	switch {
	case rises == falls:
		return Unknown
	case rises:
		return Higher
	}
	return Lower
}
