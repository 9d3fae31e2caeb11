package simulate

import (
	"fmt"
	"io"
	"math"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/size"
	"perigee/internal/model"
	"perigee/internal/replay"
	"perigee/internal/replay/outcome"
	"perigee/internal/result"
	"perigee/internal/trace"
	"perigee/internal/traffic/load"
	"perigee/nixl"
	"perigee/spmd"
)

// replayFlags are those of a replay, with the names and meanings of perigee replay. What decides about neither messages
// nor offered load is not among them.
type replayFlags struct {
	Replay       string `placeholder:"FILE" group:"Replay" help:"Prepare the replay of this serving trace (perigee replay --help explains the options below)."`
	Model        string `completes:"models" placeholder:"NAME|FILE" group:"Replay" help:"The model whose caches move (perigee kvbench models)."`
	model.Flags  `group:"Replay"`
	model.Copies `group:"Replay"`
	Prefill      model.Workers `placeholder:"NxTPk" group:"Replay" help:"Workers that prefill, such as 1024xTP8."`
	Decode       model.Workers `placeholder:"NxTPk" group:"Replay" help:"Workers that decode."`
	Routing      string        `enum:"round-robin,least-loaded,prefix-aware" default:"round-robin" group:"Replay" help:"How workers are chosen: round-robin, least-loaded or prefix-aware."`
	Moved        string        `enum:"prompt,miss" default:"prompt" group:"Replay" help:"What moves: prompt, or what the decode worker has not got (miss)."`
	Cache        int           `placeholder:"BLOCKS" group:"Replay" help:"Blocks of prompts that each worker keeps (default: all)."`
	BlockSize    int64         `name:"block-size" type:"tokens" placeholder:"TOKENS" group:"Replay" help:"Tokens of a hash id (default: as the trace says)."`
	TraceUnit    string        `name:"trace-unit" placeholder:"s|ms|us|ns" group:"Replay" help:"Unit of the trace's timestamps, where it does not say it."`
	FLOPS        float64       `name:"flops" placeholder:"N" group:"Replay" help:"Operations per second of a GPU in prefill, after which transfers are due."`
	LayerRuns    int           `name:"layer-runs" placeholder:"N" group:"Replay" help:"Runs of layers that leave during the prefill."`
	From         time.Duration `placeholder:"T" group:"Replay" help:"From when on requests of the trace count, such as 10m."`
	To           time.Duration `placeholder:"T" group:"Replay" help:"Until when they count."`
	SpeedUp      float64       `name:"speed-up" default:"1" placeholder:"X" group:"Replay" help:"Divide all times by X."`
	Scale        float64       `type:"number" default:"1" placeholder:"X" group:"Replay" help:"Keep only this part of all bytes, such as 0.001 or 1/1000."`
	Spread       bool          `group:"Replay" help:"Spread the requests of a tick of the trace's grid over the tick."`
	Seed         uint64        `group:"Replay" help:"Seed of --spread."`
	Op           string        `enum:"READ,WRITE" default:"READ" group:"Replay" help:"READ: decode ranks fetch; WRITE: prefill ranks send."`
}

// plan checks what is given together and makes the schedule, nil where no trace is given.
func (f *replayFlags) plan(c *Cmd) (*replay.Schedule, error) {
	if *f == (replayFlags{}) { // not from a command line
		return nil, nil
	}
	if f.Replay == "" {
		words, err := cli.Words(f)
		if err == nil && len(words) > 0 {
			err = fault.New(fault.Usage, "%s has no effect without --replay FILE", words[0])
		}
		return nil, err
	}
	ranks := f.Prefill.Ranks() + f.Decode.Ranks()
	switch {
	case c.Config != "" || c.Meet != "" || c.Start != "":
		return nil, fault.New(fault.Usage, "--config, --meet and --start have no effect with --replay, which has no patterns")
	case f.Seed > 0 && !f.Spread:
		return nil, fault.New(fault.Usage, "--seed has no effect without --spread")
	case f.Model == "" || f.Prefill.N == 0 || f.Decode.N == 0:
		return nil, fault.New(fault.Usage, "--replay: wanted --model, --prefill and --decode, too").
			WithHint("such as --model llama3.1-8b --prefill 4xTP8 --decode 4xTP8")
	case len(c.Ranks) > 0:
		return nil, fault.New(fault.Usage, "--prefill %s and --decode %s have %d ranks: wanted no other number, got %d",
			f.Prefill, f.Decode, ranks, c.Ranks[0]).WithHint("leave out the number of ranks")
	}
	return f.schedule()
}

func (f *replayFlags) schedule() (*replay.Schedule, error) {
	m, err := model.Load(f.Model)
	if err != nil {
		return nil, fault.Wrap(err, "--model")
	}
	cache, err := f.Flags.Cache(m, int64(f.Decode.TP))
	if err != nil {
		return nil, err
	}
	op, err := nixl.ParseOp(f.Op)
	if err != nil {
		return nil, err
	}
	t, err := trace.Load(f.Replay, trace.Options{Unit: f.TraceUnit, BlockTokens: f.BlockSize})
	if err != nil {
		return nil, err
	}
	return replay.Make(t, replay.Options{
		Model: cache, Replicas: f.KVReplicas, Prefill: f.Prefill, Decode: f.Decode, Op: op,
		Routing: replay.Routing(f.Routing), Moved: replay.Moved(f.Moved),
		CacheBlocks: f.Cache, BlockTokens: f.BlockSize, FLOPS: f.FLOPS, LayerRuns: f.LayerRuns,
		From: f.From, To: f.To, SpeedUp: f.SpeedUp, Scale: f.Scale, Spread: f.Spread, Seed: f.Seed,
	})
}

