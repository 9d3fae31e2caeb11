// Package disagg is `perigee disagg`: batches of disaggregated-serving
// benchmarks on Slurm, from a tree of YAML files to figures, pages and verdicts.
//
// The parts: config finds test configurations, reads and selects them, plan makes the
// job of a case, batch runs jobs, benchlog reads logs, judge decides whether a case can
// be believed, and report writes figures and verdicts.
package disagg

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/serving/batch"
	"perigee/internal/serving/config"
)

// Cmd is `perigee disagg`.
type Cmd struct {
	List     ListCmd     `cmd:"" help:"List the test configurations, and which of them a run would take."`
	Validate ValidateCmd `cmd:"" help:"Check test configurations; all failures with file and line."`
	Parse    ParseCmd    `cmd:"" help:"Read the figures of a log or a result folder, and say whether they can be believed."`
	Run      RunCmd      `cmd:"" help:"Submit the cases in batches to Slurm, wait for them, and judge their figures."`
	Clean    CleanCmd    `cmd:"" help:"Cancel the jobs that an interrupted run has left behind."`
	Report   ReportCmd   `cmd:"" help:"Make a page of cases, levels, curves, the Pareto front and the history of runs."`
	Compare  CompareCmd  `cmd:"" help:"Compare the figures of two runs, and say which cannot be told apart."`
}

// Reading is how configs are read.
type Reading struct {
	Validation string `enum:",strict,upstream" default:"" placeholder:"RULES" help:"Rules: strict (those of the framework's document) or upstream (those of its code of today) [DISAGG_VALIDATION, or strict]."`
	Known
}

// Known is what becomes of keys that no configuration has.
type Known struct {
	Lenient bool `help:"Unknown keys are warnings instead of errors."`
}

func (r Reading) options(s cli.Streams) (config.Options, error) {
	const variable = "DISAGG_VALIDATION"
	o := config.Options{Rules: config.Rules(r.Validation), Lenient: r.Lenient, Env: s.Env}
	if o.Rules == "" {
		o.Rules = cmp.Or(config.Rules(s.Env(variable)), config.Strict)
		if o.Rules != config.Strict && o.Rules != config.Upstream {
			return o, fault.New(fault.Usage, "%s: wanted strict or upstream, got %q", variable,
				cli.Shortened(string(o.Rules)))
		}
	}
	return o, nil
}

// Selection is which cases a command is about.
type Selection struct {
	Root     string `placeholder:"DIR" help:"Root of the tests, <type>/<category>/*.yaml [test_configs below WORK_DIR or here]."`
	TestList string `name:"test-list" aliases:"disagg-test-list" placeholder:"FILE" help:"Only the tests in this file: a node id or an id per line."`
	Keyword  string `short:"k" placeholder:"EXPR" help:"Only tests whose name contains the words, with and, or, not and parentheses."`
	Mark     string `short:"m" enum:",perf,perf-sanity,accuracy,stress" default:"" placeholder:"CATEGORY" help:"Only perf, perf-sanity, accuracy or stress."`
	Type     string `placeholder:"TYPE" help:"Only disagg or wideep."`
	Model    string `name:"filter-model" aliases:"model" placeholder:"NAME" help:"Only tests of this model_name."`
	Failed   bool   `name:"last-failed" aliases:"lf" help:"Only cases that failed or did not finish when they last ran into the output folder."`
	GPU      string `name:"gpu" placeholder:"TYPE" help:"Type of the GPUs here [GPU_TYPE, or GB200; where both are missing, cases with a section job run on any]."`
}

// gpu is the type of the GPUs here. assumed says that no user has named it.
func (c Selection) gpu(s cli.Streams) (gpu config.GPU, assumed bool) {
	name := cmp.Or(c.GPU, s.Env("GPU_TYPE"))
	return config.FindGPU(cmp.Or(name, config.DefaultGPU)), name == ""
}

func (c Selection) root(s cli.Streams) string {
	return cmp.Or(c.Root, filepath.Join(cmp.Or(s.Env("WORK_DIR"), "."), "test_configs"))
}

// found are the cases of a tree.
type found struct {
	cases   []config.Choice
	skipped []string // files that are no tests
	list    *config.List
	failed  map[string]bool // of --last-failed
}

// nothingFailed reports whether --last-failed alone leaves nothing to run.
func (f *found) nothingFailed() bool {
	return len(config.Selected(f.cases)) == 0 &&
		slices.ContainsFunc(f.cases, func(c config.Choice) bool { return c.Reason == config.HasNotFailed })
}

