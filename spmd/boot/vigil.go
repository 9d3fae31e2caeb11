package boot

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/fault"
	"perigee/spmd/boot/ancestry"
	"perigee/spmd/boot/watch"
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
	process  ancestry.Process // the one that has; valid after died
	stop     context.CancelFunc
}

// watchLauncher begins to watch the launcher. It returns nil where there is nothing to
// watch; ranks are watched less closely then, but work.
func watchLauncher(env Environ, launcher string, log *slog.Logger) *vigil {
	names := carriedVariables(env, launcher)
	if names == nil {
		return nil
	}
	var pairs []string
	for _, n := range names {
		if value, ok := env(n); ok {
			pairs = append(pairs, n+"="+value)
		}
	}
	found, err := ancestry.Find(pairs)
	if err != nil || found == nil {
		log.Debug("the launcher is not watched: it is no ancestor of this process", "reason", err)
		return nil
	}
	if port := srunPort(env, launcher); port > 0 {
		alsoSrun(found, port, log)
	}
	log.Debug("watching the launcher", "pid", found.PID, "name", found.Name)
	ancestry.WakeWithParent()
	ctx, stop := context.WithCancel(context.Background())
	v := &vigil{launcher: found, log: log, died: make(chan struct{}), stop: stop}
	go v.watch(ctx)
	return v
}

func (v *vigil) watch(ctx context.Context) {
	defer v.launcher.Close()
	p, orphan := v.launcher.Wait(ctx)
	if orphan {
		v.log.Warn("the launcher has died", "pid", p.PID, "name", p.Name)
		v.process = p
		close(v.died)
	} else if ctx.Err() == nil {
		v.log.Info("detached from the launcher: its end will be no failure")
	}
}

// failure is what has happened once v.died is closed.
func (v *vigil) failure() *fault.Error {
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

// srunPort is the TCP port on which the srun of this step listens, 0 if it runs on
// another host. Tasks are children of slurmstepd, which goes on when srun has died.
// Slurm ends the step by itself if srun alone is killed, but not if its second
// process, which does that, is killed with it.
func srunPort(env Environ, launcher string) int {
	namespace, _ := env("PMIX_NAMESPACE")
	if launcher != "slurm" && launcher != "pmi2" && !strings.HasPrefix(namespace, "slurm.pmix.") {
		return 0
	}
	text, _ := env("SLURM_STEP_LAUNCHER_PORT")
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return 0
	}
	at, _ := env("SLURM_LAUNCH_NODE_IPADDR")
	own, err := ownAddresses()
	here := slices.ContainsFunc(own, func(a hostAddress) bool { return a.ip.String() == at })
	if err != nil || !here && loopback(at) == "" {
		return 0
	}
	return port
}

func alsoSrun(l *ancestry.Launcher, port int, log *slog.Logger) {
	pid, err := ancestry.Listener(port)
	if err == nil {
		err = l.Also(pid)
	}
	if err != nil {
		log.Debug("srun is not watched", "reason", err)
	}
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
