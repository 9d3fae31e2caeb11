// Package launch makes the batch script of a case from a template, and the
// arguments of sbatch. What it makes is exactly what is submitted.
//
// A template is a Go text/template; its data is [Data]. Two are shipped: trtllm
// starts TensorRT-LLM's context and generation servers as TensorRT-LLM's own
// launcher does, command runs any server and any client.
package launch

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/secret"
	"perigee/tools/disagg/catalog"
	"perigee/tools/disagg/config"
	"perigee/tools/disagg/probe"
)

//go:embed templates
var shipped embed.FS

// Options are what a job needs beside its config.
type Options struct {
	Dir     string // result folder, absolute
	GPU     catalog.GPU
	Nodes   int    // instead of the computed number; 0: as computed
	Comment string // by which the job is found again
	Perigee string // this program, which probes the fabric; "": no probe
}

// Plan is a job as it is submitted.
type Plan struct {
	Args     []string // of sbatch, before the script
	Script   string   // path of the script in Dir
	Text     string   // of the script
	Files    map[string]string
	Nodes    int // as submitted
	Computed int // nodes that the config asks for
	Template string
}

// Command is the command line that submits the plan.
func (p *Plan) Command() []string { return append(append([]string{"sbatch"}, p.Args...), p.Script) }

// Data is what a template can use.
type Data struct {
	*config.Config
	ID            string
	Dir           string // result folder
	Concurrencies []int  // of the client
	Nodes         int
	Tasks         int
	TasksPerNode  int
	Workers       []Worker // generation servers first
	Front         Front
	Warmup        int // requests before the levels
	Perigee       string
	Probe         string
	Capped        bool   // on fewer nodes than asked for, with one task per server and node
	NodeSpan      int    // nodes that the placeholders stand for
	Secret        string // pattern of variables that environment.txt lacks
}

// planFiles are files of plans that no log may be named like, as far as they are not logs.
var planFiles = []string{
	scriptFile, Effective, "setup.sh", "server.sh", "ready.sh", "client.sh", "command.sh", "evaluate.sh", "task.sh",
	"gen_config.yaml", "ctx_config.yaml", "server_config_base.yaml", "allocations.json", "probe_0_1.txt",
}

// OwnLogs are the logs that the config itself names, in the result folder, as words of the shell. An attempt of a job
// begins without those of the one before.
func (d *Data) OwnLogs() (words []string) {
	names := []string{d.AccuracyLog}
	if d.Metrics != nil {
		names = append(names, d.Metrics.LogFile)
	}
	for _, name := range names {
		isFile := func(file string) bool { ok, err := filepath.Match(name, file); return ok || err != nil }
		if name == "" || slices.ContainsFunc(planFiles, isFile) {
			continue
		}
		parts := strings.Split("./"+name, "*")
		for i := range parts {
			if parts[i] != "" {
				parts[i] = cli.Quote(parts[i])
			}
		}
		words = append(words, strings.Join(parts, "*"))
	}
	return words
}

// noContext has workers and the front end do without context servers.
const noContext = "TRTLLM_DISAGG_BENCHMARK_GEN_ONLY=1"

// FrontEnv lists the environment of the front end.
func (d *Data) FrontEnv() []string {
	list := slices.Clone(d.Environment.ServerEnv)
	if d.Benchmark.Mode == "gen_only_no_context" {
		list = append(list, noContext)
	}
	return list
}

// WorkerEnv lists the environment of a worker.
func (d *Data) WorkerEnv(w Worker) []string {
	own, span := d.Environment.GenEnv, d.Profiling.GenRange
	if w.Role == "CTX" {
		own, span = d.Environment.CtxEnv, d.Profiling.CtxRange
	}
	list := slices.Concat(d.Environment.WorkerEnv, own)
	switch mode := d.Benchmark.Mode; {
	case mode == "gen_only_no_context":
		list = append(list, noContext)
	case mode == "gen_only":
		list = append(list, "TRTLLM_DISABLE_KV_CACHE_TRANSFER_OVERLAP=1")
		// A generation server begins when it has so many requests, once: the config has one level.
		if w.Role == "GEN" && d.Benchmark.Enabled && len(d.Benchmark.Levels) > 0 {
			list = append(list, fmt.Sprintf("TLLM_BENCHMARK_REQ_QUEUES_SIZE=%d", d.Benchmark.Levels[0]))
		}
	}
	if d.Profiling.On {
		list = append(list, "TLLM_PROFILE_START_STOP="+span)
	}
	return append(list, "CUDA_VISIBLE_DEVICES="+w.Devices)
}

// Mounts lists the mounts of the container: those of the config, and, unless one of those has them in their places, the
// folder of the launcher's scripts, and the result folder, from which servers take their configuration.
func (d *Data) Mounts() []string {
	var list []string
	if d.Environment.ContainerMount != "" {
		list = strings.Split(d.Environment.ContainerMount, ",")
	}
	for _, dir := range []string{d.Environment.WorkDir, d.Dir} {
		has := func(mount string) bool {
			from, to, _ := strings.Cut(mount, ":")
			return from != "" && from == to && strings.HasPrefix(dir+"/", strings.TrimSuffix(from, "/")+"/")
		}
		if filepath.IsAbs(dir) && !slices.ContainsFunc(list, has) {
			list = append(list, dir+":"+dir)
		}
	}
	return list
}

