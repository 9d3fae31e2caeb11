package sweep

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/plaintext"
)

// Names of files and contents of reports cannot act on the terminal.
func TestReportsAreEscaped(t *testing.T) {
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
	named := strings.ReplaceAll(string(text), "Qwen/Qwen3-32B", `"a\nforged"`)
	for name, content := range map[string]string{"benchmark_report_a\nforged: b.yaml": "", "benchmark_report_b\nforged: c.yaml": named, "benchmark_report_d.yaml": named, evil + ".yaml": "version: '" + `"\e[2J"` + "'\nscenario: 1\n", "benchmark_report,_" + evil + ".yaml": "version: \"0.2" + `\e]0;x\a` + "\"\nscenario: {}\n", "good" + evil + ".yaml": named, "benchmark_report_alone" + evil + ".yaml": regexp.MustCompile(`(?m)^ *concurrency:.*\n`).ReplaceAllString(named, "")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, filepath.Join(dir, "link"+evil)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"table"}, {"table", "--format", "csv"}, {"table", "--format", "json"}, {"scenarios"}} {
		out, said, _ := sweep(t, append(args, dir)...)
		for _, s := range []string{out, said} {
			if s != plaintext.Text(s) || !slices.Contains(args, "csv") && regexp.MustCompile(`(?m)^forged`).MatchString(s) {
				t.Errorf("%v: %q", args, s)
			}
		}
		if !strings.Contains(out+said, "owned") || !strings.Contains(said, "such as "+dir+`/link\x1b]0;owned`) ||
			!strings.Contains(said, `benchmark_report_alone\x1b]0;owned\a\u202e.yaml: the report names no concurrency`) {
			t.Errorf("%v: nothing is said of the files:\n%s%s", args, out, said)
		}
	}
}
