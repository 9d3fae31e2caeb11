package experiment

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/must"
	"perigee/internal/kit/stats"
	"perigee/internal/result"
	"perigee/internal/traffic/play"
	"perigee/internal/traffic/series"
	"perigee/spmd"
)

// job feeds an experiment with runs of one pattern, as a job of given duration does.
type job struct {
	*Experiment
	random *rand.Rand
	now    int64
	ms     []float64 // of all runs so far
}

func newJob(path string) *job {
	worlds, _ := spmd.NewInMemory(1)
	e := Begin(Config{World: worlds[0], File: path, Out: &bytes.Buffer{}})
	e.Doc.Patterns = []result.Pattern{{Mem: "dram", Op: "WRITE", Shards: 1, Senders: 1}}
	e.Doc.Matrices = []result.Matrix{{Ranks: 1, Bytes: 4096, Cells: [][3]int64{{0, 0, 4096}}}}
	return &job{Experiment: e, random: rand.New(rand.NewPCG(1, 2))}
}

// play gathers a stretch of runs, whose times have a long tail.
func (j *job) play(runs int) {
	c := play.Collected{}
	for i := range runs {
		took := int64(1000 * math.Exp(2*j.random.NormFloat64()))
		k := series.RankRun{StartNS: j.now, PostNS: j.now, EndNS: j.now + took, Bytes: 4096}
		k.Peers = []series.PeerRun{{Bytes: 4096, EndNS: k.EndNS}}
		r := series.Run{Phase: "workload", Filled: i == 0}
		r.Add(k)
		c.Runs, j.now, j.ms = append(c.Runs, r), k.EndNS+100, append(j.ms, float64(took)/1e6)
	}
	saved := j.early[0]
	saved.Add(j.addRuns(0, c))
	j.early[0] = saved
}

// A job keeps a tenth of its 200,000 runs: what it has in memory grows by less than 20 MB over the last 150,000.
func TestMemoryOfALongJobIsBounded(t *testing.T) {
	const stretch, most = 1000, 20 << 20
	j := newJob("")
	var at [2]runtime.MemStats
	for i := range 200 {
		j.Keep(stretch / 10)
		j.play(stretch)
		j.ms = j.ms[:0]
		if i == 49 {
			runtime.GC()
			runtime.ReadMemStats(&at[0])
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&at[1])
	if more := int64(at[1].HeapAlloc) - int64(at[0].HeapAlloc); more >= most {
		t.Errorf("%d bytes more after 200,000 runs than after 50,000, want less than %d", more, most)
	}
	all := j.Doc.TotalsOf(0, "workload")
	if n := len(j.Doc.Measurements); n != 20_000 || len(j.early[0].Runs) != n || all.Kept != n || all.Runs != 200_000 {
		t.Errorf("%d measurements, %d for the script, totals of %d of %d", n, len(j.early[0].Runs), all.Kept, all.Runs)
	}
	if text := j.Doc.KeptText(); !strings.HasPrefix(text, "20000 of 200000 runs") {
		t.Errorf("the note is %q", text)
	}
	runtime.KeepAlive(j)
}

// What is said of all runs is that of all runs, whatever is kept; their numbers stay, and what lies between two that are
// kept counts for nothing. A journal has it too.
func TestTotalsAreThoseOfAllRuns(t *testing.T) {
	j := newJob(filepath.Join(t.TempDir(), "r.json"))
	whole := newJob("")
	for i := range 40 {
		j.Keep([]int{0, 3}[i%2])
		j.play(250)
		whole.play(250)
	}
	j.Doc.Finish(nil)
	whole.Doc.Finish(nil)
	for _, text := range []string{"min", "p50", "p90", "p99", "p99.9", "max", "mean", "stddev", "count", "rate"} {
		for _, name := range []string{"latency_ms", `latency_ms{phase="workload"}`, "pair_latency_ms"} {
			limit, err := metric.Parse(name + "." + text + " < 1e9")
			must.Do(t, err)
			got, want := limit.Judge(j.Doc), limit.Judge(whole.Doc)
			if off := got.Value/want.Value - 1; math.Abs(off) > 0.005 || got.Samples != 10_000 || !got.Passed {
				t.Errorf("%s is %g of %d, want %g", limit, got.Value, got.Samples, want.Value)
			}
		}
	}
	for _, name := range []string{"total_time_s", "avg_latency_s", "algorithm_bw_gb_per_s"} {
		got, want := metric.Of(j.Doc, name), metric.Of(whole.Doc, name)
		if len(got) != 1 || math.Abs(got[0].Value/want[0].Value-1) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	slices.Sort(j.ms)
	if got, want := *j.Doc.Patterns[0].LatencyMS, stats.Quantile(j.ms, 0.5); math.Abs(got/want-1) > 0.005 {
		t.Errorf("the latency of the pattern is %g ms, want %g", got, want)
	}
	for i, m := range j.Doc.Measurements {
		if first := i%3 == 0; m.Iteration != 250+i/3*500+i%3 || m.Filled != first {
			t.Fatalf("measurement %d is run %d, filled %t", i, m.Iteration, m.Filled)
		}
	}
	limit, _ := metric.Parse("mean_bw_gb_per_s.count == 10000")
	if o := limit.Judge(j.Doc); o.Passed || !strings.Contains(o.String(), "keeps 60 of 10000 runs") {
		t.Errorf("%s", o)
	}

	j.checkpoint(0)
	read, err := result.Read(j.File + result.PartEnding)
	must.Do(t, err)
	got, _ := json.Marshal(read.Totals)
	want, _ := json.Marshal(j.Doc.Totals)
	if !bytes.Equal(got, want) || len(read.Measurements) != 60 {
		t.Errorf("the journal has %d measurements and the totals %s, want %s", len(read.Measurements), got, want)
	}
}

// Without Keep every run is kept, and the result has no totals.
func TestAllRunsAreKept(t *testing.T) {
	j := newJob("")
	j.play(100)
	if len(j.Doc.Measurements) != 100 || j.Doc.Totals != nil || j.Doc.KeptText() != "" {
		t.Errorf("%d measurements, totals %v, %q", len(j.Doc.Measurements), j.Doc.Totals, j.Doc.KeptText())
	}
}

// Files beside the traffic go with their runs.
func TestFilesOfRunsThatAreKept(t *testing.T) {
	j := newJob("")
	c := play.Collected{}
	for i := range 4 {
		start := int64(1000 * i)
		r := series.Run{Phase: "workload"}
		r.Add(series.RankRun{StartNS: start, EndNS: start + 10})
		c.Runs = append(c.Runs, r)
		c.Storage = append(c.Storage, series.StorageRun{Op: "READ", Iteration: i, Bytes: int64(i), StartNS: start, EndNS: start + 500, Phase: "workload"})
	}
	j.Keep(0)
	j.addRuns(0, play.Collected{Runs: slices.Clone(c.Runs[:2]), Storage: slices.Clone(c.Storage[:2])})
	j.Keep(1)
	for i := range c.Storage {
		c.Storage[i].Iteration -= 2
	}
	j.addRuns(0, play.Collected{Runs: c.Runs[2:], Storage: c.Storage[2:]})
	if s := j.Doc.Storage; len(s) != 1 || s[0].Bytes != 2 || s[0].Iteration != 0 {
		t.Errorf("files are %+v, want those of run 2", s)
	}
	if all := j.Doc.TotalsOf(0, "workload"); all.TotalNS != 3500 || all.Runs != 4 || all.Kept != 1 {
		t.Errorf("totals are %+v", all)
	}
}
