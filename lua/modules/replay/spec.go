package replay

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/experiment"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/size"
	"perigee/internal/model"
	"perigee/internal/replay"
	"perigee/internal/result"
	"perigee/internal/trace"
	"perigee/lua/modules"
	"perigee/lua/vm"
	"perigee/nixl"
	"perigee/spmd"
)

// spec is what a script says of a replay.
type spec struct {
	replay.Options
	trace, unit string
	model       string
	cache       model.Flags
	inFlight    int
}

// specFrom reads a table. In a world, which may be nil, there must be as many ranks, and all agree on the memory.
func (r *instance) specFrom(what string, t *glua.LTable, w *spmd.World) (s spec, err error) {
	f := vm.NewFields(what, t)
	s.trace, s.unit = f.Text("trace", ""), f.Text("trace_unit", "")
	s.model = f.Text("model", "")
	s.cache.KVCacheDType, s.cache.StateDType = f.Text("kv_cache_dtype", ""), f.Text("state_dtype", "")
	s.cache.Serving, s.Replicas = f.Text("serving", ""), model.Replicas(f.Text("kv_replicas", ""))
	if page := f.Integer("page_size", 0, 1); page > 0 {
		s.cache.PageSize = &page
	}
	prefill, decode := f.Text("prefill", ""), f.Text("decode", "")
	s.Routing, s.Moved = replay.Routing(f.Text("routing", "")), replay.Moved(f.Text("moved", ""))
	s.CacheBlocks, s.BlockTokens = f.Int("cache", 0, 1), f.Integer("block_size", 0, 1)
	s.LayerRuns, s.RunLength = f.Int("layer_runs", 0, 1), f.Integer("run_length", 0, 1)
	s.FLOPS, s.inFlight = f.Number("flops", 0), f.Int("in_flight", 0, 1)
	s.From, s.To = duration(f.Seconds("from")), duration(f.Seconds("to"))
	s.SpeedUp, s.Scale, s.Spread = f.Number("speed_up", 1), f.Number("scale", 1), f.Bool("spread", false)
	s.Pool, s.Seed = f.Size("pool", 0), uint64(f.Integer("seed", int64(r.Env().Seed), 0))
	mem, op := f.Text("mem", ""), f.Text("op", "READ")
	if err := f.Err(); err != nil {
		return s, err
	}
	for _, x := range []struct{ flag, value, such string }{
		{"trace", s.trace, "FILE"}, {"model", s.model, "--model qwen3-32b"}, {"prefill", prefill, "--prefill 2xTP2"},
		{"decode", decode, "--decode 2xTP2"},
	} {
		if x.value == "" {
			return s, fault.New(fault.Usage, "the replay has no %s: wanted one such as %s", x.flag, x.such).
				WithHint("perigee replay FILE --model qwen3-32b --prefill 2xTP2 --decode 2xTP2; perigee kvbench models lists models")
		}
	}
	if s.Prefill, err = model.ParseWorkers(prefill); err != nil {
		return s, fault.Wrap(err, "--prefill")
	}
	if s.Decode, err = model.ParseWorkers(decode); err != nil {
		return s, fault.Wrap(err, "--decode")
	}
	if s.Op, err = nixl.ParseOp(op); err != nil {
		return s, fault.New(fault.Usage, "--op: %w", err)
	}
	if s.inFlight > 0 && s.Op != nixl.Read {
		return s, fault.New(fault.Usage, "--in-flight %d with --op WRITE: prefill ranks post then, and do not know what a decode rank has under way",
			s.inFlight).WithHint("--op READ, with which decode ranks fetch")
	}
	want := s.Prefill.Ranks() + s.Decode.Ranks()
	switch {
	case w != nil && w.Size() != want:
		return s, fault.New(fault.Usage, "prefill %s and decode %s are %d ranks, and there are %d", s.Prefill, s.Decode,
			want, w.Size()).WithHint("start %d ranks, such as by srun -n %d, or on this machine without -n", want, want)
	case mem != "":
		if s.Mem, err = nixl.ParseMem(mem); err != nil {
			err = fault.New(fault.Usage, "--mem-type: %w", err)
		}
	case w != nil:
		s.Mem, err = r.Env().DefaultMem()
	}
	return s, err
}

func duration(seconds float64) time.Duration {
	return time.Duration(math.Round(min(seconds*1e9, math.MaxInt64/2)))
}

// made is a schedule with what it follows from.
type made struct {
	*replay.Schedule
	trace  *trace.Trace
	sha256 string
}

