package lua

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/conf"
	"perigee/internal/experts"
	"perigee/internal/fault"
	"perigee/internal/model"
	"perigee/internal/moe"
	"perigee/internal/size"
	"perigee/internal/traffic/session"
	"perigee/nixl"
)

const planeTypeName = "perigee.plane"

// luaPlane is an open data plane as scripts see it.
type luaPlane struct {
	*experts.Plane                // nil after its close
	about          map[string]any // what the result says of it
	number         int            // how many were opened before
}

func (r *Runtime) moeModule() map[string]function {
	return map[string]function{
		"open":          r.collective(r.moeOpen),
		"loads":         r.collective(r.moeLoads),
		"control":       r.collective(r.moeControl),
		"elastic":       r.collective(r.moeElastic),
		"lost":          r.concerning(r.moeLost),
		"plan_ranks":    moePlanRanks,
		"plans":         func(L *glua.LState) (int, error) { return pushTexts(L, experts.Plans()), nil },
		"growth":        moeGrowth,
		"phases":        func(L *glua.LState) (int, error) { return pushTexts(L, experts.PhaseNames()), nil },
		"fit":           moeFit,
		"check":         r.moeCheck,
		"model":         r.collective(r.moeModel),
		"options":       moeOptions,
		"check_options": moeCheckOptions,
		"families":      func(L *glua.LState) (int, error) { return pushTexts(L, moe.Families()), nil },
		"sabotages":     func(L *glua.LState) (int, error) { return pushTexts(L, experts.Sabotages()), nil },
		"buffer_size":   moeBufferSize,
	}
}

// planeMethods are the functions of a data plane: plane:measure{...}.
func (r *Runtime) planeMethods() map[string]function {
	return map[string]function{
		"measure": r.collective(onPlane(whileOpen(r.planeMeasure))),
		"beside":  r.collective(onPlane(whileOpen(r.planeBeside))),
		"verify":  r.collective(onPlane(whileOpen(r.planeVerify))),
		"matrix":  onPlane(whileOpen(r.planeMatrix)),
		"close":   r.collective(onPlane(r.closePlane)),
	}
}

// closePlane: close(). What is closed is forgotten: a script may open a plane for each of thousands of measurements.
func (r *Runtime) closePlane(_ *glua.LState, p *luaPlane) (int, error) {
	if p.Plane == nil {
		return 0, nil
	}
	open := p.Plane
	p.Plane = nil
	r.planes = slices.DeleteFunc(r.planes, func(other *luaPlane) bool { return other == p })
	return 0, open.Close()
}

// whileOpen refuses a method of a data plane that is closed.
func whileOpen(f func(L *glua.LState, p *luaPlane) (int, error)) func(L *glua.LState, p *luaPlane) (int, error) {
	return func(L *glua.LState, p *luaPlane) (int, error) {
		if p.Plane == nil {
			return 0, fault.New(fault.Script, "the data plane is closed: use it before its close()")
		}
		return f(L, p)
	}
}

func (r *Runtime) planeType() {
	methods := r.functions(r.planeMethods())
	r.newType(planeTypeName, map[string]function{"__index": onPlane(func(L *glua.LState, _ *luaPlane) (int, error) {
		return pushMember(L, methods, "data plane", L.Get(2).String())
	})})
}

func onPlane(f func(L *glua.LState, p *luaPlane) (int, error)) function {
	return func(L *glua.LState) (int, error) {
		p, err := userData[*luaPlane](L, 1, "a data plane; methods are called with a colon: plane:measure{...}")
		if err != nil {
			return 0, err
		}
		return f(L, p)
	}
}

func pushTexts(L *glua.LState, list []string) int {
	L.Push(textsTable(L, list))
	return 1
}

func textsTable(L *glua.LState, list []string) *glua.LTable {
	t := L.CreateTable(len(list), 0)
	for _, s := range list {
		t.Append(glua.LString(s))
	}
	return t
}

