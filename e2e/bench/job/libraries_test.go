package job

import (
	"testing"

	"perigee/internal/kit/must"
)

// Each installed library gives a time.
func TestLibrariesGiveTimes(t *testing.T) {
	list, err := Libraries(t.Context(), t.TempDir())
	must.Do(t, err)
	for _, l := range list {
		if ns, err := l.Median(t.Context(), 2, "1000 0 70000 5"); err != nil || ns <= 0 || ns > 1e10 {
			t.Errorf("%s: %v ns, %v", l.Name, ns, err)
		}
	}
}
