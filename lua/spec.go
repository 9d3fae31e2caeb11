package lua

import (
	"cmp"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/nixl"
)

// spec holds the arguments of transfer.prepare.
type spec struct {
	load     load.Load
	name     string
	kind     string // empty for a pattern
	bytes    *matrix.Matrix
	file     string // that the matrix came from
	mem      nixl.Mem
	op       nixl.Op
	shards   int // 0 for an exchange
	lane     load.Lane
	metadata map[string]any
	// What the script says it will sleep, in seconds; for readers of the result.
	sleepBefore, sleepAfter float64
	start                   string // barrier or clock
	meet                    string // who meets and sleeps before a run, likewise: initiators, all, or empty
}

// startClock says that the initiators of a plan agree on an instant and start at it.
const startClock = "clock"

// specFrom reads the arguments of prepare.
func (r *transferModule) specFrom(t *glua.LTable) (s spec, err error) {
	f := newFields("transfer.prepare", t)
	s.name, s.lane = f.text("name", ""), load.Lane(f.integer("lane", 0, 0))
	mem, op := f.text("mem", ""), f.text("op", "WRITE")
	s.metadata = f.plainMap("metadata")
	s.sleepBefore, s.sleepAfter = f.seconds("sleep_before"), f.seconds("sleep_after")
	if s.start = f.text("start", "barrier"); s.start != "barrier" && s.start != startClock {
		f.fail("start", `"barrier" or "clock"`, f.get("start"))
	}
	if s.meet = f.text("meet", ""); s.meet != "" && s.meet != "initiators" && s.meet != "all" {
		f.fail("meet", `"initiators" or "all"`, f.get("meet"))
	}
	var build func() error
	if exchange := f.table("exchange"); exchange != nil {
		build = func() error { return r.exchangeInto(&s, exchange) }
	} else {
		build = r.patternInto(&s, f)
	}
	if err := cmp.Or(f.err(), checkName("transfer.prepare: name", s.name)); err != nil {
		return s, err
	}
	if s.op, err = nixl.ParseOp(op); err != nil {
		return s, fault.New(fault.Script, "transfer.prepare: op: %w", err)
	}
	if mem == "" {
		s.mem, err = r.env.DefaultMem()
	} else if s.mem, err = nixl.ParseMem(mem); err != nil {
		err = fault.New(fault.Script, "transfer.prepare: mem: %w", err)
	}
	if err != nil {
		return s, err
	}
	return s, build()
}

// patternInto reads what only a pattern has, and returns what finishes the spec.
func (r *transferModule) patternInto(s *spec, f *fields) func() error {
	s.shards = int(f.integer("shards", 1, 1))
	storage := f.table("storage")
	var m *luaMatrix
	if ud, ok := f.get("matrix").(*glua.LUserData); ok {
		m, _ = ud.Value.(*luaMatrix)
	}
	if m == nil {
		f.fail("matrix", "a matrix (or exchange, a list of messages)", f.get("matrix"))
	}
	return func() error {
		ops, err := storageFrom(storage, r.files.AllowIO)
		if err != nil {
			return err
		}
		if err := r.files.mayStore(ops); err != nil {
			return err
		}
		s.bytes, s.file = m.share(), m.label()
		s.load = load.Pattern{
			Name: s.name, Matrix: s.bytes, Mem: s.mem, Op: s.op, Shards: s.shards, Lane: s.lane, Storage: ops,
		}
		return nil
	}
}

// exchangeInto reads the messages of an exchange.
func (r *transferModule) exchangeInto(s *spec, list *glua.LTable) error {
	w, err := r.world()
	if err != nil {
		return err
	}
	b := exchangeBuilder{pieces: map[[2]int][]load.Piece{}, send: make([]int64, w.Size()),
		recv: make([]int64, w.Size())}
	for i, n := 1, list.Len(); i <= n; i++ {
		t, ok := list.RawGetInt(i).(*glua.LTable)
		if !ok {
			return fault.New(fault.Script, "transfer.prepare: element %d of exchange is %s, want a table with from, to and bytes",
				i, describe(list.RawGetInt(i)))
		}
		if err := b.add(t, i); err != nil {
			return err
		}
	}
	x, err := load.NewExchange(load.Exchange{
		Name: s.name, Mem: s.mem, Op: s.op, Lane: s.lane,
		Pieces: func(from, to int) []load.Piece { return b.pieces[[2]int{from, to}] },
	}, w.Size())
	s.kind, s.load, s.bytes = "exchange", x, x.Matrix()
	return err
}

// exchangeBuilder collects the pieces of an exchange. Messages without an offset lie one after the
// other, at both ends.
type exchangeBuilder struct {
	pieces     map[[2]int][]load.Piece
	send, recv []int64 // by rank, where the next message goes
}

// add adds one message: count pieces of bytes each, at regular distances or at listed places.
func (b *exchangeBuilder) add(t *glua.LTable, number int) error {
	f := newFields("transfer.prepare: element "+glua.LNumber(number).String()+" of exchange", t)
	from, to := int(f.integer("from", -1, 0)), int(f.integer("to", -1, 0))
	bytes, count := f.size("bytes", 0), f.integer("count", 1, 0)
	for _, e := range []struct {
		name string
		rank int
	}{{"from", from}, {"to", to}} {
		if e.rank < 0 || e.rank >= len(b.send) {
			f.fail(e.name, "a rank below "+glua.LNumber(len(b.send)).String(), f.get(e.name))
			return f.bad
		}
	}
	if bytes < 1 {
		f.fail("bytes", "the size of a piece, at least 1", f.get("bytes"))
	}
	if count > load.MaxPieces {
		f.fail("count", "at most "+glua.LNumber(load.MaxPieces).String()+" pieces", f.get("count"))
	}
	if f.bad != nil {
		return f.bad
	}
	send := f.places("send", count, bytes, &b.send[from])
	recv := f.places("recv", count, bytes, &b.recv[to])
	if err := f.err(); err != nil {
		return err
	}
	key := [2]int{from, to}
	for k := range send {
		b.pieces[key] = append(b.pieces[key], load.Piece{SendOff: send[k], RecvOff: recv[k], Len: bytes})
	}
	return nil
}

// places reads where pieces begin: a list of offsets, or the first offset and NAME_stride, the distance from piece to
// piece. Without the first they follow what is there, and next moves behind them.
func (f *fields) places(name string, count, bytes int64, next *int64) []int64 {
	stride := f.size(name+"_stride", bytes)
	list := make([]int64, count)
	if t, ok := f.get(name).(*glua.LTable); ok {
		if int64(t.Len()) != count {
			f.fail(name, "as many offsets as count says", glua.LNumber(t.Len()))
			return list
		}
		for k := range list {
			n, err := sizeOf(t.RawGetInt(k + 1))
			if err != nil && f.bad == nil {
				f.bad = fault.New(fault.Script, "%s: offset %d of %s: %w", f.what, k+1, name, err)
			}
			list[k] = n
		}
		return list
	}
	first := f.size(name, *next)
	for k := range list {
		list[k] = first + int64(k)*stride
	}
	if f.get(name) == glua.LNil && count > 0 {
		*next = list[count-1] + bytes
	}
	return list
}
