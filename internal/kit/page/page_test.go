package page_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
	"perigee/internal/kit/page"
	"perigee/internal/kit/page/pagetest"
	"perigee/internal/kit/plaintext"
)

// hostile is text that must stay text.
const hostile = `</script><script>window.bad=1</script><img src=x onerror="window.bad=1">'"&`

func sample(t testing.TB) page.Page {
	t.Helper()
	body := template.Must(template.New("").Parse(`<h1>{{.}}</h1>
<section class="card" id="one"><header><h2>Chart</h2><p>Some points.</p></header><div id="chart"></div></section>
<section class="card" id="two"><header><h2>Table</h2></header><div class="scroll"><table class="sortable"><thead><tr><th>Name</th><th class="num">N</th></tr></thead>
<tbody><tr><td>b</td><td class="num">2</td></tr><tr><td>a</td><td class="num">10</td></tr><tr><td>c</td><td class="num">–</td></tr></tbody></table></div></section>
<div role="tablist"><button role="tab" aria-controls="p1" aria-selected="true">One</button><button role="tab" aria-controls="p2" aria-selected="false">Two</button></div>
<div id="p1" role="tabpanel">first</div><div id="p2" role="tabpanel" hidden>second</div>`))
	var text strings.Builder
	must.Do(t, body.Execute(&text, hostile))
	return page.Page{
		Title: hostile, Generator: "perigee test", Sections: []page.Section{{ID: "one", Title: "Chart"}, {ID: "two", Title: "Table"}},
		Body: template.HTML(text.String()),
		Data: []page.Data{{ID: "numbers", Value: map[string]any{"list": []int{1, 2, 3}, "text": hostile}}},
		Scripts: []string{`perigee.data("numbers").then((d) => {
			perigee.tabs(document.querySelector('[role="tablist"]'));
			window.plot = perigee.plot(document.getElementById("chart"), {label: "three points", x: {label: "x", fmt: perigee.fmt.number}, y: {label: "size", fmt: perigee.fmt.bytes},
				series: [{name: "a", line: true, points: d.list.map((v) => [v, v * 1e6])}, {name: "b", points: [[1, 2e6], [2, 1e6], [3, null]]}]});
			window.ready = d;
		});`},
	}
}

func write(t testing.TB, p page.Page) string {
	t.Helper()
	var out bytes.Buffer
	must.Do(t, p.Write(&out))
	path := filepath.Join(t.TempDir(), "a page #1.html")
	must.Do(t, os.WriteFile(path, out.Bytes(), 0o644))
	return path
}

// Characters that act on what displays them are escaped, wherever they stand.
func TestPagesArePlain(t *testing.T) {
	const odd = "\x1b]0;x\a\u009b31m\u202e"
	p := page.Page{
		Title: odd, Generator: odd, Sections: []page.Section{{ID: "a", Title: odd}},
		Body: template.HTML("<p>" + template.HTMLEscapeString(odd)), Footer: odd, Data: []page.Data{{ID: "d", Value: []string{odd}}},
	}
	var out bytes.Buffer
	must.Do(t, p.Write(&out))
	text := out.String()
	if plaintext.Text(text) != text || strings.Count(text, plaintext.Escape(odd)) != 5 {
		t.Errorf("%q", text[strings.LastIndex(text, "<main"):][:200])
	}
	_, data, _ := strings.Cut(text, `id="data-d">`)
	data, _, _ = strings.Cut(data, "<")
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(data)))
	must.Do(t, err)
	var got []string
	if err := json.NewDecoder(z).Decode(&got); err != nil || got[0] != plaintext.Escape(odd) {
		t.Errorf("%v: %q", err, got)
	}
}

func TestPageInTheBrowser(t *testing.T) {
	path, browser := write(t, sample(t)), pagetest.Start(t)
	for name, view := range pagetest.Views {
		t.Run(name, func(t *testing.T) {
			tab := browser.Open(t, path, view)
			tab.Wait("window.ready")
			if got := pagetest.Eval[string](tab, "ready.text"); got != hostile {
				t.Errorf("the data came out as %q", got)
			}
			if got := tab.Text("h1"); got != hostile {
				t.Errorf("the title came out as %q", got)
			}
			if pagetest.Eval[bool](tab, "'bad' in window") {
				t.Error("text became a script")
			}
			if got := pagetest.Eval[bool](tab, "perigee.isDark()"); got != view.Dark {
				t.Errorf("dark is %v", got)
			}
			background := "getComputedStyle(document.body).backgroundColor"
			before := pagetest.Eval[string](tab, background)
			tab.FitsWidth()
			tab.Screenshot("page-" + name)
			tab.Click("[data-theme-toggle]")
			if after := pagetest.Eval[string](tab, background); after == before {
				t.Errorf("the toggle leaves the background %s", after)
			}
			pagetest.Eval[any](tab, "localStorage.clear()")
		})
	}
}

