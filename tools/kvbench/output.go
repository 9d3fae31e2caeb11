package kvbench

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/model"
)

// field is a named value of an output for programs: a string, a number, a
// bool, nil, fields or a list of strings.
type field struct {
	name  string
	value any
}

// fields are the values of a row in their order.
type fields []field

// MarshalJSON writes an object with the keys in their order.
func (f fields) MarshalJSON() ([]byte, error) {
	var names []string
	var values []any
	for _, x := range f {
		names, values = append(names, x.name), append(values, x.value)
	}
	return sheet.Object(names, values)
}

// flat lists the values with the names of nested ones put together, as columns
// need them.
func (f fields) flat(prefix string) fields {
	var list fields
	for _, x := range f {
		if inner, ok := x.value.(fields); ok {
			list = append(list, inner.flat(prefix+x.name+"_")...)
		} else {
			list = append(list, field{prefix + x.name, x.value})
		}
	}
	return list
}

// finish writes what programs read, if any config has succeeded, and returns
// the error of the others.
func finish(streams cli.Streams, format string, rows []fields, err error) error {
	if format == "text" || len(rows) == 0 {
		return err
	}
	var failed error
	if format == "csv" {
		failed = writeCSV(streams.Out, rows)
	} else {
		failed = cli.WriteJSON(streams.Out, rows)
	}
	return cmp.Or(failed, err)
}

// writeCSV writes RFC 4180, with its line ends.
func writeCSV(out io.Writer, rows []fields) error {
	w := csv.NewWriter(out)
	w.UseCRLF = true
	for i, row := range rows {
		var names, values []string
		for _, x := range row.flat("") {
			names = append(names, x.name)
			values = append(values, plaintext.Cell(cell(x.value)))
		}
		if i == 0 {
			w.Write(names)
		}
		w.Write(values)
	}
	w.Flush()
	return w.Error() // also the first error of the writes above
}

func cell(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case []string:
		return strings.Join(v, "; ")
	}
	return fmt.Sprint(value)
}

const rule = "================================================================================"

// writeText writes a plan as the original does, and below each of its commands ours.
func (p *BlockPlan) writeText(out io.Writer) error {
	var b strings.Builder
	c := p.Config
	fmt.Fprintf(&b, "%s\nModel Config: %s\nISL: %d tokens\nPage Size: %d\nRequests: %d\nTP: %d\nPP: %d\n",
		rule, p.ConfigName, c.ISL, p.page(), c.Requests, c.TP, c.PP)
	exact := p.Accounting == accountingExact
	if exact {
		b.WriteString(strings.Join(p.notes(), "\n") + "\n")
	}
	b.WriteString(rule + "\n")
	for _, cmd := range p.Commands {
		if cmd.Layers != "" {
			fmt.Fprintf(&b, "# %s\n", cmd.Layers)
		}
		fmt.Fprintf(&b, "%s\n\n%s\n\n", shell("nixlbench", cmd.Nixlbench), shell("perigee run kvbench", cmd.perigee()))
	}
	if !exact { // after all that the original prints
		b.WriteString("# " + strings.Join(p.notes(), "\n# ") + "\n\n")
	}
	_, err := io.WriteString(out, plaintext.Text(b.String()))
	return err
}

// notes say in what the cache is counted, and what else of it follows an engine or the user.
func (p *BlockPlan) notes() []string {
	list := []string{"KV cache: " + p.precisionText()}
	if p.Accounting == accountingExact && p.Cache.Serving != model.Exact {
		list = append(list, fmt.Sprintf("Moved as with %v: %s", p.Cache.Serving, p.Cache.BlockText()))
	}
	if p.Accounting != accountingExact {
		return list
	}
	if text := p.Cache.States(); text != "" {
		list = append(list, "States: "+strings.TrimPrefix(text, "states "))
	}
	move := model.Move{Serving: p.Cache.Serving, Replicas: p.replicas, From: p.Config.TP, To: p.Config.TP}
	if text := move.Text(p.Cache.Model); text != "" {
		list = append(list, "Copies: "+text)
	}
	return list
}

// exactText says what one GPU moves, and in which blocks.
func (p *BlockPlan) exactText() string {
	var parts []string
	for _, t := range p.Exact.Transfers {
		blocks := cli.Count(t.BatchSize, "block")
		parts = append(parts, fmt.Sprintf("%s of %d bytes, %d a token", blocks, t.IOSize, t.IOSize1))
	}
	return "one GPU moves " + strings.Join(parts, ", and ") + " (--accounting exact)"
}

// rows are the commands of a plan for programs: all options of nixlbench, as
// the original has them, then where they come from.
func (p *BlockPlan) rows() []fields {
	var rows []fields
	for _, cmd := range p.Commands {
		var row fields
		for _, f := range cmd.Bench.flags() {
			row = append(row, field{f.name, f.value})
		}
		row = append(row, p.origin()...)
		rows = append(rows, append(row,
			field{"layers", absent(cmd.Layers)},
			field{"nixlbench", "nixlbench " + cli.CommandLine(cmd.Nixlbench)},
			field{"perigee", "perigee run kvbench " + cli.CommandLine(cmd.perigee())},
		))
	}
	return rows
}

