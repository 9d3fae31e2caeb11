package plaintext

import (
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
}

// Folded breaks lines at spaces that are longer than the [Width] of w. What is written to it should be whole lines.
func Folded(w io.Writer) io.Writer { return folded{w, Width(w)} }

// Width is that of the writer behind it.
func (f folded) Width() int { return f.width }

func (f folded) Write(data []byte) (int, error) {
	if _, err := f.to.Write(Fold(data, f.width, "")); err != nil {
		return 0, err
	}
	return len(data), nil
}

// Fold breaks those lines at spaces that begin with a text and are longer than a width, if that is above 0. What goes
// on of a comment is a comment, too.
func Fold(data []byte, width int, begin string) []byte {
	if width <= 0 {
		return data
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		text, end := strings.CutSuffix(line, "\n")
		if utf8.RuneCountInString(text) <= width || !strings.HasPrefix(text, begin) {
			out.WriteString(line)
			continue
		}
		mark := ""
		if strings.HasPrefix(text, "# ") {
			mark, text = "# ", text[2:]
		}
		out.WriteString(mark + strings.Join(Wrap(text, width-len(mark)-2), "\n"+mark+"  "))
		if end {
			out.WriteByte('\n')
		}
	}
	return []byte(out.String())
}

// Wrap breaks a text into lines of at most width characters, where it has spaces.
func Wrap(text string, width int) (lines []string) {
	line, text, more := strings.Cut(strings.TrimSpace(text), " ")
	if !more {
		return []string{line}
	}
	for word := range strings.SplitSeq(text, " ") {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, strings.TrimRight(line, " ")), word
			continue
		}
		line += " " + word
	}
	return append(lines, strings.TrimRight(line, " "))
}
