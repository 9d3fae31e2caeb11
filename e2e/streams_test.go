package e2e

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
)

// inShell starts perigee from a shell's command line, in which "$@" stands for it.
func inShell(t *testing.T, dir, line string, args ...string) *harness.Process {
	t.Helper()
	return harness.Start(t, harness.Command{Dir: dir, Argv: slices.Concat([]string{"sh", "-c", line, "sh", harness.Program}, args)})
}

// A job needs none of the three standard streams.
func TestClosedStreams(t *testing.T) {
	for _, closed := range []string{"<&-", ">&-", "2>&-", "<&- >&- 2>&-"} {
		t.Run(closed, func(t *testing.T) {
			p := inShell(t, "", `exec "$@" `+closed, "run", "alltoall", "-n", "3", "--engine", "shm", "--iters", "2", "--result", "r.json")
			o := p.MustEnd()
			p.CheckNothingLeft(atOnce)
			if o.Stderr != "" || (o.Stdout == "") != strings.Contains(closed, ">&-") && closed != "2>&-" {
				t.Errorf("stdout %q, stderr %q", o.Stdout, o.Stderr)
			}
			if doc := resulttest.Check(t, filepath.Join(p.Dir, "r.json")); doc.Status != result.Complete {
				t.Errorf("status %s", doc.Status)
			}
		})
	}
}

// No rank reads standard input or waits for its end.
func TestStandardInputIsLeftAlone(t *testing.T) {
	in, out, err := os.Pipe()
	must.Do(t, err)
	defer in.Close()
	const text = "for the next command"
	if _, err := io.WriteString(out, text); err != nil {
		t.Fatal(err)
	}
	p := harness.Start(t, harness.Command{Args: []string{"run", "alltoall", "-n", "3", "--engine", "shm", "--iters", "1"}, Stdin: in})
	p.MustEnd()
	out.Close() // not before the job has ended
	if rest, err := io.ReadAll(in); err != nil || string(rest) != text {
		t.Errorf("left in standard input is %q, %v; want %q", rest, err, text)
	}
}

// endless prints for ever, at one rank or at all.
const endless = `return {
	options = { options.bool { "all", false, "all ranks print" } },
	run = function(opt)
		local i = 0
		while true do
			i = i + 1
			if opt.all or world.rank == 0 then print("line " .. i) end
			if i % 100 == 0 then world.barrier() end
		end
	end,
}`

// perigee run | head -n 1: the job ends when its output has no reader any more.
func TestReaderLeaves(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		args []string
	}{
		"output":               {`{ "$@"; echo "code $?" >&2; } | head -n 1`, nil},
		"output of all ranks":  {`{ "$@"; echo "code $?" >&2; } | head -n 1`, []string{"--all"}},
		"output and complaint": {`{ "$@" 2>&1; echo "code $?" >&2; } | head -n 1`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := harness.Files(t, map[string]string{"endless.lua": endless})
			watch := harness.StartWatch()
			p := inShell(t, dir, test.line, append([]string{"run", "endless.lua", "-n", "3", "--engine", "shm"}, test.args...)...)
			o := p.Wait()
			watch.Check(t, "the job", p.EndTime(), atOnce, 0)
			p.CheckNothingLeft(atOnce)
			if !strings.HasPrefix(o.Stdout, "# perigee ") || strings.Count(o.Stdout, "\n") != 1 {
				t.Errorf("stdout %q, want the first line", o.Stdout)
			}
			said, code, _ := strings.Cut(o.Stderr, "code ")
			if strings.TrimSpace(code) != "11" {
				t.Errorf("exit code %q, want %d", code, fault.Output)
			}
			if heard := !strings.Contains(test.line, "2>&1"); heard != strings.Contains(said, "cannot write the output: broken pipe\n") || strings.Count(said, "\n") > 1 {
				t.Errorf("stderr %q", o.Stderr)
			}
		})
	}
}

