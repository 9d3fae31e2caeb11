package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/secret"
	"perigee/internal/serving/benchlog"
)

// Rules are a set of rules between keys. The document that describes the
// framework and its later code contradict each other, also on real configs.
type Rules string

// The sets of rules.
const (
	// Strict are the rules of the document: max_num_tokens equals
	// max_batch_size*(mtp+1) where MTP is on, streaming is on, both max_seq_len are
	// above input_length+output_length. Keys that the document's own example lacks
	// have defaults.
	Strict Rules = "strict"
	// Upstream are the rules of the code of today: max_num_tokens is at least that, ctx max_seq_len is above
	// input_length, and no level is above what a generation server takes. The configurations of perf-sanity are valid:
	// max_seq_len may be missing, and benchmark_ratio may be 0 where no client reads it.
	Upstream Rules = "upstream"
	// Logs are those that what a log is judged by has to follow, where the job has run already.
	Logs Rules = "logs"
)

// check holds against each other what keys say.
func (c *Config) check(r *reader, rules Rules) {
	c.checkFigures(r)
	c.checkRatio(r, rules)
	if rules == Logs {
		c.noteOmissions(r)
		return
	}
	c.checkMissing(r, rules)
	if v := r.values["benchmark.streaming"]; v != nil && !v.Bool() {
		r.add(v, "benchmark.streaming", "streaming must be true")
	}
	if v := r.values["benchmark.use_nv_sa_benchmark"]; v.Bool() && c.Benchmark.Mode != "e2e" {
		r.add(v, "benchmark.use_nv_sa_benchmark", "this client runs end to end only; mode is %s", c.Benchmark.Mode)
	}
	c.noteIdle(r)
	c.checkNames(r)
	c.noteSecrets(r)
	c.checkOptions(r)
	c.checkLevels(r, rules)
	if mode := c.Benchmark.Mode; mode == "ctx_only" && TemplateOf(c) == "trtllm" {
		r.wrong("benchmark.mode", "the template trtllm does not measure %s: wanted e2e, gen_only or gen_only_no_context, or "+
			"a job template that does", mode)
	}
	c.noteDatasets(r)
	c.noteUnused(r)
	if c.UsesCommand() {
		c.checkCommand(r)
	} else {
		c.checkTokens(r, rules)
		c.checkSequences(r, rules)
	}
}

// checkFigures checks what figures and scores are held against.
func (c *Config) checkFigures(r *reader) {
	const datasets = "metadata.accuracy.datasets"
	c.checkReferences(r)
	if c.Category == "accuracy" && len(c.Datasets) == 0 && r.values[datasets] == nil {
		r.missing(datasets)
	}
	if v := r.values[datasets]; v != nil && !c.JudgesScores() {
		c.warn(v, datasets, "has no effect: only accuracy and stress cases are judged by it "+
			"(metadata.id: %s/accuracy/%s, or the folder, makes it one)", c.Type, c.Stem)
	}
}

// checkRatio refuses a smallest length of 0. The configurations of perf-sanity have it where no client reads it: the
// lengths are those of a data set.
func (c *Config) checkRatio(r *reader, rules Rules) {
	const path = "benchmark.benchmark_ratio"
	if r.values[path] == nil || c.Benchmark.Ratio > 0 {
		return
	}
	if c.Benchmark.NvSA || c.UsesCommand() || rules == Strict {
		r.wrong(path, "wanted more than 0 and at most 1, got 0")
	}
}

// isSanity reports whether a case is one of perf-sanity, by its folder or by what only those have. Upstream runs them
// without most of the rules for the others.
func (c *Config) isSanity(r *reader) bool {
	return c.Category == "perf-sanity" || c.Benchmark.Ratio == 0 || r.has("benchmark.benchmark_client")
}

// noteOmissions warns of keys without which a log is judged less strictly. Other rules want them to be there.
func (c *Config) noteOmissions(r *reader) {
	if !c.Benchmark.Enabled || c.Category == "accuracy" {
		return
	}
	if len(c.Benchmark.Levels) == 0 {
		c.warn(r.root, "benchmark.concurrency_list", "missing: no level has to be in the log")
	}
	if c.Benchmark.Output == 0 {
		c.warn(r.root, "benchmark.output_length", "missing: the generated tokens are not counted")
	}
}

