package run

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/lua"
)

// Options of a job give way to a scenario's options of the same name, each by itself.
func TestYielding(t *testing.T) {
	for _, c := range []struct{ own, words, rest, name, params string }{
		{"", "--backend X --size 1 --backend-param a=b --backend_param=c=d=e", "--size 1", "X", "[a=b c=d=e]"},
		{"", "--size 1", "--size 1", "given", "[]"},
		{"backend", "--backend X --backend-param a=b", "--backend X", "given", "[a=b]"},
		{"backend-param", "--backend X --backend-param a=b", "--backend-param a=b", "X", "[]"},
		{"junit", "--backend X --junit=f", "--junit=f", "X", "[]"},
		{"", "-- --backend X", "-- --backend X", "given", "[]"},
	} {
		var sc lua.Scenario
		if c.own != "" {
			sc.Options = []lua.Option{{Name: c.own, Type: "string"}}
		}
		y := Yielding{Backend: "given"}
		rest, err := y.take("perigee run x", sc, strings.Fields(c.words))
		if got := strings.Join(rest, " "); err != nil || got != c.rest || y.Backend != c.name || fmt.Sprint(y.BackendParam) != c.params {
			t.Errorf("%q of a scenario with %q: %v, %q, %+v", c.words, c.own, err, got, y)
		}
		var out strings.Builder
		if _, err := parseOptions("perigee run x", sc, []string{"--help"}, cli.Streams{Out: &out, Err: io.Discard}); !errors.Is(err, ErrHelp) {
			t.Fatal(err)
		}
		for _, flag := range []string{"--backend=", "--backend-param=", "--junit="} {
			if n := strings.Count(out.String(), flag); n != 1 {
				t.Errorf("a scenario with %q: %s is %d times in its help", c.own, flag, n)
			}
		}
	}
}

// Parameters are pairs, each once.
func TestBackendParams(t *testing.T) {
	for text, want := range map[string]string{"a=b,c=": "", "a": `"a": wanted KEY=VALUE`, "=b": "wanted KEY=VALUE", "a=1,a=2": `a is given twice, as "1" and "2"`} {
		b, err := (Yielding{BackendParam: strings.Split(text, ",")}).backend()
		if want == "" {
			if err != nil || len(b.Params) != 2 || b.Params["a"] != "b" {
				t.Errorf("%s: %v, %v", text, b, err)
			}
		} else if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