// absent is nil for an empty text.
func absent(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// origin returns the inputs of a plan, and its figures by both accountings.
func (p *BlockPlan) origin() fields {
	c := p.Config
	name, by := p.precision()
	return fields{
		{"config_file", p.ConfigName},
		{"model", p.Model.Name},
		{"model_strategy", fields{{"tp_size", c.TP}, {"pp_size", c.PP}, {"model_quant_mode", c.ModelQuant},
			{"kvcache_quant_mode", c.KVQuant}}},
		{"model_runtime", fields{{"num_requests", c.Requests}, {"isl", c.ISL}, {"osl", c.OSL}}},
		{"model_system", fields{
			{"hardware", absent(c.Hardware)}, {"backend", c.Backend}, {"page_size", c.PageSize},
			{"access_pattern", c.Access}, {"source", absent(c.Source)}, {"destination", absent(c.Dest)},
		}},
		{"accounting", p.Accounting}, {"kv_cache_dtype", name}, {"kv_cache_dtype_by", by},
		{accountingKVBench, p.KVBench.fields()},
		{accountingExact, append(p.Exact.fields(), fields{
			{"state_bytes", p.Exact.StateBytes}, {"kv_cache_dtype", p.Cache.DType.Name},
			{"kv_cache_dtype_by", p.Cache.DTypeBy}, {"block", p.Cache.Block}, {"block_by", p.Cache.BlockBy},
			{"state_dtype", absent(p.Cache.State)}, {"state_dtype_by", absent(p.Cache.StateBy)},
			{"serving", absent(string(p.Cache.Serving))},
		}...)},
		{"differences", orEmpty(p.Differences)},
		{"warnings", orEmpty(p.Warnings)}, {"notes", orEmpty(p.Notes)},
	}
}

// orEmpty keeps JSON from writing null for a list.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// fields are the figures for programs. Where there are two sizes of blocks, the
// second has separate keys; of a model without figures all are null.
func (f *PlanFigures) fields() fields {
	if f == nil {
		f = &PlanFigures{}
		all := f.fields()
		for i := range all {
			all[i].value = nil
		}
		return all
	}
	first, second := Transfer{}, [2]any{}
	if len(f.Transfers) > 0 {
		first = f.Transfers[0]
	}
	if len(f.Transfers) > 1 {
		second = [2]any{f.Transfers[1].IOSize, f.Transfers[1].BatchSize}
	}
	return fields{
		{"kv_bytes_per_token_all_gpus", f.TokenBytes}, {"kv_bytes_for_isl", f.ISLBytes},
		{"io_size_page1", first.IOSize1}, {"io_size", first.IOSize}, {"batch_size", first.BatchSize},
		{"second_io_size", second[0]}, {"second_batch_size", second[1]}, {"bytes", f.Bytes},
	}
}

// writeKVCache writes the original's four lines for each size of blocks, and the notes.
func (p *BlockPlan) writeKVCache(out io.Writer) error {
	for _, t := range p.Figures().Transfers {
		if t.Layers != "" {
			if _, err := fmt.Fprintf(out, "%-23s: %s\n", "Layers", t.Layers); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(out, "%-23s: %s\n%-23s: %d\n%-23s: %d\n%-23s: %s\n", "Model", plaintext.Escape(p.Model.Name),
			"Input Sequence Length", p.Config.ISL, "Batch Size", t.BatchSize, "IO Size",
			binarySize(t.IOSize)); err != nil {
			return err
		}
	}
	for _, text := range p.notes() {
		key, value, _ := strings.Cut(text, ": ")
		if _, err := fmt.Fprintf(plaintext.Folded(out), "%-23s: %s\n", key, plaintext.Escape(value)); err != nil {
			return err
		}
	}
	return nil
}

func (p *BlockPlan) kvcacheRows() []fields {
	var rows []fields
	for _, t := range p.Figures().Transfers {
		rows = append(rows, append(p.origin(), fields{
			{"layers", absent(t.Layers)}, {"batch_size", t.BatchSize}, {"io_size", t.IOSize},
			{"io_size_text", binarySize(t.IOSize)},
		}...))
	}
	return rows
}

func (p *BlockPlan) writeIOSize(out io.Writer) error {
	for _, t := range p.Figures().Transfers {
		line := fmt.Sprintf("IO Size per GPU: %d", t.IOSize1)
		if t.Layers != "" {
			line += " (" + t.Layers + ")"
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(plaintext.Folded(out), plaintext.Text(strings.Join(p.notes(), "\n")))
	return err
}

func (p *BlockPlan) ioSizeRows() []fields {
	var rows []fields
	for _, t := range p.Figures().Transfers {
		name, by := p.precision()
		rows = append(rows, fields{
			{"config_file", p.ConfigName}, {"model", p.Model.Name}, {"accounting", p.Accounting},
			{"kv_cache_dtype", name}, {"kv_cache_dtype_by", by},
			{"serving", absent(string(p.Cache.Serving))}, {"block", p.page()},
			{"layers", absent(t.Layers)}, {"io_size_per_gpu", t.IOSize1},
		})
	}
	return rows
}

// binarySize writes bytes as the original does: in powers of 1024 that are
// called KB, MB and so on, with one or two decimals.
func binarySize(bytes int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	value, i := float64(bytes), 0
	for value >= 1024 && i < len(units)-1 {
		value, i = value/1024, i+1
	}
	text := strings.TrimSuffix(strconv.FormatFloat(value, 'f', 2, 64), "0")
	return text + " " + units[i]
}
