package ancestry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair is what the launcher of these tests gives to its rank.
var pair = []string{"PERIGEE_TEST_RANK=3"}

// family starts a launcher, a shell between the two if wrapped, and a rank, and returns their process numbers.
func family(t *testing.T, wrapped bool) (launcher, wrapper, rank int) {
	t.Helper()
	if !wrapped {
		return familyOf(t, "PERIGEE_TEST_RANK=3 sleep 1000 & echo 0 $! >$0.new; mv $0.new $0; sleep 1000")
	}
	return familyOf(t, `PERIGEE_TEST_RANK=3 sh -c 'sleep 1000 & echo $$ $! >$0.new; mv $0.new $0; wait' $0; sleep 1000`)
}

// familyOf is family for the script of a launcher, which writes the numbers of the other two.
func familyOf(t *testing.T, script string) (launcher, wrapper, rank int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	// nohup and shells may have had these tests ignore signals.
	cmd := exec.Command("env", "--default-signal=HUP,INT,QUIT", "sh", "-c", script, file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	var data []byte
	for deadline := time.Now().Add(20 * time.Second); len(data) == 0; time.Sleep(time.Millisecond) {
		if data, _ = os.ReadFile(file); time.Now().After(deadline) {
			t.Fatal("the processes do not start")
		}
	}
	fields := strings.Fields(string(data))
	wrapper, _ = strconv.Atoi(fields[0])
	rank, _ = strconv.Atoi(fields[1])
	// Before exec the rank is still a copy of the shell.
	for deadline := time.Now().Add(20 * time.Second); nameOf("/proc", rank) != "sleep"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the rank does not start")
		}
	}
	return cmd.Process.Pid, wrapper, rank
}

// onBoth runs a test with pidfds, and as on a kernel without them.
func onBoth(t *testing.T, test func(t *testing.T)) {
	t.Run("pidfd", test)
	t.Run("no pidfd", func(t *testing.T) {
		pidfdOpen = func(int, int) (int, error) { return -1, unix.ENOSYS }
		defer func() { pidfdOpen = unix.PidfdOpen }()
		test(t)
	})
}

func TestEndOfTheLauncher(t *testing.T) {
	onBoth(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			wrapped bool
			kill    string // of l launcher, w wrapper; . lets some time pass
			orphan  bool
		}{
			"child":                         {false, "l", true},
			"grandchild":                    {true, "l", true},
			"detached":                      {true, "w", false},
			"detached, then without parent": {true, "w.l", false},
		} {
			launcher, wrapper, rank := family(t, c.wrapped)
			l, err := find("/proc", rank, pair, ignoredBy("/proc", rank))
			if err != nil || l == nil || l.PID != launcher || len(l.between) > 0 != c.wrapped {
				t.Fatalf("%s: found %+v, %v; want launcher %d", name, l, err, launcher)
			}
			if want := "sh (process " + strconv.Itoa(launcher) + ")"; l.String() != want {
				t.Errorf("%s: %s, want %s", name, l, want)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			over := make(chan bool, 1)
			go func() {
				p, orphan := l.Wait(ctx)
				over <- orphan && p.PID == launcher
			}()
			for _, k := range c.kill {
				switch k {
				case 'l':
					syscall.Kill(launcher, syscall.SIGKILL)
				case 'w':
					syscall.Kill(wrapper, syscall.SIGKILL)
				default:
					if <-over {
						t.Errorf("%s: an orphan while the launcher was alive", name)
					}
					over <- false
				}
			}
			if orphan := <-over; orphan != c.orphan || ctx.Err() != nil {
				t.Errorf("%s: orphan %v, want %v; %v", name, orphan, c.orphan, ctx.Err())
			}
			cancel()
			l.Close()
		}
	})
}

