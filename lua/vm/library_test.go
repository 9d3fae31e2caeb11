package vm

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
)

// The libraries do what Lua 5.1's do: what is wanted here is what it answers.
func TestLibrary(t *testing.T) {
	var failed strings.Builder
	v := New(&failed)
	defer v.Close()
	_, err := v.Load("b.lua", `
		local function show(...)
			local all = {}
			for i = 1, select("#", ...) do all[i] = tostring((select(i, ...))) end
			return table.concat(all, " ")
		end
		for line in ([==[
			("%x %X %o %u"):format(-1, -255, -8, -1) -> ffffffffffffffff FFFFFFFFFFFFFF01 1777777777777777777770 18446744073709551615
			("%5s|%-5s|%.2s|%5c"):format("ab", "ab", "abc", 66) ->    ab|ab   |ab|    B
			("%d %5.3d|%05d|%-05d|%+d|% d|"):format(-3.7, -7, -7, -7, 7, 7) -> -3  -007|-0007|-7   |+7| 7|
			("%#x %#X %#o %#o %#5.3o"):format(255, 255, 8, 0, 8) -> 0xff 0XFF 010 0   010
			("%g %g %g %g %#g"):format(0.1 + 0.2, 1e6, 123456, 1234567, 1) -> 0.3 1e+06 123456 1.23457e+06 1.00000
			("%e %.0e %#.0f %8.3f|%-8.1f|%+G"):format(1, 15, 3, 2.5, 2.25, 1e-10) -> 1.000000e+00 2e+01 3.    2.500|2.2     |+1E-10
			("%f %05.1f|%5e|%d"):format(1/0, -1/0, 1/0, 0/0) -> inf  -inf|  inf|nan
			("abc"):byte(), ("abc"):byte(-1) -> 97 99
			("abc"):byte() -> 97
			("abc"):byte(1, -1) -> 97 98 99
			("abc"):byte(-10, 10) -> 97 98 99
			("abc"):byte(4), ("abc"):byte(0), ("abc"):byte(3, 1) -> nil nil
			string.char(65, 0, 255) == "A\0\255" -> true
			tonumber("1e3"), tonumber("-0x10"), tonumber(" +.5 "), tonumber("0x1p4"), tonumber("5."), tonumber("010"), tonumber(7) -> 1000 -16 0.5 16 5 10 7
			tonumber(""), tonumber("1e"), tonumber("0x"), tonumber("--1"), tonumber("1_0"), tonumber("1 2"), tonumber({}), tonumber("a") -> nil nil nil nil nil nil nil nil
			tonumber("ff", 16), tonumber("-z", 36), tonumber("0x1F", 16), tonumber("8", 8), tonumber("10", 10) -> 255 -35 31 nil 10
			pcall(tonumber, "1", 99) -> false b.lua:1: bad argument #2 to (anonymous) (wanted a base from 2 to 36, got 99)
			math.mod(-5, 3), math.fmod(5, -3) -> -2 2
			(function() local t = { 1, 2, 3 } return table.remove(t, 0), table.remove(t, -1), table.remove(t, 4), #t end)() -> nil nil nil 3
			(function() local t = { 1, 2, 3 } return table.remove(t, 1), table.remove(t), #t, t[1] end)() -> 1 3 1 2
			(function() local t = { 1, 2 } table.insert(t, 2, 9) table.insert(t, 4) t[#t] = nil table.insert(t, 5) return unpack(t) end)() -> 1 9 2 5
			(function() local t = { 3, 2, 1, nil } table.sort(t) return unpack(t) end)() -> 1 2 3
			(function() local t = { "a", "b" } table.sort(t, function(a, b) return a > b end) return unpack(t) end)() -> b a
			(function() local t = { 2, 2, 1, 3 } table.sort(t, function(a, b) return a < b end) return unpack(t) end)() -> 1 2 2 3
			pcall(table.sort, { 1, "x" }) -> false b.lua:1: attempt to compare string with number
			(select(2, pcall(table.sort, { 1, 2, 3 }, function() return true end))):match("invalid order function for sorting") -> invalid order function for sorting
			(select(2, pcall(table.sort, { 1, 1, 1 }, function(a, b) return a <= b end))):match("invalid order function for sorting") -> invalid order function for sorting
			pcall(math.random, -2^63, 2^63) -> false b.lua:1: bad argument #1 to (anonymous) (wanted a number from -2^53 to 2^53, got -9.223372036854776e+18)
			pcall(math.random, 0/0) -> false b.lua:1: bad argument #1 to (anonymous) (wanted a number from -2^53 to 2^53, got NaN)
			pcall(math.random, 0) -> false b.lua:1: random: the interval from 1 to 0 is empty
			(function() local n = math.random(-2^53, 2^53) return n >= -2^53 and n <= 2^53 and math.random(3, 3) end)() -> 3
		]==]):gmatch("[^\n]+") do
			local code, want = line:match("^%s*(.-) %-> ?(.*)$")
			if code then
				local f, broken = loadstring("return " .. code, "b.lua")
				local ok, got = pcall(function() return show(f()) end)
				if got ~= want then print(code .. ": got " .. tostring(broken or got) .. ", want " .. want) end
			end
		end
	`)
	if err != nil || failed.Len() > 0 {
		t.Fatalf("%v\n%s", err, failed.String())
	}
}

