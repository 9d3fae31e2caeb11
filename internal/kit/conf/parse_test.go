package conf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

// must returns v, which the test takes for granted.
func sure(v *Value, err error) *Value {
	if err != nil {
		panic(err)
	}
	return v
}

// parse reads a document that the test takes for granted.
func parse(name, text string) *Value { return sure(Parse(name, []byte(text))) }

// The plain forms of maps and lists.
type (
	dict = map[string]any
	list = []any
)

// The same configuration in all formats is the same data.
func TestFormatsAgree(t *testing.T) {
	want := dict{
		"iters": int64(5),
		"traffic_patterns": list{
			dict{"matrix_file": "a b.txt", "sleep_before_launch_sec": 0.5, "mem_type": "vram"},
			dict{"matrix_file": "c.txt", "metadata": dict{"isl": int64(38328), "tags": list{"x", true}}},
		},
	}
	for name, text := range map[string]string{
		"a.yaml": `
iters: 5
traffic_patterns:
- matrix_file: a b.txt
  sleep_before_launch_sec: 0.5
  mem_type: vram
- {matrix_file: "c.txt", metadata: {isl: 38328, tags: [x, true]}}
`,
		"a.json": `{"iters": 5, "traffic_patterns": [
 {"matrix_file": "a b.txt", "sleep_before_launch_sec": 0.5, "mem_type": "vram"},
 {"matrix_file": "c.txt", "metadata": {"isl": 38328, "tags": ["x", true]}}]}`,
		"A.TOML": `
iters = 5
[[traffic_patterns]]
matrix_file = "a b.txt"
sleep_before_launch_sec = 0.5
mem_type = "vram"
[[traffic_patterns]]
matrix_file = "c.txt"
metadata.isl = 38_328
metadata.tags = ["x", true]
`,
	} {
		got := parse(name, text).Plain()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(want, parse("b"+name, "\ufeff"+strings.ReplaceAll(text, "\n", "\r\n")).Plain()); diff != "" {
			t.Errorf("%s with carriage returns (-want +got):\n%s", name, diff)
		}
	}
}

