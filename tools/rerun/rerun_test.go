package rerun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
	"perigee/tools/run"
)

func parse(t *testing.T, args ...string) *Cmd {
	t.Helper()
	var c Cmd
	k, err := cli.Parser(&c, kong.Writers(io.Discard, io.Discard))
	must.Do(t, err)
	if _, err := k.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &c
}

// What the user does not say is left to the result.
func TestJob(t *testing.T) {
	three := 3
	for _, c := range []struct {
		args  string
		want  run.Flags
		aside bool
	}{
		{"r.json", run.Flags{Engine: run.Same}, false},
		{"r.json --engine auto -n 3 --timeout 5s --iface lo", run.Flags{Engine: "auto", Ranks: &three, Timeout: run.Duration(5 * time.Second), Iface: "lo"}, false},
		{"r.json --engine nixl --nixl-lib x --result n.json --threshold a.max<1 --format json", run.Flags{Engine: "nixl", NixlLib: "x", Result: "n.json", Threshold: []string{"a.max<1"}}, true},
		{"r.json --allow-io", run.Flags{Engine: run.Same, AllowIO: true}, false},
		{"r.json --format csv", run.Flags{Engine: run.Same}, true},
	} {
		process := append([]string{"rerun"}, strings.Fields(c.args)...)
		j := parse(t, process[1:]...).job(cli.Streams{}, process)
		if diff := cmp.Diff(c.want, j.Flags); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.args, diff)
		}
		if j.Repeats != "r.json" || j.Aside != c.aside || !slices.Equal(j.Process, process) || j.Conclude == nil {
			t.Errorf("%s: %+v", c.args, j)
		}
	}
	for _, args := range []string{"r.json --alpha 1", "r.json --columns nope", "r.json --sort nope"} {
		if err := parse(t, strings.Fields(args)...).Run(cli.Streams{}, nil); fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// document is the result of a pattern of 20 runs, each of about ns.
func document(engine string, ns int64) *result.Document {
	d := &result.Document{
		Schema: result.Schema, Status: result.Complete, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Scenario: result.Scenario{Name: "x.lua", SHA256: "aa"}, World: result.World{Size: 2, Launcher: "local", Hosts: []result.Host{{Name: "h", Ranks: []int{0, 1}, CPUs: 2}}},
		Engine: &result.Engine{Name: engine}, Matrices: []result.Matrix{{SHA256: "bb"}}, Patterns: []result.Pattern{{Name: "p"}},
	}
	if engine == "nixl" {
		d.Engine.Library = "libnixl_capi.so"
	}
	var runs []series.Run
	for i := range int64(20) {
		runs = append(runs, series.Run{EndNS: ns + i, Ranks: []series.RankRun{{EndNS: ns + i}}})
	}
	d.AddRuns(0, "work", 0, runs)
	return d
}

func TestConclude(t *testing.T) {
	for _, c := range []struct {
		name, args string
		fresh      *result.Document
		kind       fault.Kind // 0: no error
		out        string
	}{
		{"as before", "", document("shm", 1000), 0, "# no verdicts: 1 run against 1 run: too few for a verdict at alpha 0.05, which takes 4 on each side. To make them: now perigee rerun r.json --times 5 --result before, after the change perigee rerun r.json --times 5 --result after, and in the end perigee compare before after"},
		{"slower", "", document("shm", 2000), 0, "+99.06%"},
		{"quicker, with any change forbidden", "--fail-on any", document("shm", 500), 0, "-49.53%"},
		{"another engine", "--engine nixl", document("nixl", 1000), 0, "# OLD engine shm; NEW engine nixl\n"},
	} {
		var out bytes.Buffer
		s := cli.Streams{Out: &out}
		err := parse(t, strings.Fields("r.json --pairs none "+c.args)...).job(s, []string{"rerun"}).Conclude(document("shm", 1000), c.fresh)
		if c.kind == 0 && err != nil || c.kind != 0 && fault.KindOf(err) != c.kind {
			t.Errorf("%s: got %v, want kind %d", c.name, err, c.kind)
		}
		if !strings.HasPrefix(out.String(), "# r.json, of 2026-01-02 03:04:05 UTC, and this run:\n") || !strings.Contains(out.String(), c.out) {
			t.Errorf("%s: lacks %q:\n%s", c.name, c.out, &out)
		}
	}
	var out bytes.Buffer
	named := parse(t, "r\x1b[2J\n\u202e.json").job(cli.Streams{Out: &out}, nil)
	if err := named.Conclude(document("shm", 1000), document("shm", 1000)); err != nil || strings.ContainsAny(out.String(), "\x1b\u202e") ||
		strings.Count(out.String(), `r\x1b[2J\n\u202e.json`) != 3 {
		t.Errorf("%v: the name of the file is not escaped: %q", err, &out)
	}
	out.Reset()
	j := parse(t, "r.json", "--format", "json").job(cli.Streams{Out: &out}, []string{"rerun"})
	if err := j.Conclude(document("shm", 1000), document("shm", 1000)); err != nil || !json.Valid(out.Bytes()) {
		t.Errorf("%v:\n%s", err, &out)
	}
}

// A new result is put beside the old one, where nothing is yet.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct{ make, of, ending, want string }{
		{"", "r.json.zst", ".json.zst", "r-rerun-1.json.zst"},
		{"r-rerun-1.json", "r.json", ".json.zst", "r-rerun-2.json.zst"},
		{"r-rerun-2/x", "r.json.gz", "", "r-rerun-3"},
		{"", "folder/", "", "folder-rerun-1"},
	} {
		if c.make != "" {
			path := filepath.Join(dir, c.make)
			must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)))
		}
		if got := beside(dir+"/"+c.of, c.ending); got != filepath.Join(dir, c.want) {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
}

