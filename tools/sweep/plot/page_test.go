package plot

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
	"perigee/internal/kit/page/pagetest"
	"perigee/internal/serving/runs"
)

const testdata = "../testdata/"

func bounds(t testing.TB, texts ...string) []runs.SLO {
	t.Helper()
	list, err := runs.ParseSLOs(texts)
	must.Do(t, err)
	return list
}

// imported reads reports of the tests' data.
func imported(t testing.TB, folders ...string) []*runs.Record {
	t.Helper()
	for i := range folders {
		folders[i] = testdata + folders[i]
	}
	in, err := runs.Load(folders, runs.DefaultLoadOptions())
	must.Do(t, err)
	return in.Runs
}

// write makes a page and returns its path.
func write(t testing.TB, all []*runs.Record, o PageOptions) string {
	t.Helper()
	if o.X == nil {
		o.X, o.Y = find(t, "Thpt_per_User"), find(t, "Thpt_per_GPU")
	}
	o.Generator = "perigee test"
	o.Title = "Benchmark sweep"
	var out bytes.Buffer
	must.Do(t, WritePage(&out, all, runs.Scenarios(all), o))
	path := filepath.Join(t.TempDir(), "sweep.html")
	must.Do(t, os.WriteFile(path, out.Bytes(), 0o644))
	return path
}

// dot is a point as the chart has drawn it.
type dot struct {
	Series string
	X, Y   float64
	Front  bool
	Meets  bool
}

// drawn reads the dots back out of the page.
func drawn(tab *pagetest.Tab) []dot {
	list := pagetest.Eval[[]dot](tab, "window.sweep.chart.placed().map((p) => ({Series: p.series.title, X: p.x, Y: p.y, Front: p.front, Meets: p.meets}))")
	sortDots(list)
	return list
}

