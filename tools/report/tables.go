package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"perigee/internal/kit/sheet"
	"perigee/internal/result"
)

// tableView is a table of the result.
type tableView struct {
	*sheet.Sheet
	Of     int  // rows of the table, of which these are the first
	Folded bool // another section has its figures, in better units
}

// newTable shows the first rows of the i-th of n tables. The document holds cells unrounded, so
// each column gets as many decimals as its smallest value needs for three digits.
func newTable(t result.Table, i, n, patterns, rows int) tableView {
	v := tableView{sheet.New(t.Title, "sortable printed"), len(t.Rows), ofPatterns(t, patterns)}
	t = numbered(t, patterns)
	t.Rows = t.Rows[:min(len(t.Rows), rows)]
	if v.Title == "" {
		v.Title = "Result"
		if n > 1 {
			v.Title = fmt.Sprintf("Table %d", i+1)
		}
	}
	decimals := make([]int, len(t.Columns))
	for c, name := range sheet.Unique(t.Columns) {
		align := sheet.Words
		for _, row := range t.Rows {
			if x, ok := row[c].(float64); ok {
				align = sheet.Right
				decimals[c] = max(decimals[c], decimalsFor(x))
			}
		}
		v.AddColumn(name, align, "")
	}
	for _, row := range t.Rows {
		cells := slices.Clone(row)
		for c, cell := range cells {
			switch x := cell.(type) {
			case float64:
				cells[c] = sheet.Cell{Value: x, Text: strconv.FormatFloat(x, 'f', decimals[c], 64)}
			case []any, map[string]any:
				cells[c] = fmt.Sprint(x)
			}
		}
		v.AddRow(cells...)
	}
	return v
}

// numbered adds the number of the pattern to the table of sequential-ct-perftest, which has a row for each pattern and,
// in older results, does not name it.
func numbered(t result.Table, patterns int) result.Table {
	if !ofPatterns(t, patterns) || patterns < 2 || slices.Contains(t.Columns, "Pattern") {
		return t
	}
	more := result.Table{Title: t.Title, Columns: append([]string{"Pattern"}, t.Columns...)}
	for i, row := range t.Rows {
		more.Rows = append(more.Rows, append([]any{float64(i)}, row...))
	}
	return more
}

// ofPatterns reports whether a table is that of sequential-ct-perftest, which has a row for each pattern.
func ofPatterns(t result.Table, patterns int) bool {
	return len(t.Rows) == patterns && slices.Contains(t.Columns, "Isolated Latency (ms)")
}

const mostDecimals = 9

// decimalsFor is 0 for a whole number, else 3 or what three digits take.
func decimalsFor(x float64) int {
	if x == math.Trunc(x) {
		return 0
	}
	return min(max(3, 2-int(math.Floor(math.Log10(math.Abs(x))))), mostDecimals)
}
