// Package pattern finds Lua 5.1's patterns in texts, as string.find, match, gmatch and gsub of its manual do. The
// interpreter's own matcher takes %f for something else and finds nothing where a pattern is malformed.
//
// A Matcher tries a pattern at one place after the other. It walks through text and pattern together and goes back
// where an item has taken too much, so that a pattern such as (.-)(.-)(.-)x takes as many steps as the text has places
// to the power of its items: after some steps each it asks whether it may go on.
package pattern

import (
	"errors"
	"fmt"
	"strings"
)

const (
	maxCaptures = 32      // of Lua 5.1
	maxDepth    = 100_000 // of items that wait for what follows them: each takes room on the stack
	stepsToAsk  = 1 << 16

	open = -2 // the length of a capture whose closing parenthesis has not come
)

// Position is the length of a capture that has the place alone, as () makes it.
const Position = -1

// Capture is a part of the text: its first byte, from 0, and its length, which may be Position.
type Capture struct{ Start, Len int }

// Matcher looks for one pattern in one text.
type Matcher struct {
	text, pattern string
	ask           func() error
	captures      []Capture
	steps, depth  int
}

// New makes a matcher. Whenever much time may have passed it calls ask, whose error ends the search.
func New(text, pattern string, ask func() error) *Matcher {
	return &Matcher{text: text, pattern: pattern, ask: ask}
}

// Plain reports whether a pattern stands for itself, so that it can be looked for as a text.
func Plain(pattern string) bool { return !strings.ContainsAny(pattern, "^$*+?.([%-") }

// Find looks for the first match that begins at from or behind it. With anchored set, ^ at the beginning of the pattern
// lets only from be such a place; else it is a letter as any other. It returns the match, and what was captured.
func (m *Matcher) Find(from int, anchored bool) (match Capture, captures []Capture, ok bool, err error) {
	p := 0
	if anchored = anchored && strings.HasPrefix(m.pattern, "^"); anchored {
		p = 1
	}
	for s := from; s <= len(m.text); s++ {
		m.captures, m.depth = m.captures[:0], 0
		end, err := m.match(s, p)
		if err != nil {
			return match, nil, false, err
		}
		if end >= 0 {
			return m.found(s, end)
		}
		if anchored {
			break
		}
	}
	return match, nil, false, nil
}

// found is the outcome of a match.
func (m *Matcher) found(start, end int) (Capture, []Capture, bool, error) {
	for _, c := range m.captures {
		if c.Len == open {
			return Capture{}, nil, false, errors.New("unfinished capture")
		}
	}
	return Capture{start, end - start}, append([]Capture(nil), m.captures...), true, nil
}

// none is where a match ends that there is not.
const none = -1

// match matches the pattern from p on with the text from s on. It returns where the match ends.
func (m *Matcher) match(s, p int) (end int, err error) {
	if m.depth++; m.depth > maxDepth {
		return none, errors.New("pattern too complex")
	}
	defer func() { m.depth-- }()
	for p < len(m.pattern) {
		if err := m.step(1); err != nil {
			return none, err
		}
		switch c := m.pattern[p]; {
		case c == '(':
			return m.openCapture(s, p+1)
		case c == ')':
			return m.closeCapture(s, p+1)
		case c == '$' && p+1 == len(m.pattern):
			if s == len(m.text) {
				return s, nil
			}
			return none, nil
		case c == '%' && p+1 < len(m.pattern) && special(m.pattern[p+1]):
			if s, p, err = m.special(s, p+1); err != nil || s == none {
				return none, err
			}
			continue
		}
		next, err := m.classEnd(p)
		if err != nil {
			return none, err
		}
		suffix := byte(0)
		if next < len(m.pattern) {
			suffix = m.pattern[next]
		}
		switch suffix {
		case '*':
			return m.most(s, p, next, 0)
		case '+':
			return m.most(s, p, next, 1)
		case '-':
			return m.least(s, p, next)
		case '?':
			if m.fits(s, p, next) {
				if end, err := m.match(s+1, next+1); err != nil || end != none {
					return end, err
				}
			}
			p = next + 1
		default:
			if !m.fits(s, p, next) {
				return none, nil
			}
			s, p = s+1, next
		}
	}
	return s, nil
}

