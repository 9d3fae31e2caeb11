package matrix

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/size"
)

const (
	blockBytes   = 1 << 18 // read at a time
	maxCellChars = 64      // the longest cell; 4.47035e+06G has 12 characters
	maxTextBytes = 8 << 30 // the longest text: 16384 ranks of 32 characters a cell; of a numpy file, the longest cells
)

// byteOrderMark stands in front of UTF-8 text of some editors.
var byteOrderMark = []byte("\ufeff")

// WriteText writes the matrix as text: a line per rank, cells in plain bytes
// separated by one space, a newline after every row. [ReadText] reads it back
// to the same matrix.
func (m *Matrix) WriteText(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<16)
	var digits [20]byte
	for _, row := range m.rows {
		next := 0
		for _, c := range row {
			writeZeros(out, c.Peer-next)
			out.Write(strconv.AppendInt(digits[:0], c.Bytes, 10))
			next = c.Peer + 1
			if next < m.Size() {
				out.WriteByte(' ')
			}
		}
		if next < m.Size() {
			writeZeros(out, m.Size()-next-1)
			out.WriteByte('0')
		}
		out.WriteByte('\n')
	}
	return out.Flush() // also returns the first error of the writes above
}

var zeros = strings.Repeat("0 ", 512)

// writeZeros writes n empty cells, each with the space after it.
func writeZeros(out *bufio.Writer, n int) {
	for n > 0 {
		now := min(n, len(zeros)/2)
		out.WriteString(zeros[:2*now])
		n -= now
	}
}

// ReadText reads a matrix in text form, or the file that numpy.save writes. Rows are lines; cells are separated
// by white space, one comma or one semicolon, and hold what [size.Parse] reads; blank lines count for nothing, nor
// does what follows a # up to the end of the line. There must be as many rows as cells in a row. A text whose first
// word is "sparse" is one of the form that [Matrix.WriteSparse] writes. name stands for the text in errors, which are
// faults of the kind Input and say line, cell, wanted and got. The text is read in blocks and never held as a whole.
func ReadText(name string, r io.Reader) (*Matrix, error) {
	in := bufio.NewReaderSize(r, len(npyMagic))
	if head, _ := in.Peek(len(npyMagic)); string(head) == npyMagic {
		return readNPY(name, bufio.NewReaderSize(in, 1<<16), MaxCells)
	} else if bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return nil, fault.New(fault.Input, "%s: wanted a matrix, got a zip archive", name).
			WithHint("if it comes from numpy.savez, save the array alone with numpy.save")
	}
	return readText(name, in, make([]byte, blockBytes))
}

// readText reads the text through block, which must be longer than a cell behind a byte order mark.
func readText(name string, r io.Reader, block []byte) (*Matrix, error) {
	p := textParser{name: name, line: 1}
	kept, total := 0, 0 // bytes of a cell that began in the block before; bytes read
	for {
		got, err := io.ReadFull(r, block[kept:])
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return nil, fault.New(fault.Input, "%s: reading the matrix: %w", name, err)
		}
		text := block[:kept+got]
		if total == 0 {
			text = bytes.TrimPrefix(text, byteOrderMark)
		}
		if total += got; total > maxTextBytes {
			return nil, fault.New(fault.Input, "%s: wanted at most %d bytes of text, got more", name,
				int64(maxTextBytes))
		}
		if ended {
			return p.finish(text)
		}
		whole := bytes.LastIndexAny(text, " \t\n\v\f\r,;") + 1
		if whole == 0 {
			whole = len(text) // no such cell can be right: let the parser say so
		}
		if err := p.parse(text[:whole]); err != nil {
			return nil, err
		}
		kept = copy(block, text[whole:])
	}
}

// ParseText reads a matrix in text form from memory, as [ReadText] does.
func ParseText(name string, text []byte) (*Matrix, error) {
	p := textParser{name: name, line: 1}
	return p.finish(bytes.TrimPrefix(text, byteOrderMark))
}

// textParser makes a matrix of text that comes in blocks. It is at the cell
// after the last one read.
type textParser struct {
	name      string
	line      int         // of the text, from 1
	firstLine int         // that of the first row
	m         *Matrix     // nil until the first row is complete, which gives the size
	rows      int         // complete rows
	column    int         // cells seen in the current row
	row       []Cell      // the non-zero ones among them
	comment   bool        // the rest of the line counts for nothing
	separated bool        // a comma or a semicolon stands before the next cell
	sparse    *sparseText // nil in the dense form
}

