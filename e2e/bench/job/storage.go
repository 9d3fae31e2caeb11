package job

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"perigee/e2e/bench/transfer"
)

// fileTurns is how often both alternate.
const fileTurns = 5

// fileSize is the size of the file that both use, in bytes.
const fileSize = 256 << 20

// fileTarget is the least part of fio's bandwidth that is good enough.
const fileTarget = 0.9

// depth is how many requests the engines keep in the kernel.
const depth = 256

// load describes the requests that both make of the file.
type load struct {
	name         string
	block, batch int
	depth        int // of fio
	iterations   int // of kvbench
}

var loads = []load{
	{"64 KiB x 4096", 64 << 10, fileSize >> 16, depth, 4},
	{"4 KiB x 1", 4 << 10, 1, 1, 2000},
}

// Files prints the bandwidths of reading and writing a file with both engines and both interfaces of the kernel, beside
// those of fio on the same file, in turns, past the page cache and with as many requests under way. A ratio is the
// median, over the turns, of ours over fio's.
//
// With many requests under way the bandwidth is that of all bytes over the whole time. With one it is that of the
// median request, so that a disturbance of the machine, which both meet at other moments, does not count.
func (c *Command) Files(w io.Writer) error {
	folder, err := os.MkdirTemp("", "perigee-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "file")
	if err := prepare(path); err != nil {
		return err
	}
	fmt.Fprintf(w, "# kvbench on a file of %d MiB against fio on the same file, O_DIRECT, %d requests under way or 1; medians of %d turns\n", fileSize>>20, depth, fileTurns)
	fmt.Fprintf(w, "# ratio: ours / fio, above 1 is faster; x 1: bandwidth of the median request\n")
	fmt.Fprintf(w, "%-36s %10s %10s %7s %13s %7s\n", "# case", "ours GB/s", "fio GB/s", "ratio", "quartiles", "target")
	for _, l := range loads {
		for _, op := range []string{"read", "write"} {
			for _, api := range []string{"AIO", "URING"} {
				for _, engine := range []string{"nixl", "shm"} {
					if err := compare(w, c, path, l, engine, api, op); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// prepare writes the whole file, so that nothing is read that was never written.
func prepare(path string) error {
	out, err := exec.Command("fio", "--name=prepare", "--filename="+path, "--rw=write", "--bs=1M",
		"--size="+strconv.Itoa(fileSize), "--refill_buffers", "--end_fsync=1").CombinedOutput()
	if err != nil {
		return fmt.Errorf("fio: %w: %s", err, out)
	}
	return nil
}

// compare measures one load in turns with fio and prints a line.
func compare(w io.Writer, c *Command, path string, l load, engine, api, op string) error {
	var ours, theirs, ratios []float64
	for range fileTurns {
		m, err := c.KVBench(append(Size(l.block, l.batch, l.iterations), "--engine", engine, "--backend", "POSIX",
			"--filepath", path,
			"--overwrite", "--storage_enable_direct", "--posix_api_type", api, "--op_type", strings.ToUpper(op))...)
		if err != nil {
			return err
		}
		mine := m.Bandwidth
		if l.depth == 1 {
			mine = float64(m.Bytes) / float64(m.Iterations) / float64(m.Latency.P50) * 1e9
		}
		bandwidth, err := fio(path, l, api, op)
		if err != nil {
			return err
		}
		ours, theirs, ratios = append(ours, mine), append(theirs, bandwidth), append(ratios, mine/bandwidth)
	}
	verdict := "ok"
	low, ratio, high := transfer.Quartiles(ratios)
	if ratio < fileTarget {
		verdict = "MISSED"
	}
	name := fmt.Sprintf("%s %s %s %s", engine, api, op, l.name)
	_, err := fmt.Fprintf(w, "%-36s %10.3f %10.3f %7.3f %6.3f-%6.3f %7.2f  %s\n",
		name, transfer.Median(ours)/1e9, transfer.Median(theirs)/1e9, ratio, low, high, fileTarget, verdict)
	return err
}

// engines are fio's names of the kernel's interfaces.
var engines = map[string]string{"AIO": "libaio", "URING": "io_uring"}

// fio returns the bandwidth in bytes per second.
func fio(path string, l load, api, op string) (float64, error) {
	cmd := exec.Command("fio", "--name=bench", "--filename="+path, "--rw="+op, "--bs="+strconv.Itoa(l.block),
		"--size="+strconv.Itoa(l.block*l.batch),
		"--ioengine="+engines[api], "--iodepth="+strconv.Itoa(l.depth), "--direct=1", "--time_based", "--runtime=300ms",
		"--lat_percentiles=1", "--clat_percentiles=0", "--output-format=json")
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("fio: %w", err)
	}
	return bandwidth(out, l, op)
}

// bandwidth reads fio's report.
func bandwidth(report []byte, l load, op string) (float64, error) {
	var r struct {
		Jobs []map[string]json.RawMessage `json:"jobs"`
	}
	if err := json.Unmarshal(report, &r); err != nil || len(r.Jobs) != 1 {
		return 0, fmt.Errorf("fio's report has %d jobs, want 1: %w", len(r.Jobs), err)
	}
	var half struct {
		BandwidthBytes float64 `json:"bw_bytes"`
		Latency        struct {
			Percentile map[string]float64 `json:"percentile"`
		} `json:"lat_ns"`
	}
	if err := json.Unmarshal(r.Jobs[0][op], &half); err != nil || half.BandwidthBytes <= 0 {
		return 0, fmt.Errorf("fio's report has no bandwidth of %s: %s", op, r.Jobs[0][op])
	}
	if l.depth > 1 {
		return half.BandwidthBytes, nil
	}
	median := half.Latency.Percentile["50.000000"]
	if median <= 0 {
		return 0, fmt.Errorf("fio's report has no median latency of %s: %s", op, r.Jobs[0][op])
	}
	return float64(l.block) / median * 1e9, nil
}
