package launchers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// The fault matrix: each fault under each launcher.

const (
	// atOnce is how long a job may last after its failure.
	atOnce = 5 * time.Second
	// patienceOfRanks is --timeout where a rank is stopped.
	patienceOfRanks = 3 * time.Second
	ranks           = 4
)

// local starts ranks with perigee run -n.
var local = way{"local", "local", func(testing.TB, int) ([]string, []string) { return nil, nil }, here, ""}

// anyRank stands for a culprit that the launcher chooses.
const anyRank = -2

// incident is something that goes wrong, and what is to be seen of it.
type incident struct {
	name   string
	engine string   // "" is shm
	args   []string // beside those that all have
	env    []string
	// strike does it to a job at work. Where it is nil the job does it itself.
	strike func(t *testing.T, w way, p *harness.Process)
	free   time.Duration // for which the ranks may wait beside atOnce

	kind     fault.Kind
	rank     int    // to blame: -1 is none, anyRank any of them
	phase    string // "" where the job is refused
	cause    string // a regular expression
	noResult bool
	// launcherKills says that the launcher itself kills the ranks with SIGKILL,
	// which may come before they have spoken or written the failure.
	launcherKills func(w way) bool
}

func to(rank int, s syscall.Signal) func(*testing.T, way, *harness.Process) {
	return func(t *testing.T, _ way, p *harness.Process) { harness.Signal(t, p.Rank(rank), s) }
}

func toLauncher(s syscall.Signal) func(*testing.T, way, *harness.Process) {
	return func(t *testing.T, w way, p *harness.Process) {
		harness.Signal(t, p.Cmd.Process.Pid, s)
		if s != syscall.SIGINT || !isSrun(w) {
			return
		}
		// Where the second comes more than a second after the first, as it may on a busy machine, srun wants another.
		wanted := func() int { return strings.Count(p.Stderr.String(), "one more within 1 sec to abort") }
		for n := 1; ; n++ {
			p.Until("answer of srun", func() bool { return wanted() >= n || strings.Contains(p.Stderr.String(), "sending Ctrl-C") })
			if wanted() < n {
				return
			}
			harness.Signal(t, p.Cmd.Process.Pid, s)
		}
	}
}

func isSrun(w way) bool  { return strings.HasPrefix(w.name, "srun") }
func isHydra(w way) bool { return strings.HasPrefix(w.name, "hydra") }
func isPMIx(w way) bool  { return w.name == "srun pmix" }

// minds says that a launcher may end all ranks when one leaves without joining:
// hydra does, and Slurm's PMIx support when its nodes cannot reach the one that left.
// mpirun does when one exits with another code than 0, perhaps before perigee runs in
// the others.
func minds(w way) bool { return isHydra(w) || isPMIx(w) || w.name == "mpirun" }

// killsOnSignal says that a launcher kills all ranks when one dies of a signal.
func killsOnSignal(w way) bool { return w.obituary != "" }

const (
	silent  = `it does not answer: stopped, or cut off; rank \d timed out waiting \(.* within 3s\)`
	gone    = `its process (is gone|was killed by signal 9 \(SIGKILL\).*)`
	goneTop = `(rank \d lost the connection to rank 0, the coordinator of the job, at \S+: it has died|its process was killed by signal 9 \(SIGKILL\).*)`
	left    = `its process (is gone|exited with code 3)`
)

