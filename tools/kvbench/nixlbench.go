package kvbench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/spmd/boot"
	"perigee/tools/run"
)

// formatNixlbench is nixlbench's own table.
const formatNixlbench = "nixlbench"

// NixlbenchCmd is `perigee kvbench nixlbench`, which a link to perigee of the name nixlbench is, too: the options are
// nixlbench's, and so are their meaning, the number of processes and the table.
type NixlbenchCmd struct {
	run.Flags `set:"ranks=--num_initiator_dev and --num_target_dev together; 1 with files"`
	Bench     `set:"sizes=Sizes double from start to max."`
	backendOption
}

// backendOption are a job's options beside nixlbench's own.
type backendOption struct {
	BackendParam []string `name:"backend-param" sep:"none" placeholder:"K=V" group:"Job" help:"A parameter of NIXL's plugin --backend (may be repeated)."`
	JUnit        string   `name:"junit" placeholder:"FILE" group:"Job" help:"Write what became of the thresholds, and of the job, to FILE as JUnit XML."`
	others
}

// yielding gives a job these options, and checks all that it has.
func (o backendOption) yielding(f *run.Flags) error {
	params, err := o.params()
	if err != nil {
		return err
	}
	f.Yielding = run.Yielding{BackendParam: mergeParams(params, o.BackendParam), JUnit: o.JUnit}
	return f.Check()
}

// Help adds to the flags in perigee kvbench nixlbench --help.
func (NixlbenchCmd) Help() string {
	return "With NIXL_ETCD_NAMESPACE set, this is one process of the benchmark, which meets the others at --etcd_endpoints.\n\n" +
		"Example: perigee kvbench nixlbench --max_block_size 1048576 --iters 100\n\nSee docs/cloudai.md."
}

// Run runs the benchmark, or takes part in it.
func (c *NixlbenchCmd) Run(streams cli.Streams) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := c.yielding(&c.Flags); err != nil {
		return err
	}
	known, err := c.known()
	if err != nil {
		return err
	}
	b := c.Bench
	b.Backend = known.name
	r := routed{bench: b, storage: known.storage, local: cli.Given(b.InitiatorSegType, dram)}
	r.bench.NumInitiatorDev, r.bench.NumTargetDev = 1, 1 // they count the ranks here
	n := b.processes(known.storage)
	j := r.scenario(b).job(c.Flags, b.meeting(cli.Given(c.Ranks, n)), formatNixlbench)
	launcher, started, err := boot.Started(j.Environ())
	if err != nil {
		return err
	}
	warnings := r.idle()
	if b.Mode == "MG" {
		warnings = append(warnings, "--mode MG makes two processes, with one device each here")
		b.Mode = DefaultBench().Mode
	}
	if idle := b.idleHere(launcher); len(idle) > 0 {
		warnings = append(warnings, strings.Join(idle, ", ")+" without effect")
	}
	for _, text := range warnings {
		fmt.Fprintln(streams.Err, "perigee: warning:", text)
	}
	if !started {
		if err := run.StartsHere(j.Environ(), c.Flags, streams.Err); err != nil {
			return err
		}
	}
	if c.Ranks == nil && (!started || launcher == "etcd") {
		j.Flags.Ranks = &n // else the launcher decides
	}
	return j.Run(context.Background(), streams)
}

// processes is how many processes nixlbench has: one with files, two whose devices are all theirs in the mode MG, and
// else one for each device.
func (b Bench) processes(storage bool) int {
	switch {
	case storage:
		return 1
	case b.Mode == "MG":
		return 2
	}
	return int(b.NumInitiatorDev + b.NumTargetDev)
}

// meeting returns the variables by which the processes of a benchmark meet at an etcd; nil where each has ranks of its
// own. As the etcd is named in the examples of nixlbench even where none runs, the namespace decides.
func (b Bench) meeting(processes int) map[string]string {
	if os.Getenv(boot.EnvEtcdNamespace) == "" || processes < 2 {
		return nil
	}
	vars := map[string]string{boot.EnvEtcdRanks: strconv.Itoa(processes)}
	if b.EtcdEndpoints != DefaultBench().EtcdEndpoints {
		vars[boot.EnvEtcdEndpoints] = b.EtcdEndpoints
	}
	return vars
}

// job is the run of a benchmark whose options are the scenario's. An empty format is the scenario's own.
func (b Bench) job(flags run.Flags, env map[string]string, format string) run.Job {
	j := run.Job{Command: "perigee run kvbench", Scenario: "kvbench", Flags: flags, Env: env, Options: map[string]any{}}
	if format != "" {
		j.Options["format"] = format
	}
	var params []string
	for _, f := range b.forScenario() {
		switch f.name {
		case "backend":
			j.Flags.Yielding.Backend = b.Backend
		case backendParamFlag:
			params = append(params, fmt.Sprint(f.value))
		default:
			j.Options[f.name] = f.value
		}
	}
	j.Flags.Yielding.BackendParam = mergeParams(params, flags.Yielding.BackendParam)
	_, variables := b.forBackend()
	for name, value := range variables {
		os.Setenv(name, value) // the ranks inherit it
	}
	return j
}

// mergeParams leaves out of a list KEY=VALUE what the user gives otherwise.
func mergeParams(list, given []string) []string {
	key := func(p string) string { k, _, _ := strings.Cut(p, "="); return k }
	list = slices.DeleteFunc(list, func(p string) bool {
		return slices.ContainsFunc(given, func(g string) bool { return key(g) == key(p) })
	})
	return append(list, given...)
}

// JoinBooleans joins an option of nixlbench and the word True or False after it to one word: KVBench's command lines
// have them so.
func JoinBooleans(args []string) (joined []string) {
	switches := map[string]bool{} // with underscores for hyphens
	for _, f := range DefaultBench().flags() {
		_, switches["__"+f.name] = f.value.(bool)
	}
	for i, word := range args {
		value := strings.ToLower(word)
		isValue := i > 0 && (value == "true" || value == "false")
		if isValue && switches[strings.ReplaceAll(args[i-1], "-", "_")] {
			joined[len(joined)-1] += "=" + value
			continue
		}
		joined = append(joined, word)
	}
	return joined
}
