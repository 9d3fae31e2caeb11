package run

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee/internal/experiment"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/size"
	"perigee/internal/kit/value"
	"perigee/lua"
	"perigee/nixl"
	"perigee/nixl/engines"
	"perigee/scenarios"
	"perigee/spmd/boot"
)

// The engines that --engine takes, and words before them where a command has a choice of its own, too.
func init() {
	names := engines.Names()
	last := len(names) - 1
	cli.Vars["engines"], cli.Vars["too"], cli.Vars["too_help"] = strings.Join(names, ","), "", ""
	cli.Vars["engines_help"] = strings.Join(names[:last], ", ") + " or " + names[last]
}

// Flags are the options of every job, whatever the scenario. A command that runs jobs embeds them; the variables in the
// tags are set where it gives a flag another meaning.
type Flags struct {
	Ranks     *int     `short:"n" name:"ranks" placeholder:"N" group:"Job" help:"Start N ranks on this machine (default: ${ranks=as many as the scenario asks for})."`
	Engine    string   `enum:"${too}${engines}" default:"${engine=auto}" group:"Job" help:"What moves the bytes: ${too_help}${engines_help}."`
	NixlLib   string   `name:"nixl-lib" placeholder:"FILE" group:"Job" help:"libnixl_capi.so to load (default: searched for; see docs/engines.md)."`
	Result    string   `placeholder:"FILE" group:"Job" help:"Write the result to FILE: .json, .json.gz or .json.zst."`
	Timeout   Duration `placeholder:"T" group:"Job" help:"Give up when a transfer or a meeting of ranks takes longer than T, such as 90s (default: ${timeout=wait})."`
	Seed      *uint64  `placeholder:"N" group:"Job" help:"Seed of random matrices and of verified bytes (default: ${seed=0})."`
	Launcher  *string  `enum:"auto,local,slurm,pmix,pmi2,pmi1,torchrun,etcd" placeholder:"NAME" group:"Job" help:"What started the ranks, if the guess is wrong (or PERIGEE_LAUNCHER): auto, local, slurm, pmix, pmi2, pmi1, torchrun or etcd."`
	Iface     string   `placeholder:"NAME" group:"Job" help:"Interface, address or network (10.0.0.0/8) by which ranks reach each other (also PERIGEE_IFACE)."`
	LogLevel  *string  `name:"log-level" enum:"off,debug,info,warn,error" placeholder:"LEVEL" group:"Job" help:"Log what the ranks do: debug, info, warn, error or off (also PERIGEE_LOG_LEVEL; see docs/logs.md)."`
	LogDir    string   `name:"log-dir" placeholder:"DIR" group:"Job" help:"Log into a file per rank in DIR instead of to standard error (also PERIGEE_LOG_DIR)."`
	Threshold []string `sep:"none" placeholder:"LIMIT" group:"Job" help:"Fail if a figure is beyond a limit such as 'latency_ms.p99 < 40' (may be repeated; see docs/thresholds.md)."`
	AllowIO   bool     `name:"allow-io" group:"Job" help:"Let the scenario write any file, not only those named on the command line."`

	Yielding Yielding `kong:"-"` // a command embeds it beside the others
}

