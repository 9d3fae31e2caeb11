package junit

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/must"
)

// schema is what the schema of Jenkins' xunit plugin (junit-10.xsd) says of the elements that are written here: of each element
// its attributes, those that must be there with a !, and its children.
var schema = map[string]struct{ attributes, children string }{
	"testsuites": {"name tests failures errors time", "testsuite"},
	"testsuite": {"name! tests! failures! errors! skipped group time timestamp hostname id package file log url",
		"properties testcase system-out system-err"},
	"testcase":   {"name! classname time group", "skipped error failure system-out system-err"},
	"failure":    {"type message", ""},
	"error":      {"type message", ""},
	"skipped":    {"type message", ""},
	"system-out": {"", ""},
}

// check holds a file against the schema and returns how often each element is there.
func check(t *testing.T, path string) map[string]int {
	t.Helper()
	f, err := os.Open(path)
	must.Do(t, err)
	defer f.Close()
	counts, above := map[string]int{}, []string{}
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return counts
		}
		must.Do(t, err)
		switch e := token.(type) {
		case xml.StartElement:
			name := e.Name.Local
			parent := "testsuites"
			if len(above) > 0 {
				parent = schema[above[len(above)-1]].children
			}
			if !slices.Contains(strings.Fields(parent), name) {
				t.Errorf("%s in %v", name, above)
			}
			var given []string
			for _, a := range e.Attr {
				given = append(given, a.Name.Local)
			}
			for _, a := range strings.Fields(schema[name].attributes) {
				key, must := strings.CutSuffix(a, "!")
				i := slices.Index(given, key)
				if i >= 0 {
					given = slices.Delete(given, i, i+1)
				} else if must {
					t.Errorf("%s lacks %s", name, key)
				}
			}
			if len(given) > 0 {
				t.Errorf("%s has %v", name, given)
			}
			counts[name]++
			above = append(above, name)
		case xml.EndElement:
			above = above[:len(above)-1]
		}
	}
}

// What is written goes with the schema that CI servers have, whatever the texts are.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "junit.xml")
	cases := []Case{{Name: "a", Class: "perf", Took: time.Second}, {Name: "b < 1 \x1b", Failure: "no <token>\x00\xff\uffff", Output: "tail\x1b[0m"},
		{Name: "c", Skipped: "not run"}, {Name: "d", Error: "died"}}
	must.Do(t, Write(path, Suite{"one", time.Now(), cases}, Suite{"two", time.Now(), nil}))
	n := check(t, path)
	if n["testsuites"] != 1 || n["testsuite"] != 2 || n["testcase"] != 4 || n["failure"] != 1 || n["error"] != 1 || n["skipped"] != 1 {
		t.Errorf("%v", n)
	}
	data := must.Read(t, path)
	var got suitesXML
	if err := xml.Unmarshal(data, &got); err != nil || got.Tests != 4 || got.Failures != 1 || got.Errors != 1 {
		t.Fatalf("%v\n%s", err, data)
	}
	if s := got.Suites[0]; s.Skipped != 1 || s.Cases[1].Failure.Message != "no <token>???" || s.Cases[1].Name != "b < 1 ?" {
		t.Errorf("%+v", s)
	}
}
