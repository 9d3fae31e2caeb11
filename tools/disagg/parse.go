package disagg

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/size"
	"perigee/internal/serving/benchlog"
	"perigee/internal/serving/config"
	"perigee/internal/serving/given"
	"perigee/internal/serving/judge"
	"perigee/internal/serving/plan"
	"perigee/internal/serving/runs"
)

// ParseCmd is `perigee disagg parse`.
type ParseCmd struct {
	Paths  []string `arg:"" name:"log" help:"Logs and JSON results of benchmarks, logs of evaluations, folders of cases, and folders with any of these."`
	Config string   `placeholder:"FILE" help:"The case's configuration, which says what to expect [effective.yaml in the folder]."`
	Known
	judge.Gates
	Line   string        `placeholder:"RATE" help:"Rate of the links between hosts, such as 400Gbit: no KV transfer in the logs may be faster [job.line of the configuration]."`
	Settle time.Duration `default:"500ms" placeholder:"TIME" help:"Wait until a log has not grown for so long, unless the job's end mark is there [500ms]."`
	Format

	line float64 // bytes per second, of Line; 0: it is not given
}

// reading is what was read of a path.
type reading struct {
	Path string `json:"path"`
	*judge.Verdict

	log *benchlog.Log
}

// Run reads and judges.
func (c *ParseCmd) Run(s cli.Streams) error {
	if c.Settle < 0 {
		return fault.New(fault.Usage, "--settle: wanted 0 or more, got %s", c.Settle)
	}
	if c.Line != "" {
		var err error
		if c.line, err = size.ParseRate(c.Line); err != nil {
			return fault.New(fault.Usage, "--line: %w", err)
		}
	}
	paths, err := c.spread()
	if err != nil {
		return err
	}
	var list []reading
	for _, path := range paths {
		p, err := c.parse(path)
		if err != nil {
			return err
		}
		list = append(list, p)
	}
	if err := c.print(s.Out, list); err != nil {
		return err
	}
	failed := slices.DeleteFunc(slices.Clone(list), func(p reading) bool { return p.State != judge.Failed })
	switch {
	case len(failed) == 0:
		return nil
	case len(list) == 1:
		return fault.New(fault.Threshold, "%s: the case has failed: %s", list[0].Path, list[0].Reasons[0])
	}
	return fault.New(fault.Threshold, "%d of %d have failed, the first of them %s: %s", len(failed), len(list),
		failed[0].Path, failed[0].Reasons[0])
}

// spread puts what is in folders that are no case in their place: files of serving benchmarks, and cases of an output
// folder.
func (c *ParseCmd) spread() (paths []string, _ error) {
	for _, path := range c.Paths {
		info, err := os.Stat(path)
		_, without := os.Lstat(filepath.Join(path, plan.Effective))
		if err != nil || !info.IsDir() || c.Config != "" || without == nil || judge.IsCase(path) {
			paths = append(paths, path)
			continue
		}
		inside := runs.Files(path)
		if given.Of(path) == given.Disagg {
			inside, _ = fs.Glob(os.DirFS(path), judge.LogsFolder+"/*/"+judge.CaseName)
			for i, name := range inside {
				inside[i] = filepath.Join(path, filepath.Dir(name))
			}
		}
		if len(inside) == 0 {
			return nil, fault.New(fault.Input, "%s: the folder of no case, and no client of benchmarks has written a file there", path).
				WithHint("docs/clients.md lists the clients that are known; a case has a log such as 6_bench.log")
		}
		paths = append(paths, inside...)
	}
	return paths, nil
}

// parse reads and judges one path.
func (c *ParseCmd) parse(path string) (reading, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && runs.IsReport(path) {
		return judgeReport(path, c.Gates)
	}
	want, warnings, err := c.expected(path)
	if err != nil {
		return reading{}, err
	}
	e, err := judge.Gather(path, want, judge.Patience{Quiet: c.Settle, Limit: 10 * c.Settle})
	if err != nil {
		return reading{}, err
	}
	v := judgeFolder(path, e, want, c.Gates)
	v.Warnings = append(warnings, v.Warnings...)
	if err := v.HoldTransfers(path, cmp.Or(c.line, want.Line), c.Gates); err != nil {
		return reading{}, err
	}
	return reading{path, v, e.Log}, nil
}

// print writes what was read: of one path its verdict alone.
func (c *ParseCmd) print(out io.Writer, list []reading) error {
	if c.Format.Format != "json" {
		if len(list) > 1 || list[0].log.Unmarked {
			return printRuns(out, list)
		}
		return printVerdict(out, list[0].Verdict)
	}
	for i, p := range list {
		if failed := judge.Unwritable(printJSON(io.Discard, p.Verdict)); failed != nil {
			list[i].Verdict = failed
		}
	}
	if len(list) == 1 {
		return printJSON(out, list[0].Verdict)
	}
	return printJSON(out, list)
}

// judgeFolder judges what was read. In the folder of a case the verdict that a run has left says how Slurm has ended
// the job.
func judgeFolder(dir string, e *judge.Evidence, want judge.Expect, g judge.Gates) *judge.Verdict {
	if _, err := os.Lstat(filepath.Join(dir, plan.Effective)); err != nil {
		return judge.Judge(e, want, g, nil) // a log, or logs of something else
	}
	recorded, err := judge.ReadCase(dir)
	if err != nil {
		v := judge.Judge(e, want, g, &judge.End{})
		if e.Death == nil && !e.Marked {
			v.Warnings = append(v.Warnings,
				"the job has left no end mark, and there is no verdict that says how Slurm has ended it")
		}
		return v
	}
	v := judge.Judge(e, want, g, &judge.End{
		State: recorded.Slurm, Preempted: recorded.Preempted, Suspended: recorded.Suspended, Stopped: recorded.Stopped,
	})
	if recorded.State == judge.Failed && v.State != judge.Failed && len(recorded.Reasons) > 0 {
		v.Warnings = append(v.Warnings, "the run has recorded the case as failed: "+cli.Shortened(recorded.Reasons[0]))
	}
	return v
}

