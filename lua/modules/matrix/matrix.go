// Package matrix is the module matrix, which makes and reads traffic matrices: how many bytes each rank sends to each.
//
// A matrix is a perigee/internal/traffic/matrix behind an object (perigee/lua/objects) with methods, and with rows for
// m[0][1]. Generators take the number of ranks from the host's world where the script does not say it; before there is
// a world it must, so that the function ranks can use them. Rank 0 of the host reads files. m:save writes only what
// perigee/lua/files allows.
package matrix

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/pack"
	"perigee/internal/result"
	"perigee/internal/traffic/matrix"
	"perigee/lua/modules"
	"perigee/lua/objects"
	"perigee/lua/vm"
)

const rowType = "perigee.matrix.row"

// row is m[i] of a matrix.
type row struct {
	m    *objects.Matrix
	rank int
}

// Module is the module matrix.
type Module struct{}

type instance struct{ modules.Host }

// New makes the module of a VM, and the types of matrices and of their rows.
func (Module) New(h modules.Host) modules.Instance {
	r := &instance{h}
	vm.Class[*objects.Matrix]{
		Type: objects.MatrixType, Name: "matrix", Instead: map[string]string{
			"set": "m[i][j] = bytes sets a cell", "get": "m[i][j] is a cell"},
		What: what, Methods: r.methods(), Field: rowOf,
		Meta: map[string]vm.Function{"__eq": vm.On(what, equal), "__tostring": value(text)},
	}.Open(h.VM())
	h.VM().NewType(rowType, map[string]vm.Function{"__index": onCell(cellGet), "__newindex": onCell(cellSet)})
	return r
}

// Exports lists the functions.
func (r *instance) Exports() modules.Exports {
	return modules.Exports{Functions: map[string]vm.Function{
		"load":        r.Collective(r.loadOne),
		"load_all":    r.Collective(r.loadAll),
		"from":        r.from,
		"new":         r.empty,
		"all_to_all":  r.generator("all_to_all", allToAll),
		"ring":        r.generator("ring", ring),
		"incast":      r.generator("incast", incast),
		"outcast":     r.generator("outcast", outcast),
		"permutation": r.generator("permutation", r.permutation),
		"random":      r.generator("random", r.random),
		"size":        size,
	}}
}

// what names a matrix in messages.
const what = "a matrix"

// methods are the functions of a matrix: m:total().
func (r *instance) methods() map[string]vm.Function {
	L := r.VM().L
	return map[string]vm.Function{
		"ranks":        value(func(m *objects.Matrix) glua.LValue { return glua.LNumber(m.Size()) }),
		"total":        value(func(m *objects.Matrix) glua.LValue { return glua.LNumber(m.Total()) }),
		"digest":       value(func(m *objects.Matrix) glua.LValue { return glua.LString(m.Digest()) }),
		"senders":      value(func(m *objects.Matrix) glua.LValue { return vm.Numbers(L, m.Senders()) }),
		"receivers":    value(func(m *objects.Matrix) glua.LValue { return vm.Numbers(L, m.Receivers()) }),
		"participants": value(func(m *objects.Matrix) glua.LValue { return vm.Numbers(L, m.Ranks()) }),
		"transpose":    value(func(m *objects.Matrix) glua.LValue { return objects.NewMatrix(L, m.Transpose(), "") }),
		"row_sum":      sum((*matrix.Matrix).RowSum),
		"column_sum":   sum((*matrix.Matrix).ColumnSum),
		"scale":        vm.On(what, scale),
		"save":         vm.On(what, r.save),
	}
}

// value makes a function of a matrix that has no further arguments.
func value(f func(m *objects.Matrix) glua.LValue) vm.Function {
	return vm.On(what, func(L *glua.LState, m *objects.Matrix) (int, error) { return vm.Return(L, f(m)) })
}

// text is the result of tostring for a matrix.
func text(m *objects.Matrix) glua.LValue {
	return glua.LString(fmt.Sprintf("matrix of %d x %d ranks, %d bytes", m.Size(), m.Size(), m.Total()))
}

// equal is the operator ==.
func equal(L *glua.LState, a *objects.Matrix) (int, error) {
	b, err := vm.ObjectArg[*objects.Matrix](L, 2, what)
	if err != nil {
		return 0, err
	}
	return vm.Return(L, glua.LBool(a.Equal(b.Matrix)))
}

// rowOf is m[i]; other keys are names of methods.
func rowOf(L *glua.LState, m *objects.Matrix, key glua.LValue) (glua.LValue, error) {
	if key.Type() == glua.LTString {
		return nil, nil
	}
	i, err := rankIn(key, m.Size())
	if err != nil {
		return nil, err
	}
	return vm.NewUserData(L, rowType, &row{m, i}), nil
}

