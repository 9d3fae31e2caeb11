package inspect

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

// printed is what an expression makes of a document.
func printed(t testing.TB, text, document string, raw bool) (string, error) {
	t.Helper()
	code, err := compile(text)
	if err != nil {
		return "", err
	}
	var v any
	d := json.NewDecoder(strings.NewReader(document))
	d.UseNumber()
	must.Do(t, d.Decode(&v))
	var out strings.Builder
	err = (&catCmd{File: "r.json", Path: text, Raw: raw}).print(code, v, &out)
	return out.String(), err
}

func TestCatPrints(t *testing.T) {
	const text = `{"s":"a<b>\u00e9\n\"","n":12345678901234567890,"f":1.50,"list":[{"k":1},{},{"k":[1,{"x":null}]}],"e":{},"t":true,"x y":{"]\" .é":[7]}}`
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
		{".list[1:][].k", "null\n[1,{\"x\":null}]\n", false},
		{".e[]", "", false},
		{".list[-1].k[1]", "{\"x\":null}\n", false},
		{".list[-1].k[1].x", "null\n", false},
		{".list.[2].k.[0]", "1\n", false},
		{`.["x y"]["]\" .\u00e9"][-1]`, "7\n", false},
		{"[.list[] | .k? | numbers] | length", "1\n", false},
		{".list | map(has(\"k\")) | @csv", "true,false,true\n", true},
		{".gone // 3, .gone?", "3\nnull\n", false},
		{".t, halt, .f", "true\n", false},
	} {
		if out, err := printed(t, c.path, text, c.raw); err != nil || out != c.want {
			t.Errorf("%s: got %q, %v; want %q", c.path, out, err, c.want)
		}
	}
	var v, again any
	out, err := printed(t, ".", text, false)
	if err := json.Unmarshal([]byte(text), &v); err != nil || json.Unmarshal([]byte(out), &again) != nil || strings.Count(out, "\n") != 1 {
		t.Errorf("the whole: %v, %v: %s", v, again, out)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestCatSaysWhatIsMissing(t *testing.T) {
	const text = `{"patterns":[{"name":"p","matrix":0},{"name":"q"}],"notes":[],"seed":7,"values":{"x y":null}}`
	for path, want := range map[string][2]string{
		".pattern":             {`there is no .pattern; did you mean "patterns"?`, "the result has notes, patterns, seed, values"},
		".patterns[0].matix":   {`there is no .patterns[0].matix; did you mean "matrix"?`, "patterns[0] has matrix, name"},
		".patterns[2]":         {"there is no .patterns[2]: patterns has 2 elements", ""},
		".patterns[-3].name":   {"there is no .patterns[-3]: patterns has 2 elements", ""},
		".notes[0]":            {"there is no .notes[0]: notes has 0 elements", ""},
		".patterns[-1].matrix": {"there is no .patterns[-1].matrix", "patterns[-1] has name"},
		".patterns[].mem":      {"there is no .patterns[0].mem", "patterns[0] has matrix, name"},
		".values | .xy, .yx":   {`there is no .values.xy; did you mean "x y"?`, "values has x y"},
		`.values["a|.b"].c`:    {`there is no .values["a|.b"]`, "values has x y"},
		`.values["x y"].z`:     {`there is no .values["x y"].z: values["x y"] is null`, ""},
		".patterns.name":       {".patterns.name: expected an object but got: array", ""},
		".values[0]":           {".values[0]: expected an array but got: object", ""},
		".seed[]":              {".seed[]: cannot iterate over: number (7)", ""},
		`error("mine")`:        {`error("mine"): error: mine`, ""},
	} {
		out, err := printed(t, path, text, false)
		if fault.KindOf(err) != fault.Input || !strings.HasPrefix(err.Error(), "result r.json: "+want[0]) || fault.HintOf(err) != want[1] || out != "" {
			t.Errorf("%s: got %q, %v (%s), want %q", path, out, err, fault.HintOf(err), want)
		}
	}
}

func TestCatRefusesExpressions(t *testing.T) {
	for text, want := range map[string]string{
		"": "docs/report.md", ".a.": "unexpected EOF", "..a": "unexpected token", ".a[": "unexpected EOF", `.a["x]`: "unterminated", "| .a": "unexpected token",
		"world.size": "did you mean .world.size?", "import \"x\" as x; .": "", "gone(3)": "function not defined", "input": "not allowed",
	} {
		_, err := compile(text)
		if said := err.Error() + fault.HintOf(err); fault.KindOf(err) != fault.Usage || !strings.Contains(said, want) || !strings.Contains(said, "docs/report.md") {
			t.Errorf("%q: %s; want %s", text, said, want)
		}
	}
}

// Whatever the expression, it is refused, or prints JSON.
func FuzzCat(f *testing.F) {
	const document = `{"a":[{"b":[1,"x"]},null,[2,[3,4],{"a":[5]}]],"x y":{"b":[[],{}]}}`
	for _, seed := range []string{".", ".a", ".a[0].b[]", `.["x y"][-3]`, ".[]", `.["\ud800"]`, ".a[", "\x00", ".a[1:]", ".a|path(..)"} {
		f.Add(seed)
	}
	words := []string{".", ".a", ".b", "[]", "[0]", "[-1]", "[-7]", `["x y"]`, `["`, "[", "]", "-", "1", "7", "|", "?", "path", "(", ")", "keys", "//", "[1:]"}
	f.Fuzz(func(t *testing.T, text string) {
		text = fuzztest.Words([]byte(text), words)
		code, err := compile(text)
		if err != nil {
			if fault.KindOf(err) != fault.Usage {
				t.Fatalf("%q: %v is of kind %v", text, err, fault.KindOf(err))
			}
			return
		}
		var v any
		must.Do(t, json.Unmarshal([]byte(document), &v))
		var out strings.Builder
		if err := (&catCmd{Path: text}).print(code, v, &out); err != nil && fault.KindOf(err) != fault.Input {
			t.Fatalf("%q: %v is of kind %v", text, err, fault.KindOf(err))
		}
		d := json.NewDecoder(strings.NewReader(out.String()))
		for {
			var line any
			if err := d.Decode(&line); err == io.EOF {
				return
			} else if err != nil {
				t.Fatalf("%q gives %q", text, out.String())
			}
		}
	})
}
