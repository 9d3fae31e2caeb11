// Package trace is the command perigee trace: it describes serving traces before they are replayed.
package trace

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/version"
	"perigee/internal/model"
	"perigee/internal/trace"
	"perigee/internal/trace/figures"
)

// Cmd is the command perigee trace.
type Cmd struct {
	Show ShowCmd `cmd:"" help:"Say how many requests came when, how long they are, what caches find, and the load on a network."`
}

// ShowCmd is the command perigee trace show.
type ShowCmd struct {
	Files []string `arg:"" name:"file" help:"Traces: Mooncake, Bailian, BurstGPT, Azure, other CSV and JSON lines; several stand side by side."`
	Model string   `placeholder:"NAME|FILE" completes:"models" help:"Show the load of this model's KV caches: a name that perigee knows, or a model's config.json."`
	model.Flags
	model.Copies
	Prefill   model.Workers  `placeholder:"TPk" help:"Ranks of a prefill worker, such as TP4 (default: as of a decode worker)."`
	Decode    model.Workers  `placeholder:"TPk" help:"Ranks of a decode worker, such as TP8, each of which receives all that it holds (default: TP1)."`
	Line      string         `placeholder:"RATE" help:"Rate of a NIC, such as 400Gbit: say whether the load fits, when it queues, and how long transfers take."`
	NICs      *int           `name:"nics" min:"1" max:"1048576" placeholder:"N" help:"NICs of the line that share all bytes (default: 1)."`
	SLO       string         `name:"slo" placeholder:"P99<=TIME" help:"Bound on the time of a transfer, such as P99<=50ms, max<=1s or mean<=20ms: say which line keeps it."`
	BlockSize *int64         `name:"block-size" type:"tokens" min:"1" max:"1048576" placeholder:"TOKENS" help:"Tokens of a hash id, where they are not those of the format: 512 of Mooncake's traces, 16 of Bailian's."`
	TraceUnit string         `name:"trace-unit" placeholder:"s|ms|us|ns" help:"Unit of the timestamps, s, ms, us or ns, where the trace does not say it."`
	From      time.Duration  `placeholder:"TIME" help:"Leave out the requests that came earlier after the first one than this, such as 10m. Caches are empty then."`
	To        *time.Duration `placeholder:"TIME" help:"Leave out the requests that came later after the first one than this."`
	Output    string         `name:"output" short:"o" aliases:"html" placeholder:"FILE" help:"Also write a page with pictures: arrivals, lengths, hit ratio by size of cache, load by time scale."`
	Format    string         `enum:"text,json" default:"text" help:"text or json (default ${default})."`
}

// Help adds to the flags in perigee trace show --help.
func (ShowCmd) Help() string {
	return "Hit ratios stand side by side by what they weigh, load by how long one looks at it. docs/trace.md explains the figures."
}

// report is the document of --format json.
type report struct {
	Schema  string                  `json:"schema"`
	Perigee version.Build           `json:"perigee"`
	Traces  []*figures.TraceFigures `json:"traces"`
}

