package matgen

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
)

// example is a command in the documentation and what stands below it.
var example = regexp.MustCompile("(?m)^```console\n\\$ perigee matgen generate (.*)\n((?s:.*?))^```$")

// TestDocumentation runs the example, reads the trace, and looks for every option.
func TestDocumentation(t *testing.T) {
	text := readFile(t, "../../docs/matgen.md")
	t.Chdir(t.TempDir())
	m := example.FindStringSubmatch(text)
	if m == nil {
		t.Fatal("there is no example")
	}
	got, err := run(t, strings.Fields(m[1])...)
	must.Do(t, err)
	if diff := cmp.Diff(m[2], got); diff != "" {
		t.Errorf("%s (-documented +got):\n%s", m[1], diff)
	}
	_, trace, _ := strings.Cut(text, "```json\n")
	trace, _, _ = strings.Cut(trace, "```")
	must.Do(t, os.WriteFile("t.jsonl", []byte(trace), 0o644))
	draws, _, err := LoadTrace("t.jsonl", "")
	if err != nil || len(draws) != 1 || draws[0].Tokens != 6955 || draws[0].OutputTokens != 52 {
		t.Errorf("%+v, %v", draws, err)
	}
}
