package harness

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience is how long tests wait for something that must come. It is there
// against tests that never end; how quick perigee is, tests measure otherwise.
const Patience = 5 * time.Minute

// outputWait is how long the output of an ended command may stay open.
const outputWait = 2 * time.Second

// Command describes one call of perigee, or of a launcher.
type Command struct {
	Args []string // of perigee
	Argv []string // the whole command, if it is not just perigee with Args
	Dir  string   // the working directory; "" is a fresh one
	// Env is added to the environment as KEY=VALUE; KEY= removes a variable.
	Env   []string
	Stdin io.Reader
	Group bool // in its own process group, as a shell would start it
	// Terminal becomes the controlling terminal, and standard input, output and
	// error. What is written to it is the process's Stdout.
	Terminal *Terminal
}

// Process is a command that runs.
type Process struct {
	Cmd            *exec.Cmd
	Token          string // in the environment of the process and of all that it starts
	Dir            string // the working directory
	Temp           string // its own folder for temporary files
	Stdout, Stderr *Output
	Started        time.Time

	t      testing.TB
	ended  chan struct{}
	end    time.Time // valid after ended, as is err
	err    error
	before litter

	results Results
	checked sync.Once // the results
}

// Outcome is how a command ended.
type Outcome struct {
	Code           int
	Stdout, Stderr string
	Took           time.Duration
}

// Start starts a command. It and all its processes are gone when the test ends.
func Start(t testing.TB, c Command) *Process {
	t.Helper()
	LookAtSources(t)
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	if c.Argv == nil {
		c.Argv = append([]string{Program}, c.Args...)
	}
	p := &Process{
		t: t, Token: Token + rand.Text(), Dir: c.Dir, Temp: t.TempDir(),
		Stdout: &Output{}, Stderr: &Output{}, ended: make(chan struct{}), before: lookForLitter(),
		results: LookForResults(c.Dir, c.Argv),
	}
	p.Cmd = exec.Command(c.Argv[0], c.Argv[1:]...)
	p.Cmd.Dir, p.Cmd.Stdin, p.Cmd.Stdout, p.Cmd.Stderr = c.Dir, c.Stdin, p.Stdout, p.Stderr
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: c.Group}
	if c.Terminal != nil {
		p.Stdout = &c.Terminal.Output
		side := c.Terminal.program
		p.Cmd.Stdin, p.Cmd.Stdout, p.Cmd.Stderr = side, side, side
		p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	p.Cmd.Env = Environ(p.Token, append([]string{"TMPDIR=" + p.Temp}, c.Env...)...)
	// A process that has inherited the output and goes on must not keep the test from seeing that its parent has
	// ended.
	p.Cmd.WaitDelay = outputWait
	p.Started = time.Now()
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Cmd.Wait()
		p.end = time.Now()
		if c.Terminal != nil && !c.Terminal.drain() && p.err == nil {
			p.err = exec.ErrWaitDelay
		}
		close(p.ended)
	}()
	t.Cleanup(func() {
		KillAll(p.Token)
		<-p.ended
	})
	return p
}

// steering are the prefixes of variables that would steer perigee or a launcher.
var steering = []string{
	"PERIGEE_", "SLURM", "SALLOC_", "SBATCH_", "PMI", "OMPI_", "MPI_", "HYDRA_", "RANK=", "WORLD_SIZE=", "MASTER_",
	"LOCAL_RANK=", "TORCHELASTIC_", "NIXL_ETCD_", "NO_COLOR=",
}

// Environ is the tests' environment without what would steer perigee or a
// launcher, with a token and with KEY=VALUE pairs; KEY= removes a variable.
func Environ(token string, add ...string) []string {
	list := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return slices.ContainsFunc(steering, func(p string) bool { return strings.HasPrefix(kv, p) })
	})
	for _, kv := range append([]string{marker + "=" + token}, add...) {
		key, value, _ := strings.Cut(kv, "=")
		list = slices.DeleteFunc(list, func(old string) bool { return strings.HasPrefix(old, key+"=") })
		if value != "" {
			list = append(list, kv)
		}
	}
	return list
}

// Run runs perigee to its end in a directory.
func Run(t testing.TB, dir string, args ...string) Outcome {
	t.Helper()
	return Start(t, Command{Dir: dir, Args: args}).Wait()
}

