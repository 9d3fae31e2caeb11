package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
	"perigee/internal/result"
)

// A path leads to values in a document, in a part of jq's notation:
//
//	path = "." | step { step } .
//	step = "." name | [ "." ] "[" [ index | string ] "]" .
//
// A name begins with a letter or _ and goes on with these and digits. A string is one of JSON. An index counts from 0,
// a negative one from the end. [] stands for every element of a list, and every value of an object.
type path []step

type step struct {
	name  string
	index int
	kind  stepKind
}

type stepKind int

const (
	field stepKind = iota
	element
	every
)

func (s step) String() string {
	switch s.kind {
	case element:
		return fmt.Sprintf("[%d]", s.index)
	case every:
		return "[]"
	}
	if isName(s.name) {
		return "." + s.name
	}
	return "[" + quote(s.name) + "]"
}

// quote writes a string of JSON, as [parsePath] reads it, of what can be printed.
func quote(s string) string {
	b := []byte{'"'}
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case strconv.IsPrint(r):
			b = utf8.AppendRune(b, r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				b = fmt.Appendf(b, "\\u%04x", unit)
			}
		}
	}
	return string(append(b, '"'))
}

func (p path) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(s.String())
	}
	if text := b.String(); strings.HasPrefix(text, ".") {
		return text
	}
	return "." + b.String()
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// parsePath reads a path. The error, of the kind Usage, says where it stopped.
func parsePath(text string) (path, error) {
	hint := "a path looks like .patterns[0].name or .measurements[].latency_ns; see docs/report.md"
	fail := func(at int, wanted string) (path, error) {
		return nil, fault.New(fault.Usage, "path %.60q: wanted %s at character %d", text, wanted, at+1).
			WithHint("%s", hint)
	}
	switch {
	case text == ".":
		return path{}, nil
	case !strings.HasPrefix(text, "."):
		if _, err := parsePath("." + text); err == nil {
			hint = fmt.Sprintf("did you mean .%s? See docs/report.md", text)
		}
		return fail(0, "a dot")
	}
	var p path
	at := 0
	for at < len(text) {
		if text[at] == '.' {
			at++
			if at < len(text) && text[at] != '[' {
				end := at
				for end < len(text) && text[end] != '.' && text[end] != '[' {
					end++
				}
				if !isName(text[at:end]) {
					return fail(at, `a name (others as ["name"])`)
				}
				p, at = append(p, step{name: text[at:end]}), end
				continue
			}
		}
		if at == len(text) || text[at] != '[' {
			return fail(at, "a name or [")
		}
		s, size := bracket(text[at:])
		if size == 0 {
			return fail(at, `[], an index as in [0], or a name as in ["name"]`)
		}
		p, at = append(p, s), at+size
	}
	return p, nil
}

// bracket reads a step in brackets and returns its length, 0 if there is none.
func bracket(text string) (step, int) {
	if strings.HasPrefix(text, "[]") {
		return step{kind: every}, 2
	}
	if strings.HasPrefix(text, `["`) {
		d := json.NewDecoder(strings.NewReader(text[1:]))
		var name string
		if d.Decode(&name) != nil {
			return step{}, 0
		}
		end := 1 + int(d.InputOffset())
		if !strings.HasPrefix(text[end:], "]") {
			return step{}, 0
		}
		return step{name: name}, end + 1
	}
	end := strings.IndexByte(text, ']')
	if end < 0 {
		return step{}, 0
	}
	n, err := strconv.Atoi(text[1:end])
	if err != nil {
		return step{}, 0
	}
	return step{kind: element, index: n}, end + 1
}

// walker follows a path through a document that flows by. Only what is asked for is looked
// at, and nothing is kept but the element that a negative index may mean.
type walker struct {
	emit func(d *json.Decoder) error // consumes the value that the path leads to
	null func() error                // for a place under [] that is not there
	// gone is why nothing was found, and found how much was.
	gone  error
	found int
}

// absent is that a path leads nowhere.
type absent struct{ text, hint string }

func (a *absent) Error() string { return a.text }

// missing notes a place that is not there. Under [] it gives null, as long as others have it.
func (w *walker) missing(iterating bool, err error) error {
	if !iterating {
		return err
	}
	if w.gone == nil {
		w.gone = err
	}
	return w.null()
}

// follow consumes one value.
func (w *walker) follow(d *json.Decoder, at, rest path, iterating bool) error {
	if len(rest) == 0 {
		w.found++
		return w.emit(d)
	}
	t, err := result.Token(d)
	if err != nil {
		return err
	}
	s := rest[0]
	switch {
	case t == json.Delim('{') && s.kind != element:
		return w.object(d, at, rest, iterating)
	case t == json.Delim('[') && s.kind != field:
		return w.list(d, at, rest, iterating)
	}
	what := describe(t)
	if t == json.Delim('{') || t == json.Delim('[') {
		if err := leave(d); err != nil {
			return err
		}
	}
	want := map[stepKind]string{field: "an object", element: "a list", every: "a list or an object"}[s.kind]
	return w.missing(iterating, &absent{text: fmt.Sprintf("%s is %s, want %s", at, what, want)})
}

