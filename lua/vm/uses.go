package vm

import glua "github.com/yuin/gopher-lua"

// Uses are the names in the text of a file.
type Uses struct {
	File     string
	Requires []string        // modules whose names the text shows
	Reads    []Use           // of globals, and of their fields, that are not only asked whether they are there
	Writes   []Use           // to globals
	Sets     map[string]bool // keys that are set in any table
	Locals   []string
	Asked    map[Use]bool // fields of globals that are only asked whether they are there
	Calls    []Call
}

// Use is a global, or a field of one, in a line of a file.
type Use struct {
	Global, Field string // no field: the global itself
	Line          int
}

// UsesOf reads the text of a file without running it. name stands in messages.
func UsesOf(name, source string) (*Uses, error) {
	proto, err := compile(name, source)
	if err != nil {
		return nil, err
	}
	return usesIn(name, proto), nil
}

// UsesOfFunction are the names in a function of a script, and in those inside it.
func UsesOfFunction(f *glua.LFunction) *Uses { return usesIn(f.Proto.SourceName, f.Proto) }

func usesIn(name string, f *glua.FunctionProto) *Uses {
	u := &Uses{File: name, Sets: map[string]bool{}, Asked: map[Use]bool{}}
	u.add(f)
	return u
}

// instruction is one of gopher-lua's, whose file opcode.go has the fields.
type instruction uint32

func (i instruction) opcode() int   { return int(i >> 26) }
func (i instruction) a() int        { return int(i>>18) & 0xff }
func (i instruction) b() int        { return int(i & 0x1ff) }
func (i instruction) c() int        { return int(i>>9) & 0x1ff }
func (i instruction) constant() int { return int(i & 0x3ffff) }

// add reads the instructions of a function and of those inside.
func (u *Uses) add(f *glua.FunctionProto) {
	for _, local := range f.DbgLocals {
		u.Locals = append(u.Locals, local.Name)
	}
	for pc := range f.Code {
		u.addInstruction(f, pc)
	}
	u.Calls = append(u.Calls, callsIn(f)...)
	for _, inner := range f.FunctionPrototypes {
		u.add(inner)
	}
}

func (u *Uses) addInstruction(f *glua.FunctionProto, pc int) {
	at := func(pc int) instruction {
		if pc < 0 || pc >= len(f.Code) {
			return instruction(glua.OP_NOP << 26)
		}
		return instruction(f.Code[pc])
	}
	text := func(constant int) string { return glua.LVAsString(f.Constants[constant]) }
	before, now, next, then := at(pc-1), at(pc), at(pc+1), at(pc+2)
	use := Use{Line: f.DbgSourcePositions[pc]}
	switch now.opcode() {
	case glua.OP_SETTABLE, glua.OP_SETTABLEKS:
		if now.b()&isConstant != 0 {
			u.Sets[text(now.b()&^isConstant)] = true
		}
	case glua.OP_SETGLOBAL:
		use.Global = text(now.constant())
		u.Writes = append(u.Writes, use)
	case glua.OP_GETGLOBAL:
		use.Global = text(now.constant())
		typed := before.opcode() == glua.OP_GETGLOBAL && text(before.constant()) == "type"
		asked := func(pc int) bool { // for nothing but whether it is there
			by, behind := at(pc).opcode(), at(pc+1).opcode()
			return by == glua.OP_TEST || by == glua.OP_TESTSET || by == glua.OP_NOT ||
				by == glua.OP_LOADNIL && behind == glua.OP_EQ || by == glua.OP_CALL && typed
		}
		if !asked(pc + 1) {
			u.Reads = append(u.Reads, use)
		}
		member := next.opcode() == glua.OP_GETTABLEKS || next.opcode() == glua.OP_SELF
		if member && next.b() == now.a() && next.c()&isConstant != 0 {
			use.Field = text(next.c() &^ isConstant)
			if asked(pc + 2) {
				u.Asked[use] = true
			} else {
				u.Reads = append(u.Reads, use)
			}
		}
		if next.opcode() == glua.OP_LOADK && next.a() == now.a()+1 { // the argument of a call, or a key that is set
			key := text(next.constant())
			if then.opcode() != glua.OP_CALL {
				u.Sets[key] = true
			} else if use.Global == "require" {
				u.Requires = append(u.Requires, key)
			}
		}
	}
}
