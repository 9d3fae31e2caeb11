package conf

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

func ptr(x float64) *float64 { return &x }

// traffic is a schema with every type in it.
var traffic = Schema{
	{Name: "iters", Type: "int", Default: 1, Min: ptr(1), Max: ptr(1000)},
	{Name: "title", Type: "string"},
	{Name: "verify", Type: "bool", Default: false},
	{Name: "buffer", Type: "size", Max: ptr(1 << 30)},
	{Name: "patterns", Type: "list", Required: true, Min: ptr(1), Max: ptr(3), Help: "what to send", Aliases: []string{"traffic_patterns"}, Elem: &Field{
		Type: "map", Fields: []Field{
			{Name: "matrix_file", Type: "path", Required: true, Aliases: []string{"matrix"}},
			{Name: "mem_type", Type: "enum", Enum: []string{"vram", "dram"}, Default: "dram"},
			{Name: "sleep", Type: "float", Default: 0, Min: ptr(0)},
			{Name: "metadata", Type: "any"},
			{Name: "storage", Type: "map", Elem: &Field{Type: "map", Fields: []Field{{Name: "size", Type: "size", Default: "4K"}}}},
			{Name: "labels", Type: "map", Default: dict{"by": "default"}},
			{Name: "steps", Type: "list"},
		},
	}},
}

func TestCheckFillsDefaults(t *testing.T) {
	doc := parse("conf/a.yaml", `
traffic_patterns:
- matrix_file: x/../m.txt
- matrix: /abs/m.txt
  mem_type: vram
  sleep: 2
  metadata: {isl: 7, list: [1.5, ~]}
  storage: {0: {}, 1: {size: 1.5K}}
  labels: {}
  steps: [1, x]
iters: 50.0
buffer: 1G
`)
	before := doc.Plain()
	checked, err := traffic.Check(doc)
	must.Do(t, err)
	want := dict{
		"iters": int64(50), "verify": false, "buffer": int64(1 << 30),
		"patterns": list{
			dict{"matrix_file": "conf/x/../m.txt", "mem_type": "dram", "sleep": 0.0, "labels": dict{"by": "default"}},
			dict{
				"matrix_file": "/abs/m.txt", "mem_type": "vram", "sleep": 2.0, "metadata": dict{"isl": int64(7), "list": list{1.5, nil}},
				"storage": dict{"0": dict{"size": int64(4096)}, "1": dict{"size": int64(1536)}}, "labels": dict{}, "steps": list{int64(1), "x"},
			},
		},
	}
	must.Equal(t, want, checked.Plain())
	if diff := cmp.Diff(before, doc.Plain()); diff != "" {
		t.Errorf("the document changed (-was +is):\n%s", diff)
	}
	// Errors found later still name what is written in the file.
	second := checked.Get("patterns").List()[1]
	for want, v := range map[string]*Value{
		"conf/a.yaml:4: traffic_patterns[1].matrix: no":           second.Get("matrix_file"),
		"conf/a.yaml:6: traffic_patterns[1].sleep: no":            second.Get("sleep"),
		"conf/a.yaml:8: traffic_patterns[1].storage.0.size: no":   second.Get("storage").Get("0").Get("size"),
		"conf/a.yaml:7: traffic_patterns[1].metadata.list[1]: no": second.Get("metadata").Get("list").List()[1],
		"conf/a.yaml:2: verify: no":                               checked.Get("verify"),
		"conf/a.yaml:2: no":                                       checked,
	} {
		if got := v.Errorf("no").Error(); got != want {
			t.Errorf("%s: want %s", got, want)
		}
	}
}

