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
	"perigee/internal/heap"
	"perigee/internal/size"
)

// Options are how configs are read.
type Options struct {
	Rules   Rules
	Lenient bool                     // unknown keys are warnings
	Env     func(name string) string // nil: nothing is replaced
}

// Load reads the cases of one file: one, or with a sweep several. Whatever is
// wrong stands in their Problems; there is always at least one case.
func Load(file string, id Ident, o Options) []*Config { return new(together).load(file, id, o) }

// together bounds what files take that are read side by side, and kept.
type together struct {
	turn sync.Mutex   // of a file that may take much memory
	kept atomic.Int64 // bytes that the cases take, as estimated
	memo memo
}

func (t *together) load(file string, id Ident, o Options) []*Config {
	held := false
	take := func() {
		if !held {
			t.turn.Lock()
			held = true
		}
	}
	defer func() {
		if held {
			t.turn.Unlock()
		}
	}()
	text, err := conf.ReadInTurn(file, take)
	if err != nil {
		return []*Config{broken(file, id, err)}
	}
	tree, err := conf.Parse(file, text)
	if err != nil {
		return []*Config{broken(file, id, err)}
	}
	if problem := oversized(tree); problem != nil {
		return []*Config{{Ident: id, File: file, Problems: []Problem{*problem}}}
	}
	if tree.Get("sweep") != nil { // it repeats the file, as aliases do
		take()
	}
	variants, taken, problem := expand(tree)
	if problem != nil {
		return t.keep([]*Config{{Ident: id, File: file, Tree: tree, Problems: []Problem{*problem}}}, tree.Memory())
	}
	list := make([]*Config, len(variants))
	for i, v := range variants {
		list[i] = from(v, file, id, o, &t.memo)
		if taken += list[i].memory(); len(list) > 1 && taken > conf.MaxMemory {
			problem := Problem{"sweep", tree.Get("sweep").Line, fmt.Sprintf(
				"wanted cases that take at most %s of memory together, got more", size.Binary(conf.MaxMemory))}
			return t.keep([]*Config{{Ident: id, File: file, Tree: tree, Problems: []Problem{problem}}}, tree.Memory())
		}
	}
	return t.keep(list, taken)
}

// maxKept is what the cases of several files may take together, in bytes, as estimated.
const maxKept = 256 << 20

// keep returns the cases of a file, which take so many bytes, or what is left of them where they take too much together
// with those of other files.
func (t *together) keep(list []*Config, taken int) []*Config {
	if all := t.kept.Add(int64(taken)); all <= maxKept || all == int64(taken) {
		return list
	}
	t.kept.Add(-int64(taken))
	return []*Config{broken(list[0].File, list[0].Ident, fault.New(fault.Input, "%s: the cases of all files together take more than %s of memory",
		list[0].File, size.Binary(maxKept)).WithHint("name fewer files, or folders, at once"))}
}

// from makes a case of a document. id is the file's.
func from(v variant, file string, id Ident, o Options, m *memo) *Config {
	c := &Config{Ident: id, File: file, Tree: v.tree}
	if o.Env != nil {
		c.override(o.Env)
	}
	r := read(c.Tree, m)
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
// order. They take at most maxKept together, or are those of one file.
func LoadAll(files []Source, o Options) []*Config {
	const most = 8                     // readers: each takes memory
	defer heap.Limit(conf.MaxMemory)() // so that garbage does not come on top
	loaded := make([][]*Config, len(files))
	var t together
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(files), runtime.GOMAXPROCS(0), most) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(files)); i = next.Add(1) - 1 {
				loaded[i] = t.load(files[i].File, files[i].Ident, o)
			}
		})
	}
	workers.Wait()
	return slices.Concat(loaded...)
}
