// Package world is the module world: who this rank is, who the others are, and how they meet and exchange values.
//
// Its functions are the collectives of spmd for values of Lua, over all ranks or over a list of them; what a function
// returns for several ranks is keyed by rank, so that t[0] is rank 0's. The host's world stands behind all of it, so
// before run they fail. phase also begins a phase of the result.
package world

import (
	"fmt"
	"math"
	"slices"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/lua/modules"
	"perigee/lua/vm"
	"perigee/spmd"
)

// Module is the module world.
type Module struct{}

type instance struct{ modules.Host }

// New makes the module of a VM.
func (Module) New(h modules.Host) modules.Instance { return &instance{h} }

// Exports lists the functions. The fields are those of Begin.
func (r *instance) Exports() modules.Exports {
	return modules.Exports{Functions: map[string]vm.Function{
		"barrier":    r.Collective(r.Waiting(r.barrier)),
		"broadcast":  r.Collective(r.Waiting(r.broadcast)),
		"gather":     r.Collective(r.Waiting(r.gather)),
		"all_gather": r.Collective(r.Waiting(r.allGather)),
		"all_to_all": r.Collective(r.Waiting(r.allToAll)),
		"reduce":     r.Collective(r.Waiting(r.reduce)),
		"phase":      r.phase,
		"host_of":    r.hostOf,
		"traffic":    modules.InWorld(r, traffic),
	}, Later: []string{"rank", "size", "local_rank", "host", "hosts"}}
}

// Begin returns the plain fields: who this rank is.
func (r *instance) Begin() map[string]glua.LValue {
	L, w := r.VM().L, r.Env().World
	return map[string]glua.LValue{
		"rank":       glua.LNumber(w.Rank()),
		"size":       glua.LNumber(w.Size()),
		"local_rank": glua.LNumber(w.LocalRank()),
		"host":       glua.LString(w.HostName(w.Rank())),
		"hosts":      vm.NewList(L, w.Hosts(), func(h spmd.Host) glua.LValue { return glua.LString(h.Name) }),
	}
}

// group reads an optional list of ranks; without it the group is the world.
func (r *instance) group(L *glua.LState, n int) (*spmd.Group, error) { return r.groupOf(L, n, false) }

// unordered is group where the order of the ranks makes no difference: {0, 1} and {1, 0} are the same group.
func (r *instance) unordered(L *glua.LState, n int) (*spmd.Group, error) {
	return r.groupOf(L, n, true)
}

func (r *instance) groupOf(L *glua.LState, n int, sorted bool) (*spmd.Group, error) {
	w, err := r.World()
	if err != nil {
		return nil, err
	}
	if L.Get(n) == glua.LNil {
		return w.All(), nil
	}
	ranks, err := vm.Ranks(L.CheckTable(n))
	if err != nil {
		return nil, err
	}
	if sorted {
		slices.Sort(ranks)
	}
	return w.Group(ranks)
}

func (r *instance) barrier(L *glua.LState) (int, error) {
	g, err := r.unordered(L, 1)
	if err != nil {
		return 0, err
	}
	if err := g.Barrier(); err != nil {
		return 0, err
	}
	if s := r.Env().Opened(); s != nil {
		s.Met(g)
	}
	return 0, nil
}

// broadcast(value, root, ranks).
func (r *instance) broadcast(L *glua.LState) (int, error) {
	g, root, err := r.rooted(L)
	if err != nil {
		return 0, err
	}
	var data []byte
	if g.Me() == root {
		if data, err = r.encodeArg(L, 1); err != nil {
			return 0, err
		}
	}
	if data, err = g.Broadcast(root, data); err != nil {
		return 0, err
	}
	v, err := vm.Decode(data)
	if err != nil {
		return 0, err
	}
	return vm.Return(L, vm.ToLua(L, v))
}

// rooted reads the arguments (value, root, ranks). root is a rank, by default
// the first of the group.
func (r *instance) rooted(L *glua.LState) (*spmd.Group, int, error) {
	g, err := r.group(L, 3)
	if err != nil {
		return nil, 0, err
	}
	root, err := vm.OptionalInteger(L, 2, g.Ranks()[0], 0)
	if err != nil {
		return nil, 0, err
	}
	place := slices.Index(g.Ranks(), root)
	if place < 0 {
		return nil, 0, fault.New(fault.Script, "root is rank %d, which is not in the group", root)
	}
	return g, place, nil
}

// gather(value, root, ranks); nil at all ranks but root.
func (r *instance) gather(L *glua.LState) (int, error) {
	g, root, err := r.rooted(L)
	if err != nil {
		return 0, err
	}
	data, err := r.encodeArg(L, 1)
	if err != nil {
		return 0, err
	}
	all, err := g.Gather(root, data)
	return pushAll(L, g, all, err)
}