// TestScalars checks the value that each format gives to a written scalar.
func TestScalars(t *testing.T) {
	for name, c := range map[string]struct {
		text string // %s is the scalar
		want dict
	}{
		"a.yaml": {"a: %s\n", dict{
			"": nil, "~": nil, "null": nil, "NULL": nil, "Null": nil, "nULL": "nULL",
			"true": true, "True": true, "FALSE": false, "yes": "yes", "No": "No", "on": "on", "off": "off", "y": "y", "tRUE": "tRUE",
			"0": int64(0), "-7": int64(-7), "+7": int64(7), "007": int64(7), "08": int64(8), "0789": int64(789), "0o17": int64(15), "0x1F": int64(31), "-0x1F": "-0x1F",
			"0b11": "0b11", "1_000": "1_000", "9223372036854775807": int64(math.MaxInt64), "-9223372036854775808": int64(math.MinInt64), "+9223372036854775808": 9223372036854775808.0,
			"1.5": 1.5, ".5": .5, "5.": 5.0, "1e3": 1000.0, "-1.5E-3": -.0015, ".inf": math.Inf(1), "-.Inf": math.Inf(-1), "+.INF": math.Inf(1), ".nan": math.NaN(),
			"1:30": "1:30", "2024-01-02": "2024-01-02", "1.2.3": "1.2.3", "e5": "e5", ".": ".", "+": "+",
			`"5"`: "5", "'true'": "true", `"a\tb"`: "a\tb", "|\n  x\n  y": "x\ny\n", ">\n  x\n  y": "x y\n",
			"!!str 5": "5", "!!float 5": 5.0, "!!int '5'": int64(5), "!!null ''": nil, "!!bool true": true, "! 5": "5", "!!seq [1]": list{int64(1)}, "!!map {}": dict{},
		}},
		"a.json": {`{"a": %s}`, dict{
			"null": nil, "true": true, "false": false, "0": int64(0), "-0": int64(0), "-7": int64(-7), "9223372036854775807": int64(math.MaxInt64),
			"-9223372036854775809": -9223372036854775808.0, "10000000000000000000": 1e19,
			"1.0": 1.0, "1e3": 1000.0, "-2.5E-1": -.25, `""`: "", `"\u00e9\n"`: "é\n", "[]": list{}, "{}": dict{}, "[[1], {}]": list{list{int64(1)}, dict{}},
		}},
		"a.toml": {"a = %s\n", dict{
			"true": true, "false": false, "0": int64(0), "+7": int64(7), "-7": int64(-7), "1_000": int64(1000), "0x1F": int64(31), "0o17": int64(15), "0b11": int64(3),
			"9223372036854775807": int64(math.MaxInt64), "-9223372036854775808": int64(math.MinInt64),
			"1.0": 1.0, "1_0.5_0": 10.5, "1e3": 1000.0, "-2.5E-1": -.25, "inf": math.Inf(1), "+inf": math.Inf(1), "-inf": math.Inf(-1), "nan": math.NaN(), "-nan": math.NaN(),
			`""`: "", `"é\n"`: "é\n", "'a\\b'": `a\b`, "\"\"\"\nx\ny\"\"\"": "x\ny", "[]": list{}, "{}": dict{}, "[[1], {b.c = 2}]": list{list{int64(1)}, dict{"b": dict{"c": int64(2)}}},
			"1979-05-27": "1979-05-27", "07:32:00": "07:32:00", "1979-05-27T07:32:00": "1979-05-27T07:32:00", "1979-05-27T07:32:00Z": "1979-05-27T07:32:00Z",
		}},
	} {
		for in, want := range c.want {
			v, err := Parse(name, fmt.Appendf(nil, c.text, in))
			if err != nil {
				t.Errorf("%s: %q: %v", name, in, err)
				continue
			}
			if diff := cmp.Diff(want, v.Get("a").Plain(), cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("%s: %q (-want +got):\n%s", name, in, diff)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	deep := func(open, shut string) string { return strings.Repeat(open, 200) + strings.Repeat(shut, 200) }
	for _, c := range []struct{ name, text, want string }{
		{"a.txt", "x", "a.txt: wanted a file that ends in .yaml or .yml (YAML), .json (JSON) or .toml (TOML)"},
		{"yaml", "x", "yaml: wanted a file that ends in .yaml or .yml (YAML), .json (JSON) or .toml (TOML)"},
		{"a.yaml", "a: 1\nb: \xff", "a.yaml:2: wanted UTF-8 text, got the byte 0xff"},
		{"a.toml", "a = 'é\x00'", "a.toml:1: wanted UTF-8 text, got the byte 0x00"},

		{"a.yml", "", "a.yml: wanted a YAML document with keys and values, got an empty one"},
		{"a.yaml", "# nothing\n---\n", "a.yaml: wanted a YAML document with keys and values, got an empty one"},
		{"a.yaml", "~\n", "a.yaml: wanted a YAML document with keys and values, got an empty one"},
		{"a.json", " \n", "a.json: wanted a JSON document with keys and values, got an empty one"},
		{"a.json", "null", "a.json: wanted a JSON document with keys and values, got an empty one"},
		{"a.toml", "# nothing\n", "a.toml: wanted a TOML document with keys and values, got an empty one"},

		{"a.yaml", "a: 1\nb:\n  c: 2\n  d: 3\n  c: 4\n", "a.yaml:5: b.c: this key is given twice; the first is on line 3"},
		{"a.yaml", "b:\n  <<: {c: 1,\n    c: 2}\n", "a.yaml:3: b.c: this key is given twice; the first is on line 2"},
		{"a.yaml", "a: &a {c: 1}\nb:\n  <<: *a\n  <<: {d: 1}\n", `a.yaml:4: b["<<"]: this key is given twice; the first is on line 3`},
		{"a.yaml", "1: x\n'1': y\n", "a.yaml:2: 1: this key is given twice; the first is on line 1"},
		{"a.json", "{\"a\": 1,\n\"b c\": 2,\n\"b c\": 3}", `a.json:3: ["b c"]: this key is given twice; the first is on line 2`},
		{"a.toml", "a = 1\nb = 2\na = 3\n", "a.toml:3: a: this key is given twice; the first is on line 1"},
		{"a.toml", "[a]\nb = 1\n[a]\nc = 2\n", "a.toml:3: a: this key is given twice; the first is on line 1"},
		{"a.toml", "a = {b = 1, b = 2}\n", "a.toml:1: a.b: this key is given twice; the first is on line 1"},

		{"a.yaml", "a: 1\n---\nb: 2\n", "a.yaml:2: this is not one YAML document: a second one begins here"},
		{"a.json", "{}\n\n{}", "a.json:3: this is not JSON: something follows after the end of the document"},
		{"a.yaml", "a: 1\n b: 2\n", "a.yaml:2: this is not YAML: mapping values are not allowed in this context"},
		{"a.yaml", "a: 1\n...\n}\n", "a.yaml:3: this is not YAML: did not find expected node content while parsing a block node"},
		{"a.yaml", "a: [1,\n2\nb: 3\n", "a.yaml:3: this is not YAML: did not find expected ',' or ']' while parsing a flow sequence of line 1"},
		{"a.yaml", "a:\n  b: &c\n", "a.yaml:2: a.b: an anchor without a value, of which there is no alias; in quotes, a value that begins with & would be text"},
		{"a.yaml", "a: *b\n", "a.yaml:1: this is not YAML: an anchor that is not there; in quotes, a value that begins with * would be text"},
		{"a.yaml", "a:\n- b: !x 3\n", `a.yaml:2: a[0].b: the tag "!x" does not fit "3"`},
		{"a.yaml", "a: !!int x\n", `a.yaml:1: a: the tag "!!int" does not fit "x"`},
		{"a.yaml", "a: !!set {x}\n", `a.yaml:1: a: the tag "!!set" is not known here`},
		{"a.yaml", "a: !x [1]\n", `a.yaml:1: a: the tag "!x" is not known here`},
		{"a.yaml", "a: 1\n? [x]\n: 2\n", "a.yaml:2: wanted a key that is text or a number, got a list or a map"},
		{"a.yaml", "a: &x\n- 1\n- [*x]\n", `a.yaml:3: a[1][0][1][0]: the anchor "x" contains itself`},
		{"a.yaml", "a: &x\n  <<: *x\n", `a.yaml:1: a: the anchor "x" contains itself`},
		{"a.yaml", "a:\n  <<: 3\n", "a.yaml:2: this is not YAML: the merge key << needs a map, an alias of a map, or a list of these"},
		{"a.yaml", "a: [-0017]\n", "a.yaml:1: a[0]: -0017 is octal for YAML 1.1, which other programs read, and decimal for YAML 1.2; write 0o17 or 17, or use quotes if it is text"},
		{"a.yaml", "a: 0xffffffffffffffff\n", "a.yaml:1: a: the number ffffffffffffffff does not fit 64 bits; in quotes it would be text"},
		{"a.yaml", "a: 1e999\n", "a.yaml:1: a: the number 1e999 does not fit a 64-bit float; in quotes it would be text"},

		{"a.json", "{\"a\": 1,\n\"b\": }", "a.json:2: this is not JSON: invalid character '}' looking for beginning of value"},
		{"a.json", "[1,\n2,\n]", "a.json:3: this is not JSON: invalid character ']' looking for beginning of value"},
		{"a.json", "{\n\n5: 1}", "a.json:3: this is not JSON: invalid character '5'"},
		{"a.json", "{\"a\": 01}", "a.json:1: this is not JSON: invalid character '1' after object key:value pair"},
		{"a.json", "{\"a\": \"b\n\"}", `a.json:1: this is not JSON: invalid character '\n' in string literal`},
		{"a.json", "{\"a\":\n1", "a.json:2: this is not JSON: it ends too early"},
		{"a.json", "{\"a\": 1e999}", "a.json:1: a: the number 1e999 does not fit a 64-bit float; in quotes it would be text"},

		{"a.toml", "a = 1\nb = \n", "a.toml:2: this is not TOML: unexpected character U+000A at start of value"},
		{"a.toml", "a = 9223372036854775808\n", "a.toml:1: this is not TOML: decimal number is too large to fit in a 64-bit signed integer"},
		{"a.toml", "a = 1e999\n", `a.toml:1: this is not TOML: unable to parse float: strconv.ParseFloat: parsing "1e999": value out of range`},
		{"a.toml", "[a]\n[[a]]\n", "a.toml:2: a: this key is given twice; the first is on line 1"},

		{"a.json", strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200), "a.json:1: wanted at most 100 lists and maps inside each other, got more"},
		{"a.toml", "a" + strings.Repeat(".a", 200) + " = 1\n", "a.toml:1: wanted at most 100 lists and maps inside each other, got more"},
		{"a.toml", "[a" + strings.Repeat(".a", 200) + "]\n", "a.toml:1: wanted at most 100 lists and maps inside each other, got more"},
		{"a.toml", "[[a" + strings.Repeat(".a", 200) + "]]\n", "a.toml:1: wanted at most 100 lists and maps inside each other, got more"},
		{"a.yaml", "a: " + strings.Repeat("1", 400) + "\n", "a.yaml:1: a: the number " + strings.Repeat("1", 40) + "... does not fit a 64-bit float; in quotes it would be text"},
		{"a.json", deep("[", "]"), "a.json:1: wanted at most 100 lists and maps inside each other, got more"},
		{"a.yaml", deep("[", "]"), "a.yaml:1: wanted at most 100 lists and maps inside each other, got more"},
		{"a.toml", "a = " + deep("[", "]"), "a.toml:1: wanted at most 100 lists and maps inside each other, got more"},
	} {
		v, err := Parse(c.name, []byte(c.text))
		if err == nil || v != nil || err.Error() != c.want || fault.KindOf(err) != fault.Input {
			t.Errorf("%s %.60q: %v (%v): want %s", c.name, c.text, err, fault.KindOf(err), c.want)
		}
	}
}

func TestSizeIsBounded(t *testing.T) {
	text := bytes.Repeat([]byte(" "), MaxBytes+1)
	if _, err := Parse("a.yaml", text); err == nil || !strings.Contains(err.Error(), "wanted at most 67108864 bytes") {
		t.Errorf("a long document: %v", err)
	}
}

// A large table is read in a time that grows with its size: T9 of the trials.
func TestLargeTables(t *testing.T) {
	lines := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(format, "%d", fmt.Sprint(i)))
		}
		return b.String()
	}
	for name, list := range map[string][]string{
		"a.yaml": {"[" + strings.Repeat("0,", 200_000) + "]", strings.Repeat("- a: 1\n", 100_000)},
		"a.json": {"[" + strings.Repeat(`{"a":1},`, 100_000) + "1]"},
		"a.toml": {
			"a = [" + strings.Repeat("0,", 200_000) + "]", lines(100_000, "k%d = 1\n"), lines(50_000, "[k%d]\n"), lines(50_000, "[[a]]\n[a.b]\nk%d = 1\n"),
			"a = {" + lines(50_000, "k%d = 1, ") + "k = 1}\n",
		},
	} {
		for _, text := range list {
			if _, err := Parse(name, []byte(text)); err != nil {
				t.Errorf("%s: %.30q...: %v", name, text, err)
			}
		}
	}
}

