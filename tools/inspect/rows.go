package inspect

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/result"
)

// rowWriter writes rows of one kind. The header of CSV comes with the first row: only then is it known which kind
// it is.
type rowWriter struct {
	csv   *csv.Writer // nil for JSON Lines
	line  func(row) error
	count int
}

func newRowWriter(w io.Writer, format string) *rowWriter {
	if format == "csv" {
		return &rowWriter{csv: csv.NewWriter(w)}
	}
	return &rowWriter{line: writeJSONLine(w)}
}

// emit writes a row. Texts that a spreadsheet would take for a formula are marked in CSV.
func (o *rowWriter) emit(r row) error {
	o.count++
	if o.csv == nil {
		return o.line(r)
	}
	if o.count == 1 {
		o.header(r.names)
	}
	cells := make([]string, len(r.values))
	for i, v := range r.values {
		if v != "" && v != nil { // labels that a sample has not, times of what did not happen
			cells[i] = plaintext.Cell(fmt.Sprint(v))
		}
	}
	return o.csv.Write(cells)
}

// header writes the names of columns, which the result has chosen: those of a table, and keys of labels.
func (o *rowWriter) header(names []string) {
	cells := make([]string, len(names))
	for i, name := range names {
		cells[i] = plaintext.Cell(name)
	}
	o.csv.Write(cells)
}

// finish writes the header, which stands there also if there is no row, and what is buffered.
func (o *rowWriter) finish(kind string) error {
	if o.csv == nil {
		return nil
	}
	if o.count == 0 {
		o.header(columnsOf(kind))
	}
	o.csv.Flush()
	return o.csv.Error()
}

// writeRows writes what a result has measured, a line each.
func writeRows(path, kind, format string, number int, w io.Writer) error {
	out := newRowWriter(w, format)
	has := map[string]bool{}
	var patterns summary
	drift, err := driftOf(path, kind)
	if err != nil {
		return err
	}
	emit := func(m *result.Measurement) func(row) error {
		return func(r row) error {
			if drift[[2]any{m.Pattern, m.Phase}] {
				r.values[slices.Index(r.names, "latency_ns")] = nil
			}
			return out.emit(r)
		}
	}
	d, err := scan(path, func(d *result.Document, m *result.Measurement) error {
		has["iteration"], has["pattern"] = true, true
		has["pair"] = has["pair"] || len(m.Ranks) > 0
		switch kind {
		case "auto":
			return eachRow("iteration", d, m, emit(m))
		case "iteration":
			return eachRow(kind, d, m, emit(m))
		case "pair":
			return eachRow(kind, d, m, out.emit)
		case "pattern":
			return patterns.add(d, m)
		}
		return nil
	})
	if err != nil {
		return err
	}
	has["block"], has["storage"], has["request"] = len(d.Lanes) > 0, len(d.Storage) > 0, d.Replay != nil
	has["metric"] = slices.ContainsFunc(d.Metrics, func(m result.Metric) bool { return len(m.Values) > 0 })
	has["table"] = len(d.Tables) > 0
	// With auto, iterations were written while the document flowed by; where there are none, the first other kind is.
	if kind == "auto" {
		kind = first(has, "iteration", "block", "storage", "request", "metric", "table")
	}
	switch kind {
	case "pattern":
		for _, s := range patterns.patterns(d) {
			if err = out.emit(s.row()); err != nil {
				break
			}
		}
	case "block", "storage", "request", "metric":
		err = eachOther(d, kind, out.emit)
	case "table":
		err = tableRows(path, d.Tables, number, out.emit)
	}
	if err != nil {
		return err
	}
	if there := kindsOf(has); out.count == 0 && len(there) > 0 {
		return fault.New(fault.Input, "result %s has nothing to write for --rows %s", path, kind).
			WithHint("it has rows of the kinds %s", strings.Join(there, ", "))
	}
	return out.finish(kind)
}

// driftOf finds the patterns and phases whose runs have the drift of initiators in their latency, for rows of runs.
// That is known once all runs were read; a pipe cannot be read twice.
func driftOf(path, kind string) (drift map[[2]any]bool, err error) {
	if info, err := os.Stat(path); kind != "auto" && kind != "iteration" || err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	var patterns summary
	d, err := scan(path, patterns.add)
	if err != nil {
		return nil, err
	}
	drift = map[[2]any]bool{}
	for _, s := range patterns.patterns(d) {
		drift[[2]any{s.pattern, s.phase}] = s.drifts()
	}
	return drift, nil
}

func first(has map[string]bool, kinds ...string) string {
	for _, k := range kinds {
		if has[k] {
			return k
		}
	}
	return kinds[0]
}

func kindsOf(has map[string]bool) (list []string) {
	for _, k := range []string{"iteration", "pair", "pattern", "block", "storage", "request", "metric"} {
		if has[k] {
			list = append(list, k)
		}
	}
	return list
}

