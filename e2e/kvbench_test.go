package e2e

import (
	"flag"
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
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
	"perigee/internal/traffic/series"
	"perigee/nixl"
	"perigee/nixl/nixltest"
)

// blockColumns are the columns of kvbench's table, as they are documented.
var blockColumns = []string{
	"Block Size (B)", "Batch Size", "B/W (GB/Sec)", "Avg Lat. (us)", "Avg Prep (us)", "P99 Prep (us)", "Avg Post (us)", "P99 Post (us)",
	"Avg Tx (us)", "P99 Tx (us)", "P50 Batch (us)", "P99 Batch (us)", "P99.9 Batch (us)", "CPU (s/GB)",
}

// What kvbench is asked for: four sizes, of which none is a power of two.
const (
	iterations = 20
	sizes      = 4
)

// kvbench runs it for four small sizes, checks every byte, and compares the table with the result.
func kvbench(t *testing.T, dir, engine string, args ...string) *result.Document {
	t.Helper()
	o := harness.MustRun(t, dir, append([]string{
		"run", "kvbench", "--engine", engine, "--result", "r.json", "--check_consistency",
		"--start_block_size", "1000", "--max_block_size", "3K", "--start_batch_size", "1", "--max_batch_size", "3",
		"--num_iter", strconv.Itoa(iterations), "--warmup_iter", "2",
	}, args...)...)
	harness.Contains(t, "stdout", o.Stdout, "# note: checked: every byte of every size arrived as it was sent")
	doc := resulttest.Check(t, filepath.Join(dir, "r.json"))
	columns := blockColumns
	if pairs(doc.Lanes[0]) > 1 {
		columns = append(slices.Clone(columns), "Sum B/W (GB/Sec)")
	}
	rows := readTable(t, o.Stdout, columns...)
	if len(rows) != sizes || len(doc.Lanes) != sizes {
		t.Fatalf("%d rows and %d measurements, want %d", len(rows), len(doc.Lanes), sizes)
	}
	for i, m := range doc.Lanes {
		if block, batch := int64(1000<<(i/2)), int64(1<<(i%2)); m.BlockBytes != block || m.Batch != batch {
			t.Errorf("measurement %d is of %d x %d, want %d x %d", i, m.BlockBytes, m.Batch, block, batch)
		}
		checkBlocks(t, rows[i], m)
	}
	return doc
}

// pairs is how many pairs of ranks, or ranks with files, took part.
func pairs(m result.Lanes) int64 {
	return m.Bytes / (m.BlockBytes * m.Batch * int64(m.Iterations) * int64(m.Threads))
}

// checkBlocks checks what must hold of a measurement, whatever was measured, and that its row in the table says the same.
func checkBlocks(t *testing.T, row []string, m result.Lanes) {
	t.Helper()
	var bytes int64
	var cpu float64
	initiators := int64(0)
	for _, r := range m.Ranks {
		bytes, cpu = bytes+r.Bytes, cpu+r.CPUSeconds
		if r.Bytes > 0 {
			initiators++
		}
		if r.Bytes > 0 && (r.StartNS < m.StartNS || r.EndNS > m.EndNS || r.EndNS <= r.StartNS) {
			t.Errorf("rank %d worked from %d to %d, all from %d to %d", r.Rank, r.StartNS, r.EndNS, m.StartNS, m.EndNS)
		}
	}
	if bytes != m.Bytes {
		t.Errorf("the ranks moved %d bytes, all together %d", bytes, m.Bytes)
	}
	near(t, "CPU", m.CPUSeconds, cpu)
	near(t, "bandwidth", m.Bandwidth, float64(m.Bytes)/(float64(m.EndNS-m.StartNS)*1e-9))
	runs := initiators * int64(m.Threads*m.Iterations)
	preps := initiators * int64(m.Threads)
	if m.Recreate {
		preps = runs
	}
	if m.Latency.Count != runs || m.Post.Count != runs || m.Tx.Count != runs || m.Prep.Count != preps {
		t.Errorf("%d latencies, %d posts, %d transfers, %d preparations; want %d, and %d preparations", m.Latency.Count, m.Post.Count, m.Tx.Count, m.Prep.Count, runs, preps)
	}
	// A mean of whole nanoseconds; the parts of an iteration are the whole.
	if d := m.Latency.Mean - m.Post.Mean - m.Tx.Mean; math.Abs(d) > 1e-6*m.Latency.Mean {
		t.Errorf("latency %v, post %v, transfer %v", m.Latency.Mean, m.Post.Mean, m.Tx.Mean)
	}
	for name, s := range map[string]series.Stats{"latency": m.Latency, "prep": m.Prep, "post": m.Post, "tx": m.Tx} {
		if s.Min > s.P50 || s.P50 > s.P99 || s.P99 > s.P999 || s.P999 > s.Max || s.Mean < float64(s.Min) || s.Mean > float64(s.Max) {
			t.Errorf("%s is out of order: %+v", name, s)
		}
	}
	if row[0] != fmt.Sprint(m.BlockBytes) || row[1] != fmt.Sprint(m.Batch) {
		t.Errorf("the row of %d x %d is of %s x %s", m.BlockBytes, m.Batch, row[0], row[1])
	}
	us := func(ns float64) float64 { return ns / 1e3 }
	for i, v := range []float64{
		m.Bandwidth / float64(pairs(m)) / 1e9, us(m.Latency.Mean) / float64(m.Batch), us(m.Prep.Mean), us(float64(m.Prep.P99)), us(m.Post.Mean), us(float64(m.Post.P99)),
		us(m.Tx.Mean), us(float64(m.Tx.P99)), us(float64(m.Latency.P50)), us(float64(m.Latency.P99)), us(float64(m.Latency.P999)), m.CPUSeconds / (float64(m.Bytes) / 1e9),
	} {
		decimals := map[int]int{0: 6, 11: 4}[i]
		if decimals == 0 {
			decimals = 2
		}
		wantCell(t, row[2+i], v, decimals)
	}
	if pairs(m) > 1 {
		wantCell(t, row[len(blockColumns)], m.Bandwidth/1e9, 6)
	}
}

