package matrix

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/must"
)

// must returns m, which the test takes for granted.
func sure(m *Matrix, err error) *Matrix {
	if err != nil {
		panic(err)
	}
	return m
}

// anyRows draws the full rows of a matrix with many zero cells.
func anyRows(t *rapid.T) [][]int64 {
	n := rapid.IntRange(1, 9).Draw(t, "n")
	cell := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 9), rapid.Int64Range(0, 1<<55))
	return rapid.SliceOfN(rapid.SliceOfN(cell, n, n), n, n).Draw(t, "rows")
}

func anyMatrix(t *rapid.T) *Matrix {
	m, err := FromRows(anyRows(t))
	must.Do(t, err)
	return m
}

// dense returns the full rows of m.
func dense(m *Matrix) [][]int64 {
	rows := make([][]int64, m.Size())
	for i := range rows {
		rows[i] = make([]int64, m.Size())
		for j := range rows[i] {
			rows[i][j] = m.At(i, j)
		}
	}
	return rows
}

// checkAgainst compares everything that m returns with its full rows.
func checkAgainst(t interface{ Fatalf(string, ...any) }, m *Matrix, rows [][]int64) {
	n := len(rows)
	var total int64
	cells := 0
	rowSums, columnSums := make([]int64, n), make([]int64, n)
	sparseRows, sparseColumns := make([][]Cell, n), make([][]Cell, n)
	for i, row := range rows {
		for j, bytes := range row {
			rowSums[i] += bytes
			columnSums[j] += bytes
			total += bytes
			if bytes > 0 {
				cells++
				sparseRows[i] = append(sparseRows[i], Cell{j, bytes})
				sparseColumns[j] = append(sparseColumns[j], Cell{i, bytes})
			}
		}
	}
	var senders, receivers, ranks []int
	for r := range n {
		if rowSums[r] > 0 {
			senders = append(senders, r)
		}
		if columnSums[r] > 0 {
			receivers = append(receivers, r)
		}
		if rowSums[r] > 0 || columnSums[r] > 0 {
			ranks = append(ranks, r)
		}
	}
	if diff := gocmp.Diff(rows, dense(m)); diff != "" {
		t.Fatalf("cells (-want +got):\n%s", diff)
	}
	if m.Size() != n || m.Cells() != cells || m.Total() != total {
		t.Fatalf("size %d, cells %d, total %d: want %d, %d, %d", m.Size(), m.Cells(), m.Total(), n, cells, total)
	}
	for r := range n {
		if m.RowSum(r) != rowSums[r] || m.ColumnSum(r) != columnSums[r] {
			t.Fatalf("rank %d: sums %d, %d: want %d, %d", r, m.RowSum(r), m.ColumnSum(r), rowSums[r], columnSums[r])
		}
		if !slices.Equal(m.Row(r), sparseRows[r]) || !slices.Equal(m.Column(r), sparseColumns[r]) {
			t.Fatalf("rank %d: row %v, column %v: want %v, %v", r, m.Row(r), m.Column(r), sparseRows[r], sparseColumns[r])
		}
	}
	for _, built := range []*[][]Cell{nil, m.columns.Load()} {
		m.columns.Store(built)
		for j := range n {
			var above int64
			for i := range n {
				var got int64
				for bytes := range m.Above(i, j) {
					got += bytes
				}
				if got != above {
					t.Fatalf("above cell [%d][%d]: %d, want %d", i, j, got, above)
				}
				above += rows[i][j]
			}
		}
	}
	if diff := gocmp.Diff([][]int{senders, receivers, ranks}, [][]int{m.Senders(), m.Receivers(), m.Ranks()}); diff != "" {
		t.Fatalf("senders, receivers, ranks (-want +got):\n%s", diff)
	}
}

func TestMatrixAgreesWithFullRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := anyRows(t)
		m, err := FromRows(rows)
		must.Do(t, err)
		checkAgainst(t, m, rows)
	})
}

func TestSetInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		m := New(n)
		rows := dense(m)
		rank := rapid.IntRange(0, n-1)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			i, j := rank.Draw(t, "i"), rank.Draw(t, "j")
			bytes := rapid.Int64Range(0, 3).Draw(t, "bytes")
			must.Do(t, m.Set(i, j, bytes))
			rows[i][j] = bytes
			m.Column(i) // the cached columns must not outlive the next Set
		}
		checkAgainst(t, m, rows)
	})
}

func TestSetRefuses(t *testing.T) {
	for _, c := range []struct {
		i, j  int
		bytes int64
		want  string
	}{
		{-1, 0, 1, "cell [-1][0] is outside a matrix of 2 ranks"},
		{2, 0, 1, "cell [2][0] is outside a matrix of 2 ranks"},
		{0, -1, 1, "cell [0][-1] is outside a matrix of 2 ranks"},
		{0, 2, 1, "cell [0][2] is outside a matrix of 2 ranks"},
		{1, 1, -5, "cell [1][1]: wanted 0 bytes or more, got -5"},
		{1, 1, math.MaxInt64 - 8, "cell [1][1]: with its 9223372036854775799 bytes the sum of the matrix does not fit 64 bits"},
	} {
		rows := [][]int64{{2, 3}, {4, 0}}
		m := sure(FromRows(rows))
		err := m.Set(c.i, c.j, c.bytes)
		if err == nil || err.Error() != c.want {
			t.Errorf("Set(%d, %d, %d): %v: want %s", c.i, c.j, c.bytes, err, c.want)
		}
		checkAgainst(t, m, rows)
	}
}

// The largest sum is allowed, also when a cell is replaced by a larger one.
func TestSetUpToTheLimit(t *testing.T) {
	m := sure(FromRows([][]int64{{2, 3}, {4, math.MaxInt64 - 10}}))
	must.Do(t, m.Set(0, 0, 3))
	if m.Total() != math.MaxInt64 {
		t.Fatalf("total %d: want %d", m.Total(), int64(math.MaxInt64))
	}
	if err := m.Set(0, 0, 4); err == nil {
		t.Fatal("a sum of 1<<63 was accepted")
	}
}

func TestCellsAreBounded(t *testing.T) {
	m := New(2)
	m.cells = MaxCells // as if it were full
	if err := m.Set(0, 0, 1); err == nil {
		t.Error("Set: one cell too many was accepted")
	}
	if m.addRow(0, []Cell{{0, 1}}) {
		t.Error("addRow: one cell too many was accepted")
	}
}

func TestSizes(t *testing.T) {
	for _, n := range []int{math.MinInt, -1, 0, MaxRanks + 1, math.MaxInt} {
		if err := CheckSize(n); err == nil {
			t.Errorf("CheckSize(%d): no error", n)
		}
		m := New(n)
		if m.Size() != 0 || m.Set(0, 0, 1) == nil {
			t.Errorf("New(%d) has %d ranks and takes cells", n, m.Size())
		}
	}
	for _, n := range []int{1, 2, MaxRanks} {
		if err := CheckSize(n); err != nil {
			t.Errorf("CheckSize(%d): %v", n, err)
		}
	}
	if got := New(3).Size(); got != 3 {
		t.Errorf("New(3) has %d ranks", got)
	}
}

func TestFromRowsRefuses(t *testing.T) {
	for want, rows := range map[string][][]int64{
		"a matrix of 0 ranks: wanted 1 to 1048576":                                                   nil,
		"row 1 has 1 cells: wanted 2, one for each row":                                              {{1, 2}, {3}},
		"row 0 has 3 cells: wanted 2, one for each row":                                              {{1, 2, 3}, {4, 5, 6}},
		"cell [0][1]: wanted 0 bytes or more, got -1":                                                {{1, -1}, {0, 0}},
		"cell [1][0]: with its 1 bytes the sum of the matrix does not fit 64 bits":                   {{math.MaxInt64, 0}, {1, 0}},
		"cell [0][1]: with its 9223372036854775807 bytes the sum of the matrix does not fit 64 bits": {{1, math.MaxInt64}, {1, 0}},
	} {
		if _, err := FromRows(rows); err == nil || err.Error() != want {
			t.Errorf("FromRows(%v): %v: want %s", rows, err, want)
		}
	}
}

