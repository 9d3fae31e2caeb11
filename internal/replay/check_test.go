package replay

import (
	"math"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/model"
	"perigee/internal/trace"
)

// Each wrong option is refused with its flag, what was wanted and what was got.
func TestRefused(t *testing.T) {
	ids := shared(t)
	plain, err := trace.Read("made.csv", strings.NewReader("time_s,input_length\n0,10\n1,20\n"), trace.Options{})
	must.Do(t, err)
	long := traceOf(t, line(0, 9000))
	empty := traceOf(t, line(0, 0), line(1, 0))
	for _, tt := range []struct {
		name   string
		trace  *trace.Trace
		change func(*Options)
		want   []string
	}{
		{"no model", ids, func(o *Options) { o.Model = nil }, []string{"--model", "kvbench models"}},
		{"no prefill", ids, func(o *Options) { o.Prefill = model.Workers{} }, []string{"--prefill", "got 0xTP0"}},
		{"no decode", ids, func(o *Options) { o.Decode = model.Workers{N: 2, TP: 0} }, []string{"--decode", "got 2xTP0"}},
		{"heads", ids, func(o *Options) { o.Prefill = model.Workers{N: 2, TP: 3} },
			[]string{"--prefill 2xTP3", "8 KV heads", "--prefill can have TP1, TP2, TP4, TP8, TP16"}},
		{"TPs", ids, func(o *Options) { o.Model = cacheOf(t, "deepseek-v3", "bf16"); o.Prefill.TP, o.Decode.TP = 6, 4 },
			[]string{"--prefill 1xTP6, --decode 1xTP4", "of TP 6 and 4 one must be a multiple of the other"}},
		{"routing", ids, func(o *Options) { o.Routing = "random" }, []string{"--routing", `"random"`, "round-robin"}},
		{"moved", ids, func(o *Options) { o.Moved = "half" }, []string{"--moved", `"half"`, "prompt or miss"}},
		{"flops", ids, func(o *Options) { o.FLOPS = -1 }, []string{"--flops", "above 0", "-1"}},
		{"endless flops", ids, func(o *Options) { o.FLOPS = math.Inf(1) }, []string{"--flops", "+Inf"}},
		{"few flops", ids, func(o *Options) { o.FLOPS = 1e-9 }, []string{"--flops 1e-09", "century"}},
		{"slow", ids, func(o *Options) { o.SpeedUp = 1e-12 }, []string{"--speed-up 1e-12", "century"}},
		{"speed-up", ids, func(o *Options) { o.SpeedUp = math.NaN() }, []string{"--speed-up", "NaN"}},
		{"no speed", ids, func(o *Options) { o.SpeedUp = 0 }, []string{"--speed-up: wanted a number above 0", "got 0"}},
		{"scale", ids, func(o *Options) { o.Scale = 2 }, []string{"--scale", "at most 1, got 2"}},
		{"layer runs", ids, func(o *Options) { o.LayerRuns = 4 }, []string{"--layer-runs 4", "--flops 4e+14"}},
		{"more runs than layers", ids, func(o *Options) { o.FLOPS, o.LayerRuns = 1e12, 33 }, []string{"--layer-runs", "at most 32, got 33"}},
		{"replicas", ids, func(o *Options) { o.Replicas = "some" }, []string{"--kv-replicas", `wanted full or split, got "some"`}},
		{"cache", ids, func(o *Options) { o.CacheBlocks = -1 }, []string{"--cache", "got -1"}},
		{"from", ids, func(o *Options) { o.From = -time.Second }, []string{"--from", "got -1"}},
		{"to", ids, func(o *Options) { o.To = -time.Second }, []string{"--to", "got -1"}},
		{"from the end", ids, func(o *Options) { o.From = time.Hour }, []string{"--from 1h0m0s to --to 2s", "from 0s to 2s"}},
		{"to before from", ids, func(o *Options) { o.From, o.To = 2*time.Second, time.Second }, []string{"--to 1s", "--from 2s"}},
		{"block size", traceOf(t, line(0, 1500, 1, 2)), func(*Options) {},
			[]string{"made.jsonl:1: wanted ceil(1500 tokens / 512 of a block) = 3 hash ids", "--block-size 1024"}},
		{"pages", long, func(o *Options) { o.Model = pagedOf(t, "llama3.1-405b", 1) },
			[]string{"made.jsonl:1: 1134000", "1134000 descriptors from one rank", "larger --page-size"}},
		{"runs without pages", ids, func(o *Options) { o.RunLength = 4 }, []string{"--run-length 4: there are no pages", "--page-size"}},
		{"runs of nothing", ids, func(o *Options) { o.RunLength = -1 }, []string{"--run-length", "got -1"}},
		{"runs of heads", ids, func(o *Options) {
			o.Model, o.RunLength, o.Decode.TP = pagedOf(t, "llama3.1-8b", 16), 4, 2*o.Prefill.TP
		}, []string{"--run-length 4: TP", "have other heads of a page", "the same TP"}},
		{"runs that are shared out", ids, func(o *Options) {
			o.Model, o.RunLength, o.Replicas = pagedOf(t, "llama3.1-8b", 16), 4, model.ReplicasSplit
		}, []string{"--run-length 4 with --kv-replicas split"}},
		{"spread", ids, func(o *Options) { o.Spread = true }, []string{"--spread", "no grid", "leave --spread out"}},
		{"miss without ids", plain, func(o *Options) { o.Moved = Missing }, []string{"--moved miss", "no hash ids", "CSV"}},
		{"prefixes without ids", plain, func(o *Options) { o.Routing = PrefixAware },
			[]string{"--routing prefix-aware", "no hash ids"}},
		{"cache without ids", plain, func(o *Options) { o.CacheBlocks = 5 }, []string{"--cache", "no hash ids"}},
		{"blocks without ids", plain, func(o *Options) { o.BlockTokens = 5 }, []string{"--block-size", "no hash ids"}},
		{"nothing moves", empty, func(*Options) {}, []string{"nothing moves", "2 requests"}},
	} {
		o := options(cacheOf(t, "llama3.1-8b", "bf16"))
		tt.change(&o)
		s, err := Make(tt.trace, o)
		text := ""
		if err != nil {
			text = err.Error() + " " + fault.HintOf(err)
		}
		for _, want := range tt.want {
			kind := fault.KindOf(err)
			if s != nil || kind != fault.Usage && kind != fault.Input || !strings.Contains(text, want) {
				t.Errorf("%s: got %q (%v), want %q", tt.name, text, kind, want)
			}
		}
	}
}

func TestNotes(t *testing.T) {
	o := options(cacheOf(t, "llama3.1-8b", "bf16"))
	if s := mustMake(t, shared(t), o); s.Notes != nil {
		t.Errorf("nothing is odd: got %q", s.Notes)
	}
	o.Routing, o.From = PrefixAware, 100*time.Millisecond
	s := mustMake(t, shared(t), o)
	if len(s.Notes) != 2 || !strings.Contains(s.Notes[0], "4e+14") || !strings.Contains(s.Notes[1], "--from 100ms") {
		t.Errorf("got %q", s.Notes)
	}
}
