package matrix

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"

	"perigee/internal/kit/fault"
)

// npyMagic begins a file that numpy.save writes. The format:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
const npyMagic = "\x93NUMPY"

// maxNPYHeader bounds the header, which has about 100 bytes.
const maxNPYHeader = 1 << 16

var (
	npyType    = regexp.MustCompile(`['"]descr['"]\s*:\s*['"]([<>|=]?)([a-zA-Z]\w*)['"]`)
	npyFortran = regexp.MustCompile(`['"]fortran_order['"]\s*:\s*True`)
	npyShape   = regexp.MustCompile(`['"]shape['"]\s*:\s*\((\d+)L?\s*,\s*(\d+)L?\s*,?\s*\)`)
)

// npyDecoders read one cell of a type; the string is empty or what the number is instead.
var npyDecoders = map[string]func(b []byte, order binary.ByteOrder) (int64, string){
	"b1": npyUnsigned, "u1": npyUnsigned, "u2": npyUnsigned, "u4": npyUnsigned, "u8": npyUnsigned,
	"i1": npySigned, "i2": npySigned, "i4": npySigned, "i8": npySigned,
	"f4": func(b []byte, order binary.ByteOrder) (int64, string) {
		return npyFloat(float64(math.Float32frombits(order.Uint32(b))))
	},
	"f8": func(b []byte, order binary.ByteOrder) (int64, string) {
		return npyFloat(math.Float64frombits(order.Uint64(b)))
	},
}

func npyBits(b []byte, order binary.ByteOrder) uint64 {
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(order.Uint16(b))
	case 4:
		return uint64(order.Uint32(b))
	}
	return order.Uint64(b)
}

func npyUnsigned(b []byte, order binary.ByteOrder) (int64, string) {
	v := npyBits(b, order)
	if v > math.MaxInt64 {
		return 0, strconv.FormatUint(v, 10)
	}
	return int64(v), ""
}

func npySigned(b []byte, order binary.ByteOrder) (int64, string) {
	shift := 64 - 8*len(b)
	v := int64(npyBits(b, order)<<shift) >> shift
	if v < 0 {
		return 0, strconv.FormatInt(v, 10)
	}
	return v, ""
}

func npyFloat(v float64) (int64, string) {
	if v >= 0 && v < 1<<63 && v == math.Trunc(v) {
		return int64(v), ""
	}
	return 0, strconv.FormatFloat(v, 'g', -1, 64)
}

// npyHeader describes the array of a file.
type npyHeader struct {
	ranks   int
	width   int // bytes of a cell
	order   binary.ByteOrder
	fortran bool // column by column
	decode  func(b []byte, order binary.ByteOrder) (int64, string)
}

// readNPY reads a matrix that numpy.save has written: two dimensions of one size, any type of integers or floats. Cells
// must be whole numbers of bytes, and no more than most of them other than 0.
func readNPY(name string, r *bufio.Reader, most int) (*Matrix, error) {
	fail := func(format string, args ...any) (*Matrix, error) {
		return nil, fault.New(fault.Input, "%s: "+format, append([]any{name}, args...)...)
	}
	h, err := readNPYHeader(r)
	if err != nil {
		return fail("numpy file: %w", err)
	}
	if bytes := int64(h.ranks) * int64(h.ranks) * int64(h.width); bytes > maxTextBytes {
		return fail("numpy file: wanted at most %d bytes of cells, got %d x %d of %d bytes", int64(maxTextBytes), h.ranks, h.ranks,
			h.width)
	}
	cells := 0
	rows := make([][]Cell, h.ranks)
	line := make([]byte, h.ranks*h.width)
	for i := range h.ranks {
		if _, err := io.ReadFull(r, line); err != nil {
			return fail("numpy file: wanted %d x %d cells, got only %d whole rows or columns", h.ranks, h.ranks, i)
		}
		for k := range h.ranks {
			value, instead := h.decode(line[k*h.width:(k+1)*h.width], h.order)
			// An array in Fortran's order lies column by column.
			row, column := i, k
			if h.fortran {
				row, column = k, i
			}
			if instead != "" {
				return fail("numpy file: row %d, column %d: wanted a whole number of bytes, got %s", row, column,
					instead)
			}
			if value == 0 {
				continue
			}
			// Counted as they come: the file can be far larger than the memory for its cells.
			if cells++; cells > most {
				return fail("numpy file: wanted at most %d cells other than 0, got more", most)
			}
			rows[row] = append(rows[row], Cell{Peer: column, Bytes: value})
		}
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		return fail("numpy file: wanted %d x %d cells, got more", h.ranks, h.ranks)
	}
	m := New(h.ranks)
	for i, row := range rows {
		if !m.addRow(i, slices.Clip(row)) {
			return fail("wanted at most %d bytes in all, got more by row %d", int64(math.MaxInt64), i)
		}
	}
	return m, nil
}

// readNPYHeader reads the version, the length and the text in front of the cells (numpy.lib.format describes it):
// version 1 has a length of 2 bytes, later ones of 4. The magic itself is left to the caller, who has seen it.
func readNPYHeader(r *bufio.Reader) (h npyHeader, err error) {
	var start [8]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return h, errors.New("it ends in its header")
	}
	length := make([]byte, 2)
	if start[6] >= 2 {
		length = make([]byte, 4)
	}
	if _, err := io.ReadFull(r, length); err != nil {
		return h, errors.New("it ends in its header")
	}
	n := npyBits(length, binary.LittleEndian)
	if start[6] < 1 || start[6] > 3 || n > maxNPYHeader {
		return h, errors.New("its version is unknown, want 1, 2 or 3")
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, errors.New("it ends in its header")
	}
	return parseNPYHeader(text)
}

// parseNPYHeader reads the header's text, a Python dictionary, by the three keys that it always has. numpy itself
// evaluates it as Python; the patterns here accept no more than numpy.save writes.
func parseNPYHeader(text []byte) (h npyHeader, err error) {
	kind, shape := npyType.FindSubmatch(text), npyShape.FindSubmatch(text)
	if kind == nil || npyDecoders[string(kind[2])] == nil {
		return h, errors.New("wanted an array of integers or of 4 or 8 byte floats, got another type")
	}
	if shape == nil || string(shape[1]) != string(shape[2]) {
		return h, errors.New("wanted an array of two dimensions of the same size")
	}
	h.ranks, err = strconv.Atoi(string(shape[1]))
	if err != nil || h.ranks < 1 || h.ranks > MaxRanks {
		return h, errors.New("wanted 1 to " + strconv.Itoa(MaxRanks) + " ranks, got " + string(shape[1]))
	}
	h.order = binary.LittleEndian
	if string(kind[1]) == ">" {
		h.order = binary.BigEndian
	}
	h.decode, h.width = npyDecoders[string(kind[2])], int(kind[2][1]-'0')
	h.fortran = npyFortran.Match(text)
	return h, nil
}
