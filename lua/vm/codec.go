package vm

import (
	"encoding/binary"
	"fmt"

	"perigee/internal/kit/pack"
)

// Plain data travels between ranks as a tag and what belongs to it: numbers as
// varints or 8 bytes, texts with their length, lists and maps with their number
// of elements.
const (
	tagNil    = 'n'
	tagFalse  = 'f'
	tagTrue   = 't'
	tagInt    = 'i'
	tagFloat  = 'd'
	tagString = 's'
	tagList   = 'l'
	tagMap    = 'm'
)

// Encode writes plain data.
func Encode(v any) []byte { return appendValue(nil, v) }

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, tagNil)
	case bool:
		if v {
			return append(b, tagTrue)
		}
		return append(b, tagFalse)
	case int64:
		return binary.AppendVarint(append(b, tagInt), v)
	case float64:
		return pack.AppendFloat(append(b, tagFloat), v)
	case string:
		return pack.AppendText(append(b, tagString), v)
	case []any:
		b = binary.AppendUvarint(append(b, tagList), uint64(len(v)))
		for _, e := range v {
			b = appendValue(b, e)
		}
		return b
	case map[string]any:
		b = binary.AppendUvarint(append(b, tagMap), uint64(len(v)))
		for _, k := range sortedKeys(v) {
			b = appendValue(pack.AppendText(b, k), v[k])
		}
		return b
	}
	panic(fmt.Sprintf("lua: %T is no plain data", v)) // a defect of the caller
}

// Decode reads what Encode wrote.
func Decode(data []byte) (any, error) {
	r := pack.Read(data)
	v := readValue(r, 0)
	return v, r.End("a value from another rank")
}

func readValue(r *pack.Reader, depth int) any {
	if depth > 2*maxDepth {
		r.Fail()
		return nil
	}
	switch r.Byte() {
	case tagNil:
		return nil
	case tagFalse:
		return false
	case tagTrue:
		return true
	case tagInt:
		return r.Signed()
	case tagFloat:
		return r.Float()
	case tagString:
		return r.Text()
	case tagList:
		list := make([]any, r.Count())
		for i := range list {
			list[i] = readValue(r, depth+1)
		}
		return list
	case tagMap:
		m := map[string]any{}
		for left := r.Count(); left > 0 && r.Err() == nil; left-- {
			key := r.Text()
			m[key] = readValue(r, depth+1)
		}
		return m
	}
	r.Fail()
	return nil
}