func TestAtPanicsOutside(t *testing.T) {
	for _, at := range [][2]int{{0, 2}, {2, 0}, {-1, 0}, {0, -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("At(%d, %d) of 2 ranks did not panic", at[0], at[1])
				}
			}()
			New(2).At(at[0], at[1])
		}()
	}
}

func TestTranspose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := anyRows(t)
		m := sure(FromRows(rows))
		back := m.Transpose()
		turned := dense(New(len(rows)))
		for i, row := range rows {
			for j, bytes := range row {
				turned[j][i] = bytes
			}
		}
		checkAgainst(t, back, turned)
		if !back.Transpose().Equal(m) {
			t.Fatal("transposed twice is not the same")
		}
		// Rows cut from one block must not grow into each other.
		must.Do(t, back.Set(0, len(rows)-1, 7))
		turned[0][len(rows)-1] = 7
		checkAgainst(t, back, turned)
	})
}

func TestCloneSharesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := anyRows(t)
		m := sure(FromRows(rows))
		c := m.Clone()
		if !c.Equal(m) {
			t.Fatal("a clone is not equal")
		}
		for i := range rows {
			must.Do(t, c.Set(i, 0, c.At(i, 0)+1))
		}
		checkAgainst(t, m, rows)
		if c.Equal(m) {
			t.Fatal("a changed clone is still equal")
		}
	})
}

func TestEqual(t *testing.T) {
	var none *Matrix
	m := sure(FromRows([][]int64{{0, 1}, {2, 0}}))
	for _, c := range []struct {
		a, b *Matrix
		want bool
	}{
		{none, none, true},
		{m, none, false},
		{none, m, false},
		{m, m, true},
		{m, sure(FromRows([][]int64{{0, 1}, {2, 0}})), true},
		{m, sure(FromRows([][]int64{{0, 2}, {1, 0}})), false},
		{m, sure(FromRows([][]int64{{1, 0}, {0, 2}})), false},
		{New(2), New(3), false},
	} {
		if got := c.a.Equal(c.b); got != c.want {
			t.Errorf("%v == %v: %t", c.a, c.b, got)
		}
	}
}

func TestScale(t *testing.T) {
	for _, c := range []struct {
		bytes int64
		f     float64
		want  int64
	}{
		{10, 0, 0}, {10, 1, 10}, {10, 0.25, 3}, {10, 0.05, 1}, {10, 0.04, 0}, {1, 0.5, 1}, {3, 0.5, 2}, {1, 0.49999999999999994, 0},
		{9007199254740993, 1, 9007199254740993}, {9007199254740993, 3, 27021597764222979},
		{math.MaxInt64, 1, math.MaxInt64}, {math.MaxInt64, 0.5, 1 << 62}, {math.MaxInt64, 5e-324, 0}, {1, 1 << 62, 1 << 62},
		{7, 0x1p-70, 0}, {math.MaxInt64, 0x1p-64, 0}, {math.MaxInt64, 0x1p-63, 1},
	} {
		m, err := sure(FromRows([][]int64{{c.bytes}})).Scale(c.f)
		if err != nil || m.At(0, 0) != c.want {
			t.Errorf("%d times %v: %v, %v: want %d", c.bytes, c.f, m, err, c.want)
		}
	}
}

func TestScaleIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.Int64Range(0, math.MaxInt64).Draw(t, "bytes")
		f := rapid.OneOf(rapid.Float64Range(0, 3), rapid.Float64Range(0, math.MaxFloat64)).Draw(t, "f")
		product := new(big.Rat).Mul(new(big.Rat).SetInt64(bytes), new(big.Rat).SetFloat64(f))
		product.Add(product, big.NewRat(1, 2))
		want := new(big.Int).Div(product.Num(), product.Denom()) // floor(x + 1/2)
		got, ok := scaleBytes(bytes, f)
		if ok != want.IsInt64() {
			t.Fatalf("fits: %t: want %v", ok, want)
		}
		if ok && got != want.Int64() {
			t.Fatalf("%d: want %v", got, want)
		}
	})
}

