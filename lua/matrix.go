package lua

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/pack"
	"perigee/internal/traffic/matrix"
)

const (
	matrixTypeName = "perigee.matrix"
	rowTypeName    = "perigee.matrix.row"
)

// luaMatrix is a matrix as scripts see it. Ranks count from 0: m[0][1] is what
// rank 0 sends to rank 1.
type luaMatrix struct {
	*matrix.Matrix
	file   string // where it was read, if it is still what was read
	shared bool   // plans use it: a script's next change is made to a copy
}

// share returns the matrix for something that needs it to stay as it is.
func (m *luaMatrix) share() *matrix.Matrix {
	m.shared = true
	return m.Matrix
}

func (m *luaMatrix) set(i, j int, bytes int64) error {
	if m.shared {
		m.Matrix, m.shared = m.Clone(), false
	}
	m.file = ""
	return m.Matrix.Set(i, j, bytes)
}

type luaRow struct {
	m    *luaMatrix
	rank int
}

// matrixModule makes and reads traffic matrices.
type matrixModule struct{ base }

func (r *matrixModule) exports() map[string]function {
	return map[string]function{
		"load":        r.collective(r.loadOne),
		"load_all":    r.collective(r.loadAll),
		"from":        r.from,
		"new":         r.empty,
		"all_to_all":  r.allToAll,
		"ring":        r.ring,
		"incast":      r.incast,
		"outcast":     r.outcast,
		"permutation": r.permutation,
		"random":      r.random,
		"size":        matrixSize,
	}
}

// methods are the functions of a matrix: m:total().
func (r *matrixModule) methods() map[string]function {
	return map[string]function{
		"ranks":        r.onMatrix(func(m *luaMatrix) glua.LValue { return glua.LNumber(m.Size()) }),
		"total":        r.onMatrix(func(m *luaMatrix) glua.LValue { return glua.LNumber(m.Total()) }),
		"digest":       r.onMatrix(func(m *luaMatrix) glua.LValue { return glua.LString(m.Digest()) }),
		"senders":      r.onMatrix(func(m *luaMatrix) glua.LValue { return intList(r.L, m.Senders()) }),
		"receivers":    r.onMatrix(func(m *luaMatrix) glua.LValue { return intList(r.L, m.Receivers()) }),
		"participants": r.onMatrix(func(m *luaMatrix) glua.LValue { return intList(r.L, m.Matrix.Ranks()) }),
		"transpose":    r.onMatrix(func(m *luaMatrix) glua.LValue { return r.newMatrix(m.Transpose(), "") }),
		"row_sum":      r.rowSum,
		"column_sum":   r.columnSum,
		"scale":        r.scale,
		"save":         r.save,
	}
}

func (r *matrixModule) onMatrix(f func(m *luaMatrix) glua.LValue) function {
	return func(L *glua.LState) (int, error) {
		m, err := checkMatrix(L, 1)
		if err != nil {
			return 0, err
		}
		L.Push(f(m))
		return 1, nil
	}
}

// open makes the types of matrices and of their rows.
func (r *matrixModule) open() {
	methods := r.functions(r.methods())
	r.newType(matrixTypeName, map[string]function{
		"__index": func(L *glua.LState) (int, error) {
			m, err := checkMatrix(L, 1)
			if err != nil {
				return 0, err
			}
			if name, ok := L.Get(2).(glua.LString); ok {
				return pushMember(L, methods, "matrix", string(name))
			}
			i, err := rankIn(L.Get(2), m.Size())
			if err != nil {
				return 0, err
			}
			L.Push(newUserData(L, rowTypeName, &luaRow{m, i}))
			return 1, nil
		},
		"__tostring": r.onMatrix(func(m *luaMatrix) glua.LValue {
			return glua.LString(fmt.Sprintf("matrix of %d x %d ranks, %d bytes", m.Size(), m.Size(), m.Total()))
		}),
		"__eq": func(L *glua.LState) (int, error) {
			a, err := checkMatrix(L, 1)
			if err != nil {
				return 0, err
			}
			b, err := checkMatrix(L, 2)
			if err != nil {
				return 0, err
			}
			L.Push(glua.LBool(a.Equal(b.Matrix)))
			return 1, nil
		},
	})
	r.newType(rowTypeName, map[string]function{"__index": rowGet, "__newindex": rowSet})
}

