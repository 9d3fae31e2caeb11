package matgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/kit/size"
	"perigee/internal/traffic/matrix"
)

// run parses and runs a command line in a separate folder and returns what
// it printed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var cmd Cmd
	parser, err := cli.Parser(&cmd, kong.Name("matgen"), kong.Exit(func(int) { t.Error("kong wants to exit") }))
	must.Do(t, err)
	var out bytes.Buffer
	context, err := parser.Parse(append([]string{"generate"}, args...))
	if err != nil {
		return "", fault.New(fault.Usage, "%w", err)
	}
	err = context.Run(cli.Streams{Out: &out, Err: &out})
	return out.String(), err
}

// writeFile puts a file into a new folder and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b := must.Read(t, path)
	return string(b)
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must.Do(t, err)
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

// goldenCase is a run of the original generator with draws fed to it.
type goldenCase struct {
	Name     string    `json:"name"`
	Args     []string  `json:"args"`
	Draws    []float64 `json:"input_draws"`
	ExitCode int       `json:"exit_code"`
	Metadata string    `json:"metadata_yaml"`
	Files    []string  `json:"files"`
	Patterns []struct {
		ISL     int64             `json:"isl"`
		Sleep   float64           `json:"sleep_before_launch_sec"`
		Ranks   int               `json:"ranks"`
		Text    string            `json:"matrix_text"` // left out for large matrices
		Nonzero map[string]string `json:"nonzero_text"`
		Bytes   map[string]float64
		Total   float64 `json:"total_bytes"`
	} `json:"patterns"`
	Model struct {
		Hidden        int64 `json:"hidden_size"`
		HeadDim       int64 `json:"head_dim"`
		BytesPerToken int64 `json:"bytes_per_token"`
	} `json:"model_config"`
	Prefill    [][]int   `json:"prefill_workers"`
	Decode     [][]int   `json:"decode_workers"`
	BatchesISL [][]int64 `json:"batches_isl"`
}

func goldenCases(t *testing.T) []goldenCase {
	t.Helper()
	var all struct{ Cases []goldenCase }
	must.Do(t, json.Unmarshal([]byte(readFile(t, "testdata/matgen_cases.json")), &all))
	if len(all.Cases) != 12 {
		t.Fatalf("%d cases, wanted 12", len(all.Cases))
	}
	return all.Cases
}

func (c goldenCase) list(t *testing.T) string {
	t.Helper()
	var lines strings.Builder
	for _, d := range c.Draws {
		fmt.Fprintln(&lines, d)
	}
	return writeFile(t, "draws.txt", lines.String())
}

// matrixText builds the text of a matrix of which only the cells are known.
func matrixText(ranks int, cells map[string]string) string {
	var b strings.Builder
	for i := range ranks {
		for j := range ranks {
			text, ok := cells[fmt.Sprintf("%d,%d", i, j)]
			if !ok {
				text = "0"
			}
			b.WriteString(text + map[bool]string{true: "\n", false: " "}[j == ranks-1])
		}
	}
	return b.String()
}

func TestCompatGolden(t *testing.T) {
	for _, c := range goldenCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "out")
			args := append(slices.Clone(c.Args), "--compat", "--isl-list", c.list(t), "--results-dir", folder)
			_, err := run(t, args...)
			if c.ExitCode != 0 {
				if fault.KindOf(err) != fault.Usage || err == nil {
					t.Errorf("got %v, wanted a usage error", err)
				}
				if _, err := os.Stat(folder); err == nil {
					t.Error("the folder was made")
				}
				return
			}
			must.Do(t, err)
			if diff := cmp.Diff(c.Files, names(t, folder)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			metadata := readFile(t, filepath.Join(folder, metadataName))
			want := firstLine + strings.ReplaceAll(c.Metadata, "<RESULTS_DIR>", folder)
			if diff := cmp.Diff(want, metadata); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			for k, p := range c.Patterns {
				want := p.Text
				if want == "" {
					want = matrixText(p.Ranks, p.Nonzero)
				}
				if diff := cmp.Diff(want, readFile(t, filepath.Join(folder, fileName(k)))); diff != "" {
					t.Errorf("matrix %d (-want +got):\n%s", k, diff)
				}
			}
		})
	}
}

// TestCompatPlan compares what the files do not show.
func TestCompatPlan(t *testing.T) {
	for _, c := range goldenCases(t) {
		if c.ExitCode != 0 || c.Model.BytesPerToken == 0 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			w := mustPlan(t, append(slices.Clone(c.Args), "--compat", "--isl-list", c.list(t))...)
			if w.Model.BytesPerToken != c.Model.BytesPerToken || w.Model.Hidden != c.Model.Hidden || w.Model.cache.Model.Groups[0].Key != c.Model.HeadDim {
				t.Errorf("model %+v, wanted %+v", w.Model, c.Model)
			}
			if diff := cmp.Diff(c.Prefill, workers(w.Prefill)); diff != "" {
				t.Errorf("prefill workers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.Decode, workers(w.Decode)); diff != "" {
				t.Errorf("decode workers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.BatchesISL, batches(w)); diff != "" {
				t.Errorf("batches (-want +got):\n%s", diff)
			}
		})
	}
}