// Yielding are options of every job that make way for options of the same name that a scenario has. So they can be told
// from these only where the scenario is known.
type Yielding struct {
	Title        string   `placeholder:"TEXT" group:"Job" help:"What the run is called in its header, result and reports."`
	Lib          []string `sep:"none" placeholder:"DIR" group:"Job" help:"A folder with modules for require, besides that of the scenario's file (may be repeated)."`
	Backend      string   `placeholder:"NAME" group:"Job" help:"NIXL's plugin that moves the bytes, such as LIBFABRIC; those for storage reach files (default: UCX, and POSIX for files; see docs/engines.md)."`
	BackendParam []string `name:"backend-param" sep:"none" placeholder:"K=V" group:"Job" help:"A parameter of this plugin (may be repeated)."`
	GPUMap       string   `name:"gpu-map" placeholder:"LIST" group:"Job" help:"Which GPU each local rank uses, as CUDA counts them: 0,1,2,3 in turn, or RANK:GPU,... for single ones (default: one after the other)."`
	NICMap       string   `name:"nic-map" placeholder:"LIST" group:"Job" help:"Which network devices UCX may use for each local rank: mlx5_0:1,mlx5_1:1 in turn, or RANK=DEVICE,...; + joins several of one rank (default: all)."`
	Line         string   `placeholder:"RATE" group:"Job" help:"What a host can send to others, such as 200Gbit or 25GB/s, where its devices do not say that (see docs/thresholds.md)."`
	Ceiling      bool     `group:"Job" help:"Measure one large message after the run, for comparison."`
	JUnit        string   `name:"junit" placeholder:"FILE" group:"Job" help:"Write what became of the thresholds, and of the job, to FILE as JUnit XML."`
	Metrics      []string `sep:"none" placeholder:"FORM=WHERE" group:"Job" help:"Show the run to dashboards every 10 s and at its end: prometheus-file=PATH for node_exporter, otlp=URL (may be repeated; see docs/dashboards.md)."`
}

// without returns a pointer to a struct of those options whose names a scenario leaves.
func (Yielding) without(sc lua.Scenario) any {
	var left []reflect.StructField
	for f := range reflect.TypeFor[Yielding]().Fields() {
		name := cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name))
		fixed := name == "lib" && sc.Library.Folders == nil // what it requires is known
		if !fixed && !slices.ContainsFunc(sc.Options, func(o lua.Option) bool { return o.Name == name }) {
			left = append(left, f)
		}
	}
	return reflect.New(reflect.StructOf(left)).Interface()
}

// take reads the options that a scenario leaves among the words of a command line, and returns the others. What the
// words do not give stays.
func (y *Yielding) take(command string, sc lua.Scenario, words []string) (rest []string, err error) {
	own := y.without(sc)
	if rest, err = cli.Take(own, words); err != nil {
		return rest, fault.New(fault.Usage, "%w", cli.Plain(err)).WithHint("%s --help", command)
	}
	found := reflect.ValueOf(own).Elem()
	for i := range found.NumField() {
		if v := found.Field(i); !v.IsZero() {
			reflect.ValueOf(y).Elem().FieldByName(found.Type().Field(i).Name).Set(v)
		}
	}
	return rest, nil
}

// backend is the backend that the user wants.
func (y Yielding) backend() (b nixl.Backend, err error) {
	b.Name = y.Backend
	for _, text := range y.BackendParam {
		key, value, ok := strings.Cut(text, "=")
		_, twice := b.Params[key]
		switch {
		case !ok || key == "" || strings.ContainsRune(text, 0):
			return b, fault.New(fault.Usage, "--backend-param %q: wanted KEY=VALUE", text)
		case twice:
			return b, fault.New(fault.Usage, "--backend-param %s is given twice, as %q and %q", key, b.Params[key], value)
		case b.Params == nil:
			b.Params = map[string]string{}
		}
		b.Params[key] = value
	}
	return b, nil
}

// line is the rate of --line in bytes per second, 0 where it is not given.
func (y Yielding) line() (rate float64, err error) {
	if y.Line == "" {
		return 0, nil
	}
	if rate, err = size.ParseRate(y.Line); err != nil {
		return 0, fault.New(fault.Usage, "--line: %w", err)
	}
	return rate, nil
}

// String writes the backend for messages.
func (y Yielding) String() string {
	return cmp.Or(strings.Join(append([]string{y.Backend}, y.BackendParam...), " "), "none")
}

// offer gives a scenario the backend among its options: backend, a name, and backend_files, whether it reaches files.
func (f Flags) offer(r *lua.Runtime) {
	if name := f.Yielding.Backend; name != "" {
		r.Offered = map[string]any{"backend": name, "backend_files": nixl.ReachesFiles(name)}
	}
}

