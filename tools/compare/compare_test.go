package compare

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
	"perigee/internal/version"
)

// document is a result of two ranks with patterns that have run n times each, in times (ms) that
// draw gives.
func document(patterns, n int, draw func(pattern int) float64) *result.Document {
	d := &result.Document{
		Schema: result.Schema, Status: result.Complete, Perigee: version.Build{Version: "1", Go: "go"},
		Scenario: result.Scenario{Name: "x.lua", SHA256: "aa", Options: map[string]any{"size": 5.0, "config": "c.yaml", "out": "o.json"}, Reads: []string{"config"}, Writes: []string{"out"}},
		World:    result.World{Size: 2, Launcher: "local", Hosts: []result.Host{{Name: "h", Ranks: []int{0, 1}, CPUs: 2}}},
		Engine:   &result.Engine{Name: "shm", Version: "1", Backend: "memfd"},
		Inputs:   []result.Input{{Path: "c.yaml", SHA256: "cc"}},
		Matrices: []result.Matrix{{SHA256: "bb", Ranks: 2, Bytes: 1e6, Cells: [][3]int64{{0, 1, 1e6}}}},
	}
	for p := range patterns {
		op := "WRITE"
		if p == 1 {
			op = "READ"
		}
		d.Patterns = append(d.Patterns, result.Pattern{Name: fmt.Sprint("p", p), Mem: "dram", Op: op, Shards: 1, Senders: 1})
		var runs []series.Run
		for range n {
			ns := int64(draw(p) * 1e6)
			r := p % 2 // the initiator
			runs = append(runs, series.Run{EndNS: ns, Ranks: []series.RankRun{{Rank: r, EndNS: ns, Bytes: 1e6, Peers: []series.PeerRun{{Peer: 1 - r, Bytes: 1e6, EndNS: ns}}}}})
		}
		d.AddRuns(p, "workload", 0, runs)
	}
	return d
}

func lognormal(rng *rand.Rand, factor float64) func(int) float64 {
	return func(int) float64 { return factor * math.Exp(0.1*rng.NormFloat64()) }
}

var defaults = Options{Alpha: 0.05, Metric: "latency_ms", Pairs: true}

func mustCompare(t *testing.T, old, fresh []*result.Document, o Options) *Report {
	t.Helper()
	r, err := Compare(old, fresh, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func one(d *result.Document) []*result.Document { return []*result.Document{d} }

// A against A, with runs that differ by chance as wholes and samples that differ within a run: in at most a share alpha of the
// comparisons is there any verdict, however many patterns and pairs there are. Times are drawn with a
// heavy tail; the machine gets slower all the time, and the sides take turns or follow each other.
func TestFalseAlarms(t *testing.T) {
	const rounds, alpha = 2000, 0.05
	bound := alpha + 3*math.Sqrt(alpha*(1-alpha)/rounds)
	for _, c := range []struct {
		name           string
		patterns, runs int
		drift          float64 // of each run against the one before it
		alternate      bool
		most           float64
	}{
		{"one pattern", 1, 4, 0, false, bound},
		{"eight patterns", 8, 4, 0, false, bound},
		{"three patterns, five runs", 3, 5, 0, false, bound},
		{"drift, alternating", 3, 5, 0.03, true, bound},
		{"strong drift, one side after the other", 1, 5, 0.3, false, bound},
		{"strong drift, six patterns one side after the other", 6, 5, 0.3, false, bound},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(11, 12))
			alarms := 0
			for range rounds {
				var sides [2][]*result.Document
				for k := range 2 * c.runs {
					side := k / c.runs
					if c.alternate {
						side = (k + 1) / 2 % 2
					}
					whole := math.Exp(c.drift*float64(k) + 0.1*rng.NormFloat64()/math.Sqrt(rng.ExpFloat64()))
					d := document(c.patterns, 3, lognormal(rng, whole))
					d.Started = time.Unix(int64(10*k), 0)
					sides[side] = append(sides[side], d)
				}
				r := mustCompare(t, sides[0], sides[1], defaults)
				if r.Count(Worse)+r.Count(Better) > 0 {
					alarms++
				}
			}
			rate := float64(alarms) / rounds
			t.Logf("verdicts in %.4f of the comparisons", rate)
			if rate > c.most {
				t.Errorf("verdicts in %.4f of the comparisons, want at most %.4f", rate, c.most)
			}
		})
	}
}

