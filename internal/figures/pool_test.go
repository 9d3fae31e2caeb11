package figures

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// pooled is a result of one pattern that ran alone and, for longer, at the same time as another, in so many runs.
func pooled(id string, runs int, alone, together int64) *result.Document {
	d := &result.Document{
		Schema: result.Schema, Status: result.Complete, Overlaps: true, Job: &result.Invocation{ID: id},
		Scenario: result.Scenario{Name: "x.lua", SHA256: "aa"}, Phases: []result.Phase{{Name: "isolated"}, {Name: "workload", StartNS: 1000}},
		World:    result.World{Size: 2, Hosts: []result.Host{{Name: "h" + id, Ranks: []int{0, 1}}}},
		Matrices: []result.Matrix{{SHA256: "bb", Ranks: 2, Bytes: 8, Cells: [][3]int64{{0, 1, 8}}}},
		Patterns: []result.Pattern{{Name: "p", Op: "WRITE"}},
	}
	of := func(ns int64, overlap *series.Overlap) series.Run {
		return series.Run{EndNS: ns, Ranks: []series.RankRun{{EndNS: ns, Bytes: 8, Peers: []series.PeerRun{{Peer: 1, Bytes: 8, EndNS: ns, Overlap: overlap}}}}}
	}
	for i := range int64(runs) {
		d.AddRuns(0, "isolated", int(i), []series.Run{of(alone+i, nil)})
		d.AddRuns(0, "workload", int(i), []series.Run{of(together+i, &series.Overlap{Share: 1, Messages: 1, Shared: "receiver"})})
	}
	d.DeclareMetrics([]result.MetricDef{{Name: "own"}})
	d.AddSample("own", float64(alone), 5000)
	return d
}

func written(t *testing.T, docs ...*result.Document) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for i, d := range docs {
		path := filepath.Join(dir, fmt.Sprint(i, ".json"))
		must.Do(t, d.Write(path))
		paths = append(paths, path)
	}
	return paths
}

// The runs of several results count together, and each by itself: three results of two runs are enough for an
// interval, which takes five.
func TestPool(t *testing.T) {
	paths := written(t, pooled("a", 2, 1000, 2000), pooled("b", 2, 1100, 2200), pooled("c", 2, 1200, 2400))
	one, err := Read(paths[0])
	if err != nil || one.Contention.Runs != 2 || one.Contention.Low.Known() {
		t.Fatalf("%v, %+v", err, one.Contention.Cost)
	}
	f, err := Pool(paths)
	must.Do(t, err)
	p, m := f.Patterns[0], f.Document.Metrics[0]
	if f.Runs != 12 || p.Runs != 6 || p.IsolatedRuns != 6 || p.LatencyNS != 2200.5 || p.FastestNS != 2000 || p.SlowestNS != 2401 {
		t.Errorf("%d runs, %+v", f.Runs, p)
	}
	if c := f.Contention.Cost; c.Runs != 6 || !(c.Low > 1.5) || !(c.High < 2.5) {
		t.Errorf("%+v", c)
	}
	if fmt.Sprint(m.Values, m.TimesNS) != fmt.Sprint([]int{1000, 1100, 1200}, []int64{5000, 5000 + 1<<50, 5000 + 2<<50}) || len(f.Timeline.Spans) != len(one.Timeline.Spans) || len(f.LeftOut) != 1 {
		t.Errorf("%+v, %d spans, %q", m, len(f.Timeline.Spans), f.LeftOut)
	}
}

// Results that are not of one workload are refused with the setting that differs.
func TestPoolRefuses(t *testing.T) {
	change := func(change func(d *result.Document)) *result.Document {
		d := pooled("b", 2, 1000, 2000)
		change(d)
		return d
	}
	for want, d := range map[string]*result.Document{
		"are not of one workload: op: WRITE and READ": change(func(d *result.Document) { d.Patterns[0].Op = "READ"; d.Measurements = nil }),
		"are not of one workload: patterns: 1 and 2": change(func(d *result.Document) {
			d.Patterns = append(d.Patterns, d.Patterns[0])
			d.Measurements[0].Pattern = 1
		}),
		"are not of one workload: ranks of the hosts: [0 1] and [0] [1]": change(func(d *result.Document) {
			d.World.Hosts = []result.Host{{Name: "h", Ranks: []int{0}}, {Name: "i", Ranks: []int{1}}}
		}),
		"are the same run (job a): it would count twice": pooled("a", 2, 1000, 2000),
	} {
		if f, err := Pool(written(t, pooled("a", 2, 1000, 2000), d)); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), want) || f != nil {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
