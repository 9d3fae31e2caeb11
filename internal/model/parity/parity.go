// Package parity compares the bytes of KV caches that engines say they have moved with those that a model keeps, to
// find out whether a disaggregated deployment moves its caches at all, once, or several times.
//
// Read (text.go) reads Prometheus' text from a file or an address. counters.go has the counters that are known, with
// whose bytes they count; count.go adds up by how much one rose between two readings. Judge says what that is of the
// bytes that are expected.
package parity

import (
	"fmt"
	"math"

	"perigee/internal/kit/size"
)

// Verdict names what the moved bytes are of those that the model keeps.
type Verdict string

// The verdicts.
const (
	Once    Verdict = "once"
	Copies  Verdict = "copies"  // a whole number of at least 2
	Nothing Verdict = "nothing" // not one byte
	Half    Verdict = "half"
	Unknown Verdict = "unknown" // any other factor
	None    Verdict = "none"    // nothing can be said
)

// tolerance is the part by which bytes may miss a verdict's.
const tolerance = 0.01

// Kept is what the model keeps of the requests.
type Kept struct {
	Bytes    int64 // once, of all requests
	Ranks    int64 // that a decode worker has for a request
	All      int64 // bytes that go to all these ranks, copies and all
	Requests int64
	DType    string // the precision in which that is counted
	Latents  bool   // whether every TP rank holds all of some layers' caches
	Heads    int64  // KV heads; 0: there are none, or of several numbers
}

// Result is what a comparison says. Without a verdict, Moved and Factor mean nothing.
type Result struct {
	Counter  Counter
	Moved    int64 // bytes
	Expected int64 // bytes
	Factor   float64
	Verdict  Verdict
	Answer   string   // in a few words
	Why      string   // a sentence
	Notes    []string // how it was counted, beyond that
}

// Judge compares what a counter counted, or without one the best that is known in the texts, with what the model keeps:
// more than 0 bytes. A text without the counter, and one with a value that cannot be, are errors of the kind Input.
func Judge(readings []Reading, metric *Counter, kept Kept) (*Result, error) {
	r, notes, err := choose(readings, metric)
	if err != nil {
		return nil, err
	}
	result := &Result{Counter: r.Counter, Expected: kept.Bytes, Verdict: None, Answer: "no verdict", Notes: notes}
	if result.Why, err = r.unsure(readings, kept); err != nil || result.Why != "" {
		return result, err
	}
	moved, more := r.bytes(float64(kept.Bytes))
	if moved >= 1<<63 {
		result.Why = "the counter is beyond all bytes that can have been moved"
		return result, nil
	}
	result.Notes = append(more, notes...)
	result.Moved, result.Factor = int64(math.Round(moved)), moved/float64(kept.Bytes)
	result.judge(kept)
	return result, nil
}

// unsure says why a counter cannot be gone by; empty: it can.
func (r *rise) unsure(readings []Reading, kept Kept) (string, error) {
	if r.anew != "" {
		return r.anew + ": the process was started anew, so take both texts from one run of it", nil
	}
	if r.ranks && r.gauge && (kept.Requests > 1 || readings[0].Before != nil) {
		return "a gauge of this name holds the last transfer alone, as in SGLang's versions of 2025: " +
			"send one request, and compare its tokens without --requests and --before", nil
	}
	if r.Source != nixl {
		return "", nil
	}
	events, err := dropped(readings)
	if err != nil || events == 0 {
		return "", err
	}
	return fmt.Sprintf("NIXL dropped %.0f telemetry events, so at least %s were moved: set NIXL_TELEMETRY_BUFFER_SIZE higher "+
		"(262144) and measure again", events, size.Decimal(r.sum*r.Unit)), nil
}

// judge finds the verdict of the factor.
func (r *Result) judge(kept Kept) {
	copies := math.Round(r.Factor)
	near := func(n float64) bool { return math.Abs(r.Factor-n) <= math.Min(tolerance*n, 0.1) }
	switch {
	case r.Moved == 0:
		r.Verdict, r.Answer = Nothing, "nothing moved"
		r.Why = "decode computes the prompts by itself, or the side that counts is missing here: look whether its requests " +
			"carry kv_transfer_params (vLLM) or bootstrap_host (SGLang)"
	case near(1):
		r.Verdict, r.Answer, r.Why = Once, "moved once", "the caches crossed as the model keeps them"
	case near(0.5):
		r.Verdict, r.Answer, r.Why = Half, "half", "there is no known reason"
		if sixteen(kept.DType) {
			r.Answer = fmt.Sprintf("half: fp8 instead of %s?", kept.DType)
			r.Why = "a cache in fp8 has half of these bytes: look for the engines' --kv-cache-dtype, and give the same here"
		}
	case copies >= 2 && near(copies):
		r.Verdict, r.Answer, r.Why = Copies, fmt.Sprintf("%.0f copies", copies), kept.copies(copies)
	case kept.All > kept.Bytes && math.Abs(float64(r.Moved)/float64(kept.All)-1) <= tolerance:
		r.Verdict, r.Answer = Copies, fmt.Sprintf("moved to all %d decode ranks", kept.Ranks)
		r.Why = fmt.Sprintf("each rank received all that it holds, together %.3g times the cache: copies of a part of it, and "+
			"shares of the rest", r.Factor)
	default:
		r.Verdict, r.Answer = Unknown, fmt.Sprintf("the factor %.3g; no known reason", r.Factor)
		r.Why = "what decode has of a prompt is not moved, and what others sent meanwhile is counted, too"
	}
}

// copies says why so many copies may have moved.
func (k Kept) copies(n float64) string {
	why := fmt.Sprintf("the caches were moved %.0f times", n)
	switch {
	case k.Latents:
		why = fmt.Sprintf("each of %.0f ranks that hold the latent vectors received them, or %s", n, why)
	case k.Heads > 0:
		why = fmt.Sprintf("%.0f ranks hold, and received, each KV head, as with TP %.0f and %d heads, or %s", n,
			n*float64(k.Heads), k.Heads, why)
	}
	switch {
	case n == 2 && !sixteen(k.DType):
		why += ", or they are in 16 bit"
	case sixteen(k.DType):
		why += fmt.Sprintf(", or %.0f times in fp8", 2*n)
	}
	return why
}

// sixteen reports whether a precision has 16 bits a value.
func sixteen(dtype string) bool { return dtype == "bf16" || dtype == "fp16" }