// noteDatasets warns of data sets that nothing is expected of, once. TensorRT-LLM's tests take 0 there, which any
// score passes, so such configurations are read.
func (c *Config) noteDatasets(r *reader) {
	if !c.JudgesScores() { // of which another warning says that nothing is judged
		return
	}
	var without []*conf.Value
	for _, v := range r.values["metadata.accuracy.datasets"].List() {
		if e := v.Get("expected_value"); v.Kind == conf.Map && (e == nil || e.Kind == conf.Null) {
			without = append(without, v)
		}
	}
	if len(without) == 0 {
		return
	}
	others := ""
	if len(without) > 1 {
		others = fmt.Sprintf(", and of %d others,", len(without)-1)
	}
	c.warn(without[0], without[0].Path()+".expected_value",
		"missing expected_value: the scores of this data set%s are not judged", others)
}

// checkMissing reports the keys that are missing.
func (c *Config) checkMissing(r *reader, rules Rules) {
	for _, k := range table {
		required := k.need == always || !c.UsesCommand() && (k.need == trtllm || k.need == strict && rules == Strict ||
			k.need == upstream && rules == Upstream)
		if required && !r.has(k.path) {
			r.missing(k.path)
		}
	}
	if !r.has("benchmark.concurrency_list") && !r.has("benchmark.concurrency_start") &&
		!r.has("benchmark.concurrency_end") {
		r.missing("benchmark.concurrency_list")
	}
	for _, name := range []string{"input_length", "output_length"} {
		if !c.UsesCommand() && !r.has("benchmark."+name) && !r.has("sequence."+name) {
			r.missing("benchmark." + name)
		}
	}
}

// checkLevels refuses levels that cannot be measured. The figures of a level that is there twice would be those of two
// runs, and have one name. In the mode gen_only, generation servers hold requests back until the first level is full,
// and run the others end to end.
func (c *Config) checkLevels(r *reader, rules Rules) {
	const path = "benchmark.concurrency_list"
	v, list := r.values[path], c.Benchmark.Levels
	seen := map[int]bool{}
	for _, level := range list {
		if seen[level] {
			r.add(v, path, "concurrency %d is there twice; perigee disagg run --repeat runs a case more than once", level)
			break
		}
		seen[level] = true
	}
	if c.UsesCommand() {
		return
	}
	if c.Benchmark.Mode == "gen_only" && len(list) > 1 {
		r.add(v, path, "mode gen_only measures one level, got %d; a sweep makes a case of each", len(list))
	}
	limit, words := c.Gen.MaxBatch, "gen max_batch_size"
	if c.Gen.AttentionDP {
		limit, words = limit*c.Gen.TP, "gen max_batch_size*tensor_parallel_size"
	}
	isSanity := c.isSanity(r)
	if n := c.Hardware.GenServers; isSanity && n > 1 {
		c.warn(v, path, "the client runs each level times num_gen_servers (%d), perf-sanity's own runner as it stands", n)
	}
	for _, level := range list {
		switch {
		case rules != Upstream || limit == 0 || level <= limit:
		case isSanity: // its levels are not checked upstream
			c.warn(v, path, "concurrency %d exceeds %s %d: requests wait for others", level, words, limit)
		default:
			r.add(v, path, "concurrency %d exceeds %s %d", level, words, limit)
		}
	}
}

// checkTokens holds the tokens of a batch against multi-token prediction.
func (c *Config) checkTokens(r *reader, rules Rules) {
	const path = "worker_config.gen.max_num_tokens"
	g := c.Gen
	if g.MTP == 0 || g.MaxTokens == 0 || g.MaxBatch == 0 {
		return
	}
	needed, words := g.MaxBatch*(g.MTP+1), ""
	if rules == Upstream {
		words = "at least "
	}
	if g.MaxTokens < needed || rules == Strict && g.MaxTokens != needed {
		r.wrong(path, "max_num_tokens is %d, needs %s%d = %d*(%d+1) (max_batch_size times MTP layers and one)",
			g.MaxTokens, words, needed, g.MaxBatch, g.MTP)
	}
}

