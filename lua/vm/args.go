package vm

import (
	"fmt"
	"math"
	"slices"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
)

// Fields reads the named arguments of a call such as f{size = 1, ...}. The
// first mistake is kept; Err returns it, or complains about names that were
// not asked for.
type Fields struct {
	what  string
	t     *glua.LTable
	asked map[string]bool
	bad   error
}

// NewFields reads the fields of a table, of an empty one where t is nil. what names the call in messages.
func NewFields(what string, t *glua.LTable) *Fields {
	if t == nil {
		t = new(glua.LTable)
	}
	return &Fields{what: what, t: t, asked: map[string]bool{}}
}

// Get is a field as it stands.
func (f *Fields) Get(name string) glua.LValue {
	f.asked[name] = true
	return f.t.RawGetString(name)
}

// Positions are the first n elements of the table, which stand there without names.
func (f *Fields) Positions(n int) []glua.LValue {
	list := make([]glua.LValue, n)
	for i := range list {
		f.asked[fmt.Sprint(i+1)] = true
		list[i] = f.t.RawGetInt(i + 1)
	}
	return list
}

// Fail says that a field has to be something else.
func (f *Fields) Fail(name, want string, got glua.LValue) {
	f.Refuse("%s: %w", name, wanted(want, got))
}

// Refuse keeps a mistake, if it is the first.
func (f *Fields) Refuse(format string, args ...any) {
	if f.bad == nil {
		f.bad = fault.New(fault.Script, "%s: "+format, append([]any{f.what}, args...)...)
	}
}

// Mistake is the first mistake so far.
func (f *Fields) Mistake() error { return f.bad }

// Integer reads a whole number of at least least.
func (f *Fields) Integer(name string, fallback, least int64) int64 {
	return f.read(name, fallback, func(v glua.LValue) (int64, error) { return Integer(v, least) })
}

// Size reads a number of bytes, as Size does.
func (f *Fields) Size(name string, fallback int64) int64 {
	return f.read(name, fallback, Size)
}

// read reads a field, the fallback where it is missing.
func (f *Fields) read(name string, fallback int64, value func(glua.LValue) (int64, error)) int64 {
	v := f.Get(name)
	if v == glua.LNil {
		return fallback
	}
	n, err := value(v)
	if err != nil {
		f.Refuse("%s: %w", name, err)
	}
	return n
}

// Int is Integer for what counts things of this process.
func (f *Fields) Int(name string, fallback int, least int64) int {
	return int(f.Integer(name, int64(fallback), least))
}

// Number reads a number.
func (f *Fields) Number(name string, fallback float64) float64 {
	n := float64(typed(f, name, "a number", glua.LNumber(fallback)))
	if math.IsNaN(n) {
		f.Fail(name, "a number", f.Get(name))
	}
	return n
}

// Seconds reads a length of time, 0 where it is missing.
func (f *Fields) Seconds(name string) float64 {
	const want = "a number of seconds, 0 or more"
	n := float64(typed(f, name, want, glua.LNumber(0)))
	if !(n >= 0) || math.IsInf(n, 1) {
		f.Fail(name, want, f.Get(name))
		return 0
	}
	return n
}

// Text reads a string.
func (f *Fields) Text(name, fallback string) string {
	return string(typed(f, name, "a string", glua.LString(fallback)))
}

// Choice reads one of several words, the first where it is missing.
func (f *Fields) Choice(name string, words ...string) string {
	text := f.Text(name, words[0])
	if !slices.Contains(words, text) {
		f.Fail(name, value.Field{Type: "enum", Choices: words}.Wanted(), f.Get(name))
	}
	return text
}

// Bool reads true or false.
func (f *Fields) Bool(name string, fallback bool) bool {
	return bool(typed(f, name, "true or false", glua.LBool(fallback)))
}

// Table reads a table, nil where it is missing.
func (f *Fields) Table(name string) *glua.LTable {
	return typed[*glua.LTable](f, name, "a table", nil)
}

// typed reads a field of one of Lua's types, the fallback where it is missing.
func typed[T glua.LValue](f *Fields, name, want string, fallback T) T {
	v := f.Get(name)
	if v == glua.LNil {
		return fallback
	}
	value, ok := v.(T)
	if !ok {
		f.Fail(name, want, v)
	}
	return value
}

