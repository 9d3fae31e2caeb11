package benchlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// documents reads the JSON objects of a file one after the other: one object, one on each line, or a list of objects.
// Lists inside of an object that are longer than mostList are dropped: clients write times of every token there. NaN
// and Infinity, which Python's json writes, become strings.
type documents struct {
	in   *bufio.Reader
	line int // of the last byte

	isList   bool // a list stands around the objects
	text     []byte
	depth    int
	quoted   bool
	escaped  bool
	word     bool // within NaN or Infinity
	list     int  // offset of the outermost list in the text, 0 outside of one
	listIn   int  // the depth around it
	dropping bool
}

const (
	mostList     = 1 << 20  // bytes of a list that is kept
	mostDocument = 64 << 20 // bytes of an object without its long lists
)

// next returns an object and the line that it begins on. io.EOF stands for none, io.ErrUnexpectedEOF for a part of one,
// which is returned.
func (d *documents) next() (text []byte, line int, err error) {
	d.text, d.depth, d.list, d.dropping = d.text[:0], 0, 0, false
	for {
		if d.dropping {
			d.skip()
		}
		c, err := d.in.ReadByte()
		if err != nil && (!errors.Is(err, io.EOF) || d.depth == 0) {
			return nil, d.line, err
		}
		if err != nil {
			return d.text, line, io.ErrUnexpectedEOF
		}
		if c == '\n' {
			d.line++
		}
		if d.depth == 0 {
			switch c {
			case '{':
				line = d.line
			case '[':
				d.isList = true
				continue
			case ' ', '\t', '\r', '\n', ',', ']', 0xef, 0xbb, 0xbf: // between objects; the mark of UTF-8
				continue
			default:
				return nil, d.line, fmt.Errorf("line %d: wanted an object of JSON, got %q", d.line, c)
			}
		}
		if d.take(c); d.depth == 0 {
			return d.text, line, nil
		}
		if len(d.text) > mostDocument {
			return nil, line, fmt.Errorf("line %d: wanted an object of at most %d MiB besides long lists", line,
				mostDocument>>20)
		}
	}
}

// skip passes over the bytes of a list that is dropped, as far as they are at hand and mean nothing.
func (d *documents) skip() {
	ahead, _ := d.in.Peek(d.in.Buffered())
	n := 0
	for n < len(ahead) && !d.escaped && !meaning[ahead[n]] {
		n++
	}
	if n > 0 {
		d.word = false
		d.in.Discard(n)
	}
}

// meaning has the bytes that change how those behind them are read, and the ends of lines.
var meaning = [256]bool{'"': true, '\\': true, '[': true, ']': true, '{': true, '}': true, '\n': true}

// take takes a byte of an object.
func (d *documents) take(c byte) {
	switch {
	case d.escaped:
		d.escaped = false
	case d.quoted:
		d.quoted, d.escaped = c != '"', c == '\\'
	case d.word && ('a' <= c && c <= 'z' || c == 'N'):
		return
	default:
		if d.word = c == 'N' || c == 'I'; d.word {
			word := map[byte]string{'N': `"NaN"`, 'I': `"Infinity"`}[c]
			if text, negative := bytes.CutSuffix(d.text, []byte("-")); negative {
				d.text, word = text, `"-Infinity"`
			}
			d.write([]byte(word))
			return
		}
		d.structure(c)
	}
	d.write([]byte{c})
}

// structure notes where objects and lists begin and end.
func (d *documents) structure(c byte) {
	switch c {
	case '"':
		d.quoted = true
	case '{', '[':
		if c == '[' && d.list == 0 {
			d.list, d.listIn = len(d.text)+1, d.depth
		}
		d.depth++
	case '}', ']':
		d.depth--
		if d.list > 0 && d.depth == d.listIn {
			d.list, d.dropping = 0, false
		}
	}
}

// write adds to the text, and drops a list that becomes too long, but for its lines, which errors count.
func (d *documents) write(text []byte) {
	if !d.dropping || text[0] == '\n' {
		d.text = append(d.text, text...)
	}
	if d.list > 0 && !d.dropping && len(d.text)-d.list > mostList {
		lines := bytes.Count(d.text[d.list:], []byte("\n"))
		d.text = append(d.text[:d.list], bytes.Repeat([]byte("\n"), lines)...)
		d.dropping = true
	}
}
