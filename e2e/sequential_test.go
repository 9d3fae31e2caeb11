package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// columns are the columns of the sequential table, as they are documented.
var columns = []string{"Transfer size (GB)", "Latency (ms)", "Isolated Latency (ms)", "Num Senders", "Mean BW (GB/s)"}

// original is the layout of --json-output-path, which is that of NIXL's tool.
type original struct {
	Iterations [][]originalPattern `json:"iterations_results"`
	Metadata   struct {
		TS             *float64 `json:"ts"`
		PrepareTPTime  *float64 `json:"prepare_tp_time"`
		EngineTime     *float64 `json:"engine_prepare_time"`
		SOLCalculation *float64 `json:"sol_calculation_ts"`
		Finished       *float64 `json:"finished_ts"`
		Iters          []struct {
			Start    *float64   `json:"start_ts"`
			TPsStart []*float64 `json:"tps_start_ts"` // by pattern, as rank 0 saw it; null where it initiates nothing
			TPsEnd   []*float64 `json:"tps_end_ts"`
		} `json:"iters"`
	} `json:"metadata"`
}

type originalPattern struct {
	Size            *float64 `json:"size"`
	Latency         *float64 `json:"latency"`
	IsolatedLatency *float64 `json:"isolated_latency"`
	IsolatedMedian  *float64 `json:"isolated_latency_median"`
	NumSenders      *float64 `json:"num_senders"`
	MeanBW          *float64 `json:"mean_bw"`
	MinStart        *float64 `json:"min_start_ts"`
	MaxEnd          *float64 `json:"max_end_ts"`
}

// readOriginal reads such a file. Every key must be there and no other.
func readOriginal(t *testing.T, path string) original {
	t.Helper()
	data := must.Read(t, path)
	var loose struct {
		Iterations [][]map[string]any `json:"iterations_results"`
		Metadata   map[string]any     `json:"metadata"`
	}
	must.Do(t, json.Unmarshal(data, &loose))
	for _, patterns := range loose.Iterations {
		for _, p := range patterns {
			wantKeys(t, p, "isolated_latency", "isolated_latency_median", "latency", "max_end_ts", "mean_bw", "min_start_ts", "num_senders", "size")
		}
	}
	wantKeys(t, loose.Metadata, "engine_prepare_time", "finished_ts", "iters", "prepare_tp_time", "sol_calculation_ts", "ts")
	for _, i := range loose.Metadata["iters"].([]any) {
		wantKeys(t, i.(map[string]any), "start_ts", "tps_end_ts", "tps_start_ts")
	}
	var o original
	must.Do(t, json.Unmarshal(data, &o))
	return o
}

func wantKeys(t *testing.T, m map[string]any, want ...string) {
	t.Helper()
	var got []string
	for k := range m {
		got = append(got, k)
	}
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("keys (-want +got):\n%s", d)
	}
}

// readTable finds the table with the given columns in an output and returns
// its cells, row by row.
func readTable(t *testing.T, stdout string, columns ...string) [][]string {
	t.Helper()
	lines := strings.Split(strings.TrimRight(stdout, "\n"), "\n")
	for i, line := range lines {
		// Column names are set apart by two spaces; in them there is only one.
		if !slices.Equal(fields(line), columns) {
			continue
		}
		if rule := fields(lines[i+1]); len(rule) != len(columns) || strings.Trim(lines[i+1], "- ") != "" {
			t.Fatalf("no rule below the heading of\n%s", stdout)
		}
		var rows [][]string
		for _, row := range lines[i+2:] {
			if len(row) != len(line) || strings.HasPrefix(row, "#") {
				break
			}
			rows = append(rows, fields(row))
		}
		return rows
	}
	t.Fatalf("no table with the columns %q in\n%s", columns, stdout)
	return nil
}

func fields(line string) []string {
	var list []string
	for f := range strings.SplitSeq(line, "  ") {
		if f = strings.TrimSpace(f); f != "" {
			list = append(list, f)
		}
	}
	return list
}