// PlainMap reads a table with names as keys as plain data; nil if it is missing
// or empty.
func (f *Fields) PlainMap(name string) map[string]any {
	t := f.Table(name)
	if t == nil {
		return nil
	}
	plain, err := Stored(t)
	if err != nil {
		f.Refuse("%s: %w", name, err)
	}
	m, isMap := plain.(map[string]any)
	if list, isList := plain.([]any); !isMap && !(isList && len(list) == 0) {
		f.Fail(name, "a table with names as keys", t)
	}
	return m
}

// Err returns the first mistake.
func (f *Fields) Err() error {
	var unknown []string
	f.t.ForEach(func(k, _ glua.LValue) {
		if !f.asked[k.String()] {
			unknown = append(unknown, k.String())
		}
	})
	if len(unknown) == 0 {
		return f.bad
	}
	// A name that is misspelt is also one that is missing: the first explains the second.
	known, name := sortedKeys(f.asked), slices.Min(unknown)
	near := ""
	if len(name) <= maxQuoted {
		near = value.Suggestion(name, known)
	}
	if f.bad != nil && near == "" {
		return f.bad
	}
	return fault.New(fault.Script, "%s has an unknown field %s; it takes %s%s", f.what, Quoted(name),
		strings.Join(known, ", "), near)
}

// IntegerArg reads argument n, a whole number of at least least.
func IntegerArg(L *glua.LState, n int, least int64) (int, error) {
	i, err := Integer(L.Get(n), least)
	if err != nil {
		return 0, fault.New(fault.Script, "argument %d: %w", n, err)
	}
	return int(i), nil
}

// OptionalInteger reads argument n, which may be missing.
func OptionalInteger(L *glua.LState, n int, fallback int, least int64) (int, error) {
	if L.Get(n) == glua.LNil {
		return fallback, nil
	}
	return IntegerArg(L, n, least)
}

// Object is the Go value of type T behind a userdata, if v is one.
func Object[T any](v glua.LValue) (object T, ok bool) {
	ud, isUserData := v.(*glua.LUserData)
	if isUserData {
		object, ok = ud.Value.(T)
	}
	return object, ok
}

// ObjectArg reads argument n, an object of type T. what names it in messages.
func ObjectArg[T any](L *glua.LState, n int, what string) (T, error) {
	object, ok := Object[T](L.Get(n))
	if !ok {
		return object, fault.New(fault.Script, "argument %d: %w", n, wanted(what, L.Get(n)))
	}
	return object, nil
}

// List refuses a table with keys beside 1, 2, 3 and so on: what stands there would be lost. name and want are for
// messages, such as "metrics" and "a list".
func List(name, want string, t *glua.LTable) error {
	stray, last := glua.LValue(glua.LNil), int64(t.Len())
	t.ForEach(func(key, _ glua.LValue) {
		if i, ok := WholeNumber(key); stray == glua.LNil && (!ok || i < 1 || i > last) {
			stray = key
		}
	})
	if stray == glua.LNil {
		return nil
	}
	key := stray.String()
	if len(key) > maxQuoted {
		key = Quoted(key)
	}
	return fault.New(fault.Script, "%s has the key %s, want %s", name, key, want)
}

// Each calls f with the elements of a list, from 1, which have to be of one of Lua's types. what names element %d in
// messages, and want says what it should be.
func Each[T glua.LValue](t *glua.LTable, what, want string, f func(i int, v T) error) error {
	if err := List("the list of "+want, "the keys 1, 2, 3 ...", t); err != nil {
		return err
	}
	for i, n := 1, t.Len(); i <= n; i++ {
		v, ok := t.RawGetInt(i).(T)
		if !ok {
			return fault.New(fault.Script, what+": %w", i, wanted(want, t.RawGetInt(i)))
		}
		if err := f(i, v); err != nil {
			return err
		}
	}
	return nil
}

// Ranks reads a list of ranks.
func Ranks(t *glua.LTable) ([]int, error) {
	if err := List("the list of ranks", "the keys 1, 2, 3 ...", t); err != nil {
		return nil, err
	}
	ranks := make([]int, t.Len())
	for i := range ranks {
		r, err := Integer(t.RawGetInt(i+1), 0)
		if err != nil {
			return nil, fault.New(fault.Script, "element %d of the list of ranks: %w", i+1, err)
		}
		ranks[i] = int(r)
	}
	return ranks, nil
}
