package conf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/value"
)

// Kind names the type of a [Value].
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Int
	Float
	String
	List
	Map
)

var kindNames = [...]string{"nothing (null)", "a boolean", "a whole number", "a number", "text", "a list", "a map"}

// String names the kind in the words of messages: "a whole number", "a list".
func (k Kind) String() string {
	if k > Map {
		return fmt.Sprintf("kind %d", int(k))
	}
	return kindNames[k]
}

// Value is one value of a document and where it stands. Values are read-only.
//
// Every method may be called on a nil *Value, which [Value.Get] gives for a key
// that is not there: it holds nothing.
type Value struct {
	File string // as given to Parse or Load; may be empty
	Line int    // of its key or, in a list, of the element, from 1; 0 if unknown
	Kind Kind

	parent *Value // nil at the top
	key    string // in a map
	index  int    // in a list
	depth  int    // lists and maps around it

	scalar any               // bool, int64, float64 or string
	list   []*Value          // of a list
	keys   []string          // of a map, in the document's order
	fields map[string]*Value // of a map

	// written is a scalar that a YAML document has without quotes, as it stands there, "" for others: readers of YAML
	// 1.1 and of 1.2 take words such as yes and 1:30 for different things, and each is to find the value that it knows.
	// So are numbers of JSON which have more digits than they have here.
	written  string
	keyPlain bool // the document has its key without quotes or tag
	cell     bool // of a CSV table, which does not say what is text
}

// scalarOf returns what v holds, if that is a T.
func scalarOf[T any](v *Value) (held T) {
	if v != nil {
		held, _ = v.scalar.(T)
	}
	return held
}

// Bool returns the boolean that v holds, false if it holds none.
func (v *Value) Bool() bool { return scalarOf[bool](v) }

// Int returns the whole number that v holds, 0 if it holds none.
func (v *Value) Int() int64 { return scalarOf[int64](v) }

// Text returns the text that v holds, "" if it holds none.
func (v *Value) Text() string { return scalarOf[string](v) }

// Float returns the number that v holds, whole or not, and 0 if it holds none.
func (v *Value) Float() float64 {
	if v != nil && v.Kind == Int {
		return float64(v.Int())
	}
	return scalarOf[float64](v)
}

// Len returns the number of elements of a list or of keys of a map, otherwise
// 0.
func (v *Value) Len() int { return len(v.List()) + len(v.Keys()) }

// List returns the elements of a list, otherwise nil.
func (v *Value) List() []*Value {
	if v == nil {
		return nil
	}
	return v.list
}

// Keys returns the keys of a map in the document's order, otherwise nil.
func (v *Value) Keys() []string {
	if v == nil {
		return nil
	}
	return v.keys
}

// Get returns the value of a key of a map, or nil.
func (v *Value) Get(key string) *Value {
	if v == nil {
		return nil
	}
	return v.fields[key]
}

// Has reports whether v is a map with the key.
func (v *Value) Has(key string) bool { return v.Get(key) != nil }

var plainKey = lazyre.New(`^[A-Za-z0-9_-]+$`)

// Path returns the way to v from the top of the document, such as
// traffic_patterns[2].mem_type (indices from 0). The top itself has the path
// "".
func (v *Value) Path() string {
	if v == nil || v.parent == nil {
		return ""
	}
	var steps []string
	for ; v.parent != nil; v = v.parent {
		switch {
		case v.parent.Kind == List:
			steps = append(steps, "["+strconv.Itoa(v.index)+"]")
		case !plainKey.MatchString(v.key):
			steps = append(steps, "["+quote(v.key)+"]")
		default:
			steps = append(steps, "."+v.key)
		}
	}
	slices.Reverse(steps)
	return strings.TrimPrefix(strings.Join(steps, ""), ".")
}

// WithoutNulls returns a copy of v in which no map has a key that holds
// nothing. What is in lists stays.
func (v *Value) WithoutNulls() *Value {
	if v.Kind != Map {
		return v
	}
	clean := v.as(Map, nil)
	for _, key := range v.Keys() {
		if v.Get(key).Kind != Null {
			clean.put(key, v.Get(key).WithoutNulls())
		}
	}
	return clean
}

// Plain returns v as plain Go data: nil, bool, int64, float64, string, []any
// and map[string]any.
func (v *Value) Plain() any {
	if v == nil {
		return nil
	}
	switch v.Kind {
	case List:
		list := make([]any, len(v.List()))
		for i, element := range v.List() {
			list[i] = element.Plain()
		}
		return list
	case Map:
		fields := make(map[string]any, len(v.Keys()))
		for _, key := range v.Keys() {
			fields[key] = v.Get(key).Plain()
		}
		return fields
	}
	return v.scalar
}

// Errorf makes an error of the kind Input that begins with where v stands:
// "traffic.yaml:7: traffic_patterns[2].mem_type: ".
func (v *Value) Errorf(format string, args ...any) *fault.Error {
	err := fault.New(fault.Input, format, args...)
	if v == nil {
		return err
	}
	if path := v.Path(); path != "" {
		err.Msg = path + ": " + err.Msg
	}
	if where := place(v.File, v.Line); where != "" {
		err.Msg = where + ": " + err.Msg
	}
	return err
}

// place writes file:line as far as they are known.
func place(file string, line int) string {
	switch {
	case line == 0:
		return file
	case file == "":
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// describe says what v holds, for the "got" of a message.
func (v *Value) describe() string {
	if v.Kind == List || v.Kind == Map {
		return v.Kind.String()
	}
	return value.Shown(v.scalar)
}

// quote shows text of unknown origin in a message: escaped and not too long.
func quote(s string) string {
	const most = 60
	return strconv.Quote(plaintext.Cut(s, most))
}