func (c *Config) checkSequences(r *reader, rules Rules) {
	if c.Benchmark.Input == 0 || c.Benchmark.Output == 0 {
		return // reported already
	}
	isSanity := rules == Upstream && c.isSanity(r) // of which some have the longest request exactly
	check := func(path string, got, limit int, words string) {
		switch v := r.values[path]; {
		case v == nil || got > limit:
		case !isSanity:
			r.add(v, path, "max_seq_len is %d, must be > %d (%s)", got, limit, words)
		case got < limit:
			r.add(v, path, "max_seq_len is %d, must be >= %d (%s)", got, limit, words)
		}
	}
	sum, words := c.Benchmark.Input+c.Benchmark.Output, "input_length + output_length"
	if rules == Upstream {
		check("worker_config.ctx.max_seq_len", c.Ctx.MaxSeq, c.Benchmark.Input, "input_length")
	} else {
		check("worker_config.ctx.max_seq_len", c.Ctx.MaxSeq, sum, words)
	}
	check("worker_config.gen.max_seq_len", c.Gen.MaxSeq, sum, words)
}

// noteSecrets warns of secrets on sbatch's command line.
func (c *Config) noteSecrets(r *reader) {
	v := r.values["slurm.extra_args"]
	if text := v.Text(); secret.Mask(text, mask) != text {
		c.warn(v, "slurm.extra_args", "every user of this host sees sbatch's arguments, and what is secret in them: job.env "+
			"and the keys *env_var give a job its variables in a file")
	}
}

// Options of sbatch that take no value behind a blank, and those with which it submits no job, or another one.
var (
	flags = strings.Fields("--contiguous --exclusive --get-user-env --hold --ignore-pbs --nice --no-kill --no-requeue " +
		"--overcommit --oversubscribe --parsable --propagate --quiet --reboot --requeue --spread-job --use-min-nodes " +
		"--verbose --wait -H -O -Q -W -s -v")
	noJobs = []string{"--help", "--test-only", "--usage", "--version", "--wrap"}
)

// checkOptions refuses words that sbatch would take for the script of the job, instead of the one that perigee makes,
// and options with which that does not run, or more than once. Some options are known to take no next word for their
// value: others may.
func (c *Config) checkOptions(r *reader) {
	const path = "slurm.extra_args"
	isValue := false // the next word may be one
	for i, word := range c.Slurm.ExtraArgs {
		name, _, hasValue := strings.Cut(word, "=")
		isOption := strings.HasPrefix(word, "-") && word != "-" && word != "--"
		isPart := func(option string) bool { return len(name) >= len("--us") && strings.HasPrefix(option, name) }
		switch {
		case isOption && (name == "-h" || name == "-V" || slices.ContainsFunc(noJobs, isPart)):
			r.wrong(path, "with %s, sbatch does not submit the job", clip(name))
			return
		case isOption && (isArray(word) || isPart("--array")):
			r.wrong(path, "with %s, Slurm would run the case several times at once, all in one folder", clip(name))
			return
		case !isOption && !isValue:
			r.wrong(path, "sbatch would take word %d for the script of the job: wanted options, with blanks between "+
				"(there are none within a value, also in quotes)", i+1)
			return
		}
		isValue = isOption && !hasValue && !slices.Contains(flags, word)
	}
}

// isArray reports whether a word is the short form of --array, alone or behind short options without a value.
func isArray(word string) bool {
	return !strings.HasPrefix(word, "--") && strings.HasPrefix(strings.TrimLeft(word[1:], "HOQWsv"), "a")
}

// checkReferences refuses expectations that no figure can meet.
func (c *Config) checkReferences(r *reader) {
	metrics := benchlog.All()
	if c.Metrics != nil && c.Metrics.Pattern != nil {
		metrics = c.Metrics.Pattern.Names
	}
	levels := map[int]bool{}
	for _, level := range c.Concurrencies() {
		levels[level] = true
	}
	at := r.values["metadata.references"]
	if c.Category == "accuracy" && len(c.References) > 0 {
		r.add(at, "metadata.references",
			"the figures of an accuracy case are not judged; a stress case judges both figures and accuracy")
		return
	}
	known := clip(strings.Join(metrics, ", "))
	for _, f := range c.References {
		name, v := f.String(), at.Get(f.String())
		if v == nil {
			v = at
		}
		if !slices.Contains(metrics, f.Metric) {
			r.add(v, "metadata.references", "%s: there is no metric %s; known are %s", clip(name), clip(f.Metric),
				known)
		}
		if f.Concurrency != 0 && !levels[f.Concurrency] {
			r.add(v, "metadata.references", "%s: the benchmark has no concurrency %d", clip(name), f.Concurrency)
		}
	}
}

