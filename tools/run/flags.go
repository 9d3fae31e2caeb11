package run

import (
	"strconv"
	"time"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/spmd/boot"
)

// Flags are the options of every job, whatever the scenario. A command that runs jobs embeds them; the variables in the
// tags are set where it gives a flag another meaning.
type Flags struct {
	Ranks     *int     `short:"n" name:"ranks" placeholder:"N" group:"Job" help:"Start N ranks on this machine (default: ${ranks=as many as the scenario asks for})."`
	Engine    string   `enum:"${engines=auto,nixl,shm}" default:"${engine=auto}" group:"Job" help:"What moves the bytes: ${engines_help=auto, nixl or shm}."`
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
	if n := f.Ranks; n != nil && *n < 1 {
		return fault.New(fault.Usage, "--ranks is %d, want at least 1", *n).
			WithHint("without it the scenario decides")
	}
	if t := time.Duration(f.Timeout); t < 0 || t > 0 && t < leastTimeout {
		return fault.New(fault.Usage, "--timeout is %v, want at least %v", t, leastTimeout).
			WithHint("without it ranks wait for each other as long as it takes")
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
