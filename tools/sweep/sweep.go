package sweep

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/expr"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/version"
	"perigee/internal/serving/runs"
)

// Cmd is `perigee sweep`.
type Cmd struct {
	Table     TableCmd     `cmd:"" help:"Print the table of all runs, or those of a scenario by configuration."`
	Scenarios ScenariosCmd `cmd:"" help:"List the scenarios: runs with the same model, GPU, input and output length, or what --group-by says."`
	Plot      PlotCmd      `cmd:"" help:"Draw the trade-off between two columns for a scenario, with its Pareto front."`
	Report    ReportCmd    `cmd:"" help:"Write one interactive HTML page with everything."`
	Columns   ColumnsCmd   `cmd:"" help:"List the columns with their units and formulas."`
}

// Input has the flags that all commands share: which reports are read, and how.
type Input struct {
	Dirs     []string `arg:"" name:"dir" help:"Folders with benchmark reports (benchmark_report*.yaml, .yml, .json) or files of clients such as vllm bench serve, and all in them, or single files. A client's folder is its configuration."`
	Where    string   `placeholder:"EXPR" help:"Only runs of which this is true, such as 'TP>=4 && Is_PD'. Scenarios keep their indices."`
	Strict   bool     `help:"Fail, after all is done, if a file had to be skipped."`
	GroupBy  string   `completes:"columns" placeholder:"A,B,..." help:"Columns that make a scenario, instead of Model,GPU,ISL,OSL; --where bounds them."`
	SplitBy  string   `completes:"columns" placeholder:"A,B,..." help:"Columns that make a configuration, beside the engines that Name says."`
	RoundISL float64  `name:"round-isl" default:"10" placeholder:"N" help:"Round mean input lengths to multiples of N tokens for grouping."`
	RoundOSL float64  `name:"round-osl" default:"1" placeholder:"N" help:"Round mean output lengths to multiples of N tokens for grouping."`
}

// readable says what is read.
const readable = "sweep reads benchmark_report*.yaml, .yml and .json of llm-d, results of perigee, and what vllm bench " +
	"serve, SGLang, TensorRT-LLM, AIPerf, GenAI-Perf and InferenceX write"

// imported holds the runs that were read.
type imported struct {
	kept      []*runs.Record // those that --where keeps
	scenarios []runs.Scenario
	skipped   []string // why, with the file
	files     []string // all that were found
	notes     []string
	group     []*runs.Column // of --group-by
	split     []*runs.Column // of --split-by
}

// read imports, and says on the error stream what was amiss.
func (in *Input) read(s cli.Streams, doubts *runs.Doubts) (*imported, error) {
	for flag, n := range map[string]float64{"round-isl": in.RoundISL, "round-osl": in.RoundOSL} {
		if !(n > 0) || math.IsInf(n, 0) {
			return nil, fault.New(fault.Usage, "--%s: wanted a number above 0, got %v", flag, n)
		}
	}
	keep, err := condition(in.Where)
	if err != nil {
		return nil, err
	}
	group, err := columnList("--group-by", in.GroupBy)
	if err != nil {
		return nil, err
	}
	split, err := columnList("--split-by", in.SplitBy)
	if err != nil {
		return nil, err
	}
	bar := newProgress(s.Err)
	got, err := runs.Load(in.Dirs, runs.LoadOptions{
		RoundISL: in.RoundISL, RoundOSL: in.RoundOSL, Progress: bar.set, GroupBy: group})
	bar.finish()
	if err != nil {
		return nil, err
	}
	if len(got.Runs)+len(got.Skipped)+len(got.Sessions) == 0 {
		if got.Links > 0 {
			return nil, fault.New(fault.Input, "no benchmark reports in %s: %s is a link, which is followed only where it is named",
				strings.Join(in.Dirs, ", "), got.Link).WithHint("name it: %s", got.Link)
		}
		return nil, fault.New(fault.Input, "no benchmark reports in %s", strings.Join(in.Dirs, ", ")).
			WithHint("%s", readable)
	}
	d := &imported{scenarios: runs.Scenarios(got.Runs, group...), notes: notes(got.Runs),
		group: group, split: split, files: got.Sessions}
	if n := len(got.Sessions); n > 0 {
		d.notes = append(d.notes, andMore(got.Sessions[0]+": a report of whole sessions, not of requests; it makes no run", n))
	}
	for _, f := range got.Skipped {
		d.skipped = append(d.skipped, cli.Shortened(f.Err.Error()))
		d.files = append(d.files, f.File)
	}
	doubtful(got.Runs, doubts, d)
	remark(s, got, d)
	if len(got.Runs)+len(got.Sessions) == 0 {
		return nil, fault.New(fault.Input, "nothing could be read in %s", strings.Join(in.Dirs, ", ")).
			WithHint("%s", readable)
	}
	for _, r := range got.Runs {
		d.files = append(d.files, r.File)
		if keep(r) {
			d.kept = append(d.kept, r)
		}
	}
	if len(d.kept) == 0 && len(got.Runs) > 0 {
		fmt.Fprintf(s.Err, "note: --where keeps none of %s\n", cli.Count(len(got.Runs), "run"))
	}
	return d, nil
}

