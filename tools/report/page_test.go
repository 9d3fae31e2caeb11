package report

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"perigee/internal/figures"
	"perigee/internal/kit/must"
	"perigee/internal/kit/page/pagetest"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
)

func pageOf(t testing.TB, results ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if _, _, err := report(t, Cmd{Results: results, Output: path}); err != nil {
		t.Fatal(err)
	}
	return path
}

const ready = `document.querySelector(".panel:not([hidden])").dataset.ready`

func open(t testing.TB, b *pagetest.Browser, path string, v pagetest.View) *pagetest.Tab {
	t.Helper()
	tab := b.Open(t, path, v)
	tab.Wait(ready)
	if got := pagetest.Eval[string](tab, ready); got != "true" {
		t.Errorf("the charts are %s", got)
	}
	return tab
}

// One browser has the pages of all tests: it takes seconds to start.
func TestPages(t *testing.T) {
	browser := pagetest.Start(t)
	for name, test := range map[string]func(*testing.T, *pagetest.Browser){
		"every view": everyView, "figures": figuresInThePage, "pictures": picturesInThePage, "clicks and keys": clicksAndKeys,
		"blocks": blocksInThePage, "tabs": tabsOfSeveralResults, "failures": failuresAreLoud, "paper": onPaper,
		"left out": leftOut,
	} {
		t.Run(name, func(t *testing.T) { test(t, browser) })
	}
}

// Every kind of result opens: nothing asked of the network, no complaint, nothing wider than the window. One is looked at
// in every view, the others in one each, and all fit a narrow window, too.
func everyView(t *testing.T, browser *pagetest.Browser) {
	small, _ := synthetic{ranks: 2, hosts: 1, patterns: 1, senders: 1, peers: 1, isolated: 2, iterations: 2}.write(t, "small.json.zst")
	middle, _ := synthetic{ranks: 16, hosts: 2, patterns: 12, senders: 4, peers: 2, isolated: 2, iterations: 2}.write(t, "middle.json.zst")
	many, _ := synthetic{ranks: 128, hosts: 16, patterns: 60, senders: 8, peers: 8, isolated: 1, iterations: 2}.write(t, "many.json.gz.zst")
	pages := map[string]string{"small": pageOf(t, small), "middle": pageOf(t, middle), "many": pageOf(t, many), "two": pageOf(t, small, middle)}
	for name, change := range oddResults {
		d := smallDocument()
		change(d)
		path := filepath.Join(t.TempDir(), "odd.json")
		must.Do(t, d.Write(path))
		pages[name] = pageOf(t, path)
	}
	looks := slices.Sorted(maps.Keys(pagetest.Views))
	for i, name := range slices.Sorted(maps.Keys(pages)) {
		for k, look := range looks {
			if name != "middle" && k != i%len(looks) {
				continue
			}
			t.Run(name+" "+look, func(t *testing.T) {
				tab := open(t, browser, pages[name], pagetest.Views[look])
				tab.FitsWidth()
				tab.Screenshot(strings.ReplaceAll(name, " ", "-") + "-" + look)
				tab.Resize(pagetest.Narrow)
				tab.FitsWidth()
			})
		}
	}
}

// smallDocument is a whole result of two ranks in memory.
func smallDocument() *result.Document {
	s := synthetic{ranks: 2, hosts: 1, patterns: 2, senders: 1, peers: 1, isolated: 2, iterations: 2}
	d := s.document()
	s.each(d, func(m *result.Measurement) { d.Measurements = append(d.Measurements, *m) })
	d.Tables = []result.Table{{Title: "the <table>", Columns: []string{"Name", "Latency (ms)", "N"}, Rows: [][]any{{"<b>x</b>", 1.23456, 3.0}, {"y", nil, 12.0}}}}
	return d
}

// hostile is text that must stay text wherever a result holds it.
const hostile = `</script><img src=x onerror="bad()"><!--`

