package file

import (
	"errors"
	"os"
	"testing"

	"perigee/internal/kit/must"
)

// Two paths may lead to one place by links, and not where ".." after a link seems to lead.
func TestSamePlace(t *testing.T) {
	t.Chdir(t.TempDir())
	err := errors.Join(os.MkdirAll("a", 0o755), os.MkdirAll("real/sub", 0o755), os.Symlink("../real/sub", "a/l"),
		os.WriteFile("real/f", nil, 0o644), os.WriteFile("real/g", nil, 0o644), os.Symlink("f", "real/link"))
	must.Do(t, err)
	for _, c := range []struct {
		a, b        string
		same, below bool // below: a in b
	}{
		{"real/f", "real//./f", true, true},
		{"real/f", "real/g", false, false},
		{"real/f", "a/l/../f", true, true},
		{"real/f", "real/link", true, true},
		{"a/f", "a/l/../f", false, false},
		{"real/new", "a/l/../new", true, true},
		{"real/new/deep", "a/l/../new/deep", true, true},
		{"none/../real/f", "real/f", true, true},
		{"real/sub/new", "a/l", false, true},
		{"real/sub/new", "a/l/../sub", false, true},
		{"real/new", "a/l", false, false},
		{"real", "a/l", false, false},
		{"real/subway", "real/sub", false, false},
	} {
		if got := SamePlace(c.a, c.b); got != c.same {
			t.Errorf("%s and %s: the same is %v", c.a, c.b, got)
		}
		if got := Below(c.a, c.b); got != c.below {
			t.Errorf("%s below %s is %v", c.a, c.b, got)
		}
	}
}
