package lua

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// Scripts that the interpreter cannot run, or that describe themselves wrongly, get an error.
func TestBadScripts(t *testing.T) {
	for _, c := range map[string]struct{ source, want string }{
		"functions that call themselves": {`local function f() return 1 + f() end f()`, "stack overflow"},
		"metamethods":                    {`local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x`, "stack overflow"},
		"arguments":                      {`local x = { unpack({}, 1, 2^30) }`, "registry overflow"},
		"a default that is a table":      {`local t = { 1 } for i = 1, 22 do t = { t, t } end return { options = { options.string { "o", t, "" } }, run = print }`, "b.lua: options: element 1: the default of --o is a table, want a number, a text, or true or false"},
		"a default that is a matrix":     {`return { options = { options.string { "o", matrix.new(2000), "" } }, run = print }`, "b.lua: options: element 1: the default of --o is a userdata"},
		"a long number of ranks":         {`return { ranks = ("\0"):rep(2^26), run = print }`, "...\" (67108864 bytes)"},
		"a long name of a metric":        {`return { metrics = { { ("a"):rep(2^26) } }, run = print }`, "...\" (67108864 bytes), want at most 512 letters"},
		"a long list":                    {"return {" + strings.Repeat("1,", 511*50) + "1}", "b.lua:1: a function has a list of more than 25550 elements in its text"},
		"a long loop":                    {"local function f() end\nfor i = 1, 2 do " + strings.Repeat("f{} ", 60000) + "end return {}", "b.lua:1: a function has"},
		"many variables around":          {manyUpvalues(), "variables of the functions around it, wanted at most 255"},
		"long names of files":            {`local s = ("x"):rep(2^26) matrix.load_all { s, s, s, s, s, s, s, s }`, "and 7 other files ("},
		"long values without a world":    {`local s = ("x"):rep(2^26) world.all_gather { s, s, s, s, s, s, s, s }`, "b.lua:1: there is no world yet"},
		"an error that is a number":      {`error(7)`, "b.lua:1: error was called with 7"},
		"an error that is a table":       {`error({})`, "b.lua:1: error was called with a table"},
	} {
		r, err := Load("b.lua", c.source, io.Discard)
		if err == nil {
			r.Close()
		}
		must.Fail(t, err, fault.Script, c.want)
	}
}

// manyUpvalues is a script with a function that uses 300 variables of those around it.
func manyUpvalues() string {
	var declare [2]strings.Builder
	sum := "0"
	for f := range declare {
		for i := range 150 {
			fmt.Fprintf(&declare[f], "local v%d_%d = 1 ", f, i)
			sum += fmt.Sprintf("+v%d_%d", f, i)
		}
	}
	return declare[0].String() + "local function f() " + declare[1].String() + "return function() return " + sum + " end end error(f()())"
}

// What the text of a list may hold at most arrives whole.
func TestLongestList(t *testing.T) {
	r, err := Load("b.lua", "local t = {"+strings.Repeat("1,", 511*50)+"} assert(#t == 25550 and t[25550] == 1) return { run = print }", io.Discard)
	must.Do(t, err)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// The operator ".." does what Lua's does: it takes numbers, asks metamethods, and goes from the right to the left.
func TestConcat(t *testing.T) {
	r, err := Load("b.lua", `
		local m = {}
		m.__concat = function(a, b) return { both = (type(a) == "table" and "t" or a) .. (type(b) == "table" and "t" or b) } end
		local t = setmetatable({}, m)
		local function two() return "1", "2" end
		assert("a" .. 1 .. 2.5 .. "b" == "a12.5b" and ("x" .. two()) == "x1" and ("x" .. (two()) .. "y") == "x1y")
		assert((1 .. 2) .. 3 == "123" and #{ "a" .. "b", two() } == 3 and select("#", two() .. "a") == 1)
		assert((t .. "x").both == "tx" and ("x" .. t).both == "xt")
		assert((function(...) return "n" .. ... end)("a", "b") == "na")
		assert(select(2, pcall(function() return 1 .. nil end)) == "b.lua:10: cannot perform concat operation between number and nil")
		assert(select(2, pcall(function() return "a" .. {} .. "b" end)) == "b.lua:11: cannot perform concat operation between table and string")
		setfenv(1, {})
		local kept = "a" .. "b"
		return { run = function() end, about = kept .. "c" }`, io.Discard)
	must.Do(t, err)
	if r.About != "abc" {
		t.Errorf("got %q", r.About)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A coroutine yields from functions that Lua has called, however deep, and says so where it cannot.
func TestYields(t *testing.T) {
	const across = "b.lua:1: attempt to yield across pcall, a metamethod, an iterator, or a function that the library calls"
	for body, want := range map[string]string{
		`local function f(n) if n == 0 then return coroutine.yield(1) end local x = f(n - 1) return x end return f(200)`:                            "",
		`local x = setmetatable({}, { __call = function() return coroutine.yield(1) end })() return x`:                                              "",
		`return select(2, pcall(coroutine.yield, 1))`:                                                                                               across,
		`return select(2, pcall(function() coroutine.yield(1) end))`:                                                                                across,
		`return select(2, pcall(function() local t = setmetatable({}, { __index = coroutine.yield }) return t.x end))`:                              across,
		`local ok, e = pcall(function() local t = setmetatable({}, { __add = function() return coroutine.yield() end }) return t + 1 end) return e`: across,
		`local ok, e = pcall(table.sort, { 3, 2, 1 }, function() coroutine.yield(1) end) return e`:                                                  across,
		`local ok, e = pcall(string.gsub, "a", "a", function() coroutine.yield(1) end) return e`:                                                    across,
		`local ok, e = pcall(function() for x in coroutine.yield do end end) return e`:                                                              across,
		`local ok, e = pcall(tostring, setmetatable({}, { __tostring = function() coroutine.yield(1) end })) return e`:                              across,
	} {
		for _, how := range []string{
			"coroutine.wrap(function() %s end)", "(function() local co = coroutine.create(function() %s end) return function(x) return select(2, coroutine.resume(co, x)) end end)()",
		} {
			r, err := Load("b.lua", "local f = "+fmt.Sprintf(how, body)+" local a, b = f() if a == 1 then b = f(7) else b = a end return { run = print, about = tostring(b) }", io.Discard)
			if want := cmp.Or(want, "7"); err != nil || !strings.Contains(r.About, want) {
				t.Errorf("%s: %v, %v, want %s", body, r, err, want)
			}
			if err == nil {
				r.Close()
			}
		}
	}
	if _, err := Load("b.lua", "coroutine.yield(1)", io.Discard); err == nil || err.Error() != "b.lua:1: can not yield from outside of a coroutine" {
		t.Errorf("outside: %v", err)
	}
}

// What people write is far from the bounds.
func TestSourceOfPeople(t *testing.T) {
	source := "local t = { " + strings.Repeat("{ 1, { 2, 'x' } }, ", 5_000) + "}\n" +
		"local s = 'a'" + strings.Repeat(" .. 'b'", 100) + "\n" +
		strings.Repeat("t = t or {}\n", 5_000) + strings.Repeat("-", 3000) + "\n" +
		"local co = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end)\n" +
		"assert(co(1) == 2 and co(5) == 10)\nassert(loadstring('return 7')() == 7)\nassert(not loadstring('return return'))\n" +
		"return { run = print }"
	r, err := Load("p.lua", source, io.Discard)
	must.Do(t, err)
	r.Close()
}
