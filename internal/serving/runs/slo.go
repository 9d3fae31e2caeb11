package runs

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee/internal/kit/expr"
)

// SLO is a bound on a column.
type SLO struct {
	Column *Column
	expr.Bound
	asked    string  // as it was written, where that names no column
	quantity Latency // that asked names instead
}

// ParseSLO reads COLUMN OP NUMBER, or a latency without a statistic in place of the column: TTFT<=500ms. A time alone,
// such as 20s, is that of whole requests. [Settle] finds the columns of both. Errors are of the kind Usage.
func ParseSLO(text string) (SLO, error) {
	if _, err := time.ParseDuration(text); err == nil && !strings.HasSuffix(text, "0") { // which alone has no unit
		o, err := ParseSLO(latencyNames[E2EL] + "<=" + text)
		o.asked = text
		return o, err
	}
	s := expr.Scan("SLO", text, "for example: --slo 'P90_TTFT_ms<=500', or --slo 'TTFT<=500ms'")
	at := s.Next()
	word := s.Word("a column, one of <= < >= >, and a number")
	var o SLO
	for l, name := range latencyNames {
		if strings.EqualFold(strings.TrimSuffix(strings.ToLower(word), "_ms"), name) {
			o.asked, o.quantity, word = text, Latency(l), statisticNames[Mean]+"_"+name+"_ms"
		}
	}
	var err error
	if o.Column, err = FindNumber(word); err != nil {
		s.Wrong(at, "%w", err)
		return SLO{}, s.Err()
	}
	o.Bound = s.Bound(o.Column.Unit, expr.Bounds[:4]...)
	s.EndOfBound(o.Column.Unit, "the end")
	return o, s.Err()
}

// tails are the statistics by which a latency without one is taken, the first that all runs with this latency have.
var tails = []Statistic{P90, P95, P99, P50, Mean}

// Settle finds the columns of SLOs on latencies without a statistic, and says which they are.
func Settle(slos []SLO, all []*Record) (notes []string) {
	for i := range slos {
		o := &slos[i]
		if o.asked == "" {
			continue
		}
		for _, s := range tails {
			lacks := func(r *Record) bool {
				_, known := r.Latency[latencyNames[o.quantity]]
				return known && math.IsNaN(r.Stat(o.quantity, s))
			}
			if s == Mean || !slices.ContainsFunc(all, lacks) {
				o.Column = byName[strings.ToLower(statisticNames[s]+"_"+latencyNames[o.quantity]+"_ms")]
				break
			}
		}
		notes = append(notes, fmt.Sprintf("--slo %s is %s: of this latency the runs have %s", o.asked, o,
			strings.TrimSuffix(o.Column.Name, "_"+latencyNames[o.quantity]+"_ms")))
	}
	return notes
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
func (s SLO) Keeps(r *Record) bool {
	return s.Holds(s.Column.Of(r).Value())
}

// Meets reports whether a run is within all bounds.
func Meets(r *Record, all []SLO) bool {
	return !slices.ContainsFunc(all, func(s SLO) bool { return !s.Keeps(r) })
}