// Brackets by the million are an error of the library, and not the end of the process.
func TestManyBrackets(t *testing.T) {
	for name, text := range map[string]string{"a.toml": "a = ", "a.yaml": "a: ", "a.json": ""} {
		for _, bracket := range []string{"[", "{a = {", "{a: ", `{"a": `} {
			if _, err := Parse(name, []byte(text+strings.Repeat(bracket, 1_000_000))); fault.KindOf(err) != fault.Input {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A dotted key of TOML is as deep as it has steps.
func TestDottedKeysAreBounded(t *testing.T) {
	long := "'" + strings.Repeat(".", 1000) + "'"
	for text, want := range map[string]int{
		"b = 1\n\na" + strings.Repeat(".a", 101) + " = 1\n":                                                                                 3,
		"[x" + strings.Repeat(" . \"a\\\"\"", 101) + "]\n":                                                                                  1,
		"s = \"\"\"\n\\\"\"\"\"\na = [{b" + strings.Repeat(".'.'", 101) + " = 1}]\n":                                                        3,
		"a" + strings.Repeat(".a", 98) + " = 1\n":                                                                                           0,
		"a = " + long + "\n# " + long + "\nb = [" + strings.Repeat("1.5, ", 200) + "]\nc = ''" + long + "''\n# " + strings.Repeat(".", 200): 0,
	} {
		_, err := Parse("a.toml", []byte(text))
		if want == 0 && err != nil || want > 0 && (err == nil || err.Error() != fmt.Sprintf("a.toml:%d: wanted at most 100 lists and maps inside each other, got more", want)) {
			t.Errorf("%.60q: %v, want line %d", text, err, want)
		}
	}
}

// Aliases and merge keys that would make billions of values end early.
func TestAliasesAreBounded(t *testing.T) {
	var lists, merges, chain strings.Builder
	lists.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	merges.WriteString("a0: &a0 {x: 1}\n")
	chain.WriteString("a0: &a0 {x: 1}\n")
	for i := 1; i <= 200; i++ {
		fmt.Fprintf(&chain, "a%d: &a%d {<<: *a%d}\n", i, i, i-1)
		if i > 20 {
			continue
		}
		alias := fmt.Sprintf("*a%d", i-1)
		nine := strings.TrimSuffix(strings.Repeat(alias+", ", 9), ", ")
		fmt.Fprintf(&lists, "a%d: &a%d [%s]\n", i, i, nine)
		fmt.Fprintf(&merges, "a%d: &a%d {<<: [%s]}\n", i, i, nine)
	}
	const repeats = "its aliases repeat more than 262144 values"
	for text, want := range map[string]string{
		lists.String():  repeats,
		merges.String(): repeats,
		chain.String():  "wanted at most 100 anchors that refer to each other in a chain",
	} {
		if _, err := Parse("a.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v: want %s", text, err, want)
		}
	}
}

func TestAliasesAndMergeKeys(t *testing.T) {
	v := parse("a.yaml", `
base: &base {shards: 1, mem_type: vram}
more: &more {shards: 2, xfer_op: READ}
name: &name title
patterns:
- *base
- <<: *base
  shards: 4
- <<: [*more, *base]
  *name : x
- {<<: {<<: *base, shards: 8}}
- {"<<": 1}
`)
	want := list{
		dict{"shards": int64(1), "mem_type": "vram"},
		dict{"shards": int64(4), "mem_type": "vram"},
		dict{"shards": int64(2), "xfer_op": "READ", "mem_type": "vram", "title": "x"},
		dict{"shards": int64(8), "mem_type": "vram"},
		dict{"<<": int64(1)},
	}
	must.Equal(t, want, v.Get("patterns").Plain())
}

// places lists path, line and kind of every value under v.
func places(v *Value) []string {
	found := []string{fmt.Sprintf("%d %s: %s", v.Line, v.Path(), v.Kind)}
	for _, element := range v.List() {
		found = append(found, places(element)...)
	}
	for _, key := range v.Keys() {
		found = append(found, places(v.Get(key))...)
	}
	return found
}

func TestPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a.yaml": {"# comment\nb: 1\nlist:\n  - x: 1.5\n    y:\n      z: true\n  -\n    - ~\nodd key: {'': s}\n", []string{
			"2 : a map", "2 b: a whole number", "3 list: a list", "4 list[0]: a map", "4 list[0].x: a number", "5 list[0].y: a map",
			"6 list[0].y.z: a boolean", "8 list[1]: a list", "8 list[1][0]: nothing (null)", `9 ["odd key"]: a map`, `9 ["odd key"][""]: text`,
		}},
		"a.json": {"\n{\"b\":\n1, \"list\": [\n{\"x\": 1.5},\n\nnull]}", []string{
			"2 : a map", "2 b: a whole number", "3 list: a list", "4 list[0]: a map", "4 list[0].x: a number", "6 list[1]: nothing (null)",
		}},
		"a.toml": {"# comment\nb = 1\nlist = [\n 1,\n [\n true ] ]\n[t.u]\nv = {w = 1.5,\n x.y = 's'}\n[[t.list]]\n[[t.list]]\n[t.list.z]\n", []string{
			"1 : a map", "2 b: a whole number", "3 list: a list", "4 list[0]: a whole number", "4 list[1]: a list", "6 list[1][0]: a boolean",
			"7 t: a map", "7 t.u: a map", "8 t.u.v: a map", "8 t.u.v.w: a number", "9 t.u.v.x: a map", "9 t.u.v.x.y: text",
			"10 t.list: a list", "10 t.list[0]: a map", "11 t.list[1]: a map", "12 t.list[1].z: a map",
		}},
	} {
		if diff := cmp.Diff(c.want, places(parse(name, c.text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestLoad(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "a.json")
	must.Do(t, os.WriteFile(file, []byte(`{"a": 1}`), 0o600))
	v, err := Load(file)
	if err != nil || v.File != file || v.Get("a").Int() != 1 {
		t.Errorf("%v, %v", v, err)
	}

	_, err = Load(filepath.Join(folder, "b.yaml"))
	if fault.KindOf(err) != fault.Input || fault.HintOf(err) == "" || !strings.HasSuffix(err.Error(), "b.yaml: there is no such file") {
		t.Errorf("no file: %v (%s)", err, fault.HintOf(err))
	}
	if _, err = Load(filepath.Join(file, "c.yaml")); fault.KindOf(err) != fault.Input || !errors.Is(err, errors.Unwrap(err)) {
		t.Errorf("below a file: %v", err)
	}
	must.Do(t, os.Mkdir(filepath.Join(folder, "d.toml"), 0o700))
	if _, err = Load(filepath.Join(folder, "d.toml")); err == nil || !strings.HasSuffix(err.Error(), "d.toml: wanted a regular file, got a folder") {
		t.Errorf("a folder: %v", err)
	}
	if _, err = Load(folder); fault.HintOf(err) != "in it is "+file {
		t.Errorf("a folder with a document: %v, hint %q", err, fault.HintOf(err))
	}
	must.Do(t, os.WriteFile(filepath.Join(folder, "e.ini"), nil, 0o644))
	if _, err = Load(filepath.Join(folder, "e.ini")); err == nil || !strings.Contains(err.Error(), ".toml (TOML)") {
		t.Errorf("another extension: %v", err)
	}
}

// anyPlain draws plain data as FromPlain takes it.
func anyPlain() *rapid.Generator[any] {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a", "yes", "1", "~", "a.b", "- x", "<<", "é\n"}))
	scalar := rapid.OneOf(rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(), text.AsAny())
	inner := func(g *rapid.Generator[any]) *rapid.Generator[any] {
		return rapid.OneOf(scalar, rapid.SliceOfN(g, 0, 4).AsAny(), rapid.MapOfN(text, g, 0, 4).AsAny())
	}
	return inner(inner(inner(scalar)))
}

func TestFromPlainAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := anyPlain().Draw(t, "data")
		v, err := FromPlain("", data)
		must.Do(t, err)
		must.Equal(t, data, v.Plain())
	})
}