func TestScaleRefuses(t *testing.T) {
	m := sure(FromRows([][]int64{{0, 1 << 40}, {1 << 40, 0}}))
	for f, want := range map[float64]string{
		-1:                "scale by -1: wanted a finite number >= 0",
		math.Inf(1):       "scale by +Inf: wanted a finite number >= 0",
		math.Inf(-1):      "scale by -Inf: wanted a finite number >= 0",
		math.Ldexp(1, 23): "cell [0][1]: 1099511627776 bytes times 8.388608e+06 do not fit 64 bits",
		math.Ldexp(1, 22): "scale by 4.194304e+06: cell [1][0]: with its 4611686018427387904 bytes the sum of the matrix does not fit 64 bits",
		math.MaxFloat64:   "cell [0][1]: 1099511627776 bytes times 1.7976931348623157e+308 do not fit 64 bits",
	} {
		if _, err := m.Scale(f); err == nil || err.Error() != want {
			t.Errorf("Scale(%v): %v: want %s", f, err, want)
		}
	}
	if _, err := m.Scale(math.NaN()); err == nil {
		t.Error("Scale(NaN): no error")
	}
}

func TestDigest(t *testing.T) {
	// printf 'perigee matrix 1\n3\n0 2 500\n2 0 1\n2 1 77\n' | sha256sum
	const want = "308b8dccc149828f578689077e2b1b40ba45cc2e08793344140000dad38dff12"
	m := sure(FromRows([][]int64{{0, 0, 500}, {0, 0, 0}, {1, 77, 0}}))
	if got := m.Digest(); got != want {
		t.Errorf("digest %s: want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyMatrix(t), anyMatrix(t)
		if (a.Digest() == b.Digest()) != a.Equal(b) {
			t.Fatalf("digests and matrices disagree about %v, %v", dense(a), dense(b))
		}
	})
}

func TestColumnsAreBuiltByManyReaders(t *testing.T) {
	const n = 500
	m := sure(AllToAll(n, 3, false))
	var readers sync.WaitGroup
	begin := make(chan struct{})
	first := make([]*Cell, n)
	for j := range n {
		readers.Go(func() {
			<-begin
			cells := m.Column(j)
			var sum int64
			for _, c := range cells {
				sum += c.Bytes
			}
			if sum != 3*(n-1) {
				t.Errorf("column %d has %d bytes: want %d", j, sum, 3*(n-1))
			}
			first[j] = &cells[0]
		})
	}
	close(begin)
	readers.Wait()
	for j, cell := range first {
		if cell != &m.Column(j)[0] {
			t.Fatalf("the columns that reader %d got are not those that are kept", j)
		}
	}
}

// A thousand patterns of 64 ranks, as the workload generator makes them, must
// be nothing to hold.
func TestSparseMatricesAreSmall(t *testing.T) {
	perMatrix := testing.AllocsPerRun(10, func() { sure(Ring(64, 1<<20, 32)) })
	if perMatrix > 100 {
		t.Errorf("%v allocations for a matrix of 64 ranks and 64 cells: want at most 100", perMatrix)
	}
}

func ExampleMatrix() {
	// Two prefill ranks, two decode ranks.
	m, err := FromRows([][]int64{
		{0, 0, 4096, 0},
		{0, 0, 1024, 1024},
		{0, 0, 0, 0},
		{0, 0, 0, 0},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("senders", m.Senders(), "receivers", m.Receivers(), "bytes", m.Total())
	fmt.Println("rank 2 receives", m.Column(2))
	busiest := slices.MaxFunc(m.Senders(), func(a, b int) int { return cmp.Compare(m.RowSum(a), m.RowSum(b)) })
	fmt.Println("rank", busiest, "sends most")
	// Output:
	// senders [0 1] receivers [2 3] bytes 6144
	// rank 2 receives [{0 4096} {1 1024}]
	// rank 0 sends most
}