// scheduleOf makes the schedule: of the same bytes at all ranks.
func (r *instance) scheduleOf(s spec) (*made, error) {
	plain, err := r.AtRankZero("replay of "+s.trace, func() (any, error) {
		text, err := modules.Read(r, s.trace, (*result.Document).Text, load, keep)
		if err != nil {
			return nil, err
		}
		ofModel, err := modules.ModelText(r, s.model)
		if err != nil {
			return nil, fault.Wrap(err, "--model")
		}
		return []any{string(text), ofModel}, nil
	})
	if err != nil {
		return nil, err
	}
	texts, _ := plain.([]any)
	text, _ := texts[0].(string)
	t, err := trace.Read(s.trace, strings.NewReader(text), trace.Options{Unit: s.unit, BlockTokens: s.BlockTokens})
	if err != nil {
		return nil, err
	}
	m, err := modules.ModelFrom(texts[1])
	if err != nil {
		return nil, fault.Wrap(err, "--model")
	}
	if s.Model, err = s.cache.Cache(m, int64(s.Decode.TP)); err != nil {
		return nil, err
	}
	x := &made{trace: t, sha256: fmt.Sprintf("%x", sha256.Sum256([]byte(text)))}
	x.Schedule, err = replay.Make(t, s.Options)
	return x, err
}

const (
	// largest bounds a trace in bytes, since every rank holds it.
	largest = 1 << 30
	// mostKept bounds what a result holds of it. A repetition of the run reads the file of a larger one again.
	mostKept = 64 << 20
)

// load reads a trace as text.
func load(path string) (data []byte, err error) {
	f, err := file.Open(path)
	if err != nil {
		return nil, fault.New(fault.Input, "%w", err)
	}
	defer f.Close()
	in, err := trace.Unpack(f)
	if err == nil {
		defer in.Close()
		data, err = io.ReadAll(io.LimitReader(in, largest+1))
	}
	if err == nil && len(data) > largest {
		err = fmt.Errorf("it has more than %d bytes", largest)
	}
	if err != nil {
		return nil, fault.New(fault.Input, "%s: %w", path, err)
	}
	return data, nil
}

func keep(d *result.Document, path string, text []byte) {
	if len(text) <= mostKept && utf8.Valid(text) {
		d.AddText(path, text)
	}
}

// note says what is replayed.
func (x *made) note(e *experiment.Experiment, op nixl.Op) {
	note := func(format string, args ...any) { e.Note(fmt.Sprintf(format, args...)) }
	note("trace: %s", x.trace)
	token, once, state := x.Model.TokenBytes()
	text := fmt.Sprintf("model: %s, cache in %s, %s a token", x.Model.Model.Name, x.Model.Precision(),
		size.Decimal(token))
	if once+state > 0 {
		text += fmt.Sprintf(" and %s a request", size.Decimal(once+state))
	}
	if states := x.Model.States(); states != "" {
		text += ", " + states
	}
	note("%s; %s move %s by %s, scale %g, from %s to %s", text, cli.Count(len(x.Requests), "request"),
		size.Decimal(x.Bytes), op, x.Scale, x.Prefill, x.Decode)
	for _, text := range x.Served() {
		note("moves: %s", text)
	}
	if x.Moved == replay.Missing {
		note("caches: whole prompts of all requests are %s, of which %.1f %% move", size.Decimal(x.Whole),
			100*float64(x.Bytes)/float64(x.Whole))
	}
	if x.Outside > 0 {
		note("left out: %s outside of --from and --to", cli.Count(x.Outside, "request"))
	}
	if x.Empty > 0 {
		note("left out: %s of which nothing moves", cli.Count(x.Empty, "request"))
	}
	for _, text := range x.Notes {
		e.Note(text)
	}
}

// about is what the result says of the schedule.
func (x *made) about(s spec) result.Replay {
	to := s.To
	if to == 0 {
		to = x.trace.Requests[len(x.trace.Requests)-1].At
	}
	about := result.Replay{
		Trace: result.ReplayTrace{
			File: s.trace, SHA256: x.sha256, Format: x.trace.Format, GridNS: int64(x.Grid),
			Requests: len(x.trace.Requests), Outside: x.Outside, Empty: x.Empty,
			FromS: s.From.Seconds(), ToS: to.Seconds(),
		},
		Prefill: result.ReplayWorkers(x.Prefill),
		Decode:  result.ReplayWorkers(x.Decode),
		Model:   x.Model.Model.Name, DType: x.Model.DType.Name, DTypeBy: x.Model.DTypeBy,
		Serving: string(x.Model.Serving), Replicas: string(x.Replicas), Copied: x.Copies(), State: x.Model.State,
		Routing: string(x.Routing), Moved: string(x.Moved),
		SpeedUp: x.SpeedUp, Scale: x.Scale, Spread: x.Spread, Op: s.Op.String(), InFlight: s.inFlight,
		FLOPS: cmp.Or(s.FLOPS, model.PrefillFLOPS), Waits: s.FLOPS > 0,
	}
	if about.Block = x.Page(); about.Block > 0 {
		about.BlockBy, about.RunLength = x.Model.BlockBy, max(x.RunLength, 1)
	}
	return about
}
