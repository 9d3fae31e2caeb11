package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

const golden = "../../../tools/disagg/testdata/configs/00_base_valid.yaml"

func base(t testing.TB) string {
	t.Helper()
	text := must.Read(t, golden)
	return string(text)
}

// load reads a text as disagg/perf.
func load(t testing.TB, text string, o Options) []*Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "example.yaml")
	must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	if o.Rules == "" {
		o.Rules = Strict
	}
	return Load(file, Ident{"disagg", "perf", "example"}, o)
}

// swap replaces one text of the golden config.
func swap(t testing.TB, old, new string) string {
	t.Helper()
	text := base(t)
	if !strings.Contains(text, old) {
		t.Fatalf("the config has no %q", old)
	}
	return strings.Replace(text, old, new, 1)
}

func problems(c *Config) string {
	var b strings.Builder
	for _, p := range c.Problems {
		fmt.Fprintf(&b, "%d %s: %s\n", p.Line, p.Path, p.Message)
	}
	return b.String()
}

// minimal is the example of the framework's document.
const minimal = `metadata:
  model_name: "deepseek-r1-fp4"
  precision: "fp4"
  supported_gpus: ["GB200"]
slurm: {partition: "<partition>", account: "<account>", job_time: "02:00:00"}
benchmark:
  mode: "e2e"
  streaming: true
  concurrency_list: "1 2 4 8 16 36"
  input_length: 1024
  output_length: 1024
hardware: {gpus_per_node: 4, num_ctx_servers: 1, num_gen_servers: 4}
environment: {container_mount: "<container_mount>", container_image: "<container_image>", model_path: "<model_path>"}
worker_config:
  gen: {tensor_parallel_size: 8, moe_expert_parallel_size: 8, max_batch_size: 32, max_num_tokens: 32, max_seq_len: 2251}
  ctx: {tensor_parallel_size: 4, moe_expert_parallel_size: 4, max_batch_size: 4, max_num_tokens: 4608, max_seq_len: 2251}
`

func TestDocumentExample(t *testing.T) {
	c := load(t, minimal, Options{})[0]
	if !c.Valid() {
		t.Errorf("strict: %s", problems(c))
	}
	if got := c.Concurrencies(); !slices.Equal(got, []int{4, 8, 16, 32, 64, 144}) || c.Kind() != "1k1k" {
		t.Errorf("concurrencies %v, lengths %s", got, c.Kind())
	}
	var unset []string
	for _, p := range c.Unset() {
		unset = append(unset, p.Path)
	}
	must.Equal(t, []string{"slurm.partition", "slurm.account", "environment.container_image", "environment.container_mount", "environment.model_path"}, unset)
	// The later code needs more, and its rule about levels refuses the example.
	late := problems(load(t, minimal, Options{Rules: Upstream})[0])
	for _, want := range []string{"missing benchmark.multi_round", "missing slurm.numa_bind", "missing worker_config.gen.enable_attention_dp",
		"missing worker_config.gen.cache_transceiver_config.backend", "concurrency 36 exceeds"} {
		if !strings.Contains(late, want) {
			t.Errorf("upstream: %q is missing in\n%s", want, late)
		}
	}
}

