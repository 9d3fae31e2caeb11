package plan

import (
	"fmt"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/serving/config"
)

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

// The ports of the servers, from this one on, and of the front end.
const firstPort, frontPort = 8000, 8333

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
