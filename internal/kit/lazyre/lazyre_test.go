package lazyre

import (
	"regexp"
	"slices"
	"testing"
)

// What is matched is what package regexp matches; a wrong expression is found when it is used, and not before.
func TestRegexp(t *testing.T) {
	const expr, text = `a(b*)`, "xabbyab"
	lazy, plain := New(expr), regexp.MustCompile(expr)
	if lazy.Get().String() != expr || !lazy.MatchString(text) || lazy.MatchString("x") {
		t.Errorf("%s matches otherwise than in package regexp", expr)
	}
	if got, want := lazy.FindString(text), plain.FindString(text); got != want {
		t.Errorf("FindString: got %q, want %q", got, want)
	}
	if got, want := lazy.FindStringSubmatch(text), plain.FindStringSubmatch(text); !slices.Equal(got, want) {
		t.Errorf("FindStringSubmatch: got %q, want %q", got, want)
	}
	if got := lazy.FindSubmatch([]byte(text)); len(got) != 2 || string(got[1]) != "bb" {
		t.Errorf("FindSubmatch: got %q", got)
	}
	if got, want := lazy.ReplaceAllString(text, "<$1>"), "x<bb>y<b>"; got != want {
		t.Errorf("ReplaceAllString: got %q, want %q", got, want)
	}
	wrong := New(`(`)
	defer func() {
		if recover() == nil {
			t.Error("a wrong expression was used")
		}
	}()
	wrong.Get()
}
