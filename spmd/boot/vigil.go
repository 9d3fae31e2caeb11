package boot

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"perigee/internal/fault"
	"perigee/spmd/boot/ancestry"
	"perigee/spmd/boot/watch"
	"perigee/spmd/host"
)

// A rank whose launcher has died is an orphan: its output is not passed on any more, and
// nothing would ever end it. Under perigee's own launcher the end of the connection to the
// coordinator says so. Other launchers keep no connection: perigee disconnects from
// them right after the start, since they would mind how a connected rank ends. Their
// ranks watch the process itself.

// vigil is the watch over the launcher's process.
type vigil struct {
	launcher *ancestry.Launcher
	log      *slog.Logger
	died     chan struct{}    // closed when the launcher has died
	process  ancestry.Process // the one that has, or that leads to it; valid after died
	stop     context.CancelFunc
}

// watchLauncher begins to watch the launcher. It returns nil where there is nothing to
// watch; ranks are watched less closely then, but work. The error says that the launcher
// has died already.
func watchLauncher(env Environ, launcher string, log *slog.Logger) (*vigil, error) {
	names := carriedVariables(env, launcher)
	if names == nil {
		return nil, nil
	}
	found, err := ancestry.Find(pairsOf(env, names))
	adopted := errors.Is(err, ancestry.ErrAdopted)
	if adopted || errors.Is(err, ancestry.ErrOutside) {
		return watchOutside(launcherPorts(env, launcher), adopted, log)
	}
	if err != nil || found == nil {
		log.Debug("the launcher is not watched: it is no ancestor of this process", "reason", err)
		return nil, nil
	}
	takeItself(found, env, launcher, log)
	if launcher == "pmi1" { // hydra's proxy kills what it has started, and ends, when mpiexec has died
		if err := found.MindStarter(); err != nil {
			log.Debug("what has started the launcher is not watched", "reason", err)
		}
	}
	if at := srunAddress(env, launcher); at.IsValid() {
		if err := alsoSrun(found, at, log); err != nil {
			found.Close()
			return nil, err
		}
	}
	log.Debug("watching the launcher", "pid", found.PID, "name", found.Name)
	ancestry.WakeWithParent()
	return begin(found, log), nil
}

// takeItself takes the launcher itself for it where another process was: what starts a container may drop the rank's
// variables, as apptainer's starter does, and outlives the launcher. The launcher is known by its name, which an
// ancestor has, or else by the port at which it listens.
func takeItself(l *ancestry.Launcher, env Environ, launcher string, log *slog.Logger) {
	port := serverPort(env, launcher)
	if port != 0 && l.ListensAt(port) || port == 0 && isAgent(launcher, l.Name) && l.LacksVariables() {
		return
	}
	known, err := l.Rename(processNames(env, launcher)...)
	if err != nil {
		log.Debug("the launcher is not looked for by its name", "reason", err)
	}
	if known || port == 0 || isElsewhere(env, launcher) {
		return
	}
	if err := l.Relisten(port); err != nil { // in a container with its own network, or the launcher has ended
		log.Debug("the launcher is not looked for by its port", "reason", err)
	}
}

// isAgent reports whether a process of this name is an agent of torchrun that another program has made, or torchrun
// before PyTorch 2.6. A script called torchrun may have started it.
func isAgent(launcher, name string) bool {
	return launcher == "torchrun" && strings.HasPrefix(name, "python")
}

// processNames are the kernel's names of the process that starts the ranks of a host. mpirun and orted, which users
// call by other names, too, are known by their port.
func processNames(env Environ, launcher string) []string {
	switch {
	case launcher == "pmi1":
		return []string{"hydra_pmi_proxy"}
	case launcher == "torchrun":
		return []string{"torchrun", "pt_elastic"} // the second since PyTorch 2.6, whatever command has begun it
	case ofSlurm(env, launcher):
		return []string{"slurmstepd"}
	}
	return nil
}

func begin(launcher *ancestry.Launcher, log *slog.Logger) *vigil {
	ctx, stop := context.WithCancel(context.Background())
	v := &vigil{launcher: launcher, log: log, died: make(chan struct{}), stop: stop}
	go v.watch(ctx)
	return v
}

