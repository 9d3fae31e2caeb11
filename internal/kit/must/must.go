// Package must says in tests, in one line each, what must be.
package must

import (
	"errors"
	"os"
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

// Do ends the test at errors, as of the code that prepares what is tested, or of all ranks.
func Do(t T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Read returns the content of a file.
func Read(t T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	Do(t, err)
	return data
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