func rankIn(v glua.LValue, n int) (int, error) {
	i, ok := vm.WholeNumber(v)
	if !ok || i < 0 || i >= int64(n) {
		return 0, fault.New(fault.Script, "%s is no rank of a matrix of %d ranks, which count from 0", vm.Describe(v), n)
	}
	return int(i), nil
}

// onCell makes a metamethod of what a cell m[i][j] does.
func onCell(f func(L *glua.LState, m *objects.Matrix, i, j int) (int, error)) vm.Function {
	return vm.On("a row of a matrix", func(L *glua.LState, row *row) (int, error) {
		j, err := rankIn(L.Get(2), row.m.Size())
		if err != nil {
			return 0, err
		}
		return f(L, row.m, row.rank, j)
	})
}

func cellGet(L *glua.LState, m *objects.Matrix, i, j int) (int, error) {
	return vm.Return(L, glua.LNumber(m.At(i, j)))
}

func cellSet(L *glua.LState, m *objects.Matrix, i, j int) (int, error) {
	bytes, err := vm.Size(L.Get(3))
	if err != nil {
		return 0, err
	}
	return 0, m.Set(i, j, bytes)
}

func push(L *glua.LState, m *matrix.Matrix, err error) (int, error) {
	if err != nil {
		return 0, fault.New(fault.Script, "%w", err)
	}
	return vm.Return(L, objects.NewMatrix(L, m, ""))
}

// loadOne: load(path). Rank 0 reads the file.
func (r *instance) loadOne(L *glua.LState) (int, error) {
	list, err := r.loadList(L, []string{L.CheckString(1)})
	if err != nil {
		return 0, err
	}
	return vm.Return(L, list[0])
}

// loadAll: load_all(paths), with one message per rank for all of them.
func (r *instance) loadAll(L *glua.LState) (int, error) {
	var paths []string
	err := vm.Each(L.CheckTable(1), "element %d", "the name of a file", func(_ int, path glua.LString) error {
		paths = append(paths, string(path))
		return nil
	})
	if err != nil {
		return 0, err
	}
	list, err := r.loadList(L, paths)
	if err != nil {
		return 0, err
	}
	return vm.Return(L, vm.NewList(L, list, func(m *glua.LUserData) glua.LValue { return m }))
}

// nameFiles names files, in few words and all different where they are not the same.
func nameFiles(paths []string) string {
	const most = 4 << 10
	length := 0
	for _, p := range paths {
		length += len(p)
	}
	if length <= most {
		return strings.Join(paths, ", ")
	}
	digest := sha256.New()
	for _, p := range paths {
		fmt.Fprintf(digest, "%d %s", len(p), p)
	}
	return fmt.Sprintf("%s and %d other files (%x)", vm.Quoted(paths[0]), len(paths)-1, digest.Sum(nil)[:8])
}

func (r *instance) loadList(L *glua.LState, paths []string) ([]*glua.LUserData, error) {
	plain, err := r.AtRankZero("matrix.load of "+nameFiles(paths), func() (any, error) {
		var packed []any
		for _, p := range paths {
			m, err := r.read(p)
			if err != nil {
				return nil, err
			}
			b, err := m.MarshalBinary()
			if err != nil {
				return nil, err
			}
			packed = append(packed, string(b))
		}
		return packed, nil
	})
	if err != nil {
		return nil, err
	}
	packed, _ := plain.([]any)
	if len(packed) != len(paths) {
		return nil, pack.ErrTorn
	}
	list := make([]*glua.LUserData, len(packed))
	for i, p := range packed {
		m := new(matrix.Matrix)
		bytes, _ := p.(string)
		if err := m.UnmarshalBinary([]byte(bytes)); err != nil {
			return nil, err
		}
		list[i] = objects.NewMatrix(L, m, paths[i])
	}
	return list, nil
}

// read reads a file, or finds it in the result that is repeated, and notes it
// in the new one.
func (r *instance) read(path string) (*matrix.Matrix, error) {
	return modules.Read(r, path, (*result.Document).MatrixFile, matrix.Load,
		func(d *result.Document, path string, m *matrix.Matrix) { d.AddMatrixFile(path, objects.Label(path), m) })
}

// from(rows), a list of lists of sizes.
func (r *instance) from(L *glua.LState) (int, error) {
	t := L.CheckTable(1)
	if err := vm.List("matrix.from: the list of rows", "the keys 1, 2, 3 ...", t); err != nil {
		return 0, err
	}
	rows := make([][]int64, t.Len())
	for i := range rows {
		row, ok := t.RawGetInt(i + 1).(*glua.LTable)
		if !ok {
			return 0, fault.New(fault.Script, "row %d is %s, want a list of sizes", i, vm.Describe(t.RawGetInt(i+1)))
		}
		if err := vm.List(fmt.Sprintf("row %d", i), "a list of sizes", row); err != nil {
			return 0, err
		}
		for j := range row.Len() {
			bytes, err := vm.Size(row.RawGetInt(j + 1))
			if err != nil {
				return 0, fmt.Errorf("row %d, column %d: %w", i, j, err)
			}
			rows[i] = append(rows[i], bytes)
		}
	}
	m, err := matrix.FromRows(rows)
	return push(L, m, err)
}

