package sweep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/plaintext"
)

// Names of files and contents of reports cannot act on the terminal.
func TestHostileReports(t *testing.T) {
	const evil = "\x1b]0;owned\a\u202e"
	dir := t.TempDir()
	good, err := filepath.Glob("testdata/v02/*/*.yaml")
	if err != nil || len(good) == 0 {
		t.Fatalf("no report to copy: %v", err)
	}
	text, err := os.ReadFile(good[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{evil + ".yaml": "version: '" + `"\e[2J"` + "'\nscenario: 1\n", "benchmark_report,_" + evil + ".yaml": "version: \"0.2" + `\e]0;x\a` + "\"\nscenario: {}\n", "good" + evil + ".yaml": string(text)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"table"}, {"table", "--format", "csv"}, {"table", "--format", "json"}, {"scenarios"}} {
		out, said, _ := sweep(t, append(args, dir)...)
		for _, s := range []string{out, said} {
			if s != plaintext.Text(s) {
				t.Errorf("%v: %q", args, s)
			}
		}
		if !strings.Contains(out+said, "owned") {
			t.Errorf("%v: nothing is said of the files:\n%s%s", args, out, said)
		}
	}
}
