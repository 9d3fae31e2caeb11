package transfer

import (
	"cmp"
	"fmt"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/series"
	"perigee/lua/modules"
	"perigee/lua/objects"
	"perigee/lua/vm"
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

// Takes are the fields of the tables that functions of the module take, for readers of scripts that do not run.
// A pattern and an exchange share most of theirs.
var Takes = map[string][]string{
	"prepare": {"exchange", "lane", "matrix", "meet", "mem", "metadata", "name", "op", "shards", "sleep_after",
		"sleep_before", "start", "storage"},
	"exchange": {"bytes", "count", "from", "recv", "recv_stride", "send", "send_stride", "to"}, // of a message
	"lanes": {"api", "backend", "batch", "block", "direct", "files", "huge_pages", "limit", "local_mem", "op",
		"overwrite", "path", "peers", "remote_mem", "shuffle", "shuffle_seed", "threads"},
}

// specFrom reads the arguments of prepare.
func specFrom(h modules.Host, t *glua.LTable) (s spec, err error) {
	f := vm.NewFields("transfer.prepare", t)
	s.name, s.lane = f.Text("name", ""), load.Lane(f.Integer("lane", 0, 0))
	mem, op := f.Text("mem", ""), f.Text("op", "WRITE")
	s.metadata = f.PlainMap("metadata")
	s.sleepBefore, s.sleepAfter = f.Seconds("sleep_before"), f.Seconds("sleep_after")
	if s.start = f.Text("start", "barrier"); s.start != "barrier" && s.start != startClock {
		f.Fail("start", `"barrier" or "clock"`, f.Get("start"))
	}
	if s.meet = f.Text("meet", ""); s.meet != "" && s.meet != "initiators" && s.meet != "all" {
		f.Fail("meet", `"initiators" or "all"`, f.Get("meet"))
	}
	var build func() error
	if exchange := f.Table("exchange"); exchange != nil {
		build = func() error { return exchangeInto(h, &s, exchange) }
	} else {
		build = patternInto(h, &s, f)
	}
	if err := cmp.Or(f.Err(), modules.CheckName("transfer.prepare: name", s.name)); err != nil {
		return s, err
	}
	if s.op, err = nixl.ParseOp(op); err != nil {
		return s, fault.New(fault.Script, "transfer.prepare: op: %w", err)
	}
	if mem == "" {
		s.mem, err = h.Env().DefaultMem()
	} else if s.mem, err = nixl.ParseMem(mem); err != nil {
		err = fault.New(fault.Script, "transfer.prepare: mem: %w", err)
	}
	if err != nil {
		return s, err
	}
	return s, build()
}

// patternInto reads what only a pattern has, and returns what finishes the spec.
func patternInto(h modules.Host, s *spec, f *vm.Fields) func() error {
	if s.shards = f.Int("shards", 1, 1); s.shards > load.MaxShards {
		f.Fail("shards", fmt.Sprint("at most ", load.MaxShards), f.Get("shards"))
	}
	storage := f.Table("storage")
	m, ok := vm.Object[*objects.Matrix](f.Get("matrix"))
	if !ok {
		f.Fail("matrix", "a matrix (or exchange, a list of messages)", f.Get("matrix"))
	}
	return func() error {
		ops, err := storageFrom(storage, h.Files().AllowIO)
		if err != nil {
			return err
		}
		if err := h.Files().MayStore(ops); err != nil {
			return err
		}
		s.bytes, s.file = m.Share(), m.Label()
		s.load = load.Pattern{
			Name: s.name, Matrix: s.bytes, Mem: s.mem, Op: s.op, Shards: s.shards, Lane: s.lane, Storage: ops,
		}
		return nil
	}
}

// exchangeInto reads the messages of an exchange.
func exchangeInto(h modules.Host, s *spec, list *glua.LTable) error {
	w, err := h.World()
	if err != nil {
		return err
	}
	b := exchangeBuilder{pieces: map[[2]int][]load.Piece{}, send: make([]int64, w.Size()),
		recv: make([]int64, w.Size())}
	err = vm.Each(list, "transfer.prepare: element %d of exchange", "a table with from, to and bytes", b.add)
	if err != nil {
		return err
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
func (b *exchangeBuilder) add(number int, t *glua.LTable) error {
	f := vm.NewFields("transfer.prepare: element "+glua.LNumber(number).String()+" of exchange", t)
	from, to := f.Int("from", -1, 0), f.Int("to", -1, 0)
	bytes, count := f.Size("bytes", 0), f.Integer("count", 1, 0)
	for _, e := range []struct {
		name string
		rank int
	}{{"from", from}, {"to", to}} {
		if e.rank < 0 || e.rank >= len(b.send) {
			f.Fail(e.name, "a rank below "+glua.LNumber(len(b.send)).String(), f.Get(e.name))
			return f.Mistake()
		}
	}
	if bytes < 1 {
		f.Fail("bytes", "the size of a piece, at least 1", f.Get("bytes"))
	}
	if count > load.MaxPieces {
		f.Fail("count", "at most "+glua.LNumber(load.MaxPieces).String()+" pieces", f.Get("count"))
	}
	if err := f.Mistake(); err != nil {
		return err
	}
	send := places(f, "send", count, bytes, &b.send[from])
	recv := places(f, "recv", count, bytes, &b.recv[to])
	if err := f.Err(); err != nil {
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
func places(f *vm.Fields, name string, count, bytes int64, next *int64) []int64 {
	stride := f.Size(name+"_stride", bytes)
	list := make([]int64, count)
	if t, ok := f.Get(name).(*glua.LTable); ok {
		if int64(t.Len()) != count {
			f.Fail(name, "as many offsets as count says", glua.LNumber(t.Len()))
			return list
		}
		for k := range list {
			n, err := vm.Size(t.RawGetInt(k + 1))
			if err != nil {
				f.Refuse("offset %d of %s: %w", k+1, name, err)
			}
			list[k] = n
		}
		return list
	}
	first := f.Size(name, *next)
	for k := range list {
		list[k] = first + int64(k)*stride
	}
	if f.Get(name) == glua.LNil && count > 0 {
		*next = list[count-1] + bytes
	}
	return list
}

// storageFrom reads the storage operations of a pattern: a table keyed by rank. Only --allow-io lets
// them write to files that are there.
func storageFrom(t *glua.LTable, allowIO bool) (map[int]load.StorageOp, error) {
	if t == nil {
		return nil, nil
	}
	ops := map[int]load.StorageOp{}
	var failed error
	t.ForEach(func(k, v glua.LValue) {
		if failed != nil {
			return
		}
		// Keys that come out of a configuration file are strings.
		rank, ok := vm.WholeNumber(k)
		if text, isText := k.(glua.LString); isText {
			rank, ok = vm.WholeNumber(glua.LVAsNumber(text))
			ok = ok && glua.LNumber(rank).String() == string(text)
		}
		fields, isTable := v.(*glua.LTable)
		if !ok || rank < 0 || !isTable {
			failed = fault.New(fault.Script, "storage: the key %s holds %s, want a rank and a table", vm.Quoted(k.String()),
				vm.Describe(v))
			return
		}
		ops[int(rank)], failed = storageOpFrom(fields, allowIO)
	})
	return ops, failed
}

func storageOpFrom(t *glua.LTable, overwrite bool) (load.StorageOp, error) {
	f := vm.NewFields("storage", t)
	op := load.StorageOp{
		Path: f.Text("file_path", ""), FileSize: f.Size("file_size", 0),
		ReadOffset: f.Size("read_offset", 0), ReadSize: f.Size("read_size", 0),
		WriteOffset: f.Size("write_offset", 0), WriteSize: f.Size("write_size", 0), Overwrite: overwrite,
	}
	return op, f.Err()
}

// storageRuns lists what files took, for transfer.collect.
func storageRuns(L *glua.LState, list []series.StorageRun) *glua.LTable {
	return vm.NewList(L, list, func(r series.StorageRun) glua.LValue {
		return vm.ToLua(L, map[string]any{
			"rank": int64(r.Rank), "op": r.Op, "iteration": int64(r.Iteration + 1), "bytes": r.Bytes,
			"start": float64(r.StartNS) / 1e9, "stop": float64(r.EndNS) / 1e9,
			"seconds": float64(r.EndNS-r.StartNS) / 1e9,
		})
	})
}
