package result

import (
	"fmt"
	"maps"
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

// NotFinite names the numbers of plain data for which Finite has nil, as name.key[2], in order, with what they are.
func NotFinite(name string, v any) (found []string) {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			found = append(found, fmt.Sprintf("%s is %v", name, v))
		}
	case []any:
		for i, e := range v {
			found = append(found, NotFinite(fmt.Sprintf("%s[%d]", name, i+1), e)...)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			found = append(found, NotFinite(name+"."+k, v[k])...)
		}
	}
	return found
}
