package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

// tree makes files below a new folder.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte("a: 1\n"), 0o644))
	}
	return root
}

func ids(list []Source) (all []string) {
	for _, e := range list {
		all = append(all, e.Ident.String())
	}
	return all
}

func TestDiscover(t *testing.T) {
	root := tree(t, "wideep/perf/b.yaml", "wideep/perf/a.yaml", "disagg/stress/s.yaml", "disagg/accuracy/q.yaml", "disagg/perf/z.yaml", "disagg/perf/z-temp.yaml",
		"disagg/perf/y.yml", "disagg/perf/.h.yaml", "disagg/perf/deep/d.yaml", "templates/perf/t.yaml", "disagg/templates/t.yaml", "disagg/smoke/p.yaml", "top.yaml")
	list, skipped, err := Discover(root)
	must.Do(t, err)
	want := []string{"disagg_perf_z", "wideep_perf_a", "wideep_perf_b", "disagg_accuracy_q", "disagg_stress_s"}
	must.Equal(t, want, ids(list))
	if s := strings.Join(skipped, "\n"); len(skipped) != 2 || !strings.Contains(s, "no metrics for disagg/smoke") || !strings.Contains(s, "a leftover beside z.yaml") {
		t.Error(s)
	}
	if _, _, err := Discover(filepath.Join(root, "nowhere")); err == nil {
		t.Error("a missing root was taken")
	}
}

func TestPaths(t *testing.T) {
	root := tree(t, "test_configs/wideep/accuracy/a.yaml", "lone.yaml")
	for arg, want := range map[string]string{
		"test_configs/wideep/accuracy/a.yaml": "wideep_accuracy_a", "test_configs/wideep/accuracy": "wideep_accuracy_a", "test_configs/wideep": "wideep_accuracy_a",
		"test_configs": "wideep_accuracy_a", "": "wideep_accuracy_a", "lone.yaml": "disagg_perf_lone",
	} {
		list, err := Paths([]string{filepath.Join(root, arg)})
		if err != nil || len(list) != 1 || list[0].Ident.String() != want {
			t.Errorf("%q: %v, %v, want %s", arg, ids(list), err, want)
		}
	}
	if _, err := Paths([]string{t.TempDir()}); err == nil {
		t.Error("an empty folder was taken")
	}
}

func TestExpr(t *testing.T) {
	name := "test_benchmark[disagg_perf_deepseek-r1-fp4_1k1k_ctx1]"
	for text, want := range map[string]bool{
		"": true, "deepseek": true, "DeepSeek-R1-fp4_1k1k": true, "qwen": false, "not qwen": true, "qwen or 1k1k": true, "deepseek and not 1k1k": false,
		"not (qwen or 8k1k) and ctx1": true, "not not ctx1": true, "a and b or ctx1": true, "[disagg_perf": true,
	} {
		e, err := ParseExpr(text)
		if err != nil || e.Match(name) != want {
			t.Errorf("%q: %v, %v", text, e.Match(name), err)
		}
	}
	for _, text := range []string{"and", "a b", "(a", "a)", "not", "a or", "a & b", strings.Repeat("(", 5000)} {
		if _, err := ParseExpr(text); err == nil {
			t.Errorf("%.20q was taken", text)
		}
	}
}

func TestGPU(t *testing.T) {
	for _, c := range []struct {
		gpu       string
		supported []string
		want      bool
	}{
		{"GB200", []string{"GB200"}, true}, {"GB200_LYRIS", []string{"GB200"}, true}, {"GB200", []string{"GB200_LYRIS"}, false}, {"B200", []string{"GB200"}, false},
		{"LOCAL", []string{"LOCAL"}, true}, {"LOCAL", []string{"H100"}, false},
	} {
		if got := FindGPU(c.gpu).Runs(c.supported); got != c.want {
			t.Errorf("%s on %v: %v", c.gpu, c.supported, got)
		}
	}
	if g := FindGPU("LOCAL"); g.SMClock != 0 || g.ExtraArgs != nil || FindGPU("GB200").MemClock != 3996 {
		t.Errorf("%+v", g)
	}
}

