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

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/kit/version"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
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
	must.Do(t, err)
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
		want := 2 // the pattern and its only pair
		if patterns == 8 {
			want = 3 // and the mean of eight, which is 22^(1/8) times as large
		}
		if n := r.Count(Worse) + r.Count(Better); n != want {
			t.Errorf("%d patterns: %d verdicts", patterns, n)
		}
		if err := r.Err("worse"); fault.KindOf(err) != fault.Worse || !strings.Contains(err.Error(), fmt.Sprintf("%d of %d comparisons are worse: %s, latency_ms +", want, 2*patterns+1, map[int]string{8: "geometric mean of 8 patterns, phase workload", 1000: "pattern 3 (p3), phase workload"}[patterns])) {
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
	for i, want := range []string{Same, Worse, Same, Worse, Same, Worse, Same} { // patterns, their mean, then pairs
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
	must.Fail(t, err, fault.Worse, "3 of 7 comparisons are worse: geometric mean of 3 patterns, phase workload, latency_ms +")
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
		if row.Verdict != Same || row.Change != 0 || row.P != 1 {
			t.Errorf("%+v", row)
		}
	}
}

// The geometric mean of the patterns of a phase is that of their medians per run, and the verdict of the comparison.
func TestGeometricMean(t *testing.T) {
	by := func(factor float64) func(int) float64 {
		return func(p int) float64 { return factor * []float64{1, 4, 16}[p] }
	}
	r := mustCompare(t, runsOf(4, 3, by(1)), runsOf(4, 3, by(1.5)), defaults)
	row := r.Rows[3]
	if row.Of != 3 || math.Abs(row.Old-4) > 1e-9 || math.Abs(row.New-6) > 1e-9 || math.Abs(row.Change-0.5) > 1e-9 || row.Verdict != Worse || row.Label() != "geometric mean of 3 patterns, phase workload, latency_ms" || r.Main() != &r.Rows[3] {
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
	must.Equal(t, []string{"down worse", "up better", "neither differs"}, got)
	var out bytes.Buffer
	if err := r.WriteText(&out, nil, false); err != nil || !strings.Contains(out.String(), "# metrics of the scenario\nMetric") ||
		!strings.HasSuffix(out.String(), "\n# 1 better, 1 worse, 1 differ, 2 without a verdict\n") {
		t.Errorf("%v\n%s", err, &out)
	}
	out.Reset()
	if err := r.WriteHTML(&out); err != nil || !strings.Contains(out.String(), "<th>Metric</th>") ||
		!strings.Contains(out.String(), "<td>neither</td>") {
		t.Errorf("the page does not name the metrics: %v\n%s", err, &out)
	}
}

// Variables that differ are named, and settings that a result does not hold are not called the same.
func TestVariables(t *testing.T) {
	run := func(sl string) *result.Document {
		d := document(1, 1, func(int) float64 { return 1 })
		d.Engine = &result.Engine{Name: "nixl", Library: "libnixl_capi.so"}
		if sl != "" {
			d.Environment = &result.Environment{Variables: map[string]string{"UCX_IB_SL": sl, "UCX_LOG_FILE": "/tmp/" + sl}}
		}
		return d
	}
	for _, c := range []struct{ old, fresh, want string }{
		{"1", "3", "OLD setting UCX_IB_SL of nixl 1; NEW setting UCX_IB_SL of nixl 3"},
		{"1", "1", "OLD and NEW have the same settings"},
		{"", "1", "OLD and NEW have the same settings, as far as they are kept: OLD was made by an earlier perigee, which kept few of the variables UCX_*, NIXL_*, FI_* and NCCL_*"},
	} {
		var r Report
		r.sayDifferences([]*result.Document{run(c.old)}, []*result.Document{run(c.fresh)})
		if r.Headline != c.want {
			t.Errorf("%q, %q: got %q, want %q", c.old, c.fresh, r.Headline, c.want)
		}
	}
}

// What differs is the headline, and no reason not to compare.
func TestDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	const same = "OLD and NEW have the same settings"
	for name, c := range map[string]struct {
		change func(d *result.Document)
		want   string
	}{
		"script":   {func(d *result.Document) { d.Scenario.SHA256 = "ab" }, "OLD text of x.lua SHA-256 aa; NEW text of x.lua SHA-256 ab"},
		"scenario": {func(d *result.Document) { d.Scenario.Name, d.Scenario.SHA256 = "y.lua", "ab" }, "OLD scenario x.lua; NEW scenario y.lua"},
		"other scenario": {func(d *result.Document) {
			d.Scenario.Name, d.Scenario.SHA256, d.Scenario.Options = "y.lua", "ab", map[string]any{"size": 6.0, "other": 1.0}
		}, "OLD scenario x.lua, size 5; NEW scenario y.lua, size 6"},
		"option":     {func(d *result.Document) { d.Scenario.Options["size"] = int64(6) }, "OLD size 5; NEW size 6"},
		"missing":    {func(d *result.Document) { delete(d.Scenario.Options, "size") }, "OLD size 5; NEW size not given"},
		"file":       {func(d *result.Document) { d.Inputs[0].SHA256 = "dd" }, "OLD config c.yaml (SHA-256 cc); NEW config c.yaml (SHA-256 dd)"},
		"other file": {func(d *result.Document) { d.Scenario.Options["config"] = "d.yaml" }, "OLD config c.yaml; NEW config d.yaml"},
		"ranks":      {func(d *result.Document) { d.World.Size = 3 }, "OLD ranks 2; NEW ranks 3"},
		"engine":     {func(d *result.Document) { d.Engine = &result.Engine{Name: "nixl"} }, "OLD engine shm; NEW engine nixl"},
		"no engine":  {func(d *result.Document) { d.Engine = nil }, "OLD engine shm; NEW engine none"},
		"matrix": {func(d *result.Document) { d.Matrices[0].SHA256 = "ee" },
			"OLD matrix 1000000 bytes (SHA-256 bb); NEW matrix 1000000 bytes (SHA-256 ee)"},
		"op": {func(d *result.Document) { d.Patterns[0].Op = "READ" }, "OLD op of pattern 0 WRITE; NEW op of pattern 0 READ"},
		"all ops": {func(d *result.Document) {
			d.Patterns[0].Op, d.Patterns[2].Op, d.Patterns[3].Op, d.Patterns[4].Op = "READ", "READ", "READ", "READ"
			d.Scenario.Options["op"] = "READ"
		}, "OLD op of pattern 0 WRITE, op of pattern 2 WRITE, op of pattern 3 WRITE; NEW op of pattern 0 READ, op of pattern 2 READ, op of pattern 3 READ; and 1 more"},
		"memory": {func(d *result.Document) {
			for i := range d.Patterns {
				d.Patterns[i].Mem = "vram"
			}
			d.Scenario.Options["mem_type"], d.Scenario.Options["op"] = "vram", "WRITE"
		}, "OLD mem_type dram; NEW mem_type vram"},
		"fewer":      {func(d *result.Document) { d.Patterns = d.Patterns[:4]; d.Measurements = d.Measurements[:20] }, "OLD patterns 5; NEW patterns 4"},
		"long":       {func(d *result.Document) { d.Scenario.Options["size"] = strings.Repeat("\u00e4", 100) }, "OLD size 5; NEW size " + strings.Repeat("\u00e4", 60) + "..."},
		"moved file": {func(d *result.Document) { d.Scenario.Options["config"], d.Inputs[0].Path = "d.yaml", "d.yaml" }, same},
		"output":     {func(d *result.Document) { d.Scenario.Options["out"] = "p.json" }, same},
		"whole":      {func(d *result.Document) { d.Scenario.Options["size"] = int64(5) }, same},
		"renamed":    {func(d *result.Document) { d.Patterns[0].Name, d.Patterns[3].Name = "q", "r" }, same},
		"host":       {func(d *result.Document) { d.World.Hosts[0].Name, d.Seed = "i", 9 }, "OLD hosts h (2 ranks, 2 CPUs), seed 0; NEW hosts i (2 ranks, 2 CPUs), seed 9"},
		"partial":    {func(d *result.Document) { d.Status = result.Partial }, same},
	} {
		old, fresh := document(5, 5, lognormal(rng, 1)), document(5, 5, lognormal(rng, 1))
		c.change(fresh)
		var out bytes.Buffer
		r := mustCompare(t, one(old), one(fresh), defaults)
		if err := r.WriteText(&out, nil, false); err != nil || r.Headline != c.want || !strings.HasPrefix(out.String(), "# "+c.want+"\n# No verdict. geometric mean of ") {
			t.Errorf("%s: %v, got\n%s\nwant %s", name, err, &out, c.want)
		}
	}
}