// What ends first of two that have both ended cannot be known.
func TestEndOfBoth(t *testing.T) {
	onBoth(t, func(t *testing.T) {
		launcher, wrapper, rank := family(t, true)
		l, err := find("/proc", rank, pair, ignoredBy("/proc", rank))
		if err != nil || l == nil {
			t.Fatal(l, err)
		}
		defer l.Close()
		syscall.Kill(launcher, syscall.SIGKILL)
		syscall.Kill(wrapper, syscall.SIGKILL)
		for !l.handle.ended() || !l.between[0].ended() {
			time.Sleep(time.Millisecond)
		}
		if _, orphan := l.Wait(t.Context()); orphan {
			t.Error("taken for an orphan")
		}
	})
}

// session starts a rank with its own session, behind a shell that is busy instead of waiting.
const (
	session = "env --default-signal=INT,QUIT setsid sleep 1000 &"
	busy    = "wait() { while :; do :; done; }; "
)

// seeWaiting has a launcher see that its ancestors wait, which they do soon after they have started the rank.
func seeWaiting(t *testing.T, l *Launcher) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); len(l.forkers) > 0; time.Sleep(time.Millisecond) {
		if l.lookAtForkers(); time.Now().After(deadline) {
			t.Fatalf("%v do not wait", l.forkers)
		}
	}
}

// A rank that was not started in the background ends with the script that would wait for it, since launchers end those.
func TestEndBetween(t *testing.T) {
	onBoth(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			start  string // of the rank, by the wrapper
			kill   string // of l launcher, w wrapper; . stands for the time that setsid -f may take
			orphan string // of which process
		}{
			"wrapper":                 {"set -m; sleep 1000 &", "w", "bash"},
			"wrapper and others":      {"set -m; sleep 1000 &", "wl", "sh"},
			"launcher":                {"set -m; sleep 1000 &", "l", "sh"},
			"SIGHUP is ignored":       {"set -m; (trap '' HUP; exec sleep 1000) &", "w", ""},
			"SIGTERM is ignored":      {"set -m; (trap '' TERM; exec sleep 1000) &", "w", "bash"},
			"the script ignores it":   {"set -m; trap '' HUP; sleep 1000 &", "w", ""},
			"the launcher ignores it": {"launcher set -m; sleep 1000 &", "w", "bash"},
			"SIGINT, as a shell's":    {"sleep 1000 &", "w", ""},
			"a session":               {session, "w", "bash"},
			"a session and others":    {session, "wl", "sh"},
			"a session, no wait":      {busy + session, "w", ""},
			"a session, later":        {busy + session, ".w", "bash"},
			"a session, the launcher": {busy + session, "l", "sh"},
		} {
			start, byLauncher := strings.CutPrefix(c.start, "launcher ")
			before := ""
			if byLauncher {
				before = "trap '' HUP; "
			}
			launcher, wrapper, rank := familyOf(t, before+`PERIGEE_TEST_RANK=3 bash -c '`+strings.ReplaceAll(start, "'", `'\''`)+` echo $$ $! >$0.new; mv $0.new $0; wait' $0; sleep 1000`)
			l, err := find("/proc", rank, pair, ignoredBy("/proc", rank))
			if err != nil || l == nil || l.PID != launcher || len(l.between) != 1 || l.between[0].PID != wrapper {
				t.Fatalf("%s: %+v, %v", name, l, err)
			}
			if !strings.HasPrefix(c.start, busy) {
				seeWaiting(t, l)
			}
			kill, late := strings.CutPrefix(c.kill, ".")
			if l.since = time.Now(); late {
				l.since = l.since.Add(-forking)
			}
			for _, k := range kill {
				syscall.Kill(map[rune]int{'w': wrapper, 'l': launcher}[k], syscall.SIGKILL)
			}
			p, orphan := l.Wait(t.Context())
			if orphan != (c.orphan != "") || orphan && p.Name != c.orphan || l.Below(p) != (p.PID == wrapper) {
				t.Errorf("%s: %v, orphan %v; want %q", name, p, orphan, c.orphan)
			}
			l.Close()
		}
	})
}

