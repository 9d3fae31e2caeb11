package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"

	"perigee/internal/figures"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// withExperts is a result with measurements of both planes.
func withExperts(t *testing.T) *result.Document {
	t.Helper()
	d := smallDocument()
	const text = `{"ep": [{"mode": "e2e", "entry": "steady", "tokens": 128, "hidden": 7168, "topk": 8, "experts_per_rank": 36, "payload": "fp8",
		"routing": "uniform", "placement": "contiguous", "bytes_per_rank": {"assignment": 22265856, "rank": 1, "remote": 1, "wire": 1},
		"gb_per_s": {"assignment": 42.88, "rank": 30, "remote": null, "wire": 40}, "latency_us": {"avg": 519.3, "min": 1, "max": 2},
		"slowest_us": {"p50": 1, "p90": 2, "p99": 3}, "shares": {"quantise": 0.25, "own": 0, "pack": 0.5, "reduce": 0},
		"waits_us": {"dispatch": [[0, 2], [1, 0]]}, "verdict": "combine: all wait for rank 3 (<b>): 9.0 us, 3.5 times as long as the others on average"}],
		"ep_control": [{"test": "cycle", "ranks": 8, "experts_per_rank": 8,
		"phases": [{"phase": "connect", "avg_ms": 245.67, "min_ms": 242.33, "max_ms": 248.91, "slowest_ms": 248, "slow_rank": 3, "slow_host": "node<7>"}]}]}`
	must.Do(t, json.Unmarshal([]byte(text), &d.Values))
	return d
}