// runsOf are results of n runs whose patterns take times that draw gives.
// Runs that all measured the same have no interval for rounding to leave.
func TestRoundingIsNoWarning(t *testing.T) {
	side := func(value float64) (docs []*result.Document) {
		for range 5 {
			d := document(0, 0, nil)
			d.DeclareMetrics([]result.MetricDef{{Name: "own", Better: "lower"}})
			d.AddSample("own", value, 0)
			docs = append(docs, d)
		}
		return docs
	}
	for _, fresh := range []float64{6.5, 5.1, 0.3, 7e9} {
		row := mustCompare(t, side(5), side(fresh), defaults).Rows[0]
		if !row.changed() || row.Warning != "" {
			t.Errorf("5 to %g: verdict %q, warning %q", fresh, row.Verdict, row.Warning)
		}
	}
}

func runsOf(n, patterns int, draw func(pattern int) float64) (docs []*result.Document) {
	for range n {
		docs = append(docs, document(patterns, 5, draw))
	}
	return docs
}

// slowed is lognormal with one pattern that takes several times as long.
func slowed(rng *rand.Rand, pattern int, factor float64) func(int) float64 {
	normal, slow := lognormal(rng, 1), lognormal(rng, factor)
	return func(p int) float64 {
		if p == pattern {
			return slow(p)
		}
		return normal(p)
	}
}

// One pattern of eight that is 22 times slower is found with four runs a side, and so is one of a thousand.
func TestRegressionAmongMany(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, patterns := range []int{8, 1000} {
		const slow = 3
		r := mustCompare(t, runsOf(4, patterns, lognormal(rng, 1)), runsOf(4, patterns, slowed(rng, slow, 22)), defaults)
		if row := r.Rows[slow]; row.Verdict != Worse || row.Change < 15 || row.Q > 0.03 || row.RankP > 0.03 {
			t.Errorf("%d patterns: %+v", patterns, row)
		}
		if n := r.Count(Worse) + r.Count(Better); n != 2 { // the pattern and its only pair
			t.Errorf("%d patterns: %d verdicts", patterns, n)
		}
		if err := r.Err("worse"); fault.KindOf(err) != fault.Worse || !strings.Contains(err.Error(), fmt.Sprintf("2 of %d comparisons are worse: pattern 3 (p3), phase workload, latency_ms +", 2*patterns)) {
			t.Errorf("%v", err)
		}
	}
}

// One run a side gives medians and their difference, however large, and no verdict.
func TestOneRunGivesNoVerdict(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for _, sizes := range [][2]int{{1, 1}, {1, 5}, {3, 3}} {
		r := mustCompare(t, runsOf(sizes[0], 2, lognormal(rng, 1)), runsOf(sizes[1], 2, lognormal(rng, 9)), defaults)
		if r.Judged || r.Err("any") != nil || r.Rows[0].Change < 5 || !math.IsNaN(r.Rows[0].P) {
			t.Errorf("%v: %+v, %v", sizes, r.Rows[0], r.Err("any"))
		}
		var out bytes.Buffer
		if err := r.WriteText(&out, nil, false); err != nil || !strings.Contains(out.String(), "# no verdicts: ") || !strings.Contains(out.String(), "takes 4 on each side") {
			t.Errorf("%v\n%s", err, &out)
		}
	}
	if n := RunsNeeded(0.01); n != 5 {
		t.Errorf("alpha 0.01 needs %d runs", n)
	}
}

// A against a slower A: worse, and in the other direction better; by about as much as it is.
func TestSlower(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	old, fresh := runsOf(5, 3, lognormal(rng, 1)), runsOf(5, 3, slowed(rng, 1, 1.3))
	r := mustCompare(t, old, fresh, defaults)
	for i, want := range []string{Same, Worse, Same, "", Same, Worse, Same} { // patterns, their mean, then pairs
		row := r.Rows[i]
		if row.Verdict != want {
			t.Errorf("%s: %s, want %s (%+v)", row.Label(), row.Verdict, want, row)
		}
	}
	if row := r.Rows[5]; row.Sender != 0 || row.Receiver != 1 {
		t.Errorf("READ by rank 1 from rank 0 is the pair %d -> %d", row.Sender, row.Receiver)
	}
	if row := r.Rows[1]; row.Change < 0.2 || row.Change > 0.4 || row.Low > 0.3 || row.High < 0.3 || row.Low < 0.1 || row.High > 0.5 {
		t.Errorf("%+v", row)
	}
	err := r.Err("worse")
	if fault.KindOf(err) != fault.Worse || !strings.Contains(err.Error(), "2 of 6 comparisons are worse: pattern 1 (p1), phase workload, latency_ms +") {
		t.Errorf("got %v", err)
	}
	back := mustCompare(t, fresh, old, defaults)
	if back.Rows[1].Verdict != Better || back.Err("worse") != nil || back.Err("none") != nil || fault.KindOf(back.Err("any")) != fault.Worse {
		t.Errorf("backwards: %+v", back.Rows[1])
	}
	// More bandwidth is better.
	o := defaults
	o.Metric = "mean_bw_gb_per_s"
	if r := mustCompare(t, old, fresh, o); r.Rows[1].Verdict != Worse || r.Rows[1].Change > 0 {
		t.Errorf("bandwidth: %+v", r.Rows[1])
	}
}