// checkCommand checks the section job.
func (c *Config) checkCommand(r *reader) {
	switch {
	case c.Job.Client == "" && c.Job.Command == "" && c.Benchmark.Enabled:
		r.missing("job.client")
	case c.Job.Client != "" && c.Job.Command != "":
		r.wrong("job.command", "give job.client (once per level) or job.command (prints its levels itself), not both")
	}
	if nodes := c.Job.Nodes; nodes > MostGPUs {
		r.add(cmp.Or(r.values["job.nodes"], r.values["resources"]), "job.nodes", "wanted at most %d nodes, got %d",
			MostGPUs, nodes)
	}
	if v := r.values["job.keep_going"]; v.Bool() && c.Job.Client == "" {
		c.warn(v, "job.keep_going", "has no effect without job.client: the levels are not those of perigee")
	}
	if c.Job.Ready != "" && c.Job.Server == "" {
		r.wrong("job.ready", "has no effect without job.server")
	}
}

// unused are the keys, and sections, that a shipped template does not use, and what it uses instead, "" for nothing.
// Job templates of a file may use all.
var unused = map[string][]struct{ path, instead string }{
	"command": {
		{"slurm.numa_bind", ""},
		{"benchmark.mode", ""}, {"benchmark.use_nv_sa_benchmark", ""},
		{"hardware.gpus_per_node", "resources, slurm.extra_args"}, {"hardware.num_ctx_servers", "resources"},
		{"environment.container_mount", ""}, {"environment.container_image", ""},
		{"environment.trtllm_repo", "job.setup"}, {"environment.trtllm_wheel_path", "job.setup"},
		{"environment.build_wheel", "job.setup"}, {"environment.cuda_architectures", "job.setup"},
		{"environment.worker_env_var", "job.env"}, {"environment.ctx_worker_env_var", "job.env"},
		{"environment.gen_worker_env_var", "job.env"}, {"environment.server_env_var", "job.env"},
		{"environment.client_env_var", "job.env"}, {"benchmark.benchmark_client", "job.client"},
		{"ctx_router_config", ""}, {"server_config_extra", ""}, {"cache_transceiver_precheck", ""},
		{"profiling", "job.server"}, {"accuracy", "job.evaluate"}, {"worker_config", "job.server"},
	},
	"trtllm": {
		{"job.nodes", "hardware, worker_config"}, {"job.tasks_per_node", "hardware, worker_config"},
		{"job.setup", ""}, {"job.server", "worker_config"}, {"job.ready", ""}, {"job.client", "benchmark"},
		{"job.command", "benchmark"}, {"job.keep_going", ""}, {"job.evaluate", "accuracy"},
		{"job.env", "environment.worker_env_var, environment.server_env_var, benchmark.env_var, accuracy.env_var"},
		{"resources", "hardware, worker_config"}, {"benchmark.benchmark_client", "use_nv_sa_benchmark"},
		{"ctx_router_config", ""}, {"server_config_extra", ""}, {"cache_transceiver_precheck", ""},
	},
}

// noteUnused warns of keys that say something which the shipped template of the case has no use for. What the
// environment has given is meant for the cases that can use it.
func (c *Config) noteUnused(r *reader) {
	name := TemplateOf(c)
	for _, k := range unused[name] {
		v := at(r.root, k.path)
		isReplaced := func(one Replaced) bool { return one.Path == k.path }
		if saysNothing(v) || k.path == "benchmark.mode" && c.Benchmark.Mode == "e2e" ||
			slices.ContainsFunc(c.Replaced, isReplaced) {
			continue
		}
		instead := ""
		if k.instead != "" {
			instead = "; it has " + k.instead
		}
		c.warn(v, k.path, "has no effect: the job template %s does not use it%s", name, instead)
	}
}

