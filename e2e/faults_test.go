package e2e

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
)

// atOnce is how long a job may last after its failure.
const atOnce = harness.Patience

// staying starts the scenario that stays in a phase, and returns when the given
// rank has reached it.
func staying(t *testing.T, engine, phase string, rank int) *harness.Process {
	t.Helper()
	p := harness.Start(t, harness.Command{Args: []string{"run", harness.Script(t, "phases.lua"), "-n", "3", "--engine", engine, "--stay", phase, "--result", "r.json"}, Group: true})
	p.UntilPrints("\nin " + phase + "\n") // the line of rank 0: those of others begin with their ranks
	if rank > 0 {
		p.UntilPrints(fmt.Sprintf("[%d] in %s\n", rank, phase))
	}
	return p
}

// failed waits for the end of a job whose failure has just been caused, and
// proves that it ends as it should: at once, with the right code, the culprit
// named once, and nothing left behind.
func failed(t *testing.T, p *harness.Process, kind fault.Kind, wanted ...string) harness.Outcome {
	t.Helper()
	since := time.Now()
	o := p.Wait()
	if took := time.Since(since); took > atOnce {
		t.Errorf("the job went on for %v", took)
	}
	p.CheckNothingLeft(harness.Patience)
	o.Took = 0 // the job had its own time
	checkComplaint(t, o, kind, wanted...)
	return o
}

// partial reads the result of a job that failed.
func partial(t *testing.T, p *harness.Process, kind fault.Kind, rank int, phase string) *result.Document {
	t.Helper()
	doc, err := result.Read(filepath.Join(p.Dir, "r.json"))
	if err != nil {
		t.Error(err)
		return &result.Document{}
	}
	f := doc.Failure
	if doc.Status != result.Partial || doc.Finished == nil || f == nil {
		t.Errorf("status %q, finished %v, failure %v; want partial", doc.Status, doc.Finished, f)
		return doc
	}
	if f.Kind != kind || f.Rank != rank || f.Phase != phase || f.Cause == "" {
		t.Errorf("failure %+v, want kind %d of rank %d in phase %q", *f, kind, rank, phase)
	}
	return doc
}

// A rank is killed in each phase: rank 0, which holds the result, or another.
func TestKillRank(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for _, phase := range []string{"prepare", "warmup", "isolated", "workload", "verify"} {
			for _, rank := range []int{0, 1} {
				t.Run(fmt.Sprintf("%s rank %d", phase, rank), func(t *testing.T) {
					p := staying(t, engine, phase, rank)
					harness.Signal(t, p.Rank(rank), syscall.SIGKILL)
					o := failed(t, p, fault.RankLost,
						fmt.Sprintf("perigee: rank %d on %s, phase %s: its process was killed by signal 9 (SIGKILL)", rank, harness.Hostname(t), phase))
					isolatedRuns := phase == "workload" || phase == "verify"
					if rank == 0 && !isolatedRuns {
						// Only rank 0 had the document, and it was still empty.
						if _, err := os.Stat(filepath.Join(p.Dir, "r.json")); !errors.Is(err, fs.ErrNotExist) {
							t.Errorf("result: %v, want none", err)
						}
						return
					}
					harness.Contains(t, "stderr", o.Stderr, "perigee: partial result: r.json\n")
					doc := partial(t, p, fault.RankLost, rank, phase)
					if n := countRuns(doc, "isolated"); isolatedRuns != (n == 1) {
						t.Errorf("%d isolated runs in the partial result", n)
					}
				})
			}
		}
	})
}

// A rank is killed before the world is complete.
func TestKillRankAtStart(t *testing.T) {
	for _, rank := range []int{0, 7} {
		p := harness.Start(t, harness.Command{Args: []string{"run", harness.Script(t, "phases.lua"), "-n", "8", "--engine", "shm", "--result", "r.json"}})
		harness.Signal(t, p.Rank(rank), syscall.SIGKILL)
		failed(t, p, fault.RankLost, fmt.Sprintf("perigee: rank %d on %s, phase start: its process was killed by signal 9", rank, harness.Hostname(t)))
	}
}

