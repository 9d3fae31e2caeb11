package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/figures"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/kit/plaintext"
	"perigee/internal/result"
)

// report runs the command as a user does, with its output to no terminal.
func report(t testing.TB, c Cmd) (out, errs string, err error) {
	t.Helper()
	if c.Format == "" {
		c.Format = "html"
	}
	var o, e bytes.Buffer
	err = c.Run(cli.Streams{In: bytes.NewReader(nil), Out: &o, Err: &e, Env: func(string) string { return "" }})
	return o.String(), e.String(), err
}

func write(t testing.TB, d *result.Document, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, d.Write(path))
	return path
}

func TestOutputs(t *testing.T) {
	in := write(t, smallDocument(), "r.json.zst")
	t.Chdir(t.TempDir())
	out, errs, err := report(t, Cmd{Results: []string{in}})
	if err != nil || out != "" || errs != "# report: report.html\n" {
		t.Errorf("default: %v, out %q, err %q", err, out, errs)
	}
	page, err := os.ReadFile("report.html")
	if err != nil || !bytes.HasPrefix(page, []byte("<!doctype html>")) || !bytes.HasSuffix(page, []byte("</html>\n")) {
		t.Errorf("report.html: %v, %.30q", err, page)
	}
	out, errs, err = report(t, Cmd{Results: []string{in}, Output: "-"})
	if err != nil || out != string(page) || errs != "" {
		t.Errorf("-o -: %v, %d bytes, want %d; %q", err, len(out), len(page), errs)
	}
	out, _, err = report(t, Cmd{Results: []string{in}, Text: true})
	if err != nil || !strings.HasPrefix(out, "# r.json.zst: sequential_ct_perftest, 2 ranks on 1 host, launcher slurm\n") {
		t.Errorf("--text: %v, %.80q", err, out)
	}
	if _, _, err = report(t, Cmd{Results: []string{in}, Text: true, Output: "t.txt"}); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile("t.txt"); err != nil || string(text) != out {
		t.Errorf("--text -o: %v", err)
	}
	full, _, err := report(t, Cmd{Results: []string{in}, Text: true, Full: true})
	if err != nil || strings.Contains(out, "# latency") || !strings.Contains(full, "# latency\n") {
		t.Errorf("--full: %v, %q without, %q", err, out, full)
	}
	for _, format := range []string{"html", "json"} {
		_, _, err := report(t, Cmd{Results: []string{in}, Format: format, Full: true})
		must.Fail(t, err, fault.Usage, "--full is for --text")
	}
	before, _ := os.ReadFile(in)
	if _, _, err = report(t, Cmd{Results: []string{in}, Output: in}); fault.KindOf(err) != fault.Usage {
		t.Errorf("the result is written over: %v", err)
	}
	if after, err := os.ReadFile(in); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the result has changed: %v", err)
	}
	if _, _, err = report(t, Cmd{Results: []string{in}, Text: true, Format: "json"}); fault.KindOf(err) != fault.Usage {
		t.Errorf("--text --format json: %v", err)
	}
}

// JSON keeps every character, but prints none that acts on a terminal.
func TestJSONIsPlain(t *testing.T) {
	d := smallDocument()
	d.Scenario.Name = "a\u009b2J\u202eb"
	out, _, err := report(t, Cmd{Results: []string{write(t, d, "r.json")}, Format: "json"})
	var back struct{ Results []struct{ Scenario string } }
	if err != nil || strings.ContainsAny(out, "\u009b\u202e") || json.Unmarshal([]byte(out), &back) != nil || back.Results[0].Scenario != d.Scenario.Name {
		t.Errorf("%v: %.200q", err, out)
	}
}

