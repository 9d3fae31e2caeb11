// Package serving has what any client says of a run of a serving benchmark, [Run], and the laws between these figures. A
// benchmark that measured nothing gives itself away: a first token after 0 ms, more requests in flight than were allowed,
// tokens that no text holds. A law refuses what cannot be, never what is unusual, and its tolerance is wider than
// rounding and the ways in which clients count. The manual of `perigee disagg` lists all laws.
package serving

import (
	"math"
	"slices"
)

// The quantities of a latency, as clients name them.
const (
	TTFT = "TTFT" // time to first token
	TPOT = "TPOT" // time per output token after the first
	ITL  = "ITL"  // time between tokens
	E2EL = "E2EL" // time of a whole request
)

// quantities lists all of them in the order of reasons.
var quantities = []string{TTFT, TPOT, ITL, E2EL}

// Latency describes one quantity over all requests, in ms. NaN stands for a figure that is not given.
type Latency struct {
	Mean, Min, Max float64
	Percentiles    map[float64]float64 // by the percentage, such as 50 for the median
	Std            float64             // standard deviation; 0 stands for one that is not given, too
}

// Run holds what a client says of one run or one level. NaN stands for a figure that it did not give.
type Run struct {
	Concurrency float64 // bound of requests at the same time
	InFlight    float64 // mean number of requests at the same time
	Peak        float64 // most requests at the same time

	Requests, Completed, Failed float64 // counts
	Duration                    float64 // seconds

	InputTokens, OutputTokens float64 // counts over all completed requests
	Retokenized               float64 // output tokens, counted from the text that came back
	AskedOutput               float64 // output tokens that one request asks for; the mean, where lengths are spread
	LongestOutput             float64 // output tokens that no request may exceed

	RequestRate, InputRate, OutputRate, TotalRate float64 // per second

	Latency map[string]Latency // by quantity

	// Closed says that the client is known to begin a request as soon as another one ends, and at no other time:
	// nothing but the concurrency bounds it, no rate, ramp, schedule or pause.
	Closed bool
	// SameLength says that all answers are known to have the same number of tokens. That their mean is a whole number
	// proves nothing.
	SameLength bool
	// Exact says that the client has divided the output tokens by the duration that it gives, so that a throughput
	// that is too low contradicts them, too.
	Exact bool
	// NoNumbers are figures that are given as NaN or infinite.
	NoNumbers []NoNumber
	// Streamed says that the client has asked for answers token by token, so that only short ones come in one piece.
	Streamed bool
	// Unstreamed says that answers come whole: there is no first token, and nothing between tokens.
	Unstreamed bool
	// Source names what the figures stand in, for sentences: "log" unless it says another.
	Source string
}

// NoNumber is a figure that a client gives as NaN or infinite.
type NoNumber struct {
	Quantity string // of a latency, or another name for figures of a kind
	Name     string // such as "p99_ttft_ms"
	Value    string // such as "NaN"
}

// Unknown returns figures of which none is given.
func Unknown() Run {
	nan := math.NaN()
	return Run{
		Concurrency: nan, InFlight: nan, Peak: nan,
		Requests: nan, Completed: nan, Failed: nan, Duration: nan, InputTokens: nan,
		OutputTokens: nan, Retokenized: nan, AskedOutput: nan, LongestOutput: nan, RequestRate: nan, InputRate: nan,
		OutputRate: nan, TotalRate: nan, Latency: map[string]Latency{}, Source: "log",
	}
}

// Violation names a law that figures break, and says how in a sentence.
type Violation struct {
	Law  string // such as "little"
	Text string // such as "32 requests of 7911 ms in 61.25 s keep 4.13 in flight, more than the concurrency of 2 (Little's law)"
}

// The laws, by their names. Each gives one violation for a quantity or a rate, however many figures break it.
const (
	Number   = "number"   // figures of completed requests are numbers
	Sign     = "sign"     // nothing is below 0
	Zero     = "zero"     // what takes time does not take 0
	Order    = "order"    // percentiles ascend, and the mean lies where they allow
	First    = "first"    // E2EL is no less than TTFT
	Counts   = "counts"   // no more completed and failed requests than requests
	Rate     = "rate"     // throughputs follow from counts and duration
	Span     = "span"     // no request takes longer than the benchmark
	Little   = "little"   // requests in flight keep the concurrency
	Idle     = "idle"     // a closed loop takes no longer than its requests
	Tokens   = "tokens"   // an answer has a token, and of one token E2EL is TTFT
	Parts    = "parts"    // TTFT + (OSL - 1) * TPOT is E2EL
	Longer   = "longer"   // a token takes no longer than its request
	Between  = "between"  // the time between tokens adds up to what follows the first one
	Returned = "returned" // the text that came back holds the tokens that were counted
)

// Check returns the laws that figures break, in a fixed order. It refuses the impossible, not the unusual. Figures
// that are no finite numbers are taken as not given, but for NoNumbers.
func (f Run) Check() []Violation {
	c := f.checker()
	c.signs()
	c.counts()
	for _, q := range quantities {
		c.order(q)
	}
	if c.Completed != 0 { // of no request, nothing takes time
		c.numbers()
		c.zeros()
		c.firstToken()
		before := len(c.found)
		c.rates()
		believed := len(c.found) == before // the duration
		c.span()
		c.little()
		if believed {
			c.idle()
		}
		before = len(c.found)
		for _, law := range []func(){c.tokens, c.parts, c.longer, c.between} { // of tokens; one cause, one reason
			if law(); len(c.found) > before {
				break
			}
		}
		c.returned()
	}
	return c.found
}

// Unusual returns what is possible and seldom, and is worth a warning where the figures keep the same law.
func (f Run) Unusual() []Violation {
	c := f.checker()
	if c.rates(); len(c.found) == 0 { // the duration is believed
		c.mostlyIdle()
	}
	c.found = slices.DeleteFunc(c.found, func(v Violation) bool { return v.Law == Rate })
	c.partlyReturned()
	return c.found
}

// checker returns the figures with what follows from them.
func (f Run) checker() *checker {
	if !given(f.Completed) {
		f.Completed = f.Requests
		if f.Failed > 0 {
			f.Completed -= f.Failed
		}
	}
	latency := map[string]Latency{}
	for _, q := range quantities {
		l, ok := f.Latency[q]
		if !ok {
			l = noLatency
		}
		latency[q] = l
	}
	f.Latency = latency
	return &checker{Run: f, ms: f.roundingMS(), rate: f.roundingRate(), osl: f.OutputTokens / f.Completed}
}
