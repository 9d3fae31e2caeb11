// Package resulttest makes and checks result files in tests. Check holds a file against the schema in docs and against
// the rules that no schema can say; the tests of every command that writes a result call it. synthetic.go makes
// results of any size whose figures are known in advance, for tests and benchmarks of what reads them. It is a package
// by itself so that the program does not link the library that checks schemas.
package resulttest

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"perigee/docs"
	"perigee/internal/result"
)

var schema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(docs.ResultSchema))
	if err != nil {
		return nil, err
	}
	const name = "result.schema.json"
	if err := c.AddResource(name, v); err != nil {
		return nil, err
	}
	return c.Compile(name)
})

// Validate compares the JSON text of a result with the schema.
func Validate(text []byte) error {
	s, err := schema()
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// ValidateDocument compares a document, as it would be written, with the schema.
func ValidateDocument(d *result.Document) error {
	var text bytes.Buffer
	if err := d.Encode(&text); err != nil {
		return err
	}
	return Validate(text.Bytes())
}

// Check reads the result file at path, however it is compressed, or the journal beside it where a job was killed before
// it wrote the result, and fails the test unless it goes with the schema.
func Check(t testing.TB, path string) *result.Document {
	t.Helper()
	f, err := result.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(text); err != nil {
		t.Fatalf("%s does not go with the schema: %v", path, err)
	}
	d, err := result.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
