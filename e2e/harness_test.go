// Package e2e tests perigee as its users meet it: the built program, real
// processes, real files, both engines.
//
// The tests that move bytes with NIXL need its library; NIXL_LIBRARY names it
// (make test sets it). Without it they fail.
package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is the perigee under test.
var program string

func TestMain(m *testing.M) {
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "perigee-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "perigee")
	args := []string{"build", "-o", program}
	if raceEnabled {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "perigee")...).CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// lookAtSources makes the program's sources inputs of a test as far as the go
// command can tell, so that it does not repeat an old verdict on a new program.
// It notes what tests look at, not what TestMain does.
var lookAtSources = sync.OnceValue(func() error {
	return filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if slices.Contains([]string{".go", ".c", ".h", ".lua", ".mod", ".sum"}, filepath.Ext(path)) {
			_, err = os.Stat(path)
		}
		return err
	})
})

// What a test may wait for something that must come.
const patience = 20 * time.Second

// engines are those on which every transfer is tested.
var engines = []string{"shm", "nixl"}

// forEngines runs a test on each engine.
func forEngines(t *testing.T, f func(t *testing.T, engine string)) {
	for _, e := range engines {
		t.Run(e, func(t *testing.T) {
			if e == "nixl" {
				needNIXL(t)
			}
			f(t, e)
		})
	}
}

// needNIXL fails a test that cannot do its work.
func needNIXL(t testing.TB) string {
	t.Helper()
	lib := os.Getenv("NIXL_LIBRARY")
	if lib == "" {
		t.Fatal("this test moves bytes with NIXL, and NIXL_LIBRARY is not set.\n" +
			"Run `make test`, which installs the library and sets it, or:\n" +
			"  python3 -m venv .venv && .venv/bin/pip install nixl-cu12\n" +
			"  export NIXL_LIBRARY=$(ls -d $PWD/.venv/lib/python3*/site-packages/.nixl_cu12.mesonpy.libs/libnixl_capi.so)")
	}
	return lib
}

// command describes one call of perigee.
type command struct {
	dir   string            // the working directory; "" is a fresh one
	env   map[string]string // added to the environment; an empty value removes a variable
	stdin io.Reader
	args  []string
	group bool // in a process group of its own, as a shell would start it
}

// process is a perigee that runs.
type process struct {
	t              testing.TB
	cmd            *exec.Cmd
	token          string // in the environment of the process and of all that it starts
	dir            string
	stdout, stderr *output
	started        time.Time
	ended          chan struct{}
	err            error
}

// outcome is how a perigee ended.
type outcome struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

// marker is the variable that tells a test's processes from all others.
const marker = "PERIGEE_E2E"

// start starts perigee. It and its ranks are gone when the test ends.
func start(t testing.TB, c command) *process {
	t.Helper()
	if err := lookAtSources(); err != nil {
		t.Fatal(err)
	}
	if c.dir == "" {
		c.dir = t.TempDir()
	}
	p := &process{t: t, token: rand.Text(), dir: c.dir, stdout: &output{}, stderr: &output{}, ended: make(chan struct{})}
	p.cmd = exec.Command(program, c.args...)
	p.cmd.Dir, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = c.dir, c.stdin, p.stdout, p.stderr
	p.cmd.Env = environ(c.env, p.token)
	p.cmd.WaitDelay = 2 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: c.group}
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() { killAll(p.token) })
	return p
}

// environ is the test's environment without what would steer perigee.
func environ(add map[string]string, token string) []string {
	env := map[string]string{}
	for _, kv := range os.Environ() {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	for _, k := range []string{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "PERIGEE_SECRET", "NO_COLOR"} {
		delete(env, k)
	}
	env[marker] = token
	maps.Copy(env, add)
	var list []string
	for k, v := range env {
		if v != "" {
			list = append(list, k+"="+v)
		}
	}
	return list
}

// wait returns how the process ended. It fails the test if that takes too long.
func (p *process) wait(limit time.Duration) outcome {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		killAll(p.token)
		p.t.Fatalf("%v is still running after %v\nstdout:\n%s\nstderr:\n%s", p.cmd.Args[1:], limit, p.stdout, p.stderr)
	}
	if p.err != nil && p.cmd.ProcessState == nil {
		p.t.Fatal(p.err)
	}
	if errors.Is(p.err, exec.ErrWaitDelay) {
		p.t.Errorf("%v has ended, but something still holds its output", p.cmd.Args[1:])
	}
	return outcome{p.cmd.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String(), time.Since(p.started)}
}

// perigee runs perigee to its end in a directory.
func perigee(t testing.TB, dir string, args ...string) outcome {
	t.Helper()
	return start(t, command{dir: dir, args: args}).wait(time.Minute)
}

