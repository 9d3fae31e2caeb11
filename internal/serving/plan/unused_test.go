package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/must"
	"perigee/internal/serving/config"
)

// The shipped templates use all keys that no warning is of, and no others: those that say how a case is found and judged
// are for no template.
func TestKeysWithoutEffect(t *testing.T) {
	judging := regexp.MustCompile(`^metadata\.|^benchmark\.(streaming|metrics|enable|(in|out)put_length)|^slurm\.script_file|^environment\.(log|work)_dir|` +
		`^worker_config\.eplb_num_slots|^accuracy\.model|^environment\.dataset_file|^sequence\.`)
	values := []any{"zz", "A=1 B=2", "00:09:00", int64(3), int64(5000), true, false, map[string]any{"A": "zz"}, map[string]any{"prefill_nodes": int64(2), "decode_nodes": int64(2), "gpus_per_node": int64(8)},
		map[string]any{"gsm8k": map[string]any{"model": "m"}}, []any{"zz"}, "2 4", "gen_only_no_context"}
	bases := map[string]string{
		"command": "slurm: {partition: p}\nbenchmark: {concurrency_list: 1}\njob: {template: command, server: s, ready: r, client: c}\n",
	}
	text := must.Read(t, "../../../tools/disagg/testdata/configs/00_base_valid.yaml")
	bases["trtllm"] = strings.NewReplacer("script_file: local.slurm", "script_file: trtllm", "enable_accuracy_test: false", "enable_accuracy_test: true\n  tasks: {mmlu: {model: m}}",
		"trtllm_repo: ''", "trtllm_repo: /r\n  build_wheel: true\n  container_image: i", "  container_image: ''\n", "", "nsys_on: false", "nsys_on: true", "  build_wheel: false\n", "").Replace(string(text))
	for name, text := range bases {
		tree, err := conf.Parse("a.yaml", []byte(text))
		must.Do(t, err)
		plan := func(tree *conf.Value) (string, []config.Problem, bool) {
			text, err := tree.YAML()
			must.Do(t, err)
			file := filepath.Join(t.TempDir(), "case.yaml")
			must.Do(t, os.WriteFile(file, text, 0o600))
			c := config.Load(file, config.Ident{Type: "disagg", Category: "perf", Stem: "case"}, config.Options{Rules: config.Upstream, Lenient: true})[0]
			if !c.Valid() {
				return fmt.Sprint(c.Problems), nil, false
			}
			p, err := New(c, Options{Dir: "/r"})
			if err != nil {
				return err.Error(), nil, false
			}
			delete(p.Files, Effective)
			return fmt.Sprint(p.Args, p.Text, p.Files), c.Warnings, true
		}
		before, _, ok := plan(tree)
		if !ok {
			t.Fatal(name, before)
		}
		for _, key := range config.Keys() {
			tried, used, warned := false, false, false
			for _, value := range values {
				changed, err := tree.With(strings.Split(key, "."), value)
				must.Do(t, err)
				after, warnings, ok := plan(changed)
				if !ok {
					continue
				}
				tried, used = true, after != before
				warned = slices.ContainsFunc(warnings, func(p config.Problem) bool {
					return strings.HasPrefix(key+".", p.Path+".") && strings.Contains(p.Message, "has no effect: the job template "+name)
				})
				if used || warned {
					break
				}
			}
			if used && warned || tried && !used && !warned && !judging.MatchString(key) {
				t.Errorf("%s: %s: used %t, warned of %t", name, key, used, warned)
			}
		}
	}
}
