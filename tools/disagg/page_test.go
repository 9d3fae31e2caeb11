package disagg

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/must"
	"perigee/internal/kit/page/pagetest"
	"perigee/tools/disagg/report"
)

// The page opens in every view: nothing asked of the network, no complaint, nothing wider than the window, however long
// the names are that configurations choose.
func TestPage(t *testing.T) {
	csv, page := filepath.Join(t.TempDir(), "perf_script_test_results.csv"), filepath.Join(t.TempDir(), "page.html")
	name := "test_disagg_simple[disagg_perf_deepseek-r1-fp4_1k1k_con_ctx1_gen1]"
	var rows []report.Row
	for run := range 8 {
		at := time.Unix(1_700_000_000+int64(run)*3600, 0)
		for _, test := range []string{name, strings.Repeat("x", 3000)} {
			for level := 1; level <= 64; level *= 4 {
				base := float64(level) * (1 + 0.01*float64(run%3))
				for metric, v := range map[string]float64{"SERVER_MEDIAN_TTFT": 90 + base, "SERVER_MEDIAN_TPOT": 9 + base/10, "SERVER_OUTPUT_TOKEN_THROUGHPUT": 100 * base} {
					rows = append(rows, report.Row{Test: test, Concurrency: level, Metric: metric, Value: v, Start: at, End: at.Add(time.Minute)})
				}
			}
		}
	}
	must.Do(t, report.AppendCSV(csv, rows))
	if out, said, code := perigee(t, nil, "report", csv, "-o", page); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, said)
	}
	browser := pagetest.Start(t)
	for look, view := range pagetest.Views {
		t.Run(look, func(t *testing.T) {
			tab := browser.Open(t, page, view)
			tab.Wait("window.disagg?.ready")
			tab.FitsWidth()
			if n := pagetest.Eval[int](tab, `document.querySelectorAll("#levels tbody tr").length`); n != 24 {
				t.Errorf("%d rows of levels, want 24", n)
			}
			tab.Screenshot("disagg-" + look)
		})
	}
}