// mustRun is perigee for calls that are expected to go well.
func mustRun(t testing.TB, dir string, args ...string) outcome {
	t.Helper()
	o := perigee(t, dir, args...)
	if o.code != 0 {
		t.Fatalf("perigee %s: exit code %d\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), o.code, o.stdout, o.stderr)
	}
	return o
}

// ranks returns the processes of the ranks that have started: rank -> pid.
func (p *process) ranks() map[int]int {
	ranks := map[int]int{}
	for pid, env := range owned(p.token) {
		if r, err := strconv.Atoi(env["PERIGEE_RANK"]); err == nil {
			ranks[r] = pid
		}
	}
	return ranks
}

// rank waits until a rank has started and returns its process.
func (p *process) rank(r int) int {
	p.t.Helper()
	var pid int
	p.until(fmt.Sprintf("start of rank %d", r), func() bool {
		pid = p.ranks()[r]
		return pid != 0
	})
	return pid
}

// until waits for something to become true while the process runs.
func (p *process) until(what string, happened func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for !happened() {
		ended := false
		select {
		case <-p.ended:
			ended = true
		case <-time.After(time.Millisecond):
		}
		if ended || time.Now().After(deadline) {
			killAll(p.token)
			p.t.Fatalf("waiting for %s in vain (process ended: %v)\nstdout:\n%s\nstderr:\n%s", what, ended, p.stdout, p.stderr)
		}
	}
}

// untilPrints waits until stdout holds a text.
func (p *process) untilPrints(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("the output %q", text), func() bool { return strings.Contains(p.stdout.String(), text) })
}

// owned returns the live processes that carry a token, with their environments.
func owned(token string) map[int]map[string]string {
	found := map[int]map[string]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		data, err := os.ReadFile(filepath.Join(d, "environ"))
		if err != nil || !bytes.Contains(data, []byte(marker+"="+token+"\x00")) || isZombie(d) {
			continue
		}
		env := map[string]string{}
		for kv := range strings.SplitSeq(string(data), "\x00") {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		pid, _ := strconv.Atoi(filepath.Base(d))
		found[pid] = env
	}
	return found
}

func isZombie(dir string) bool {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(state, "Z")
}

func killAll(token string) {
	for pid := range owned(token) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// noProcesses fails the test if anything that carries the token outlives the
// limit.
func noProcesses(t testing.TB, token string, limit time.Duration) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for len(owned(token)) > 0 {
		if time.Now().After(deadline) {
			for pid := range owned(token) {
				status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
				t.Errorf("process %d is left:\n%s", pid, status)
			}
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// litter lists the places in which perigee or its libraries could leave something.
type litter map[string][]string

func lookForLitter() litter {
	l := litter{}
	for _, dir := range []string{"/dev/shm", os.TempDir()} {
		l[dir] = names(dir)
	}
	l[sysV] = abandoned()
	return l
}

// sysV is the kernel's list of System V shared memory.
const sysV = "/proc/sysvipc/shm"

// abandoned returns the IDs of the shared memory that no process has attached.
func abandoned() []string {
	data, _ := os.ReadFile(sysV)
	var list []string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 6 && f[6] == "0" {
			list = append(list, "ucx "+f[1])
		}
	}
	return list
}

func names(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// checkClean fails the test if there is litter that was not there before. What
// a living process holds is no litter: it is that of another test or program.
func (l litter) checkClean(t testing.TB) {
	t.Helper()
	for dir, now := range lookForLitter() {
		for _, name := range now {
			if strings.HasPrefix(name, "Test") || slices.Contains(l[dir], name) {
				continue // a test's own directory, or an old thing
			}
			ours := strings.Contains(name, "perigee") || strings.Contains(name, "ucx") || strings.Contains(name, "nixl")
			if ours && !held(filepath.Join(dir, name)) {
				t.Errorf("%s is left behind", filepath.Join(dir, name))
			}
		}
	}
}

// held reports whether a file is gone after all, or open or mapped in a process.
// UCX opens a file some time before it maps it, and removes its name then.
func held(path string) bool {
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range open {
		if target, err := os.Readlink(fd); err == nil && target == path {
			return true
		}
	}
	maps, _ := filepath.Glob("/proc/[0-9]*/maps")
	for _, m := range maps {
		if data, err := os.ReadFile(m); err == nil && bytes.Contains(data, []byte(path)) {
			return true
		}
	}
	if strings.HasPrefix(path, sysV) {
		return !slices.Contains(abandoned(), filepath.Base(path))
	}
	_, err := os.Stat(path)
	return err != nil
}

// output collects what a process writes, and can be read meanwhile.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// files writes files, name -> contents, into a fresh directory.
func files(t testing.TB, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range contents {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func contains(t testing.TB, where, text string, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("%s lacks %q:\n%s", where, w, text)
		}
	}
}

// within gives a helper program a time limit.
func within(t testing.TB, limit time.Duration, name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, name, args...)
}
