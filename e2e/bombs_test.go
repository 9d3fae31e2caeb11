package e2e

import (
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

// What a scenario takes while it is loaded stays below 512 MiB, garbage included, though it keeps nearly what it may
// when a function of the library takes much at once. (The tests of the packages run under the race detector, which
// takes additional memory.)
func TestPeakOfBombs(t *testing.T) {
	if harness.RaceEnabled {
		t.Skip("the race detector takes additional memory")
	}
	const (
		most = 512 << 10 // KiB
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
		cmd := exec.CommandContext(t.Context(), harness.Program, args...)
		cmd.Stdout = io.Discard
		cmd.Run() // the exit code is looked at below
		code, peak := cmd.ProcessState.ExitCode(), cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
		if code != 0 && code != int(fault.Script) && code != int(fault.Usage) || peak > most {
			t.Errorf("%s: exit code %d, %d MiB", name, code, peak>>10)
		}
	}
}