// play runs a sequential config and checks everything that must hold of its
// three outputs, whatever the config.
func play(t *testing.T, dir, config, engine string, args ...string) (original, *result.Document) {
	t.Helper()
	args = append([]string{"sequential-ct-perftest", config, "--engine", engine,
		"--json-output-path", "out.json", "--result", "result.json.zst"}, args...)
	o := harness.MustRun(t, dir, args...)
	if o.Stderr != "" {
		t.Errorf("stderr: %s", o.Stderr)
	}
	out := readOriginal(t, filepath.Join(dir, "out.json"))
	doc, err := result.Read(filepath.Join(dir, "result.json.zst"))
	must.Do(t, err)
	if doc.Status != result.Complete || doc.Failure != nil || doc.Engine == nil || doc.Engine.Name != engine {
		t.Fatalf("status %s, failure %v, engine %+v", doc.Status, doc.Failure, doc.Engine)
	}
	harness.Contains(t, "stdout", o.Stdout, "# perigee ", fmt.Sprintf("%d ranks on 1 host", doc.World.Size), "# engine: "+engine+" ", "# result: result.json.zst\n")
	checkAgree(t, readTable(t, o.Stdout, columns...), out, doc)
	checkPreparing(t, o.Stdout, out)
	return out, doc
}

// checkPreparing holds the time of preparing in the original's layout, which is that of the whole, against the note.
func checkPreparing(t *testing.T, stdout string, out original) {
	t.Helper()
	note := regexp.MustCompile(`(?m)^# note: prepared \d+ patterns? in (\S+) s$`).FindStringSubmatch(stdout)
	if note == nil {
		t.Fatalf("no note about preparing in\n%s", stdout)
	}
	whole, engine := *out.Metadata.PrepareTPTime, *out.Metadata.EngineTime
	wantCell(t, note[1], whole, 3)
	if engine <= 0 || engine >= whole {
		t.Errorf("the engine prepared in %v s, all in %v s", engine, whole)
	}
}

// checkAgree compares the table, the original's JSON and the result.
func checkAgree(t *testing.T, rows [][]string, out original, doc *result.Document) {
	t.Helper()
	if len(rows) != len(doc.Patterns) {
		t.Fatalf("%d rows for %d patterns", len(rows), len(doc.Patterns))
	}
	for i, p := range doc.Patterns {
		m := doc.Matrices[p.Matrix]
		wantCell(t, rows[i][0], float64(m.Bytes)/1e9, 3)
		if rows[i][3] != strconv.Itoa(p.Senders) {
			t.Errorf("pattern %d: %s senders in the table, want %d", i, rows[i][3], p.Senders)
		}
		var latencies, bandwidths []float64
		for j, iteration := range out.Iterations {
			e := iteration[i]
			if *e.Size != float64(m.Bytes)/1e9 || *e.NumSenders != float64(p.Senders) {
				t.Errorf("pattern %d: size %v of %v senders in the JSON, want %d bytes of %d", i, *e.Size, *e.NumSenders, m.Bytes, p.Senders)
			}
			if m.Bytes == 0 {
				if e.Latency != nil || e.IsolatedLatency != nil || e.IsolatedMedian != nil || e.MeanBW != nil || e.MinStart != nil || e.MaxEnd != nil {
					t.Errorf("pattern %d is empty but was measured: %+v", i, e)
				}
				continue
			}
			run := measured(t, doc, i, "workload", j)
			near(t, fmt.Sprintf("latency of pattern %d", i), *e.Latency, float64(run.LatencyNS)/1e6)
			near(t, fmt.Sprintf("bandwidth of pattern %d", i), *e.MeanBW, run.MeanBandwidth/1e9)
			// Seconds since 1970 in 64 bits are good for a quarter of a microsecond.
			if span := (*e.MaxEnd - *e.MinStart) * 1e3; math.Abs(span-*e.Latency) > 1e-3 {
				t.Errorf("pattern %d: %v ms between the stamps, but a latency of %v ms", i, span, *e.Latency)
			}
			latencies, bandwidths = append(latencies, *e.Latency), append(bandwidths, *e.MeanBW)
		}
		if m.Bytes == 0 {
			if rows[i][1] != "-" || rows[i][2] != "-" || rows[i][4] != "-" {
				t.Errorf("row of an empty pattern: %q", rows[i])
			}
			continue
		}
		wantCell(t, rows[i][1], median(latencies), 3)
		var alone []float64
		for _, run := range doc.Measurements {
			if run.Pattern == i && run.Phase == "isolated" {
				alone = append(alone, float64(run.LatencyNS)/1e6)
			}
		}
		wantCell(t, rows[i][2], median(alone), 3)
		near(t, fmt.Sprintf("median of pattern %d alone", i), *out.Iterations[0][i].IsolatedMedian, median(alone))
		checkOriginalIsolated(t, doc, i, *out.Iterations[0][i].IsolatedLatency)
		wantCell(t, rows[i][4], median(bandwidths), 3)
		checkSenders(t, doc, i)
	}
}

