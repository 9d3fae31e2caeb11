package pattern

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"perigee/internal/kit/fuzztest"
)

// answer is what Find says, in short: the match, the captures and the positions, or the error.
func answer(text, pattern string, from int) string {
	match, captures, ok, err := New(text, pattern, nil).Find(from, true)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case !ok:
		return "nil"
	}
	parts := []string{fmt.Sprintf("%d,%d", match.Start+1, match.Start+match.Len)}
	for _, c := range captures {
		if c.Len == Position {
			parts = append(parts, fmt.Sprint(c.Start+1))
		} else {
			parts = append(parts, c.in(text))
		}
	}
	return strings.Join(parts, "|")
}

// The answers are those of Lua 5.1: places count from 1, then come the captures.
func TestKnownAnswers(t *testing.T) {
	for _, c := range []struct{ text, pattern, want string }{
		{"", "", "1,0"}, {"abc", "", "1,0"}, {"abc", "b", "2,2"}, {"abc", "^b", "nil"}, {"abc", "^a", "1,1"},
		{"abc", "c$", "3,3"}, {"abc", "b$", "nil"}, {"a$c", "$c", "2,3"}, {"a^c", "a^c", "1,3"}, {"", "^$", "1,0"}, {"a", "^$", "nil"},
		// one of several
		{"hello 123", "%d+", "7,9"}, {"hello", "l*", "1,0"}, {"hello", "l+", "3,4"}, {"hello", "l-o", "3,5"}, {"hello", "he?l", "1,3"},
		{"hllo", "he?l", "1,2"}, {"aaa", "a-", "1,0"}, {"aaa", "^a-$", "1,3"}, {"aXb", "%u", "2,2"}, {"aaab", "a*ab", "1,4"},
		{"a.b", "%.", "2,2"}, {"a%b", "%%", "2,2"}, {"x*", "%*", "2,2"}, {"*a", "*", "1,1"}, {"a-", "a%-", "1,2"}, {"]", "]", "1,1"},
		// classes
		{"\x00\x1f\x7f a", "%C", "4,4"}, {"aZ0_", "%W", "4,4"}, {"_!", "%p+", "1,2"}, {"\v\f\r\n\t x", "%S", "7,7"}, {"gGfF09", "%x+", "3,6"},
		{"xyz09", "%X+", "1,3"}, {"aB", "%L", "2,2"}, {"Ab", "%U", "2,2"}, {"1a", "%D", "2,2"}, {"1a", "%A", "1,1"}, {"a\x00b", "%z", "2,2"},
		{"\x00a", "%Z", "2,2"}, {"\xe4a", "%a", "2,2"}, {"\xe4", "%w", "nil"}, {"ag", "%g", "2,2"}, {"aQ", "%Q", "2,2"}, {"a]", "%]", "2,2"},
		{"a\x40b", "%\x40", "2,2"}, {"a\x00b", "a\x00b", "1,3"},
		// sets
		{"abc", "[b-c]+", "2,3"}, {"abc", "[^a]", "2,2"}, {"a]b", "[]]", "2,2"}, {"a]b", "[^]]+", "1,1"}, {"a-b", "[a-]+", "1,2"}, {"a-b", "[-a]+", "1,2"},
		{"a-z", "[a%-z]+", "1,3"}, {"a^b", "[a^]+", "1,2"}, {"x]y", "[%]]", "2,2"}, {"5", "[%a%d]", "1,1"}, {"%", "[%%]", "1,1"}, {"b", "[%a-z]", "1,1"},
		{"-", "[%a-z]", "1,1"}, {"b", "[z-a]", "nil"}, {"\xff", "[\x80-\xff]", "1,1"}, {"^", "[%^x]", "1,1"}, {"a", "[^%s]", "1,1"}, {"[x]", "[[]", "1,1"},
		// captures
		{"key = val", "^(%w+)%s*=%s*(%w+)$", "1,9|key|val"}, {"hello", "()ll()", "3,4|3|5"}, {"hello", "(h)(.)(%2*)", "nil"}, {"hee*o", "(h)(.)(%2*)", "1,4|h|e|e*"}, {"abab", "(ab)%1", "1,4|ab"},
		{"abcabd", "(ab.)%1", "nil"}, {"xaax", "(a)%1", "2,3|a"}, {"abc", "((a)(b))", "1,2|ab|a|b"}, {"x", "()%1", "1,0|1"}, {`"it's"`, `(["'])(.-)%1`, `1,6|"|it's`},
		{"aaab", "^(a*)(a)b", "1,4|aa|a"}, {"ab", "(a?)(b?)(c?)", "1,2|a|b|"}, {"abc", "(a*(.)%w(%s*))", "1,3|abc|b|"},
		{"THE (quick) fox", "%((%a+)%)", "5,11|quick"}, {"aab", "(a)(a?)%2b", "2,3|a|"},
		// %b, %f
		{"f(a(b)c)d", "%b()", "2,8"}, {"((a)", "%b()", "2,4"}, {"(a", "%b()", "nil"}, {"xx", "%bxx", "1,2"}, {"[[x]]", "^%b[]$", "1,5"}, {"", "%b()", "nil"},
		{"THE (quick) fox", "%f[%a]%a+%f[%A]", "1,3"}, {"(quick)", "%f[%a]%a+", "2,6"}, {"abc", "%f[%z]", "4,3"}, {"abc", "c%f[%z]", "3,3"}, {"a b", "%f[b]", "3,2"},
		{"aa", "a%f[a]a", "nil"}, {"x1", "%f[%d]%d$", "2,2"}, {"", "%f[%a]", "nil"}, {"ab", "%f[^%z]", "1,0"}, {"", "%f[%z]", "nil"}, {"ab", "b%f[%A]", "2,2"},
		// malformed ones
		{"abc", "%", "error: malformed pattern (ends with %)"}, {"abc", "a%", "error: malformed pattern (ends with %)"}, {"xyz", "a%", "nil"},
		{"abc", "[a", "error: malformed pattern (missing ])"}, {"abc", "[]", "error: malformed pattern (missing ])"}, {"abc", "[^]", "error: malformed pattern (missing ])"},
		{"abc", "[a%", "error: malformed pattern (missing ])"}, {"abc", "[a%]", "error: malformed pattern (missing ])"}, {"abc", "[", "error: malformed pattern (missing ])"},
		{"a(b)", "%b(", "error: malformed pattern (%b without two letters behind it)"}, {"abc", "%b", "error: malformed pattern (%b without two letters behind it)"},
		{"abc", "%f", "error: malformed pattern (%f without a set [...] behind it)"}, {"abc", "%fa", "error: malformed pattern (%f without a set [...] behind it)"},
		{"abc", "%f[a", "error: malformed pattern (missing ])"}, {"abc", "(a", "error: unfinished capture"}, {"abc", "a)", "error: invalid pattern capture"},
		{"abc", "%1", "error: invalid capture index %1"}, {"abc", "(a)%2", "error: invalid capture index %2"}, {"abc", "(a%1)", "error: invalid capture index %1"},
		{"abc", "(a)%0", "error: invalid capture index %0"}, {"abc", strings.Repeat("()", 33), "error: too many captures: wanted at most 32"},
		{"abc", strings.Repeat("a?", 200_000), "error: pattern too complex"},
	} {
		if strings.HasPrefix(c.want, "error: pattern too") {
			c.text = strings.Repeat("a", 200_000)
		}
		if got := answer(c.text, c.pattern, 0); got != c.want {
			t.Errorf("%.20q in %.20q: got %s, want %s", c.pattern, c.text, got, c.want)
		}
	}
	if got := answer("abcb", "b", 2); got != "4,4" {
		t.Error(got)
	}
	if got := answer("aab", "^a", 1); got != "2,2" {
		t.Error(got)
	}
}

