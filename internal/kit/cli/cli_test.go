package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		`expected "<shell>"`:                                                               "the argument <shell> is missing",
		`--ranks: wanted a whole number, got "4x"`:                                         `--ranks: wanted a whole number, got "4x"`,
		`[<ranks> ...]: wanted a whole number, got "four"`:                                 `<ranks>: wanted a whole number, got "four"`,
		`--scale: expected a float but got "1X" (string)`:                                  `--scale: wanted a number, got "1X"`,
		`--ranks: expected int value but got "-4" (short flag); perhaps try --ranks="-4"?`: "--ranks: wanted a value, got -4; one that begins with a minus is written --ranks=-4",
		"unknown flag --x":                                                                 "unknown flag --x",
	} {
		if got := Plain(errors.New(text)).Error(); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}

func TestNotOver(t *testing.T) {
	dir := t.TempDir()
	in, other := filepath.Join(dir, "in"), filepath.Join(dir, "other")
	for _, name := range []string{in, other} {
		must.Do(t, os.WriteFile(name, nil, 0o600))
	}
	link := filepath.Join(dir, "link")
	must.Do(t, os.Symlink(in, link))
	for _, output := range []string{in, link, filepath.Join(dir, ".", "in")} {
		if err := NotOver(output, other, in); fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", output, err)
		}
	}
	for _, output := range []string{"", "-", other, filepath.Join(dir, "new")} {
		if err := NotOver(output, in, filepath.Join(dir, "gone")); err != nil {
			t.Errorf("%s: %v", output, err)
		}
	}
}

// A stranger's line feeds begin no line that looks like perigee's.
func TestErrorsOfSeveralLines(t *testing.T) {
	at := fault.At(1, "h", "p: ok\nperigee: rank 7 on h", "e\nperigee: all is well\n  hint: stop\n")
	var out strings.Builder
	PrintError(&out, fault.New(fault.Script, "%s", at).WithHint("one\nperigee: two"))
	want := `perigee: rank 1 on h, phase p: ok\nperigee: rank 7 on h: e
  | perigee: all is well
  |   hint: stop
  hint: one
  | perigee: two
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