// The shipped scenario keeps its isolated runs when a rank dies in the middle of
// a long pause of the workload.
func TestKillRankInSequential(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{"c.yaml": "isolation_iters: 4\n" + pattern("sleep_before_launch_sec: 1000"), "m.txt": good})
		p := harness.Start(t, harness.Command{Dir: dir, Args: []string{"sequential-ct-perftest", "c.yaml", "--engine", engine, "--result", "r.json", "--json-output-path", "o.json", "--log-level", "info"}})
		p.Until("the isolated runs", func() bool {
			doc, err := result.Read(filepath.Join(dir, "r.json"))
			return err == nil && doc.Status == result.Partial && countRuns(doc, "isolated") == 4
		})
		p.UntilComplains("msg=phase rank=1 host=" + harness.Hostname(t) + " phase=workload")
		harness.Signal(t, p.Rank(1), syscall.SIGKILL)
		o := failed(t, p, fault.RankLost, "rank 1 on "+harness.Hostname(t)+", phase workload: its process was killed by signal 9")
		harness.Contains(t, "stderr", o.Stderr, "perigee: partial result: r.json\n")
		doc := partial(t, p, fault.RankLost, 1, "workload")
		if n := countRuns(doc, "isolated"); n != 4 {
			t.Errorf("%d isolated runs in the partial result, want 4", n)
		}
		if doc.Paths == nil || len(doc.Paths.Uses) == 0 || !strings.Contains(doc.Paths.Unknown, " ranks: the job ended before they said it") ||
			doc.Network == nil {
			t.Errorf("the partial result lacks what rank 0 knows: %+v, %+v", doc.Paths, doc.Network)
		}
		if _, err := os.Stat(filepath.Join(dir, "o.json")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("half a list of iterations: %v", err)
		}
	})
}

// The launcher is told to end, alone or, as a terminal does it, with its whole
// process group.
func TestSignals(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		kinds := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
		if signal.Ignored(syscall.SIGHUP) {
			kinds = kinds[:2] // under nohup the job ignores it, too
		}
		for _, s := range kinds {
			for _, group := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v group %v", s, group), func(t *testing.T) {
					p := staying(t, engine, "workload", 2)
					pid := p.Cmd.Process.Pid
					if group {
						pid = -pid
					}
					harness.Signal(t, pid, s)
					o := failed(t, p, fault.Interrupt, "ended by signal: "+s.String())
					harness.Contains(t, "stderr", o.Stderr, "perigee: partial result: r.json\n")
					if n := countRuns(partial(t, p, fault.Interrupt, -1, ""), "isolated"); n != 1 {
						t.Errorf("%d isolated runs in the partial result", n)
					}
				})
			}
		}
	})
}

// Under nohup a job goes on when its terminal is closed.
func TestNohup(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{"x.lua": `return { run = function()
			world.barrier()
			if world.rank == 0 then print("all are here") end
			for _ = 1, 50 do clock.sleep(0.02) world.barrier() end
		end }`})
		p := harness.Start(t, harness.Command{
			Dir: dir, Argv: []string{"nohup", harness.Program, "run", "x.lua", "-n", "2", "--engine", engine, "--result", "r.json"}, Group: true,
		})
		p.UntilPrints("all are here")
		harness.Signal(t, -p.Cmd.Process.Pid, syscall.SIGHUP)
		p.MustEnd()
		if d := resulttest.Check(t, filepath.Join(dir, "r.json")); d.Status != result.Complete {
			t.Errorf("the result is %s", d.Status)
		}
	})
}

// A command that writes many files is told to end: there are all or none.
func TestSignalsWhileFilesAreWritten(t *testing.T) {
	dir := harness.Files(t, map[string]string{"isl.txt": strings.Repeat("1000\n", 50_000)})
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := harness.Start(t, harness.Command{Dir: dir, Args: []string{
			"matgen", "generate", "--model", "llama-405b", "--num-prefill-nodes", "1", "--num-decode-nodes", "1",
			"--isl-list", "isl.txt", "--results-dir", "out",
		}})
		p.Until("files", func() bool {
			files, _ := filepath.Glob(filepath.Join(dir, ".out*", "matrix_9.txt"))
			return len(files) == 1
		})
		harness.Signal(t, p.Cmd.Process.Pid, s)
		o := p.Wait()
		if o.Code != int(fault.Interrupt) || !strings.Contains(o.Stderr, "nothing is written") {
			t.Errorf("%v: exit code %d, %q", s, o.Code, o.Stderr)
		}
		if left := harness.Names(dir); len(left) != 1 {
			t.Errorf("%v: %q are there, want the list of lengths only", s, left)
		}
	}
}

