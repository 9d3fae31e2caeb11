package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"perigee/internal/fault"
	"perigee/internal/traffic/series"
)

// Visit is given the measurements of a document one by one, in their order, with
// the document so far: its patterns and matrices are there. m is valid during
// the call only.
type Visit func(d *Document, m *Measurement) error

// Scan reads a result like [Read], but hands its measurements to visit instead
// of keeping them, so that the memory it takes does not grow with their number.
// The document comes back without measurements. An error of visit ends the scan;
// it is reported like one of the file.
func Scan(path string, visit Visit) (*Document, error) {
	t, err := OpenText(path)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return t.Scan(visit)
}

// Scan is [Scan] of the text.
func (t *Text) Scan(visit Visit) (*Document, error) {
	s := scanner{in: json.NewDecoder(t.in), visit: visit, seen: map[string]bool{}}
	s.members = s.d.members()
	d, err := s.document()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = truncated{t.text.n, s.count + len(s.early)}
	}
	if err != nil {
		return nil, inputError(t.path, err)
	}
	return d, nil
}

// truncated is the end of a text that comes too early.
type truncated struct {
	bytes        int64 // of JSON that could be read
	measurements int   // that are whole among them, where they were counted
}

func (t truncated) Error() string {
	switch {
	case t.bytes == 0:
		return "it ends in the middle: nothing of it can be read"
	case t.measurements == 0:
		return fmt.Sprintf("it ends in the middle: %d bytes of its JSON can be read", t.bytes)
	}
	return fmt.Sprintf("it ends in the middle: %d bytes of its JSON can be read, with %d measurements", t.bytes,
		t.measurements)
}

// inputError says what is wrong with a file, and what to do.
func inputError(path string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = truncated{}
	}
	e := fault.New(fault.Input, "result %s: %w", path, err)
	switch {
	case errors.As(err, new(newer)):
		return e.WithHint("read it with a newer perigee")
	case errors.As(err, new(older)):
		return e.WithHint("an earlier perigee has written it; use that one, or measure again")
	case errors.As(err, new(truncated)):
		return e.WithHint("it was cut off, while it was copied perhaps; get it again")
	}
	return e.WithHint("is it a result of perigee?")
}

// newer is the schema of a document that a later version wrote.
type newer struct{ schema string }

func (n newer) Error() string {
	return fmt.Sprintf("its schema is %s, this perigee (schema %s) is older", n.schema, Schema)
}

// older is the schema of a document that an earlier version wrote.
type older struct{ schema string }

func (o older) Error() string { return fmt.Sprintf("schema is %q, want %q", o.schema, Schema) }

// checkSchema refuses other documents and those of later versions.
func checkSchema(schema string) error {
	if schema == Schema {
		return nil
	}
	family, number, _ := strings.Cut(Schema, "/")
	if theirs, version, ok := strings.Cut(schema, "/"); ok && theirs == family {
		mine, _ := strconv.Atoi(number)
		switch n, err := strconv.Atoi(version); {
		case err == nil && n > mine:
			return newer{schema}
		case err == nil:
			return older{schema}
		}
	}
	return fmt.Errorf("schema is %q, want %q", schema, Schema)
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
	// members are where the members of the document go, by their names.
	members map[string]any

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
	to, known := s.members[key]
	switch {
	case key == "measurements":
		return s.measurements()
	case !known:
		return Skip(s.in)
	}
	if err := s.in.Decode(to); err != nil {
		return err
	}
	if key == "schema" {
		return checkSchema(s.d.Schema) // before anything that only a newer one knows
	}
	return nil
}

// members returns where each member of the document is kept, by its name in JSON.
func (d *Document) members() map[string]any {
	m := map[string]any{}
	v := reflect.ValueOf(d).Elem()
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		m[name] = v.Field(i).Addr().Interface()
	}
	return m
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
	var m Measurement
	for s.in.More() {
		reset(&m)
		if err := s.in.Decode(&m); err != nil {
			return err
		}
		if known {
			err = s.hand(&m)
		} else {
			s.early, m = append(s.early, m), Measurement{}
		}
		if err != nil {
			return err
		}
	}
	_, err = s.in.Token()
	return err
}

// reset empties a measurement and keeps the memory of its lists, for the next.
func reset(m *Measurement) {
	ranks := m.Ranks
	for i := range ranks {
		peers := ranks[i].Peers
		clear(peers[:cap(peers)])
		ranks[i] = series.RankRun{Peers: peers[:0]}
	}
	*m = Measurement{}
	m.Ranks = ranks[:0]
}

// hand gives a measurement to the visitor.
func (s *scanner) hand(m *Measurement) error {
	if !s.ready {
		if err := s.d.check(); err != nil {
			return err
		}
		s.ready = true
	}
	err := s.d.checkRun(m)
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
