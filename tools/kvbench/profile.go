package kvbench

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/size"
	"perigee/spmd/boot"
	"perigee/tools/run"
)

// ProfileCmd is `perigee kvbench profile`.
type ProfileCmd struct {
	Selection
	run.Flags `set:"ranks=2; 1 with files; with the scheme tp one for each device"`
	Scale     float64 `name:"scale" type:"number" default:"1" placeholder:"F" group:"Job" help:"Move only this part of the blocks, such as 0.001 or 1/1000; their size stays."`
	Format    *string `name:"format" enum:"table,nixlbench" placeholder:"NAME" group:"Job" help:"table, or nixlbench for its own ten columns (default: nixlbench where NIXL_ETCD_NAMESPACE is set, table elsewhere)."`
	Bench
	backendOption

	launcher string            // what started this process as a rank, or ""
	together map[string]string // the variables of a process that meets others at an etcd
}

// Help adds to the flags in perigee kvbench profile --help.
func (ProfileCmd) Help() string {
	return "The ranks are all on this machine. With several runs the config's name is put before the ending of the result's name, and a number where two have one name; a threshold is one of every run.\n\n" +
		example("profile --model llama3.1-8b --model_configs '*-tp8-pp2' --scale 0.01 --iters 100")
}

// benchmark is one run of a profile.
type benchmark struct {
	plan    *BlockPlan
	command Command
	label   string // distinguishes the run from the others in the name of its result
}

// Run plans all configs, then runs each here.
func (c *ProfileCmd) Run(streams cli.Streams) error {
	if err := c.check(streams.Err); err != nil {
		return err
	}
	if idle := c.Bench.idleHere(c.launcher); len(idle) > 0 {
		fmt.Fprintf(streams.Err, "perigee: warning: %s without effect: nixlbench has such options, a run of perigee has not\n", strings.Join(idle, ", "))
	}
	var runs []benchmark
	taken := map[string]bool{}
	planned := c.each(streams, func(p *BlockPlan) error {
		if err := p.command(c.Bench); err != nil {
			return err
		}
		if c.together != nil {
			p.Warnings = slices.DeleteFunc(p.Warnings, func(w string) bool { return w == idleDevices })
		}
		for i, cmd := range p.Commands {
			label := strings.TrimSuffix(filepath.Base(p.ConfigName), filepath.Ext(p.ConfigName))
			if len(p.Commands) > 1 {
				label += fmt.Sprintf("-%d", i+1)
			}
			cmd, err := c.fitted(cmd)
			if err != nil {
				return err
			}
			runs = append(runs, benchmark{p, cmd, untaken(label, taken)})
		}
		return nil
	})
	if len(runs) == 0 {
		return planned
	}
	if c.together != nil && len(runs) > 1 {
		return usage("%d runs: processes that meet at an etcd take part in one", len(runs)).
			WithHint("give one --model_config, and --accounting kvbench where a model has blocks of two sizes; --launcher local makes all runs here")
	}
	if err := c.runAll(streams, runs); err != nil {
		return err
	}
	return planned
}

// untaken makes a label differ from those before, and marks it as taken.
func untaken(label string, taken map[string]bool) string {
	unique := label
	for n := 2; taken[unique]; n++ {
		unique = fmt.Sprintf("%s.%d", label, n)
	}
	taken[unique] = true
	return unique
}

// runAll runs one after the other. One that fails does not stop the next, but
// the user does.
func (c *ProfileCmd) runAll(streams cli.Streams, runs []benchmark) error {
	var failures []error
	for _, r := range runs {
		err := c.run(streams, r, len(runs) > 1)
		if fault.KindOf(err) == fault.Interrupt {
			return err
		}
		if err != nil {
			failures = append(failures, named(r.plan.ConfigName, err))
		}
	}
	return conclude(failures, len(runs), streams.Err)
}

// check refuses what cannot be run before anything is planned.
func (c *ProfileCmd) check(w io.Writer) error {
	if err := c.Bench.precheck(); err != nil {
		return err
	}
	if err := c.yielding(&c.Flags); err != nil {
		return err
	}
	if !(c.Scale > 0 && c.Scale <= 1) {
		return usage("--scale: wanted a number above 0 and up to 1, got %v", c.Scale)
	}
	return c.place(w)
}

// place finds out where the ranks are: all here, or each a separate process, of which this is one.
func (c *ProfileCmd) place(w io.Writer) error {
	known, err := c.known()
	if err != nil {
		return err
	}
	n := cli.Given(c.Ranks, c.processes(known.storage))
	j := run.Job{Flags: c.Flags, Env: c.meeting(n)}
	started := false
	c.launcher, started, err = boot.Started(j.Environ())
	switch {
	case err != nil:
		return err
	case c.launcher == "etcd":
		c.together, c.Ranks = j.Env, &n
		return nil
	case !started:
		return run.StartsHere(j.Environ(), c.Flags, w)
	case known.storage && boot.IsOnlyTask(os.LookupEnv):
		return nil
	}
	return usage("profile starts its ranks itself, but this process is a rank of %s", c.launcher).
		WithHint("start the command that perigee kvbench plan prints, perigee run kvbench ..., as the job instead; or set NIXL_ETCD_NAMESPACE, and start profile as a step of one task for each rank")
}

