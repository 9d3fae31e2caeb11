package job

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"perigee/internal/result"
)

// longRuns is how many runs a long job has made when its memory is first looked at.
const longRuns = 50_000

// Long prints by how much the memory of rank 0 grows over tiny messages, from the 50,000th run on, in a job of so many
// seconds and, where there are several times as many runs a second, of a sixth of that. Target: 20 MB.
func (c *Command) Long(w io.Writer, seconds int) error {
	const matrix = "0 4K\n0 0\n"
	if err := os.WriteFile(filepath.Join(c.folder, "long.txt"), []byte(matrix), 0o644); err != nil {
		return err
	}
	const pattern = "matrix_file: long.txt\n    mem_type: dram\n"
	fmt.Fprintf(w, "# memory of rank 0, 2 ranks, 4 KiB, from %d runs on (target: less than 20 MB more)\n", longRuns)
	for _, of := range []struct {
		command, config string
		seconds         int
	}{
		{"sequential-ct-perftest", "traffic_patterns:\n  - " + pattern + "  - " + pattern, seconds},
		{"ct-perftest", "traffic_pattern:\n    " + pattern, seconds / 6},
	} {
		config := filepath.Join(c.folder, of.command+".yaml")
		if err := os.WriteFile(config, []byte(of.config), 0o644); err != nil {
			return err
		}
		first, most, runs, err := c.grown(filepath.Join(c.folder, "long.json.zst"), of.command, config, "--duration",
			fmt.Sprint(of.seconds, "s"))
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%-24s %4d s %10d runs  %5.0f MB, then up to %5.0f MB\n", of.command, of.seconds, runs, float64(first)/1e6, float64(most)/1e6)
	}
	return nil
}

// grown runs a command with a result, and returns the resident bytes of its rank 0 once it had made longRuns runs, the
// most that it had later, and how many runs there were in all.
func (c *Command) grown(path string, args ...string) (first, most int64, runs int, err error) {
	cmd := exec.Command(c.program, append(args, "--engine", "shm", "--result", path)...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		return 0, 0, 0, err
	}
	var last int64
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return 0, 0, 0, fmt.Errorf("%s: %w: %s", args[0], err, complaints.String())
			}
			d, err := result.Read(path)
			if err == nil && first == 0 {
				err = fmt.Errorf("%s: it has not made %d runs", args[0], longRuns)
			}
			return first, most, runsOf(d), err
		case <-tick.C:
		}
		head, _, err := result.Part(path + result.PartEnding)
		if n := runsOf(head); err != nil || n < longRuns || n == runs {
			continue
		}
		runs = runsOf(head)
		most, last = max(most, last), resident(cmd.Process.Pid) // the last of all may be of writing the result
		first = cmp.Or(first, last)
	}
}

// runsOf counts the runs of a result that does not keep all.
func runsOf(d *result.Document) (n int) {
	if d == nil {
		return 0
	}
	for _, t := range d.Totals {
		n += t.Runs
	}
	return n
}

// resident is the memory of the rank 0 that a launcher has started, in bytes; 0 where it has ended.
func resident(launcher int) int64 {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", launcher))
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, pid := range strings.Fields(string(children)) {
			environ, _ := os.ReadFile("/proc/" + pid + "/environ")
			if !bytes.Contains(append([]byte{0}, environ...), []byte("\x00PERIGEE_RANK=0\x00")) {
				continue
			}
			pages, _ := os.ReadFile("/proc/" + pid + "/statm")
			if f := strings.Fields(string(pages)); len(f) > 1 {
				n, _ := strconv.ParseInt(f[1], 10, 64)
				return n * int64(os.Getpagesize())
			}
		}
	}
	return 0
}
