package compare

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"perigee/internal/figures/contention"
	"perigee/internal/kit/must"
	"perigee/internal/kit/version"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// link is a pattern of one message, and what overlapping costs it.
type link struct {
	from, to int
	overlaps bool
	half     bool    // only in every other iteration
	cost     float64 // times as long where it overlaps
}

// busy is a result of patterns that ran alone and in a workload. What the whole run shares, and what each message has
// for itself, is drawn.
func busy(rng *rand.Rand, links ...link) *result.Document {
	const iterations = 12
	d := &result.Document{
		Schema: result.Schema, Status: result.Complete, Perigee: version.Build{Version: "1", Go: "go"}, Overlaps: true,
		Scenario: result.Scenario{Name: "x.lua", SHA256: "aa"},
		World:    result.World{Size: 5, Hosts: []result.Host{{Name: "h", Ranks: []int{0, 1, 2, 3, 4}, CPUs: 8}}},
	}
	whole := math.Exp(0.1 * rng.NormFloat64())
	apart := math.Exp(0.03 * rng.NormFloat64()) // how much longer the workload takes in this run, overlapping or not
	for p, l := range links {
		d.Matrices = append(d.Matrices, result.Matrix{SHA256: fmt.Sprint(p), Ranks: 5, Bytes: 1e6,
			Cells: [][3]int64{{int64(l.from), int64(l.to), 1e6}}})
		d.Patterns = append(d.Patterns, result.Pattern{Op: "WRITE", Mem: "dram", Shards: 1, Senders: 1, Matrix: p})
		for _, phase := range []string{result.IsolatedPhase, "workload"} {
			for i := range iterations {
				ns := 1e6 * whole * math.Exp(0.1*rng.NormFloat64())
				peer := series.PeerRun{Peer: l.to, Bytes: 1e6}
				if phase == "workload" {
					ns *= apart
					if l.overlaps && (!l.half || i%2 == 0) {
						ns *= l.cost
						peer.Overlap = &series.Overlap{Share: 1, Messages: 1, Shared: "receiver"}
					}
				}
				peer.EndNS = int64(ns)
				run := series.Run{EndNS: int64(ns), Ranks: []series.RankRun{{Rank: l.from, EndNS: int64(ns), Bytes: 1e6,
					Peers: []series.PeerRun{peer}}}}
				d.AddRuns(p, phase, i, []series.Run{run})
			}
		}
	}
	return d
}

func several(rng *rand.Rand, n int, links ...link) (docs []*result.Document) {
	for range n {
		docs = append(docs, busy(rng, links...))
	}
	return docs
}

// Where contention is what it was, large or none, the comparison speaks of it in at most a share alpha of the cases,
// and never where nothing overlaps.
func TestContentionFalseAlarms(t *testing.T) {
	const rounds, alpha = 400, 0.05
	bound := alpha + 3*math.Sqrt(alpha*(1-alpha)/rounds)
	for _, c := range []struct {
		name       string
		runs       int
		old, fresh []link
		most       float64
	}{
		{"no overlap", 4, []link{{from: 0, to: 2}, {from: 1, to: 2}}, nil, 0},
		{"costs nothing", 4, []link{{0, 2, true, false, 1}, {1, 2, true, true, 1}, {from: 3, to: 4}}, nil, bound},
		{"costs much", 4, []link{{0, 2, true, true, 2}, {1, 2, true, false, 2}, {from: 3, to: 4}}, nil, bound},
		{"five runs", 5, []link{{0, 2, true, true, 3}, {1, 2, true, true, 1.5}}, nil, bound},
		{"overlap that costs nothing comes", 4, []link{{from: 0, to: 2}}, []link{{0, 2, true, true, 1}}, bound},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(41, 42))
			if c.fresh == nil {
				c.fresh = c.old
			}
			said := 0
			for range rounds {
				r := mustCompare(t, several(rng, c.runs, c.old...), several(rng, c.runs, c.fresh...), defaults)
				if len(r.Findings) > 0 {
					said++
				}
			}
			t.Logf("contention changed in %d of %d comparisons", said, rounds)
			if float64(said)/rounds > c.most {
				t.Errorf("contention changed in %d of %d comparisons, want at most %.3f", said, rounds, c.most)
			}
		})
	}
}

