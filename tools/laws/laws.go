// Package laws checks the figures of a serving benchmark against each other.
package laws

import "math"

// The quantities of a latency, as clients name them.
const (
	TTFT = "TTFT" // time to first token
	TPOT = "TPOT" // time per output token after the first
	ITL  = "ITL"  // time between tokens
	E2EL = "E2EL" // time of a whole request
)

// Latency describes one quantity over all requests, in ms. NaN stands for a figure that nobody gave.
type Latency struct {
	Mean, Min, Max float64
	Percentiles    map[float64]float64 // by the percentage, such as 50 for the median
}

// Figures holds what a client says of one run or one level. NaN stands for a figure that it did not give.
type Figures struct {
	Concurrency float64 // bound of requests at the same time

	Requests, Completed, Failed float64 // counts
	Duration                    float64 // seconds

	InputTokens, OutputTokens float64 // counts over all completed requests
	Retokenized               float64 // output tokens, counted from the text that came back
	AskedOutput               float64 // output tokens that one request asks for; the mean, where lengths are spread

	RequestRate, InputRate, OutputRate, TotalRate float64 // per second

	Latency map[string]Latency // by quantity
}

// Unknown returns figures of which none is given.
func Unknown() Figures {
	nan := math.NaN()
	return Figures{nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, map[string]Latency{}}
}

// Violation names a law that figures break, and says how in a sentence.
type Violation struct {
	Law  string // such as "little"
	Text string // such as "32 requests of 7911 ms in 61.25 s keep 4.13 in flight, more than the concurrency of 2 (Little's law)"
}

// Check returns the laws that figures break, in a fixed order. It refuses the impossible, not the unusual.
func (f Figures) Check() []Violation { return nil }
