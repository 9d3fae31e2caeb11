package result

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/experiment"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/sheet"
	"perigee/internal/result"
	"perigee/lua/modules"
	"perigee/lua/vm"
)

// tables makes tables, in the output and in the result.
type tables struct {
	*bars
	skewShown int // measurements whose barriers the output has shown
}

// newTable has the columns that a script lists: text is for the output, record for the result.
func newTable(title string, columns *glua.LTable) (text sheet.Sheet, record result.Table, list []column, err error) {
	record.Title = title
	list, err = columnsFrom(columns)
	for _, c := range list {
		if !c.silent {
			text.AddColumn(c.name, sheet.Right, c.format)
		}
		record.Columns = append(record.Columns, c.name)
	}
	return text, record, list, err
}

// TableTakes and ColumnTakes are the fields of a table and of a column, for readers of scripts that do not run.
var (
	TableTakes  = []string{"columns", "keys", "rows", "silent", "stream", "title"}
	ColumnTakes = []string{"silent"}
)

// table{title =, columns = {{"Name", "%.3f"}, ...}, rows = {{...}, ...}, keys =, stream =, silent =}.
func (r *tables) table(L *glua.LState) (int, error) {
	f := vm.NewFields("result.table", L.CheckTable(1))
	title, columns, rows := f.Text("title", ""), f.Table("columns"), f.Table("rows")
	keys, streaming, silent := f.Integer("keys", 0, 0), f.Bool("stream", false), f.Bool("silent", false)
	if err := f.Err(); err != nil {
		return 0, err
	}
	if streaming {
		return r.stream(L, title, columns, rows, int(keys), silent)
	}
	if silent {
		return 0, fault.New(fault.Script, "result.table with silent = true needs stream = true, too")
	}
	if columns == nil || rows == nil {
		return 0, fault.New(fault.Script, "result.table needs columns and rows")
	}
	env := r.Env()
	if env.Doc == nil {
		return 0, nil
	}
	text, record, list, err := newTable(title, columns)
	if err != nil {
		return 0, err
	}
	if err := vm.List("result.table: rows", "a list", rows); err != nil {
		return 0, err
	}
	for i, n := 1, rows.Len(); i <= n; i++ {
		cells, shown, err := rowCells(rows.RawGetInt(i), list)
		if err != nil {
			return 0, fault.New(fault.Script, "result.table: row %d%w", i, err)
		}
		text.AddRow(shown...)
		record.Rows = append(record.Rows, cells)
	}
	r.showSkew()
	var out strings.Builder
	if title != "" {
		out.WriteString(experiment.Comment(title))
	}
	if err := text.WriteTextWithin(&out, env.Width, int(min(max(keys, 1), int64(len(list))))); err != nil {
		return 0, fault.New(fault.Script, "result.table: %w", err)
	}
	io.WriteString(env.Out, out.String())
	env.Doc.Tables = append(env.Doc.Tables, record)
	env.Checkpoint()
	return 0, nil
}

// width is how many characters of a line a table may take, 0 for any number: one with keys leaves out columns.
func (r *tables) width(keys int) int {
	if keys > 0 {
		return r.Env().Width
	}
	return 0
}

// showSkew says how good the barriers were before the runs that were collected since
// it last did, and how good the starts by the clock.
func (r *tables) showSkew() {
	d, out := r.Env().Doc, r.Env().Out
	if s := d.BarrierSkew(r.skewShown); s.Barriers > 0 {
		io.WriteString(out, experiment.Comment(s.String()))
	}
	if s := d.StartsByClock(r.skewShown); s.Runs > 0 {
		io.WriteString(out, experiment.Comment(s.String()))
	}
	r.skewShown = len(d.Measurements)
}

// stream is a table whose rows come one by one. The result has them as they come, so that they are there also if
// the run is ended. At ranks other than 0 lines is nil.
type stream struct {
	columns []column
	text    sheet.Sheet
	lines   *sheet.Stream
	index   int // in the document
	width   int // of the terminal, 0 for none
	keys    int
	done    bool
}

const streamType = "perigee.table"

// stream: table{title =, columns =, keys =, stream = true} prints the headers and returns what takes the rows. A silent
// one goes into the result alone.
func (r *tables) stream(L *glua.LState, title string, columns, rows *glua.LTable, keys int, silent bool) (int, error) {
	if columns == nil || rows != nil {
		return 0, fault.New(fault.Script, "result.table with stream = true needs columns and takes no rows").
			WithHint("add rows to what it returns: t:row{...}, and t:finish() in the end")
	}
	t, env := &stream{keys: keys, width: r.width(keys)}, r.Env()
	object := vm.NewUserData(L, streamType, t)
	if env.Doc == nil {
		return vm.Return(L, object)
	}
	var record result.Table
	var err error
	if t.text, record, t.columns, err = newTable(title, columns); err != nil {
		return 0, err
	}
	record.Rows = [][]any{}
	r.showSkew()
	out := env.Out
	if silent {
		out, t.width = io.Discard, 0
	}
	if title != "" {
		io.WriteString(out, experiment.Comment(title))
	}
	r.clear()
	if t.lines, err = t.text.Stream(out, t.width, keys); err != nil {
		return 0, fault.New(fault.Script, "result.table: %w", err)
	}
	t.index = len(env.Doc.Tables)
	env.Doc.Tables = append(env.Doc.Tables, record)
	return vm.Return(L, object)
}

