package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/value"
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
	if other := foreign(tree); other != nil {
		problem = other
	}
	if problem != nil {
		return []*Config{{Ident: id, File: file, Tree: tree, Problems: []Problem{*problem}}}
	}
	list := make([]*Config, len(variants))
	for i, v := range variants {
		list[i] = from(v, file, id, o)
		if o.Rules == Strict {
			relaxed := o
			relaxed.Rules = Upstream
			list[i].compare(from(v, file, id, relaxed))
		}
	}
	return list
}

// foreign says whose file a document is, if it is of another tool; nil for none that is known.
func foreign(tree *conf.Value) *Problem {
	has := func(path string, kind conf.Kind) bool {
		v := at(tree, path)
		return v != nil && v.Kind == kind
	}
	if tree.Kind != conf.Map || tree.Get("metadata") != nil || tree.Get("job") != nil || tree.Get("hardware") != nil {
		return nil
	}
	var what string
	switch {
	case has("model", conf.Map) && has("resources", conf.Map) &&
		(has("backend", conf.Map) || has("benchmark.type", conf.String)):
		what = "a recipe of srt-slurm"
	case has("model_paths", conf.Map) || has("cluster", conf.Map) && has("containers", conf.Map):
		what = "srt-slurm's configuration of a cluster"
	default:
		return nil
	}
	return &Problem{"", tree.Line, what + ", which perigee does not run: it reads TensorRT-LLM's disaggregated tests, and " +
		"a section job of any server's commands (docs/disagg.md)"}
}

// compare says with each problem that the rules Upstream do not have that they take the key as it is.
func (c *Config) compare(upstream *Config) {
	c.PassesUpstream = upstream.Valid()
	for i, p := range c.Problems {
		if !slices.ContainsFunc(upstream.Problems, func(u Problem) bool { return u.Path == p.Path }) {
			c.Problems[i].Message += "; upstream has relaxed this rule since: --validation upstream takes it"
		}
	}
}

