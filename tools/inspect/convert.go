package inspect

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/size"
	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

type convertCmd struct {
	In   string `arg:"" help:"The result."`
	Out  string `arg:"" help:"The file to write: .json (the whole result), .jsonl or .csv (its measurements), each with .gz or .zst if wanted; - is standard output, as --format says."`
	Rows string `enum:"auto,iteration,pair,pattern,block,storage,request,metric,table" default:"auto" help:"What a line of .jsonl and .csv is; see docs/report.md. auto: iteration, block, storage, request, metric or table."`
	// Table counts from 1, as people do.
	Table int `placeholder:"N" help:"With --rows table: the Nth table that the run printed, if there are several."`
	// Format is needed where no name says it.
	Format string `enum:"auto,json,jsonl,csv" default:"auto" help:"Format, if the name does not say it: json, jsonl or csv."`
}

// Run converts a result as a stream. A file gets its name only when it is complete; what goes to a terminal has its
// control characters escaped.
func (c *convertCmd) Run(s cli.Streams) error {
	format, compression, err := c.format()
	if err != nil {
		return err
	}
	if c.Table != 0 && (c.Rows != "table" || format == "json") {
		return fault.New(fault.Usage, "--table %d: only with --rows table, and not for .json", c.Table)
	}
	if err := cli.NotOver(c.Out, c.In); err != nil {
		return err
	}
	write := func(w io.Writer) error {
		packed, err := result.Compress(w, compression)
		if err != nil {
			return err
		}
		buffered := bufio.NewWriter(packed)
		if format == "json" {
			err = copyResult(c.In, buffered)
		} else {
			err = writeRows(c.In, c.Rows, format, c.Table, buffered)
		}
		if err == nil {
			err = buffered.Flush()
		}
		if err != nil {
			return err
		}
		return packed.Close()
	}
	if c.Out == "-" {
		if format == "json" {
			safe := plaintext.JSONWriter(s.Out)
			return errors.Join(write(safe), safe.Close())
		}
		return write(s.Out)
	}
	return file.Write(c.Out, write)
}

// format reads the name of the output.
func (c *convertCmd) format() (format, compression string, err error) {
	name := c.Out
	for _, ending := range []string{".gz", ".zst"} {
		if rest, ok := strings.CutSuffix(name, ending); ok {
			name, compression = rest, ending
			break
		}
	}
	for _, known := range []string{"json", "jsonl", "csv"} {
		if strings.HasSuffix(name, "."+known) {
			format = known
		}
	}
	switch {
	case c.Format != cli.ByName && format != "" && c.Format != format:
		return "", "", fault.New(fault.Usage, "--format %s does not go with the name %s", c.Format, c.Out)
	case c.Format != cli.ByName:
		format, err = cli.FormatFor(c.Format, name)
	case format == "":
		return "", "", fault.New(fault.Usage,
			"%s: the name must end in .json, .jsonl or .csv, with .gz or .zst after it if wanted", c.Out).
			WithHint("or say --format json, jsonl or csv")
	}
	return format, compression, err
}

// copyResult copies the JSON text of a result and makes sure on the way that it is one.
func copyResult(path string, w io.Writer) error {
	r, err := result.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	out := &cli.Output{W: w}
	d := json.NewDecoder(io.TeeReader(r, out))
	err = result.Skip(d)
	if err == nil {
		err = result.AtEnd(d)
	}
	return cmp.Or(out.Err, r.Fault(err))
}

// row is a line of JSON Lines or CSV: names and values in their order.
type row struct {
	names  []string
	values []any
}

func (r *row) add(name string, value any) {
	r.names, r.values = append(r.names, name), append(r.values, value)
}

// scan is result.Scan, but an error of visit, such as a full disk, is returned as it is.
func scan(path string, visit result.Visit) (*result.Document, error) {
	var stopped error
	d, err := result.Scan(path, func(d *result.Document, m *result.Measurement) error {
		stopped = visit(d, m)
		return stopped
	})
	return d, cmp.Or(stopped, err)
}

