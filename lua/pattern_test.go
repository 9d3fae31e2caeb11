package lua

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
)

// The library's functions on texts do what Lua's manual says, with its errors.
func TestTextFunctions(t *testing.T) {
	r, err := Load("b.lua", `
		local function same(want, ...)
			local got = {}
			for i = 1, select("#", ...) do got[i] = tostring((select(i, ...))) end
			got = table.concat(got, "|")
			assert(got == want, "got " .. got .. ", want " .. want)
		end
		local function fails(want, f, ...)
			local ok, got = pcall(f, ...)
			assert(not ok and got:find(want, 1, true), "got " .. tostring(got) .. ", want " .. want)
		end
		same("2|3|b|3", ("abc"):find("(b)()c?"))
		same("1|0", ("abc"):find(""))
		same("4|3", ("abc"):find("", 4))
		same("nil", ("abc"):find("", 9))
		same("nil", ("abc"):find("^b"))
		same("2|2", ("abc"):find("^b", 2))
		same("3|3", ("a.c.c"):find("c", -3))
		same("2|2", ("a.c"):find(".", 1, true))
		same("2|2", ("a.c"):find("%."))
		same("THE (quick) fox", ("THE (quick) fox"):match(".*"))
		same("(quick (brown))", ("THE (quick (brown)) fox"):match("%b()"))
		same("5|9|quick", ("the quick fox"):find("%f[%w](%w+)", 2))
		same("key|value", ("  key = value "):match("^%s*(%w+)%s*=%s*(.-)%s*$"))
		same("\"", ("say \"x\""):match([[(["']).-%1]]))
		same("]-", ("a]-b"):match("[]-]+"))
		same("a^", ("xa^"):match("[a^]+"))
		same("x", ("abx"):match("[^a-c]"))
		same("-b", ("a-b"):match("[+-]%a"))
		same("nil", ("abc"):match("%d"))
		same("\0b", ("a\0b"):match("%z."))
		same("aaa|", ("aaab"):match("(a*)(a*)"))
		same("|aaa", ("aaab"):match("^(a-)(a*)b"))
		same("a|aa", ("aaab"):match("(a?)(a+)b"))
		local words = {}
		for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do words[#words + 1] = k .. v end
		for w in ("ab"):gmatch("b*") do words[#words + 1] = "<" .. w .. ">" end
		for w in ("^aab"):gmatch("^a") do words[#words + 1] = w end
		same("a1 b2 <> <b> <> ^a", table.concat(words, " "))
		same("hello hello world world|2", ("hello world"):gsub("%w+", "%0 %0"))
		same("world hello|1", ("hello world"):gsub("(%w+) (%w+)", "%2 %1"))
		same("x1bc|1", ("xabc"):gsub("()a", function(n) return n - 1 end))
		same("-a-b-|3", ("ab"):gsub("", "-"))
		same("xbc|1", ("abc"):gsub("^%w", "x"))
		same("xxc|2", ("abc"):gsub("%w", "x", 2))
		same("abc|0", ("abc"):gsub("%w", "x", 0))
		same("1b|2", ("ab"):gsub("%w", { a = 1 }))
		same("a%b|1", ("a b"):gsub(" ", "%%"))
		same("77|2", ("ab"):gsub(".", 7))
		same("ab|2", ("ab"):gsub(".", function() return false end))
		same("2", (" abc"):gsub("^( ).*", "%1"):len() + 1)
		fails("b.lua:", function() return ("x"):find("(") end)
		fails("unfinished capture", string.find, "x", "(")
		fails("invalid pattern capture", string.match, "x", "x)")
		fails("malformed pattern (ends with '%')", string.find, "x", "%")
		fails("malformed pattern (missing ']')", string.find, "x", "[%]")
		fails("malformed pattern (missing ']')", string.find, "x", "[^")
		fails("malformed pattern (missing arguments to '%b')", string.find, "x", "%b(")
		fails("missing '[' after '%f' in pattern", string.find, "x", "%fx")
		fails("invalid capture index", string.find, "x", "%1")
		fails("invalid capture index", string.find, "x", "()%1")
		fails("invalid capture index", string.gsub, "x", "x", "%2")
		fails("invalid use of '%'", string.gsub, "x", "x", "%")
		fails("wanted a string or a number in the place of a match, got a table", string.gsub, "x", "x", function() return {} end)
		fails("bad argument #3 to", string.gsub, "x", "x")
		fails("bad argument #2 to", string.rep, "x")

		same("  5|-5 |005|+5|5.50|1e+02|ff|0X1F|A|50%", ("%3d|%-3d|%03d|%+i|%.2f|%.0e|%x|%#X|%c|%d%%"):format(5, -5, 5, "5", 5.5, 100, 255, 31, 65, 50))
		same("a|true|nil|2|2.5|  ab|a", ("%s|%s|%s|%s|%s|%4s|%.1s"):format("a", true, nil, 2, 2.5, "ab", "ab"))
		same("1|10000000000000000000|nan|-inf", ("%d|%d|%d|%d"):format(1.9, 1e19, 0 / 0, -1 / 0))
		same("it is 7", ("it is %s"):format(setmetatable({}, { __tostring = function() return "7" end })))
		local odd = "a\"b\\c\nd\re\0f"
		assert(loadstring("return " .. ("%q"):format(odd))() == odd)
		fails("wanted %c, %d,", string.format, "%y", 1)
		fails("got %v", string.format, "%v", 1)
		fails("got %100", string.format, "%10000d", 1)
		fails("the format ends with %-5, wanted a letter", string.format, "%-5")
		fails("no value for %d", string.format, "%d")
		fails("no value for %s", string.format, "%s%s", 1)
		fails("number expected, got string", string.format, "%d", "x")
		fails("number expected, got table", string.format, "%5.1f", {})
		fails("string expected, got nil", string.format, "%q", nil)
		fails("b.lua:", function() return ("%d"):format("x") end)

		same("a, b, 3", table.concat({ "a", "b", 3 }, ", "))
		same("bc", table.concat({ "a", "b", "c" }, "", 2))
		same("b", table.concat({ "a", "b", "c" }, "-", 2, 2))
		same("", table.concat({ "a", "b", "c" }, "-", 4))
		same("", table.concat {})
		same("a1b", table.concat({ "a", "b" }, 1))
		same("zabc", table.concat({ [0] = "z", "a", "b", "c" }, "", 0))
		fails("invalid value (nil) at index 3 in table for concat", table.concat, { 1, 2 }, ",", 1, 4)
		fails("invalid value (nil) at index 0 in table for concat", table.concat, { 1, 2 }, ",", 0)
		fails("invalid value (table) at index 2 in table for concat", table.concat, { 1, {} })
		same("", ("x"):rep(-1))
		return { run = print }`, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}

// item is a part of a pattern in Lua's and in Go's language.
type item struct{ lua, expr string }

var (
	singles = []item{{"a", "a"}, {"b", "b"}, {".", "."}, {"%d", "[0-9]"}, {"%A", "[^A-Za-z]"}, {"[ab1]", "[ab1]"}, {"[^a]", "[^a]"}, {"[a-c%s]", `[a-c\t-\r ]`},
		{"%%", "%"}, {"%.", `\.`}, {"[]]", `\]`}, {"%w", `[0-9A-Za-z]`}, {"[%W-]", `[^0-9A-Za-z]`}}
	repeats = []item{{"", ""}, {"", ""}, {"*", "*"}, {"+", "+"}, {"-", "*?"}, {"?", "?"}}
)

// FuzzPatterns makes patterns of bytes and compares what they find with Go's regular expressions, which prefer the same match. The text of the
// pattern itself is tried, too: it may be wrong, but it is found or refused.
func FuzzPatterns(f *testing.F) {
	f.Add("aab1.b a%]", "\x01\x82\x83\x14\x93\x05")
	f.Add("xaaaaaaa", "%b()(((")
	f.Add("aaaaaaaaaaaaaaaaaaaaaaaab", strings.Repeat("a?", 30)+"^")
	f.Fuzz(func(t *testing.T, text, program string) {
		if len(text) > 200 || len(program) > 100 {
			return
		}
		text = strings.Map(func(c rune) rune { return c & 0x7f }, text)
		var lua, expr strings.Builder
		lua.WriteString("^")
		expr.WriteString(`^(?s:`)
		open := 0
		for i := range min(len(program), 8) {
			c := program[i]
			if c&0x80 != 0 && open < maxCaptures {
				lua.WriteString("(")
				expr.WriteString("(")
				open++
			}
			s, r := singles[int(c&0x7f)%len(singles)], repeats[int(c&0x7f)/len(singles)%len(repeats)]
			lua.WriteString(s.lua + r.lua)
			expr.WriteString(s.expr + r.expr)
			if c&0x40 != 0 && open > 0 {
				lua.WriteString(")")
				expr.WriteString(")")
				open--
			}
		}
		lua.WriteString(strings.Repeat(")", open))
		expr.WriteString(strings.Repeat(")", open) + ")")
		var want []string
		for i, s := range regexp.MustCompile(expr.String()).FindStringSubmatch(text) {
			if i > 0 || !strings.Contains(lua.String(), "(") {
				want = append(want, s)
			}
		}
		got, err := matches(t, text, lua.String())
		if err != nil && strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
			return // Lua's search may take exponential time
		}
		if err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%q in %q: got %q, %v, want %q of %s", lua.String(), text, got, err, want, expr.String())
		}
		matches(t, text, program)
	})
}