// find reads the tree, or the given files, and judges every case. output is the folder that --last-failed is about.
func (c Selection) find(s cli.Streams, files []string, r Reading, output Folder) (*found, error) {
	filter := config.Filter{Category: c.Mark, Type: c.Type, Model: c.Model}
	filter.GPU, filter.Assumed = c.gpu(s)
	var err error
	if filter.Keyword, err = config.ParseExpr(c.Keyword); err != nil {
		return nil, err
	}
	if c.Failed {
		dir, err := output.path(s)
		if err != nil {
			return nil, err
		}
		if filter.Failed, err = batch.LastFailed(dir); err != nil {
			return nil, err
		}
	}
	f := &found{failed: maps.Clone(filter.Failed)}
	if c.TestList != "" {
		if f.list, err = config.ReadList(c.TestList); err != nil {
			return nil, err
		}
		filter.List = f.list
	}
	var entries []config.Source
	if len(files) > 0 {
		entries, err = config.Paths(files)
	} else {
		entries, f.skipped, err = config.Discover(c.root(s))
	}
	if err != nil {
		return nil, err
	}
	o, err := r.options(s)
	if err != nil {
		return nil, err
	}
	f.cases = filter.Apply(config.LoadAll(entries, o))
	return f, nil
}

// remark says what was skipped and which lines of a test list match no case.
func (f *found) remark(w io.Writer) {
	for _, text := range f.skipped {
		fmt.Fprintln(w, "skipped", plaintext.Escape(text))
	}
	for _, c := range f.cases {
		delete(f.failed, c.Ident.String())
	}
	for _, id := range slices.Sorted(maps.Keys(f.failed)) {
		if f.failed[id] {
			fmt.Fprintf(w, "--last-failed: %s failed, and is not among the cases here\n", plaintext.Escape(id))
		}
	}
	if f.list == nil {
		return
	}
	unmatched := f.list.Unmatched()
	for _, text := range unmatched {
		fmt.Fprintln(w, text)
	}
	selected := len(config.Selected(f.cases))
	fmt.Fprintf(w, "test list %s: %d requested, %d selected, %d deselected\n", f.list.File, len(f.list.Lines), selected,
		len(f.cases)-selected)
}

// described says which filters are on, or that there is nothing to choose from.
func (c Selection) described(s cli.Streams, f *found) string {
	if len(f.cases) == 0 {
		return "there is no <type>/<category>/*.yaml in " + c.root(s)
	}
	var words []string
	if slices.ContainsFunc(f.cases, func(e config.Choice) bool { return strings.HasPrefix(e.Reason, "GPU ") }) {
		gpu, _ := c.gpu(s)
		words = append(words, "GPU "+gpu.Name)
	}
	for _, f := range []struct{ flag, value string }{
		{"--test-list", c.TestList}, {"-k", c.Keyword}, {"-m", c.Mark}, {"--type", c.Type}, {"--filter-model", c.Model},
	} {
		if f.value != "" {
			words = append(words, f.flag+" "+f.value)
		}
	}
	if c.Failed {
		words = append(words, "--last-failed")
	}
	return strings.Join(words, ", ")
}

// Format is how a command prints.
type Format struct {
	Format string `enum:"text,json" default:"text" help:"text for people or json for programs."`
}

// printJSON writes a value as indented JSON.
func printJSON(w io.Writer, v any) error {
	if err := cli.WriteJSON(w, v); err != nil {
		return cli.LostOutput(err)
	}
	return nil
}

// ListCmd is `perigee disagg list`.
type ListCmd struct {
	Files []string `arg:"" optional:"" name:"file" help:"Configurations or folders of them instead of the tree at --root."`
	Selection
	Reading
	Output string `short:"o" placeholder:"DIR" help:"The output folder of --last-failed [OUTPUT_PATH, or disagg_output here]."`
	Format
}

// listed is a case in the JSON of list.
type listed struct {
	ID            string   `json:"id"`
	Type          string   `json:"type"`
	Category      string   `json:"category"`
	File          string   `json:"file"`
	Model         string   `json:"model"`
	Precision     string   `json:"precision"`
	BenchmarkType string   `json:"benchmark_type"` // lengths, such as 1k1k
	GPUs          []string `json:"supported_gpus"` // empty: any
	Concurrencies []int    `json:"concurrencies"`  // of the client
	Valid         bool     `json:"valid"`
	Selected      bool     `json:"selected"`
	Reason        string   `json:"reason,omitempty"` // why it is not selected
}