// streamClass describes tables whose rows come one by one to scripts.
func (r *tables) streamClass() vm.Class[*stream] {
	const what = "a table of result.table"
	return vm.Class[*stream]{Type: streamType, Name: "table", What: what, Methods: map[string]vm.Function{
		"row":    vm.On(what, r.row),
		"finish": vm.On(what, r.finish),
	}}
}

// row: t:row{...} adds a row.
func (r *tables) row(L *glua.LState, t *stream) (int, error) {
	if t.lines == nil {
		return 0, nil
	}
	if t.done {
		return 0, fault.New(fault.Script, "table:row: the table is finished")
	}
	cells, shown, err := rowCells(L.Get(2), t.columns)
	if err != nil {
		return 0, fault.New(fault.Script, "table:row: row %d%w", t.text.Len()+1, err)
	}
	record := &r.Env().Doc.Tables[t.index]
	record.Rows = append(record.Rows, cells)
	r.clear()
	if err := t.lines.Row(shown...); err != nil {
		return 0, fault.New(fault.Script, "table:row: %w", err)
	}
	r.Env().Checkpoint()
	return 0, nil
}

// finish: t:finish() shows all columns where the terminal had room for some.
func (r *tables) finish(_ *glua.LState, t *stream) (int, error) {
	if t.lines == nil || t.done {
		return 0, nil
	}
	t.done = true
	r.clear()
	r.showSkew() // of the runs of these rows
	if !t.lines.LeftOut() {
		return 0, nil
	}
	out := r.Env().Out
	io.WriteString(out, experiment.Comment("all columns:"))
	return 0, t.text.WriteTextWithin(out, t.width, t.keys)
}

// column is a column of result.table. verb is the letter of its format. A silent one goes into the result alone.
type column struct {
	name, format string
	verb         byte
	silent       bool
}

// columnFormat is a format for one cell, with text around it.
var columnFormat = regexp.MustCompile(`^(?:[^%]|%%)*%[-+ 0#]*[0-9]{0,3}(?:\.[0-9]{1,3})?([dfegsv])(?:[^%]|%%)*$`)

// columnsFrom reads the columns of result.table: {{name, format, silent =}, ...}.
func columnsFrom(t *glua.LTable) ([]column, error) {
	if err := vm.List("result.table: columns", "a list", t); err != nil {
		return nil, err
	}
	list := make([]column, 0, t.Len())
	err := vm.Each(t, "result.table: column %d", "{name, format}", func(i int, c *glua.LTable) error {
		f := vm.NewFields(fmt.Sprintf("result.table: column %d", i), c)
		first, silent := f.Positions(2), f.Bool("silent", false)
		if err := f.Err(); err != nil {
			return err
		}
		name, ok := first[0].(glua.LString)
		if !ok {
			return fault.New(fault.Script, "result.table: the name of column %d is %s, want a string", i,
				vm.Describe(first[0]))
		}
		if err := modules.CheckName(fmt.Sprintf("result.table: the name of column %d", i), string(name)); err != nil {
			return err
		}
		format := "%v"
		if first[1] != glua.LNil {
			format = first[1].String()
		}
		m := columnFormat.FindStringSubmatch(format)
		if m == nil {
			return fault.New(fault.Script,
				"result.table: column %s has the format %q, want one such as %%d, %%.3f or %%s", name, format)
		}
		list = append(list, column{string(name), format, m[1][0], silent})
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
	if err := vm.List("", "a list of cells", t); err != nil {
		return nil, nil, err
	}
	if n := t.Len(); n > len(columns) {
		return nil, nil, fmt.Errorf(" has %d cells for %d columns", n, len(columns))
	}
	cells = make([]any, len(columns))
	for i, c := range columns {
		if cells[i], err = vm.Stored(t.RawGetInt(i + 1)); err != nil {
			return nil, nil, fmt.Errorf(", column %s: %w", c.name, err)
		}
		cell, ok := c.show(cells[i])
		if !ok {
			return nil, nil, fmt.Errorf(", column %s is %s, which does not go with the format %s", c.name,
				vm.Describe(t.RawGetInt(i+1)), c.format)
		}
		if !c.silent {
			shown = append(shown, cell)
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
