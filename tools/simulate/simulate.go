package simulate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/size"
	"perigee/internal/kit/version"
)

// Cmd is the command perigee simulate.
type Cmd struct {
	Ranks        []int  `arg:"" optional:"" placeholder:"N" help:"Sizes of the worlds, 2 to 16384 (default: 1024 4096 16384, or what --config is for)."`
	RanksPerHost int    `name:"ranks-per-host" min:"1" default:"8" placeholder:"K" help:"Ranks on each simulated host (default ${default})."`
	Config       string `placeholder:"FILE" help:"Prepare the traffic patterns of this configuration of (sequential-)ct-perftest, instead of a synthetic one."`
	Meet         string `enum:",initiators,all" default:"" help:"Who meets and sleeps before a pattern: initiators or all (config, else initiators)."`
	Start        string `enum:",barrier,clock" default:"" help:"How the initiators of a pattern start: barrier or clock (config, else barrier)."`
	Format       string `enum:"text,json,csv" default:"text" help:"text, json or csv."`
	replayFlags
}

// The sizes of worlds that can be simulated.
const (
	MinRanks = 2
	MaxRanks = 16384
)

// Help adds to the flags in perigee simulate --help.
func (Cmd) Help() string {
	return "Bootstrap, collectives, comparison of clocks, preparation of patterns and one iteration of them run for N ranks in this process, " +
		"over links in memory. The table shows what each rank would send over the network, counted where messages are framed. " +
		"docs/truth.md explains it."
}

// Advise says, where a file stands in place of a number of ranks, which option takes it.
func (*Cmd) Advise(mistake error) error {
	_, quoted, ok := strings.Cut(mistake.Error(), "wanted a whole number, got ")
	path, err := strconv.Unquote(quoted)
	if !ok || err != nil {
		return mistake
	}
	switch ending := filepath.Ext(path); ending {
	case ".yaml", ".yml":
		return fault.New(fault.Usage, "%s is no number of ranks: simulate counts what ranks send each other to coordinate, for a number of them "+
			"or for the patterns of a configuration", path).WithHint("perigee simulate --config %s", cli.Quote(path))
	case ".jsonl", ".csv", ".gz":
		return fault.New(fault.Usage, "%s is no number of ranks: simulate counts what ranks send each other to coordinate, for a number of them "+
			"or for the replay of a trace", path).
			WithHint("perigee simulate --replay %s --model NAME --prefill NxTPk --decode NxTPk", cli.Quote(path))
	}
	return mistake
}

// report is the document of --format json.
type report struct {
	Schema  string         `json:"schema"`
	Perigee version.Build  `json:"perigee"`
	Runs    []*WorldCounts `json:"runs"`
}

// memoryLimit is from when on the garbage collector works harder.
const memoryLimit = 5 << 30

// Run simulates and prints.
func (c *Cmd) Run(s cli.Streams) error {
	return c.run(s, func() (int64, error) { return memory.Available("/") })
}

// run is Run where so much memory is available.
func (c *Cmd) run(s cli.Streams, available func() (int64, error)) error {
	sizes, work, err := c.plan(available)
	if err != nil {
		return err
	}
	works := make([]*Workload, len(sizes))
	for i, n := range sizes {
		if works[i] = work; work == nil {
			if works[i], err = synthetic(n); err != nil {
				return err
			}
		}
		works[i].Meet, works[i].Start = cmp.Or(c.Meet, works[i].Meet), cmp.Or(c.Start, works[i].Start)
	}
	// All sizes before the first one: the largest may come after minutes.
	if err := checkMemory(sizes, works, available); err != nil {
		return err
	}
	// Most of what the ranks leave behind is soon garbage.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	r := report{Schema: "perigee.simulation/1", Perigee: version.Get()}
	for i, n := range sizes {
		if i > 0 || n >= 1<<10 { // takes seconds
			fmt.Fprintf(s.Err, "perigee: simulating %d ranks, %d of %d\n", n, i+1, len(sizes))
		}
		o, err := Simulate(context.Background(), n, c.RanksPerHost, works[i])
		if err != nil {
			return err
		}
		r.Runs = append(r.Runs, o)
	}
	if c.Format == "json" {
		return cli.WriteJSON(s.Out, r)
	}
	return r.print(s.Out, c.Format)
}

