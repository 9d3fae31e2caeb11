package lua

import (
	"io"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/experiment"
	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/internal/table"
)

const tableTypeName = "perigee.table"

// luaTable is a table whose rows come one by one. The result has them as they come, so that they are there also if
// the run is ended. At ranks other than 0 stream is nil.
type luaTable struct {
	columns []tableColumn
	text    table.Table
	stream  *table.Stream
	index   int // in the document
	width   int // of the terminal, 0 for none
	keys    int
	done    bool
}

// streamTable: table{title =, columns =, keys =, stream = true} prints the headers and returns what takes the rows.
func (r *resultModule) streamTable(L *glua.LState, title string, columns, rows *glua.LTable, keys int) (int, error) {
	if columns == nil || rows != nil {
		return 0, fault.New(fault.Script, "result.table with stream = true needs columns and takes no rows").
			WithHint("add rows to what it returns: t:row{...}, and t:finish() in the end")
	}
	t := &luaTable{keys: keys}
	L.Push(newUserData(L, tableTypeName, t))
	if r.env.Doc == nil {
		return 1, nil
	}
	var err error
	if t.columns, err = columnsFrom(columns); err != nil {
		return 0, err
	}
	record := result.Table{Title: title, Rows: [][]any{}}
	for _, c := range t.columns {
		t.text.AddColumn(c.name, table.Right, c.format)
		record.Columns = append(record.Columns, c.name)
	}
	r.tellSkew()
	if title != "" {
		io.WriteString(r.env.Out, experiment.Comment(title))
	}
	if keys > 0 {
		t.width = r.env.Width
	}
	r.clearBar()
	if t.stream, err = t.text.Stream(r.env.Out, t.width, keys); err != nil {
		return 0, fault.New(fault.Script, "result.table: %w", err)
	}
	t.index = len(r.env.Doc.Tables)
	r.env.Doc.Tables = append(r.env.Doc.Tables, record)
	return 1, nil
}

// clearBar makes room for a line on a terminal that shows a progress bar, which comes back by itself.
func (r *resultModule) clearBar() {
	if r.env.Progress != nil && len(r.bars) > 0 {
		io.WriteString(r.env.Progress, "\r\x1b[K")
	}
}

// tableMethods are the functions of a table whose rows come one by one.
func (r *resultModule) tableMethods() map[string]function {
	return map[string]function{
		"row": func(L *glua.LState) (int, error) {
			t, err := tableOf(L)
			if err != nil || t.stream == nil {
				return 0, err
			}
			if t.done {
				return 0, fault.New(fault.Script, "table:row: the table is finished")
			}
			cells, shown, err := rowCells(L.Get(2), t.columns)
			if err != nil {
				return 0, fault.New(fault.Script, "table:row: row %d%w", t.text.Len()+1, err)
			}
			record := &r.env.Doc.Tables[t.index]
			record.Rows = append(record.Rows, cells)
			r.clearBar()
			if err := t.stream.Row(shown...); err != nil {
				return 0, fault.New(fault.Script, "table:row: %w", err)
			}
			r.env.Checkpoint()
			return 0, nil
		},
		"finish": func(L *glua.LState) (int, error) {
			t, err := tableOf(L)
			if err != nil || t.stream == nil || t.done {
				return 0, err
			}
			t.done = true
			r.clearBar()
			r.tellSkew() // of the runs of these rows
			if !t.stream.LeftOut() {
				return 0, nil
			}
			io.WriteString(r.env.Out, experiment.Comment("all columns:"))
			return 0, t.text.WriteTextWithin(r.env.Out, t.width, t.keys)
		},
	}
}

func tableOf(L *glua.LState) (*luaTable, error) {
	return userData[*luaTable](L, 1, "a table of result.table")
}

func (r *resultModule) openTableType() {
	methods := r.functions(r.tableMethods())
	r.newType(tableTypeName, map[string]function{"__index": func(L *glua.LState) (int, error) {
		return pushMember(L, methods, "table", L.Get(2).String())
	}})
}