// What Go's encoders write of any data, the parsers read as the same data.
func TestEncodersAgree(t *testing.T) {
	encoders := map[string]func(any) ([]byte, error){"a.json": json.Marshal, "a.yaml": asciiJSON, "a.toml": toml.Marshal}
	rapid.Check(t, func(t *rapid.T) {
		data := dict{"a": anyPlain().Draw(t, "data")}
		for name, encode := range encoders {
			text, err := encode(data)
			if err != nil || name == "a.toml" && containsNull(data) {
				continue // TOML has no null, and no text that is not UTF-8
			}
			v, err := Parse(name, text)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, text, err)
			}
			if diff := cmp.Diff(data, v.Plain(), sameNumbers); diff != "" {
				t.Fatalf("%s: %s (-want +got):\n%s", name, text, diff)
			}
		}
	})
}

// asciiJSON writes JSON that is also YAML, for which some characters above
// ASCII end a line.
func asciiJSON(data any) ([]byte, error) {
	text, err := json.Marshal(data)
	var ascii []byte
	for _, r := range string(text) {
		if r < 0x7f {
			ascii = append(ascii, byte(r))
			continue
		}
		ascii = fmt.Appendf(ascii, `\U%08x`, r)
	}
	return ascii, err
}

func containsNull(data any) bool {
	switch d := data.(type) {
	case nil:
		return true
	case []any:
		for _, element := range d {
			if containsNull(element) {
				return true
			}
		}
	case map[string]any:
		for _, element := range d {
			if containsNull(element) {
				return true
			}
		}
	}
	return false
}

