package report

import "bufio"

// indenter writes compact JSON with a line for each value, as json.Indent does. json.Encoder would hold the whole text
// a second time, indented, which is twice as long.
type indenter struct {
	w      *bufio.Writer
	depth  int
	opened bool // the last byte opened a list or an object
	quoted bool // in a string
	escape bool // after a \ in a string
}

func (in *indenter) Write(compact []byte) (int, error) {
	for _, c := range compact {
		in.put(c)
	}
	return len(compact), in.w.Flush()
}

// put writes a byte. An error stays in w, whose Flush returns it.
func (in *indenter) put(c byte) {
	if in.quoted {
		in.w.WriteByte(c)
		in.quoted = in.escape || c != '"'
		in.escape = !in.escape && c == '\\'
		return
	}
	closing := c == '}' || c == ']'
	if closing {
		in.depth--
	}
	if in.opened != closing { // the first value, or the end of a list that has some
		in.line()
	}
	in.opened = c == '{' || c == '['
	in.quoted = c == '"'
	in.w.WriteByte(c)
	switch {
	case in.opened:
		in.depth++
	case c == ',':
		in.line()
	case c == ':':
		in.w.WriteByte(' ')
	}
}

func (in *indenter) line() {
	in.w.WriteByte('\n')
	for range in.depth {
		in.w.WriteString("  ")
	}
}