func workers(s Side) [][]int {
	var all [][]int
	for i := range s.Workers() {
		from, to := s.Worker(i)
		var ranks []int
		for r := from; r < to; r++ {
			ranks = append(ranks, r)
		}
		all = append(all, ranks)
	}
	return all
}

func batches(w *Workload) [][]int64 {
	var all [][]int64
	for _, p := range w.Patterns {
		var isl []int64
		for _, r := range w.Requests[p.FirstRequest : p.FirstRequest+p.Requests] {
			isl = append(isl, r.Tokens)
		}
		all = append(all, isl)
	}
	return all
}

// parse makes options of a command line.
func parse(t *testing.T, args ...string) GenerateCmd {
	t.Helper()
	var cmd Cmd
	parser, err := cli.Parser(&cmd)
	must.Do(t, err)
	if _, err := parser.Parse(append([]string{"generate"}, args...)); err != nil {
		t.Fatal(err)
	}
	return cmd.Generate
}

func mustPlan(t *testing.T, args ...string) *Workload {
	t.Helper()
	w, err := planArgs(t, args...)
	must.Do(t, err)
	return w
}

func planArgs(t *testing.T, args ...string) (*Workload, error) {
	t.Helper()
	c := parse(t, args...)
	in, err := c.Load()
	if err != nil {
		return nil, err
	}
	return Plan(c.Options, in)
}

// TestExactGolden runs the original's cases by our rules. Where both have the
// same model and the original's workers are whole, the same cells carry the
// same bytes, but exactly.
func TestExactGolden(t *testing.T) {
	same := 0
	for _, c := range goldenCases(t) {
		if c.ExitCode != 0 || strings.Contains(c.Name, "partial") || slices.Contains(c.Args, "qwen3-30B") {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			w := mustPlan(t, append(slices.Clone(c.Args), "--isl-list", c.list(t))...)
			for k, p := range c.Patterns {
				m, err := w.Matrix(w.Patterns[k])
				must.Do(t, err)
				if p.Total != 0 && float64(m.Total()) != p.Total {
					t.Errorf("matrix %d: sum %d, wanted %v", k, m.Total(), p.Total)
				}
				if m.Cells() != len(p.Nonzero) {
					t.Errorf("matrix %d: %d cells, wanted %d", k, m.Cells(), len(p.Nonzero))
				}
				for at, text := range p.Nonzero {
					var i, j int
					fmt.Sscanf(at, "%d,%d", &i, &j)
					if got := matrix.FormatSize(float64(m.At(i, j))); got != text {
						t.Errorf("matrix %d cell [%s]: %d bytes, which is %s, wanted %s", k, at, m.At(i, j), got, text)
					}
				}
				same++
			}
		})
	}
	if same < 20 {
		t.Errorf("only %d matrices compared", same)
	}
}

func TestDefaults(t *testing.T) {
	got := parse(t, "--num-prefill-nodes", "1", "--num-decode-nodes", "2").Options
	want := DefaultOptions()
	want.NumPrefillNodes, want.NumDecodeNodes = 1, 2
	want.MaxBatchMem, want.PPN, want.ISLMean, want.FLOPS, want.Scale = 100e9, 8, 16000, defaultFLOPS, 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults of the command line (-DefaultOptions +got):\n%s", diff)
	}
}

// --prefill and --decode make the same workload as the original's options for it.
func TestSides(t *testing.T) {
	for words, same := range map[string]string{
		"--prefill 2xTP4 --decode 2xTP8": "--num-prefill-nodes 1 --num-decode-nodes 2 --prefill-tp 4 --decode-tp 8",
		"--prefill TP4 --decode 3xTP2":   "--num-prefill-nodes 2 --num-decode-nodes 3 --ppn 2 --prefill-tp 4 --decode-tp 2",
		"--prefill TP2 --decode TP4 --prefill-pp 2 --decode-pp-layers 100,26": "--num-prefill-nodes 1 --num-decode-nodes 2 --ppn 4 " +
			"--prefill-pp 2 --decode-pp-layers 100,26 --prefill-tp 2 --decode-tp 4",
		"--prefill 5xTP1 --decode TP1 --prefill-cp 3 --ppn 4": "--num-prefill-nodes 15 --num-decode-nodes 1 --ppn 1 --prefill-cp 3",
	} {
		var got [2]string
		for i, line := range []string{words, same} {
			dir := t.TempDir()
			_, err := run(t, strings.Fields("--model llama-405b --num-user-requests 3 --output "+dir+" "+line)...)
			must.Do(t, err)
			got[i] = readFile(t, filepath.Join(dir, "metadata.yaml"))
		}
		if diff := cmp.Diff(got[1], got[0]); diff != "" {
			t.Errorf("%s (-%s +got):\n%s", words, same, diff)
		}
	}
	for _, line := range []string{"", "--prefill TP1", "--num-decode-nodes 1", "--prefill TP1 --num-decode-nodes 1",
		"--prefill TP1 --decode TP1 --decode-tp 2", "--prefill TP1 --decode TP1 --num-prefill-nodes 1"} {
		_, err := run(t, append(strings.Fields(line), "--model", "llama-405b")...)
		must.Fail(t, err, fault.Usage, "wanted --prefill NxTPk and --decode NxTPk, or, instead of both, --num-prefill-nodes")
	}
	_, err := run(t, "--model", "llama-405b", "--prefill", "4000xTP8", "--decode", "TP1024")
	must.Fail(t, err, fault.Usage, "too many ranks: wanted at most 32768")
}