func TestCheckAcceptsOnlyItsType(t *testing.T) {
	inputs := []string{
		"~", "true", "5", "-5", "5.0", "5.5", ".nan", ".inf", "9223372036854775807", "1e19", "text", "''", "5K", "-5K", "'5'", "[1]", "{a: 1}",
	}
	for _, c := range []struct {
		field Field
		want  dict // by input; what is not here is refused
	}{
		{Field{Type: "bool"}, dict{"true": true}},
		{Field{Type: "int"}, dict{"5": int64(5), "-5": int64(-5), "5.0": int64(5), "9223372036854775807": int64(math.MaxInt64)}},
		{Field{Type: "float"}, dict{"5": 5.0, "-5": -5.0, "5.0": 5.0, "5.5": 5.5, "9223372036854775807": float64(1 << 63), "1e19": 1e19}},
		{Field{Type: "string"}, dict{"text": "text", "''": "", "5K": "5K", "-5K": "-5K", "'5'": "5"}},
		{Field{Type: "size"}, dict{"5": int64(5), "5.0": int64(5), "9223372036854775807": int64(math.MaxInt64), "5K": int64(5120), "'5'": int64(5)}},
		{Field{Type: "path"}, dict{"text": "d/text", "5K": "d/5K", "-5K": "d/-5K", "'5'": "d/5"}},
		{Field{Type: "enum", Enum: []string{"text", "5"}}, dict{"text": "text", "TEXT": "text", "'5'": "5"}},
		{Field{Type: "map"}, dict{"{a: 1}": dict{"a": int64(1)}}},
		{Field{Type: "map", Fields: []Field{{Name: "a", Type: "float"}}}, dict{"{a: 1}": dict{"a": 1.0}}},
		{Field{Type: "map", Elem: &Field{Type: "float"}}, dict{"{a: 1}": dict{"a": 1.0}}},
		{Field{Type: "map", Elem: &Field{Type: "bool"}}, dict{}},
		{Field{Type: "list"}, dict{"[1]": list{int64(1)}}},
		{Field{Type: "list", Elem: &Field{Type: "float"}}, dict{"[1]": list{1.0}}},
		{Field{Type: "list", Elem: &Field{Type: "bool"}}, dict{}},
	} {
		c.field.Name = "x"
		for _, in := range inputs {
			got, err := Schema{c.field}.Check(parse("d/a.yaml", "x: "+in))
			want, accepted := c.want[in]
			if !accepted {
				if fault.KindOf(err) != fault.Input || !strings.HasPrefix(err.Error(), "d/a.yaml:1: x") || !strings.Contains(err.Error(), ": wanted ") {
					t.Errorf("%s %s: %v, %v: want an error", c.field.Type, in, got.Plain(), err)
				}
				continue
			}
			if diff := cmp.Diff(want, got.Get("x").Plain()); err != nil || diff != "" {
				t.Errorf("%s %s: %v (-want +got):\n%s", c.field.Type, in, err, diff)
			}
		}
	}
}

func TestAnyIsUntouched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := anyPlain().Draw(t, "data")
		got, err := Schema{{Name: "x", Type: "any"}}.Check(sure(FromPlain("", dict{"x": data})))
		must.Do(t, err)
		must.Equal(t, data, got.Get("x").Plain())
	})
}