// from makes a case of a document. id is the file's.
func from(v variant, file string, id Ident, o Options) *Config {
	c := defaults(id, file, v.tree)
	if o.Env != nil {
		c.override(o.Env)
	}
	r := &reader{root: c.Tree, values: map[string]*conf.Value{}}
	var old older
	r.document(c.schema(&old))
	c.identify(r)
	c.Stem += v.suffix
	if c.Tree.Kind == conf.Map {
		c.WasRead = true
		c.complete(r, &old)
		c.check(r, o.Rules)
		if path := c.Environment.ModelPath; !c.UsesCommand() && (path == "" || placeholder(path)) && o.Env != nil &&
			o.Env("MODEL_DIR") != "" {
			c.warn(c.Tree, "environment.model_path",
				"MODEL_DIR has no effect without metadata.model_dir_name, the folder of the model below it")
		}
	}
	if o.Lenient {
		c.Warnings = append(c.Warnings, r.unknown...)
	} else {
		r.problems = append(r.problems, r.unknown...)
	}
	if !c.Known() {
		r.add(nil, "", "there are no metrics for %s/%s; known are %s", c.Type, c.Category, strings.Join(known, ", "))
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	c.Problems = append(c.Problems, r.problems...)
	return c
}

// complete adds what follows from several keys, or from their older places.
func (c *Config) complete(r *reader, old *older) {
	s, b := &c.Slurm, &c.Benchmark
	c.ModelName, c.Precision = cmp.Or(c.ModelName, "unknown"), cmp.Or(c.Precision, "unknown")
	if c.SupportedGPUs == nil && !c.UsesCommand() {
		c.SupportedGPUs = []string{"GB200", "GB300", "H100", "B200", "B300"}
	}
	s.ScriptFile, s.HasExtra = cmp.Or(s.ScriptFile, old.scriptFile), r.has("slurm.extra_args")
	switch {
	case s.TimeLimit > 0:
		s.TimeText = timeText(s.TimeLimit)
	case s.TimeLimit == 0:
		s.TimeText = "0" // no limit
	}
	b.Input, b.Output = cmp.Or(b.Input, old.input), cmp.Or(b.Output, old.output)
	b.DatasetFile = cmp.Or(b.DatasetFile, old.datasetFile)
	c.completeLevels(r, old)
	c.completeWorkers(r, old)
	c.Metrics = c.figures(r, old)
	if sets := r.datasets(old.datasets); c.JudgesScores() {
		c.Datasets = sets
	}
	c.References = r.expectations(old.references)
	if c.Resources = r.pools(old.resources); c.Resources != nil && !r.has("job.nodes") {
		c.Job.Nodes = max(1, c.Resources.Nodes())
	}
	if c.UsesCommand() { // what srtctl's clients do
		if r.values["benchmark.multi_round"] == nil {
			b.MultiRound = 10
		}
		if r.values["benchmark.benchmark_ratio"] == nil {
			b.Ratio = 0.8
		}
	}
	c.Evaluation.Tasks = r.tasks(old, c.Evaluation.Enabled)
}

// completeLevels lists the levels of a config that has the first and last one.
func (c *Config) completeLevels(r *reader, old *older) {
	const first, last = "benchmark.concurrency_start", "benchmark.concurrency_end"
	v := r.values["benchmark.concurrency_list"]
	switch from, to := old.levelsFrom, old.levelsTo; {
	case !r.has(first) && !r.has(last):
	case v != nil:
		r.add(v, first, "concurrency_list has the levels already")
	case from == 0 || to < from:
		r.wrong(last, "wanted concurrency_start and concurrency_end, the first at most the second, "+
			"got %d and %d", from, to)
	default:
		c.Benchmark.Levels = doubling(from, to)
	}
}

// completeWorkers reads the keys of the pass-through sections that rules and tables need.
func (c *Config) completeWorkers(r *reader, old *older) {
	for i, w := range []*Worker{&c.Gen, &c.Ctx} {
		path := []string{"worker_config.gen", "worker_config.ctx"}[i]
		w.MTP = r.passed(path+".speculative_config.num_nextn_predict_layers", 64)
		// load_balancer may be the name of a file instead, which holds the slots.
		if at(r.root, path+".moe_config.load_balancer").Len() > 0 {
			w.Slots = r.passed(path+".moe_config.load_balancer.num_slots", 1_000_000)
		}
	}
	c.Gen.Slots = cmp.Or(c.Gen.Slots, old.slots)
	c.Ctx.MaxBatch = int(at(r.root, "worker_config.ctx.max_batch_size").Int())
	c.Ctx.MaxTokens = int(at(r.root, "worker_config.ctx.max_num_tokens").Int())
}

// passed reads an optional integer of a pass-through section.
func (r *reader) passed(path string, largest int64) (n int) {
	v := at(r.root, path)
	if v == nil || v.Kind == conf.Null {
		return 0
	}
	for _, message := range (whole{&n, value.Whole(0, largest)}).store(v) {
		r.add(v, path, "%s", message)
	}
	return n
}

// figures takes each key from metadata.metrics or else benchmark.metrics.
func (c *Config) figures(r *reader, old *older) *Metrics {
	pick := func(name string) (path string, from *figures) {
		if path := "metadata.metrics." + name; r.has(path) {
			return path, &old.metrics[0]
		}
		return "benchmark.metrics." + name, &old.metrics[1]
	}
	source, p := pick("extractor_pattern")
	names, n := pick("metric_names")
	_, log := pick("log_file")
	m := &Metrics{LogFile: log.logFile}
	switch {
	case r.has(source) != r.has(names):
		if !r.has(source) {
			source = names
		}
		r.add(at(r.root, source), source, "extractor_pattern and metric_names go together: a name for each group")
	case r.values[source] != nil && r.values[names] != nil:
		c.notePattern(r.values[source], source)
		if i := slices.IndexFunc(n.names, func(name string) bool { return plaintext.Cell(name) != name }); i >= 0 {
			// They stand in a CSV file that is read again.
			r.wrong(names, "wanted names of plain text that begin with none of = + - @, got %q",
				clip(n.names[i]))
			return nil
		}
		var err error
		if m.Pattern, err = compilePattern(p.pattern, n.names); err != nil {
			r.wrong(source, "%s", err)
			return nil
		}
	}
	if m.LogFile == "" && m.Pattern == nil {
		return nil
	}
	return m
}

// VERBOSE keeps the blanks of escapes and classes. In the rest of a line without its comment, a dropped blank reads as
// part of a text if it stands between letters or digits, or behind a colon. eaten matches the control characters that
// YAML reads for \b and the like in double quotes.
var (
	escape       = lazyre.New(`\\.`)
	class        = lazyre.New(`\[[^\]\n]*\]`)
	comment      = lazyre.New(`#.*`)
	droppedBlank = lazyre.New(`[A-Za-z0-9] +[A-Za-z0-9]|[^?]: +\S`)
	eaten        = lazyre.New(`[\x00\a\x08\v\x1b]`)
)

// notePattern warns of a pattern that is read otherwise than it looks.
func (c *Config) notePattern(v *conf.Value, path string) {
	if eaten.MatchString(v.Text()) {
		c.warn(v, path, "holds a control character: in double quotes YAML reads backslashes itself; put the "+
			"pattern between single quotes, or below |")
	}
	for line := range strings.Lines(v.Text()) {
		rest := class.ReplaceAllString(escape.ReplaceAllString(line, `\`), `\`)
		if droppedBlank.MatchString(comment.ReplaceAllString(rest, "")) {
			c.warn(v, path, "blanks in a pattern are ignored (VERBOSE), as in %s: write \\s for a blank of the log",
				clip(strings.TrimSpace(line)))
			return
		}
	}
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
	if len(parts) < 3 || slices.Contains([]string{"", ".", ".."}, parts[2]) || len(v.Text()) > longest ||
		strings.ContainsAny(parts[2], "/\x00") {
		r.add(v, path, "wanted TYPE/CATEGORY/NAME of at most %d bytes, got %q", longest, clip(v.Text()))
		return
	}
	c.Ident = Ident{parts[0], parts[1], parts[2]}
}

func (c *Config) warn(v *conf.Value, path, format string, args ...any) {
	c.Warnings = append(c.Warnings, Problem{path, v.Line, fmt.Sprintf(format, args...)})
}

var atLine = lazyre.New(`^:(\d+)`)

// broken is the case of a file that could not be read.
func broken(file string, id Ident, err error) *Config {
	p := Problem{Message: err.Error()}
	if rest, ok := strings.CutPrefix(p.Message, file); ok {
		if m := atLine.FindStringSubmatch(rest); m != nil {
			p.Line, _ = strconv.Atoi(m[1])
			rest = rest[len(m[0]):]
		}
		p.Message = strings.TrimPrefix(rest, ": ")
	}
	if strings.Contains(p.Message, "unknown escape character") {
		p.Message += " (in double quotes YAML reads backslashes itself: if this is a pattern, put it between single quotes, " +
			"or below |, and write \\s for a blank, since blanks in it are ignored)"
	}
	if hint := fault.HintOf(err); hint != "" {
		p.Message += " (" + hint + ")"
	}
	return &Config{Ident: id, File: file, Problems: []Problem{p}}
}

// Replaced is a key whose value an environment variable gave.
type Replaced struct{ Path, Variable, Value string }

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
	below := func(variable, folder string) string { // which has no effect without the folder
		if at(c.Tree, folder).Text() == "" {
			return variable + " and the key " + folder + ", which names what is below it"
		}
		return variable
	}
	for _, k := range []struct{ path, variable string }{
		{"slurm.partition", "SLURM_PARTITION"}, {"slurm.account", "SLURM_ACCOUNT"},
		{"environment.container_image", "CONTAINER_IMAGE"}, {"environment.container_mount",
			"CONTAINER_IMAGE and WORK_DIR"},
		{"environment.model_path", below("MODEL_DIR", "metadata.model_dir_name")},
		{"environment.work_dir", "SCRIPT_DIR"},
		{"benchmark.dataset_file", below("DATASET_DIR", "metadata.dataset_file")},
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
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i, f := range files {
		all.Go(func() {
			turns <- struct{}{}
			loaded[i] = Load(f.File, f.Ident, o)
			<-turns
		})
	}
	all.Wait()
	return slices.Concat(loaded...)
}
