package figures

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// thinned is a result of one pattern whose runs take what some times are long, of which every n-th is kept.
func thinned(ns []int64, n int) *result.Document {
	d := &result.Document{
		Schema: result.Schema, Status: result.Complete,
		World:    result.World{Size: 2, Launcher: "local", Hosts: []result.Host{{Name: "a", Ranks: []int{0, 1}, CPUs: 2}}, Clocks: []result.Clock{{}}},
		Matrices: []result.Matrix{{Ranks: 2, Bytes: 100, Cells: [][3]int64{{0, 1, 100}}}},
		Patterns: []result.Pattern{{Name: "p", Op: "WRITE", Mem: "dram", Senders: 1}},
	}
	all, now := &result.Totals{Phase: "workload"}, int64(0)
	for i, took := range ns {
		r := series.Run{StartNS: now, EndNS: now + took, Filled: n > 1, Ranks: []series.RankRun{
			{StartNS: now, PostNS: now, EndNS: now + took, Bytes: 100, Peers: []series.PeerRun{{Peer: 1, Bytes: 100, EndNS: now + took}}},
		}}
		m := result.Measure(0, "workload", i, r)
		all.Add(&m, nil)
		if i%n == 0 {
			d.Measurements, all.Kept = append(d.Measurements, m), all.Kept+1
		}
		now += took + 10
	}
	if all.Settle(); n > 1 {
		d.Totals = []*result.Totals{all}
	}
	return d
}

// What a report says of all runs does not depend on how many of them the result keeps, nor whether it is pooled.
func TestFiguresOfRunsThatAreNotKept(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	ns := make([]int64, 10_000)
	for i := range ns {
		ns[i] = int64(1e5 * math.Exp(random.NormFloat64()))
	}
	want, err := Of(thinned(ns, 1))
	must.Do(t, err)
	some := thinned(ns, 100)
	got, err := Of(some)
	must.Do(t, err)
	same := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got/want-1) < 0.005) {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	p, q := got.Patterns[0], want.Patterns[0]
	for _, c := range []struct {
		what      string
		got, want Num
	}{
		{"latency", p.LatencyNS, q.LatencyNS}, {"p10", p.P10NS, q.P10NS}, {"p90", p.P90NS, q.P90NS},
		{"fastest", p.FastestNS, q.FastestNS}, {"slowest", p.SlowestNS, q.SlowestNS}, {"bandwidth", p.TotalBandwidth, q.TotalBandwidth},
		{"runs", Num(p.Runs), Num(q.Runs)}, {"all runs", Num(got.Runs), Num(want.Runs)}, {"messages", Num(got.Messages), Num(want.Messages)},
		{"bytes", Num(got.Bytes), Num(want.Bytes)},
	} {
		same(c.what, float64(c.got), float64(c.want))
	}
	if len(got.Latencies) != 2 || len(want.Latencies) != 2 {
		t.Fatalf("%d and %d distributions", len(got.Latencies), len(want.Latencies))
	}
	for i, l := range got.Latencies {
		w := want.Latencies[i]
		same(l.Of+" p50", float64(l.P50), float64(w.P50))
		same(l.Of+" p99", float64(l.P99), float64(w.P99))
		same(l.Of+" p99.9", float64(l.P999), float64(w.P999))
		same(l.Of+" max", float64(l.Max), float64(w.Max))
		same(l.Of+" count", float64(l.Count), float64(w.Count))
	}

	var paths []string
	for i, d := range []*result.Document{some, thinned(ns[:5000], 1)} {
		d.Job = &result.Invocation{ID: fmt.Sprint("job", i)}
		paths = append(paths, filepath.Join(t.TempDir(), "r.json"))
		must.Do(t, d.Write(paths[i]))
	}
	pool, err := Pool(paths)
	must.Do(t, err)
	if pool.Runs != 15_000 || pool.Patterns[0].Runs != 15_000 || pool.Latencies[0].Count != 15_000 {
		t.Errorf("pooled are %d runs, %d of the pattern, %d latencies", pool.Runs, pool.Patterns[0].Runs, pool.Latencies[0].Count)
	}
}
