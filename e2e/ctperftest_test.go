package e2e

import (
	"encoding/json"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// The columns of ct-perftest's two tables.
var (
	totalColumns  = []string{"Iters", "Total time (s)", "Avg latency/iter (s)", "Total size (GB)", "Algorithm BW (GB/s)"}
	byRankColumns = []string{"Rank", "Size (GB)", "Mean latency (ms)", "BW (GB/s)"}
)

// The patterns of ct-perftest that the original cannot run: prefill ranks that
// receive nothing, decode ranks that send nothing, one pair, no sender at all.
var singlePatterns = []struct {
	name, matrix string
	writers      map[int]int64 // initiators of WRITE and their bytes
	readers      map[int]int64
}{
	{"prefill to decode", "0 0 1M 2M\n0 0 3K 0\n0 0 0 0\n0 0 0 0\n", map[int]int64{0: 3 << 20, 1: 3 << 10}, map[int]int64{2: 1<<20 + 3<<10, 3: 2 << 20}},
	{"sparse", "sparse 4 3\n0 2 1M\n0 3 2M\n1 2 3K\n", map[int]int64{0: 3 << 20, 1: 3 << 10}, map[int]int64{2: 1<<20 + 3<<10, 3: 2 << 20}},
	{"document", "0 0 1M 1M\n0 0 1M 1M\n0 0 0 5K\n0 0 0 5K\n", map[int]int64{0: 2 << 20, 1: 2 << 20, 2: 5 << 10, 3: 5 << 10}, map[int]int64{2: 2 << 20, 3: 2<<20 + 10<<10}},
	{"one pair", "0 0\n777 0\n", map[int]int64{1: 777}, map[int]int64{0: 777}},
	{"to itself", "1K\n", map[int]int64{0: 1 << 10}, map[int]int64{0: 1 << 10}},
	{"no sender", "0 0\n0 0\n", nil, nil},
}

func TestCTPerftest(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for _, c := range singlePatterns {
			for op, byRank := range map[string]map[int]int64{"WRITE": c.writers, "READ": c.readers} {
				t.Run(c.name+" "+op, func(t *testing.T) {
					dir := harness.Files(t, map[string]string{
						"c.yaml": "iters: 4\nwarmup_iters: 2\ntraffic_pattern:\n  matrix_file: m.txt\n  shards: 3\n  mem_type: dram\n  xfer_op: " + op + "\n",
						"m.txt":  c.matrix,
					})
					o := harness.MustRun(t, dir, "ct-perftest", "c.yaml", "--engine", engine, "--verify-buffers",
						"--json-output-path", "o.json", "--result", "r.json.gz")
					doc, err := result.Read(filepath.Join(dir, "r.json.gz"))
					must.Do(t, err)
					checkTotals(t, o.Stdout, doc, 4)
					checkByRank(t, o.Stdout, byRank, 4)
					checkSingleJSON(t, filepath.Join(dir, "o.json"), byRank, 4)
					harness.Contains(t, "stdout", o.Stdout, "# note: verified: every byte of the last measured run")
				})
			}
		}
	})
}

// What the table calls the total time is what thresholds judge: filling and checking buffers is no part of either.
func TestTotalTimeOfVerifiedRuns(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{
			"c.yaml": "iters: 4\nwarmup_iters: 2\ntraffic_pattern: {matrix_file: m.txt, mem_type: dram}\n", "m.txt": "0 16M\n0 0\n",
		})
		for _, verify := range []string{"", "--verify-buffers", "--verify-buffers=every"} {
			args := []string{"ct-perftest", "c.yaml", "--engine", engine, "--result", "r.json", "--threshold", "total_time_s.max < 1000", "--threshold", "algorithm_bw_gb_per_s.min > 0"}
			if verify != "" {
				args = append(args, verify)
			}
			o := harness.MustRun(t, dir, args...)
			doc, err := result.Read(filepath.Join(dir, "r.json"))
			must.Do(t, err)
			row := readTable(t, o.Stdout, totalColumns...)[0]
			wantCell(t, row[1], *doc.Thresholds[0].Value, 6)
			wantCell(t, row[4], *doc.Thresholds[1].Value, 3)
			var filled int
			var sum float64
			for _, m := range doc.Measurements {
				sum += float64(m.LatencyNS) / 1e9
				if m.Filled {
					filled++
				}
			}
			if want := map[string]int{"--verify-buffers": 1, "--verify-buffers=every": 4}[verify]; filled != want {
				t.Errorf("%q: buffers were filled before %d runs, want %d", verify, filled, want)
			}
			if verify == "--verify-buffers=every" {
				wantCell(t, row[1], sum, 6)
			}
		}
	})
}

