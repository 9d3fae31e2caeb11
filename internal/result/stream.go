package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"perigee/internal/fault"
)

// Open yields the JSON text of a result piece by piece. Its beginning has been looked at: it is
// a result of this version, as far as that can be told from there. Closing it closes the file.
func Open(path string) (io.ReadCloser, error) {
	if err := checkBeginning(path); err != nil {
		return nil, err
	}
	return openText(path)
}

func openText(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.Input, "result: %w", err)
	}
	text, done, err := open(f)
	if err != nil {
		f.Close()
		return nil, inputError(path, err)
	}
	return &opened{text: text, path: path, left: maxSize, close: func() error { done(); return f.Close() }}, nil
}

// opened is the text of a result, and fails where more comes than it may read, or what
// comes is damaged.
type opened struct {
	text  io.Reader
	path  string
	left  int64
	close func() error
}

func (o *opened) Read(p []byte) (int, error) {
	n, err := o.text.Read(p)
	if o.left -= int64(n); o.left < 0 {
		return n, inputError(o.path, errTooLong)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = inputError(o.path, err)
	}
	return n, err
}

func (o *opened) Close() error { return o.close() }

// checkBeginning reads as far as to the schema, which is in front.
func checkBeginning(path string) error {
	r, err := openText(path)
	if err != nil {
		return err
	}
	defer r.Close()
	err = findSchema(json.NewDecoder(r))
	if _, told := errors.AsType[*fault.Error](err); err == nil || told {
		return err
	}
	return inputError(path, err)
}

func findSchema(d *json.Decoder) error {
	if err := expect(d, json.Delim('{')); err != nil {
		return err
	}
	for d.More() {
		t, err := Token(d)
		if err != nil {
			return err
		}
		if t == "schema" {
			var schema string
			if err := d.Decode(&schema); err != nil {
				return cutOff(err)
			}
			return checkSchema(schema)
		}
		if err := Skip(d); err != nil {
			return err
		}
	}
	return checkSchema("")
}

// Token is the next token of a JSON text that must not end before it.
func Token(d *json.Decoder) (json.Token, error) {
	t, err := d.Token()
	if err != nil {
		err = cutOff(err)
	}
	return t, err
}

// AtEnd makes sure that nothing follows.
func AtEnd(d *json.Decoder) error {
	switch t, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	default:
		return fmt.Errorf("after the end of the document comes %v", t)
	}
}

// Skip passes over a value without keeping it.
func Skip(d *json.Decoder) error {
	depth := 0
	for {
		t, err := Token(d)
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
