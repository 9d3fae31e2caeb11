package vm

import (
	"strings"
	"testing"
)

// The library's functions on texts do what Lua's manual says, with its errors.
func TestTextFunctions(t *testing.T) {
	var failed strings.Builder
	v := New(&failed)
	defer v.Close()
	_, err := v.Load("b.lua", `
		local function same(want, ...)
			local got = {}
			for i = 1, select("#", ...) do got[i] = tostring((select(i, ...))) end
			got = table.concat(got, "|")
			if got ~= want then print("got " .. got .. ", want " .. want) end
		end
		local function fails(want, f, ...)
			local ok, got = pcall(f, ...)
			if ok or not got:find(want, 1, true) then print("got " .. tostring(got) .. ", want " .. want) end
		end
		same("2|3|b|3", ("abc"):find("(b)()c?"))
		same("1|0", ("abc"):find(""))
		same("nil", ("abc"):find("^b"))
		same("2|2", ("abc"):find("^b", 2))
		same("3|3", ("a.c.c"):find("c", -3))
		same("2|2", ("a.c"):find(".", 1, true))
		same("2|2", ("a.c"):find("%."))
		same("THE (quick) fox", ("THE (quick) fox"):match(".*"))
		same("(quick (brown))", ("THE (quick (brown)) fox"):match("%b()"))
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
		same("a1 b2 <> <b> <>", table.concat(words, " "))
		same("hello hello world world|2", ("hello world"):gsub("%w+", "%0 %0"))
		same("world hello|1", ("hello world"):gsub("(%w+) (%w+)", "%2 %1"))
		same("x1bc|1", ("xabc"):gsub("()a", function(n) return n - 1 end))
		same("-a-b-|3", ("ab"):gsub("", "-"))
		same("xbc|1", ("abc"):gsub("^%w", "x"))
		same("xxc|2", ("abc"):gsub("%w", "x", 2))
		same("1b|2", ("ab"):gsub("%w", { a = 1 }))
		same("a%b|1", ("a b"):gsub(" ", "%%"))
		same("ab|2", ("ab"):gsub(".", function() return false end))
		same("2", (" abc"):gsub("^( ).*", "%1"):len() + 1)
		same("W (W) W|3", ("THE (quick) fox"):gsub("%f[%a]%a+", "W"))
		same("THE,quick,fox,", (function() local all = "" for w in ("THE (quick) fox"):gmatch("%f[%a]%a+") do all = all .. w .. "," end return all end)())
		same("4|3", ("abc"):find("", 10))
		same("nil", ("abc"):find("c", 10))
		same("3|3|3", ("abc"):find("()c", -1))
		same("nil", ("abc"):match("x"))
		same("a.|b.", (function() local all = {} for a in ("a.b."):gmatch("%w%.") do all[#all + 1] = a end return unpack(all) end)())
		same("^a", ("a^a"):gmatch("^a")())
		same("[h] [w]|2", ("hello world"):gsub("(%w)%w*", "[%1]"))
		same("<hello>|1", ("hello"):gsub("%w+", "<%1>"))
		same("2bc|1", ("abc"):gsub("a()", "%1"))
		same("a.c|1", ("abc"):gsub("b", "%."))
		same("77|2", ("ab"):gsub("%w", 7))
		same("Xb|2", ("ab"):gsub("%w", setmetatable({}, { __index = function(_, k) return k == "a" and "X" end })))
		same("abc|0", ("abc"):gsub("%w", "x", 0))
		same("a1b|1", ("ab"):gsub("()b", function(n) return n - 1 .. "b" end))
		same("abc|1", ("abc"):gsub("^", ""))
		fails("wanted a string, a function or a table, got true", string.gsub, "abc", "b", true)
		fails("invalid replacement value: wanted a string, a number, false or nil, got true", string.gsub, "abc", "b", function() return true end)
		fails("got a table", string.gsub, "abc", "b", { b = {} })
		fails("invalid replacement: it ends with %", string.gsub, "abc", "b", "%")
		fails("malformed pattern (ends with %)", string.find, "abc", "%")
		fails("malformed pattern", string.find, "a(b)", "%b(")
		fails("malformed pattern", string.match, "abc", "%f")
		fails("malformed pattern (missing ])", string.gsub, "abc", "[a", "")
		fails("b.lua:", function() for _ in ("abc"):gmatch("%") do end end)
		fails("b.lua:", function() return ("x"):find("(") end)
		fails("unfinished capture", string.find, "x", "(")
		fails("invalid capture index", string.find, "x", "%1")
		fails("invalid capture index", string.gsub, "x", "x", "%2")
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
		same("zabc", table.concat({ [0] = "z", "a", "b", "c" }, "", 0))
		fails("invalid value (nil) at index 3 in table for concat", table.concat, { 1, 2 }, ",", 1, 4)
		fails("invalid value (nil) at index 0 in table for concat", table.concat, { 1, 2 }, ",", 0)
		fails("invalid value (table) at index 2 in table for concat", table.concat, { 1, {} })
		same("", ("x"):rep(-1))
	`)
	if err != nil || failed.Len() > 0 {
		t.Fatalf("%v\n%s", err, failed.String())
	}
}
