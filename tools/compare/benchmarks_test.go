package compare

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/serving/judge"
	"perigee/internal/serving/runs/runstest"
)

// release writes a sweep of two configurations, each level so often; of requests without a rate.
func release(t *testing.T, folder string, repeats int, faster float64, configurations ...string) string {
	dir := filepath.Join(t.TempDir(), folder)
	for i, name := range configurations {
		for repeat := range repeats {
			for _, c := range []int{1, 8} {
				tpot := (10 + float64(i) + float64(repeat)/50 + float64(c%3)/100) * (1 - faster)
				runstest.VLLM(t, filepath.Join(dir, name, fmt.Sprintf("c%d_%d.json", c, repeat)), c, tpot)
			}
		}
	}
	return dir
}

// Two releases are compared level by level: with figures of one run each, with verdicts and intervals of repeats.
func TestReleases(t *testing.T) {
	for _, c := range []struct {
		repeats   int
		faster    float64
		kind      fault.Kind
		want, not []string
	}{
		{1, 0.1, 0, []string{
			"# 4 levels on both sides: 4 faster, 0 slower, by Output_Token_Throughput; the largest change is that of tp4 at concurrency 1: ",
			"(one run each)", "# No verdict. geometric mean of 4 levels", "one run each\n", "which takes 4 on each side",
		}, []string{"Low", "interval"}},
		{2, 0.1, 0, []string{"(95 % interval +", "2 runs against 2 runs of a level: too few"}, []string{"better", "one run each"}},
		{4, 0.1, 0, []string{"# Better: +10.", "4 faster, 0 slower", "(95 % interval +10.1% to +10.9%)", "25 better, 0 worse"}, []string{"one run each"}},
		{4, -0.1, fault.Worse, []string{"0 faster, 4 slower", "# Worse: "}, nil},
		{4, 0, 0, []string{"0 faster, 0 slower, 4 without a change that is shown", "# No change shown"}, []string{"worse\n"}},
	} {
		old, fresh := release(t, "r1", c.repeats, 0, "1p1d", "tp4"), release(t, "r2", c.repeats, c.faster, "1p1d", "tp4")
		out, err := outcomeOf(t, old, fresh)
		if fault.KindOf(err) != c.kind && (err != nil || c.kind != 0) {
			t.Errorf("%d repeats, %v faster: %v", c.repeats, c.faster, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%d repeats, %v faster: no %q in\n%s", c.repeats, c.faster, want, out)
			}
		}
		for _, not := range c.not {
			if strings.Contains(out, not) {
				t.Errorf("%d repeats, %v faster: %q in\n%s", c.repeats, c.faster, not, out)
			}
		}
	}
}

// What is on one side alone is named, and where nothing is on both, that is an error.
func TestOneSide(t *testing.T) {
	old, fresh := release(t, "r1", 1, 0, "a", "b"), release(t, "r2", 1, 0, "b", "c", "d")
	out, err := outcomeOf(t, old, fresh)
	if err != nil || !strings.Contains(out, "# note: only in OLD: a at concurrency 1, a at concurrency 8\n# note: only in NEW: c at concurrency 1, "+
		"c at concurrency 8, d at concurrency 1, 1 more\n") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = outcomeOf(t, filepath.Join(old, "a"), filepath.Join(fresh, "c")) // one configuration each
	if err != nil || !strings.Contains(out, " that of concurrency ") {
		t.Errorf("%v\n%s", err, out)
	}
	other := release(t, "r3", 1, 0, "x")
	if _, err := outcomeOf(t, old, other); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "NEW has x at concurrency 1") {
		t.Error(err)
	}
}

// Outputs of disagg are compared by the command for them, traces not at all, and kinds are not mixed.
func TestOtherKinds(t *testing.T) {
	const header = "perf_case_name,perf_metric,test_name,start_timestamp,end_timestamp,total_time__sec,metric_type\n"
	output := func(value string) string {
		dir := t.TempDir()
		text := header + "test_benchmark[a]_con:1," + value + ",test_benchmark[a]_con:1,2026-01-01 00:00:0" + value[:1] +
			",2026-01-01 00:01:00,60,SERVER_MEDIAN_TTFT\n"
		err := os.Mkdir(filepath.Join(dir, judge.LogsFolder), 0o700)
		if err = cmp.Or(err, os.WriteFile(filepath.Join(dir, judge.FiguresName), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	old, fresh := output("1.5"), output("2.5")
	if out, err := outcomeOf(t, old, fresh); err != nil || !strings.Contains(out, "SERVER_MEDIAN_TTFT   1.50   2.50") {
		t.Errorf("%v\n%s", err, out)
	}
	trace := filepath.Join(t.TempDir(), "t.jsonl")
	must.Do(t, os.WriteFile(trace, []byte(`{"timestamp": 0, "input_length": 1}`), 0o600))
	for want, paths := range map[string][2]string{
		"got a trace": {trace, trace}, " holds figures of perigee disagg, and ": {old, trace},
	} {
		if _, err := outcomeOf(t, paths[0], paths[1]); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// outcomeOf runs the command as a user does.
func outcomeOf(t *testing.T, old, fresh string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	var c Cmd
	k, err := cli.Parser(&c)
	if err == nil {
		_, err = k.Parse([]string{old, fresh})
	}
	must.Do(t, err)
	err = c.Run(cli.Streams{Out: &out, Err: io.Discard, Env: os.Getenv})
	return out.String(), err
}
