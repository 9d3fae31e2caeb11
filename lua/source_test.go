package lua

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"perigee/internal/fault"
)

// Scenarios that would overflow Go's stack, which ends the process, or fill the memory are refused.
func TestSourceBombs(t *testing.T) {
	const mega = MaxSource
	fill := func(open, close string) string {
		n := (mega - 100) / (len(open) + len(close))
		return "local x = " + strings.Repeat(open, n) + "1" + strings.Repeat(close, n) + "\nreturn { run = print }"
	}
	const deep = "levels of expressions and statements inside each other, got more"
	for name, c := range map[string]struct{ source, want string }{
		"too long":       {strings.Repeat(" ", mega) + "return {}", "b.lua: wanted at most 256 KiB of text, got 262 kB"},
		"lengths":        {fill("#", ""), "b.lua:1: wanted at most 1000 " + deep},
		"nots":           {fill("not ", ""), deep},
		"minuses":        {fill("- ", ""), deep},
		"tables":         {fill("{", "}"), deep},
		"brackets":       {fill("(", ")"), deep},
		"keys":           {fill("{[1]=", "}"), deep},
		"indices":        {fill("x[", "]"), deep},
		"calls":          {fill("f(", ")"), deep},
		"functions":      {fill("function() return ", " end"), deep},
		"sums":           {fill("1+", ""), deep},
		"texts":          {fill("''..", ""), deep},
		"powers":         {fill("2^", ""), deep},
		"blocks":         {strings.Repeat("do ", mega/8) + strings.Repeat("end ", mega/8) + "return {}", deep},
		"branches":       {"if x then " + strings.Repeat("elseif x then ", mega/16) + "end return {}", deep},
		"by load":        {`local f, e = loadstring("return " .. ("#"):rep(5000)) error(e)`, deep},
		"by load pieces": {`local n = 0 local f, e = load(function() n = n + 1 if n == 1 then return "return " end if n < 5000 then return "#" end end) error(e)`, deep},
		"coroutines": {`local function f(n) return coroutine.wrap(function() return f(n + 1) end)() end f(0)`,
			"coroutines resume each other more than 190 deep"},
		"resumed coroutines": {`local function f() local ok, e = coroutine.resume(coroutine.create(f)) if not ok then error(e, 0) end end f()`,
			"coroutines resume each other more than 190 deep"},
		"functions that call themselves": {`local function f() return 1 + f() end f()`, "stack overflow"},
		"metamethods":                    {`local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x`, "stack overflow"},
		"a huge text":                    {`local x = ("x"):rep(2^31)`, "string.rep would make a text of more than 268435456 bytes"},
		"a pattern":                      {`local x = (("a"):rep(3e6)):find(".*b") `, "pattern/input too complex"},
	} {
		r, err := Load("b.lua", c.source, io.Discard)
		if err == nil {
			r.Close()
		}
		runtime.GC()
		if fault.KindOf(err) != fault.Script || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.300v, want %s", name, err, c.want)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d MB taken", m.Sys>>20)
	if most := uint64(512 << 20); m.Sys > most {
		t.Errorf("%d MB taken", m.Sys>>20)
	}
}

// What people write is far from the bounds.
func TestSourceOfPeople(t *testing.T) {
	source := "local t = { " + strings.Repeat("{ 1, { 2, 'x' } }, ", 20_000) + "}\n" +
		"local s = 'a'" + strings.Repeat(" .. 'b'", 100) + "\n" +
		strings.Repeat("t = t or {}\n", 5_000) + strings.Repeat("-", 3000) + "\n" +
		"local co = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end)\n" +
		"assert(co(1) == 2 and co(5) == 10)\nassert(loadstring('return 7')() == 7)\nassert(not loadstring('return return'))\n" +
		"return { run = print }"
	r, err := Load("p.lua", source, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}