// serves refuses a backend for files where the scenario is a shipped one that has none: neither an option for them nor
// a configuration.
func (j Job) serves(sc lua.Scenario, backend string) error {
	_, _, shipped := scenarios.Source(j.Scenario)
	if !shipped || !nixl.ReachesFiles(backend) || len(sc.Keys("storage")) > 0 ||
		slices.Contains(sc.Keys("path"), "config") {
		return nil
	}
	return fault.New(fault.Usage, "scenario %s: %w", j.Scenario, engines.NotForRanks(backend))
}

// Duration is a time that may be given as a number of seconds without a unit, too, as the tests of other tools take it.
type Duration time.Duration

// String writes the time with its unit.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the time with its unit.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads 90s or 90.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		s += "s"
	}
	t, err := time.ParseDuration(s)
	if err != nil {
		return fault.New(fault.Usage, "wanted a time such as 90s, got %q", text)
	}
	*d = Duration(t)
	return nil
}

// leastTimeout is the shortest --timeout: below it ranks that wait for nothing but a turn of the CPU would fail.
const leastTimeout = time.Millisecond

// Check refuses values that make no sense.
func (f Flags) Check() error {
	if n := f.Ranks; n != nil {
		if _, err := value.AtLeast(1).Check(int64(*n)); err != nil {
			return fault.New(fault.Usage, "--ranks: %w", err).WithHint("without it the scenario decides")
		}
	}
	if t := time.Duration(f.Timeout); t < 0 || t > 0 && t < leastTimeout {
		return fault.New(fault.Usage, "--timeout is %v, want at least %v", t, leastTimeout).
			WithHint("without it ranks wait for each other as long as it takes")
	}
	if _, err := f.Yielding.line(); err != nil {
		return err
	}
	b, err := f.Yielding.backend()
	if err != nil {
		return err
	}
	return cmp.Or(engines.CheckBackend(f.Engine, b), f.Yielding.checkMaps(f.Engine))
}

// checkMaps refuses maps that are none, or that have no effect on an engine and a backend.
func (y Yielding) checkMaps(engine string) error {
	_, err := experiment.ParseGPUMap(y.GPUMap)
	if err == nil {
		_, err = experiment.ParseNICMap(y.NICMap)
	}
	ucx := y.Backend == "" || strings.HasPrefix(strings.ToUpper(y.Backend), "UCX")
	switch {
	case err != nil:
		return err
	case engines.HostOnly(engine) && y.GPUMap+y.NICMap != "":
		return fault.New(fault.Usage, "--gpu-map and --nic-map have no effect on --engine %s, which uses neither GPUs nor NICs",
			engine)
	case !ucx && y.NICMap != "":
		return fault.New(fault.Usage, "--nic-map has no effect on --backend %s: it is for UCX", y.Backend)
	}
	return nil
}

// take reads the flags of a job among the words of a command line, and returns the others.
func (f *Flags) take(command string, words []string) (rest []string, err error) {
	if rest, err = cli.Take(f, words); err != nil {
		err = fault.New(fault.Usage, "%w", cli.Plain(err)).WithHint("%s --help", command)
	}
	return rest, err
}

// Over returns an environment in which the flags that decide about the start of a rank stand for their variables.
func (f Flags) Over(env boot.Environ) boot.Environ {
	given := map[string]string{}
	if f.Launcher != nil {
		given[boot.EnvLauncher] = *f.Launcher
	}
	if f.Iface != "" {
		given[boot.EnvIface] = f.Iface
	}
	if f.LogLevel != nil {
		given[EnvLogLevel] = *f.LogLevel
	}
	if f.LogDir != "" {
		given[EnvLogDir] = f.LogDir
	}
	return func(key string) (string, bool) {
		if v, ok := given[key]; ok {
			return v, true
		}
		return env(key)
	}
}

// seed returns the seed that the job draws from.
func (f Flags) seed() uint64 { return cli.Given(f.Seed, 0) }
