package config

import (
	"slices"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/value"
)

// need says for which jobs a key must be there.
type need int

const (
	optional need = iota
	// always: every config needs it.
	always
	// trtllm: the configs that start TensorRT-LLM workers need it.
	trtllm
	// upstream: as trtllm, but under the later rules only; the README's own
	// example lacks it.
	upstream
	// strict: as trtllm, but under the document's rules only; the server takes the model's value.
	strict
)

// key is a row of the schema: a key of a configuration, and where its value goes.
type key struct {
	path string
	to   place
	need need
	help string
}

// keys are a schema.
type keys []key

// table holds the rows for those who need only names, help, and what is required.
var table = new(Config).schema(new(older))

// Keys lists the keys that hold values, by their paths.
func Keys() []string {
	var list []string
	for _, k := range table {
		if _, isSection := k.to.(section); !isSection {
			list = append(list, k.path)
		}
	}
	return list
}

// find returns the row of a path, or nil.
func (ks keys) find(path string) *key {
	i := slices.IndexFunc(ks, func(k key) bool { return k.path == path })
	if i < 0 {
		return nil
	}
	return &ks[i]
}

// names lists the keys of a section; "" is the document.
func (ks keys) names(section string) (list []string) {
	for _, k := range ks {
		name, inside := strings.CutPrefix(k.path, section+".")
		if section == "" {
			name, inside = k.path, true
		}
		if inside && !strings.Contains(name, ".") {
			list = append(list, name)
		}
	}
	return list
}

// older takes the values that older files have in other places, and those of which complete makes something else.
type older struct {
	input, output, slots    int
	scriptFile, datasetFile string
	levelsFrom, levelsTo    int
	metrics                 [2]figures // of metadata and of benchmark
	datasets, tasks         *conf.Value
	taskModel, taskArgs     string
	references, resources   *conf.Value
}

// figures are the keys of a section metrics.
type figures struct {
	logFile, pattern string
	names            []string
}

func (f *figures) keys(section string) keys {
	return keys{
		{section + ".log_file", logName{&f.logFile}, optional, "log with the figures"},
		{section + ".extractor_pattern", text{&f.pattern}, optional, "Python pattern, MULTILINE and VERBOSE"},
		{section + ".metric_names", texts{&f.names}, optional, "a name for each group of the pattern"},
	}
}

// schema lists all keys outside of the worker sections, whose other keys go to the server as they are.
func (c *Config) schema(o *older) keys {
	return slices.Concat(c.measured(o), c.load(o), c.places(o), c.servers(o))
}

// measured are the keys that say what is measured and judged, and what sbatch is given.
func (c *Config) measured(o *older) keys {
	s := &c.Slurm
	return slices.Concat(keys{
		{"metadata", section{}, optional, "what is measured, and how it is judged"},
		{"metadata.id", text{new(string)}, optional,
			"TYPE/CATEGORY/NAME, instead of what the file's place says; effective.yaml has it"},
		{"metadata.model_name", text{&c.ModelName}, optional, "model, for filters and the CSV column command"},
		{"metadata.architecture", text{new(string)}, optional, "informational"},
		{"metadata.precision", text{&c.Precision}, optional, "precision, for the CSV column command"},
		{"metadata.model_dir_name", text{&c.ModelDir}, optional, "folder of the model below MODEL_DIR"},
		{"metadata.supported_gpus", texts{&c.SupportedGPUs}, optional, "GPU types that the config is for"},
		{"metadata.script_file", text{&s.ScriptFile}, optional, "job template: trtllm, command, or a file (below SCRIPT_DIR)"},
		{"metadata.dataset_file", text{new(string)}, optional, "data set below DATASET_DIR"},
		{"metadata.benchmark_type", text{new(string)}, optional, "informational"},
		{"metadata.config_index", count(new(int)), optional, "informational"},
		{"metadata.metrics", section{}, optional, "other figures than the default ones"},
	}, o.metrics[0].keys("metadata.metrics"), keys{
		{"metadata.references", mapping{&o.references}, optional,
			"expected figures: METRIC or METRIC@CONCURRENCY to [target, lower, upper]"},
		{"metadata.accuracy", section{}, optional, "how accuracy is judged"},
		{"metadata.accuracy.datasets", anything{&o.datasets}, optional, "list of data sets with their references"},
		{"metadata.accuracy.metrics", section{}, optional, "other log or pattern of the evaluation"},
		{"metadata.accuracy.metrics.log_file", logName{&c.AccuracyLog}, optional, "log of the evaluation; may hold *"},
		{"metadata.accuracy.metrics.extractor_pattern", text{new(string)}, optional,
			"not used: tables are read cell by cell"},
		{"metadata.accuracy.metrics.metric_names", texts{new([]string)}, optional,
			"not used: tables are read cell by cell"},

		{"slurm", section{}, optional, "what sbatch is given"},
		{"slurm.partition", text{&s.Partition}, optional, "partition"},
		{"slurm.account", text{&s.Account}, optional, "account"},
		{"slurm.job_time", timeLimit{&s.TimeLimit}, optional, "time limit of the job: HH:MM:SS or minutes, 0: none"},
		{"slurm.job_name", text{&s.JobName}, optional, "name of the job"},
		{"slurm.script_file", text{&o.scriptFile}, optional, "set from metadata.script_file"},
		{"slurm.numa_bind", flag{&s.NumaBind}, upstream, "bind workers to NUMA nodes"},
		{"slurm.extra_args", words{&s.ExtraArgs}, optional, "further options of sbatch, split on blanks"},
		{"slurm.set_segment", optionalFlag{&s.SetSegment}, optional, "ask for all nodes in one segment"},
	})
}