// checkOriginalIsolated computes what the original calls isolated latency: the largest mean time of an initiator.
func checkOriginalIsolated(t *testing.T, doc *result.Document, pattern int, got float64) {
	t.Helper()
	sums, runs := map[int]float64{}, 0
	for _, m := range doc.Measurements {
		if m.Pattern == pattern && m.Phase == "isolated" {
			runs++
			for _, r := range m.Ranks {
				sums[r.Rank] += float64(r.EndNS-r.StartNS) / 1e6
			}
		}
	}
	var want float64
	for _, s := range sums {
		want = max(want, s/float64(runs))
	}
	near(t, fmt.Sprintf("isolated latency of pattern %d in the original's layout", pattern), got, want)
}

// checkSenders proves that each run of a pattern knows exactly its initiators,
// and that each moved what the matrix says.
func checkSenders(t *testing.T, doc *result.Document, pattern int) {
	t.Helper()
	p := doc.Patterns[pattern]
	want := map[int]int64{}
	for _, c := range doc.Matrices[p.Matrix].Cells {
		if p.Op == "READ" {
			want[int(c[1])] += c[2]
		} else {
			want[int(c[0])] += c[2]
		}
	}
	for _, m := range doc.Measurements {
		if m.Pattern != pattern {
			continue
		}
		got := map[int]int64{}
		for _, r := range m.Ranks {
			got[r.Rank] = r.Bytes
			if r.StartNS < m.StartNS || r.EndNS > m.EndNS || r.StartNS >= r.EndNS {
				t.Errorf("pattern %d: rank %d ran from %d to %d, the pattern from %d to %d", pattern, r.Rank, r.StartNS, r.EndNS, m.StartNS, m.EndNS)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("pattern %d, bytes by initiator (-want +got):\n%s", pattern, d)
		}
	}
}

func measured(t *testing.T, doc *result.Document, pattern int, phase string, iteration int) result.Measurement {
	t.Helper()
	for _, m := range doc.Measurements {
		if m.Pattern == pattern && m.Phase == phase && m.Iteration == iteration {
			return m
		}
	}
	t.Fatalf("no measurement of pattern %d, phase %s, iteration %d", pattern, phase, iteration)
	return result.Measurement{}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func wantCell(t *testing.T, cell string, v float64, decimals int) {
	t.Helper()
	got, err := strconv.ParseFloat(cell, 64)
	// Half a unit of the last digit, and a little for the way there.
	if err != nil || math.Abs(got-v) > 0.51*math.Pow10(-decimals) {
		t.Errorf("the table says %s, want %.*f", cell, decimals, v)
	}
	if _, digits, _ := strings.Cut(cell, "."); len(digits) != decimals {
		t.Errorf("the table says %s, want %d decimals", cell, decimals)
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// models are matgen's presets, each with the scale at which a batch of a few
// thousand tokens becomes a few hundred KiB.
var models = []string{"llama-405b", "qwen3-30B", "deepseek-r1-distill-llama-70b", "deepseek-r1"}

// shapes are the worlds in which the presets are played.
var shapes = []struct {
	ranks int
	args  []string
}{
	{2, []string{"--ppn", "1", "--prefill-tp", "1", "--decode-tp", "1"}},
	{8, []string{"--ppn", "4", "--prefill-tp", "2", "--decode-tp", "4"}},
	{16, []string{"--ppn", "8", "--prefill-tp", "4", "--decode-tp", "8", "--rail-optimized"}},
}

// TestPresets plays matgen's workloads of every preset in worlds of 2, 8 and 16 ranks, and has every byte checked. Each
// two of a preset, a world, a direction and a number of pieces, 1 or 7, meet with each engine.
func TestPresets(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for i, model := range models {
			for j, shape := range shapes {
				t.Run(fmt.Sprintf("%s-%d", model, shape.ranks), func(t *testing.T) {
					op, shards := []string{"WRITE", "READ"}[(i+j)%2], []int{1, 7}[(i/2+j)%2]
					dir := generate(t, model, shape.args)
					_, doc := play(t, dir, reshard(t, dir, shards), engine, "--verify-buffers", "--op", op,
						"--iters", "2", "--isolation-iters", "2", "--warmup-iters", "1")
					if doc.World.Size != shape.ranks || len(doc.Patterns) != 3 {
						t.Fatalf("%d ranks, %d patterns; want %d and 3", doc.World.Size, len(doc.Patterns), shape.ranks)
					}
					for _, p := range doc.Patterns {
						if p.Op != op || p.Shards != shards || p.Mem != "dram" || p.Metadata["isl"] == nil {
							t.Fatalf("played %+v, want %s in %d shards", p, op, shards)
						}
					}
					if !slices.ContainsFunc(doc.Notes, func(n string) bool {
						return strings.HasPrefix(n, "verified: ") && strings.Contains(n, "of the workload")
					}) {
						t.Errorf("nothing says that the buffers were verified: %q", doc.Notes)
					}
				})
			}
		}
	})
}

// generate makes a workload of three requests.
func generate(t *testing.T, model string, shape []string) string {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{"matgen", "generate", "--model", model, "--num-prefill-nodes", "1", "--num-decode-nodes", "1",
		"--num-user-requests", "3", "--isl-mean", "4000", "--isl-scale", "1000", "--scale", "0.0002", "--flops", "1e20",
		"--results-dir", "w"}, shape...)
	harness.MustRun(t, dir, args...)
	return dir
}

// reshard writes matgen's config again with a number of shards in each pattern.
func reshard(t *testing.T, dir string, shards int) string {
	t.Helper()
	data := must.Read(t, filepath.Join(dir, "w", "metadata.yaml"))
	text := strings.ReplaceAll(string(data), "- matrix_file:", fmt.Sprintf("- shards: %d\n  matrix_file:", shards))
	name := fmt.Sprintf("w/shards%d.yaml", shards)
	must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	return name
}

// A pattern without a sender stands between others without shifting them.
func TestEmptyPattern(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{
			"c.yaml": "iters: 2\nisolation_iters: 2\nwarmup_iters: 1\ntraffic_patterns:\n" +
				"- matrix_file: a.txt\n- matrix_file: none.txt\n- matrix_file: b.txt\n- matrix_file: none.txt\n",
			"a.txt": "0 4M\n0 0\n", "b.txt": "0 0\n8M 0\n", "none.txt": "0 0\n0 0\n",
		})
		out, _ := play(t, dir, "c.yaml", engine, "--verify-buffers")
		if a, b := out.Iterations[1][0], out.Iterations[1][2]; *a.Size != 4*(1<<20)/1e9 || *b.Size != 8*(1<<20)/1e9 || *a.IsolatedLatency <= 0 || *b.IsolatedLatency <= 0 {
			t.Errorf("the patterns around the empty one: %+v, %+v", a, b)
		}
	})
}

