package boot

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/spmd/boot/watch"
)

// Process describes this process once it has joined.
type Process struct {
	Launcher  string // one of Launchers
	Rank      int
	Size      int
	LocalRank int    // as the launcher says; -1 if it does not
	Host      string // this host's name in the launcher's words; "" if it has none
	Secret    []byte // the job's, for the links
	Listen    string // host:port on which to listen for links
	IPs       []string
	// Waiting says, at rank 0 while the world is incomplete, for which ranks it
	// waits; "" if for none. It is nil where the launcher watches the ranks.
	Waiting func() string

	watch.Store
	watch.Monitor
}

// Environ looks up environment variables. os.LookupEnv is one.
type Environ func(key string) (string, bool)

// Names are those of this process's environment variables.
func Names() (names []string) {
	for _, text := range os.Environ() {
		name, _, _ := strings.Cut(text, "=")
		names = append(names, name)
	}
	return names
}

// detector recognises one launcher. It returns a nil connect function if the
// process was not started by it.
type detector struct {
	name   string
	detect func(env Environ) (connect, error)
}

type connect func(ctx context.Context, watch Watcher) (*Process, error)

// detectors in the order in which they are asked. What perigee itself has
// started comes first, since it may in turn have been started by any other, and
// so may what torchrun's agent has started. mpirun and mpiexec may run inside a
// Slurm job, whose steps offer less. Variables that look like torchrun's and are
// not quite complete are the last resort: job scripts set some of them.
var detectors = []detector{
	{"local", detectLocal},
	{"etcd", detectEtcd},
	{"torchrun", detectTorchelastic},
	{"pmix", detectPMIx},
	{"pmi2", detectPMI2},
	{"pmi1", detectPMI1},
	{"slurm", detectSlurm},
	{"torchrun", detectTorchrun},
}

// forced recognises a launcher that the user has named: its variables must be
// there, whatever else is.
var forced = []detector{
	{"local", detectLocal},
	{"slurm", requireSlurm},
	{"pmix", requirePMIx},
	{"pmi2", requirePMI2},
	{"pmi1", requirePMI1},
	{"torchrun", requireTorchrun},
	{"etcd", requireEtcd},
}

// EnvLauncher names the launcher, if several have left their variables.
const EnvLauncher = "PERIGEE_LAUNCHER"

// Launchers returns the values of EnvLauncher.
func Launchers() []string {
	names := []string{"auto"}
	for _, d := range forced {
		names = append(names, d.name)
	}
	return names
}

// find returns the launcher that started this process, or a nil connect
// function.
func find(env Environ) (launcher string, c connect, err error) {
	candidates := detectors
	if name, _ := env(EnvLauncher); name != "" && name != "auto" {
		i := slices.IndexFunc(forced, func(d detector) bool { return d.name == name })
		if i < 0 {
			return "", nil, fault.New(fault.Usage, "there is no launcher %q", name).
				WithHint("--launcher (%s) is one of %s", EnvLauncher, strings.Join(Launchers(), ", "))
		}
		candidates = forced[i : i+1]
		// perigee's own ranks know best who started them.
		if _, ours := env(EnvControl); ours {
			candidates = forced[:1]
		}
	}
	return nearest(env, candidates)
}

// nearest returns the nearest of the launchers that have left their variables, the first of several.
func nearest(env Environ, candidates []detector) (launcher string, c connect, err error) {
	least := math.MaxInt
	for _, d := range candidates {
		found, failed := d.detect(env)
		if failed == nil && found == nil || ofOtherStep(env, d.name) {
			continue
		}
		if at := distance(env, d.name); at < least {
			launcher, c, err, least = d.name, found, failed, at
		}
	}
	return launcher, c, err
}

// starters are the detectors of the launchers whose own processes start ranks. What only sets torchrun's variables is
// not among them, and does not hide that a process is a task of srun.
var starters = []detector{
	{"local", detectLocal},
	{"torchrun", detectTorchelastic},
	{"pmix", detectPMIx},
	{"pmi2", detectPMI2},
	{"pmi1", detectPMI1},
	{"slurm", detectTask},
}