// load are the keys of the load.
func (c *Config) load(o *older) keys {
	b := &c.Benchmark
	modes := []string{"e2e", "gen_only", "gen_only_no_context", "ctx_only"}
	return slices.Concat(keys{
		{"benchmark", section{}, always, "the load"},
		{"benchmark.mode", oneOf{&b.Mode, modes}, trtllm, "e2e, gen_only (of one level), gen_only_no_context"},
		{"benchmark.streaming", flag{&b.Streaming}, trtllm, "must be true"},
		{"benchmark.concurrency_start", positive(&o.levelsFrom), optional,
			"instead of a list: first level, doubled up to the last"},
		{"benchmark.concurrency_end", positive(&o.levelsTo), optional, "instead of a list: last level"},
		{"benchmark.concurrency_list", levels{&b.Levels}, optional, "levels per generation server"},
		{"benchmark.input_length", positive(&b.Input), optional, "tokens of a prompt"},
		{"benchmark.output_length", positive(&b.Output), optional, "tokens to generate"},
		{"benchmark.multi_round", positive(&b.MultiRound), upstream, "prompts per level are concurrency times this"},
		{"benchmark.benchmark_ratio", number{&b.Ratio, value.Number(0, 1)},
			upstream, "lengths are drawn from ratio*length to length"},
		{"benchmark.use_nv_sa_benchmark", flag{&b.NvSA}, upstream, "the client with random lengths"},
		{"benchmark.benchmark_client", text{new(string)}, optional, "another client, as agentx; of perf-sanity only"},
		{"benchmark.dataset_file", text{&b.DatasetFile}, optional, "data set of the client"},
		{"benchmark.enable_benchmark", flag{&b.Enabled}, optional, "false: accuracy only"},
		{"benchmark.env_var", variables{&b.Env}, optional, "environment of the client"},
		{"benchmark.metrics", section{}, optional, "as metadata.metrics, which goes first"},
	}, o.metrics[1].keys("benchmark.metrics"), keys{
		{"sequence", section{}, optional, "where older files have the lengths"},
		{"sequence.input_length", positive(&o.input), optional, "tokens of a prompt"},
		{"sequence.output_length", positive(&o.output), optional, "tokens to generate"},
	})
}

// places are the keys that say where the servers run, and with what.
func (c *Config) places(o *older) keys {
	h, e := &c.Hardware, &c.Environment
	return keys{
		{"hardware", section{}, trtllm, "how many servers"},
		{"hardware.gpus_per_node", positive(&h.GPUsPerNode), trtllm, "GPUs of a node"},
		{"hardware.num_ctx_servers", count(&h.CtxServers), trtllm, "context servers"},
		{"hardware.num_gen_servers", positive(&h.GenServers), trtllm, "generation servers"},

		{"environment", section{}, optional, "where things are"},
		{"environment.container_mount", text{&e.ContainerMount}, optional, "mounts of the container"},
		{"environment.container_image", text{&e.ContainerImage}, optional, "image of the container"},
		{"environment.model_path", text{&e.ModelPath}, optional, "folder of the model"},
		{"environment.work_dir", text{&e.WorkDir}, optional, "folder of the launcher's scripts"},
		{"environment.trtllm_repo", text{&e.Repo}, optional, "source to install"},
		{"environment.trtllm_wheel_path", text{&e.Wheel}, optional, "wheel to install"},
		{"environment.build_wheel", flag{&e.BuildWheel}, optional, "build the source first"},
		{"environment.cuda_architectures", text{&e.CudaArchitectures}, optional, "for the build"},
		{"environment.worker_env_var", assignments{&e.WorkerEnv}, optional, "environment of all workers"},
		{"environment.ctx_worker_env_var", assignments{&e.CtxEnv}, optional, "environment of context workers"},
		{"environment.gen_worker_env_var", assignments{&e.GenEnv}, optional, "environment of generation workers"},
		{"environment.server_env_var", assignments{&e.ServerEnv}, optional, "environment of the front end"},
		{"environment.client_env_var", assignments{&e.ClientEnv}, optional, "environment of the client"},
		{"environment.log_dir", text{&e.LogDir}, optional, "folder of results, instead of slurm_logs in the output folder"},
		{"environment.dataset_file", text{&o.datasetFile}, optional, "where older files have the data set"},

		{"profiling", section{}, optional, "Nsight Systems"},
		{"profiling.nsys_on", flag{&c.Profiling.On}, optional, "profile the workers"},
		{"profiling.ctx_profile_range", text{&c.Profiling.CtxRange}, optional, "iterations of context workers"},
		{"profiling.gen_profile_range", text{&c.Profiling.GenRange}, optional, "iterations of generation workers"},

		{"ctx_router_config", mapping{new(*conf.Value)}, optional, "how context servers are chosen; of perf-sanity only"},
		{"server_config_extra", mapping{new(*conf.Value)}, optional, "more of the front end; of perf-sanity only"},
		{"cache_transceiver_precheck", mapping{new(*conf.Value)}, optional, "a check before; of perf-sanity only"},

		{"accuracy", section{}, optional, "the evaluation that the job runs"},
		{"accuracy.enable_accuracy_test", flag{&c.Evaluation.Enabled}, optional, "run it"},
		{"accuracy.env_var", variables{&c.Evaluation.Env}, optional, "its environment"},
		{"accuracy.tasks", anything{&o.tasks}, optional, "tasks by name, or in older files their names with commas"},
		{"accuracy.model", text{&o.taskModel}, optional, "in older files: local-completions or local-chat-completions"},
		{"accuracy.model_args_extra", text{&o.taskArgs}, optional, "in older files: arguments of the model"},
	}
}