// oddResults are results that are not what one expects.
var oddResults = map[string]func(*result.Document){
	"nothing": func(d *result.Document) {
		d.Patterns, d.Matrices, d.Measurements, d.Tables, d.Engine, d.Phases = nil, nil, nil, nil, nil, []result.Phase{}
	},
	"no sends": func(d *result.Document) {
		d.Matrices[0].Cells, d.Matrices[0].Bytes = [][3]int64{}, 0
		d.Measurements = nil
	},
	"one rank": func(d *result.Document) {
		d.World.Size, d.World.Hosts[0].Ranks = 1, []int{0}
		d.Matrices = d.Matrices[:1]
		d.Matrices[0].Ranks, d.Matrices[0].Cells = 1, [][3]int64{{0, 0, 64}}
		d.Patterns = d.Patterns[:1]
		d.Measurements = d.Measurements[:1]
		d.Measurements[0].Ranks[0].Peers[0].Peer = 0
	},
	"failed": func(d *result.Document) {
		d.Status, d.Failure = result.Partial, &result.Failure{Rank: 1, Host: "node00", Phase: "workload", Kind: 9, Cause: "its process was killed", Hint: "look at its log"}
		d.Measurements = d.Measurements[:3]
	},
	"blocks": func(d *result.Document) {
		d.Patterns, d.Matrices, d.Measurements, d.Tables = nil, nil, nil, nil
		for _, batch := range []int64{1, 4} {
			for block := int64(4096); block <= 1<<20; block *= 4 {
				var l result.Lanes
				l.Op, l.Local, l.Remote, l.BlockBytes, l.Batch, l.Threads, l.Iterations = "WRITE", "dram", "dram", block, batch, 1, 100
				l.Latency.P50, l.Latency.P99, l.Latency.Mean = block/20*batch, block/10*batch, float64(block/18*batch)
				l.Bytes, l.EndNS = int64(20e9*float64(block)/float64(block+65536/batch)), 1e9
				l.Bandwidth = float64(l.Bytes)
				d.Lanes = append(d.Lanes, l)
			}
		}
	},
	"limits": func(d *result.Document) {
		d.Metrics = []result.Metric{{MetricDef: result.MetricDef{Name: "retries", Help: "how often"}, Values: []float64{1, 3, 2}, TimesNS: []int64{1, 2, 3}}}
		yes, no, v := true, false, 12.5
		d.Thresholds = []result.Threshold{
			{Threshold: "latency: p99 < 5ms", From: "--threshold", Value: &v, Samples: 8, Passed: &no}, {Threshold: "bandwidth: min > 1GB/s", From: "x.lua:3", Value: &v, Samples: 1, Passed: &yes},
			{Threshold: "retries: count == 0", From: "x.lua:4"},
		}
	},
	"replay": func(d *result.Document) { *d = *resulttest.Replayed(400) },
	"replay that was killed": func(d *result.Document) {
		*d = *resulttest.Replayed(400)
		d.Status, d.Finished, d.Replay.Capacity, d.Replay.Fit, d.Replay.Isolated, d.Replay.InFlight = result.Partial, nil, nil, nil, nil, 2
		q := &d.Replay.Requests
		for i := 150; i < 400; i++ {
			q.Admitted[i], q.Posted[i], q.Done[i] = -1, -1, -1
		}
		resulttest.SumUp(d.Replay, 1000)
	},
	"killed": func(d *result.Document) { d.Status, d.Finished = result.Partial, nil },
	"long names": func(d *result.Document) {
		long := strings.Repeat("n", 500) // as long as most names may be
		d.Status, d.Failure = result.Partial, &result.Failure{Rank: 1, Host: long, Phase: "workload", Kind: 9, Cause: long, Hint: long}
		d.Scenario.Name, d.Scenario.Source, d.Command, d.Engine.Backend = long, long, []string{long}, long
		d.World.Hosts[0].Name, d.Patterns[0].Name, d.Notes = long[:255], long, []string{long}
		d.Tables[0].Title, d.Tables[0].Columns[0], d.Tables[0].Rows[0][0] = long, long, long
		d.Scenario.Options, d.Values = map[string]any{long: long}, map[string]any{long: long}
	},
	"hostile": func(d *result.Document) {
		d.Scenario.Name, d.Scenario.Source, d.Command = hostile, hostile, []string{hostile}
		d.World.Hosts[0].Name, d.Patterns[0].Name, d.Notes = hostile, hostile, []string{hostile}
		d.Tables[0].Title, d.Scenario.Options, d.Values = hostile, map[string]any{hostile: hostile}, map[string]any{hostile: hostile}
	},
}

