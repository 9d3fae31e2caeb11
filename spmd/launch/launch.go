// Package launch starts the ranks of a job on this machine: the same program
// N times, watched until all have ended.
//
// Rank 0 writes straight to the launcher's output, so that it sees a terminal
// where there is one; the lines of the others are labelled with their rank.
// When one rank dies or the user presses Ctrl-C, the others are told and given a
// moment to write what they have; then they are killed.
package launch

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
	"perigee/spmd/boot"
)

// grace is how long ranks may go on after the job has failed.
const grace = 3 * time.Second

// Job describes what to start.
type Job struct {
	Ranks  int
	Path   string   // the program
	Args   []string // without the program's name
	Env    []string
	Stdout io.Writer
	Stderr io.Writer
}

// MaxRanks is the most ranks that make sense on one machine.
const MaxRanks = 4096

// Run starts the ranks and returns when all have ended. The error is the job's
// first failure, a boot.Failure, or why it could not be started. Cancelling ctx
// ends the job; its cause becomes the failure.
func Run(ctx context.Context, j Job) error {
	if j.Ranks < 1 || j.Ranks > MaxRanks {
		return fault.New(fault.Usage, "cannot start %d ranks: want 1 to %d", j.Ranks, MaxRanks)
	}
	secret := make([]byte, 32)
	rand.Read(secret)
	r := &run{job: j, procs: make([]*process, j.Ranks), stdout: &lineWriter{w: j.Stdout}, stderr: &lineWriter{w: j.Stderr}}
	r.coordinator = boot.NewCoordinator(j.Ranks, secret, r.explain)
	defer r.coordinator.Close()
	for i := range r.procs {
		r.procs[i] = &process{rank: i, ended: make(chan struct{})}
	}
	for _, p := range r.procs {
		if err := r.start(p); err != nil {
			r.coordinator.Fail(boot.Failure{Rank: -1, Kind: fault.Launch, Cause: fmt.Sprintf("cannot start rank %d of %d: %v", p.rank, j.Ranks, err),
				Hint: "fewer ranks with -n, or raise the limits on processes and open files (ulimit -u, ulimit -n)"})
			break
		}
	}
	return r.supervise(ctx)
}

type run struct {
	job            Job
	procs          []*process
	coordinator    *boot.Coordinator
	stdout, stderr *lineWriter
}

type process struct {
	rank    int
	cmd     *exec.Cmd // nil if it was not started
	ended   chan struct{}
	outcome string // how it ended, "" for well; valid after ended
}

func (r *run) start(p *process) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(fds[1]), "rank")
	defer theirs.Close()
	ours := os.NewFile(uintptr(fds[0]), "launcher")
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		return err
	}
	cmd := exec.Command(r.job.Path, r.job.Args...)
	cmd.Env = append(slices.Clone(r.job.Env),
		fmt.Sprintf("%s=%d", boot.EnvRank, p.rank),
		fmt.Sprintf("%s=%d", boot.EnvSize, r.job.Ranks),
		boot.EnvControl+"=3")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = r.job.Stdout, r.job.Stderr
	if p.rank > 0 {
		cmd.Stdout, cmd.Stderr = r.stdout.labelled(p.rank), r.stderr.labelled(p.rank)
	}
	// A grandchild that holds the pipes must not keep the job alive.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		conn.Close()
		return err
	}
	p.cmd = cmd
	r.coordinator.Serve(conn)
	go r.wait(p)
	return nil
}

func (r *run) wait(p *process) {
	err := p.cmd.Wait()
	p.outcome = outcome(err)
	close(p.ended)
	r.coordinator.Ended(p.rank, firstOf(p.outcome, "its process ended before the job did"))
	for _, w := range []io.Writer{p.cmd.Stdout, p.cmd.Stderr} {
		if l, ok := w.(*labelledWriter); ok {
			l.flush()
		}
	}
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// outcome words the end of a process; "" for a good one.
func outcome(err error) string {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return "" // it ended well, or only its pipes outlived it
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		text := fmt.Sprintf("killed by signal %d (%s)", status.Signal(), unix.SignalName(status.Signal()))
		if status.Signal() == syscall.SIGKILL {
			text += "; somebody's kill -9, or the kernel ran out of memory"
		}
		return text
	}
	return fmt.Sprintf("its process exited with code %d", exit.ExitCode())
}

// explain waits a little for the end of a rank's process, and words it.
func (r *run) explain(rank int, wait time.Duration) string {
	p := r.procs[rank]
	select {
	case <-p.ended:
		return p.outcome
	case <-time.After(wait):
		return ""
	}
}

// supervise waits for the end of all processes.
func (r *run) supervise(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, p := range r.procs {
			if p.cmd != nil {
				<-p.ended
			}
		}
	}()
	select {
	case <-done:
	case <-r.coordinator.Failed():
		r.endAll(done)
	case <-ctx.Done():
		r.coordinator.Fail(interrupted(ctx))
		r.endAll(done)
	}
	if f := r.coordinator.Failure(); f != nil {
		return *f
	}
	return nil
}

func interrupted(ctx context.Context) boot.Failure {
	cause := context.Cause(ctx)
	return boot.Failure{Rank: -1, Kind: fault.KindOf(cause), Cause: cause.Error(), Hint: fault.HintOf(cause)}
}

// endAll gives the ranks time to end by themselves, then kills them.
func (r *run) endAll(done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-time.After(grace):
	}
	for _, p := range r.procs {
		if p.cmd != nil {
			p.cmd.Process.Kill() // also one that is stopped; an ended one does not mind
		}
	}
	<-done
}

// lineWriter keeps the lines of several ranks apart.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) labelled(rank int) *labelledWriter {
	return &labelledWriter{out: l, label: fmt.Sprintf("[%d] ", rank)}
}

type labelledWriter struct {
	out   *lineWriter
	label string
	rest  []byte // an unfinished line
}

// maxLine bounds what is kept of a line without end.
const maxLine = 64 << 10

func (l *labelledWriter) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 && len(l.rest) < maxLine {
			return len(p), nil
		}
		if i < 0 {
			i = len(l.rest) - 1
		}
		l.line(l.rest[:i+1])
		l.rest = l.rest[i+1:]
	}
}

func (l *labelledWriter) line(text []byte) {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	// Nobody to complain to if the launcher's own output is gone.
	io.WriteString(l.out.w, l.label+strings.TrimSuffix(string(text), "\n")+"\n")
}

func (l *labelledWriter) flush() {
	if len(l.rest) > 0 {
		l.line(l.rest)
		l.rest = nil
	}
}
