// Package plaintext makes text that perigee did not write itself safe to print. Names, notes and values out of results,
// reports and scripts may hold characters that move a terminal's cursor, change its title, hide text or reorder it, or
// that a spreadsheet takes for a formula. Whatever prints such text prints it through this package:
//
//   - [Escape] for text inside a line, such as a cell of a table or a part of a message
//   - [Text] and [Writer] for whole texts that keep their line breaks
//   - [JSONWriter] for JSON, which keeps its meaning
//   - [Cell] for CSV
//   - [Folded] for sentences on a terminal, whose lines fit it
//
// Dangerous are control characters (C0 without tab and line feed, DEL, C1), the controls of bidirectional text, line
// and paragraph separators, and bytes that are no UTF-8. They are written as in strings of Go: \x1b, \u202e.
package plaintext

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hidden reports whether a character acts on what displays it.
func hidden(r rune) bool {
	switch {
	case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return r == 0x061c || r == 0x200e || r == 0x200f || r == 0x2028 || r == 0x2029
}

// Escape makes one line of a text: it escapes everything dangerous, line breaks and tabs included.
func Escape(s string) string { return escape(s, hidden) }

// Text is Escape for a text of several lines: tabs and line feeds stay.
func Text(s string) string {
	return escape(s, func(r rune) bool { return hidden(r) && r != '\n' && r != '\t' })
}

func escape(s string, hidden func(r rune) bool) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hidden(r):
			b.WriteString(escaped(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// escaped is a dangerous character as Go writes it.
func escaped(r rune) string {
	quoted := strconv.QuoteRuneToASCII(r)
	return quoted[1 : len(quoted)-1]
}

// Cut keeps the first bytes of a text that is longer than most, and marks it with "...". It cuts no character in two.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > 0 && most-end < utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	if !utf8.RuneStart(s[end]) { // this is no UTF-8
		end = most
	}
	return s[:end] + "..."
}

// First are the first elements of a list for a sentence, and then, in words such as "and %d more", how many follow.
func First(list []string, most int, more string) []string {
	if n := len(list) - most; n > 0 {
		return append(slices.Clone(list[:most]), fmt.Sprintf(more, n))
	}
	return list
}

// Runs are the stretches of ascending numbers without a gap, such as 0-3 and 5, with a word between their ends.
func Runs[N int | int64](list []N, between string) (runs []string) {
	for i := 0; i < len(list); {
		k := i
		for k+1 < len(list) && list[k+1] == list[k]+1 {
			k++
		}
		run := fmt.Sprint(list[i])
		if k > i {
			run += fmt.Sprint(between, list[k])
		}
		runs, i = append(runs, run), k+1
	}
	return runs
}

// Cell is Text for a cell of CSV, guarded against spreadsheets, which compute what begins with =, +, -, @ or a control
// character: an apostrophe in front makes it text. Numbers stay as they are. Spreadsheets of many languages split cells
// at semicolons, and some at tabs and line breaks, which are escaped here.
func Cell(s string) string {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	parts := strings.Split(Escape(s), ";")
	for i, part := range parts {
		begin := strings.TrimLeftFunc(part, func(r rune) bool { return r == '"' || unicode.IsSpace(r) })
		if first, _ := utf8.DecodeRuneInString(begin); strings.ContainsRune("=+-@＝＋－＠", first) && begin != "" {
			parts[i] = "'" + part
		}
	}
	return strings.Join(parts, ";")
}

// writer escapes what passes through it.
type writer struct {
	to     io.Writer
	rest   []byte // the beginning of a character that has not come as a whole
	escape func(r rune, invalid byte) string
}

// Writer escapes everything dangerous but tabs and line feeds. Close writes what is left of a
// character that was cut off; it does not close w.
func Writer(w io.Writer) io.WriteCloser {
	return &writer{to: w, escape: func(r rune, invalid byte) string {
		switch {
		case r == utf8.RuneError:
			return fmt.Sprintf(`\x%02x`, invalid)
		case r == '\n' || r == '\t':
			return string(r)
		}
		return escaped(r)
	}}
}

// JSONWriter escapes, in the text of JSON, what encoding/json leaves as it is. The value stays the same.
func JSONWriter(w io.Writer) io.WriteCloser {
	return &writer{to: w, escape: func(r rune, invalid byte) string {
		switch {
		case r == utf8.RuneError:
			return `\ufffd` // what readers of JSON make of it
		case r == '\n' || r == '\t' || r == '\r':
			return string(r) // between values
		}
		return fmt.Sprintf(`\u%04x`, r)
	}}
}

// inJSON matches, in the text of JSON, what is escaped and what [hidden] reports.
var inJSON = regexp.MustCompile(`\\(?:u[0-9A-Fa-f]{4}|.)|[\x7f-\x{9f}\x{61c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}]`)

// InJSON is Text for the texts in JSON, which change by it: for readers that show them as they are.
func InJSON(data []byte) []byte {
	return inJSON.ReplaceAllFunc(data, func(found []byte) []byte {
		text := string(found)
		if found[0] == '\\' && json.Unmarshal([]byte(`"`+text+`"`), &text) != nil {
			return found
		}
		if shown := Text(text); shown != text {
			return []byte(`\` + shown)
		}
		return found
	})
}

// Write passes on data; of a character that ends later only its last byte counts as the end.
func (w *writer) Write(data []byte) (int, error) {
	text := data
	if len(w.rest) > 0 {
		text = append(w.rest, data...)
		w.rest = nil
	}
	var out []byte
	kept := 0 // text[:kept] is dealt with
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		bad := r == utf8.RuneError && size == 1
		if bad && !utf8.FullRune(text[i:]) {
			w.rest = append([]byte(nil), text[i:]...)
			text = text[:i]
			break
		}
		if bad || hidden(r) {
			out = append(append(out, text[kept:i]...), w.escape(r, text[i])...)
			kept = i + size
		}
		i += size
	}
	if out != nil {
		text = append(out, text[kept:]...)
	}
	if _, err := w.to.Write(text); err != nil {
		return 0, err
	}
	return len(data), nil
}

// Close writes what is left.
func (w *writer) Close() error {
	var out []byte
	for _, b := range w.rest {
		out = append(out, w.escape(utf8.RuneError, b)...)
	}
	w.rest = nil
	_, err := w.to.Write(out)
	return err
}