// What the page shows is what the result holds.
func figuresInThePage(t *testing.T, browser *pagetest.Browser) {
	path, _ := synthetic{ranks: 16, hosts: 2, patterns: 12, senders: 4, peers: 2, isolated: 2, iterations: 2}.write(t, "r.json.zst")
	want, err := figures.Read(path)
	must.Do(t, err)
	tab := open(t, browser, pageOf(t, path), pagetest.Light)
	cell := func(table string, row, column int) string {
		return pagetest.Eval[string](tab, fmt.Sprintf(`document.querySelectorAll(".%s tbody tr")[%d].cells[%d].textContent`, table, row, column))
	}
	p, worst := want.Patterns[5], want.Worst()[0]
	for i, c := range []struct{ got, want string }{
		{tab.Text(".slowdown"), ratioText(want.Slowdown) + "\n" + want.SlowdownOf()},
		{cell("patterns", 5, 6), durationText(p.IsolatedNS)}, {cell("patterns", 5, 7), durationText(p.LatencyNS)}, {cell("patterns", 5, 8), plainRatio(p.Slowdown)},
		{cell("pairs", 0, 0) + ">" + cell("pairs", 0, 1), fmt.Sprintf("%d>%d", worst.From, worst.To)}, {cell("pairs", 0, 8), plainRatio(worst.Slowdown)},
		{cell("percentiles", 3, 3), durationText(want.Latencies[3].P50)}, {cell("hosts", 1, 1), "8-15"}, {cell("hosts", 1, 4), "± 150 ns"},
	} {
		if c.got != c.want {
			t.Errorf("%d: the page says %q, want %q", i, c.got, c.want)
		}
	}
	// The charts' data, as the page has unpacked it.
	data := "perigee.made.get('r0').data"
	sums := pagetest.Eval[[]float64](tab, `[`+data+`.pairs.bytes, `+data+`.patterns.map((p) => p.bytes), `+data+`.spans.bytes].map((l) => l.reduce((a, b) => a + b, 0))`)
	var pairs, patterns, spans float64
	for _, x := range want.Pairs {
		pairs += float64(x.Bytes)
	}
	for _, x := range want.Patterns {
		patterns += float64(x.Bytes)
	}
	for _, x := range want.Timeline.Spans {
		spans += float64(x.Bytes)
	}
	if diff := cmp.Diff([]float64{pairs, patterns, spans}, sums); diff != "" {
		t.Errorf("data of the charts (-want +got):\n%s", diff)
	}
	if got := pagetest.Eval[int](tab, "perigee.made.get('r0').parts.timeline.spans"); got != len(want.Timeline.Spans) {
		t.Errorf("the timeline draws %d spans, want %d", got, len(want.Timeline.Spans))
	}
}

// focus moves the focus to an element, once the page has moved there: while it moves it hides tips.
func focus(tab *pagetest.Tab, element string) {
	pagetest.Eval[any](tab, fmt.Sprintf(`new Promise((done) => {
		const e = %s;
		e.scrollIntoView({block: "center"});
		requestAnimationFrame(() => requestAnimationFrame(() => { e.focus(); done(true); }));
	})`, element))
}