// eachOther makes the rows of kinds that are not measurements of patterns, which a document keeps as a whole.
func eachOther(d *result.Document, kind string, emit func(row) error) (err error) {
	keep := func(r row) {
		if err == nil {
			err = emit(r)
		}
	}
	switch kind {
	case "block":
		for i := range d.Lanes {
			keep(blockRow(&d.Lanes[i]))
		}
	case "storage":
		for i := range d.Storage {
			keep(storageRow(&d.Storage[i], d))
		}
	case "request":
		if d.Replay == nil {
			return nil
		}
		for i := range d.Replay.Requests.Index {
			keep(requestRow(&d.Replay.Requests, i))
		}
	case "metric":
		labels := labelKeys(d)
		for _, m := range d.Metrics {
			metric.Each(d, m.Name, func(s metric.Sample) { keep(metricRow(s, m.Name, labels)) })
		}
	}
	return err
}

// tableRows writes the rows of a table that the run has printed. number counts from 1; 0 is the only one.
func tableRows(path string, tables []result.Table, number int, emit func(row) error) error {
	switch {
	case len(tables) == 0:
		return nil
	case number == 0 && len(tables) == 1:
		number = 1
	case number < 1 || number > len(tables):
		var list []string
		for i, t := range tables {
			list = append(list, fmt.Sprintf("%d: %s", i+1, plaintext.Escape(cmp.Or(t.Title, strings.Join(t.Columns, ", ")))))
		}
		return fault.New(fault.Usage, "result %s has %d tables, want one of them by --table 1 to %d", path, len(tables),
			len(tables)).
			WithHint("they are %s", strings.Join(list, "; "))
	}
	t := tables[number-1]
	columns := sheet.Unique(t.Columns)
	for _, cells := range t.Rows {
		var line row
		for i, name := range columns {
			v := whole(cells[i])
			if v == nil {
				v = ""
			}
			line.add(name, v)
		}
		if err := emit(line); err != nil {
			return err
		}
	}
	return nil
}

// blockRow is a measurement of block transfers.
func blockRow(m *result.Lanes) row {
	var line row
	line.add("phase", m.Phase)
	line.add("op", m.Op)
	line.add("local_mem", m.Local)
	line.add("remote_mem", m.Remote)
	line.add("block_bytes", m.BlockBytes)
	line.add("batch", m.Batch)
	line.add("threads", m.Threads)
	line.add("iterations", m.Iterations)
	line.add("bytes", m.Bytes)
	line.add("start_ns", m.StartNS)
	line.add("end_ns", m.EndNS)
	line.add("uncertainty_ns", m.UncertaintyNS)
	line.add("bandwidth_bytes_per_s", m.Bandwidth)
	line.add("cpu_seconds", m.CPUSeconds)
	line.add("latency_mean_ns", m.Latency.Mean)
	line.add("latency_min_ns", m.Latency.Min)
	line.add("latency_p50_ns", m.Latency.P50)
	line.add("latency_p99_ns", m.Latency.P99)
	line.add("latency_p999_ns", m.Latency.P999)
	line.add("latency_max_ns", m.Latency.Max)
	line.add("prep_mean_ns", m.Prep.Mean)
	line.add("post_mean_ns", m.Post.Mean)
	line.add("tx_mean_ns", m.Tx.Mean)
	return line
}

// storageRow is one run of one half of a storage operation.
func storageRow(m *result.Storage, d *result.Document) row {
	line := firstColumns(d, m.Pattern, m.Phase, m.Iteration)
	line.add("rank", m.Rank)
	line.add("op", m.Op)
	line.add("bytes", m.Bytes)
	line.add("start_ns", m.StartNS)
	line.add("end_ns", m.EndNS)
	line.add("latency_ns", m.EndNS-m.StartNS)
	return line
}

var requestColumns = []string{"request", "prefill_worker", "decode_worker", "tokens", "bytes", "due_ns", "admitted_ns",
	"posted_ns", "late_ns", "done_ns", "prefill_ns"}

// requestRow is a request of a replay; what did not happen has no value.
func requestRow(q *result.ReplayRequests, i int) row {
	known := func(ns int64) any {
		if ns < 0 {
			return nil
		}
		return ns
	}
	var late any
	if q.Posted[i] >= 0 {
		late = q.Late[i]
	}
	return row{requestColumns, []any{q.Index[i], q.Prefill[i], q.Decode[i], q.Tokens[i], q.Bytes[i], q.Due[i],
		known(q.Admitted[i]), known(q.Posted[i]), late, known(q.Done[i]), q.PrefillNS[i]}}
}

// labelKeys are the labels that any sample of a result has.
func labelKeys(d *result.Document) []string {
	keys := map[string]bool{}
	for _, m := range d.Metrics {
		for _, set := range m.LabelSets {
			for k := range set {
				keys[k] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// metricRow is a sample of a scenario's own metric, with a column for each label.
func metricRow(s metric.Sample, name string, labels []string) row {
	var line row
	line.add("metric", name)
	line.add("phase", s.Phase)
	line.add("value", s.Value)
	line.add("time_ns", s.StartNS)
	for _, k := range labels {
		line.add(k, s.Labels[k])
	}
	return line
}