// ways is how many pairs of ranks a scheme has.
func ways(scheme string, n int) int {
	switch scheme {
	case "manytoone", "onetomany":
		return n - 1
	}
	return n / 2
}

// Every scheme moves every byte, in both directions, from one thread or several.
func TestKVBenchSchemes(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for _, n := range []int{2, 4, 8} {
			for _, scheme := range []string{"pairwise", "manytoone", "onetomany", "tp"} {
				for _, op := range []string{"WRITE", "READ"} {
					threads := 1
					if n == 2 {
						threads = 2
					}
					args := []string{"-n", fmt.Sprint(n), "--scheme", scheme, "--op_type", op, "--num_threads", fmt.Sprint(threads)}
					if n == 4 {
						args = append(args, "--recreate_xfer")
					}
					t.Run(fmt.Sprint(n, scheme, op), func(t *testing.T) {
						doc := kvbench(t, t.TempDir(), engine, args...)
						for _, m := range doc.Lanes {
							if m.Recreate != (n == 4) {
								t.Errorf("recreate is %v", m.Recreate)
							}
							// Iterations are divided among the threads.
							if want := m.BlockBytes * m.Batch * int64(iterations*ways(scheme, n)); m.Bytes != want || m.Op != op || m.Threads != threads {
								t.Errorf("%d bytes, %s, %d threads; want %d, %s, %d", m.Bytes, m.Op, m.Threads, want, op, threads)
							}
						}
					})
				}
			}
		}
	})
}

// Two tensor-parallel groups of different size: everybody of the larger has one peer.
func TestKVBenchTensorParallel(t *testing.T) {
	for _, c := range []struct{ initiators, targets, perRank int64 }{{1, 3, 3}, {4, 2, 1}} {
		doc := kvbench(t, t.TempDir(), "shm", "--scheme", "tp", "--num_initiator_dev", fmt.Sprint(c.initiators), "--num_target_dev", fmt.Sprint(c.targets))
		m := doc.Lanes[0]
		for r, part := range m.Ranks {
			want := m.BlockBytes * m.Batch * iterations * c.perRank
			if int64(r) >= c.initiators {
				want = 0
			}
			if part.Bytes != want {
				t.Errorf("%d and %d: rank %d moved %d bytes, want %d", c.initiators, c.targets, r, part.Bytes, want)
			}
		}
	}
}

