package moe

import (
	"slices"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/ep/experts"
	"perigee/internal/ep/moe"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
	"perigee/internal/traffic/session"
	"perigee/lua/modules"
	"perigee/lua/objects"
	"perigee/lua/vm"
	"perigee/nixl"
	"perigee/spmd"
)

// base has the host, which the functions of the module need.
type base struct{ modules.Host }

// spec holds the arguments of moe.open and moe.check.
type spec struct {
	shape         moe.Shape
	routing       moe.Routing
	payload       moe.Payload
	eplb          bool
	redundant     int
	shared        int
	groups, nodes int
	placed        string
	staging       string
	mem           nixl.Mem
	loads         []float64
}

// The choices for staging: whether a dispatch copies a rank's messages to where they lie in one piece for each
// receiver. It pays where a piece costs more than the copy of a token, which it does not between shared pages.
const (
	stagingAuto = "auto"
	stagingOn   = "on"
	stagingOff  = "off"
)

// specFrom reads {tokens =, hidden =, experts_per_rank =, topk =, payload =, routing =, placement =, redundant =,
// shared_experts =, groups =, nodes =, loads =, staging =, mem =} for a number of ranks.
func (r base) specFrom(what string, t *glua.LTable, ranks int) (s spec, err error) {
	f := vm.NewFields(what, t)
	perRank := f.Integer("experts_per_rank", 8, -1<<31)
	s.shape = moe.Shape{
		Ranks: ranks, Tokens: f.Int("tokens", 512, -1<<31), Hidden: f.Int("hidden", 4096, -1<<31),
		TopK: f.Int("topk", 2, -1<<31),
	}
	payload := f.Choice("payload", "fp8", "bf16")
	s.placed = f.Choice("placement", "contiguous", "eplb")
	s.staging, s.shared = f.Choice("staging", stagingAuto, stagingOn, stagingOff), f.Int("shared_experts", 0, 0)
	s.redundant, s.groups, s.nodes = f.Int("redundant", 1, 0), f.Int("groups", 1, 1),
		f.Int("nodes", 1, 1)
	routing, loads := f.Table("routing"), f.Table("loads")
	mem := f.Text("mem", nixl.DRAM.String())
	if err := f.Err(); err != nil {
		return s, err
	}
	if s.mem, err = nixl.ParseMem(mem); err != nil {
		return s, fault.New(fault.Usage, "%s: mem: %w", what, err)
	}
	if _, err := value.Whole(1, int64(moe.MaxExperts/ranks)).Check(perRank); err != nil {
		return s, fault.New(fault.Usage, "experts per rank: %w", err)
	}
	s.shape.Experts = int(perRank) * ranks
	if payload == "fp8" {
		s.payload = moe.FP8
	}
	s.eplb = s.placed == "eplb"
	if s.loads, err = numbersFrom(loads); err != nil {
		return s, fault.New(fault.Script, "%s: loads: %w", what, err)
	}
	s.routing, err = r.routingFrom(routing, s)
	return s, err
}

// routingFrom reads {family =, seed =, hot =, hot_experts =, exponent =, sigma =, imbalance =, masked =, matrix =,
// spread =}.
func (r base) routingFrom(t *glua.LTable, s spec) (o moe.Routing, err error) {
	o = moe.DefaultRouting
	o.Seed = r.Env().Seed
	if t == nil {
		return o, nil
	}
	f := vm.NewFields("routing", t)
	o.Family, o.Seed = f.Text("family", o.Family), uint64(f.Integer("seed", int64(o.Seed), 0))
	o.Hot, o.HotExperts = f.Number("hot", o.Hot), f.Int("hot_experts", o.HotExperts, 0)
	o.Exponent, o.Sigma, o.Imbalance = f.Number("exponent", o.Exponent), f.Number("sigma", o.Sigma),
		f.Number("imbalance", o.Imbalance)
	o.Masked, o.Loads = f.Int("masked", 0, 0), s.loads
	spread, m := f.Number("spread", moe.DefaultSpread), f.Get("matrix")
	if err := f.Err(); err != nil {
		return o, err
	}
	switch given, isMatrix := vm.Object[*objects.Matrix](m); {
	case o.Family != "matrix":
	case isMatrix:
		o.Matrix, err = moe.FirstRanks(given.Share(), s.shape.Ranks)
	case m.Type() == glua.LTUserData:
		return o, fault.New(fault.Script, "routing: matrix is %s, want a matrix", vm.Describe(m))
	default:
		o.Matrix, err = moe.DistanceMatrix(s.shape.Ranks, 1<<30, spread)
	}
	return o, err
}

// numbersFrom reads a list of numbers; nil stands for none.
func numbersFrom(t *glua.LTable) (list []float64, err error) {
	if t == nil {
		return nil, nil
	}
	list = make([]float64, 0, t.Len())
	err = vm.Each(t, "element %d", "a number", func(_ int, n glua.LNumber) error {
		list = append(list, float64(n))
		return nil
	})
	return list, err
}

// check refuses sizes that do not go together.
func (s spec) check() error {
	if err := s.shape.Check(); err != nil {
		return err
	}
	with := s.shape
	if with.TopK += s.shared; with.TopK > moe.MaxTopK || with.Tokens > moe.MaxAssignments/with.TopK/with.Ranks {
		return fault.New(fault.Usage, "%d shared experts are too many: each gets every token", s.shared)
	}
	return nil
}

