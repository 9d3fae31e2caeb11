package matrix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// The binary form is for sending a matrix to other ranks, not for files. After
// the version come unsigned varints:
//
//	ranks, rows that are not empty,
//	per such row: ranks skipped since the last such row, cells,
//	per cell: receivers skipped since the last cell, bytes
//
// where bytes 0 means "as the cell before": the cells of a workload matrix are
// mostly equal, which makes two bytes a cell. A matrix has exactly one form.
const binaryVersion = 1

var errBinaryEnds = errors.New("binary matrix: it ends too early")

// AppendBinary appends the binary form of m to b. It never fails.
func (m *Matrix) AppendBinary(b []byte) ([]byte, error) {
	filled := 0
	for _, row := range m.rows {
		if len(row) > 0 {
			filled++
		}
	}
	b = append(b, binaryVersion)
	b = binary.AppendUvarint(b, uint64(m.Size()))
	b = binary.AppendUvarint(b, uint64(filled))
	nextRow, last := 0, int64(0)
	for i, row := range m.rows {
		if len(row) == 0 {
			continue
		}
		b = binary.AppendUvarint(b, uint64(i-nextRow))
		b = binary.AppendUvarint(b, uint64(len(row)))
		nextRow = i + 1
		nextPeer := 0
		for _, c := range row {
			b = binary.AppendUvarint(b, uint64(c.Peer-nextPeer))
			nextPeer = c.Peer + 1
			if c.Bytes == last {
				b = append(b, 0)
				continue
			}
			b = binary.AppendUvarint(b, uint64(c.Bytes))
			last = c.Bytes
		}
	}
	return b, nil
}

// MarshalBinary returns the compact form of m for other ranks. It never fails.
func (m *Matrix) MarshalBinary() ([]byte, error) { return m.AppendBinary(nil) }

// UnmarshalBinary makes m the matrix that data holds. Data that MarshalBinary
// did not write is an error and leaves m as it was.
func (m *Matrix) UnmarshalBinary(data []byte) error {
	if len(data) == 0 || data[0] != binaryVersion {
		return fmt.Errorf("binary matrix: wanted version %d", binaryVersion)
	}
	r := binaryReader{data: data[1:]}
	n := r.number(MaxRanks)
	filled := r.number(n)
	if r.err == nil && n == 0 {
		return errors.New("binary matrix: it has no ranks")
	}
	if r.err != nil {
		return r.err
	}
	read := New(n)
	for row := 0; filled > 0; filled-- {
		row += r.number(n)
		cells := r.cells(n)
		if r.err == nil && row >= n {
			r.err = fmt.Errorf("binary matrix: row %d of %d", row, n)
		}
		if r.err != nil {
			return r.err
		}
		if !read.addRow(row, cells) {
			return fmt.Errorf("binary matrix: row %d makes too many cells or a sum that does not fit 64 bits", row)
		}
		row++
	}
	if len(r.data) != 0 {
		return fmt.Errorf("binary matrix: %d bytes too many", len(r.data))
	}
	m.rows, m.rowSums, m.colSums, m.total, m.cells = read.rows, read.rowSums, read.colSums, read.total, read.cells
	m.columns.Store(nil)
	return nil
}

// addRow makes cells row i, which must be empty yet. Peers must ascend and be
// in range, bytes must be above 0. It reports false where the matrix would
// become too large; the matrix is then useless.
func (m *Matrix) addRow(i int, cells []Cell) bool {
	if len(cells) > MaxCells-m.cells {
		return false
	}
	for _, c := range cells {
		if c.Bytes > math.MaxInt64-m.total {
			return false
		}
		m.total += c.Bytes
		m.rowSums[i] += c.Bytes
		m.colSums[c.Peer] += c.Bytes
	}
	m.rows[i] = cells
	m.cells += len(cells)
	return true
}

// binaryReader takes a binary matrix apart. Its first error stays; after it,
// every number is 0.
type binaryReader struct {
	data []byte
	last int64 // bytes of the last cell
	err  error
}

// uvarint reads a number in its shortest form.
func (r *binaryReader) uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	value, size := binary.Uvarint(r.data)
	switch {
	case size == 0:
		r.err = errBinaryEnds
	case size < 0, size > 1 && r.data[size-1] == 0:
		r.err = errors.New("binary matrix: a number is damaged")
	}
	if r.err != nil {
		return 0
	}
	r.data = r.data[size:]
	return value
}

// number reads a count or a distance of at most limit.
func (r *binaryReader) number(limit int) int {
	value := r.uvarint()
	if value > uint64(limit) {
		r.err = fmt.Errorf("binary matrix: number %d where at most %d is possible", value, limit)
		return 0
	}
	return int(value)
}

// cells reads the cells of one row of a matrix of n ranks.
func (r *binaryReader) cells(n int) []Cell {
	count := r.number(n)
	if r.err == nil && count == 0 {
		r.err = errors.New("binary matrix: an empty row is listed")
	}
	// A cell takes two bytes or more: do not make room for cells that cannot come.
	cells := make([]Cell, 0, min(count, len(r.data)/2))
	for peer := 0; count > 0 && r.err == nil; count-- {
		peer += r.number(n)
		bytes := r.bytes()
		if peer >= n && r.err == nil {
			r.err = fmt.Errorf("binary matrix: receiver %d of %d", peer, n)
		}
		cells = append(cells, Cell{Peer: peer, Bytes: bytes})
		peer++
	}
	return slices.Clip(cells)
}

// bytes reads the bytes of one cell.
func (r *binaryReader) bytes() int64 {
	value := r.uvarint()
	if r.err != nil {
		return 0
	}
	repeated := value == 0
	if repeated {
		value = uint64(r.last)
	}
	if value == 0 || value > math.MaxInt64 || !repeated && int64(value) == r.last {
		r.err = fmt.Errorf("binary matrix: a cell of %d bytes", value)
		return 0
	}
	r.last = int64(value)
	return r.last
}