// sameNumbers takes 5 and 5.0 for the same: encoders drop the point.
var sameNumbers = cmp.FilterValues(
	func(a, b any) bool { return isNumber(a) && isNumber(b) },
	cmp.Comparer(func(a, b any) bool {
		if fmt.Sprintf("%T", a) == fmt.Sprintf("%T", b) {
			return a == b || a != a && b != b
		}
		return toFloat(a) == toFloat(b)
	}))

func isNumber(x any) bool {
	switch x.(type) {
	case int64, float64:
		return true
	}
	return false
}

func toFloat(x any) float64 {
	if i, ok := x.(int64); ok {
		return float64(i)
	}
	return x.(float64)
}

func TestFromPlainRefuses(t *testing.T) {
	cyclic := make(list, 1)
	cyclic[0] = cyclic
	for want, data := range map[string]any{
		"s.lua: a[1]: wanted plain data, got a value of the type uint8":        dict{"a": list{1, uint8(2)}},
		"s.lua: a: wanted plain data, got a value of the type map[int]int":     dict{"a": map[int]int{}},
		"s.lua: wanted at most 100 lists and maps inside each other, got more": cyclic,
	} {
		if _, err := FromPlain("s.lua", data); err == nil || err.Error() != want {
			t.Errorf("%v: want %s", err, want)
		}
	}
}

