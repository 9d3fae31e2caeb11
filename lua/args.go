package lua

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/conf"
	"perigee/internal/fault"
	"perigee/internal/plaintext"
	"perigee/internal/size"
)

// fields reads the named arguments of a call such as f{size = 1, ...}. The
// first mistake is kept; err returns it, or complains about names that were
// not asked for.
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
	n, err := integerFrom(v, least)
	if err != nil && f.bad == nil {
		f.bad = fault.New(fault.Script, "%s: %s is %w", f.what, name, err)
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

// seconds reads a length of time, 0 where it is missing.
func (f *fields) seconds(name string) float64 {
	v := f.get(name)
	if v == glua.LNil {
		return 0
	}
	n, ok := v.(glua.LNumber)
	if !ok || !(n >= 0) || math.IsInf(float64(n), 1) {
		f.fail(name, "a number of seconds, 0 or more", v)
		return 0
	}
	return float64(n)
}

func (f *fields) text(name, fallback string) string {
	return string(typed(f, name, "a string", glua.LString(fallback)))
}

func (f *fields) boolean(name string, fallback bool) bool {
	return bool(typed(f, name, "true or false", glua.LBool(fallback)))
}

// typed reads a field of one of Lua's types, the fallback where it is missing.
func typed[T glua.LValue](f *fields, name, wanted string, fallback T) T {
	v := f.get(name)
	if v == glua.LNil {
		return fallback
	}
	value, ok := v.(T)
	if !ok {
		f.fail(name, wanted, v)
	}
	return value
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

// plainMap reads a table with names as keys as plain data; nil if it is missing
// or empty.
func (f *fields) plainMap(name string) map[string]any {
	t := f.table(name)
	if t == nil {
		return nil
	}
	plain, err := stored(t)
	if err != nil && f.bad == nil {
		f.bad = fault.New(fault.Script, "%s: %s: %w", f.what, name, err)
	}
	m, isMap := plain.(map[string]any)
	if list, isList := plain.([]any); !isMap && !(isList && len(list) == 0) {
		f.fail(name, "a table with names as keys", t)
	}
	return m
}

// err returns the first mistake.
func (f *fields) err() error {
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
		near = conf.Suggestion(name, known)
	}
	if f.bad != nil && near == "" {
		return f.bad
	}
	return fault.New(fault.Script, "%s has an unknown field %s; it takes %s%s", f.what, quoted(name),
		strings.Join(known, ", "), near)
}

func wholeNumber(v glua.LValue) (int64, bool) {
	n, ok := v.(glua.LNumber)
	if !ok || math.Abs(float64(n)) > exactBelow || n != glua.LNumber(int64(n)) {
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
		n, err := size.Parse(string(v))
		if err != nil {
			return 0, fault.New(fault.Script, "%w", err)
		}
		return n, nil
	}
	return 0, fault.New(fault.Script, "%s is no size, want a whole number of bytes or a string such as \"64K\"",
		describe(v))
}

// integerFrom reads a whole number of at least least.
func integerFrom(v glua.LValue, least int64) (int64, error) {
	n, ok := wholeNumber(v)
	if !ok || n < least {
		want := "a whole number"
		if least > math.MinInt64 {
			want += fmt.Sprintf(" of at least %d", least)
		}
		return 0, fault.New(fault.Script, "%s, want %s", describe(v), want)
	}
	return n, nil
}

// integerArg reads argument n.
func integerArg(L *glua.LState, n int, least int64) (int, error) {
	i, err := integerFrom(L.Get(n), least)
	if err != nil {
		return 0, fault.New(fault.Script, "argument %d is %w", n, err)
	}
	return int(i), nil
}

// optionalInteger reads argument n, which may be missing.
func optionalInteger(L *glua.LState, n int, fallback int, least int64) (int, error) {
	if L.Get(n) == glua.LNil {
		return fallback, nil
	}
	return integerArg(L, n, least)
}

// userData reads argument n, a Go value of type T.
func userData[T any](L *glua.LState, n int, what string) (T, error) {
	if ud, ok := L.Get(n).(*glua.LUserData); ok {
		if v, ok := ud.Value.(T); ok {
			return v, nil
		}
	}
	var none T
	return none, fault.New(fault.Script, "argument %d is %s, want %s", n, describe(L.Get(n)), what)
}

// ranksArg reads argument n, a list of ranks.
func ranksArg(L *glua.LState, n int) ([]int, error) { return ranksFrom(L.CheckTable(n)) }

func ranksFrom(t *glua.LTable) ([]int, error) {
	ranks := make([]int, 0, t.Len())
	for i, n := 1, t.Len(); i <= n; i++ {
		r, err := integerFrom(t.RawGetInt(i), 0)
		if err != nil {
			return nil, fault.New(fault.Script, "element %d of the list of ranks is %w", i, err)
		}
		ranks = append(ranks, int(r))
	}
	return ranks, nil
}

// maxQuoted bounds what messages quote of a text: one of a script's may have 64 MiB, and be four times as long when it
// is escaped.
const maxQuoted = 256

func quoted(text string) string {
	if len(text) <= maxQuoted {
		return strconv.Quote(text)
	}
	return fmt.Sprintf("%q (%d bytes)", plaintext.Cut(text, maxQuoted), len(text))
}

// describe names a value in a message.
func describe(v glua.LValue) string {
	switch v.Type() {
	case glua.LTNil:
		return "missing"
	case glua.LTString:
		return "the string " + quoted(v.String())
	case glua.LTNumber, glua.LTBool:
		return v.String()
	}
	return "a " + v.Type().String()
}
