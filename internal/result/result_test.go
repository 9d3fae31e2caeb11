package result_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"perigee/docs"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/series"
)

// The full disk is a limit on file sizes, in a separate process.
const childVariable = "PERIGEE_RESULT_TEST_CHILD"

func TestMain(m *testing.M) {
	path := os.Getenv(childVariable)
	if path == "" {
		os.Exit(m.Run())
	}
	signal.Ignore(unix.SIGXFSZ) // so that writing fails instead of killing
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: 4096}); err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	d := &result.Document{Schema: result.Schema, Values: map[string]any{"x": strings.Repeat("x", 1<<20)}}
	err := d.Write(path)
	fmt.Println(err)
	if fault.KindOf(err) != fault.Output || !errors.Is(err, unix.EFBIG) {
		os.Exit(4)
	}
	os.Exit(0)
}

// full returns a document in which every field is set.
func full(t testing.TB) *result.Document {
	t.Helper()
	d := result.New([]string{"perigee", "run"}, result.Scenario{
		Name: "x.lua", SHA256: strings.Repeat("0a", 32), Source: "return {}", Options: map[string]any{"n": int64(5), "x": 0.5, "s": "text", "on": true},
		Reads: []string{"config"}, Writes: []string{"out"},
	}, 7, result.World{Size: 2, Launcher: "local", Hosts: []result.Host{{Name: "h", Ranks: []int{0, 1}, CPUs: 2}}, Clocks: []result.Clock{{}}}, "a note")
	d.Engine = &result.Engine{Name: "nixl", Version: "1.5.1", Backend: "UCX", Library: "libnixl_capi.so", Params: map[string]string{"progress": "poll"}}
	d.Phases = append(d.Phases, result.Phase{Name: "work", StartNS: 5})
	m, err := matrix.FromRows([][]int64{{0, 10}, {3, 0}})
	must.Do(t, err)
	d.Patterns = []result.Pattern{{
		Name: "p", Matrix: d.AddMatrix(m, "m.txt"), Mem: "dram", Op: "WRITE", Shards: 1, Senders: 2, SleepBefore: 0.5, SleepAfter: 0.25,
		Metadata: map[string]any{"isl": int64(5), "list": []any{int64(1), nil}},
	}}
	d.AddRuns(0, "work", 3, []series.Run{{
		StartNS: 10, EndNS: 20, UncertaintyNS: 1,
		Ranks: []series.RankRun{{Rank: 0, StartNS: 10, PostNS: 11, EndNS: 20, Bytes: 10, Peers: []series.PeerRun{{
			Peer: 1, Bytes: 10, EndNS: 20, Overlap: &series.Overlap{Share: 0.5, Messages: 2, Shared: "receiver, receiving host"},
		}}}},
	}})
	d.Overlaps = true
	d.Network = &result.Network{Windows: []result.NetworkWindow{{Phase: "work", StartNS: 5, EndNS: 20, TCP: map[string]int64{"retransmits": 2}, Note: "eth1 has gone",
		NICs: []result.NICWindow{{Name: "eth0", Mbps: 10, Sent: 1, Received: 2, Counters: map[string]int64{"rx_dropped": 0}}}}}}
	d.Tables = []result.Table{{Title: "t", Columns: []string{"A", "B"}, Rows: [][]any{{int64(1), nil}, {"x", 1.5}}}}
	d.Values = map[string]any{"v": []any{true, map[string]any{}}}
	d.Job = &result.Invocation{ID: "J", Engine: "auto", TimeoutNS: 5e9, AllowIO: true}
	d.AddText("c.yaml", []byte("a: 1"))
	d.AddMatrixFile("in/m.txt", "m.txt", m)
	d.DeclareMetrics([]result.MetricDef{{Name: "own", Help: "one", Better: "lower"}, {Name: "empty"}})
	d.AddSample("own", 1.5, 12)
	must.Do(t, d.AddLabelled("own", result.Labels{"size": "4"}, 2.5, 13))
	d.World.Hosts[0].Hardware = &result.Hardware{
		CPU: "c", Kernel: "k", NUMANodes: 2, MemoryBytes: 5, NICs: []result.NIC{{Name: "eth0", Kind: "ethernet", Mbps: 10, Driver: "d"}}, GPUs: []result.GPU{{Name: "g", MemoryBytes: 7}},
	}
	d.World.Hosts[0].CPUQuota, d.World.Hosts[0].Memcpy = 1.5, []result.Copy{{Bytes: 4096, Rate: 4e10}}
	value, passed := 1.5, true
	d.Line = &result.Line{Rate: 1, Host: 2, From: "--line 8bit", Given: true, Ceiling: &result.Ceiling{Receiver: 1, Op: "READ", Mem: "dram", Bytes: 1, Runs: 7, Rate: 1}}
	d.Thresholds = []result.Threshold{{Threshold: "own.max < 2", From: "--threshold", Limit: &value, Value: &value, Samples: 1, Passed: &passed, Note: "a note"}, {Threshold: "own.max < 2", From: "x.lua:1"}}
	d.Thresholds = append(d.Thresholds, result.Threshold{Threshold: `path == "rc"`, From: "--threshold", Found: "tcp 100 %", Samples: 1, Passed: &passed})
	d.Paths = &result.Paths{Source: "UCX 1.23.0", Unknown: "at 1 of 2 ranks: lost", Uses: []result.PathUse{{
		Op: "WRITE", Local: "dram", Remote: "vram", Reach: "network", Transport: "tcp", Device: "eth0", How: "zero-copy", MinBytes: 1, MaxBytes: 2, Count: 3, Ranks: 1,
	}}, Lanes: []result.PathLanes{{Reach: "network", Lanes: "rma_am(tcp/eth0)", Ranks: 1}}}
	d.Network = &result.Network{Windows: []result.NetworkWindow{{Phase: "work", StartNS: 5, EndNS: 20, TCP: map[string]int64{"retransmits": 2}, Note: "eth1 has gone",
		NICs: []result.NICWindow{{Name: "eth0", Mbps: 10, Sent: 1, Received: 2, Counters: map[string]int64{"rx_dropped": 0}}}}}}
	n := int64(3)
	account := result.Account{Phase: "work", Plan: 1, Between: 1, Unwatched: 1, Library: &n, Lost: &n, Sent: &n, Received: &n, Messages: 1, Resent: 1, Verdict: "headers"}
	d.Accounts = &result.Accounts{Library: "prometheus_mp", Total: account, Phases: []result.Account{account}}
	d.Replay = fullReplay()
	d.Finish(&result.Failure{Rank: -1, Kind: fault.Timeout, Cause: "too late", Hint: "hurry"})
	return d
}

