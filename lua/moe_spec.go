package lua

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/experts"
	"perigee/internal/fault"
	"perigee/internal/moe"
	"perigee/nixl"
)

// moeSpec holds the arguments of moe.open and moe.check.
type moeSpec struct {
	shape         moe.Shape
	routing       moe.Routing
	payload       moe.Payload
	eplb          bool
	redundant     int
	shared        int
	groups, nodes int
	placed        string
	staging       string
	loads         []float64
}

// The choices for staging: whether a dispatch copies a rank's messages to where they lie in one piece for each
// receiver. It pays where a piece costs more than the copy of a token, which it does not between shared pages.
const (
	stagingAuto = "auto"
	stagingOn   = "on"
	stagingOff  = "off"
)

// moeSpecFrom reads {tokens =, hidden =, experts_per_rank =, topk =, payload =, routing =, placement =, redundant =,
// shared_experts =, groups =, nodes =, loads =, staging =} for a number of ranks.
func (r *Runtime) moeSpecFrom(what string, t *glua.LTable, ranks int) (s moeSpec, err error) {
	f := newFields(what, t)
	perRank := f.integer("experts_per_rank", 8, -1<<31)
	s.shape = moe.Shape{
		Ranks: ranks, Tokens: int(f.integer("tokens", 512, -1<<31)), Hidden: int(f.integer("hidden", 4096, -1<<31)),
		TopK: int(f.integer("topk", 2, -1<<31)),
	}
	payload, placement := f.text("payload", "fp8"), f.text("placement", "contiguous")
	s.staging, s.shared = f.text("staging", stagingAuto), int(f.integer("shared_experts", 0, 0))
	s.redundant, s.groups, s.nodes = int(f.integer("redundant", 1, 0)), int(f.integer("groups", 1, 1)),
		int(f.integer("nodes", 1, 1))
	routing, loads := f.table("routing"), f.table("loads")
	if err := f.err(); err != nil {
		return s, err
	}
	if perRank < 1 || perRank > int64(moe.MaxExperts/ranks) {
		return s, fault.New(fault.Usage, "experts per rank is %d, want 1 to %d", perRank, moe.MaxExperts/ranks)
	}
	s.shape.Experts = int(perRank) * ranks
	switch payload {
	case "fp8":
		s.payload = moe.FP8
	case "bf16":
	default:
		return s, fault.New(fault.Usage, "unknown payload %s, want fp8 or bf16", quoted(payload))
	}
	switch s.placed = placement; placement {
	case "eplb":
		s.eplb = true
	case "contiguous":
	default:
		return s, fault.New(fault.Usage, "unknown placement %s, want contiguous or eplb", quoted(placement))
	}
	if !slices.Contains([]string{stagingAuto, stagingOn, stagingOff}, s.staging) {
		return s, fault.New(fault.Usage, "unknown staging %s, want auto, on or off", quoted(s.staging))
	}
	if s.loads, err = numbersFrom(loads); err != nil {
		return s, fault.New(fault.Script, "%s: loads: %w", what, err)
	}
	s.routing, err = r.routingFrom(routing, s)
	return s, err
}

// routingFrom reads {family =, seed =, hot =, hot_experts =, exponent =, sigma =, imbalance =, masked =, matrix =,
// spread =}.
func (r *Runtime) routingFrom(t *glua.LTable, s moeSpec) (o moe.Routing, err error) {
	o = moe.DefaultRouting
	o.Seed = r.env.Seed
	if t == nil {
		return o, nil
	}
	f := newFields("routing", t)
	o.Family, o.Seed = f.text("family", o.Family), uint64(f.integer("seed", int64(o.Seed), 0))
	o.Hot, o.HotExperts = f.number("hot", o.Hot), int(f.integer("hot_experts", int64(o.HotExperts), 0))
	o.Exponent, o.Sigma, o.Imbalance = f.number("exponent", o.Exponent), f.number("sigma", o.Sigma),
		f.number("imbalance", o.Imbalance)
	o.Masked, o.Loads = int(f.integer("masked", 0, 0)), s.loads
	spread, m := f.number("spread", moe.DefaultSpread), f.get("matrix")
	if err := f.err(); err != nil {
		return o, err
	}
	switch u, ok := m.(*glua.LUserData); {
	case o.Family != "matrix":
	case ok:
		given, isMatrix := u.Value.(*luaMatrix)
		if !isMatrix {
			return o, fault.New(fault.Script, "routing: matrix is %s, want a matrix", describe(m))
		}
		o.Matrix, err = moe.FirstRanks(given.share(), s.shape.Ranks)
	default:
		o.Matrix, err = moe.DistanceMatrix(s.shape.Ranks, 1<<30, spread)
	}
	return o, err
}

