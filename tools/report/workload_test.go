package report

import (
	"strings"
	"testing"

	"perigee/internal/figures"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// resultOfRequests is a result of which the patterns are the traffic of a request and of a part of a batch.
func resultOfRequests() *result.Document {
	d := smallDocument()
	d.Title, d.Workload = "my <title>", "Llama 3.1 70B, 2 requests"
	d.Patterns[0].Metadata = map[string]any{"request": 0.0, "requests": 1.0, "isl": 2384.0, "kv_bytes": 781189120.0}
	d.Patterns[1].Metadata = map[string]any{"request": 1.0, "requests": 2.0, "isl": 12345.0, "layers": "0 to 9", "kv_bytes": 2.5e9}
	return d
}

// What was measured stands first, and a pattern is called by its request.
func TestWhatWasMeasured(t *testing.T) {
	path := write(t, resultOfRequests(), "r.json")
	text, _, err := report(t, Cmd{Results: []string{path}, Text: true})
	if err != nil || !strings.HasPrefix(text, "# my <title>\n# Llama 3.1 70B, 2 requests\n# r.json: ") {
		t.Errorf("text: %v\n%s", err, text)
	}
	text = strings.Join(strings.Fields(text), " ")
	for _, want := range []string{" request 0 2384 781 MB ", " 1: requests 1-2, layers 0 to 9 12345 2.50 GB ", " Tokens KV bytes "} {
		if !strings.Contains(text, want) {
			t.Errorf("text lacks %q:\n%s", want, text)
		}
	}
	page, _, err := report(t, Cmd{Results: []string{path}, Output: "-"})
	must.Do(t, err)
	for _, want := range []string{
		"<title>my &lt;title&gt; - perigee</title>", "<h1>my &lt;title&gt; ", `<p class="what">Llama 3.1 70B, 2 requests</p>`,
		`<td class="num" data-value="1">1: requests 1-2, layers 0 to 9</td>`, `<td class="num" data-value="12345">12345</td><td class="num" data-value="2500000000">2.50 GB</td>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if out, _, err := report(t, Cmd{Results: []string{path}, Format: "json", Title: "other"}); err != nil ||
		!strings.Contains(out, `"title": "other"`) || !strings.Contains(out, `"workload": "Llama 3.1 70B, 2 requests"`) ||
		!strings.Contains(out, `"kv_bytes": 781189120`) {
		t.Errorf("json: %v\n%.2000s", err, out)
	}
	if _, _, err := report(t, Cmd{Results: []string{path, path}, Title: "other"}); fault.KindOf(err) != fault.Usage {
		t.Errorf("a title for two results: %v", err)
	}
}

// Without requests there are no columns for them.
func TestNoRequests(t *testing.T) {
	path := write(t, smallDocument(), "r.json")
	for _, c := range []Cmd{{Results: []string{path}, Text: true}, {Results: []string{path}, Output: "-"}} {
		if out, _, err := report(t, c); err != nil || strings.Contains(out, "KV bytes") || strings.Contains(out, `class="what"`) {
			t.Errorf("%+v: %v, requests in the report", c, err)
		}
	}
}

// Classes have a table in the page and in the text, and an SLO that concerns no run is an error.
func TestShares(t *testing.T) {
	d := smallDocument()
	d.Patterns[0].Metadata = map[string]any{"class": "<chat>", "slo_ms": 1e6}
	path := write(t, d, "r.json")
	page, _, err := report(t, Cmd{Results: []string{path}, Output: "-"})
	if err != nil || !strings.Contains(page, `<td>&lt;chat&gt;</td>`) || !strings.Contains(page, "Jain&#39;s index") {
		t.Errorf("page: %v", err)
	}
	f, err := figures.Read(path)
	must.Do(t, err)
	var rows strings.Builder
	if err := shareSheet(f.Shares).Choose("Class", "In SLO").WriteCSV(&rows); err != nil || rows.String() != "Class,In SLO\n(none),\n<chat>,1\n" {
		t.Errorf("rows: %q, %v", &rows, err)
	}
	d.Patterns[1].Metadata = d.Patterns[0].Metadata
	path = write(t, d, "r.json")
	for _, slo := range []string{"-1ns", "1ns"} {
		if _, _, err := report(t, Cmd{Results: []string{path}, Output: "-", SLO: []string{slo}}); fault.KindOf(err) != fault.Usage {
			t.Errorf("--slo %s: %v", slo, err)
		}
	}
}