// incidents is made for each case, since some have their own files.
func incidents(t testing.TB) []incident {
	pipe := filepath.Join(t.TempDir(), "exit")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	timeout := []string{"--timeout", patienceOfRanks.String()}
	return []incident{
		{name: "kill rank 0", strike: to(0, syscall.SIGKILL), kind: fault.RankLost, rank: 0, phase: "barrier", cause: goneTop, launcherKills: killsOnSignal},
		{name: "kill rank 2", strike: to(2, syscall.SIGKILL), kind: fault.RankLost, rank: 2, phase: "barrier", cause: gone, launcherKills: killsOnSignal},
		{name: "exit 3 before", env: []string{"PERIGEE_E2E_EXIT=1"}, args: timeout, free: patienceOfRanks,
			kind: fault.Launch, rank: anyRank, phase: "start", cause: `.*`, noResult: true, launcherKills: minds},
		{name: "rank 0 has no memory", env: []string{"PERIGEE_E2E_EXIT=0 small"}, kind: fault.Resource, rank: 0, phase: "start", cause: `size shared memory to \d+ bytes: file too large`, noResult: true},
		{name: "exit 3 in the middle", env: []string{"PERIGEE_E2E_EXIT=2 " + pipe}, strike: func(t *testing.T, _ way, _ *harness.Process) { openPipe(t, pipe) },
			kind: fault.RankLost, rank: 2, phase: "barrier", cause: left},
		{name: "script fails in one", args: []string{"--fail", "one"}, kind: fault.Script, rank: 1, phase: "barrier", cause: `.*stay\.lua:\d+: on purpose`},
		{name: "script fails in all", args: []string{"--fail", "all"}, kind: fault.Script, rank: anyRank, phase: "barrier", cause: `.*stay\.lua:\d+: on purpose`},
		{name: "SIGTERM rank 0", strike: to(0, syscall.SIGTERM), kind: fault.Interrupt, rank: 0, phase: "barrier", cause: "ended by signal: terminated"},
		{name: "SIGTERM rank 2", strike: to(2, syscall.SIGTERM), kind: fault.Interrupt, rank: 2, phase: "barrier", cause: "ended by signal: terminated"},
		{name: "SIGINT rank 2", strike: to(2, syscall.SIGINT), kind: fault.Interrupt, rank: 2, phase: "barrier", cause: "ended by signal: interrupt"},
		{name: "SIGTERM launcher", strike: toLauncher(syscall.SIGTERM), kind: fault.Interrupt, rank: anyRank, phase: "barrier", cause: "ended by signal: terminated", launcherKills: isSrun},
		{name: "SIGINT launcher", strike: toLauncher(syscall.SIGINT), kind: fault.Interrupt, rank: anyRank, phase: "barrier", cause: "ended by signal: (interrupt|terminated)", launcherKills: isSrun},
		{name: "SIGSTOP in a barrier", args: timeout, strike: to(2, syscall.SIGSTOP), free: patienceOfRanks, kind: fault.Timeout, rank: 2, phase: "barrier", cause: silent},
		{name: "SIGSTOP rank 0", args: timeout, strike: to(0, syscall.SIGSTOP), free: patienceOfRanks, kind: fault.Timeout, rank: 0, phase: "barrier", cause: silent},
		{name: "SIGSTOP in a transfer", args: append(timeout, "--stay", "transfer"), strike: to(1, syscall.SIGSTOP), free: patienceOfRanks, kind: fault.Timeout, rank: 1, phase: "transfer", cause: silent},
		{name: "SIGSTOP in a transfer of NIXL", engine: "nixl", env: []string{"UCX_TLS=tcp,self"}, args: append(timeout, "--stay", "transfer", "--size", "4K"), strike: to(1, syscall.SIGSTOP), free: patienceOfRanks, kind: fault.Timeout, rank: 1, phase: "transfer",
			cause: `it does not answer: stopped, or cut off; rank \d timed out waiting \((mesh: transfer with peer 1 did not complete|.* ranks: not all ranks came) in time .*3s.*\)`},
		{name: "SIGSTOP in collect", args: append(timeout, "--stay", "collect"), strike: to(2, syscall.SIGSTOP), free: patienceOfRanks, kind: fault.Timeout, rank: 2, phase: "collect", cause: silent},
		{name: "full disk", args: []string{"--rounds", "20", "--result", "full/r.json"}, kind: fault.Output, rank: 0, phase: "barrier", cause: `cannot write full/r\.json: no space left on device`, noResult: true},
	}
}

// openPipe opens a named pipe, and so releases the process that waits for that.
func openPipe(t *testing.T, path string) {
	t.Helper()
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
	must.Do(t, err)
	syscall.Close(fd)
}