// parse takes a block of whole cells.
func (p *textParser) parse(text []byte) error {
	for at := 0; at < len(text); {
		switch c := text[at]; {
		case c == '\n':
			if err := p.endLine(); err != nil {
				return err
			}
			at++
		case p.comment:
			end := bytes.IndexByte(text[at:], '\n')
			if end < 0 {
				return nil
			}
			at += end
		case c == '#':
			p.comment = true
		case c == ',' || c == ';':
			if p.separated || p.column == 0 {
				return p.cellError("wanted a number, got %q", c)
			}
			p.separated = true
			at++
		case isSpace(c):
			at++
		case p.sparse != nil || c == sparseWord[0] && p.beginSparse(text[at:]):
			p.separated = false
			n, err := p.sparseCell(text[at:])
			if err != nil {
				return err
			}
			at += n
			p.column++
		default:
			p.separated = false
			n, value, err := p.cell(text[at:])
			if err != nil {
				return err
			}
			at += n
			if value != 0 {
				p.row = append(p.row, Cell{Peer: p.column, Bytes: value})
			}
			p.column++
		}
	}
	return nil
}

// ends reports whether a cell ends before c.
func ends(c byte) bool { return isSpace(c) || c == ',' || c == ';' || c == '#' }

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// cell reads the cell that text begins with and returns its length and bytes.
func (p *textParser) cell(text []byte) (n int, value int64, err error) {
	if err := p.roomForCell(); err != nil {
		return 0, 0, err
	}
	// Up to 18 digits cannot overflow. Nearly all cells of large files are such.
	for n < len(text) && n < 18 && text[n]-'0' <= 9 {
		value = value*10 + int64(text[n]-'0')
		n++
	}
	if n > 0 && (n == len(text) || ends(text[n])) {
		return n, value, nil
	}
	word := wordOf(text)
	if len(word) > maxCellChars {
		return 0, 0, p.cellError("wanted at most %d characters, got %.40q...", maxCellChars, word)
	}
	value, err = size.Parse(string(word))
	if err != nil {
		return 0, 0, p.cellError("%w", err)
	}
	return len(word), value, nil
}

// wordOf returns the cell that text begins with, or the first characters of one that is too long.
func wordOf(text []byte) []byte {
	n := 0
	for n < len(text) && n <= maxCellChars && !ends(text[n]) {
		n++
	}
	return text[:n]
}

// roomForCell reports a cell that is too much for any matrix, before it takes
// memory.
func (p *textParser) roomForCell() error {
	if p.column == MaxRanks {
		return p.lineError("wanted at most %d cells in a row, got more", MaxRanks)
	}
	if p.m != nil && p.rows == p.m.Size() {
		return p.lineError("wanted %d rows, as the first row has %d cells, got one more row", p.rows, p.rows)
	}
	return nil
}

// endLine takes the current row into the matrix.
func (p *textParser) endLine() error {
	if p.separated {
		return p.cellError("wanted a number, got the end of the line")
	}
	p.comment = false
	var err error
	switch {
	case p.column == 0:
	case p.sparse != nil:
		err = p.endSparseLine()
	default:
		err = p.endRow()
	}
	p.line++
	return err
}

// endRow adds the row that has been read. The first one says how many ranks there are.
func (p *textParser) endRow() error {
	if p.m == nil {
		p.m = New(p.column)
		p.firstLine = p.line
	}
	if p.column != p.m.Size() {
		return p.lineError("wanted %d cells, as in the first row (line %d), got %d", p.m.Size(), p.firstLine, p.column)
	}
	if !p.m.addRow(p.rows, slices.Clone(p.row)) {
		return p.tooMuch()
	}
	p.rows++
	p.column = 0
	p.row = p.row[:0]
	return nil
}

// tooMuch says why the current row does not go into the matrix.
func (p *textParser) tooMuch() error {
	if len(p.row) > MaxCells-p.m.cells {
		return p.lineError("wanted at most %d cells other than 0 in the matrix, got more", MaxCells)
	}
	return p.lineError("wanted a matrix whose sum is at most %d bytes, got more by row %d", int64(math.MaxInt64),
		p.rows+1)
}

// finish takes the last block and returns the matrix.
func (p *textParser) finish(text []byte) (*Matrix, error) {
	if err := p.parse(text); err != nil {
		return nil, err
	}
	if err := p.endLine(); err != nil {
		return nil, err
	}
	if p.m == nil {
		return nil, fault.New(fault.Input, "%s: wanted a matrix, one line of numbers for each rank, got an empty text",
			p.name)
	}
	if s := p.sparse; s != nil && p.m.cells < s.messages {
		return nil, fault.New(fault.Input, "%s: wanted %d messages, as line %d says, got %d", p.name, s.messages,
			p.firstLine, p.m.cells)
	}
	if n := p.m.Size(); p.sparse == nil && p.rows != n {
		return nil, fault.New(fault.Input, "%s: wanted %d rows, as the first row (line %d) has %d cells, got %d",
			p.name, n, p.firstLine, n, p.rows)
	}
	return p.m, nil
}

func (p *textParser) lineError(format string, args ...any) error {
	return fault.New(fault.Input, "%s:%d: "+format, append([]any{p.name, p.line}, args...)...)
}

func (p *textParser) cellError(format string, args ...any) error {
	return fault.New(fault.Input, "%s:%d: cell %d: "+format, append([]any{p.name, p.line, p.column + 1}, args...)...)
}
