package job

import (
	"bufio"
	"bytes"
	"embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"perigee/e2e/bench/transfer"
	"perigee/nixl"
)

//go:embed *.lua
var scripts embed.FS

// Command is a perigee binary and a folder with the scripts of this package.
type Command struct {
	program, folder string
}

// New builds perigee. Close removes it.
func New() (*Command, error) {
	folder, err := os.MkdirTemp("", "perigee-bench-")
	if err != nil {
		return nil, err
	}
	c := &Command{program: filepath.Join(folder, "perigee"), folder: folder}
	if out, err := exec.Command("go", "build", "-o", c.program, "perigee").CombinedOutput(); err != nil {
		c.Close()
		return nil, fmt.Errorf("build perigee: %w: %s", err, out)
	}
	if err := os.CopyFS(folder, scripts); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Program is the path of the binary.
func (c *Command) Program() string { return c.program }

// Close removes what New has made.
func (c *Command) Close() error { return os.RemoveAll(c.folder) }

func (c *Command) run(args ...string) (output string, took time.Duration, err error) {
	cmd := exec.Command(c.program, args...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	start := time.Now()
	err = cmd.Run()
	took = time.Since(start)
	if err != nil {
		err = fmt.Errorf("perigee %s: %w: %s", strings.Join(args, " "), err, complaints.String())
	}
	return out.String(), took, err
}

func (c *Command) script(name string) string { return filepath.Join(c.folder, name) }

var medianLine = regexp.MustCompile(`(?m)^median ([0-9.]+)$`)

// processTurns is how often two sides alternate of which one starts anew each time.
const processTurns = 9

// latency runs one message through a scenario and returns its median latency.
func (c *Command) latency(engine string, bytes, count int) (time.Duration, error) {
	out, _, err := c.run("run", "--engine", engine, c.script("latency.lua"), "--size", strconv.Itoa(bytes), "--iters",
		strconv.Itoa(count))
	if err != nil {
		return 0, err
	}
	m := medianLine.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no median in %q", out)
	}
	seconds, err := strconv.ParseFloat(m[1], 64)
	return time.Duration(seconds * 1e9), err
}

// Latency compares a message's latency as a Lua scenario on NIXL measures it with
// that of a bare C loop over the same library. Targets: 1.05 from 64 KiB on,
// 1.2 below.
func (c *Command) Latency(w io.Writer) error {
	bare, err := transfer.StartLoop(nixl.DRAM)
	if err != nil {
		return err
	}
	defer bare.Close()
	fmt.Fprintln(w, "# a Lua scenario on NIXL against a C loop over the same library, WRITE, 2 ranks")
	var cases []transfer.Case
	for _, size := range []struct {
		name         string
		bytes, count int
		target       float64
	}{{"4 KiB", 4 << 10, 2000, 1.2}, {"64 KiB", 64 << 10, 1000, 1.05}, {"1 MiB", 1 << 20, 100, 1.05},
		{"64 MiB", 64 << 20, 8, 1.05}} {
		cases = append(cases, transfer.Case{
			Name: "scenario " + size.name, Bytes: size.bytes, Count: size.count, Turns: processTurns,
			Target: size.target,
			Ours:   func(bytes, count int) (time.Duration, error) { return c.latency("nixl", bytes, count) },
			Theirs: func(bytes, count int) (time.Duration, error) { return bare.Measure("write", bytes, count) },
		})
	}
	return transfer.Report(w, append(cases, c.accounted()))
}

// accounted compares runs of which UCX says what moved the bytes with runs where it does not, as its log is the user's.
func (c *Command) accounted() transfer.Case {
	const turns, setting = 50, "UCX_LOG_LEVEL"
	with := func(bytes, count int) (time.Duration, error) { return c.latency("nixl", bytes, count) }
	without := func(bytes, count int) (time.Duration, error) {
		os.Setenv(setting, "fatal")
		defer os.Unsetenv(setting)
		return with(bytes, count)
	}
	return transfer.Case{Name: "path 4 KiB", Bytes: 4 << 10, Count: 2000, Turns: turns, Target: 1.03, Ours: with,
		Theirs: without}
}

// Prepare prints how long 64 local ranks take to prepare 1000 sparse patterns.
// Target: 2 s and no message.
func (c *Command) Prepare(w io.Writer) error {
	fmt.Fprintln(w, "# preparation of 1000 sparse patterns (target: under 2 s)")
	for range 3 {
		out, _, err := c.run("run", "-n", "64", "--engine", "shm", c.script("prepare.lua"))
		if err != nil {
			return err
		}
		fmt.Fprint(w, lastLine(out))
	}
	return nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1] + "\n"
}

// WholeRuns prints the wall time of whole commands, the median of five.
func (c *Command) WholeRuns(w io.Writer) error {
	fmt.Fprintln(w, "# whole runs, start to exit, median of 5")
	runs := [][]string{{"run", "-n", "64", c.script("empty.lua")}}
	for _, engine := range []string{"shm", "nixl"} {
		for _, n := range []string{"2", "4", "8"} {
			runs = append(runs, []string{"run", "-n", n, "--engine", engine, "alltoall", "--size", "1M", "--iters",
				"3"})
		}
	}
	for _, args := range runs {
		var times []time.Duration
		for range 5 {
			_, took, err := c.run(args...)
			if err != nil {
				return err
			}
			times = append(times, took)
		}
		name := strings.ReplaceAll(strings.Join(args, " "), c.folder+"/", "")
		fmt.Fprintf(w, "%-60s %8.3f s\n", name, transfer.Median(times).Seconds())
	}
	return nil
}

// Weight prints the resident memory of idle ranks. Target: 40 MiB.
func (c *Command) Weight(w io.Writer) error {
	cmd := exec.Command(c.program, "run", "-n", "4", c.script("idle.lua"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	scanner := bufio.NewScanner(out)
	for scanner.Scan() && scanner.Text() != "ready" {
	}
	fmt.Fprintln(w, "# resident memory of idle ranks (target: under 40 MiB)")
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
	if err != nil {
		return err
	}
	// A child is listed under the thread that started it, so look at all.
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cmd.Process.Pid))
	for _, t := range tasks {
		more, _ := os.ReadFile(t)
		children = append(children, more...)
	}
	seen := map[string]bool{}
	for _, pid := range strings.Fields(string(children)) {
		if seen[pid] {
			continue
		}
		seen[pid] = true
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "VmRSS:") {
				fmt.Fprintf(w, "process %s %s", pid, line)
			}
		}
	}
	return cmd.Wait()
}
