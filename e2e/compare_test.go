package e2e

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// comparison is what perigee compare --format json prints, and no more.
type comparison struct {
	Schema      string
	Alpha       float64
	OldRuns     int `json:"old_runs"`
	NewRuns     int `json:"new_runs"`
	Judged      bool
	Advice      string
	Headline    string
	Verdict     string
	Effect      string
	Meeting     string
	Interval    string
	Test        string
	Correction  string
	Differences []string
	Remarks     []string
	Better      int
	Worse       int
	Differ      int
	Same        int
	Findings    []string
	Paths       []string `json:"path_changed"`
	Beside      []any
	Rows        []struct {
		Metric                         string
		Pattern                        *int
		Name, Phase                    *string
		Sender, Receiver, Block, Batch *int
		Unit                           *string
		Difference                     *float64
		OldN                           int `json:"old_n"`
		NewN                           int `json:"new_n"`
		Old, New                       *float64
		Change, Low, High, P, Q        *float64
		RankP                          *float64 `json:"rank_p"`
		Verdict                        *string
		Warning                        *string
	}
}

func readComparison(t *testing.T, text string) comparison {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	var c comparison
	if err := d.Decode(&c); err != nil || d.More() {
		t.Fatalf("%v:\n%s", err, text)
	}
	if c.Schema != "perigee.compare/2" || c.Differences == nil || c.Remarks == nil || c.Findings == nil || c.Judged == (c.Advice != "") {
		t.Errorf("head %+v", c)
	}
	count := map[string]int{}
	for _, r := range c.Rows {
		if r.Verdict != nil {
			count[*r.Verdict]++
		} else {
			count[""]++
		}
		if (r.Sender == nil) != (r.Receiver == nil) || r.Metric == "" {
			t.Errorf("row %+v", r)
		}
		if r.Old == nil || r.New == nil || r.Change == nil {
			t.Errorf("no figures in %+v", r)
			continue
		}
		if want := *r.New / *r.Old - 1; *r.Old > 0 && *r.Change != want {
			t.Errorf("change %g of %g to %g, want %g", *r.Change, *r.Old, *r.New, want)
		}
		if r.Low != nil && *r.Low > *r.High || r.P != nil && (*r.P < 0 || *r.P > 1) || r.Q != nil && *r.Q < *r.P {
			t.Errorf("interval or probabilities of %+v", r)
		}
	}
	if count["better"] != c.Better || count["worse"] != c.Worse || count["~"] != c.Same || len(c.Rows) != c.Better+c.Worse+c.Differ+c.Same+count[""] {
		t.Errorf("counted %v, said %d, %d, %d", count, c.Better, c.Worse, c.Same)
	}
	return c
}

// The medians of a comparison are those of the results, and its directions are right.
func TestCompareJSON(t *testing.T) {
	dir := harness.Files(t, map[string]string{"c.yaml": "iters: 12\nisolation_iters: 12\n" + pattern(""), "m.txt": "0 16K\n16K 0\n"})
	big := harness.Files(t, map[string]string{"c.yaml": "iters: 12\nisolation_iters: 12\n" + pattern(""), "m.txt": "0 32M\n32M 0\n"})
	more := []string{"r2.json.zst", "r3.json.zst", "r4.json.zst"}
	for _, d := range []string{dir, big} {
		for _, name := range append([]string{"r.json.zst"}, more...) {
			harness.MustRun(t, d, "sequential-ct-perftest", "c.yaml", "--engine", "shm", "--result", name)
		}
	}
	four := func(side, folder string) (args []string) {
		for _, name := range more {
			args = append(args, "--"+side, filepath.Join(folder, name))
		}
		return args
	}
	args := append([]string{"compare", "r.json.zst", "r.json.zst", "--format", "json", "--fail-on", "any"}, four("old", "")...)
	same := readComparison(t, harness.MustRun(t, dir, append(args, four("new", "")...)...).Stdout)
	if same.Same != 6 || len(same.Differences) != 0 || same.OldRuns != 4 { // the pattern and two pairs, isolated and in the workload
		t.Errorf("a result against itself: %+v", same)
	}
	other := filepath.Join(big, "r.json.zst")
	one := readComparison(t, harness.MustRun(t, dir, "compare", "r.json.zst", other, "--format", "json").Stdout)
	if one.Judged || one.Worse != 0 || len(one.Differences) != 1 || !strings.Contains(one.Advice, "perigee rerun r.json.zst ") {
		t.Errorf("one run against one, with 2000 times the bytes: %+v", one)
	}
	args = append([]string{"compare", "r.json.zst", other, "--format", "json"}, four("old", "")...)
	o := harness.Run(t, dir, append(args, four("new", big)...)...)
	if o.Code != int(fault.Worse) {
		t.Errorf("exit code %d, want %d\n%s", o.Code, fault.Worse, o.Stderr)
	}
	worse := readComparison(t, o.Stdout)
	if worse.Worse != 6 || len(worse.Differences) != 1 {
		t.Errorf("2000 times the bytes: %+v", worse)
	}
	doc, err := result.Read(filepath.Join(big, "r.json.zst"))
	must.Do(t, err)
	for _, r := range one.Rows {
		// The result keeps nanoseconds, of whose median both take milliseconds, each in its own order of divisions.
		want := *doc.Patterns[0].LatencyMS
		if r.Sender == nil && *r.Phase != result.IsolatedPhase && math.Abs(*r.New/want-1) > 1e-12 {
			t.Errorf("median of the workload %g, want %g", *r.New, want)
		}
	}
}