// pushMember pushes a method. One that does not exist is a mistake, not nil.
func pushMember(L *glua.LState, methods *glua.LTable, what, name string) (int, error) {
	f := methods.RawGetString(name)
	if f == glua.LNil {
		return 0, fault.New(fault.Script, "a %s has no %s", what, quoted(name))
	}
	L.Push(f)
	return 1, nil
}

func checkMatrix(L *glua.LState, n int) (*luaMatrix, error) {
	return userData[*luaMatrix](L, n, "a matrix")
}

func rankIn(v glua.LValue, n int) (int, error) {
	i, ok := wholeNumber(v)
	if !ok || i < 0 || i >= int64(n) {
		return 0, fault.New(fault.Script, "%s is no rank of a matrix of %d ranks, which count from 0", describe(v), n)
	}
	return int(i), nil
}

func rowOf(L *glua.LState) (*luaRow, int, error) {
	row, err := userData[*luaRow](L, 1, "a row of a matrix")
	if err != nil {
		return nil, 0, err
	}
	j, err := rankIn(L.Get(2), row.m.Size())
	return row, j, err
}

func rowGet(L *glua.LState) (int, error) {
	row, j, err := rowOf(L)
	if err != nil {
		return 0, err
	}
	L.Push(glua.LNumber(row.m.At(row.rank, j)))
	return 1, nil
}

func rowSet(L *glua.LState) (int, error) {
	row, j, err := rowOf(L)
	if err != nil {
		return 0, err
	}
	bytes, err := sizeOf(L.Get(3))
	if err != nil {
		return 0, err
	}
	return 0, row.m.set(row.rank, j, bytes)
}

func (r *Runtime) newMatrix(m *matrix.Matrix, file string) *glua.LUserData {
	return newUserData(r.L, matrixTypeName, &luaMatrix{Matrix: m, file: file})
}

func (r *matrixModule) pushMatrix(L *glua.LState, m *matrix.Matrix, err error) (int, error) {
	if err != nil {
		return 0, fault.New(fault.Script, "%w", err)
	}
	L.Push(r.newMatrix(m, ""))
	return 1, nil
}

// loadOne: load(path). Rank 0 reads the file.
func (r *matrixModule) loadOne(L *glua.LState) (int, error) {
	list, err := r.loadList([]string{L.CheckString(1)})
	if err != nil {
		return 0, err
	}
	L.Push(list[0])
	return 1, nil
}

// loadAll: load_all(paths), with one message per rank for all of them.
func (r *matrixModule) loadAll(L *glua.LState) (int, error) {
	t := L.CheckTable(1)
	var paths []string
	for i, n := 1, t.Len(); i <= n; i++ {
		s, ok := t.RawGetInt(i).(glua.LString)
		if !ok {
			return 0, fault.New(fault.Script, "element %d is %s, want the name of a file", i, describe(t.RawGetInt(i)))
		}
		paths = append(paths, string(s))
	}
	list, err := r.loadList(paths)
	if err != nil {
		return 0, err
	}
	out := L.NewTable()
	for _, m := range list {
		out.Append(m)
	}
	L.Push(out)
	return 1, nil
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
	part := make([]byte, most) // a copy of a long name would count as memory that the script has filled
	for _, p := range paths {
		fmt.Fprintf(digest, "%d ", len(p))
		for p != "" {
			n := copy(part, p)
			digest.Write(part[:n])
			p = p[n:]
		}
	}
	return fmt.Sprintf("%s and %d other files (%x)", quoted(paths[0]), len(paths)-1, digest.Sum(nil)[:8])
}