// MustRun is Run for calls that are expected to go well.
func MustRun(t testing.TB, dir string, args ...string) Outcome {
	t.Helper()
	p := Start(t, Command{Dir: dir, Args: args})
	return p.MustEnd()
}

// Wait returns how the command ended. It fails the test if that takes too long, and if
// a result that the command has left does not go with the schema.
func (p *Process) Wait() Outcome {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(Patience):
		p.giveUp("still running after %v", Patience)
	}
	if p.err != nil && p.Cmd.ProcessState == nil {
		p.t.Fatal(p.err)
	}
	if errors.Is(p.err, exec.ErrWaitDelay) {
		p.t.Errorf("%v has ended, but something still holds its output", p.Cmd.Args)
	}
	p.checked.Do(func() {
		if err := p.results.Check(); err != nil {
			p.t.Error(err)
		}
	})
	return Outcome{p.Cmd.ProcessState.ExitCode(), p.Stdout.String(), p.Stderr.String(), p.end.Sub(p.Started)}
}

// MustEnd is Wait for commands that are expected to go well.
func (p *Process) MustEnd() Outcome {
	p.t.Helper()
	o := p.Wait()
	if o.Code != 0 {
		p.t.Fatalf("exit code %d of %v\nstdout:\n%s\nstderr:\n%s", o.Code, p.Cmd.Args, o.Stdout, o.Stderr)
	}
	return o
}

// Ended is closed when the command has ended and its output is complete.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// giveUp ends the test, telling all that is known, stacks of hung ranks included.
func (p *Process) giveUp(format string, args ...any) {
	p.t.Helper()
	for _, pid := range RanksOf(p.Token) {
		syscall.Kill(pid, syscall.SIGCONT)
		syscall.Kill(pid, syscall.SIGQUIT)
	}
	select {
	case <-p.ended:
	case <-time.After(2 * time.Second):
	}
	KillAll(p.Token)
	p.t.Fatalf("%v: %s\nstdout:\n%s\nstderr:\n%s", p.Cmd.Args, fmt.Sprintf(format, args...), p.Stdout, p.Stderr)
}

// Ranks returns the processes of the ranks that have started: rank -> pid.
func (p *Process) Ranks() map[int]int { return RanksOf(p.Token) }

// Rank waits until a rank has started and returns its process.
func (p *Process) Rank(r int) int {
	p.t.Helper()
	var pid int
	p.Until(fmt.Sprintf("start of rank %d", r), func() bool {
		pid = p.Ranks()[r]
		return pid != 0
	})
	return pid
}

// Until waits for something to become true while the process runs.
func (p *Process) Until(what string, happened func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(Patience)
	for !happened() {
		select {
		case <-p.ended:
			if !happened() {
				p.giveUp("ended before the %s", what)
			}
			return
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.giveUp("timed out waiting for the %s", what)
		}
	}
}

// UntilPrints waits until stdout holds all these texts.
func (p *Process) UntilPrints(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		p.Until(fmt.Sprintf("output %q", text), func() bool { return strings.Contains(p.Stdout.String(), text) })
	}
}

// UntilComplains waits until stderr holds a text.
func (p *Process) UntilComplains(text string) {
	p.t.Helper()
	p.Until(fmt.Sprintf("message %q", text), func() bool { return strings.Contains(p.Stderr.String(), text) })
}

// CheckNothingLeft fails the test if a process, a file or shared memory of a
// command that has ended outlives the limit.
func (p *Process) CheckNothingLeft(limit time.Duration) {
	p.t.Helper()
	deadline := time.Now().Add(limit)
	for len(Owned(p.Token)) > 0 {
		if time.Now().After(deadline) {
			for pid := range Owned(p.Token) {
				status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
				command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				p.t.Errorf("process %d is left: %s\n%s", pid, bytes.ReplaceAll(command, []byte{0}, []byte{' '}), status)
			}
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	for _, name := range Names(p.Temp) {
		p.t.Errorf("%s is left among the temporary files", name)
	}
	for _, name := range Names(p.Dir) {
		if strings.Contains(name, "perigee-tmp") {
			p.t.Errorf("%s is left behind", filepath.Join(p.Dir, name))
		}
	}
	p.before.check(p.t)
}

// Output collects what a process writes, and can be read meanwhile.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// EndTime is when the command ended.
func (p *Process) EndTime() time.Time {
	<-p.ended
	return p.end
}
