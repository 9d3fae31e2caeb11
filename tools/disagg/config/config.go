// Package config reads the test configurations of the disaggregated-serving
// benchmark: one YAML file, one case (or several, with a sweep).
//
// A file is read as a whole and every problem in it is collected with its line;
// one bad file never stops the others. The schema is a table ([Keys] lists
// it); the sections worker_config.ctx and worker_config.gen pass through to the
// servers untouched. Two sets of rules are known, see [Rules].
package config

import (
	"cmp"
	"slices"
	"strings"

	"perigee/internal/conf"
	"perigee/internal/plaintext"
	"perigee/tools/disagg/pattern"
)

// Ident is where a config stands in the tree of tests.
type Ident struct {
	Type     string // disagg or wideep
	Category string // perf, accuracy or stress
	Stem     string // file name without .yaml, and what a sweep adds
}

// String returns the id of the case: {type}_{category}_{stem}.
func (i Ident) String() string { return i.Type + "_" + i.Category + "_" + i.Stem }

// Display returns the id with slashes.
func (i Ident) Display() string { return i.Type + "/" + i.Category + "/" + i.Stem }

// Known reports whether there are default metrics for the type and category.
func (i Ident) Known() bool {
	return slices.Contains([]string{"disagg/perf", "disagg/accuracy", "disagg/stress", "wideep/perf",
		"wideep/accuracy"}, i.Type+"/"+i.Category)
}

// Config is one case.
type Config struct {
	Ident
	File string
	Tree *conf.Value // with what a sweep and the environment have replaced

	ModelName, Precision, ModelDir string
	SupportedGPUs                  []string // nil: any
	Metrics                        *Metrics // nil: the default ones
	Datasets                       []Dataset
	References                     []Reference
	Resources                      *Resources // nil: none
	AccuracyLog                    string     // of metadata.accuracy.metrics; may be empty

	Slurm       Slurm
	Benchmark   Benchmark
	Hardware    Hardware
	Environment Environment
	Profiling   Profiling
	Evaluation  Evaluation
	Gen, Ctx    Worker
	Job         Job

	WasRead  bool // key by key: the problems are of these. Otherwise nothing of the file is in the fields above
	Problems []Problem
	Warnings []Problem
	Replaced []Replaced // by the environment
}

// Metrics are custom figures.
type Metrics struct {
	LogFile string
	Pattern *pattern.Pattern // nil: only the log file differs
}

// Slurm is the section slurm.
type Slurm struct {
	Partition, Account, JobName, ScriptFile string
	TimeLimit                               int // seconds; 0: the partition's
	TimeText                                string
	NumaBind                                bool
	ExtraArgs                               []string
	SetSegment                              *bool // nil: the GPU table decides
	HasExtra                                bool
}

// Benchmark is the section benchmark, with the lengths of sequence.
type Benchmark struct {
	Mode        string
	Streaming   bool
	Levels      []int // per generation server
	Input       int   // tokens; 0: not given
	Output      int
	MultiRound  int
	Ratio       float64
	NvSA        bool
	DatasetFile string
	Enabled     bool
	Env         map[string]string
}

// Hardware is the section hardware.
type Hardware struct{ GPUsPerNode, CtxServers, GenServers int }

// Environment is the section environment.
type Environment struct {
	ContainerMount, ContainerImage, ModelPath, WorkDir string
	Repo, Wheel, CudaArchitectures, LogDir             string
	BuildWheel                                         bool
	WorkerEnv, CtxEnv, GenEnv, ServerEnv               []string // K=V
}

// Profiling is the section profiling.
type Profiling struct {
	On                 bool
	CtxRange, GenRange string // iterations, such as 10-30
}

// Evaluation is the section accuracy: what the job evaluates.
type Evaluation struct {
	Enabled bool
	Env     map[string]string
	Tasks   []Task
}

// Task is one evaluation.
type Task struct {
	Name, Model, ArgsExtra string
	Extra                  []Argument // in the order of the file
}

// Argument is a further argument of an evaluation.
type Argument struct{ Key, Value string }

