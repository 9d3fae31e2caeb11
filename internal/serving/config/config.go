// Package config reads the test configurations of the disaggregated-serving
// benchmark: one YAML file, one case (or several, with a sweep). It finds them in
// a tree, and selects those that a run is about.
//
// A file is read as a whole and every problem in it is collected with its line;
// one bad file never stops the others. One table lists all keys, what each may
// hold, and where it goes: the reader, the rules and the documentation
// follow it ([Keys] lists them). The sections worker_config.ctx and
// worker_config.gen pass through to the servers untouched. Two sets of rules are
// known, see [Rules].
package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/conf"
)

// Ident is where a config stands in the tree of tests.
type Ident struct {
	Type     string // disagg or wideep
	Category string // perf, perf-sanity, accuracy or stress
	Stem     string // file name without .yaml, and what a sweep adds
}

// String returns the id of the case: {type}_{category}_{stem}.
func (i Ident) String() string { return i.Type + "_" + i.Category + "_" + i.Stem }

// Display returns the id with slashes.
func (i Ident) Display() string { return i.Type + "/" + i.Category + "/" + i.Stem }

// Known reports whether there are default metrics for the type and category.
func (i Ident) Known() bool {
	return slices.Contains(known, i.Type+"/"+i.Category)
}

// known are the types and categories that there are default metrics for. Those of perf-sanity are perf's.
var known = []string{"disagg/perf", "disagg/perf-sanity", "disagg/accuracy", "disagg/stress", "wideep/perf",
	"wideep/accuracy"}

// JudgesScores reports whether the scores of an evaluation are judged in this category.
func (i Ident) JudgesScores() bool { return i.Category == "accuracy" || i.Category == "stress" }

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
	Job         JobSection

	// PassesUpstream says that the rules Upstream take the case; of a case that was read by the rules Strict.
	PassesUpstream bool

	WasRead  bool // key by key: the problems are of these. Otherwise nothing of the file is in the fields above
	Problems []Problem
	Warnings []Problem
	Replaced []Replaced // by the environment
}

// Metrics are custom figures.
type Metrics struct {
	LogFile string
	Pattern *LogPattern // nil: only the log file differs
}

// Slurm is the section slurm.
type Slurm struct {
	Partition, Account, JobName, ScriptFile string
	TimeLimit                               int // seconds; 0: none, -1: the partition's
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
	WorkerEnv, CtxEnv, GenEnv, ServerEnv, ClientEnv    []string // K=V
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

// Worker holds the keys of a worker section that perigee reads.
type Worker struct {
	TP, PP, CP, MaxBatch, MaxTokens, MaxSeq, MTP, Slots int
	AttentionDP                                         bool
	Backend                                             string
	Section                                             *conf.Value // as it is; nil if there is none
}

// JobSection is the section job.
type JobSection struct {
	Template                                        string
	Nodes, TasksPerNode                             int
	Setup, Server, Ready, Client, Command, Evaluate string
	ReadyTimeout                                    int // seconds
	KeepGoing                                       bool
	Line                                            float64 // bytes per second of the links of a host; 0: not given
	Env                                             map[string]string
}

// defaults makes a case with the values of keys that its file lacks.
func defaults(id Ident, file string, tree *conf.Value) *Config {
	none := map[string]string{}
	return &Config{
		Ident: id, File: file, Tree: tree,
		Benchmark: Benchmark{Mode: "e2e", Streaming: true, MultiRound: 1, Ratio: 1, Enabled: true, Env: none},
		Hardware:  Hardware{GenServers: 1},
		Profiling: Profiling{CtxRange: "10-30", GenRange: "200-250"}, Evaluation: Evaluation{Env: none},
		Gen: Worker{TP: 1, PP: 1, CP: 1}, Ctx: Worker{TP: 1, PP: 1, CP: 1},
		Slurm: Slurm{TimeLimit: -1},
		Job:   JobSection{Nodes: 1, TasksPerNode: 1, ReadyTimeout: 1800, Env: none},
	}
}

// MostGPUs is how many GPUs, and how many nodes, a case may ask for. More are a mistake.
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

// Problem is the one of several that explains most: a key that is misspelt is missing, too.
func (c *Config) Problem() Problem {
	i := slices.IndexFunc(c.Problems, func(p Problem) bool { return strings.Contains(p.Message, "did you mean") })
	return c.Problems[max(i, 0)]
}

// UsesCommand reports whether the case runs commands of the section job instead
// of TensorRT-LLM's workers.
func (c *Config) UsesCommand() bool {
	if c.Job.Template != "" {
		return c.Job.Template == "command"
	}
	return c.Slurm.ScriptFile == "command" || c.Job.Client != "" || c.Job.Command != ""
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
		return strconv.Itoa(tokens/1024) + "k"
	}
	return strconv.Itoa(tokens)
}

// Kind returns the lengths such as 1k1k, "" where they are not given.
func (c *Config) Kind() string {
	if c.Benchmark.Input == 0 || c.Benchmark.Output == 0 {
		return ""
	}
	return Length(c.Benchmark.Input) + Length(c.Benchmark.Output)
}