// A pattern that would take years ends with the script's time.
func TestPatternsEndInTime(t *testing.T) {
	v := New(io.Discard)
	defer v.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	v.L.SetContext(ctx)
	_, err := v.Load("b.lua", `return ("a"):rep(3000):find(("(a-)"):rep(20) .. "b")`)
	if err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Fatal(err)
	}
}

// What runs as a coroutine may end with a call of yield, and be no Lua function.
func TestCoroutineBodies(t *testing.T) {
	for body, want := range map[string]string{
		`coroutine.wrap(function() return coroutine.yield(1) end)`: "1 7 dead",
		`coroutine.wrap(coroutine.yield)`:                          "nil 7 dead",
		`coroutine.wrap(function() return setmetatable({}, { __call = function() return coroutine.yield(1) end })() end)`: "1 7 dead",
		`coroutine.wrap(function() local a, b = coroutine.yield(1, 2) return a, b end)`:                                   "1 7 dead",
	} {
		v := New(io.Discard)
		got, err := v.Load("b.lua", `local f = `+body+` local a, b = (f()), (f(7)) local ok, e = pcall(f, 7)
			return tostring(a) .. " " .. tostring(b) .. " " .. tostring(e):match("dead")`)
		if err != nil || got.String() != want {
			t.Errorf("%s: %v, %v, want %s", body, got, err, want)
		}
		v.Close()
	}
	v := New(io.Discard)
	defer v.Close()
	got, err := v.Load("b.lua", `return select(2, coroutine.resume(coroutine.create(type), 7))`)
	if err != nil || got.String() != "number" {
		t.Fatalf("%v, %v", got, err)
	}
}

// A text that no machine has room for is refused with its place, and the process lives.
func TestTextWithoutRoom(t *testing.T) {
	v := New(io.Discard)
	defer v.Close()
	_, err := v.Load("b.lua", `
		assert(("ab"):rep(2) == "abab" and ("ab"):rep(-1) == "" and (""):rep(1e15) == "" and #("x"):rep(1e8) == 1e8)
		assert(not pcall(string.rep, "x", 1e300))
		return ("ab"):rep(1e15)`)
	if err == nil {
		t.Fatal("it has room")
	}
	if fault.KindOf(err) != fault.Resource || fault.HintOf(err) == "" || !strings.Contains(err.Error(), "b.lua:4: string.rep of ") {
		t.Errorf("kind %v: %v", fault.KindOf(err), err)
	}
}