// Worker is what is read of a worker section.
type Worker struct {
	TP, PP, CP, MaxBatch, MaxTokens, MaxSeq, MTP, Slots int
	AttentionDP                                         bool
	Backend                                             string
	Section                                             *conf.Value // as it is; nil if there is none
}

// MostGPUs is how many GPUs, and how many nodes, a case may ask for. More are a mistake, or an attack.
const MostGPUs = 1 << 16

// World is the number of GPUs of one server. Where it is above MostGPUs, it is no more than that.
func (w Worker) World() int {
	n := 1
	for _, size := range []int{w.TP, w.PP, w.CP} {
		if n *= max(1, size); n > MostGPUs {
			return MostGPUs + 1
		}
	}
	return n
}

// Job is the section job.
type Job struct {
	Template                                        string
	Nodes, TasksPerNode                             int
	Setup, Server, Ready, Client, Command, Evaluate string
	ReadyTimeout                                    int // seconds
	Env                                             map[string]string
}

// Concurrencies returns the levels that the client runs, which are the listed
// ones times the number of generation servers.
func (c *Config) Concurrencies() []int {
	list := make([]int, len(c.Benchmark.Levels))
	for i, level := range c.Benchmark.Levels {
		list[i] = level * max(1, c.Hardware.GenServers)
	}
	return list
}

// Valid reports whether there are no problems.
func (c *Config) Valid() bool { return len(c.Problems) == 0 }

// UsesCommand reports whether the case runs commands of the section job instead
// of TensorRT-LLM's workers.
func (c *Config) UsesCommand() bool { return usesCommand(c.Job, c.Slurm.ScriptFile) }

func usesCommand(j Job, script string) bool {
	if j.Template != "" {
		return j.Template == "command"
	}
	return script == "command" || j.Client != "" || j.Command != ""
}

// TemplateOf is the job template of a case: command or trtllm, which are shipped, or a file.
func TemplateOf(c *Config) string {
	switch name := cmp.Or(c.Job.Template, c.Slurm.ScriptFile); {
	case c.UsesCommand():
		return "command"
	case name == "", name == "disaggr_torch.slurm":
		return "trtllm"
	default:
		return name
	}
}

// Length formats tokens as file names have them: 1k, or 1500.
func Length(tokens int) string {
	if tokens >= 1024 && tokens%1024 == 0 {
		return itoa(tokens/1024) + "k"
	}
	return itoa(tokens)
}

// Kind returns the lengths such as 1k1k, "" where they are not given.
func (c *Config) Kind() string {
	if c.Benchmark.Input == 0 || c.Benchmark.Output == 0 {
		return ""
	}
	return Length(c.Benchmark.Input) + Length(c.Benchmark.Output)
}

