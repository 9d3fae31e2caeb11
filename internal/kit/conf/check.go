package conf

import (
	"fmt"
	"path/filepath"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/value"
)

// Check compares a document with the schema. It returns a new tree in which
// every key has its first name, every value the type of its field (see
// [Field]), and every missing key its default, if there is one. Values keep
// their line; a default has that of the map it was missing in. v stays as it
// is.
//
// The first mistake in the document's order is the error; keys that are
// missing come after what is there. A mistake in the schema is an error of the
// kind [fault.Internal].
func (s Schema) Check(v *Value) (*Value, error) {
	if err := s.Validate(); err != nil {
		return nil, fault.New(fault.Internal, "%w", err)
	}
	return checkFields(s, v)
}

// as returns a copy of v with another content. It stands where v stands.
func (v *Value) as(kind Kind, scalar any) *Value {
	return &Value{
		File: v.File, Line: v.Line, Kind: kind, scalar: scalar,
		parent: v.parent, key: v.key, keyPlain: v.keyPlain, index: v.index, depth: v.depth,
	}
}

// mismatch reports a value of the wrong type.
func mismatch(v *Value, wanted string) *fault.Error {
	return v.Errorf("wanted %s, got %s", wanted, v.describe())
}

func checkFields(fields []Field, v *Value) (*Value, error) {
	if v.Kind != Map {
		return nil, mismatch(v, "a map with "+listKeys(fields))
	}
	known := byName(fields)
	checked := v.as(Map, nil)
	for _, key := range v.Keys() {
		value := v.Get(key)
		f := known[key]
		if f == nil {
			return nil, unknownKey(value, key, fields)
		}
		if first := checked.Get(f.Name); first != nil {
			return nil, value.Errorf("this is another name of %s, which is on line %d already", first.key, first.Line)
		}
		result, err := f.check(value)
		if err != nil {
			return nil, err
		}
		checked.put(f.Name, result)
	}
	if err := addMissing(fields, checked); err != nil {
		return nil, err
	}
	return checked, nil
}

// addMissing gives a checked map the defaults of the keys it lacks.
func addMissing(fields []Field, checked *Value) error {
	var lacks []*Field
	for i := range fields {
		f := &fields[i]
		switch {
		case checked.Has(f.Name):
		case f.Required:
			lacks = append(lacks, f)
		case f.Default != nil:
			value, err := f.defaultFor(checked)
			if err != nil {
				return err
			}
			checked.put(f.Name, value)
		}
	}
	if lacks != nil {
		return missing(lacks, checked)
	}
	return nil
}

// missing is the error of keys that a map lacks, all at once. Of a single one it says what it is for.
func missing(fields []*Field, from *Value) error {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	err := from.Errorf("%s", AreMissing(names))
	if f := fields[0]; len(fields) == 1 && f.Help != "" {
		return err.WithHint("%s: %s", f.Name, f.Help)
	}
	return err
}

// AreMissing says which keys are missing.
func AreMissing(keys []string) string {
	if len(keys) == 1 {
		return fmt.Sprintf("the key %s is missing", keys[0])
	}
	return fmt.Sprintf("the keys %s are missing", strings.Join(keys, ", "))
}

// defaultFor returns the checked default of f for a map that lacks the key.
func (f *Field) defaultFor(in *Value) (*Value, error) {
	v := in.newEntry(f.Name, in.Line)
	if err := v.fillPlain(f.Default); err != nil {
		return nil, err
	}
	return f.check(v)
}

func byName(fields []Field) map[string]*Field {
	known := make(map[string]*Field, len(fields))
	for i := range fields {
		known[fields[i].Name] = &fields[i]
		for _, alias := range fields[i].Aliases {
			known[alias] = &fields[i]
		}
	}
	return known
}

func unknownKey(v *Value, key string, fields []Field) error {
	var candidates []string
	for i := range fields {
		candidates = append(append(candidates, fields[i].Name), fields[i].Aliases...)
	}
	return v.Errorf("the key %s is not known here%s", quote(key), value.Suggestion(key, candidates)).
		WithHint("wanted a map with %s", listKeys(fields))
}

// listKeys says which keys a map may have.
func listKeys(fields []Field) string {
	if len(fields) == 0 {
		return "no keys"
	}
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return "the keys " + strings.Join(names, ", ")
}

// check returns v as the type of f.
func (f *Field) check(v *Value) (*Value, error) {
	if v.cell {
		v = v.cellFor(f)
	}
	switch f.Type {
	case "path":
		path := v.Text()
		if path == "" || strings.ContainsRune(path, 0) {
			return nil, mismatch(v, "the path of a file")
		}
		if !filepath.IsAbs(path) {
			path = file.Beside(v.File, path)
		}
		return v.as(String, path), nil
	case "map":
		return f.checkMap(v)
	case "list":
		return f.checkList(v)
	case "any":
		return v, nil
	}
	bounds := f.value()
	to, ok := bounds.Take(v.scalar)
	if ok && (f.Type == "string" || f.Type == "bool") {
		return v, nil // as it is written
	}
	if ok {
		checked := v.as(Null, nil)
		return checked, checked.fillPlain(to)
	}
	err := mismatch(v, bounds.Wanted())
	err.Msg += value.Suggestion(v.Text(), f.Enum)
	if f.Type == "string" && (v.Kind == Bool || v.Kind == Int || v.Kind == Float) {
		return nil, err.WithHint("in quotes it would be text")
	}
	return nil, err
}

// value is what a scalar, or a list's length, may be.
func (f *Field) value() value.Field {
	kind := f.Type
	if kind == "float" {
		kind = "number"
	}
	return value.Field{Type: kind, Min: f.Min, Max: f.Max, Choices: f.Enum}
}

func (f *Field) checkMap(v *Value) (*Value, error) {
	if f.Fields != nil {
		return checkFields(f.Fields, v)
	}
	if v.Kind != Map {
		return nil, mismatch(v, "a map")
	}
	if f.Elem == nil {
		return v, nil
	}
	checked := v.as(Map, nil)
	for _, key := range v.Keys() {
		value, err := f.Elem.check(v.Get(key))
		if err != nil {
			return nil, err
		}
		checked.put(key, value)
	}
	return checked, nil
}

func (f *Field) checkList(v *Value) (*Value, error) {
	bounds := f.value()
	switch {
	case v.Kind != List:
		return nil, mismatch(v, bounds.Wanted())
	case !bounds.Holds(v.Len()):
		return nil, v.Errorf("wanted %s, got %d", bounds.Wanted(), v.Len())
	case f.Elem == nil:
		return v, nil
	}
	checked := v.as(List, nil)
	for _, element := range v.List() {
		value, err := f.Elem.check(element)
		if err != nil {
			return nil, err
		}
		checked.list = append(checked.list, value)
	}
	return checked, nil
}
