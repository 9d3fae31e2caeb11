package vm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/memory"
	"perigee/internal/kit/size"
)

// mendLibrary puts functions in the place of the interpreter's whose results are not those of Lua 5.1.
func mendLibrary(L *glua.LState) {
	library := func(name string) *glua.LTable { return L.GetGlobal(name).(*glua.LTable) }
	own := func(t *glua.LTable, name string) glua.LGFunction {
		return t.RawGetString(name).(*glua.LFunction).GFunction
	}
	into := func(t *glua.LTable, name string, f glua.LGFunction) { t.RawSetString(name, L.NewFunction(f)) }
	into(library("_G"), "tonumber", toNumber)
	text := library(glua.StringLibName)
	into(text, "byte", stringByte)
	into(text, "format", stringFormat)
	into(text, "find", stringFind)
	into(text, "match", stringMatch)
	into(text, "gmatch", stringGmatch)
	into(text, "gfind", stringGmatch) // its old name
	into(text, "gsub", stringGsub)
	into(library(glua.TabLibName), "concat", tableConcat)
	into(library(glua.TabLibName), "remove", tableRemove)
	into(library(glua.TabLibName), "sort", tableSort)
	into(library(glua.MathLibName), "mod", own(library(glua.MathLibName), "fmod")) // its old name
	coroutines := library(glua.CoroutineLibName)
	around := coroutineBody(L)
	for _, name := range []string{"create", "wrap"} {
		begin := own(coroutines, name)
		into(coroutines, name, func(L *glua.LState) int {
			around(L)
			return begin(L)
		})
	}
	yield := own(coroutines, "yield")
	into(coroutines, "yield", func(L *glua.LState) int {
		if L.Parent != nil && calledByGo() {
			L.RaiseError("attempt to yield across pcall, a metamethod, an iterator, or a function that the library calls")
		}
		return yield(L)
	})
}

// toNumber is tonumber. The interpreter's knows no exponents without a point.
func toNumber(L *glua.LState) int {
	v, base := L.CheckAny(1), L.OptInt(2, 10)
	if base < 2 || base > 36 {
		L.ArgError(2, fmt.Sprintf("wanted a base from 2 to 36, got %d", base))
	}
	text, ok := v.(glua.LString)
	switch {
	case base == 10 && !ok:
		if v.Type() != glua.LTNumber {
			v = glua.LNil
		}
	case base == 10:
		v = numberFromText(string(text))
	default:
		digits := strings.ToLower(strings.TrimSpace(L.CheckString(1)))
		if base == 16 {
			digits = strings.TrimPrefix(digits, "0x")
		}
		v = glua.LNil
		if n, err := strconv.ParseInt(digits, base, 64); err == nil {
			v = glua.LNumber(n)
		}
	}
	L.Push(v)
	return 1
}

// numberFromText is the number that a text stands for, or nil.
func numberFromText(text string) glua.LValue {
	text = strings.Trim(text, " \t\n\v\f\r")
	digits := strings.ToLower(strings.TrimLeft(text, "+-"))
	// strconv knows more numbers, such as inf.
	is := len(text)-len(digits) <= 1 && digits != "" && strings.Trim(digits[:1], ".0123456789") == ""
	if !is || strings.Contains(digits, "_") {
		return glua.LNil
	}
	if strings.HasPrefix(digits, "0x") && !strings.Contains(digits, "p") {
		text += "p0"
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return glua.LNil
	}
	return glua.LNumber(n)
}

// stringByte is string.byte. Without a second place the interpreter's returns all bytes.
func stringByte(L *glua.LState) int {
	text, from := L.CheckString(1), L.OptInt(2, 1)
	to := L.OptInt(3, from)
	if from < 0 {
		from += len(text) + 1
	}
	if to < 0 {
		to += len(text) + 1
	}
	from, to = max(from, 1), min(to, len(text))
	for i := from; i <= to; i++ {
		L.Push(glua.LNumber(text[i-1]))
	}
	return max(to-from+1, 0)
}

