package cli

import (
	"os/exec"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 ranks", 1: "1 rank", 2: "2 ranks"} {
		if got := Count(n, "rank"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestQuote lets a shell read the words back.
func TestQuote(t *testing.T) {
	for _, word := range []string{"", "plain-1.0", "two words", "it's", "$HOME", "a;b", "~", "{a,b}", "*.yaml", "!x", "new\nline", "\\", "<1", "größe"} {
		out, err := exec.Command("sh", "-c", "printf '%s.' "+Quote(word)).Output()
		must.Do(t, err)
		if got := strings.TrimSuffix(string(out), "."); got != word {
			t.Errorf("got %q, want %q", got, word)
		}
	}
	if got := Quote("--size=4M"); got != "--size=4M" {
		t.Errorf("needless quotes: %s", got)
	}
}

func TestCommandLine(t *testing.T) {
	if got, want := CommandLine([]string{"a", "b c", ""}), "a 'b c' ''"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What an error quotes does not act on the terminal.
func TestErrorsArePlain(t *testing.T) {
	const evil = "\x1b]0;owned\a\r\u202e\x9b"
	var out strings.Builder
	PrintError(&out, fault.New(fault.Script, "x.lua: %s", evil).WithHint("leave %s out", evil))
	if want := `\x1b]0;owned\a\r\u202e\x9b`; out.String() != "perigee: x.lua: "+want+"\n  hint: leave "+want+" out\n" {
		t.Errorf("%q", out.String())
	}
}

// An error may quote a value of any length.
func TestLongErrorsAreShortened(t *testing.T) {
	var out strings.Builder
	PrintError(&out, fault.New(fault.Launch, "RANK=%s: want an integer", strings.Repeat("9", 1<<20)).WithHint("unset it"))
	got := out.String()
	if len(got) > 9<<10 || !strings.HasPrefix(got, "perigee: RANK=999") ||
		!strings.HasSuffix(got, "999: want an integer\n  hint: unset it\n") || !strings.Contains(got, "bytes left out") {
		t.Errorf("%d bytes: %.100s", len(got), got)
	}
}