// expected reads the config of the case, if there is one, and returns its warnings, too.
func (c *ParseCmd) expected(path string) (want judge.Expect, warnings []string, err error) {
	file := c.Config
	if beside := filepath.Join(path, plan.Effective); file == "" {
		if _, err := os.Lstat(beside); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return want, nil, nil
		}
		file = beside
	}
	entries, err := config.Paths([]string{file})
	if err != nil {
		return want, nil, err
	}
	list := config.Load(file, entries[0].Ident, config.Options{Rules: config.Logs, Lenient: c.Lenient})
	if len(list) > 1 {
		return want, nil, fault.New(fault.Input, "%s: makes %s; wanted the configuration of one", file,
			cli.Count(len(list), "case"))
	}
	if p := misread(list[0]); p != nil {
		return want, nil, fault.New(fault.Input, "%s", where(file, *p))
	}
	for _, p := range list[0].Warnings {
		warnings = append(warnings, where(file, p))
	}
	return judge.Expected(list[0]), warnings, nil
}

// misread is the first problem of a configuration with what a log is judged by, nil if there is none. What the job was
// started with does not matter to its log.
func misread(c *config.Config) *config.Problem {
	for _, p := range c.Problems {
		section, _, isKey := strings.Cut(p.Path, ".")
		if !c.WasRead || p.Line == 0 || !isKey || slices.Contains(judging, section) {
			return &p
		}
	}
	return nil
}

// judging are the sections that say how a log is read and judged.
var judging = []string{"metadata", "benchmark", "sequence", "hardware", "job"}

// printRuns writes several verdicts for people, or that on the results of clients: a row for each run.
func printRuns(out io.Writer, list []reading) error {
	safe := plaintext.Writer(out)
	defer safe.Close()
	w, passed := plaintext.Folded(safe), 0
	for _, p := range list {
		if p.State == judge.Passed {
			passed++
		}
	}
	fmt.Fprintf(w, "%d of %s passed; latencies are means in ms\n\n", passed, cli.Count(len(list), "log"))
	t := sheet.New("", "", "|Log", "|State", "|Client", "Concurrency", "Requests", "Failed")
	t.AddColumns(sheet.Right, "%.2f", benchlog.Quantities...)
	t.AddColumn("Tok/s", sheet.Right, "%.2f")
	for _, p := range list {
		for _, row := range runRows(p) {
			t.AddRow(append([]any{p.Path, p.State}, row...)...)
		}
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, p := range list {
		for _, text := range p.Warnings {
			fmt.Fprintf(w, "warning: %s: %s\n", p.Path, text)
		}
		for _, text := range p.Reasons {
			fmt.Fprintf(w, "failed: %s: %s\n", p.Path, text)
		}
	}
	return nil
}

// runRows are the rows of the runs that a verdict is on, one without figures where there is none.
func runRows(p reading) (rows [][]any) {
	known := func(x any, isKnown bool) any {
		if isKnown {
			return x
		}
		return nil
	}
	for i, l := range p.Levels {
		counts := p.log.Levels[i]
		failed, total := counts.Counts()
		row := []any{
			known(l.Client, l.Client != ""), known(l.Concurrency, l.Concurrency > 0), known(total, total >= 0),
			known(failed, total >= 0 && (counts.Requests >= 0 || counts.Failed >= 0)),
		}
		for _, quantity := range benchlog.Quantities {
			x, ok := l.Metrics[benchlog.Name("Mean", quantity)]
			row = append(row, known(x, ok))
		}
		rows = append(rows, append(row, known(l.Throughput, l.Throughput > 0)))
	}
	if rows == nil {
		rows = [][]any{make([]any, 5+len(benchlog.Quantities))}
	}
	return rows
}

// printVerdict writes a verdict for people.
func printVerdict(out io.Writer, v *judge.Verdict) error {
	safe := plaintext.Writer(out) // reasons and scores quote logs
	defer safe.Close()
	w := plaintext.Folded(safe)
	names := metricNames(v)
	if len(v.Levels) > 0 {
		t := sheet.New("", "", "Concurrency", "|Complete")
		t.AddColumns(sheet.Right, "%.2f", names...)
		for _, l := range v.Levels {
			row := []any{l.Concurrency, map[bool]string{true: "yes", false: "no"}[l.Complete]}
			for _, name := range names {
				if x, ok := l.Metrics[name]; ok {
					row = append(row, x)
				} else {
					row = append(row, nil)
				}
			}
			t.AddRow(row...)
		}
		t.Keys = 2
		if err := t.WriteText(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	for _, s := range v.Accuracy {
		fmt.Fprintf(w, "accuracy: run %d: %s, %s: %s %s\n", s.Run, s.Task, s.Filter, s.Metric,
			cmp.Or(s.Text, strconv.FormatFloat(s.Value, 'g', -1, 64)))
	}
	if v.TotalRequests != nil {
		fmt.Fprintf(w, "requests: %d, %d failed\n", *v.TotalRequests, *v.FailedRequests)
	}
	for _, text := range v.Warnings {
		fmt.Fprintln(w, "warning:", text)
	}
	for _, text := range v.Reasons {
		fmt.Fprintln(w, "failed:", text)
	}
	_, err := fmt.Fprintln(w, "state:", v.State)
	return err
}

// metricNames lists the metrics of all levels.
func metricNames(v *judge.Verdict) []string {
	names := map[string]bool{}
	for _, l := range v.Levels {
		for name := range l.Metrics {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
