package lua

import (
	"fmt"
	"math"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
	"perigee/internal/traffic/matrix"
)

// fields reads the named arguments of a call such as f{size = 1, ...}. The
// first mistake is kept; err returns it, or complains about names that nobody
// asked for.
type fields struct {
	what  string
	t     *glua.LTable
	asked map[string]bool
	bad   error
}

func newFields(what string, t *glua.LTable) *fields {
	return &fields{what: what, t: t, asked: map[string]bool{}}
}

func (f *fields) get(name string) glua.LValue {
	f.asked[name] = true
	return f.t.RawGetString(name)
}

func (f *fields) fail(name, want string, got glua.LValue) {
	if f.bad == nil {
		f.bad = fault.New(fault.Script, "%s: %s is %s, want %s", f.what, name, describe(got), want)
	}
}

func (f *fields) integer(name string, fallback, least int64) int64 {
	v := f.get(name)
	if v == glua.LNil {
		return fallback
	}
	n, ok := wholeNumber(v)
	if !ok || n < least {
		f.fail(name, fmt.Sprintf("a whole number of at least %d", least), v)
		return fallback
	}
	return n
}

func (f *fields) number(name string, fallback float64) float64 {
	v := f.get(name)
	if v == glua.LNil {
		return fallback
	}
	n, ok := v.(glua.LNumber)
	if !ok || math.IsNaN(float64(n)) {
		f.fail(name, "a number", v)
	}
	return float64(n)
}

func (f *fields) text(name, fallback string) string {
	v := f.get(name)
	if v == glua.LNil {
		return fallback
	}
	s, ok := v.(glua.LString)
	if !ok {
		f.fail(name, "a string", v)
	}
	return string(s)
}

func (f *fields) boolean(name string, fallback bool) bool {
	v := f.get(name)
	if v == glua.LNil {
		return fallback
	}
	b, ok := v.(glua.LBool)
	if !ok {
		f.fail(name, "true or false", v)
	}
	return bool(b)
}

func (f *fields) size(name string, fallback int64) int64 {
	v := f.get(name)
	if v == glua.LNil {
		return fallback
	}
	n, err := sizeOf(v)
	if err != nil && f.bad == nil {
		f.bad = fault.New(fault.Script, "%s: %s: %w", f.what, name, err)
	}
	return n
}

func (f *fields) table(name string) *glua.LTable {
	v := f.get(name)
	t, ok := v.(*glua.LTable)
	if !ok && v != glua.LNil {
		f.fail(name, "a table", v)
	}
	return t
}

// err returns the first mistake.
func (f *fields) err() error {
	if f.bad != nil {
		return f.bad
	}
	var unknown error
	f.t.ForEach(func(k, _ glua.LValue) {
		if unknown == nil && !f.asked[k.String()] {
			unknown = fault.New(fault.Script, "%s has no argument %q; it takes %v", f.what, k.String(), sortedKeys(f.asked))
		}
	})
	return unknown
}

func wholeNumber(v glua.LValue) (int64, bool) {
	n, ok := v.(glua.LNumber)
	if !ok || math.Abs(float64(n)) > 1<<53 || n != glua.LNumber(int64(n)) {
		return 0, false
	}
	return int64(n), true
}

// sizeOf reads a number of bytes: a whole number, or a string such as "64K".
func sizeOf(v glua.LValue) (int64, error) {
	switch v := v.(type) {
	case glua.LNumber:
		n, ok := wholeNumber(v)
		if !ok || n < 0 {
			return 0, fault.New(fault.Script, "%v is no number of bytes", v)
		}
		return n, nil
	case glua.LString:
		n, err := matrix.ParseSize(string(v))
		if err != nil {
			return 0, fault.New(fault.Script, "%w", err)
		}
		return n, nil
	}
	return 0, fault.New(fault.Script, "%s is no size, want a whole number of bytes or a string such as \"64K\"", describe(v))
}

// ranksArg reads a list of ranks.
func ranksArg(L *glua.LState, n int) ([]int, error) {
	t := L.CheckTable(n)
	ranks := make([]int, 0, t.Len())
	for i := 1; i <= t.Len(); i++ {
		r, ok := wholeNumber(t.RawGetInt(i))
		if !ok {
			return nil, fault.New(fault.Script, "element %d of the list of ranks is %s, want a whole number", i, describe(t.RawGetInt(i)))
		}
		ranks = append(ranks, int(r))
	}
	return ranks, nil
}

// describe names a value in a message.
func describe(v glua.LValue) string {
	switch v.Type() {
	case glua.LTNil:
		return "missing"
	case glua.LTString:
		return fmt.Sprintf("the string %q", v.String())
	case glua.LTNumber, glua.LTBool:
		return v.String()
	}
	return "a " + v.Type().String()
}