// Run describes the traces.
func (c *ShowCmd) Run(s cli.Streams) error {
	cache, err := c.check()
	if err != nil {
		return err
	}
	r := report{Schema: "perigee.trace/1", Perigee: version.Get()}
	for _, file := range c.Files {
		f, err := c.describe(file, cache)
		if err != nil {
			return err
		}
		r.Traces = append(r.Traces, f)
	}
	hasBlocks := func(f *figures.TraceFigures) bool { return f.Blocks != nil }
	if c.BlockSize != nil && !slices.ContainsFunc(r.Traces, hasBlocks) {
		return fault.New(fault.Usage, "--block-size without effect: there are no hash ids")
	}
	if c.Output != "" {
		write := func(w io.Writer) error { return writePage(w, r.Traces) }
		if err := cli.WriteTo(c.Output, s.Out, write); err != nil || c.Output == "-" {
			return err
		}
	}
	if c.Format == "json" {
		e := json.NewEncoder(s.Out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return print(s.Out, r.Traces)
}

// check looks at what was asked for, and returns the cache of the model, if there is one.
func (c *ShowCmd) check() (*model.Cache, error) {
	for i, file := range c.Files {
		if slices.Contains(c.Files[:i], file) {
			return nil, fault.New(fault.Usage, "%s is there twice: wanted each trace once", file)
		}
	}
	if err := cli.NotOver(c.Output, c.Files...); err != nil {
		return nil, err
	}
	switch {
	case c.From < 0:
		return nil, fault.New(fault.Usage, "--from: wanted at least 0s, got %v", c.From)
	case c.To != nil && *c.To < c.From:
		return nil, fault.New(fault.Usage, "--to: wanted at least %v, that of --from, got %v", c.From, *c.To)
	case c.Line == "" && c.NICs != nil:
		return nil, fault.New(fault.Usage, "--nics without effect: there is no --line")
	case c.Line == "" && c.SLO != "":
		return nil, fault.New(fault.Usage, "--slo without effect: there is no --line").WithHint("such as --line 400Gbit --nics 8")
	case c.Model == "":
		return nil, c.withoutModel()
	}
	m, err := model.Load(c.Model)
	if err != nil {
		return nil, fault.Wrap(err, "--model")
	}
	c.Decode.TP = max(c.Decode.TP, 1)
	c.Prefill.TP = cmp.Or(c.Prefill.TP, c.Decode.TP)
	if max(c.Prefill.N, c.Decode.N) > 1 {
		return nil, fault.New(fault.Usage, "--prefill %s, --decode %s: wanted the ranks of one worker, such as TP8: the load is that "+
			"of all of them together", c.Prefill, c.Decode)
	}
	cache, err := c.Flags.Cache(m, int64(c.Decode.TP))
	if err = cmp.Or(err, c.CheckPages()); err != nil {
		return nil, err
	}
	move := c.move(cache)
	if err = cmp.Or(move.Check(), cache.Model.CheckCut(move.From), cache.Model.CheckCut(move.To)); err != nil {
		return nil, fault.New(fault.Usage, "--prefill TP%d, --decode TP%d: %w", move.From, move.To, err)
	}
	return cache, nil
}

// move is how the caches go from a prefill to a decode worker.
func (c *ShowCmd) move(cache *model.Cache) model.Move {
	return model.Move{Serving: cache.Serving, Replicas: c.KVReplicas, From: int64(c.Prefill.TP), To: int64(c.Decode.TP)}
}

// withoutModel refuses options that a model needs.
func (c *ShowCmd) withoutModel() error {
	for _, x := range []struct {
		flag  string
		given bool
	}{
		{"--kv-cache-dtype", c.KVCacheDType != ""}, {"--state-dtype", c.StateDType != ""},
		{"--serving", c.Serving != "none" && c.Serving != ""}, {"--page-size", c.PageSize != nil},
		{"--kv-replicas", c.KVReplicas == model.ReplicasSplit},
		{"--prefill", c.Prefill.N > 0}, {"--decode", c.Decode.N > 0}, {"--line", c.Line != ""},
	} {
		if x.given {
			return fault.New(fault.Usage, "%s without effect: there is no --model", x.flag)
		}
	}
	return nil
}

// describe reads a trace and describes it.
func (c *ShowCmd) describe(file string, cache *model.Cache) (*figures.TraceFigures, error) {
	t, err := trace.Load(file, trace.Options{Unit: c.TraceUnit, BlockTokens: cli.Given(c.BlockSize, 0)})
	if err != nil {
		return nil, err
	}
	if err := t.CheckBlocks(); err != nil {
		return nil, err
	}
	o := figures.Options{Name: file, From: c.From, To: c.To, Cache: cache}
	if cache != nil {
		o.Move = c.move(cache)
	}
	if c.Line != "" {
		if o.Link, err = figures.ParseLink(c.Line, cli.Given(c.NICs, 1), c.SLO); err != nil {
			return nil, err
		}
	}
	if _, err := model.Named(c.Model); err == nil {
		o.Model = c.Model
	}
	return figures.Of(t, o)
}