func TestAccessors(t *testing.T) {
	v := parse("a.yaml", "b: true\ni: 7\nf: 1.5\nt: x\nl: [1, 2, 3]\nm: {x: 1, w: 2}\n")
	got := list{
		v.Get("b").Bool(), v.Get("i").Int(), v.Get("i").Float(), v.Get("f").Float(), v.Get("t").Text(), v.Get("l").Len(), v.Get("l").List()[1].Int(),
		v.Get("m").Len(), strings.Join(v.Get("m").Keys(), " "), v.Has("m"), v.Has("n"), v.Get("f").Int(), v.Get("t").Bool(), v.Get("b").Text(),
	}
	want := list{true, int64(7), 7.0, 1.5, "x", 3, int64(2), 2, "x w", true, false, int64(0), false, ""}
	must.Equal(t, want, got)
	if Kind(99).String() != "kind 99" {
		t.Error(Kind(99))
	}
}

func TestNilValuesHoldNothing(t *testing.T) {
	v := parse("a.yaml", "a: 1\n").Get("b").Get("c")
	if v.Bool() || v.Int() != 0 || v.Float() != 0 || v.Text() != "" || v.Len() != 0 || v.List() != nil || v.Keys() != nil || v.Has("x") || v.Plain() != nil || v.Path() != "" {
		t.Error("a missing value holds something")
	}
	if err := v.Errorf("no %s", "luck"); err.Error() != "no luck" {
		t.Error(err)
	}
}