// Run lists the cases.
func (c *ListCmd) Run(s cli.Streams) error {
	if c.Output != "" && !c.Failed {
		return fault.New(fault.Usage, "--output: has no effect without --last-failed")
	}
	f, err := c.find(s, c.Files, c.Reading, Folder{Output: c.Output})
	if err != nil {
		return err
	}
	f.remark(plaintext.Writer(s.Err))
	if c.Format.Format == "json" {
		return cli.WriteList(s.Out, "", len(f.cases), func(i int) any {
			e := f.cases[i]
			return listed{e.Ident.String(), e.Type, e.Category, e.File, e.ModelName, e.Precision, e.Kind(),
				append([]string{}, e.SupportedGPUs...),
				e.Concurrencies(), e.Valid(), e.Reason == "", e.Reason}
		})
	}
	if err := c.print(s, f); err != nil {
		return err
	}
	if f.nothingFailed() {
		fmt.Fprintln(s.Err, "none of these cases failed when it last ran")
	} else if len(config.Selected(f.cases)) == 0 {
		fmt.Fprintf(s.Err, "warning: no test is selected (%s)\n", plaintext.Escape(cli.Shortened(c.described(s, f))))
	}
	return nil
}

func (c *ListCmd) print(s cli.Streams, f *found) error {
	t := sheet.New("", "", "|Test", "|Model", "|Lengths", "|Concurrencies", "|Remark")
	deselected := 0
	for _, e := range f.cases {
		var remark any
		if !e.Valid() {
			remark = "invalid: " + e.Problem().Message
		}
		if e.Reason != "" {
			remark = "deselected: " + e.Reason
			deselected++
		}
		t.AddRow(e.Ident.String(), e.ModelName, e.Kind(), spaced(e.Concurrencies()), remark)
	}
	if err := t.WriteText(s.Out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.Out, "\n%s, %d selected, %d deselected\n", cli.Count(len(f.cases), "test"),
		len(f.cases)-deselected, deselected)
	return err
}

func spaced(list []int) string { return strings.Trim(fmt.Sprint(list), "[]") }

// ValidateCmd is `perigee disagg validate`.
type ValidateCmd struct {
	Files []string `arg:"" name:"file" help:"Configurations, or folders of them."`
	Reading
	Format
}

// validated is a file's case in the JSON of validate.
type validated struct {
	File     string           `json:"file"`
	ID       string           `json:"id"`
	Valid    bool             `json:"valid"`
	Upstream *bool            `json:"passes_upstream,omitempty"` // where the rules are strict
	Errors   []config.Problem `json:"errors"`
	Warnings []config.Problem `json:"warnings,omitempty"`
}

// Run checks the files.
func (c *ValidateCmd) Run(s cli.Streams) error {
	o, err := c.options(s)
	if err != nil {
		return err
	}
	entries, err := config.Paths(c.Files)
	if err != nil {
		return err
	}
	all := config.LoadAll(entries, o)
	invalid, upstream := 0, 0
	for _, one := range all {
		if !one.Valid() {
			invalid++
		}
		if one.PassesUpstream {
			upstream++
		}
	}
	if c.Format.Format == "json" {
		err = cli.WriteList(s.Out, "", len(all), func(i int) any {
			one := all[i]
			v := validated{one.File, one.Ident.String(), one.Valid(), nil,
				append([]config.Problem{}, one.Problems...), one.Warnings}
			if o.Rules == config.Strict {
				v.Upstream = &one.PassesUpstream
			}
			return v
		})
	} else {
		counts := fmt.Sprintf("%d valid, %d invalid (rules: %s)", len(all)-invalid, invalid, o.Rules)
		if invalid > 0 && o.Rules == config.Strict {
			counts += fmt.Sprintf("; %d valid under --validation upstream", upstream)
		}
		err = printProblems(plaintext.Writer(s.Out), all, counts)
	}
	if err != nil || invalid == 0 {
		return err
	}
	return fault.New(fault.Input, "%d of %s invalid under the %s rules", invalid, cli.Count(len(all), "configuration"),
		o.Rules)
}

// printProblems writes what is wrong with configurations, and a last line that counts them.
func printProblems(w io.Writer, all []*config.Config, counts string) error {
	said, file := map[config.Problem]bool{}, "" // what several cases of one file have in common
	say := func(problems []config.Problem, label string) {
		for _, p := range problems {
			if !said[p] {
				said[p] = true
				fmt.Fprintln(w, label+where(file, p))
			}
		}
	}
	for _, v := range all {
		if v.File != file {
			clear(said)
			file = v.File
		}
		say(v.Problems, "")
		say(v.Warnings, "warning: ")
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", cli.Count(len(all), "configuration"), counts)
	return err
}

// where writes a problem with its file, line and key, which may be of any length.
func where(file string, p config.Problem) string {
	text := plaintext.Escape(file)
	if p.Line > 0 {
		text += fmt.Sprintf(":%d", p.Line)
	}
	if p.Path != "" {
		text += ": " + plaintext.Escape(p.Path)
	}
	return cli.Shortened(text + ": " + p.Message)
}