// condition reads a --where; none keeps everything.
func condition(source string) (func(*runs.Record) bool, error) {
	if strings.TrimSpace(source) == "" {
		return func(*runs.Record) bool { return true }, nil
	}
	e, err := runs.Where(source)
	if err != nil {
		return nil, fault.New(fault.Usage, "--where: %w", err)
	}
	return e.Match, nil
}

// remark prints what was skipped or is incomplete.
func remark(s cli.Streams, got *runs.Loaded, d *imported) {
	for _, text := range d.skipped {
		fmt.Fprintln(s.Err, "skipped", plaintext.Escape(text))
	}
	if n := len(d.skipped); n > 0 {
		fmt.Fprintf(plaintext.Writer(s.Err), "%s skipped, %s read\n", cli.Count(n, "file"),
			cli.Count(len(got.Runs), "run"))
	}
	if got.Links > 0 {
		fmt.Fprintf(s.Err, "note: %s not followed, such as %s; name the folders that they lead to\n",
			cli.Count(got.Links, "symbolic link"), plaintext.Escape(got.Link))
	}
	for _, n := range d.notes {
		fmt.Fprintln(s.Err, "note:", plaintext.Escape(n))
	}
}

// axes finds the columns of --x and --y.
func axes(xName, yName string) (x, y *runs.Column, err error) {
	if x, err = runs.FindNumber(xName); err != nil {
		return nil, nil, fault.New(fault.Usage, "--x: %w", err)
	}
	if y, err = runs.FindNumber(yName); err != nil {
		return nil, nil, fault.New(fault.Usage, "--y: %w", err)
	}
	return x, y, nil
}

// substitutes are the columns that stand for the axes of the trade-off where no run has them, and why: load generators
// that offer a rate, such as inference-perf, have no concurrency, and clients of benchmarks do not say how many GPUs
// there are.
var substitutes = map[string][2]string{
	"Thpt_per_User": {"Thpt_per_User_TPOT", "because no report names a concurrency"},
	"Thpt_per_GPU":  {"Output_Token_Throughput", "because none says how many GPUs there were"},
}

// otherAxes replaces axes that no run has. It returns notes that say so.
func otherAxes(x, y **runs.Column, list []*runs.Record) (notes []string) {
	has := func(c *runs.Column) bool {
		return slices.ContainsFunc(list, func(r *runs.Record) bool { return c.Of(r).Plain() != nil })
	}
	for axis, column := range map[string]**runs.Column{"x": x, "y": y} {
		name := (*column).Name
		by, known := substitutes[name]
		if known && !has(*column) && has(must(by[0])) {
			notes = append(notes, fmt.Sprintf("no run has %s, %s; the %s axis is %s", name, by[1], axis, by[0]))
			*column = must(by[0])
		}
	}
	slices.Sort(notes)
	return notes
}

// notes sums up what is to be said of runs: each remark once, with a count and
// one of the files.
func notes(all []*runs.Record) []string {
	type entry struct {
		text  string
		count int
		file  string
	}
	var list []*entry
	known := map[string]*entry{}
	add := func(text, file string) {
		e := known[text]
		if e == nil {
			e = &entry{text: text, file: file}
			known[text], list = e, append(list, e)
		}
		e.count++
	}
	for _, r := range all {
		if math.IsNaN(r.Concurrency) && !r.Transfer {
			add("the report names no concurrency, so Concurrency and Thpt_per_User are empty", r.File)
		}
		for _, n := range r.Notes {
			add(n, r.File)
		}
	}
	var texts []string
	for _, e := range list {
		texts = append(texts, andMore(e.file+": "+e.text, e.count))
	}
	return texts
}

// andMore adds to a remark on the first of some files how many more there are.
func andMore(text string, count int) string {
	if count > 1 {
		text += fmt.Sprintf(" (and %d more)", count-1)
	}
	return text
}

// strict is the error of --strict, which comes after all output.
func (in *Input) strict(d *imported) error {
	if !in.Strict || len(d.skipped) == 0 {
		return nil
	}
	return fault.New(fault.Input, "%s skipped (--strict)", cli.Count(len(d.skipped), "file")).
		WithHint("the reasons stand above")
}

// scenario returns the scenario of an index, with the runs that --where keeps.
// nil stands for the only one.
func (d *imported) scenario(index *int) (runs.Scenario, error) {
	i := 0
	switch {
	case index != nil:
		i = *index
	case len(d.scenarios) > 1:
		return runs.Scenario{}, fault.New(fault.Usage, "there are %d scenarios; --index must say which",
			len(d.scenarios)).WithHint(listHint + "; --round-isl, --round-osl and --group-by join them")
	}
	if err := d.checkScenario(i); err != nil {
		return runs.Scenario{}, err
	}
	chosen := d.scenarios[i]
	chosen.Runs = d.keptOf(chosen)
	return chosen, nil
}

