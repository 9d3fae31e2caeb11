package figures

import (
	"flag"
	"os"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/kit/plaintext"
)

var update = flag.Bool("update", false, "write the list of columns in docs/tables.md")

// docs/tables.md has the columns of patterns in their words; go test -update writes them there.
func TestColumnsInManual(t *testing.T) {
	const manual = "../../docs/tables.md"
	var list strings.Builder
	for _, c := range PatternColumns {
		lines := plaintext.Wrap(c.Name+": "+c.Help, 138)
		list.WriteString("- " + strings.Join(lines, "\n  ") + "\n")
	}
	text := string(must.Read(t, manual))
	begin, rest, ok := strings.Cut(text, "have of each pattern:\n\n")
	_, end, found := strings.Cut(rest, "\n## ")
	if !ok || !found {
		t.Fatal("the manual has no section for the columns of patterns")
	}
	want := begin + "have of each pattern:\n\n" + list.String() + "\n## " + end
	if *update {
		must.Do(t, os.WriteFile(manual, []byte(want), 0o644))
	} else if text != want {
		t.Errorf("docs/tables.md differs from the columns: go test ./internal/figures -update writes them\n%s", list.String())
	}
}
