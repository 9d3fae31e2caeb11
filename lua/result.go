package lua

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/cheggaaa/pb/v3"
	glua "github.com/yuin/gopher-lua"

	"perigee/internal/atomicfile"
	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/internal/table"
)

const barTypeName = "perigee.progress"

// What the module result does it does at rank 0; at the others its functions
// do nothing, so that a script need not ask which rank it is.
func (r *Runtime) resultModule() map[string]function {
	return map[string]function{
		"set":      r.resultSet,
		"note":     r.resultNote,
		"table":    r.resultTable,
		"save":     r.resultSave,
		"progress": r.resultProgress,
	}
}

// resultFields sets the plain field null of the module result: a value that is
// stored as null, where a table would lose nil.
func (r *Runtime) resultFields() {
	ud := r.L.NewUserData()
	ud.Value = null{}
	r.L.GetGlobal("result").(*glua.LTable).RawSetString("null", ud)
}

// resultSet: set(name, value).
func (r *Runtime) resultSet(L *glua.LState) (int, error) {
	name := L.CheckString(1)
	v, err := toGo(L.Get(2))
	if err != nil {
		return 0, err
	}
	if d := r.env.Doc; d != nil {
		if d.Values == nil {
			d.Values = map[string]any{}
		}
		d.Values[name] = v
	}
	return 0, nil
}

// resultNote: note(text), a line that begins with # and a note in the result.
func (r *Runtime) resultNote(L *glua.LState) (int, error) {
	r.note(L.CheckString(1))
	return 0, nil
}

// resultTable: table{title =, columns = {{"Name", "%.3f"}, ...}, rows = {{...}, ...}}.
func (r *Runtime) resultTable(L *glua.LState) (int, error) {
	f := newFields("result.table", L.CheckTable(1))
	title, columns, rows := f.text("title", ""), f.table("columns"), f.table("rows")
	if err := f.err(); err != nil {
		return 0, err
	}
	if columns == nil || rows == nil {
		return 0, fault.New(fault.Script, "result.table needs columns and rows")
	}
	if r.env.Doc == nil {
		return 0, nil
	}
	var text table.Table
	record := result.Table{Title: title}
	formats := make([]string, columns.Len())
	for i := 1; i <= columns.Len(); i++ {
		c, ok := columns.RawGetInt(i).(*glua.LTable)
		if !ok {
			return 0, fault.New(fault.Script, "result.table: column %d is %s, want {name, format}", i, describe(columns.RawGetInt(i)))
		}
		format := "%v"
		if c.Len() > 1 {
			format = c.RawGetInt(2).String()
		}
		name := c.RawGetInt(1).String()
		formats[i-1] = format
		text.AddColumn(name, table.Right, format)
		record.Columns = append(record.Columns, name)
	}
	for i := 1; i <= rows.Len(); i++ {
		cells, err := rowCells(rows.RawGetInt(i), formats, i)
		if err != nil {
			return 0, err
		}
		text.AddRow(cells...)
		record.Rows = append(record.Rows, cells)
	}
	r.env.Doc.Tables = append(r.env.Doc.Tables, record)
	if title != "" {
		fmt.Fprintf(r.env.Out, "# %s\n", title)
	}
	if err := text.WriteText(r.env.Out); err != nil {
		return 0, fault.New(fault.Script, "result.table: %w", err)
	}
	return 0, nil
}

// rowCells reads a row. Lua does not tell 2 from 2.0: a whole number in a
// column of decimals becomes one.
func rowCells(v glua.LValue, formats []string, row int) ([]any, error) {
	t, ok := v.(*glua.LTable)
	if !ok {
		return nil, fault.New(fault.Script, "result.table: row %d is %s, want a list", row, describe(v))
	}
	cells := make([]any, len(formats))
	for i := range cells {
		var err error
		if cells[i], err = toGo(t.RawGetInt(i + 1)); err != nil {
			return nil, err
		}
		if n, whole := cells[i].(int64); whole && strings.ContainsAny(formats[i], "feg") {
			cells[i] = float64(n)
		}
	}
	return cells, nil
}

// resultSave: save(path, value) writes a value as JSON.
func (r *Runtime) resultSave(L *glua.LState) (int, error) {
	path := L.CheckString(1)
	v, err := toGo(L.CheckAny(2))
	if err != nil {
		return 0, err
	}
	if err := r.mayWrite(path); err != nil {
		return 0, err
	}
	if r.env.Doc == nil {
		return 0, nil
	}
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return 0, fault.New(fault.Script, "result.save: %w", err)
	}
	return 0, atomicfile.Write(path, 0o644, func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
}

// resultProgress: progress(total, label) makes a bar with add(n) and finish().
// It is seen at rank 0 on a terminal only.
func (r *Runtime) resultProgress(L *glua.LState) (int, error) {
	total, label := L.CheckInt(1), L.OptString(2, "")
	ud := L.NewUserData()
	bar := &progressBar{}
	if r.env.Progress != nil {
		bar.bar = pb.New(total).SetWriter(r.env.Progress).SetTemplateString(`{{string . "label"}} {{bar . }} {{counters . }} {{rtime . }}`).
			Set("label", label).Set(pb.CleanOnFinish, true).Start()
	}
	ud.Value = bar
	L.SetMetatable(ud, L.GetTypeMetatable(barTypeName))
	L.Push(ud)
	return 1, nil
}

type progressBar struct{ bar *pb.ProgressBar }

// barMethods are the functions of a progress bar.
func (r *Runtime) barMethods() map[string]function {
	return map[string]function{
		"add": func(L *glua.LState) (int, error) {
			if b := barOf(L); b != nil {
				b.Add(L.OptInt(2, 1))
			}
			return 0, nil
		},
		"finish": func(L *glua.LState) (int, error) {
			if b := barOf(L); b != nil {
				b.Finish()
			}
			return 0, nil
		},
	}
}

func barOf(L *glua.LState) *pb.ProgressBar {
	b, ok := L.CheckUserData(1).Value.(*progressBar)
	if !ok {
		L.ArgError(1, "progress bar expected")
	}
	return b.bar
}

func (r *Runtime) barType() {
	mt := r.L.NewTypeMetatable(barTypeName)
	methods := r.L.NewTable()
	for name, f := range r.barMethods() {
		methods.RawSetString(name, r.function(f))
	}
	mt.RawSetString("__index", methods)
}
