package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/kit/page/pagetest"
	"perigee/internal/model"
	"perigee/internal/trace"
	"perigee/internal/trace/figures"
)

// ticking is a Mooncake trace of 41 ticks 3 s apart, on each of which four requests of 1,000, 2,000, 4,000 and 8,000
// tokens come, whose first block is the same.
func ticking() string {
	var text strings.Builder
	next := 1
	for tick := range 41 {
		for _, tokens := range []int{1000, 2000, 4000, 8000} {
			ids := []string{"0"}
			for range (tokens+511)/512 - 1 {
				ids = append(ids, fmt.Sprint(next))
				next++
			}
			fmt.Fprintf(&text, `{"timestamp": %d, "input_length": %d, "output_length": %d, "hash_ids": [%s]}`+"\n", 3000*tick,
				tokens, tokens/10, strings.Join(ids, ", "))
		}
	}
	return text.String()
}

// seldom is a trace of three requests, which says neither answers nor ids.
const seldom = "timestamp_ms,input_tokens\n0,10\n1000,20\n120000,30\n"

// described reads a trace under a name, and describes it, for a model if there is a name of one.
func described(t *testing.T, name, text, of string) *figures.TraceFigures {
	t.Helper()
	read, err := trace.Read(name, strings.NewReader(text), trace.Options{})
	must.Do(t, err)
	o := figures.Options{Name: name}
	if m, ok := model.Shipped(of); ok {
		d, err := m.ParseDType("bf16")
		if err == nil {
			o.Cache, err = m.Cache(model.Options{DType: d})
			o.Move = model.Move{From: 1, To: 1}
		}
		must.Do(t, err)
	}
	f, err := figures.Of(read, o)
	must.Do(t, err)
	return f
}

// written writes a page of traces, given as name, text and model.
func written(t *testing.T, traces ...[3]string) (path, text string) {
	t.Helper()
	var all []*figures.TraceFigures
	for _, s := range traces {
		all = append(all, described(t, s[0], s[1], s[2]))
	}
	var page strings.Builder
	must.Do(t, writePage(&page, all))
	path = filepath.Join(t.TempDir(), "trace.html")
	must.Do(t, os.WriteFile(path, []byte(page.String()), 0o600))
	return path, page.String()
}

// The page opens in every view, and its charts have the trace's figures.
func TestPageInABrowser(t *testing.T) {
	path, _ := written(t, [3]string{"ticking.jsonl", ticking(), "llama3.1-8b"})
	browser := pagetest.Start(t)
	for name, view := range map[string]pagetest.View{"light": pagetest.Light, "dark": pagetest.Dark,
		"narrow": {Width: 500, Height: 900}} {
		t.Run(name, func(t *testing.T) {
			tab := browser.Open(t, path, view)
			tab.Wait("window.traces?.ready")
			tab.FitsWidth()
			tab.Screenshot("trace-" + name)
			if name != "narrow" {
				return
			}
			points := func(chart string, which int, key string) string {
				return pagetest.Eval[string](tab, fmt.Sprintf(`(() => {
					const canvas = document.querySelectorAll('[data-chart="%s"] canvas')[%d];
					canvas.focus();
					canvas.dispatchEvent(new KeyboardEvent("keydown", {key: %q}));
					const text = perigee.tip.text();
					canvas.blur();
					return text.replace(/\s+/g, " ");
				})()`, chart, which, key))
			}
			for _, c := range []struct {
				chart string
				which int
				key   string
				want  string
			}{
				{"arrivals", 0, "ArrowRight", "-1.5 s to 1.5 s requests 4 tokens 15,000"},
				{"arrivals", 1, "ArrowLeft", "requests 4 tokens 15,000"},
				{"lengths", 0, "ArrowLeft", "6,144 to 8,191 tokens requests 41 of all 25"},
				{"lengths", 1, "ArrowRight", "96 to 127 tokens requests 41 of all 25"},
				{"hits", 0, "ArrowLeft", "hit ratio 0.1"},
				{"hits", 0, "ArrowRight", "size 1 blocks size 512 tokens size 67.1 MB"},
				{"offered", 0, "ArrowRight", "busiest 0.1 s offered 19.7 GB/s begins at 0 s peak to mean 29.27×"},
			} {
				if got := points(c.chart, c.which, c.key); !strings.Contains(got, c.want) {
					t.Errorf("%s, %s: got %q, want %q", c.chart, c.key, got, c.want)
				}
			}
			tab.Click(`[data-controls="hits"] [data-value="blocks"]`)
			tab.Screenshot("trace-blocks-" + name)
		})
	}
}

