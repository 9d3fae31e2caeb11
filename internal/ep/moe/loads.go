package moe

import (
	"bufio"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
)

// The limits of a file of loads.
const (
	maxLayers   = 1 << 12
	maxLineText = 64 << 20
	maxLoads    = 1 << 24 // in all layers
)

// ReadLoads reads the loads of experts: a line of numbers for each layer, separated by blanks or one comma; blank lines
// and what follows a # are left out. All layers have equally many experts. name stands for the text in errors, which
// are of kind Input and say line, wanted and got.
func ReadLoads(name string, r io.Reader) ([][]float64, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLineText)
	var layers [][]float64
	first, line := 0, 0
	for lines.Scan() {
		line++
		text := strings.TrimPrefix(lines.Text(), "\ufeff")
		text, _, _ = strings.Cut(text, "#")
		loads, err := parseLoads(text)
		switch {
		case err != nil:
			return nil, fault.New(fault.Input, "%s:%d: %w", name, line, err)
		case len(loads) == 0:
			continue
		case len(layers) == maxLayers:
			return nil, fault.New(fault.Input, "%s:%d: wanted at most %d layers, got more", name, line, maxLayers)
		case len(layers) > 0 && len(loads) != len(layers[0]):
			return nil, fault.New(fault.Input, "%s:%d: wanted %d loads, as in the first row (line %d), got %d",
				name, line, len(layers[0]), first, len(loads))
		case len(loads) > maxLoads-len(loads)*len(layers):
			return nil, fault.New(fault.Input, "%s:%d: wanted at most %d loads in all layers, got more", name, line, maxLoads)
		case len(layers) == 0:
			first = line
		}
		layers = append(layers, loads)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fault.New(fault.Input, "%s:%d: wanted a line of at most %d bytes, got more", name, line+1,
			maxLineText)
	} else if err != nil {
		return nil, fault.New(fault.Input, "%s: reading the loads: %w", name, err)
	}
	if len(layers) == 0 {
		return nil, fault.New(fault.Input, "%s: wanted a line of loads for each layer, got an empty text", name)
	}
	return layers, nil
}

// parseLoads reads the loads of one layer, separated by blanks or commas. Two commas in a row are a missing number,
// and an error, as all loads behind it would belong to the wrong expert.
func parseLoads(text string) ([]float64, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var words []string
	for part := range strings.SplitSeq(text, ",") {
		before := len(words)
		for word := range strings.FieldsSeq(part) {
			if words = append(words, word); len(words) > MaxExperts {
				return nil, errorf("wanted at most %d loads, got more", MaxExperts)
			}
		}
		if len(words) == before {
			return nil, errorf("load %d: wanted a number, got none before or after a comma", len(words)+1)
		}
	}
	loads := make([]float64, len(words))
	for i, word := range words {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil || !(v >= 0) || math.IsInf(v, 1) || v > mostLoad {
			return nil, errorf("load %d: wanted a number of 0 to %g, got %s", i+1, mostLoad, strconv.Quote(plaintext.Cut(word, 40)))
		}
		loads[i] = v
	}
	return loads, nil
}

// mostLoad keeps the sum of all loads finite.
const mostLoad = 1e18

func errorf(format string, args ...any) error { return fault.New(fault.Input, format, args...) }