// freely is how many bytes of text string.rep makes without a look at the memory that there is.
const freely = 64 << 20

// stringRep is string.rep, which can ask for any number of bytes at once. What cannot be had would end the process.
func stringRep(L *glua.LState) (int, error) {
	text, n := L.CheckString(1), float64(L.CheckNumber(2))
	if len(text) == 0 || !(n >= 1) {
		return Return(L, glua.LString(""))
	}
	if want := float64(len(text)) * n; want > freely {
		room, command := memory.Room("/")
		if want > float64(room) {
			return 0, tooLong(L, want, room, command)
		}
	}
	return Return(L, glua.LString(strings.Repeat(text, int(n))))
}

func tooLong(L *glua.LState, want float64, room int64, command string) error {
	of, hint := "80 % of the available memory", "make a shorter text, or free memory, where a limit of a cgroup counts, too"
	if command != "" {
		of = "half of what the limit of the process (" + command + ") leaves"
		hint = "make a shorter text, or raise the limit"
	}
	return fault.New(fault.Resource, "%sstring.rep of %s, and it may take %s: %s", Place(L),
		size.Decimal(int64(min(want, 1e18))), size.Decimal(room), of).WithHint("%s", hint)
}

// tableConcat is table.concat. The interpreter's takes no list that begins at 0, as those of ranks do.
func tableConcat(L *glua.LState) int {
	t, separator := L.CheckTable(1), L.OptString(2, "")
	var parts []string
	for i, last := L.OptInt(3, 1), L.OptInt(4, t.Len()); i <= last; i++ {
		v := t.RawGet(glua.LNumber(i))
		if !glua.LVCanConvToString(v) {
			L.RaiseError("invalid value (%v) at index %d in table for concat", v.Type(), i)
		}
		parts = append(parts, glua.LVAsString(v))
	}
	L.Push(glua.LString(strings.Join(parts, separator)))
	return 1
}

// tableRemove is table.remove. The interpreter's does not see that the last values of a list have become nil.
func tableRemove(L *glua.LState) int {
	t := L.CheckTable(1)
	n := t.Len()
	at := L.OptInt(2, n)
	if at < 1 || at > n {
		return 0
	}
	L.Push(t.Remove(at))
	return 1
}

// directive matches the parts of a format that stand for values: flags and width, precision, letter.
var directive = lazyre.New(`(?s)%([-+ #0]*[0-9]*)(\.[0-9]*)?(.?)`)

// stringFormat is string.format. The interpreter's puts wrong and missing values into the text as Go's fmt does.
func stringFormat(L *glua.LState) int {
	arg := 1
	text := directive.Get().ReplaceAllStringFunc(L.CheckString(1), func(whole string) string {
		if whole == "%%" {
			return "%"
		}
		parts := directive.FindStringSubmatch(whole)
		front, precision, letter := "%"+parts[1], parts[2], parts[3]
		if letter == "" {
			L.RaiseError("string.format: the format ends with %s, wanted a letter behind it; %%%% stands for %%", whole)
		}
		if !strings.Contains("cdiouxXeEfgGqs", letter) {
			L.RaiseError("string.format: wanted %%c, %%d, %%e, %%f, %%g, %%i, %%o, %%q, %%s, %%u, %%x or %%%%, got %s", whole)
		}
		if arg++; arg > L.GetTop() {
			L.ArgError(arg, "no value for "+whole)
		}
		switch letter {
		case "c":
			return fmt.Sprintf(front+"s", string([]byte{byte(L.CheckInt(arg))}))
		case "q":
			return `"` + quoter.Replace(L.CheckString(arg)) + `"`
		case "s":
			return fmt.Sprintf(front+precision+"s", L.ToStringMeta(L.Get(arg)).String())
		}
		return formatNumber(front, precision, letter, float64(L.CheckNumber(arg)))
	})
	L.Push(glua.LString(text))
	return 1
}