// The ranks that are started here know the place, and what is not kept is said.
func TestPlace(t *testing.T) {
	dir := t.TempDir()
	of := filepath.Join(dir, "r.json")
	must.Do(t, document("shm", 1).Write(of))
	var out strings.Builder
	s := cli.Streams{Err: &out}
	process, err := parse(t, of).place(s, []string{"rerun", of})
	want := filepath.Join(dir, "r-rerun-1.json.zst")
	if err != nil || !slices.Equal(process, []string{"rerun", "--result=" + want, of}) || out.String() != "perigee: the new result goes to "+want+"\n" {
		t.Errorf("%q, %v, %s", process, err, &out)
	}
	for _, args := range [][]string{{of, "--result", "x.json"}, {of, "--only-run", "id"}, {dir + "/none.json"}, {dir}} {
		out.Reset()
		if process, err := parse(t, args...).place(s, []string{"rerun"}); err != nil || len(process) != 1 || out.Len() > 0 {
			t.Errorf("%q: %q, %v, %s", args, process, err, &out)
		}
	}
}

// A series without --result keeps its results beside the first, and leaves nothing where there are none.
func TestSeriesStaysBeside(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	cmd := parse(t, filepath.Join(dir, "r.json"), "--times", "2", "--pairs", "none")
	r := &repetition{cmd: cmd, s: cli.Streams{Out: io.Discard, Err: &out}, sides: []*side{{path: cmd.Of, of: document("shm", 1000)}}, order: make([]int, 2), folder: beside(cmd.Of, "")}
	for fails, left := range map[bool]int{true: 0, false: 2} {
		r.sides[0].docs = nil
		must.Do(t, claim(r.folder))
		r.announce()
		r.run = func(_ context.Context, _, output, id string) error {
			d := document("shm", 1000)
			d.Job, d.Finished = &result.Invocation{ID: id}, &d.Started
			if fails {
				return fault.New(fault.Launch, "none")
			}
			return d.Write(output)
		}
		if err := r.play(t.Context()); (err != nil) != fails {
			t.Error(err)
		}
		r.close()
		files, _ := os.ReadDir(filepath.Join(dir, "r-rerun-1"))
		if len(files) != left || !strings.Contains(out.String(), "; the new results go to "+filepath.Join(dir, "r-rerun-1")+"\n") {
			t.Errorf("fails %v: %d files\n%s", fails, len(files), &out)
		}
		must.Do(t, os.RemoveAll(filepath.Join(dir, "r-rerun-1")))
	}
}

// A series with violated thresholds ends as one run does; one that a threshold has cut is none to compare.
func TestSeriesKeepsThresholds(t *testing.T) {
	for _, c := range []struct {
		name      string
		cut       bool
		violate   int // runs, from the first
		kind      fault.Kind
		text, out string
	}{
		{"none", false, 0, 0, "", "# OLD: r.json; NEW: 3 runs now\n"},
		{"two", false, 2, fault.Threshold, "violated thresholds: x_ms.max < 1 in 2 runs (2 to 3)", "# OLD: r.json; NEW: 3 runs now\n"},
		{"the first is cut", true, 1, fault.Threshold, "run 1 of 3 violates x_ms.max < 1, which has ended it", ""},
	} {
		cmd := parse(t, "r.json", "--times", "3", "--pairs", "none")
		var out bytes.Buffer
		r := &repetition{cmd: cmd, s: cli.Streams{Out: &out, Err: io.Discard}, sides: []*side{{path: "r.json"}}, order: make([]int, 3), folder: t.TempDir()}
		made := 0
		r.run = func(_ context.Context, _, output, id string) error {
			d := document("shm", 1000)
			d.Job = &result.Invocation{ID: id}
			passed := made >= c.violate
			value := float64(2 + made)
			if passed {
				value = 0.5
			}
			d.Thresholds = []result.Threshold{{Threshold: "x_ms.max < 1", From: "--threshold", Value: &value, Samples: 1, Passed: &passed}}
			if c.cut && !passed {
				d.Status = result.Partial
			}
			made++
			d.Finished = &d.Started
			return d.Write(output)
		}
		err := r.finish([]*result.Document{document("shm", 1000)}, r.play(t.Context()))
		if c.kind == 0 && err != nil || c.kind != 0 && (fault.KindOf(err) != c.kind || err.Error() != c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !strings.HasPrefix(out.String(), c.out) || c.out == "" && out.Len() > 0 {
			t.Errorf("%s: %s", c.name, &out)
		}
	}
}
