package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

func TestParsePath(t *testing.T) {
	name := func(s string) step { return step{name: s} }
	at := func(n int) step { return step{kind: element, index: n} }
	all := step{kind: every}
	for text, want := range map[string]path{
		".":                       {},
		".a":                      {name("a")},
		".a.b_2":                  {name("a"), name("b_2")},
		".a[0]":                   {name("a"), at(0)},
		".a.[0]":                  {name("a"), at(0)},
		".[3][-1]":                {at(3), at(-1)},
		".a[].b":                  {name("a"), all, name("b")},
		".[][]":                   {all, all},
		`.["x y"].z`:              {name("x y"), name("z")},
		`.a["]\" .\u00e9"][1]`:    {name("a"), name(`]" .é`), at(1)},
		`.[""]`:                   {name("")},
		".measurements[].ranks[]": {name("measurements"), all, name("ranks"), all},
	} {
		got, err := parsePath(text)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(step{})); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"":                            "wanted a dot at character 1",
		"a":                           "wanted a dot at character 1",
		"[0]":                         "wanted a dot at character 1",
		"..a":                         "wanted a name",
		".a.":                         "wanted a name or [ at character 4",
		".a b":                        `wanted a name (others as ["name"]) at character 2`,
		".2":                          "wanted a name",
		".ä":                          "wanted a name",
		".a[":                         "at character 3",
		".a[x]":                       "at character 3",
		".a[1":                        "at character 3",
		".a[1.5]":                     "at character 3",
		".a[1e3]":                     "at character 3",
		".a[99999999999999999999999]": "at character 3",
		`.a["x]`:                      "at character 3",
		`.a["x"`:                      "at character 3",
		`.a["x" ]`:                    "at character 3",
		".a[0]b":                      "wanted a name or [ at character 6",
		".a | .b":                     "wanted a name",
	} {
		p, err := parsePath(text)
		if fault.KindOf(err) != fault.Usage || p != nil || !strings.Contains(err.Error(), want) || !strings.Contains(fault.HintOf(err), "docs/report.md") {
			t.Errorf("%q: got %v, %v; want %s", text, p, err, want)
		}
	}
}

func TestPathWithoutItsDot(t *testing.T) {
	if _, err := parsePath("world.size"); fault.HintOf(err) != "did you mean .world.size? See docs/report.md" {
		t.Error(fault.HintOf(err))
	}
}

// What is written can be read, and means the same.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{".", ".a", ".a[0].b[]", `.["x y"][-3]`, ".[]", `.["\ud800"]`, ".a[", ".a..b", "\x00", `.["]"]`} {
		f.Add(seed, `{"a":[{"b":[1,"x"]},null]}`)
	}
	f.Add(".a[-1]", "{\"a\":[1,\xff]}")
	f.Add(".a", `{"a":[`)
	const whole = `{"a":[{"b":[1,"x"]},null,[2,[3,4],{"a":[5]}]],"x y":{"b":[[],{}]}}`
	words := []string{".", ".a", ".b", "[]", "[0]", "[-1]", "[-7]", `["x y"]`, `["`, "[", "]", "-", "1", "7"}
	documents := []string{"{", "}", "[", "]", ",", `"a":`, `"b":`, `"x y":`, "1", "null", `"x"`, whole}
	f.Fuzz(func(t *testing.T, text, document string) {
		checkPath(t, text, document)
		made := fuzztest.Words([]byte(text), words)
		checkPath(t, made, whole)
		checkPath(t, made, fuzztest.Words([]byte(document), documents))
	})
}

func checkPath(t *testing.T, text, document string) {
	t.Helper()
	p, err := parsePath(text)
	if err != nil {
		if fault.KindOf(err) != fault.Usage {
			t.Fatalf("%q: %v is of kind %v", text, err, fault.KindOf(err))
		}
		return
	}
	again, err := parsePath(p.String())
	if err != nil || !slices.Equal(p, again) {
		t.Fatalf("%q is written %q, which is %v, %v", text, p, again, err)
	}
	if !json.Valid([]byte(document)) {
		if err := look(strings.NewReader(document), p, false, io.Discard); err == nil {
			t.Fatalf("%s in %q, which is no JSON", p, document)
		}
	}
	var out bytes.Buffer
	if look(strings.NewReader(document), p, false, &out) != nil {
		return
	}
	for line := range strings.Lines(out.String()) {
		if !json.Valid([]byte(line)) {
			t.Fatalf("%s in %q gives %q", p, document, line)
		}
	}
}

// values draws documents as encoding/json makes them.
func values(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		most := 6
		if depth == 0 {
			most = 4
		}
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return json.Number(fmt.Sprint(rapid.Int64().Draw(t, "number")))
		case 3, 4:
			return rapid.StringN(0, 4, -1).Draw(t, "text")
		case 5:
			return rapid.SliceOfN(values(depth-1), 0, 4).Draw(t, "list")
		default:
			return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c d", ""}), values(depth-1), 0, 4).Draw(t, "object")
		}
	})
}