// otherCodes are the exit codes of launchers that do not pass on perigee's.
func otherCodes(w way, i incident) []int {
	type at struct{ launcher, incident string }
	family, _, _ := strings.Cut(w.name, " ")
	if isPMIx(w) && i.name == "exit 3 before" {
		return []int{int(i.kind), 137}
	}
	return map[at][]int{
		// The highest of all ranks, that of a killed one being 137.
		{"srun", "kill rank 0"}: {137}, {"srun", "kill rank 2"}: {137},
		// srun kills the ranks at once; some may have ended before.
		{"srun", "SIGTERM launcher"}: {137, 9, 130}, {"srun", "SIGINT launcher"}: {137, 9, 130},
		// The first that ended badly, as mpirun sees it: the others end a moment later, with perigee's code.
		{"mpirun", "kill rank 0"}: {137, int(fault.RankLost)}, {"mpirun", "kill rank 2"}: {137, int(fault.RankLost)},
		{"mpirun", "exit 3 before"}: {3}, {"mpirun", "exit 3 in the middle"}: {3, int(fault.RankLost)},
		{"mpirun", "SIGTERM launcher"}: {1}, {"mpirun", "SIGINT launcher"}: {1},
		// All codes or-ed; 9 or 1 if a rank leaves before it has met the others.
		{"hydra", "exit 3 before"}: {9, 5 | 3, 1}, {"hydra", "exit 3 in the middle"}: {9 | 3},
		// When hydra itself is signalled it now and then says 0 of ranks that have all exited with 130.
		{"hydra", "SIGINT launcher"}: {int(fault.Interrupt), 0}, {"hydra", "SIGTERM launcher"}: {int(fault.Interrupt), 0},
		// perigee's own launcher knows how a rank has ended.
		{"local", "exit 3 before"}: {int(fault.RankLost)},
	}[at{family, i.name}]
}

func TestFaults(t *testing.T) {
	library := exitLibrary(t)
	for _, w := range append([]way{local}, ways...) {
		if w.name == "hydra port" || w.name == "hydra hosts" {
			continue // they differ in how ranks meet only
		}
		for number, i := range incidents(t) {
			t.Run(w.name+"/"+i.name, func(t *testing.T) {
				t.Parallel()
				check(t, w, incidents(t)[number], library)
			})
		}
	}
}

// exitLibrary builds the library that lets ranks exit.
func exitLibrary(t *testing.T) string {
	t.Helper()
	lib := filepath.Join(t.TempDir(), "exit.so")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", "-pthread", "-o", lib, harness.Script(t, "exit.c")).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return lib
}

// check lets an incident happen under a launcher and proves that the job ends as
// it should.
func check(t *testing.T, w way, i incident, library string) {
	dir := harness.Files(t, map[string]string{"full/x": ""})
	if i.name == "full disk" {
		harness.Fill(t, filepath.Join(dir, "full"))
	}
	words, env := w.command(t, ranks)
	engine := "shm"
	if i.engine != "" {
		engine = i.engine
		harness.NeedNIXL(t)
	}
	args := slices.Concat(words, []string{harness.Program, "run", harness.Script(t, "stay.lua"), "--engine", engine})
	if !slices.Contains(i.args, "--result") {
		args = append(args, "--result", "r.json")
	}
	if w.name == "local" {
		args = append(args, "-n", fmt.Sprint(ranks))
	}
	if len(i.env) > 0 && strings.HasPrefix(i.env[0], "PERIGEE_E2E_EXIT") {
		env = append(env, "LD_PRELOAD="+library)
	}
	watch := harness.StartWatch()
	p := start(t, harness.Command{Dir: dir, Argv: append(args, i.args...), Env: slices.Concat(env, i.env), Group: true})
	if i.strike != nil {
		p.UntilPrints("all are here")
		watch = harness.StartWatch()
		i.strike(t, w, p)
	}
	o := p.Wait()
	watch.Check(t, "the end of the job", p.EndTime(), atOnce, i.free)
	checkEnd(t, w, i, o)
	checkResult(t, w, i, dir)
}

