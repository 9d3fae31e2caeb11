package metric

import (
	"slices"

	"perigee/internal/kit/expr"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
	"perigee/internal/result"
)

// Row is a sample in its result, of which conditions choose some.
type Row struct {
	Doc *result.Document
	Sample
}

// columns are those of the samples of every metric.
var columns = []expr.Column[Row]{
	{Entry: expr.Entry{Name: "phase", Help: "of the run"}, Kind: expr.Text,
		Of: func(r Row) expr.Cell { return expr.Cell{Kind: expr.Text, Text: r.Phase} }},
	{Entry: expr.Entry{Name: "pattern", Help: "name or number"}, Kind: expr.Either, Whole: true,
		Of: func(r Row) expr.Cell {
			if r.Pattern < 0 {
				return expr.Cell{Empty: true}
			}
			return expr.Cell{Text: r.Doc.Patterns[r.Pattern].Name, Nums: []float64{float64(r.Pattern)}}
		}},
	count("rank", "", "initiator", func(r Row) int64 { return int64(r.Rank) }),
	count("peer", "", "other end of the message", func(r Row) int64 { return int64(r.Peer) }),
	count("block", "B", "bytes of a block", func(r Row) int64 { return r.Block }),
	count("batch", "", "blocks at a time", func(r Row) int64 { return r.Batch }),
}

// count is a column of whole numbers, empty where they are negative.
func count(name, unit, help string, of func(Row) int64) expr.Column[Row] {
	return expr.Column[Row]{Entry: expr.Entry{Name: name, Unit: unit, Help: help}, Kind: expr.Number, Whole: true,
		Of: func(r Row) expr.Cell {
			n := of(r)
			if n < 0 {
				return expr.Cell{Empty: true}
			}
			return expr.Num(float64(n))
		}}
}

// IsColumn reports whether the samples of every metric have a column.
func IsColumn(name string) bool {
	return slices.ContainsFunc(columns, func(c expr.Column[Row]) bool { return c.Name == name })
}

// Column returns a column of the samples of a metric. Those of a scenario's metric also have labels, of any name, and
// those of counters of the network have some. A column that the metric lacks is an error of the kind Usage, with those
// that it has.
func Column(metric, name string, label bool) (*expr.Column[Row], error) {
	i := slices.IndexFunc(columns, func(c expr.Column[Row]) bool { return c.Name == name })
	if i >= 0 {
		return &columns[i], nil
	}
	if !label {
		return nil, fault.New(fault.Usage, "wanted a text in double quotes, a number or a size such as 64K, got %s", name)
	}
	if def, known := Find(metric); known && !slices.Contains(def.labels, name) {
		names := slices.Clone(def.labels)
		for _, c := range columns {
			names = append(names, c.Name)
		}
		return nil, fault.New(fault.Usage, "the samples have no column %q%s", name, value.Suggestion(name, names)).
			WithHint("columns are %s; only a scenario's own metrics have others, see docs/thresholds.md", list(names))
	}
	return &expr.Column[Row]{Entry: expr.Entry{Name: name, Unit: "B"}, Kind: expr.Either, Of: func(r Row) expr.Cell {
		text, ok := r.Labels[name]
		if !ok {
			return expr.Cell{Empty: true}
		}
		c := expr.Cell{Text: text}
		if v, ok := result.LabelValue(text); ok {
			c.Nums = []float64{v}
		}
		return c
	}}, nil
}
