package sweep

import (
	"fmt"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/expr"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/serving/runs"
)

// TableCmd is `perigee sweep table`.
type TableCmd struct {
	Input
	runs.Doubts
	Format
	Columns   string `completes:"columns" placeholder:"A,B,..." help:"Only these columns, in this order; all for every column (perigee sweep columns lists them)."`
	Sort      string `completes:"columns" placeholder:"[-]A,B,..." help:"Sort by these columns; - before a name sorts downwards."`
	Scenario  *int   `name:"index" aliases:"scenario" placeholder:"I" help:"Only the runs of scenario I. As text without --sort: one table per configuration."`
	SegByDir  bool   `name:"seg-by-dir" negatable:"" default:"true" help:"Keep equal configurations in different folders apart."`
	Truncated *int   `name:"head" min:"1" placeholder:"N" help:"Only the first N rows of each table."`
}

// Run prints the table.
func (c *TableCmd) Run(s cli.Streams) error {
	columns, err := c.columns()
	if err != nil {
		return err
	}
	order, err := parseSort(c.Sort)
	if err != nil {
		return err
	}
	d, err := c.read(s, &c.Doubts)
	if err != nil {
		return err
	}
	rows, title := d.kept, ""
	if c.Scenario != nil {
		sc, err := d.scenario(c.Scenario)
		if err != nil {
			return err
		}
		rows, title = sc.Runs, fmt.Sprintf("scenario %d: %s", sc.Index, sc.Key)
		if c.Format.Format == "text" && c.Sort == "" {
			if err := c.byConfiguration(s, sc, columns, d.split); err != nil {
				return err
			}
			return c.strict(d)
		}
	}
	if c.SplitBy != "" || !c.SegByDir {
		fmt.Fprintln(s.Err, "note: --split-by and --no-seg-by-dir have no effect on a single table; "+
			"text with --index and without --sort has one per configuration")
	}
	sortRows(rows, order)
	if c.Truncated != nil {
		rows = rows[:min(len(rows), *c.Truncated)]
	}
	if err := c.print(s, title, rows, columns); err != nil {
		return err
	}
	return c.strict(d)
}

// columns are those asked for, nil if none were.
func (c *TableCmd) columns() ([]*runs.Column, error) {
	if c.Columns == "" {
		return nil, nil
	}
	if strings.EqualFold(strings.TrimSpace(c.Columns), "all") {
		return runs.Columns(), nil
	}
	return columnList("--columns", c.Columns)
}

// columnList reads the columns that an option names, nil if it names none.
func columnList(option, text string) ([]*runs.Column, error) {
	if text == "" {
		return nil, nil
	}
	return sheet.Pick(option, strings.Split(text, ","), func(option, name string) (*runs.Column, error) {
		col, err := runs.Find(name)
		if err != nil {
			return nil, fault.New(fault.Usage, "%s: %w", option, err)
		}
		return col, nil
	})
}

// print writes one table. Of the columns that were not asked for by name, the text
// leaves out those without any value, and says of those with one value what it
// is; so the rest fits a screen.
func (c *TableCmd) print(s cli.Streams, title string, rows []*runs.Record, columns []*runs.Column) error {
	if columns == nil {
		columns = runs.Originals()
		if slices.ContainsFunc(rows, func(r *runs.Record) bool { return r.Transfer }) {
			columns = append(columns, must("Transfer_Latency_ms"), must("Transfer_GBps"))
		}
		columns = append(columns, ifDoubtful(rows)...)
		if c.Format.Format == "text" {
			columns = c.header(s, title, rows, columns)
		}
	}
	return tableOf(rows, columns, c.Format.Format == "text").Write(s.Out, c.Format.Format)
}

// must is a column that exists.
func must(name string) *runs.Column {
	c, err := runs.Find(name)
	if err != nil {
		panic(err)
	}
	return c
}

// header writes the # lines and returns the columns worth a place in the table.
func (c *TableCmd) header(s cli.Streams, title string, rows []*runs.Record, columns []*runs.Column) []*runs.Column {
	fmt.Fprintf(plaintext.Writer(s.Out), "# %s: %s\n", generator(), cli.Count(len(rows), "run"))
	if title != "" {
		fmt.Fprintln(s.Out, "#", plaintext.Escape(title))
	}
	var rest []*runs.Column
	var same, ones []string
	for _, col := range columns {
		value, constant := constantOf(rows, col)
		switch {
		case constant && value == "" && len(rows) > 0:
		case inName(col) && allOne(rows, col):
			ones = append(ones, col.Name)
		case len(rows) > 1 && constant && col.Name != "Name" && value != "":
			same = append(same, fmt.Sprintf("#   %s: %s\n", col, plaintext.Escape(value)))
		default:
			rest = append(rest, col)
		}
	}
	if len(same) > 0 {
		fmt.Fprintf(plaintext.Writer(s.Out), "# the same in all rows:\n%s", strings.Join(same, ""))
	}
	if len(ones) > 0 {
		fmt.Fprintf(plaintext.Writer(s.Out), "# 1 for all engines: %s\n", strings.Join(ones, ", "))
	}
	if alike(rows) && len(rest) > 0 {
		rest = slices.Insert(rest, 1, must("Run"))
	}
	return rest
}

