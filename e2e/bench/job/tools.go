package job

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"perigee/e2e/bench/transfer"
	"perigee/internal/result/resulttest"
)

// use counts the time that a command has taken, and the most memory that it had resident.
type use struct {
	wall, cpu time.Duration
	memory    int64 // bytes
}

// repeats is how often a tool runs.
const repeats = 3

// repeat runs a command and returns the medians of what it took.
func (c *Command) repeat(args ...string) (use, error) {
	var walls, cpus []time.Duration
	var peaks []int64
	for range repeats {
		cmd := exec.Command(c.program, args...)
		var complaints strings.Builder
		cmd.Stderr = &complaints
		start := time.Now()
		if err := cmd.Run(); err != nil {
			return use{}, fmt.Errorf("perigee %s: %w: %s", strings.Join(args, " "), err, &complaints)
		}
		walls = append(walls, time.Since(start))
		cpus = append(cpus, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		peaks = append(peaks, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10)
	}
	return use{transfer.Median(walls), transfer.Median(cpus), transfer.Median(peaks)}, nil
}

// Tools prints what the tools take whose input is large: the import of 5,000 benchmark reports
// (target: 2 s), a plot of 5,000 points (2 s beyond the import), and the page of a result of 512
// ranks and 1,000 patterns (10 s and 1 GiB).
func (c *Command) Tools(w io.Writer) error {
	const reports = 5000
	folder, err := os.MkdirTemp(c.folder, "tools-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	sweep := filepath.Join(folder, "sweep")
	if err := writeReports(sweep, reports); err != nil {
		return err
	}
	big := filepath.Join(folder, "big.json.zst")
	size, err := resulttest.Synthetic{Ranks: 512, Hosts: 64, Patterns: 1000, Senders: 64, Peers: 8, Isolated: 1,
		Iterations: 3}.Write(big)
	if err != nil {
		return err
	}
	imported, err := c.repeat("sweep", "scenarios", sweep)
	if err != nil {
		return err
	}
	plotted, err := c.repeat("sweep", "plot", sweep, "-o", filepath.Join(folder, "plot.png"))
	if err != nil {
		return err
	}
	page, err := c.repeat("report", big, "-o", filepath.Join(folder, "page.html"))
	if err != nil {
		return err
	}
	plotOnly := use{max(plotted.wall-imported.wall, 0), max(plotted.cpu-imported.cpu, 0), plotted.memory}
	fmt.Fprintf(w, "# commands with large input, from start to exit, medians of %d; cpu: of all threads; memory: the most that was resident\n", repeats)
	fmt.Fprintf(w, "%-56s %8s %8s %8s %10s %10s\n", "# command", "time s", "target", "cpu s", "memory MiB", "target")
	for _, row := range []struct {
		name           string
		took           use
		seconds, bytes float64 // targets; 0 is none
	}{
		{fmt.Sprintf("sweep scenarios: import of %d reports", reports), imported, 2, 0},
		{fmt.Sprintf("sweep plot: %d points, beyond the import", reports), plotOnly, 2, 0},
		{fmt.Sprintf("report: 512 ranks x 1000 patterns, %d MB of JSON", size/1e6), page, 10, 1 << 30},
	} {
		verdict, limit := "ok", "-"
		if row.bytes > 0 {
			limit = fmt.Sprintf("%.0f", row.bytes/(1<<20))
		}
		if row.took.wall.Seconds() > row.seconds || row.bytes > 0 && float64(row.took.memory) > row.bytes {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%-56s %8.2f %8.1f %8.2f %10d %10s  %s\n", row.name, row.took.wall.Seconds(), row.seconds,
			row.took.cpu.Seconds(), row.took.memory>>20, limit, verdict)
	}
	return nil
}

// template is a report of about 150 lines, as benchmarks write them.
const template = "tools/sweep/testdata/sweepA/pd_4P_TP1_1D_TP4/benchmark_report,_c8.yaml"

// writeReports makes a sweep: n reports in many folders, no two alike.
func writeReports(folder string, n int) error {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "perigee").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), template))
	if err != nil {
		return err
	}
	for i := range n {
		run := filepath.Join(folder, fmt.Sprintf("sweep%d", i%3), fmt.Sprintf("run%d", i/10))
		replace := strings.NewReplacer("max_concurrency: 8", fmt.Sprint("max_concurrency: ", 1<<(i%10)), "720.0",
			fmt.Sprint(100+i), "tp: 4", fmt.Sprint("tp: ", 1<<(i%4)))
		if err := os.MkdirAll(run, 0o700); err != nil {
			return err
		}
		file := filepath.Join(run, fmt.Sprintf("benchmark_report,_%d.yaml", i))
		if err := os.WriteFile(file, []byte(replace.Replace(string(text))), 0o600); err != nil {
			return err
		}
	}
	return nil
}
