package experiment

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/result"
	"perigee/nixl/device"
	"perigee/nixl/engines"
	"perigee/spmd"
)

// place looks up what the maps give this rank. What its host lacks is an error of kind Usage.
func (e *Experiment) place() error {
	host, local := e.World.HostName(e.World.Rank()), e.World.LocalRank()
	gpus, err := ParseGPUMap(e.Job.GPUMap)
	if err != nil {
		return err
	}
	if want, ok := gpus.Of(local); ok {
		if list, err := e.visible(); err != nil || number(want) >= len(list) {
			return fault.New(fault.Usage, "--gpu-map gives local rank %d on %s GPU %s, and CUDA shows %s there", local, host,
				want, cli.Count(len(list), "GPU")).
				WithHint("they count from 0, in the order of CUDA_VISIBLE_DEVICES; perigee doctor lists them")
		}
	}
	nics, err := ParseNICMap(e.Job.NICMap)
	if err != nil {
		return err
	}
	list, ok := nics.Of(local)
	if !ok {
		return nil
	}
	if value := os.Getenv("UCX_NET_DEVICES"); value != "" {
		return fault.New(fault.Usage, "--nic-map gives local rank %d on %s %s, and its UCX_NET_DEVICES is %s", local, host, list,
			value).WithHint("unset UCX_NET_DEVICES, or leave out --nic-map")
	}
	there, err := device.NICs("/sys")
	if lacking := device.Lacking("--nic-map", there, list); err == nil && lacking != "" {
		return fault.New(fault.Usage, "local rank %d on %s: %s", local, host, lacking)
	}
	e.netDevices = list
	return nil
}

// visible lists the UUIDs of the GPUs that this rank may use, by CUDA's ordinals.
func (e *Experiment) visible() ([]string, error) {
	list := device.Visible
	if e.GPUs != nil {
		list = e.GPUs
	}
	return list()
}

// GPUOf reports whether this rank has a GPU, and which: the one that --gpu-map gives it, or the ranks of a host take in
// turn those that each may use.
func (e *Experiment) GPUOf() (ordinal int, ok bool) {
	ordinal, uuid := e.gpu()
	return ordinal, uuid != ""
}

// gpu is the CUDA ordinal and the UUID of this rank's GPU; no UUID means that it has none.
func (e *Experiment) gpu() (ordinal int, uuid string) {
	gpus, err := e.visible()
	if err != nil {
		e.World.Log().Warn("no GPU can be used", "reason", err)
	}
	if len(gpus) == 0 {
		return 0, ""
	}
	ordinal = e.World.LocalRank() % len(gpus)
	wanted, _ := ParseGPUMap(e.Job.GPUMap) // place has checked it
	if want, ok := wanted.Of(e.World.LocalRank()); ok && number(want) < len(gpus) {
		ordinal = number(want)
	}
	return ordinal, gpus[ordinal]
}

// gpuUse is what the others need to know of a rank's GPU.
type gpuUse struct {
	UUID string // "" if it has none
	Nets string // what UCX_NET_DEVICES is there, or stands in its place
	MPS  bool   // CUDA's MPS serves it
}

// NoteGPUs adds, once, which GPU each rank has, how GPU memory is reached, and what is slow about that. All ranks call
// it when a transfer has been prepared that uses such memory.
func (e *Experiment) NoteGPUs() error {
	if e.notedGPUs {
		return nil
	}
	e.notedGPUs = true
	own := gpuUse{Nets: e.ownDevices(), MPS: hasMPS("/", os.Getenv)}
	_, own.UUID = e.gpu()
	all, err := spmd.AllGatherValue(e.World.All(), own)
	if err != nil || e.Doc == nil {
		return err
	}
	if e.World.OneHost() {
		e.Note("GPU memory: a progress thread runs at each rank")
	}
	for _, text := range shared(all, e.World.Hosts()) {
		e.Note(text)
	}
	w := &e.Doc.World
	w.Devices = devicesOf(*w, all)
	if line := placed(*w); line != "" {
		io.WriteString(e.Out, Comment("GPUs: "+line))
	}
	if !e.World.OneHost() {
		for _, text := range acrossNUMA(*w) {
			e.Note(text)
		}
	}
	return nil
}

