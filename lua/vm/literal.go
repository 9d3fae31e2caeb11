package vm

import glua "github.com/yuin/gopher-lua"

// Call is a call of a function of a global table whose arguments stand in the text.
type Call struct {
	Use
	Args []*Literal // those that are texts or tables; nil for others
}

// Literal is a text, or a table as far as the text shows it.
type Literal struct {
	Line   int
	Text   string
	Fields map[string]*Literal // of a table; nil for what the text does not show
	List   []*Literal
}

// IsTable reports whether it is a table.
func (l *Literal) IsTable() bool { return l != nil && l.Fields != nil }

// isConstant marks an operand that is no register.
const isConstant = 1 << 8

// literals follows the instructions that make tables, and finds the calls that get them.
type literals struct {
	f         *glua.FunctionProto
	values    map[int]*Literal // in registers
	functions map[int]Use
	calls     []Call
}

func callsIn(f *glua.FunctionProto) []Call {
	l := literals{f, map[int]*Literal{}, map[int]Use{}, nil}
	for pc, i := range f.Code {
		l.follow(instruction(i), f.DbgSourcePositions[pc])
	}
	return l.calls
}

func (l *literals) text(operand int) string {
	return glua.LVAsString(l.f.Constants[operand&^isConstant])
}

// constant is a constant that is a text, nil for others.
func (l *literals) constant(number, line int) *Literal {
	if text, ok := l.f.Constants[number].(glua.LString); ok {
		return &Literal{Line: line, Text: string(text)}
	}
	return nil
}

// follow takes note of what an instruction does to a register.
func (l *literals) follow(i instruction, line int) {
	a := i.a()
	switch i.opcode() {
	case glua.OP_SETTABLEKS:
		if t := l.values[a]; t.IsTable() && i.b()&isConstant != 0 {
			t.Fields[l.text(i.b())] = l.operand(i.c(), line)
		}
		return
	case glua.OP_SETLIST:
		if t := l.values[a]; t.IsTable() {
			for k := range i.b() {
				t.List = append(t.List, l.values[a+1+k])
			}
		}
		return
	case glua.OP_CALL, glua.OP_TAILCALL:
		if use, ok := l.functions[a]; ok && use.Field != "" {
			use.Line = line
			c := Call{Use: use}
			for k := 1; k < i.b(); k++ {
				c.Args = append(c.Args, l.values[a+k])
			}
			l.calls = append(l.calls, c)
		}
		l.forget(a)
	case glua.OP_NEWTABLE:
		l.forget(a)
		l.values[a] = &Literal{Line: line, Fields: map[string]*Literal{}}
	case glua.OP_LOADK:
		l.forget(a)
		l.values[a] = l.constant(i.constant(), line)
	case glua.OP_GETGLOBAL:
		l.forget(a)
		l.functions[a] = Use{Global: glua.LVAsString(l.f.Constants[i.constant()])}
	case glua.OP_GETTABLEKS:
		use, known := l.functions[i.b()]
		l.forget(a)
		if known && use.Field == "" && i.c()&isConstant != 0 {
			use.Field = l.text(i.c())
			l.functions[a] = use
		}
	case glua.OP_SETTABLE, glua.OP_SETGLOBAL, glua.OP_SETUPVAL, glua.OP_JMP, glua.OP_TEST, glua.OP_EQ, glua.OP_LT,
		glua.OP_LE, glua.OP_RETURN, glua.OP_CLOSE, glua.OP_NOP:
	default:
		l.forget(a)
	}
}

func (l *literals) forget(register int) {
	delete(l.values, register)
	delete(l.functions, register)
}

// operand is the literal in a register, or a constant.
func (l *literals) operand(operand, line int) *Literal {
	if operand&isConstant == 0 {
		return l.values[operand]
	}
	return l.constant(operand&^isConstant, line)
}
