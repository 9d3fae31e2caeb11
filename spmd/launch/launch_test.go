package launch_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/spmd"
	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
	"perigee/spmd/launch"
	"perigee/spmd/spmdtest"
)

// The test's binary is also the program that it starts: as a rank, which does
// what envRole says, or as a launcher in a separate process.
const (
	envRole  = "LAUNCH_TEST_ROLE"
	envMark  = "LAUNCH_TEST_MARK" // by which processes left behind are found
	envHosts = "LAUNCH_TEST_HOSTS"
	launcher = "launcher "
)

const culprit = 2

// What ends within soon, however busy the machine, has not been ended by the launcher
// after grace.
const (
	soon  = time.Minute
	grace = 3 * time.Minute
)

func TestMain(m *testing.M) {
	role, other := os.LookupEnv(envRole)
	switch {
	case strings.HasPrefix(role, launcher):
		os.Exit(launcherMain(strings.TrimPrefix(role, launcher)))
	case other:
		os.Exit(rankMain(role))
	}
	goleak.VerifyTestMain(m)
}

// job describes n ranks of a role.
func job(t testing.TB, n int, role string) launch.LocalJob {
	t.Helper()
	mark := fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())
	t.Cleanup(func() {
		if left := marked(mark); len(left) > 0 {
			t.Errorf("left behind: processes %v", left)
		}
	})
	self, err := os.Executable()
	must.Do(t, err)
	return launch.LocalJob{Ranks: n, Path: self, Env: append(os.Environ(), envRole+"="+role, envMark+"="+mark,
		"GORACE=atexit_sleep_ms=0")} // or every rank would take a second to end
}

// marked finds the living processes whose environment has the mark.
func marked(mark string) []string {
	var left []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		env, err := os.ReadFile(d + "/environ") // empty for a zombie
		if err == nil && bytes.Contains(env, []byte(envMark+"="+mark+"\x00")) {
			left = append(left, filepath.Base(d))
		}
	}
	return left
}

// start runs a job and returns what it printed and how it ended. After a failure its
// ranks must end by themselves, unless the job says otherwise.
func start(t testing.TB, ctx context.Context, j launch.LocalJob) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	j.Stdout, j.Grace = &out, cmp.Or(j.Grace, grace)
	if j.Stderr == nil {
		j.Stderr = &errOut
	}
	failed := make(chan time.Time, 1)
	j.Failed = func(watch.Failure) { failed <- time.Now() }
	err = launch.Run(ctx, j)
	select {
	case at := <-failed:
		if d := time.Since(at); d > soon {
			t.Errorf("took %v to end after the failure", d)
		}
	default:
	}
	return out.String(), errOut.String(), err
}

// rankMain is a rank. Its role is what the culprit does, at which point, and
// what the others do meanwhile.
func rankMain(role string) int {
	rank, _ := strconv.Atoi(os.Getenv(boot.EnvRank))
	what := strings.Fields(role)
	if plain, ok := plainRoles[what[0]]; ok {
		return plain(rank)
	}
	deed, point, meanwhile := what[0], what[1], what[2]
	if rank == culprit && point == "first" {
		misbehave(deed, nil)
	}
	p, err := boot.Join(context.Background(), os.LookupEnv, boot.Watcher{})
	if err != nil {
		return complain(err)
	}
	if rank == culprit && point == "connected" {
		misbehave(deed, nil)
	}
	if rank == culprit && point == "hello" {
		p.Put(context.Background(), nil)
		if err := p.Fence(context.Background()); err != nil {
			return complain(err)
		}
		misbehave(deed, nil)
	}
	w, err := spmd.Join(context.Background(), p, spmd.Options{})
	if err != nil {
		return complain(err)
	}
	w.Phase("measure")
	if rank == culprit {
		err = misbehave(deed, w)
	} else {
		err = pass(meanwhile, w)
	}
	if err != nil {
		err = w.Fail(err)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return complain(err)
	}
	return 0
}