// The limit on CPU time kills a rank, as the kernel does for want of memory.
func TestLimitOnCPUTime(t *testing.T) {
	p := harness.Start(t, harness.Command{
		Dir:  harness.Files(t, map[string]string{"x.lua": `return { run = function() while true do end end }`}),
		Argv: []string{"sh", "-c", `ulimit -t 1; exec "$@"`, "sh", harness.Program, "run", "x.lua", "-n", "2", "--engine", "shm"},
	})
	failed(t, p, fault.RankLost, "its process was killed by signal 9 (SIGKILL): the limit on CPU time (ulimit -t 1)")
}

// A rank that is stopped cannot end by itself.
func TestStoppedRank(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		t.Run("then killed", func(t *testing.T) {
			p := staying(t, engine, "workload", 1)
			harness.Signal(t, p.Rank(1), syscall.SIGSTOP)
			harness.Signal(t, p.Rank(1), syscall.SIGKILL)
			failed(t, p, fault.RankLost, "rank 1 on ", "killed by signal 9")
			partial(t, p, fault.RankLost, 1, "workload")
		})
		t.Run("then the job is ended", func(t *testing.T) {
			p := staying(t, engine, "workload", 1)
			harness.Signal(t, p.Rank(1), syscall.SIGSTOP)
			harness.Signal(t, p.Cmd.Process.Pid, syscall.SIGTERM)
			failed(t, p, fault.Interrupt, "ended by signal: terminated")
			partial(t, p, fault.Interrupt, -1, "")
		})
	})
}

// A rank that was stopped and goes on is named with how long it stood still, and the job goes well.
func TestRankStandsStill(t *testing.T) {
	dir := harness.Files(t, map[string]string{"s.lua": `return { ranks = 3, run = function()
 world.phase("workload")
 world.barrier()
 if world.rank == 0 then print("ready") end
 local began = clock.now()
 while clock.now() - began < 6 do clock.sleep(0.01) end
 world.barrier()
end }`})
	p := harness.Start(t, harness.Command{Dir: dir, Args: []string{"run", "s.lua", "--engine", "shm", "--result", "r.json"}})
	p.UntilPrints("ready\n")
	harness.Signal(t, p.Rank(1), syscall.SIGSTOP)
	time.Sleep(4 * time.Second)
	harness.Signal(t, p.Rank(1), syscall.SIGCONT)
	harness.Contains(t, "stdout", p.MustEnd().Stdout, "# note: rank 1 on ", " stood still for ", "s in phase workload: it was stopped, or its host was")
}

// Ranks that have lost their launcher end, and rank 0 saves what there is.
func TestKillLauncher(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		p := staying(t, engine, "workload", 2)
		harness.Signal(t, p.Cmd.Process.Pid, syscall.SIGKILL)
		p.CheckNothingLeft(atOnce)
		if n := countRuns(partial(t, p, fault.RankLost, -1, ""), "isolated"); n != 1 {
			t.Errorf("%d isolated runs in the partial result", n)
		}
	})
}

// So it is where rank 0 is in the middle of something that does not end.
func TestKillLauncherOfBusyRank(t *testing.T) {
	t.Parallel()
	dir := harness.Files(t, map[string]string{"s.lua": `return { run = function()
  local plan = transfer.prepare{ matrix = matrix.all_to_all{ bytes = 1024 } }
  plan:run()
  transfer.collect{ plan }
  if world.rank == 0 then print("busy") end
  while true do pcall(function() while true do end end) end
end }
`})
	p := harness.Start(t, harness.Command{Dir: dir, Args: []string{"run", "s.lua", "-n", "2", "--engine", "shm", "--result", "r.json"}})
	p.UntilPrints("busy")
	harness.Signal(t, p.Cmd.Process.Pid, syscall.SIGKILL)
	p.CheckNothingLeft(atOnce)
	if doc := partial(t, p, fault.RankLost, -1, ""); len(doc.Measurements) != 1 {
		t.Errorf("%d runs in the partial result", len(doc.Measurements))
	}
}

