package rerun

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// envTalk makes a child of a series out of this test, which writes to standard error and fails.
const envTalk = "PERIGEE_RERUN_TEST_TALK"

func TestMain(m *testing.M) {
	if os.Getenv(envTalk) != "" {
		fmt.Fprintln(os.Stderr, "the beginning")
		for range 1000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("x", 8<<10))
		}
		fmt.Fprintln(os.Stderr, "the end")
		os.Exit(int(fault.Script))
	}
	os.Exit(m.Run())
}

// Of what a failed run has written to standard error, however much, the beginning and the end are kept.
func TestLongErrorsOfRuns(t *testing.T) {
	t.Setenv(envTalk, "1")
	var out bytes.Buffer
	r := &repetition{cmd: parse(t, "r.json", "--times", "1"), s: cli.Streams{Err: &out}}
	if err := r.child(t.Context(), "r.json", "n.json", "ID"); fault.KindOf(err) != fault.Script {
		t.Errorf("got %v", err)
	}
	text := out.String()
	if !strings.HasPrefix(text, "the beginning\nxxx") || !strings.HasSuffix(text, "xxx\nthe end\n") ||
		!strings.Contains(text, "\n... (80") || len(text) > 130<<10 {
		t.Errorf("%d bytes: %.40q ... %.40q", len(text), text, text[max(0, len(text)-40):])
	}
}

// The command line of a run says which job it is.
func TestChildArgs(t *testing.T) {
	args, err := parse(t, "r.json", "--times", "3").childArgs("-r.json", "n.json", "ID")
	if err != nil || args[0] != "rerun" {
		t.Fatal(args, err)
	}
	c := parse(t, args[1:]...)
	if j := c.job(cli.Streams{}, args); c.series() || j.ID != "ID" || j.Repeats != "-r.json" || j.Flags.Result != "n.json" || j.Conclude != nil {
		t.Errorf("%v: %+v", args, j)
	}
}

// played is the error of a series of one run, which leaves a document.
func played(t *testing.T, leave func(d *result.Document)) error {
	t.Helper()
	r := &repetition{cmd: parse(t, "r.json", "--times", "1"), s: cli.Streams{Err: io.Discard}, sides: []*side{{path: "r.json"}}, order: []int{0}, folder: t.TempDir()}
	r.run = func(_ context.Context, _, output, id string) error {
		d := document("shm", 1000)
		d.Job, d.Finished = &result.Invocation{ID: id}, &d.Started
		leave(d)
		return d.Write(output)
	}
	return r.play(t.Context())
}

// What another job has written to the place of a run's result is not taken for it.
func TestResultsOfOtherJobs(t *testing.T) {
	if err := played(t, func(*result.Document) {}); err != nil {
		t.Error(err)
	}
	for _, job := range map[string]*result.Invocation{"another": {ID: "OTHER"}, "none": nil, "without an id": {}} {
		err := played(t, func(d *result.Document) { d.Job, d.Status = job, result.Partial })
		must.Fail(t, err, fault.Output, "run 1 of 1: another job has written its result to ")
	}
}

// A run that ends early is reported with the reason that its result has.
func TestUnfinishedRuns(t *testing.T) {
	no := false
	violated := []result.Threshold{{Threshold: "x_ms.max < 1", From: "--threshold", Samples: 1, Passed: &no}}
	lost := &result.Failure{Rank: 1, Host: "h", Phase: "work", Kind: fault.RankLost, Cause: "it was killed", Hint: "look"}
	for _, c := range []struct {
		name       string
		failure    *result.Failure
		thresholds []result.Threshold
		kind       fault.Kind
		text, hint string
	}{
		{"a threshold", &result.Failure{Rank: -1, Kind: fault.Threshold, Cause: "the threshold"}, violated, fault.Threshold, "run 1 of 1 violates x_ms.max < 1, which has ended it", ""},
		{"a threshold that is not judged", &result.Failure{Rank: -1, Kind: fault.Threshold, Cause: "the threshold"}, nil, fault.Threshold, "run 1 of 1 has ended early: the threshold", ""},
		{"a lost rank", lost, nil, fault.RankLost, "run 1 of 1 has ended early: rank 1 on h, phase work: it was killed", "look"},
		{"a lost rank besides", lost, violated, fault.RankLost, "run 1 of 1 has ended early: rank 1 on h, phase work: it was killed", "look"},
		{"nothing", nil, nil, fault.Internal, "run 1 of 1 has ended before its result was complete, which does not say why", ""},
	} {
		err := played(t, func(d *result.Document) { d.Status, d.Failure, d.Thresholds = result.Partial, c.failure, c.thresholds })
		if fault.KindOf(err) != c.kind || err.Error() != c.text || fault.HintOf(err) != c.hint {
			t.Errorf("%s: kind %v, %v (%s)", c.name, fault.KindOf(err), err, fault.HintOf(err))
		}
	}
}

// A result that can be read only once is refused, and not read.
func TestSeriesOfAPipe(t *testing.T) {
	dir := t.TempDir()
	path, good := filepath.Join(dir, "r.json"), filepath.Join(t.TempDir(), "good.json")
	must.Do(t, syscall.Mkfifo(path, 0o600))
	must.Do(t, document("shm", 1000).Write(good))
	for _, args := range [][]string{{path}, {dir}, {good, path}, {path, good}} {
		_, _, err := parse(t, append(args, "--times", "2")...).prepare(cli.Streams{})
		must.Fail(t, err, fault.Input, path+": wanted a regular file")
	}
}

// Two results are repeated with the variables of each, which is said before the first run, or not at all.
func TestSidesHaveTheirVariables(t *testing.T) {
	dir := t.TempDir()
	d, o := document("nixl", 1000), document("nixl", 1000)
	o.Engine.Params = map[string]string{"UCX_TLS": "tcp"}
	o.World.Hosts = append(o.World.Hosts, result.Host{Name: "g", CPUs: 2})
	a, b := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	must.Do(t, cmp.Or(d.Write(a), o.Write(b)))
	t.Setenv("UCX_TLS", "")
	var out strings.Builder
	_, r, err := parse(t, a, b, "--times", "1").prepare(cli.Streams{Err: &out})
	must.Do(t, err)
	r.announce()
	if !strings.Contains(out.String(), "\nperigee: note: the ranks have UCX_TLS=tcp, as in the run of "+b+"\n") ||
		!strings.Contains(out.String(), "\nperigee: note: the run of "+b+" was on 2 hosts, this one is on one: ") || strings.Count(out.String(), "note:") != 2 {
		t.Error(&out)
	}
	t.Setenv("UCX_TLS", "tcp")
	if _, _, err := parse(t, a, b, "--times", "1").prepare(cli.Streams{}); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "UCX_TLS is tcp here") {
		t.Error(err)
	}
}