// The page answers to the pointer and to keys.
func clicksAndKeys(t *testing.T, browser *pagetest.Browser) {
	path, _ := synthetic{ranks: 8, hosts: 2, patterns: 4, senders: 2, peers: 2, isolated: 1, iterations: 2}.write(t, "r.json.zst")
	want, err := figures.Read(path)
	must.Do(t, err)
	tab := open(t, browser, pageOf(t, path), pagetest.Light)
	side := func() string { return tab.Text(`[data-chart="matrix"] .side`) }

	// The matrix: from the corner to the first pair, by arrow keys.
	first := want.Pairs[0]
	pagetest.Eval[any](tab, `document.querySelector('[data-chart="matrix"] canvas').focus()`)
	tab.Press(kb.ArrowRight + strings.Repeat(kb.ArrowDown, first.From) + strings.Repeat(kb.ArrowRight, first.To))
	if got := side(); !strings.Contains(got, fmt.Sprintf("rank %d → rank %d", first.From, first.To)) || !strings.Contains(got, fmt.Sprintf("messages\n%d", first.Messages)) {
		t.Errorf("at the first pair the matrix says %q", got)
	}
	picture := func(chart string) string {
		return pagetest.Eval[string](tab, `document.querySelector('[data-chart="`+chart+`"] canvas').toDataURL()`)
	}
	for _, click := range []string{
		`[data-controls="matrix"] [data-value="slowdown"]`, `[data-controls="matrix"] [data-value="log"]`, `[data-controls="matrix"] [data-value="host"]`,
		`[data-controls="timeline"] [data-value="slowdown"]`, `[data-controls="timeline"] [aria-label="Zoom in"]`, `[data-controls="timeline"] input`,
		`[data-controls="patterns"] [data-value="linear"]`, `[data-controls="latency"] [data-value="slowdown"]`,
	} {
		chart := strings.Split(click, `"`)[1]
		before := picture(chart)
		tab.Click(click)
		pagetest.Eval[any](tab, `new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))`)
		if picture(chart) == before {
			t.Errorf("a click on %s changes nothing", click)
		}
	}
	// Between hosts.
	pagetest.Eval[any](tab, `document.querySelector('[data-chart="matrix"] canvas').focus()`)
	tab.Press(kb.ArrowRight + kb.ArrowRight)
	if got := side(); !strings.Contains(got, "node00 → node01") {
		t.Errorf("the matrix of hosts says %q", got)
	}
	// The timeline: keys move and zoom.
	window := func() [2]float64 {
		return pagetest.Eval[[2]float64](tab, "perigee.made.get('r0').parts.timeline.window()")
	}
	pagetest.Eval[any](tab, `document.querySelector('[data-chart="timeline"] canvas').focus()`)
	tab.Press("0")
	whole := window()
	tab.Press("+")
	zoomed := window()
	tab.Press(kb.ArrowRight)
	moved := window()
	if !(zoomed[1]-zoomed[0] < whole[1]-whole[0]) || !(moved[0] > zoomed[0]) {
		t.Errorf("windows %v, %v, %v", whole, zoomed, moved)
	}
	tab.Press("0")
	tab.Hover(`[data-chart="timeline"] canvas`, 0.06, 0.1)
	// The table of pairs sorts by bytes.
	tab.Click(".pairs th:nth-child(5) button")
	if got := pagetest.Eval[[]float64](tab, `[...document.querySelectorAll(".pairs tbody tr")].map((r) => Number(r.cells[4].dataset.value))`); len(got) < 3 || got[0] < got[len(got)-1] {
		t.Errorf("sorted by bytes: %v", got)
	}
}

func blocksInThePage(t *testing.T, browser *pagetest.Browser) {
	d := smallDocument()
	oddResults["blocks"](d)
	tab := open(t, browser, pageOf(t, write(t, d, "kv.json")), pagetest.Light)
	if got := tab.Text(".best"); !strings.HasPrefix(got, "19.7 GB/s") {
		t.Errorf("the best bandwidth is %q", got)
	}
	if got := pagetest.Eval[[]string](tab, `[...document.querySelectorAll('[data-chart="answer"] figure:first-child .legend li')].map((e) => e.innerText)`); len(got) != 2 || got[1] != "WRITE, batch 4" {
		t.Errorf("the curves are %q", got)
	}
	focus(tab, `document.querySelector('[data-chart="answer"] canvas')`)
	tab.Press(kb.ArrowRight)
	if got := pagetest.Eval[string](tab, "perigee.tip.text()"); !strings.Contains(got, "4\u202fKiB") {
		t.Errorf("the first point says %q", got)
	}
	if got := tab.Text(".sentence") + tab.Text(".why"); !strings.Contains(got, "WRITE with blocks of 1 MiB, batch 4") || !strings.Contains(got, "Blocks of 256 KiB already reach 96 % of it.") {
		t.Errorf("findings: %s", got)
	}
}