// --html writes the page beside the text, and never over a trace.
func TestPageOfTheCommand(t *testing.T) {
	from, to := write(t, "a.jsonl", ticking()), filepath.Join(t.TempDir(), "a.html")
	text, err := show(t, from, "--html", to, "--model", "llama3.1-8b", "--from", "3s")
	if err != nil || !strings.Contains(text, "160 requests") {
		t.Errorf("%v: %s", err, text)
	}
	page, err := os.ReadFile(to)
	if want := "(4 of 164 requests are outside of --from and --to)"; err != nil || !strings.Contains(string(page), want) {
		t.Errorf("%v: the page lacks %q", err, want)
	}
	if _, err := show(t, from, "--html", from); err == nil || !strings.Contains(err.Error(), "written over") {
		t.Errorf("over the trace: %v", err)
	}
	if text, err := os.ReadFile(from); err != nil || string(text) != ticking() {
		t.Error("the trace has changed")
	}
}

// The page says the figures in words and tables, each with its unit, and what is to know of the file.
func TestPageSaysTheFigures(t *testing.T) {
	f := described(t, "ticking.jsonl", ticking(), "llama3.1-8b")
	_, text := written(t, [3]string{"ticking.jsonl", ticking(), "llama3.1-8b"})
	for _, want := range []string{
		"164 requests in 120 s, 615000 tokens of prompts.", "<b>WARNING:</b> the timestamps stand on a 3000 ms grid, 41 ticks, 0 empty, max 4:",
		">3750.0000</td>", fmt.Sprintf("%.6f", f.Hits.Token), fmt.Sprintf("%.6f", f.Hits.FullBlocks),
		fmt.Sprintf("%.6f", f.Hits.Block), fmt.Sprintf("%.6f", f.Hits.AnyPosition), fmt.Sprintf("%.6f", f.Hits.Request), fmt.Sprintf("%.6f", f.Hits.LRU[0].HeadLast),
		fmt.Sprintf(">%.6f</td>", *f.Load.Miss.GBPerS), ">holds</td>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// A trace that says little has a page that says so, beside others, and one request is enough.
func TestPageOfLittle(t *testing.T) {
	path, text := written(t, [3]string{"seldom.csv", seldom}, [3]string{"one.csv", "timestamp_ms,input_tokens\n5,0\n"},
		[3]string{"ticking.jsonl", ticking()})
	for _, want := range []string{"3 traces",
		"3 requests in 120 s, 60 tokens of prompts", "1 request in 0 s, 0 tokens of prompts.", "ticking.jsonl"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	tab := pagetest.Start(t).Open(t, path, pagetest.Narrow)
	tab.Wait("window.traces?.ready")
	tab.FitsWidth()
	if n := pagetest.Eval[int](tab, `document.querySelectorAll("canvas").length`); n != 13 { // 4, 3 and 6
		t.Errorf("%d charts", n)
	}
}

// Names that others chose stay text.
func TestPageIsEscaped(t *testing.T) {
	const hostile = `<img src=x onerror=alert(1)>`
	f := described(t, hostile, ticking(), "llama3.1-8b")
	f.Load.Model, f.Format, f.Blocks.Checks[0].Rule, f.Notes = hostile, hostile, hostile, []string{hostile}
	var page strings.Builder
	must.Do(t, writePage(&page, []*figures.TraceFigures{f}))
	if text := page.String(); strings.Contains(text, "<img") || strings.Count(text, "&lt;img src=x") < 6 {
		t.Error("a trace plays with the page")
	}
}