// allGather: all_gather(value, ranks).
func (r *instance) allGather(L *glua.LState) (int, error) {
	data, err := r.encodeArg(L, 1)
	if err != nil {
		return 0, err
	}
	g, err := r.group(L, 2)
	if err != nil {
		return 0, err
	}
	all, err := g.AllGather(data)
	return pushAll(L, g, all, err)
}

// allToAll: all_to_all(values, ranks). values[r] goes to rank r.
func (r *instance) allToAll(L *glua.LState) (int, error) {
	t := L.CheckTable(1)
	g, err := r.group(L, 2)
	if err != nil {
		return 0, err
	}
	pieces := make([][]byte, g.Size())
	for place, rank := range g.Ranks() {
		v, err := vm.ToGo(t.RawGet(glua.LNumber(rank)))
		if err != nil {
			return 0, fmt.Errorf("value for rank %d: %w", rank, err)
		}
		pieces[place] = vm.Encode(v)
	}
	all, err := g.AllToAll(pieces)
	return pushAll(L, g, all, err)
}

// reduce(number or list of numbers, how, ranks), everywhere.
func (r *instance) reduce(L *glua.LState) (int, error) {
	list, isList := L.Get(1).(*glua.LTable)
	if !isList {
		list = L.NewTable()
		list.Append(L.Get(1))
	}
	if err := vm.List("world.reduce: the list", "the keys 1, 2, 3 ...", list); err != nil {
		return 0, err
	}
	numbers := make([]float64, list.Len())
	for i := range numbers {
		n, ok := list.RawGetInt(i + 1).(glua.LNumber)
		if !ok || math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
			return 0, fault.New(fault.Script, "world.reduce: element %d is %s, want a finite number", i+1,
				vm.Describe(list.RawGetInt(i+1)))
		}
		numbers[i] = float64(n)
	}
	how := spmd.Combine(L.OptString(2, string(spmd.Sum)))
	g, err := r.unordered(L, 3)
	if err != nil {
		return 0, err
	}
	out, err := spmd.AllReduce(g, numbers, how)
	if err != nil {
		return 0, err
	}
	if !isList && len(out) == 1 {
		return vm.Return(L, glua.LNumber(out[0]))
	}
	return vm.Return(L, vm.NewList(L, out, func(n float64) glua.LValue { return glua.LNumber(n) }))
}

// phase(name).
func (r *instance) phase(L *glua.LState) (int, error) {
	name := L.CheckString(1)
	if err := modules.CheckName("world.phase", name); err != nil {
		return 0, err
	}
	if _, err := r.World(); err != nil {
		return 0, err
	}
	r.Env().BeginPhase(name)
	return 0, nil
}

// hostOf: host_of(rank).
func (r *instance) hostOf(L *glua.LState) (int, error) {
	rank, err := vm.IntegerArg(L, 1, 0)
	if err != nil {
		return 0, err
	}
	w, err := r.World()
	if err != nil {
		return 0, err
	}
	if rank >= w.Size() {
		return 0, fault.New(fault.Script, "rank %d does not exist in a world of %d", rank, w.Size())
	}
	return vm.Return(L, glua.LString(w.HostName(rank)))
}

// traffic() returns the messages and bytes that this rank has
// sent in collectives.
func traffic(L *glua.LState, w *spmd.World) (int, error) {
	messages, bytes := w.Sent()
	L.Push(glua.LNumber(messages))
	L.Push(glua.LNumber(bytes))
	return 2, nil
}

// encodeArg makes bytes of argument n, for other ranks. Without a world, where memory is bounded, it makes none.
func (r *instance) encodeArg(L *glua.LState, n int) ([]byte, error) {
	if _, err := r.World(); err != nil {
		return nil, err
	}
	v, err := vm.ToGo(L.Get(n))
	if err != nil {
		return nil, err
	}
	return vm.Encode(v), nil
}

// pushAll makes a table whose keys are ranks, so that t[0] is rank 0's; nil at a rank that has received nothing.
func pushAll(L *glua.LState, g *spmd.Group, all [][]byte, err error) (int, error) {
	if err != nil || all == nil {
		L.Push(glua.LNil)
		return 1, err
	}
	t := L.NewTable()
	for place, data := range all {
		v, err := vm.Decode(data)
		if err != nil {
			return 0, err
		}
		t.RawSetInt(g.Ranks()[place], vm.ToLua(L, v))
	}
	return vm.Return(L, t)
}
