package run

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/must"
	"perigee/lua"
)

// What optionWords writes parseOptions reads, also with the job's flags among the words.
func TestOptionsAreParsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sc lua.Scenario
		want := map[string]any{}
		argument := true // until one is left out, and no later one can be given
		for i := range rapid.IntRange(0, 6).Draw(t, "options") {
			o := lua.Option{Name: fmt.Sprintf("my-option%d", i), Type: rapid.SampledFrom([]string{"int", "number", "size", "string", "bool", "enum", "path"}).Draw(t, "type")}
			var v any
			switch o.Type {
			case "int":
				v = rapid.Int64Range(-1<<52, 1<<52).Draw(t, "int")
			case "number":
				v = rapid.Float64Range(-1e300, 1e300).Draw(t, "number")
			case "size":
				v = rapid.Int64Range(0, 1<<52).Draw(t, "size")
			case "bool":
				v = rapid.Bool().Draw(t, "bool")
			case "enum":
				o.Choices = []string{"a", "b=c", "--d"}
				v = rapid.SampledFrom(o.Choices).Draw(t, "enum")
			case "path":
				v = rapid.StringN(1, 20, -1).Draw(t, "path")
			default:
				v = rapid.String().Draw(t, "string")
			}
			o.Arg = argument && o.Type != "bool" && rapid.Bool().Draw(t, "argument")
			sc.Options = append(sc.Options, o)
			if o.Arg || rapid.Bool().Draw(t, "given") {
				want[strings.ReplaceAll(o.Name, "-", "_")] = v
			}
		}
		words, err := optionWords(sc, want)
		must.Do(t, err)
		var f Flags
		rest, err := f.take("perigee run x", append([]string{"--ranks=3"}, words...))
		if err != nil || f.Ranks == nil || *f.Ranks != 3 {
			t.Fatalf("%q: %v", words, err)
		}
		got, err := parseOptions("perigee run x", sc, rest, cli.Streams{Out: io.Discard, Err: io.Discard})
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		if diff := cmp.Diff(want, got.values); diff != "" {
			t.Errorf("%q (-want +got):\n%s", words, diff)
		}
	})
	if _, err := optionWords(lua.Scenario{}, map[string]any{"size": 1}); err == nil {
		t.Error("an option that the scenario does not have is accepted")
	}
}

// Help shows a stranger's words as text.
func TestHelpIsPlain(t *testing.T) {
	sc := lua.Scenario{Name: "x.lua", About: "about \x1b]0;title\a", Options: []lua.Option{
		{Name: "a", Type: "string", Help: "help \x1b[2J\u202e", Default: "\x1b[5m"},
		{Name: "b", Type: "enum", Choices: []string{"\x1b[31m"}, Default: "\x1b[31m"},
	}}
	var out strings.Builder
	if _, err := parseOptions("perigee run x.lua", sc, []string{"--help"}, cli.Streams{Out: &out, Err: &out}); !errors.Is(err, ErrHelp) {
		t.Fatal(err)
	}
	if got := out.String(); strings.ContainsAny(got, "\x1b\a\u202e") || !strings.Contains(got, `help \x1b[2J\u202e`) {
		t.Errorf("got %q", got)
	}
}
