package matrix

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// The limits of a matrix. They keep a damaged or hostile file from asking for
// more memory than a run can have.
const (
	MaxRanks = 1 << 20 // rows and columns
	MaxCells = 1 << 26 // cells that carry bytes: 1 GiB of memory, 8192 ranks all to all
)

// Cell is one non-zero cell of a row or a column.
type Cell struct {
	Peer  int   // the receiver in a row, the sender in a column
	Bytes int64 // more than 0
}

// Matrix is a square table of bytes between ranks. Make one with [New], a
// generator or a reader; the zero value is a matrix of 0 ranks, which is good
// for nothing but [Matrix.UnmarshalBinary].
type Matrix struct {
	rows    [][]Cell // ascending peers, no zero cells
	rowSums []int64
	colSums []int64
	total   int64
	cells   int // non-zero cells in all rows

	columns  atomic.Pointer[[][]Cell] // built by the first call of Column, dropped by Set
	building sync.Mutex               // held by the reader that builds them
}

// CheckSize reports whether n ranks are a possible size: 1 to MaxRanks. The error says which sizes are possible.
func CheckSize(n int) error {
	if n < 1 || n > MaxRanks {
		return fmt.Errorf("a matrix of %d ranks: wanted 1 to %d", n, MaxRanks)
	}
	return nil
}

// New returns a matrix of n ranks in which no rank sends. A size that
// [CheckSize] refuses gives a matrix of 0 ranks, in which every Set fails.
func New(n int) *Matrix {
	if CheckSize(n) != nil {
		n = 0
	}
	return &Matrix{rows: make([][]Cell, n), rowSums: make([]int64, n), colSums: make([]int64, n)}
}

