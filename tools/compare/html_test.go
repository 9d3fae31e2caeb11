package compare

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/kit/page/pagetest"
	"perigee/internal/result"
)

// The page has every row with its verdict, its plot and the grid of pairs, and text of results stays text.
func TestWriteHTML(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	old, fresh := runsOf(4, 3, lognormal(rng, 1)), runsOf(4, 3, slowed(rng, 1, 22))
	for _, d := range append(old, fresh...) {
		d.Scenario.Name = "<script>alert(1)</script>"
	}
	fresh[0].Seed = 9
	r := mustCompare(t, old, fresh, defaults)
	var out bytes.Buffer
	must.Do(t, r.WriteHTML(&out))
	text := out.String()
	for _, want := range []string{
		"3 worse", "4 runs", "geometric mean of 3 patterns, phase workload, latency_ms", "<h1 class=\"bad\">Worse: &#43;", "OLD seed 0; NEW seed 9", `<td>p1</td>`, `<span class="chip bad">worse</span>`, "seed: 0 and 9", "&lt;script&gt;alert(1)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q", want)
		}
	}
	if n := len(regexp.MustCompile(`class="forest"><svg`).FindAllString(text, -1)); n != len(r.Rows) {
		t.Errorf("%d plots of %d rows", n, len(r.Rows))
	}
	if strings.Contains(text, "<script>alert") || regexp.MustCompile(`<[a-z][^>]* style=`).MatchString(text) {
		t.Error("a script or a style of a result is in the page")
	}
}

// The grid has a cell for each pair, of the geometric mean of its ratios, and the words of the legend are true.
func TestGrid(t *testing.T) {
	g := gridOf([]*Row{{Sender: 0, Receiver: 1, Change: 3, Verdict: Worse}, {Sender: 0, Receiver: 1, Change: 0, Verdict: Same},
		{Sender: 2, Receiver: 0, Change: -0.1, Verdict: Better}, {Sender: 1, Receiver: 2, Change: 0.01, Verdict: Worse}, {Sender: 2, Receiver: 1, Change: 9, Verdict: Same}})
	var got []string
	for _, c := range g.Cells {
		got = append(got, c.Class+" "+c.Text)
	}
	must.Equal(t, []string{"worse3 0 → 1: +100.0%, changed", "same 1 → 2: +1.0%, changed", "better1 2 → 0: -10.0%, changed", "none 2 → 1: +900.0%, no change shown"}, got)
	if gridOf([]*Row{{Sender: 0, Receiver: 1, Change: 3}}) != nil || gridOf([]*Row{{Sender: 0, Receiver: mostGrid}, {Sender: 1, Receiver: 0}}) != nil {
		t.Error("a grid of one pair, or of too many ranks")
	}
}

// Without enough runs the page says so, and what would help.
func TestWriteHTMLWithoutVerdict(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	path := filepath.Join(t.TempDir(), "c.html")
	sides := Sides{Old: runsOf(1, 1, lognormal(rng, 1)), New: runsOf(1, 1, lognormal(rng, 2)), Advice: func(int) string { return "perigee rerun a b --times 5" }}
	j := Judging{Alpha: 0.05, Metric: "latency_ms", Pairs: "auto", FailOn: "any", Format: "html", Page: path}
	must.Do(t, j.Check())
	var out bytes.Buffer
	if err := j.Judge(cli.Streams{Out: &out}, sides); err != nil || out.Len() > 0 {
		t.Fatalf("%v, %q", err, &out)
	}
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(text, []byte("No verdict</h1>")) || !bytes.Contains(text, []byte("perigee rerun a b --times 5")) {
		t.Errorf("%v:\n%s", err, text)
	}
	j.Sort = "p"
	if err := j.Check(); fault.KindOf(err) != fault.Usage {
		t.Errorf("--sort with html: %v", err)
	}
}

// The page opens in every view: no complaint, nothing wider than the window, however long the names are.
func TestPageInEveryView(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 36))
	browser := pagetest.Start(t)
	for title, name := range map[string]string{"plain": "x.lua", "long": strings.Repeat("n", 500)} {
		old, fresh := runsOf(4, 3, lognormal(rng, 1)), runsOf(4, 3, slowed(rng, 1, 22))
		for _, d := range append(old, fresh...) {
			d.Scenario.Name, d.Patterns[1].Name, d.World.Hosts[0].Name = name, name, name
		}
		var out bytes.Buffer
		must.Do(t, mustCompare(t, old, fresh, defaults).WriteHTML(&out))
		path := filepath.Join(t.TempDir(), "c.html")
		must.Do(t, os.WriteFile(path, out.Bytes(), 0o644))
		for look, view := range pagetest.Views {
			t.Run(title+" "+look, func(t *testing.T) {
				tab := browser.Open(t, path, view)
				tab.Wait(`document.querySelector("th button.sort")`)
				tab.FitsWidth()
				tab.Screenshot("compare-" + title + "-" + look)
			})
		}
	}
}

// Each kind of rows is a test, which fails as --fail-on says, and a comparison that cannot be made is an error.
func TestJUnit(t *testing.T) {
	rng := rand.New(rand.NewPCG(37, 38))
	old, fresh := runsOf(4, 3, lognormal(rng, 1)), runsOf(4, 3, slowed(rng, 1, 22))
	for _, c := range []struct {
		old, new []*result.Document
		on, want string
	}{
		{old, fresh, "worse", "patterns: 2 of 4 comparisons are worse: geometric mean of 3 patterns | pairs of ranks: 1 of 3 comparisons is worse: pattern 1"},
		{old, fresh, "none", "patterns:  | pairs of ranks: "},
		{fresh, old, "worse", "patterns:  | pairs of ranks: "},
		{fresh, old, "any", "patterns: 2 of 4 comparisons are not as before: geometric mean of 3 patterns | pairs of ranks: 1 of 3 comparisons is not as before: pattern 1"},
		{old[:1], fresh, "any", "patterns: skipped | pairs of ranks: skipped"},
	} {
		var got []string
		for _, one := range mustCompare(t, c.old, c.new, defaults).cases(c.on) {
			text, _, _ := strings.Cut(one.Failure, " (")
			if text, _, _ = strings.Cut(text, ", "); one.Skipped != "" {
				text = "skipped"
			}
			got = append(got, one.Name+": "+text)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " | ")); diff != "" {
			t.Errorf("%s: %s", c.on, diff)
		}
	}
	path := filepath.Join(t.TempDir(), "j.xml")
	cmd := Cmd{Old: "/nowhere", New: "/nowhere", JUnit: path, Judging: Judging{Alpha: 0.05}}
	err := cmd.Run(cli.Streams{})
	if text, e := os.ReadFile(path); err == nil || e != nil || !strings.Contains(string(text), `errors="1"`) || !strings.Contains(string(text), "/nowhere") {
		t.Errorf("%v, %v\n%s", err, e, text)
	}
}