func TestEveryBadEndIsReported(t *testing.T) {
	const vanished = "its process exited with code 0 before the job was over"
	host, _ := os.Hostname()
	for role, want := range map[string]struct {
		phase, cause string
		kind         fault.Kind
	}{
		"exit0 first barrier":    {"start", vanished, fault.RankLost},
		"exit3 first barrier":    {"start", "its process exited with code 3", fault.RankLost},
		"kill connected barrier": {"start", "killed by signal 9 (SIGKILL)", fault.RankLost},
		"exit3 hello barrier":    {"start", "its process exited with code 3", fault.RankLost},
		"kill measure barrier":   {"measure", "killed by signal 9 (SIGKILL)", fault.RankLost},
		"kill measure gather":    {"measure", "killed by signal 9 (SIGKILL)", fault.RankLost},
		"kill measure busy":      {"measure", "killed by signal 9 (SIGKILL)", fault.RankLost},
		"exit3 measure gather":   {"measure", "its process exited with code 3", fault.RankLost},
		"exit0 measure barrier":  {"measure", vanished, fault.RankLost},
		"panic measure barrier":  {"measure", "its process exited with code 2", fault.RankLost},
		"fail measure barrier":   {"measure", "bytes differ", fault.Corrupt},
		"fail measure gather":    {"measure", "bytes differ", fault.Corrupt},
		"kill measure stopped":   {"measure", "killed by signal 9 (SIGKILL)", fault.RankLost},
		"fail measure deaf":      {"measure", "bytes differ", fault.Corrupt},
	} {
		t.Run(strings.ReplaceAll(role, " ", "-"), func(t *testing.T) {
			j := job(t, 4, role)
			expect := 3
			words := &watched{word: "heard: ", seen: make(chan struct{})}
			j.Stderr = words
			if strings.HasSuffix(role, "stopped") || strings.HasSuffix(role, "deaf") {
				expect--                                       // rank 1 does not end by itself,
				words.n = expect + strings.Count(role, "fail") // and is waited for until all others have
				j.Hurry = words.seen
			}
			_, _, err := start(t, t.Context(), j)
			f, ok := err.(watch.Failure)
			if !ok || f.Rank != culprit || f.Host != host || f.Phase != want.phase || !strings.Contains(f.Cause, want.cause) || f.Kind != want.kind {
				t.Errorf("got %#v\nwant rank %d on %s, phase %s: %s", err, culprit, host, want.phase, want.cause)
			}
			if want.kind == fault.Corrupt && f.Hint != "look" {
				t.Errorf("hint %q", f.Hint)
			}
			// The others have heard of this and of nothing else.
			others := 0
			for line := range strings.Lines(words.String()) {
				if strings.Contains(line, "heard: ") && !strings.HasPrefix(line, "[2] ") {
					others++
					if !strings.Contains(line, fmt.Sprintf("rank %d on %s, phase %s: ", culprit, host, want.phase)) {
						t.Errorf("another story: %s", line)
					}
				}
			}
			if others != expect {
				t.Errorf("%d of %d other ranks ended by themselves:\n%s", others, expect, words)
			}
		})
	}
}

// A rank that does not end by itself, and would not ever, is killed.
func TestGrace(t *testing.T) {
	j := job(t, 3, "fail measure deaf")
	j.Grace = 100 * time.Millisecond
	if _, _, err := start(t, t.Context(), j); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("got %v", err)
	}
}

// A rank 0 that says that it writes the result has more time.
func TestStoringGrace(t *testing.T) {
	j := job(t, 4, "fail measure storing")
	j.Grace = 500 * time.Millisecond
	if out, _, err := start(t, t.Context(), j); fault.KindOf(err) != fault.Corrupt || !strings.Contains(out, "stored\n") {
		t.Errorf("got %v, printed %q", err, out)
	}
}

func TestAllEndsWell(t *testing.T) {
	out, stderr, err := start(t, t.Context(), job(t, 4, "collect"))
	if err != nil || stderr != "" {
		t.Fatalf("%v\n%s", err, stderr)
	}
	if want := "collected [0 1 2 3]\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

func TestCancelledBeforeTheStart(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fault.New(fault.Interrupt, "interrupted by the user"))
	_, _, err := start(t, ctx, job(t, 3, "collect"))
	if f, ok := err.(watch.Failure); !ok || f.Rank != -1 || f.Kind != fault.Interrupt || f.Cause != "interrupted by the user" {
		t.Errorf("got %#v", err)
	}
}

func TestCannotStart(t *testing.T) {
	j := job(t, 3, "collect")
	j.Path = "/nonexistent/program"
	_, _, err := start(t, t.Context(), j)
	must.Fail(t, err, fault.Launch, "cannot start rank 0 of 3")
	for _, n := range []int{0, -1, launch.MaxRanks + 1} {
		if err := launch.Run(t.Context(), launch.LocalJob{Ranks: n}); fault.KindOf(err) != fault.Usage {
			t.Errorf("%d ranks: %v", n, err)
		}
	}
}