func TestCheckRefuses(t *testing.T) {
	const ok = "patterns: [{matrix: m}]\n"
	for _, c := range []struct{ text, want, hint string }{
		{"- 1\n", "a.yaml:1: wanted a map with the keys iters, title, verify, buffer, patterns, got a list", ""},
		{"x\n", `a.yaml:1: wanted a map with the keys iters, title, verify, buffer, patterns, got the text "x"`, ""},
		{ok + "iter: 5\n", `a.yaml:2: iter: the key "iter" is not known here; did you mean "iters"?`, "wanted a map with the keys iters, title, verify, buffer, patterns"},
		{ok + "trafic_pattern: 5\n", `a.yaml:2: trafic_pattern: the key "trafic_pattern" is not known here; did you mean "traffic_patterns"?`, "wanted a map with the keys iters, title, verify, buffer, patterns"},
		{ok + "\"a b\": 5\n", `a.yaml:2: ["a b"]: the key "a b" is not known here`, "wanted a map with the keys iters, title, verify, buffer, patterns"},
		{"iters: 5\n", "a.yaml:1: the key patterns is missing", "patterns: what to send"},
		{"patterns:\n- matrix: m\n- mem_type: vram\n", "a.yaml:3: patterns[1]: the key matrix_file is missing", ""},
		{"patterns:\n- mem_type: gpu\n", `a.yaml:2: patterns[0].mem_type: wanted one of vram, dram, got the text "gpu"`, ""},
		{"patterns:\n- mem_type: DRAN\n", `a.yaml:2: patterns[0].mem_type: wanted one of vram, dram, got the text "DRAN"; did you mean "dram"?`, ""},
		{"patterns:\n- matrix: m\n  matrix_file: n\n", "a.yaml:3: patterns[0].matrix_file: this is another name of matrix, which is on line 2 already", ""},
		{"patterns: []\n", "a.yaml:1: patterns: wanted a list of 1 to 3 elements, got 0", ""},
		{"patterns: [1, 2, 3, 4]\n", "a.yaml:1: patterns: wanted a list of 1 to 3 elements, got 4", ""},
		{"patterns: [1]\n", "a.yaml:1: patterns[0]: wanted a map with the keys matrix_file, mem_type, sleep, metadata, storage, labels, steps, got 1", ""},
		{"patterns:\n- matrix:\n", "a.yaml:2: patterns[0].matrix: wanted the path of a file, got nothing (null)", ""},
		{"patterns:\n- sleep: -0.5\n", "a.yaml:2: patterns[0].sleep: wanted a number of at least 0, got -0.5", ""},
		{"patterns:\n- sleep: 1s\n", `a.yaml:2: patterns[0].sleep: wanted a number of at least 0, got the text "1s"`, ""},
		{"patterns:\n- steps: {}\n", "a.yaml:2: patterns[0].steps: wanted a list, got a map", ""},
		{"patterns:\n- labels: 3\n", "a.yaml:2: patterns[0].labels: wanted a map, got 3", ""},
		{"patterns:\n- storage: {0: {size: -1}}\n", "a.yaml:2: patterns[0].storage.0.size: wanted a size in bytes, such as 4096, 64K or 1.5G, got -1", ""},
		{"patterns:\n- storage: {0: {size: 1.5}}\n", "a.yaml:2: patterns[0].storage.0.size: wanted a size in bytes, such as 4096, 64K or 1.5G, got 1.5", ""},
		{"patterns:\n- storage: {0: {size: 12Q}}\n", `a.yaml:2: patterns[0].storage.0.size: wanted a size in bytes, such as 4096, 64K or 1.5G, got the text "12Q"`, ""},
		{"buffer: 2G\n", "a.yaml:1: buffer: wanted a size of at most 1 GiB, got the text \"2G\"", ""},
		{"iters: 0\n", "a.yaml:1: iters: wanted a whole number from 1 to 1000, got 0", ""},
		{"iters: yes\n", `a.yaml:1: iters: wanted a whole number from 1 to 1000, got the text "yes"`, ""},
		{"iters: 1.5\n", "a.yaml:1: iters: wanted a whole number from 1 to 1000, got 1.5", ""},
		{"title: 1.10\n", "a.yaml:1: title: wanted text, got 1.1", "in quotes it would be text"},
		{"title: [x]\n", "a.yaml:1: title: wanted text, got a list", ""},
		{"verify: yes\n", `a.yaml:1: verify: wanted true or false, got the text "yes"`, ""},
		// The first mistake in the document counts, and what is missing comes last.
		{"verify: 1\niter: 5\n", "a.yaml:1: verify: wanted true or false, got 1", ""},
		{"iter: 5\nverify: 1\n", `a.yaml:1: iter: the key "iter" is not known here; did you mean "iters"?`, "wanted a map with the keys iters, title, verify, buffer, patterns"},
	} {
		v, err := traffic.Check(parse("a.yaml", c.text))
		if err == nil || v != nil || err.Error() != c.want || fault.HintOf(err) != c.hint || fault.KindOf(err) != fault.Input {
			t.Errorf("%q: %v (%s, %s):\nwant %s (%s)", c.text, err, fault.KindOf(err), fault.HintOf(err), c.want, c.hint)
		}
	}
}

func TestBoundsInMessages(t *testing.T) {
	for want, f := range map[string]Field{
		"x: wanted a whole number of at least 7, got 5":    {Type: "int", Min: ptr(7)},
		"x: wanted a number of at most 4.5, got 5":         {Type: "float", Max: ptr(4.5)},
		"x: wanted a whole number 6, got 5":                {Type: "int", Min: ptr(6), Max: ptr(6)},
		"x: wanted a size of at least 1000000000 B, got 5": {Type: "size", Min: ptr(1e9)},
		"x: wanted a number from 1e+18 to 2e+18, got 5":    {Type: "float", Min: ptr(1e18), Max: ptr(2e18)},
		`x: wanted "y", got 5`:                             {Type: "enum", Enum: []string{"y"}},
		"x: wanted a map with no keys, got 5":              {Type: "map", Fields: []Field{}},
	} {
		f.Name = "x"
		if _, err := (Schema{f}).Check(sure(FromPlain("", dict{"x": 5}))); err == nil || err.Error() != want {
			t.Errorf("%v: want %s", err, want)
		}
	}
	_, err := Schema{}.Check(sure(FromPlain("", dict{"x": 5})))
	if err == nil || fault.HintOf(err) != "wanted a map with no keys" {
		t.Errorf("no keys: %v (%s)", err, fault.HintOf(err))
	}
}

