package matrix

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// sparseWord begins the sparse form. No cell of the dense form can be it.
const sparseWord = "sparse"

// WriteSparse writes the matrix in the sparse form of text: a line "sparse RANKS MESSAGES", then a line "FROM TO BYTES"
// for each cell that is not 0, row by row. It grows with these cells, where what [Matrix.WriteText] writes grows with
// the square of the ranks. [ReadText] reads it back to the same matrix.
func (m *Matrix) WriteSparse(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(out, "%s %d %d # ranks, messages; then FROM TO BYTES of each\n", sparseWord, m.Size(), m.cells)
	for i, row := range m.rows {
		for _, c := range row {
			fmt.Fprintln(out, i, c.Peer, c.Bytes)
		}
	}
	return out.Flush() // also returns the first error of the writes above
}

// sparseText holds the state of a parser of the sparse form. Messages stand in the order of senders, then of
// receivers: so the reader finds a second line for the same cell, and no order of lines makes it slow.
type sparseText struct {
	words    [3]int64 // of the current line: sender, receiver, bytes; on the first one 0, ranks, messages
	before   [2]int64 // sender and receiver of the message before
	messages int      // that the first line promises, which shows that the text is whole
}

// beginSparse reports whether a matrix in the sparse form begins here, and makes the parser ready for it.
func (p *textParser) beginSparse(text []byte) bool {
	if p.m != nil || p.column > 0 || string(wordOf(text)) != sparseWord {
		return false
	}
	p.sparse = new(sparseText)
	return true
}

// sparseCell reads the word of a sparse line that text begins with and returns its length.
func (p *textParser) sparseCell(text []byte) (n int, err error) {
	word := wordOf(text)
	s := p.sparse
	switch {
	case p.column == len(s.words):
		return 0, p.lineError("wanted %s, got a word more", p.sparseForm())
	case p.column == 2 && p.m != nil:
		_, s.words[2], err = p.cell(text)
		if err == nil && s.words[2] == 0 {
			err = p.cellError("wanted more than 0 bytes, got %q", word)
		}
	case p.m != nil:
		s.words[p.column], err = p.whole(word, "a rank", 0, p.m.Size()-1)
	case p.column == 1:
		s.words[1], err = p.whole(word, "a number of ranks", 1, MaxRanks)
	case p.column == 2:
		s.words[2], err = p.whole(word, "a number of messages", 0, MaxCells)
	}
	return len(word), err
}

// sparseForm says what the current line must hold.
func (p *textParser) sparseForm() string {
	if p.m == nil {
		return sparseWord + " RANKS MESSAGES"
	}
	return "FROM TO BYTES"
}

// whole reads a whole number of least to most.
func (p *textParser) whole(word []byte, what string, least, most int) (int64, error) {
	n, err := strconv.ParseUint(string(word), 10, 31)
	if err != nil || int(n) < least || int(n) > most || len(word) > maxCellChars {
		return 0, p.cellError("wanted %s of %d to %d, got %.40q", what, least, most, word)
	}
	return int64(n), nil
}

// endSparseLine takes the current line into the matrix.
func (p *textParser) endSparseLine() error {
	s := p.sparse
	if p.column < len(s.words) {
		return p.lineError("wanted %s, got only %d of these words", p.sparseForm(), p.column)
	}
	p.column = 0
	if p.m == nil {
		p.m, p.firstLine, s.messages = New(int(s.words[1])), p.line, int(s.words[2])
		return nil
	}
	from, to := s.words[0], s.words[1]
	if p.m.cells == s.messages {
		return p.lineError("wanted %d messages, as line %d says, got one more", s.messages, p.firstLine)
	}
	switch order := slices.Compare(s.words[:2], s.before[:]); {
	case p.m.cells > 0 && order == 0:
		return p.lineError("wanted one message from %d to %d, got another one", from, to)
	case p.m.cells > 0 && order < 0:
		return p.lineError("wanted lines in the order of senders, then of receivers, got %d %d after %d %d", from, to,
			s.before[0], s.before[1])
	}
	s.before = [2]int64{from, to}
	if p.m.Set(int(from), int(to), s.words[2]) != nil { // all else that it refuses was checked
		return p.lineError("wanted a matrix whose sum is at most %d bytes, got more by this message", int64(math.MaxInt64))
	}
	return nil
}