func sortDots(list []dot) {
	slices.SortFunc(list, func(a, b dot) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

// computed is what Go works out for the same choice.
func computed(t testing.TB, sc runs.Scenario, o Options) []dot {
	t.Helper()
	d, err := Select(sc, o)
	must.Do(t, err)
	list := []dot{}
	for _, s := range d.Series {
		for _, p := range s.Points {
			list = append(list, dot{s.Title, p.X, p.Y, p.Front, p.Meets})
		}
	}
	sortDots(list)
	return list
}

// choose sets a select element as a user does.
func choose(tab *pagetest.Tab, selector, value string) {
	pagetest.Eval[any](tab, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event("change")); if (e.value !== %[2]q) throw new Error("no option " + %[2]q); })()`, selector, value))
}

// enter types a number into the i-th SLO.
func enter(tab *pagetest.Tab, i int, value string) {
	pagetest.Eval[any](tab, fmt.Sprintf(`(() => { const e = document.querySelectorAll("#slos input")[%d]; e.value = %q; e.dispatchEvent(new Event("input")); })()`, i, value))
}

// One browser has the pages of all tests: it takes seconds to start.
func TestPages(t *testing.T) {
	browser := pagetest.Start(t)
	for name, test := range map[string]func(*testing.T, *pagetest.Browser){
		"choices": choices, "crosses": crosses, "hover and table": hoverAndTable, "hostile words": hostileWords,
		"huge numbers": hugeNumbers, "nothing to show": nothingToShow, "empty axis": emptyAxis,
	} {
		t.Run(name, func(t *testing.T) { test(t, browser) })
	}
}

// The page shows what plot draws, in every view, and in a narrow one for every choice of scenario, axes, configurations
// and SLOs.
func choices(t *testing.T, browser *pagetest.Browser) {
	all := imported(t, "sweepA", "bad", "v02")
	scenarios := runs.Scenarios(all)
	path := write(t, all, PageOptions{Scenario: 2})
	for name, view := range pagetest.Views {
		t.Run(name, func(t *testing.T) {
			tab := browser.Open(t, path, view)
			tab.Wait("window.sweep && window.sweep.ready")
			o := Options{X: find(t, "Thpt_per_User"), Y: find(t, "Thpt_per_GPU"), ShowPD: true, ShowSA: true, SegByDir: true, Front: true}
			sc := scenarios[2]
			same := func(step string) {
				t.Helper()
				if diff := cmp.Diff(computed(t, sc, o), drawn(tab)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", step, diff)
				}
			}
			same("at first")
			tab.FitsWidth()
			tab.Screenshot("sweep-" + name)
			if view != pagetest.Narrow {
				return
			}
			tab.Click("#seg-by-dir")
			o.SegByDir = false
			same("directories joined")
			tab.Click("#show-sa")
			o.ShowSA = false
			same("without standalone")
			tab.Click("#show-sa")
			tab.Click("#show-pd")
			o.ShowSA, o.ShowPD = true, false
			same("without prefill and decode apart")
			tab.Click("#show-pd")
			o.ShowPD = true
			choose(tab, "#x", "P90_TTFT_ms")
			o.X = find(t, "P90_TTFT_ms")
			same("another x")
			tab.Click("#log-x")
			o.LogX = true
			same("logarithmic")
			choose(tab, "#y", "Concurrency")
			o.Y = find(t, "Concurrency")
			same("an axis without direction")
			if got := tab.Text("#summary"); !strings.Contains(got, "no Pareto front") {
				t.Errorf("the summary says %q", got)
			}
			choose(tab, "#y", "Thpt_per_GPU")
			o.Y = find(t, "Thpt_per_GPU")
			tab.Click("#add-slo")
			same("an SLO without a limit")
			enter(tab, 0, "500")
			o.SLOs = bounds(t, "P90_TTFT_ms<=500")
			same("an SLO")
			tab.Click("#add-slo")
			choose(tab, "#slos .slo:nth-of-type(2) select", "Thpt_per_User")
			choose(tab, "#slos .slo:nth-of-type(2) select:nth-of-type(2)", ">=")
			enter(tab, 1, "70")
			o.SLOs = bounds(t, "P90_TTFT_ms<=500", "Thpt_per_User>=70")
			same("two SLOs")
			tab.Screenshot("sweep-slo-" + name)
			tab.FitsWidth()
			tab.Click("#slos .slo button")
			o.SLOs = bounds(t, "Thpt_per_User>=70")
			same("the second SLO alone")
			tab.Click("#configurations button")
			if got, want := len(drawn(tab)), len(computed(t, sc, o))-2; got != want {
				t.Errorf("without 1P TP2, 3D TP2 there are %d dots, want %d", got, want)
			}
			tab.Click("#no-configurations")
			if got := drawn(tab); len(got) != 0 {
				t.Errorf("%d dots without configurations", len(got))
			}
			tab.Click("#all-configurations")
			same("all configurations again")
			tab.Click("#log-x")
			o.LogX = false
			choose(tab, "#scenario", "0")
			sc = scenarios[0]
			choose(tab, "#x", "Mean_TTFT_ms")
			o.X = find(t, "Mean_TTFT_ms")
			same("another scenario")
			if got := tab.Text("#scenario option:checked"); !strings.HasPrefix(got, "Qwen/Qwen3-0.6B on NVIDIA-H100-80GB-HBM3, ISL 2260, OSL 998") {
				t.Errorf("the scenario is %q", got)
			}
		})
	}
}

// Runs that are kept off the front are crosses, and their rows say why.
func crosses(t *testing.T, browser *pagetest.Browser) {
	all := imported(t, "sweepA")
	runs.Doubts{}.Mark(all)
	all[0].OffFront = append(all[0].OffFront, "</script>")
	path := write(t, all, PageOptions{})
	tab := browser.Open(t, path, pagetest.Light)
	tab.Wait("window.sweep && window.sweep.ready")
	must.Equal(t, computed(t, runs.Scenarios(all)[0], options(t)), drawn(tab))
	if got := tab.Text("#summary"); got != "13 runs · 1 on the Pareto front · 12 kept off it (crosses)" {
		t.Errorf("the summary is %q", got)
	}
	if got := pagetest.Eval[map[string]string](tab, row+"(0)")["Off Front"]; !strings.Contains(got, "the report says") {
		t.Errorf("the first row says %q", got)
	}
	tab.FitsWidth()
}

// row reads a row of the table by the words of its headers.
const row = `((i) => Object.fromEntries([...document.querySelectorAll("#table thead th")].map((h, k) => [h.textContent, document.querySelector("#table tbody").rows[i].cells[k].textContent])))`

func hoverAndTable(t *testing.T, browser *pagetest.Browser) {
	path := write(t, imported(t, "sweepA"), PageOptions{SLOs: bounds(t, "P90_TTFT_ms<=500")})
	tab := browser.Open(t, path, pagetest.Light)
	tab.Wait("window.sweep && window.sweep.ready")
	if got := tab.Text("#summary"); got != "13 runs · 9 within the SLOs · 3 on the Pareto front" {
		t.Errorf("the summary is %q", got)
	}
	if n := pagetest.Eval[int](tab, "window.sweep.chart.labels()"); n != 9 {
		t.Errorf("%d labels, want one at each dot within the SLOs", n)
	}
	at := pagetest.Eval[[2]float64](tab, `(() => { const p = window.sweep.chart.placed().find((p) => p.y === 312.5), c = document.querySelector("#chart canvas"); return [p.px / c.clientWidth, p.py / c.clientHeight]; })()`)
	pagetest.Eval[any](tab, `document.querySelector("#chart canvas").scrollIntoView({block: "center"})`)
	pagetest.Eval[any](tab, "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))") // the scrolling is over
	tab.Hover("#chart canvas", at[0], at[1])
	tab.Wait("perigee.tip.text() !== ''")
	tip := strings.Join(strings.Fields(pagetest.Eval[string](tab, "perigee.tip.text()")), " ")
	for _, want := range []string{"4P TP1, 1D TP4", "Concurrency 32", "Thpt per GPU 312.5 tok/s/GPU", "P90 TTFT ms 252 ms", "Num GPUs 8", "Pareto front yes", "pd_4P_TP1_1D_TP4/benchmark_report,_c32.yaml"} {
		if !strings.Contains(tip, want) {
			t.Errorf("the box says %q, not %q", tip, want)
		}
	}
	tab.Screenshot("sweep-hover")
	tab.Click("#chart canvas") // its middle is far from all dots or not; either way nothing breaks
	tab.Click(`[data-sort="Thpt_per_GPU"]`)
	first := pagetest.Eval[map[string]string](tab, row+"(0)")
	for name, want := range map[string]string{"Configuration": "1P TP2, 3D TP2", "Concurrency": "128", "Num GPUs": "8", "Thpt per GPU": "700", "Thpt per User": "43.75", "SLOs": "missed", "Front": "", "P90 TTFT ms": "980"} {
		if first[name] != want {
			t.Errorf("%s of the first row is %q, want %q", name, first[name], want)
		}
	}
	tab.Click(`[data-sort="Thpt_per_GPU"]`)
	if got := pagetest.Eval[map[string]string](tab, row+"(0)")["Thpt per GPU"]; got != "10" {
		t.Errorf("sorted the other way the first row has %s tok/s/GPU", got)
	}
	tab.Click("#columns summary")
	tab.Click(`[data-column="P99_E2EL_ms"]`)
	if got := pagetest.Eval[map[string]string](tab, row+"(0)")["P99 E2EL ms"]; got != "2496" {
		t.Errorf("P99 E2EL is %q", got)
	}
	pagetest.Eval[any](tab, `document.querySelector("#chart canvas").focus()`)
	tab.Press(strings.Repeat(kb.ArrowRight, 13) + kb.Enter)
	if got := tab.Text(`#table tr[aria-current="true"]`); !strings.Contains(got, "4P TP1, 1D TP4") || !strings.Contains(got, "95") {
		t.Errorf("the row of the last dot is %q", got)
	}
}