func (r *matrixModule) loadList(paths []string) ([]*glua.LUserData, error) {
	data, err := r.atRankZero("matrix.load of "+nameFiles(paths), func() ([]byte, error) {
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
		return encodeValue(packed), nil
	})
	if err != nil {
		return nil, err
	}
	v, err := decodeValue(data)
	if err != nil {
		return nil, err
	}
	packed, _ := v.([]any)
	if len(packed) != len(paths) {
		return nil, pack.ErrTorn
	}
	list := make([]*glua.LUserData, len(packed))
	for i, p := range packed {
		m := new(matrix.Matrix)
		text, _ := p.(string)
		if err := m.UnmarshalBinary([]byte(text)); err != nil {
			return nil, err
		}
		list[i] = r.newMatrix(m, paths[i])
	}
	return list, nil
}

// read reads a file, or finds it in the result that is repeated, and notes it
// in the new one.
func (r *matrixModule) read(path string) (m *matrix.Matrix, err error) {
	found := false
	if r.env.Repeat != nil {
		if m, found, err = r.env.Repeat.MatrixFile(path); err != nil {
			return nil, fault.New(fault.Input, "%w", err)
		}
	}
	if !found {
		if err := r.files.notOver(path); err != nil {
			return nil, err
		}
		if m, err = matrix.Load(path); err != nil {
			return nil, err
		}
	}
	if r.env.Doc != nil {
		r.env.Doc.AddMatrixFile(path, baseName(path), m)
	}
	return m, nil
}

// from(rows), a list of lists of sizes.
func (r *matrixModule) from(L *glua.LState) (int, error) {
	t := L.CheckTable(1)
	rows := make([][]int64, t.Len())
	for i := range rows {
		row, ok := t.RawGetInt(i + 1).(*glua.LTable)
		if !ok {
			return 0, fault.New(fault.Script, "row %d is %s, want a list of sizes", i, describe(t.RawGetInt(i+1)))
		}
		for j := range row.Len() {
			bytes, err := sizeOf(row.RawGetInt(j + 1))
			if err != nil {
				return 0, fmt.Errorf("row %d, column %d: %w", i, j, err)
			}
			rows[i] = append(rows[i], bytes)
		}
	}
	m, err := matrix.FromRows(rows)
	return r.pushMatrix(L, m, err)
}

// empty: new(ranks), all 0.
func (r *matrixModule) empty(L *glua.LState) (int, error) {
	n, err := integerArg(L, 1, 1)
	if err != nil {
		return 0, err
	}
	if err := matrix.CheckSize(n); err != nil {
		return 0, fault.New(fault.Script, "%w", err)
	}
	return r.pushMatrix(L, matrix.New(n), nil)
}

// spec reads the named arguments of a generator; ranks defaults to the world.
func (r *matrixModule) spec(L *glua.LState, what string) (*fields, int) {
	f := newFields("matrix."+what, L.CheckTable(1))
	if r.env.World != nil {
		return f, int(f.integer("ranks", int64(r.env.World.Size()), 1))
	}
	if f.get("ranks") == glua.LNil {
		f.fail("ranks", "a number of ranks, since there is no world yet", glua.LNil)
	}
	return f, int(f.integer("ranks", 1, 1))
}

func (r *matrixModule) generated(L *glua.LState, f *fields, make func() (*matrix.Matrix, error)) (int, error) {
	if err := f.err(); err != nil {
		return 0, err
	}
	m, err := make()
	return r.pushMatrix(L, m, err)
}

func (r *matrixModule) allToAll(L *glua.LState) (int, error) {
	f, n := r.spec(L, "all_to_all")
	bytes, self := f.size("bytes", 0), f.boolean("self", false)
	return r.generated(L, f, func() (*matrix.Matrix, error) { return matrix.AllToAll(n, bytes, self) })
}

