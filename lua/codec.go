package lua

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
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

// encodeValue writes plain data.
func encodeValue(v any) []byte { return appendValue(nil, v) }

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
		return binary.LittleEndian.AppendUint64(append(b, tagFloat), math.Float64bits(v))
	case string:
		return appendText(append(b, tagString), v)
	case []any:
		b = binary.AppendUvarint(append(b, tagList), uint64(len(v)))
		for _, e := range v {
			b = appendValue(b, e)
		}
		return b
	case map[string]any:
		b = binary.AppendUvarint(append(b, tagMap), uint64(len(v)))
		for _, k := range sortedKeys(v) {
			b = appendValue(appendText(b, k), v[k])
		}
		return b
	}
	panic(fmt.Sprintf("lua: %T is no plain data", v)) // a defect of the caller
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errTorn = errors.New("a value from another rank is torn")

// decodeValue reads what encodeValue wrote.
func decodeValue(data []byte) (any, error) {
	d := valueDecoder{data}
	v, err := d.value(0)
	if err == nil && len(d.rest) > 0 {
		err = errTorn
	}
	return v, err
}

type valueDecoder struct{ rest []byte }

// take returns the next n bytes.
func (d *valueDecoder) take(n uint64) ([]byte, error) {
	if n > uint64(len(d.rest)) {
		return nil, errTorn
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b, nil
}

func (d *valueDecoder) count() (uint64, error) {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > uint64(len(d.rest)) { // whatever is counted takes at least a byte
		return 0, errTorn
	}
	d.rest = d.rest[n:]
	return v, nil
}

func (d *valueDecoder) text() (string, error) {
	n, err := d.count()
	if err != nil {
		return "", err
	}
	b, err := d.take(n)
	return string(b), err
}

func (d *valueDecoder) value(depth int) (any, error) {
	if depth > 2*maxDepth {
		return nil, errTorn
	}
	tag, err := d.take(1)
	if err != nil {
		return nil, err
	}
	switch tag[0] {
	case tagNil:
		return nil, nil
	case tagFalse, tagTrue:
		return tag[0] == tagTrue, nil
	case tagInt:
		v, n := binary.Varint(d.rest)
		if n <= 0 {
			return nil, errTorn
		}
		d.rest = d.rest[n:]
		return v, nil
	case tagFloat:
		b, err := d.take(8)
		if err != nil {
			return nil, err
		}
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
	case tagString:
		return d.text()
	case tagList:
		return d.list(depth)
	case tagMap:
		return d.fields(depth)
	}
	return nil, errTorn
}

func (d *valueDecoder) list(depth int) (any, error) {
	n, err := d.count()
	if err != nil {
		return nil, err
	}
	list := make([]any, n)
	for i := range list {
		if list[i], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (d *valueDecoder) fields(depth int) (any, error) {
	n, err := d.count()
	if err != nil {
		return nil, err
	}
	m := make(map[string]any, n)
	for range n {
		k, err := d.text()
		if err != nil {
			return nil, err
		}
		if m[k], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return m, nil
}
