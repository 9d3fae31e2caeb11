package disagg

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
)

// What a newcomer does first: docs/disagg.md from its first file to its page.
func TestTutorial(t *testing.T) {
	t.Parallel()
	s := cluster(t)
	text := must.Read(t, "../../docs/disagg.md")
	block := func(kind string) string {
		t.Helper()
		m := regexp.MustCompile("(?s)```" + kind + "\n(.*?)```").FindSubmatch(text)
		if m == nil {
			t.Fatalf("docs/disagg.md has no %s", kind)
		}
		return string(m[1])
	}
	dir := harness.Files(t, map[string]string{"toy.yaml": block("yaml"), "run.sh": "set -ex\nperigee() { \"$PERIGEE\" \"$@\"; }\n" + block("sh")})
	o := harness.Start(t, harness.Command{Dir: dir, Argv: []string{"bash", "run.sh"}, Env: []string{"SLURM_CONF=" + s.Conf, "PERIGEE=" + harness.Program}}).Wait()
	if o.Code != 0 || !strings.Contains(o.Stdout, "1 configuration: 1 valid, 0 invalid (rules: strict)") || !strings.Contains(o.Stdout, "1 case, 0 failed") {
		t.Fatalf("exit code %d\n%s%s", o.Code, o.Stdout, o.Stderr)
	}
	file, err := os.Open(filepath.Join(dir, "out", "perf_script_test_results.csv"))
	must.Do(t, err)
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) != 1+3*2 || len(rows[0]) != 17 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "toy.html")); err != nil {
		t.Error(err)
	}
	// A case runs again from what it has left behind.
	again := filepath.Join(dir, "out", "slurm_logs", "disagg_perf_toy", "effective.yaml")
	o = harness.Start(t, harness.Command{Dir: dir, Argv: []string{harness.Program, "disagg", "run", again, "--gpu", "LOCAL", "--output", "again", "--poll", "1s"},
		Env: []string{"SLURM_CONF=" + s.Conf}}).Wait()
	if o.Code != 0 {
		t.Errorf("again: exit code %d\n%s%s", o.Code, o.Stdout, o.Stderr)
	}
}
