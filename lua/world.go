package lua

import (
	"fmt"
	"math"
	"slices"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/spmd"
)

// begin sets the plain fields of the module world.
func (r *worldModule) begin() {
	w := r.env.World
	t := r.L.GetGlobal("world").(*glua.LTable)
	t.RawSetString("rank", glua.LNumber(w.Rank()))
	t.RawSetString("size", glua.LNumber(w.Size()))
	t.RawSetString("local_rank", glua.LNumber(w.LocalRank()))
	t.RawSetString("host", glua.LString(w.HostName(w.Rank())))
	hosts := r.L.NewTable()
	for _, h := range w.Hosts() {
		hosts.Append(glua.LString(h.Name))
	}
	t.RawSetString("hosts", hosts)
}

// worldModule lets ranks meet and exchange values.
type worldModule struct{ base }

func (r *worldModule) exports() map[string]function {
	return map[string]function{
		"barrier":    r.collective(r.waiting(r.barrier)),
		"broadcast":  r.collective(r.waiting(r.broadcast)),
		"gather":     r.collective(r.waiting(r.gather)),
		"all_gather": r.collective(r.waiting(r.allGather)),
		"all_to_all": r.collective(r.waiting(r.allToAll)),
		"reduce":     r.collective(r.waiting(r.reduce)),
		"phase":      r.phase,
		"host_of":    r.hostOf,
		"traffic":    r.traffic,
	}
}

// group reads an optional list of ranks; without it the group is the world.
func (r *worldModule) group(L *glua.LState, n int) (*spmd.Group, error) {
	w, err := r.world()
	if err != nil {
		return nil, err
	}
	if L.Get(n) == glua.LNil {
		return w.All(), nil
	}
	ranks, err := ranksArg(L, n)
	if err != nil {
		return nil, err
	}
	return w.Group(ranks)
}

// unordered is group for what does not depend on the order of the ranks: {0, 1} and {1, 0} are the same group.
func (r *worldModule) unordered(L *glua.LState, n int) (*spmd.Group, error) {
	if L.Get(n) == glua.LNil {
		return r.group(L, n)
	}
	w, err := r.world()
	if err != nil {
		return nil, err
	}
	ranks, err := ranksArg(L, n)
	if err != nil {
		return nil, err
	}
	return w.Group(slices.Sorted(slices.Values(ranks)))
}

func (r *worldModule) barrier(L *glua.LState) (int, error) {
	g, err := r.unordered(L, 1)
	if err != nil {
		return 0, err
	}
	if err := g.Barrier(); err != nil {
		return 0, err
	}
	if s := r.env.Opened(); s != nil {
		s.Met(g)
	}
	return 0, nil
}

// broadcast(value, root, ranks).
func (r *worldModule) broadcast(L *glua.LState) (int, error) {
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
	return r.push(L, data)
}

// rooted reads the arguments (value, root, ranks). root is a rank, by default
// the first of the group.
func (r *worldModule) rooted(L *glua.LState) (*spmd.Group, int, error) {
	g, err := r.group(L, 3)
	if err != nil {
		return nil, 0, err
	}
	root, err := optionalInteger(L, 2, g.Ranks()[0], 0)
	if err != nil {
		return nil, 0, err
	}
	for place, rank := range g.Ranks() {
		if rank == root {
			return g, place, nil
		}
	}
	return nil, 0, fault.New(fault.Script, "root is rank %d, which is not in the group", root)
}

// gather(value, root, ranks); nil at all ranks but root.
func (r *worldModule) gather(L *glua.LState) (int, error) {
	g, root, err := r.rooted(L)
	if err != nil {
		return 0, err
	}
	data, err := r.encodeArg(L, 1)
	if err != nil {
		return 0, err
	}
	all, err := g.Gather(root, data)
	if err != nil {
		return 0, err
	}
	if all == nil {
		L.Push(glua.LNil)
		return 1, nil
	}
	return r.pushAll(L, g, all)
}

// allGather: all_gather(value, ranks).
func (r *worldModule) allGather(L *glua.LState) (int, error) {
	data, err := r.encodeArg(L, 1)
	if err != nil {
		return 0, err
	}
	g, err := r.group(L, 2)
	if err != nil {
		return 0, err
	}
	all, err := g.AllGather(data)
	if err != nil {
		return 0, err
	}
	return r.pushAll(L, g, all)
}

