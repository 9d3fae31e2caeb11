// Package plan makes the batch script of a case from a template, and the
// arguments of sbatch. What it makes is exactly what is submitted.
//
// A template is a Go text/template; its data is [Data]. Two are shipped: trtllm
// starts TensorRT-LLM's context and generation servers as TensorRT-LLM's own
// launcher does, command runs any server and any client.
package plan

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/secret"
	"perigee/internal/serving/config"
	"perigee/internal/serving/probe"
)

// Options holds what a job needs beside its config.
type Options struct {
	Dir     string // result folder, absolute
	GPU     config.GPU
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

// scriptFile is the name of the script in the result folder.
const scriptFile = "job.sh"

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
	d := Data{Config: c, ID: c.Ident.String(), Dir: o.Dir, Concurrencies: c.Concurrencies(), Perigee: o.Perigee,
		Secret: secret.Pattern}
	if c.UsesCommand() {
		d.Nodes, d.TasksPerNode = c.Job.Nodes, c.Job.TasksPerNode
	} else if err := d.place(); err != nil {
		return nil, err
	}
	p := &Plan{Template: name, Script: filepath.Join(o.Dir, scriptFile), Computed: d.Nodes}
	d.NodeSpan = d.Nodes
	if o.Nodes > 0 && o.Nodes != d.Nodes {
		d.Nodes, d.TasksPerNode, d.Capped = o.Nodes, 1, true
	}
	d.Tasks, p.Nodes = d.Nodes*d.TasksPerNode, d.Nodes
	if p.Files, err = d.files(); err != nil {
		return nil, err
	}
	d.probe(p)
	d.planned = append(slices.Collect(maps.Keys(p.Files)), scriptFile)
	p.Text, err = d.render(name, text)
	p.Args = d.arguments(o)
	return p, err
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