func TestHelpersInTheBrowser(t *testing.T) {
	tab := pagetest.Start(t).Open(t, write(t, sample(t)), pagetest.Light)
	tab.Wait("window.ready")
	column := "[...document.querySelectorAll('tbody tr')].map((r) => r.cells[0].textContent).join('')"
	for _, step := range []struct{ click, want string }{
		{"th.num button", "abc"}, {"th.num button", "bac"}, {"th:first-child button", "abc"}, {"th:first-child button", "cba"},
	} {
		tab.Click(step.click)
		if got := pagetest.Eval[string](tab, column); got != step.want {
			t.Errorf("after a click on %s the rows are %s, want %s", step.click, got, step.want)
		}
	}
	tab.Click(`[aria-controls="p2"]`)
	if !pagetest.Eval[bool](tab, "p1.hidden && !p2.hidden") {
		t.Error("the second tab does not show its panel")
	}
	pagetest.Eval[any](tab, `document.querySelector("#chart canvas").focus()`)
	tab.Press(strings.Repeat(kb.ArrowRight, 9))
	if got := pagetest.Eval[string](tab, "perigee.tip.text()"); !strings.Contains(got, "3.00\u202fMB") {
		t.Errorf("the tooltip of the last point says %q", got)
	}
	for expression, want := range map[string]string{
		"perigee.fmt.bytes(1234567)":  "1.23\u202fMB",
		"perigee.fmt.bytes(999)":      "999\u202fB",
		"perigee.fmt.rate(17.5e9)":    "17.5\u202fGB/s",
		"perigee.fmt.ns(999999)":      "1.00\u202fms",
		"perigee.fmt.ns(0)":           "0\u202fns",
		"perigee.fmt.ns(null)":        "\u2013",
		"perigee.fmt.ratio(2.345)":    "2.35\u00d7",
		"perigee.fmt.ratio(NaN)":      "\u2013",
		"perigee.fmt.number(0.12345)": "0.12345",
	} {
		if got := pagetest.Eval[string](tab, expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
	for expression, want := range map[string][]float64{
		"perigee.ticks(0, 10, 5)":       {0, 2, 4, 6, 8, 10},
		"perigee.ticks(3, 3)":           {3},
		"perigee.ticks(-1, 1, 4)":       {-1, -0.5, 0, 0.5, 1},
		"perigee.logTicks(1, 10000)":    {1, 10, 100, 1000, 10000},
		"perigee.logTicks(5.2, 6.8, 4)": {5.5, 6, 6.5}, // no 5 and no 7 between them
		"perigee.extent([5263.2, 5264.1], {zero: false}).map((v) => Math.round(v))":                                             {5000, 5527}, // not an axis of noise
		"perigee.ticks(...perigee.extent([5263.2, 5264.1], {zero: false}))":                                                     {5200, 5400},
		"perigee.extent([100, 200], {zero: false})":                                                                             {100, 204},
		"perigee.extent([-100, -100], {zero: false})":                                                                           {-105, -95},
		"perigee.extent([1.7e9, 1.7e9 + 60], {zero: false, date: true})":                                                        {1.7e9, 1.7e9 + 62.4},
		"perigee.extent([100, 101], {zero: false, min: 100})":                                                                   {100, 101.04},
		"perigee.extent([100, 101], {})":                                                                                        {0, 105.04},
		"[perigee.scale(0, 10, 0, 100)(5), perigee.scale(1, 100, 0, 2, true)(10), perigee.scale(1, 100, 0, 2, true).invert(1)]": {50, 1, 10},
		"[perigee.scale(3, 3, 0, 1)(3)]":                                                                                        {0},
	} {
		if diff := cmp.Diff(want, pagetest.Eval[[]float64](tab, expression)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expression, diff)
		}
	}
}

// Colour scales must grow steadily in lightness away from the background: that is
// what makes them readable for the colour-blind and in grey.
func TestHeatIsMonotonous(t *testing.T) {
	browser := pagetest.Start(t)
	path := write(t, sample(t))
	for _, view := range []pagetest.View{pagetest.Light, pagetest.Dark} {
		tab := browser.Open(t, path, view)
		for _, hot := range []string{"false", "true"} {
			list := pagetest.Eval[[]float64](tab, `Array.from({length: 33}, (_, i) => { const [r, g, b] = perigee.heat(i / 32, `+hot+`); return 0.2126*r + 0.7152*g + 0.0722*b; })`)
			for i := 1; i < len(list); i++ {
				if (list[i] > list[i-1]) != view.Dark {
					t.Errorf("dark %v, hot %s: lightness goes from %.1f to %.1f at step %d", view.Dark, hot, list[i-1], list[i], i)
				}
			}
		}
	}
}

// The policy forbids what would leave the page, and the harness notices.
func TestNothingLeavesThePage(t *testing.T) {
	browser := pagetest.Start(t)
	for name, script := range map[string]string{
		"fetch":  `fetch("http://127.0.0.1:9/x").catch(() => {})`,
		"image":  `new Image().src = "http://127.0.0.1:9/x.png"`,
		"script": `document.body.append(Object.assign(document.createElement("script"), {textContent: "window.bad = 1"}))`,
		"throw":  `setTimeout(() => { throw new Error("on purpose"); })`,
	} {
		p := sample(t)
		p.Scripts = append(p.Scripts, script+"; setTimeout(() => { window.over = true; }, 0);")
		tab := browser.Open(t, write(t, p), pagetest.Light)
		tab.Wait("window.over")
		requests, console := tab.Trouble()
		if len(requests)+len(console) == 0 {
			t.Errorf("%s: not noticed", name)
		}
		if pagetest.Eval[bool](tab, "'bad' in window") {
			t.Errorf("%s: a foreign script ran", name)
		}
	}
}

func TestBadPages(t *testing.T) {
	for name, change := range map[string]func(*page.Page){
		"script that ends itself": func(p *page.Page) { p.Scripts = []string{`"</SCRIPT>"`} },
		"script with a comment":   func(p *page.Page) { p.Scripts = []string{`"<!--"`} },
		"style that ends itself":  func(p *page.Page) { p.Styles = []string{`</style>`} },
		"name of data":            func(p *page.Page) { p.Data[0].ID = `x"` },
		"data":                    func(p *page.Page) { p.Data[0].Value = math.NaN() },
	} {
		p := sample(t)
		change(&p)
		if err := p.Write(&bytes.Buffer{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
