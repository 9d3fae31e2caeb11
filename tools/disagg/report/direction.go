package report

import (
	"slices"
	"strings"
	"unicode"
)

// Direction says which values of a metric are good, in the words of results and of --better.
type Direction string

// The directions.
const (
	Unknown Direction = ""
	Lower   Direction = "lower"  // times, failures
	Higher  Direction = "higher" // rates, scores
)

// Words that a metric's name holds between what is no letter or digit.
var (
	high = []string{"throughput", "goodput", "bandwidth", "bw", "accuracy", "score", "tps", "rps", "qps",
		"tflops", "mfu"}
	low = []string{"ttft", "tpot", "itl", "e2el", "e2e", "latency", "latencies", "time", "duration", "delay", "jitter",
		"elapsed", "failed", "failures", "errors", "timeouts"}
	// shares make another thing of what is good when low: a part of the requests that met a limit on TTFT.
	shares = []string{"rate", "ratio", "share", "attainment", "attained", "slo", "met", "pct", "percent", "success",
		"successful", "hit", "hits"}
	units = []string{"tok", "toks", "ktok", "token", "tokens", "req", "reqs", "request", "requests", "sample",
		"samples", "prompts", "images", "calls", "iter", "iters", "steps", "messages", "ops", "tflop", "kb", "kib",
		"mb", "mib", "gb", "gib", "mbit", "gbit"}
	works   = []string{"start", "startup", "setup", "load", "warmup", "run", "wait"} // which take time
	seconds = []string{"s", "sec", "second", "seconds"}
	parts   = []string{"ms", "us", "ns"} // of a second
)

// DirectionOf returns what the name of a metric says: rates and scores are good when high, times and failures when low.
// Of a name that says both, or nothing for sure, it is unknown: "s" alone may be a rate of anything.
func DirectionOf(metric string) Direction {
	words := strings.FieldsFunc(strings.ToLower(metric), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	rises, falls, share := false, false, false
	per, counted := false, false // words before this one
	for i, word := range words {
		short := slices.Contains(parts, word)
		switch span := short || slices.Contains(seconds, word); {
		case slices.Contains(high, word):
			rises = true
		case slices.Contains(low, word):
			falls = true
		case slices.Contains(shares, word):
			share = true
		case span && i > 0 && (words[i-1] == "per" || per && counted):
			rises = true // tokens per s, tokens per GPU and s
		case span && i > 0 && !per && slices.Contains(units, words[i-1]):
			rises = rises || !short // tokens/s; tokens_ms says nothing
		case short || span && (len(words) == 1 || i > 0 && slices.Contains(works, words[i-1])):
			falls = true
		}
		per = per || word == "per"
		counted = counted || !per && slices.Contains(units, word)
	}
	if share {
		falls = false
	}
	switch {
	case rises == falls:
		return Unknown
	case rises:
		return Higher
	}
	return Lower
}