// The three formats of configs and of results say the same.
func TestFormats(t *testing.T) {
	configs := map[string]string{
		"c.yaml": "iters: 2\nn_isolation_iters: 3\nwarmup_iters: 1\ntraffic_patterns:\n- matrix_file: m.txt\n  shards: 3\n  mem_type: cpu\n  xfer_op: READ\n  metadata: {isl: 5, tag: x}\n",
		"c.toml": "n_iters = 2\nisolation_iters = 3\nwarmup_iters = 1\n[[traffic_patterns]]\nmatrix_file = \"m.txt\"\nshards = 3\nmem_type = \"cpu\"\nxfer_op = \"READ\"\nmetadata = {isl = 5, tag = \"x\"}\n",
		"c.json": `{"iters": 2, "isolation_iters": 3, "warmup_iters": 1, "traffic_patterns": [{"matrix_file": "m.txt", "shards": 3, "mem_type": "cpu", "xfer_op": "READ", "metadata": {"isl": 5, "tag": "x"}}]}`,
	}
	for name, text := range configs {
		for _, format := range []string{".json", ".json.gz", ".json.zst"} {
			t.Run(name+" "+format, func(t *testing.T) {
				t.Parallel()
				dir := harness.Files(t, map[string]string{"sub/" + name: text, "sub/m.txt": "0 64K\n3 0\n"})
				harness.MustRun(t, dir, "sequential-ct-perftest", "sub/"+name, "--engine", "shm", "--result", "r"+format)
				doc, err := result.Read(filepath.Join(dir, "r"+format))
				must.Do(t, err)
				want := result.Pattern{
					Name: "pattern 0 (m.txt)", Mem: "dram", Op: "READ", Shards: 3, Senders: 2, Meet: "initiators",
					Metadata: map[string]any{"isl": 5.0, "tag": "x"},
				}
				for i := range doc.Patterns { // measured, so unlike each time
					if f := doc.Patterns[i].PatternFigures; f.LatencyMS == nil || f.Slowdown == nil || *f.LatencyMS <= 0 || *f.MeanBandwidth <= 0 {
						t.Errorf("figures of pattern %d: %+v", i, f)
					}
					doc.Patterns[i].PatternFigures = result.PatternFigures{}
				}
				if d := cmp.Diff([]result.Pattern{want}, doc.Patterns); d != "" {
					t.Errorf("patterns (-want +got):\n%s", d)
				}
				if w, i := countRuns(doc, "workload"), countRuns(doc, "isolated"); w != 2 || i != 3 {
					t.Errorf("%d runs of the workload and %d isolated ones, want 2 and 3", w, i)
				}
				checkMagic(t, filepath.Join(dir, "r"+format), format)
			})
		}
	}
}

