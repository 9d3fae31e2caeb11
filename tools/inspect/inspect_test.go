package inspect

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"perigee/docs"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/series"
)

// document has two patterns, of which the second reads, and a name that CSV has to quote.
func document(t testing.TB) *result.Document {
	t.Helper()
	d := result.New([]string{"perigee", "run", "x"}, result.Scenario{
		Name: "x.lua", SHA256: strings.Repeat("0a", 32), Source: "return {}", Options: map[string]any{"n": 5, "a": "b", "size": 67108864, "x": 0.25},
	}, 7, result.World{Size: 2, Launcher: "local", Hosts: []result.Host{{Name: "memory0", Ranks: []int{0, 1}, CPUs: 2}}, Clocks: []result.Clock{{}}})
	d.Started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m, err := matrix.FromRows([][]int64{{0, 1000}, {0, 0}})
	must.Do(t, err)
	i := d.AddMatrix(m, "m.txt")
	d.Patterns = []result.Pattern{{Name: `p, "1"`, Matrix: i, Mem: "dram", Op: "WRITE", Shards: 1, Senders: 1}, {Name: "q", Matrix: i, Mem: "dram", Op: "READ", Shards: 1, Senders: 1}}
	run := func(initiator int, start, ns int64) series.Run {
		return series.Run{StartNS: start, EndNS: start + ns, Ranks: []series.RankRun{{
			Rank: initiator, StartNS: start, PostNS: start + 1, EndNS: start + ns, Bytes: 1000, Peers: []series.PeerRun{{Peer: 1 - initiator, Bytes: 1000, EndNS: start + ns}},
		}}}
	}
	d.AddRuns(0, "work", 0, []series.Run{run(0, 100, 1e6), run(0, 200, 3e6), run(0, 300, 2e6)})
	d.AddRuns(1, "work", 0, []series.Run{run(1, 400, 5e6)})
	d.Tables = []result.Table{{Columns: []string{"A", "A"}, Rows: [][]any{{1.5, nil}, {1048576, 1234.56789}}}}
	d.Notes = []string{"a note"}
	d.Values = map[string]any{"v": 1}
	value, passed := 3.0, false
	d.Thresholds = []result.Threshold{{Threshold: "latency_ms.max < 2", From: "--threshold", Value: &value, Samples: 3, Passed: &passed}, {Threshold: "latency_ms.p99 < 2", From: "x.lua:1"}, {Threshold: "own_ms.stddev < 2", From: "x.lua:2", Samples: 1, Passed: &passed}}
	d.DeclareMetrics([]result.MetricDef{{Name: "own_ms"}})
	d.Finish(nil)
	must.Do(t, resulttest.ValidateDocument(d))
	return d
}

func write(t testing.TB, d *result.Document, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, d.Write(path))
	return path
}

// call runs perigee result as from the command line.
func call(t testing.TB, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := callTo(t, &cli.Output{W: &out}, args...)
	return out.String(), err
}

func callTo(t testing.TB, out *cli.Output, args ...string) error {
	t.Helper()
	k, err := kong.New(&Cmd{}, kong.Writers(out, out), kong.Bind(cli.Streams{Out: out}), kong.Exit(func(int) { panic("exit") }))
	must.Do(t, err)
	ctx, err := k.Parse(args)
	must.Do(t, err)
	return ctx.Run()
}