func TestProblems(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"job_name: toy", "job_nam: toy", `14 slurm.job_nam: the key "job_nam" is not known here; did you mean "job_name"?`},
		{"model_name: toy-moe", "model_name: [1]", "3 metadata.model_name: wanted text (in quotes it would be text), got a list"},
		{"numa_bind: false", "numa_bind: 'no'", "slurm.numa_bind: wanted true or false, got the text \"no\""},
		{"multi_round: 8", "multi_round: 0", "benchmark.multi_round: wanted a whole number from 1 to 1000000000, got 0"},
		{"mode: e2e", "mode: e2", "benchmark.mode: wanted one of e2e, gen_only"},
		{"mode: e2e\n  use_nv_sa_benchmark: false", "mode: gen_only\n  use_nv_sa_benchmark: true", "benchmark.use_nv_sa_benchmark: this client runs end to end only; mode is gen_only"},
		{"mode: e2e", "mode: gen_only", "benchmark.concurrency_list: mode gen_only measures one level, got 4"},
		{"job_time: 00:05:00", "job_time: soon", "slurm.job_time: wanted a time such as"},
		{"benchmark_ratio: 0.8", "benchmark_ratio: 1.8", "wanted a number from 0 to 1, got 1.8"},
		{"supported_gpus:", "gpu: x\n  supported_gpus:", `the key "gpu" is not known here`},
		{"profiling:", "partition: a\nprofiling:", `the key "partition" is not known here; did you mean "slurm.partition"?`},
		{"num_nextn_predict_layers: 3", "num_nextn_predict_layers: many", "worker_config.gen.speculative_config.num_nextn_predict_layers: wanted a whole number from 0 to 64"},
		{"concurrency_list: 1 2 4 8", "concurrency_list: 1 0 4", "wanted levels from 1 to 1000000000, got 0"},
		{"metadata:", "metadata:\n  metrics: {extractor_pattern: '(a', metric_names: [X]}", "metadata.metrics.extractor_pattern: the pattern is not a regular expression"},
		{"metadata:", "metadata:\n  metrics: {extractor_pattern: '(a)', metric_names: [X, Y]}", "the pattern has 1 groups for the 2 names"},
		{"metadata:", "metadata:\n  metrics: {extractor_pattern: '(1)', metric_names: ['=HYPERLINK(0)']}", `metric_names: wanted names of plain text that begin with none of = + - @, got "=HYPERLINK(0)"`},
		{"metadata:", "metadata:\n  metrics: {extractor_pattern: '(1)', metric_names: [\"a\\e[2J\"]}", `metric_names: wanted names of plain text`},
		{"metadata:", "metadata:\n  metrics: {metric_names: [X]}", "metadata.metrics.metric_names: extractor_pattern and metric_names go together"},
		{"metadata:", "metadata:\n  accuracy: {datasets: [{name: gsm8k, threshold_type: absolute, expected_value: 0.9}]}", "wanted hypothesis_test, the only kind of test, got \"absolute\""},
		{"metadata:", "metadata:\n  accuracy: {datasets: [{nam: gsm8k}]}", `the key "nam" is not known here; did you mean "name"?`},
		{"extra_args: ''", "extra_args: x.sh", "slurm.extra_args: sbatch would take word 1 for the script of the job: wanted options, with blanks between"},
		{"extra_args: ''", "extra_args: --mem=0 x.sh", "would take word 2 for"}, {"extra_args: ''", "extra_args: --exclusive user", "would take word 2 for"},
		{"extra_args: ''", "extra_args: -p gpu x.sh", "would take word 3 for"}, {"extra_args: ''", "extra_args: --comment='a b'", "would take word 2 for"},
		{"extra_args: ''", "extra_args: -- x", "would take word 1 for"}, {"extra_args: ''", "extra_args: --wrap=true", "with --wrap, sbatch does not submit the job"},
		{"extra_args: ''", "extra_args: --mem 4G --vers", "with --vers, sbatch"}, {"extra_args: ''", "extra_args: -V", "with -V, sbatch"},
		{"extra_args: ''", "extra_args: --array=0-1", "with --array, Slurm would run the case several times at once"}, {"extra_args: ''", "extra_args: --arr 0-1", "with --arr, Slurm"},
		{"extra_args: ''", "extra_args: -a 0-1", "with -a, Slurm"}, {"extra_args: ''", "extra_args: -Ha0-1", "with -Ha0-1, Slurm"},
		{"benchmark:", "benchmark:\n  streaming: 1", "this key is given twice"},
		{"benchmark:", "benchmark:\n  env_var: {'A;B': 1}", `wanted the name of an environment variable that a job may set, got "A;B"`},
		{"benchmark:", "benchmark:\n  env_var: {A: [1]}", "benchmark.env_var.A: wanted a text, a number or a boolean, got a list"},
	} {
		if got := problems(load(t, swap(t, c.old, c.new), Options{})[0]); !strings.Contains(got, c.want) {
			t.Errorf("%q: got\n%swant %s", c.new, got, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"- a\n- b\n", "1 : wanted a map with the sections metadata, slurm"},
		{"a: [\n", "this is not YAML"}, {"", "got an empty one"}, {"a: \xff\n", "wanted UTF-8 text"},
	} {
		if got := problems(load(t, c.text, Options{})[0]); !strings.Contains(got, c.want) {
			t.Errorf("%q: got %s", c.text, got)
		}
	}
}

// What a score is held against is finite, and its threshold, too.
func TestReferencesOfDatasets(t *testing.T) {
	of := func(category, entry string) *Config {
		return load(t, "metadata: {id: disagg/"+category+"/x, accuracy: {datasets: ["+entry+"]}}\nbenchmark: {concurrency_list: 1}\njob: {client: a}\n", Options{})[0]
	}
	for entry, want := range map[string]string{
		"expected_value: .nan": "1 metadata.accuracy.datasets[0].expected_value: wanted a number from -1000000000 to 1000000000, got NaN", "expected_value: -.inf": "1000000000, got -Inf",
		"expected_value: 1e155": "expected_value: wanted a number from -1000000000 to 1000000000, got 1e+155", "expected_value: 1, sigma: .nan": "sigma: wanted a number from 0",
		"expected_value: 1, sigma: 1e155": "sigma: wanted a number from 0 to 1000000000", "expected_value: 1, sigma: -1": "sigma: wanted a number from 0 to 1000000000", "expected_value: 1, alpha: 1e-300": "alpha: wanted a number from 1e-09 to 0.999999999",
		"expected_value: 1, beta: .nan": "beta: wanted a number from 1e-09", "expected_value: 1, beta: 1": "beta: wanted a number from 1e-09 to 0.999999999",
		"expected_value: 1, alpha: .002, beta: 0.999, sigma: 0": "", "expected_value: 0": "", "expected_value: 94.5, sigma: 15.08, alpha: 0.5": "",
	} {
		c := of("accuracy", "{name: gsm8k, "+entry+"}")
		if got := problems(c); want == "" && got+fmt.Sprint(c.Warnings) != "[]" || !strings.Contains("\n"+got, want) {
			t.Errorf("%s: got %s%v, want %s", entry, got, c.Warnings, want)
		}
	}
	for entry, want := range map[string]string{
		"{name: gsm8k}":                           "metadata.accuracy.datasets[0].expected_value 1 missing expected_value: the scores of this data set are not judged",
		"{name: gsm8k, expected_value: ~}":        "datasets[0].expected_value 1 missing expected_value: the scores of this data set are not judged",
		"{expected_value: 1}, {name: a}, {}, {} ": "datasets[1].expected_value 1 missing expected_value: the scores of this data set, and of 2 others, are not judged",
	} {
		c := of("stress", entry)
		if !c.Valid() || !strings.Contains(fmt.Sprint(c.Warnings), want) {
			t.Errorf("%s: %s%v", entry, problems(c), c.Warnings)
		}
	}
	for _, entry := range []string{"[.nan, 0, 0]", "[1, .nan, 0.1]", "[1, 0, .inf]"} {
		if got := problems(load(t, "metadata: {references: {SERVER_MEDIAN_TTFT: "+entry+"}}\nbenchmark: {concurrency_list: 1}\njob: {client: a}\n", Options{})[0]); !strings.Contains(got, "wanted") {
			t.Errorf("%s: %s", entry, got)
		}
	}
}

