package matgen

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/kit/version"
	"perigee/internal/traffic/matrix"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var small = []string{"--model", "qwen3-30B", "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--ppn", "2"}

// generate runs a small workload of n requests into folder.
func generate(t *testing.T, folder string, n int, more ...string) (string, error) {
	t.Helper()
	return run(t, append(append(slices.Clone(small), "--num-user-requests", fmt.Sprint(n), "--results-dir", folder), more...)...)
}

// TestReplacesEarlierOutput checks that nothing of an earlier, longer run
// survives, in either mode.
func TestReplacesEarlierOutput(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "out")
	for _, step := range []struct {
		n    int
		more []string
	}{{4, nil}, {2, nil}, {3, []string{"--compat"}}, {1, nil}} {
		if _, err := generate(t, folder, step.n, step.more...); err != nil {
			t.Fatal(err)
		}
		var want []string
		for k := range step.n {
			want = append(want, fileName(k))
		}
		if diff := cmp.Diff(append(want, metadataName), names(t, folder)); diff != "" {
			t.Errorf("after a run of %d (-want +got):\n%s", step.n, diff)
		}
	}
	if diff := cmp.Diff([]string{"out"}, names(t, filepath.Dir(folder))); diff != "" {
		t.Errorf("beside the folder (-want +got):\n%s", diff)
	}
}

// A list of a megabyte does not ask for as many files as it likes.
func TestTooManyMatrices(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "isl.txt")
	must.Do(t, os.WriteFile(list, []byte(strings.Repeat("9\n", MaxMatrices+1)), 0o600))
	args := append(slices.Clone(small), "--isl-list", list, "--results-dir", filepath.Join(dir, "out"))
	if _, err := run(t, args...); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "more than 65536 matrices") {
		t.Errorf("one too many: %v", err)
	}
	if _, err := run(t, append(args, "--dry-run", "--batch-size", "2")...); err != nil {
		t.Errorf("half as many: %v", err)
	}
	if _, err := run(t, append(args, "--dry-run", "--num-user-requests", fmt.Sprint(MaxMatrices))...); err != nil {
		t.Errorf("just as many as there may be: %v", err)
	}
}