// fill takes the values of a read document.
func (c *Config) fill(r *reader) {
	c.ModelName = orUnknown(r.text("metadata.model_name"))
	c.Precision = orUnknown(r.text("metadata.precision"))
	c.ModelDir = r.text("metadata.model_dir_name")
	c.SupportedGPUs = r.list("metadata.supported_gpus")
	if c.SupportedGPUs == nil && !usesCommand(Job{Template: r.text("job.template"), Client: r.text("job.client"),
		Command: r.text("job.command")}, r.text("metadata.script_file")) {
		c.SupportedGPUs = []string{"GB200", "GB300", "H100", "B200", "B300"}
	}
	c.fillSlurm(r)
	c.fillBenchmark(r)
	c.Hardware = Hardware{r.int("hardware.gpus_per_node", 0), r.int("hardware.num_ctx_servers", 0),
		r.int("hardware.num_gen_servers", 1)}
	c.Environment = Environment{
		ContainerMount: r.text("environment.container_mount"), ContainerImage: r.text("environment.container_image"),
		ModelPath: r.text("environment.model_path"), WorkDir: r.text("environment.work_dir"),
		Repo: r.text("environment.trtllm_repo"), Wheel: r.text("environment.trtllm_wheel_path"),
		CudaArchitectures: r.text("environment.cuda_architectures"), LogDir: r.text("environment.log_dir"),
		BuildWheel: r.bool("environment.build_wheel", false),
		WorkerEnv:  pairs(r.text("environment.worker_env_var")),
		CtxEnv:     pairs(r.text("environment.ctx_worker_env_var")),
		GenEnv:     pairs(r.text("environment.gen_worker_env_var")),
		ServerEnv:  pairs(r.text("environment.server_env_var")),
	}
	c.Profiling = Profiling{r.bool("profiling.nsys_on", false), cmp.Or(r.text("profiling.ctx_profile_range"), "10-30"),
		cmp.Or(r.text("profiling.gen_profile_range"), "200-250")}
	c.Gen, c.Ctx = r.worker("worker_config.gen"), r.worker("worker_config.ctx")
	if c.Gen.Slots == 0 {
		c.Gen.Slots = r.int("worker_config.eplb_num_slots", 0)
	}
	c.fillJob(r)
	c.fillMetrics(r)
	c.Datasets = r.datasets()
	c.References = r.references()
	if c.Resources = r.resources(); c.Resources != nil && !r.has("job.nodes") {
		c.Job.Nodes = max(1, c.Resources.Nodes())
	}
	if c.UsesCommand() { // what srtctl's clients do
		c.Benchmark.MultiRound = r.int("benchmark.multi_round", 10)
		c.Benchmark.Ratio = r.float("benchmark.benchmark_ratio", 0.8)
	}
	const accuracyLog = "metadata.accuracy.metrics.log_file"
	if c.AccuracyLog = r.text(accuracyLog); strings.ContainsAny(c.AccuracyLog, "/\x00") {
		r.add(r.values[accuracyLog], accuracyLog, "wanted the name of a file in the result folder, got %q", c.AccuracyLog)
		c.AccuracyLog = "" // parse goes on with what it can use
	}
	c.Evaluation = r.evaluation()
}

func (c *Config) fillSlurm(r *reader) {
	c.Slurm = Slurm{
		Partition: r.text("slurm.partition"), Account: r.text("slurm.account"), JobName: r.text("slurm.job_name"),
		ScriptFile: r.text("metadata.script_file"), NumaBind: r.bool("slurm.numa_bind", false),
		ExtraArgs: strings.Fields(r.text("slurm.extra_args")), HasExtra: r.has("slurm.extra_args"),
	}
	if c.Slurm.ScriptFile == "" {
		c.Slurm.ScriptFile = r.text("slurm.script_file")
	}
	if v := r.values["slurm.job_time"]; v != nil {
		c.Slurm.TimeLimit, _ = Seconds(v)
		if c.Slurm.TimeLimit > 0 {
			c.Slurm.TimeText = timeText(c.Slurm.TimeLimit)
		}
	}
	if v := r.values["slurm.set_segment"]; v != nil {
		set := v.Bool()
		c.Slurm.SetSegment = &set
	}
}

func (c *Config) fillBenchmark(r *reader) {
	c.Benchmark = Benchmark{
		Mode: r.text("benchmark.mode"), Streaming: r.bool("benchmark.streaming", true),
		Levels: r.levels("benchmark.concurrency_list"),
		Input:  r.int("benchmark.input_length", r.int("sequence.input_length", 0)),
		Output: r.int("benchmark.output_length", r.int("sequence.output_length", 0)),
		Ratio:  r.float("benchmark.benchmark_ratio", 1), MultiRound: r.int("benchmark.multi_round", 1),
		NvSA: r.bool("benchmark.use_nv_sa_benchmark", false), DatasetFile: r.text("benchmark.dataset_file"),
		Enabled: r.bool("benchmark.enable_benchmark", true), Env: plainMap(r.values["benchmark.env_var"]),
	}
	if r.has("benchmark.concurrency_start") || r.has("benchmark.concurrency_end") {
		if v := r.values["benchmark.concurrency_list"]; v != nil {
			r.add(v, "benchmark.concurrency_start", "concurrency_list has the levels already")
		} else {
			c.Benchmark.Levels = r.doubling()
		}
	}
	if c.Benchmark.DatasetFile == "" {
		c.Benchmark.DatasetFile = r.text("environment.dataset_file")
	}
	if c.Benchmark.Mode == "" {
		c.Benchmark.Mode = "e2e"
	}
}