// Files that are made, and one that is there, by each interface of the kernel.
func TestKVBenchFiles(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{"folder/x": "", "there": strings.Repeat("perigee!", 8192)})
		for _, api := range nixltest.FileAPIs(t) {
			for _, op := range []string{"WRITE", "READ"} {
				for _, where := range [][]string{
					{"--filepath", "folder", "--num_files", "2", "-n", "2", "--num_threads", "2"},
					{"--filepath", "new", "--recreate_xfer"},
					{"--filepath", "there", "--overwrite", "--num_threads", "2"},
				} {
					doc := kvbench(t, dir, engine, append(where, "--backend", "POSIX", "--posix_api_type", api, "--op_type", op)...)
					if m := doc.Lanes[0]; m.Remote != "file" || m.Op != op {
						t.Errorf("%s %s", m.Op, m.Remote)
					}
				}
			}
		}
		// The other way round: what the initiator has are files.
		if m := kvbench(t, dir, engine, "--initiator_seg_type", "FILE", "--filepath", "there", "--op_type", "WRITE").Lanes[0]; m.Op != "READ" {
			t.Errorf("WRITE from a file is %s", m.Op)
		}
		if got := fmt.Sprint(harness.Names(dir), harness.Names(filepath.Join(dir, "folder"))); got != "[folder r.json there] [x]" {
			t.Errorf("left behind: %s", got)
		}
	})
}

// The same bytes in one block and in 100,000, which are more than NIXL's plugin for files takes at a time.
func TestKVBenchManyBlocks(t *testing.T) {
	const bytes, most, iterations = 800_000, 100_000, 2
	ways := [][]string{{}, {"--op_type", "READ"}, {"--backend", "POSIX", "--filepath", "."}}
	if slices.Contains(nixltest.FileAPIs(t), nixl.URING) {
		ways = append(ways, []string{"--backend", "POSIX", "--filepath", ".", "--num_files", "3", "--op_type", "READ", "--posix_api_type", "URING"})
	}
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for _, where := range ways {
			for batch := int64(1); batch <= most; batch *= 100_000 {
				dir := t.TempDir()
				block := fmt.Sprint(bytes / batch)
				o := harness.MustRun(t, dir, append([]string{
					"run", "kvbench", "--engine", engine, "--result", "r.json", "--check_consistency", "--num_iter", fmt.Sprint(iterations), "--warmup_iter", "0",
					"--start_block_size", block, "--max_block_size", block, "--start_batch_size", fmt.Sprint(batch), "--max_batch_size", fmt.Sprint(batch),
				}, where...)...)
				doc := resulttest.Check(t, filepath.Join(dir, "r.json"))
				m := doc.Lanes[0]
				if m.Batch != batch || m.Bytes != bytes*iterations || m.Latency.Count != iterations {
					t.Errorf("%q: %d bytes in %d batches of %d", where, m.Bytes, m.Latency.Count, m.Batch)
				}
				checkBlocks(t, readTable(t, o.Stdout, blockColumns...)[0], m)
			}
		}
	})
}

// verifyForEver checks the same batch again and again.
const verifyForEver = `return { ranks = 2, run = function()
  local lanes = transfer.lanes { peers = { [0] = { 1 } }, block = "16K", batch = 8 }
  print("ready")
  while true do lanes:verify { block = "16K", batch = 8 } end
end }`