func TestValidate(t *testing.T) {
	for want, s := range map[string]Schema{
		"schema: field 2 of the document has no name": {{Name: "a", Type: "int"}, {Type: "int"}},
		"schema: field 1 of a has no name":            {{Name: "a", Type: "map", Fields: []Field{{Type: "int"}}}},
		"schema: a is there twice":                    {{Name: "a", Type: "int"}, {Name: "b", Type: "int", Aliases: []string{"a"}}},
		"schema: a.b is there twice":                  {{Name: "a", Type: "map", Fields: []Field{{Name: "b", Type: "int"}, {Name: "b", Type: "int"}}}},
		`schema: a: wanted a type of int, float, bool, string, size, tokens, path, enum, map, list, any, got "integer"`: {{Name: "a", Type: "integer"}},
		"schema: a: the type enum, and only that, goes with a list of texts (enum)":                                     {{Name: "a", Type: "enum"}},
		"schema: b: the type enum, and only that, goes with a list of texts (enum)":                                     {{Name: "b", Type: "string", Enum: []string{"x"}}},
		"schema: a: only the type map has fields":                                                                       {{Name: "a", Type: "list", Fields: []Field{{Name: "x", Type: "int"}}}},
		"schema: a: only the types map and list have an elem":                                                           {{Name: "a", Type: "int", Elem: &Field{Type: "int"}}},
		"schema: a: a map has either fields or an elem":                                                                 {{Name: "a", Type: "map", Fields: []Field{}, Elem: &Field{Type: "int"}}},
		"schema: a: only numbers, sizes and lists have a min and a max":                                                 {{Name: "a", Type: "bool", Min: ptr(1)}},
		"schema: a: its min 2 is above its max 1":                                                                       {{Name: "a", Type: "int", Min: ptr(2), Max: ptr(1)}},
		"schema: a: a required key cannot have a default":                                                               {{Name: "a", Type: "int", Required: true, Default: 1}},
		"schema: a[].b: wanted a type of int, float, bool, string, size, tokens, path, enum, map, list, any, got \"\"":  {{Name: "a", Type: "list", Elem: &Field{Type: "map", Fields: []Field{{Name: "b"}}}}},
		"schema: a: its default: a: wanted a whole number, got the text \"x\"":                                          {{Name: "a", Type: "int", Default: "x"}},
		"schema: a: its default: a: wanted plain data, got a value of the type struct {}":                               {{Name: "a", Type: "any", Default: struct{}{}}},
	} {
		if err := s.Validate(); err == nil || err.Error() != want {
			t.Errorf("%v: want %s", err, want)
		}
		if _, err := s.Check(sure(FromPlain("", dict{}))); fault.KindOf(err) != fault.Internal {
			t.Errorf("Check with a wrong schema: %v is of the kind %v", err, fault.KindOf(err))
		}
	}
	if err := traffic.Validate(); err != nil {
		t.Error(err)
	}
}

