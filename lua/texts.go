package lua

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
)

// maxText bounds each text that a script makes. A library function, and the operator "..", make a text in one go, and
// no watch of the memory interrupts them.
const maxText = 64 << 20

// boundTexts puts functions in the place of the library's that bound what they make, and how long they search. The
// operator ".." is bounded by the compiler (see boundConcat).
func (r *Runtime) boundTexts() {
	for name, f := range map[string]glua.LGFunction{
		"rep": stringRep, "upper": stringMap('a', 'z'), "lower": stringMap('A', 'Z'), "format": stringFormat,
		"find": stringFind(true), "match": stringFind(false), "gmatch": stringGmatch, "gfind": stringGmatch,
		"gsub": stringGsub,
	} {
		r.L.GetGlobal(glua.StringLibName).(*glua.LTable).RawSetString(name, r.L.NewFunction(f))
	}
	r.L.GetGlobal(glua.TabLibName).(*glua.LTable).RawSetString("concat", r.L.NewFunction(tableConcat))
}

// refuseLong refuses a text that is too long, or that a bounded part of the script has no memory for.
func refuseLong(L *glua.LState, what string, bytes int) {
	const large = 1 << 20
	if bytes > maxText {
		L.RaiseError("%s would make a text of more than %d bytes", what, maxText)
	}
	if bytes < large {
		return
	}
	a := allowanceOf(L)
	if a == nil || a.left() >= int64(bytes) {
		return
	}
	if runtime.GC(); a.left() < int64(bytes) { // without what is garbage already
		a.end()
		stopped(L)
	}
}

// piece is how much of a long text a function works on at a time: so it takes little memory, and ends with its script.
const piece = 1 << 20

// pieces yields a text piece by piece, and ends the script between two of them if that has to end.
func pieces(L *glua.LState, text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			stopped(L)
			n := min(len(text), piece)
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

func stringRep(L *glua.LState) int {
	text, n := L.CheckString(1), max(L.CheckInt(2), 0)
	if n > 0 && len(text) > maxText/n {
		refuseLong(L, "string.rep", maxText+1)
	}
	refuseLong(L, "string.rep", len(text)*n)
	L.Push(glua.LString(strings.Repeat(text, n)))
	return 1
}

// stringMap is string.upper and string.lower: letters of ASCII only, and other bytes stay as they are.
func stringMap(first, last byte) glua.LGFunction {
	return func(L *glua.LState) int {
		text := L.CheckString(1)
		at := strings.IndexFunc(text, func(r rune) bool { return rune(first) <= r && r <= rune(last) })
		if at < 0 {
			L.Push(glua.LString(text))
			return 1
		}
		var b strings.Builder
		b.Grow(len(text))
		for _, c := range []byte(text) {
			if first <= c && c <= last {
				c ^= 'a' ^ 'A'
			}
			b.WriteByte(c)
		}
		L.Push(glua.LString(b.String()))
		return 1
	}
}

// directive matches what may stand between the % of a format and its letter.
var directive = regexp.MustCompile(`^([-+ #0]{0,5})([0-9]{0,2})(\.[0-9]{0,2})?`)

// conversion is what stood there.
type conversion struct {
	flags     string
	width     int
	precision int // -1 if there is none
}

// conversionFrom reads what stands in front of a letter.
func conversionFrom(rest string) (c conversion, length int) {
	m := directive.FindStringSubmatch(rest)
	c = conversion{flags: m[1], precision: -1}
	c.width, _ = strconv.Atoi(m[2]) // 0 of ""
	if m[3] != "" {
		c.precision, _ = strconv.Atoi(m[3][1:])
	}
	return c, len(m[0])
}

func (c conversion) has(flag string) bool { return strings.Contains(c.flags, flag) }

// sign is what stands in front of a number.
func (c conversion) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case c.has("+"):
		return "+"
	case c.has(" "):
		return " "
	}
	return ""
}

// text makes a text as wide as it is wanted.
func (c conversion) text(s string) string {
	if c.width <= utf8.RuneCountInString(s) {
		return s
	}
	if c.has("-") {
		return fmt.Sprintf("%-*s", c.width, s)
	}
	return fmt.Sprintf("%*s", c.width, s)
}