// What has been collected is in the result, whatever the ranks do wrong next.
func TestErrorAfterCollect(t *testing.T) {
	t.Parallel()
	const runs = 20000
	dir := harness.Files(t, map[string]string{"s.lua": fmt.Sprintf(`return { run = function()
  local plan = transfer.prepare{ matrix = matrix.all_to_all{ bytes = 64 } }
  plan:run(%d)
  local collected = transfer.collect{ plan }
  print(collected[1].runs) -- nil at all ranks but 0
end }
`, runs)})
	p := harness.Start(t, harness.Command{Dir: dir, Args: []string{"run", "s.lua", "-n", "3", "--engine", "shm", "--result", "r.json"}})
	if o := p.Wait(); o.Code != int(fault.Script) {
		t.Errorf("exit code %d\n%s", o.Code, o.Stderr)
	}
	if doc, err := result.Read(filepath.Join(dir, "r.json")); err != nil || len(doc.Measurements) != runs || doc.Failure == nil {
		t.Errorf("%v: %+v", err, doc)
	}
}

// A wait that outlasts --timeout ends the job. The start of the ranks is such a wait, too, and must not be the one.
func TestTimeout(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{"s.lua": "return { ranks = 3, run = function()\n world.phase('talk')\n if world.rank == 2 then clock.sleep(1000) end\n world.barrier()\nend }\n"})
		p := harness.Start(t, harness.Command{Dir: dir, Args: []string{"run", "s.lua", "--engine", engine, "--timeout", "3s"}})
		failed(t, p, fault.Timeout, "phase talk", "3s")
	})
}

// perigee leaves standard input to the next command of the shell.
func TestStdinUntouched(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		r, w, err := os.Pipe()
		must.Do(t, err)
		defer r.Close()
		const bytes = "for the next command\n"
		if _, err := io.WriteString(w, bytes); err != nil {
			t.Fatal(err)
		}
		w.Close()
		o := harness.Start(t, harness.Command{Stdin: r, Args: []string{"run", "alltoall", "-n", "3", "--engine", engine}}).Wait()
		if o.Code != 0 {
			t.Fatalf("exit code %d: %s", o.Code, o.Stderr)
		}
		next := exec.Command("cat")
		next.Stdin = r
		if got, err := next.Output(); err != nil || string(got) != bytes {
			t.Errorf("the next command read %q (%v), want %q", got, err, bytes)
		}
	})
}

// What a scenario records is in the file while it runs, so that nothing is lost with rank 0.
func TestSamplesAreKept(t *testing.T) {
	dir := harness.Files(t, map[string]string{"s.lua": `return { metrics = { { "x_us", "x", better = "lower" } }, run = function()
 for i = 1, 1e9 do world.barrier() result.sample("x_us", i) clock.sleep(0.001) end
end }`})
	p := harness.Start(t, harness.Command{Dir: dir, Argv: []string{harness.Program, "run", "-n", "2", "s.lua", "--engine", "shm", "--result", "r.json"}})
	file := filepath.Join(dir, "r.json")
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(10 * time.Millisecond) {
		if saved(file) || time.Now().After(deadline) {
			break
		}
	}
	harness.Signal(t, p.Rank(0), syscall.SIGKILL)
	p.Wait()
	d, err := result.Read(file)
	if err != nil || d.Status != result.Partial || len(d.Metrics) != 1 || len(d.Metrics[0].Values) == 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// Samples that no other follows are saved as well, while the scenario sleeps or waits.
func TestLastSamplesAreKept(t *testing.T) {
	for name, wait := range map[string]string{"sleep": "clock.sleep(100)", "barrier": "if world.rank == 1 then clock.sleep(100) end world.barrier()"} {
		dir := harness.Files(t, map[string]string{"s.lua": `return { metrics = { { "x_us", "x", better = "lower" } }, run = function()
 for i = 1, 1000 do result.sample("x_us", i) end ` + wait + ` end }`})
		p := harness.Start(t, harness.Command{Dir: dir, Argv: []string{harness.Program, "run", "-n", "2", "s.lua", "--engine", "shm", "--result", "r.json"}})
		file := filepath.Join(dir, "r.json")
		got := 0
		for deadline := time.Now().Add(harness.Patience); got < 1000 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if d, err := result.Read(file); err == nil && len(d.Metrics) == 1 {
				got = len(d.Metrics[0].Values)
			}
		}
		harness.Signal(t, p.Rank(0), syscall.SIGKILL)
		p.Wait()
		if d, err := result.Read(file); err != nil || d.Status != result.Partial || len(d.Metrics[0].Values) != 1000 {
			t.Errorf("%s: %d samples, %+v, %v", name, got, d, err)
		}
	}
}