// What sites give sbatch.
func TestOptionsOfSbatch(t *testing.T) {
	for _, text := range []string{"--gres=gpu:4", "--gres gpu:4 --exclusive --mem=0", "-p gpu -N1 --requeue", "--nice=-5 --wait", "--verbose --wckey x", "-w node1 -x node[2-3]",
		"--mail-type END --use-min-nodes --hold", "--export=ALL,A=1 --uid=5"} {
		if c := load(t, swap(t, "extra_args: ''", "extra_args: "+text), Options{})[0]; !c.Valid() {
			t.Errorf("%s: %s", text, problems(c))
		}
	}
}

// All failures of a file come at once, in its order.
func TestAllAtOnce(t *testing.T) {
	text := strings.NewReplacer("streaming: true", "streaming: false", "max_num_tokens: 128", "max_num_tokens: 64", "job_name: toy", "jobname: toy",
		"max_seq_len: 2251\n    cache", "max_seq_len: 1\n    cache", "concurrency_list: 1 2 4 8", "concurrency_list: 1,2").Replace(base(t))
	c := load(t, text, Options{})[0]
	var paths []string
	for i, p := range c.Problems {
		paths = append(paths, p.Path)
		if i > 0 && p.Line < c.Problems[i-1].Line {
			t.Errorf("line %d after line %d", p.Line, c.Problems[i-1].Line)
		}
	}
	want := []string{"slurm.jobname", "benchmark.streaming", "benchmark.concurrency_list", "worker_config.gen.max_num_tokens", "worker_config.gen.max_seq_len", "worker_config.ctx.max_seq_len"}
	must.Equal(t, want, paths)
	c = load(t, swap(t, "job_name: toy", "jobname: toy"), Options{Lenient: true})[0]
	if !c.Valid() || len(c.Warnings) != 1 || c.Warnings[0].Path != "slurm.jobname" {
		t.Errorf("lenient: %v, %v", c.Problems, c.Warnings)
	}
}

// Variables that the client finds with other values have no effect, and are named.
func TestVariablesOfTheClient(t *testing.T) {
	const text = "benchmark: {concurrency_list: 1, env_var: {WARMUP: 1}}\njob: {client: a, env: {PROMPTS: 2, ISL: 3}}\n"
	c := load(t, text, Options{})[0]
	if got := fmt.Sprint(c.Warnings); len(c.Warnings) != 2 || !strings.Contains(got, "benchmark.env_var.WARMUP 1 has no effect") || !strings.Contains(got, "job.env.PROMPTS 2 has no effect") {
		t.Error(got)
	}
	if c := load(t, strings.Replace(text, "client", "command", 1), Options{})[0]; len(c.Warnings) > 0 {
		t.Error(c.Warnings)
	}
}