func (c *Config) fillJob(r *reader) {
	c.Job = Job{
		Template: r.text("job.template"), Nodes: r.int("job.nodes", 1), TasksPerNode: r.int("job.tasks_per_node", 1),
		Setup: r.text("job.setup"), Server: r.text("job.server"), Ready: r.text("job.ready"),
		Client:  r.text("job.client"),
		Command: r.text("job.command"), Evaluate: r.text("job.evaluate"), ReadyTimeout: 1800,
		Env: plainMap(r.values["job.env"]),
	}
	if v := r.values["job.ready_timeout"]; v != nil {
		c.Job.ReadyTimeout, _ = Seconds(v)
	}
}

// fillMetrics takes each key from metadata.metrics or else benchmark.metrics.
func (c *Config) fillMetrics(r *reader) {
	pick := func(name string) string {
		if r.has("metadata.metrics." + name) {
			return "metadata.metrics." + name
		}
		return "benchmark.metrics." + name
	}
	source, names := pick("extractor_pattern"), pick("metric_names")
	m := &Metrics{LogFile: r.text(pick("log_file"))}
	switch {
	case r.has(source) != r.has(names):
		r.add(at(r.root, either(r.has(source), source, names)), either(r.has(source), source, names),
			"extractor_pattern and metric_names go together: a name for each group")
	case r.values[source] != nil && r.values[names] != nil:
		for _, name := range r.list(names) {
			if plaintext.Cell(name) != name { // they stand in a CSV file that is read again
				r.add(r.values[names], names, "wanted names of plain text that begin with none of = + - @, got %q", clip(name))
				return
			}
		}
		p, err := pattern.Compile(r.text(source), r.list(names))
		if err != nil {
			r.add(r.values[source], source, "%s", err)
			return
		}
		m.Pattern = p
	}
	if m.LogFile != "" || m.Pattern != nil {
		c.Metrics = m
	}
	if strings.ContainsAny(m.LogFile, "/\x00") {
		r.add(r.values[pick("log_file")], pick("log_file"), "wanted the name of a file in the result folder, got %q",
			m.LogFile)
		m.LogFile = ""
	}
}

func (r *reader) worker(path string) Worker {
	w := Worker{
		TP: r.int(path+".tensor_parallel_size", 1), PP: r.int(path+".pipeline_parallel_size", 1),
		CP:       r.int(path+".context_parallel_size", 1),
		MaxBatch: r.int(path+".max_batch_size", 0), MaxTokens: r.int(path+".max_num_tokens", 0),
		MaxSeq:      r.int(path+".max_seq_len", 0),
		AttentionDP: r.bool(path+".enable_attention_dp", false), Backend: r.text(path +
			".cache_transceiver_config.backend"),
		Section: r.values[path],
	}
	if path == "worker_config.ctx" {
		w.MaxBatch, w.MaxTokens = int(at(r.root, path+".max_batch_size").Int()),
			int(at(r.root, path+".max_num_tokens").Int())
	}
	w.MTP = r.whole(path+".speculative_config.num_nextn_predict_layers", 64)
	// load_balancer may be the name of a file instead, which holds the slots.
	if at(r.root, path+".moe_config.load_balancer").Len() > 0 {
		w.Slots = r.whole(path+".moe_config.load_balancer.num_slots", 1_000_000)
	}
	return w
}

// whole reads an optional integer of a pass-through section that a rule needs.
func (r *reader) whole(path string, largest int64) int {
	v := at(r.root, path)
	switch {
	case v == nil || v.Kind == conf.Null:
		return 0
	case v.Kind != conf.Int || v.Int() < 0 || v.Int() > largest:
		r.add(v, path, "wanted a whole number from 0 to %d, got %s", largest, shown(v))
		return 0
	}
	return int(v.Int())
}
