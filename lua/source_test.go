package lua

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
)

// Scenarios that would overflow Go's stack, which ends the process, or fill the memory are refused.
func TestSourceBombs(t *testing.T) {
	if os.Getenv("PERIGEE_TEST_BOMBS") == "" {
		alone(t)
		return
	}
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
		"a huge text":                    {`local x = ("x"):rep(2^31)`, "string.rep would make a text of more than 67108864 bytes"},
		"a huge format":                  {`local x = ("%s"):rep(3):format(("x"):rep(2^25), ("x"):rep(2^25), "x")`, "string.format would make a text of more than"},
		"wide formats":                   {`local x = ("%999999d"):rep(1000):format()`, "a width and a precision of two digits at most, got %999"},
		"a format that counts":           {`local x = ("%[1]s"):rep(1000):format(("x"):rep(2^20))`, "with a width and a precision of two digits at most, got %["},
		"a format of a long word":        {`local t = setmetatable({}, { __tostring = function() return ("x"):rep(2^25) end }) local x = ("%s%s%s"):format(t, t, t)`, "string.format would make a text of more than"},
		"a format of a table":            {`local x = ("%d"):format({ ("x"):rep(2^20) })`, "number expected, got table"},
		"huge replacements":              {`local x = ("x"):rep(2^15):gsub("x", ("y"):rep(2^15))`, "string.gsub would make a text of more than"},
		"replacements by themselves":     {`local x = ("x"):rep(2^14):gsub(".*", ("%0"):rep(2^14))`, "string.gsub would make a text of more than"},
		"replacements by a function":     {`local x = ("x"):rep(2^10):gsub("x", function() return ("y"):rep(2^20) end)`, "string.gsub would make a text of more than"},
		"replacements by a table":        {`local x = ("x"):rep(2^10):gsub("x", { x = ("y"):rep(2^20) })`, "string.gsub would make a text of more than"},
		"huge lists":                     {`local t, s = {}, ("x"):rep(2^20) for i = 1, 2^10 do t[i] = s end local x = table.concat(t)`, "table.concat would make a text of more than"},
		"huge separators":                {`local t = {} for i = 1, 2^10 do t[i] = i end local x = table.concat(t, ("x"):rep(2^20))`, "table.concat would make a text of more than"},
		"doubling":                       {`local s = "x" while true do s = s .. s end`, "b.lua:1: .. would make a text of more than"},
		"a chain":                        {`local s = ("x"):rep(2^25) return (s .. s) .. 1 .. s`, "b.lua:1: .. would make a text of more than"},
		"doubling by load":               {`local s = "x" local f = loadstring("local s = ... return s .. s", "l.lua") while true do s = f(s) end`, "l.lua:1: .. would make a text of more than"},
		"arguments":                      {`local x = { unpack({}, 1, 2^30) }`, "registry overflow"},
		"brackets of patterns":           {`local x = ("x"):find(("("):rep(2500000))`, "b.lua:1: wanted a pattern of at most 16384 bytes, got 2500000"},
		"captures":                       {`local x = ("x"):gsub(("("):rep(33), "")`, "b.lua:1: too many captures: wanted at most 32"},
		"captures of gmatch":             {`for x in ("x"):gmatch(("("):rep(16000)) do end`, "b.lua:1: too many captures: wanted at most 32"},
		"repeated parts":                 {`local x = ("x"):match(("y?"):rep(1000) .. ("x-"):rep(201))`, "b.lua:1: pattern too complex: wanted at most 200"},
		"a long about":                   {`return { about = ("x"):rep(2^18 + 1), run = print }`, "b.lua: about, options and metrics have 262145 letters, wanted at most 262144"},
		"long helps":                     {`local o = {} for i = 1, 100 do o[i] = options.int { "o" .. i, 1, ("x"):rep(2^12) } end return { options = o, run = print }`, "b.lua: options: they have more than 262144 letters"},
		"a long default":                 {`return { options = { options.string { "o", ("x"):rep(2^20), "" } }, run = print }`, "b.lua: options: element 1: it has more than 262144 letters"},
		"many choices":                   {`local c = {} for i = 1, 2^17 do c[i] = "c" .. i end return { options = { options.enum { "o", "c1", "", choices = c } }, run = print }`, "b.lua: options: element 1: it has more than 262144 letters"},
		"many choices of many":           {`local c, o = {}, {} for i = 1, 2^17 do c[i] = "" end for i = 1, 1000 do o[i] = options.enum { "o" .. i, "", "", choices = c } end return { options = o, run = print }`, "b.lua: options: they have more than 262144 letters"},
		"choices behind a long list":     {`local c = {} for i = 1, 2^22 do c[i] = "" end for i = 2^22, 2^17, -1 do c[i] = nil end return { options = { options.enum { "o", "x", "", choices = c } }, run = print }`, "b.lua: options: element 1: --o is x, want one of"},
		"a default that is a table":      {`local t = { 1 } for i = 1, 22 do t = { t, t } end return { options = { options.string { "o", t, "" } }, run = print }`, "b.lua: options: element 1: the default of --o is a table, want a number, a text, or true or false"},
		"a default that is a matrix":     {`return { options = { options.string { "o", matrix.new(2000), "" } }, run = print }`, "b.lua: options: element 1: the default of --o is a userdata"},
		"a long name":                    {`return { options = { options.int { ("\0"):rep(2^26) } }, run = print }`, "b.lua: options: element 1: it has more than 262144 letters"},
		"a long field":                   {`return { [("\0"):rep(2^26)] = 1, run = print }`, `has an unknown field "\x00\x00`},
		"a long number of ranks":         {`return { ranks = ("\0"):rep(2^26), run = print }`, "...\" (67108864 bytes), want a number or a function"},
		"a long name of a metric":        {`return { metrics = { { ("a"):rep(2^26) } }, run = print }`, "...\" (67108864 bytes), want at most 512 letters"},
		"a long error":                   {`error(("\0"):rep(2^26))`, "b.lua:1: \x00"},
		"a long list":                    {"return {" + strings.Repeat("1,", 511*50) + "1}", "b.lua:1: wanted at most 25550 elements in the text of a list, got 25551"},
		"a long loop":                    {"local function f() end\nfor i = 1, 2 do " + strings.Repeat("f{} ", 60000) + "end return {}", "b.lua:1: a function has"},
		"many variables around":          {manyUpvalues(), "variables of the functions around it, wanted at most 255"},
		"long names of files":            {`local s = ("x"):rep(2^26) matrix.load_all { s, s, s, s, s, s, s, s }`, "and 7 other files ("},
		"long values without a world":    {`local s = ("x"):rep(2^26) world.all_gather { s, s, s, s, s, s, s, s }`, "b.lua:1: there is no world yet"},
		"long metrics":                   {`return { metrics = { { "m", ("x"):rep(2^20) } }, run = print }`, "b.lua: about, options and metrics have"},
		"a far key":                      {`local t = {} t[67108863] = 1 t[2 ^ 20] = 1 error(#t)`, "1048576"},
		"many far keys":                  {`local t = {} for i = 1, 100 do t[i] = {} t[i][2 ^ 21] = 1 end`, "the top level has filled more than 320 MiB of memory"},
		"a huge matrix":                  {`local m = matrix.random { density = 1, ranks = 8000 }`, "b.lua:1: wanted a matrix of at most 4194304 cells at the top level, got about 64000000"},
		"a matrix of all to all":         {`local m = matrix.all_to_all { bytes = 1, ranks = 8000 }`, "b.lua:1: wanted a matrix of at most 4194304 cells at the top level"},
		"an error that is a number":      {`error(7)`, "b.lua: error was called with 7"},
		"an error that is a table":       {`error({})`, "b.lua: error was called with a table"},
		"many matches":                   {`local n = 0 for _ in ("x"):rep(2^24):gmatch("()()()()()()()()") do n = n + 1 if n == 1e6 then error("gone on") end end`, "gone on"},
		"many replacements":              {`local s, n = ("x"):rep(2^22):gsub("x", "yy") error(#s .. " " .. n)`, "8388608 4194304"},
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
	checkPeak(t)
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
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// alone runs this test again in a process that does nothing else, and bounds its memory.
func alone(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "PERIGEE_TEST_BOMBS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// checkPeak bounds the memory that this process has had at most.
func checkPeak(t *testing.T) {
	info, _ := debug.ReadBuildInfo()
	race := info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
	status, err := os.ReadFile("/proc/self/status")
	_, peak, ok := strings.Cut(string(status), "VmHWM:")
	var kib int
	if _, scan := fmt.Sscan(peak, &kib); err != nil || !ok || scan != nil {
		t.Fatalf("no peak in %s, %v", status, err)
	}
	if most := 512 << 10; kib > most && !race {
		t.Errorf("%d MB taken", kib>>10)
	}
}

// A library function that does not end keeps no command from ending.
func TestEndlessLibraryFunction(t *testing.T) {
	r := newRuntime(io.Discard)
	ends, ended := make(chan struct{}), make(chan struct{})
	r.L.SetGlobal("endless", r.L.NewFunction(func(*glua.LState) int {
		<-ends
		close(ended)
		return 0
	}))
	err := r.load("b.lua", `endless() return { run = print }`, limits{time.Millisecond, 1 << 30})
	if fault.KindOf(err) != fault.Script || !strings.Contains(err.Error(), "b.lua: the top level has not ended after 1ms") || !r.left {
		t.Errorf("got %v; left to itself: %v", err, r.left)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	close(ends)
	<-ended
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}

// TestRanksAreBounded: the function ranks runs in the launcher, where nothing else ends it.
func TestRanksAreBounded(t *testing.T) {
	before := asking
	defer func() { asking = before }()
	asking = limits{time.Hour, 64 << 20}
	for source, want := range map[string]string{
		`return { run = print, ranks = function() local t = {} while true do t[#t + 1] = ("x"):rep(2^20) .. #t end end }`: "b.lua: the function ranks has filled more than 64 MiB of memory",
		`return { run = print, ranks = function() error("no", 0) end }`:                                                   "no",
	} {
		r, err := Load("b.lua", source, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Ranks(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		r.Close()
	}
	asking = limits{time.Millisecond, 1 << 40}
	r, err := Load("b.lua", `return { run = print, ranks = function() while true do end end }`, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Ranks(nil); fault.KindOf(err) != fault.Script || !strings.Contains(err.Error(), "the function ranks has not ended after 1ms") {
		t.Errorf("got %v", err)
	}
}