// plainly follows a path through a document in memory. real counts what it leads to; what
// is found beyond that are the nulls of places that are not there.
func plainly(v any, p path) (found []any, real int) {
	if len(p) == 0 {
		return []any{v}, 1
	}
	object, isObject := v.(map[string]any)
	list, isList := v.([]any)
	switch s := p[0]; {
	case s.kind == field && isObject:
		if inner, there := object[s.name]; there {
			return plainly(inner, p[1:])
		}
	case s.kind == element && isList:
		i := s.index
		if i < 0 {
			i += len(list)
		}
		if i >= 0 && i < len(list) {
			return plainly(list[i], p[1:])
		}
	case s.kind == every && (isObject || isList):
		for _, k := range slices.Sorted(maps.Keys(object)) { // as encoding/json writes them
			list = append(list, object[k])
		}
		for _, e := range list {
			inner, n := plainly(e, p[1:])
			found, real = append(found, inner...), real+n
		}
		return found, real
	}
	return []any{nil}, 0
}

// A path finds in a stream what it would find in memory.
func TestLookFindsTheSame(t *testing.T) {
	steps := rapid.SampledFrom([]step{{name: "a"}, {name: "b"}, {name: "c d"}, {name: ""}, {kind: every}, {kind: every}, {kind: element}, {kind: element, index: 2}, {kind: element, index: -1}, {kind: element, index: -3}})
	rapid.Check(t, func(t *rapid.T) {
		v := values(4).Draw(t, "document")
		p := path(rapid.SliceOfN(steps, 0, 4).Draw(t, "path"))
		text, err := json.Marshal(v)
		must.Do(t, err)
		want, real := plainly(v, p)
		ok := real > 0 || len(want) == 0
		var out strings.Builder
		err = look(bytes.NewReader(text), p, false, &out)
		if (err == nil) != ok {
			t.Fatalf("%s in %s: %v, found %v", p, text, err, ok)
		}
		if err != nil {
			if _, is := errors.AsType[*absent](err); !is {
				t.Fatalf("%s in %s: %v", p, text, err)
			}
			return
		}
		var lines strings.Builder
		for _, w := range want {
			must.Do(t, writeValue(&lines, w))
		}
		if diff := cmp.Diff(lines.String(), out.String()); diff != "" {
			t.Fatalf("%s in %s (-want +got):\n%s", p, text, diff)
		}
	})
}

func writeValue(out *strings.Builder, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func TestLookSaysWhatIsMissing(t *testing.T) {
	const text = `{"patterns":[{"name":"p","matrix":0},{"name":"q"}],"notes":[],"seed":7,"values":{"x y":null}}`
	for p, want := range map[string][2]string{
		".pattern":             {`there is no .pattern; did you mean "patterns"?`, "the result has patterns, notes, seed, values"},
		".patterns[0].matix":   {`there is no .patterns[0].matix; did you mean "matrix"?`, "patterns[0] has name, matrix"},
		".patterns[2]":         {"there is no .patterns[2]: .patterns has 2 elements", ""},
		".patterns[-3].name":   {"there is no .patterns[-3]: .patterns has 2 elements", ""},
		".notes[0]":            {"there is no .notes[0]: .notes has 0 elements", ""},
		".patterns[-1].matrix": {"there is no .patterns[1].matrix", "patterns[1] has name"},
		".patterns[].mem":      {"there is no .patterns[0].mem", "patterns[0] has name, matrix"},
		".patterns.name":       {".patterns is a list, want an object", ""},
		".values[0]":           {".values is an object, want a list", ""},
		".seed[]":              {".seed is a number, want a list or an object", ""},
		`.values["x y"].z`:     {`.values["x y"] is null, want an object`, ""},
		".patterns[0].name[0]": {".patterns[0].name is a text, want a list", ""},
	} {
		parsed, err := parsePath(p)
		must.Do(t, err)
		var out strings.Builder
		missing, ok := errors.AsType[*absent](look(strings.NewReader(text), parsed, false, &out))
		if !ok || missing.text != want[0] || missing.hint != want[1] {
			t.Errorf("%s: got %+v, want %q", p, missing, want)
		}
	}
}

func TestLookPrints(t *testing.T) {
	const text = `{"s":"a<b>\u00e9\n\"","n":12345678901234567890,"f":1.50,"list":[{"k":1},{},{"k":[1,{"x":null}]}],"e":{},"t":true}`
	for _, c := range []struct {
		path, want string
		raw        bool
	}{
		{".s", `"a<b>é\n\""` + "\n", false},
		{".s", "a<b>é\n\"\n", true},
		{".n", "12345678901234567890\n", false},
		{".f", "1.50\n", false},
		{".t", "true\n", true},
		{".list[].k", "1\nnull\n[1,{\"x\":null}]\n", false},
		{".e[]", "", false},
		{".list[-1].k[1]", "{\"x\":null}\n", false},
		{".", strings.ReplaceAll(text, `\u00e9`, "é") + "\n", false},
	} {
		p, err := parsePath(c.path)
		must.Do(t, err)
		var out strings.Builder
		if err := look(strings.NewReader(text), p, c.raw, &out); err != nil || out.String() != c.want {
			t.Errorf("%s: got %q, %v; want %q", c.path, out.String(), err, c.want)
		}
	}
}