// charts are an answer's pictures of every kind: curves with ranges and limits, single things, bars.
func charts() []figures.Chart {
	curve := func(name string, rate figures.Num) (s figures.Series) {
		s.Name = name
		for x := figures.Num(4096); x <= 1<<24; x *= 4 {
			y := rate * x / (x + 65536)
			s.Points = append(s.Points, figures.Point{X: x, Y: y, Low: y * 0.8, High: y * 1.1})
		}
		return s
	}
	lone := figures.Point{X: 7.81e6, Y: 2e6, Low: figures.None, High: figures.None, Name: "request 3"}
	words := figures.Series{Name: "load"}
	for i := range 8 {
		words.Points = append(words.Points, figures.Point{X: figures.Num(i), Y: figures.Num(1000 + 100*i), Low: figures.None, High: figures.None})
	}
	fast := figures.Series{Points: []figures.Point{{X: 4096, Y: 4e10}, {X: 1 << 24, Y: 2e10}}}
	return []figures.Chart{
		{Title: "Bandwidth over size", X: figures.Axis{Label: "block", Unit: "bytes", Log: true}, Y: figures.Axis{Label: "bandwidth", Unit: "bytes/s"},
			Series: []figures.Series{curve("WRITE", 8e9), curve("READ", 6e9)}, Limits: []figures.Limit{{Name: "copy in memory", Points: []figures.Point{{Y: 1.2e10}}}}},
		{Title: "One request", X: figures.Axis{Label: "bytes", Unit: "bytes", Log: true}, Y: figures.Axis{Label: "time", Unit: "ns", Log: true},
			Series: []figures.Series{{Name: "alone", Points: []figures.Point{lone}}}},
		{Title: "Load of ranks", X: figures.Axis{Label: "rank", Words: []string{"rank 0", "rank 10", "a rank with a rather long name", "3", "4", "5", "6", "7"}},
			Y: figures.Axis{Label: "tokens"}, Series: []figures.Series{words, {Name: "other", Points: words.Points[:3]}}},
		{Title: "Limit by size", X: figures.Axis{Label: "block", Unit: "bytes", Log: true}, Y: figures.Axis{Label: "bandwidth", Unit: "bytes/s", Log: true},
			Series: []figures.Series{curve("WRITE", 8e9)}, Limits: []figures.Limit{{Name: hostile, Points: fast.Points}}},
	}
}

// The first screen has the sentence, its reason and the pictures, which answer to keys; the judgement is folded.
func picturesInThePage(t *testing.T, browser *pagetest.Browser) {
	f, err := figures.Of(smallDocument())
	must.Do(t, err)
	f.Answer = figures.Answer{Level: "bad", Sentence: "Traffic costs " + hostile, Why: "since " + hostile, Charts: charts(),
		Judged: []figures.Finding{{Level: "note", Text: "judged so"}}}
	path := filepath.Join(t.TempDir(), "r.html")
	var out strings.Builder
	must.Do(t, writeHTML(&out, []input{{"r.json", f}}))
	must.Do(t, os.WriteFile(path, []byte(out.String()), 0o644))
	for look, view := range pagetest.Views {
		tab := open(t, browser, path, view)
		tab.FitsWidth()
		tab.Screenshot("pictures-" + look)
	}
	tab := open(t, browser, path, pagetest.View{Height: 2000})
	if got := tab.Text(".sentence.bad") + "|" + tab.Text(".why"); got != "Traffic costs "+hostile+"|since "+hostile {
		t.Errorf("the answer is %q", got)
	}
	if pagetest.Eval[bool](tab, `document.querySelector(".judged").open`) {
		t.Error("the judgement is not folded")
	}
	if bottom := pagetest.Eval[float64](tab, `document.querySelector(".pictures figure").getBoundingClientRect().bottom`); bottom > 800 {
		t.Errorf("the first picture ends at %v of 800 pixels", bottom)
	}
	for i, want := range []string{
		"4 KiB WRITE 471 MB/s from 376 MB/s to 518 MB/s", "request 3 bytes 7.81 MB alone 2.00 ms", "rank 0 load 1000",
		"4 KiB WRITE 471 MB/s from 376 MB/s to 518 MB/s",
	} {
		if i == 3 {
			tab.Click(".more summary") // the fourth picture is folded
		}
		focus(tab, fmt.Sprintf(`document.querySelectorAll(".pictures canvas")[%d]`, i))
		tab.Press(kb.ArrowRight)
		if got := strings.Join(strings.Fields(pagetest.Eval[string](tab, "perigee.tip.text()")), " "); got != want {
			t.Errorf("the first point of picture %d says %q, want %q", i, got, want)
		}
	}
}