// A rival that comes, one that costs more, and one that goes are found, with the pair that they meet and their size.
func TestContentionChanges(t *testing.T) {
	calm, other := link{from: 3, to: 4}, link{1, 2, true, false, 1.5}
	for _, c := range []struct {
		name     string
		old, new []link
		want     []string
		change   float64
	}{
		{"a rival comes", []link{{from: 0, to: 2}, calm}, []link{{0, 2, true, true, 2}, calm},
			[]string{"Contention rose", "0 \u2192 2 rose", "1 times (nothing overlapped) in OLD"}, 1},
		{"a rival costs more", []link{{0, 2, true, true, 2}, other, calm}, []link{{0, 2, true, true, 3}, other, calm},
			[]string{"0 \u2192 2 rose"}, 0.5},
		{"a rival goes", []link{{0, 2, true, true, 2}, calm}, []link{{from: 0, to: 2}, calm},
			[]string{"Contention fell", "0 \u2192 2 fell"}, -0.5},
	} {
		rng := rand.New(rand.NewPCG(43, 44))
		for round := range 10 {
			r := mustCompare(t, several(rng, 4, c.old...), several(rng, 4, c.new...), defaults)
			text := strings.Join(r.Findings, "\n")
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%s, round %d: %q, want %q", c.name, round, text, want)
				}
			}
			if strings.Contains(text, "3 \u2192 4") {
				t.Errorf("%s, round %d names a pair that shares nothing: %q", c.name, round, text)
			}
			for _, row := range r.Rows {
				if row.Metric != contentionMetric || row.Sender != 0 {
					continue
				}
				if off := (1 + row.Change) / (1 + c.change); row.Verdict != Differs || math.Abs(off-1) > 0.1 {
					t.Errorf("%s, round %d: %+v, want a change of %g", c.name, round, row, c.change)
				}
			}
		}
	}
}

// Nothing is said of contention where a side has ranks that wait for CPUs.
func TestContentionBesideWaits(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 44))
	old, fresh := several(rng, 4, link{from: 0, to: 2}), several(rng, 4, link{0, 2, true, true, 2})
	fresh[3].World.Hosts[0].CPUs = 4
	r := mustCompare(t, old, fresh, defaults)
	for _, row := range r.Rows {
		if row.Metric == contentionMetric && (row.Verdict != Same || row.Warning != "ranks wait for CPUs: h has 4 CPUs for 5 ranks") {
			t.Errorf("%+v", row)
		}
	}
	if len(r.Findings) > 0 || r.contentionRows == 0 {
		t.Errorf("%d rows, %q", r.contentionRows, r.Findings)
	}
}

// With few runs, or where the interval is missing, nothing is said of contention.
func TestContentionUnknown(t *testing.T) {
	rng := rand.New(rand.NewPCG(45, 46))
	hot, calm := link{0, 2, true, true, 4}, link{from: 0, to: 2}
	said := func(old, fresh []*result.Document) string {
		var out bytes.Buffer
		r := mustCompare(t, old, fresh, defaults)
		must.Do(t, r.WriteText(&out, nil, false))
		if !strings.Contains(strings.ToLower(out.String()), contentionMetric) {
			return ""
		}
		return out.String()
	}
	if text := said(several(rng, 1, calm), several(rng, 1, hot)); text != "" {
		t.Errorf("one run a side: %s", text)
	}
	blind := several(rng, 4, hot)
	for _, d := range blind {
		d.Overlaps = false
	}
	if text := said(several(rng, 4, calm), blind); text != "" {
		t.Errorf("results that do not hold overlaps: %s", text)
	}
	if text := said(several(rng, 4, calm), several(rng, 4, calm)); text != "" {
		t.Errorf("nothing overlaps: %s", text)
	}
	if text := said(several(rng, 4, calm), several(rng, 4, hot)); !strings.Contains(text, "# contention that changed") ||
		!strings.Contains(text, "# Contention rose: ") {
		t.Errorf("contention that rose: %s", text)
	}
}

