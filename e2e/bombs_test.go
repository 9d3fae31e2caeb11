package e2e

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/fault"
)

// peak returns how a command ends, and how much memory it has taken, in KiB.
func peak(t *testing.T, args ...string) (code int, memory int64) {
	cmd := exec.CommandContext(t.Context(), harness.Program, args...)
	cmd.Stdout = io.Discard
	cmd.Run() // the callers look at the exit code
	return cmd.ProcessState.ExitCode(), cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
}

// maxPeak is what an input may take, in KiB.
const maxPeak = 512 << 10

// What is read of a configuration may be far larger than its text, and a sweep repeats it.
func TestPeakOfConfigurations(t *testing.T) {
	if harness.RaceEnabled {
		t.Skip("the race detector takes additional memory")
	}
	dir := t.TempDir()
	// write writes a file of which a part stands there n times, its %d being numbers. This process must not have the whole:
	// the memory of a process counts as that of what it starts.
	var files []string
	write := func(name, front, part string, n int, back string) {
		files = append(files, name)
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w := bufio.NewWriter(f)
		w.WriteString(front)
		before, after, numbered := strings.Cut(part, "%d")
		for i := range n {
			w.WriteString(before)
			if numbered {
				w.WriteString(strconv.Itoa(i))
			}
			w.WriteString(after)
		}
		w.WriteString(back)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	// sweep makes 10,000 cases of what write writes.
	var values strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&values, "%d, ", i)
	}
	sweep := func(name, metadata, part string, n int, back string) {
		write(name, "slurm: {job_time: 60}\njob: {client: a}\nbenchmark: {concurrency_list: 1 2, input_length: 1, output_length: 1}\n"+
			metadata, part, n, back+"\nsweep: {benchmark.multi_round: ["+values.String()+"]}\n")
	}
	const metadata = "metadata: {id: disagg/stress/x, "
	sweep("datasets.yaml", metadata+"accuracy: {datasets: [", "{}, ", 1000, "]}}")
	sweep("datasets2.yaml", metadata+"accuracy: {datasets: [", "{}, ", 380, "]}}")
	sweep("references.yaml", metadata+"references: {", `"a%d": [1, 2, 3], `, 100, "}}")
	sweep("gpus.yaml", metadata+"supported_gpus: [", "a, ", 400, "]}")
	sweep("tasks.yaml", "accuracy: {tasks: '", "a%d,", 1000, "'}")
	write("words.yaml", "slurm: {extra_args: '", "a ", 32<<20-99, "'}\n")
	write("numbers.json", `{"a": [`, "1.5, ", 3_250_000, "1]}")
	write("texts.json", `{"a": [`, `"abcdefghij", `, 2_440_000, "1]}")
	write("lists.json", `{"a": [`, "[1], ", 1_240_000, "1]}")
	write("gpus.json", `{"metadata": {"supported_gpus": [`, `"a", `, 2_580_000, `"a"]}}`)
	write("rest.json", `{"worker_config": {"gen": {"x": [`, "[], ", 800_000, "1]}}}")
	write("key.json", `{"benchmark": {"`, "\x7f", 60<<20, `": 1}}`)
	write("name.json", `{"metadata": {"metrics": {"metric_names": ["`, "\x7f", 60<<20, `"]}}}`)
	write("times.json", `{"slurm": {"job_time": "`, ":", 60<<20, `"}}`)
	write("pattern.json", `{"metadata": {"metrics": {"metric_names": ["a"], "extractor_pattern": "`, "(", 60<<20, `"}}}`)
	write("levels.json", `{"benchmark": {"concurrency_list": "1`, "x", 60<<20, `"}}`)
	for _, name := range files {
		code, memory := peak(t, "disagg", "validate", filepath.Join(dir, name))
		if code != 0 && code != int(fault.Input) || memory > maxPeak {
			t.Errorf("%s: exit code %d, %d MiB", name, code, memory>>10)
		}
		code, memory = peak(t, "disagg", "run", "--dry-run", "--gpu", "GB200", "--output", filepath.Join(dir, "out"), filepath.Join(dir, name))
		if code != int(fault.Input) || memory > maxPeak {
			t.Errorf("%s, dry run: exit code %d, %d MiB", name, code, memory>>10)
		}
	}
}

// What a scenario takes while it is loaded stays below 512 MiB, garbage included, though it keeps nearly what it may
// when a function of the library takes much at once. (The tests of the packages run under the race detector, which
// takes additional memory.)
func TestPeakOfBombs(t *testing.T) {
	if harness.RaceEnabled {
		t.Skip("the race detector takes additional memory")
	}
	const (
		keep = `local K = {} for i = 1, 17 do K[i] = ("x"):rep(2^24 - i) end `
		end  = ` return { run = print }`
		long = `("1"):rep(2^26 - 9)`
	)
	scripts := map[string]string{
		"print":             keep + `print(("\226\128\174"):rep(2^24))`,
		"format":            keep + `local s = string.format("%q", ("\0"):rep(2^24 - 9))`,
		"bytes":             keep + `local s = ("x"):rep(2^22 - 9) pcall(function() return string.char(s:byte(1, -1)) end)`,
		"unpack":            keep + `local t = { pcall(unpack, {}, 1, 2^23 - 1) }`,
		"select":            keep + `pcall(select, ` + long + `, 1)`,
		"error":             keep + `error(` + long + `)`,
		"assert":            keep + `assert(false, ` + long + `)`,
		"load":              keep + `pcall(load, ` + long + `)`,
		"captures":          keep + `local s = ("x"):rep(2^21 - 9):gsub(("("):rep(32) .. ".*" .. (")"):rep(32), ("%1"):rep(32))`,
		"a far key":         `local t = {} t[2^22] = 1`,
		"a list of numbers": `local t = {} for i = 1, 2^22 do t[i] = 1e300 / i end pcall(table.concat, t)`,
		"large texts":       `local t = {} for i = 1, 100 do t[i] = ("x"):rep(2^26 - 99 - i) end`,
		"a copy as wide":    `local t = {} for i = 1, 4 do t[i] = ("x"):rep(2^26 - 99 - i) end t[5] = string.format("%1s", t[1])`,
		"reject":            `local t = {} for i = 1, 4 do t[i] = ("x"):rep(2^26 - 99 - i) end t[5] = ("y"):rep(56 * 2^20) options.reject(t[1], t[2])`,
		"texts kept":        `local K = {} for i = 1, 1e9 do K[i] = string.format("%q", ("x"):rep(2^24 - i)) end`,
	}
	// What a coroutine of the top level does elsewhere counts there.
	later := map[string]string{"coroutine": `local co = coroutine.wrap(function() coroutine.yield()
		local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(2^26 - 99 - i) end end) co()
		return { ranks = 1, thresholds = function() co() return {} end, run = print }`}
	files := map[string]string{}
	for name, script := range later {
		files[name+".lua"] = script
	}
	for name, script := range scripts {
		files[name+".lua"] = script + end
	}
	dir := harness.Files(t, files)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		args := []string{"run", filepath.Join(dir, name)}
		if later[strings.TrimSuffix(name, ".lua")] == "" {
			args = append(args, "--help")
		}
		code, memory := peak(t, args...)
		if code != 0 && code != int(fault.Script) && code != int(fault.Usage) || memory > maxPeak {
			t.Errorf("%s: exit code %d, %d MiB", name, code, memory>>10)
		}
	}
}