// Words of reports stay words, and nothing of this machine's folders is told.
func hostileWords(t *testing.T, browser *pagetest.Browser) {
	const hostile = `</script><img src=x onerror="window.bad=1">`
	all := imported(t, "sweepA")
	for _, r := range all {
		r.Model = hostile
		r.Directory = "/secret/place/" + hostile
	}
	transfer := runs.New("/secret/place/result.json")
	transfer.Transfer, transfer.Label, transfer.TransferMS, transfer.TransferBytes = true, hostile, 1.23456, 2.5e9
	path := write(t, append(all, transfer), PageOptions{Skipped: []string{hostile}, Notes: []string{hostile}, Best: hostile})
	tab := browser.Open(t, path, pagetest.Light)
	tab.Wait("window.sweep && window.sweep.ready")
	if pagetest.Eval[bool](tab, "'bad' in window") {
		t.Error("words became a script")
	}
	for place, what := range map[string]string{"#remarks li": "remark", ".best": "sentence"} {
		if got := tab.Text(place); got != hostile {
			t.Errorf("the %s is %q", what, got)
		}
	}
	if got := strings.Join(strings.Fields(tab.Text("#transfers tbody tr")), " "); !strings.Contains(got, "1.235 2.5") {
		t.Errorf("the transfer is %q", got)
	}
	if got := pagetest.Eval[string](tab, "JSON.stringify(window.sweep.model.data) + document.documentElement.outerHTML"); strings.Contains(got, "/secret") {
		t.Error("the page reveals where files lie")
	}
}