func asJSON(t testing.TB, d *result.Document) string {
	t.Helper()
	b, err := json.MarshalIndent(d, "", " ")
	must.Do(t, err)
	return string(b)
}

func TestRoundTrip(t *testing.T) {
	d := full(t)
	for _, name := range []string{"r.json", "r.json.gz", "r.json.zst"} {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, d.Write(path))
		raw := must.Read(t, path)
		if want := map[string]string{"r.json": "{", "r.json.gz": "\x1f\x8b", "r.json.zst": "\x28\xb5\x2f\xfd"}[name]; !strings.HasPrefix(string(raw), want) {
			t.Errorf("%s begins with %q, want %q", name, raw[:4], want)
		}
		// The name says nothing when it is read.
		other := filepath.Join(t.TempDir(), "any")
		must.Do(t, os.WriteFile(other, raw, 0o644))
		got, err := result.Read(other)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(asJSON(t, d), asJSON(t, got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		resulttest.Check(t, path)
		for _, cut := range []int{len(raw) - 2, len(raw) / 2, 5, 1, 0} {
			must.Do(t, os.WriteFile(other, raw[:cut], 0o644))
			if _, err := result.Read(other); fault.KindOf(err) != fault.Input {
				t.Errorf("%s, the first %d of %d bytes: got %v, want an error of the kind Input", name, cut, len(raw), err)
			}
		}
		flipped := bytes.Clone(raw)
		flipped[len(flipped)-3] ^= 0x10 // in the checksum, or near the end of the text
		must.Do(t, os.WriteFile(other, flipped, 0o644))
		if got, err := result.Read(other); err == nil && asJSON(t, got) == asJSON(t, d) {
			t.Errorf("%s: a flipped bit went unnoticed", name)
		}
	}
}

func TestSchemaDescribesEverything(t *testing.T) {
	if err := resulttest.Validate([]byte(asJSON(t, full(t)))); err != nil {
		t.Error(err)
	}
	fresh := result.New(nil, result.Scenario{SHA256: strings.Repeat("0", 64), Options: map[string]any{}}, 0, result.World{Size: 1, Launcher: "local", Hosts: []result.Host{{Name: "h", Ranks: []int{0}, CPUs: 1}}, Clocks: []result.Clock{}})
	fresh.Command = []string{}
	fresh.Finish(nil)
	if err := resulttest.Validate([]byte(asJSON(t, fresh))); err != nil {
		t.Errorf("a document with next to nothing: %v", err)
	}
	// What the schema must refuse.
	for _, edit := range []struct{ old, new string }{
		{`"perigee.result/1"`, `"perigee.result/2"`},
		{`"partial"`, `"done"`},
		{`"op": "WRITE"`, `"op": "write"`},
		{`"shards": 1`, `"shards": -1`},
		{`"size": 2`, `"size": "2"`},
		{`"phases"`, `"phase"`},
		{`"posted_ns"`, `"post_ns"`},
		{`"rx_dropped": 0`, `"rx_dropped": -1`},
	} {
		text := asJSON(t, full(t))
		if !strings.Contains(text, edit.old) {
			t.Fatalf("no %s in the document", edit.old)
		}
		if err := resulttest.Validate([]byte(strings.Replace(text, edit.old, edit.new, 1))); err == nil {
			t.Errorf("%s for %s is accepted", edit.new, edit.old)
		}
	}
	var schema any
	must.Do(t, json.Unmarshal([]byte(docs.ResultSchema), &schema))
	described(t, "", schema)
}

// described fails for every property that has no description and refers to no
// other schema, and for times and sizes that do not name their unit.
func described(t *testing.T, path string, v any) {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			described(t, fmt.Sprintf("%s[%d]", path, i), e)
		}
	case map[string]any:
		properties, _ := v["properties"].(map[string]any)
		for name, p := range properties {
			field := p.(map[string]any)
			text, _ := field["description"].(string)
			if text == "" && field["$ref"] == nil {
				t.Errorf("%s.%s has no description", path, name)
			}
			for ending, unit := range map[string]string{"_ns": "anosecond", "_ms": "millisecond", "_s": "econd", "bytes": "ytes", "_ppm": "million"} {
				if strings.HasSuffix(name, ending) && !strings.Contains(text, unit) {
					t.Errorf("%s.%s does not name its unit: %s", path, name, text)
				}
			}
		}
		for k, e := range v {
			described(t, path+"."+k, e)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	good := asJSON(t, full(t))
	path := filepath.Join(t.TempDir(), "r.json")
	for text, want := range map[string]string{
		"":                      "it ends in the middle: nothing of it can be read",
		"{}":                    `schema is "", want "perigee.result/1"`,
		"[]":                    "it is no JSON object",
		good + "{}":             "after the end of the document comes {",
		"\x28\xb5\x2f\xfd junk": "",
		"\x1f\x8b":              "it ends in the middle: nothing of it can be read",
		"\x28":                  "it ends in the middle: nothing of it can be read",
		strings.TrimSuffix(good, "}") + `,"storage":[{"pattern":1}]}`:        "storage[0]: there is no pattern 1",
		strings.TrimSuffix(good, "}") + `,"storage":[{"iteration":-1}]}`:     "storage[0]: its iteration is -1",
		strings.Replace(good, `"matrix": 0,`, `"matrix": 1,`, 1):             "patterns[0]: there is no matrix 1",
		strings.Replace(good, `"pattern": 0`, `"pattern": 7`, 1):             "measurements[0]: there is no pattern 7",
		strings.Replace(good, `"A",`, ``, 1):                                 "tables[0]: row 0 has 2 cells for 1 columns",
		strings.Replace(good, "2.5\n   ],", "2.5, 2\n   ],", 1):              "metrics[0]: 3 values, but 2 times",
		strings.Replace(good, "   \"matrix\": 0\n", "   \"matrix\": 3\n", 1): "inputs[1]: there is no matrix 3",
	} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		_, err := result.Read(path)
		if fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "result "+path+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v, want %s", text, err, want)
		}
	}
	if _, err := result.Read(path + "x"); fault.KindOf(err) != fault.Input {
		t.Errorf("no file: %v", err)
	}
}