// hasMPS reports whether CUDA's MPS serves a process with this environment: its daemon makes the pipe control in the
// folder CUDA_MPS_PIPE_DIRECTORY, else in /tmp/nvidia-mps. root is "/" but in tests.
func hasMPS(root string, env func(string) string) bool {
	folder := cmp.Or(env("CUDA_MPS_PIPE_DIRECTORY"), "/tmp/nvidia-mps")
	_, err := os.Stat(filepath.Join(root, folder, "control"))
	return err == nil
}

// devicesOf finds each rank's GPU among those of its host.
func devicesOf(w result.World, all []gpuUse) []result.RankDevices {
	list := make([]result.RankDevices, len(all))
	for _, h := range w.Hosts {
		for _, r := range h.Ranks {
			list[r] = result.RankDevices{Rank: r, NetDevices: all[r].Nets}
			if h.Hardware == nil {
				continue
			}
			i := slices.IndexFunc(h.Hardware.GPUs, func(g result.GPU) bool { return g.UUID == all[r].UUID })
			if i >= 0 && all[r].UUID != "" {
				list[r].GPU = &i
			}
		}
	}
	return list
}

// gpuOf is a rank's GPU, and the NICs that UCX may use for it, with their distances; nil where it is not known.
func gpuOf(h result.Host, d result.RankDevices) (gpu *result.GPU, usable map[string]string) {
	if d.GPU == nil || h.Hardware == nil {
		return nil, nil
	}
	gpu = &h.Hardware.GPUs[*d.GPU]
	return gpu, device.Usable(gpu.NICs, d.NetDevices)
}

// placed says which GPU each rank has, and which of the NICs it may use are nearest, for the first ranks.
func placed(w result.World) string {
	var parts []string
	for _, h := range w.Hosts {
		for _, r := range h.Ranks {
			gpu, usable := gpuOf(h, w.Devices[r])
			if gpu == nil {
				continue
			}
			text := fmt.Sprintf("rank %d: %d (%s", r, *w.Devices[r].GPU, gpu.PCI)
			if gpu.NUMANode != nil {
				text += fmt.Sprintf(", NUMA node %d", *gpu.NUMANode)
			}
			if names, class := device.Nearest(usable); class != "" {
				text += fmt.Sprintf(", %s to %s", class, strings.Join(names, " "))
			}
			parts = append(parts, text+")")
		}
	}
	return strings.Join(plaintext.First(parts, 8, "%d more in the result"), ", ")
}

// acrossNUMA warns of ranks whose GPU is on another NUMA node than all NICs that UCX may use there.
func acrossNUMA(w result.World) []string {
	first, n := "", 0
	for _, h := range w.Hosts {
		for _, r := range h.Ranks {
			gpu, usable := gpuOf(h, w.Devices[r])
			names, class := device.Nearest(usable)
			if class != "SYS" {
				continue
			}
			if n++; n > 1 {
				continue
			}
			first = fmt.Sprintf("rank %d on %s sends from GPU %d across NUMA nodes: UCX may use %s there", r, h.Name,
				*w.Devices[r].GPU, strings.Join(names, " "))
			if nearer, class := device.Nearest(device.Usable(gpu.NICs, "")); class != "" && class != "SYS" {
				first += "; nearer: " + strings.Join(nearer, " ")
			}
		}
	}
	if n == 0 {
		return nil
	}
	if n > 1 {
		first += fmt.Sprintf(" (and %s more)", cli.Count(n-1, "rank"))
	}
	return []string{engines.Warning + first + ". On H100 that made 1 GiB take 1.42 times as long; --nic-map gives ranks " +
		"nearer NICs, --gpu-map nearer GPUs"}
}

// noteMemory says, as all is done, what of the memory has not been said, and warns of maps that nothing has used.
func (e *Experiment) noteMemory() {
	if !e.notedGPUs {
		e.NoteHostMemory()
	}
	if e.Job.GPUMap != "" && !e.notedGPUs {
		e.Note(engines.Warning + "--gpu-map has no effect: no memory of a GPU was used")
	}
	if e.Job.NICMap != "" && e.session != nil && !strings.HasPrefix(e.session.Info().Backend, "UCX") {
		e.Note(engines.Warning + "--nic-map has no effect: UCX was not used")
	}
}
