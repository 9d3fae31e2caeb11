package conf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Schema lists the keys of a document whose top is a map.
type Schema []Field

// Field says what one key of a map, or each element of a list, may hold.
//
// The types and what a checked value holds:
//
//	int     a whole number (Int); 50.0 is one too
//	float   a finite number (Float)
//	bool    true or false (Bool)
//	string  text (String)
//	size    bytes (Int): a whole number, or text such as "1.5G" (see size.Parse)
//	tokens  a number of tokens (Int): a whole number, or text such as "64k" (see value.Field)
//	path    a file (String); a relative path starts at the document's folder
//	enum    one of the texts in Enum (String)
//	map     keys as in Fields, or any keys whose values are as in Elem, or anything (Map)
//	list    elements as in Elem, or anything (List)
//	any     anything, untouched
type Field struct {
	Name     string   // the key; empty in an Elem
	Type     string   // see above
	Default  any      // for a missing key, as plain data of the Type; nil: the key stays missing
	Required bool     // a missing key is an error
	Min, Max *float64 // bounds, included, of a number, or of the length of a list
	Enum     []string // the texts of an enum
	Help     string   // one line for the user
	Fields   []Field  // the keys of a map
	Elem     *Field   // what the elements of a list, or the values of a map without Fields, are
	Aliases  []string // other names of the key; a checked map has Name instead
}

// typeNames are the names of the types in the order of Field's comment.
var typeNames = []string{"int", "float", "bool", "string", "size", "tokens", "path", "enum", "map", "list", "any"}

// Validate reports the first mistake in the schema itself: an unknown type, a
// name given twice, a default that is not allowed, attributes that do not go
// with the type. It is an ordinary error that names the field.
func (s Schema) Validate() error { return validateFields("", s) }

func validateFields(path string, fields []Field) error {
	seen := map[string]bool{}
	for i := range fields {
		f := &fields[i]
		if f.Name == "" {
			return fmt.Errorf("schema: field %d of %s has no name", i+1, cmp.Or(path, "the document"))
		}
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			if seen[name] {
				return fmt.Errorf("schema: %s is there twice", join(path, name))
			}
			seen[name] = true
		}
		if err := f.validate(join(path, f.Name)); err != nil {
			return err
		}
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (f *Field) validate(path string) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("schema: %s: %s", path, fmt.Sprintf(format, args...))
	}
	bounded := slices.Contains([]string{"int", "float", "size", "tokens", "list"}, f.Type)
	switch {
	case !slices.Contains(typeNames, f.Type):
		return wrong("wanted a type of %s, got %s", strings.Join(typeNames, ", "), quote(f.Type))
	case (f.Type == "enum") != (len(f.Enum) > 0):
		return wrong("the type enum, and only that, goes with a list of texts (enum)")
	case f.Fields != nil && f.Type != "map":
		return wrong("only the type map has fields")
	case f.Elem != nil && f.Type != "map" && f.Type != "list":
		return wrong("only the types map and list have an elem")
	case f.Elem != nil && f.Fields != nil:
		return wrong("a map has either fields or an elem")
	case (f.Min != nil || f.Max != nil) && !bounded:
		return wrong("only numbers, sizes and lists have a min and a max")
	case f.Min != nil && f.Max != nil && *f.Min > *f.Max:
		return wrong("its min %v is above its max %v", *f.Min, *f.Max)
	case f.Required && f.Default != nil:
		return wrong("a required key cannot have a default")
	}
	if f.Elem != nil {
		if err := f.Elem.validate(path + "[]"); err != nil {
			return err
		}
	}
	if err := validateFields(path, f.Fields); err != nil {
		return err
	}
	if f.Default != nil {
		if _, err := f.defaultFor(&Value{}); err != nil {
			return wrong("its default: %v", err)
		}
	}
	return nil
}

// fieldSchema is the schema of a field that is written as data. Fields and
// elem are fields again and read one by one.
var fieldSchema = Schema{
	{Name: "name", Type: "string"},
	{Name: "type", Type: "enum", Enum: typeNames, Required: true},
	{Name: "default", Type: "any"},
	{Name: "required", Type: "bool"},
	{Name: "min", Type: "float"},
	{Name: "max", Type: "float"},
	{Name: "enum", Type: "list", Elem: &Field{Type: "string"}},
	{Name: "help", Type: "string"},
	{Name: "fields", Type: "any"},
	{Name: "elem", Type: "any"},
	{Name: "aliases", Type: "list", Elem: &Field{Type: "string"}},
}

// SchemaFrom reads a schema that is written as data: a list of maps with the
// names of Field's members in small letters as keys, or a map from the names
// of the fields to such maps. The schema is valid ([Schema.Validate]).
func SchemaFrom(v *Value) (Schema, error) {
	fields, err := fieldsFrom(v)
	if err != nil {
		return nil, err
	}
	if err := Schema(fields).Validate(); err != nil {
		return nil, v.Errorf("%w", err)
	}
	return fields, nil
}

func fieldsFrom(v *Value) ([]Field, error) {
	entries := v.List()
	switch v.Kind {
	case Map:
		for _, name := range v.Keys() {
			entries = append(entries, v.Get(name))
		}
	case List:
	default:
		return nil, v.Errorf("wanted a list or a map of fields, got %s", v.describe())
	}
	fields := make([]Field, 0, len(entries))
	for _, entry := range entries {
		f, err := fieldFrom(entry)
		if err != nil {
			return nil, err
		}
		if v.Kind == Map && f.Name == "" {
			f.Name = entry.key
		}
		fields = append(fields, f)
	}
	return fields, nil
}

func fieldFrom(v *Value) (Field, error) {
	v, err := fieldSchema.Check(v)
	if err != nil {
		return Field{}, err
	}
	f := Field{
		Name:     v.Get("name").Text(),
		Type:     v.Get("type").Text(),
		Default:  v.Get("default").Plain(),
		Required: v.Get("required").Bool(),
		Min:      bound(v.Get("min")),
		Max:      bound(v.Get("max")),
		Enum:     texts(v.Get("enum")),
		Help:     v.Get("help").Text(),
		Aliases:  texts(v.Get("aliases")),
	}
	if inner := v.Get("fields"); inner != nil {
		if f.Fields, err = fieldsFrom(inner); err != nil {
			return Field{}, err
		}
	}
	if inner := v.Get("elem"); inner != nil {
		elem, err := fieldFrom(inner)
		if err != nil {
			return Field{}, err
		}
		f.Elem = &elem
	}
	return f, nil
}

func bound(v *Value) *float64 {
	if v == nil {
		return nil
	}
	f := v.Float()
	return &f
}

func texts(v *Value) []string {
	var list []string
	for _, element := range v.List() {
		list = append(list, element.Text())
	}
	return list
}

// Paths lists the values of all keys of type path in a checked document, in its order.
func (s Schema) Paths(v *Value) []string {
	if v.Kind == List {
		return s.rows().paths(v)
	}
	f := Field{Type: "map", Fields: s}
	return f.paths(v)
}

func (f *Field) paths(v *Value) (list []string) {
	switch f.Type {
	case "path":
		if v != nil && v.Kind == String {
			list = append(list, v.Text())
		}
	case "list":
		for _, e := range v.List() {
			if f.Elem != nil {
				list = append(list, f.Elem.paths(e)...)
			}
		}
	case "map":
		for i := range f.Fields {
			list = append(list, f.Fields[i].paths(v.Get(f.Fields[i].Name))...)
		}
		for _, key := range v.Keys() {
			if f.Elem != nil {
				list = append(list, f.Elem.paths(v.Get(key))...)
			}
		}
	}
	return list
}