// perigee COMMAND | head -n 1: a command whose output has no reader any more ends without a word, as other programs do.
func TestNoReader(t *testing.T) {
	for _, args := range []string{
		"--help", "version", "scenarios", "completion bash", "run --help", "run pingpong --help", "ct-perftest --help",
		"sequential-ct-perftest --help", "ep data-plane --help", "kvbench profile --help", "rerun --help",
	} {
		reader, writer, err := os.Pipe()
		must.Do(t, err)
		reader.Close()
		var said strings.Builder
		cmd := exec.Command(harness.Program, strings.Fields(args)...)
		cmd.Stdout, cmd.Stderr = writer, &said
		err = cmd.Run()
		writer.Close()
		exit, _ := errors.AsType[*exec.ExitError](err)
		if said.Len() > 0 || exit == nil || exit.ExitCode() != int(fault.Output) && !bySignal(exit, syscall.SIGPIPE) {
			t.Errorf("%s: %v, stderr %q", args, err, said.String())
		}
	}
}

// bySignal reports whether a signal has ended a process.
func bySignal(exit *exec.ExitError, signal syscall.Signal) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// growing has a result that becomes larger and larger.
const growing = `return {
	run = function()
		local plan = transfer.prepare { matrix = matrix.all_to_all { bytes = "4K" }, mem = "dram", name = "mesh" }
		for i = 1, 40 do
			plan:run()
			transfer.collect { plan }
			local digits = {}
			for k = 1, 2000 do digits[k] = math.random(1e9) end
			result.set("part" .. i, digits)
			if world.rank == 0 and i == 1 then print("measured") end
		end
	end,
}`

// The disk fills up while a job runs: its last result that found room is readable
// and says that it is partial.
func TestDiskFillsMidway(t *testing.T) {
	for _, file := range []string{"r.json", "r.json.zst"} {
		t.Run(file, func(t *testing.T) {
			dir := harness.Files(t, map[string]string{"growing.lua": growing, "small/x": ""})
			small := filepath.Join(dir, "small")
			harness.Mount(t, "tmpfs", small, "size=256k")
			p := harness.Start(t, harness.Command{Dir: dir, Args: []string{"run", "growing.lua", "-n", "2", "--engine", "shm", "--result", "small/" + file}})
			o := p.Wait()
			p.CheckNothingLeft(atOnce)
			checkComplaint(t, o, fault.Output, "perigee: rank 0 on "+harness.Hostname(t)+", phase ", "cannot write small/"+file+": no space left on device")
			if names := harness.Names(small); !slices.Equal(names, []string{file}) {
				t.Errorf("files %v, want %s alone", names, file)
			}
			doc := resulttest.Check(t, filepath.Join(small, file))
			if said := "perigee: partial result: small/" + file + "\n"; strings.Count(o.Stderr, said) != 1 {
				t.Errorf("want %q once in\n%s", said, o.Stderr)
			}
			if n := len(doc.Measurements); doc.Status != result.Partial || n == 0 || n >= 40 {
				t.Errorf("status %s with %d measurements, want a partial result with some of 40", doc.Status, n)
			}
		})
	}
}

// A job is ended when its disk is full: what is lost and why, and which file stays, is said once each.
func TestEndedOnFullDisk(t *testing.T) {
	const filling = `return {
		run = function()
			result.set("x", 1)
			local digits = {}
			for k = 1, 100000 do digits[k] = math.random(1e9) end
			clock.sleep(0.5)
			result.set("much", digits)
			if world.rank == 0 then print("ready") end
			clock.sleep(1000)
		end,
	}`
	dir := harness.Files(t, map[string]string{"filling.lua": filling, "small/x": ""})
	harness.Mount(t, "tmpfs", filepath.Join(dir, "small"), "size=128k")
	p := harness.Start(t, harness.Command{Dir: dir, Args: []string{"run", "filling.lua", "-n", "2", "--engine", "shm", "--result", "small/r.json"}})
	p.UntilPrints("ready")
	harness.Signal(t, p.Cmd.Process.Pid, syscall.SIGTERM)
	o := p.Wait()
	p.CheckNothingLeft(atOnce)
	checkComplaint(t, o, fault.Interrupt, "ended by signal: terminated")
	for _, said := range []string{
		"perigee: partial result: its last part is lost: cannot write small/r.json: no space left on device\n",
		"perigee: partial result: small/r.json\n",
	} {
		if strings.Count(o.Stderr, said) != 1 {
			t.Errorf("want %q once in\n%s", said, o.Stderr)
		}
	}
}