// digits makes a whole number as wide as it is wanted. front is its sign or prefix.
func (c conversion) digits(front, digits string) string {
	least := c.precision
	switch {
	case c.precision == 0 && digits == "0":
		digits = ""
	case c.precision < 0 && c.has("0") && !c.has("-"):
		least = c.width - len(front)
	}
	return c.text(front + strings.Repeat("0", max(least-len(digits), 0)) + digits)
}

// unsigned makes a number of the letters u, o, x and X.
func (c conversion) unsigned(n uint64, letter string) string {
	base, front := map[string]int{"u": 10, "o": 8, "x": 16, "X": 16}[letter], ""
	digits := strconv.FormatUint(n, base)
	switch {
	case letter == "X":
		digits = strings.ToUpper(digits)
		fallthrough
	case letter == "x":
		if c.has("#") && n != 0 {
			front = "0" + letter
		}
	case letter == "o" && c.has("#") && n == 0:
		c.precision = cmp.Or(c.precision, 1)
	case letter == "o" && c.has("#") && c.precision <= len(digits):
		digits = "0" + digits
	}
	return c.digits(front, digits)
}

// float makes a number of the letters e, E, f, g and G.
func (c conversion) float(n float64, letter string) string {
	const usual = 6
	if math.IsInf(n, 0) || math.IsNaN(n) {
		word := strings.ToLower(strings.TrimLeft(fmt.Sprint(n), "+-"))
		if letter < "a" {
			word = strings.ToUpper(word)
		}
		return c.text(c.sign(n < 0) + word)
	}
	if c.precision < 0 {
		c.precision = usual
	}
	return fmt.Sprintf("%"+c.flags+"*.*"+letter, c.width, c.precision, n)
}

// stringFormat is string.format.
func stringFormat(L *glua.LState) int {
	format, arg := L.CheckString(1), 1
	var b strings.Builder
	add := func(s string) {
		refuseLong(L, "string.format", b.Len()+len(s))
		b.WriteString(s)
	}
	for {
		before, rest, found := strings.Cut(format, "%")
		if add(before); !found {
			break
		}
		c, length := conversionFrom(rest)
		how, letter := rest[:length], rest[length:]
		if letter == "" {
			L.RaiseError("string.format: the format ends with %%%s, wanted a letter behind it; %%%% stands for %%", how)
		}
		format, letter = letter[1:], letter[:1]
		if letter == "%" && how == "" {
			add("%")
			continue
		}
		if arg++; strings.Contains("cdiouxXeEfgGqs", letter) && arg > L.GetTop() {
			L.ArgError(arg, "no value for %"+how+letter)
		}
		switch letter {
		case "c":
			add(c.text(string([]byte{byte(L.CheckInt(arg))})))
		case "d", "i", "u", "o", "x", "X":
			n := float64(L.CheckNumber(arg))
			signed := letter == "d" || letter == "i"
			switch {
			case -1<<63 <= n && n < 1<<63 && signed:
				add(c.digits(c.sign(n <= -1), strings.TrimPrefix(strconv.FormatInt(int64(n), 10), "-")))
			case -1<<63 <= n && n < 1<<63:
				add(c.unsigned(uint64(int64(n)), letter)) // of a negative one, its 64 bits
			case 0 <= n && n < 1<<64 && !signed:
				add(c.unsigned(uint64(n), letter))
			case signed || letter == "u": // what is no integer of 64 bits is not made one
				c.precision = 0
				add(c.float(n, "f"))
			default:
				L.ArgError(arg, fmt.Sprintf("%%%s wants a whole number of 64 bits, got %v", letter, n))
			}
		case "e", "E", "f", "g", "G":
			add(c.float(float64(L.CheckNumber(arg)), letter))
		case "q":
			add(`"`)
			for p := range pieces(L, L.CheckString(arg)) {
				add(quoter.Replace(p))
			}
			add(`"`)
		case "s":
			text := L.ToStringMeta(L.Get(arg)).String()
			refuseLong(L, "string.format", b.Len()+len(text))
			if c.precision >= 0 {
				text = fmt.Sprintf("%.*s", c.precision, text)
			}
			if c.width > 0 { // else it is not copied
				text = c.text(text)
			}
			add(text)
		default:
			L.RaiseError("string.format: wanted %%c, %%d, %%e, %%f, %%g, %%i, %%o, %%q, %%s, %%u, %%x or %%%%, with a width and a precision of two "+
				"digits at most, got %%%s%s", how, letter)
		}
	}
	L.Push(glua.LString(b.String()))
	return 1
}

