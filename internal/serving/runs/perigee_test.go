package runs

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// document is a result with two phases of a pattern and a block transfer.
func document() *result.Document {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ended := began.Add(90 * time.Second)
	run := func(phase string, iteration int, latency int64) result.Measurement {
		rank := series.RankRun{StartNS: 0, PostNS: 1, EndNS: latency, Bytes: 4e6}
		m := result.Measurement{Phase: phase, Iteration: iteration, LatencyNS: latency, Run: series.Run{EndNS: latency, Ranks: []series.RankRun{rank}}}
		m.MeanBandwidth = m.Run.MeanBandwidth()
		return m
	}
	return &result.Document{
		Schema: result.Schema, Status: result.Complete, Started: began, Finished: &ended, Scenario: result.Scenario{Name: "mine"}, World: result.World{Size: 2},
		Engine: &result.Engine{Name: "shm"}, Matrices: []result.Matrix{{Ranks: 2, Bytes: 4e6}}, Patterns: []result.Pattern{{Matrix: 0}},
		Measurements: []result.Measurement{run("workload", 0, 2e6), run("isolated", 0, 1e6), run("workload", 1, 4e6)},
		Lanes:        []result.Lanes{{Measurement: series.Measurement{Op: "WRITE", BlockBytes: 65536, Batch: 8, Threads: 2, EndNS: 1e9, Bytes: 3e9, Bandwidth: 3e9, Latency: series.Stats{Count: 5, Mean: 250000}}}},
	}
}

func TestResultsOfPerigee(t *testing.T) {
	for _, name := range []string{"r.json", "r.json.gz", "r.json.zst"} {
		dir := copyTree(t)
		must.Do(t, document().Write(filepath.Join(dir, name)))
		must.Do(t, os.WriteFile(filepath.Join(dir, "other.json"), []byte(`{"schema":"something"}`), 0o644))
		in, err := Load([]string{dir}, DefaultLoadOptions())
		if err != nil || len(in.Skipped) > 0 || len(in.Runs) != 16 {
			t.Fatalf("%s: %v, skipped %+v, %d runs", name, err, in.Skipped, len(in.Runs))
		}
		var got []map[string]any
		for _, r := range in.Runs[13:] { // they stand last
			got = append(got, cellsOf(t, r, "Name", "Transfer_Latency_ms", "Transfer_GBps", "Duration", "Start", "Backend", "Concurrency", "Model"))
		}
		row := func(name string, ms, rate any) map[string]any {
			return map[string]any{
				"Name": name, "Transfer_Latency_ms": ms, "Transfer_GBps": rate, "Duration": int64(90), "Start": "2026-01-02T03:04:05Z", "Backend": "shm", "Concurrency": nil, "Model": nil,
			}
		}
		want := []map[string]any{
			row("mine WRITE 65536 B x8, 2 threads", 0.25, int64(3)), row("mine isolated", int64(1), int64(4)), row("mine workload", int64(3), 1.5),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Patterns of different sizes count alike: the figure of a phase is the geometric mean of their medians, and no outlier or large
// pattern decides it.
func TestPatternsCountAlike(t *testing.T) {
	d := document()
	d.Patterns, d.Lanes = append(d.Patterns, result.Pattern{Matrix: 0}), nil
	run := func(pattern, iteration int, latency int64) result.Measurement {
		rank := series.RankRun{EndNS: latency, Bytes: 4e6}
		m := result.Measurement{Pattern: pattern, Phase: "workload", Iteration: iteration, LatencyNS: latency, Run: series.Run{EndNS: latency, Ranks: []series.RankRun{rank}}}
		m.MeanBandwidth = m.Run.MeanBandwidth()
		return m
	}
	d.Measurements = []result.Measurement{run(0, 0, 1e6), run(0, 1, 1e6), run(0, 2, 9e9), run(1, 0, 100e6), run(1, 1, 100e6)}
	dir := t.TempDir()
	must.Do(t, d.Write(filepath.Join(dir, "r.json")))
	in, err := Load([]string{dir}, DefaultLoadOptions())
	if err != nil || len(in.Runs) != 1 {
		t.Fatalf("%v, %d runs, skipped %+v", err, len(in.Runs), in.Skipped)
	}
	if got := in.Runs[0].TransferMS; math.Abs(got-10) > 1e-9 {
		t.Errorf("%v ms, want 10", got)
	}
}

// A linked folder is not followed, and the import says so.
func TestLinkedFoldersAreReported(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	must.Do(t, document().Write(filepath.Join(other, "r.json")))
	must.Do(t, os.Symlink(other, filepath.Join(dir, "linked")))
	must.Do(t, document().Write(filepath.Join(dir, "r.json")))
	in, err := Load([]string{dir}, DefaultLoadOptions())
	if err != nil || in.Links != 1 || in.Link != filepath.Join(dir, "linked") || len(in.Runs) != 3 {
		t.Errorf("%v, %d links (%s), %d runs", err, in.Links, in.Link, len(in.Runs))
	}
}

// A result that was cut off, or is of a later version, is skipped with its reason.
func TestBadResultsOfPerigee(t *testing.T) {
	dir := t.TempDir()
	d := document()
	must.Do(t, d.Write(filepath.Join(dir, "whole.json")))
	text := must.Read(t, filepath.Join(dir, "whole.json"))
	newer := bytes.Replace(text, []byte("perigee.result/1"), []byte("perigee.result/99"), 1)
	blanks := bytes.Replace(newer, []byte(`"schema":`), []byte("\"schema\" :\n "), 1) // as other programs write it
	for name, content := range map[string][]byte{"cut.json": text[:len(text)/2], "newer.json": newer, "blanks.json": blanks} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
	in, err := Load([]string{dir}, DefaultLoadOptions())
	if err != nil || len(in.Runs) != 3 || len(in.Skipped) != 3 {
		t.Fatalf("%v, %d runs, skipped %+v", err, len(in.Runs), in.Skipped)
	}
}