// checkTotals compares the first table with what was measured: from the first
// start to the last end, of messages and files. Time in which buffers were filled or runs saved does not count: a run
// after it is marked, and begins a part of the total.
func checkTotals(t *testing.T, stdout string, doc *result.Document, iters int) {
	t.Helper()
	row := readTable(t, stdout, totalColumns...)[0]
	if row[0] != strconv.Itoa(iters) {
		t.Errorf("%s iterations, want %d", row[0], iters)
	}
	bytes := doc.Matrices[0].Bytes * int64(iters)
	wantCell(t, row[3], float64(bytes)/1e9, 3)
	if bytes == 0 {
		if row[1] != "-" || row[2] != "-" || row[4] != "-" {
			t.Errorf("row of an empty pattern: %q", row)
		}
		return
	}
	type span struct{ first, last int64 }
	marked := map[int]bool{}
	for _, m := range doc.Measurements {
		marked[m.Iteration] = marked[m.Iteration] || m.Filled
	}
	parts := map[int]span{} // by the number of marked runs up to them
	add := func(iteration int, start, end int64) {
		part := 0
		for i := range marked {
			if marked[i] && i <= iteration {
				part++
			}
		}
		s, ok := parts[part]
		if !ok {
			s = span{start, end}
		}
		parts[part] = span{min(s.first, start), max(s.last, end)}
	}
	runs := 0
	for _, m := range doc.Measurements {
		if m.Phase == "workload" {
			add(m.Iteration, m.StartNS, m.EndNS)
			runs++
		}
	}
	if runs != iters {
		t.Errorf("%d runs measured, want %d", runs, iters)
	}
	for _, s := range doc.Storage {
		add(s.Iteration, s.StartNS, s.EndNS)
	}
	var total float64
	for _, s := range parts {
		total += float64(s.last-s.first) / 1e9
	}
	wantCell(t, row[1], total, 6)
	wantCell(t, row[2], total/float64(iters), 9)
	if bw, err := strconv.ParseFloat(row[4], 64); err != nil || math.Abs(bw-float64(bytes)/total/1e9) > 1e-3+1e-6*bw {
		t.Errorf("bandwidth %s GB/s, want %v", row[4], float64(bytes)/total/1e9)
	}
}

// checkByRank proves that the second table has a row for each initiator, and
// that size, latency and bandwidth agree.
func checkByRank(t *testing.T, stdout string, want map[int]int64, iters int) {
	t.Helper()
	got := map[int]int64{}
	for _, row := range readTable(t, stdout, byRankColumns...) {
		rank, err := strconv.Atoi(row[0])
		must.Do(t, err)
		got[rank] = want[rank]
		wantCell(t, row[1], float64(want[rank])*float64(iters)/1e9, 3)
		ms, _ := strconv.ParseFloat(row[2], 64)
		bw, _ := strconv.ParseFloat(row[3], 64)
		if wantBW := float64(want[rank]) / ms / 1e6; math.Abs(bw-wantBW) > 0.001+0.02*wantBW && ms > 1e-4 {
			t.Errorf("rank %d: %s GB/s, but %d bytes in %s ms", rank, row[3], want[rank], row[2])
		}
	}
	if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 {
		t.Errorf("bytes by rank (-want +got):\n%s", d)
	}
}

