package expr

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"perigee/internal/kit/fault"
)

// maxText bounds the length of an expression.
const maxText = 10_000

// Scanner reads a text up to its first mistake. From then on it is at the end, and what it returns means nothing.
type Scanner struct {
	what, text, hint string
	at               int
	err              *fault.Error
}

// Scan begins to read a text; messages say what it is, and hint at how it should look.
func Scan(what, text, hint string) *Scanner {
	s := &Scanner{what: what, text: text, hint: hint}
	switch {
	case len(text) > maxText:
		s.fault("%s of %d bytes: wanted at most %d", what, len(text), maxText)
	case !utf8.ValidString(text):
		s.fault("%s %q is not text", what, text)
	}
	return s
}

// Err is the mistake, of the kind Usage; nil if there was none.
func (s *Scanner) Err() error {
	if s.err == nil {
		return nil
	}
	return s.err
}

func (s *Scanner) fault(format string, args ...any) {
	if s.err != nil {
		return
	}
	s.err = fault.New(fault.Usage, format, args...)
	if fault.HintOf(s.err) == "" {
		s.err.Hint = s.hint
	}
	s.at = len(s.text)
}

// Wrong notes a mistake that is not about what comes next.
func (s *Scanner) Wrong(at int, format string, args ...any) {
	s.fault("%s %q, character %d: "+format, append([]any{s.what, s.text, at + 1}, args...)...)
}

// Fail notes what was wanted in place of what is there.
func (s *Scanner) Fail(at int, wanted string, args ...any) {
	got := "the end"
	if rest := []rune(strings.TrimSpace(s.text[min(at, len(s.text)):])); len(rest) > 0 {
		const most = 20
		got = strconv.Quote(string(rest[:min(most, len(rest))]))
		if len(rest) > most {
			got = strings.TrimSuffix(got, `"`) + `..."`
		}
	}
	s.fault("%s %q: wanted "+wanted+" at character %d, got %s",
		append(append([]any{s.what, s.text}, args...), at+1, got)...)
}

func (s *Scanner) space() {
	s.at = len(s.text) - len(strings.TrimLeft(s.text[s.at:], " \t\r\n"))
}

// Next returns where the next part begins.
func (s *Scanner) Next() int {
	s.space()
	return s.at
}

// Accept takes a sign if it comes next.
func (s *Scanner) Accept(sign string) bool {
	s.space()
	rest, ok := strings.CutPrefix(s.text[s.at:], sign)
	s.at = len(s.text) - len(rest)
	return ok
}

// Comes reports whether a sign comes next.
func (s *Scanner) Comes(sign string) bool {
	s.space()
	return strings.HasPrefix(s.text[s.at:], sign)
}

// Quoted takes a text in quotes of either kind.
func (s *Scanner) Quoted(wanted string) string {
	s.space()
	text, ok := s.quoted()
	if !ok {
		s.Fail(s.at, "%s", wanted)
	}
	return text
}

// oneOf takes the first of some signs that comes next; "" for none.
func (s *Scanner) oneOf(signs ...string) string {
	if i := slices.IndexFunc(signs, s.Accept); i >= 0 {
		return signs[i]
	}
	return ""
}

// Want takes a sign that has to come next.
func (s *Scanner) Want(sign, wanted string) {
	if !s.Accept(sign) {
		s.Fail(s.at, "%s", wanted)
	}
}

