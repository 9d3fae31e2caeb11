// Package must says in tests, in one line each, what must be.
package must

import (
	"strings"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fault"
)

// T is what a test is to this package: a [testing.TB], or the test of a property.
type T interface {
	Errorf(string, ...any)
	Fatal(...any)
	Helper()
}

// Do ends the test at an error, as of the code that prepares what is tested.
func Do(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal ends the test with the differences between two values.
func Equal(t T, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Fatal("(-want +got):\n" + diff)
	}
}

// Fail reports an error that is missing, is of another kind, or lacks one of the texts, in its message or in its hint.
func Fail(t T, err error, kind fault.Kind, wanted ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, wanted one of kind %v with %q", kind, wanted)
		return
	}
	text := err.Error() + " | " + fault.HintOf(err)
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("got %q, wanted %q in it", text, w)
		}
	}
	if got := fault.KindOf(err); got != kind {
		t.Errorf("%q is of kind %v, wanted %v", text, got, kind)
	}
}
