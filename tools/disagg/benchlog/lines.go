package benchlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// longest is how long a line may be: a log of one endless line takes no more
// memory than this. No line that means something is nearly as long.
const longest = 256 << 10

// EachLine calls use for each line of r, with its offset, which ends with a newline or, as
// progress bars write it, a carriage return. The end is not part of the line,
// which is valid during the call only. A line that is longer than 256 KiB is
// left out, since half of it might hold half a number. rest is what stands
// behind the last end, or the end of that, and has been used as a line if it is not too long. More than [MaxBytes] are
// an error.
func EachLine(r io.Reader, use func(at int64, line []byte)) (rest []byte, err error) {
	return eachLine(r, MaxBytes, use)
}

// MaxBytes bounds a log: a file may have holes, which take no room on the disk, and hours to read.
const MaxBytes = 16 << 30

func eachLine(r io.Reader, most int64, use func(at int64, line []byte)) (rest []byte, err error) {
	buffer := make([]byte, longest)
	filled, skipping, empty := 0, false, 0
	at := int64(0) // of the buffer
	for {
		n, err := r.Read(buffer[filled:])
		filled += n
		used := useLines(at, buffer[:filled], &skipping, use)
		filled = copy(buffer, buffer[used:filled])
		at += int64(used)
		if filled == longest {
			at += longest
			skipping, filled = true, 0
		}
		if n > 0 {
			empty = 0
		} else if empty++; err == nil && empty > 100 {
			err = io.ErrNoProgress
		}
		if at > most && err == nil {
			err = fmt.Errorf("wanted a log of at most %d bytes, got more", most)
		}
		if err != nil {
			rest = buffer[:filled]
			if len(rest) > 0 && !skipping {
				use(at, rest)
			}
			if filled == 0 && skipping {
				rest = buffer // the last part of a line that has not ended
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
func useLines(start int64, text []byte, skipping *bool, use func(int64, []byte)) int {
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
			useLine(start+int64(used), window[:at], skipping, use)
			used += at + 1
			window = window[at+1:]
		}
		if end < 0 {
			return used
		}
		useLine(start+int64(used), window, skipping, use)
		used += len(window) + 1
	}
	return used
}

func useLine(at int64, line []byte, skipping *bool, use func(int64, []byte)) {
	if !*skipping {
		use(at, line)
	}
	*skipping = false
}
