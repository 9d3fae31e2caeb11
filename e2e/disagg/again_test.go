package disagg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// A level that fails does not end the others where the case says so; the case fails, and runs again by --last-failed.
func TestKeepGoing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("good", "good", 0.1, "")
	levels := must.Read(t, "../../tools/disagg/testdata/levels.yaml")
	mended := filepath.Join(t.TempDir(), "mended")
	boom := `{ printf 'Traceback (most recent call last):\n  File "b.py", line 1\nValueError: no tokens\n'; exit 3; }`
	text := strings.Replace(string(levels), "test $CONCURRENCY = 2 && { echo boom; exit 1; }", "test -e "+mended+" || test $CONCURRENCY != 2 || "+boom, 1)
	file := filepath.Join(s.root, "disagg", "perf", "levels.yaml")
	must.Do(t, os.WriteFile(file, []byte(strings.Replace(text, "job:\n", "job:\n  keep_going: true\n", 1)), 0o600))
	cases := s.run(12)
	c := cases["levels"]
	if len(c.Levels) != 3 || !c.Levels[0].Complete || c.Levels[1].Complete || !c.Levels[2].Complete || cases["good"].State != "passed" ||
		!strings.Contains(c.Reasons[0], "has ended with code 3: ValueError: no tokens") || !strings.Contains(strings.Join(c.Reasons, "\n"), "level 2 has no end line") {
		t.Errorf("%+v", cases)
	}
	must.Do(t, os.WriteFile(mended, nil, 0o600))
	if cases := s.run(0, "--last-failed"); len(cases) != 1 || cases["levels"].State != "passed" {
		t.Errorf("%+v", cases)
	}
	if cases := s.run(0, "--last-failed"); len(cases) != 0 {
		t.Errorf("%+v", cases)
	}
}
