package result

import (
	"math"
	"slices"
)

// finite returns the document with nil in place of each number that JSON does not
// have.
func (d *Document) finite() *Document {
	c := *d
	c.Scenario.Options = finiteMap(d.Scenario.Options)
	c.Values = finiteMap(d.Values)
	c.Patterns = slices.Clone(d.Patterns)
	for i := range c.Patterns {
		c.Patterns[i].Metadata = finiteMap(d.Patterns[i].Metadata)
	}
	c.Tables = slices.Clone(d.Tables)
	for i, t := range d.Tables {
		c.Tables[i].Rows = finiteRows(t.Rows)
	}
	return &c
}

func finiteRows(rows [][]any) [][]any {
	list := make([][]any, len(rows))
	for i, row := range rows {
		list[i], _ = Finite(row).([]any)
	}
	return list
}

// Finite returns plain data (nil, bool, numbers, strings, []any, map[string]any)
// with nil in place of each NaN and infinity.
func Finite(v any) any {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = Finite(e)
		}
		return list
	case map[string]any:
		return finiteMap(v)
	}
	return v
}

func finiteMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = Finite(v)
	}
	return out
}
