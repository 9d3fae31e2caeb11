package result

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"

	"perigee/internal/fault"
)

// Encode writes the document as JSON, one line, with null for numbers that JSON lacks. Members are written one by one,
// and so are the measurements, so that a long run does not need its text in memory as well.
func (d *Document) Encode(w io.Writer) error {
	e := &encoder{out: bufio.NewWriter(w)}
	e.json = json.NewEncoder(&e.value)
	e.json.SetEscapeHTML(false) // a result is not part of a page, and people read it
	v := reflect.ValueOf(d.finite()).Elem()
	e.text("{")
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue
		}
		name, flags, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		member := v.Field(i)
		if flags == "omitempty" && empty(member) {
			continue
		}
		if i > 0 {
			e.text(",")
		}
		e.encode(name)
		e.text(":")
		if list, ok := member.Interface().([]Measurement); ok {
			e.measurements(list)
		} else {
			e.encode(member.Interface())
		}
	}
	e.text("}\n")
	if e.err != nil {
		return e.err
	}
	return e.out.Flush()
}

// empty reports whether a member is left out.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	case reflect.Pointer, reflect.Bool:
		return v.IsZero()
	}
	return false
}

// encoder writes the parts of a document. The first error ends it.
type encoder struct {
	out   *bufio.Writer // keeps the first error of its writer
	value bytes.Buffer
	json  *json.Encoder
	err   error
}

func (e *encoder) text(s string) { e.out.WriteString(s) }

func (e *encoder) encode(v any) {
	if e.err != nil {
		return
	}
	e.value.Reset()
	if err := e.json.Encode(v); err != nil {
		e.err = fault.New(fault.Internal, "encode the result: %w", err)
		return
	}
	e.out.Write(bytes.TrimSuffix(e.value.Bytes(), []byte("\n")))
}

func (e *encoder) measurements(list []Measurement) {
	e.text("[")
	for i := range list {
		if i > 0 {
			e.text(",")
		}
		e.encode(&list[i])
	}
	e.text("]")
}