// Without pidfds the end of what detaches a rank by its own session is noticed when it may be long ago.
func TestEndBetweenDuringWait(t *testing.T) {
	onBoth(t, func(t *testing.T) {
		for first, orphaned := range map[string]bool{"wrapper": false, "launcher": true} {
			launcher, wrapper, rank := familyOf(t, `PERIGEE_TEST_RANK=3 bash -c '`+busy+session+` echo $$ $! >$0.new; mv $0.new $0; wait' $0; sleep 1000`)
			l, err := find("/proc", rank, pair, ignoredBy("/proc", rank))
			if err != nil || l == nil || len(l.between) != 1 {
				t.Fatalf("%+v, %v", l, err)
			}
			l.since = time.Now()
			done := make(chan time.Duration)
			go func() {
				pause := 10 * lookEach // until it is seen
				if time.Sleep(pause); first == "launcher" {
					syscall.Kill(launcher, syscall.SIGKILL)
					time.Sleep(pause)
				}
				syscall.Kill(wrapper, syscall.SIGKILL)
				done <- time.Since(l.since)
			}()
			if p, orphan := l.Wait(t.Context()); orphan != orphaned {
				if late := <-done; late > forking*3/4 {
					t.Skipf("this machine is busy: %v", late)
				}
				t.Errorf("%s ends first: %v, orphan %v", first, p, orphan)
			} else {
				<-done
			}
			l.Close()
		}
	})
}

// What waits for a process that detaches the rank may end right behind it.
func TestEndOfACaller(t *testing.T) {
	for range 5 {
		_, starter, rank := familyOf(t, `export F=$0 S='`+session+` echo $$ $! >$F.new; mv $F.new $F; while :; do :; done'
PERIGEE_TEST_RANK=3 bash -c 'bash -c "$S"; sleep 1000'; sleep 1000`)
		l, err := find("/proc", rank, pair, 0)
		if err != nil || l == nil || len(l.between) != 2 || l.between[0].PID != starter {
			t.Fatalf("%+v, %v", l, err)
		}
		for _, w := range l.between {
			syscall.Kill(w.PID, syscall.SIGKILL)
		}
		for slices.ContainsFunc(l.between, func(w watched) bool { return !w.ended() }) {
			time.Sleep(time.Millisecond)
		}
		l.since = time.Now() // however busy this machine is
		if p, orphan := l.Wait(t.Context()); orphan {
			t.Errorf("orphan of %v", p)
		}
		l.Close()
	}
}

// underSubreaper finds the launcher of a rank that a script starts below this test program, which asks for what the
// script leaves. wrapper is the nearest of the processes between the two.
func underSubreaper(t *testing.T, script string, between int) (l *Launcher, wrapper int) {
	t.Helper()
	t.Setenv("PERIGEE_TEST_SCRIPT", script)
	launcher, wrapper, rank := familyOf(t, `PERIGEE_TEST_RANK=3 PERIGEE_TEST_SUBREAPER=$0 `+os.Args[0]+
		` -test.run '^TestSubreaper$'; sleep 1000`)
	l, err := find("/proc", rank, pair, ignoredBy("/proc", rank))
	if err != nil || l == nil || l.PID != launcher || len(l.between) != between || l.apart {
		t.Fatalf("%+v, %v", l, err)
	}
	t.Cleanup(l.Close)
	return l, wrapper
}

// A process in between that asks for what is below it waits for that, too.
func TestSubreaper(t *testing.T) {
	if file := os.Getenv("PERIGEE_TEST_SUBREAPER"); file != "" {
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
		exec.Command("bash", "-c", os.Getenv("PERIGEE_TEST_SCRIPT"), file).Run()
		time.Sleep(time.Hour)
	}
	l, wrapper := underSubreaper(t, "set -m; sleep 1000 & echo $$ $! >$0.new; mv $0.new $0; wait", 2)
	syscall.Kill(wrapper, syscall.SIGKILL)
	ctx, cancel := context.WithTimeout(t.Context(), reprieve+500*time.Millisecond)
	defer cancel()
	if p, orphan := l.Wait(ctx); orphan {
		t.Errorf("orphan of %v", p)
	}
	syscall.Kill(l.between[1].PID, syscall.SIGKILL)
	for !l.between[1].ended() {
		time.Sleep(time.Millisecond)
	}
	if p, orphan := l.Wait(t.Context()); !orphan {
		t.Errorf("%v is no orphan", p)
	}
}

