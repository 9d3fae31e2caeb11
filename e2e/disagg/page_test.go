package disagg

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	"perigee/internal/kit/page/pagetest"
)

// From cases to page and comparison.
func TestReport(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "good", 0, "")
	s.add("b", "crash", 0, "")
	s.run(12, "--repeat", "4", "--batch-size", "0")
	page := filepath.Join(s.output, "page.html")
	tool := func(code int, args ...string) string {
		t.Helper()
		o := harness.Run(t, s.output, append([]string{"disagg"}, args...)...)
		if o.Code != code {
			t.Fatalf("%v: exit code %d\n%s%s", args, o.Code, o.Stdout, o.Stderr)
		}
		return o.Stdout
	}
	tool(0, "report", s.output, "-o", page)
	if data, err := os.ReadFile(page); err != nil || !strings.Contains(string(data), "CLIENT on node") || !strings.Contains(string(data), "disagg_perf_a #4") {
		t.Errorf("%v, %d bytes", err, len(data))
	}
	tab := pagetest.Start(t).Open(t, page, pagetest.Light)
	tab.Wait("window.disagg?.ready")
	if n := pagetest.Eval[int](tab, `document.querySelectorAll("#trade-chart canvas").length`); n != 1 {
		t.Errorf("%d charts of the trade-off, want 1", n)
	}
	tab.Screenshot("disagg-cases")
	if out := tool(0, "report", s.output, "--format", "text"); strings.Count(out, "SERVER_MEDIAN_TTFT") != 2 || !strings.Contains(out, "96.50") {
		t.Error(out)
	}
	base := filepath.Join(t.TempDir(), "base.csv") // the same figures of another year
	table, err := os.ReadFile(filepath.Join(s.output, "perf_script_test_results.csv"))
	year := fmt.Sprint(",", time.Now().Year(), "-")
	if err == nil {
		err = os.WriteFile(base, []byte(strings.ReplaceAll(string(table), year, ",2001-")), 0o600)
	}
	must.Do(t, err)
	tool(3, "compare", s.output, s.output)
	if out := tool(0, "compare", base, s.output); strings.Count(out, "not separated") != 4 {
		t.Error(out)
	}
	for _, args := range [][]string{{"report", s.output}, {"compare", base, s.output}} {
		if out := tool(0, append(args, "--format", "json")...); !json.Valid([]byte(out)) {
			t.Errorf("%v: no JSON document: %s", args, out)
		}
	}
	// The result of a case is one of perigee.
	result := filepath.Join(s.output, "slurm_logs", "disagg_perf_a", "result.json")
	if o := harness.Run(t, s.output, "result", "show", result); o.Code != 0 {
		t.Errorf("exit code %d\n%s%s", o.Code, o.Stdout, o.Stderr)
	}
}

// The fabric is measured in the same allocation, by perigee itself.
func TestProbe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const name = "50%n" // not what sbatch's patterns make of it
	s.add(name, "good", 0, "  nodes: 2\n")
	p := s.start("run", "--probe")
	c := s.cases(p, 0)[name]
	if c.Probe.Error != "" || len(c.Probe.Pairs) != 2 || c.Probe.Of != 2 || c.Probe.Median < 1e6 || c.Probe.Engine == "" || c.Probe.Pairs[0].From == c.Probe.Pairs[0].To {
		log, _ := os.ReadFile(filepath.Join(c.Dir, "0_probe.log"))
		t.Errorf("%+v\n%s", c.Probe, log)
	}
	t.Logf("%+v", c.Probe)
}
