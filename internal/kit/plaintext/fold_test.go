package plaintext

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// wide is a terminal of 20 columns.
type wide struct{ strings.Builder }

func (*wide) Width() int { return 20 }

// Lines are broken at spaces, comments go on as comments, and what fits stays as it is, through a writer in between.
func TestFolded(t *testing.T) {
	var out wide
	text := "# a comment that is too long for it\nshort   line\nname   words that go on below it\na-word-that-cannot-be-broken\n"
	if _, err := Folded(Writer(&out)).Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	want := "# a comment that\n#   is too long for\n#   it\nshort   line\nname   words that\n  go on below it\na-word-that-cannot-be-broken\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
	if got := string(Fold([]byte(text), 20, "# ")); strings.Count(got, "\n") != 6 {
		t.Errorf("comments alone:\n%s", got)
	}
}

// No word is lost or too many, and only lines of one word are too long.
func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, width := rapid.StringMatching(`( ?[a-zé]{1,8} {0,2}){0,12}`).Draw(t, "text"), rapid.IntRange(1, 30).Draw(t, "width")
		lines := Wrap(text, width)
		if got, want := strings.Fields(strings.Join(lines, " ")), strings.Fields(text); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q became %q", text, lines)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > width && len(strings.Fields(line)) > 1 {
				t.Errorf("%q is longer than %d", line, width)
			}
		}
	})
}