func TestForeignFolder(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
	}{
		{"other file", map[string]string{"notes.txt": "mine"}},
		{"metadata of another program", map[string]string{metadataName: "traffic_patterns: []\n", "matrix_0.txt": "0\n"}},
		{"matrices without metadata", map[string]string{"matrix_0.txt": "0\n"}},
		{"our output with a file of the user", map[string]string{metadataName: firstLine + "traffic_patterns: []\n", "results.json": "{}"}},
		{"our output with a folder", map[string]string{metadataName: firstLine + "traffic_patterns: []\n", "matrix_0.txt/x": ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			folder := filepath.Join(root, "out")
			for name, text := range tt.files {
				path := filepath.Join(folder, name)
				must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
				must.Do(t, os.WriteFile(path, []byte(text), 0o644))
			}
			before := names(t, folder)
			_, err := generate(t, folder, 1)
			must.Fail(t, err, fault.Output, "holds files that matgen did not write | choose another --output, or --force")
			if diff := cmp.Diff(before, names(t, folder)); diff != "" {
				t.Errorf("the folder changed (-want +got):\n%s", diff)
			}
			out, err := generate(t, folder, 1, "--force")
			if err != nil || !strings.Contains(out, "what was there is now "+folder+".old") {
				t.Fatalf("with --force: %v\n%s", err, out)
			}
			if diff := cmp.Diff(before, names(t, folder+".old")); diff != "" {
				t.Errorf("the folder set aside (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"matrix_0.txt", metadataName}, names(t, folder)); diff != "" {
				t.Errorf("the new folder (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDestinationErrors(t *testing.T) {
	file := writeFile(t, "file", "mine")
	_, err := generate(t, file, 1)
	must.Fail(t, err, fault.Output, "not a directory")
	_, err = generate(t, file+"/below", 1)
	must.Fail(t, err, fault.Output, "not a directory")
	t.Chdir(t.TempDir())
	_, err = generate(t, ".", 1)
	must.Fail(t, err, fault.Output, "it is the current folder")
	if got := names(t, "."); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestDryRun(t *testing.T) {
	t.Chdir(t.TempDir())
	out, err := generate(t, "out", 3, "--dry-run")
	if err != nil || !strings.Contains(out, "# matgen generate: 3 matrices of 4 ranks, nothing written (--dry-run)\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := names(t, "."); len(got) != 0 {
		t.Errorf("a dry run wrote %q", got)
	}
}

func TestDefaultFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	out, err := run(t, append(slices.Clone(small), "--num-user-requests", "1")...)
	if err != nil || !strings.Contains(out, "written to matrices_4ranks\n") {
		t.Errorf("%v\n%s", err, out)
	}
	must.Equal(t, []string{"matrices_4ranks"}, names(t, "."))
}

// TestNoRequests: the original makes an empty workload of no requests.
func TestNoRequests(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "out")
	if _, err := generate(t, folder, 0, "--compat"); err != nil {
		t.Fatal(err)
	}
	must.Equal(t, firstLine+"traffic_patterns: []\n", readFile(t, filepath.Join(folder, metadataName)))
}

// TestSummary keeps what the command prints.
func TestSummary(t *testing.T) {
	list := writeFile(t, "l", "38328\n25034\n16000\n500\n")
	got, err := run(t, "--model", "llama-405b", "--num-prefill-nodes", "1", "--num-decode-nodes", "2", "--prefill-tp", "4", "--decode-tp", "8",
		"--isl-list", list, "--batch-size", "3", "--dry-run")
	must.Do(t, err)
	want := `# matgen generate: 2 matrices of 24 ranks, nothing written (--dry-run)
# model llama-405b: 516 kB (516096 bytes) of KV cache per token, bf16 (default)
# prefill: ranks 0 to 7, 2 workers (tp 4)
# decode: ranks 8 to 23, 2 workers (tp 8)
# requests: 4 of 1000 to 38328 tokens, mean 20090.5
# bytes: 41.5 GB (41474506752 bytes) in all, 41.0 GB (40958410752 bytes) in the largest matrix (matrix_0.txt)
# memory per rank: 10.2 GB (10239602688 bytes) to send (prefill), 5.12 GB (5119801344 bytes) to receive (decode)
# sleep: 38.980 s on the busiest worker
# warning: 1 of 4 draws were clipped: 1 below --min-isl 1000, 0 above --max-isl 128000
# warning: the last batch has only 1 of --batch-size 3 requests
`
	must.Equal(t, want, got)
}

// TestSummaryOfTrace checks that the summary says how a trace was understood, and what is doubtful about that.
func TestSummaryOfTrace(t *testing.T) {
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "{\"timestamp\": %d, \"input_length\": 1000}\n", i/4)
	}
	args := []string{"--model", "llama-405b", "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--trace", writeFile(t, "t", text.String()), "--dry-run"}
	for unit, want := range map[string]string{
		"":   "# trace: Mooncake JSON lines, 49 s, 200 requests, mean 4.061/s, timestamps in seconds (assumed; --trace-unit says it)\n",
		"ms": "# trace: Mooncake JSON lines, 0.049 s, 200 requests, mean 4061/s, timestamps in milliseconds\n",
		"s":  "# trace: Mooncake JSON lines, 49 s, 200 requests, mean 4.061/s, timestamps in seconds\n",
	} {
		got, err := run(t, append(args, "--trace-unit", unit)...)
		must.Do(t, err)
		for line := range strings.Lines(want) {
			if !strings.Contains(got, line) {
				t.Errorf("--trace-unit %q: got\n%swant\n%s", unit, got, line)
			}
		}
	}
}

// TestSummaryOfLargeFiles checks that the summary names the disk where it matters.
func TestSummaryOfLargeFiles(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--num-prefill-nodes 1 --num-decode-nodes 1 --num-user-requests 200", ""},
		{"--num-prefill-nodes 200 --num-decode-nodes 200 --num-user-requests 200", ""},
		{"--num-prefill-nodes 200 --num-decode-nodes 200 --num-user-requests 200 --dense", "# files: at least 4.10 GB (4096000000 bytes)\n"},
		{"--num-prefill-nodes 64 --num-decode-nodes 65 --num-user-requests 50000 --prefill-cp 64", "# files: at least 154 MB (153600000 bytes)\n"},
	} {
		got, err := run(t, append(strings.Fields(c.args), "--model", "llama-405b", "--prefill-tp", "8", "--decode-tp", "8", "--dry-run")...)
		must.Do(t, err)
		if !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "# files: ") {
			t.Errorf("%s: want %q\n%s", c.args, c.want, got)
		}
		if one := strings.Contains(got, ", 1 worker (tp 8)\n"); one != strings.HasPrefix(c.args, "--num-prefill-nodes 1 ") {
			t.Errorf("%s: %s", c.args, got)
		}
	}
}

