package ep

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/size"
	"perigee/internal/model"
)

// PlacementCmd is `perigee ep placement`.
type PlacementCmd struct {
	Loads      string `name:"loads" required:"" placeholder:"FILE" help:"A row of loads of all experts for each layer."`
	Model      string `name:"model" completes:"models" placeholder:"NAME|FILE" help:"Check that the loads are those of a model's experts: its name, its config.json, or a file of your own."`
	Replicas   int    `name:"replicas" required:"" placeholder:"N" help:"Slots of all GPUs, a multiple of the GPUs and not fewer than the experts."`
	Groups     int    `name:"groups" default:"1" placeholder:"N" help:"Groups of experts, kept on one node; a divisor of the experts."`
	Nodes      int    `name:"nodes" default:"1" placeholder:"N" help:"Nodes."`
	GPUs       int    `name:"gpus" required:"" placeholder:"N" help:"GPUs of all nodes."`
	cli.Format `set:"formats=text,json" set:"formats_help=text or json"`
}

// Help adds to the flags in perigee ep placement --help.
func (PlacementCmd) Help() string {
	return "Example: perigee ep placement --loads loads.txt --replicas 16 --groups 4 --nodes 2 --gpus 8\n\nSee docs/ep.md."
}

// Layer is the placement of a layer as `perigee ep placement --format json` prints it.
type Layer struct {
	Logical     []int     `json:"physical_to_logical"`
	GPULoad     []float64 `json:"gpu_load"`
	MaxOverMean *float64  `json:"max_over_mean"` // nil where all loads are 0
	Notes       []string  `json:"notes,omitempty"`
}

// newLayer describes a placement of loads.
func newLayer(loads []float64, b *moe.Balanced) Layer {
	layer := Layer{Logical: b.Logical, GPULoad: b.GPULoad, MaxOverMean: &b.MaxOverMean}
	if !slices.ContainsFunc(loads, func(load float64) bool { return load != 0 }) {
		layer.MaxOverMean = nil
		layer.Notes = append(layer.Notes, fmt.Sprintf("all %d loads are 0: was the recorder on?", len(loads)))
	}
	var twice []string
	for gpu := range b.GPULoad {
		if experts := slices.Sorted(slices.Values(layer.on(gpu))); len(slices.Compact(experts)) < len(layer.on(gpu)) {
			twice = append(twice, strconv.Itoa(gpu))
		}
	}
	if len(twice) > 0 {
		const most = 8
		which := strings.Join(twice[:min(most, len(twice))], ", ")
		if len(twice) > most {
			which += fmt.Sprintf(" and %d more", len(twice)-most)
		}
		layer.Notes = append(layer.Notes, fmt.Sprintf("one expert more than once, which does not help, is on %s (%s)",
			cli.Count(len(twice), "GPU"), which))
	}
	return layer
}

// on lists the experts of a GPU.
func (l *Layer) on(gpu int) []int {
	each := len(l.Logical) / len(l.GPULoad)
	return l.Logical[gpu*each : (gpu+1)*each]
}

// Run places the experts of every layer.
func (c *PlacementCmd) Run(streams cli.Streams) error {
	layers, err := readLoads(c.Loads)
	if err == nil && c.Model != "" {
		err = c.checkModel(len(layers[0]))
	}
	if err != nil {
		return err
	}
	var placed struct {
		Layers []Layer `json:"layers"`
	}
	const most = 1 << 22 // of slots that are printed, each with its expert
	if c.Replicas > most/len(layers) {
		return fault.New(fault.Usage, "--replicas: wanted at most %d for %s, got %d", most/len(layers),
			cli.Count(len(layers), "layer"), c.Replicas)
	}
	for _, loads := range layers {
		b, err := moe.Balance(loads, moe.Balancing{Replicas: c.Replicas, Groups: c.Groups, Nodes: c.Nodes,
			GPUs: c.GPUs})
		if err != nil {
			return err
		}
		placed.Layers = append(placed.Layers, newLayer(loads, b))
	}
	if c.Groups%c.Nodes != 0 {
		fmt.Fprintf(streams.Err, "perigee: warning: %s cannot be divided among %s: groups and nodes are not heeded\n",
			cli.Count(c.Groups, "group"), cli.Count(c.Nodes, "node"))
	}
	if c.Format.Format == "json" {
		return cli.WriteJSON(streams.Out, placed)
	}
	return c.writeText(streams.Out, placed.Layers)
}

// checkModel refuses loads of another number of experts than the model has.
func (c *PlacementCmd) checkModel(experts int) error {
	m, err := model.Load(c.Model)
	switch {
	case err != nil:
		return err
	case m.Experts == 0:
		return m.CheckExperts(c.Model)
	case m.Experts != int64(experts):
		return fault.New(fault.Usage, "%s: loads of %s, and --model %s has %d", c.Loads,
			cli.Count(experts, "expert"), c.Model, m.Experts)
	}
	return nil
}

// writeText prints a row for each GPU of each layer, and how uneven the layers are.
func (c *PlacementCmd) writeText(w io.Writer, layers []Layer) error {
	t := sheet.New("", "", "Layer", "GPU", "|Experts", "Load %.6g", "load/mean %.4f")
	for i, layer := range layers {
		var sum float64
		for _, load := range layer.GPULoad {
			sum += load
		}
		for gpu, load := range layer.GPULoad {
			experts := strings.Trim(fmt.Sprint(layer.on(gpu)), "[]")
			t.AddRow(i, gpu, experts, load, load/(sum/float64(len(layer.GPULoad))))
		}
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	for i, layer := range layers {
		lines := layer.Notes
		if layer.MaxOverMean != nil {
			lines = slices.Insert(slices.Clone(lines), 0, fmt.Sprintf("max/mean %.4f", *layer.MaxOverMean))
		}
		for _, text := range lines {
			if _, err := fmt.Fprintf(w, "# layer %d: %s\n", i, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// MatrixCmd is `perigee ep matrix`.
type MatrixCmd struct {
	Ranks  int        `name:"ranks" short:"n" required:"" placeholder:"N" help:"Ranks, 2 or more."`
	Bytes  size.Bytes `name:"bytes" required:"" placeholder:"SIZE" help:"Bytes that each rank sends, such as 6M, about: cells are multiples of 16."`
	Spread float64    `name:"spread" default:"1" placeholder:"F" help:"0: the same to all ranks; 1: nothing to itself and most to the farthest."`
}

// Help adds to the flags in perigee ep matrix --help.
func (MatrixCmd) Help() string {
	return "The matrix is that of the generator of nccl-tests' alltoallv, in the format that it reads.\n" +
		"Example: perigee ep matrix --ranks 4 --bytes 6M --spread 0.5\n\nSee docs/ep.md."
}

// Run prints the matrix.
func (c *MatrixCmd) Run(streams cli.Streams) error {
	m, err := moe.DistanceMatrix(c.Ranks, int64(c.Bytes), c.Spread)
	if err != nil {
		return err
	}
	if err := m.WriteText(streams.Out); err != nil {
		return fault.New(fault.Output, "%w", err)
	}
	return nil
}