// allToAll: all_to_all(values, ranks). values[r] goes to rank r.
func (r *worldModule) allToAll(L *glua.LState) (int, error) {
	t := L.CheckTable(1)
	g, err := r.group(L, 2)
	if err != nil {
		return 0, err
	}
	pieces := make([][]byte, g.Size())
	for place, rank := range g.Ranks() {
		v, err := toGo(t.RawGet(glua.LNumber(rank)))
		if err != nil {
			return 0, fmt.Errorf("value for rank %d: %w", rank, err)
		}
		pieces[place] = encodeValue(v)
	}
	all, err := g.AllToAll(pieces)
	if err != nil {
		return 0, err
	}
	return r.pushAll(L, g, all)
}

// reduce(number or list of numbers, how, ranks), everywhere.
func (r *worldModule) reduce(L *glua.LState) (int, error) {
	list, isList := L.Get(1).(*glua.LTable)
	if !isList {
		list = L.NewTable()
		list.Append(L.Get(1))
	}
	numbers := make([]float64, list.Len())
	for i := range numbers {
		n, ok := list.RawGetInt(i + 1).(glua.LNumber)
		if !ok || math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
			return 0, fault.New(fault.Script, "world.reduce: element %d is %s, want a finite number", i+1,
				describe(list.RawGetInt(i+1)))
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
		L.Push(glua.LNumber(out[0]))
		return 1, nil
	}
	t := L.CreateTable(len(out), 0)
	for _, n := range out {
		t.Append(glua.LNumber(n))
	}
	L.Push(t)
	return 1, nil
}

// phase(name).
func (r *worldModule) phase(L *glua.LState) (int, error) {
	name := L.CheckString(1)
	if err := checkName("world.phase", name); err != nil {
		return 0, err
	}
	w, err := r.world()
	if err != nil {
		return 0, err
	}
	w.Phase(name)
	if d := r.env.Doc; d != nil {
		d.Phases = append(d.Phases, result.Phase{Name: name, StartNS: w.Now()})
		r.env.Checkpoint()
	}
	return 0, nil
}

// hostOf: host_of(rank).
func (r *worldModule) hostOf(L *glua.LState) (int, error) {
	rank, err := integerArg(L, 1, 0)
	if err != nil {
		return 0, err
	}
	w, err := r.world()
	if err != nil {
		return 0, err
	}
	if rank >= w.Size() {
		return 0, fault.New(fault.Script, "rank %d does not exist in a world of %d", rank, w.Size())
	}
	L.Push(glua.LString(w.HostName(rank)))
	return 1, nil
}

// traffic() returns the messages and bytes that this rank has
// sent in collectives.
func (r *worldModule) traffic(L *glua.LState) (int, error) {
	w, err := r.world()
	if err != nil {
		return 0, err
	}
	messages, bytes := w.Sent()
	L.Push(glua.LNumber(messages))
	L.Push(glua.LNumber(bytes))
	return 2, nil
}

// encodeArg makes bytes of argument n, for other ranks. Without a world, where memory is bounded, it makes none.
func (r *worldModule) encodeArg(L *glua.LState, n int) ([]byte, error) {
	if _, err := r.world(); err != nil {
		return nil, err
	}
	v, err := toGo(L.Get(n))
	if err != nil {
		return nil, err
	}
	return encodeValue(v), nil
}

func (r *Runtime) push(L *glua.LState, data []byte) (int, error) {
	v, err := decodeValue(data)
	if err != nil {
		return 0, err
	}
	L.Push(toLua(L, v))
	return 1, nil
}

// pushAll makes a table whose keys are ranks, so that t[0] is rank 0's.
func (r *worldModule) pushAll(L *glua.LState, g *spmd.Group, all [][]byte) (int, error) {
	t := L.NewTable()
	for place, data := range all {
		v, err := decodeValue(data)
		if err != nil {
			return 0, err
		}
		t.RawSetInt(g.Ranks()[place], toLua(L, v))
	}
	L.Push(t)
	return 1, nil
}