func TestJSON(t *testing.T) {
	a, b := write(t, smallDocument(), "r.json"), write(t, smallDocument(), "r.json")
	out, _, err := report(t, Cmd{Results: []string{a, b}, Format: "json"})
	must.Do(t, err)
	var got struct {
		Schema  string
		Results []struct {
			File, Scenario, Status string
			World                  result.World
			Slowdown               figures.Num
			Patterns               []figures.PatternFigures
			Pairs                  []figures.Pair
		}
	}
	must.Do(t, json.Unmarshal([]byte(out), &got))
	want, err := figures.Of(smallDocument())
	must.Do(t, err)
	r := got.Results[1]
	if got.Schema != "perigee.report/1" || r.File != b || r.Status != "complete" || r.World.Size != 2 || r.Slowdown != want.Slowdown || len(got.Results) != 2 {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(want.Patterns, r.Patterns); diff != "" {
		t.Errorf("patterns (-want +got):\n%s", diff)
	}
}

func TestBadInput(t *testing.T) {
	good := must.Read(t, write(t, smallDocument(), "r.json.zst"))
	newer := smallDocument()
	newer.Schema = "perigee.result/7"
	noRuns := smallDocument()
	noRuns.Measurements, noRuns.World.Hosts[0].Ranks = nil, []int{0, 7}
	idle := marshal(t, noRuns)
	dir := t.TempDir()
	t.Chdir(dir)
	for name, c := range map[string]struct{ content, want, hint string }{
		"text.json":     {"hello", "result text.json: invalid character", "is it a result of perigee?"},
		"empty.json":    {"", "result empty.json: it ends in the middle", "get it again"},
		"table.json":    {`{"iterations_results":[]}`, `schema is "", want "perigee.result/1"`, "is it a result"},
		"cut.json.zst":  {string(good[:len(good)/2]), "result cut.json.zst: it ends in the middle", "cut off"},
		"newer.json":    {func() string { b, _ := json.Marshal(newer); return string(b) }(), "its schema is perigee.result/7", "newer perigee"},
		"a folder":      {"", "the folder holds no results, serving benchmarks or figures of disagg", ""},
		"missing.json":  {"", "no such file", ""},
		"damaged.json":  {strings.Replace(marshal(t, smallDocument()), `"rank":0`, `"rank":77`, 1), "measurements[0]: there is no rank 77", "is it a result"},
		"badworld.json": {strings.Replace(marshal(t, smallDocument()), `"size":2`, `"size":2000000000`, 1), "its size is 2000000000, its hosts have 2 ranks", "is it a result"},
		"noruns.json":   {idle, "result noruns.json: world: rank 7 on host", "is it a result"},
	} {
		switch name {
		case "missing.json":
		case "a folder":
			must.Do(t, os.Mkdir(name, 0o755))
		default:
			must.Do(t, os.WriteFile(name, []byte(c.content), 0o644))
		}
		_, _, err := report(t, Cmd{Results: []string{name}, Output: "out.html"})
		if fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), c.want) || !strings.Contains(fault.HintOf(err), c.hint) {
			t.Errorf("%s: got %v (hint %s), want %s (hint %s)", name, err, fault.HintOf(err), c.want, c.hint)
		}
		if _, err := os.Stat("out.html"); err == nil {
			t.Fatalf("%s: a page was written", name)
		}
	}
	// What was there stays there.
	must.Do(t, os.WriteFile("out.html", []byte("old"), 0o644))
	if _, _, err := report(t, Cmd{Results: []string{"text.json"}, Output: "out.html"}); err == nil {
		t.Error("no error")
	}
	if old, err := os.ReadFile("out.html"); err != nil || string(old) != "old" {
		t.Errorf("the old page is %q, %v", old, err)
	}
	if _, _, err := report(t, Cmd{Results: []string{write(t, smallDocument(), "r.json")}, Output: "no/such/folder.html"}); fault.KindOf(err) != fault.Output {
		t.Errorf("no folder: %v", err)
	}
	if _, _, err := report(t, Cmd{Results: []string{write(t, smallDocument(), "r.json")}, Output: "/dev/full"}); fault.KindOf(err) != fault.Output {
		t.Errorf("full disk: %v", err)
	}
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must.Do(t, err)
	return string(b)
}

func textOf(t testing.TB, d *result.Document, l look) string {
	t.Helper()
	f, err := figures.Of(d)
	must.Do(t, err)
	var out strings.Builder
	must.Do(t, writeText(&out, []input{{"r.json", f}}, l))
	return out.String()
}

// htmlOf is the page of one result.
func htmlOf(t testing.TB, d *result.Document) string {
	t.Helper()
	f, err := figures.Of(d)
	must.Do(t, err)
	var out strings.Builder
	must.Do(t, writeHTML(&out, []input{{"r.json", f}}))
	return out.String()
}