func mustCall(t testing.TB, args ...string) string {
	t.Helper()
	out, err := call(t, args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out
}

var names = []string{"r.json", "r.json.gz", "r.json.zst"}

func TestShow(t *testing.T) {
	for _, name := range names {
		out := mustCall(t, "show", write(t, document(t), name))
		for _, want := range []string{
			"status:     complete\n", "started:    2026-01-02T03:04:05Z\n", "command:    perigee run x\n", "scenario:   x.lua (SHA-256 0a0a0a0a0a0a...)\n",
			"options:    a=b n=5 size=67108864 x=0.25\n", "seed:       7\n", "holds:      2 patterns of 1 matrix, 1 table, 0 input files\n", "note:       a note\n",
			"0 p, \"1\" work 3 1 2 2.98 3 2 0.0005\n", "1 q work 1 5 5 5 5 5 0.0002\n",
			"# printed by the run\n", "\n 1.5 -\n1048576 1234.57\n", "threshold:  own_ms.stddev < 2: violated (samples: 1, too few to say)\n", "threshold:  latency_ms.max < 2: violated (it is 3 over 3 samples)\n", "threshold:  latency_ms.p99 < 2: not judged\n",
			"metric:     own_ms: 0 samples\n", "value:      v\n",
		} {
			if !strings.Contains(squeeze(out), squeeze(want)) {
				t.Errorf("%s: lacks %q:\n%s", name, want, out)
			}
		}
	}
}

var blanks = regexp.MustCompile(" +")

// squeeze makes one blank of several.
func squeeze(text string) string { return blanks.ReplaceAllString(text, " ") }

func TestShowFailedRun(t *testing.T) {
	d := document(t)
	d.Measurements, d.Patterns, d.Tables = nil, nil, nil
	d.Finish(&result.Failure{Rank: -1, Kind: fault.Timeout, Cause: "too late"})
	out := mustCall(t, "show", write(t, d, "r.json"))
	if !strings.Contains(out, "status:     partial\nfailure: ") || !strings.Contains(out, "too late") || strings.Contains(out, "Median") {
		t.Error(out)
	}
}

func TestCat(t *testing.T) {
	path := write(t, document(t), "r.json.zst")
	if got := mustCall(t, "cat", path, ".measurements[].latency_ns"); got != "1000000\n3000000\n2000000\n5000000\n" {
		t.Errorf("latencies %q", got)
	}
	if got := mustCall(t, "cat", "-r", path, ".patterns[-2].name"); got != "p, \"1\"\n" {
		t.Errorf("name %q", got)
	}
	var whole bytes.Buffer
	must.Do(t, document(t).Encode(&whole))
	var want, got any
	must.Do(t, errors.Join(json.Unmarshal(whole.Bytes(), &want), json.Unmarshal([]byte(mustCall(t, "cat", path)), &got)))
	for _, v := range []any{want, got} {
		delete(v.(map[string]any), "finished")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the whole (-want +got):\n%s", diff)
	}
	_, err := call(t, "cat", path, ".patterns[0].nam")
	if fault.KindOf(err) != fault.Input || err.Error() != "result "+path+`: there is no .patterns[0].nam; did you mean "name"?` || !strings.HasPrefix(fault.HintOf(err), "patterns[0] has latency_ms, ") {
		t.Errorf("%v (%s)", err, fault.HintOf(err))
	}
}

// Of a file that ends too early nothing is printed but how much can be read.
func TestCatOfACutOffFile(t *testing.T) {
	path := write(t, document(t), "r.json")
	text := must.Read(t, path)
	at := bytes.Index(text, []byte(`"latency_ns":3000000`))
	must.Do(t, os.WriteFile(path, text[:at], 0o644))
	out, err := call(t, "cat", path, ".measurements[].latency_ns")
	want := "it ends in the middle: " + jsonNumber(at) + " bytes of its JSON can be read"
	if fault.KindOf(err) != fault.Input || out != "" || err.Error() != "result "+path+": "+want {
		t.Errorf("out %q, %v", out, err)
	}
}

func jsonNumber(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func TestConvertRows(t *testing.T) {
	path := write(t, document(t), "r.json.gz")
	for _, c := range []struct {
		rows, header, first string
		lines               int
	}{
		{"iteration", "pattern,name,phase,iteration,bytes,start_ns,end_ns,latency_ns,uncertainty_ns,mean_bandwidth_bytes_per_s,initiators", `0,"p, ""1""",work,0,1000,100,1000100,1000000,0,1e+06,1`, 5},
		{"pair", "pattern,name,phase,iteration,initiator,sender,receiver,bytes,start_ns,end_ns,latency_ns", `0,"p, ""1""",work,0,0,0,1,1000,100,1000100,1000000`, 5},
		{"pattern", "pattern,name,phase,bytes,runs,min_latency_ms,median_latency_ms,p90_latency_ms,p99_latency_ms,max_latency_ms,mean_latency_ms,median_bw_gb_per_s", `0,"p, ""1""",work,1000,3,1,2,2.8000000000000003,2.98,3,2,0.0005`, 3},
	} {
		text := mustCall(t, "convert", path, "-", "--format", "csv", "--rows", c.rows)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) != c.lines || lines[0] != c.header || lines[1] != c.first {
			t.Errorf("%s:\n%s", c.rows, text)
		}
		records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		must.Do(t, err)
		// JSON Lines says the same, name by name.
		objects := strings.Split(strings.TrimSuffix(mustCall(t, "convert", path, "-", "--format", "jsonl", "--rows", c.rows), "\n"), "\n")
		if len(objects) != len(records)-1 {
			t.Fatalf("%s: %d objects for %d rows", c.rows, len(objects), len(records)-1)
		}
		for i, object := range objects {
			cells := map[string]string{}
			var values map[string]any
			if err := json.Unmarshal([]byte(object), &values); err != nil {
				t.Fatalf("%s: %v", object, err)
			}
			for k, name := range records[0] {
				cells[name] = records[i+1][k]
			}
			if len(values) != len(cells) {
				t.Errorf("%s has other names than %v", object, records[0])
			}
			for name, v := range values {
				if s, ok := v.(string); ok && s != cells[name] || !ok && !sameNumber(t, v, cells[name]) {
					t.Errorf("%s %s: %v in JSON Lines, %s in CSV", c.rows, name, v, cells[name])
				}
			}
		}
	}
	// In the second pattern rank 1 reads: the bytes come from rank 0.
	if got := mustCall(t, "convert", path, "-", "--format", "csv", "--rows", "pair"); !strings.Contains(got, "\n1,q,work,0,1,0,1,1000,") {
		t.Errorf("a READ:\n%s", got)
	}
}

func sameNumber(t *testing.T, v any, cell string) bool {
	t.Helper()
	var n float64
	if err := json.Unmarshal([]byte(cell), &n); err != nil {
		t.Errorf("%s: %v", cell, err)
	}
	return v == n
}

func TestConvertFiles(t *testing.T) {
	d := document(t)
	in, dir := write(t, d, "r.json.zst"), t.TempDir()
	for _, name := range names {
		out := filepath.Join(dir, "copy-"+name)
		mustCall(t, "convert", in, out)
		if diff := cmp.Diff(mustCall(t, "cat", in), mustCall(t, "cat", out)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		resulttest.Check(t, out)
	}
	before, _ := os.ReadFile(in)
	if _, err := call(t, "convert", in, in, "--format", "csv"); fault.KindOf(err) != fault.Usage {
		t.Errorf("the result is written over: %v", err)
	}
	if after, err := os.ReadFile(in); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the result has changed: %v", err)
	}
	for _, ending := range []string{"csv", "jsonl"} {
		want := mustCall(t, "convert", in, "-", "--format", ending)
		for _, packed := range []string{"", ".gz", ".zst"} {
			out := filepath.Join(dir, "x."+ending+packed)
			mustCall(t, "convert", in, out)
			f, err := os.Open(out)
			must.Do(t, err)
			text, err := result.Unpack(f)
			f.Close()
			if err != nil || string(text) != want {
				t.Errorf("%s: %v, got\n%s", out, err, text)
			}
		}
	}
	for _, c := range [][]string{{"x.txt"}, {"x"}, {"-"}, {"x.csv", "--format", "json"}, {"x.gz"}} {
		if _, err := call(t, append([]string{"convert", in}, c...)...); fault.KindOf(err) != fault.Usage {
			t.Errorf("%v: %v", c, err)
		}
	}
	if _, err := call(t, "convert", in, filepath.Join(dir, "gone", "x.csv")); fault.KindOf(err) != fault.Output || !strings.Contains(err.Error(), "x.csv") {
		t.Errorf("missing folder: %v", err)
	}
}

// blocks is a result of kvbench: it has no pattern and no measurement of one.
func blocks(t *testing.T) *result.Document {
	d := document(t)
	d.Measurements, d.Patterns, d.Matrices = nil, nil, nil
	for _, batch := range []int64{1, 64} {
		d.Lanes = append(d.Lanes, result.Lanes{Phase: "measure", Measurement: series.Measurement{
			Op: "WRITE", Local: "dram", Remote: "dram", BlockBytes: 4096, Batch: batch, Threads: 1, Iterations: 10, Bytes: 40960 * batch, EndNS: 4096 * batch,
			Bandwidth: 1e10, Latency: series.Stats{Count: 10, Mean: 400, P50: 390, P99: 500, P999: 600, Max: 700},
		}})
	}
	return d
}

// Without --rows a result is written as what it has: block transfers, or samples of the scenario's metrics. Rows that
// it does not have are an error, which names those that it has.
func TestConvertOtherKinds(t *testing.T) {
	path := write(t, blocks(t), "r.json.zst")
	got := mustCall(t, "convert", path, "-", "--format", "csv")
	if lines := strings.Split(got, "\n"); len(lines) != 4 || lines[0] != strings.Join(columnsOf("block"), ",") || !strings.HasPrefix(lines[2], "measure,WRITE,dram,dram,4096,64,1,10,2621440,0,262144,0,1e+10,0,400,0,390,500,600,700,") {
		t.Errorf("blocks:\n%s", got)
	}
	if got := mustCall(t, "convert", path, "-", "--format", "jsonl"); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"latency_p99_ns":500`) {
		t.Errorf("blocks as JSON Lines:\n%s", got)
	}
	for _, rows := range []string{"iteration", "pair", "pattern", "storage", "request", "metric"} {
		out := filepath.Join(t.TempDir(), "x.csv")
		if _, err := call(t, "convert", path, out, "--rows", rows); fault.KindOf(err) != fault.Input || fault.HintOf(err) != "it has rows of the kinds block" {
			t.Errorf("%s: %v (%s)", rows, err, fault.HintOf(err))
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: a file is left", rows)
		}
	}
	d := blocks(t)
	d.Lanes = nil
	d.AddSample("own_ms", 1.5, 7)
	if got := mustCall(t, "convert", write(t, d, "m.json"), "-", "--format", "csv"); got != "metric,phase,value,time_ns\nown_ms,,1.5,7\n" {
		t.Errorf("samples:\n%s", got)
	}
	must.Do(t, d.AddLabelled("own_ms", result.Labels{"size": "4", "dir": "up"}, 2.5, 9))
	if got := mustCall(t, "convert", write(t, d, "m.json"), "-", "--format", "csv"); got != "metric,phase,value,time_ns,dir,size\nown_ms,,1.5,7,,\nown_ms,,2.5,9,up,4\n" {
		t.Errorf("samples with labels:\n%s", got)
	}
	d.World.Hosts[0].Hardware = &result.Hardware{CPU: "AMD EPYC 9654", NUMANodes: 2}
	got = mustCall(t, "show", write(t, d, "m.json"))
	for _, want := range []string{"metric:     own_ms: 1 samples, median 1.5\n", "metric:     own_ms{dir=\"up\", size=4}: 1 samples, median 2.5\n", "hardware:   memory0: AMD EPYC 9654, 2 NUMA nodes\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	d = document(t)
	d.Tables = append(d.Tables, result.Table{Title: "second", Columns: []string{"X", "Y (us)"}, Rows: [][]any{{1.5, nil}, {"=x", int64(1 << 40)}}})
	path = write(t, d, "t.json")
	if got := mustCall(t, "convert", path, "-", "--format", "csv", "--rows", "table", "--table", "2"); got != "X,Y (us)\n1.5,\n'=x,1099511627776\n" {
		t.Errorf("table:\n%s", got)
	}
	if _, err := call(t, "convert", path, "-", "--format", "csv", "--rows", "table"); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "has 2 tables, want one of them by --table 1 to 2") || !strings.Contains(fault.HintOf(err), "2: second") {
		t.Errorf("which table: %v (%s)", err, fault.HintOf(err))
	}
	if _, err := call(t, "convert", path, "-", "--format", "csv", "--table", "1"); fault.KindOf(err) != fault.Usage {
		t.Errorf("a table of other rows: %v", err)
	}
	d = document(t)
	d.AddStorage(1, "work", []series.StorageRun{{Rank: 1, Op: "READ", Bytes: 8, StartNS: 5, EndNS: 9}})
	if got := mustCall(t, "convert", write(t, d, "s.json"), "-", "--format", "csv", "--rows", "storage"); got != "pattern,name,phase,iteration,rank,op,bytes,start_ns,end_ns,latency_ns\n1,q,work,0,1,READ,8,5,9,4\n" {
		t.Errorf("storage:\n%s", got)
	}
}

// result show prints what kvbench has measured.
func TestShowBlocks(t *testing.T) {
	out := mustCall(t, "show", write(t, blocks(t), "r.json"))
	for _, want := range []string{"0 patterns of 0 matrices, 2 measurements of block transfers, 1 table", "# block transfers\n", "\nmeasure WRITE 4096 64 1 10 10 0.4 0.39 0.5 0.7\n"} {
		if !strings.Contains(squeeze(out), want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}

// What a result holds moves no cursor, changes no title and starts no formula.
func TestResultIsEscaped(t *testing.T) {
	const evil = "\x1b]0;owned\a\x1b[2J\r\u009b31m\u202egnp.exe"
	d := document(t)
	d.Notes, d.Command, d.Scenario.Name = []string{evil}, []string{evil}, evil
	d.Scenario.Options = map[string]any{evil: evil}
	d.Patterns[0].Name, d.Patterns[1].Name = evil, "=cmd|' /C calc'!A0"
	d.Tables = []result.Table{{Title: evil, Columns: []string{evil}, Rows: [][]any{{evil}}}}
	d.Values = map[string]any{evil: evil}
	d.World.Hosts[0].Name = evil
	d.Thresholds[0].Threshold = evil
	d.Metrics[0].Name = evil
	d.Finish(&result.Failure{Rank: -1, Kind: fault.Timeout, Cause: evil})
	path := write(t, d, "r.json")
	for _, args := range [][]string{{"show"}, {"cat"}, {"convert", "-", "--format", "json"}, {"convert", "-", "--format", "jsonl"}, {"convert", "-", "--format", "csv"}, {"convert", "-", "--format", "csv", "--rows", "pattern"}} {
		out := mustCall(t, append([]string{args[0], path}, args[1:]...)...)
		if safe := plaintext.Text(out); out != safe {
			t.Errorf("%v: %q", args, out)
		}
		if !strings.Contains(out, "owned") {
			t.Errorf("%v: the text is gone:\n%s", args, out)
		}
		if args[0] == "convert" && args[len(args)-1] == "csv" && !strings.Contains(out, "'=cmd|") {
			t.Errorf("%v: a formula:\n%s", args, out)
		}
	}
	// The names of a table's columns are the result's, too.
	d.Tables = []result.Table{{Title: "t", Columns: []string{evil, "=1+1"}, Rows: [][]any{{1, 2}}}}
	out := mustCall(t, "convert", write(t, d, "columns.json"), "-", "--format", "csv", "--rows", "table")
	if out != plaintext.Text(out) || !strings.Contains(out, "owned") || !strings.Contains(out, ",'=1+1\n") {
		t.Errorf("the header: %q", out)
	}
	// JSON keeps what it says, and a file gets a text as it is.
	if got := mustCall(t, "cat", "-r", path, ".notes[0]"); got != evil+"\n" {
		t.Errorf("raw: %q", got)
	}
	var note string
	if err := json.Unmarshal([]byte(mustCall(t, "cat", path, ".notes[0]")), &note); err != nil || note != evil {
		t.Errorf("%v: %q", err, note)
	}
}

// CSV of a run that measured nothing is the header.
func TestConvertNothing(t *testing.T) {
	d := document(t)
	d.Measurements = nil
	path := write(t, d, "r.json")
	for _, rows := range []string{"iteration", "pair", "pattern"} {
		if got := mustCall(t, "convert", path, "-", "--format", "csv", "--rows", rows); !strings.HasPrefix(got, "pattern,name,phase,") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: %q", rows, got)
		}
		if got := mustCall(t, "convert", path, "-", "--format", "jsonl", "--rows", rows); got != "" {
			t.Errorf("%s: %q", rows, got)
		}
	}
}

type runner interface{ Run(cli.Streams) error }

// readers are all commands that read a result, without the work of parsing a command line.
func readers(path string) []runner {
	list := []runner{&showCmd{File: path}, &catCmd{File: path, Path: "."}, &catCmd{File: path, Path: ".patterns[0].name"}}
	for _, format := range []string{"json", "jsonl", "csv"} {
		list = append(list, &convertCmd{In: path, Out: "-", Format: format, Rows: "pair"})
	}
	return append(list, &convertCmd{In: path, Out: "-", Format: "csv", Rows: "pattern"})
}

func runOf(c runner) (string, error) {
	var out strings.Builder
	err := c.Run(cli.Streams{Out: &out})
	return out.String(), err
}

// Wherever a file was cut off, the error names it, and no output file is left.
func TestEveryTruncation(t *testing.T) {
	dir := t.TempDir()
	for _, name := range names {
		whole := must.Read(t, write(t, document(t), name))
		cut := filepath.Join(dir, "cut-"+name)
		all := readers(cut)
		for n := range len(bytes.TrimRight(whole, "\n")) {
			if name == "r.json" && n%7 > 0 {
				continue // there is more of it, and less to go wrong
			}
			must.Do(t, os.WriteFile(cut, whole[:n], 0o644))
			for _, c := range []runner{all[n%len(all)], all[(n+1)%len(all)]} {
				_, err := runOf(c)
				if fault.KindOf(err) != fault.Input || !strings.HasPrefix(err.Error(), "result "+cut+": it ends in the middle: ") || !strings.Contains(err.Error(), " can be read") {
					t.Fatalf("%T of %d of %d bytes of %s: %v", c, n, len(whole), name, err)
				}
			}
		}
		for _, ending := range []string{"csv", "jsonl.gz", "json.zst"} {
			if _, err := call(t, "convert", cut, filepath.Join(dir, "out."+ending)); fault.KindOf(err) != fault.Input {
				t.Errorf("%s into .%s: %v", name, ending, err)
			}
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("left behind: %v, %v", entries, err)
		}
		os.Remove(cut)
	}
}

func TestWrongFiles(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		`{"a":1}`:                        `schema is "", want "perigee.result/1"`,
		`[1]`:                            "it is no JSON object",
		"pattern,name\n":                 "invalid character 'p'",
		`{"schema":"perigee.result/2"}`:  "its schema is perigee.result/2, this perigee (schema perigee.result/1) is older",
		`{"schema":"perigee.result/0"}`:  `schema is "perigee.result/0"`,
		`{"schema":"perigee.compare/1"}`: `schema is "perigee.compare/1"`,
		"\x28\xb5\x2f\xfd\x00\x00\x00\x00\x00\x00\x00junk": "",
	} {
		path := filepath.Join(dir, "x.json")
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		for _, c := range readers(path) {
			if _, err := runOf(c); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) || fault.HintOf(err) == "" {
				t.Errorf("%T of %q: %v (%s)", c, text, err, fault.HintOf(err))
			}
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "gone")} {
		for _, c := range readers(path) {
			if _, err := runOf(c); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), path) {
				t.Errorf("%T of %s: %v", c, path, err)
			}
		}
	}
}

// Whatever a file holds, the commands end, and blame the file.
func FuzzCommands(f *testing.F) {
	whole := must.Read(f, write(f, document(f), "r.json"))
	path := filepath.Join(f.TempDir(), "f")
	for _, name := range names {
		data := must.Read(f, write(f, document(f), name))
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Add([]byte(`{"schema":"perigee.result/1","measurements":[{"pattern":0}],"patterns":[{"matrix":0}],"matrices":[{}]}`))
	f.Add([]byte(`{"schema":"perigee.result/1"}`))
	f.Add([]byte(`{"schema":"perigee.result/1","notes":["\u001b]0;x\u0007\u202e\r"],"tables":[{"columns":["=1+1"],"rows":[["=cmd|x"],["\u009b2J"]]}]}`))
	f.Add([]byte(`{"schema":"perigee.result/1","tables":[{"columns":["a","a"],"rows":[[null,{}]]}],"thresholds":[{}],"failure":{}}`))
	fuzztest.RunDocuments(f, []string{string(whole)}, func(t *testing.T, data []byte) {
		must.Do(t, os.WriteFile(path, data, 0o600))
		for _, c := range readers(path) {
			out, err := runOf(c)
			if err != nil && fault.KindOf(err) != fault.Input {
				t.Fatalf("%T: %v is of kind %v", c, err, fault.KindOf(err))
			}
			if _, ok := c.(*catCmd); ok && err == nil && !json.Valid([]byte(out)) {
				t.Fatalf("%+v: %q", c, out)
			}
			if err == nil {
				checkSaid(t, c, data, out)
			}
		}
	})
}

func TestLostOutput(t *testing.T) {
	path := write(t, document(t), "r.json.zst")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must.Do(t, err)
	defer full.Close()
	for _, args := range [][]string{
		{"show", path}, {"cat", path}, {"cat", path, ".seed"}, {"convert", path, "-", "--format=json"}, {"convert", path, "-", "--format=csv"}, {"convert", path, "-", "--format=jsonl", "--rows=pattern"},
	} {
		out := &cli.Output{W: full}
		if err := callTo(t, out, args...); err == nil || fault.KindOf(err) == fault.Input {
			t.Errorf("%v: got %v, which blames the file", args, err)
		}
		if err := out.Fault(); fault.KindOf(err) != fault.Output || err.Error() != "cannot write the output: no space left on device" {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := call(t, "convert", path, "/dev/full", "--format=json"); fault.KindOf(err) != fault.Output || !strings.Contains(err.Error(), "/dev/full") {
		t.Error(err)
	}
}

func TestSchemaFlag(t *testing.T) {
	var out strings.Builder
	func() {
		defer func() { recover() }() // the program would have ended
		callTo(t, &cli.Output{W: &out}, "--schema")
	}()
	if out.String() != docs.ResultSchema {
		t.Errorf("got %.100s", out.String())
	}
}

// checkSaid compares what a command says of a result, which is JSON, with the result.
func checkSaid(t *testing.T, c runner, text []byte, out string) {
	t.Helper()
	var doc struct {
		Patterns     []struct{ Name, Op string }
		Measurements []struct {
			Pattern   int
			Phase     string
			Iteration int64
			Ranks     []struct {
				Rank    int64
				StartNS int64 `json:"start_ns"`
				Peers   []struct {
					Peer, Bytes int64
					EndNS       int64 `json:"end_ns"`
				}
			}
		}
	}
	var whole any
	if json.Unmarshal(text, &whole) != nil || json.Unmarshal(text, &doc) != nil {
		return // packed, or with numbers of other kinds
	}
	switch c := c.(type) {
	case *catCmd:
		want := whole
		if c.Path != "." {
			want = whole.(map[string]any)["patterns"].([]any)[0].(map[string]any)["name"] // a null stays one
		}
		var got any
		if err := json.Unmarshal([]byte(out), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s of %s is %s (%v)", c.Path, text, out, err)
		}
	case *convertCmd:
		if c.Format != "jsonl" || c.Rows != "pair" {
			return
		}
		rows := json.NewDecoder(strings.NewReader(out))
		for _, m := range doc.Measurements {
			for _, r := range m.Ranks {
				for _, p := range r.Peers {
					var row struct {
						Pattern, Iteration, Initiator, Sender, Receiver, Bytes int64
						Name, Phase                                            string
						Start                                                  int64 `json:"start_ns"`
						End                                                    int64 `json:"end_ns"`
						Latency                                                int64 `json:"latency_ns"`
					}
					ends := [2]int64{r.Rank, p.Peer}
					if doc.Patterns[m.Pattern].Op == "READ" {
						ends = [2]int64{p.Peer, r.Rank}
					}
					if err := rows.Decode(&row); err != nil {
						t.Fatalf("%s: %v in %q", text, err, out)
					}
					if row.Pattern != int64(m.Pattern) || row.Name != doc.Patterns[m.Pattern].Name || row.Phase != m.Phase || row.Iteration != m.Iteration ||
						row.Bytes != p.Bytes || row.Start != r.StartNS || row.End != p.EndNS || row.Latency != p.EndNS-r.StartNS || row.Initiator != r.Rank ||
						[2]int64{row.Sender, row.Receiver} != ends {
						t.Fatalf("%s: %+v of %+v", text, row, r)
					}
				}
			}
		}
		if rows.More() {
			t.Fatalf("%s: more rows than messages: %s", text, out)
		}
	}
}

// Tables may have many columns, all of one name.
func TestManyColumns(t *testing.T) {
	for what, name := range map[string]string{"columns": "c%d", "columns of one name": "c%.0d"} {
		fuzztest.Linear(t, what, 1000, func(n int) func() {
			d := document(t)
			many := result.Table{Rows: [][]any{make([]any, n)}}
			for i := range n {
				many.Columns = append(many.Columns, fmt.Sprintf(name, i))
			}
			d.Tables = []result.Table{many}
			return func() {
				if err := showTables(io.Discard, d); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if got := sheet.Unique([]string{"a", "a", "a (2)", "b", "a"}); !slices.Equal(got, []string{"a", "a (2)", "a (2) (2)", "b", "a (3)"}) {
		t.Errorf("got %q", got)
	}
}

// Cells may be lists and objects, whose texts look like mistakes of formats.
func TestOddCells(t *testing.T) {
	d := document(t)
	d.Tables = []result.Table{{Columns: []string{"A", "A", "A"}, Rows: [][]any{{[]any{"%!"}, map[string]any{"k": "%!d(x)"}, 1.5}}}}
	var out strings.Builder
	must.Do(t, showTables(&out, d))
	for _, want := range []string{"A (2)", "A (3)", "[%!]", "map[k:%!d(x)]", "1.5"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, &out)
		}
	}
}

// What was seen beside the times has a line each, and none in results that do not know it.
func TestShowObserved(t *testing.T) {
	d := document(t)
	path := filepath.Join(t.TempDir(), "r.json")
	show := func() string {
		t.Helper()
		must.Do(t, d.Write(path))
		var out bytes.Buffer
		must.Do(t, (&showCmd{File: path}).Run(cli.Streams{Out: &out}))
		return out.String()
	}
	if text := show(); regexp.MustCompile(`(?m)^(path|accounts|network|line|ceiling):`).MatchString(text) {
		t.Errorf("of an old result:\n%s", text)
	}
	d.Paths = &result.Paths{Source: "UCX", Uses: []result.PathUse{{Op: "READ", Local: "dram", Remote: "dram", Transport: "cma", Device: "memory\x1b[2J", How: "zero-copy", Count: 3}}}
	d.Accounts = &result.Accounts{Total: result.Account{Plan: 5000, Between: 5000}, NICs: "not read"}
	d.Network = &result.Network{Windows: []result.NetworkWindow{{Phase: "work", NICs: []result.NICWindow{{Name: "mlx5_0:1", Counters: map[string]int64{"rx_dropped": 5}}}}}}
	d.Line = &result.Line{Rate: 50e9, From: "mlx5_0:1, 400 Gb/s", Ceiling: &result.Ceiling{Receiver: 1, Bytes: 64 << 20, Rate: 48e9}}
	text := show()
	for _, want := range []string{"path:       READ dram-dram cma/memory\\x1b[2J zero-copy 100 %\n", "accounts:   plan 5.00 kB, NICs unknown (not read)\n",
		"network:    work: 5 arriving packets dropped on mlx5_0:1 of memory0\n", "line:       50.0 GB/s (mlx5_0:1, 400 Gb/s)\n",
		"ceiling:    48.0 GB/s, one message of 64 MiB from rank 0 to rank 1 (96 % of the line)\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}

// Each request of a replay is a row; what did not happen has no time.
func TestRequests(t *testing.T) {
	d := resulttest.Replayed(20)
	q := &d.Replay.Requests
	q.Admitted[19], q.Posted[19], q.Done[19] = -1, -1, -1
	path := write(t, d, "replay.json")
	lines := strings.Split(mustCall(t, "convert", path, "-", "--format", "csv"), "\n")
	if len(lines) != 22 || lines[0] != strings.Join(columnsOf("request"), ",") || !strings.HasPrefix(lines[20], "19,1,1,") ||
		!strings.Contains(lines[20], fmt.Sprintf(",%d,30000000,,,,,%d", q.Bytes[19], q.PrefillNS[19])) {
		t.Errorf("%d lines: %q, %q", len(lines), lines[0], lines[20])
	}
	if got := mustCall(t, "convert", path, "-", "--format", "jsonl", "--rows", "request"); !strings.Contains(got, `"posted_ns":null,"late_ns":null,"done_ns":null`) {
		t.Error(got)
	}
	if got := mustCall(t, "show", path); !strings.Contains(got, "replay:     offered ") {
		t.Error(got)
	}
}