// Patterns pair by their names wherever they stand, of equal names in their order.
func TestPatternsPairByName(t *testing.T) {
	of := func(names ...string) *result.Document {
		d := document(len(names), 3, func(p int) float64 { return float64(len(names[p]) + p) })
		for i, name := range names {
			d.Patterns[i].Name = name
		}
		return d
	}
	for _, c := range []struct {
		old, fresh []string
		want       string // the number in OLD and the name of each row, with what is on one side alone
	}{
		{[]string{"1K", "2K", "4K"}, []string{"2K", "4K", "8K"}, "0 1K only in OLD, 1 2K, 2 4K, 3 8K only in NEW"},
		{[]string{"x", "y", "x"}, []string{"x", "x", "y"}, "0 x, 1 y, 2 x"},
		{[]string{"", ""}, []string{"", "", ""}, "0 , 1 , 2  only in NEW"},
		{[]string{"a", "b"}, []string{"c", "d"}, "0 a, 1 b"},
	} {
		r := mustCompare(t, one(of(c.old...)), one(of(c.fresh...)), defaults)
		var got []string
		for _, row := range r.Rows {
			if row.Pattern >= 0 && row.Sender < 0 {
				got = append(got, strings.TrimRight(fmt.Sprint(row.Pattern, " ", row.Name, " ", row.Warning), " ")+map[bool]string{true: " "}[row.Name+row.Warning == ""])
			}
		}
		if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%q and %q: %s", c.old, c.fresh, diff)
		}
	}
}

