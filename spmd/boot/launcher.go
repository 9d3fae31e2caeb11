package boot

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/procfs"
)

// The launcher is the nearest ancestor of a rank without the rank's variables. mpirun that is killed with kill -9
// leaves its ranks running, so each rank watches the launcher's process and ends when that ends. It also watches the
// scripts between the two: launchers kill these, and some then wait for the rank. Ranks of perigee's own launcher watch
// their connection to it instead.

// EnvNoWatch is 1 where ranks may outlive their launcher, such as those that a script starts in the background.
const EnvNoWatch = "PERIGEE_NO_WATCH"

// reprieve is how long a rank goes on whose script has ended: the launcher may end next, or a signal may end the rank.
const reprieve = time.Second

// lookEvery is the pause between two looks at what sends no event when it ends.
const lookEvery = time.Second

// watchLauncher returns a context that ends when the launcher has died, with a *fault.Error as its cause, and a
// function that stops watching. Where there is nothing to watch the context never ends.
func watchLauncher(env Environ, launcher string, log *slog.Logger) (alive context.Context, stop func()) {
	if carriedVariables(env, launcher) == nil || variable(env, EnvNoWatch) == "1" {
		return context.Background(), func() {}
	}
	alive, report := context.WithCancelCause(context.Background())
	chain := findLauncher(env, launcher)
	if len(chain) > 0 {
		watchProcesses(alive, chain, report, log)
		continueWithoutParent()
	} else {
		log.Debug("the launcher is not watched: it is no ancestor of this process")
	}
	if port := srunPort(env, launcher); port != 0 && (listens(port) || sharesNetwork(chain)) {
		log.Debug("watching the launcher", "name", "srun")
		failure := fault.New(fault.RankLost, "its launcher srun has died")
		go poll(alive, func() bool { return !listens(port) }, func() { report(failure) })
	}
	return alive, func() { report(nil) }
}

// watchProcesses watches the launcher and what is between it and the rank, the rank's parent first.
func watchProcesses(alive context.Context, chain []ancestor, report func(error), log *slog.Logger) {
	last := len(chain) - 1
	launcher := chain[last]
	log.Debug("watching the launcher", "pid", launcher.pid, "name", launcher.name)
	for _, a := range chain[:last] {
		failure := fault.New(fault.RankLost, "%s has died, which is between this rank and its launcher %s", a, launcher).
			WithHint("end a script with exec perigee, and signals of the launcher reach it; " + EnvNoWatch + "=1 detaches it")
		a.whenEnded(alive, log, func() { time.AfterFunc(reprieve, func() { report(failure) }) })
	}
	failure := fault.New(fault.RankLost, "its launcher %s has died", launcher)
	launcher.whenEnded(alive, log, func() { report(failure) })
}

// pidfdOpen is a variable for the test of kernels that have no pidfds.
var pidfdOpen = unix.PidfdOpen

// whenEnded calls report when the process has ended, unless ctx ends before. Without pidfds only the end of the parent
// is seen.
func (a ancestor) whenEnded(ctx context.Context, log *slog.Logger, report func()) {
	fd, err := pidfdOpen(a.pid, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true) // Go's poller takes only what does not block
	}
	switch {
	case err == nil:
		file := os.NewFile(uintptr(fd), "pidfd")
		context.AfterFunc(ctx, func() { file.Close() })
		go func() {
			if conn, err := file.SyscallConn(); err == nil && conn.Read(readable) == nil {
				report()
			}
		}()
	case errors.Is(err, unix.ESRCH):
		go report()
	case a.pid == os.Getppid():
		go poll(ctx, func() bool { return os.Getppid() != a.pid }, report)
	default:
		log.Info("an ancestor is not watched", "pid", a.pid, "name", a.name, "reason", err)
	}
}

// readable reports whether a pidfd's process has ended.
func readable(fd uintptr) bool {
	set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(set, 0)
	return err == nil && n > 0
}