// TaskArguments lists the further arguments of an evaluation.
func (d *Data) TaskArguments(t config.Task) ([]string, error) {
	const repo, longest = "<repo_path>", 1 << 20
	var list []string
	for _, a := range t.Extra {
		switch {
		case a.Key == "custom_config" && strings.Count(a.Value, repo) > longest/max(1, len(d.Environment.Repo)):
			return nil, fault.New(fault.Input, "%s: custom_config of the task %s is longer than %d MiB with its %s replaced",
				d.File, t.Name, longest>>20, repo)
		case a.Key == "custom_config":
			list = append(list, "--include_path="+strings.ReplaceAll(a.Value, repo, d.Environment.Repo))
		case a.Value == "true":
			list = append(list, "--"+a.Key)
		default:
			list = append(list, "--"+a.Key+"="+a.Value)
		}
	}
	return list, nil
}

// Worker is one server process group.
type Worker struct {
	Role         string `json:"server_type"` // GEN or CTX
	ID           int    `json:"server_id"`
	Port         int    `json:"port"`
	World        int    `json:"world"`
	Hosts        []Host `json:"nodes"`
	Devices      string `json:"devices"` // CUDA_VISIBLE_DEVICES of the first node
	TasksPerNode int    `json:"tasks_per_node"`
	Config       string `json:"config"`
}

// Host is a node's share of a worker.
type Host struct {
	Node int   `json:"node"` // index into the sorted list of the job's nodes
	GPUs []int `json:"gpus"`
}

// Front is the process that clients talk to.
type Front struct{ Node, Port int }

const (
	firstPort  = 8000
	frontPort  = 8333
	scriptFile = "job.sh"
)