// Results that share nothing are an error, with what differs.
func TestNothingInBoth(t *testing.T) {
	own := func(name string, labels result.Labels) *result.Document {
		d := document(0, 0, nil)
		d.DeclareMetrics([]result.MetricDef{{Name: name}})
		must.Do(t, d.AddLabelled(name, labels, 1, 0))
		return d
	}
	patterns, other := document(5, 1, func(int) float64 { return 1 }), own("x", result.Labels{"a": "2"})
	ping, alltoall := document(1, 1, func(int) float64 { return 1 }), document(1, 1, func(int) float64 { return 1 })
	ping.Patterns[0].Name, alltoall.Scenario, alltoall.Matrices[0] = "ping 8", result.Scenario{Name: "y.lua"}, result.Matrix{SHA256: "ff", Ranks: 2, Bytes: 2e6, Cells: [][3]int64{{0, 1, 2e6}}}
	unnamed, named := document(1, 1, func(int) float64 { return 1 }), *alltoall
	unnamed.Patterns[0].Name, named.Patterns = "", slices.Clone(alltoall.Patterns)
	named.Patterns[0].Name, named.World.Size = "", 3
	other.Scenario.Options["size"] = 6
	for want, c := range map[string][2]*result.Document{
		"OLD scenario x.lua; NEW scenario y.lua":                   {ping, alltoall},
		"OLD scenario x.lua, ranks 2; NEW scenario y.lua, ranks 3": {unnamed, &named},
		"OLD patterns 5; NEW patterns 0":                           {patterns, own("x", nil)},
		"OLD and NEW have the same settings":                       {own("x", nil), own("y", nil)},
		"OLD size 5; NEW size 6":                                   {own("x", result.Labels{"a": "1"}), other},
	} {
		r, err := Compare(one(c[0]), one(c[1]), defaults)
		if fault.KindOf(err) != fault.Input || !strings.HasSuffix(err.Error(), "is in both: "+want) || r != nil {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	alltoall.Matrices[0].Bytes = ping.Matrices[0].Bytes // another scenario with as many bytes
	for _, c := range [][2]*result.Document{{own("x", nil), own("x", nil)}, {ping, alltoall}} {
		if _, err := Compare(one(c[0]), one(c[1]), defaults); err != nil {
			t.Error(err)
		}
	}
}

// A message counts from its pattern's first start, so that who starts it makes no difference.
func TestPairsOfOtherInitiators(t *testing.T) {
	of := func(read bool) (docs []*result.Document) {
		for range 5 {
			d := document(1, 0, nil)
			run := series.Run{EndNS: 100}
			// Ranks 0 and 1 start 60 apart: with WRITE rank 0 begins its message at 0, with READ rank 1 begins it at 60.
			if read {
				d.Patterns[0].Op = "READ"
				run.Ranks = []series.RankRun{{Rank: 1, StartNS: 60, EndNS: 100, Peers: []series.PeerRun{{Peer: 0, Bytes: 1e6, EndNS: 100}}}}
			} else {
				run.Ranks = []series.RankRun{{Rank: 0, EndNS: 100, Peers: []series.PeerRun{{Peer: 1, Bytes: 1e6, EndNS: 100}}}}
			}
			d.AddRuns(0, "workload", 0, []series.Run{run})
			docs = append(docs, d)
		}
		return docs
	}
	r := mustCompare(t, of(false), of(true), defaults)
	if row := r.Rows[1]; row.Metric != "pair_end_ms" || row.Sender != 0 || row.Old != 1e-4 || row.New != row.Old || row.Verdict != Same || r.Verdict() != "No change shown" {
		t.Errorf("%+v", row)
	}
}

// The verdict is that of the workload's mean, with amounts that have units.
func TestVerdict(t *testing.T) {
	phases := func(factor float64) (docs []*result.Document) {
		for range 4 {
			d := document(2, 0, nil)
			for _, phase := range []string{result.IsolatedPhase, "a", "b"} {
				for p := range d.Patterns {
					ns := int64(2e6)
					if phase != result.IsolatedPhase {
						ns = int64(2e6 * factor)
					}
					d.AddRuns(p, phase, 0, []series.Run{{EndNS: ns, Ranks: []series.RankRun{{Rank: p % 2, EndNS: ns}}}})
				}
			}
			docs = append(docs, d)
		}
		return docs
	}
	for _, c := range []struct {
		factor          float64
		verdict, effect string
	}{
		{1, "No change shown", "geometric mean of 4 patterns, phase all but isolated, latency_ms: 2.00 ms -> 2.00 ms, +0 ns, +0.0% (95 % interval +0.0% to +0.0%)"},
		{1.5, "Worse: +50.0%", "geometric mean of 4 patterns, phase all but isolated, latency_ms: 2.00 ms -> 3.00 ms, +1.00 ms, +50.0% (95 % interval +50.0% to +50.0%)"},
		{0.25, "Better: -75.0%", "geometric mean of 4 patterns, phase all but isolated, latency_ms: 2.00 ms -> 500 \u00b5s, -1.50 ms, -75.0% (95 % interval -75.0% to -75.0%)"},
	} {
		r := mustCompare(t, phases(1), phases(c.factor), defaults)
		if r.Verdict() != c.verdict || r.Effect() != c.effect {
			t.Errorf("%g: %s. %s", c.factor, r.Verdict(), r.Effect())
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
		"perigee: 1 go and 2 go", "hosts: h (2 ranks, 2 CPUs) and i (2 ranks, 8 CPUs)", "version of shm: 1 and 2", "setting a of shm: 1 and 2", "setting huge of shm: not given and yes", "seed: 0 and 9",
		"a result of NEW is partial: it is still going on, or was killed",
	}
	must.Equal(t, want, mustCompare(t, one(old), one(fresh), defaults).Remarks)
}

// What is said of one of several results names it: that it is partial, and that a rank stood still in it.
func TestRemarksNameResults(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	old, fresh := runsOf(2, 20, lognormal(rng, 1)), runsOf(2, 20, lognormal(rng, 1))
	fresh[1].Status, fresh[1].Failure = result.Partial, &result.Failure{Cause: "cut"}
	old[0].Notes = []string{"files: pages", result.StandstillNote("rank 1 on h", 20*time.Second, "workload"), result.MoreStandstills(3)}
	o := defaults
	o.Files = Files{old[0]: "before/1.json", fresh[1]: "after/2.json"}
	want := []string{
		"OLD, before/1.json: rank 1 on h stood still for 20s in phase workload: it was stopped, or its host was; the figures of that time have it in them",
		"OLD, before/1.json: 3 more standstills of ranks", "NEW, after/2.json, is partial: cut", "1 run of NEW left out: partial",
	}
	must.Equal(t, want, mustCompare(t, old, fresh, o).Remarks)
}

// Runs that were cut short are no runs of a side, unless it is asked for.
func TestPartialRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 28))
	whole, cut := runsOf(4, 20, lognormal(rng, 1)), runsOf(4, 20, lognormal(rng, 0.3))
	for _, d := range cut {
		d.Status, d.Failure = result.Partial, &result.Failure{Cause: "cut"}
	}
	if r := mustCompare(t, whole, slices.Concat(whole, cut), defaults); r.NewN != 4 || !r.Judged || r.Count(Better)+r.Count(Worse) > 0 ||
		!slices.Contains(r.Remarks, "4 runs of NEW left out: partial") || !slices.Contains(r.Remarks, "a result of NEW is partial: cut") {
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
	must.Do(t, r.WriteJSON(&out, nil))
	var doc struct {
		Schema string
		Worse  int
		Rows   []map[string]any
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || doc.Schema != "perigee.compare/2" || doc.Worse != 5 || len(doc.Rows) != 5 || len(doc.Rows[0]) != len(columns) {
		t.Errorf("%v, %+v", err, doc)
	}
	if row := doc.Rows[3]; row["sender"] != 0.0 || row["receiver"] != 1.0 || row["verdict"] != Worse || row["old_n"] != 4.0 || row["metric"] != "pair_end_ms" {
		t.Errorf("%v", row)
	}
	out.Reset()
	must.Do(t, r.WriteCSV(&out, []string{"pattern", "verdict", "sender"}))
	records, err := csv.NewReader(&out).ReadAll()
	if diff := cmp.Diff([][]string{{"pattern", "verdict", "sender"}, {"0", "worse", ""}, {"1", "worse", ""}, {"", "worse", ""}, {"0", "worse", "0"}, {"1", "worse", "0"}}, records); err != nil || diff != "" {
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
		must.Fail(t, c.Run(cli.Streams{}), fault.Usage, want)
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
			must.Do(t, d.AddLabelled("bw", result.Labels{"size": size}, value, 1))
		}
		docs[i/4] = append(docs[i/4], d)
	}
	var got []string
	for _, row := range mustCompare(t, docs[0], docs[1], defaults).Rows[2:] {
		got = append(got, row.Label()+" "+row.Verdict)
	}
	must.Equal(t, []string{"bw{size=4} ~", "bw{size=8} worse", "geometric mean of 2 series, bw worse"}, got)
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
	must.Equal(t, []string{"hardware: A, 2 NUMA nodes and B, 2 NUMA nodes"}, remarks())
}

// A run that is there under two names counts once, or a side would agree with itself.
func TestTheSameRunTwice(t *testing.T) {
	folder := t.TempDir()
	write := func(name, id string) string {
		d := document(1, 3, func(int) float64 { return 1 })
		d.Job, d.Started = &result.Invocation{ID: id, Engine: "shm"}, time.Unix(1_700_000_000, 0)
		path := filepath.Join(folder, name)
		must.Do(t, d.Write(path))
		return path
	}
	first, other := write("a.json", "A"), write("b.json", "B")
	if docs, err := ReadAll([]string{first, other}, Files{}); err != nil || len(docs) != 2 {
		t.Errorf("two runs: %d, %v", len(docs), err)
	}
	copied := write("copy.json.zst", "A")
	for _, paths := range [][]string{{first, first}, {other, copied, first}, {folder}} {
		if _, err := ReadAll(paths, Files{}); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "are the same run (job A)") {
			t.Errorf("%v: %v", paths, err)
		}
	}
}