// What real files hold: anchors, folded scalars, nulls, double entries, older
// layouts, integers where text is meant.
func TestRealShapes(t *testing.T) {
	text := strings.NewReplacer(
		"  input_length: 1024\n  output_length: 1024\n", "",
		"hardware:", "sequence: {input_length: 1024, output_length: 1024}\nhardware:",
		"worker_config:\n", "worker_config:\n  eplb_num_slots: 288\n",
		"job_time: 00:05:00", "job_time: 600",
		"    cache_transceiver_config:\n      backend: NIXL\n      max_tokens_in_buffer: 4608\n    spec", "    cuda_graph_config: &id001\n      batch_sizes: [1, 1024, 1024]\n    moe_config: {load_balancer: /a/file.yaml}\n    cache_transceiver_config: {backend: NIXL}\n    spec",
		"  ctx:\n", "  ctx:\n    cuda_graph_config: *id001\n    print_iter_log: null\n",
		"supported_gpus:\n  - GB200\n  - LOCAL\n", "supported_gpus: GB200\n",
		"container_mount: ''", "container_mount: a:a,\n    b:b",
		"enable_accuracy_test: false", "enable_accuracy_test: true\n  model: local-completions\n  tasks: \"gsm8k,mmlu\"\n  model_args_extra: num_concurrent=5",
	).Replace(base(t))
	c := load(t, text, Options{})[0]
	if !c.Valid() {
		t.Fatal(problems(c))
	}
	if c.Benchmark.Input != 1024 || c.Gen.Slots != 288 || c.Slurm.TimeText != "10:00:00" || !slices.Equal(c.SupportedGPUs, []string{"GB200"}) {
		t.Errorf("%+v", c)
	}
	if c.Environment.ContainerMount != "a:a, b:b" || len(c.Evaluation.Tasks) != 2 || c.Evaluation.Tasks[1].ArgsExtra != "num_concurrent=5" {
		t.Errorf("%+v, %+v", c.Environment, c.Evaluation)
	}
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{"SLURM_PARTITION": "gpu", "MODEL_DIR": "/models", "SLURM_JOB_NAME": "bash", "SLURM_JOB_ID": "7", "CONTAINER_IMAGE": "i.sqsh", "WORK_DIR": "/w"}
	c := load(t, minimal, Options{Env: func(name string) string { return env[name] }})[0]
	if !c.Valid() || c.Slurm.Partition != "gpu" || c.Slurm.JobName != "" || c.Environment.ContainerMount != "/w:/w,/models:/models" || c.Slurm.Account != "<account>" {
		t.Errorf("%s%+v %+v", problems(c), c.Slurm, c.Environment)
	}
	if len(c.Unset()) != 2 { // the account, and the model: the example has no model_dir_name
		t.Errorf("%v", c.Unset())
	}
	text, err := c.Tree.YAML()
	must.Do(t, err)
	again := load(t, string(text), Options{})[0]
	if again.Slurm.Partition != "gpu" {
		t.Errorf("the effective config lost the partition:\n%s", text)
	}
}

// S1: names, order and values of a sweep.
func TestSweep(t *testing.T) {
	text := swap(t, "worker_config:\n  gen:\n", `sweep:
  chunked_prefill_size: [4096, 8192]
  max_total_tokens: [8192, 16384]
worker_config:
  gen:
    args: "--chunk {chunked_prefill_size}"
    max_total_tokens: "{max_total_tokens}"
`)
	list := load(t, text, Options{})
	var names []string
	for _, c := range list {
		names = append(names, c.Stem)
		if !c.Valid() || c.Tree.Has("sweep") {
			t.Errorf("%s: %s", c.Stem, problems(c))
		}
	}
	want := []string{
		"example_chunked_prefill_size4096_max_total_tokens8192", "example_chunked_prefill_size4096_max_total_tokens16384",
		"example_chunked_prefill_size8192_max_total_tokens8192", "example_chunked_prefill_size8192_max_total_tokens16384",
	}
	must.Equal(t, want, names)
	gen := list[1].Gen.Section
	if gen.Get("args").Text() != "--chunk 4096" || gen.Get("max_total_tokens").Int() != 16384 {
		t.Errorf("%v", gen.Plain())
	}
	zip := load(t, swap(t, "worker_config:", "sweep: {zip: {benchmark.input_length: [512, 1024], worker_config.gen.max_batch_size: [32, 16]}}\nworker_config:"), Options{})
	if len(zip) != 2 || zip[0].Stem != "example_input_length512_max_batch_size32" || zip[0].Benchmark.Input != 512 || !zip[0].Valid() || zip[1].Valid() {
		t.Errorf("%d cases, %+v", len(zip), zip[0].Ident)
	}
	for _, c := range []struct{ sweep, want string }{
		{"{a: 1}", "wanted a list of values"}, {"{a: [1]}", "no text of the file holds {a}"}, {"{zip: {slurm.partition: [a, b], slurm.account: [a]}}", "zip wants as many"},
		{"{grid: {}, zip: {}}", "wanted grid or zip, got both"}, {"{slurm.partition: [a/b, a-b]}", "two cases would have the same name"},
		{"{slurm.partition: [[a]]}", "wanted a text, a number or a boolean"}, {"[a]", "wanted a map of names"}, {"{mode.x: [1]}", `the key "mode" is not known`},
		{"{benchmark.mode.x: [1]}", "wanted a map with the key"}, {"{slurm.partition: [x], hardware.num_gen_servers: [0]}", "wanted a whole number from 1"},
	} {
		got := problems(load(t, swap(t, "worker_config:", "sweep: "+c.sweep+"\nworker_config:"), Options{})[0])
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.sweep, got, c.want)
		}
	}
}