// plan checks what was asked for.
func (c *Cmd) plan(available func() (int64, error)) (sizes []int, work *Workload, err error) {
	sizes = c.Ranks
	schedule, err := c.replayFlags.plan(c)
	if err != nil {
		return nil, nil, err
	}
	if schedule != nil {
		sizes, work = []int{schedule.Prefill.Ranks() + schedule.Decode.Ranks()}, &Workload{Replay: schedule}
	}
	if c.Config != "" {
		if work, err = loadWorkload(c.Config, available); err != nil {
			return nil, nil, err
		}
		if len(sizes) == 0 {
			sizes = []int{work.Patterns[0].Matrix.Size()}
		}
	}
	if len(sizes) == 0 {
		sizes = []int{1024, 4096, 16384}
	}
	for _, n := range sizes {
		if n < MinRanks || n > MaxRanks {
			return nil, nil, fault.New(fault.Usage, "cannot simulate %d ranks: want %d to %d", n, MinRanks, MaxRanks)
		}
		if c.Config != "" && work.Patterns[0].Matrix.Size() != n {
			return nil, nil, fault.New(fault.Usage, "%s is for %d ranks, not for %d", c.Config,
				work.Patterns[0].Matrix.Size(), n).
				WithHint("leave out the number of ranks")
		}
	}
	return sizes, work, nil
}

// print writes the outcomes as a table.
func (r report) print(w io.Writer, format string) error {
	t := sheet.New("", "", "|Phase", "Ranks", "Hosts", "Messages/rank max", "Messages/rank mean %.2f",
		"Bytes/rank max", "Bytes/rank mean", "New links/rank max", "Messages", "Bytes")
	for i := range r.Runs[0].Phases {
		for _, o := range r.Runs {
			p := o.Phases[i]
			t.AddRow(p.Name, o.Ranks, o.Hosts, p.MaxMessages, p.MeanMessages, sheet.Bytes(p.MaxBytes),
				sheet.Cell{Value: p.MeanBytes, Text: size.Decimal(p.MeanBytes)}, p.MaxLinks, p.TotalMessages,
				sheet.Bytes(p.TotalBytes))
		}
	}
	if format == "csv" {
		return t.WriteCSV(w)
	}
	besides := "the bytes of the matrices move besides (perigee matgen says how many)"
	if r.Runs[0].Replay != nil {
		besides = "the caches of the requests move besides"
	}
	fmt.Fprintf(w, "# perigee %s, simulated in one process: what ranks send each other to coordinate, frames and headers included; %s\n",
		r.Perigee.Version, besides)
	for _, o := range r.Runs {
		played := cli.Count(o.Patterns, "pattern")
		if o.Replay != nil {
			played = "a replay"
		}
		fmt.Fprintf(w, "# %d ranks on %s, %s: %.1f s, %.2f GiB of memory\n", o.Ranks, cli.Count(o.Hosts, "host"), played, o.Seconds,
			float64(o.PeakMemory)/(1<<30))
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	if o := r.Runs[0].Replay; o != nil {
		return o.print(w)
	}
	return r.printStarts(w)
}

// printStarts shows when patterns start, where there are pauses.
func (r report) printStarts(w io.Writer) error {
	played := r.Runs[0].Workload
	if !slices.ContainsFunc(played.Starts, func(s Start) bool { return s.EndS > 0 }) {
		return nil
	}
	t := sheet.New("", "", "Pattern", "Ranks that meet", "Start (s) %.6f", "End (s) %.6f")
	for _, s := range played.Starts {
		t.AddRow(s.Pattern, s.Ranks, s.StartS, s.EndS)
	}
	fmt.Fprintf(w, "# pauses of an iteration, meet: %s; as if transfers took no time, so no run is faster\n", played.Meet)
	return t.WriteText(w)
}
