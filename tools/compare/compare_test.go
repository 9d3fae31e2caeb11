package compare

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
	"perigee/internal/version"
	"perigee/nixl"
	"perigee/spmd"
)

// document is a result of two ranks with patterns that have run n times each, in times (ms) that
// draw gives.
func document(patterns, n int, draw func(pattern int) float64) *result.Document {
	d := &result.Document{
		Schema: result.Schema, Status: result.Complete, Perigee: version.Build{Version: "1", Go: "go"},
		Scenario: result.Scenario{Name: "x.lua", SHA256: "aa", Options: map[string]any{"size": 5.0, "config": "c.yaml", "out": "o.json"}, Reads: []string{"config"}, Writes: []string{"out"}},
		World:    result.World{Size: 2, Launcher: "local", Hosts: []spmd.Host{{Name: "h", Ranks: []int{0, 1}, CPUs: 2}}},
		Engine:   &nixl.Info{Name: "shm", Version: "1", Backend: "memfd"},
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

var defaults = Options{Alpha: 0.05, Metric: "latency_ms", Pairs: true, Unit: "auto"}

func mustCompare(t *testing.T, old, fresh []*result.Document, o Options) *Report {
	t.Helper()
	r, err := Compare(old, fresh, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func one(d *result.Document) []*result.Document { return []*result.Document{d} }

// A against A: in at most a share alpha of the comparisons is there any verdict, however
// many patterns there are; for one run a side and for several.
func TestFalseAlarms(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	const rounds = 300
	for _, c := range []struct {
		name           string
		patterns, n, k int
	}{{"one pattern, few samples", 1, 8, 1}, {"one pattern, many samples", 1, 60, 1}, {"ten patterns", 10, 30, 1}, {"five runs each", 5, 20, 5}} {
		alarms, found := 0, 0
		for range rounds {
			var sides [2][]*result.Document
			for i := range sides {
				for range c.k {
					sides[i] = append(sides[i], document(c.patterns, c.n, lognormal(rng, 1)))
				}
			}
			o := defaults
			o.Pairs = false
			r := mustCompare(t, sides[0], sides[1], o)
			if r.Count(Same) < len(r.Rows) {
				alarms++
			}
			for _, row := range r.Rows {
				if row.P < o.Alpha {
					found++
				}
			}
		}
		if rate := float64(alarms) / rounds; rate > 0.05+0.035 {
			t.Errorf("%s: verdicts in %.3f of the comparisons", c.name, rate)
		}
		// Before the correction and the look at the noise the rate is that of the test.
		if rate := float64(found) / float64(rounds*c.patterns); rate < 0.02 || rate > 0.08 {
			t.Errorf("%s: p is below alpha at a rate of %.3f", c.name, rate)
		}
	}
}

// Runs that differ by chance as wholes: a test of samples takes that for a change, one of
// runs does not.
func TestRunsAreTheUnit(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	const rounds, k = 200, 6
	alarms := 0
	for range rounds {
		var sides [2][]*result.Document
		for i := range sides {
			for range k {
				sides[i] = append(sides[i], document(1, 30, lognormal(rng, math.Exp(0.2*rng.NormFloat64()))))
			}
		}
		r := mustCompare(t, sides[0], sides[1], defaults)
		if r.Unit != "run" || r.Rows[0].OldN != k || r.Rows[0].NewN != k {
			t.Fatalf("%s, %+v", r.Unit, r.Rows[0])
		}
		if r.Rows[0].Verdict != Same {
			alarms++
		}
	}
	if rate := float64(alarms) / rounds; rate > 0.1 {
		t.Errorf("false alarms at a rate of %.3f", rate)
	}
}

// A against a slower A: worse, and in the other direction better; by about as much as it is.
func TestSlower(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	old := document(3, 60, lognormal(rng, 1))
	slow := lognormal(rng, 1.3)
	normal := lognormal(rng, 1)
	fresh := document(3, 60, func(p int) float64 {
		if p == 1 {
			return slow(p)
		}
		return normal(p)
	})
	r := mustCompare(t, one(old), one(fresh), defaults)
	for i, want := range []string{Same, Worse, Same, Same, Worse, Same} { // patterns, then pairs
		row := r.Rows[i]
		if row.Verdict != want {
			t.Errorf("%s: %s, want %s (%+v)", row.Label(), row.Verdict, want, row)
		}
	}
	if row := r.Rows[4]; row.Sender != 0 || row.Receiver != 1 {
		t.Errorf("READ by rank 1 from rank 0 is the pair %d -> %d", row.Sender, row.Receiver)
	}
	if row := r.Rows[1]; row.Change < 0.2 || row.Change > 0.4 || row.Low > 0.3 || row.High < 0.3 || row.Low < 0.1 || row.High > 0.5 {
		t.Errorf("%+v", row)
	}
	err := r.Err("worse")
	if fault.KindOf(err) != fault.Worse || !strings.Contains(err.Error(), "2 of 6 comparisons are worse: pattern 1 (p1), phase workload, latency_ms +") {
		t.Errorf("got %v", err)
	}
	back := mustCompare(t, one(fresh), one(old), defaults)
	if back.Rows[1].Verdict != Better || back.Err("worse") != nil || back.Err("none") != nil || fault.KindOf(back.Err("any")) != fault.Worse {
		t.Errorf("backwards: %+v", back.Rows[1])
	}
	// More bandwidth is better.
	o := defaults
	o.Metric = "mean_bw_gb_per_s"
	if r := mustCompare(t, one(old), one(fresh), o); r.Rows[1].Verdict != Worse || r.Rows[1].Change > 0 {
		t.Errorf("bandwidth: %+v", r.Rows[1])
	}
}

func TestNoVerdict(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	drifting := func(from, to float64) func(int) float64 {
		i := 0.0
		return func(int) float64 { i++; return from + (to-from)*i/80 + 0.001*rng.Float64() }
	}
	steps := func(list ...float64) func(int) float64 {
		i := -1
		return func(int) float64 { i++; return list[i%len(list)] }
	}
	for _, c := range []struct {
		name       string
		old, fresh *result.Document
		want       string
	}{
		{"few", document(1, 3, lognormal(rng, 1)), document(1, 3, lognormal(rng, 9)), "too few samples for a verdict at alpha 0.05"},
		{"drift", document(1, 80, drifting(1, 1.5)), document(1, 80, drifting(1.2, 1.7)), "noise: parts of one side differ by"},
		{"nothing new", document(1, 9, lognormal(rng, 1)), document(1, 0, nil), "only in OLD"},
		{"nothing old", document(1, 0, nil), document(1, 9, lognormal(rng, 1)), "only in NEW"},
		{"zero", document(1, 9, func(int) float64 { return 0 }), document(1, 9, func(int) float64 { return 1 }), "not positive"},
		{"opposite", document(1, 90, steps(1, 1, 1, 1, 5, 5.1, 5.2)), document(1, 90, steps(0.1, 0.2, 0.3, 1.1, 1.2, 1.3, 1.4)), ""},
	} {
		r := mustCompare(t, one(c.old), one(c.fresh), defaults)
		row := r.Rows[0]
		if c.want != "" && (row.Verdict != Same || !strings.Contains(row.Warning, c.want)) || row.Verdict != Same && (row.Low > 0) != (row.Change > 0) {
			t.Errorf("%s: %s, %q, want %q", c.name, row.Verdict, row.Warning, c.want)
		}
		if err := r.WriteText(new(bytes.Buffer), nil, true); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// The same result twice is the same, to the last digit.
	d := document(2, 40, lognormal(rng, 1))
	for _, row := range mustCompare(t, one(d), one(d), defaults).Rows {
		if row.Verdict != Same || row.Change != 0 || row.P != 1 {
			t.Errorf("%+v", row)
		}
	}
}

// A scenario's own metrics are compared, in the direction that it says.
func TestOwnMetrics(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	var docs [2]*result.Document
	for i := range docs {
		d := document(1, 20, lognormal(rng, 1))
		d.DeclareMetrics([]result.MetricDef{{Name: "down", Better: "lower"}, {Name: "up", Better: "higher"}, {Name: "neither"}})
		for range 20 {
			for _, name := range []string{"down", "up", "neither"} {
				d.AddSample(name, rng.Float64()+float64(1+9*i), 1)
			}
		}
		docs[i] = d
	}
	r := mustCompare(t, one(docs[0]), one(docs[1]), defaults)
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
		"script":        {func(d *result.Document) { d.Scenario.SHA256 = "ab" }, "the text of the scenario x.lua differs"},
		"scenario":      {func(d *result.Document) { d.Scenario.Name, d.Scenario.SHA256 = "y.lua", "ab" }, "the scenario is x.lua and y.lua"},
		"option":        {func(d *result.Document) { d.Scenario.Options["size"] = int64(6) }, "the option size is 5 and 6"},
		"missing":       {func(d *result.Document) { delete(d.Scenario.Options, "size") }, "the option size is 5 and not given"},
		"file":          {func(d *result.Document) { d.Inputs[0].SHA256 = "dd" }, "the file of the option config differs"},
		"other file":    {func(d *result.Document) { d.Scenario.Options["config"] = "d.yaml" }, `the option config is "c.yaml" and "d.yaml"`},
		"ranks":         {func(d *result.Document) { d.World.Size = 3 }, "there are 2 and 3 ranks"},
		"engine":        {func(d *result.Document) { d.Engine = &nixl.Info{Name: "nixl"} }, "the engine is shm and nixl"},
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
	fresh.Perigee.Version, fresh.World.Hosts, fresh.Seed, fresh.Engine = "2", []spmd.Host{{Name: "i", Ranks: []int{0, 1}, CPUs: 8}}, 9, &nixl.Info{Name: "shm", Version: "2", Backend: "memfd"}
	fresh.Status = result.Partial
	want := []string{
		"perigee: 1 go and 2 go", "hosts: h (2 ranks, 2 CPUs) and i (2 ranks, 8 CPUs)", "version of shm: 1 and 2", "seed: 0 and 9",
		"a result is partial: it is still going on, or was killed",
	}
	if diff := cmp.Diff(want, mustCompare(t, one(old), one(fresh), defaults).Remarks[:5]); diff != "" {
		t.Error(diff)
	}
}

func TestFormats(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	r := mustCompare(t, one(document(2, 20, lognormal(rng, 1))), one(document(2, 20, lognormal(rng, 2))), defaults)
	var out bytes.Buffer
	if err := r.WriteJSON(&out, nil); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Schema string
		Worse  int
		Rows   []map[string]any
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || doc.Schema != "perigee.compare/1" || doc.Worse != 4 || len(doc.Rows) != 4 || len(doc.Rows[0]) != len(columns) {
		t.Errorf("%v, %+v", err, doc)
	}
	if row := doc.Rows[2]; row["sender"] != 0.0 || row["receiver"] != 1.0 || row["verdict"] != Worse || row["old_n"] != 20.0 || row["metric"] != "pair_latency_ms" {
		t.Errorf("%v", row)
	}
	out.Reset()
	if err := r.WriteCSV(&out, []string{"pattern", "verdict", "sender"}); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(&out).ReadAll()
	if diff := cmp.Diff([][]string{{"pattern", "verdict", "sender"}, {"0", "worse", ""}, {"1", "worse", ""}, {"0", "worse", "0"}, {"1", "worse", "0"}}, records); err != nil || diff != "" {
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
	} {
		c := Cmd{Old: "/nowhere", New: "/nowhere", Judging: j}
		if err := c.Run(cli.Streams{}); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