// A writer keeps changing a single byte of the target's memory while it is checked.
func TestKVBenchOneWrongByte(t *testing.T) {
	dir := harness.Files(t, map[string]string{"verify.lua": verifyForEver})
	p := harness.Start(t, harness.Command{Dir: dir, Args: []string{"run", "verify.lua", "--engine", "shm"}})
	p.UntilPrints("ready")
	o := spoil(t, p)
	wanted := regexp.MustCompile(`verification failed: 8 blocks of 16384 bytes: message from rank 0 to rank 1, block 2: byte 3136 is 0x[0-9a-f]{2}, want 0x[0-9a-f]{2} \(wrong bytes in this message: 1\)`)
	if o.Code != int(fault.Corrupt) || !wanted.MatchString(o.Stderr) || len(complaintsIn(o.Stderr)) != 1 {
		t.Errorf("exit code %d, want %d\n%s", o.Code, fault.Corrupt, o.Stderr)
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// The output has the form that people and their scripts know. Figures, which differ from run to run, are
// replaced by 9s, with as many decimals.
func TestKVBenchOutput(t *testing.T) {
	o := harness.MustRun(t, t.TempDir(), "run", "kvbench", "-n", "2", "--engine", "shm", "--max_block_size", "8K", "--num_iter", "10")
	harness.Contains(t, "stdout", o.Stdout, "# engine: shm ")
	digits := regexp.MustCompile(`\d+`)
	var lines []string
	for line := range strings.Lines(o.Stdout) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "-") && !strings.Contains(line, "Block Size") {
			line = strings.Join(strings.Fields(line), " ")
			sizes, rest, _ := strings.Cut(line, " 1 ") // the batch size
			line = sizes + " 1 " + regexp.MustCompile(`\d+\.`).ReplaceAllString(rest, "9.")
			line = regexp.MustCompile(`\.\d+`).ReplaceAllStringFunc(line, func(s string) string { return digits.ReplaceAllString(s, strings.Repeat("9", len(s)-1)) }) + "\n"
		}
		if !strings.HasPrefix(line, "# perigee") && !strings.HasPrefix(line, "# engine") {
			lines = append(lines, line)
		}
	}
	got, golden := strings.Join(lines, ""), filepath.Join("testdata", "kvbench.golden")
	if *update {
		must.Do(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want := must.Read(t, golden)
	must.Equal(t, string(want), got)
}

// On a terminal of 100 columns the table comes in parts that fit, with all its columns and the sizes in each.
func TestKVBenchOnTerminal(t *testing.T) {
	written := onTerminal(t, t.TempDir(), []string{"TERM=xterm"}, "run", "kvbench", "-n", "2", "--engine", "shm", "--max_block_size", "8K", "--num_iter", "10")
	headings := 0
	var seen []string
	for _, line := range harness.Screen(written) {
		if len(line) > 100 && !strings.HasPrefix(line, "#") {
			t.Errorf("a line of %d characters: %s", len(line), line)
		}
		if names := fields(line); len(names) > 2 && names[0] == blockColumns[0] && names[1] == blockColumns[1] {
			headings++
			seen = append(seen, names[2:]...)
		}
	}
	// The first columns while it is measured, all of them in the end.
	first := len(seen) - len(blockColumns[2:])
	if d := cmp.Diff(append(slices.Clone(blockColumns[2:2+max(first, 0)]), blockColumns[2:]...), seen); d != "" || headings < 3 || first < 1 {
		t.Errorf("columns of %d parts (-want +got):\n%s", headings, d)
	}
}

// storage_ops beside the traffic of a configuration: measured apart, and told in table and result.
func TestStorageOps(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{"m.txt": "0 64K\n0 0\n", "there": strings.Repeat("x", 4096), "c.yaml": `iters: 2
traffic_patterns:
- {matrix_file: m.txt, mem_type: dram, storage_ops: {0: {file_path: made, file_size: 1M, write_size: 1M}, 1: {file_path: there, file_size: 4K, read_size: 4K}}}
- {matrix_file: m.txt, mem_type: dram}
`})
		o := harness.MustRun(t, dir, "sequential-ct-perftest", "c.yaml", "--engine", engine, "--verify-buffers", "--result", "r.json")
		if n := strings.Count(o.Stdout, "# note: storage_ops: files are reached through the page cache"); n != 1 {
			t.Errorf("%d notes about the page cache:\n%s", n, o.Stdout)
		}
		rows := readTable(t, o.Stdout, "Pattern", "Rank", "Op", "Size (GB)", "Mean latency (ms)", "BW (GB/s)")
		if len(rows) != 2 || fmt.Sprint(rows[0][:4], rows[1][:4]) != "[0 0 WRITE 0.001] [0 1 READ 0.000]" {
			t.Errorf("rows %q", rows)
		}
		doc, err := result.Read(filepath.Join(dir, "r.json"))
		must.Do(t, err)
		count := map[string]int{}
		for _, s := range doc.Storage {
			count[fmt.Sprint(s.Phase, s.Pattern, s.Rank, s.Op, s.Bytes)]++
		}
		want := map[string]int{"isolated0 0WRITE1048576": 30, "isolated0 1READ4096": 30, "workload0 0WRITE1048576": 2, "workload0 1READ4096": 2}
		if d := cmp.Diff(want, count); d != "" {
			t.Errorf("runs (-want +got):\n%s", d)
		}
		if got := fmt.Sprint(harness.Names(dir)); got != "[c.yaml m.txt r.json there]" {
			t.Errorf("left behind: %s", got)
		}
		o = harness.Run(t, dir, "sequential-ct-perftest", "bad.yaml", "--engine", engine)
		if o.Code != int(fault.Input) {
			t.Errorf("a missing file: exit code %d", o.Code)
		}
	})
}