func countRuns(doc *result.Document, phase string) int {
	n := 0
	for _, m := range doc.Measurements {
		if m.Phase == phase {
			n++
		}
	}
	return n
}

// checkMagic proves that a file is of the format that its name promises.
func checkMagic(t *testing.T, path, format string) {
	t.Helper()
	data := must.Read(t, path)
	magic := map[string]string{".json": `{"schema":"perigee.result/`, ".json.gz": "\x1f\x8b", ".json.zst": "\x28\xb5\x2f\xfd"}[format]
	if !strings.HasPrefix(string(data), magic) {
		t.Errorf("%s begins with %q, want %q", path, data[:min(len(data), 20)], magic)
	}
}

// The pauses before and after a pattern are kept to within 1 ms. Another
// process may hold one up, so the best of several must be that good; and
// none may be short.
func TestSleeps(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		const before, after = 0.030, 0.020
		dir := harness.Files(t, map[string]string{
			"c.yaml": fmt.Sprintf("iters: 6\nisolation_iters: 1\nwarmup_iters: 1\ntraffic_patterns:\n"+
				"- matrix_file: m.txt\n  sleep_before_launch_sec: %v\n  sleep_after_launch_sec: %v\n"+
				"- matrix_file: m.txt\n  sleep_before_launch_sec: %v\n", before, after, before),
			"m.txt": "0 1K\n1K 0\n",
		})
		out, doc := play(t, dir, "c.yaml", engine)
		best := map[string]float64{"first": math.Inf(1), "between": math.Inf(1)}
		for i, iteration := range out.Iterations {
			first, second := measured(t, doc, 0, "workload", i), measured(t, doc, 1, "workload", i)
			// Before the first pattern there is a world barrier, whose stamp
			// is taken a moment after it.
			pauses := map[string][2]float64{
				"first":   {*iteration[0].MinStart - *out.Metadata.Iters[i].Start, before},
				"between": {float64(second.StartNS-first.EndNS) / 1e9, after + before},
			}
			for name, p := range pauses {
				excess := p[0] - p[1]
				if excess < -50e-6 {
					t.Errorf("iteration %d, pause %s: %.6f s, want at least %v s", i, name, p[0], p[1])
				}
				best[name] = min(best[name], excess)
			}
		}
		for name, excess := range best {
			if excess > 1e-3 {
				t.Errorf("pause %s: at best %.6f s too long", name, excess)
			}
		}
		if best["first"] > 5e-3 && engine == "nixl" {
			t.Errorf("the first pause is off by %v s", best["first"])
		}
	})
}