// saysNothing reports whether a value asks for nothing: it is not there, or it is false or empty, as all in it.
func saysNothing(v *conf.Value) bool {
	if v == nil {
		return true
	}
	switch v.Kind {
	case conf.Null:
		return true
	case conf.Bool:
		return !v.Bool()
	case conf.String:
		return v.Text() == ""
	case conf.Map:
		return !slices.ContainsFunc(v.Keys(), func(name string) bool { return !saysNothing(v.Get(name)) })
	}
	return false
}

// noteIdle warns of keys that say something else than the ones that count, or
// that nothing reads.
func (c *Config) noteIdle(r *reader) {
	for _, path := range []string{"benchmark.env_var", "job.env"} {
		for _, name := range []string{"CONCURRENCY", "PROMPTS", "WARMUP"} {
			if v := r.values[path].Get(name); v != nil && c.Job.Client != "" && TemplateOf(c) == "command" {
				c.warn(v, v.Path(), "has no effect on job.client: each level has another")
			}
		}
	}
	const kind = "metadata.benchmark_type"
	if v := r.values[kind]; v != nil && c.Kind() != "" && v.Text() != c.Kind() {
		c.warn(v, kind, "says %s, and the lengths are %s; the lengths count", v.Text(), c.Kind())
	}
	for _, name := range []string{"extractor_pattern", "metric_names"} {
		path := "metadata.accuracy.metrics." + name
		if v := r.values[path]; v != nil {
			c.warn(v, path, "has no effect: lm_eval's tables are read cell by cell")
		}
	}
	if rest := r.values["benchmark.metrics"]; rest != nil && r.values["metadata.metrics"] != nil {
		c.warn(rest, "benchmark.metrics", "keys that metadata.metrics has too are taken from there")
	}
}

var (
	variable = lazyre.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// reserved are the variables that bash does not let scripts set, or sets itself, and those that job scripts need
	// for themselves.
	reserved = lazyre.New(`^(BASHOPTS|BASHPID|BASH_(ARGC|ARGV|COMMAND|LINENO|SOURCE|SUBSHELL|VERSINFO)|` +
		`DIRSTACK|EUID|EPOCH(REALTIME|SECONDS)|FUNCNAME|GROUPS|HISTCMD|IFS|LINENO|PIPESTATUS|PPID|S?RANDOM|SECONDS|SHELLOPTS|UID|` +
		`SLURM_JOB_ID|PERIGEE_ATTEMPT|perigee_.*)$`)
)

// joined matches two variables that are one word.
var joined = lazyre.New(`[,;][A-Za-z_][A-Za-z0-9_]*=`)

// isSettable reports whether a case may have a variable of this name.
func isSettable(name string) bool { return variable.MatchString(name) && !reserved.MatchString(name) }

// checkNames checks names that end up in job scripts.
func (c *Config) checkNames(r *reader) {
	if strings.ContainsFunc(c.Stem, unicode.IsControl) {
		r.add(nil, "", "the name of the file holds a control character: %q", c.Stem)
	}
	for _, path := range []string{"environment.worker_env_var", "environment.ctx_worker_env_var",
		"environment.gen_worker_env_var", "environment.server_env_var", "environment.client_env_var"} {
		v := r.values[path]
		given := pairs(v.Text())
		for _, pair := range given {
			if name, _, _ := strings.Cut(pair, "="); !isSettable(name) {
				r.add(v, path, "wanted names of environment variables that a job may set, got %q", clip(name))
			}
		}
		if slices.ContainsFunc(given, joined.MatchString) {
			c.warn(v, path, "wanted NAME=VALUE with blanks between: the value of one holds another NAME= behind a comma "+
				"or semicolon")
		}
		if n := len(strings.Fields(v.Text())) - len(given); n > 0 {
			c.warn(v, path, "wanted NAME=VALUE with blanks between: words without NAME= are left out, %d of them", n)
		}
	}
	for _, path := range []string{"benchmark.env_var", "accuracy.env_var", "job.env"} {
		v := r.values[path]
		for _, name := range v.Keys() {
			switch x := v.Get(name); {
			case !isSettable(name):
				r.add(x, path, "wanted the name of an environment variable that a job may set, got %q", clip(name))
			case x.Kind == conf.List || x.Kind == conf.Map:
				r.add(x, x.Path(), "wanted a text, a number or a boolean, got %s", x.Kind)
			}
		}
	}
}
