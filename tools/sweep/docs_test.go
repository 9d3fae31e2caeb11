package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/serving/runs"
)

const manual = "../../docs/sweep.md"

// TestDocs runs every command of the manual and compares what it says.
func TestDocs(t *testing.T) {
	file, err := filepath.Abs(manual)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	var got strings.Builder
	commands := 0
	for i, part := range strings.Split(string(text), "```") {
		block, ok := strings.CutPrefix(part, "console\n")
		if i%2 == 0 || !ok {
			got.WriteString(part)
		} else {
			got.WriteString("console\n")
			for line := range strings.SplitSeq(block, "\n") {
				if command, ok := strings.CutPrefix(line, "$ perigee sweep "); ok {
					got.WriteString(line + "\n" + transcript(t, command))
					commands++
				}
			}
		}
		got.WriteString("```")
	}
	if commands < 5 {
		t.Errorf("only %d commands", commands)
	}
	fresh := strings.TrimSuffix(got.String(), "```")
	if *update {
		if err := os.WriteFile(file, []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
		text = []byte(fresh)
	}
	if diff := cmp.Diff(string(text), fresh); diff != "" {
		t.Errorf("(-manual +output):\n%s", diff)
	}
}

// transcript is what a command says, on both streams, as on a terminal.
func transcript(t *testing.T, command string) string {
	t.Helper()
	stdout, stderr, err := sweep(t, words(command)...)
	if err != nil {
		stderr += fmt.Sprintln("perigee:", err)
	}
	return stdout + stderr
}

// words splits a command at spaces outside of single quotes.
func words(command string) (list []string) {
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			list = append(list, part)
			continue
		}
		list = append(list, strings.Fields(part)...)
	}
	return list
}

// The manual names every column.
func TestManualNamesColumns(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range runs.Columns() {
		statistic, latency, _ := strings.Cut(c.Name, "_")
		both := strings.Contains(string(text), " "+latency) && regexp.MustCompile(regexp.QuoteMeta(statistic)+`_[ ,]`).Match(text)
		if !both && !regexp.MustCompile(`\b`+regexp.QuoteMeta(c.Name)+`\b`).Match(text) {
			t.Errorf("%s is not in the manual", c.Name)
		}
	}
}
