package runs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"perigee/internal/serving"
)

// Doubts says which runs are kept off a Pareto front, on which one that measured nothing would often be alone.
type Doubts struct {
	MaxFailed        float64 `name:"max-failed" type:"number" min:"0" max:"100" default:"0" placeholder:"PERCENT" help:"How many percent of a run's requests may have failed; the Pareto front has no run with more [0]."`
	AllowImplausible bool    `name:"allow-implausible" help:"Runs whose figures contradict each other, or took no time, may be on the Pareto front."`
}

// Mark notes in OffFront why runs are kept off a Pareto front. Results of perigee are on none.
func (d Doubts) Mark(all []*Record) {
	for _, r := range all {
		if r.Transfer {
			continue
		}
		answered, sent := r.Answered(), r.sent()
		switch share := 100 * r.Failed / sent; {
		case answered <= 0:
			r.OffFront = append(r.OffFront, "no request was answered")
		case share > d.MaxFailed:
			r.Relaxed = append(r.Relaxed, "--max-failed")
			r.OffFront = append(r.OffFront,
				fmt.Sprintf("%g of %g requests failed (%.4g %%), more than %g %%", r.Failed, sent, share, d.MaxFailed))
		}
		if !d.AllowImplausible {
			broken := r.held().Check()
			for _, v := range broken {
				r.OffFront = append(r.OffFront, v.Text)
			}
			if len(broken) > 0 {
				r.Relaxed = append(r.Relaxed, "--allow-implausible")
			}
		}
	}
}

// countsAnswered are the load generators whose requests.total counts only requests that were answered.
var countsAnswered = []string{"aiperf"}

// Answered is how many requests were answered: requests.total without those that failed or were not finished.
func (r *Record) Answered() float64 {
	if !math.IsNaN(r.Completed) {
		return r.Completed
	}
	if slices.Contains(countsAnswered, r.Harness) {
		return r.Requests
	}
	return r.Requests - known0(r.Failed) - known0(r.Unended)
}

// sent is how many requests there were.
func (r *Record) sent() float64 {
	if slices.Contains(countsAnswered, r.Harness) {
		return r.Requests + known0(r.Failed)
	}
	return r.Requests
}

// known0 is x, 0 if it is unknown.
func known0(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// held are the figures that the laws are held against. Not every duration is that of the requests: inference-perf
// gives that of sending, GuideLLM may leave out a warm-up, and 0.2 has that of the whole harness, but of InferenceMAX.
// TPOT is the time per token after the first only with vLLM's benchmark and InferenceMAX; others count the first one,
// or chunks.
func (r *Record) held() serving.Run {
	f := r.Run
	if r.ofClient() {
		return f
	}
	f.Requests, f.Completed, f.Latency = r.sent(), r.Answered(), maps.Clone(r.Latency)
	vllm := r.Harness == "vllm-benchmark" || r.Harness == "inferencemax"
	if !(r.Schema == "0.1" && (vllm || r.Harness == "aiperf") || r.Harness == "inferencemax") {
		f.Duration = math.NaN()
	}
	f.InputTokens, f.OutputTokens = f.Completed*r.InputLength, f.Completed*r.OutputLength
	delete(f.Latency, latencyNames[NTPOT])
	if !vllm {
		delete(f.Latency, serving.TPOT)
	}
	if r.Harness == "aiperf" { // the mean of each request, as others define TPOT
		f.Latency[serving.TPOT] = f.Latency[serving.ITL]
		delete(f.Latency, serving.ITL)
	}
	return f
}

// whyOff is the first reason for which a run is kept off a Pareto front, and how many more there are.
func (r *Record) whyOff() string {
	switch n := len(r.OffFront); n {
	case 0, 1:
		return strings.Join(r.OffFront, "")
	default:
		return fmt.Sprintf("%s (and %d more)", r.OffFront[0], n-1)
	}
}