func describe(t json.Token) string {
	switch t := t.(type) {
	case json.Delim:
		return map[json.Delim]string{'{': "an object", '[': "a list"}[t]
	case string:
		return "a text"
	case nil:
		return "null"
	case bool:
		return "true or false"
	}
	return "a number"
}

// leave consumes what is left of an object or list whose opening was consumed.
func leave(d *json.Decoder) error {
	for d.More() {
		if err := result.Skip(d); err != nil { // names are values to Skip
			return err
		}
	}
	_, err := result.Token(d)
	return err
}

// object follows a step into an object. A name that is there twice counts the first time, as JSON leaves it open; what
// is not asked for is skipped without being kept.
func (w *walker) object(d *json.Decoder, at, rest path, iterating bool) error {
	s := rest[0]
	var names []string
	seen := false
	for d.More() {
		t, err := result.Token(d)
		if err != nil {
			return err
		}
		name, _ := t.(string)
		names = append(names, name)
		here := append(slices.Clip(at), step{name: name})
		switch {
		case s.kind == every:
			err = w.follow(d, here, rest[1:], true)
		case name == s.name && !seen:
			seen = true
			err = w.follow(d, here, rest[1:], iterating)
		default:
			err = result.Skip(d)
		}
		if err != nil {
			return err
		}
	}
	if _, err := result.Token(d); err != nil {
		return err
	}
	if s.kind == every || seen {
		return nil
	}
	const most = 30
	shown := names
	if len(names) > most {
		shown = append(slices.Clone(names[:most]), "...")
	}
	return w.missing(iterating, &absent{
		text: fmt.Sprintf("there is no %s%s", append(slices.Clip(at), s), value.Suggestion(s.name, names)),
		hint: fmt.Sprintf("%s has %s", cmp.Or(strings.TrimPrefix(at.String(), "."), "the result"),
			strings.Join(shown, ", ")),
	})
}

// list follows a step into a list. An index from the end needs the last elements, and no more of them are kept.
func (w *walker) list(d *json.Decoder, at, rest path, iterating bool) error {
	s := rest[0]
	var last []json.RawMessage // as many as a negative index reaches back
	n := 0
	for ; d.More(); n++ {
		var err error
		here := append(slices.Clip(at), step{kind: element, index: n})
		switch {
		case s.kind == every:
			err = w.follow(d, here, rest[1:], true)
		case s.index == n:
			err = w.follow(d, here, rest[1:], iterating)
		case s.index < 0:
			var raw json.RawMessage
			if err = d.Decode(&raw); err == nil {
				if last = append(last, raw); len(last) > -s.index {
					last = last[1:]
				}
			}
		default:
			err = result.Skip(d)
		}
		if err != nil {
			return err
		}
	}
	if _, err := result.Token(d); err != nil {
		return err
	}
	switch {
	case s.kind == every || s.index >= 0 && s.index < n:
		return nil
	case s.index < 0 && len(last) == -s.index:
		inner := json.NewDecoder(strings.NewReader(string(last[0])))
		inner.UseNumber()
		return w.follow(inner, append(slices.Clip(at), step{kind: element, index: n + s.index}), rest[1:], iterating)
	}
	return w.missing(iterating, &absent{text: fmt.Sprintf("there is no %s: %s has %d elements",
		append(slices.Clip(at), s), at, n)})
}

// look writes the values that a path leads to, a line each.
func look(r io.Reader, p path, raw bool, out io.Writer) error {
	d := json.NewDecoder(r)
	d.UseNumber()
	w := walker{
		emit: func(d *json.Decoder) error { return copyValue(d, raw, out) },
		null: func() error { _, err := io.WriteString(out, "null\n"); return err },
	}
	if err := w.follow(d, nil, p, false); err != nil {
		return err
	}
	if err := result.AtEnd(d); err != nil {
		return err
	}
	if w.found == 0 && w.gone != nil {
		return w.gone
	}
	return nil
}

// copyValue writes a value on one line, piece by piece. raw writes a text without quotes.
func copyValue(d *json.Decoder, raw bool, out io.Writer) error {
	type level struct {
		object bool
		n      int // tokens so far
	}
	var levels []level
	for {
		t, err := result.Token(d)
		if err != nil {
			return err
		}
		closing := t == json.Delim('}') || t == json.Delim(']')
		if len(levels) > 0 && !closing {
			l := &levels[len(levels)-1]
			separator := ","
			if l.object && l.n%2 == 1 {
				separator = ":"
			}
			if l.n > 0 {
				io.WriteString(out, separator)
			}
			l.n++
		}
		switch v := t.(type) {
		case json.Delim:
			io.WriteString(out, v.String())
			if closing {
				levels = levels[:len(levels)-1]
			} else {
				levels = append(levels, level{object: v == '{'})
			}
		case string:
			if raw && len(levels) == 0 {
				io.WriteString(out, v)
			} else if err := writeText(out, v); err != nil {
				return err
			}
		case json.Number:
			io.WriteString(out, v.String())
		default:
			text, err := json.Marshal(v)
			if err != nil {
				return err
			}
			out.Write(text)
		}
		if len(levels) == 0 {
			_, err := io.WriteString(out, "\n")
			return err
		}
	}
}

func writeText(out io.Writer, s string) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(out, strings.TrimSuffix(b.String(), "\n"))
	return err
}
