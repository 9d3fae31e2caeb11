package fault

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The manual lists every exit code with its kind, and no other.
func TestManualListsExitCodes(t *testing.T) {
	data, err := os.ReadFile("../../docs/launchers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(data), "\n## Exit codes\n")
	rows := 0
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "|") {
			rows++
		}
	}
	kinds := 0
	for code := 1; code < 256; code++ {
		name := Kind(code).String()
		if name == fmt.Sprint("kind ", code) {
			continue
		}
		kinds++
		if row := fmt.Sprintf("\n| %d | %s | ", code, name); !strings.Contains(table, row) {
			t.Errorf("the table of exit codes lacks %q", row)
		}
	}
	const others = 3 // the head, the line below it, and 0
	if kinds < 10 || rows != kinds+others {
		t.Errorf("%d rows for %d kinds", rows, kinds)
	}
}