func TestFilter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list.txt")
	lines := "# tests\n\n  disagg_perf_a  \ntest_disagg.py::TestDisaggBenchmark::test_accuracy[disagg_accuracy_b]\r\n" +
		"test_disagg.py::TestDisaggBenchmark::test_stress[disagg_perf_c]\ndisagg_perf_nowhere\n"
	must.Do(t, os.WriteFile(file, []byte(lines), 0o644))
	list, err := ReadList(file)
	must.Do(t, err)
	var configs []*Config
	for _, id := range []Ident{{Type: "disagg", Category: "perf", Stem: "a"}, {Type: "disagg", Category: "perf", Stem: "c"}, {Type: "disagg", Category: "accuracy", Stem: "b"}} {
		configs = append(configs, &Config{Ident: id, SupportedGPUs: []string{"H100"}})
	}
	var got []string
	for _, c := range Selected(Filter{GPU: FindGPU("H100"), List: list}.Apply(configs)) {
		got = append(got, c.Ident.String())
	}
	must.Equal(t, []string{"disagg_perf_a", "disagg_accuracy_b"}, got)
	if u := strings.Join(list.Unmatched(), "\n"); len(list.Unmatched()) != 2 || !strings.Contains(u, "list.txt:5: ") || !strings.Contains(u, "disagg_perf_nowhere") {
		t.Error(u)
	}
	for _, c := range []struct {
		f    Filter
		want string
	}{
		{Filter{GPU: FindGPU("B200")}, "GPU B200 is not in supported_gpus (H100)"}, {Filter{Category: "stress"}, "-m stress: category is perf"},
		{Filter{Type: "wideep"}, "type is disagg, not wideep"}, {Filter{Model: "x"}, "not x"}, {Filter{Keyword: func(string) bool { return false }}, "-k does not match"},
	} {
		if got := c.f.Apply(configs[:1])[0].Reason; !strings.Contains(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	must.Do(t, os.WriteFile(file, []byte("# nothing\n\n"), 0o644))
	if _, err := ReadList(file); err == nil {
		t.Error("a list of comments was taken")
	}
}

func FuzzExpr(f *testing.F) {
	f.Add("not (a or b) and c")
	fuzztest.Run(f, []string{" and ", " or ", " not ", "(", ")", "a", "perf", "b[", " "}, func(_ *testing.T, text string) {
		if e, err := ParseExpr(text); err == nil {
			e.Match("test_benchmark[disagg_perf_a]")
		}
	})
}

// TensorRT-LLM's tests of perf-sanity, in both places, and the newer one of perf; what lies below them is no test.
func TestPlacesOfPerfSanity(t *testing.T) {
	root := tree(t, "scripts/perf-sanity/disaggregated/a.yaml", "scripts/perf-sanity/disaggregated/eplb/table.yaml", "scripts/perf/disaggregated/b.yaml",
		"old/test_configs/disagg/perf-sanity/c.yaml", "mine/disaggregated/d.yaml", "mine/disaggregated/more/e.yaml")
	for arg, want := range map[string]string{
		"scripts/perf-sanity/disaggregated": "disagg_perf-sanity_a", "scripts/perf-sanity/disaggregated/a.yaml": "disagg_perf-sanity_a",
		"mine/disaggregated":         "disagg_perf_d disagg_perf_e",
		"scripts/perf/disaggregated": "disagg_perf_b", "scripts": "disagg_perf_b disagg_perf-sanity_a", "old": "disagg_perf-sanity_c",
	} {
		if list, err := Paths([]string{filepath.Join(root, arg)}); err != nil || strings.Join(ids(list), " ") != want {
			t.Errorf("%s: %v, %v", arg, ids(list), err)
		}
	}
	list, skipped, err := Discover(filepath.Join(root, "scripts"))
	if err != nil || len(skipped) > 0 || strings.Join(ids(list), " ") != "disagg_perf_b disagg_perf-sanity_a" {
		t.Errorf("%v, %v, %v", ids(list), skipped, err)
	}
}