// checkEnd looks at the exit code and at what perigee has said.
func checkEnd(t *testing.T, w way, i incident, o harness.Outcome) {
	t.Helper()
	codes := otherCodes(w, i)
	if codes == nil {
		codes = []int{int(i.kind)}
	}
	if !slices.Contains(codes, o.Code) {
		t.Errorf("exit code %d, want one of %v\nstdout:\n%s\nstderr:\n%s", o.Code, codes, o.Stdout, o.Stderr)
	}
	said := complaints(o.Stderr)
	unheard := i.launcherKills != nil && i.launcherKills(w)
	if len(said) == 0 {
		// srun now and then ends a step without what its tasks have written last, and says so.
		if !unheard && !strings.Contains(o.Stderr, "srun: Force Terminated StepId") {
			t.Errorf("perigee said nothing:\n%s", o.Stderr)
		}
		return
	}
	if unheard && i.kind == fault.Interrupt {
		return // what it has seen of the others' deaths may come first
	}
	if !firstLine(t, w, i).MatchString(said[0]) {
		t.Errorf("perigee said first %q\nwant %s\n%s", said[0], firstLine(t, w, i), o.Stderr)
	}
	if len(said) > 1 && i.phase != "start" {
		t.Errorf("perigee said it %d times:\n%s", len(said), o.Stderr)
	}
}

// complaints are perigee's own lines, in order, but for those on results.
func complaints(stderr string) (list []string) {
	for line := range strings.Lines(stderr) {
		if text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "perigee: "); ok && !strings.HasPrefix(text, "partial result:") {
			list = append(list, text)
		}
	}
	return list
}

// firstLine is what perigee should say first: rank, host, phase and cause.
func firstLine(t *testing.T, w way, i incident) *regexp.Regexp {
	if w.name == "local" {
		switch {
		case strings.HasSuffix(i.name, " launcher"):
			return regexp.MustCompile("^" + i.cause + "$") // no rank is to blame
		case i.name == "exit 3 before":
			i.rank, i.cause = 1, left
		}
	}
	rank, host := `\d`, `\S+`
	if i.rank >= 0 {
		rank, host = fmt.Sprint(i.rank), regexp.QuoteMeta(nameOf(t, w, i.rank, ranks))
	}
	return regexp.MustCompile(fmt.Sprintf("^rank %s on %s, phase %s: %s$", rank, host, i.phase, i.cause))
}

// mayEndRank0 reports whether rank 0, which writes the result, may be killed before it does. Its journal is left then.
func mayEndRank0(w way, i incident) bool {
	return i.name == "kill rank 0" && w.name != "local" || i.launcherKills != nil && i.launcherKills(w)
}

// checkResult proves that what is left is a valid partial result, or nothing.
func checkResult(t *testing.T, w way, i incident, dir string) {
	t.Helper()
	for _, name := range slices.Concat(harness.Names(dir), harness.Names(filepath.Join(dir, "full"))) {
		known := []string{"full", "x", "filler"}
		if !i.noResult {
			known = append(known, "r.json")
		}
		if mayEndRank0(w, i) {
			known = append(known, "r.json"+result.PartEnding)
		}
		if !slices.Contains(known, name) {
			t.Errorf("%s is left behind", name)
		}
	}
	if i.noResult {
		return
	}
	doc := resulttest.Check(t, filepath.Join(dir, "r.json"))
	if doc.Status != result.Partial || len(doc.Measurements) != 1 {
		t.Errorf("status %s with %d measurements, want a partial result with one", doc.Status, len(doc.Measurements))
	}
	f := doc.Failure
	if f == nil {
		if !mayEndRank0(w, i) {
			t.Error("the partial result does not say why it is one")
		}
		return
	}
	if i.launcherKills != nil && i.launcherKills(w) && i.kind == fault.Interrupt {
		return
	}
	if f.Kind != i.kind || i.rank >= 0 && f.Rank != i.rank || f.Rank >= 0 && f.Phase != i.phase || f.Cause == "" {
		t.Errorf("failure %+v, want kind %d of rank %d in phase %s", *f, i.kind, i.rank, i.phase)
	}
}
