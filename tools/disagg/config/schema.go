package config

// kind is what a key holds.
type kind int

const (
	text        kind = iota
	script           // of a shell
	integer          // 0 to 1e9
	positive         // 1 to 1e9
	number           // finite
	boolean          //
	texts            // a list of texts; one text is a list of one
	levels           // blank-separated positive integers, one integer, or a list of them
	duration         // "HH:MM:SS", or seconds
	assignments      // blank-separated K=V
	section          // a map whose keys are in the table too
	mapping          // a map with any keys
	anything         // passed through
)

// need says for which jobs a key must be there.
type need int

const (
	_ need = iota // optional
	// always: every config needs it.
	always
	// trtllm: the configs that start TensorRT-LLM workers need it.
	trtllm
	// upstream: as trtllm, but under the later rules only; the README's own
	// example lacks it.
	upstream
)

// key is a row of the schema.
type key struct {
	path string
	kind kind
	need need
	enum []string
	help string
}

// schema lists all keys outside of the worker sections, whose other keys go to
// the server as they are.
var schema = []key{
	{path: "metadata", kind: section, help: "what is measured, and how it is judged"},
	{path: "metadata.id", kind: text, help: "TYPE/CATEGORY/NAME, instead of what the file's place says; effective.yaml has it"},
	{path: "metadata.model_name", kind: text, help: "model, for filters and the CSV column command"},
	{path: "metadata.precision", kind: text, help: "precision, for the CSV column command"},
	{path: "metadata.model_dir_name", kind: text, help: "folder of the model below MODEL_DIR"},
	{path: "metadata.supported_gpus", kind: texts, help: "GPU types that the config is for"},
	{path: "metadata.script_file", kind: text, help: "job template: trtllm, command, or a file (below SCRIPT_DIR)"},
	{path: "metadata.dataset_file", kind: text, help: "data set below DATASET_DIR"},
	{path: "metadata.benchmark_type", kind: text, help: "informational"},
	{path: "metadata.config_index", kind: integer, help: "informational"},
	{path: "metadata.metrics", kind: section, help: "other figures than the default ones"},
	{path: "metadata.metrics.log_file", kind: text, help: "log with the figures"},
	{path: "metadata.metrics.extractor_pattern", kind: text, help: "Python pattern, MULTILINE and VERBOSE"},
	{path: "metadata.metrics.metric_names", kind: texts, help: "a name for each group of the pattern"},
	{path: "metadata.references", kind: mapping,
		help: "expected figures: METRIC or METRIC@CONCURRENCY to [target, lower, upper]"},
	{path: "metadata.accuracy", kind: section, help: "how accuracy is judged"},
	{path: "metadata.accuracy.datasets", kind: anything, help: "list of data sets with their references"},
	{path: "metadata.accuracy.metrics", kind: section, help: "other log or pattern of the evaluation"},
	{path: "metadata.accuracy.metrics.log_file", kind: text, help: "log of the evaluation; may hold *"},
	{path: "metadata.accuracy.metrics.extractor_pattern", kind: text, help: "not used: tables are read cell by cell"},
	{path: "metadata.accuracy.metrics.metric_names", kind: texts, help: "not used: tables are read cell by cell"},

	{path: "slurm", kind: section, help: "what sbatch is given"},
	{path: "slurm.partition", kind: text, help: "partition"},
	{path: "slurm.account", kind: text, help: "account"},
	{path: "slurm.job_time", kind: duration, help: "time limit of the job, HH:MM:SS"},
	{path: "slurm.job_name", kind: text, help: "name of the job"},
	{path: "slurm.script_file", kind: text, help: "set from metadata.script_file"},
	{path: "slurm.numa_bind", kind: boolean, need: upstream, help: "bind workers to NUMA nodes"},
	{path: "slurm.extra_args", kind: text, help: "further options of sbatch, split on blanks"},
	{path: "slurm.set_segment", kind: boolean, help: "ask for all nodes in one segment"},

	{path: "benchmark", kind: section, need: always, help: "the load"},
	{path: "benchmark.mode", kind: text, need: trtllm, enum: []string{"e2e", "gen_only", "gen_only_no_context",
		"ctx_only"}, help: "e2e, gen_only (of one level), gen_only_no_context"},
	{path: "benchmark.streaming", kind: boolean, need: trtllm, help: "must be true"},
	{path: "benchmark.concurrency_start", kind: positive,
		help: "instead of a list: first level, doubled up to the last"},
	{path: "benchmark.concurrency_end", kind: positive, help: "instead of a list: last level"},
	{path: "benchmark.concurrency_list", kind: levels, help: "levels per generation server"},
	{path: "benchmark.input_length", kind: positive, help: "tokens of a prompt"},
	{path: "benchmark.output_length", kind: positive, help: "tokens to generate"},
	{path: "benchmark.multi_round", kind: positive, need: upstream,
		help: "prompts per level are concurrency times this"},
	{path: "benchmark.benchmark_ratio", kind: number, need: upstream,
		help: "lengths are drawn from ratio*length to length"},
	{path: "benchmark.use_nv_sa_benchmark", kind: boolean, need: upstream, help: "the client with random lengths"},
	{path: "benchmark.dataset_file", kind: text, help: "data set of the client"},
	{path: "benchmark.enable_benchmark", kind: boolean, help: "false: accuracy only"},
	{path: "benchmark.env_var", kind: mapping, help: "environment of the client"},
	{path: "benchmark.metrics", kind: section, help: "as metadata.metrics, which goes first"},
	{path: "benchmark.metrics.log_file", kind: text, help: "log with the figures"},
	{path: "benchmark.metrics.extractor_pattern", kind: text, help: "Python pattern, MULTILINE and VERBOSE"},
	{path: "benchmark.metrics.metric_names", kind: texts, help: "a name for each group of the pattern"},

	{path: "sequence", kind: section, help: "where older files have the lengths"},
	{path: "sequence.input_length", kind: positive, help: "tokens of a prompt"},
	{path: "sequence.output_length", kind: positive, help: "tokens to generate"},

	{path: "hardware", kind: section, need: trtllm, help: "how many servers"},
	{path: "hardware.gpus_per_node", kind: positive, need: trtllm, help: "GPUs of a node"},
	{path: "hardware.num_ctx_servers", kind: integer, need: trtllm, help: "context servers"},
	{path: "hardware.num_gen_servers", kind: positive, need: trtllm, help: "generation servers"},

	{path: "environment", kind: section, help: "where things are"},
	{path: "environment.container_mount", kind: text, help: "mounts of the container"},
	{path: "environment.container_image", kind: text, help: "image of the container"},
	{path: "environment.model_path", kind: text, help: "folder of the model"},
	{path: "environment.work_dir", kind: text, help: "folder of the launcher's scripts"},
	{path: "environment.trtllm_repo", kind: text, help: "source to install"},
	{path: "environment.trtllm_wheel_path", kind: text, help: "wheel to install"},
	{path: "environment.build_wheel", kind: boolean, help: "build the source first"},
	{path: "environment.cuda_architectures", kind: text, help: "for the build"},
	{path: "environment.worker_env_var", kind: assignments, help: "environment of all workers"},
	{path: "environment.ctx_worker_env_var", kind: assignments, help: "environment of context workers"},
	{path: "environment.gen_worker_env_var", kind: assignments, help: "environment of generation workers"},
	{path: "environment.server_env_var", kind: assignments, help: "environment of the front end"},
	{path: "environment.log_dir", kind: text, help: "folder of results, instead of slurm_logs in the output folder"},
	{path: "environment.dataset_file", kind: text, help: "where older files have the data set"},

	{path: "profiling", kind: section, help: "Nsight Systems"},
	{path: "profiling.nsys_on", kind: boolean, help: "profile the workers"},
	{path: "profiling.ctx_profile_range", kind: text, help: "iterations of context workers"},
	{path: "profiling.gen_profile_range", kind: text, help: "iterations of generation workers"},

	{path: "accuracy", kind: section, help: "the evaluation that the job runs"},
	{path: "accuracy.enable_accuracy_test", kind: boolean, help: "run it"},
	{path: "accuracy.env_var", kind: mapping, help: "its environment"},
	{path: "accuracy.tasks", kind: anything, help: "tasks by name, or in older files their names with commas"},
	{path: "accuracy.model", kind: text, help: "in older files: local-completions or local-chat-completions"},
	{path: "accuracy.model_args_extra", kind: text, help: "in older files: arguments of the model"},

	{path: "worker_config", kind: section, need: trtllm, help: "the servers"},
	{path: "worker_config.eplb_num_slots", kind: integer, help: "where older files have the slots"},
	{path: "worker_config.gen", kind: mapping, need: trtllm, help: "generation servers; unknown keys pass through"},
	{path: "worker_config.gen.tensor_parallel_size", kind: positive, need: trtllm,
		help: "GPUs of the tensor parallel group"},
	{path: "worker_config.gen.pipeline_parallel_size", kind: positive, help: "pipeline stages"},
	{path: "worker_config.gen.context_parallel_size", kind: positive, help: "context parallel group"},
	{path: "worker_config.gen.max_batch_size", kind: positive, need: trtllm, help: "requests of a batch"},
	{path: "worker_config.gen.max_num_tokens", kind: positive, need: trtllm, help: "tokens of a batch"},
	{path: "worker_config.gen.max_seq_len", kind: positive, need: trtllm, help: "tokens of a sequence"},
	{path: "worker_config.gen.enable_attention_dp", kind: boolean, need: upstream, help: "attention data parallel"},
	{path: "worker_config.gen.cache_transceiver_config", kind: mapping, help: "the KV transfer"},
	{path: "worker_config.gen.cache_transceiver_config.backend", kind: text, need: upstream,
		help: "NIXL, UCX, DEFAULT ..."},
	{path: "worker_config.ctx", kind: mapping, need: trtllm, help: "context servers; unknown keys pass through"},
	{path: "worker_config.ctx.tensor_parallel_size", kind: positive, help: "GPUs of the tensor parallel group"},
	{path: "worker_config.ctx.pipeline_parallel_size", kind: positive, help: "pipeline stages"},
	{path: "worker_config.ctx.context_parallel_size", kind: positive, help: "context parallel group"},
	{path: "worker_config.ctx.max_seq_len", kind: positive, need: trtllm, help: "tokens of a sequence"},

	{path: "job", kind: section, help: "perigee's own section: any server and any client"},
	{path: "job.template", kind: text, help: "trtllm, command, or a file of Go text/template"},
	{path: "job.nodes", kind: positive, help: "nodes of the job (default 1)"},
	{path: "job.tasks_per_node", kind: positive, help: "tasks of a node (default 1)"},
	{path: "job.setup", kind: script, help: "shell commands before everything, on the first node"},
	{path: "job.server", kind: script, help: "shell commands that stay in the background, in every task"},
	{path: "job.ready", kind: script, help: "shell command that succeeds once the server answers"},
	{path: "job.ready_timeout", kind: duration, help: "how long that may take (default 1800 seconds)"},
	{path: "job.client", kind: script, help: "shell commands that run once per level, with CONCURRENCY, PROMPTS, ISL, OSL"},
	{path: "job.command", kind: script, help: "shell commands that run once and print their levels themselves"},
	{path: "job.evaluate", kind: script, help: "shell commands that print lm_eval's table, after the client"},
	{path: "job.env", kind: mapping, help: "environment of the job"},

	{path: "resources", kind: mapping, help: "pools of servers: nodes and workers of prefill and decode, or of agg"},

	{path: "sweep", kind: mapping, help: "makes several cases of one file"},
}