func fuzzParse(f *testing.F, name string, words, seeds []string, check func(t *testing.T, in []byte, v *Value)) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	fuzztest.Run(f, words, func(t *testing.T, in []byte) {
		v, err := Parse(name, in)
		if err != nil {
			if fault.KindOf(err) != fault.Input || !strings.HasPrefix(err.Error(), name) {
				t.Fatalf("%v is of the kind %v", err, fault.KindOf(err))
			}
			return
		}
		checkLines(t, v, 1+len(lineBreak.FindAll(in, -1)))
		check(t, in, v)
		if text, err := json.Marshal(v.Plain()); err == nil && len(text) < 1<<20 { // not with NaN or Inf; aliases make it long
			if want, got := v.Plain(), parse("a.json", string(text)).Plain(); !same(want, got) {
				t.Fatalf("through JSON (-want +got):\n%s", cmp.Diff(want, got, sameNumbers))
			}
		}
	})
}

// same is cmp.Equal, which takes a time that grows exponentially with the depth of lists.
func same(want, got any) bool {
	switch want := want.(type) {
	case []any:
		got, ok := got.([]any)
		return ok && slices.EqualFunc(want, got, same)
	case map[string]any:
		got, ok := got.(map[string]any)
		return ok && maps.EqualFunc(want, got, same)
	}
	return cmp.Equal(want, got, sameNumbers)
}

// lineBreak is what ends a line in YAML, whose older versions know more than
// the newline.
var lineBreak = regexp.MustCompile("[\n\r\u0085\u2028\u2029]")

func checkLines(t *testing.T, v *Value, lines int) {
	if v.Line < 1 || v.Line > lines {
		t.Fatalf("%s is on line %d of %d", v.Path(), v.Line, lines)
	}
	for _, element := range v.List() {
		checkLines(t, element, lines)
	}
	for _, key := range v.Keys() {
		checkLines(t, v.Get(key), lines)
	}
}

func FuzzYAML(f *testing.F) {
	fuzzParse(f, "a.yaml", []string{
		"a", "b", "c", ": ", "- ", "\n", "\n  ", "\n    ", "&x ", "*x", "&y ", "*y", "<<: ", "<<: *x", "[", "]", "{", "}", ", ", "1", "0x1f", "'q'", "\"\\u00e9\"", "!!str ", "|\n  ",
		"? ", "~", "---\n", "# c", "{a: &x {b: 1}, c: ", "{<<: *x}", "&y {<<: *x}", "[{<<: *y}]", ".inf",
	}, []string{
		"a: 1\nb: [1, 2.5, ~, 'x', !!str 5]\n", "a: &x {b: 1}\nc:\n  <<: *x\n", "a: &x [*x]\n", "? a\n: b\n", "a: |\n  x\n", "---\na: 1\n...\n", "a: 1\n---\nb: 2\n",
		"%YAML 1.2\n---\na: \"\\u00e9\"\n", "- - - 1\n", strings.Repeat("- ", 90) + "1\n", "{a: {b: [c, {d: e}]}}", "a: 0x1f\nb: 1e3\nc: .inf\n", "# c\n\n", "\ta", "\r0", "a: !<tag:yaml.org,2002:int> 3",
		"a: 0o17\nb: 0o8\nc: -0x1\nd: +1\ne: 1.\nf: .5\ng: yes\nh: NULL\ni: ~x\nj: -.inf\nk: .nan\n", "a: !!float 3\nb: !!str 0x1f\nc: !!null ~\nd: !!bool true\n", "a: !!int 1.5\n", "a: !!seq {}\n",
		"x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz:\n  <<: [*x, *y]\n  c: 5\n", "x: &x {a: 1}\ny: &y {<<: *x, b: 2}\nz: {<<: *y, a: 3}\n", "a: &x [1, 2]\nb: [*x, *x]\n", "&k a: 1\nb: {*k : 2}\n",
		"iters: 9223372036854775807\n", "a: &a \"" + strings.Repeat("x", 60) + "\"\n" + aliasesOfAliases(4), "a: &a [x]\n" + aliasesOfAliases(7), strings.Repeat("[", 2000), strings.Repeat("- ", 2000),
		"a: {<<: 1}\n", "'<<': {a: 1}\n", "a: 1\n\"a\": 2\n", "0: 1\n'0': 2\n", "? [a]\n: b\n", "a: 9223372036854775808\nb: 0x8000000000000000\n", "a: 1e999\n",
	}, func(t *testing.T, in []byte, v *Value) {
		var document yaml.Node
		if err := yaml.Unmarshal(in, &document); err != nil || len(document.Content) != 1 {
			t.Fatalf("%q is not YAML: %v", in, err)
		}
		if err := sameAsNode(document.Content[0], v); err != nil {
			t.Fatalf("%q: %v", in, err)
		}
	})
}