func checkSingleJSON(t *testing.T, path string, want map[int]int64, iters int) {
	t.Helper()
	data := must.Read(t, path)
	var loose map[string]any
	must.Do(t, json.Unmarshal(data, &loose))
	wantKeys(t, loose, "avg_latency_s", "bandwidth_by_rank", "iters", "total_size_gb", "total_time_s")
	if loose["iters"] != float64(iters) {
		t.Errorf("iters is %v", loose["iters"])
	}
	got := map[int]int64{}
	for _, e := range loose["bandwidth_by_rank"].([]any) {
		r := e.(map[string]any)
		wantKeys(t, r, "bw_gb_per_s", "mean_latency_ms", "rank", "size_gb")
		got[int(r["rank"].(float64))] = int64(math.Round(r["size_gb"].(float64) * 1e9 / float64(iters)))
	}
	if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 {
		t.Errorf("bytes by rank (-want +got):\n%s", d)
	}
	if (loose["total_time_s"] == nil) != (len(want) == 0) {
		t.Errorf("total_time_s is %v", loose["total_time_s"])
	}
}

// With files beside the messages both are played as often, side by side in every iteration, also where the runs go to
// the engine in several pieces.
func TestCTPerftestWithFiles(t *testing.T) {
	const iters = 101
	dir := harness.Files(t, map[string]string{
		"m.txt":  "0 1K\n0 0\n",
		"c.yaml": "iters: 101\ntraffic_pattern: {matrix_file: m.txt, mem_type: dram, storage_ops: {0: {file_path: made, file_size: 256K, read_size: 256K}}}\n",
	})
	o := harness.MustRun(t, dir, "ct-perftest", "c.yaml", "--engine", "shm", "--result", "r.json", "--threshold", "total_time_s.max < 1000")
	doc, err := result.Read(filepath.Join(dir, "r.json"))
	must.Do(t, err)
	checkTotals(t, o.Stdout, doc, iters)
	wantCell(t, readTable(t, o.Stdout, totalColumns...)[0][1], *doc.Thresholds[0].Value, 6)
	if len(doc.Storage) != iters {
		t.Fatalf("%d runs of the files, want %d", len(doc.Storage), iters)
	}
	var ends []int64
	for _, m := range doc.Measurements {
		if k := len(ends); k > 0 && (m.StartNS < doc.Storage[k-1].EndNS || doc.Storage[k].StartNS < ends[k-1]) {
			t.Errorf("run %d began before run %d was over", k, k-1)
		}
		ends = append(ends, m.EndNS)
	}
}

// Flags come before the config here, too.
func TestCTPerftestIterations(t *testing.T) {
	dir := harness.Files(t, map[string]string{
		"c.yaml": "traffic_pattern: {matrix_file: m.txt}\n",
		"n.yaml": "n_iters: 4\ntraffic_pattern: {matrix_file: m.txt}\n",
		"d.toml": "iters = 150\n[traffic_pattern]\nmatrix_file = \"m.txt\"\n",
		"m.txt":  "0 1K\n0 0\n",
	})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"c.yaml"}, "1"},
		{[]string{"n.yaml"}, "4"},
		{[]string{"d.toml"}, "150"},
		{[]string{"d.toml", "--iters", "7", "--warmup-iters", "0"}, "7"},
	} {
		o := harness.MustRun(t, dir, append([]string{"ct-perftest", "--engine", "shm"}, c.args...)...)
		if got := readTable(t, o.Stdout, totalColumns...)[0][0]; got != c.want {
			t.Errorf("%q: %s iterations, want %s", c.args, got, c.want)
		}
	}
}

var receivedLine = regexp.MustCompile(`rank 2 received from rank (\d): ([0-9a-f]{32})\.\.\.`)

// The beginning of what was received is the same as what the verification
// expects, and differs from sender to sender.
func TestPrintReceived(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{"c.yaml": pattern(), "m.txt": "0 0 64\n0 0 64\n0 0 0\n"})
		args := []string{"sequential-ct-perftest", "c.yaml", "--engine", engine, "--print-recv-buffers", "--verify-buffers"}
		seen := map[string]bool{}
		for _, seed := range []string{"1", "1", "2"} {
			o := harness.MustRun(t, dir, append(args, "--seed", seed)...)
			found := receivedLine.FindAllStringSubmatch(o.Stdout, -1)
			if len(found) != 2 || found[0][1] == found[1][1] {
				t.Fatalf("received: %q\n%s", found, o.Stdout)
			}
			for _, f := range found {
				seen[f[1]+" "+f[2]] = true
			}
		}
		if len(seen) != 4 {
			t.Errorf("%d different beginnings, want 4 (two senders, two seeds): %v", len(seen), seen)
		}
	})
}
