package result

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"reflect"
	"strings"

	"perigee/internal/kit/fault"
)

// Encode writes the document as JSON, one line, with null for numbers that JSON lacks. Members are written one by one,
// and so are the measurements, so that a long run does not need its text in memory as well.
func (d *Document) Encode(w io.Writer) error {
	return d.encodeWith(w, len(d.Measurements) > 0, func(yield func(*Measurement) bool) {
		for i := range d.Measurements {
			if !yield(&d.Measurements[i]) {
				return
			}
		}
	})
}

// encodeWith writes the document with measurements from elsewhere, if there are any.
func (d *Document) encodeWith(w io.Writer, measured bool, measurements iter.Seq[*Measurement]) error {
	e := &encoder{out: bufio.NewWriter(w)}
	e.json = json.NewEncoder(&e.value)
	e.json.SetEscapeHTML(false) // a result is not part of a page, and people read it
	e.text("{")
	for i, m := range d.finite().members() {
		_, runs := m.value.Interface().([]Measurement)
		if m.optional && empty(m.value) && !(runs && measured) {
			continue
		}
		if i > 0 {
			e.text(",")
		}
		e.encode(m.name)
		e.text(":")
		if runs {
			e.measurements(measurements)
		} else {
			e.encode(m.value.Interface())
		}
	}
	e.text("}\n")
	if e.err != nil {
		return e.err
	}
	return e.out.Flush()
}

// member is a member of a document in JSON.
type member struct {
	name     string
	optional bool // it is left out where it is empty
	value    reflect.Value
}

// members returns those of a document in their order.
func (d *Document) members() (list []member) {
	v := reflect.ValueOf(d).Elem()
	for i := range v.NumField() {
		if field := v.Type().Field(i); field.IsExported() {
			name, flags, _ := strings.Cut(field.Tag.Get("json"), ",")
			list = append(list, member{name, flags == "omitempty", v.Field(i)})
		}
	}
	return list
}

// empty reports whether a member has nothing to say.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
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

func (e *encoder) measurements(list iter.Seq[*Measurement]) {
	e.text("[")
	first := true
	for m := range list {
		if !first {
			e.text(",")
		}
		first = false
		if e.encode(m); e.err != nil {
			return
		}
	}
	e.text("]")
}