// Placeholders stand in values of the sweep, too, whatever the order; what they become is written as in the file, and what
// a shell would read as a variable is refused.
func TestPlaceholders(t *testing.T) {
	const rest = "benchmark: {concurrency_list: 1}\njob: {client: 'echo --batch={batch} --on={on} $HOME ${HOME} \"$\"{batch}', env: {OPTS: '', ON: '{on}'}}\n"
	list := load(t, "sweep:\n  batch: [8, 16]\n  on: [True, false]\n  job.env.OPTS: ['-b {batch}']\n"+rest, Options{})
	if len(list) != 4 || list[0].Stem != "example_batch8_ontrue_OPTS-b-batch-" {
		t.Fatalf("%d cases, %+v %s", len(list), list[0].Ident, problems(list[0]))
	}
	if got := list[2].Job; got.Client != `echo --batch=16 --on=True $HOME ${HOME} "$"16` || got.Env["OPTS"] != "-b 16" || got.Env["ON"] != "True" || !list[2].Valid() {
		t.Errorf("%+v %s", got, problems(list[2]))
	}
	if got := list[1].Job.Client; !strings.Contains(got, "--on=false") {
		t.Error(got)
	}
	list = load(t, "sweep: {tp: [1, 2], slurm.job_name: [a, 'b{tp}']}\nslurm: {job_name: 'n{tp}'}\n"+strings.ReplaceAll(strings.ReplaceAll(rest, "{batch}", ""), "{on}", ""), Options{})
	if len(list) != 4 || !list[0].Valid() || list[0].Slurm.JobName != "a" || list[3].Slurm.JobName != "b2" {
		t.Errorf("%d cases: %s", len(list), problems(list[0]))
	}
	for text, want := range map[string]string{
		"sweep: {n: [1]}\njob:\n  client: |\n    a {n}\n    b ${n}\n": "3 job.client: ${n} is a variable of the shell, and {n} stands for the values of a sweep: write {n} for these, or give the sweep another name",
		"sweep:\n  job.client: ['{n}', 'a${n}']\n  n: [1]\n":          "2 sweep[\"job.client\"][1]: ${n} is a variable",
		"sweep: {zip: {n: [1]}}\njob: {env: {A: ['x', '$${n}']}}\n":   "2 job.env.A[1]: ${n} is a variable",
	} {
		if got := problems(load(t, text, Options{})[0]); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// Values come to a job as they are written.
func TestNumbersOfVariables(t *testing.T) {
	const numbers = `{RUN: 20261126102002123456, COMMIT: 1234e56, ONE: 1.0, HEX: 0x1F, ON: True, OFF: "off", WORD: yes, NONE: ~}`
	want := map[string]string{"RUN": "20261126102002123456", "COMMIT": "1234e56", "ONE": "1.0", "HEX": "0x1F", "ON": "True", "OFF": "off", "WORD": "yes", "NONE": ""}
	c := load(t, "job: {client: a, env: "+numbers+"}\nbenchmark: {concurrency_list: [0x2, 4], env_var: "+numbers+"}\n", Options{})[0]
	for _, got := range []map[string]string{c.Job.Env, c.Benchmark.Env} {
		must.Equal(t, want, got)
	}
	if !c.Valid() || !slices.Equal(c.Benchmark.Levels, []int{2, 4}) {
		t.Error(problems(c), c.Benchmark.Levels)
	}
	c = load(t, "sweep: {job.env.RUN: [20261126102002123456], id: [1234e56]}\njob: {client: a, env: {ID: '{id}', TEXT: 'x{id}'}}\nbenchmark: {concurrency_list: 1}\n", Options{})[0]
	must.Equal(t, map[string]string{"RUN": "20261126102002123456", "ID": "1234e56", "TEXT": "x1234e56"}, c.Job.Env)
}

// A flag of lm_eval is given or not; a value is given as it is.
func TestArgumentsOfTasks(t *testing.T) {
	c := load(t, "job: {client: a}\nbenchmark: {concurrency_list: 1}\naccuracy: {tasks: {b: {model: m, extra_kwargs: "+
		"{on: true, off: false, text: 'false', n: 1.0, fewshot_as_multiturn: false}}}}\n", Options{})[0]
	want := []Argument{{"on", "true"}, {"text", "false"}, {"n", "1.0"}, {"fewshot_as_multiturn", "false"}}
	if diff := cmp.Diff(want, c.Evaluation.Tasks[0].Extra); diff != "" || !c.Valid() {
		t.Error(diff, problems(c))
	}
}

// A sweep makes no more cases than mostVariants, and no deeper keys than a document has.
func TestSweepIsBounded(t *testing.T) {
	const tooMany = "wanted at most 10000 cases, got more"
	for text, want := range map[string]string{
		"sweep: {zip: {a: [" + many(mostVariants+1) + "]}}\njob: {setup: '{a}'}\n":           tooMany,
		"sweep: {a: [" + many(101) + "], b: [" + many(100) + "]}\njob: {setup: '{a} {b}'}\n": tooMany,
		"sweep: {" + strings.Repeat("a.", 500) + "a: [1]}\n":                                 "wanted at most 100 lists and maps inside each other, got more",
	} {
		list := load(t, text, Options{})
		if len(list) != 1 || !strings.Contains(problems(list[0]), want) {
			t.Errorf("%.60s: %d cases, %.200s; want %s", text, len(list), problems(list[0]), want)
		}
	}
}

// Mistakes in sections that the table does not list key by key, and in names and values of variables.
func TestMistakesWithin(t *testing.T) {
	for text, want := range map[string]string{
		"x: 1}\nenvironment: {server_env_var: A-B=1":                `server_env_var: wanted names of environment variables that a job may set, got "A-B"`,
		"x: 1}\nenvironment: {worker_env_var: A=1 UID=5":            `worker_env_var: wanted names of environment variables that a job may set, got "UID"`,
		"x: 1}\nenvironment: {worker_env_var: A=1 HF_TOKEN:hidden":  "wanted NAME=VALUE with blanks between: words without NAME= are left out, 1 of them",
		"x: 1}\nenvironment: {worker_env_var: 'A=1,B=2'":            "the value of one holds another NAME= behind a comma or semicolon",
		"x: 1}\njob: {env: {GROUPS: 1}":                             `that a job may set, got "GROUPS"`,
		"x: 1}\nslurm: {extra_args: '--export=ALL,HF_TOKEN=hidden'": "slurm.extra_args 2 every user of this host sees sbatch's arguments",
		"x: 1}\njob: {env: {PPID: 1}":                               `job.env: wanted the name of an environment variable that a job may set, got "PPID"`,
		"x: 1}\njob: {env: {perigee_dir: 1}":                        `job.env: wanted the name of an environment variable that a job may set, got "perigee_dir"`,
		"x: 1}\njob: {env: {HF_TOKEN:hidden}":                       `job.env: wanted the name of an environment variable that a job may set, got "HF_TOKEN:..."`,
		"x: 1}\nenvironment: 'HF_TOKEN=hidden'\nx: {":               "environment: wanted a map, got text",
		"x: 1}\njob: {nodes: HF_TOKEN=hidden":                       `job.nodes: wanted a whole number from 1 to 1000000000, got the text "HF_TOKEN=..."`,
		"x: 1}\naccuracy: {tasks: {b: nothing}":                     "wanted a map with model, model_args_extra, extra_kwargs, got text",
		"x: 1}\naccuracy: {tasks: {b: {extra_kwarg: {a: 1}}}":       `the key "extra_kwarg" is not known here; did you mean "extra_kwargs"?`,
		"x: 1}\naccuracy: {tasks: {b: {extra_kwargs: --a b}}":       "accuracy.tasks.b.extra_kwargs: wanted a map, got text",
		"x: 1}\naccuracy: {tasks: {b: {extra_kwargs: {a: [1]}}}":    "accuracy.tasks.b.extra_kwargs.a: wanted a text, a number or a boolean, got a list",
		"x: 1}\nenvironment: {HF_TOKEN=hidden: 1":                   `environment.HF_TOKEN=...: the key "HF_TOKEN=..." is not known here`,
		"x: 1}\nbenchmark: {env_var: HF_TOKEN=hidden":               "benchmark.env_var: wanted a map, got text",
		"x: 1}\nbenchmark: {env_var: {HF_TOKEN=hidden: 1}":          `wanted the name of an environment variable that a job may set, got "HF_TOKEN=..."`,
	} {
		text := "metadata: {" + text + "}\n"
		if !strings.Contains(text, "job:") {
			text += "job: {client: a}\n"
		}
		if !strings.Contains(text, "benchmark") {
			text += "benchmark: {concurrency_list: 1}\n"
		}
		c := load(t, text, Options{})[0]
		if got := problems(c) + fmt.Sprint(c.Warnings); !strings.Contains(got, want) || strings.Contains(got, "hidden") {
			t.Errorf("%.60s: got %.300s, want %s", text, got, want)
		}
	}
}

// many lists different numbers.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprint(&b, i, ", ")
	}
	return b.String()
}