// Runs are repeated in the order a b b a; what was not said is announced, and a slowdown of one pattern is found with four runs a
// side, while the pattern beside it stays without a verdict or is at least not slower in the same way.
func TestRerunAlternates(t *testing.T) {
	dir := harness.Files(t, map[string]string{
		"c.yaml": "iters: 8\n" + pattern("") + "- matrix_file: m.txt\n", "m.txt": "0 64K\n64K 0\n",
		"s.lua": `return { ranks = 2, options = { options.size { "big", "64K", "bytes" } }, run = function(opt)
  local plans = { transfer.prepare { matrix = matrix.from { { 0, 65536 }, { 0, 0 } } }, transfer.prepare { matrix = matrix.from { { 0, opt.big }, { 0, 0 } } } }
  for _ = 1, 20 do for _, p in ipairs(plans) do world.barrier() p:run() end end
  transfer.collect(plans)
end }`,
	})
	harness.MustRun(t, dir, "run", "s.lua", "--engine", "shm", "--result", "a.json.zst")
	harness.MustRun(t, dir, "run", "s.lua", "--engine", "shm", "--big", "64M", "--result", "b.json.zst")
	o := harness.Run(t, dir, "rerun", "a.json.zst", "b.json.zst", "--times", "4", "--format", "json", "--result", "kept")
	if o.Code != int(fault.Worse) {
		t.Fatalf("exit code %d, want %d\n%s\n%s", o.Code, fault.Worse, o.Stdout, o.Stderr)
	}
	c := readComparison(t, o.Stdout)
	if c.OldRuns != 4 || c.NewRuns != 4 || !c.Judged {
		t.Errorf("%+v", c)
	}
	for _, r := range c.Rows {
		if r.Pattern != nil && *r.Pattern == 1 && (r.Verdict == nil || *r.Verdict != "worse" || *r.Change < 10) {
			t.Errorf("1000 times the bytes: %+v", r)
		}
	}
	if !strings.Contains(o.Stderr, "perigee: 8 runs of a.json.zst (a) and b.json.zst (b), in the order a b b a, about ") {
		t.Errorf("not announced:\n%s", o.Stderr)
	}
	var order string
	for line := range strings.Lines(o.Stderr) {
		if words := strings.Fields(line); len(words) > 5 && words[1] == "run" {
			order += strings.TrimSuffix(words[5], ":")
		}
	}
	if order != "abbaabba" {
		t.Errorf("order %q", order)
	}
	// The results are there, and give the same comparison.
	again := harness.Run(t, dir, "compare", "kept/a", "kept/b", "--format", "json")
	if again.Code != o.Code || again.Stdout != o.Stdout {
		t.Errorf("compare of the kept results:\n%s\nrerun:\n%s", again.Stdout, o.Stdout)
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, "claimed"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "claimed/.perigee-rerun"), nil, 0o600))
	if _, err := os.Stat(filepath.Join(dir, "kept/.perigee-rerun")); err == nil {
		t.Error("the mark of the series is left behind")
	}
	for _, bad := range []struct {
		args []string
		want string
	}{
		{[]string{"a.json.zst", "--times", "2", "--result", "r.json.zst"}, "several runs have several results"},
		{[]string{"a.json.zst", "--times", "2", "--result", "kept"}, "the folder is not empty"},
		{[]string{"a.json.zst", "--times", "2", "--result", "claimed"}, "another series of runs"},
		{[]string{"a.json.zst", "--times=-1"}, "--times: wanted a whole number from 1 to"},
		{[]string{"a.json.zst", "nowhere.json"}, "nowhere.json"},
	} {
		if o := harness.Run(t, dir, append([]string{"rerun"}, bad.args...)...); o.Code == 0 || !strings.Contains(o.Stderr, bad.want) {
			t.Errorf("%v: exit code %d, %s", bad.args, o.Code, o.Stderr)
		}
	}
}

// Two series at once do not take each other's results for their own, and one without a reader leaves no files behind.
func TestRerunsAtOnce(t *testing.T) {
	dir := harness.Files(t, map[string]string{
		"s.lua": "return { ranks = 1, metrics = { { 'x', 'anything' } }, run = function() clock.sleep(0.2) result.sample('x', 1) end }",
	})
	harness.MustRun(t, dir, "run", "s.lua", "--engine", "shm", "--result", "r.json")
	var both []*harness.Process
	for range 2 {
		both = append(both, harness.Start(t, harness.Command{Dir: dir, Args: []string{"rerun", "r.json", "--times", "4", "--result", "new", "--fail-on", "none"}}))
	}
	refused := 0
	for _, p := range both {
		switch o := p.Wait(); {
		case o.Code == int(fault.Usage) && (strings.Contains(o.Stderr, "another series of runs") || strings.Contains(o.Stderr, "the folder is not empty")):
			refused++
		case o.Code != 0:
			t.Errorf("exit code %d\n%s", o.Code, o.Stderr)
		}
	}
	if files, err := os.ReadDir(filepath.Join(dir, "new")); err != nil || refused != 1 || len(files) != 4 {
		t.Errorf("%d series refused, the folder holds %v, %v", refused, files, err)
	}
	p := harness.Start(t, harness.Command{Dir: dir, Argv: []string{"bash", "-c", `"$@" 2>&1 | head -1; exit ${PIPESTATUS[0]}`, "bash", harness.Program,
		"rerun", "r.json", "--times", "2"}})
	o := p.Wait()
	if left, err := os.ReadDir(p.Temp); err != nil || len(left) > 0 || o.Code != int(fault.Output) {
		t.Errorf("exit code %d, left %v, %v\n%s", o.Code, left, err, o.Stdout)
	}
}