func TestNoVerdict(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	drifting := func(from float64) (docs []*result.Document) {
		for k := range 5 {
			d := document(1, 3, func(int) float64 { return (from + 0.1*float64(k)) * (1 + 0.001*rng.Float64()) })
			d.Started = time.Unix(int64(100*from)+int64(10*k), 0)
			docs = append(docs, d)
		}
		return docs
	}
	for _, c := range []struct {
		name       string
		old, fresh []*result.Document
		want       string
	}{
		{"drift", drifting(1), drifting(1.5), "drift: a trend within each side, which would be +"},
		{"nothing new", runsOf(4, 1, lognormal(rng, 1)), []*result.Document{document(1, 0, nil), document(1, 0, nil), document(1, 0, nil), document(1, 0, nil)}, "only in OLD"},
		{"nothing old", []*result.Document{document(1, 0, nil), document(1, 0, nil), document(1, 0, nil), document(1, 0, nil)}, runsOf(4, 1, lognormal(rng, 1)), "only in NEW"},
	} {
		r := mustCompare(t, c.old, c.fresh, defaults)
		if row := r.Rows[0]; row.changed() || !strings.Contains(row.Warning, c.want) {
			t.Errorf("%s: %s, %q, want %q", c.name, row.Verdict, row.Warning, c.want)
		}
		if err := r.WriteText(new(bytes.Buffer), nil, true); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// A trend of minutes says nothing of what is measured a day later.
	later := drifting(1.5)
	for _, d := range later {
		d.Started = d.Started.Add(24 * time.Hour)
	}
	if row := mustCompare(t, drifting(1), later, defaults).Rows[0]; row.Verdict != Worse {
		t.Errorf("a day later: %q, %q", row.Verdict, row.Warning)
	}
	// A figure that was 0 has no change in percent, but a verdict.
	r := mustCompare(t, runsOf(4, 1, func(int) float64 { return 0 }), runsOf(4, 1, lognormal(rng, 1)), defaults)
	if row := r.Rows[0]; row.Verdict != Worse || !math.IsNaN(row.Change) || !strings.Contains(r.Err("worse").Error(), "latency_ms 0 -> ") {
		t.Errorf("%+v, %v", row, r.Err("worse"))
	}
	// The same results twice are the same, to the last digit.
	d := runsOf(4, 2, lognormal(rng, 1))
	for _, row := range mustCompare(t, d, d, defaults).Rows {
		if row.Verdict != Same && row.Of == 0 || row.Change != 0 || row.Of == 0 && row.P != 1 {
			t.Errorf("%+v", row)
		}
	}
}

// The geometric mean of the patterns of a phase is that of their medians per run, and it has no verdict.
func TestGeometricMean(t *testing.T) {
	by := func(factor float64) func(int) float64 {
		return func(p int) float64 { return factor * []float64{1, 4, 16}[p] }
	}
	r := mustCompare(t, runsOf(4, 3, by(1)), runsOf(4, 3, by(1.5)), defaults)
	row := r.Rows[3]
	if row.Of != 3 || math.Abs(row.Old-4) > 1e-9 || math.Abs(row.New-6) > 1e-9 || math.Abs(row.Change-0.5) > 1e-9 || row.Verdict != "" || row.Label() != "geometric mean of 3 patterns, latency_ms" {
		t.Errorf("%+v", row)
	}
	if n := len(mustCompare(t, runsOf(4, 1, func(int) float64 { return 1 }), runsOf(4, 1, func(int) float64 { return 1 }), defaults).Rows); n != 2 {
		t.Errorf("one pattern has %d rows", n)
	}
}

// A scenario's own metrics are compared, in the direction that it says.
func TestOwnMetrics(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	var docs [2][]*result.Document
	for i := range 8 {
		i := i / 4
		d := document(1, 20, lognormal(rng, 1))
		d.DeclareMetrics([]result.MetricDef{{Name: "down", Better: "lower"}, {Name: "up", Better: "higher"}, {Name: "neither"}})
		for range 20 {
			for _, name := range []string{"down", "up", "neither"} {
				d.AddSample(name, rng.Float64()+float64(1+9*i), 1)
			}
		}
		docs[i] = append(docs[i], d)
	}
	r := mustCompare(t, docs[0], docs[1], defaults)
	var got []string
	for _, row := range r.Rows[2:] {
		got = append(got, row.Label()+" "+row.Verdict)
	}
	if diff := cmp.Diff([]string{"down worse", "up better", "neither differs"}, got); diff != "" {
		t.Error(diff)
	}
	var out bytes.Buffer
	if err := r.WriteText(&out, nil, false); err != nil || !strings.Contains(out.String(), "# metrics of the scenario\nMetric") ||
		!strings.HasSuffix(out.String(), "\n# 1 better, 1 worse, 1 differ, 2 without a verdict\n") {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for name, c := range map[string]struct {
		change func(d *result.Document)
		want   string // "" if it may differ
	}{
		"script":   {func(d *result.Document) { d.Scenario.SHA256 = "ab" }, "the text of the scenario x.lua differs"},
		"scenario": {func(d *result.Document) { d.Scenario.Name, d.Scenario.SHA256 = "y.lua", "ab" }, "the scenario is x.lua and y.lua"},
		"other scenario": {func(d *result.Document) {
			d.Scenario.Name, d.Scenario.SHA256, d.Scenario.Options = "y.lua", "ab", map[string]any{"size": 6.0, "other": 1.0}
		}, "the scenario is x.lua and y.lua; the option size is 5 and 6"},
		"option":        {func(d *result.Document) { d.Scenario.Options["size"] = int64(6) }, "the option size is 5 and 6"},
		"missing":       {func(d *result.Document) { delete(d.Scenario.Options, "size") }, "the option size is 5 and not given"},
		"file":          {func(d *result.Document) { d.Inputs[0].SHA256 = "dd" }, "the file of the option config differs"},
		"other file":    {func(d *result.Document) { d.Scenario.Options["config"] = "d.yaml" }, `the option config is "c.yaml" and "d.yaml"`},
		"ranks":         {func(d *result.Document) { d.World.Size = 3 }, "there are 2 and 3 ranks"},
		"engine":        {func(d *result.Document) { d.Engine = &result.Engine{Name: "nixl"} }, "the engine is shm and nixl"},
		"no engine":     {func(d *result.Document) { d.Engine = nil }, "the engine is shm and none"},
		"matrix":        {func(d *result.Document) { d.Matrices[0].SHA256 = "ee" }, "pattern 0 differs in matrix; pattern 1 differs in matrix; pattern 2 differs in matrix; and more patterns differ"},
		"op":            {func(d *result.Document) { d.Patterns[0].Op = "READ" }, "pattern 0 differs in operation (WRITE and READ)"},
		"memory":        {func(d *result.Document) { d.Patterns[2].Mem = "vram" }, "pattern 2 differs in memory (dram and vram)"},
		"fewer":         {func(d *result.Document) { d.Patterns = d.Patterns[:4]; d.Measurements = d.Measurements[:20] }, "there are 5 and 4 patterns"},
		"moved file":    {func(d *result.Document) { d.Scenario.Options["config"], d.Inputs[0].Path = "d.yaml", "d.yaml" }, ""},
		"output":        {func(d *result.Document) { d.Scenario.Options["out"] = "p.json" }, ""},
		"same number":   {func(d *result.Document) { d.Scenario.Options["size"] = int64(5) }, ""},
		"version, host": {func(d *result.Document) { d.Perigee.Version, d.World.Hosts[0].Name, d.Seed = "2", "i", 9 }, ""},
		"partial":       {func(d *result.Document) { d.Status = result.Partial }, ""},
	} {
		old, fresh := document(5, 5, lognormal(rng, 1)), document(5, 5, lognormal(rng, 1))
		c.change(fresh)
		r, err := Compare(one(old), one(fresh), defaults)
		if err != nil && strings.Contains(err.Error(), "other") {
			t.Errorf("%s: an option of another scenario: %v", name, err)
		}
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), c.want) || r != nil {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
		// By force it goes, loudly.
		o := defaults
		o.Force = true
		var out bytes.Buffer
		if r, err = Compare(one(old), one(fresh), o); err != nil || r.WriteText(&out, nil, false) != nil || !strings.Contains(out.String(), "# WARNING: compared by force, although "+strings.Split(c.want, ";")[0]) {
			t.Errorf("%s by force: %v\n%s", name, err, &out)
		}
	}
}

func TestRemarks(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	old, fresh := document(1, 5, lognormal(rng, 1)), document(1, 5, lognormal(rng, 1))
	fresh.Perigee.Version, fresh.World.Hosts, fresh.Seed, fresh.Engine = "2", []result.Host{{Name: "i", Ranks: []int{0, 1}, CPUs: 8}}, 9, &result.Engine{Name: "shm", Version: "2", Backend: "memfd", Params: map[string]string{"same": "1", "huge": "yes", "a": "2"}}
	old.Engine.Params = map[string]string{"same": "1", "a": "1"}
	fresh.Status = result.Partial
	want := []string{
		"perigee: 1 go and 2 go", "hosts only in OLD: h (2 ranks, 2 CPUs)", "hosts only in NEW: i (2 ranks, 8 CPUs)", "version of shm: 1 and 2", "setting a of shm: 1 and 2", "setting huge of shm: not given and yes", "seed: 0 and 9",
		"a result is partial: it is still going on, or was killed",
	}
	if diff := cmp.Diff(want, mustCompare(t, one(old), one(fresh), defaults).Remarks); diff != "" {
		t.Error(diff)
	}
}

// Runs that were cut short are no runs of a side, unless it is asked for.
func TestPartialRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 28))
	whole, cut := runsOf(4, 20, lognormal(rng, 1)), runsOf(4, 20, lognormal(rng, 0.3))
	for _, d := range cut {
		d.Status, d.Failure = result.Partial, &result.Failure{Cause: "cut"}
	}
	if r := mustCompare(t, whole, slices.Concat(whole, cut), defaults); r.NewN != 4 || !r.Judged || r.Count(Better)+r.Count(Worse) > 0 ||
		!slices.Contains(r.Remarks, "4 runs of NEW left out: partial") || !slices.Contains(r.Remarks, "a result is partial: cut") {
		t.Errorf("%d runs, judged %v, %q", r.NewN, r.Judged, r.Remarks)
	}
	if r := mustCompare(t, cut, whole, defaults); r.OldN != 4 || r.Judged || r.Count("") != len(r.Rows) || r.Advice != "all runs of OLD are partial, and may have measured another part of the work" || !(r.Rows[0].Change > 1) {
		t.Errorf("%d runs, judged %v, %s", r.OldN, r.Judged, r.Advice)
	}
	o := defaults
	o.Force = true
	if r := mustCompare(t, whole, cut, o); !r.Judged || r.NewN != 4 || r.Count(Better) == 0 {
		t.Errorf("by force: %d runs, judged %v", r.NewN, r.Judged)
	}
}