// The text fits the width, wherever that is possible, and has colours only where
// they are wanted.
func TestTextFitsTheTerminal(t *testing.T) {
	for _, s := range []synthetic{
		{ranks: 2, hosts: 1, patterns: 1, senders: 1, peers: 1, isolated: 1, iterations: 1},
		{ranks: 200, hosts: 4, patterns: 30, senders: 8, peers: 3, isolated: 1, iterations: 2},
	} {
		d := s.document()
		s.each(d, func(m *result.Measurement) { d.Measurements = append(d.Measurements, *m) })
		for _, width := range []int{40, 80, 132, 300} {
			text := textOf(t, d, look{width: width, full: true})
			for line := range strings.Lines(text) {
				line = strings.TrimRight(line, "\n")
				if n := utf8.RuneCountInString(line); n > width && !strings.HasPrefix(line, "#") {
					t.Errorf("%d ranks, width %d: a line of %d: %s", s.ranks, width, n, line)
				}
			}
			if strings.Contains(text, "\x1b") {
				t.Error("colours without a terminal")
			}
			if !strings.Contains(text, "█") || !strings.Contains(text, "rows send, columns receive") {
				t.Errorf("width %d: no heatmap in\n%s", width, text)
			}
		}
		if coloured := textOf(t, d, look{width: 80, colour: true, full: true}); !strings.Contains(coloured, "\x1b[48;5;") {
			t.Error("no colours on a terminal")
		}
	}
}

func TestTextOfOddResults(t *testing.T) {
	for name, change := range oddResults {
		d := smallDocument()
		change(d)
		text := textOf(t, d, look{width: 80}) + textOf(t, d, look{width: 80, full: true, bars: true})
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "%!") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	d := smallDocument()
	oddResults["failed"](d)
	if text := textOf(t, d, look{width: 80}); !strings.Contains(text, "# PARTIAL: rank 1 (node00)") && !strings.Contains(text, "# PARTIAL: rank 1 on node00") {
		t.Errorf("a failure is not loud:\n%s", text)
	}
	d.Failure.Cause = "line\nbreak"
	d.Thresholds = []result.Threshold{{Threshold: "latency_ms.p99 < 1ms"}}
	poison(reflect.ValueOf(d))
	d.Status = result.Partial
	if text := textOf(t, d, look{width: 80}); text != plaintext.Text(text) || strings.Count(text, "evil") < 5 || strings.Contains(text, "\nbreak") {
		t.Errorf("a result plays with the terminal: %q", text)
	}
}

// The text says of patterns and thresholds only what is known of them.
func TestTextOfWhatIsNotKnown(t *testing.T) {
	for isolated, want := range map[int]string{0: "# the first 16 of 30 patterns", 1: "# the 16 of 30 patterns that suffer most"} {
		s := synthetic{ranks: 2, hosts: 1, patterns: 30, senders: 1, peers: 1, isolated: isolated, iterations: 1}
		d := s.document()
		s.each(d, func(m *result.Measurement) { d.Measurements = append(d.Measurements, *m) })
		d.Thresholds = []result.Threshold{{Threshold: "latency_ms.p99 < 1ms"}}
		text := textOf(t, d, look{width: 80, full: true})
		if !strings.Contains(text, want+"\n") || !strings.Contains(text, "not judged  latency_ms.p99 < 1ms\n") {
			t.Errorf("%d isolated runs: want %q, and a threshold without samples, in\n%s", isolated, want, text)
		}
	}
}

// poison adds what would act on a terminal to every text of a document.
func poison(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			poison(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				poison(f)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i))
		}
	case reflect.String:
		v.SetString(v.String() + "evil\x1b[2J\u202e\u009b")
	}
}

func TestTables(t *testing.T) {
	got := newTable(result.Table{Columns: []string{"Name", "Size (GB)", "N", "None"}, Rows: [][]any{
		{"a", 0.0212, 2.0, nil}, {"b", 123.456789, 10.0, nil}, {"c", 0.0, 0.0, nil}, {true, 1e-30, 1.0, nil},
	}}, 1, 2, 4, mostRows)
	var out strings.Builder
	must.Do(t, got.WriteTextWithin(&out, 0, 0))
	var text []string
	for line := range strings.Lines(out.String()) {
		text = append(text, strings.Join(strings.Fields(line), "|"))
	}
	text = text[2:]
	want := []string{"a|0.021200000|2|-", "b|123.456789000|10|-", "c|0.000000000|0|-", "true|0.000000000|1|-"}
	if diff := cmp.Diff(want, text); diff != "" || got.Title != "Table 2" {
		t.Errorf("%s (-want +got):\n%s", got.Title, diff)
	}
}