// A program that knows nothing of perigee.
func TestForeignProgram(t *testing.T) {
	j := job(t, 2, "")
	j.Path = "/bin/true"
	_, _, err := start(t, t.Context(), j)
	must.Fail(t, err, fault.RankLost, "exited with code 0 before the job was over")
}

func TestNothingStaysOpen(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		must.Do(t, err)
		return len(entries)
	}
	start(t, t.Context(), job(t, 3, "collect")) // opens what Go keeps for itself
	before := count()
	for _, role := range []string{"collect", "kill measure barrier", "talk"} {
		start(t, t.Context(), job(t, 3, role))
	}
	runtime.GC()
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// plainRoles know nothing of a culprit. They return the exit code.
var plainRoles = map[string]func(rank int) int{
	"collect": func(rank int) int {
		return inWorld(func(w *spmd.World) error {
			all, err := spmd.GatherValue(w.All(), 0, rank)
			if rank == 0 {
				fmt.Println("collected", all)
			}
			maps, _ := os.ReadFile("/proc/self/maps")
			if bytes.Contains(maps, []byte("/dev/shm/")) {
				return errors.New("memory with a name")
			}
			return err
		})
	},
	"talk": func(rank int) int {
		return inWorld(func(w *spmd.World) error {
			for i := range 100 {
				fmt.Printf("out %d of %d\n", i, rank)
				fmt.Fprintf(os.Stderr, "err %d of %d\n", i, rank)
			}
			if rank == 0 { // others' lines would stand amidst its
				return nil
			}
			fmt.Printf("\n%s\nwindows\r\n", strings.Repeat("x", 200_000))
			for range 10 {
				fmt.Print(".")
			}
			return nil
		})
	},
	"read": func(rank int) int {
		in, err := io.ReadAll(os.Stdin)
		if err != nil || len(in) > 0 {
			fmt.Printf("rank %d read %q, %v\n", rank, in, err)
			return 1
		}
		return inWorld(func(*spmd.World) error { return nil })
	},
	"leave-child": func(rank int) int {
		child := exec.Command("sleep", fmt.Sprint(grace.Seconds()))
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			return 1
		}
		return inWorld(func(*spmd.World) error { return nil })
	},
	"wait": func(rank int) int {
		return inWorld(func(w *spmd.World) error {
			fmt.Println("waiting")
			if rank == 0 {
				<-w.Context().Done()
				return w.Err()
			}
			return w.All().Barrier()
		})
	},
	"meet": func(int) int { return inWorld(meet) },
}

func inWorld(body func(w *spmd.World) error) int {
	p, err := boot.Join(context.Background(), os.LookupEnv, boot.Watcher{})
	if err != nil {
		return complain(err)
	}
	opts := spmd.Options{Timeout: 20 * time.Second}
	if hosts := strings.Fields(os.Getenv(envHosts)); len(hosts) > 0 {
		opts.HostID = hosts[p.Rank]
	}
	w, err := spmd.Join(context.Background(), p, opts)
	if err != nil {
		return complain(err)
	}
	if err := body(w); err != nil {
		err = w.Fail(err)
		w.Close()
		return complain(err)
	}
	if err := w.Close(); err != nil {
		return complain(err)
	}
	return 0
}

func TestOutputIsLabelledByLine(t *testing.T) {
	stdout, stderr, err := start(t, t.Context(), job(t, 3, "talk"))
	must.Do(t, err)
	for rank := range 3 {
		label := ""
		if rank > 0 {
			label = fmt.Sprintf("[%d] ", rank)
		}
		var want strings.Builder
		for i := range 100 {
			fmt.Fprintf(&want, "%serr %d of %d\n", label, i, rank)
		}
		if got := linesOf(stderr, label); got != want.String() {
			t.Errorf("rank %d: stderr\n%s\nwant\n%s", rank, got, want.String())
		}
		if rank == 0 {
			continue // raw, see below
		}
		want.Reset()
		for i := range 100 {
			fmt.Fprintf(&want, "%sout %d of %d\n", label, i, rank)
		}
		want.WriteString(label + "\n")
		for left := 200_000; left > 0; left -= 64 << 10 {
			want.WriteString(label + strings.Repeat("x", min(left, 64<<10)) + "\n")
		}
		want.WriteString(label + "windows\r\n" + label + "..........\n")
		if got := linesOf(stdout, label); got != want.String() {
			t.Errorf("rank %d: stdout of %d bytes, want %d:\n%.3000s", rank, len(got), want.Len(), got)
		}
	}
	if n := strings.Count(stdout, " of 0\n"); n != 100 {
		t.Errorf("%d of rank 0's 100 lines", n)
	}
}

