package e2e

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/fault"
	"perigee/internal/result"
)

// comparison is what perigee compare --format json prints, and no more.
type comparison struct {
	Schema      string
	Alpha       float64
	Unit        string
	Interval    string
	Test        string
	Correction  string
	Differences []string
	Remarks     []string
	Better      int
	Worse       int
	Differ      int
	Same        int
	Rows        []struct {
		Metric                         string
		Pattern                        *int
		Name, Phase                    *string
		Sender, Receiver, Block, Batch *int
		OldN                           int `json:"old_n"`
		NewN                           int `json:"new_n"`
		Old, New                       *float64
		Change, Low, High, P, Q        *float64
		Exact                          bool
		Verdict                        string
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
	if c.Schema != "perigee.compare/1" || c.Differences == nil || c.Remarks == nil || c.Unit != "sample" && c.Unit != "run" {
		t.Errorf("head %+v", c)
	}
	count := map[string]int{}
	for _, r := range c.Rows {
		count[r.Verdict]++
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
	if count["better"] != c.Better || count["worse"] != c.Worse || count["~"] != c.Same || len(c.Rows) != c.Better+c.Worse+c.Differ+c.Same {
		t.Errorf("counted %v, said %d, %d, %d", count, c.Better, c.Worse, c.Same)
	}
	return c
}

// The medians of a comparison are those of the results, and its directions are right.
func TestCompareJSON(t *testing.T) {
	dir := harness.Files(t, map[string]string{"c.yaml": "iters: 12\nisolation_iters: 12\n" + pattern(""), "m.txt": "0 16K\n16K 0\n"})
	big := harness.Files(t, map[string]string{"c.yaml": "iters: 12\nisolation_iters: 12\n" + pattern(""), "m.txt": "0 32M\n32M 0\n"})
	for _, d := range []string{dir, big} {
		harness.MustRun(t, d, "sequential-ct-perftest", "c.yaml", "--engine", "shm", "--result", "r.json.zst")
	}
	same := readComparison(t, harness.MustRun(t, dir, "compare", "r.json.zst", "r.json.zst", "--format", "json", "--fail-on", "any").Stdout)
	if same.Same != 6 || len(same.Differences) != 0 { // the pattern and two pairs, isolated and in the workload
		t.Errorf("a result against itself: %+v", same)
	}
	o := harness.Run(t, dir, "compare", "r.json.zst", filepath.Join(big, "r.json.zst"), "--format", "json", "--force")
	if o.Code != int(fault.Worse) {
		t.Errorf("exit code %d, want %d\n%s", o.Code, fault.Worse, o.Stderr)
	}
	worse := readComparison(t, o.Stdout)
	if worse.Worse != 6 || len(worse.Differences) != 1 {
		t.Errorf("2000 times the bytes: %+v", worse)
	}
	doc, err := result.Read(filepath.Join(big, "r.json.zst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range worse.Rows {
		if r.Sender == nil && *r.Phase != result.IsolatedPhase && *r.New != *doc.Patterns[0].LatencyMS {
			t.Errorf("median of the workload %g, want %g", *r.New, *doc.Patterns[0].LatencyMS)
		}
	}
}