// Numbers whose product has no room in an integer are too many GPUs, not none.
func TestTooManyGPUs(t *testing.T) {
	for _, w := range []Worker{{TP: 1 << 22, PP: 1 << 22, CP: 1 << 20}, {TP: 1e9, PP: 1e9, CP: 1e9}, {TP: MostGPUs + 1}} {
		if got := w.World(); got != MostGPUs+1 {
			t.Errorf("%+v: %d GPUs", w, got)
		}
	}
	got := problems(load(t, "benchmark: {concurrency_list: 1}\njob: {client: a, nodes: 1000000000}\n", Options{})[0])
	if !strings.Contains(got, "wanted at most 65536 nodes, got 1000000000") {
		t.Error(got)
	}
}

// What becomes part of a file's name in a job script is no command.
func TestNamesInScripts(t *testing.T) {
	for _, name := range []string{"a;b", "$(x)", "`x`", "a|b", "a&b", "a>b", "-a", "a b", "a*", ".."} {
		got := problems(load(t, swap(t, "accuracy:\n", "accuracy:\n  tasks: {'"+name+"': {model: m}}\n"), Options{})[0])
		if !strings.Contains(got, "wanted the name of a task") {
			t.Errorf("%s: %s", name, got)
		}
	}
	got := problems(load(t, swap(t, "metadata:\n", "metadata:\n  accuracy: {metrics: {log_file: ../../x}}\n"), Options{})[0])
	if !strings.Contains(got, "wanted the name of a file in the result folder") {
		t.Error(got)
	}
}

