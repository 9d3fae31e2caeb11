package transfer

import (
	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/series"
	"perigee/lua/vm"
)

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
		ops[int(rank)], failed = storageOpFrom(fields)
	})
	for rank, op := range ops {
		op.Overwrite = allowIO
		ops[rank] = op
	}
	return ops, failed
}

func storageOpFrom(t *glua.LTable) (load.StorageOp, error) {
	f := vm.NewFields("storage", t)
	op := load.StorageOp{
		Path: f.Text("file_path", ""), FileSize: f.Size("file_size", 0),
		ReadOffset: f.Size("read_offset", 0), ReadSize: f.Size("read_size", 0),
		WriteOffset: f.Size("write_offset", 0), WriteSize: f.Size("write_size", 0),
	}
	return op, f.Err()
}

// storageRuns is what transfer.collect returns about files.
func storageRuns(L *glua.LState, list []series.StorageRun) *glua.LTable {
	return vm.NewList(L, list, func(r series.StorageRun) glua.LValue {
		return vm.ToLua(L, map[string]any{
			"rank": int64(r.Rank), "op": r.Op, "iteration": int64(r.Iteration + 1), "bytes": r.Bytes,
			"start": float64(r.StartNS) / 1e9, "stop": float64(r.EndNS) / 1e9,
			"seconds": float64(r.EndNS-r.StartNS) / 1e9,
		})
	})
}
