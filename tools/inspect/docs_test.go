package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// Every perigee result in docs/report.md runs, but --schema, which ends the program.
func TestExamplesRun(t *testing.T) {
	text := must.Read(t, "../../docs/report.md")
	dir := t.TempDir()
	t.Chdir(dir)
	must.Do(t, document(t).Write("result.json.zst"))
	ran := 0
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
		words := strings.Fields(strings.ReplaceAll(line, "'", ""))
		if len(words) < 4 || words[0] != "perigee" || words[1] != "result" {
			continue
		}
		ran++
		out, err := call(t, words[2:]...)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if words[2] != "convert" || words[4] == "-" {
			if out == "" {
				t.Errorf("%s prints nothing", line)
			}
		} else if info, err := os.Stat(filepath.Join(dir, words[4])); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", line, err)
		}
	}
	if ran < 11 {
		t.Errorf("only %d examples found", ran)
	}
	// The columns are those of the tool.
	for _, kind := range []string{"iteration", "pair", "pattern", "block", "storage", "request", "metric"} {
		for _, name := range columnsOf(kind) {
			short := name
			if before, ok := strings.CutSuffix(name, "latency_ms"); ok && name != "mean_latency_ms" {
				short = before
			}
			if !strings.Contains(string(text), "`"+short+"`") {
				t.Errorf("docs/report.md does not name the column %s", name)
			}
		}
	}
}