// keptOf are the runs of a scenario that --where keeps.
func (d *imported) keptOf(sc runs.Scenario) (list []*runs.Record) {
	inside := map[*runs.Record]bool{}
	for _, r := range sc.Runs {
		inside[r] = true
	}
	for _, r := range d.kept {
		if inside[r] {
			list = append(list, r)
		}
	}
	return list
}

// say prints a sentence, if there is one.
func say(s cli.Streams, sentence string) {
	if sentence != "" {
		fmt.Fprintln(plaintext.Folded(plaintext.Writer(s.Out)), sentence)
	}
}

// best is the sentence on the best configuration: of the scenario that is asked for, or of all runs where they served
// the same work; else of each of the largest scenarios.
func (d *imported) best(index *int, slos []runs.SLO) string {
	if sc, err := d.scenario(index); err == nil {
		return runs.Best(sc.Runs, slos, d.split...)
	}
	served := slices.DeleteFunc(slices.Clone(d.kept), func(r *runs.Record) bool { return r.Transfer })
	if len(served) > 0 && !slices.ContainsFunc(served, func(r *runs.Record) bool { return !r.SameWork(served[0]) }) {
		return runs.Best(served, slos, d.split...)
	}
	const most = 3
	largest := slices.Clone(d.scenarios)
	slices.SortStableFunc(largest, func(a, b runs.Scenario) int { return len(b.Runs) - len(a.Runs) })
	var texts []string
	for _, sc := range largest {
		if text := runs.Best(d.keptOf(sc), slos, d.split...); text != "" && len(texts) < most {
			texts = append(texts, fmt.Sprintf("scenario %d (%s): %s", sc.Index, sc.Key, text))
		}
	}
	return strings.Join(texts, "\n")
}

// settle finds the columns of SLOs on latencies without a statistic, and says which they are.
func (d *imported) settle(s cli.Streams, slos []runs.SLO) {
	for _, note := range runs.Settle(slos, d.kept) {
		fmt.Fprintln(plaintext.Writer(s.Err), "note:", note)
		d.notes = append(d.notes, note)
	}
}

const listHint = "perigee sweep scenarios lists them with their indices"

// checkScenario refuses an index that no scenario has.
func (d *imported) checkScenario(i int) error {
	switch {
	case len(d.scenarios) == 0:
		return fault.New(fault.Input, "there is no scenario: none of the files is a benchmark report of requests that can be read")
	case i < 0 || i >= len(d.scenarios):
		return fault.New(fault.Usage, "--index: wanted an index from 0 to %d, got %d", len(d.scenarios)-1,
			i).WithHint(listHint)
	}
	return nil
}

// Format is how a table is written.
type Format struct {
	Format string `enum:"text,csv,json,page" default:"text" help:"text for people; csv or json, with unrounded values, for programs; page for a browser."`
}

// ScenariosCmd is `perigee sweep scenarios`.
type ScenariosCmd struct {
	Input
	Format
	MinRuns int `default:"1" placeholder:"N" help:"Hide scenarios with fewer runs; the others keep their indices."`
}

// Run lists the scenarios.
func (c *ScenariosCmd) Run(s cli.Streams) error {
	d, err := c.read(s, nil)
	if err != nil {
		return err
	}
	var t sheet.Sheet
	by := d.group
	if by == nil {
		by = runs.ScenarioColumns()
	}
	t.AddColumn("Index", sheet.Right, "")
	for _, col := range by {
		t.AddColumn(col.Name, alignOf(col), "")
	}
	t.AddColumns(sheet.Right, "", "Runs", "Configurations")
	for i := range d.scenarios {
		sc, err := d.scenario(&i)
		if err != nil {
			return err
		}
		if len(sc.Runs) < c.MinRuns {
			continue
		}
		cells := []any{sc.Index}
		for _, part := range sc.Key {
			cells = append(cells, part.Cell.Plain())
		}
		configurations := len(runs.Configurations(sc.Runs, true, d.split...)) // as plot and report count them
		t.AddRow(append(cells, len(sc.Runs), configurations)...)
	}
	if err := t.Write(s.Out, c.Format.Format); err != nil {
		return err
	}
	return c.strict(d)
}

// ColumnsCmd is `perigee sweep columns`.
type ColumnsCmd struct{ Format }

// Run lists the columns.
func (c *ColumnsCmd) Run(s cli.Streams) error {
	t := sheet.New("", "", "|Column", "|Holds", "|Unit", "|Better", "|Formula")
	better := map[expr.Better]any{expr.Higher: "high", expr.Lower: "low", expr.Neither: nil}
	for _, col := range runs.Columns() {
		holds := strings.TrimPrefix(col.Kind.String(), "a ")
		t.AddRow(col.Name, holds, expr.Words(col.Unit).Plain(), better[col.Better], col.Help)
	}
	return t.Write(s.Out, c.Format.Format)
}

// generator names the program that made a file.
func generator() string {
	return "perigee " + version.Get().String()
}
