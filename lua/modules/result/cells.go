package result

import (
	"fmt"
	"regexp"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
	"perigee/lua/modules"
	"perigee/lua/vm"
)

// column is a column of result.table. verb is the letter of its format.
type column struct {
	name, format string
	verb         byte
}

// columnFormat is a format for one cell, with text around it.
var columnFormat = regexp.MustCompile(`^(?:[^%]|%%)*%[-+ 0#]*[0-9]{0,3}(?:\.[0-9]{1,3})?([dfegsv])(?:[^%]|%%)*$`)

// columnsFrom reads the columns of result.table: {{name, format}, ...}.
func columnsFrom(t *glua.LTable) ([]column, error) {
	list := make([]column, 0, t.Len())
	err := vm.Each(t, "result.table: column %d", "{name, format}", func(i int, c *glua.LTable) error {
		name, ok := c.RawGetInt(1).(glua.LString)
		if !ok {
			return fault.New(fault.Script, "result.table: the name of column %d is %s, want a string", i,
				vm.Describe(c.RawGetInt(1)))
		}
		if err := modules.CheckName(fmt.Sprintf("result.table: the name of column %d", i), string(name)); err != nil {
			return err
		}
		format := "%v"
		if f := c.RawGetInt(2); f != glua.LNil {
			format = f.String()
		}
		m := columnFormat.FindStringSubmatch(format)
		if m == nil {
			return fault.New(fault.Script,
				"result.table: column %s has the format %q, want one such as %%d, %%.3f or %%s", name, format)
		}
		list = append(list, column{string(name), format, m[1][0]})
		return nil
	})
	return list, err
}

// rowCells reads a row: its values as they are, and as their columns show them.
func rowCells(v glua.LValue, columns []column) (cells, shown []any, err error) {
	t, ok := v.(*glua.LTable)
	if !ok {
		return nil, nil, fmt.Errorf(" is %s, want a list", vm.Describe(v))
	}
	if n := t.Len(); n > len(columns) {
		return nil, nil, fmt.Errorf(" has %d cells for %d columns", n, len(columns))
	}
	cells, shown = make([]any, len(columns)), make([]any, len(columns))
	for i, c := range columns {
		if cells[i], err = vm.Stored(t.RawGetInt(i + 1)); err != nil {
			return nil, nil, fmt.Errorf(", column %s: %w", c.name, err)
		}
		if shown[i], ok = c.show(cells[i]); !ok {
			return nil, nil, fmt.Errorf(", column %s is %s, which does not go with the format %s", c.name,
				vm.Describe(t.RawGetInt(i+1)), c.format)
		}
	}
	return cells, shown, nil
}

// show turns a cell into what its format takes. Lua does not distinguish 2 from 2.0: a
// whole number in a column of decimals becomes one.
func (c column) show(cell any) (any, bool) {
	if cell == nil {
		return nil, true
	}
	switch c.verb {
	case 's', 'v':
		return fmt.Sprint(cell), true
	case 'd':
		_, ok := cell.(int64)
		return cell, ok
	}
	if n, whole := cell.(int64); whole {
		return float64(n), true
	}
	_, ok := cell.(float64)
	return cell, ok
}