// quoter makes texts that Lua reads again, between quotation marks.
var quoter = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", "\\\n", "\r", `\r`, "\x00", `\000`)

// tableConcat is table.concat.
func tableConcat(L *glua.LState) int {
	t, between := L.CheckTable(1), ""
	if L.Get(2) != glua.LNil {
		between = L.CheckString(2)
	}
	from := L.OptInt(3, 1)
	to := L.OptInt(4, t.Len())
	each := func(add func(text string)) {
		for i := from; i <= to; i++ {
			v := t.RawGet(glua.LNumber(i))
			if !glua.LVCanConvToString(v) {
				L.RaiseError("invalid value (%v) at index %d in table for concat", v.Type(), i)
			}
			if i > from {
				add(between)
			}
			add(glua.LVAsString(v))
		}
	}
	long := 0
	each(func(text string) {
		long += len(text)
		refuseLong(L, "table.concat", long)
	})
	var b strings.Builder
	b.Grow(long) // at once: what grows is there twice
	each(func(text string) {
		stopped(L)
		b.WriteString(text)
	})
	L.Push(glua.LString(b.String()))
	return 1
}

// concatName is the local variable of every chunk that holds the function which the compiler calls for "..". No name
// in a script looks like it.
const concatName = "(..)"

// boundConcat makes calls of the operators "..", and of a chunk a function that returns the chunk's own
// when it is given the function to call.
func boundConcat(chunk []ast.Stmt) []ast.Stmt {
	replaceConcat(chunk)
	own := &ast.FunctionExpr{ParList: &ast.ParList{HasVargs: true}, Stmts: chunk}
	bind := &ast.LocalAssignStmt{Names: []string{concatName}, Exprs: []ast.Expr{&ast.Comma3Expr{}}}
	return []ast.Stmt{bind, &ast.ReturnStmt{Exprs: []ast.Expr{own}}}
}

// concatCall is the call in the place of a chain a .. b .. c.
func concatCall(chain *ast.StringConcatOpExpr) *ast.FuncCallExpr {
	name := &ast.IdentExpr{Value: concatName}
	call := &ast.FuncCallExpr{Func: name, AdjustRet: true} // no tail call, which has no line
	for _, e := range []ast.PositionHolder{name, call} {
		e.SetLine(chain.Line())
		e.SetLastLine(chain.LastLine())
	}
	var rest ast.Expr = chain
	for {
		more, ok := rest.(*ast.StringConcatOpExpr)
		if !ok {
			break
		}
		call.Args = append(call.Args, more.Lhs)
		rest = more.Rhs
	}
	switch e := rest.(type) { // one value, as an operand has
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
	call.Args = append(call.Args, rest)
	return call
}

// concat is what "..", from the right to the left, does.
func concat(L *glua.LState) int {
	n := L.GetTop()
	bytes, plain := 0, true
	for i := 1; i <= n; i++ {
		v := L.Get(i)
		plain = plain && glua.LVCanConvToString(v)
		bytes += len(glua.LVAsString(v)) // "" of a table
	}
	refuseLong(L, "..", bytes)
	if plain {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = glua.LVAsString(L.Get(i + 1))
		}
		L.Push(glua.LString(strings.Join(parts, "")))
		return 1
	}
	right := L.Get(n)
	for i := n - 1; i >= 1; i-- {
		left := L.Get(i)
		if glua.LVCanConvToString(left) && glua.LVCanConvToString(right) {
			refuseLong(L, "..", len(glua.LVAsString(left))+len(glua.LVAsString(right)))
			right = glua.LString(glua.LVAsString(left) + glua.LVAsString(right))
			continue
		}
		f := L.GetMetaField(left, "__concat")
		if f == glua.LNil {
			f = L.GetMetaField(right, "__concat")
		}
		if f.Type() != glua.LTFunction {
			L.RaiseError("cannot perform concat operation between %v and %v", left.Type(), right.Type())
		}
		L.Push(f)
		L.Push(left)
		L.Push(right)
		L.Call(2, 1)
		right = L.Get(-1)
		L.Pop(1)
	}
	L.Push(right)
	return 1
}