// What is taken off depends on other messages. A run in which these are slower says nothing here, whether it is shown to
// be slower itself or not: only those that happen to be fast would count.
func TestRatiosThatOthersChange(t *testing.T) {
	got := ratios([]contention.Estimate{
		{Overlapped: 20, Runs: 10, Ratio: 2, Low: 1.9, High: 2.1, Off: 1, Beside: 1},
		{Overlapped: 20, Runs: 10, Ratio: 2, Low: 1.9, High: 2.1, Off: 1.2, Beside: 1.2},
		{Overlapped: 20, Runs: 10, Ratio: 2, Low: 1.9, High: 2.1, Off: 1.9, Beside: 1.9, Masked: true},
		{Overlapped: 20, Runs: 10, Ratio: 1, Low: 0.9, High: 1.1, Off: 1, Beside: 1.9},
	})
	if got[0] != 2 || len(present(got)) != 1 {
		t.Errorf("got %v, want 2 of the first alone", got)
	}
}

// Where messages overlap on one side alone, the runs alone are the verdict, and text, page and JSON say why.
func TestWorkloadsThatMeetOthers(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 48))
	calm := []link{{from: 0, to: 2}, {from: 1, to: 2}}
	hot := []link{{0, 2, true, true, 4}, {1, 2, true, false, 4}}
	const shares = "OLD: 75 % of the messages overlapped with other patterns, NEW: none: the workloads differ in what runs at the same time"
	old, fresh := several(rng, 4, hot...), several(rng, 4, calm...)
	r := mustCompare(t, old, fresh, defaults)
	var text, page, object bytes.Buffer
	must.Do(t, errors.Join(r.WriteText(&text, nil, false), r.WriteHTML(&page), r.WriteJSON(&object, nil)))
	note := r.Meeting()
	if main := r.Main(); main.Phase != result.IsolatedPhase || !strings.HasPrefix(note, shares) ||
		!strings.Contains(note, "compared first. geometric mean of 2 patterns, phase workload, latency_ms: -") ||
		!strings.HasPrefix(r.Verdict(), "No change of the runs alone, ") {
		t.Errorf("%s by %+v: %s", r.Verdict(), main, note)
	}
	lines := strings.Split(text.String(), "\n")
	if !strings.HasPrefix(lines[1], "# No change of the runs alone") || lines[2] != "# note: "+note ||
		!strings.Contains(page.String(), "</h1>\n<p>"+strings.ReplaceAll(note, "+", "&#43;")) || !strings.Contains(object.String(), `"meeting": "`+note) {
		t.Errorf("%s\n%s", &text, &object)
	}
	// Without runs alone the workload is the verdict, under the same note.
	for _, d := range append(slices.Clone(old), fresh...) {
		d.Measurements = slices.DeleteFunc(d.Measurements, func(m result.Measurement) bool { return m.Phase == result.IsolatedPhase })
	}
	r = mustCompare(t, old, fresh, defaults)
	if want := shares + ", which may be all of a change"; r.Meeting() != want || !strings.HasPrefix(r.Verdict(), "Better: ") || r.Main().Phase != "workload" {
		t.Errorf("%s: %s", r.Verdict(), r.Meeting())
	}
	for _, d := range fresh {
		d.Overlaps = false
	}
	if r = mustCompare(t, old, fresh, defaults); r.Meeting() != "" {
		t.Errorf("results that do not hold overlaps: %s", r.Meeting())
	}
	for _, c := range []struct {
		old, fresh meetings
		said       bool
	}{
		{meetings{100, 6, 0, false}, meetings{100, 0, 0, false}, true},
		{meetings{100, 5, 0, false}, meetings{100, 0, 0, false}, false},
		{meetings{100, 3, 0, false}, meetings{100, 60, 0, false}, true},
		{meetings{100, 30, 0, false}, meetings{100, 60, 0, false}, false},
		{meetings{100, 60, 0, false}, meetings{100, 0, 50, false}, false}, // half of them may have
		{meetings{100, 60, 0, false}, meetings{0, 0, 0, false}, false},
	} {
		if got := differ(c.old, c.fresh); (got != "") != c.said {
			t.Errorf("%+v and %+v: %q", c.old, c.fresh, got)
		}
	}
}