// What was measured of one plan is there while the scenario is still at it, in a list of patterns, in one, and where no pattern is.
func TestRunsAreKept(t *testing.T) {
	pattern := "{matrix_file: m.txt}"
	dir := harness.Files(t, map[string]string{
		"m.txt": "0 1M\n1M 0\n", "one.yaml": "traffic_pattern: " + pattern + "\niters: 400000\n",
		"list.yaml": "traffic_patterns: [" + pattern + ", " + pattern + "]\nisolation_iters: 400000\n",
	})
	for name, args := range map[string][]string{
		"sequential": {"sequential-ct-perftest", "list.yaml"}, "ct": {"ct-perftest", "one.yaml"},
		"control": {"ep", "control-plane", "--rounds", "100000000", "--experts-per-rank", "1"},
	} {
		file := filepath.Join(dir, name+".json")
		p := harness.Start(t, harness.Command{Dir: dir, Argv: append(append([]string{harness.Program}, args...), "-n", "2", "--engine", "shm", "--result", file)})
		some := func() bool {
			d, err := result.Read(file)
			return err == nil && (len(d.Measurements) > 0 || d.Values["ep_control"] != nil)
		}
		for deadline := time.Now().Add(harness.Patience); !some() && time.Now().Before(deadline); {
			time.Sleep(50 * time.Millisecond)
		}
		harness.Signal(t, p.Rank(0), syscall.SIGKILL)
		o := p.Wait()
		d, err := result.Read(file)
		if err != nil || d.Status != result.Partial || len(d.Measurements) == 0 && d.Values["ep_control"] == nil {
			t.Errorf("%s: %v\n%s", name, err, o.Stderr)
			continue
		}
		// Only runs that follow each other at once have a gap that belongs to none of them.
		gap := slices.ContainsFunc(d.Measurements, func(m result.Measurement) bool { return m.Filled })
		if gap && name != "ct" {
			t.Errorf("%s: the time between runs is left out of total times", name)
		}
	}
}

// So it is where a few runs, of large messages, take the whole time: those before the last seconds are kept, whichever
// rank dies, and where the user ends the job.
func TestLongRunsAreKept(t *testing.T) {
	const iters = 100
	dir := harness.Files(t, map[string]string{"m.txt": "0 2G\n0 0\n", "c.yaml": "traffic_pattern: {matrix_file: m.txt, mem_type: dram}\n"})
	for _, rank := range []int{0, 1, -1} {
		file := filepath.Join(dir, fmt.Sprintf("%d.json", rank))
		p := harness.Start(t, harness.Command{Dir: dir, Argv: []string{harness.Program, "ct-perftest", "c.yaml", "-n", "2", "--engine", "shm",
			"--iters", strconv.Itoa(iters), "--result", file}})
		p.Until("some runs", func() bool { return saved(file) })
		if rank < 0 {
			harness.Signal(t, p.Cmd.Process.Pid, syscall.SIGINT)
		} else {
			harness.Signal(t, p.Rank(rank), syscall.SIGKILL)
		}
		o := p.Wait()
		d, err := result.Read(file)
		if err != nil || d.Status != result.Partial {
			t.Errorf("rank %d: %v\n%s", rank, err, o.Stderr)
			continue
		}
		if n := countRuns(d, "workload"); n == 0 || n >= iters {
			t.Errorf("rank %d: %d runs of %d are kept", rank, n, iters)
		}
	}
}