// step counts the time that n steps take.
func (m *Matcher) step(n int) error {
	if m.steps += n; m.steps < stepsToAsk || m.ask == nil {
		return nil
	}
	m.steps = 0
	return m.ask()
}

// special reports whether a byte behind % is no class of letters: %b, %f, %1.
func special(c byte) bool { return c == 'b' || c == 'f' || '0' <= c && c <= '9' }

// special matches the item whose letter, behind its %, is at p. It returns where text and pattern go on.
func (m *Matcher) special(s, p int) (int, int, error) {
	switch m.pattern[p] {
	case 'b':
		end, err := m.balanced(s, p+1)
		return end, p + 3, err
	case 'f':
		end, next, err := m.frontier(s, p+1)
		return end, next, err
	}
	end, err := m.again(s, m.pattern[p])
	return end, p + 1, err
}

// openCapture goes on behind an opening parenthesis, or () as a whole.
func (m *Matcher) openCapture(s, p int) (int, error) {
	c := Capture{s, open}
	if p < len(m.pattern) && m.pattern[p] == ')' {
		c.Len, p = Position, p+1
	}
	if len(m.captures) == maxCaptures {
		return none, fmt.Errorf("too many captures: wanted at most %d", maxCaptures)
	}
	n := len(m.captures)
	m.captures = append(m.captures, c)
	end, err := m.match(s, p)
	if end == none {
		m.captures = m.captures[:n]
	}
	return end, err
}

// closeCapture goes on behind a closing parenthesis.
func (m *Matcher) closeCapture(s, p int) (int, error) {
	i := len(m.captures) - 1
	for i >= 0 && m.captures[i].Len != open {
		i--
	}
	if i < 0 {
		return none, errors.New("invalid pattern capture")
	}
	m.captures[i].Len = s - m.captures[i].Start
	end, err := m.match(s, p)
	if end == none {
		m.captures[i].Len = open
	}
	return end, err
}

// again matches what a capture holds: %1.
func (m *Matcher) again(s int, digit byte) (int, error) {
	i := int(digit) - '1'
	if i < 0 || i >= len(m.captures) || m.captures[i].Len == open {
		return none, fmt.Errorf("invalid capture index %%%c", digit)
	}
	if held := m.captures[i].in(m.text); strings.HasPrefix(m.text[s:], held) {
		return s + len(held), nil
	}
	return none, nil
}

// in is the text of a capture, empty for a position.
func (c Capture) in(text string) string { return text[c.Start : c.Start+max(c.Len, 0)] }

// balanced matches %bxy, whose x is at p: from x to the y that belongs to it.
func (m *Matcher) balanced(s, p int) (int, error) {
	if p+2 > len(m.pattern) {
		return none, errors.New("malformed pattern (%b without two letters behind it)")
	}
	first, last := m.pattern[p], m.pattern[p+1]
	if s == len(m.text) || m.text[s] != first {
		return none, nil
	}
	depth := 1
	for i := s + 1; i < len(m.text); i++ {
		switch m.text[i] {
		case last:
			if depth--; depth == 0 {
				return i + 1, nil
			}
		case first:
			depth++
		}
	}
	return none, m.step(len(m.text) - s)
}

// frontier matches %f[set], whose set is at p: between a byte that is not in the set and one that is, where a zero
// stands before and behind the text.
func (m *Matcher) frontier(s, p int) (end, next int, err error) {
	if p == len(m.pattern) || m.pattern[p] != '[' {
		return none, p, errors.New("malformed pattern (%f without a set [...] behind it)")
	}
	if next, err = m.classEnd(p); err != nil {
		return none, p, err
	}
	var before, behind byte
	if s > 0 {
		before = m.text[s-1]
	}
	if s < len(m.text) {
		behind = m.text[s]
	}
	if m.inSet(before, p, next) || !m.inSet(behind, p, next) {
		return none, next, nil
	}
	return s, next, nil
}

