package conf

import (
	"maps"
	"slices"
)

// FromPlain makes a tree of plain Go data, such as a script's table: nil, bool,
// int, int64, float64, string, []string, []any and map[string]any. Maps are
// taken in the order of their keys. file stands for the data in errors and is
// where relative paths start; it may be empty. Other types are an error, as is
// data that is nested deeper than a document can be.
func FromPlain(file string, data any) (*Value, error) {
	top := &Value{File: file}
	b := &builder{}
	if err := b.fillPlain(top, data); err != nil {
		return nil, err
	}
	return top, nil
}

func (b *builder) fillPlain(v *Value, data any) error {
	switch d := data.(type) {
	case nil:
	case bool:
		v.become(Bool, d)
	case int:
		v.become(Int, int64(d))
	case int64:
		v.become(Int, d)
	case float64:
		v.become(Float, d)
	case string:
		v.become(String, d)
	case *Value:
		if d.Kind == List || d.Kind == Map {
			return v.Errorf("wanted plain data, got %s", d.Kind)
		}
		v.become(d.Kind, d.scalar)
		v.written = d.written
	case []string:
		return fillPlainList(b, v, d)
	case []any:
		return fillPlainList(b, v, d)
	case map[string]any:
		return b.fillPlainMap(v, d)
	default:
		return v.Errorf("wanted plain data, got a value of the type %T", data)
	}
	return nil
}

func fillPlainList[E any](b *builder, v *Value, elements []E) error {
	v.become(List, nil)
	for _, element := range elements {
		value, err := b.item(v, v.Line)
		if err != nil {
			return err
		}
		if err := b.fillPlain(value, element); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) fillPlainMap(v *Value, fields map[string]any) error {
	v.become(Map, nil)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value, err := b.entry(v, key, v.Line)
		if err != nil {
			return err
		}
		if err := b.fillPlain(value, fields[key]); err != nil {
			return err
		}
	}
	return nil
}