// With sleep_from: launch a pause goes on while the rank's last transfer does: from launch to launch there is the pause, not
// the pause and the transfer. The best of several pauses must be that short, and the median no shorter: where a process
// waits for a CPU before it notes its launch, a single pause looks shorter than it was.
func TestSleepFromLaunch(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		const pause = 0.050
		for _, from := range []string{"end", "launch"} {
			config := "iters: 4\nisolation_iters: 1\nwarmup_iters: 1\nsleep_from: " + from + "\ntraffic_patterns:\n" +
				strings.Repeat(fmt.Sprintf("- {matrix_file: m.txt, sleep_before_launch_sec: %v}\n", pause), 3)
			out, _ := play(t, harness.Files(t, map[string]string{"c.yaml": config, "m.txt": "0 64M\n0 0\n"}), "c.yaml", engine)
			var pauses []float64
			transfer := math.Inf(1)
			for _, iteration := range out.Iterations {
				for i := range len(iteration) - 1 {
					pauses = append(pauses, *iteration[i+1].MinStart-*iteration[i].MinStart)
					transfer = min(transfer, *iteration[i].MaxEnd-*iteration[i].MinStart)
				}
			}
			least, most := pause, pause+transfer/2
			if from == "end" {
				least, most = pause+transfer, math.Inf(1)
			}
			slices.Sort(pauses)
			if shortest, median := pauses[0], pauses[len(pauses)/2]; median < least-1e-4 || shortest > most {
				t.Errorf("sleep_from %s: %.4f s (median %.4f s) from launch to launch, want %.4f to %.4f (a transfer takes %.4f)",
					from, shortest, median, least, most, transfer)
			}
		}
	})
}

// TestParts plays workloads whose batches move in parts, from stages of a pipeline, run by run of layers, chunk by chunk, with
// states apart, and has every byte checked.
func TestParts(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for name, args := range map[string][]string{
			"pipeline":  {"--model", "llama3.1-8b", "--ppn", "4", "--prefill-pp", "2", "--prefill-tp", "2", "--decode-tp", "4"},
			"layerwise": {"--model", "Qwen/Qwen3-Next-80B-A3B-Instruct", "--ppn", "2", "--layerwise", "--layer-runs", "3", "--prefill-tp", "2", "--decode-tp", "2"},
			"chunks":    {"--model", "gpt-oss-20b", "--ppn", "2", "--chunk", "1000", "--decode-cp", "2"},
			"groups":    {"--model", "deepseek-ai/DeepSeek-V3.2", "--ppn", "4", "--prefill-tp", "4", "--prefill-dp", "2", "--decode-tp", "4", "--decode-dp", "4"},
		} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				harness.MustRun(t, dir, append([]string{"matgen", "generate", "--num-prefill-nodes", "1", "--num-decode-nodes", "1", "--num-user-requests", "2",
					"--isl-mean", "2500", "--isl-scale", "100", "--scale", "0.01", "--time-scale", "0.01", "--results-dir", "w"}, args...)...)
				_, doc := play(t, dir, "w/metadata.yaml", engine, "--verify-buffers", "--iters", "2", "--isolation-iters", "2", "--warmup-iters", "1")
				states := 0
				for _, p := range doc.Patterns {
					if p.Metadata["kind"] == "states" {
						states++
					}
				}
				if want := map[string]int{"layerwise": 2}[name]; states != want || len(doc.Patterns) < 2 {
					t.Errorf("%d of %d patterns are states, want %d", states, len(doc.Patterns), want)
				}
			})
		}
	})
}