func TestFormats(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	r := mustCompare(t, runsOf(4, 2, lognormal(rng, 1)), runsOf(4, 2, lognormal(rng, 2)), defaults)
	var out bytes.Buffer
	if err := r.WriteJSON(&out, nil); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Schema string
		Worse  int
		Rows   []map[string]any
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || doc.Schema != "perigee.compare/2" || doc.Worse != 4 || len(doc.Rows) != 5 || len(doc.Rows[0]) != len(columns) {
		t.Errorf("%v, %+v", err, doc)
	}
	if row := doc.Rows[3]; row["sender"] != 0.0 || row["receiver"] != 1.0 || row["verdict"] != Worse || row["old_n"] != 4.0 || row["metric"] != "pair_latency_ms" {
		t.Errorf("%v", row)
	}
	out.Reset()
	if err := r.WriteCSV(&out, []string{"pattern", "verdict", "sender"}); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(&out).ReadAll()
	if diff := cmp.Diff([][]string{{"pattern", "verdict", "sender"}, {"0", "worse", ""}, {"1", "worse", ""}, {"", "", ""}, {"0", "worse", "0"}, {"1", "worse", "0"}}, records); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	if err := Sort(r.Rows, "-pattern"); err != nil || r.Rows[0].Pattern != 1 || r.Rows[3].Pattern != 0 {
		t.Errorf("%v, %+v", err, r.Rows)
	}
	if err := Sort(r.Rows, "sender"); err != nil || r.Rows[0].Sender != 0 || r.Rows[3].Sender != -1 {
		t.Errorf("rows without a value come last: %v, %+v", err, r.Rows)
	}
	for _, c := range columns {
		if err := Sort(r.Rows, "-"+c.key); err != nil {
			t.Error(err)
		}
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for want, j := range map[string]Judging{
		"--alpha is 0, want": {Alpha: 0},
		"--alpha is 1, want": {Alpha: 1},
		"--alpha is NaN":     {Alpha: math.NaN()},
		`there is no column "verdit"; did you mean "verdict"`: {Alpha: 0.1, Columns: []string{"p", "verdit"}},
		"--columns: p is there twice":                         {Alpha: 0.1, Columns: []string{"p", "p"}},
		`--sort: there is no column "-p"`:                     {Alpha: 0.1, Sort: "--p"},
		"-o a.html has the name of a page":                    {Alpha: 0.1, Format: "text", Page: "a.html"},
		"--columns and --sort are not for pages":              {Alpha: 0.1, Format: cli.ByName, Page: "a.html", Sort: "p"},
	} {
		c := Cmd{Old: "/nowhere", New: "/nowhere", Judging: j}
		if err := c.Run(cli.Streams{}); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Samples with different labels are compared apart.
func TestLabels(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 30))
	var docs [2][]*result.Document
	for i := range 8 {
		d := document(1, 20, lognormal(rng, 1))
		d.DeclareMetrics([]result.MetricDef{{Name: "bw", Better: "higher"}})
		for _, size := range []string{"4", "8"} {
			value := rng.Float64() + 1
			if i >= 4 && size == "8" {
				value /= 10
			}
			if err := d.AddLabelled("bw", result.Labels{"size": size}, value, 1); err != nil {
				t.Fatal(err)
			}
		}
		docs[i/4] = append(docs[i/4], d)
	}
	var got []string
	for _, row := range mustCompare(t, docs[0], docs[1], defaults).Rows[2:] {
		got = append(got, row.Label()+" "+row.Verdict)
	}
	if diff := cmp.Diff([]string{"bw{size=4} ~", "bw{size=8} worse"}, got); diff != "" {
		t.Error(diff)
	}
}

// A difference of hardware is named where both results know theirs.
func TestHardware(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	old, fresh := document(1, 5, lognormal(rng, 1)), document(1, 5, lognormal(rng, 1))
	remarks := func() []string { return mustCompare(t, one(old), one(fresh), defaults).Remarks }
	fresh.World.Hosts[0].Hardware = &result.Hardware{CPU: "B", NUMANodes: 2}
	if got := remarks(); got != nil {
		t.Errorf("one is unknown: %q", got)
	}
	old.World.Hosts[0].Hardware = &result.Hardware{CPU: "B", NUMANodes: 2}
	if got := remarks(); got != nil {
		t.Errorf("the same: %q", got)
	}
	old.World.Hosts[0].Hardware = &result.Hardware{CPU: "A", NUMANodes: 2}
	if diff := cmp.Diff([]string{"hardware only in OLD: A, 2 NUMA nodes", "hardware only in NEW: B, 2 NUMA nodes"}, remarks()); diff != "" {
		t.Error(diff)
	}
}

// A run that is there under two names counts once, or a side would agree with itself.
func TestTheSameRunTwice(t *testing.T) {
	folder := t.TempDir()
	write := func(name, id string) string {
		d := document(1, 3, func(int) float64 { return 1 })
		d.Job, d.Started = &result.Job{ID: id, Engine: "shm"}, time.Unix(1_700_000_000, 0)
		path := filepath.Join(folder, name)
		if err := d.Write(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, other := write("a.json", "A"), write("b.json", "B")
	if docs, err := ReadAll([]string{first, other}); err != nil || len(docs) != 2 {
		t.Errorf("two runs: %d, %v", len(docs), err)
	}
	copied := write("copy.json.zst", "A")
	for _, paths := range [][]string{{first, first}, {other, copied, first}, {folder}} {
		if _, err := ReadAll(paths); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "are the same run (job A)") {
			t.Errorf("%v: %v", paths, err)
		}
	}
}