// Scenarios and configurations by folder are named without the way to it.
func TestTitlesWithoutPaths(t *testing.T) {
	all := imported(t, "sweepA", "v02")
	directory := find(t, "Directory")
	d := collect(all, runs.Scenarios(all, directory), PageOptions{X: find(t, "Thpt_per_User"), Y: directory, SplitBy: []*runs.Column{directory}})
	var titles []string
	for _, sc := range d.Scenarios {
		titles = append(titles, sc.Title)
	}
	must.Equal(t, []string{"Directory sweepA", "Directory v02"}, titles)
	if len(d.Configurations) != 7 || !slices.Contains(d.Configurations, "1P TP2, 3D TP2, Directory sweepA") {
		t.Errorf("%q", d.Configurations)
	}
}

// Numbers at the end of what there is, and many of them, do not stop the page: 150,000 dots, more than a call in
// JavaScript takes arguments. They are made in the page, of 1000 runs: Go would need a minute for as many.
func hugeNumbers(t *testing.T, browser *pagetest.Browser) {
	good := imported(t, "sweepA")[0]
	var all []*runs.Record
	for i := range 1000 {
		r := *good
		r.OutputRate = float64(1 + i)
		all = append(all, &r)
	}
	all[0].OutputRate, all[1].OutputRate = 1.7e308, 5e-324
	tab := browser.Open(t, write(t, all, PageOptions{}), pagetest.Light)
	tab.Wait("window.sweep && window.sweep.ready")
	const times = 150
	pagetest.Eval[any](tab, fmt.Sprintf("(() => { const s = window.sweep.model.scenario(); s.runs = Array(%d).fill(s.runs).flat(); })()", times))
	for _, log := range []bool{false, true} {
		want := times * (len(all) - 1)
		if log {
			want -= times
			tab.Click("#log-y") // draws all of the page, with labels
			tab.Click("#show-labels")
			tab.Click("#log-x")
		}
		got := pagetest.Eval[int](tab, "(() => { window.sweep.chart.redraw(); return window.sweep.chart.placed().length; })()")
		if got != want {
			t.Errorf("log %v: %d dots, want %d", log, got, want)
		}
	}
}

// A page without a single readable report still opens.
func nothingToShow(t *testing.T, browser *pagetest.Browser) {
	path := write(t, nil, PageOptions{Skipped: []string{"a.yaml:1: no"}})
	tab := browser.Open(t, path, pagetest.Narrow)
	tab.Wait("window.sweep && window.sweep.ready")
	if got := tab.Text("#summary"); got != "No benchmark report could be read." {
		t.Errorf("the summary is %q", got)
	}
	tab.FitsWidth()
}

// What the page is asked to begin with is what it begins with, even if no run has a value for it.
func emptyAxis(t *testing.T, browser *pagetest.Browser) {
	all := imported(t, "sweepA")
	for _, r := range all {
		r.Concurrency = math.NaN()
		delete(r.Latency, "TTFT")
	}
	path := write(t, all, PageOptions{SLOs: bounds(t, "P99_TTFT_ms<=500")})
	tab := browser.Open(t, path, pagetest.Light)
	tab.Wait("window.sweep && window.sweep.ready")
	for selector, want := range map[string]string{"#x": "Thpt_per_User", "#y": "Thpt_per_GPU", "#slos select": "P99_TTFT_ms"} {
		if got := pagetest.Eval[string](tab, fmt.Sprintf("document.querySelector(%q).value", selector)); got != want {
			t.Errorf("%s is %q, want %q", selector, got, want)
		}
	}
	if dots := drawn(tab); len(dots) > 0 {
		t.Errorf("drawn without an x: %v", dots)
	}
	choose(tab, "#x", "Num_GPUs")
	if dots := drawn(tab); len(dots) != len(all) {
		t.Errorf("%d dots of %d runs", len(dots), len(all))
	}
}