// A pattern that goes back again and again can be ended.
func TestSearchesCanBeEnded(t *testing.T) {
	late := errors.New("too late")
	asked := 0
	m := New(strings.Repeat("a", 5000), strings.Repeat("(a-)", 20)+"b", func() error {
		if asked++; asked == 3 {
			return late
		}
		return nil
	})
	if _, _, _, err := m.Find(0, true); !errors.Is(err, late) {
		t.Fatal(err)
	}
}

func FuzzFind(f *testing.F) {
	f.Add([]byte("%f[%a]%a+()(x-)%1%b()[^]a-z%s]*$THE (quick) fox"))
	fuzztest.Run(f, []string{"%", "%b", "%f", "[", "]", "[^", "(", ")", "()", "%1", "-", "*", "+", "?", ".", "$", "^", "a", "b", "z-", "\x00"},
		func(t *testing.T, data []byte) {
			pattern, text := string(data[:len(data)/2]), string(data[len(data)/2:])
			steps := 0
			late := errors.New("late")
			m := New(text, pattern, func() error {
				if steps++; steps > 20 {
					return late
				}
				return nil
			})
			match, captures, ok, err := m.Find(0, true)
			if err != nil || !ok {
				return
			}
			for _, c := range append(captures, match) {
				if c.Start < 0 || c.Len < Position || c.Start+c.Len > len(text) {
					t.Fatalf("%q in %q: %v", pattern, text, c)
				}
			}
		})
}