// servers are the keys of the servers: TensorRT-LLM's, or those that commands start.
func (c *Config) servers(o *older) keys {
	g, x, j := &c.Gen, &c.Ctx, &c.Job
	const gen, ctx = "worker_config.gen", "worker_config.ctx"
	return keys{
		{"worker_config", section{}, trtllm, "the servers"},
		{"worker_config.eplb_num_slots", count(&o.slots), optional, "where older files have the slots"},
		{gen, mapping{&g.Section}, trtllm, "generation servers; unknown keys pass through"},
		{gen + ".tensor_parallel_size", positive(&g.TP), trtllm, "GPUs of the tensor parallel group"},
		{gen + ".pipeline_parallel_size", positive(&g.PP), optional, "pipeline stages"},
		{gen + ".context_parallel_size", positive(&g.CP), optional, "context parallel group"},
		{gen + ".max_batch_size", positive(&g.MaxBatch), trtllm, "requests of a batch"},
		{gen + ".max_num_tokens", positive(&g.MaxTokens), trtllm, "tokens of a batch"},
		{gen + ".max_seq_len", positive(&g.MaxSeq), strict, "tokens of a sequence"},
		{gen + ".enable_attention_dp", flag{&g.AttentionDP}, upstream, "attention data parallel"},
		{gen + ".cache_transceiver_config", mapping{new(*conf.Value)}, optional, "the KV transfer"},
		{gen + ".cache_transceiver_config.backend", text{&g.Backend}, upstream, "NIXL, UCX, DEFAULT ..."},
		{ctx, mapping{&x.Section}, trtllm, "context servers; unknown keys pass through"},
		{ctx + ".tensor_parallel_size", positive(&x.TP), optional, "GPUs of the tensor parallel group"},
		{ctx + ".pipeline_parallel_size", positive(&x.PP), optional, "pipeline stages"},
		{ctx + ".context_parallel_size", positive(&x.CP), optional, "context parallel group"},
		{ctx + ".max_seq_len", positive(&x.MaxSeq), strict, "tokens of a sequence"},

		{"job", section{}, optional, "perigee's own section: any server and any client"},
		{"job.template", text{&j.Template}, optional, "trtllm, command, or a file of Go text/template"},
		{"job.nodes", positive(&j.Nodes), optional, "nodes of the job (default 1)"},
		{"job.tasks_per_node", positive(&j.TasksPerNode), optional, "tasks of a node (default 1)"},
		{"job.setup", script{&j.Setup}, optional, "shell commands before everything, on the first node"},
		{"job.server", script{&j.Server}, optional, "shell commands that stay in the background, in every task"},
		{"job.ready", script{&j.Ready}, optional, "shell command that succeeds once the server answers"},
		{"job.ready_timeout", duration{&j.ReadyTimeout}, optional, "how long that may take (default 1800 seconds)"},
		{"job.client", script{&j.Client}, optional,
			"shell commands that run once per level, with CONCURRENCY, PROMPTS, ISL, OSL"},
		{"job.command", script{&j.Command}, optional, "shell commands that run once and print their levels themselves"},
		{"job.keep_going", flag{&j.KeepGoing}, optional, "a level whose client fails does not end the others; the case fails"},
		{"job.line", rate{&j.Line}, optional, "rate of a host's links, such as 400Gbit: no KV transfer in the logs may be faster"},
		{"job.evaluate", script{&j.Evaluate}, optional, "shell commands that print lm_eval's table, after the client"},
		{"job.env", variables{&j.Env}, optional, "environment of the job"},

		{"resources", mapping{&o.resources}, optional,
			"pools of servers: nodes and workers of prefill and decode, or of agg"},

		{"sweep", mapping{new(*conf.Value)}, optional, "makes several cases of one file"},
	}
}