// eachRow makes the rows of one measurement: one for the run, or one for each message. With READ the receiver
// initiates.
func eachRow(kind string, head *result.Document, m *result.Measurement, emit func(row) error) error {
	if kind == "iteration" {
		return emit(iterationRow(head, m))
	}
	for i := range m.Ranks {
		r := &m.Ranks[i]
		for _, p := range r.Peers {
			line := firstColumns(head, m.Pattern, m.Phase, m.Iteration)
			sender, receiver := r.Rank, p.Peer
			if head.Patterns[m.Pattern].Op == "READ" {
				sender, receiver = receiver, sender
			}
			line.add("initiator", r.Rank)
			line.add("sender", sender)
			line.add("receiver", receiver)
			line.add("bytes", p.Bytes)
			line.add("start_ns", r.StartNS)
			line.add("end_ns", p.EndNS)
			line.add("latency_ns", p.EndNS-r.StartNS)
			if err := emit(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// firstColumns begins the row of a run.
func firstColumns(head *result.Document, pattern int, phase string, iteration int) row {
	var line row
	line.add("pattern", pattern)
	line.add("name", head.Patterns[pattern].Name)
	line.add("phase", phase)
	line.add("iteration", iteration)
	return line
}

func iterationRow(head *result.Document, m *result.Measurement) row {
	line := firstColumns(head, m.Pattern, m.Phase, m.Iteration)
	line.add("bytes", head.Matrices[head.Patterns[m.Pattern].Matrix].Bytes)
	line.add("start_ns", m.StartNS)
	line.add("end_ns", m.EndNS)
	line.add("latency_ns", m.LatencyNS)
	line.add("uncertainty_ns", m.UncertaintyNS)
	line.add("mean_bandwidth_bytes_per_s", m.MeanBandwidth)
	line.add("initiators", len(m.Ranks))
	return line
}

// patternSum is all runs of a pattern in a phase.
type patternSum struct {
	pattern int
	phase   string
	ms      []float64
	bw      []float64
	runs    result.Latencies
	perRun  float64 // total time / runs, in ms, where single runs have the drift of initiators in them; else NaN
	name    string
	bytes   int64
	all     *result.Totals // where not all runs are among the measurements; else nil
}

// summary keeps a number or two of each measurement.
type summary struct {
	list  []*patternSum
	index map[[2]any]*patternSum
}

func (s *summary) add(head *result.Document, m *result.Measurement) error {
	k := [2]any{m.Pattern, m.Phase}
	of := s.index[k]
	if of == nil {
		if s.index == nil {
			s.index = map[[2]any]*patternSum{}
		}
		p := head.Patterns[m.Pattern]
		of = &patternSum{pattern: m.Pattern, phase: m.Phase, name: p.Name, bytes: head.Matrices[p.Matrix].Bytes}
		s.index[k], s.list = of, append(s.list, of)
	}
	of.runs.Add(m)
	of.ms, of.bw = append(of.ms, float64(m.LatencyNS)/1e6), append(of.bw, m.MeanBandwidth/1e9)
	return nil
}

// patterns are the sums of the result d, in the order in which their first runs came.
func (s *summary) patterns(d *result.Document) []*patternSum {
	alone := map[int]bool{}
	for _, of := range s.list {
		alone[of.pattern] = alone[of.pattern] || len(of.runs.Alone) > 0
	}
	for _, of := range s.list {
		slices.Sort(of.ms)
		of.all = d.TotalsOf(of.pattern, of.phase)
		if of.perRun = math.NaN(); !alone[of.pattern] {
			of.perRun = of.runs.PerRun() / 1e6
			if of.all != nil {
				of.perRun = of.all.PerRun() / 1e6
			}
		}
	}
	return s.list
}

// drifting counts those whose single runs have the drift of initiators in them.
func drifting(list []*patternSum) (n int) {
	for _, of := range list {
		if of.drifts() {
			n++
		}
	}
	return n
}

func (s *patternSum) drifts() bool { return !math.IsNaN(s.perRun) }

// quantile is one of the latencies of the runs in ms; nothing where these have the drift of initiators in them.
func (s *patternSum) quantile(at float64) any {
	if s.drifts() {
		return nil
	}
	if s.all != nil {
		return s.all.Latencies.Quantile(at) / 1e6
	}
	return stats.Quantile(s.ms, at)
}

// mean is that of the latencies of the runs in ms, or the total time / runs.
func (s *patternSum) mean() float64 {
	if s.drifts() {
		return s.perRun
	}
	if s.all != nil {
		return s.all.Latencies.Mean() / 1e6
	}
	return stats.Mean(s.ms)
}

// count is the number of runs.
func (s *patternSum) count() int {
	if s.all != nil {
		return s.all.Runs
	}
	return len(s.ms)
}

// row is the summary of a pattern for CSV and JSON Lines, with more percentiles than the table has room for.
func (s *patternSum) row() row {
	var line row
	line.add("pattern", s.pattern)
	line.add("name", s.name)
	line.add("phase", s.phase)
	line.add("bytes", s.bytes)
	line.add("runs", s.count())
	for _, q := range []struct {
		name string
		at   float64
	}{{"min", 0}, {"median", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1}} {
		line.add(q.name+"_latency_ms", s.quantile(q.at))
	}
	line.add("mean_latency_ms", s.mean())
	line.add("median_bw_gb_per_s", stats.Median(s.bw))
	return line
}

// patternTable is the same summary for people, who call a pattern by its request where the result d says that.
func patternTable(list []*patternSum, d *result.Document) *sheet.Sheet {
	tokens := slices.ContainsFunc(d.Patterns, func(p result.Pattern) bool { return p.Request().Tokens > 0 })
	t := sheet.New("", "", "Pattern", "|Name")
	if tokens {
		t.AddColumn("Tokens", sheet.Right, "%d")
		t.AddColumn("KV bytes", sheet.Right, "%s")
	}
	t.AddColumn("Phase", sheet.Left, "%s")
	t.AddColumn("Runs", sheet.Right, "%d")
	t.AddColumns(sheet.Right, "%.6g", "Min", "Median", "p99", "Max", "Mean", "Mean BW (GB/s)")
	for _, s := range list {
		r := d.Patterns[s.pattern].Request()
		name := []any{cmp.Or(r.Name, s.name)}
		switch {
		case tokens && r.Tokens > 0:
			name = append(name, r.Tokens, size.Decimal(r.Bytes))
		case tokens:
			name = append(name, nil, nil)
		}
		t.AddRow(slices.Concat([]any{s.pattern}, name, []any{s.phase, s.count(), s.quantile(0), s.quantile(0.5),
			s.quantile(0.99), s.quantile(1), s.mean(), stats.Median(s.bw)})...)
	}
	return t
}

// columnsOf are the headers of CSV, which stand there also if there is no row.
func columnsOf(kind string) []string {
	head := &result.Document{Patterns: []result.Pattern{{}}, Matrices: []result.Matrix{{}}}
	m := &result.Measurement{}
	switch kind {
	case "pattern":
		return (&patternSum{perRun: math.NaN()}).row().names
	case "block":
		return blockRow(&result.Lanes{}).names
	case "storage":
		return storageRow(&result.Storage{}, head).names
	case "request":
		return requestColumns
	case "metric":
		return metricRow(metric.Sample{}, "", nil).names
	case "pair":
		return append(firstColumns(head, m.Pattern, m.Phase, m.Iteration).names, "initiator", "sender", "receiver",
			"bytes", "start_ns", "end_ns", "latency_ns")
	}
	return iterationRow(head, m).names
}

// writeJSONLine writes each row as a JSON object on its own line, its members in the order of the columns.
func writeJSONLine(w io.Writer) func(row) error {
	return func(r row) error {
		line, err := sheet.Object(r.names, r.values)
		if err != nil {
			return err
		}
		safe := plaintext.JSONWriter(w)
		_, err = safe.Write(append(line, '\n'))
		return errors.Join(err, safe.Close())
	}
}