// EndOfBound makes sure that nothing follows a bound. Letters right behind the number are no unit of what is compared.
func (s *Scanner) EndOfBound(unit, wanted string) {
	if s.at < len(s.text) && s.at > 0 && unitForm.MatchString(s.text[s.at:]) && !isSpace(s.text[s.at-1]) {
		wanted = wantedNumber(unit)
	}
	s.End(wanted)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// End makes sure that nothing follows.
func (s *Scanner) End(wanted string) {
	if s.Next() < len(s.text) {
		s.Fail(s.at, "%s", wanted)
	}
}

var (
	wordForm   = regexp.MustCompile(`^[a-zA-Z]([a-zA-Z0-9_]|\.[0-9])*`) // as P99.9_TTFT_ms
	countForm  = regexp.MustCompile(`^[0-9]+`)
	numberForm = regexp.MustCompile(`^([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?`)
	unitForm   = regexp.MustCompile(`^[a-zA-Z]+(/s\b)?`)
)

// take takes what has a form and follows at once; "" for nothing.
func (s *Scanner) take(form *regexp.Regexp) string {
	found := form.FindString(s.text[s.at:])
	s.at += len(found)
	return found
}

// Word takes a name: letters, digits and _, and dots before digits, with a letter in front.
func (s *Scanner) Word(wanted string) string {
	s.space()
	word := s.take(wordForm)
	if word == "" {
		s.Fail(s.at, "%s", wanted)
	}
	return word
}

// Count takes a whole number from 1 on.
func (s *Scanner) Count(wanted string) int {
	s.space()
	at := s.at
	n, err := strconv.Atoi(s.take(countForm))
	switch {
	case err != nil || n > math.MaxInt32:
		s.Fail(at, "a whole number up to %d", math.MaxInt32)
	case n < 1:
		s.Fail(at, "%s", wanted)
	}
	return n
}

// quoted takes a text in quotes of either kind if it comes next.
func (s *Scanner) quoted() (text string, ok bool) {
	sign := s.oneOf(`"`, "'")
	if sign == "" {
		return "", false
	}
	text, _, ok = strings.Cut(s.text[s.at:], sign)
	if s.at += len(text); !ok {
		s.Fail(s.at, "the closing %s", sign)
		return "", true
	}
	s.at++
	return text, true
}

// number takes a number without a sign if it comes next.
func (s *Scanner) number() (float64, bool) {
	s.space()
	at := s.at
	text := s.take(numberForm)
	if text == "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.Fail(at, "a number that is not too large")
	}
	return v, true
}

// unit takes the unit of a number, with or without a blank in front; "" if what comes next is none.
func (s *Scanner) unit() string {
	before := s.Next()
	word := s.take(unitForm)
	if !isUnit(word) {
		s.at = before
		return ""
	}
	return word
}

// finite refuses a number that a unit has made too large.
func (s *Scanner) finite(at int, v float64) {
	if math.IsInf(v, 0) {
		s.Fail(at, "a number that is not too large with its unit")
	}
}

// Bound is a limit.
type Bound struct {
	Op    string // <, <=, >, >=, == or !=
	Limit float64
}

// Bounds are the operators of bounds.
var Bounds = []string{"<", "<=", ">", ">=", "==", "!="}

// Bound takes one of some operators and a number, such as <= 40. Where what is compared has a unit of time or bytes,
// the number may have another of the same kind.
func (s *Scanner) Bound(unit string, operators ...string) Bound {
	b, _ := s.BoundOf(unit, nil, operators...)
	return b
}

// BoundOf is Bound where the number may be one of some names, or a part of what it stands for, such as > 0.9 * line.
// Then of is the name, and the limit the factor in front, 1 where there is none.
func (s *Scanner) BoundOf(unit string, names []string, operators ...string) (b Bound, of string) {
	for _, op := range slices.Backward(operators) { // <= before <
		if b.Op == "" && s.Accept(op) {
			b.Op = op
		}
	}
	if last := len(operators) - 1; b.Op == "" {
		s.Fail(s.at, "%s or %s", strings.Join(operators[:last], ", "), operators[last])
	}
	at := s.Next()
	sign := s.oneOf("-", "+")
	digits := s.Next()
	if of = s.oneWord(names); of != "" && sign != "-" {
		b.Limit = 1
		return b, of
	}
	v, ok := s.number()
	if !ok {
		s.Fail(at, "a number")
	}
	text := s.text[digits:s.at]
	if len(names) > 0 && s.Accept("*") {
		if of = s.oneWord(names); of == "" {
			s.Fail(s.at, "%s", strings.Join(names, " or "))
		}
		if sign == "-" {
			s.Fail(at, "a positive part of the %s", of)
		}
		b.Limit = v
		return b, of
	}
	if given := s.unit(); given != "" {
		if v, ok = convert(text+given, v, given, unit); !ok {
			s.Fail(digits, "%s", wantedNumber(unit))
		}
		s.finite(digits, v)
	}
	if b.Limit = v; sign == "-" {
		b.Limit = -v
	}
	return b, ""
}

// oneWord takes one of some words if it comes next; "" for none.
func (s *Scanner) oneWord(words []string) string {
	before := s.Next()
	if word := s.take(wordForm); slices.Contains(words, word) {
		return word
	}
	s.at = before
	return ""
}

// Holds reports whether a value is within the bound; NaN is not.
func (b Bound) Holds(v float64) bool { return !math.IsNaN(v) && holds(b.Op, v, b.Limit) }

// holds reports whether a op b.
func holds[T float64 | int](op string, a, b T) bool {
	switch op {
	case "==":
		return a == b
	case "!=":
		return a != b
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	}
	return a >= b
}