// formatNumber writes a number as C does.
func formatNumber(front, precision, letter string, n float64) string {
	const usual = ".6" // of C; Go's %g writes as many digits as a number needs
	whole := strings.Contains("diouxX", letter)
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		word := strings.ToLower(strings.TrimPrefix(fmt.Sprint(n), "+"))
		return fmt.Sprintf(strings.ReplaceAll(front, "0", " ")+"s", word)
	case whole && !(math.Abs(n) < 1<<63):
		return fmt.Sprintf(front+".0f", n)
	case letter == "d" || letter == "i":
		return fmt.Sprintf(front+precision+"d", int64(n))
	case letter == "u":
		return fmt.Sprintf(front+precision+"d", uint64(int64(n)))
	case whole:
		return fmt.Sprintf(front+precision+letter, uint64(int64(n)))
	case precision == "":
		precision = usual
	}
	return fmt.Sprintf(front+precision+letter, n)
}

// quoter makes texts that Lua reads again, between quotation marks.
var quoter = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", "\\\n", "\r", `\r`, "\x00", `\000`)

// coroutineBody returns a function that replaces the argument that is to run as a coroutine. The interpreter loses
// track of a coroutine whose outermost function ends with a call of yield, or is no Lua function.
func coroutineBody(L *glua.LState) func(L *glua.LState) {
	const source = `local first = select return function(f) return function(...) return first(1, f(...)) end end`
	if err := L.DoString(source); err != nil {
		panic(err) // part of the binary, and every test runs it
	}
	around := L.Get(-1)
	L.Pop(1)
	return func(L *glua.LState) {
		f := L.CheckFunction(1)
		L.Push(around)
		L.Push(f)
		L.Call(1, 1)
		L.Replace(1, L.Get(-1))
		L.Pop(1)
	}
}

// calledByGo reports whether the caller of the function that asks was called, within the running coroutine, by Go code:
// a yield would lose what that code was about to do.
func calledByGo() bool {
	var pcs [16]uintptr // the interpreter needs five for a call from Lua
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		switch {
		case strings.HasSuffix(f.Function, ".threadRun"):
			return false
		case strings.HasSuffix(f.Function, ").callR") || !more:
			return true
		}
	}
}

// math.random draws from generator.
type generator struct{ *rand.Rand }

func (g *generator) seed(n uint64) { g.Rand = rand.New(rand.NewPCG(n, 0)) }

// openRandom replaces math.random by one that gives the same numbers at all
// ranks and in every run with the same --seed.
func openRandom(L *glua.LState) *generator {
	g := new(generator)
	g.seed(0)
	mathTable := L.GetGlobal(glua.MathLibName).(*glua.LTable)
	mathTable.RawSetString("random", L.NewFunction(func(L *glua.LState) int {
		switch L.GetTop() {
		case 0:
			L.Push(glua.LNumber(g.Float64()))
		case 1:
			L.Push(g.pick(L, 1, bound(L, 1)))
		default:
			L.Push(g.pick(L, bound(L, 1), bound(L, 2)))
		}
		return 1
	}))
	mathTable.RawSetString("randomseed", L.NewFunction(func(L *glua.LState) int {
		g.seed(uint64(L.CheckInt64(1)))
		return 0
	}))
	return g
}

// bound is a bound of math.random, without its fraction.
func bound(L *glua.LState, arg int) int64 {
	n := float64(L.CheckNumber(arg))
	if !(-ExactBelow <= n && n <= ExactBelow) {
		L.ArgError(arg, fmt.Sprintf("wanted a number from -2^53 to 2^53, got %v", n))
	}
	return int64(n)
}

// pick draws from low to high.
func (g *generator) pick(L *glua.LState, low, high int64) glua.LNumber {
	if high < low {
		L.RaiseError("random: the interval from %d to %d is empty", low, high)
	}
	return glua.LNumber(low + g.Int64N(high-low+1))
}
