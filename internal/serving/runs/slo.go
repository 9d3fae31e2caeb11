package runs

import (
	"slices"
	"strconv"

	"perigee/internal/kit/expr"
)

// SLO is a bound on a column.
type SLO struct {
	Column *Column
	expr.Bound
}

// ParseSLO reads COLUMN OP NUMBER. Errors are of the kind Usage.
func ParseSLO(text string) (SLO, error) {
	s := expr.Scan("SLO", text, "for example: --slo 'P90_TTFT_ms<=500'")
	at := s.Next()
	column, err := FindNumber(s.Word("a column, one of <= < >= >, and a number"))
	if err != nil {
		s.Wrong(at, "%w", err)
		return SLO{}, s.Err()
	}
	bound := s.Bound(column.Unit, expr.Bounds[:4]...)
	s.EndOfBound(column.Unit, "the end")
	return SLO{column, bound}, s.Err()
}

// ParseSLOs reads a list of them. The first that is wrong is the error.
func ParseSLOs(texts []string) ([]SLO, error) {
	var list []SLO
	for _, t := range texts {
		s, err := ParseSLO(t)
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
func (s SLO) Keeps(r *Run) bool {
	return s.Holds(s.Column.Of(r).Value())
}

// Meets reports whether a run is within all bounds.
func Meets(r *Run, all []SLO) bool {
	return !slices.ContainsFunc(all, func(s SLO) bool { return !s.Keeps(r) })
}