func TestSchemaFromData(t *testing.T) {
	const text = `
- {name: iters, type: int, default: 1, min: 1, max: 1000}
- {name: title, type: string}
- {name: verify, type: bool, default: false}
- {name: buffer, type: size, max: 1073741824}
- name: patterns
  type: list
  required: true
  min: 1
  max: 3
  help: what to send
  aliases: [traffic_patterns]
  elem:
    type: map
    fields:
    - {name: matrix_file, type: path, required: true, aliases: [matrix]}
    - {name: mem_type, type: enum, enum: [vram, dram], default: dram}
    - {name: sleep, type: float, default: 0, min: 0}
    - {name: metadata, type: any}
    - {name: storage, type: map, elem: {type: map, fields: {size: {type: size, default: 4K}}}}
    - {name: labels, type: map, default: {by: default}}
    - {name: steps, type: list}
`
	got, err := SchemaFrom(parse("s.yaml", text))
	must.Do(t, err)
	int64s := cmp.Transformer("int", func(i int) int64 { return int64(i) }) // defaults
	sameDefaults := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Default" }, cmp.Comparer(func(a, b any) bool {
		return cmp.Equal(plain(a), plain(b))
	}))
	must.Equal(t, traffic, got, int64s, sameDefaults)
	// A script writes a table of fields, in which every number is a float.
	table := sure(FromPlain("s.lua", dict{"n": dict{"type": "int", "default": 5.0}, "name": dict{"type": "string"}}))
	s, err := SchemaFrom(table)
	must.Do(t, err)
	checked, err := s.Check(sure(FromPlain("s.lua", dict{"name": "x"})))
	if diff := cmp.Diff(dict{"n": int64(5), "name": "x"}, checked.Plain()); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func plain(data any) any { return sure(FromPlain("", data)).Plain() }

func TestSchemaFromRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"x":                           `s.yaml:1: wanted a list or a map of fields, got the text "x"`,
		"- x":                         `s.yaml:1: [0]: wanted a map with the keys name, type, default, required, min, max, enum, help, fields, elem, aliases, got the text "x"`,
		"- {name: a}":                 "s.yaml:1: [0]: the key type is missing",
		"- {type: int}":               "s.yaml:1: schema: field 1 of the document has no name",
		"a: {type: integer}":          `s.yaml:1: a.type: wanted one of int, float, bool, string, size, tokens, path, enum, map, list, any, got the text "integer"`,
		"a: {type: int, defualt: 1}":  `s.yaml:1: a.defualt: the key "defualt" is not known here; did you mean "default"?`,
		"a: {type: list,\n elem: 3}":  `s.yaml:2: a.elem: wanted a map with the keys name, type, default, required, min, max, enum, help, fields, elem, aliases, got 3`,
		"a: {type: map,\n fields: 3}": `s.yaml:2: a.fields: wanted a list or a map of fields, got 3`,
		"a: {type: int, default: x}":  `s.yaml:1: schema: a: its default: a: wanted a whole number, got the text "x"`,
	} {
		if _, err := SchemaFrom(parse("s.yaml", text)); err == nil || err.Error() != want || fault.KindOf(err) != fault.Input {
			t.Errorf("%v: want %s", err, want)
		}
	}
}

func Example() {
	schema := Schema{
		{Name: "iters", Type: "int", Default: 1},
		{Name: "traffic_pattern", Type: "map", Required: true, Fields: []Field{
			{Name: "matrix_file", Type: "path", Required: true},
			{Name: "mem_type", Type: "enum", Enum: []string{"vram", "dram"}, Default: "dram"},
		}},
	}
	for _, text := range []string{
		"traffic_pattern:\n  matrix_file: m.txt\n",
		"traffic_pattern:\n  matrix_file: m.txt\n  mem_typ: vram\n",
	} {
		doc, err := Parse("bench/conf.yaml", []byte(text))
		if err == nil {
			doc, err = schema.Check(doc)
		}
		if err != nil {
			fmt.Println(err)
			continue
		}
		pattern := doc.Get("traffic_pattern")
		fmt.Println(doc.Get("iters").Int(), pattern.Get("matrix_file").Text(), pattern.Get("mem_type").Text())
	}
	// Output:
	// 1 bench/m.txt dram
	// bench/conf.yaml:3: traffic_pattern.mem_typ: the key "mem_typ" is not known here; did you mean "mem_type"?
}

// TestMissingAtOnce names all keys that a map lacks.
func TestMissingAtOnce(t *testing.T) {
	schema := Schema{
		{Name: "a", Type: "int", Required: true, Help: "the first"}, {Name: "b", Type: "int"},
		{Name: "c", Type: "int", Required: true},
	}
	for text, want := range map[string]string{
		"b: 1\n":       "m.yaml:1: the keys a, c are missing",
		"b: 1\nc: 2\n": "m.yaml:1: the key a is missing",
	} {
		v, err := Parse("m.yaml", []byte(text))
		must.Do(t, err)
		if _, err := schema.Check(v); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
