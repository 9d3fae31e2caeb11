package lua

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/experiment"
	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/result"
	"perigee/internal/table"
)

const barTypeName = "perigee.progress"

// What the module result does it does at rank 0; at the others its functions
// do nothing, so that a script need not ask which rank it is.
type resultModule struct {
	base
	skewTold int            // measurements whose barriers the output has shown
	bars     []*progressBar // that are open
}

func (r *resultModule) exports() map[string]function {
	return map[string]function{
		"set":      r.set,
		"sample":   r.sample,
		"note":     r.note,
		"table":    r.table,
		"save":     r.save,
		"progress": r.progress,
	}
}

// openFields sets the plain field null of the module result: a value that is
// stored as null, where a table would lose nil.
func (r *resultModule) openFields() {
	ud := r.L.NewUserData()
	ud.Value = null{}
	r.L.GetGlobal("result").(*glua.LTable).RawSetString("null", ud)
}

// set(name, value).
func (r *resultModule) set(L *glua.LState) (int, error) {
	name := L.CheckString(1)
	v, err := stored(L.Get(2))
	if err == nil {
		err = checkKey(name)
	}
	if err != nil {
		return 0, err
	}
	if d := r.env.Doc; d != nil {
		if d.Values == nil {
			d.Values = map[string]any{}
		}
		d.Values[name] = v
		r.env.CheckpointSparingly()
	}
	return 0, nil
}

// note(text), a line that begins with # and a note in the result.
func (r *resultModule) note(L *glua.LState) (int, error) {
	r.env.Note(L.CheckString(1))
	return 0, nil
}

// table{title =, columns = {{"Name", "%.3f"}, ...}, rows = {{...}, ...}, keys =, stream =}.
func (r *resultModule) table(L *glua.LState) (int, error) {
	f := newFields("result.table", L.CheckTable(1))
	title, columns, rows := f.text("title", ""), f.table("columns"), f.table("rows")
	keys, streaming := f.integer("keys", 0, 0), f.boolean("stream", false)
	if err := f.err(); err != nil {
		return 0, err
	}
	if streaming {
		return r.streamTable(L, title, columns, rows, int(keys))
	}
	if columns == nil || rows == nil {
		return 0, fault.New(fault.Script, "result.table needs columns and rows")
	}
	if r.env.Doc == nil {
		return 0, nil
	}
	list, err := columnsFrom(columns)
	if err != nil {
		return 0, err
	}
	var text table.Table
	record := result.Table{Title: title}
	for _, c := range list {
		text.AddColumn(c.name, table.Right, c.format)
		record.Columns = append(record.Columns, c.name)
	}
	for i, n := 1, rows.Len(); i <= n; i++ {
		cells, shown, err := rowCells(rows.RawGetInt(i), list)
		if err != nil {
			return 0, fault.New(fault.Script, "result.table: row %d%w", i, err)
		}
		text.AddRow(shown...)
		record.Rows = append(record.Rows, cells)
	}
	r.tellSkew()
	var out strings.Builder
	if title != "" {
		out.WriteString(experiment.Comment(title))
	}
	width := 0
	if keys > 0 {
		width = r.env.Width
	}
	if err := text.WriteTextWithin(&out, width, int(min(keys, int64(len(list))))); err != nil {
		return 0, fault.New(fault.Script, "result.table: %w", err)
	}
	io.WriteString(r.env.Out, out.String())
	r.env.Doc.Tables = append(r.env.Doc.Tables, record)
	r.env.CheckpointSparingly()
	return 0, nil
}

// tellSkew says how good the barriers were before the runs that were collected since
// it last did, and how good the starts by the clock.
func (r *resultModule) tellSkew() {
	d := r.env.Doc
	if s := d.BarrierSkew(r.skewTold); s.Barriers > 0 {
		io.WriteString(r.env.Out, experiment.Comment(s.String()))
	}
	if s := d.StartsByClock(r.skewTold); s.Runs > 0 {
		io.WriteString(r.env.Out, experiment.Comment(s.String()))
	}
	r.skewTold = len(d.Measurements)
}

