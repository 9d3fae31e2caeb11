package e2e

import (
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
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
	words := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	const sweep = "\nsweep: {benchmark.multi_round: ["
	sections := func(metadata, rest string) string {
		return "metadata: {id: disagg/stress/x" + metadata + "}\nslurm: {job_time: 60}\njob: {client: a}\nbenchmark: {concurrency_list: 1 2, input_length: 1, output_length: 1}\n" +
			rest + sweep + words(10_000, "%d, ") + "]}\n"
	}
	files := map[string]string{
		"datasets.yaml":   sections(", accuracy: {datasets: ["+strings.Repeat("{}, ", 1000)+"]}", ""),
		"datasets2.yaml":  sections(", accuracy: {datasets: ["+strings.Repeat("{}, ", 380)+"]}", ""),
		"references.yaml": sections(", references: {"+words(100, `"a%d": [1, 2, 3], `)+"}", ""),
		"tasks.yaml":      sections("", "accuracy: {tasks: '"+words(1000, "a%d,")+"'}"),
		"gpus.yaml":       sections(", supported_gpus: ["+strings.Repeat("a, ", 400)+"]", ""),
		"words.yaml":      "slurm: {extra_args: '" + strings.Repeat("a ", 32<<20-99) + "'}\n",
		"numbers.json":    `{"a": [` + strings.Repeat("1.5, ", 3_250_000) + "1]}",
		"texts.json":      `{"a": [` + strings.Repeat(`"abcdefghij", `, 2_440_000) + "1]}",
		"lists.json":      `{"a": [` + strings.Repeat("[1], ", 1_240_000) + "1]}",
		"gpus.json":       `{"metadata": {"supported_gpus": [` + strings.Repeat(`"a", `, 2_580_000) + `"a"]}}`,
	}
	dir := harness.Files(t, files)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		code, memory := peak(t, "disagg", "validate", filepath.Join(dir, name))
		if code != 0 && code != int(fault.Input) || memory > maxPeak {
			t.Errorf("%s: exit code %d, %d MiB", name, code, memory>>10)
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