// Patterns of different initiators do not wait for each other: two pauses at the
// same time take as long as one, also where one initiator receives from the other
// or both send to one receiver. With meet: all, patterns that share a rank wait.
func TestOverlap(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		contents := map[string]string{
			"01.txt": "0 1M 0 0\n0 0 0 0\n0 0 0 0\n0 0 0 0\n",
			"23.txt": "0 0 0 0\n0 0 0 0\n0 0 0 1M\n0 0 0 0\n",
			"12.txt": "0 0 0 0\n0 0 1M 0\n0 0 0 0\n0 0 0 0\n",
			"21.txt": "0 0 0 0\n0 0 0 0\n0 1M 0 0\n0 0 0 0\n",
			"03.txt": "0 0 0 1M\n0 0 0 0\n0 0 0 0\n0 0 0 0\n",
		}
		for _, c := range []struct {
			name, second, meet string
			together           bool
		}{
			{"disjoint", "23.txt", "all", true}, {"shared", "12.txt", "all", false},
			{"chained", "12.txt", "initiators", true}, {"incast", "21.txt", "initiators", true}, {"sender", "03.txt", "initiators", false},
		} {
			// Who meets may stand in the config or in an argument; either way the result says it.
			meet, args := "", []string{"--verify-buffers", "--meet", c.meet}
			if c.name == "shared" || c.name == "incast" {
				meet, args = "meet: "+c.meet+"\n", args[:1]
			}
			contents[c.name+".yaml"] = meet + "iters: 3\nisolation_iters: 1\nwarmup_iters: 1\ntraffic_patterns:\n" +
				"- {matrix_file: 01.txt, sleep_before_launch_sec: 0.1}\n- {matrix_file: " + c.second + ", sleep_before_launch_sec: 0.1}\n"
			dir := harness.Files(t, contents)
			_, doc := play(t, dir, c.name+".yaml", engine, args...)
			if got := doc.Patterns[1].Meet; got != c.meet {
				t.Errorf("%s ranks: the result says that %q meet, want %s", c.name, got, c.meet)
			}
			starts := simulatedStarts(t, dir, c.name+".yaml", c.meet)
			if together := starts[1]-starts[0] < 0.05; together != c.together {
				t.Errorf("%s ranks: simulated starts %v; together: %v, want %v", c.name, starts, together, c.together)
			}
			var gaps []float64 // between the starts; a busy machine may be late once
			for i := range 3 {
				first, second := measured(t, doc, 0, "workload", i), measured(t, doc, 1, "workload", i)
				gaps = append(gaps, math.Abs(float64(second.StartNS-first.StartNS))/1e9)
				// Where one rank starts both, no run is faster than its pauses.
				if apart := float64(second.StartNS-first.StartNS) / 1e9; c.name == "sender" && apart < starts[1]-starts[0]-1e-3 {
					t.Errorf("the second pattern starts %.4f s after the first, sooner than simulated: %v", apart, starts)
				}
			}
			slices.Sort(gaps)
			if together := gaps[1] < 0.05; together != c.together {
				t.Errorf("%s ranks: the patterns start %.3f s apart; together: %v, want %v", c.name, gaps[1], together, c.together)
			}
		}
	})
}

// simulatedStarts are the seconds after which patterns start if transfers take no time.
func simulatedStarts(t *testing.T, dir, config, meet string) (list []float64) {
	t.Helper()
	r := harness.MustRun(t, dir, "simulate", "--config", config, "--meet", meet, "--format", "json")
	var doc struct {
		Runs []struct {
			Workload struct {
				Starts []struct {
					StartS float64 `json:"start_s"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(r.Stdout), &doc); err != nil || len(doc.Runs) != 1 {
		t.Fatalf("%v: %s%s", err, r.Stdout, r.Stderr)
	}
	for _, s := range doc.Runs[0].Workload.Starts {
		list = append(list, s.StartS)
	}
	return list
}

// With READ the receivers move the bytes: a gather has one initiator, and a
// rank that only sends is idle.
func TestReadInitiators(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{
			"c.yaml": "iters: 1\nisolation_iters: 1\ntraffic_patterns:\n- {matrix_file: in.txt, xfer_op: READ}\n- {matrix_file: in.txt, xfer_op: WRITE}\n",
			"in.txt": "0 0 0\n1M 0 0\n2M 0 0\n",
		})
		_, doc := play(t, dir, "c.yaml", engine, "--verify-buffers")
		for pattern, want := range map[int][]int{0: {0}, 1: {1, 2}} {
			var got []int
			for _, r := range measured(t, doc, pattern, "workload", 0).Ranks {
				got = append(got, r.Rank)
			}
			if !slices.Equal(got, want) {
				t.Errorf("pattern %d (%s): initiators %v, want %v", pattern, doc.Patterns[pattern].Op, got, want)
			}
			if s := doc.Patterns[pattern].Senders; s != 2 {
				t.Errorf("pattern %d: %d senders, want 2", pattern, s)
			}
		}
	})
}