// moeOpen: open(spec) makes a data plane.
func (r *Runtime) moeOpen(L *glua.LState) (int, error) {
	w, err := r.world()
	if err != nil {
		return 0, err
	}
	s, err := r.moeSpecFrom("moe.open", L.CheckTable(1), w.Size())
	if err != nil {
		return 0, err
	}
	plan, err := s.plan(r.env.Seed)
	if err != nil {
		return 0, err
	}
	// The session says what engine all ranks use.
	if _, err := r.session(); err != nil {
		return 0, err
	}
	plan.Direct = s.direct(r.env.Engine())
	about := s.describe(plan)
	staged := "each rank's messages staged in one piece"
	if plan.Direct {
		staged = "each message written by itself"
	}
	r.env.Note(fmt.Sprintf("routing %s, %s, seed %d; placement %s; %s, %s; requests prepared once and posted again",
		s.routing.Family, s.routing.Replacement(), s.routing.Seed, s.placed, s.payload, staged))
	r.env.Note(fmt.Sprintf("memory of a rank: %s registered, %s in all",
		size.Decimal(about["registered_bytes"].(int64)), size.Decimal(about["memory_bytes"].(int64))))
	if err := r.alike("moe.open", planeText(about)); err != nil {
		return 0, err
	}
	opened, err := experts.Open(w, r.env.Engine(), nixl.AgentConfig{Progress: "auto"}, plan)
	if err != nil {
		return 0, err
	}
	p := &luaPlane{Plane: opened, about: about, number: r.opened}
	r.opened++
	r.planes = append(r.planes, p)
	L.Push(newUserData(L, planeTypeName, p))
	return 1, nil
}

// moeModel: model(name), the sizes of a model's layers with experts, by the name of a model that perigee knows or the
// path of its file.
func (r *Runtime) moeModel(L *glua.LState) (int, error) {
	name := L.CheckString(1)
	data, err := r.atRankZero("moe.model of "+name, func() ([]byte, error) {
		a, err := r.modelOf(name)
		if err != nil {
			return nil, err
		}
		if err := a.CheckExperts(name); err != nil {
			return nil, err
		}
		return encodeValue(map[string]any{
			"name": a.Name, "hidden": a.Hidden, "experts": a.Experts, "topk": a.TopK, "shared": a.Shared,
		}), nil
	})
	if err != nil {
		return 0, err
	}
	return r.push(L, data)
}

// modelOf returns a model that perigee knows, or that of a file.
func (r *Runtime) modelOf(name string) (*model.Model, error) {
	if !conf.Readable(name) {
		return model.Named(name)
	}
	text, err := r.readText(name)
	if err != nil {
		return nil, err
	}
	v, err := conf.Parse(name, text)
	if err != nil {
		return nil, err
	}
	return model.Parse(v)
}