func (r *matrixModule) ring(L *glua.LState) (int, error) {
	f, n := r.spec(L, "ring")
	bytes, step := f.size("bytes", 0), int(f.integer("step", 1, math.MinInt64))
	return r.generated(L, f, func() (*matrix.Matrix, error) { return matrix.Ring(n, bytes, step) })
}

func (r *matrixModule) incast(L *glua.LState) (int, error) {
	f, n := r.spec(L, "incast")
	bytes, root := f.size("bytes", 0), int(f.integer("root", 0, 0))
	return r.generated(L, f, func() (*matrix.Matrix, error) { return matrix.Incast(n, root, bytes) })
}

func (r *matrixModule) outcast(L *glua.LState) (int, error) {
	f, n := r.spec(L, "outcast")
	bytes, root := f.size("bytes", 0), int(f.integer("root", 0, 0))
	return r.generated(L, f, func() (*matrix.Matrix, error) { return matrix.Outcast(n, root, bytes) })
}

func (r *matrixModule) permutation(L *glua.LState) (int, error) {
	f, n := r.spec(L, "permutation")
	bytes, seed := f.size("bytes", 0), uint64(f.integer("seed", int64(r.env.Seed), 0))
	return r.generated(L, f, func() (*matrix.Matrix, error) { return matrix.Permutation(n, bytes, seed) })
}

func (r *matrixModule) random(L *glua.LState) (int, error) {
	f, n := r.spec(L, "random")
	density := f.number("density", 0.1)
	least, most := f.size("min_bytes", 1), f.size("max_bytes", 1<<20)
	seed := uint64(f.integer("seed", int64(r.env.Seed), 0))
	return r.generated(L, f, func() (*matrix.Matrix, error) {
		return matrix.Random(n, density, least, most, seed)
	})
}

// matrixSize: size("64K") in bytes.
func matrixSize(L *glua.LState) (int, error) {
	n, err := sizeOf(L.CheckAny(1))
	if err != nil {
		return 0, err
	}
	L.Push(glua.LNumber(n))
	return 1, nil
}

func (r *matrixModule) rowSum(L *glua.LState) (int, error) {
	return sumOf(L, func(m *luaMatrix, i int) int64 { return m.RowSum(i) })
}

func (r *matrixModule) columnSum(L *glua.LState) (int, error) {
	return sumOf(L, func(m *luaMatrix, j int) int64 { return m.ColumnSum(j) })
}

func sumOf(L *glua.LState, sum func(m *luaMatrix, rank int) int64) (int, error) {
	m, err := checkMatrix(L, 1)
	if err != nil {
		return 0, err
	}
	rank, err := rankIn(L.Get(2), m.Size())
	if err != nil {
		return 0, err
	}
	L.Push(glua.LNumber(sum(m, rank)))
	return 1, nil
}

func (r *matrixModule) scale(L *glua.LState) (int, error) {
	m, err := checkMatrix(L, 1)
	if err != nil {
		return 0, err
	}
	scaled, err := m.Scale(float64(L.CheckNumber(2)))
	return r.pushMatrix(L, scaled, err)
}

// save: m:save(path). Only rank 0 writes.
func (r *matrixModule) save(L *glua.LState) (int, error) {
	m, err := checkMatrix(L, 1)
	if err != nil {
		return 0, err
	}
	path := L.CheckString(2)
	if err := r.files.mayWrite(path); err != nil {
		return 0, err
	}
	if r.env.World != nil && r.env.World.Rank() != 0 {
		return 0, nil
	}
	return 0, file.Write(path, func(w io.Writer) error { return m.WriteText(w) })
}

func intList(L *glua.LState, list []int) *glua.LTable {
	t := L.CreateTable(len(list), 0)
	for _, n := range list {
		t.Append(glua.LNumber(n))
	}
	return t
}

// label names a matrix in the result.
func (m *luaMatrix) label() string { return baseName(m.file) }

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