// TestForms: matrices of more than 1024 ranks are sparse unless asked otherwise, and the form changes nothing else.
func TestForms(t *testing.T) {
	write := func(decodeNodes string, more ...string) string {
		folder := filepath.Join(t.TempDir(), "out")
		args := []string{"--model", "llama-405b", "--num-user-requests", "1", "--num-prefill-nodes", "64", "--num-decode-nodes", decodeNodes,
			"--prefill-tp", "8", "--decode-tp", "8", "--results-dir", folder}
		if _, err := run(t, append(args, more...)...); err != nil {
			t.Fatal(err)
		}
		return readFile(t, filepath.Join(folder, fileName(0)))
	}
	for _, c := range []struct {
		decodeNodes string
		more        []string
		sparse      bool
	}{
		{"64", nil, false},
		{"64", []string{"--dense"}, false},
		{"65", nil, true},
		{"65", []string{"--dense"}, false},
		{"65", []string{"--compat", "--num-prefill-nodes", "65"}, false},
	} {
		if text := write(c.decodeNodes, c.more...); strings.HasPrefix(text, "sparse 1032 8 #") != c.sparse || !c.sparse && len(text) < 2<<20 {
			t.Errorf("%s decode nodes, %v: %d bytes, %.60q", c.decodeNodes, c.more, len(text), text)
		}
	}
	sparse, err := matrix.ParseText("sparse", []byte(write("65")))
	must.Do(t, err)
	dense, err := matrix.ParseText("dense", []byte(write("65", "--dense")))
	if err != nil || !dense.Equal(sparse) {
		t.Errorf("another matrix: %v", err)
	}
}

// TestMetadataGolden keeps the whole of a metadata.yaml.
func TestMetadataGolden(t *testing.T) {
	trace := writeFile(t, "t.jsonl", `{"timestamp": 5, "input_length": 2000, "output_length": 3}`+"\n")
	w := mustPlan(t, "--model", "deepseek-r1", "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--decode-tp", "8", "--trace", trace, "--scale", "0.5", "--mem-type", "vram")
	w.Options.Trace = "t.jsonl"
	var got bytes.Buffer
	must.Do(t, w.writeMetadata(&got, "out"))
	const golden = "testdata/metadata.golden.yaml"
	text := strings.Replace(got.String(), version.Version, "VERSION", 1)
	if *update {
		must.Do(t, os.WriteFile(golden, []byte(text), 0o644))
	}
	must.Equal(t, readFile(t, golden), text)
}

// What is written for a pattern is not kept until all are: a short list makes many patterns.
func TestMetadataIsStreamed(t *testing.T) {
	const patterns = 10_000
	w := mustPlan(t, append(slices.Clone(small), "--num-user-requests", fmt.Sprint(patterns))...)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	late := &tail{from: 1 << 20, look: heap}
	must.Do(t, w.writeMetadata(late, "f"))
	if late.seen == 0 || late.seen > before+1<<20 {
		t.Errorf("%d bytes are in use in the middle, %d before", late.seen, before)
	}
}

// tail looks at something once it has got some bytes.
type tail struct {
	from int
	look func() uint64
	seen uint64
}

func (w *tail) Write(p []byte) (int, error) {
	if w.from -= len(p); w.from < 0 && w.seen == 0 {
		w.seen = w.look()
	}
	return len(p), nil
}

func TestFormatFloat(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0.0", 1: "1.0", -2.5: "-2.5", 4e14: "400000000000000.0", 1e16: "1.0e+16", 1.5e16: "1.5e+16", 1e-4: "0.0001", 1e-5: "1.0e-05",
		5.882311111111112e-07: "5.882311111111112e-07", 37.404803072: "37.404803072", 1e300: "1.0e+300",
	} {
		if got := formatFloat(f); got != want {
			t.Errorf("%v: got %s, wanted %s", f, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		text := formatFloat(f)
		if back, err := strconv.ParseFloat(text, 64); err != nil || back != f || !strings.Contains(text, ".") {
			t.Fatalf("%v is written %s and reads back as %v, %v", f, text, back, err)
		}
	})
}

// TestCompatSmallCells: cells below a byte read back as 0, but the original
// writes them.
func TestCompatSmallCells(t *testing.T) {
	w := mustPlan(t, "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--ppn", "4", "--prefill-tp", "4", "--decode-tp", "4", "--hidden-size", "1", "--num-layers", "1",
		"--num-heads", "1", "--num-kv-heads", "1", "--dtype-size", "1", "--min-isl", "1", "--isl-list", writeFile(t, "l", "1"), "--compat")
	var got bytes.Buffer
	must.Do(t, w.writeCompatText(&got, w.Patterns[0]))
	cells := map[string]string{"0,4": "0.5B", "1,5": "0.5B", "2,6": "0.5B", "3,7": "0.5B"}
	must.Equal(t, matrixText(8, cells), got.String())
}