// watchOutside watches a launcher that is in another PID namespace, as where each rank has a container with its own.
// A rank that process 1 has adopted may be detached from a launcher that is seen.
func watchOutside(ports []int, adopted bool, log *slog.Logger) (*vigil, error) {
	if adopted && slices.ContainsFunc(ports, listensHere) {
		log.Debug("the launcher is not watched: it is in this container, and the rank is detached from it")
		return nil, nil
	}
	found, err := ancestry.AtPorts(ports)
	if err != nil {
		log.Info("the launcher is not watched: it is in another PID namespace, and listens at no port here")
		return nil, nil
	}
	log.Debug("watching the launcher", "name", found.Name)
	return begin(found, log), nil
}

// launcherPorts are the TCP ports of this host at which processes of the launcher listen as long as they live: that of
// srun, and [serverPort].
func launcherPorts(env Environ, launcher string) (ports []int) {
	if at := srunAddress(env, launcher); at.IsValid() {
		ports = append(ports, int(at.Port()))
	}
	if port := serverPort(env, launcher); port != 0 && !isElsewhere(env, launcher) {
		ports = append(ports, port)
	}
	return ports
}

// serverPort is where the process that starts the ranks of a host listens: the PMIx server in mpirun, orted or
// slurmstepd, or torchrun's agent, if that is the only one and on this host ([isElsewhere]). It is 0 if there is none.
func serverPort(env Environ, launcher string) int {
	switch launcher {
	case "pmix":
		for _, name := range pmixServers { // NAMESPACE.RANK;tcp4://ADDRESS:PORT
			text, _ := env(name)
			_, address, _ := strings.Cut(text, "://")
			if at, err := netip.ParseAddrPort(address); err == nil {
				return int(at.Port())
			}
		}
	case "torchrun":
		local, _ := env("LOCAL_WORLD_SIZE")
		all, _ := env("WORLD_SIZE")
		text, _ := env("MASTER_PORT")
		if port, err := strconv.ParseUint(text, 10, 16); err == nil && usesAgentStore(env) && local == all {
			return int(port)
		}
	}
	return 0
}

// listensHere reports whether a process that is seen here listens on a TCP port.
func listensHere(port int) bool {
	_, err := ancestry.Listener(port)
	return err == nil
}