// linesOf returns the lines that begin with a label; "" means without any.
func linesOf(text, label string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, label) && (label != "" || line[0] != '[') {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestRankZeroWritesStraightToAFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must.Do(t, err)
	defer f.Close()
	j := job(t, 1, "talk")
	j.Stdout = f
	must.Do(t, launch.Run(t.Context(), j))
	text, err := os.ReadFile(f.Name())
	if err != nil || !bytes.HasPrefix(text, []byte("out 0 of 0\nout 1 of 0\n")) || !bytes.HasSuffix(text, []byte("out 99 of 0\n")) {
		t.Errorf("%v: %.100q", err, text)
	}
}

func TestChildrenOfRanksEndWithThem(t *testing.T) {
	before := time.Now()
	if _, _, err := start(t, t.Context(), job(t, 2, "leave-child")); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(before); d > soon {
		t.Errorf("a forgotten child held the job for %v", d)
	}
}

// launcherMain is `perigee run` in small: signals end the job.
func launcherMain(role string) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	go func() {
		s := <-signals
		cancel(fault.New(fault.Interrupt, "the job was told to end by %v", s))
	}()
	n, role, _ := strings.Cut(role, " ")
	ranks, _ := strconv.Atoi(n)
	if role == "limited" {
		limitThreads()
	}
	self, _ := os.Executable()
	err := launch.Run(ctx, launch.LocalJob{Ranks: ranks, Path: self, Env: append(os.Environ(), envRole+"="+role), Stdout: os.Stdout, Stderr: os.Stderr, Grace: grace})
	if err != nil {
		fmt.Fprintln(os.Stderr, "launcher:", err)
		return int(fault.KindOf(err))
	}
	rest, _ := io.ReadAll(os.Stdin)
	fmt.Printf("stdin: %q\n", rest)
	return 0
}

