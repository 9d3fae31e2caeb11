package launch

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/internal/kit/size"
	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
)

// Grace is how long ranks may go on after the job has failed, if the Job does
// not say otherwise.
const Grace = 3 * time.Second

// StoringGrace is how much longer rank 0 may go on that writes the result.
const StoringGrace = 20 * time.Second

// LocalJob describes what to start.
type LocalJob struct {
	Ranks  int
	Path   string   // the program
	Args   []string // without the program's name
	Env    []string
	Stdin  *os.File      // of rank 0; nil: it has none
	Stdout io.Writer     // nil discards
	Stderr io.Writer     // nil discards
	Grace  time.Duration // 0 is the constant
	// Failed, if set, is called with the job's failure before any rank learns of it.
	// If it takes long the ranks do not wait for it.
	Failed func(watch.Failure)
	// Hurry, if it is closed, ends the grace of the ranks.
	Hurry <-chan struct{}
	Log   *slog.Logger // nil logs nothing
}

// MaxRanks is the most ranks that make sense on one machine.
const MaxRanks = 4096

// hearWait is how long it may take to read the last messages of a rank that has ended.
const hearWait = 500 * time.Millisecond

// Run starts the ranks and returns when all have ended. The error is the job's
// first failure, a watch.Failure, or why it could not be started. Cancelling ctx
// ends the job; its cause becomes the failure.
func Run(ctx context.Context, j LocalJob) error {
	if j.Ranks < 1 || j.Ranks > MaxRanks {
		return fault.New(fault.Usage, "cannot start %d ranks: want 1 to %d", j.Ranks, MaxRanks)
	}
	if err := enoughThreads(j.Ranks); err != nil {
		return err
	}
	if err := enoughMemory(j.Ranks, func() (int64, error) { return memory.Available("/") }); err != nil {
		return err
	}
	secret := make([]byte, 32)
	rand.Read(secret)
	r := &run{job: j, procs: make([]*process, j.Ranks)}
	r.out = NewOutput(j.Stdout, j.Stderr, r.outputLost)
	r.job.Grace, r.job.Log = cmp.Or(j.Grace, Grace), cmp.Or(j.Log, slog.New(slog.DiscardHandler))
	r.coordinator = watch.NewCoordinator(j.Ranks, secret)
	r.coordinator.Launched, r.coordinator.Announce = true, j.Failed
	r.coordinator.Log = r.job.Log.With("part", "coordinator")
	for i := range r.procs {
		r.procs[i] = &process{rank: i, ended: make(chan struct{})}
	}
	r.startAll(ctx)
	return r.supervise(ctx)
}

// startAll starts the ranks, up to the first that cannot be started.
func (r *run) startAll(ctx context.Context) {
	if r.job.Ranks > crowd*runtime.NumCPU() {
		defer slacken()()
		r.job.Env = onOneCPU(r.job.Env)
	}
	for _, p := range r.procs {
		if ctx.Err() != nil {
			r.coordinator.Fail(watch.FailureOf(context.Cause(ctx)))
			return
		}
		if err := r.start(p); err != nil {
			r.coordinator.Fail(cannotStart(p.rank, r.job.Ranks, err))
			return
		}
	}
}

// threadsPerRank is how many threads a rank has at least while it works, and threadsHere how many more this process
// starts, apart from one for each rank.
const (
	threadsPerRank = 8
	threadsHere    = 5
)

// enoughThreads reports a limit on threads before the ranks' runtimes meet it, which ends their processes.
func enoughThreads(ranks int) error {
	want := ranks*(threadsPerRank+1) + threadsHere
	if got := startable(want); got < want {
		return fault.New(fault.Resource, "%d ranks need %d threads, and only %d can be started", ranks, want, got).
			WithHint("fewer ranks with -n, or raise the limit on processes (ulimit -u, pids.max of the container)")
	}
	return nil
}

// bytesPerRank counts the memory of a rank that does nothing: 64 took 564 MB together.
const bytesPerRank = 9e6

// enoughMemory reports that so many ranks would fill the memory: how many there are may be the wish of a scenario.
func enoughMemory(ranks int, available func() (int64, error)) error {
	there, err := available()
	if want := int64(ranks) * bytesPerRank; err == nil && want > memory.Usable(there) {
		return fault.New(fault.Resource, "%d ranks need at least %s of memory, and they may have 80 %% of %s that are available",
			ranks, size.Decimal(want), size.Decimal(there)).
			WithHint("fewer ranks with -n, or free memory, where a limit of a cgroup counts, too")
	}
	return nil
}

// outputLost ends a job whose output cannot be written.
func (r *run) outputLost(err error) {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	r.coordinator.Fail(watch.Failure{Rank: -1, Kind: fault.Output, Cause: fmt.Sprintf("cannot write the output: %v",
		err)})
}

func cannotStart(rank, of int, err error) watch.Failure {
	f := watch.Failure{Rank: -1, Kind: fault.Launch, Cause: fmt.Sprintf("cannot start rank %d of %d: %v", rank, of,
		err)}
	for _, limit := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, limit) {
			f.Kind = fault.Resource
			f.Hint = "fewer ranks with -n, or raise the limits on processes and open files (ulimit -u, ulimit -n)"
		}
	}
	return f
}

