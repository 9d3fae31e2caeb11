package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"perigee/internal/conf"
	"perigee/internal/fault"
)

// Options are how configs are read.
type Options struct {
	Rules   Rules
	Lenient bool                     // unknown keys are warnings
	Env     func(name string) string // nil: nothing is replaced
}

// Load reads the cases of one file: one, or with a sweep several. Whatever is
// wrong stands in their Problems; there is always at least one case.
func Load(file string, id Ident, o Options) []*Config {
	tree, err := conf.Load(file)
	if err != nil {
		return []*Config{broken(file, id, err)}
	}
	variants, problem := expand(tree)
	if problem != nil {
		return []*Config{{Ident: id, File: file, Tree: tree, Problems: []Problem{*problem}}}
	}
	list := make([]*Config, len(variants))
	for i, v := range variants {
		list[i] = from(v, file, id, o)
	}
	return list
}

// from makes a case of a document. id is the file's.
func from(v variant, file string, id Ident, o Options) *Config {
	c := &Config{Ident: id, File: file, Tree: v.tree}
	if o.Env != nil {
		c.override(o.Env)
	}
	r := read(c.Tree)
	c.identify(r)
	c.Stem += v.suffix
	if c.Tree.Kind == conf.Map {
		c.WasRead = true
		c.fill(r)
		c.judge(r, o.Rules)
	}
	if o.Lenient {
		c.Warnings = append(append(c.Warnings, r.unknown...), last(r.moreUnknown)...)
	} else {
		r.problems, r.more = append(r.problems, r.unknown...), r.more+r.moreUnknown
	}
	if !c.Known() {
		r.add(nil, "", "there are no metrics for %s/%s; known are disagg/perf, disagg/accuracy, disagg/stress, wideep/perf and wideep/accuracy", c.Type, c.Category)
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	c.Problems = append(append(c.Problems, r.problems...), last(r.more)...)
	return c
}

// identify takes the id that the file itself holds, as the effective config in a result folder does, which lies outside
// of the tree of tests.
func (c *Config) identify(r *reader) {
	const path = "metadata.id"
	v := r.values[path]
	if v == nil || v.Kind != conf.String {
		return
	}
	const longest = 200 // the result folder is named after it
	parts := strings.SplitN(v.Text(), "/", 3)
	if len(parts) < 3 || parts[2] == "" || len(v.Text()) > longest || parts[2] == "." || parts[2] == ".." || strings.ContainsAny(parts[2], "/\x00") {
		r.add(v, path, "wanted TYPE/CATEGORY/NAME of at most %d bytes, got %q", longest, clip(v.Text()))
		return
	}
	c.Ident = Ident{parts[0], parts[1], parts[2]}
}

func (c *Config) warn(v *conf.Value, path, format string, args ...any) {
	c.Warnings = append(c.Warnings, Problem{path, v.Line, fmt.Sprintf(format, args...)})
}

var place = regexp.MustCompile(`^:(\d+)`)

// broken is the case of a file that could not be read.
func broken(file string, id Ident, err error) *Config {
	p := Problem{Message: err.Error()}
	if rest, ok := strings.CutPrefix(p.Message, file); ok {
		if m := place.FindStringSubmatch(rest); m != nil {
			p.Line, _ = strconv.Atoi(m[1])
			rest = rest[len(m[0]):]
		}
		p.Message = strings.TrimPrefix(rest, ": ")
	}
	if hint := fault.HintOf(err); hint != "" {
		p.Message += " (" + hint + ")"
	}
	return &Config{Ident: id, File: file, Problems: []Problem{p}}
}

// Replaced is a key whose value an environment variable gave.
type Replaced struct{ Path, Variable, Value string }

// placeholder reports whether a value is still to be filled in.
func placeholder(s string) bool { return strings.HasPrefix(s, "<") && strings.HasSuffix(s, ">") }

// override replaces what the environment says. A variable that is set goes
// before the file; where it is unset, the file's value stays.
func (c *Config) override(env func(string) string) {
	dir := func(variable, path string) string {
		if d := env(variable); d != "" && path != "" && !filepath.IsAbs(path) {
			return filepath.Join(d, path)
		}
		return ""
	}
	c.replace("SLURM_PARTITION", "slurm.partition", env("SLURM_PARTITION"))
	c.replace("SLURM_ACCOUNT", "slurm.account", env("SLURM_ACCOUNT"))
	if env("SLURM_JOB_ID") == "" { // inside of a job it is that job's name
		c.replace("SLURM_JOB_NAME", "slurm.job_name", env("SLURM_JOB_NAME"))
	}
	c.replace("SCRIPT_DIR", "environment.work_dir", env("SCRIPT_DIR"))
	c.replace("CONTAINER_IMAGE", "environment.container_image", env("CONTAINER_IMAGE"))
	c.replace("TRTLLM_WHEEL_PATH", "environment.trtllm_wheel_path", env("TRTLLM_WHEEL_PATH"))
	if env("INSTALL_MODE") == "source" {
		c.replace("REPO_DIR", "environment.trtllm_repo", env("REPO_DIR"))
	}
	c.replace("MODEL_DIR", "environment.model_path", dir("MODEL_DIR", at(c.Tree, "metadata.model_dir_name").Text()))
	c.replace("DATASET_DIR", "benchmark.dataset_file", dir("DATASET_DIR", at(c.Tree, "metadata.dataset_file").Text()))
	if env("CONTAINER_IMAGE") != "" {
		c.replace("WORK_DIR and others", "environment.container_mount", mounts(env))
	}
	if at(c.Tree, "accuracy.enable_accuracy_test").Bool() {
		c.replace("HF_HOME_DIR", "accuracy.env_var.HF_HOME", env("HF_HOME_DIR"))
	}
}

// mounts lists the folders that the container sees, as folder:folder.
func mounts(env func(string) string) string {
	var list []string
	for _, variable := range []string{"WORK_DIR", "SCRIPT_DIR", "MODEL_DIR", "OUTPUT_PATH", "DATASET_DIR", "REPO_DIR"} {
		if d := env(variable); d != "" {
			list = append(list, d+":"+d)
		}
	}
	if wheel := env("TRTLLM_WHEEL_PATH"); wheel != "" {
		d := filepath.Dir(wheel)
		list = append(list, d+":"+d)
	}
	return strings.Join(list, ",")
}

func (c *Config) replace(variable, path, value string) {
	if value == "" || c.Tree.Kind != conf.Map {
		return
	}
	tree, err := c.Tree.With(strings.Split(path, "."), value)
	if err != nil {
		return // a section is no map; reading it says so
	}
	c.Tree = tree
	c.Replaced = append(c.Replaced, Replaced{path, variable, value})
}

// Unset lists the keys that still hold a placeholder such as <partition>, and
// the environment variable that would fill each.
func (c *Config) Unset() []Problem {
	var list []Problem
	for _, k := range []struct{ path, variable string }{
		{"slurm.partition", "SLURM_PARTITION"}, {"slurm.account", "SLURM_ACCOUNT"},
		{"environment.container_image", "CONTAINER_IMAGE"}, {"environment.container_mount",
			"CONTAINER_IMAGE and WORK_DIR"},
		{"environment.model_path", "MODEL_DIR"}, {"environment.work_dir", "SCRIPT_DIR"},
		{"benchmark.dataset_file", "DATASET_DIR"},
	} {
		if v := at(c.Tree, k.path); placeholder(v.Text()) {
			list = append(list, Problem{k.path, v.Line,
				fmt.Sprintf("still holds the placeholder %s: set %s, or the key", v.Text(), k.variable)})
		}
	}
	return list
}

// Source is a file to load.
type Source struct {
	Ident
	File string
}

// LoadAll loads files, several at a time, and returns their cases in the files'
// order.
func LoadAll(files []Source, o Options) []*Config {
	loaded := make([][]*Config, len(files))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(files), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(files)); i = next.Add(1) - 1 {
				loaded[i] = Load(files[i].File, files[i].Ident, o)
			}
		})
	}
	workers.Wait()
	return slices.Concat(loaded...)
}