// launcherProcess prepares a launcher with its own process group, as a
// shell with job control does.
func launcherProcess(t *testing.T, ranks int, role string) *exec.Cmd {
	t.Helper()
	j := job(t, ranks, fmt.Sprint(launcher, ranks, " ", role))
	cmd := exec.Command(j.Path)
	cmd.Env = j.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func TestRanksDoNotEatTheLaunchersStdin(t *testing.T) {
	cmd := launcherProcess(t, 3, "read")
	cmd.Stdin = strings.NewReader("for the launcher\n")
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "stdin: \"for the launcher\\n\"\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// watched collects output and signals when a text has come n times.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	word string
	n    int
	seen chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Count(w.text.String(), w.word)
	w.text.Write(p)
	if before < w.n && strings.Count(w.text.String(), w.word) >= w.n {
		close(w.seen)
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// startWaiting starts a launcher whose ranks all wait in a barrier for one
// that does not come.
func startWaiting(t *testing.T, ranks int) (*exec.Cmd, *watched) {
	t.Helper()
	cmd := launcherProcess(t, ranks, "wait")
	out := &watched{word: "waiting\n", n: ranks, seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 5 * time.Second
	must.Do(t, cmd.Start())
	select {
	case <-out.seen:
	case <-time.After(spmdtest.Patience):
		cmd.Process.Kill()
		t.Fatalf("the ranks did not meet:\n%s", out)
	}
	return cmd, out
}

// A Ctrl-C goes to the whole group of the terminal.
func TestCtrlC(t *testing.T) {
	cmd, out := startWaiting(t, 4)
	before := time.Now()
	unix.Kill(-cmd.Process.Pid, unix.SIGINT)
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != int(fault.Interrupt) {
		t.Errorf("got %v", err)
	}
	if d := time.Since(before); d > soon {
		t.Errorf("took %v", d)
	}
	if n := strings.Count(out.String(), "heard: the job was told to end by interrupt"); n != 4 {
		t.Errorf("%d of 4 ranks ended in good order:\n%s", n, out)
	}
}

func TestRanksDoNotOutliveTheirLauncher(t *testing.T) {
	cmd, out := startWaiting(t, 4)
	mark := ""
	for _, v := range cmd.Env {
		if m, ok := strings.CutPrefix(v, envMark+"="); ok {
			mark = m
		}
	}
	if n := len(marked(mark)); n != 5 {
		t.Errorf("%d processes, want launcher and 4 ranks", n)
	}
	cmd.Process.Kill()
	before := time.Now()
	for len(marked(mark)) > 0 {
		if time.Since(before) > soon {
			t.Fatalf("still there: processes %v", marked(mark))
		}
		time.Sleep(5 * time.Millisecond)
	}
	cmd.Wait()
	if !strings.Contains(out.String(), "heard: lost the connection to the launcher") { // from rank 0, whose output is its own
		t.Errorf("no rank said why:\n%s", out)
	}
}

func TestWorldOfProcesses(t *testing.T) {
	for name, hosts := range map[string]string{
		"8 ranks on 1 host":            "a a a a a a a a",
		"2 hosts x 3 ranks":            "a a a b b b",
		"2 hosts, ranks in turn":       "a b a b a b",
		"3 hosts, one with one rank":   "a b b c a c",
		"each rank has a host":         "a b c d",
		"rank 0 is alone on its host":  "a b b b b",
		"the last rank shares with it": "a b b b a",
	} {
		t.Run(name, func(t *testing.T) {
			j := job(t, len(strings.Fields(hosts)), "meet")
			j.Env = append(j.Env, envHosts+"="+hosts)
			if _, stderr, err := start(t, t.Context(), j); err != nil {
				t.Errorf("%v\n%s", err, stderr)
			}
		})
	}
}

// meet tries groups of all shapes and reports what is not as it should be.
func meet(w *spmd.World) error {
	n := w.Size()
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	reversed := slices.Clone(all)
	slices.Reverse(reversed)
	var even, odd []int
	for _, r := range all {
		if r%2 == 0 {
			even = append(even, r)
		} else {
			odd = append(odd, r)
		}
	}
	groups := [][]int{all, reversed, even, odd, {0, n - 1}, {n - 1, 1, 0}, all[:n/2], all[n/2:], {1}}
	for round := range 3 {
		for _, ranks := range groups {
			if !slices.Contains(ranks, w.Rank()) {
				continue
			}
			if err := meetIn(w, ranks, round); err != nil {
				return fmt.Errorf("group %v, round %d: %w", ranks, round, err)
			}
		}
	}
	return checkClocks(w)
}

// meetIn mixes barriers with other collectives, and proves by time stamps that
// no rank left a barrier before all had come.
func meetIn(w *spmd.World, ranks []int, round int) error {
	g, err := w.Group(ranks)
	if err != nil {
		return err
	}
	type visit struct{ Come, Go int64 }
	for i := range 20 {
		if (w.Rank()+i+round)%3 == 0 {
			time.Sleep(time.Duration((w.Rank()*7+i*13)%40) * 10 * time.Microsecond) // come late at times
		}
		v := visit{Come: clock.Now()}
		if err := g.Barrier(); err != nil {
			return err
		}
		v.Go = clock.Now()
		if i%5 != 0 {
			continue
		}
		visits, err := spmd.AllGatherValue(g, v)
		if err != nil {
			return err
		}
		for a, x := range visits {
			for b, y := range visits {
				if x.Go+calibration < y.Come {
					return fmt.Errorf("rank %d left %d ns before rank %d came", ranks[a], y.Come-x.Go, ranks[b])
				}
			}
		}
	}
	sums, err := spmd.AllReduce(g, []int{w.Rank()}, spmd.Sum)
	if err != nil {
		return err
	}
	want := 0
	for _, r := range ranks {
		want += r
	}
	if sums[0] != want {
		return fmt.Errorf("sum %d, want %d", sums[0], want)
	}
	return g.Barrier()
}

// calibration is what two processes' ideas of the same clock may differ by, in nanoseconds.
const calibration = 5_000

// checkClocks uses that the simulated hosts have one clock: no offset may be
// larger than its uncertainty admits.
func checkClocks(w *spmd.World) error {
	offsets := w.Clocks()
	if len(offsets) != len(w.Hosts()) {
		return fmt.Errorf("%d offsets for %d hosts", len(offsets), len(w.Hosts()))
	}
	if offsets[0] != (spmd.ClockState{}) {
		return fmt.Errorf("rank 0's clock is off itself by %+v", offsets[0])
	}
	for h, o := range offsets[1:] {
		if max(o.OffsetNS, -o.OffsetNS) > o.UncertaintyNS+calibration || o.UncertaintyNS <= 0 {
			return fmt.Errorf("clock of host %d: %+v", h+1, o)
		}
		there := w.Hosts()[h+1].Ranks
		if got := w.Uncertainty([]int{0, there[0]}); got != o.UncertaintyNS {
			return fmt.Errorf("uncertainty between hosts 0 and %d is %d, want %d", h+1, got, o.UncertaintyNS)
		}
		if got := w.Uncertainty(there); got != 0 {
			return fmt.Errorf("uncertainty inside host %d is %d", h+1, got)
		}
	}
	return nil
}
