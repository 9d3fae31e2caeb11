package conf

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/must"
)

func TestWith(t *testing.T) {
	v, err := Parse("a.yaml", []byte("a: 1\nb:\n  c: x\n  d: y\n"))
	must.Do(t, err)
	changed, err := v.With([]string{"b", "d"}, 7)
	must.Do(t, err)
	changed, err = changed.With([]string{"e", "f"}, []string{"z"})
	must.Do(t, err)
	want := map[string]any{"a": int64(1), "b": map[string]any{"c": "x", "d": int64(7)}, "e": map[string]any{"f": []any{"z"}}}
	must.Equal(t, want, changed.Plain())
	if d := changed.Get("b").Get("d"); d.Line != 4 || d.Path() != "b.d" {
		t.Errorf("the new value stands at %d, %s", d.Line, d.Path())
	}
	if v.Get("b").Get("d").Text() != "y" || v.Has("e") {
		t.Error("the old tree has changed")
	}
	if _, err := v.With([]string{"a", "b"}, 1); err == nil {
		t.Error("a number was taken for a map")
	}
}

func TestMapScalars(t *testing.T) {
	v, err := Parse("a.yaml", []byte("a: x\nb: [x, 1, {c: x}]\n"))
	must.Do(t, err)
	changed := v.MapScalars(func(path []string, v *Value) any {
		if v.Kind == Int {
			return v
		}
		return strings.Join(path, ".")
	})
	want := map[string]any{"a": "a", "b": []any{"b", int64(1), map[string]any{"c": "b.c"}}}
	must.Equal(t, want, changed.Plain())
	must.Equal(t, map[string]any{"a": "x"}, v.Without("b").Plain())
}

// What YAML writes, Parse reads.
func TestYAMLRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.OneOf(rapid.StringMatching(`[a-z0-9:#{}"' \n-]{0,12}`), rapid.SampledFrom([]string{"true", "~", "12", "1e3", "1e310", "-0017",
			"0x1p9", "1_0", "<<", "=", ".inf", "10:00:00", "99999999999999999999", "0o9", "2026-11-24"}))
		data := map[string]any{
			"text": texts.Draw(t, "text"), "int": rapid.Int64().Draw(t, "int"), "bool": rapid.Bool().Draw(t, "bool"),
			"float": rapid.Float64Range(-1e9, 1e9).Draw(t, "float"), "nothing": nil,
			"list":  []any{texts.Draw(t, "element"), map[string]any{"key": texts.Draw(t, "inner"), texts.Draw(t, "name"): 1}},
			"limit": rapid.SampledFrom([]float64{math.Inf(1), math.Inf(-1), 1e300, -1e-300, 1e21}).Draw(t, "limit"),
		}
		v, err := FromPlain("a.yaml", data)
		must.Do(t, err)
		text, err := v.YAML()
		must.Do(t, err)
		again, err := Parse("a.yaml", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for key := range data {
			got, want := again.Get(key), v.Get(key)
			if want.Kind == Float && got.Float() == want.Float() {
				continue // 3.0 is written as 3
			}
			if diff := cmp.Diff(want.Plain(), got.Plain()); diff != "" {
				t.Fatalf("%s: %s\n%s", key, diff, text)
			}
		}
	})
}

// A number of JSON keeps its digits, and none becomes text for a reader of YAML.
func TestNumbersStayAsWritten(t *testing.T) {
	for text, want := range map[string]string{
		"20261126102002123456": "20261126102002123456", "1.0": "1.0", "1e6": "1.0e+06", "-0": "-0", "2": "2", "0.10": "0.10",
		"3.14159265358979323846": "3.14159265358979323846", "null": "null", "true": "true",
	} {
		v, err := Parse("a.json", []byte(`{"a": `+text+`}`))
		must.Do(t, err)
		if v, err = v.With([]string{"b"}, v.Get("a")); err != nil || v.Get("b").Written() != want {
			t.Errorf("%s: got %s, %v", text, v.Get("b").Written(), err)
		}
		if got, err := v.YAML(); err != nil || string(got) != "a: "+want+"\nb: "+want+"\n" {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	v, _ := Parse("a.json", []byte(`{"a": [1]}`))
	if _, err := v.With([]string{"b"}, v.Get("a")); err == nil {
		t.Error("a list is no scalar")
	}
}

// What a document says stays as it is written, as other programs read it by another version of YAML than this one, and
// what is text stays text for each of them.
func TestYAMLStaysAsWritten(t *testing.T) {
	const text = `a: yes
b: "yes"
c: 1:30
d: "1:30"
e: 0.00001
f: 1_000
g: 2.0
h: 18446744073709551615
i: 2026-11-24
1: one
"2": two
"on": x
off: y
j: "="
`
	v, err := Parse("a.yaml", []byte(text))
	must.Do(t, err)
	got, err := v.YAML()
	if diff := cmp.Diff(text, string(got)); err != nil || diff != "" {
		t.Error(err, diff)
	}
	changed := v.MapScalars(func(_ []string, v *Value) any {
		if v.Kind != String {
			return v
		}
		return strings.ReplaceAll(v.Text(), "1:30", "1:45")
	})
	if changed, err = changed.With([]string{"g"}, 0.00002); err != nil {
		t.Fatal(err)
	}
	got, err = changed.YAML()
	want := strings.NewReplacer("c: 1:30", `c: "1:45"`, "1:30", "1:45", "2.0", "2.0e-05").Replace(text)
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
