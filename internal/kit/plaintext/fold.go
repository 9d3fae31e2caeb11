package plaintext

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// Width is how many characters a line of w may have, and 0 for any number: writers to a terminal say it by a method
// Width, and those of this package pass it on.
func Width(w io.Writer) int {
	if x, ok := w.(interface{ Width() int }); ok {
		return x.Width()
	}
	return 0
}

// Width is that of the writer behind it.
func (w *writer) Width() int { return Width(w.to) }

// folded breaks the lines that pass through it.
type folded struct {
	to    io.Writer
	width int
	rest  []byte // of a line that has no end yet
}

// Folded breaks lines at spaces that are longer than the [Width] of w; the rest of a comment is a comment, too. Close
// writes what is left of a line without an end; it does not close w.
func Folded(w io.Writer) io.WriteCloser { return &folded{to: w, width: Width(w)} }

// Width is that of the writer behind it.
func (f *folded) Width() int { return f.width }

// Write passes on whole lines.
func (f *folded) Write(data []byte) (int, error) {
	if f.width <= 0 {
		return f.to.Write(data)
	}
	f.rest = append(f.rest, data...)
	end := bytes.LastIndexByte(f.rest, '\n') + 1
	var out strings.Builder
	for line := range strings.Lines(string(f.rest[:end])) {
		out.WriteString(f.fold(line))
	}
	f.rest = f.rest[end:]
	if _, err := io.WriteString(f.to, out.String()); err != nil {
		return 0, err
	}
	return len(data), nil
}

// fold breaks a line that is too long.
func (f *folded) fold(line string) string {
	if utf8.RuneCountInString(line) <= f.width+1 {
		return line
	}
	begin, rest := "", line
	if after, is := strings.CutPrefix(line, "# "); is {
		begin, rest = "# ", after
	}
	return begin + strings.Join(Wrap(rest, f.width-len(begin)-2), "\n"+begin+"  ") + "\n"
}

// Close writes what is left.
func (f *folded) Close() error {
	_, err := f.to.Write(f.rest)
	f.rest = nil
	return err
}

// Wrap breaks a text into lines of at most width characters, where it has spaces.
func Wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
