package runs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/serving/runs/runstest"
)

// A folder of 21 files of vllm bench serve in three configurations is a sweep: the folder is the configuration.
func TestClients(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"tp4", "1p1d", "2p1d"} {
		for level := range 7 {
			runstest.VLLM(t, filepath.Join(dir, name, fmt.Sprintf("c%d.json", 1<<level)), 1<<level, 10+float64(i))
		}
	}
	log := filepath.Join(dir, "tp4", "c1.log") // of the same run
	text := must.Read(t, "../benchlog/testdata/vllm.log")
	for path, text := range map[string][]byte{log: text, filepath.Join(dir, "tp4", "notes.txt"): []byte("nothing to see\n"),
		filepath.Join(dir, "tp4", "other.json"): []byte(`{"a": [1, 2]}`), filepath.Join(dir, "tp4", "torn.json"): []byte(`{"a": [1,`)} {
		must.Do(t, os.WriteFile(path, text, 0o600))
	}
	in, err := Load([]string{dir}, DefaultLoadOptions())
	if err != nil || len(in.Skipped) > 0 {
		t.Fatal(err, in.Skipped)
	}
	if len(in.Runs) != 21 {
		t.Fatalf("%d runs", len(in.Runs))
	}
	scenarios := Scenarios(in.Runs)
	if len(scenarios) != 1 {
		t.Fatalf("%d scenarios", len(scenarios))
	}
	configurations := Configurations(scenarios[0].Runs, false)
	var names []string
	for _, c := range configurations {
		names = append(names, fmt.Sprintf("%s %d", c.Title(), len(c.Runs)))
	}
	if got := strings.Join(names, ", "); got != "1p1d 7, 2p1d 7, tp4 7" {
		t.Errorf("configurations: %s", got)
	}
	r := configurations[2].Runs[5] // tp4 at 32
	e2el := 82 + 99*10.
	for name, c := range map[string][2]float64{
		"concurrency": {r.Concurrency, 32}, "completed": {r.Requests, 320}, "failures": {r.Failed, 0},
		"input": {r.ISL, 1000}, "output": {r.OSL, 100}, "rate": {r.OutputRate, 32 * 100 / e2el * 1000},
		"TTFT": {r.Stat(TTFT, P99), 82}, "TPOT": {r.Stat(TPOT, Mean), 10}, "E2EL": {r.Stat(E2EL, P50), e2el},
		"user": {r.ThptPerUser(), 100 / e2el * 1000},
	} {
		if math.Abs(c[0]-c[1]) > 1e-6*c[1] {
			t.Errorf("%s: %v, want %v", name, c[0], c[1])
		}
	}
	if !math.IsNaN(r.ThptPerGPU()) || r.Harness != "vLLM" {
		t.Errorf("%v a GPU, by %s", r.ThptPerGPU(), r.Harness)
	}
	Doubts{}.Mark(in.Runs)
	for _, r := range in.Runs {
		if len(r.OffFront) > 0 {
			t.Errorf("%s: %v", r.File, r.OffFront)
		}
	}
	if notes := configurations[2].Runs[0].Notes; len(notes) != 1 || notes[0] != "a log of the same name lies beside it; only this one counts" {
		t.Errorf("%q", notes)
	}
}

// Files that are named are read, and what contradicts itself is kept off the front, as with reports.
func TestNamedClients(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c4.json")
	runstest.VLLM(t, path, 4, 10)
	text := must.Read(t, path)
	wrong := filepath.Join(dir, "wrong.json")
	must.Do(t, os.WriteFile(wrong, []byte(strings.Replace(string(text), `"completed":40`, `"completed":4`, 1)), 0o600))
	in, err := Load([]string{path, wrong}, DefaultLoadOptions())
	if err != nil || len(in.Runs) != 2 {
		t.Fatal(err, in)
	}
	Doubts{MaxFailed: 100}.Mark(in.Runs)
	for _, r := range in.Runs {
		if off := len(r.OffFront) > 0; off != strings.HasSuffix(r.File, "wrong.json") {
			t.Errorf("%s: %v", r.File, r.OffFront)
		}
	}
	lost := filepath.Join(dir, "lost.json") // by a client that counts no failures
	shorter := strings.Replace(strings.Replace(string(text), `"failed":0,`, "", 1), `"completed":40`, `"completed":30`, 1)
	must.Do(t, os.WriteFile(lost, []byte(shorter), 0o600))
	if in, err := Load([]string{lost}, DefaultLoadOptions()); err != nil || in.Runs[0].Answered() != 30 || in.Runs[0].Failed != 10 {
		t.Errorf("%v, %+v", err, in.Runs[0])
	}
	empty := filepath.Join(dir, "empty.json")
	must.Do(t, os.WriteFile(empty, []byte(`{"a": 1}`), 0o600))
	if in, err := Load([]string{empty}, DefaultLoadOptions()); err != nil || len(in.Skipped) != 1 {
		t.Errorf("%v, %+v", err, in)
	}
}