// A large result takes a bounded part of the page, which says what it leaves out.
func TestLongResultsInAPage(t *testing.T) {
	d := smallDocument()
	many := slices.Repeat([][]any{{1.0}}, mostRows-10)
	d.Tables = []result.Table{{Columns: []string{"x"}, Rows: many}, {Columns: []string{"x"}, Rows: many}}
	d.Notes = slices.Repeat([]string{"a note"}, mostNotes+1)
	f, err := figures.Of(d)
	must.Do(t, err)
	labels := make([]result.Labels, mostMetricRows)
	for i := range labels {
		labels[i] = result.Labels{"k": fmt.Sprint(i)}
	}
	sets := result.Metric{MetricDef: result.MetricDef{Name: "m", Help: "what it is"}, LabelSets: labels}
	d.Metrics = []result.Metric{sets, sets}
	v := newView("r0", input{figures: f})
	if help := v.Metrics[0].Help + v.Metrics[1].Help; help != "what it is" || len(v.Metrics) != mostMetricRows || v.MetricsOf < 2*mostMetricRows {
		t.Errorf("%q, %d of %d rows of metrics", help, len(v.Metrics), v.MetricsOf)
	}
	if n := v.Tables[1].Len(); n != 10 || v.Tables[1].Of != len(many) {
		t.Errorf("%d of %d rows", n, v.Tables[1].Of)
	}
	if len(v.Notes) != mostNotes {
		t.Errorf("%d notes", len(v.Notes))
	}
}

// The table of sequential-ct-perftest names the pattern of each row; one that does so already, or that is another, stays.
func TestTablesNamePatterns(t *testing.T) {
	rows := [][]any{{0.1, 1.0}, {0.2, 2.0}}
	for _, c := range []struct {
		columns  []string
		patterns int
		want     string
	}{
		{[]string{"Transfer size (GB)", "Isolated Latency (ms)"}, 2, "Pattern"},
		{[]string{"Transfer size (GB)", "Isolated Latency (ms)"}, 3, "Transfer size (GB)"},
		{[]string{"Pattern", "Isolated Latency (ms)"}, 2, "Pattern"},
		{[]string{"Direction", "BW"}, 2, "Direction"},
	} {
		got := newTable(result.Table{Columns: c.columns, Rows: rows}, 0, 1, c.patterns, mostRows)
		headers := got.Headers()
		if headers[0] != c.want || len(headers) > 3 {
			t.Errorf("%v of %d patterns: %q", c.columns, c.patterns, headers)
		}
		var out strings.Builder
		if err := got.WriteCSV(&out); err != nil || len(headers) == 3 && !strings.Contains(out.String(), "\n1,") {
			t.Errorf("%v: %s", err, &out)
		}
	}
}

// A ratio is rounded once, and as the tables round it.
func TestRatiosRoundAlike(t *testing.T) {
	for _, v := range []float64{1.9149, 1.91499999, 1.915, 2.005, 12.3456, 0.996} {
		if got, want := fmt.Sprintf("%.2fx", float64(hundredths(figures.Num(v)))), plainRatio(figures.Num(v)); got != want {
			t.Errorf("%v is %s in charts and %s in tables", v, got, want)
		}
	}
}

func TestLabels(t *testing.T) {
	list := make([]input, 3)
	label(list, []string{"a/r.json", "b/r.json", "b/s.json"})
	if list[0].label != "a/r.json" || list[1].label != "b/r.json" || list[2].label != "s.json" {
		t.Errorf("%v", list)
	}
}

// Who sleeps before a pattern stands in the result, wherever the scenario had it from.
func TestTargetsSleep(t *testing.T) {
	for meet, want := range map[string]bool{"all": true, "initiators": false, "": false} {
		d := &result.Document{Patterns: []result.Pattern{{Meet: meet}}}
		if got := dataOf(&figures.Figures{Document: d}).TargetsSleep; got != want {
			t.Errorf("meet %q: targets sleep: %v, want %v", meet, got, want)
		}
	}
}

// A rank that stood still is named in the summary, as is a partial result; other notes are not.
func TestTextOfStandstills(t *testing.T) {
	d := smallDocument()
	note := result.StandstillNote("rank 1 on node00", 20*time.Second, "workload")
	d.Notes = []string{"another", note}
	if text := textOf(t, d, look{width: 80}); strings.Count(text, "# note: "+note+"\n") != 1 || strings.Contains(text, "another") {
		t.Error(text)
	}
}