// Frames that readers of zstd pass over may come first.
func TestSkippableFrames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json.zst")
	must.Do(t, many(t).Write(path))
	whole := must.Read(t, path)
	for magic := range 16 {
		frame := append([]byte{0x50 + byte(magic), 0x2a, 0x4d, 0x18, 3, 0, 0, 0}, "abc"...)
		must.Do(t, os.WriteFile(path, slices.Concat(frame, whole, frame), 0o600))
		if d, err := result.Read(path); err != nil || len(d.Measurements) != 4 {
			t.Errorf("magic %d: %v", magic, err)
		}
	}
	for _, text := range []string{"\x50\x2a\x4d\x18", "\x50\x2a\x4d\x18\xff\xff\xff\xff", "\x50\x2a\x4d\x18\x00\x00\x00\x00"} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := result.Read(path); fault.KindOf(err) != fault.Input {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A zstd stream may refer to 32 MiB of its past, which its reader keeps, and no more.
func TestWindowIsBounded(t *testing.T) {
	for window, ok := range map[int]bool{32 << 20: true, 64 << 20: false} {
		path := filepath.Join(t.TempDir(), "r.json.zst")
		f, err := os.Create(path)
		must.Do(t, err)
		z, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
		must.Do(t, err)
		_, err = io.Copy(z, io.MultiReader(strings.NewReader(`{"schema":"`+result.Schema+`","status":"complete","world":{"size":1},"notes":["`),
			strings.NewReader(strings.Repeat("the same ", 1<<19)), strings.NewReader(`"]}`)))
		must.Do(t, errors.Join(err, z.Close(), f.Close()))
		if _, err := result.Read(path); (err == nil) != ok || !ok && fault.KindOf(err) != fault.Input {
			t.Errorf("a window of %d MiB: %v", window>>20, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "f")
	var whole []byte
	for _, name := range []string{"r.json", "r.json.gz", "r.json.zst"} {
		path := filepath.Join(dir, name)
		must.Do(f, full(f).Write(path))
		data := must.Read(f, path)
		if name == "r.json" {
			whole = data
		}
		f.Add(data)
	}
	f.Add([]byte(`{"schema":"perigee.result/1","patterns":[{"matrix":-1}]}`))
	const one = `{"schema":"perigee.result/1","matrices":[{"ranks":1}],"patterns":[{"matrix":0}],"measurements":[{"pattern":0}]`
	f.Add([]byte(one + `}`))
	f.Add([]byte(one + `,"x":` + strings.Repeat("[", 20000)))
	f.Add([]byte(one + `,"x":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000) + "}"))
	f.Add([]byte(one + `,"Patterns":[]}`))
	f.Add([]byte(one + ",\"pattern\u017f\":[]}"))
	f.Add([]byte(one + `,"storage":[{"pattern":1}]}`))
	f.Add([]byte(one + `,"metrics":[0,null,"",{}],"lanes":[null],"values":{"ep":[null]}}`))
	fuzztest.RunDocuments(f, []string{string(whole)}, func(t *testing.T, data []byte) {
		must.Do(t, os.WriteFile(path, data, 0o600))
		d, err := result.Read(path)
		var visited []string
		scanned, scanErr := result.Scan(path, func(d *result.Document, m *result.Measurement) error {
			_ = d.Matrices[d.Patterns[m.Pattern].Matrix]
			visited = append(visited, toJSON(t, m))
			return nil
		})
		if scanErr != nil && fault.KindOf(scanErr) != fault.Input {
			t.Fatalf("scan: %v is of kind %v", scanErr, fault.KindOf(scanErr))
		}
		if err != nil {
			if fault.KindOf(err) != fault.Input {
				t.Fatalf("%v is of kind %v", err, fault.KindOf(err))
			}
			return
		}
		if scanErr == nil {
			if diff := cmp.Diff(measurementsOf(t, d), visited); diff != "" && scanned != nil {
				t.Fatalf("scan and read disagree (-read +scan):\n%s", diff)
			}
		}
		for _, m := range d.Measurements {
			_ = d.Matrices[d.Patterns[m.Pattern].Matrix]
		}
		for _, s := range d.Storage {
			_ = d.Patterns[s.Pattern]
		}
		if err := d.Write(path + ".json"); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}

func TestNames(t *testing.T) {
	for _, name := range []string{"a.json", "a.json.gz", "/x/a.json.zst"} {
		if err := result.CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "a", "a.zst", "a.gz", "a.JSON", "json", "a.json.bz2"} {
		err := result.CheckName(name)
		if fault.KindOf(err) != fault.Usage {
			t.Errorf("%q: got %v", name, err)
		}
		if err := full(t).Write(filepath.Join(t.TempDir(), name)); fault.KindOf(err) != fault.Usage {
			t.Errorf("write %q: got %v", name, err)
		}
	}
}

func TestCheckWritable(t *testing.T) {
	dir := t.TempDir()
	if err := result.CheckWritable("--result", dir+"/r.json"); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the check left %v behind, %v", entries, err)
	}
	links := t.TempDir()
	for name, target := range map[string]string{"good": dir + "/r.json", "bad": "/proc/r.json", "loop": "loop"} {
		must.Do(t, os.Symlink(target, filepath.Join(links, name)))
	}
	if err := result.CheckWritable("--result", links+"/good"); err != nil {
		t.Errorf("a link to a file that can be written: %v", err)
	}
	long := dir + "/" + strings.Repeat("r", 300) + ".json"
	for _, path := range []string{dir, dir + "/none/r.json", "/proc/r.json", links + "/bad", links + "/loop", long} {
		err := result.CheckWritable("--result", path)
		if fault.KindOf(err) != fault.Output || !strings.Contains(err.Error(), "--result: cannot write "+path) || fault.HintOf(err) == "" {
			t.Errorf("%s: got %v", path, err)
		}
	}
	if err := result.CheckWritable("--result", "/dev/null"); err != nil {
		t.Errorf("a device: %v", err)
	}
}

func TestFullDiskLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	old := full(t)
	old.Notes = []string{"the old one"}
	must.Do(t, old.Write(path))
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+path)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := result.Read(path)
	if err != nil || got.Notes[0] != "the old one" {
		t.Errorf("the old file is gone: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("files left behind: %v, %v", entries, err)
	}
}

func TestMatricesAreStoredOnce(t *testing.T) {
	rows := func(n int64) *matrix.Matrix {
		m, err := matrix.FromRows([][]int64{{0, n}, {0, 0}})
		must.Do(t, err)
		return m
	}
	var d result.Document
	got := []int{d.AddMatrix(rows(1), "a"), d.AddMatrix(rows(2), "b"), d.AddMatrix(rows(1), "c"), d.AddMatrix(matrix.New(2), ""), d.AddMatrix(matrix.New(3), "")}
	if diff := cmp.Diff([]int{0, 1, 0, 2, 3}, got); diff != "" {
		t.Errorf("indices (-want +got):\n%s", diff)
	}
	if len(d.Matrices) != 4 || d.Matrices[0].File != "a" || d.Matrices[1].Cells[0] != [3]int64{0, 1, 2} || d.Matrices[2].Cells == nil {
		t.Errorf("matrices %+v", d.Matrices)
	}
}

// Numbers that JSON does not have are null, wherever a script can put them.
func TestNumbersThatJSONLacks(t *testing.T) {
	d := full(t)
	odd := []any{math.NaN(), math.Inf(1), math.Inf(-1), 1.5}
	d.Values["odd"] = map[string]any{"deep": odd}
	d.Patterns[0].Metadata["odd"] = odd
	d.Scenario.Options["odd"] = odd
	d.Tables[0].Rows = append(d.Tables[0].Rows, []any{math.NaN(), 2.5})
	d.Tables = append(d.Tables, result.Table{Columns: []string{"none"}})
	path := filepath.Join(t.TempDir(), "r.json")
	must.Do(t, d.Write(path))
	got := resulttest.Check(t, path)
	want := []any{nil, nil, nil, 1.5}
	for name, v := range map[string]any{
		"values": got.Values["odd"].(map[string]any)["deep"], "metadata": got.Patterns[0].Metadata["odd"], "options": got.Scenario.Options["odd"],
	} {
		if diff := cmp.Diff(any(want), v); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]any{nil, 2.5}, got.Tables[0].Rows[2]); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if !math.IsNaN(odd[0].(float64)) || !math.IsNaN(d.Tables[0].Rows[2][0].(float64)) {
		t.Error("the document itself was changed")
	}
}

// What a run has read comes back as it was, once, and what was tampered with does not.
func TestInputs(t *testing.T) {
	d := full(t)
	d.AddText("c.yaml", []byte("another time"))
	m, err := matrix.FromRows([][]int64{{0, 10}, {3, 0}})
	must.Do(t, err)
	d.AddMatrixFile("other.txt", "other.txt", m)
	if len(d.Inputs) != 3 || len(d.Matrices) != 1 {
		t.Errorf("%d inputs, %d matrices", len(d.Inputs), len(d.Matrices))
	}
	path := filepath.Join(t.TempDir(), "r.json.zst")
	must.Do(t, d.Write(path))
	if d, err = result.Read(path); err != nil {
		t.Fatal(err)
	}
	if text, ok, err := d.Text("c.yaml"); string(text) != "a: 1" || !ok || err != nil {
		t.Errorf("got %q, %v, %v", text, ok, err)
	}
	for _, name := range []string{"in/m.txt", "other.txt"} {
		if got, ok, err := d.MatrixFile(name); !ok || err != nil || !got.Equal(m) {
			t.Errorf("got %v, %v, %v", got, ok, err)
		}
	}
	for _, name := range []string{"gone", "in/m.txt"} {
		if _, ok, err := d.Text(name); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	if _, ok, err := d.MatrixFile("c.yaml"); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	d.Inputs[0].Text += " "
	if _, _, err := d.Text("c.yaml"); err == nil {
		t.Error("a changed text goes unnoticed")
	}
	for _, cell := range [][3]int64{{0, 1, 11}, {0, 2, 1}, {-1, 0, 1}, {0, 0, -5}} {
		d.Matrices[0].Cells[0] = cell
		if m, _, err := d.MatrixFile("other.txt"); err == nil {
			t.Errorf("the cell %v gives %v", cell, m)
		}
	}
}

func TestFinish(t *testing.T) {
	d := full(t)
	if d.Status != result.Partial || d.Failure.Kind != fault.Timeout || d.Failure.Hint != "hurry" || d.Finished == nil || !d.Measured() {
		t.Errorf("after a failure: %s, %+v", d.Status, d.Failure)
	}
	d.Finish(nil)
	if d.Status != result.Complete || d.Failure != nil {
		t.Errorf("after success: %s, %+v", d.Status, d.Failure)
	}
	if (&result.Document{}).Measured() {
		t.Error("an empty document has measurements")
	}
	m := d.Measurements[0]
	if m.Iteration != 3 || m.LatencyNS != 10 || m.MeanBandwidth != 10/(10*1e-9) {
		t.Errorf("measurement %+v", m)
	}
}

// A result is written as encoding/json would write it whole.
func TestEncodeIsJSON(t *testing.T) {
	empty := result.New(nil, result.Scenario{}, 0, result.World{})
	many := full(t)
	for i := range 100 {
		many.AddRuns(0, "<more>", i, []series.Run{{StartNS: int64(i), EndNS: int64(i)}})
	}
	for i, d := range []*result.Document{full(t), empty, many} {
		var got, want bytes.Buffer
		must.Do(t, d.Encode(&got))
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		must.Do(t, e.Encode(d))
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Errorf("%d:\n%s", i, diff)
		}
	}
	err := full(t).Encode(failing{})
	if err == nil || err.Error() != "the disk is full" {
		t.Errorf("a write that fails: %v", err)
	}
	bad := full(t)
	bad.Values = map[string]any{"f": func() {}}
	if err := bad.Encode(io.Discard); fault.KindOf(err) != fault.Internal {
		t.Errorf("what is no JSON: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// Labels that point nowhere are refused.
func TestLabelsOfFiles(t *testing.T) {
	for change, want := range map[string]string{
		`"labels":[-1,0]`: "", `"labels":[-1,1]`: "metrics[0]: labels[1]: there is no label_sets[1]", `"labels":[-2,0]`: "labels[0]", `"labels":[0]`: "2 values, but 1 labels",
	} {
		var text bytes.Buffer
		must.Do(t, full(t).Encode(&text))
		path := filepath.Join(t.TempDir(), "r.json")
		must.Do(t, os.WriteFile(path, bytes.Replace(text.Bytes(), []byte(`"labels":[-1,0]`), []byte(change), 1), 0o644))
		_, err := result.Read(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", change, err, want)
		}
	}
}