// inName reports whether a column is a parallelism that Name mentions where it
// is not 1.
func inName(col *runs.Column) bool {
	name := strings.TrimPrefix(strings.TrimPrefix(col.Name, "P_"), "D_")
	return name == "DP" || name == "PP" || name == "EP"
}

// allOne reports whether there are cells, and none is anything but 1 or empty.
func allOne(rows []*runs.Record, col *runs.Column) bool {
	return len(rows) > 0 && !slices.ContainsFunc(rows, func(r *runs.Record) bool {
		c := col.Of(r)
		return !c.Empty && c.Value() != 1
	})
}

// alike reports whether two rows have the same name, directory and concurrency, so
// that more is needed to distinguish them.
func alike(rows []*runs.Record) bool {
	type key struct{ name, directory, load string }
	seen := map[key]bool{}
	for _, r := range rows {
		k := key{r.Name(), r.Directory, expr.Num(r.Concurrency).String()}
		if seen[k] {
			return true
		}
		seen[k] = true
	}
	return false
}

// constantOf reports whether all rows have the same cell in a column.
func constantOf(rows []*runs.Record, col *runs.Column) (string, bool) {
	value := ""
	for i, r := range rows {
		v := col.Of(r).String()
		if i > 0 && v != value {
			return "", false
		}
		value = v
	}
	return value, true
}

// alignOf returns the side at which a column's cells stand.
func alignOf(col *runs.Column) sheet.Align {
	if col.Kind != expr.Number {
		return sheet.Left
	}
	return sheet.Right
}

// tableOf makes the table of some rows. forPeople rounds what the column's format does not.
func tableOf(rows []*runs.Record, columns []*runs.Column, forPeople bool) *sheet.Sheet {
	var t sheet.Sheet
	for _, col := range columns {
		t.AddColumn(col.Name, alignOf(col), col.Format)
	}
	for _, r := range rows {
		cells := make([]any, len(columns))
		for i, col := range columns {
			c := col.Of(r)
			switch {
			case col.Format != "" && !c.Empty:
				cells[i] = c.Value()
			case forPeople:
				cells[i] = runs.Short(c).Plain()
			default:
				cells[i] = c.Plain()
			}
		}
		t.AddRow(cells...)
	}
	return &t
}

// byConfiguration prints the tables of the original analysis: one for each
// configuration, its runs by concurrency.
func (c *TableCmd) byConfiguration(s cli.Streams, sc runs.Scenario, columns, split []*runs.Column) error {
	fmt.Fprintf(plaintext.Writer(s.Out), "# %s: %s\n# scenario %d: %s\n", generator(), cli.Count(len(sc.Runs), "run"),
		sc.Index, sc.Key)
	directories := runs.Directories(sc.Runs)
	if len(directories) == 1 {
		fmt.Fprintf(plaintext.Writer(s.Out), "# directory: %s\n", directories[0])
	}
	for _, conf := range runs.Configurations(sc.Runs, c.SegByDir, split...) {
		fmt.Fprintf(plaintext.Writer(s.Out), "\n# %s\n", conf.Title())
		rows := conf.Runs
		if c.Truncated != nil {
			rows = rows[:min(len(rows), *c.Truncated)]
		}
		cols := columns
		if cols == nil {
			cols = append(configurationColumns(conf, len(directories) > 1), ifDoubtful(rows)...)
		}
		if err := tableOf(rows, cols, true).WriteText(s.Out); err != nil {
			return err
		}
	}
	return nil
}

// configurationColumns are those that the original shows of a configuration, whose
// runs may be from different directories (mixed).
func configurationColumns(conf runs.Configuration, mixed bool) []*runs.Column {
	names := []string{"TP", "Replicas"}
	if conf.PD {
		names = []string{"P_TP", "P_Replicas", "D_TP", "D_Replicas"}
	}
	names = append(names, "Num_GPUs", "Concurrency", "Output_Token_Throughput", "Thpt_per_GPU", "Thpt_per_User")
	if mixed && conf.Directory == "" {
		names = append(names, "Directory")
	}
	list := make([]*runs.Column, len(names))
	for i, name := range names {
		list[i] = must(name)
	}
	// Clients do not say how engines were set up.
	return slices.DeleteFunc(list, func(c *runs.Column) bool {
		return !slices.ContainsFunc(conf.Runs, func(r *runs.Record) bool { return c.Of(r).Plain() != nil })
	})
}

// sortKey is a column to sort by.
type sortKey struct {
	column *runs.Column
	down   bool
}

func parseSort(text string) ([]sortKey, error) {
	if text == "" {
		return nil, nil
	}
	var keys []sortKey
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		plain, down := strings.CutPrefix(name, "-")
		col, err := runs.Find(strings.TrimPrefix(plain, "+"))
		if err != nil {
			return nil, fault.New(fault.Usage, "--sort: %w", err)
		}
		keys = append(keys, sortKey{col, down})
	}
	return keys, nil
}

// sortRows sorts by keys; rows that are alike stay in their order, and empty
// cells come last both ways.
func sortRows(rows []*runs.Record, keys []sortKey) {
	slices.SortStableFunc(rows, func(a, b *runs.Record) int {
		for _, k := range keys {
			x, y := k.column.Of(a), k.column.Of(b)
			c := runs.Compare(x, y)
			if k.down && !x.Empty && !y.Empty {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
}
