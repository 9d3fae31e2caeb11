package lua

import (
	"fmt"
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// Bounds of what a script may search for. The library that comes with the interpreter calls itself for each byte of
// a text and each bracket of a pattern, keeps all matches of a text, and copies the text for each replacement; Go
// ends the process where that takes too much. This one searches as Lua itself does.
const (
	maxPattern  = 16 << 10 // bytes
	maxCaptures = 32       // as in Lua itself
	maxRepeats  = 200      // repeated parts and captures behind each other, as in Lua itself
)

// special are the characters that make a pattern out of a text.
const special = "^$*+?.([%-"

// Lengths of captures that are no lengths.
const (
	open     = -1 // it has not ended
	position = -2 // it is a place
)

// matcher matches a pattern with a text.
type matcher struct {
	L             *glua.LState
	text, pattern string
	captures      []struct{ from, length int }
	repeats       bool // of gmatch: a ^ in front is a character like any other
	depth         int
	steps         int // since the last look at whether the script has to end
}

func newMatcher(L *glua.LState, text, pattern string) *matcher {
	if len(pattern) > maxPattern {
		L.RaiseError("wanted a pattern of at most %d bytes, got %d", maxPattern, len(pattern))
	}
	return &matcher{L: L, text: text, pattern: pattern}
}

// stopped raises an error once the script has to end, which a library function does not see otherwise.
func stopped(L *glua.LState) {
	if ctx := L.Context(); ctx != nil && ctx.Err() != nil {
		L.RaiseError("%v", ctx.Err())
	}
}

// step ends a search with its script.
func (m *matcher) step() {
	const between = 1 << 14
	if m.steps++; m.steps < between {
		return
	}
	m.steps = 0
	stopped(m.L)
}

// find returns where the first match at or behind a place begins and ends, or -1.
func (m *matcher) find(at int) (from, to int) {
	pattern, anchored := strings.CutPrefix(m.pattern, "^")
	if m.repeats {
		pattern, anchored = m.pattern, false
	}
	for ; at <= len(m.text); at++ {
		m.captures = m.captures[:0]
		if end := m.match(at, len(m.pattern)-len(pattern)); end >= 0 {
			return at, end
		}
		if anchored {
			break
		}
	}
	return -1, -1
}

// match returns where the match of the pattern from p on ends that begins at a place, or -1.
func (m *matcher) match(at, p int) (end int) {
	if m.depth++; m.depth > maxRepeats {
		m.L.RaiseError("pattern too complex: wanted at most %d repeated parts and captures", maxRepeats)
	}
	defer func() { m.depth-- }()
	for p < len(m.pattern) {
		m.step()
		rest := m.pattern[p:]
		switch {
		case strings.HasPrefix(rest, "()"):
			return m.begin(at, p+2, position)
		case rest[0] == '(':
			return m.begin(at, p+1, open)
		case rest[0] == ')':
			return m.end(at, p+1)
		case rest == "$":
			if at == len(m.text) {
				return at
			}
			return -1
		case strings.HasPrefix(rest, "%b"):
			if at = m.balanced(at, p+2); at < 0 {
				return -1
			}
			p += 4
			continue
		case strings.HasPrefix(rest, "%f"):
			if !strings.HasPrefix(rest, "%f[") {
				m.L.RaiseError("%s", "missing '[' after '%f' in pattern")
			}
			p += 2
			next := m.item(p)
			if m.inSet(m.around(at-1), p, next) || !m.inSet(m.around(at), p, next) {
				return -1
			}
			p = next
			continue
		case len(rest) > 1 && rest[0] == '%' && '0' <= rest[1] && rest[1] <= '9':
			again := m.text[m.captured(int(rest[1])-'1'):]
			again = again[:m.captures[rest[1]-'1'].length]
			if m.steps += len(again) >> 6; !strings.HasPrefix(m.text[at:], again) {
				return -1
			}
			at, p = at+len(again), p+2
			continue
		}
		next := m.item(p)
		var repeat byte
		if next < len(m.pattern) {
			repeat = m.pattern[next]
		}
		switch repeat {
		case '*', '+':
			return m.longest(at, p, next, repeat == '+')
		case '-':
			for {
				if end := m.match(at, next+1); end >= 0 || !m.single(at, p, next) {
					return end
				}
				at++
			}
		case '?':
			if m.single(at, p, next) {
				if end := m.match(at+1, next+1); end >= 0 {
					return end
				}
			}
			p = next + 1
		default:
			if !m.single(at, p, next) {
				return -1
			}
			at, p = at+1, next
		}
	}
	return at
}

// longest takes as many of an item as the rest of the pattern lets it.
func (m *matcher) longest(at, p, next int, once bool) (end int) {
	n := 0
	for m.single(at+n, p, next) {
		n++
	}
	least := 0
	if once {
		least = 1
	}
	for ; n >= least; n-- {
		if end := m.match(at+n, next+1); end >= 0 {
			return end
		}
	}
	return -1
}

func (m *matcher) begin(at, p, length int) (end int) {
	if len(m.captures) == maxCaptures {
		m.L.RaiseError("too many captures: wanted at most %d", maxCaptures)
	}
	n := len(m.captures)
	m.captures = append(m.captures, struct{ from, length int }{at, length})
	if end = m.match(at, p); end < 0 {
		m.captures = m.captures[:n]
	}
	return end
}

func (m *matcher) end(at, p int) (end int) {
	for i := len(m.captures) - 1; i >= 0; i-- {
		if m.captures[i].length != open {
			continue
		}
		m.captures[i].length = at - m.captures[i].from
		if end = m.match(at, p); end < 0 {
			m.captures[i].length = open
		}
		return end
	}
	m.L.RaiseError("invalid pattern capture")
	return -1
}

// captured is where a capture begins to which the pattern refers.
func (m *matcher) captured(i int) int {
	if i < 0 || i >= len(m.captures) || m.captures[i].length < 0 {
		m.L.RaiseError("invalid capture index")
	}
	return m.captures[i].from
}

// balanced is the end of the text at a place that %b stands for.
func (m *matcher) balanced(at, p int) int {
	if p+1 >= len(m.pattern) {
		m.L.RaiseError("%s", "malformed pattern (missing arguments to '%b')")
	}
	if at >= len(m.text) || m.text[at] != m.pattern[p] {
		return -1
	}
	inside := 1
	for i := at + 1; i < len(m.text); i++ {
		m.step()
		switch m.text[i] {
		case m.pattern[p+1]:
			if inside--; inside == 0 {
				return i + 1
			}
		case m.pattern[p]:
			inside++
		}
	}
	return -1
}

// item is the end of the single character, class or set at p.
func (m *matcher) item(p int) (next int) {
	switch m.pattern[p] {
	case '%':
		if p+1 == len(m.pattern) {
			m.L.RaiseError("%s", "malformed pattern (ends with '%')")
		}
		return p + 2
	case '[':
		p++
		if strings.HasPrefix(m.pattern[p:], "^") {
			p++
		}
		for first := true; ; first = false {
			if p >= len(m.pattern) {
				m.L.RaiseError("%s", "malformed pattern (missing ']')")
			}
			switch c := m.pattern[p]; {
			case c == ']' && !first:
				return p + 1
			case c == '%':
				p += 2
			default:
				p++
			}
		}
	}
	return p + 1
}

// single reports whether the byte at a place is one of the item from p to next.
func (m *matcher) single(at, p, next int) bool {
	m.step()
	if at >= len(m.text) {
		return false
	}
	switch c := m.text[at]; m.pattern[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pattern[p+1])
	case '[':
		return m.inSet(c, p, next)
	default:
		return m.pattern[p] == c
	}
}