// most matches as many bytes of the class from p to next as it can, but at least some, and then what follows.
func (m *Matcher) most(s, p, next, least int) (int, error) {
	n := 0
	for m.fits(s+n, p, next) {
		n++
	}
	if err := m.step(n); err != nil {
		return none, err
	}
	for ; n >= least; n-- {
		if end, err := m.match(s+n, next+1); err != nil || end != none {
			return end, err
		}
	}
	return none, nil
}

// least matches as few bytes of the class from p to next as it can, and then what follows.
func (m *Matcher) least(s, p, next int) (int, error) {
	for {
		if end, err := m.match(s, next+1); err != nil || end != none {
			return end, err
		}
		if !m.fits(s, p, next) {
			return none, nil
		}
		s++
	}
}

// classEnd is where the item at p, which stands for one byte, ends in the pattern.
func (m *Matcher) classEnd(p int) (int, error) {
	switch m.pattern[p] {
	case '%':
		if p+1 == len(m.pattern) {
			return 0, errors.New("malformed pattern (ends with %)")
		}
		return p + 2, nil
	case '[':
		return m.setEnd(p)
	}
	return p + 1, nil
}

// setEnd is where the set at p ends. A ] in front is one of its bytes.
func (m *Matcher) setEnd(p int) (int, error) {
	i := p + 1
	if i < len(m.pattern) && m.pattern[i] == '^' {
		i++
	}
	for first := true; ; first = false {
		switch {
		case i >= len(m.pattern):
			return 0, errors.New("malformed pattern (missing ])")
		case m.pattern[i] == ']' && !first:
			return i + 1, nil
		case m.pattern[i] == '%':
			i++
		}
		i++
	}
}

// fits reports whether the byte at s is one that the item from p to next stands for.
func (m *Matcher) fits(s, p, next int) bool {
	if s >= len(m.text) {
		return false
	}
	c := m.text[s]
	switch m.pattern[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pattern[p+1])
	case '[':
		return m.inSet(c, p, next)
	}
	return m.pattern[p] == c
}

// inSet reports whether a byte is in the set from p to next.
func (m *Matcher) inSet(c byte, p, next int) bool {
	set, in := m.pattern[p+1:next-1], true
	if strings.HasPrefix(set, "^") {
		set, in = set[1:], false
	}
	for i := 0; i < len(set); i++ {
		switch {
		case set[i] == '%' && i+1 < len(set):
			if i++; inClass(c, set[i]) {
				return in
			}
		case i+2 < len(set) && set[i+1] == '-':
			if set[i] <= c && c <= set[i+2] {
				return in
			}
			i += 2
		case set[i] == c:
			return in
		}
	}
	return !in
}

// inClass reports whether a byte is in the class that a letter behind % stands for, or is that letter.
func inClass(c, letter byte) bool {
	low := letter | 0x20
	in, known := false, true
	switch low {
	case 'a':
		in = isLetter(c)
	case 'c':
		in = c < ' ' || c == 0x7f
	case 'd':
		in = isDigit(c)
	case 'l':
		in = 'a' <= c && c <= 'z'
	case 'p':
		in = '!' <= c && c <= '~' && !isLetter(c) && !isDigit(c)
	case 's':
		in = c == ' ' || '\t' <= c && c <= '\r'
	case 'u':
		in = 'A' <= c && c <= 'Z'
	case 'w':
		in = isLetter(c) || isDigit(c)
	case 'x':
		in = isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f'
	case 'z':
		in = c == 0
	default:
		known = false
	}
	if !known || !isLetter(letter) {
		return c == letter
	}
	return in == (letter == low)
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