func TestExpertsInThePage(t *testing.T) {
	f, err := figures.Of(withExperts(t))
	must.Do(t, err)
	var out bytes.Buffer
	must.Do(t, writeHTML(&out, []input{{label: "r.json", figures: f}}))
	for _, want := range []string{
		"<h2>Expert parallelism</h2>", ">42.88</td>", "quantise: 25.0 %", "transfers and waits: 25.0 %", "rank 0 waited 2.0 us for rank 1",
		"(&lt;b&gt;): 9.0 us, 3.5 times", "<h2>Control plane</h2>", ">245.670</td>", "3 on node&lt;7&gt;", `href="#r0-experts"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(out.String(), "Left out of this page") {
		t.Error("the page says that it leaves something out")
	}
}

// Values may come from anybody: a page shows so much of them that a small file cannot fill the memory, and says what it
// leaves out.
func TestManyExpertsInAPage(t *testing.T) {
	row := make([]any, mostHeatRanks)
	for i := range row {
		row[i] = 1.0
	}
	rows := make([]any, mostHeatRanks)
	for i := range rows {
		rows[i] = row
	}
	planes := make([]any, figures.MostPlanes+100)
	for i := range planes {
		plane := map[string]any{}
		if i < 20 {
			plane["waits_us"] = map[string]any{"dispatch": rows, "combine": rows}
		}
		planes[i] = plane
	}
	phases := make([]any, mostControls)
	for i := range phases {
		phases[i] = map[string]any{"phase": "init"}
	}
	round := map[string]any{"phases": phases}
	d := smallDocument()
	d.Values = map[string]any{"ep": planes, "ep_control": []any{round, round}}
	page := htmlOf(t, d)
	for what, most := range map[string]int{`<rect class="heat"`: mostHeats, `<details class="experts">`: figures.MostPlanes, "<td>init</td>": mostControls} {
		if got := strings.Count(page, what); got > most || got < most*9/10 {
			t.Errorf("%s is there %d times, want up to %d", what, got, most)
		}
	}
	const want = "Left out of this page: the last 100 of 600 measurements of the data plane, the wait matrices of 12 measurements, " +
		"the last 2000 of 4000 rows of the control plane."
	if !strings.Contains(page, want) {
		t.Errorf("the page does not say what it leaves out; want %s", want)
	}
}

// Values of other scenarios that are called the same do no harm.
func TestOtherValues(t *testing.T) {
	for _, v := range []any{nil, "text", 3.5, []any{"x"}, []any{map[string]any{"tokens": "many"}}, map[string]any{"a": 1}} {
		d := smallDocument()
		d.Values = map[string]any{"ep": v, "ep_control": v}
		if f, err := figures.Of(d); err != nil || writeHTML(&bytes.Buffer{}, []input{{label: "r", figures: f}}) != nil {
			t.Errorf("%v: %v", v, err)
		}
	}
	if got := number(math.NaN()).Text(2); got != "–" {
		t.Error(got)
	}
}

// The text of an EP result has its figures, and neither patterns nor bytes that it has not.
func TestExpertsInTheText(t *testing.T) {
	d := withExperts(t)
	d.Patterns, d.Measurements = nil, nil
	text := textOf(t, d, look{width: 100})
	rows := regexp.MustCompile(` +`).ReplaceAllString(text, " ")
	for _, want := range []string{"\n Mode Entry Tokens GB/s mean (us) p50 p99 wait %\n", "\n e2e steady 128 42.88 519.3 1.0 3.0 0.0\n"} {
		if !strings.Contains(rows, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "0 patterns") || strings.Contains(text, "0 B") {
		t.Error(text)
	}
	if last := lastLine(text); last != "# more by --full: the <table>, how this was judged" {
		t.Errorf("the last line is %q", last)
	}
	page := htmlOf(t, d)
	if !strings.Contains(page, "the figures elsewhere") {
		t.Error("the page shows its figures twice")
	}
	if strings.Contains(page, "<dt>Patterns</dt>") || strings.Contains(page, "Bytes moved") {
		t.Error("the page counts patterns or bytes that there are none of")
	}
}

// A script's own metrics and tables come before all else that was measured, on the page and in the text, with the
// percentiles for which there are enough values.
func TestOwnFirst(t *testing.T) {
	d := smallDocument()
	m := result.Metric{MetricDef: result.MetricDef{Name: "rate", Help: "how fast"}, TimesNS: make([]int64, 100)}
	for i := range 100 {
		m.Values = append(m.Values, float64(i+1))
	}
	d.Metrics = []result.Metric{m}
	text := textOf(t, d, look{width: 100})
	at := func(page, what string) int {
		i := strings.Index(page, what)
		if i < 0 {
			t.Errorf("no %q in\n%s", what, text)
		}
		return i
	}
	if a, b, c, e := at(text, "- rate: median 50.5 over 100 values"), at(text, "# metrics"), at(text, "# the <table>"), at(text, "# patterns"); !(a < b && b < c && c < e) {
		t.Errorf("the order is %d %d %d %d:\n%s", a, b, c, e, text)
	}
	at(regexp.MustCompile(` +`).ReplaceAllString(text, " "), " rate 100 1 50.5 90.1 99.01 100\n")
	page := htmlOf(t, d)
	if a, b, c := at(page, `id="r0-summary"`), at(page, `id="r0-metrics"`), at(page, `id="r0-patterns"`); !(a < b && b < c) {
		t.Errorf("the order on the page is %d %d %d", a, b, c)
	}
	if n := strings.Count(page, `<table class="metrics">`); n != 1 {
		t.Errorf("the metrics stand %d times on the page", n)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return lines[len(lines)-1]
}

// Of experts beside other traffic the page shows the table openly, which alone has the figures of that traffic, and no
// table of patterns without a figure.
func TestExpertsBesideOthersInThePage(t *testing.T) {
	d := withExperts(t)
	d.Measurements = nil
	d.Values["ep_beside"] = []any{map[string]any{"slowdown": 1.5, "other_slowdown": 2.0}}
	f, err := figures.Of(d)
	must.Do(t, err)
	var page bytes.Buffer
	must.Do(t, writeHTML(&page, []input{{label: "r.json", figures: f}}))
	if len(f.Patterns) == 0 || strings.Contains(page.String(), "the figures elsewhere") || strings.Contains(page.String(), "r0-patterns") {
		t.Error("the page folds its table, or shows patterns that were not measured")
	}
}

// What does not fit the width is named, with the width that it takes.
func TestColumnsThatDoNotFit(t *testing.T) {
	d := smallDocument()
	d.Patterns, d.Measurements, d.Metrics = nil, nil, nil
	d.Tables = []result.Table{{Columns: []string{"A", strings.Repeat("b", 40), "Busbw (GB/s)"}, Rows: [][]any{{1.0, 2.0, 3.0}}}}
	const wide = 3 + 2 + 42 + 2 + 14
	want := "# columns that do not fit: Busbw (GB/s) (a terminal of 63 columns shows them, or COLUMNS=63 in a pipe)"
	if text := textOf(t, d, look{width: wide - 1}); lastLine(text) != want {
		t.Errorf("the last line is %q, want %q", lastLine(text), want)
	}
	if text := textOf(t, d, look{width: wide}); !strings.Contains(text, "Busbw") || strings.Contains(text, "fit") {
		t.Error(text)
	}
}

// Page and text of several results begin with what compares them.
func TestResultsOfExpertsAreCompared(t *testing.T) {
	var list []input
	for name, us := range map[string]float64{"a.json": 200, "b.json": 100} {
		d := withExperts(t)
		m, _ := d.Values["ep"].([]any)[0].(map[string]any)
		m["slowest_us"] = map[string]any{"p50": us}
		f, err := figures.Of(d)
		must.Do(t, err)
		list = append(list, input{label: name, figures: f})
	}
	var text, page strings.Builder
	must.Do(t, errors.Join(writeText(&text, list, look{width: plainWidth}), writeHTML(&page, list)))
	if !strings.HasPrefix(text.String(), "- b.json is the fastest at dispatch and combine of 128 tokens") {
		t.Error(text.String())
	}
	const heading = "<h1>2 results</h1>\n<section class=\"card answer\" id=\"between\"><p class=\"sentence note\">b.json is the fastest at dispatch and combine of 128 tokens (steady: "
	if !strings.Contains(page.String(), heading) {
		t.Error("the page does not begin with the comparison")
	}
	text.Reset()
	if err := writeText(&text, list[:1], look{width: plainWidth}); err != nil || strings.Contains(text.String(), "fastest") {
		t.Errorf("one result is compared: %v %s", err, text.String())
	}
}