// A scenario that keeps more than its host has left ends by itself, before the kernel kills some process.
func TestScenarioFillsTheMemory(t *testing.T) {
	harness.Need(t, "util-linux", "unshare")
	dir := harness.Files(t, map[string]string{"s.lua": `return { ranks = 1, run = function()
 print("ready")
 local t = {}
 for i = 1, 200 do t[i] = ("x"):rep(2^20 + i) clock.sleep(0.001) end
 clock.sleep(1000)
end }`})
	meminfo := filepath.Join(dir, "meminfo")
	available := func(kib int) {
		must.Do(t, os.WriteFile(meminfo, fmt.Appendf(nil, "MemTotal: 1000000 kB\nMemAvailable: %d kB\n", kib), 0o644))
	}
	available(100_000)
	const pretend = `mount --bind "$1" /proc/meminfo && shift && exec "$@"`
	p := harness.Start(t, harness.Command{Dir: dir, Argv: []string{"unshare", "--mount", "sh", "-c", pretend, "sh", meminfo,
		harness.Program, "run", "s.lua", "--engine", "shm"}})
	p.UntilPrints("ready\n")
	available(1000)
	o := p.Wait()
	if o.Code != int(fault.Resource) {
		t.Errorf("exit code %d, want %d\n%s", o.Code, fault.Resource, o.Stderr)
	}
	harness.Contains(t, "stderr", o.Stderr, "the scenario has filled ", "102 MB were available at the start, for 1 rank", "keep less")
}

// What UCX leaves in /dev/shm where a rank is killed while it connects is removed, by the
// launcher or by the ranks that are left; what a living process holds is not.
func TestSharedMemoryOfKilledRanks(t *testing.T) {
	for _, launcher := range []string{"local", "torchrun"} {
		t.Run(launcher, func(t *testing.T) {
			args := []string{"run", harness.Script(t, "phases.lua"), "--engine", "shm", "--stay", "workload"}
			var ranks []*harness.Process
			if launcher == "local" {
				p := harness.Start(t, harness.Command{Args: append(args, "-n", "3")})
				p.UntilPrints("[1] in workload\n")
				ranks = append(ranks, p)
			} else {
				ranks = torchrun(t, t.TempDir(), 3, args...)
				ranks[0].UntilPrints("in workload\n")
			}
			left, held := segment(t), segment(t)
			left.Close()
			harness.Signal(t, ranks[len(ranks)/2].Rank(1), syscall.SIGKILL)
			for _, p := range ranks {
				p.Wait()
			}
			if _, err := os.Stat(left.Name()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left behind: %v", left.Name(), err)
			}
			if _, err := os.Stat(held.Name()); err != nil {
				t.Errorf("the file of a living process was removed: %v", err)
			}
		})
	}
}

// segment makes a file as UCX does.
func segment(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp("/dev/shm", "ucx_shm_posix_")
	must.Do(t, err)
	t.Cleanup(func() {
		f.Close()
		os.Remove(f.Name())
	})
	return f
}

// A process of the same user cuts off the files by which UCX shares memory, as a full /dev/shm does: UCX crashes, which
// is told in a line, and not in a dump of Go's.
func TestCrashOfNIXL(t *testing.T) {
	p := staying(t, "nixl", "workload", 1)
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.Rank(1)))
	must.Do(t, err)
	cut := 0
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && strings.HasPrefix(to, "/dev/shm/ucx_shm_") {
			cut++
			if err := os.Truncate(file, 0); err != nil {
				t.Error(err)
			}
		}
	}
	if cut == 0 {
		t.Fatalf("rank 1 has no file of UCX's open: %v", files)
	}
	o := p.Wait()
	p.CheckNothingLeft(harness.Patience)
	harness.Contains(t, "stderr", o.Stderr, "crashed: memory that it shares has lost its file's room (SIGBUS)")
	if o.Code != int(fault.RankLost) || strings.Contains(o.Stderr, "goroutine ") {
		t.Errorf("exit code %d\n%s", o.Code, o.Stderr)
	}
	harness.Contains(t, "stderr", o.Stderr, "perigee: partial result: r.json\n")
}

// A signal that asks for Go's dump gets it, with exit code 2.
func TestDumpOnRequest(t *testing.T) {
	dir := harness.Files(t, map[string]string{"s.lua": `return { ranks = 1, run = function() print("ready") clock.sleep(1000) end }`})
	for _, s := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGSEGV} {
		p := harness.Start(t, harness.Command{Dir: dir, Argv: []string{harness.Program, "run", "s.lua", "--engine", "shm"}})
		p.UntilPrints("ready\n")
		harness.Signal(t, p.Cmd.Process.Pid, s)
		if o := p.Wait(); o.Code != 2 || !strings.Contains(o.Stderr, "goroutine ") {
			t.Errorf("%v: exit code %d, want 2\n%s", s, o.Code, o.Stderr)
		}
	}
}