// poll looks at once and from time to time whether something has ended, and calls report then. Two looks have to say
// so: the kernel's table of sockets may change while it is read.
func poll(ctx context.Context, ended func() bool, report func()) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for looks := 0; ; {
		if looks++; !ended() {
			looks = 0
		}
		if looks == 2 {
			report()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// bound returns ctx, which ends with the launcher, too.
func bound(ctx, alive context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(alive, func() { cancel(context.Cause(alive)) })
	return ctx, func() { stop(); cancel(nil) }
}

// deathSignal is where the kernel writes; what is on the stack of a goroutine may move.
var deathSignal int32

// continueWithoutParent lets the kernel continue this process if it is stopped when its parent ends: a stopped rank
// would not notice the launcher's end. A signal that the parent has chosen stays.
func continueWithoutParent() {
	err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&deathSignal)), 0, 0, 0)
	if err == nil && deathSignal == 0 {
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGCONT), 0, 0, 0) // an error leaves a stopped rank stopped
	}
}

// carriedVariables are those that a launcher gives to its ranks and does not have itself. nil is for launchers that are
// not watched: perigee's own, and scripts that set torchrun's variables and may end before the ranks do.
func carriedVariables(env Environ, launcher string) []string {
	if launcher == "etcd" && IsTask(env) {
		launcher = "slurm"
	}
	switch launcher {
	case "pmix":
		return []string{"PMIX_RANK", "PMIX_NAMESPACE"}
	case "pmi1":
		return []string{"PMI_RANK", "PMI_FD", "PMI_ID", "PMI_PORT"}
	case "pmi2":
		return []string{"PMI_RANK", "PMI_JOBID"}
	case "slurm":
		return []string{"SLURM_PROCID", "SLURM_JOB_ID", "SLURM_STEP_ID"}
	case "torchrun":
		if variable(env, "TORCHELASTIC_RUN_ID") != "" {
			return []string{"RANK", "TORCHELASTIC_RUN_ID"}
		}
	}
	return nil
}

// launcherNames are the kernel's names of the processes that start ranks, of at most 15 characters. Others, such as a
// link to mpirun that is called otherwise, are known if nothing that drops variables is between.
var launcherNames = map[string][]string{
	"slurm": {"slurmstepd"},
	"pmi1":  {"hydra_pmi_proxy", "flux-shell"},
	"pmix": {
		"orted", "prted", "prte", "prterun", "orterun", "mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.openmpi",
		"flux-shell",
	},
	"torchrun": {"torchrun", "pt_elastic"}, // the second since PyTorch 2.6
}

// findLauncher returns the ancestors of this process up to its launcher: the nearest with a launcher's name that lacks
// the rank's variables, or else the nearest that lacks them. What starts a container drops variables, too, and outlives
// the launcher.
func findLauncher(env Environ, launcher string) (chain []ancestor) {
	names, pairs := launcherNames[launcher], pairsOf(env, carriedVariables(env, launcher))
	if ofSlurm(env, launcher) {
		names = launcherNames["slurm"]
	}
	nearest := 0
	for a := range ancestors {
		chain = append(chain, a)
		if a.carries(pairs) {
			continue
		}
		if slices.Contains(names, a.name) || nearest == 0 && isAgent(launcher, a.name) {
			return chain
		}
		nearest = cmp.Or(nearest, len(chain))
	}
	return chain[:nearest]
}

// isAgent reports whether a process of this name is an agent of torchrun that another program has made, or torchrun
// before PyTorch 2.6.
func isAgent(launcher, name string) bool {
	return launcher == "torchrun" && strings.HasPrefix(name, "python")
}

// ancestor is a process above this one.
type ancestor struct {
	pid  int
	name string // the kernel's; "" if /proc hides it
}

// String names the process for a message: mpirun (process 4711).
func (a ancestor) String() string {
	if a.name == "" {
		return fmt.Sprintf("process %d", a.pid)
	}
	return fmt.Sprintf("%s (process %d)", a.name, a.pid)
}

// ancestors yields the ancestors of this process below process 1, the nearest first, as far as /proc shows them.
func ancestors(yield func(ancestor) bool) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return // /proc is that of another PID namespace
	}
	for pid := os.Getppid(); pid > 1; {
		s, err := procfs.ReadStat(procfs.Dir(pid))
		if !yield(ancestor{pid, s.Name}) || err != nil {
			return
		}
		pid = s.Parent
	}
}

// carries reports whether the process was started with all of these KEY=VALUE pairs. Slurmstepd and other processes of
// root, whose environment is closed to users, are no wrappers of theirs.
func (a ancestor) carries(pairs []string) bool { return hasAll(environOf(procfs.Dir(a.pid)), pairs) }