// fitted leaves out blocks, and makes the limit of a rank's buffers high enough
// for its peers.
func (c *ProfileCmd) fitted(cmd Command) (Command, error) {
	b := &cmd.Scenario
	factor, _ := new(big.Rat).SetString(strconv.FormatFloat(c.Scale, 'g', -1, 64)) // of a finite number
	part := factor.Mul(factor, new(big.Rat).SetInt64(*b.MaxBatchSize))
	batch := max(1, new(big.Int).Quo(part.Num(), part.Denom()).Int64())
	b.StartBatchSize, b.MaxBatchSize = &batch, &batch
	need := times(big.NewInt(*b.MaxBlockSize), batch, b.NumThreads, c.ends(*b).perRank)
	if !need.IsInt64() {
		return cmd, usage("--ranks, --num_threads: the buffers of a rank for so many peers and threads do not fit 63 bits")
	}
	b.TotalBufferSize = new(size.Bytes(max(need.Int64(), defaultTotal)))
	return cmd, nil
}

// run starts the ranks of one benchmark and waits for them.
func (c *ProfileCmd) run(streams cli.Streams, r benchmark, several bool) error {
	if err := c.checkMemory(r); err != nil {
		return err
	}
	b := r.command.Scenario
	title := fmt.Sprintf("%s, %s: %s of %d bytes", r.plan.Model.Name, r.plan.ConfigName,
		cli.Count(*b.MaxBatchSize, "block"), *b.MaxBlockSize)
	if c.Scale < 1 {
		title += fmt.Sprintf(" (--scale %v)", c.Scale)
	}
	if r.command.Layers != "" {
		title += ", " + r.command.Layers
	}
	dtype, by := r.plan.precision()
	title += fmt.Sprintf(", %s (%s)", dtype, by)
	fmt.Fprintf(streams.Out, "# kvbench profile: %s\n", plaintext.Escape(title))
	format := ""
	if os.Getenv(boot.EnvEtcdNamespace) != "" {
		format = formatNixlbench
	}
	j := b.job(c.Flags, c.together, cli.Given(c.Format, format))
	if c.Result != "" {
		j.Flags.Result = resultName(c.Result, r.label, several)
	}
	j.Flags.Yielding.Title = title
	if c.JUnit != "" {
		j.Flags.Yielding.JUnit = resultName(c.JUnit, r.label, several)
	}
	return j.Run(context.Background(), streams)
}

// resultName puts a run's label before the endings of a file's name, if there are several
// runs.
func resultName(file, label string, several bool) string {
	if !several {
		return file
	}
	folder, name := filepath.Split(file)
	endings := filepath.Ext(name)
	if i := strings.Index(name, ".json"); i >= 0 {
		endings = name[i:]
	}
	stem := strings.TrimSuffix(name, endings)
	return folder + stem + "-" + label + endings
}

// ends describes how a run's buffers lie: each way between two ranks, or between a rank and a
// file, has one at either end that is memory.
type ends struct {
	near, far string // DRAM, VRAM or FILE
	ways      int64
	perRank   int64 // ways of the rank with the most
}

// ends returns what the scenario will make of its options.
func (c *ProfileCmd) ends(b Bench) ends {
	e := ends{near: cli.Given(b.InitiatorSegType, dram), far: cli.Given(b.TargetSegType, dram)}
	initiators, targets := b.NumInitiatorDev, b.NumTargetDev
	n := cli.Given(c.Ranks, 2)
	switch {
	case e.far == "FILE":
		e.ways, e.perRank = int64(cli.Given(c.Ranks, 1)), 1
	case b.Scheme == "pairwise":
		e.ways, e.perRank = int64(max(n/2, 1)), 1
	case b.Scheme == "tp" && initiators+targets > 2:
		e.ways = max(initiators, targets)
		e.perRank = ceil64(e.ways, min(initiators, targets))
	case b.Scheme == "tp":
		e.ways, e.perRank = int64(max(n/2, 1)), 1
	default: // manytoone, onetomany
		e.ways = int64(max(n-1, 1))
		e.perRank = e.ways
	}
	return e
}

// inMemory returns how many of the buffers are in host memory.
func (e ends) inMemory() (buffers int64) {
	for _, kind := range []string{e.near, e.far} {
		if kind == dram {
			buffers += e.ways
		}
	}
	return buffers
}

// checkMemory refuses a run whose buffers the machine has no room for. Where processes meet at an etcd, which may be on
// other hosts, the ranks do that.
func (c *ProfileCmd) checkMemory(r benchmark) error {
	if c.together != nil {
		return nil
	}
	b := r.command.Scenario
	buffers := c.ends(b).inMemory()
	count := times(big.NewInt(*b.MaxBatchSize), b.NumThreads)
	wanted := times(count, *b.MaxBlockSize, buffers)
	available, err := memory.Available("/")
	if err != nil || wanted.Cmp(big.NewInt(available)) <= 0 {
		return nil // where the kernel does not say, the allocation will
	}
	host, err := os.Hostname()
	if err != nil {
		host = "this host"
	}
	refused := fault.New(fault.Resource, "%d buffers in host memory with %d blocks of %d bytes need %s on %s, and %s are available",
		buffers, count, *b.MaxBlockSize, bytesText(wanted), host, bytesText(big.NewInt(available)))
	if f := fitting(available, wanted) * c.Scale; f*float64(*b.MaxBatchSize)/c.Scale >= 1 {
		return refused.WithHint("--scale %s moves fewer blocks of the same size", strconv.FormatFloat(f, 'g', 2, 64))
	}
	return refused.WithHint("not even one block for each fits; smaller pages (--page_size) make smaller blocks")
}

func bytesText(n *big.Int) string {
	f, _ := new(big.Float).SetInt(n).Float64()
	return fmt.Sprintf("%s (%d bytes)", size.Decimal(f), n)
}

// fitting returns a factor of two digits that leaves a tenth of the available
// memory free.
func fitting(available int64, wanted *big.Int) float64 {
	w, _ := new(big.Float).SetInt(wanted).Float64()
	f := 0.9 * float64(available) / w
	digit := math.Pow(10, math.Floor(math.Log10(f))-1)
	return math.Floor(f/digit) * digit
}