// FromRows makes a matrix of full rows: rows[i][j] bytes go from rank i to
// rank j, in bytes. It fails if the rows are not a square of numbers >= 0 or
// if their sum does not fit an int64.
func FromRows(rows [][]int64) (*Matrix, error) {
	if err := CheckSize(len(rows)); err != nil {
		return nil, err
	}
	m := New(len(rows))
	for i, row := range rows {
		if len(row) != len(rows) {
			return nil, fmt.Errorf("row %d has %d cells: wanted %d, one for each row", i, len(row), len(rows))
		}
		for j, bytes := range row {
			if err := m.Set(i, j, bytes); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// Size returns the number of ranks.
func (m *Matrix) Size() int { return len(m.rows) }

// Cells returns the number of cells that carry bytes.
func (m *Matrix) Cells() int { return m.cells }

// At returns the bytes that rank i sends to rank j. Like the index of a slice,
// i and j must lie in 0..Size()-1; anything else panics. The same holds for
// Row, Column, RowSum and ColumnSum.
func (m *Matrix) At(i, j int) int64 {
	_ = m.colSums[j] // a j out of range must not look like an empty cell
	if k, found := find(m.rows[i], j); found {
		return m.rows[i][k].Bytes
	}
	return 0
}

// Set makes rank i send bytes to rank j. It fails, and changes nothing, if i
// or j is out of range, if bytes is negative, if the sum of all cells would
// not fit an int64, or if the matrix has MaxCells cells already.
func (m *Matrix) Set(i, j int, bytes int64) error {
	if n := m.Size(); i < 0 || i >= n || j < 0 || j >= n {
		return fmt.Errorf("cell [%d][%d] is outside a matrix of %d ranks", i, j, n)
	}
	if bytes < 0 {
		return fmt.Errorf("cell [%d][%d]: wanted 0 bytes or more, got %d", i, j, bytes)
	}
	k, found := find(m.rows[i], j)
	var old int64
	if found {
		old = m.rows[i][k].Bytes
	}
	if bytes > math.MaxInt64-(m.total-old) {
		return fmt.Errorf("cell [%d][%d]: with its %d bytes the sum of the matrix does not fit 64 bits", i, j, bytes)
	}
	if !found && bytes > 0 && m.cells >= MaxCells {
		return fmt.Errorf("cell [%d][%d]: the matrix already has %d non-zero cells, the most there can be", i, j,
			MaxCells)
	}

	// Only the total is checked: with no cell below 0 it bounds every other sum.
	m.rowSums[i] += bytes - old
	m.colSums[j] += bytes - old
	m.total += bytes - old
	m.columns.Store(nil)
	switch {
	case found && bytes == 0:
		m.rows[i] = slices.Delete(m.rows[i], k, k+1)
		m.cells--
	case found:
		m.rows[i][k].Bytes = bytes
	case bytes > 0:
		m.rows[i] = slices.Insert(m.rows[i], k, Cell{Peer: j, Bytes: bytes})
		m.cells++
	}
	return nil
}

// find returns where peer is in cells, or where it would have to be inserted.
func find(cells []Cell, peer int) (int, bool) {
	// Rows are mostly filled from left to right: look at the end first.
	if n := len(cells); n == 0 || cells[n-1].Peer < peer {
		return n, false
	}
	return slices.BinarySearchFunc(cells, peer, func(c Cell, peer int) int { return c.Peer - peer })
}

// Row returns what rank i sends: its non-zero cells, receivers ascending. The
// slice belongs to the matrix; it must not be changed and is good until the
// next Set.
func (m *Matrix) Row(i int) []Cell { return m.rows[i] }

// Column returns what rank j receives: its non-zero cells, senders ascending.
// The first call computes all columns and keeps them. The slice belongs to the
// matrix; it must not be changed and is good until the next Set.
func (m *Matrix) Column(j int) []Cell {
	columns := m.columns.Load()
	if columns == nil {
		columns = m.keepColumns()
	}
	return (*columns)[j]
}

// keepColumns builds the columns once: where each of a thousand readers did, a dense matrix filled the memory.
func (m *Matrix) keepColumns() *[][]Cell {
	m.building.Lock()
	defer m.building.Unlock()
	columns := m.columns.Load()
	if columns == nil {
		built := m.buildColumns()
		columns = &built
		m.columns.Store(columns)
	}
	return columns
}

// Above yields what the ranks before i send to j, each rank's bytes in ascending order of the ranks. In a sparse matrix
// it looks at the rows: to build all columns takes longer.
func (m *Matrix) Above(i, j int) iter.Seq[int64] {
	return func(yield func(bytes int64) bool) {
		if columns := m.columns.Load(); columns == nil && m.cells <= sparse*m.Size() {
			for _, row := range m.rows[:i] {
				if k, found := find(row, j); found && !yield(row[k].Bytes) {
					return
				}
			}
			return
		}
		for _, c := range m.Column(j) {
			if c.Peer >= i || !yield(c.Bytes) {
				return
			}
		}
	}
}

// sparse is how many cells a row of a sparse matrix has on average, at most.
const sparse = 4

// buildColumns cuts all columns from one block of cells.
func (m *Matrix) buildColumns() [][]Cell {
	lengths := make([]int, m.Size())
	for _, row := range m.rows {
		for _, c := range row {
			lengths[c.Peer]++
		}
	}
	block := make([]Cell, m.cells)
	columns := make([][]Cell, m.Size())
	for j, length := range lengths {
		columns[j], block = block[:0:length], block[length:]
	}
	for i, row := range m.rows {
		for _, c := range row {
			columns[c.Peer] = append(columns[c.Peer], Cell{Peer: i, Bytes: c.Bytes})
		}
	}
	return columns
}

// RowSum returns the bytes that rank i sends.
func (m *Matrix) RowSum(i int) int64 { return m.rowSums[i] }

// ColumnSum returns the bytes that rank j receives.
func (m *Matrix) ColumnSum(j int) int64 { return m.colSums[j] }

// Total returns the sum of all cells in bytes.
func (m *Matrix) Total() int64 { return m.total }

// Senders returns the ranks that send something, ascending.
func (m *Matrix) Senders() []int {
	return m.ranksWhere(func(rank int) bool { return m.rowSums[rank] > 0 })
}

// Receivers returns the ranks that receive something, ascending.
func (m *Matrix) Receivers() []int {
	return m.ranksWhere(func(rank int) bool { return m.colSums[rank] > 0 })
}

// Ranks returns the ranks that send or receive something, ascending.
func (m *Matrix) Ranks() []int {
	return m.ranksWhere(func(rank int) bool { return m.rowSums[rank] > 0 || m.colSums[rank] > 0 })
}

func (m *Matrix) ranksWhere(holds func(rank int) bool) []int {
	var ranks []int
	for rank := range m.Size() {
		if holds(rank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// Equal reports whether o has the same size and the same cells. A nil matrix
// equals only another nil one.
func (m *Matrix) Equal(o *Matrix) bool {
	if m == nil || o == nil {
		return m == o
	}
	return m.total == o.total && m.cells == o.cells && slices.EqualFunc(m.rows, o.rows, slices.Equal[[]Cell])
}

// Clone returns a copy that shares nothing with m.
func (m *Matrix) Clone() *Matrix {
	c := &Matrix{
		rows:    make([][]Cell, m.Size()),
		rowSums: slices.Clone(m.rowSums),
		colSums: slices.Clone(m.colSums),
		total:   m.total,
		cells:   m.cells,
	}
	for i, row := range m.rows {
		c.rows[i] = slices.Clone(row)
	}
	return c
}

// Transpose returns the matrix of the way back: cell [i][j] of the result is
// cell [j][i] of m.
func (m *Matrix) Transpose() *Matrix {
	return &Matrix{
		rows:    m.buildColumns(),
		rowSums: slices.Clone(m.colSums),
		colSums: slices.Clone(m.rowSums),
		total:   m.total,
		cells:   m.cells,
	}
}

// Scale returns a matrix with every cell multiplied by f and rounded to the
// nearest byte, halves up. The product is exact before it is rounded: no
// digits of large cells are lost. Cells that round to 0 send nothing. It fails
// if f is negative, infinite or not a number, or if the sum of the result does
// not fit an int64.
func (m *Matrix) Scale(f float64) (*Matrix, error) {
	if !(f >= 0) || math.IsInf(f, 1) {
		return nil, fmt.Errorf("scale by %v: wanted a finite number >= 0", f)
	}
	scaled := New(m.Size())
	for i, row := range m.rows {
		for _, c := range row {
			bytes, ok := scaleBytes(c.Bytes, f)
			if !ok {
				return nil, fmt.Errorf("cell [%d][%d]: %d bytes times %v do not fit 64 bits", i, c.Peer, c.Bytes, f)
			}
			if err := scaled.Set(i, c.Peer, bytes); err != nil {
				return nil, fmt.Errorf("scale by %v: %w", f, err)
			}
		}
	}
	return scaled, nil
}

// enoughToHash is how many bytes are collected before they are hashed: a sparse
// row is shorter than what one call costs.
const enoughToHash = 4 << 10

// Digest returns the SHA-256, in hex, of the matrix as plain lines: "perigee
// matrix 1", then the number of ranks, then "i j bytes" for every non-zero
// cell in row order, each line ended by a newline. Equal matrices have equal
// digests, whatever file or form they came in.
func (m *Matrix) Digest() string {
	hash := sha256.New()
	line := fmt.Appendf(nil, "perigee matrix 1\n%d\n", m.Size())
	for i, row := range m.rows {
		for _, c := range row {
			line = strconv.AppendInt(line, int64(i), 10)
			line = append(line, ' ')
			line = strconv.AppendInt(line, int64(c.Peer), 10)
			line = append(line, ' ')
			line = strconv.AppendInt(line, c.Bytes, 10)
			line = append(line, '\n')
		}
		if len(line) >= enoughToHash {
			hash.Write(line)
			line = line[:0]
		}
	}
	hash.Write(line)
	return hex.EncodeToString(hash.Sum(nil))
}
