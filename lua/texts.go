package lua

import (
	"strings"

	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/pm"
)

// maxText bounds each text that a script makes. A library function, and the operator "..", make a text in one go, and
// no watch of the memory interrupts them.
const maxText = 64 << 20

// boundTexts makes the functions that make long texts of short ones refuse those that only fill the memory. The
// operator ".." is bounded by the compiler (see boundConcat).
func (r *Runtime) boundTexts() {
	bound := func(library, name string, check func(L *glua.LState) (bytes int)) {
		lib := r.L.GetGlobal(library).(*glua.LTable)
		f := lib.RawGetString(name).(*glua.LFunction).GFunction
		lib.RawSetString(name, r.L.NewFunction(func(L *glua.LState) int {
			refuseLong(L, library+"."+name, check(L))
			return f(L)
		}))
	}
	bound(glua.StringLibName, "rep", func(L *glua.LState) int {
		text, n := L.CheckString(1), L.CheckInt(2)
		if n > 0 && len(text) > maxText/n {
			return maxText + 1
		}
		return 0
	})
	bound(glua.StringLibName, "format", formatted)
	bound(glua.StringLibName, "gsub", substituted)
	bound(glua.TabLibName, "concat", concatenated)
}

func refuseLong(L *glua.LState, what string, bytes int) {
	if bytes > maxText {
		L.RaiseError("%s would make a text of more than %d bytes", what, maxText)
	}
}

// formatted is at most how long the text is that string.format makes. What is neither text nor number becomes text
// before, since Go's formats would show what is in it.
func formatted(L *glua.LState) int {
	format, longest := L.CheckString(1), 512 // a number without an exponent
	for i := 2; i <= L.GetTop(); i++ {
		switch v := L.Get(i).(type) {
		case *glua.LNilType, glua.LBool, glua.LNumber, glua.LString:
		default:
			L.Replace(i, L.ToStringMeta(v))
		}
		longest = max(longest, 6*len(glua.LVAsString(L.Get(i)))) // quoted, or as numbers of its bytes
	}
	bytes := len(format)
	for i := 0; i < len(format) && bytes <= maxText; i++ {
		if format[i] != '%' {
			continue
		}
		if i++; i < len(format) && format[i] == '%' {
			continue
		}
		bytes += longest
		number := 0 // a width or a precision
		for ; i < len(format) && strings.IndexByte("+- #.0123456789*[", format[i]) >= 0; i++ {
			switch c := format[i]; {
			case c == '*' || c == '[':
				L.RaiseError("string.format knows no %%%c", c)
			case c >= '0' && c <= '9':
				number = min(10*number+int(c-'0'), 1<<20) // Go takes no larger ones
			default:
				bytes, number = bytes+number, 0
			}
		}
		bytes += number
	}
	return bytes
}

// concatenated is how long the text is that table.concat makes.
func concatenated(L *glua.LState) int {
	t, separator := L.CheckTable(1), len(L.OptString(2, ""))
	bytes := 0
	for i := max(L.OptInt(3, 1), 1); i <= min(L.OptInt(4, t.Len()), t.Len()) && bytes <= maxText; i++ {
		v := t.RawGetInt(i)
		if !glua.LVCanConvToString(v) {
			break // table.concat says so
		}
		bytes += len(glua.LVAsString(v)) + separator
	}
	return bytes
}

// substituted is at most how long the text is that string.gsub returns. Where it calls a function, or looks
// into a table, for each piece, that is counted while it does.
func substituted(L *glua.LState) int {
	text, pattern := L.CheckString(1), L.CheckString(2)
	with, ok := L.Get(3).(glua.LString)
	if !ok {
		countPieces(L, len(text))
		return 0
	}
	references := strings.Count(string(with), "%")
	most := func(matches int) int {
		if len(with) > 0 && matches > maxText/len(with) || references > 0 && len(text) > maxText/references {
			return maxText + 1
		}
		return len(text)*(1+references) + matches*len(with)
	}
	if most(len(text)+1) <= maxText {
		return 0
	}
	found, err := pm.Find(pattern, []byte(text), 0, L.OptInt(4, -1))
	if err != nil {
		return 0 // string.gsub says so
	}
	return most(len(found))
}

// countPieces puts a function in the place of gsub's third argument that counts the bytes of what it returns.
func countPieces(L *glua.LState, bytes int) {
	with := L.Get(3)
	if k := with.Type(); k != glua.LTTable && k != glua.LTFunction {
		return
	}
	L.Replace(3, L.NewFunction(func(L *glua.LState) int {
		if with.Type() == glua.LTTable {
			L.Push(L.GetTable(with, L.Get(1)))
		} else {
			n := L.GetTop()
			L.Insert(with, 1)
			L.Call(n, 1)
		}
		bytes += len(glua.LVAsString(L.Get(-1)))
		refuseLong(L, "string.gsub", bytes)
		return 1
	}))
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