// tableColumn is a column of result.table. verb is the letter of its format.
type tableColumn struct {
	name, format string
	verb         byte
}

// columnFormat is a format for one cell, with text around it.
var columnFormat = regexp.MustCompile(`^(?:[^%]|%%)*%[-+ 0#]*[0-9]{0,3}(?:\.[0-9]{1,3})?([dfegsv])(?:[^%]|%%)*$`)

func columnsFrom(t *glua.LTable) ([]tableColumn, error) {
	list := make([]tableColumn, t.Len())
	for i := range list {
		c, ok := t.RawGetInt(i + 1).(*glua.LTable)
		if !ok {
			return nil, fault.New(fault.Script, "result.table: column %d is %s, want {name, format}", i+1,
				describe(t.RawGetInt(i+1)))
		}
		name, ok := c.RawGetInt(1).(glua.LString)
		if !ok {
			return nil, fault.New(fault.Script, "result.table: the name of column %d is %s, want a string", i+1,
				describe(c.RawGetInt(1)))
		}
		if err := checkName(fmt.Sprintf("result.table: the name of column %d", i+1), string(name)); err != nil {
			return nil, err
		}
		format := "%v"
		if f := c.RawGetInt(2); f != glua.LNil {
			format = f.String()
		}
		m := columnFormat.FindStringSubmatch(format)
		if m == nil {
			return nil, fault.New(fault.Script,
				"result.table: column %s has the format %q, want one such as %%d, %%.3f or %%s", name, format)
		}
		list[i] = tableColumn{string(name), format, m[1][0]}
	}
	return list, nil
}

// checkName refuses a name that results do not take. what says which one it is.
func checkName(what, name string) error {
	if len(name) > result.MaxName {
		return fault.New(fault.Script, "%s has %d bytes, want at most %d", what, len(name), result.MaxName)
	}
	if !utf8.ValidString(name) {
		return fault.New(fault.Script, "%s is %s, want text in UTF-8", what, quoted(name))
	}
	return nil
}

// rowCells reads a row: its values as they are, and as their columns show them.
func rowCells(v glua.LValue, columns []tableColumn) (cells, shown []any, err error) {
	t, ok := v.(*glua.LTable)
	if !ok {
		return nil, nil, fmt.Errorf(" is %s, want a list", describe(v))
	}
	if n := t.Len(); n > len(columns) {
		return nil, nil, fmt.Errorf(" has %d cells for %d columns", n, len(columns))
	}
	cells, shown = make([]any, len(columns)), make([]any, len(columns))
	for i, c := range columns {
		if cells[i], err = stored(t.RawGetInt(i + 1)); err != nil {
			return nil, nil, fmt.Errorf(", column %s: %w", c.name, err)
		}
		if shown[i], ok = c.show(cells[i]); !ok {
			return nil, nil, fmt.Errorf(", column %s is %s, which does not go with the format %s", c.name,
				describe(t.RawGetInt(i+1)), c.format)
		}
	}
	return cells, shown, nil
}

// show turns a cell into what its format takes. Lua does not distinguish 2 from 2.0: a
// whole number in a column of decimals becomes one.
func (c tableColumn) show(cell any) (any, bool) {
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

// save(path, value) writes a value as JSON.
func (r *resultModule) save(L *glua.LState) (int, error) {
	path := L.CheckString(1)
	v, err := toGo(L.Get(2))
	if err != nil {
		return 0, err
	}
	if err := r.files.mayWrite(path); err != nil {
		return 0, err
	}
	if r.env.Doc == nil {
		return 0, nil
	}
	data, err := json.MarshalIndent(result.Finite(v), "", "  ")
	if err != nil {
		return 0, fault.New(fault.Script, "result.save: %w", err)
	}
	return 0, file.Write(path, func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
}

// open makes the types of progress bars and tables, and the field null.
func (r *resultModule) open() {
	r.openFields()
	r.openBarType()
	r.openTableType()
}

// close takes the progress bars off the terminal.
func (r *resultModule) close() error {
	for _, b := range r.bars {
		b.finish()
	}
	return nil
}
