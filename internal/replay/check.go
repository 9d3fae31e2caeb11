package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/model"
	"perigee/internal/trace"
)

// Limits, beyond which a number is a typing error.
const (
	maxTransfers = 1 << 27
)

func usage(format string, args ...any) *fault.Error { return fault.New(fault.Usage, format, args...) }

// check refuses options that no trace can be replayed with, and completes those that are not given.
func (o *Options) check() error {
	if o.Model == nil {
		return usage("--model: wanted the model whose caches move, got none").
			WithHint("perigee kvbench models lists those that are part of perigee")
	}
	o.Routing, o.Moved = cmp.Or(o.Routing, RoundRobin), cmp.Or(o.Moved, WholePrompt)
	switch {
	case o.Routing != RoundRobin && o.Routing != LeastLoaded && o.Routing != PrefixAware:
		return usage("--routing: wanted %s, %s or %s, got %q", RoundRobin, LeastLoaded, PrefixAware, o.Routing)
	case o.Moved != WholePrompt && o.Moved != Missing:
		return usage("--moved: wanted %s or %s, got %q", WholePrompt, Missing, o.Moved)
	}
	o.Replicas = cmp.Or(o.Replicas, model.ReplicasFull)
	if err := cmp.Or(o.Replicas.Check(), o.checkNumbers()); err != nil {
		return err
	}
	if o.LayerRuns > 1 && o.FLOPS == 0 {
		return usage("--layer-runs %d: runs of layers leave while the prompt is prefilled, which takes no time without --flops",
			o.LayerRuns).WithHint("--flops %g is about what a good prefill reaches on an H100", float64(model.PrefillFLOPS))
	}
	return cmp.Or(o.checkWorkers(), o.checkRuns())
}

// checkRuns refuses runs of pages where none lie beside each other: each rank has its own heads of each page.
func (o *Options) checkRuns() error {
	if o.RunLength < 2 {
		return nil
	}
	if !o.paged() {
		return usage("--run-length %d: there are no pages, each descriptor holds all of a group of layers", o.RunLength).
			WithHint("--serving, or --page-size, cuts a cache into pages")
	}
	if o.Replicas == model.ReplicasSplit {
		return usage("--run-length %d with --kv-replicas split: ranks that share out pages have none beside each other", o.RunLength)
	}
	from, to := int64(o.Prefill.TP), int64(o.Decode.TP)
	for _, g := range o.Model.Model.Groups {
		if from/g.Copies(from) != to/g.Copies(to) && !g.State.Any() {
			return usage("--run-length %d: TP%d and TP%d have other heads of a page, so that those of one page are not beside those of the next",
				o.RunLength, from, to).WithHint("wanted the same TP for --prefill and --decode")
		}
	}
	return nil
}

func (o *Options) checkNumbers() error {
	const far = 1e30 // beyond any machine
	for _, n := range []struct {
		flag        string
		value, most float64
	}{
		{"cache", float64(o.CacheBlocks), math.MaxInt32},
		{"run-length", float64(o.RunLength), math.MaxInt32},
		{"layer-runs", float64(o.LayerRuns), float64(o.Model.Model.Layers)}, {"flops", o.FLOPS, far},
		{"speed-up", o.SpeedUp, far}, {"scale", o.Scale, 1},
		{"from", o.From.Seconds(), far}, {"to", o.To.Seconds(), far},
	} {
		isOff := n.value == 0 && n.flag != "speed-up" && n.flag != "scale"
		if !isOff && !(n.value > 0 && n.value <= n.most) { // also not a number
			return usage("--%s: wanted a number above 0 and at most %.10g, got %v", n.flag, n.most, n.value)
		}
	}
	if o.To > 0 && o.To < o.From {
		return usage("--to %v is before --from %v: wanted a later time of the trace", o.To, o.From)
	}
	return nil
}

// checkWorkers refuses sides among whose ranks the cache cannot be cut.
func (o *Options) checkWorkers() error {
	m := o.Model.Model
	for _, side := range []struct {
		flag string
		w    model.Workers
	}{{"prefill", o.Prefill}, {"decode", o.Decode}} {
		if side.w.N < 1 || side.w.TP < 1 {
			return usage("--%s: wanted at least one worker of one rank, got %s", side.flag, side.w)
		}
		if err := m.CheckCut(int64(side.w.TP)); err != nil {
			var can []string
			for tp := int64(1); tp <= 64; tp++ {
				if m.CheckCut(tp) == nil {
					can = append(can, fmt.Sprintf("TP%d", tp))
				}
			}
			return usage("--%s %s: %w", side.flag, side.w, err).
				WithHint("--%s can have %s", side.flag, strings.Join(can, ", "))
		}
	}
	if err := o.move().Check(); err != nil {
		return usage("--prefill %s, --decode %s: %w", o.Prefill, o.Decode, err)
	}
	return nil
}

// checkIDs refuses what needs hash ids of a trace that has none, and a size of blocks that is not theirs.
func (o *Options) checkIDs(t *trace.Trace) error {
	has := slices.ContainsFunc(t.Requests, func(r trace.Request) bool { return len(r.HashIDs) > 0 })
	needs := false
	for _, x := range []struct {
		flag  string
		given bool
	}{
		{"--moved " + string(Missing), o.Moved == Missing}, {"--routing " + string(PrefixAware), o.Routing == PrefixAware},
		{"--cache", o.CacheBlocks > 0}, {"--block-size", o.BlockTokens > 0},
	} {
		if x.given && !has {
			return usage("%s: the trace (%s) has no hash ids, so nothing says which prompts begin alike", x.flag, t.Format).
				WithHint("leave it out, or take a trace with hash_ids, such as Mooncake's")
		}
		needs = needs || x.given
	}
	if o.BlockTokens = t.BlockTokens; !needs && o.BlockTokens == 0 {
		return nil
	}
	return t.CheckBlocks()
}
