package sheet

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
)

// View are the flags of a table of which its user chooses: how it is printed, its columns, and the order of its rows.
type View struct {
	Format  string   `enum:"text,csv,json,page" default:"${format_default=text}" help:"text for people; csv or json, with unrounded values, for programs; page for a browser."`
	Columns []string `placeholder:"A,B,..." help:"Only these columns, in this order, by the names that json has."`
	Sort    string   `placeholder:"[-]A,B,..." help:"Sort by these columns; - before a name sorts downwards."`
}

// Write writes what is chosen of a sheet. A column that it lacks is an error of the kind Usage.
func (v View) Write(w io.Writer, t *Sheet) error {
	for _, key := range slices.Backward(strings.FieldsFunc(v.Sort, func(r rune) bool { return r == ',' })) {
		name, down := strings.CutPrefix(strings.TrimSpace(key), "-")
		i, err := t.find("--sort", name)
		if err != nil {
			return err
		}
		s := *t
		s.rows = slices.Clone(t.rows)
		SortBy(s.rows, func(row []any) any { return valueOf(row[i]) }, down)
		t = &s
	}
	if len(v.Columns) > 0 {
		list, err := Pick("--columns", v.Columns, t.find)
		if err != nil {
			return err
		}
		t = t.only(list)
	}
	return t.Write(w, v.Format)
}

func (t *Sheet) find(option, name string) (int, error) {
	names := t.Headers()
	if i := slices.IndexFunc(names, func(h string) bool { return strings.EqualFold(h, name) }); i >= 0 {
		return i, nil
	}
	return 0, NoColumn(option, name, names)
}

// NoColumn is the error for a column that is not among names.
func NoColumn(option, name string, names []string) error {
	return fault.New(fault.Usage, "%s: there is no column %q%s", option, name, value.Suggestion(name, names)).
		WithHint("columns are %s", strings.Join(names, ", "))
}

// Pick finds the columns that an option names, each once.
func Pick[C comparable](option string, names []string, find func(option, name string) (C, error)) (list []C, err error) {
	for _, name := range names {
		c, err := find(option, strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if slices.Contains(list, c) {
			return nil, fault.New(fault.Usage, "%s: %s is there twice", option, strings.TrimSpace(name))
		}
		list = append(list, c)
	}
	return list, nil
}

// SortBy sorts rows by a value of theirs; rows that are alike stay in their order, and those without a value, nil, come
// last both ways.
func SortBy[R any](rows []R, value func(R) any, down bool) {
	slices.SortStableFunc(rows, func(a, b R) int {
		v, w := value(a), value(b)
		switch {
		case v == nil && w == nil:
			return 0
		case v == nil:
			return 1
		case w == nil:
			return -1
		case down:
			return order(w, v)
		}
		return order(v, w)
	})
}

func order(v, w any) int {
	x, known := number(v)
	if y, both := number(w); known && both {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(fmt.Sprint(v), fmt.Sprint(w))
}

// number is a value as a number, if it is one.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
