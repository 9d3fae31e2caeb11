// Package slo holds service level objectives: bounds on columns that a run must
// keep, such as P90_TTFT_ms <= 500.
package slo

import (
	"strconv"

	"perigee/internal/expr"
	"perigee/tools/sweep/runs"
)

// SLO is a bound on a column.
type SLO struct {
	Column *runs.Column
	expr.Bound
}

// Parse reads COLUMN OP NUMBER. Errors are of the kind Usage.
func Parse(text string) (SLO, error) {
	s := expr.Scan("SLO", text, "for example: --slo 'P90_TTFT_ms<=500'")
	at := s.Next()
	column, err := runs.FindNumber(s.Word("a column, one of <= < >= >, and a number"))
	if err != nil {
		s.Wrong(at, "%w", err)
		return SLO{}, s.Err()
	}
	bound := s.Bound(column.Unit, expr.Bounds[:4]...)
	s.End("the end")
	return SLO{column, bound}, s.Err()
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
	return s.Holds(s.Column.Of(r).Value())
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
