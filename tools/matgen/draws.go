package matgen

import (
	"bufio"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/trace"
)

// Draw is the length of a request before it is rounded and clipped.
type Draw struct {
	Tokens       float64
	OutputTokens int64   // of a trace, otherwise 0
	ArrivalSec   float64 // of a trace, since its first request; otherwise 0
}

// WorkRequest is a request of the workload.
type WorkRequest struct {
	Tokens       int64 // of input
	OutputTokens int64 // of a trace, otherwise 0
	ArrivalSec   float64
}

// clipped counts the draws outside the bounds.
type clipped struct{ below, above int }

// sample draws the lengths of n requests from a normal distribution.
//
// The generator is PCG-DXSM (math/rand/v2), seeded with the seed and 0. Each
// draw takes two 64-bit numbers a and b, of which the upper 53 bits count, and
// is mean + scale * sqrt(-2 ln u) * cos(2 pi v) with u = (a+1) / 2^53 and
// v = b / 2^53 (Box and Muller, the cosine half). So a seed gives the same
// requests for ever, and the first of them do not depend on n.
func sample(n int, mean, scale float64, seed uint64) []Draw {
	source := rand.NewPCG(seed, 0)
	draws := make([]Draw, n)
	for i := range draws {
		u := float64(source.Uint64()>>11+1) / (1 << 53)
		v := float64(source.Uint64()>>11) / (1 << 53)
		normal := math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
		// the conversion keeps the result from being fused, which would differ between machines
		draws[i].Tokens = mean + float64(scale*normal)
	}
	return draws
}

// clip makes requests of draws: truncated toward zero, then not below least,
// then not above most.
func clip(draws []Draw, least, most int64) ([]WorkRequest, clipped) {
	requests := make([]WorkRequest, len(draws))
	var n clipped
	for i, d := range draws {
		tokens := truncate(d.Tokens)
		if tokens < least {
			n.below++
		}
		if tokens > most {
			n.above++
		}
		requests[i] = WorkRequest{Tokens: min(max(least, tokens), most), OutputTokens: d.OutputTokens,
			ArrivalSec: d.ArrivalSec}
	}
	return requests, n
}

// truncate rounds toward zero. Numbers beyond any bound stay beyond it.
func truncate(x float64) int64 {
	const far = 1 << 62
	return int64(min(max(x, -far), far))
}

// maxListLine is how long a line of a list of lengths may be.
const maxListLine = 1 << 10

// LoadISLList reads draws from a file with one number a line. Blank lines and lines that begin with # count for
// nothing. A line that holds no number is an error of the kind Input, with file and line.
func LoadISLList(path string) ([]Draw, error) {
	f, err := file.Open(path)
	if err != nil {
		return nil, fault.New(fault.Input, "%w", err)
	}
	defer f.Close()
	return readISLList(path, f)
}

// LoadTrace reads the requests of a serving trace, and what was understood of it. unit is that of --trace-unit. The
// blocks of the prompts are not used: nothing here models a prefix cache, so every prompt is prefilled and moved as a
// whole.
func LoadTrace(path, unit string) ([]Draw, *trace.Summary, error) {
	t, err := trace.Load(path, trace.Options{Unit: unit})
	if err != nil {
		return nil, nil, err
	}
	draws := make([]Draw, len(t.Requests))
	for i, r := range t.Requests {
		draws[i] = Draw{Tokens: float64(r.Input), OutputTokens: r.Output, ArrivalSec: r.At.Seconds()}
	}
	understood := t.Summary // a pointer into t would keep its requests
	return draws, &understood, nil
}

// readISLList reads lengths of requests in tokens, one a line; blank lines and lines that begin with # count for
// nothing.
func readISLList(name string, r io.Reader) ([]Draw, error) {
	var draws []Draw
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxListLine)
	n := 1
	for ; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fault.New(fault.Input, "%s:%d: wanted a number of tokens, got %q", name, n, text)
		}
		draws = append(draws, Draw{Tokens: x})
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fault.New(fault.Input, "%s:%d: wanted a line of at most %d characters, got a longer one", name, n,
			maxListLine)
	} else if err != nil {
		return nil, fault.New(fault.Input, "%s: %w", name, err)
	}
	if len(draws) == 0 {
		return nil, fault.New(fault.Input, "%s: wanted a request a line, got none", name)
	}
	return draws, nil
}