// plan draws the routing and places the experts.
func (s spec) plan(seed uint64) (experts.Spec, error) {
	if err := s.check(); err != nil {
		return experts.Spec{}, err
	}
	selection, err := moe.Route(s.shape, s.routing)
	if err != nil {
		return experts.Spec{}, err
	}
	placement := moe.Contiguous(s.shape)
	if s.eplb {
		if placement, err = selection.Balance(s.loads, s.redundant, s.groups, s.nodes); err != nil {
			return experts.Spec{}, err
		}
	}
	selection, placement = moe.Share(selection, placement, s.shared)
	return experts.Spec{
		Selection: selection, Placement: placement, Payload: s.payload, Seed: seed, Shared: s.shared, Mem: s.mem,
	}, nil
}

// direct reports whether a dispatch writes each message by itself.
func (s spec) direct(engine nixl.Engine) bool {
	return s.staging == stagingOff || s.staging == stagingAuto && (s.mem == nixl.VRAM || engine.Info().Can.Copies)
}

// agent configures the agents of this rank. All ranks call it before they prepare anything: where memory is that of
// GPUs, a rank without one, and an engine that has none, are errors of the kind Resource.
func (r base) agent(mem nixl.Mem) (nixl.AgentConfig, error) {
	cfg := nixl.AgentConfig{Progress: "auto"}
	if mem != nixl.VRAM {
		r.Env().NoteHostMemory()
		return cfg, nil
	}
	if info := r.Env().Engine().Info(); !info.Can.GPU {
		return cfg, fault.New(fault.Resource, "memory type vram: the %s engine serves host memory only", info.Name).
			WithHint("use --mem-type dram, or --engine nixl")
	}
	w := r.Env().World
	ordinal, has := r.Env().GPUOf()
	without := w.Size()
	if !has {
		without = w.Rank()
	}
	first, err := spmd.AllReduce(w.All(), []int{without}, spmd.Min)
	if err != nil {
		return cfg, err
	}
	if rank := first[0]; rank == w.Rank() {
		return cfg, fault.New(fault.Resource, "memory type vram: rank %d on %s has no GPU", rank, w.HostName(rank)).
			WithHint("use --mem-type dram, or run all ranks where there is a GPU (perigee doctor lists what CUDA shows)")
	} else if rank < w.Size() {
		<-w.Context().Done() // that rank reports it
		return cfg, w.Err()
	}
	cfg.GPU = ordinal
	return cfg, r.Env().NoteGPUs()
}

// noteMem says, once, of measurements in GPU memory what they are, and what they are not.
func (r base) noteMem(mem nixl.Mem) {
	if d := r.Env().Doc; d != nil && mem == nixl.VRAM && !slices.Contains(d.Notes, onGPU) {
		r.Env().Note(onGPU)
	}
}

const onGPU = "memory vram: transport of dispatch and combine between GPU memories, posted by the host; no GPU kernels: " +
	"quantising, packing and reducing stay on the host and are not part of any time"

// describe lists the sizes of a data plane, for the result.
func (s spec) describe(plan experts.Spec) map[string]any {
	layout := moe.NewLayout(plan.Selection, plan.Placement)
	var registered, all int64
	for rank := range s.shape.Ranks {
		a, b := experts.Need(plan, layout, rank)
		registered, all = max(registered, a), max(all, a+b)
	}
	census := plan.Census()
	load := make([]any, len(census.Received))
	for rank, n := range census.Received {
		load[rank] = n
	}
	about := map[string]any{
		"ranks": int64(s.shape.Ranks), "tokens": int64(s.shape.Tokens), "hidden": int64(s.shape.Hidden),
		"topk": int64(s.shape.TopK), "shared_experts": int64(s.shared),
		"experts": int64(s.shape.Experts), "experts_per_rank": int64(s.shape.ExpertsPerRank()),
		"payload": s.payload.String(), "staged": !plan.Direct,
		"routing": s.routing.Family, "replacement": s.routing.Replacement(), "routing_seed": int64(s.routing.Seed),
		"placement": s.placed, "registered_bytes": registered, "memory_bytes": all,
		"expert_load_max_over_mean": census.ExpertLoad.MaxOverMean(),
		"rank_load_max_over_mean":   census.RankLoad.MaxOverMean(),
		"rank_load":                 load,
		"mean_fanout":               census.Fanout.Mean,
	}
	if s.mem == nixl.VRAM {
		about["mem"], about["memory_bytes"] = s.mem.String(), registered+all // the copies are in all
	}
	return about
}

// alike fails at all ranks where one asks a collective function for something else than rank 0: they would wait for
// messages that no rank sends.
func (r base) alike(function, asked string) error {
	w, err := r.World()
	if err != nil {
		return err
	}
	leading, other, rank, err := session.FirstDifferent(w, asked)
	if err != nil || rank < 0 {
		return err
	}
	return fault.New(fault.Script, "%s: rank 0 asks for %s; rank %d asks for %s", function, leading, rank, other).
		WithHint("every rank must give it the same values")
}

// addValue is putValue that saves the result.
func (r base) addValue(name string, v any) {
	r.putValue(name, v)
	r.Env().Checkpoint()
}

// putValue appends to a list among the result's values.
func (r base) putValue(name string, v any) {
	d := r.Env().Doc
	if d.Values == nil {
		d.Values = map[string]any{}
	}
	list, _ := d.Values[name].([]any)
	d.Values[name] = append(list, v)
}
