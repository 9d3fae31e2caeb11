package vm

import (
	"slices"

	glua "github.com/yuin/gopher-lua"
)

// FieldsOfArgument are the fields that a function reads of its first argument, and those that functions inside it read
// of that, but for fields that they set. There are none where it gives the argument another value: what it reads then
// may be anything.
func FieldsOfArgument(f *glua.LFunction) []Use {
	if f.IsG || f.Proto.NumParameters == 0 {
		return nil
	}
	a := argument{set: map[string]bool{}}
	a.read(f.Proto, -1)
	if a.written {
		return nil
	}
	return slices.DeleteFunc(a.fields, func(u Use) bool { return a.set[u.Field] })
}

// argument follows the first argument of a function, which stays in register 0.
type argument struct {
	fields  []Use
	set     map[string]bool // fields that the functions set
	written bool
}

// read reads a function that has the argument in register 0, or, if upvalue is not -1, in an upvalue.
func (a *argument) read(f *glua.FunctionProto, upvalue int) {
	inRegister, loaded := upvalue < 0, -1 // loaded: the register that the upvalue has been copied into
	texts := map[int]string{}             // in registers
	for pc := 0; pc < len(f.Code); pc++ {
		i := instruction(f.Code[pc])
		switch i.opcode() {
		case glua.OP_GETTABLEKS:
			if (inRegister && i.b() == 0 || i.b() == loaded) && i.c()&isConstant != 0 {
				field := glua.LVAsString(f.Constants[i.c()&^isConstant])
				a.fields = append(a.fields, Use{Field: field, Line: f.DbgSourcePositions[pc]})
			}
		case glua.OP_LOADK:
			texts[i.a()] = glua.LVAsString(f.Constants[i.constant()])
		case glua.OP_SETTABLE, glua.OP_SETTABLEKS:
			a.set[texts[i.b()]] = true // of any table: an option's name is not that of something else often
		case glua.OP_SETUPVAL:
			a.written = a.written || !inRegister && i.b() == upvalue
		case glua.OP_CLOSURE:
			inner := f.FunctionPrototypes[i.constant()]
			for n := range int(inner.NumUpvalues) { // what follows says what they are
				from := instruction(f.Code[pc+1+n])
				if inRegister && from.opcode() == glua.OP_MOVE && from.b() == 0 ||
					!inRegister && from.opcode() == glua.OP_GETUPVAL && from.b() == upvalue {
					a.read(inner, n)
				}
			}
			pc += int(inner.NumUpvalues)
		}
		a.written = a.written || inRegister && i.a() == 0 && slices.Contains(writing, i.opcode())
		if loaded = -1; !inRegister && i.opcode() == glua.OP_GETUPVAL && i.b() == upvalue {
			loaded = i.a()
		}
	}
}

// writing are the instructions that give a local variable a value.
var writing = []int{glua.OP_MOVE, glua.OP_MOVEN, glua.OP_LOADK, glua.OP_LOADBOOL, glua.OP_LOADNIL, glua.OP_GETUPVAL,
	glua.OP_GETGLOBAL, glua.OP_GETTABLE, glua.OP_GETTABLEKS, glua.OP_NEWTABLE, glua.OP_ADD, glua.OP_SUB, glua.OP_MUL,
	glua.OP_DIV, glua.OP_MOD, glua.OP_POW, glua.OP_UNM, glua.OP_NOT, glua.OP_LEN, glua.OP_CONCAT, glua.OP_TESTSET,
	glua.OP_CALL, glua.OP_CLOSURE, glua.OP_VARARG, glua.OP_SELF}