func numbersFrom(t *glua.LTable) ([]float64, error) {
	if t == nil {
		return nil, nil
	}
	list := make([]float64, t.Len())
	for i := range list {
		n, ok := t.RawGetInt(i + 1).(glua.LNumber)
		if !ok {
			return nil, fmt.Errorf("element %d is %s, want a number", i+1, describe(t.RawGetInt(i+1)))
		}
		list[i] = float64(n)
	}
	return list, nil
}

// moeOptions: options(), a list for scenarios whose options are those of a routing and a placement.
func moeOptions(L *glua.LState) (int, error) {
	list := L.NewTable()
	for f := range reflect.TypeFor[moe.Options]().Fields() {
		o := L.NewTable()
		set := func(name string, v glua.LValue) { o.RawSetString(name, v) }
		set("name", glua.LString(f.Tag.Get("name")))
		set("help", glua.LString(strings.TrimSuffix(f.Tag.Get("help"), ".")))
		text := f.Tag.Get("default")
		switch {
		case f.Type == reflect.TypeFor[*float64]():
			set("type", glua.LString("number"))
		case f.Type != reflect.TypeFor[string]():
			set("type", glua.LString("int"))
			if n, err := strconv.Atoi(text); err == nil {
				set("default", glua.LNumber(n))
			}
		case f.Tag.Get("enum") != "":
			set("type", glua.LString("enum"))
			set("default", glua.LString(text))
			set("choices", textsTable(L, strings.Split(f.Tag.Get("enum"), ",")))
		default:
			set("type", glua.LString("path"))
		}
		if n, err := strconv.Atoi(f.Tag.Get("min")); err == nil {
			set("min", glua.LNumber(n))
		}
		list.Append(o)
	}
	L.Push(list)
	return 1, nil
}

// moeCheckOptions: check_options(opt) refuses values of options() that the routing opt.routing does not look at.
func moeCheckOptions(L *glua.LState) (int, error) {
	t := L.CheckTable(1)
	var o moe.Options
	v := reflect.ValueOf(&o).Elem()
	for i := range v.NumField() {
		field := v.Field(i)
		given := L.GetField(t, Option{Name: v.Type().Field(i).Tag.Get("name")}.key())
		if given != glua.LNil && field.Kind() == reflect.Pointer {
			field.Set(reflect.New(field.Type().Elem()))
			field = field.Elem()
		}
		switch given := given.(type) {
		case glua.LNumber:
			if field.Kind() != reflect.String {
				field.Set(reflect.ValueOf(float64(given)).Convert(field.Type()))
			}
		case glua.LString:
			if field.Kind() == reflect.String {
				field.SetString(string(given))
			}
		}
	}
	return 0, o.Check(L.GetField(t, "routing").String())
}

// moeCheck: check(spec, ranks) refuses what the ranks would refuse, before there are any.
func (r *Runtime) moeCheck(L *glua.LState) (int, error) {
	ranks, err := integerArg(L, 2, 1)
	if err != nil {
		return 0, err
	}
	s, err := r.moeSpecFrom("moe.check", L.CheckTable(1), ranks)
	if err != nil {
		return 0, err
	}
	return 0, s.check()
}

// check refuses sizes that do not go together.
func (s moeSpec) check() error {
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
func (s moeSpec) plan(seed uint64) (experts.Spec, error) {
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
		Selection: selection, Placement: placement, Payload: s.payload, Seed: seed, Shared: s.shared,
	}, nil
}

// direct reports whether a dispatch writes each message by itself.
func (s moeSpec) direct(engine nixl.Engine) bool {
	return s.staging == stagingOff || s.staging == stagingAuto && engine.Info().Name == "shm"
}

// describe says what a data plane is, for the result.
func (s moeSpec) describe(plan experts.Spec) map[string]any {
	layout := moe.NewLayout(plan.Selection, plan.Placement)
	var registered, all int64
	for rank := range s.shape.Ranks {
		a, b := experts.Need(plan, layout, rank)
		registered, all = max(registered, a), max(all, a+b)
	}
	census := plan.Census()
	return map[string]any{
		"ranks": int64(s.shape.Ranks), "tokens": int64(s.shape.Tokens), "hidden": int64(s.shape.Hidden),
		"topk": int64(s.shape.TopK), "shared_experts": int64(s.shared),
		"experts": int64(s.shape.Experts), "experts_per_rank": int64(s.shape.ExpertsPerRank()),
		"payload": s.payload.String(), "staged": !plan.Direct,
		"routing": s.routing.Family, "replacement": s.routing.Replacement(), "routing_seed": int64(s.routing.Seed),
		"placement": s.placed, "registered_bytes": registered, "memory_bytes": all,
		"expert_load_max_over_mean": census.ExpertLoad.MaxOverMean(),
		"rank_load_max_over_mean":   census.RankLoad.MaxOverMean(),
		"mean_fanout":               census.Fanout.Mean,
	}
}
