package disagg

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

// testTree makes a tree of tests from the valid golden config.
func testTree(t *testing.T, names ...string) string {
	t.Helper()
	text := must.Read(t, "testdata/configs/00_base_valid.yaml")
	root := t.TempDir()
	for _, name := range names {
		path := filepath.Join(root, "test_configs", name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, text, 0o644))
	}
	return root
}

func TestList(t *testing.T) {
	root := testTree(t, "disagg/perf/a.yaml", "disagg/perf/b.yaml", "wideep/perf/c.yaml", "disagg/accuracy/d.yaml", "disagg/smoke/e.yaml")
	env := map[string]string{"WORK_DIR": root}
	list := func(args ...string) (selected []string, reasons string) {
		t.Helper()
		out, errs, code := perigee(t, env, append([]string{"list", "--format", "json"}, args...)...)
		if code != 0 {
			t.Fatal(code, errs)
		}
		var all []struct {
			ID, Reason string
			Selected   bool
		}
		must.Do(t, json.Unmarshal([]byte(out), &all))
		for _, c := range all {
			if c.Selected {
				selected = append(selected, c.ID)
			} else {
				reasons += c.ID + ": " + c.Reason + "\n"
			}
		}
		return selected, reasons
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "[disagg_perf_a disagg_perf_b wideep_perf_c disagg_accuracy_d]"},
		{[]string{"-m", "perf", "-k", "not wideep"}, "[disagg_perf_a disagg_perf_b]"},
		{[]string{"-k", "perf_B or accuracy"}, "[disagg_perf_b disagg_accuracy_d]"},
		{[]string{"--gpu", "LOCAL", "--type", "wideep"}, "[wideep_perf_c]"},
		{[]string{"--gpu", "H100"}, "[]"},
	} {
		if got, _ := list(c.args...); fmt.Sprint(got) != c.want {
			t.Errorf("%q: got %v, want %s", c.args, got, c.want)
		}
	}
	if _, reasons := list("--gpu", "H100"); !strings.Contains(reasons, "disagg_perf_a: GPU H100 is not in supported_gpus (GB200, LOCAL)") {
		t.Error(reasons)
	}
	out, errs, code := perigee(t, env, "list", "-m", "stress")
	if code != 0 || !strings.Contains(errs, "no metrics for disagg/smoke") || !strings.Contains(errs, "no test is selected (-m stress)") ||
		!strings.Contains(out, "4 tests, 0 selected, 4 deselected") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	empty := t.TempDir()
	if _, errs, code := perigee(t, env, "list", "--root", empty); code != 0 || !strings.Contains(errs, "(there is no <type>/<category>/*.yaml in "+empty+")") {
		t.Errorf("an empty tree: exit code %d, %s", code, errs)
	}
	for mark, want := range map[string]string{"accuracy": "3 of 4 cases deselected (-m accuracy)", "": ""} { // a run says that there are others
		_, errs, _ := perigee(t, env, "run", "--dry-run", "-m", mark, "--output", t.TempDir())
		if strings.Contains(errs, "deselected") != (want != "") || !strings.Contains(errs, want) {
			t.Errorf("run of %q: %s", mark, errs)
		}
	}
	for _, args := range [][]string{{"--root", "nowhere"}, {"--test-list", "nowhere"}, {"-k", "("}} {
		if _, errs, code := perigee(t, env, append([]string{"list"}, args...)...); code == 0 || errs == "" {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
}

// Five hundred configs take as long as thirty, 16 times.
func TestManyConfigs(t *testing.T) {
	fuzztest.Linear(t, "configs", 30, func(n int) func() {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("disagg/perf/case%03d.yaml", i))
		}
		root := testTree(t, names...)
		return func() {
			out, _, code := perigee(t, nil, "validate", root)
			if want := fmt.Sprintf("%d configurations: %[1]d valid, 0 invalid", n); code != 0 || !strings.Contains(out, want) {
				t.Errorf("exit code %d, %s", code, out)
			}
		}
	})
}
