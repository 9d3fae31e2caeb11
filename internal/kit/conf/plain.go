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
	if err := top.fillPlain(data); err != nil {
		return nil, err
	}
	return top, nil
}

func (v *Value) fillPlain(data any) error {
	switch d := data.(type) {
	case nil:
	case bool:
		v.Kind, v.scalar = Bool, d
	case int:
		v.Kind, v.scalar = Int, int64(d)
	case int64:
		v.Kind, v.scalar = Int, d
	case float64:
		v.Kind, v.scalar = Float, d
	case string:
		v.Kind, v.scalar = String, d
	case *Value:
		if d.Kind == List || d.Kind == Map {
			return v.Errorf("wanted plain data, got %s", d.Kind)
		}
		v.Kind, v.scalar, v.written = d.Kind, d.scalar, d.written
	case []string:
		return fillPlainList(v, d)
	case []any:
		return fillPlainList(v, d)
	case map[string]any:
		v.Kind = Map
		for _, key := range slices.Sorted(maps.Keys(d)) {
			value, err := v.entry(key, v.Line)
			if err == nil {
				err = value.fillPlain(d[key])
			}
			if err != nil {
				return err
			}
		}
	default:
		return v.Errorf("wanted plain data, got a value of the type %T", data)
	}
	return nil
}

func fillPlainList[E any](v *Value, elements []E) error {
	v.Kind = List
	for _, element := range elements {
		value, err := v.item(v.Line)
		if err == nil {
			err = value.fillPlain(element)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