// environOf returns the KEY=VALUE pairs with which the process that has a folder was started; none if they are closed.
func environOf(dir string) []string {
	data, _ := os.ReadFile(dir + "/environ")
	return strings.Split(string(data), "\x00")
}

func hasAll(environ, pairs []string) bool {
	return !slices.ContainsFunc(pairs, func(kv string) bool { return !slices.Contains(environ, kv) })
}

// title is the command line of the nearest ancestor with a name, which programs may change to say what they do; "" if
// there is none or it is hidden.
func title(name string) string {
	for a := range ancestors {
		if a.name == name {
			data, _ := os.ReadFile(procfs.Dir(a.pid) + "/cmdline")
			return strings.TrimRight(strings.ReplaceAll(string(data), "\x00", " "), " ")
		}
	}
	return ""
}

// pairsOf returns those of the variables that are set, with their values.
func pairsOf(env Environ, names []string) (pairs []string) {
	for _, n := range names {
		if value, ok := env(n); ok {
			pairs = append(pairs, n+"="+value)
		}
	}
	return pairs
}

// ofSlurm reports whether Slurm has started the ranks, or what has started them.
func ofSlurm(env Environ, launcher string) bool {
	return launcher == "slurm" || launcher == "pmi2" || launcher == "etcd" && IsTask(env) ||
		launcher == "pmix" && strings.HasPrefix(variable(env, "PMIX_NAMESPACE"), "slurm.pmix.")
}

// srunPort is the TCP port at which the srun of this step listens, 0 if it runs on another host. srun is no ancestor of
// its tasks: slurmstepd is, which goes on if all processes of srun are killed.
func srunPort(env Environ, launcher string) int {
	at, errAt := netip.ParseAddr(variable(env, "SLURM_LAUNCH_NODE_IPADDR"))
	port, errPort := strconv.ParseUint(variable(env, "SLURM_STEP_LAUNCHER_PORT"), 10, 16)
	own, errOwn := ownAddresses()
	if !ofSlurm(env, launcher) || errors.Join(errAt, errPort, errOwn) != nil {
		return 0
	}
	at = at.Unmap()
	if at.IsLoopback() || slices.ContainsFunc(own, func(a hostAddress) bool { return a.ip == at }) {
		return int(port)
	}
	return 0
}

// listens reports whether a process of this network namespace listens on a TCP port. A line of the kernel's tables has
// a number, the local address as HEX:PORT, the remote one, and the state; lines of sockets that listen come first.
func listens(port int) bool {
	const listening, halfOpen = "0A", "03" // the second are between those that listen on Linux before 4.4
	suffix := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan(); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 4 || fields[3] != listening && fields[3] != halfOpen {
				break
			}
			if fields[3] == listening && strings.HasSuffix(fields[1], suffix) {
				f.Close()
				return true
			}
		}
		f.Close()
	}
	return false
}

// sharesNetwork reports whether the last of these processes, slurmstepd, is in this process's network namespace, and
// not outside of a container's: then srun, if it runs on this host and lives, is seen to listen. Namespaces have
// their own files below /proc/PID/net.
func sharesNetwork(chain []ancestor) bool {
	if len(chain) == 0 {
		return false
	}
	own, errOwn := os.Stat("/proc/self/net/tcp")
	its, errIts := os.Stat(procfs.Dir(chain[len(chain)-1].pid) + "/net/tcp")
	return errOwn == nil && errIts == nil && os.SameFile(own, its)
}

// NodeCommand is the TORCHELASTIC_RUN_ID of ranks that the command of a node has started, as torchrun's agent does.
const NodeCommand = "perigee ep"

// OfNodeCommand reports whether the command of a node has started this process as a rank. Such a rank watches srun, too
// ([UnderSrun]): the command that ends it because srun has died can only send it a signal.
func OfNodeCommand(env Environ) bool { return variable(env, "TORCHELASTIC_RUN_ID") == NodeCommand }

// UnderSrun returns a context that ends with srun or slurmstepd where these have started this process to start ranks,
// and is none itself.
func UnderSrun(ctx context.Context, env Environ) (_ context.Context, release func()) {
	if !IsTask(env) {
		return ctx, func() {}
	}
	alive, stop := watchLauncher(env, "slurm", slog.New(slog.DiscardHandler))
	ctx, cancel := bound(ctx, alive)
	return ctx, func() { cancel(); stop() }
}
