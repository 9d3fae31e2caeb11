package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
)

// peeked is how far [Open] looks for the schema, which is in front.
const peeked = 64 << 10

// Open yields the JSON text of a result piece by piece. Its beginning has been looked at: it is
// a result of this version, as far as that can be told from there.
func Open(path string) (*Text, error) {
	t, err := openText(path)
	if err != nil {
		return nil, err
	}
	var head bytes.Buffer
	err = findSchema(json.NewDecoder(io.TeeReader(io.LimitReader(t.text, peeked), &head)))
	if err != nil && !(errors.Is(err, io.ErrUnexpectedEOF) && head.Len() == peeked) {
		t.Close()
		return nil, t.Fault(err)
	}
	t.in = io.MultiReader(&head, t.text)
	return t, nil
}

// openText is [Open] of a file that has not been looked at.
func openText(path string) (*Text, error) {
	f, err := file.Open(path)
	if errors.Is(err, fs.ErrNotExist) { // its job still runs, or was killed
		if g, none := file.Open(path + PartEnding); none == nil {
			f, path, err = g, path+PartEnding, nil
		}
	}
	if err != nil {
		return nil, fault.New(fault.Input, "result: %w%s", err, otherEnding(path, err))
	}
	if isJournal(f) {
		return openJournal(f, path)
	}
	text, done, err := open(f)
	if err != nil {
		f.Close()
		return nil, inputError(path, err)
	}
	return &Text{text: text, in: text, path: path, close: func() error { done(); return f.Close() }}, nil
}

// otherEnding is "; did you mean FILE?" where a result that is not there has been written under another ending.
func otherEnding(path string, err error) string {
	if !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	plain := strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst")
	for _, ending := range []string{"", ".zst", ".gz", ".json.zst", ".json", ".json.gz"} {
		if info, err := os.Stat(plain + ending); err == nil && info.Mode().IsRegular() {
			return fmt.Sprintf("; did you mean %s?", plain+ending)
		}
	}
	return ""
}

// openJournal yields the text of the document that a journal makes, which says where it comes from.
func openJournal(f *os.File, path string) (*Text, error) {
	p, err := partOf(f)
	if err != nil {
		f.Close()
		return nil, inputError(path, err)
	}
	note := fmt.Sprintf("read from %s, the journal of a job that was killed or still runs: it may lack the last two seconds", path)
	if p.rest > 0 {
		note += fmt.Sprintf("; the %d bytes from byte %d on are damaged or unfinished, and are not read", p.rest, p.size)
	}
	p.head.Notes = append(p.head.Notes, note)
	r, w := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		w.CloseWithError(p.text(w))
	}()
	text := &counted{r: r}
	return &Text{text: text, in: text, path: path, close: func() error {
		r.Close()
		<-written
		return f.Close()
	}}, nil
}

// Text is the JSON text of a result. Reading fails where more comes than is allowed, or what
// comes is damaged.
type Text struct {
	text  *counted
	in    io.Reader // the same, or what has been read of it already and the rest
	path  string
	close func() error
}

func (t *Text) Read(p []byte) (int, error) {
	n, err := t.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = t.Fault(err)
	}
	return n, err
}

// Fault is the error, of the kind Input, that a reader of the text reports: with the name of the file,
// a remedy, and how much could be read where the text ends too early. One that says it all stays as it is.
func (t *Text) Fault(err error) error {
	if _, reported := errors.AsType[*fault.Error](err); reported || err == nil {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = truncated(t.text.n, 0)
	}
	return inputError(t.path, err)
}

// Close closes the file.
func (t *Text) Close() error { return t.close() }

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
	if err := expect(d, json.Delim('}')); err != nil {
		return err
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