func FuzzJSON(f *testing.F) {
	fuzzParse(f, "a.json", []string{
		`{"a":`, `,"b":`, `"c":`, "{", "}", "[", "]", ",", "1", "-2.5e3", "true", "null", `"x"`, `"\u00e9"`, "\n", " ",
	}, []string{
		`{"a": 1, "b": [1, 2.5, true, null, "x"]}`, "[1,\n2,\n]", `{"a": {"b": {}}}`, `{"a": 1, "a": 2}`, `"\ud800"`, `1e999`, `{} {}`, `nul`, "[[[[", `{"a"`, "1e19",
	}, func(t *testing.T, in []byte, v *Value) {
		decoder := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(in, []byte("\ufeff"))))
		var want any
		if err := decoder.Decode(&want); err != nil {
			t.Fatalf("%q is not JSON: %v", in, err)
		}
		if diff := cmp.Diff(want, v.Plain(), cmp.FilterValues(
			func(a, b any) bool { return isNumber(a) && isNumber(b) },
			cmp.Comparer(func(a, b any) bool { return toFloat(a) == toFloat(b) }))); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", in, diff)
		}
	})
}

func FuzzTOML(f *testing.F) {
	fuzzParse(f, "a.toml", []string{
		"a", "b", ".", " = ", "[", "]", "[[", "]]\n", "]\n", "\n", "{", "}", ", ", "1", "'q'", "\"x\"", "\"\"\"\nx\"\"\"", "1.5", "inf", "1979-05-27", "# c\n", "a.b.c", "[[a]]\n", "a = 1\n",
	}, []string{
		"a = 1\n[b]\nc = [1, 2.5, 'x']\n[[d]]\ne = {f = 1_000, g.h = 0x10}\n[[d]]\n[d.i]\n", "a = 1\na = 2\n", "a.b.c = 1\na.b.d = 2\n", "[a]\n[a.b]\n[a]\n",
		"a = 1979-05-27T07:32:00Z\n", "a = \"\"\"\nx\\\n y\"\"\"\n", "a = inf\nb = -nan\n", "[[a]]\n[[a.b]]\n[[a]]\n[[a.b]]\n", "a = [{b = 1}, {b = 2}]\n", "'' = 1\n",
	}, func(t *testing.T, in []byte, v *Value) {
		var want dict
		if err := toml.Unmarshal(bytes.TrimPrefix(in, []byte("\ufeff")), &want); err != nil {
			t.Fatalf("%q is not TOML: %v", in, err)
		}
		// Dates stay text here and become times there.
		date := cmp.FilterValues(func(a, b any) bool { return isTime(a) || isTime(b) }, cmp.Ignore())
		if diff := cmp.Diff(want, v.Plain().(dict), date, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", in, diff)
		}
	})
}

func isTime(x any) bool {
	t := fmt.Sprintf("%T", x)
	return t == "time.Time" || strings.HasPrefix(t, "toml.Local")
}

// JSON is not YAML: a reader of YAML would refuse the first of these, and take the others.
func TestJSONIsNotReadAsYAML(t *testing.T) {
	v, err := Parse("x.json", []byte(`{"a": "\ud83d\ude00"}`))
	if err != nil || v.Get("a").Text() != "😀" {
		t.Errorf("a pair of surrogates: %v, %v", v, err)
	}
	for _, text := range []string{`{a: 1}`, `{"a": 01}`, `{"a": 1,}`, "{\"a\": \"x\ny\"}", `{'a': 1}`, `{"a": &b 1}`} {
		if v, err := Parse("x.json", []byte(text)); fault.KindOf(err) != fault.Input {
			t.Errorf("%s became %v, %v", text, v, err)
		}
	}
}

// What the library quotes of a file may be as long as the file.
func TestLongWordsAreCut(t *testing.T) {
	word := strings.Repeat("é", 1<<20)
	for _, text := range []string{"a: *" + word + "\n", "a: {? &" + word + " [b}\n", "a: !" + word + "% 1\n", "%" + word + "\n"} {
		_, err := Parse("a.yaml", []byte(text))
		if err == nil || len(err.Error()) > 600 || !utf8.ValidString(err.Error()) {
			t.Errorf("%.10s: %.700v", text, err)
		}
	}
}