// around is the byte at a place, and 0 where the text has none.
func (m *matcher) around(at int) byte {
	if at < 0 || at >= len(m.text) {
		return 0
	}
	return m.text[at]
}

// inSet reports whether a set holds a byte. It goes from p, its bracket, to next.
func (m *matcher) inSet(c byte, p, next int) bool {
	set, inverted := strings.CutPrefix(m.pattern[p+1:next-1], "^")
	m.steps += len(set)
	for i := 0; i < len(set); {
		switch {
		case set[i] == '%' && i+1 < len(set):
			if inClass(c, set[i+1]) {
				return !inverted
			}
			i += 2
		case i+2 < len(set) && set[i+1] == '-':
			if set[i] <= c && c <= set[i+2] {
				return !inverted
			}
			i += 3
		default:
			if set[i] == c {
				return !inverted
			}
			i++
		}
	}
	return inverted
}

// inClass reports whether %class stands for a byte.
func inClass(c, class byte) bool {
	letter, digit := 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9'
	var in bool
	switch class | 0x20 {
	case 'a':
		in = letter
	case 'c':
		in = c < 0x20 || c == 0x7f
	case 'd':
		in = digit
	case 'l':
		in = letter && c >= 'a'
	case 'p':
		in = 0x20 < c && c < 0x7f && !letter && !digit
	case 's':
		in = c == ' ' || '\t' <= c && c <= '\r'
	case 'u':
		in = letter && c < 'a'
	case 'w':
		in = letter || digit
	case 'x':
		in = digit || 'a' <= c|0x20 && c|0x20 <= 'f'
	case 'z':
		in = c == 0
	default:
		return c == class
	}
	return in == (class >= 'a')
}