// So it does when a script ends whose own script has ended right before it.
func TestSubreaperOfTwo(t *testing.T) {
	l, wrapper := underSubreaper(t, `bash -c 'set -m; sleep 1000 & echo $$ $! >$0.new; mv $0.new $0; wait' $0; sleep 1000`, 3)
	time.AfterFunc(10*time.Millisecond, func() {
		syscall.Kill(wrapper, syscall.SIGKILL)
		for { // until the outer one has waited for it
			if _, err := statOf("/proc", wrapper); err != nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		syscall.Kill(l.between[1].PID, syscall.SIGKILL)
	})
	ctx, cancel := context.WithTimeout(t.Context(), reprieve+500*time.Millisecond)
	defer cancel()
	if p, orphan := l.Wait(ctx); orphan {
		t.Errorf("orphan of %v", p)
	}
}

// Where /proc does not show the processes of other users, and there are no pidfds, slurmstepd is known by its number.
func TestHidden(t *testing.T) {
	pidfdOpen = func(int, int) (int, error) { return -1, unix.EPERM }
	defer func(old func() bool) { pidfdOpen, inFirstNamespace = unix.PidfdOpen, old }(inFirstNamespace)
	inFirstNamespace = func() bool { return true } // wherever the test runs
	for _, shown := range []bool{true, false} {    // the rank itself, at the launcher's end
		launcher := exec.Command("sleep", "1000")
		if err := launcher.Start(); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		rank := func(parent int) {
			os.MkdirAll(filepath.Join(dir, "7"), 0o700)
			os.WriteFile(filepath.Join(dir, "7", "stat"),
				fmt.Appendf(nil, "7 (x) S %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4711 0 0\n", parent), 0o600)
		}
		rank(launcher.Process.Pid)
		l, err := find(dir, 7, pair, 0)
		if err != nil || l == nil || l.PID != launcher.Process.Pid {
			t.Fatalf("%v, %v, want process %d", l, err, launcher.Process.Pid)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if p, orphan := l.Wait(ctx); orphan {
			t.Errorf("the launcher lives, but %v has ended", p)
		}
		cancel()
		if shown {
			rank(1)
		} else {
			os.RemoveAll(filepath.Join(dir, "7"))
		}
		launcher.Process.Kill()
		launcher.Wait()
		if p, orphan := l.Wait(t.Context()); !orphan || p.PID != launcher.Process.Pid {
			t.Errorf("the rank is shown: %v; got %v, %v", shown, p, orphan)
		}
		if l, err := find(dir, 7, pair, 0); l != nil || shown && err != nil {
			t.Errorf("the rank is shown: %v; found %v, %v", shown, l, err)
		}
	}
}

func TestLeadsSession(t *testing.T) {
	for _, setsid := range []bool{false, true} {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: setsid}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if got := leadsSession("/proc", cmd.Process.Pid); got != setsid {
			t.Errorf("own session %v: leads it %v", setsid, got)
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
}

// A launcher that ends because what has started it has ended takes a wrapper along.
func TestEndOfTheStarter(t *testing.T) {
	onBoth(t, func(t *testing.T) {
		for _, kill := range []string{"both", "wrapper"} {
			launcher, wrapper, rank := family(t, true)
			l, err := find("/proc", rank, pair, ignoredBy("/proc", rank))
			if err != nil || l == nil {
				t.Fatal(l, err)
			}
			starter := exec.Command("sleep", "1000")
			if err := starter.Start(); err != nil {
				t.Fatal(err)
			}
			l.starter.PID = starter.Process.Pid
			if l.starter.handle, err = hold("/proc", starter.Process.Pid); err != nil {
				t.Fatal(err)
			}
			starter.Process.Kill()
			starter.Wait()
			syscall.Kill(wrapper, syscall.SIGKILL)
			if kill == "both" {
				syscall.Kill(launcher, syscall.SIGKILL)
			}
			if p, orphan := l.Wait(t.Context()); !orphan || p.PID != launcher {
				t.Errorf("%s: %v, orphan is %v", kill, p, orphan)
			}
			l.Close()
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	onBoth(t, func(t *testing.T) {
		_, _, rank := family(t, true)
		l, err := find("/proc", rank, pair, ignoredBy("/proc", rank))
		if err != nil || l == nil {
			t.Fatal(l, err)
		}
		defer l.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if p, orphan := l.Wait(ctx); orphan {
			t.Errorf("orphan of %v", p)
		}
	})
}

// A rank that process 1, or another reaper, has adopted before it looks is detached, or has been given to the init of a
// container.
func TestAdopted(t *testing.T) {
	defer func(was func() bool) { inFirstNamespace = was }(inFirstNamespace)
	_, wrapper, rank := family(t, true)
	syscall.Kill(wrapper, syscall.SIGKILL)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if parent, err := parentOf("/proc", rank); err != nil || time.Now().After(deadline) {
			t.Fatal(parent, err)
		} else if parent != wrapper {
			if parent != 1 {
				t.Skip("another process than 1 adopts orphans here")
			}
			break
		}
	}
	for first, want := range map[bool]error{true: nil, false: ErrAdopted} {
		inFirstNamespace = func() bool { return first }
		if l, err := find("/proc", rank, pair, ignoredBy("/proc", rank)); l != nil || !errors.Is(err, want) {
			t.Errorf("first namespace %v: got %v, %v; want no launcher, %v", first, l, err, want)
		}
	}
}

func TestAlso(t *testing.T) {
	_, _, rank := family(t, false)
	l, err := find("/proc", rank, pair, ignoredBy("/proc", rank))
	if err != nil || l == nil {
		t.Fatal(l, err)
	}
	defer l.Close()
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if err := l.Also(other.Process.Pid); err != nil {
		t.Fatal(err)
	}
	other.Process.Kill()
	if p, orphan := l.Wait(t.Context()); !orphan || p.PID != other.Process.Pid {
		t.Errorf("got %v, %v; want process %d", p, orphan, other.Process.Pid)
	}
	other.Wait()
}

// What is taken for the launcher may have been started by it: a container's starter, which may begin a session for what
// it starts. Where the starter has been started so as to outlive the launcher, so has the rank.
func TestRename(t *testing.T) {
	const start = `sh -c 'PERIGEE_TEST_RANK=3 %ssleep 1000 & echo $$ $! >$0.new; mv $0.new $0; wait' $0`
	// A script between the two starts the starter in the background.
	const script = `export S='PERIGEE_TEST_RANK=3 sleep 1000 & echo $$ $! >$0.new; mv $0.new $0; wait'
%s bash -c '%s env -u PERIGEE_TEST_RANK sh -c "$S" "$0" & wait' "$0"; sleep 1000`
	for name, c := range map[string]struct {
		script   string
		launcher bool // that is killed, and not the starter
		orphan   bool
	}{
		"the launcher":                    {fmt.Sprintf(start, "") + "; :", true, true},
		"the starter":                     {fmt.Sprintf(start, "") + "; :", false, true},
		"the starter of a session":        {fmt.Sprintf(start, "setsid ") + "; :", false, true},
		"the launcher of a session":       {fmt.Sprintf(start, "setsid ") + "; :", true, true},
		"a starter with its own session":  {fmt.Sprintf(script, pair[0], "setsid -w"), false, false},
		"a starter that ignores a SIGINT": {fmt.Sprintf(script, pair[0], ""), false, false},
		"a starter of a starter":          {fmt.Sprintf(script, "", "env --default-signal=INT,QUIT setsid -w"), false, true},
	} {
		launcher, wrapper, rank := familyOf(t, c.script)
		l, err := find("/proc", rank, pair, ignoredBy("/proc", rank))
		if err != nil || l == nil || l.PID != wrapper {
			t.Fatal(name, l, err)
		}
		if found, err := l.Rename("no such name"); found || err != nil || l.PID != wrapper {
			t.Errorf("%s: no ancestor has the name: got %v, %v, launcher %v", name, found, err, l)
		}
		if found, err := l.Rename("sh"); !found || err != nil || l.PID != wrapper {
			t.Errorf("%s: the launcher has the name: got %v, %v, launcher %v", name, found, err, l)
		}
		l.Name = "starter"
		if found, err := l.Rename("sh"); !found || err != nil || l.PID != launcher || !l.Below(Process{wrapper, "starter"}) {
			t.Errorf("%s: what has started it has the name: got %v, %v, launcher %v", name, found, err, l)
		}
		seeWaiting(t, l)
		killed := wrapper
		if c.launcher {
			killed = launcher
		}
		syscall.Kill(killed, syscall.SIGKILL)
		if p, orphan := l.Wait(t.Context()); orphan != c.orphan || c.launcher && p.PID != killed {
			t.Errorf("%s is killed: got %v, %v; want orphan %v", name, p, orphan, c.orphan)
		}
		l.Close()
	}
}

// The process that listens at the launcher's port is the launcher, if it is an ancestor.
func TestRelisten(t *testing.T) {
	here, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	port := here.Addr().(*net.TCPAddr).Port
	launcher, _, rank := family(t, false) // below this process, which listens
	l, err := find("/proc", rank, pair, ignoredBy("/proc", rank))
	if err != nil || l == nil || l.PID != launcher {
		t.Fatal(l, err)
	}
	defer l.Close()
	if err := l.Relisten(port); err != nil || l.PID != os.Getpid() || len(l.also) != 0 {
		t.Errorf("got launcher %v, also %v, %v; want this process, %d", l.Process, l.also, err, os.Getpid())
	}
	// What has adopted the rank of a launcher is above that one.
	adopter, err := find("/proc", rank, pair, ignoredBy("/proc", rank))
	if err != nil {
		t.Fatal(err)
	}
	defer adopter.Close()
	parent, err := parentOf("/proc", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	adopter.PID, adopter.Name = parent, nameOf("/proc", parent)
	if err := adopter.Relisten(port); err != nil || adopter.PID != parent || len(adopter.also) != 0 {
		t.Errorf("got launcher %v, also %v, %v; want process %d alone", adopter.Process, adopter.also, err, parent)
	}
	// Any other counts as well.
	other, err := find("/proc", rank, pair, ignoredBy("/proc", rank))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.PID = rank // has no descendants, and is no ancestor of this process
	other.proc = "/proc"
	if err := other.AlsoListener(port); err != nil || len(other.also) != 1 || other.also[0].PID != os.Getpid() {
		t.Errorf("also %v, %v; want process %d", other.also, err, os.Getpid())
	}
}

func TestListener(t *testing.T) {
	for _, network := range []string{"tcp4", "tcp6"} {
		l, err := net.Listen(network, "localhost:0")
		if err != nil {
			t.Logf("%s: %v", network, err)
			continue
		}
		port := l.Addr().(*net.TCPAddr).Port
		if pid, err := Listener(port); err != nil || pid != os.Getpid() {
			t.Errorf("%s: got process %d, %v; want %d", network, pid, err, os.Getpid())
		}
		l.Close()
		if pid, err := Listener(port); !errors.Is(err, ErrNoListener) {
			t.Errorf("%s: the listener is closed, got process %d, %v", network, pid, err)
		}
	}
	// Without a table it is unknown who listens.
	if pid, err := listener(t.TempDir(), 1); err == nil || errors.Is(err, ErrNoListener) {
		t.Errorf("without /proc: got process %d, %v", pid, err)
	}
}

func TestSharesNetwork(t *testing.T) {
	for _, apart := range []uintptr{0, syscall.CLONE_NEWNET} {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: apart}
		if err := cmd.Start(); errors.Is(err, syscall.EPERM) {
			t.Skip("namespaces need root")
		} else if err != nil {
			t.Fatal(err)
		}
		l := &Launcher{Process: Process{PID: cmd.Process.Pid}}
		if got := l.SharesNetwork(); got != (apart == 0) {
			t.Errorf("namespaces %#x: got %v", apart, got)
		}
		cmd.Process.Kill()
		cmd.Wait()
		if l.SharesNetwork() {
			t.Error("shares its network with a process that has ended")
		}
	}
}

// In a PID namespace of the rank's own its launcher is not seen.
func TestOutside(t *testing.T) {
	defer func(was func() bool) { inFirstNamespace = was }(inFirstNamespace)
	const stat = "%d (x) S %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4711 0 0\n"
	for name, c := range map[string]struct {
		parents map[int]int // by process
		own     string      // environment of process 1
		self    int
		first   bool
		want    error
	}{
		"the rank is process 1":       {map[int]int{1: 0}, pair[0], 1, false, ErrOutside},
		"a wrapper is process 1":      {map[int]int{1: 0, 7: 1}, pair[0], 7, false, ErrOutside},
		"process 1 is an init":        {map[int]int{1: 0, 7: 1}, "OTHER=1", 7, false, ErrAdopted},
		"process 1 is the host's":     {map[int]int{1: 0, 7: 1}, "OTHER=1", 7, true, nil},
		"the parent is not seen here": {map[int]int{7: 0}, "", 7, true, ErrOutside},
	} {
		inFirstNamespace = func() bool { return c.first }
		dir := t.TempDir()
		for pid, parent := range c.parents {
			of := filepath.Join(dir, strconv.Itoa(pid))
			os.MkdirAll(of, 0o700)
			os.WriteFile(filepath.Join(of, "stat"), fmt.Appendf(nil, stat, pid, parent), 0o600)
			os.WriteFile(filepath.Join(of, "environ"), []byte(c.own+"\x00"), 0o600)
		}
		if l, err := find(dir, c.self, pair, 0); l != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, %v, want %v", name, l, err, c.want)
		}
	}
}

// A launcher that is not seen ends with its socket; ports at which nothing listens do not count.
func TestAtPorts(t *testing.T) {
	listen := func() (net.Listener, int) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l, l.Addr().(*net.TCPAddr).Port
	}
	closed, none := listen()
	closed.Close()
	if l, err := AtPorts([]int{none}); !errors.Is(err, ErrNoListener) {
		t.Errorf("nothing listens: got %v, %v", l, err)
	}
	for first := range 2 { // whichever of the two ends first
		var sockets [2]net.Listener
		var ports [2]int
		for i := range sockets {
			sockets[i], ports[i] = listen()
		}
		l, err := AtPorts([]int{none, ports[0], ports[1]})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if p, orphan := l.Wait(ctx); orphan {
			t.Errorf("both listen, but %v has ended", p)
		}
		cancel()
		sockets[first].Close()
		want := fmt.Sprint("at TCP port ", ports[first])
		if p, orphan := l.Wait(t.Context()); !orphan || p.String() != want {
			t.Errorf("got %v, %v, want %s", p, orphan, want)
		}
		l.Close()
	}
}

// The table of sockets is read as far as those that listen, over half-open connections between them.
func TestListening(t *testing.T) {
	const line = "%d: 0100007F:%04X 00000000:0000 %s 00000000:00000000 00:00000000 00000000 0 0 %d 1 0 100 0 0 10 0\n"
	table := "sl local_address rem_address st ...\n"
	for i, s := range []struct {
		port  int
		state string
	}{{22, "0A"}, {22, "03"}, {4711, "0A"}, {4711, "0A"}, {80, "01"}, {4711, "0A"}} {
		table += fmt.Sprintf(line, i, s.port, s.state, 100+i)
	}
	for port, want := range map[int]string{22: "socket:[100] ", 4711: "socket:[102] socket:[103] ", 80: ""} {
		got := ""
		more, err := listeningIn(strings.NewReader(table), port, func(socket string) bool {
			got += socket + " "
			return true
		})
		if !more || err != nil || got != want {
			t.Errorf("port %d: %q, %v, %v, want %q", port, got, more, err, want)
		}
	}
}