// RankOf returns the launcher whose process has started this one as a rank, "" if none has, or the user says so by
// [EnvLauncher], and whether that is Slurm with any of its plugins. It is for commands that give the variables of
// torchrun another meaning: they decide about a process for which [Started] names torchrun for nothing else.
func RankOf(env Environ) (launcher string, slurms bool) {
	if _, ours := env(EnvControl); !ours && variable(env, EnvLauncher) == "local" {
		return "", false
	}
	launcher, _, _ = nearest(env, starters) // what is wrong with its variables Started says
	return launcher, ofSlurm(env, launcher)
}

// distance is how far away a launcher is that has left its variables: how many ancestors of this process have them,
// too. Of launchers that have started each other the nearest has started this process. What only sets variables
// is behind all of them, and perigee's own launcher before.
func distance(env Environ, launcher string) int {
	names := carriedVariables(env, launcher)
	switch {
	case launcher == "local", launcher == "etcd": // which has seen that no other knows of further ranks
		return -1
	case names == nil:
		return math.MaxInt - 1
	}
	pairs := pairsOf(env, names)
	depth, name := 0, ""
	for a := range ancestors {
		if a.carries(pairs) {
			depth++
			continue
		}
		if isLauncherName(a.name) || isAgent(launcher, a.name) {
			name = a.name
			break
		}
		name = cmp.Or(name, a.name)
	}
	if passesOn(env, launcher, name) {
		depth++
	}
	return depth
}