// isElsewhere reports whether torchrun's MASTER_ADDR is known to be another host: then what listens here at its port is
// another job's. One that cannot be looked up may be any of this host's names.
func isElsewhere(env Environ, launcher string) bool {
	if launcher != "torchrun" {
		return false
	}
	master, _ := env("MASTER_ADDR")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", master)
	own, errOwn := ownAddresses()
	if err != nil || errOwn != nil || master == host.Name() {
		return false
	}
	return !slices.ContainsFunc(found, func(ip netip.Addr) bool {
		ip = ip.Unmap().WithZone("")
		return ip.IsLoopback() || ip.IsUnspecified() ||
			slices.ContainsFunc(own, func(a hostAddress) bool { return a.ip == ip })
	})
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

func (v *vigil) watch(ctx context.Context) {
	defer v.launcher.Close()
	p, orphan := v.launcher.Wait(ctx)
	if orphan {
		v.log.Warn("the launcher, or what it has started, has died", "pid", p.PID, "name", p.Name)
		v.process = p
		close(v.died)
	} else if ctx.Err() == nil {
		v.log.Info("detached from the launcher: its end will be no failure")
	}
}

// failure is what has happened once v.died is closed.
func (v *vigil) failure() *fault.Error {
	if v.launcher.Below(v.process) {
		return fault.New(fault.RankLost, "%s has died, which is between this rank and its launcher %s", v.process, v.launcher).
			WithHint("end a script with exec perigee, and signals of the launcher reach it; nohup detaches it")
	}
	return fault.New(fault.RankLost, "its launcher %s has died", v.process)
}

// bound returns a context that ends with the launcher.
func (v *vigil) bound(ctx context.Context) (context.Context, func()) {
	if v == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-v.died:
			cancel(v.failure())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// NodeCommand is the TORCHELASTIC_RUN_ID of ranks that the command of a node has started, as torchrun's agent does.
const NodeCommand = "perigee ep"

// OfNodeCommand reports whether the command of a node has started this process as a rank. Such a rank watches srun, too
// ([UnderSrun]): the command that ends it because srun has died can only send it a signal.
func OfNodeCommand(env Environ) bool { return variable(env, "TORCHELASTIC_RUN_ID") == NodeCommand }

// UnderSrun returns a context that ends with srun or slurmstepd where these have started this process to start ranks,
// and is none itself. The error is that of a launcher that has died already.
func UnderSrun(ctx context.Context, env Environ) (_ context.Context, release func(), err error) {
	if !IsTask(env) {
		return ctx, func() {}, nil
	}
	v, err := watchLauncher(env, "slurm", slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := v.bound(ctx)
	return ctx, func() { cancel(); v.end() }, nil
}

// end lets go of the launcher.
func (v *vigil) end() {
	if v != nil {
		v.stop()
	}
}

// carriedVariables are those by which a process that the launcher has started as
// a rank, or a wrapper around it, differs from the launcher. nil is for launchers that
// are not watched: perigee's own, and whatever sets torchrun's variables without being
// torchrun. That may be a script which starts the ranks in the background, or on other
// hosts with ssh -f, and ends.
func carriedVariables(env Environ, launcher string) []string {
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
		if id, _ := env("TORCHELASTIC_RUN_ID"); id != "" {
			return []string{"RANK", "TORCHELASTIC_RUN_ID"}
		}
	}
	return nil
}

// slurmsPMIx reports whether the PMIx namespace is one that Slurm has made.
func slurmsPMIx(env Environ) bool {
	namespace, _ := env("PMIX_NAMESPACE")
	return strings.HasPrefix(namespace, "slurm.pmix.")
}

// ofSlurm reports whether Slurm has started the ranks, or what has started them.
func ofSlurm(env Environ, launcher string) bool {
	return launcher == "slurm" || launcher == "pmi2" || slurmsPMIx(env)
}

// srunAddress is where the srun of this step listens, invalid if it runs on another
// host. Tasks are children of slurmstepd, which goes on when srun has died. Slurm ends
// the step by itself if srun alone is killed, but not if its second process, which does
// that, is killed with it.
func srunAddress(env Environ, launcher string) netip.AddrPort {
	if !ofSlurm(env, launcher) {
		return netip.AddrPort{}
	}
	text, _ := env("SLURM_STEP_LAUNCHER_PORT")
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return netip.AddrPort{}
	}
	text, _ = env("SLURM_LAUNCH_NODE_IPADDR")
	at, err := netip.ParseAddr(text)
	if err != nil {
		return netip.AddrPort{}
	}
	own, err := ownAddresses()
	here := slices.ContainsFunc(own, func(a hostAddress) bool { return a.ip == at.Unmap() })
	if err != nil || !here && !at.Unmap().IsLoopback() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(at, uint16(port))
}

// A rank under a slow wrapper may come when srun has died already. That it is not there
// counts as its death only if it is seen srunLooks times, srunPause after each other: a
// wrong guess would end an honest job.
const (
	srunLooks = 3
	srunPause = 100 * time.Millisecond
)

// alsoSrun makes the end of srun count as that of the launcher. The error says that srun
// has ended.
func alsoSrun(l *ancestry.Launcher, at netip.AddrPort, log *slog.Logger) error {
	for look := 1; ; look++ {
		err := l.AlsoListener(int(at.Port()))
		if err == nil {
			return nil
		}
		log.Debug("srun is not watched", "reason", err)
		closed := errors.Is(err, ancestry.ErrNoListener)
		if closed && !srunWouldListen(l, at) || !closed && look == srunLooks {
			return nil
		}
		if look == srunLooks {
			return fault.New(fault.RankLost, "its launcher srun has died: nothing listens at %s any more", at).
				WithHint("if it runs, unset SLURM_STEP_LAUNCHER_PORT for the ranks: then srun is not watched")
		}
		time.Sleep(srunPause)
	}
}

// srunWouldListen reports whether srun, if it were alive, would listen here. slurmstepd
// has connected to it at that address before it started this task. So it would, if this process
// sees the network that slurmstepd sees, and is not in a container that has another.
// A connection is tried too: packets may be led to another namespace, where srun is.
func srunWouldListen(l *ancestry.Launcher, at netip.AddrPort) bool {
	if l.Name != "slurmstepd" || !l.SharesNetwork() {
		return false
	}
	conn, err := net.DialTimeout("tcp", at.String(), time.Second)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// protect connects the vigil to the monitor of a rank that has joined.
func (v *vigil) protect(p *Process) {
	if v == nil {
		return
	}
	if m, ok := p.Monitor.(interface {
		Heed(d watch.LauncherDeath, release func())
	}); ok {
		m.Heed(watch.LauncherDeath{Died: v.died, Failure: v.failure}, v.end)
	}
}