// recordBytes is what a rank sends of a transfer that is done, at most: its number, its bytes and four times.
const recordBytes = 40

// replaying are the steps of a replay: rank 0 says when it begins, and gathers records while it is played. These are
// gathered all at once here, where a job does it bit by bit.
func (c *crowd) replaying(s load.Schedule) []step {
	return []step{
		{"zero", func(r int) error {
			_, err := spmd.BroadcastValue(c.worlds[r].All(), 0, int64(0))
			return err
		}},
		{"records", func(r int) error {
			all := c.worlds[r].All()
			if _, err := all.Gather(0, make([]byte, recordBytes*s.Own(r).Len())); err != nil {
				return err
			}
			_, err := spmd.AllReduce(all, []int{1}, spmd.Sum)
			return err
		}},
	}
}

// Offered is the load that a replay's schedule offers, whatever carries it.
type Offered struct {
	Model     string          `json:"model"`
	DType     string          `json:"kv_cache_dtype"`
	DTypeBy   string          `json:"kv_cache_dtype_by"`
	State     string          `json:"state_dtype,omitempty"`
	StateBy   string          `json:"state_dtype_by,omitempty"`
	Serving   string          `json:"serving,omitempty"`
	Block     int64           `json:"block,omitempty"` // tokens of a page; 0: bytes are exact
	Copies    string          `json:"copies,omitempty"`
	Requests  int             `json:"requests"`
	Transfers int             `json:"transfers"`
	Bytes     int64           `json:"bytes"`
	SpanS     float64         `json:"span_s"`
	SpeedUp   float64         `json:"speed_up"` // of span and windows: they are of the replay's time
	Mean      float64         `json:"offered_bytes_per_s"`
	Gathers   int             `json:"gathers"` // of records and clocks, while it is played
	Windows   []OfferedWindow `json:"windows"`
	Notes     []string        `json:"notes,omitempty"` // of the schedule

	cache  *model.Cache
	served []string
}

// OfferedWindow is the most that is offered in a window of a length, in bytes per second.
type OfferedWindow struct {
	Seconds float64 `json:"window_s"`
	Peak    float64 `json:"peak_offered_bytes_per_s"`
	PerRank float64 `json:"peak_offered_to_a_decode_rank_bytes_per_s"`
}

// offered is the load of a schedule: what a replay's result says of one of which nothing is done.
func offered(s *replay.Schedule) *Offered {
	var r result.Replay
	log := outcome.New(s)
	log.Gathered(math.MaxInt64)
	log.Fill(&r)
	c := s.Model
	o := &Offered{
		Model: c.Model.Name, DType: c.DType.Name, DTypeBy: c.DTypeBy, State: c.State, StateBy: c.StateBy,
		Serving: string(c.Serving), Block: s.Page(), Copies: s.Copies(), served: s.Served(), cache: c,
		Requests: len(s.Requests), Transfers: len(s.Transfers), Bytes: s.Bytes,
		SpanS: float64(s.SpanNS) / 1e9, SpeedUp: s.SpeedUp, Mean: r.Offered,
		Gathers: int(time.Duration(s.SpanNS)/spmd.ReplayEvery) + 1, Notes: s.Notes,
	}
	for _, x := range r.Scales {
		o.Windows = append(o.Windows, OfferedWindow{x.WindowS, x.Offered, x.PerRank})
	}
	return o
}

// print writes the load by time scale.
func (o *Offered) print(w io.Writer) error {
	fmt.Fprintf(w, "# %s, %s, %s in %.3f s: offered %s; records and clocks are gathered %s\n", cli.Count(o.Requests, "request"),
		cli.Count(o.Transfers, "transfer"), size.Decimal(o.Bytes), o.SpanS, size.Rate(o.Mean), cli.Count(o.Gathers, "time"))
	text := fmt.Sprintf("%s, cache in %s", o.Model, o.cache.Precision())
	for _, more := range append([]string{o.cache.States()}, o.served...) {
		if more != "" {
			text += ", " + more
		}
	}
	fmt.Fprintf(w, "# model: %s\n", text)
	for _, note := range o.Notes {
		fmt.Fprintf(w, "# note: %s\n", note)
	}
	if len(o.Windows) == 0 {
		return nil
	}
	fmt.Fprint(w, "# load by windows of one length, in the replay's time") // the words of perigee replay
	if o.SpeedUp != 1 {
		fmt.Fprintf(w, " (0.1 s are %.3g s of the trace)", 0.1*o.SpeedUp)
	}
	fmt.Fprintln(w)
	t := sheet.New("", "", "Window (s) %g", "Peak offered", "Peak to mean %.3f", "Peak to a decode rank")
	for _, x := range o.Windows {
		t.AddRow(x.Seconds, size.Rate(x.Peak), x.Peak/o.Mean, size.Rate(x.PerRank))
	}
	return t.WriteText(w)
}
