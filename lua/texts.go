package lua

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

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
		"rep": stringRep, "format": stringFormat, "find": stringFind(true), "match": stringFind(false),
		"gmatch": stringGmatch, "gfind": stringGmatch, "gsub": stringGsub,
	} {
		r.L.GetGlobal(glua.StringLibName).(*glua.LTable).RawSetString(name, r.L.NewFunction(f))
	}
	r.L.GetGlobal(glua.TabLibName).(*glua.LTable).RawSetString("concat", r.L.NewFunction(tableConcat))
}

func refuseLong(L *glua.LState, what string, bytes int) {
	if bytes > maxText {
		L.RaiseError("%s would make a text of more than %d bytes", what, maxText)
	}
}

func stringRep(L *glua.LState) int {
	text, n := L.CheckString(1), max(L.CheckInt(2), 0)
	if n > 0 && len(text) > maxText/n {
		refuseLong(L, "string.rep", maxText+1)
	}
	L.Push(glua.LString(strings.Repeat(text, n)))
	return 1
}

// conversion is what may stand between the % of a format and its letter.
var conversion = regexp.MustCompile(`^[-+ #0]{0,5}[0-9]{0,2}(?:\.[0-9]{0,2})?`)

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
		how := conversion.FindString(rest)
		letter := strings.TrimPrefix(rest, how)
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
			add(fmt.Sprintf("%"+how+"s", string([]byte{byte(L.CheckInt(arg))})))
		case "d", "i", "u":
			// What is no integer of 64 bits is not made one.
			if n := float64(L.CheckNumber(arg)); -1<<63 <= n && n < 1<<63 {
				add(fmt.Sprintf("%"+how+"d", int64(n)))
			} else {
				how, _, _ = strings.Cut(how, ".")
				add(fmt.Sprintf("%"+how+".0f", n))
			}
		case "o", "x", "X":
			add(fmt.Sprintf("%"+how+letter, int64(L.CheckNumber(arg))))
		case "e", "E", "f", "g", "G":
			add(fmt.Sprintf("%"+how+letter, float64(L.CheckNumber(arg))))
		case "q":
			add(`"`)
			for piece := range slices.Chunk([]byte(L.CheckString(arg)), 1<<20) {
				add(quoter.Replace(string(piece)))
			}
			add(`"`)
		case "s":
			text := L.ToStringMeta(L.Get(arg)).String()
			refuseLong(L, "string.format", b.Len()+len(text))
			add(fmt.Sprintf("%"+how+"s", text))
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
	var b strings.Builder
	for i := from; i <= to; i++ {
		v := t.RawGet(glua.LNumber(i))
		if !glua.LVCanConvToString(v) {
			L.RaiseError("invalid value (%v) at index %d in table for concat", v.Type(), i)
		}
		separator := between
		if i == from {
			separator = ""
		}
		text := glua.LVAsString(v)
		refuseLong(L, "table.concat", b.Len()+len(separator)+len(text))
		b.WriteString(separator)
		b.WriteString(text)
	}
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
