package jsonkeys

import (
	"strings"
	"testing"
)

func TestTwice(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1, "b": 2, "a": 3}`: "a", `{"a": {"b": 1}, "b": 2}`: "", `{"x": [{"a": 1}, {"a": 2}]}`: "",
		`{"x": {"a": 1, "a": 1}}`: "a", `{"x": [{"c": 1, "c" : 2}]}`: "c", `{"a": "a", "b": "a"}`: "",
		`{"a\"b": 1, "a": 2, "b": "\\", "c": "}"}`: "", `{"a": ["a", "a"]}`: "", `{"": 1, "b": ""}`: "", `[1, "a", "a"]`: "", `7`: "",
	} {
		got, at := Twice([]byte(text))
		if got != want || want != "" && at != strings.LastIndex(text, `"`+want+`"`) {
			t.Errorf("%s: %q at %d, wanted %q", text, got, at, want)
		}
	}
}

func FuzzTwice(f *testing.F) {
	f.Add([]byte(`{"a": [{"b": "\"}"}], "a"`))
	f.Fuzz(func(t *testing.T, text []byte) { Twice(text) })
}
