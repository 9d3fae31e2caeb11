// Package slo holds service level objectives: bounds on columns that a run must
// keep, such as P90_TTFT_ms <= 500.
package slo

import (
	"math"
	"strconv"
	"strings"

	"perigee/internal/fault"
	"perigee/tools/sweep/runs"
)

// SLO is a bound on a column.
type SLO struct {
	Column *runs.Column
	Op     string // one of <= < >= >
	Limit  float64
}

// Parse reads COLUMN OP NUMBER. Errors are of the kind Usage.
func Parse(text string) (SLO, error) {
	wrong := func(format string, args ...any) (SLO, error) {
		return SLO{}, fault.New(fault.Usage, "SLO %q: "+format, append([]any{text}, args...)...).
			WithHint("for example: --slo 'P90_TTFT_ms<=500'")
	}
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return wrong("wanted a column, one of <= < >= >, and a number")
	}
	op, rest := text[at:at+1], text[at+1:]
	if after, ok := strings.CutPrefix(rest, "="); ok {
		op, rest = op+"=", after
	}
	column, err := runs.FindNumber(strings.TrimSpace(text[:at]))
	if err != nil {
		return wrong("%w", err)
	}
	limit, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
	if err != nil || math.IsNaN(limit) || math.IsInf(limit, 0) {
		return wrong("wanted a number after %s, got %q", op, strings.TrimSpace(rest))
	}
	return SLO{column, op, limit}, nil
}

// ParseAll reads a list of them.
func ParseAll(texts []string) ([]SLO, error) {
	var list []SLO
	for _, t := range texts {
		s, err := Parse(t)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// String writes the bound as it is parsed.
func (s SLO) String() string {
	return s.Column.Name + s.Op + strconv.FormatFloat(s.Limit, 'g', -1, 64)
}

// Keeps reports whether a run is within the bound. A run that does not have the
// number is not.
func (s SLO) Keeps(r *runs.Run) bool {
	x := s.Column.Of(r).Value() // NaN if it is missing, which compares false
	switch s.Op {
	case "<=":
		return x <= s.Limit
	case "<":
		return x < s.Limit
	case ">=":
		return x >= s.Limit
	}
	return x > s.Limit
}

// Meets reports whether a run is within all bounds.
func Meets(r *runs.Run, all []SLO) bool {
	for _, s := range all {
		if !s.Keeps(r) {
			return false
		}
	}
	return true
}
