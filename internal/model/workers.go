package model

import (
	"fmt"
	"regexp"
	"strconv"

	"perigee/internal/kit/fault"
)

// maxRanks is how many ranks a side has at most. It keeps a typing error from filling the memory.
const maxRanks = 1 << 20

var workersForm = regexp.MustCompile(`^(?:([0-9]+)[xX])?[tT][pP]([0-9]+)$`)

// Workers are the workers of one side: N of TP ranks each, as in 4xTP8. See [ParseWorkers].
type Workers struct{ N, TP int }

// Ranks is how many ranks the side has.
func (w Workers) Ranks() int { return w.N * w.TP }

// ParseWorkers reads a number of workers of so many ranks: 4xTP8, or TP8 for one. Errors are of the kind Usage.
func ParseWorkers(text string) (Workers, error) {
	form := workersForm.FindStringSubmatch(text)
	if form == nil {
		return Workers{}, fault.New(fault.Usage, "wanted workers such as 4xTP8, which are 4 of 8 ranks each, got %q", text)
	}
	w := Workers{N: 1}
	var errN, errTP error
	if form[1] != "" {
		w.N, errN = strconv.Atoi(form[1])
	}
	w.TP, errTP = strconv.Atoi(form[2])
	switch {
	case errN != nil || errTP != nil || w.N > maxRanks || w.TP > maxRanks || w.Ranks() > maxRanks:
		return Workers{}, fault.New(fault.Usage, "wanted at most %d ranks, got %s", maxRanks, text)
	case w.Ranks() == 0:
		return Workers{}, fault.New(fault.Usage, "wanted at least one worker of one rank, got %s", text)
	}
	return w, nil
}

// String writes workers as [ParseWorkers] reads them.
func (w Workers) String() string { return fmt.Sprintf("%dxTP%d", w.N, w.TP) }

// UnmarshalText is [ParseWorkers].
func (w *Workers) UnmarshalText(text []byte) error {
	var err error
	*w, err = ParseWorkers(string(text))
	return err
}