// New makes the plan of a case. It writes nothing.
func New(c *config.Config, o Options) (*Plan, error) {
	if strings.Contains(o.Dir, `\`) {
		return nil, fault.New(fault.Output, "the result folder %s has a backslash in its path, which sbatch takes out", o.Dir).
			WithHint("--output, OUTPUT_PATH or environment.log_dir names another")
	}
	name, text, err := find(c)
	if err != nil {
		return nil, err
	}
	if mode := c.Benchmark.Mode; name == "trtllm" && mode == "ctx_only" {
		return nil, fault.New(fault.Input, "%s: benchmark.mode: the template trtllm does not measure %s", c.File, mode).
			WithHint("wanted e2e, gen_only or gen_only_no_context, or a job template that does")
	}
	d := Data{Config: c, ID: c.Ident.String(), Dir: o.Dir, Concurrencies: c.Concurrencies(), Perigee: o.Perigee,
		Secret: secret.Pattern}
	p := &Plan{Template: name, Script: filepath.Join(o.Dir, scriptFile), Files: map[string]string{}}
	if c.UsesCommand() {
		d.Nodes, d.TasksPerNode = c.Job.Nodes, c.Job.TasksPerNode
	} else if err := d.place(); err != nil {
		return nil, err
	}
	p.Computed, d.NodeSpan = d.Nodes, d.Nodes
	if o.Nodes > 0 && o.Nodes != d.Nodes {
		d.Nodes, d.TasksPerNode, d.Capped = o.Nodes, 1, true
	}
	d.Tasks = d.Nodes * d.TasksPerNode
	d.probe(p)
	p.Nodes = d.Nodes
	if p.Text, err = d.render(name, text); err != nil {
		return nil, err
	}
	p.Args = d.arguments(o)
	return p, d.files(p)
}

// probe plans a probe of the fabric, where there is more than one node.
func (d *Data) probe(p *Plan) {
	if d.Perigee == "" {
		return
	}
	nodes := make([]int, d.Nodes)
	for i := range nodes {
		nodes[i] = i
	}
	prefill, decode := nodes, nodes // a command places the servers itself
	if !d.UsesCommand() {
		n := min(d.Nodes, ceil(d.Gen.World()*d.Hardware.GenServers, d.Hardware.GPUsPerNode))
		decode, prefill = nodes[:n], nodes[n:]
	}
	if plan := probe.New(d.Nodes, prefill, decode, d.ModelName, int64(d.Benchmark.Input)); plan != nil {
		d.Probe = plan.Arguments
		maps.Copy(p.Files, plan.Files)
	}
}

// find returns the name and text of the template of a case.
func find(c *config.Config) (name, text string, err error) {
	name = config.TemplateOf(c)
	data, err := shipped.ReadFile("templates/" + name + ".tmpl")
	if err == nil {
		return name, string(data), nil
	}
	for _, path := range candidates(c, name) {
		data, err = file.Read(path, mostTemplate)
		switch {
		case err == nil:
			return path, string(data), nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", "", fault.New(fault.Input, "%s: metadata.script_file: %w", c.File, err)
		}
	}
	return "", "", fault.New(fault.Input,
		"%s: metadata.script_file: there is no job template %q, neither shipped (trtllm, command) nor in %s or beside the config",
		c.File, name, cmp.Or(c.Environment.WorkDir,
			"environment.work_dir")).WithHint("SCRIPT_DIR sets environment.work_dir")
}

// candidates lists where the template of a case may be; the first that is there is taken.
func candidates(c *config.Config, name string) []string {
	if filepath.IsAbs(name) {
		return []string{name}
	}
	list := []string{file.Beside(c.File, name)}
	if dir := c.Environment.WorkDir; dir != "" {
		list = []string{filepath.Join(dir, name), list[0]}
	}
	return list
}

// place deals the GPUs by one running cursor, generation servers first, as
// TensorRT-LLM's launcher does. Ports are unique over both roles, since servers
// of both may share a node.
func (d *Data) place() error {
	h := d.Hardware
	per := h.GPUsPerNode
	if per == 0 || d.Gen.Section == nil || d.Ctx.Section == nil {
		return fault.New(fault.Input, "%s: the template trtllm wants hardware.gpus_per_node, worker_config.gen and "+
			"worker_config.ctx", d.File)
	}
	gen, ctx := d.Gen.World(), d.Ctx.World()
	if gen > config.MostGPUs/max(1, h.GenServers) || ctx > config.MostGPUs/max(1, h.CtxServers) {
		return fault.New(fault.Input, "%s: worker_config: wanted at most %d GPUs of a role, got more", d.File,
			config.MostGPUs)
	}
	d.Nodes = ceil(gen*h.GenServers, per) + ceil(ctx*h.CtxServers, per)
	d.TasksPerNode = per
	cursor := 0
	for _, role := range []struct {
		name           string
		servers, world int
	}{{"GEN", h.GenServers, gen}, {"CTX", h.CtxServers, ctx}} {
		for i := range role.servers {
			w := Worker{Role: role.name, ID: i, Port: firstPort + len(d.Workers), World: role.world,
				Config: strings.ToLower(role.name) + "_config.yaml"}
			w.take(&cursor, per)
			d.Workers = append(d.Workers, w)
		}
	}
	d.Front = Front{0, frontPort}
	if firstPort+len(d.Workers) > frontPort {
		d.Front.Port = firstPort + len(d.Workers)
	}
	if d.Benchmark.Mode == "e2e" {
		d.Warmup = 2 * ctx * gen
	}
	return nil
}

// take gives a worker the next GPUs.
func (w *Worker) take(cursor *int, per int) {
	for range w.World {
		node, gpu := *cursor/per, *cursor%per
		*cursor++
		if n := len(w.Hosts); n == 0 || w.Hosts[n-1].Node != node {
			w.Hosts = append(w.Hosts, Host{Node: node})
		}
		last := &w.Hosts[len(w.Hosts)-1]
		last.GPUs = append(last.GPUs, gpu)
		w.TasksPerNode = max(w.TasksPerNode, len(last.GPUs))
	}
	var devices []string
	for _, gpu := range w.Hosts[0].GPUs {
		devices = append(devices, strconv.Itoa(gpu))
	}
	w.Devices = strings.Join(devices, ",")
}

func ceil(a, b int) int { return (a + b - 1) / b }

// Placeholders names the hosts of a worker, as files have them before the job
// knows its nodes.
func (w Worker) Placeholders() string {
	var list []string
	for _, h := range w.Hosts {
		list = append(list, placeholder(h.Node))
	}
	return strings.Join(list, ",")
}

func placeholder(node int) string { return fmt.Sprintf("<node%d_placeholder>", node) }

// arguments are those of sbatch, each only where its value is set.
func (d *Data) arguments(o Options) []string {
	s := d.Slurm
	var args []string
	add := func(flag, value string) {
		if value != "" {
			args = append(args, "--"+flag+"="+value)
		}
	}
	add("partition", s.Partition)
	add("account", account(s.Account))
	add("time", s.TimeText)
	add("job-name", cmp.Or(s.JobName, "unified-benchmark"))
	add("nodes", strconv.Itoa(d.Nodes))
	add("ntasks", strconv.Itoa(d.Tasks))
	add("ntasks-per-node", strconv.Itoa(d.TasksPerNode))
	segment := o.GPU.SetSegment && !d.UsesCommand()
	if s.SetSegment != nil {
		segment = *s.SetSegment
	}
	if segment && o.Nodes == 0 {
		add("segment", strconv.Itoa(d.Nodes))
	}
	dir := strings.ReplaceAll(d.Dir, "%", "%%") // which sbatch takes for its patterns
	add("output", filepath.Join(dir, "slurm-%j.out"))
	add("error", filepath.Join(dir, "slurm-%j.err"))
	add("comment", o.Comment)
	extra := s.ExtraArgs
	if !s.HasExtra && !d.UsesCommand() {
		extra = o.GPU.ExtraArgs
	}
	return append(args, extra...)
}

// account is empty where a file says that there is none.
func account(name string) string {
	if name == "none" {
		return ""
	}
	return name
}
