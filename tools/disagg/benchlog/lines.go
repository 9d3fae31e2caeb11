package benchlog

import (
	"bytes"
	"errors"
	"io"
)

// longest is how long a line may be: a log of one endless line takes no more
// memory than this. No line that means something is nearly as long.
const longest = 256 << 10

// EachLine calls use for each line of r, which ends with a newline or, as
// progress bars write it, a carriage return. The end is not part of the line,
// which is valid during the call only. A line that is longer than 256 KiB is
// left out, since half of it might hold half a number. rest is what stands
// behind the last end, and has been used as a line too.
func EachLine(r io.Reader, use func(line []byte)) (rest []byte, err error) {
	buffer := make([]byte, longest)
	filled, skipping, empty := 0, false, 0
	for {
		n, err := r.Read(buffer[filled:])
		filled += n
		used := useLines(buffer[:filled], &skipping, use)
		filled = copy(buffer, buffer[used:filled])
		if filled == longest {
			skipping, filled = true, 0
		}
		if n > 0 {
			empty = 0
		} else if empty++; err == nil && empty > 100 {
			err = io.ErrNoProgress
		}
		if err != nil {
			rest = buffer[:filled]
			if len(rest) > 0 && !skipping {
				use(rest)
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return rest, err
		}
	}
}

// useLines uses the lines that have their end in text, and returns how much that
// was.
func useLines(text []byte, skipping *bool, use func([]byte)) int {
	used := 0
	for used < len(text) {
		end := bytes.IndexByte(text[used:], '\n')
		window := text[used:]
		if end >= 0 {
			window = window[:end]
		}
		// Within the window, carriage returns end lines.
		for {
			at := bytes.IndexByte(window, '\r')
			if at < 0 {
				break
			}
			useLine(window[:at], skipping, use)
			used += at + 1
			window = window[at+1:]
		}
		if end < 0 {
			return used
		}
		useLine(window, skipping, use)
		used += len(window) + 1
	}
	return used
}

func useLine(line []byte, skipping *bool, use func([]byte)) {
	if !*skipping {
		use(line)
	}
	*skipping = false
}