// matches is what string.match returns.
func matches(t *testing.T, text, pattern string) (found []string, err error) {
	L := glua.NewState(glua.Options{SkipOpenLibs: true})
	defer L.Close()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	L.SetContext(ctx)
	call := func(f glua.LGFunction, args ...glua.LValue) {
		e := L.CallByParam(glua.P{Fn: L.NewFunction(f), NRet: glua.MultRet, Protect: true}, append([]glua.LValue{glua.LString(text), glua.LString(pattern)}, args...)...)
		if api, ok := errors.AsType[*glua.ApiError](e); ok && api.Type != glua.ApiErrorRun {
			t.Errorf("%q in %q: %v", pattern, text, e)
		}
		err = cmp.Or(err, e)
	}
	call(stringFind(false))
	for i := 1; i <= L.GetTop() && L.Get(i) != glua.LNil; i++ {
		found = append(found, L.Get(i).String())
	}
	call(stringFind(true))
	call(stringGsub, glua.LString("%0"))
	if L.SetTop(0); err == nil {
		call(stringGmatch)
		for next := L.Get(-1); err == nil; {
			L.SetTop(0)
			call(next.(*glua.LFunction).GFunction)
			if L.GetTop() == 0 {
				break
			}
		}
	}
	return found, err
}

// A search that takes too long ends with its script, inside of coroutines, too, and takes no memory for what it has found.
func TestEndlessSearches(t *testing.T) {
	for _, search := range []string{
		`("a"):rep(2^20):find(".*b")`, `("a"):rep(2^20):find(".-b")`, `("a"):rep(300):find("^" .. ("a-"):rep(9) .. "b")`, `("("):rep(2^20):match("%b()")`,
		`("a"):rep(2^20):gsub(".*%f[b]", "x")`, `("a"):rep(2^20):find("(.-)(.-)%1%2b")`, `("a"):rep(2^20):find("[" .. ("b"):rep(2^13) .. "]")`,
		`coroutine.wrap(function() return ("a"):rep(2^20):find(".*b") end)()`, `pcall(function() for w in ("a"):rep(2^20):gmatch("a*b") do end end)`,
	} {
		r := newRuntime(io.Discard)
		err := r.load("b.lua", "local x = "+search+" return { run = print }", limits{50 * time.Millisecond, 1 << 30})
		if fault.KindOf(err) != fault.Script || !strings.Contains(err.Error(), "b.lua: the top level has not ended after 50ms") {
			t.Errorf("%s: %v", search, err)
		}
		if r.left {
			t.Errorf("%s goes on", search)
		}
		r.Close()
	}
}