// empty: new(ranks), all 0.
func (r *instance) empty(L *glua.LState) (int, error) {
	n, err := vm.IntegerArg(L, 1, 1)
	if _, isTable := L.Get(1).(*glua.LTable); isTable {
		return 0, fault.New(fault.Script, "matrix.new takes a number of ranks; matrix.from makes a matrix of the rows in a table")
	}
	if err != nil {
		return 0, err
	}
	if err := matrix.CheckSize(n); err != nil {
		return 0, fault.New(fault.Script, "%w", err)
	}
	return push(L, matrix.New(n), nil)
}

// generator makes the function matrix.NAME{ranks =, ...}: arguments reads what it takes besides the number of ranks, by
// default that of the world, and returns what makes the matrix of them.
func (r *instance) generator(name string, arguments func(f *vm.Fields, ranks int) maker) vm.Function {
	return func(L *glua.LState) (int, error) {
		f, ranks := vm.NewFields("matrix."+name, L.CheckTable(1)), 1
		if w := r.Env().World; w != nil {
			ranks = w.Size()
		} else if f.Get("ranks") == glua.LNil {
			f.Fail("ranks", "a number of ranks, since there is no world yet", glua.LNil)
		}
		make := arguments(f, f.Int("ranks", ranks, 1))
		if err := f.Err(); err != nil {
			return 0, err
		}
		m, err := make()
		return push(L, m, err)
	}
}

// maker makes a matrix.
type maker = func() (*matrix.Matrix, error)

func allToAll(f *vm.Fields, n int) maker {
	bytes, self := f.Size("bytes", 0), f.Bool("self", false)
	return func() (*matrix.Matrix, error) { return matrix.AllToAll(n, bytes, self) }
}

func ring(f *vm.Fields, n int) maker {
	bytes, step := f.Size("bytes", 0), f.Int("step", 1, math.MinInt64)
	return func() (*matrix.Matrix, error) { return matrix.Ring(n, bytes, step) }
}

func incast(f *vm.Fields, n int) maker {
	bytes, root := f.Size("bytes", 0), f.Int("root", 0, 0)
	return func() (*matrix.Matrix, error) { return matrix.Incast(n, root, bytes) }
}

func outcast(f *vm.Fields, n int) maker {
	bytes, root := f.Size("bytes", 0), f.Int("root", 0, 0)
	return func() (*matrix.Matrix, error) { return matrix.Outcast(n, root, bytes) }
}

func (r *instance) permutation(f *vm.Fields, n int) maker {
	bytes, seed := f.Size("bytes", 0), r.seed(f)
	return func() (*matrix.Matrix, error) { return matrix.Permutation(n, bytes, seed) }
}

func (r *instance) random(f *vm.Fields, n int) maker {
	density := f.Number("density", 0.1)
	least, most, seed := f.Size("min_bytes", 1), f.Size("max_bytes", 1<<20), r.seed(f)
	return func() (*matrix.Matrix, error) { return matrix.Random(n, density, least, most, seed) }
}

// seed reads the seed of a matrix that is drawn, by default that of the run.
func (r *instance) seed(f *vm.Fields) uint64 {
	return uint64(f.Integer("seed", int64(r.Env().Seed), 0))
}

// size("64K") in bytes.
func size(L *glua.LState) (int, error) {
	n, err := vm.Size(L.CheckAny(1))
	if err != nil {
		return 0, err
	}
	return vm.Return(L, glua.LNumber(n))
}

// sum makes the function of a matrix that sums up a row or a column: m:row_sum(rank).
func sum(of func(m *matrix.Matrix, rank int) int64) vm.Function {
	return vm.On(what, func(L *glua.LState, m *objects.Matrix) (int, error) {
		rank, err := rankIn(L.Get(2), m.Size())
		if err != nil {
			return 0, err
		}
		return vm.Return(L, glua.LNumber(of(m.Matrix, rank)))
	})
}

// scale: m:scale(factor).
func scale(L *glua.LState, m *objects.Matrix) (int, error) {
	scaled, err := m.Scale(float64(L.CheckNumber(2)))
	return push(L, scaled, err)
}

// save: m:save(path). Only rank 0 writes.
func (r *instance) save(L *glua.LState, m *objects.Matrix) (int, error) {
	path := L.CheckString(2)
	if err := r.Files().MayWrite(path); err != nil {
		return 0, err
	}
	if w := r.Env().World; w != nil && w.Rank() != 0 {
		return 0, nil
	}
	return 0, file.Write(path, func(w io.Writer) error { return m.WriteText(w) })
}