func TestHelpNamesModels(t *testing.T) {
	var help bytes.Buffer
	var cmd Cmd
	parser, err := cli.Parser(&cmd, kong.Writers(&help, &help), kong.Exit(func(int) {}))
	must.Do(t, err)
	parser.Parse([]string{"generate", "--help"})
	text := strings.Join(strings.Fields(help.String()), " ")
	if want := "perigee kvbench models"; !strings.Contains(text, want) {
		t.Errorf("the help does not say %q:\n%s", want, help.String())
	}
	for _, flag := range []string{"num-user-requests", "batch-size", "num-prefill-nodes", "num-decode-nodes", "ppn", "prefill-tp", "prefill-pp",
		"prefill-cp", "decode-tp", "decode-pp", "decode-cp", "model", "hidden-size", "num-layers", "num-heads", "num-kv-heads", "dtype-size",
		"output", "isl-mean", "isl-scale", "min-isl", "max-isl", "max-batch-mem", "[no-]rail-optimized", "seed", "isl-list", "trace", "trace-unit",
		"compat", "flops", "mem-type", "scale", "dry-run", "dense", "prefill", "decode"} {
		if !strings.Contains(text, "--"+flag) {
			t.Errorf("no option --%s", flag)
		}
	}
}

// decoded is metadata.yaml as a reader of the schema sees it.
type decoded struct {
	TrafficPatterns []struct {
		MatrixFile string         `yaml:"matrix_file"`
		MemType    string         `yaml:"mem_type"`
		Metadata   map[string]any `yaml:"metadata"`
		Sleep      float64        `yaml:"sleep_before_launch_sec"`
	} `yaml:"traffic_patterns"`
	Generator map[string]any `yaml:"generator"`
}

func readMetadata(t *testing.T, folder string) decoded {
	t.Helper()
	var d decoded
	must.Do(t, yaml.Load([]byte(readFile(t, filepath.Join(folder, metadataName))), &d, yaml.WithKnownFields()))
	return d
}

// TestPresets makes workloads of shipped models and reads the files back.
func TestPresets(t *testing.T) {
	tokens := map[string]int64{
		"llama-405b": 516096, "qwen3-30B": 98304, "deepseek-r1-distill-llama-70b": 327680, "deepseek-r1": 70272,
		"llama3.1-405b": 516096, "qwen3-30b-a3b": 98304, "kimi-k2": 70272, "mixtral-8x22b": 229376,
	}
	copies := map[string]int64{"qwen3-30B": 2, "qwen3-30b-a3b": 2, "deepseek-r1": 8, "kimi-k2": 8}
	for name, perToken := range tokens {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "a folder: with 'marks'", "out")
			out, err := run(t, "--model", name, "--num-user-requests", "7", "--batch-size", "2", "--num-prefill-nodes", "1", "--num-decode-nodes", "1",
				"--prefill-tp", "4", "--decode-tp", "8", "--results-dir", folder, "--mem-type", "dram", "--seed", "42")
			must.Do(t, err)
			if want := fmt.Sprintf("# model %s: %s of KV cache per token, bf16 (default)\n", name, size.Exact(perToken)); !strings.Contains(out, want) {
				t.Errorf("the summary lacks %q:\n%s", want, out)
			}
			d := readMetadata(t, folder)
			if len(d.TrafficPatterns) != 4 {
				t.Fatalf("%d patterns, wanted 4", len(d.TrafficPatterns))
			}
			for k, p := range d.TrafficPatterns {
				m, err := matrix.ParseText(p.MatrixFile, []byte(readFile(t, filepath.Join(folder, p.MatrixFile))))
				must.Do(t, err)
				isl := int64(p.Metadata["isl"].(int))
				if p.MatrixFile != fileName(k) || p.MemType != "dram" || m.Size() != 16 || m.Total() != isl*perToken*max(copies[name], 1) || p.Sleep <= 0 {
					t.Errorf("pattern %d: %+v with a matrix of %d ranks and %d bytes", k, p, m.Size(), m.Total())
				}
			}
			options := d.Generator["options"].(map[string]any)
			model := d.Generator["model_figures"].(map[string]any)
			if options["seed"] != 42 || options["model"] != name || options["flops"] != 4e14 || model["bytes_per_token"] != int(perToken) {
				t.Errorf("generator: %v", d.Generator)
			}
		})
	}
}
