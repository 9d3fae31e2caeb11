package cli

import (
	"bytes"
	"fmt"
	"slices"
)

// mostOfEnd is how much [Ends] keeps of the beginning, and of the end.
const mostOfEnd = 64 << 10

// Ends is a writer that keeps the beginning and the end of what another program writes, however much that is: it begins
// with where, and ends with why.
type Ends struct {
	first, last []byte // last is cut to mostOfEnd bytes from time to time only
	n           int64  // bytes written
}

func (e *Ends) Write(p []byte) (int, error) {
	e.n += int64(len(p))
	k := min(len(p), mostOfEnd-len(e.first))
	e.first = append(e.first, p[:k]...)
	e.last = append(e.last, end(p[k:])...)
	if len(e.last) > 2*mostOfEnd {
		e.last = append(e.last[:0], end(e.last)...)
	}
	return len(p), nil
}

// end is the end of a text that is kept.
func end(text []byte) []byte { return text[max(0, len(text)-mostOfEnd):] }

// Bytes returns the kept text. Where something is left out, a line says how much; it is whole lines if they are not
// longer than what is kept.
func (e *Ends) Bytes() []byte {
	if e.n <= 2*mostOfEnd {
		return slices.Concat(e.first, e.last)
	}
	first, last := e.first, end(e.last)
	if i := bytes.LastIndexByte(first, '\n'); i >= 0 {
		first = first[:i+1]
	}
	if i := bytes.IndexByte(last, '\n'); i >= 0 && i+1 < len(last) {
		last = last[i+1:]
	}
	note := fmt.Appendf(nil, "... (%d bytes left out) ...\n", e.n-int64(len(first)+len(last)))
	if !bytes.HasSuffix(first, []byte("\n")) {
		note = slices.Concat([]byte("\n"), note)
	}
	return slices.Concat(bytes.ToValidUTF8(first, nil), note, bytes.ToValidUTF8(last, nil))
}
