package cli

import (
	"os/exec"
	"strings"
	"testing"
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
		if err != nil {
			t.Fatal(err)
		}
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