func isLauncherName(name string) bool {
	for _, names := range launcherNames {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// passesOn reports whether the process above those with a launcher's variables has not given them, though it lacks
// them: srun and mpiexec pass on the variables of the launcher that has started them, which slurmstepd and hydra's
// proxy, if mpiexec starts that by a step of Slurm or by ssh, do not have.
func passesOn(env Environ, launcher, name string) bool {
	switch name {
	case "slurmstepd":
		return !ofSlurm(env, launcher)
	case "hydra_pmi_proxy":
		return launcher != "pmi1"
	}
	return false
}

// ofOtherStep reports whether the variables of one of Slurm's plugins are of another step than this process is in.
func ofOtherStep(env Environ, launcher string) bool {
	id := ""
	switch {
	case launcher == "slurm":
		return isOtherStep(env, title("slurmstepd"))
	case launcher == "pmi2", launcher == "pmi1" && !isOpen(variable(env, "PMI_FD")):
		id = variable(env, "PMI_JOBID") // JOB.STEP
	case launcher == "pmix" && ofSlurm(env, launcher): // others' names may have dots, too
		id = variable(env, "PMIX_NAMESPACE") // slurm.pmix.JOB.STEP
	}
	job, step := variable(env, "SLURM_JOB_ID"), variable(env, "SLURM_STEP_ID")
	at := strings.LastIndexByte(id, '.')
	if at < 0 || job == "" || step == "" {
		return false
	}
	theirs := id[strings.LastIndexByte(id[:at], '.')+1 : at]
	heterogeneous := variable(env, "SLURM_HET_SIZE") != "" // id has the first of its jobs
	return id[at+1:] != step || theirs != job && !heterogeneous
}

// isOpen reports whether a text is the number of an open descriptor.
func isOpen(fd string) bool {
	n, err := strconv.Atoi(fd)
	if err != nil || n < 0 {
		return false
	}
	_, err = unix.FcntlInt(uintptr(n), unix.F_GETFD, 0)
	return err == nil
}

// isOtherStep reports whether the title of slurmstepd, "slurmstepd: [JOB.STEP]", is that of a batch script, or of a
// shell on a node, and the step in the environment that of the one which has submitted it: sbatch passes on all
// variables.
func isOtherStep(env Environ, title string) bool {
	_, after, _ := strings.Cut(title, "[")
	name, _, _ := strings.Cut(after, "]")
	job, step, _ := strings.Cut(name, ".")
	step, _, _ = strings.Cut(step, "+") // and the number of a component of a heterogeneous step
	if _, err := strconv.ParseUint(step, 10, 32); err == nil {
		return false // srun sets all of them
	}
	return step != "" && job == variable(env, "SLURM_JOB_ID") && variable(env, "SLURM_STEP_ID") != ""
}

func variable(env Environ, name string) string {
	value, _ := env(name)
	return value
}

// Started reports whether a launcher started this process as a rank, and
// which. It opens nothing.
func Started(env Environ) (launcher string, ok bool, err error) {
	name, c, err := find(env)
	return name, c != nil, err
}

// Watcher receives what concerns the user while ranks meet and work. Its functions
// must not block for long. Any of its fields may be nil.
type Watcher struct {
	// Failed is called in the rank that coordinates the job, before any other
	// rank learns of the failure: after that ranks leave, and launchers that see
	// one of them leave may kill the others.
	Failed func(watch.Failure)
	// Waiting is called, at most once, when this rank has waited for long, with
	// what it waits for.
	Waiting func(why string)
	Log     *slog.Logger // never gets a secret, or the value of a variable
}

// alike is an error that all ranks of a host find alike, in what their launcher has given to them.
type alike struct {
	error
	localRank int
}

func (a alike) Unwrap() error { return a.error }

// LeftToAnother reports whether an error of [Join] is one that all ranks of a host have, and another of them is the one
// that says it.
func LeftToAnother(err error) bool {
	a, ok := errors.AsType[alike](err)
	return ok && a.localRank > 0
}

func (w Watcher) log() *slog.Logger { return cmp.Or(w.Log, slog.New(slog.DiscardHandler)) }

// Join finds out who this process is and meets the others. It fails if no
// launcher started it.
func Join(ctx context.Context, env Environ, watch Watcher) (*Process, error) {
	launcher, c, err := find(env)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, fault.New(fault.Launch, "this process was not started as a rank: no launcher's variables are set").
			WithHint("start it with perigee run -n N, srun, mpirun, mpiexec or torchrun")
	}
	alive, stop := watchLauncher(env, launcher, watch.log())
	bounded, release := bound(ctx, alive)
	defer release()
	p, err := c(bounded, watch)
	if err != nil {
		stop()
		return nil, err
	}
	if m, ok := p.Monitor.(interface{ Heed(context.Context, func()) }); ok {
		m.Heed(alive, stop)
	}
	return p, nil
}

// variables reads a launcher's variables and complains about a half-set
// group: found and lacking ones are named.
type variables struct {
	env    Environ
	values map[string]string
	lack   []string
}

func readVariables(env Environ, names ...string) variables {
	v := variables{env: env, values: map[string]string{}}
	for _, n := range names {
		if s, ok := env(n); ok && s != "" {
			v.values[n] = s
		} else {
			v.lack = append(v.lack, n)
		}
	}
	return v
}

func (v variables) has(name string) bool {
	_, ok := v.values[name]
	return ok
}

func (v variables) none() bool { return len(v.values) == 0 }

func (v variables) incomplete(launcher string) error {
	if len(v.lack) == 0 {
		return nil
	}
	if v.none() {
		return fault.New(fault.Launch, "%s has not started this process: not set are %s", launcher,
			strings.Join(v.lack, " ")).
			WithHint("leave out --launcher and %s, or start perigee with the launcher that you name there", EnvLauncher)
	}
	var found []string
	for n, s := range v.values {
		found = append(found, n+"="+s)
	}
	return fault.New(fault.Launch, "the environment of %s is half set: found %s, but not %s",
		launcher, strings.Join(slices.Sorted(slices.Values(found)), " "), strings.Join(v.lack, " ")).
		WithHint("set the missing variables, or unset the others")
}

func (v variables) integer(name string, low, high int) (int, error) {
	n, err := strconv.Atoi(v.values[name])
	if err != nil || n < low || n > high {
		return 0, fault.New(fault.Launch, "%s=%s: want an integer from %d to %d", name, v.values[name], low, high)
	}
	return n, nil
}

// MaxSize is the largest world perigee accepts; a larger number in a launcher's
// variable is a mistake.
const MaxSize = 1 << 20

func (v variables) rankAndSize(rankName, sizeName string) (rank, size int, err error) {
	if size, err = v.integer(sizeName, 1, MaxSize); err != nil {
		return 0, 0, err
	}
	if rank, err = v.integer(rankName, 0, size-1); err != nil {
		return 0, 0, err
	}
	return rank, size, nil
}