type run struct {
	job         LocalJob
	procs       []*process
	coordinator *watch.Coordinator
	out         *Output
	waits       sync.WaitGroup // for all that is under way on behalf of a process
}

type process struct {
	rank    int
	cmd     *exec.Cmd       // nil if it was not started
	heard   <-chan struct{} // closed when all its messages have been handled
	ended   chan struct{}
	outcome string // how it ended; valid after ended
}

// start starts one rank with its number and a socket to the coordinator, which is its file 3: a socket needs no port
// and no secret, and its end shows that the launcher has died.
func (r *run) start(p *process) error {
	conn, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	cmd := exec.Command(r.job.Path, r.job.Args...)
	cmd.Env = append(slices.Clone(r.job.Env),
		fmt.Sprintf("%s=%d", boot.EnvRank, p.rank),
		fmt.Sprintf("%s=%d", boot.EnvSize, r.job.Ranks),
		boot.EnvControl+"=3")
	cmd.ExtraFiles = []*os.File{theirs}
	if p.rank == 0 && r.job.Stdin != nil {
		cmd.Stdin = r.job.Stdin
	}
	// A rank that is stopped when the launcher dies goes on, and then finds out.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGCONT}
	if err := r.out.Start(cmd, p.rank, p.ended, &r.waits); err != nil {
		conn.Close()
		return err
	}
	p.cmd = cmd
	r.job.Log.Debug("started a rank", "peer", p.rank, "pid", cmd.Process.Pid)
	p.heard = r.coordinator.Serve(conn, p.rank)
	r.waits.Go(func() { r.wait(p) })
	return nil
}

// socketPair returns the launcher's end of a connection to a rank, and the rank's.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(fds[1]), "rank")
	ours := os.NewFile(uintptr(fds[0]), "launcher")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

// wait reports the end of a process, after its own account of it, if it gave one.
func (r *run) wait(p *process) {
	awaitEnd(p.cmd.Process.Pid)
	// What it has started ends with it. Its group's number cannot have gone to
	// another group, since the process has not been reaped yet.
	unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	p.outcome = outcome(p.cmd.Wait())
	close(p.ended)
	r.job.Log.Info("a rank's process has ended", "peer", p.rank, "state", p.cmd.ProcessState)
	select {
	case <-p.heard:
	case <-time.After(hearWait): // another process has its end of the connection
	}
	r.coordinator.Ended(p.rank, p.outcome)
}

// awaitEnd waits for the end of a child without reaping it.
func awaitEnd(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// outcome describes the end of a process that had not left.
func outcome(err error) string {
	if err == nil {
		return "its process exited with code 0 before the job was over"
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err.Error()
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		text := fmt.Sprintf("its process was killed by signal %d (%s)", status.Signal(),
			unix.SignalName(status.Signal()))
		if status.Signal() == syscall.SIGKILL {
			text += ": " + cmp.Or(cpuLimit(exit.UserTime()+exit.SystemTime()),
				"a kill -9, or the kernel ran out of memory")
		}
		return text
	}
	text := fmt.Sprintf("its process exited with code %d", exit.ExitCode())
	if _, limit := memory.Limited(); limit != "" && exit.ExitCode() == crashed {
		text += fmt.Sprintf(": it has crashed, as it does where it takes more memory at once than its limit (%s) leaves", limit)
	}
	return text
}

// crashed is the exit code of a process that Go's runtime ends. It is without memory, or has found a mistake in itself.
const crashed = 2

// cpuLimit names the hard limit on CPU time if a process that has used that much has reached it: the kernel kills it
// then. It has the limit of this process.
func cpuLimit(used time.Duration) string {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CPU, &limit) != nil || limit.Max > math.MaxInt32 {
		return ""
	}
	const part = 0.8 // the kernel counts ticks, for each thread
	if used.Seconds() < part*float64(limit.Max) {
		return ""
	}
	return fmt.Sprintf("the limit on CPU time (ulimit -t %d)", limit.Max)
}

// supervise waits for the end of all processes, and of what the coordinator still
// looks into.
func (r *run) supervise(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.waits.Wait()
	}()
	select {
	case <-done:
	case <-r.coordinator.Failed():
		r.endAll(done)
	case <-ctx.Done():
		r.coordinator.Fail(watch.FailureOf(context.Cause(ctx)))
		r.endAll(done)
	}
	r.coordinator.Close()
	if f := r.coordinator.Failure(); f != nil {
		return *f
	}
	return nil
}

// endAll gives the ranks time to end by themselves, then kills them.
func (r *run) endAll(done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-r.job.Hurry:
	case <-time.After(r.job.Grace):
		if r.coordinator.Storing() {
			r.job.Log.Info("waiting for rank 0, which writes the result", "grace", StoringGrace)
			select {
			case <-done:
				return
			case <-r.job.Hurry:
			case <-time.After(StoringGrace):
			}
		}
	}
	r.job.Log.Warn("killing the ranks that are left", "grace", r.job.Grace)
	for _, p := range r.procs {
		select {
		case <-p.ended:
		default:
			if p.cmd != nil {
				p.cmd.Process.Kill() // also one that is stopped; an ended one does not mind
			}
		}
	}
	select {
	case <-done:
	case <-time.After(2 * hearWait): // what this process writes is not read
	}
}
