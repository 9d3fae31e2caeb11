package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
)

// Visit is given the measurements of a document one by one, in their order, with
// the document so far: its patterns and matrices are there.
type Visit func(d *Document, m *Measurement) error

// Scan reads a result like [Read], but hands its measurements to visit instead
// of keeping them, so that the memory it takes does not grow with their number.
// The document comes back without measurements. An error of visit ends the scan;
// it is reported like one of the file.
func Scan(path string, visit Visit) (*Document, error) {
	t, err := openText(path)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	s := scanner{in: json.NewDecoder(t.in), visit: visit, seen: map[string]bool{}}
	d, err := s.document()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = truncated(t.text.n, s.count+len(s.early))
	}
	if err != nil {
		return nil, inputError(t.path, err)
	}
	return d, nil
}

// hinted is an error with a remedy.
type hinted struct {
	error
	hint string
}

// truncated is the error of a text that ends too early: how many bytes of JSON could be read, and how many measurements
// are whole among them, where they were counted.
func truncated(bytes int64, measurements int) error {
	text := "it ends in the middle: nothing of it can be read"
	if bytes > 0 {
		text = fmt.Sprintf("it ends in the middle: %d bytes of its JSON can be read", bytes)
	}
	if measurements > 0 {
		text += fmt.Sprintf(", with %d measurements", measurements)
	}
	return hinted{errors.New(text), "it was cut off, while it was copied perhaps; get it again"}
}

// inputError says what is wrong with a file, and what to do.
func inputError(path string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = truncated(0, 0)
	}
	hint := "is it a result of perigee?"
	if h, ok := errors.AsType[hinted](err); ok {
		hint = h.hint
	}
	return fault.New(fault.Input, "result %s: %w", path, err).WithHint("%s", hint)
}

// checkSchema refuses other documents, and those of other versions.
func checkSchema(schema string) error {
	family, mine, _ := strings.Cut(Schema, "/")
	number, _ := strconv.Atoi(mine)
	theirs, version, _ := strings.Cut(schema, "/")
	n, err := strconv.Atoi(version)
	other := fmt.Errorf("schema is %q, want %q", schema, Schema)
	switch {
	case schema == Schema:
		return nil
	case theirs != family || err != nil:
		return other
	case n < number:
		return hinted{other, "an earlier perigee has written it; use that one, or measure again"}
	}
	return hinted{fmt.Errorf("its schema is %s, this perigee (schema %s) is older", schema, Schema),
		"read it with a newer perigee"}
}

func (s *scanner) document() (*Document, error) {
	in := s.in
	if err := expect(in, json.Delim('{')); err != nil {
		return nil, err
	}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return nil, cutOff(err)
		}
		if err := s.member(key.(string)); err != nil {
			return nil, cutOff(err)
		}
	}
	if err := expect(in, json.Delim('}')); err != nil {
		return nil, err
	}
	if err := AtEnd(in); err != nil {
		return nil, err
	}
	if err := checkSchema(s.d.Schema); err != nil {
		return nil, err
	}
	return &s.d, s.finish()
}

// scanner is a scan under way.
type scanner struct {
	in    *json.Decoder
	d     Document
	visit Visit
	seen  map[string]bool
	count int
	// early holds measurements that stand before the patterns they belong to.
	early []Measurement
	ready bool // the patterns were checked
}

// member reads one member of the document. What this version does not know it passes over.
func (s *scanner) member(key string) error {
	if s.seen[key] { // measurements refer to patterns, which must not change
		return fmt.Errorf("%s is there twice", key)
	}
	s.seen[key] = true
	if key == "measurements" {
		return s.measurements()
	}
	members := s.d.members()
	i := slices.IndexFunc(members, func(m member) bool { return m.name == key })
	if i < 0 {
		return Skip(s.in)
	}
	if err := s.in.Decode(members[i].value.Addr().Interface()); err != nil {
		return err
	}
	if key == "schema" {
		return checkSchema(s.d.Schema) // before anything that only a newer one knows
	}
	return nil
}

func (s *scanner) measurements() error {
	t, err := s.in.Token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('[') {
		return fmt.Errorf("measurements is no list")
	}
	known := s.seen["patterns"] && s.seen["matrices"]
	for s.in.More() {
		var m Measurement
		if err := s.in.Decode(&m); err != nil {
			return err
		}
		if known {
			err = s.hand(&m)
		} else {
			s.early = append(s.early, m)
		}
		if err != nil {
			return err
		}
	}
	_, err = s.in.Token()
	return err
}

// hand gives a measurement to the visitor.
func (s *scanner) hand(m *Measurement) error {
	if !s.ready {
		if err := s.d.check(); err != nil {
			return err
		}
		s.ready = true
	}
	err := s.d.checkRun(m.Pattern, m.Iteration)
	if err == nil {
		err = s.visit(&s.d, m)
	}
	if err != nil {
		return fmt.Errorf("measurements[%d]: %w", s.count, err)
	}
	s.count++
	return nil
}

func (s *scanner) finish() error {
	for i := range s.early {
		if err := s.hand(&s.early[i]); err != nil {
			return err
		}
	}
	s.early = nil
	return s.d.check()
}

func expect(in *json.Decoder, want json.Delim) error {
	t, err := in.Token()
	if err != nil {
		return cutOff(err)
	}
	if t != want {
		return fmt.Errorf("it is no JSON object")
	}
	return nil
}

// cutOff makes one error of the two ends that a JSON text can have too early.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