func tabsOfSeveralResults(t *testing.T, browser *pagetest.Browser) {
	a, _ := synthetic{ranks: 2, hosts: 1, patterns: 1, senders: 1, peers: 1, isolated: 1, iterations: 1}.write(t, "a.json.zst")
	b, _ := synthetic{ranks: 8, hosts: 2, patterns: 3, senders: 2, peers: 2, isolated: 1, iterations: 1}.write(t, "b.json.zst")
	tab := open(t, browser, pageOf(t, a, b), pagetest.Light)
	if pagetest.Eval[bool](tab, "perigee.made.has('r1')") {
		t.Error("charts of a hidden tab are drawn")
	}
	tab.Click("#tab-r1")
	tab.Wait(ready)
	if got := tab.Text("#r1 .title p"); !strings.Contains(got, "b.json.zst") {
		t.Errorf("the second tab shows %q", got)
	}
	if got := pagetest.Eval[string](tab, `document.querySelector(".topbar nav a:last-child").getAttribute("href")`); got != "#r1-run" {
		t.Errorf("the bar leads to %s", got)
	}
	if !pagetest.Eval[bool](tab, "document.getElementById('r0').hidden && document.querySelectorAll('.overview tbody tr').length === 2") {
		t.Error("the first panel is still there, or the overview is wrong")
	}
}

func failuresAreLoud(t *testing.T, browser *pagetest.Browser) {
	for name, want := range map[string][]string{
		"failed": {"failed", "The run failed: rank 1 on node00, in the phase workload", "its process was killed", "look at its log", "only what was measured"},
		"killed": {"partial", "The run did not end"},
	} {
		d := smallDocument()
		oddResults[name](d)
		path := filepath.Join(t.TempDir(), "r.json")
		must.Do(t, d.Write(path))
		tab := open(t, browser, pageOf(t, path), pagetest.Light)
		got := tab.Text(".title") + tab.Text(".banner.bad")
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: the page says %q, want %q", name, got, w)
			}
		}
	}
}

// On paper everything is light, and what only a pointer can use is gone.
func onPaper(t *testing.T, browser *pagetest.Browser) {
	path, _ := synthetic{ranks: 8, hosts: 2, patterns: 3, senders: 2, peers: 2, isolated: 1, iterations: 1}.write(t, "r.json.zst")
	tab := open(t, browser, pageOf(t, path), pagetest.View{Print: true})
	if pagetest.Eval[bool](tab, `[".topbar", ".controls"].some((s) => getComputedStyle(document.querySelector(s)).display !== "none")`) {
		t.Error("controls are printed")
	}
	tab.Screenshot("paper")
}

// A pattern takes a few bytes of a result and hundreds of a page.
func TestManyPatternsInAPage(t *testing.T) {
	d := smallDocument()
	for len(d.Patterns) < mostPatterns+5 {
		d.Patterns = append(d.Patterns, result.Pattern{})
	}
	page := htmlOf(t, d)
	if got := len(strings.Split(strings.SplitN(strings.SplitN(page, `class="sortable patterns"`, 2)[1], "</table>", 2)[0], "\n<tr>")) - 1; got != mostPatterns {
		t.Errorf("the table has %d rows, want %d", got, mostPatterns)
	}
	if want := "Table of the first 20000 of 20005 patterns<"; !strings.Contains(page, want) {
		t.Errorf("the page lacks %s", want)
	}
}