// value is what a script gets of a capture. Of a pattern without captures the first one is the match.
func (m *matcher) value(i, from, to int) glua.LValue {
	if i == 0 && len(m.captures) == 0 {
		return glua.LString(m.text[from:to])
	}
	if i >= len(m.captures) {
		m.L.RaiseError("invalid capture index")
	}
	switch c := m.captures[i]; c.length {
	case open:
		m.L.RaiseError("unfinished capture")
		return nil
	case position:
		return glua.LNumber(c.from + 1)
	default:
		return glua.LString(m.text[c.from : c.from+c.length])
	}
}

// push pushes all captures.
func (m *matcher) push(from, to int) (values int) {
	n := max(len(m.captures), 1)
	for i := range n {
		m.L.Push(m.value(i, from, to))
	}
	return n
}

// stringFind is string.find and string.match.
func stringFind(where bool) glua.LGFunction {
	return func(L *glua.LState) int {
		text, pattern, at := L.CheckString(1), L.CheckString(2), L.OptInt(3, 1)
		switch {
		case at < 0:
			at = max(len(text)+at, 0)
		case at > 0:
			at--
		}
		if at > len(text) {
			L.Push(glua.LNil)
			return 1
		}
		if where && (glua.LVAsBool(L.Get(4)) || !strings.ContainsAny(pattern, special)) {
			from := strings.Index(text[at:], pattern)
			if from < 0 {
				L.Push(glua.LNil)
				return 1
			}
			L.Push(glua.LNumber(at + from + 1))
			L.Push(glua.LNumber(at + from + len(pattern)))
			return 2
		}
		m := newMatcher(L, text, pattern)
		from, to := m.find(at)
		switch {
		case from < 0:
			L.Push(glua.LNil)
			return 1
		case !where:
			return m.push(from, to)
		}
		L.Push(glua.LNumber(from + 1))
		L.Push(glua.LNumber(to))
		if len(m.captures) == 0 {
			return 2
		}
		return 2 + m.push(from, to)
	}
}

// stringGmatch is string.gmatch, which looks for a match when it is asked for one.
func stringGmatch(L *glua.LState) int {
	text, pattern, at := L.CheckString(1), L.CheckString(2), 0
	newMatcher(L, text, pattern) // for its error, here
	L.Push(L.NewFunction(func(L *glua.LState) int {
		m := newMatcher(L, text, pattern)
		m.repeats = true
		from, to := m.find(at)
		if from < 0 {
			at = len(text) + 1
			return 0
		}
		at = max(to, from+1)
		return m.push(from, to)
	}))
	return 1
}

// stringGsub is string.gsub.
func stringGsub(L *glua.LState) int {
	text, pattern, with := L.CheckString(1), L.CheckString(2), L.Get(3)
	switch with.Type() {
	case glua.LTString, glua.LTNumber, glua.LTTable, glua.LTFunction:
	default:
		L.ArgError(3, fmt.Sprintf("string, function or table expected, got %v", with.Type()))
	}
	most := L.OptInt(4, len(text)+1)
	m := newMatcher(L, text, pattern)
	var b strings.Builder
	add := func(s string) {
		refuseLong(L, "string.gsub", b.Len()+len(s))
		b.WriteString(s)
	}
	n, copied := 0, 0
	for at := 0; n < most; n++ {
		from, to := m.find(at)
		if from < 0 {
			break
		}
		add(text[copied:from])
		m.replace(with, from, to, add)
		copied = to
		if at = max(to, from+1); strings.HasPrefix(pattern, "^") {
			n++
			break
		}
	}
	add(text[copied:])
	L.Push(glua.LString(b.String()))
	L.Push(glua.LNumber(n))
	return 2
}

// replace adds what comes in the place of a match.
func (m *matcher) replace(with glua.LValue, from, to int, add func(string)) {
	v := with
	switch with.Type() {
	case glua.LTTable:
		v = m.L.GetTable(with, m.value(0, from, to))
	case glua.LTFunction:
		m.L.Push(with)
		m.L.Call(m.push(from, to), 1)
		v = m.L.Get(-1)
		m.L.Pop(1)
	default:
		text := glua.LVAsString(with)
		for {
			before, rest, found := strings.Cut(text, "%")
			add(before)
			switch {
			case !found:
				return
			case rest == "":
				m.L.RaiseError("%s", "invalid use of '%' in what string.gsub puts in")
			case rest[0] == '0':
				add(m.text[from:to])
			case '1' <= rest[0] && rest[0] <= '9':
				add(glua.LVAsString(m.value(int(rest[0]-'1'), from, to)))
			default:
				add(rest[:1])
			}
			text = rest[1:]
		}
	}
	switch {
	case glua.LVIsFalse(v):
		add(m.text[from:to])
	case glua.LVCanConvToString(v):
		add(glua.LVAsString(v))
	default:
		m.L.RaiseError("string.gsub: wanted a string or a number in the place of a match, got a %v", v.Type())
	}
}
