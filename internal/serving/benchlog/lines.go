package benchlog

import (
	"bufio"
	"bytes"
	"io"
)

// longest bounds a line: a log of one endless line takes no more
// memory than this. No line that means something is nearly as long.
const longest = 256 << 10

// EachLine calls use for each line of r, with its offset. A line ends with a newline or, as progress bars write it, a
// carriage return. The end is not part of the line, which is valid during the call only. A line of 256 KiB or more is
// left out, since half of it might hold half a number. rest is the text behind the last end, or the beginning of
// that; it has been used as a line if it is not too long.
func EachLine(r io.Reader, use func(at int64, line []byte)) (rest []byte, err error) {
	var next, at int64 // offsets of the next line, and of this one
	skipping := false  // the rest of a line that is too long
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 16<<10), longest)
	lines.Split(func(text []byte, atEOF bool) (advance int, line []byte, err error) {
		skipped := skipping
		switch end := lineEnd(text); {
		case end >= 0:
			skipping, rest = false, nil
			advance, line = end+1, text[:end]
		case len(text) == longest:
			skipping, rest = true, bytes.Clone(text[:mostRest])
			advance, skipped = longest, true
		case atEOF && len(text) > 0:
			rest = bytes.Clone(text[:min(len(text), mostRest)])
			advance, line = len(text), text
		}
		at, next = next, next+int64(advance)
		if skipped {
			line = nil
		}
		return advance, line, nil
	})
	for lines.Scan() {
		use(at, lines.Bytes())
	}
	return rest, lines.Err()
}

// mostRest bounds the part of a line without its end that is returned.
const mostRest = 4 << 10

// lineEnd returns the offset of the first newline or carriage return, -1 for none.
func lineEnd(text []byte) int {
	end := bytes.IndexByte(text, '\n')
	if end < 0 {
		end = len(text)
	}
	if at := bytes.IndexByte(text[:end], '\r'); at >= 0 {
		return at
	}
	if end == len(text) {
		return -1
	}
	return end
}
