package run

import (
	"testing"

	"perigee/internal/result"
	"perigee/lua"
)

// A run that is repeated keeps its title, unless it gets another one. A scenario's own option of that name wins.
func TestTitle(t *testing.T) {
	old := &result.Document{Title: "before"}
	for given, want := range map[string]string{"": "before", "after": "after"} {
		f := Flags{Engine: "shm", Yielding: Yielding{Title: given}}
		if f.asIn(old, 1); f.Yielding.Title != want {
			t.Errorf("--title %q: got %q, want %q", given, f.Yielding.Title, want)
		}
	}
	for _, c := range []struct {
		own  []lua.Option
		want string
		rest int
	}{{nil, "mine", 0}, {[]lua.Option{{Name: "title", Type: "string"}}, "", 2}} {
		var y Yielding
		rest, err := y.take("perigee run x", lua.Scenario{Options: c.own}, []string{"--title", "mine"})
		if err != nil || y.Title != c.want || len(rest) != c.rest {
			t.Errorf("%v: %v, %q, %q", c.own, err, y.Title, rest)
		}
	}
}
