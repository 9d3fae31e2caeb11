package disagg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/serving/batch"
	"perigee/internal/serving/config"
	"perigee/internal/serving/judge"
)

// Where no user names a GPU, a case with a section job runs, whatever its supported_gpus say, and no clock of a GPU
// is written with its figures. Cases of TensorRT-LLM are for GB200 then, as its own framework has it.
func TestGPUThatNobodyNames(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own.yaml")
	text, err := os.ReadFile("testdata/levels.yaml")
	must.Do(t, err, os.WriteFile(own, text, 0o600))
	trtllm, err := os.ReadFile("testdata/configs/00_base_valid.yaml")
	must.Do(t, err, os.WriteFile(filepath.Join(dir, "trtllm.yaml"), []byte(strings.Replace(string(trtllm), "- GB200\n", "- H100\n", 1)), 0o600))
	for _, c := range []struct {
		args []string
		env  string
		want string
	}{
		{[]string{own}, "", "1 test, 1 selected"}, {[]string{own, "--gpu", "LOCAL"}, "", "1 test, 1 selected"},
		{[]string{own, "--gpu", "H100"}, "", "deselected: GPU H100 is not in supported_gpus (LOCAL)"},
		{[]string{own}, "GB300", "deselected: GPU GB300 is not in supported_gpus (LOCAL)"},
		{[]string{filepath.Join(dir, "trtllm.yaml")}, "", "deselected: GPU GB200 is not in supported_gpus (H100, LOCAL)"},
	} {
		if out, said, _ := perigee(t, map[string]string{"GPU_TYPE": c.env}, append([]string{"list"}, c.args...)...); !strings.Contains(out, c.want) {
			t.Errorf("%q, GPU_TYPE=%s: %s%s", c.args, c.env, out, said)
		}
	}
	task := &batch.Task{Config: config.Load(own, config.Ident{Type: "disagg", Category: "perf", Stem: "own"}, config.Options{Rules: config.Strict})[0]}
	o := &outcome{Case: judge.Case{Verdict: &judge.Verdict{Levels: []judge.Level{{Concurrency: 1, Complete: true, Metrics: map[string]float64{"SERVER_MEDIAN_TTFT": 1}}}}}}
	for assumed, clock := range map[bool]int{true: 0, false: 2062} {
		r := &session{gpu: config.FindGPU("GB200"), assumed: assumed}
		if rows := r.rows(task, o); len(rows) != 1 || rows[0].SM != clock {
			t.Errorf("assumed %v: %+v", assumed, rows)
		}
	}
}