// Files of other tools are named, whatever is lenient, and only they.
func TestForeign(t *testing.T) {
	recipe := `name: gb200-fp8
model: {path: deepseek-r1, container: latest, precision: fp8}
resources: {gpu_type: gb200, prefill_nodes: 1, decode_nodes: 2, prefill_workers: 1, decode_workers: 1, gpus_per_node: 4}
backend: {type: sglang, sglang_config: {prefill: {tp-size: 4}, decode: {tp-size: 8}}}
benchmark: {type: sa-bench, isl: 1024, osl: 1024, concurrencies: 4x8, req_rate: inf}
`
	for text, want := range map[string]string{
		recipe: "a recipe of srt-slurm, which perigee does not run",
		"cluster: {account: a}\nmodel_paths: {deepseek-r1: /models}\n": "srt-slurm's configuration of a cluster",
	} {
		for _, lenient := range []bool{false, true} {
			c := load(t, text, Options{Lenient: lenient})[0]
			if got := problems(c); len(c.Problems) != 1 || !strings.Contains(got, want) {
				t.Errorf("lenient %v: %s", lenient, got)
			}
		}
	}
	for _, text := range []string{base(t), job("{gpus_per_node: 4, agg_nodes: 1, gpus_per_agg: 1}"), "a: 1\n", "[1]\n", "model: {}\nresources: {}\n"} {
		if got := problems(load(t, text, Options{})[0]); strings.Contains(got, "srt-slurm") {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// A bare number is minutes, as sbatch reads it, quoted or not; 0 is no limit. Of the server's time it is seconds.
func TestJobTime(t *testing.T) {
	for value, want := range map[string]string{
		"90": "01:30:00", `"90"`: "01:30:00", "540": "09:00:00", "0": "0", `"0"`: "0", "00:00:00": "0", "1:30": "00:01:30",
		"2-12": "60:00:00", "2-00": "48:00:00", "1:30:00": "01:30:00", "10:00:00": "10:00:00", `"36000"`: "600:00:00", `"<time>"`: "",
	} {
		text := "slurm: {job_time: " + value + "}\nbenchmark: {concurrency_list: 1}\njob: {client: 'echo'}\n"
		if c := load(t, text, Options{})[0]; !c.Valid() || c.Slurm.TimeText != want {
			t.Errorf("%s: %q %s, wanted %q", value, c.Slurm.TimeText, problems(c), want)
		}
	}
	text := "slurm: {job_time: 36000}\nbenchmark: {concurrency_list: 1}\njob: {client: 'echo', ready_timeout: 90}\n"
	c := load(t, text, Options{})[0]
	if got := problems(c); !strings.Contains(got, `slurm.job_time: wanted "10:00:00" if it is seconds`) || !strings.Contains(got, `or "25-00:00" if it is minutes, got 36000`) {
		t.Error(got)
	}
	for value, want := range map[string]int{"90": 90, `"90"`: 90, "01:30": 90, `"00:30:00"`: 1800} {
		if c := load(t, strings.NewReplacer("36000", "5", ": 90", ": "+value).Replace(text), Options{})[0]; !c.Valid() || c.Job.ReadyTimeout != want {
			t.Errorf("%s: %d %s, wanted %d", value, c.Job.ReadyTimeout, problems(c), want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]int{"30": 1800, "05:30": 330, "02:00:00": 7200, "1-00": 86400, "1-02:30": 95400} {
		v, err := conf.FromPlain("", text)
		must.Do(t, err)
		if got, ok := Seconds(v); !ok || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "a", "1:2:3:4", "-5", "1-", "1-2:3:4:5", "<time>"} {
		v, _ := conf.FromPlain("", text)
		if got, ok := Seconds(v); ok {
			t.Errorf("%q: got %d", text, got)
		}
	}
}

// Every config of a job of commands is as small as this.
func TestCommand(t *testing.T) {
	c := load(t, "benchmark: {concurrency_list: 1 2}\njob: {client: 'echo $CONCURRENCY'}\n", Options{})[0]
	if !c.Valid() || !c.UsesCommand() || !slices.Equal(c.Concurrencies(), []int{1, 2}) {
		t.Error(problems(c))
	}
	if c.SupportedGPUs != nil || c.Kind() != "" {
		t.Errorf("GPUs %v, lengths %q", c.SupportedGPUs, c.Kind())
	}
	for text, want := range map[string]string{
		"benchmark: {concurrency_list: 1}\njob: {template: command}\n":           "missing job.client",
		"benchmark: {concurrency_list: 1}\njob: {client: a, command: b}\n":       "not both",
		"benchmark: {concurrency_list: 1}\njob: {client: a, ready: b}\n":         "no effect without job.server",
		"benchmark: {}\njob: {client: a}\n":                                      "missing benchmark.concurrency_list",
		"benchmark: {concurrency_list: 1, streaming: false}\njob: {client: a}\n": "streaming must be true",
	} {
		if got := problems(load(t, text, Options{})[0]); !strings.Contains(got, want) {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(base(f))
	f.Add(minimal)
	f.Add("sweep: {grid: {a.b: [1]}}\na: 1\n")
	f.Add(minimal + "metadata: {script_file: ../../secret, metrics: {extractor_pattern: '(1)', metric_names: ['=HYPERLINK(0)']}}\n")
	f.Add("benchmark: {concurrency_list: [1, a, 99999999999]}\njob: {client: x}\nmetadata: {accuracy: {datasets: [1, {name: 2}]}}\n")
	documents := []string{base(f), minimal,
		"sweep: {zip: {benchmark.input_length: [1, 2], a: [x, y]}}\nbenchmark: {concurrency_list: [1, 2]}\njob: {client: 'x {a}', env: {A: 1}}\n" +
			"resources: {gpus_per_node: 8, prefill: {num_worker: 2, tp: 4, dcp: 2}, decode_nodes: 0, decode_workers: 1}\n",
		"metadata: {accuracy: {datasets: [{name: gsm8k, expected_value: 0.9, threshold_type: hypothesis_test, alpha: 0.05, num_samples: 10}]}, references: {A@4: [1, -0.1, 0.1]}}\n" +
			"accuracy: {enable_accuracy_test: true, tasks: {gsm8k: {model: m, extra_kwargs: {a: true}}}}\nbenchmark: {concurrency_start: 1, concurrency_end: 8}\njob: {command: x, ready_timeout: '1:00'}\n"}
	fuzztest.RunDocuments(f, documents, func(t *testing.T, text string) {
		tree, err := conf.Parse("a.yaml", []byte(text))
		if err != nil {
			return
		}
		variants, problem := expand(tree)
		if problem != nil {
			return
		}
		for _, rules := range []Rules{Strict, Upstream} {
			c := from(variants[0], "a.yaml", Ident{"wideep", "accuracy", "a"}, Options{Rules: rules, Env: func(string) string { return "x" }})
			if c.Valid() {
				c.Concurrencies()
			}
		}
	})
}

// BenchmarkLoad reads and validates one config.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		Load(golden, Ident{"disagg", "perf", "a"}, Options{Rules: Strict})
	}
}

// What the document's own example of custom figures meets, as it stands and with single quotes, and what is no mistake.
func TestPatternsInYAML(t *testing.T) {
	const metrics = "\n  metrics:\n    log_file: \"custom_benchmark.log\"\n    extractor_pattern: %s\n    metric_names: [\"CUSTOM_METRIC\"]\n"
	for pattern, want := range map[string]string{
		`"Custom Pattern:\s+([0-9.]+)"`:                "if this is a pattern, put it between single quotes, or below |, and write \\s for a blank, since blanks in it are ignored",
		`'Custom Pattern:\s+([0-9.]+)'`:                "blanks in a pattern are ignored (VERBOSE), as in Custom Pattern:\\s+([0-9.]+): write \\s for a blank",
		`'TTFT: ([0-9.]+)'`:                            "blanks in a pattern are ignored",
		`"\bTTFT:([0-9.]+)"`:                           "holds a control character: in double quotes YAML reads backslashes itself",
		`'Custom\ Pattern:\s+([0-9.]+)'`:               "",
		`'Custom[ ]Pattern: # the one above ( a: b )'`: "has 0 groups",
		`"^.*? TTFT \\s+ ( [0-9 ]+ ) (?: \\ ms )"`:     "",
	} {
		c := load(t, swap(t, "metadata:\n", "metadata:"+fmt.Sprintf(metrics, pattern)), Options{})[0]
		said := problems(c)
		for _, p := range c.Warnings {
			said += p.Message
		}
		if (want == "") != (said == "") || !strings.Contains(said, want) || want == "has 0 groups" && strings.Contains(said, "ignored") {
			t.Errorf("%s: %s", pattern, said)
		}
	}
}

// MODEL_DIR and DATASET_DIR act only with the keys that name what is below them, and the messages name these.
func TestFoldersBelow(t *testing.T) {
	text := strings.NewReplacer("  model_dir_name: toy-moe\n", "", "model_path: /models/toy", "model_path: <model_path>",
		"mode: e2e\n", "mode: e2e\n  dataset_file: <dataset>\n").Replace(base(t))
	env := func(name string) string { return map[string]string{"MODEL_DIR": "/m", "DATASET_DIR": "/d"}[name] }
	c := load(t, text, Options{Env: env})[0]
	var said []string
	for _, p := range append(c.Warnings, c.Unset()...) {
		said = append(said, p.Path+": "+p.Message)
	}
	all := strings.Join(said, "\n")
	for _, want := range []string{
		"environment.model_path: MODEL_DIR has no effect without metadata.model_dir_name, the folder of the model below it",
		"environment.model_path: still holds the placeholder <model_path>: set MODEL_DIR and the key metadata.model_dir_name, which names what is below it, or the key",
		"benchmark.dataset_file: still holds the placeholder <dataset>: set DATASET_DIR and the key metadata.dataset_file, which",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
	for _, text := range []string{base(t), strings.Replace(text, "metadata:\n", "metadata:\n  model_dir_name: m\n", 1)} {
		for _, p := range load(t, text, Options{Env: env})[0].Warnings {
			if strings.Contains(p.Message, "MODEL_DIR") {
				t.Errorf("%s", p.Message)
			}
		}
	}
}
