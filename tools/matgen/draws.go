package matgen

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strconv"

	"perigee/internal/fault"
	"perigee/internal/regular"
)

// Draw is the length of a request before it is rounded and clipped.
type Draw struct {
	Tokens       float64
	OutputTokens int64   // of a trace, otherwise 0
	ArrivalSec   float64 // of a trace, since its first request; otherwise 0
}

// Request is a request of the workload.
type Request struct {
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
func clip(draws []Draw, least, most int64) ([]Request, clipped) {
	requests := make([]Request, len(draws))
	var n clipped
	for i, d := range draws {
		tokens := truncate(d.Tokens)
		if tokens < least {
			n.below++
		}
		if tokens > most {
			n.above++
		}
		requests[i] = Request{Tokens: min(max(least, tokens), most), OutputTokens: d.OutputTokens,
			ArrivalSec: d.ArrivalSec}
	}
	return requests, n
}

// truncate rounds toward zero. Numbers beyond any bound stay beyond it.
func truncate(x float64) int64 {
	const far = 1 << 62
	return int64(min(max(x, -far), far))
}

// The longest lines of the files below.
const (
	maxListLine  = 1 << 10
	maxTraceLine = 16 << 20 // hash_ids of a long request
)

// LoadISLList reads draws from a file with one number a line. Blank lines and
// lines that begin with # count for nothing.
func LoadISLList(path string) ([]Draw, error) {
	return loadLines(path, readISLList)
}

// LoadTrace reads the requests of a serving trace: a JSON object a line with
// timestamp (milliseconds, never falling), input_length (tokens) and, if
// known, output_length (tokens) and hash_ids. Other keys count for nothing.
// hash_ids, the blocks of the prompt, are checked but not used: nothing here
// models a prefix cache, so every prompt is prefilled and moved as a whole.
func LoadTrace(path string) ([]Draw, error) {
	return loadLines(path, readTrace)
}

func loadLines(path string, read func(name string, r io.Reader) ([]Draw, error)) ([]Draw, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fault.New(fault.Input, "%w", err)
	}
	defer f.Close()
	return read(path, f)
}

func readISLList(name string, r io.Reader) ([]Draw, error) {
	return readLines(name, r, maxListLine, func(text []byte) (Draw, error) {
		x, err := strconv.ParseFloat(string(text), 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return Draw{}, fault.New(fault.Input, "wanted a number of tokens, got %q", text)
		}
		return Draw{Tokens: x}, nil
	})
}

// traceLine is a line of a trace. A nil pointer is a missing field.
type traceLine struct {
	Timestamp    *float64 `json:"timestamp"`
	InputLength  *float64 `json:"input_length"`
	OutputLength *int64   `json:"output_length"`
	HashIDs      []int64  `json:"hash_ids"`
}

func readTrace(name string, r io.Reader) ([]Draw, error) {
	var first, last float64
	begun := false
	return readLines(name, r, maxTraceLine, func(text []byte) (Draw, error) {
		l, err := parseTraceLine(text)
		if err != nil {
			return Draw{}, err
		}
		if !begun {
			first, last, begun = *l.Timestamp, *l.Timestamp, true
		}
		if *l.Timestamp < last {
			return Draw{}, fault.New(fault.Input, "timestamp: wanted at least %v, that of the line before, got %v",
				last, *l.Timestamp)
		}
		last = *l.Timestamp
		d := Draw{Tokens: *l.InputLength, ArrivalSec: (last - first) / 1000}
		if l.OutputLength != nil {
			d.OutputTokens = *l.OutputLength
		}
		return d, nil
	})
}

func parseTraceLine(text []byte) (*traceLine, error) {
	var l traceLine
	if err := json.Unmarshal(text, &l); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
			return nil, fault.New(fault.Input,
				"%s: wanted a number that fits (hash_ids: a list of them), got a JSON %s", e.Field, e.Value)
		}
		return nil, fault.New(fault.Input, "wanted a JSON object: %w", err)
	}
	const most = 1 << 53 // milliseconds: what comes later has no exact number
	switch {
	case l.Timestamp == nil:
		return nil, fault.New(fault.Input, "the key timestamp is missing")
	case math.Abs(*l.Timestamp) > most:
		return nil, fault.New(fault.Input, "timestamp: wanted milliseconds up to 2^53, got %v", *l.Timestamp)
	case l.InputLength == nil:
		return nil, fault.New(fault.Input, "the key input_length is missing")
	case *l.InputLength < 0:
		return nil, fault.New(fault.Input, "input_length: wanted at least 0, got %v", *l.InputLength)
	case l.OutputLength != nil && (*l.OutputLength < 0 || *l.OutputLength > maxTokens):
		return nil, fault.New(fault.Input, "output_length: wanted 0 to %d, got %d", int64(maxTokens), *l.OutputLength)
	}
	return &l, nil
}

// readLines makes a draw of every line that is not blank and no comment, and
// says in every error which line it was.
func readLines(name string, r io.Reader, longest int, parse func(text []byte) (Draw, error)) ([]Draw, error) {
	var draws []Draw
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, min(longest, 1<<16)), longest)
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		if len(draws) == maxRequests {
			return nil, fault.New(fault.Input, "%s:%d: wanted at most %d requests, got more", name, n, maxRequests)
		}
		d, err := parse(text)
		if err != nil {
			return nil, fault.New(fault.Input, "%s:%d: %w", name, n, err)
		}
		draws = append(draws, d)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fault.New(fault.Input, "%s:%d: wanted a line of at most %d characters, got a longer one", name, n+1,
			longest)
	} else if err != nil {
		return nil, fault.New(fault.Input, "%s: %w", name, err)
	}
	if len(draws) == 0 {
		return nil, fault.New(fault.Input, "%s: wanted a request a line, got none", name)
	}
	return draws, nil
}
