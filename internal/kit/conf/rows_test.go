package conf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
)

func TestRows(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []any
	}{
		"a.csv": {"\ufeffname, size,rate,id\r\nx,5,1.5e3,007\r\n\r\n\"a, \"\"b\"\"\",-1,,nan\n", []any{
			map[string]any{"name": "x", "size": int64(5), "rate": 1500.0, "id": "007"},
			map[string]any{"name": `a, "b"`, "size": int64(-1), "id": "nan"},
		}},
		"header.CSV": {"a,b\n", []any{}},
		"a.jsonl":    {"{\"a\": 1, \"b\": [1.5]}\n\n  \n7\n\"x\"", []any{map[string]any{"a": int64(1), "b": []any{1.5}}, int64(7), "x"}},
		"a.ndjson":   {"", []any{}},
	} {
		v, err := ParseRows(name, []byte(c.text))
		if err != nil || !HasRows(name) || Readable(name) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, v.Plain()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBadRows(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.csv", "", "a.csv: wanted a CSV table with a header, got an empty file"},
		{"a.csv", "a,b,a\n", `a.csv:1: wanted another name for each column, got "a" for column 3`},
		{"a.csv", "\na,\n", `a.csv:2: wanted another name for each column, got "" for column 2`},
		{"a.csv", "a,b\n1,2\n3\n", "a.csv:3: wanted 2 cells, as many as the header has"},
		{"a.csv", "a,b\n1,2\n\n3,x\"y\n", `a.csv:4: this is not CSV: bare " in non-quoted-field`},
		{"a.csv", "a\n\xff\n", "a.csv:2: wanted UTF-8 text, got the byte 0xff"},
		{"a.jsonl", "{\"a\": 1}\n{\"a\": \n{}", "a.jsonl:2: this is not JSON: it ends too early"},
		{"a.jsonl", "1\n\n{\"a\": 1, \"a\": 2}", "a.jsonl:3: [1].a: this key is given twice; the first is on line 3"},
		{"a.jsonl", "1 2", "a.jsonl:1: this is not JSON: something follows after the end of the document"},
		{"a.jsonl", "1\nx", "a.jsonl:2: this is not JSON: invalid character 'x' looking for beginning of value"},
	} {
		if v, err := ParseRows(c.name, []byte(c.text)); err == nil || err.Error() != c.want {
			t.Errorf("%q: got %v, %v\nwant %s", c.text, v.Plain(), err, c.want)
		}
	}
}

// A schema has the keys of each row.
func TestCheckRows(t *testing.T) {
	schema := Schema{{Name: "size", Type: "size", Required: true}, {Name: "n", Type: "int", Default: int64(3)}, {Name: "file", Type: "path"}}
	v, err := ParseRows("d/a.csv", []byte("size,n,file\n4K,,x\n7,8,\n"))
	if err == nil {
		v, err = schema.CheckRows(v)
	}
	must.Do(t, err)
	want := []any{map[string]any{"size": int64(4096), "n": int64(3), "file": "d/x"}, map[string]any{"size": int64(7), "n": int64(8)}}
	must.Equal(t, want, v.Plain())
	if got := schema.Paths(v); len(got) != 1 || got[0] != "d/x" {
		t.Errorf("paths %q", got)
	}
	words := Schema{{Name: "name", Type: "string"}, {Name: "on", Type: "bool"}, {Name: "kind", Type: "enum", Enum: []string{"1", "b"}}}
	v, err = ParseRows("a.csv", []byte("name,on,kind\n12.50,True,1\n1e999,,\n"))
	if err == nil {
		v, err = words.CheckRows(v)
	}
	if diff := cmp.Diff([]any{map[string]any{"name": "12.50", "on": true, "kind": "1"}, map[string]any{"name": "1e999"}}, v.Plain()); err != nil || diff != "" {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]string{
		"size,n\n4K,x\n":   "a.csv:2: [0].n: wanted a whole number, got the text \"x\"",
		"size,n\n1e999,\n": "a.csv:2: [0].size: wanted a size in bytes, such as 4096, 64K or 1.5G, got the text \"1e999\"",
		"n\n1\n":           "a.csv:2: [0]: the key size is missing",
		"size,m\n1,1\n":    "a.csv:2: [0].m: the key \"m\" is not known here",
	} {
		v, err := ParseRows("a.csv", []byte(text))
		must.Do(t, err)
		if _, err := schema.CheckRows(v); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// Whatever a table holds, it is read or refused with its name, and what is read has a place.
func FuzzRows(f *testing.F) {
	for _, text := range []string{"a,b\n1,2\n", "\"a\n\",b\n,\n", "{\"a\": NaN}\n[1]\n", "\xef\xbb\xbfa\n1\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, name := range []string{"t.csv", "t.jsonl"} {
			v, err := ParseRows(name, text)
			if err != nil {
				if !strings.HasPrefix(err.Error(), "t.") {
					t.Fatalf("%v", err)
				}
				continue
			}
			for _, row := range v.List() {
				if row.Line < 1 || name == "t.csv" && row.Kind != Map {
					t.Fatalf("%+v", row)
				}
			}
		}
	})
}