// moeLoads: loads(path, layer) reads a row of loads.
func (r *Runtime) moeLoads(L *glua.LState) (int, error) {
	path := L.CheckString(1)
	layer, err := optionalInteger(L, 2, 0, 0)
	if err != nil {
		return 0, err
	}
	data, err := r.atRankZero("moe.loads of "+path, func() ([]byte, error) {
		text, err := r.readText(path)
		if err != nil {
			return nil, err
		}
		layers, err := moe.ReadLoads(path, bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		if layer >= len(layers) {
			return nil, fault.New(fault.Usage, "layer %d: %s has rows 0 to %d", layer, path, len(layers)-1)
		}
		list := make([]any, len(layers[layer]))
		for i, v := range layers[layer] {
			list[i] = v
		}
		return encodeValue(list), nil
	})
	if err != nil {
		return 0, err
	}
	return r.push(L, data)
}

// moeFit: fit{{bytes, seconds}, ...}.
func moeFit(L *glua.LState) (int, error) {
	t := L.CheckTable(1)
	var points []moe.Point
	for i, n := 1, t.Len(); i <= n; i++ {
		row, _ := t.RawGetInt(i).(*glua.LTable)
		pair, err := numbersFrom(row)
		if err != nil || len(pair) != 2 {
			return 0, fault.New(fault.Script, "moe.fit: point %d is %s, want {bytes, seconds}", i,
				describe(t.RawGetInt(i)))
		}
		points = append(points, moe.Point{Bytes: pair[0], Seconds: pair[1]})
	}
	l := moe.FitLine(points)
	L.Push(toLua(L, map[string]any{
		"alpha": l.Alpha, "alpha_low": l.AlphaLow, "alpha_high": l.AlphaHigh,
		"rate": l.Rate, "rate_low": l.RateLow, "rate_high": l.RateHigh,
		"r2": l.R2, "share": l.Share, "refused": l.Refused, "starred": l.Starred,
	}))
	return 1, nil
}

// moeBufferSize: buffer_size(tokens, hidden, ranks, experts).
func moeBufferSize(L *glua.LState) (int, error) {
	var n [4]int
	for i := range n {
		var err error
		if n[i], err = integerArg(L, i+1, 1); err != nil {
			return 0, err
		}
	}
	// More than all the terms of the sum, in numbers that do not overflow.
	most := 8 * float64(n[0]) * float64(n[3]) * (moe.HeaderBytes + 4*float64(n[1]))
	if most >= exactBelow {
		return 0, fault.New(fault.Script, "moe.buffer_size: %d tokens of %d channels for %d experts take 2^53 bytes or more", n[0], n[1], n[3])
	}
	L.Push(glua.LNumber(moe.BufferHint(n[0], n[1], n[3])))
	return 1, nil
}

// planeMatrix: matrix(mode), the bytes that the messages of a mode take from each rank to each, itself included.
func (r *Runtime) planeMatrix(L *glua.LState, p *luaPlane) (int, error) {
	mode, err := experts.ParseMode(L.CheckString(2))
	if err != nil {
		return 0, err
	}
	m, err := p.Matrix(mode)
	if err != nil {
		return 0, err
	}
	L.Push(r.newMatrix(m, ""))
	return 1, nil
}

// planeMeasure: measure{mode =, iterations =, warmup =, entry =, fresh =}, a table at rank 0, nil elsewhere.
func (r *Runtime) planeMeasure(L *glua.LState, p *luaPlane) (int, error) {
	f := newFields("plane:measure", L.CheckTable(2))
	name := f.text("mode", "e2e")
	iterations, warmup, fresh := int(f.integer("iterations", 100, 1)), int(f.integer("warmup", 10, 0)),
		f.boolean("fresh", false)
	entered := f.text("entry", map[bool]string{true: experts.Fresh.String(), false: experts.Steady.String()}[fresh])
	if err := f.err(); err != nil {
		return 0, err
	}
	mode, err := experts.ParseMode(name)
	if err != nil {
		return 0, err
	}
	entry, err := experts.ParseEntry(entered)
	if err != nil {
		return 0, err
	}
	asked := fmt.Sprintf("plane %d, mode %s, %d iterations, %d of warm-up, entry %s", p.number, name, iterations, warmup, entered)
	if err := r.alike("plane:measure", asked); err != nil {
		return 0, err
	}
	if err := p.First(); err != nil {
		return 0, err
	}
	figures, err := p.Measure(mode, warmup, iterations, entry)
	if err != nil {
		return 0, err
	}
	if figures == nil {
		L.Push(glua.LNil)
		return 1, nil
	}
	plain, err := plainOf(figures)
	if err != nil {
		return 0, err
	}
	for key, value := range p.about {
		plain[key] = value
	}
	r.addValue("ep", plain)
	L.Push(toLua(L, plain))
	return 1, nil
}

// plainOf makes plain data of a struct, by way of JSON.
func plainOf(v any) (map[string]any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var plain map[string]any
	return plain, json.Unmarshal(data, &plain)
}

// alike fails at all ranks where one asks a collective function for something else than rank 0: they would wait for
// messages that no rank sends.
func (r *Runtime) alike(function, asked string) error {
	w, err := r.world()
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

// planeText names a plane; two that are described differently have different names.
func planeText(about map[string]any) string {
	text, err := json.Marshal(about)
	if err != nil {
		return err.Error() // texts and finite numbers: this does not happen
	}
	return fmt.Sprintf("a plane of %v tokens of %v channels, topk %v, routing %v, seed %v (%.4x)", about["tokens"], about["hidden"],
		about["topk"], about["routing"], about["routing_seed"], sha256.Sum256(text))
}

// planeVerify: verify{sabotage =, arrived =, state =}.
func (r *Runtime) planeVerify(L *glua.LState, p *luaPlane) (int, error) {
	t, ok := L.Get(2).(*glua.LTable)
	if !ok {
		t = L.NewTable()
	}
	f := newFields("plane:verify", t)
	sabotage, arrived, state := f.text("sabotage", ""), f.boolean("arrived", true), f.text("state", "")
	err := f.err()
	if err == nil {
		err = r.alike("plane:verify", fmt.Sprintf("plane %d, sabotage %q, arrived %t, state %q", p.number, sabotage, arrived, state))
	}
	if err != nil {
		return 0, err
	}
	var checked *experts.Checked
	if state == "" {
		checked, err = p.Verify(experts.Options{Sabotage: experts.Sabotage(sabotage), SkipArrived: !arrived})
	} else {
		var mode experts.Mode
		if mode, err = experts.ParseMode(state); err == nil {
			checked, err = p.CheckState(mode)
		}
	}
	if err != nil {
		return 0, err
	}
	L.Push(toLua(L, map[string]any{
		"messages": checked.Messages, "tokens": checked.Tokens,
		"difference": checked.Unshifted, "shifted": checked.Shifted, "relative": checked.Relative,
	}))
	return 1, nil
}
