package result

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/size"
)

// Emulated reports whether the target's CPU has to take part: the library has no such operation on this path.
func (u PathUse) Emulated() bool { return strings.Contains(u.How, "software emulation") }

// Over reports whether one of the transports is, or begins with, a name: rc for rc_mlx5 and rc_verbs.
func (u PathUse) Over(name string) bool {
	return slices.ContainsFunc(strings.Split(u.Transport, ", "), func(t string) bool { return named(t, name) })
}

// Only reports the same of all its transports.
func (u PathUse) Only(name string) bool {
	return !slices.ContainsFunc(strings.Split(u.Transport, ", "), func(t string) bool { return !named(t, name) })
}

func named(transport, name string) bool {
	return transport == name || strings.HasPrefix(transport, name+"_")
}

// hostOnly are UCX's transports that reach the memory of the host alone.
var hostOnly = []string{"posix", "sysv", "cma", "xpmem", "knem", "tcp", "self"}

// reachWords are those of sentences.
var reachWords = map[string]string{"self": "within a rank", "host": "inside a host", "network": "between hosts"}

// way is one or more uses that a line takes together.
type way struct {
	PathUse
	devices []string
}

// ways takes uses together that differ in sizes and devices alone, in the order of the uses.
func (p *Paths) ways() (list []way) {
	for _, u := range p.Uses {
		i := slices.IndexFunc(list, func(w way) bool {
			return w.Op == u.Op && w.Local == u.Local && w.Remote == u.Remote && w.Reach == u.Reach &&
				w.Transport == u.Transport && w.How == u.How
		})
		if i < 0 {
			list, i = append(list, way{PathUse: u}), len(list)
		} else {
			list[i].Count += u.Count
			list[i].MaxBytes = min(list[i].MaxBytes, u.MaxBytes) // 0: some have no end
		}
		for d := range strings.SplitSeq(u.Device, ", ") {
			if plain := d == "" || d == "memory" || d == "cuda"; !plain && !slices.Contains(list[i].devices, d) {
				list[i].devices = append(list[i].devices, d)
			}
		}
	}
	return list
}

// Lines says in a few lines what moved the bytes, such as WRITE vram-vram cuda_ipc zero-copy 100 %, each operation and
// pair of memory kinds by itself. The percentage is of what the library counts, descriptors or pieces of them; what is
// below one is left out.
func (p *Paths) Lines() (lines []string) {
	const most = 8
	all := p.ways()
	several := slices.ContainsFunc(all, func(w way) bool { return w.Reach != all[0].Reach })
	for _, w := range all {
		var total int64
		for _, o := range all {
			if o.Op == w.Op && o.Local == w.Local && o.Remote == w.Remote {
				total += o.Count
			}
		}
		share := math.Round(100 * float64(w.Count) / float64(total))
		if !(share >= 1) { // also where a file has strange counts
			continue
		}
		if len(lines) == most {
			lines = append(lines, "further ways are in the result")
			break
		}
		where := ""
		if several {
			where = cmp.Or(reachWords[w.Reach], w.Reach) + " "
		}
		lines = append(lines, fmt.Sprintf("%s %s-%s %s%s %s %.0f %%", w.Op, w.Local, w.Remote, where, w.over(), w.How,
			share))
	}
	if p.Unknown != "" {
		lines = append(lines, "unknown: "+p.Unknown)
	}
	return lines
}

// over is the transport with its devices.
func (w way) over() string {
	const most = 3
	devices := slices.Clone(w.devices)
	slices.Sort(devices)
	switch {
	case len(devices) == 0:
		return w.Transport
	case len(devices) > most:
		return fmt.Sprintf("%s/(%d devices)", w.Transport, len(devices))
	}
	return w.Transport + "/" + strings.Join(devices, "+")
}

// PathWarnings says which paths are slower than they need be, and what changes that.
func (d *Document) PathWarnings() (list []string) {
	if d.Paths == nil {
		return nil
	}
	for _, w := range d.Paths.ways() {
		what := fmt.Sprintf("%s %s-%s %s", w.Op, w.Local, w.Remote, cmp.Or(reachWords[w.Reach], w.Reach))
		vram := w.Local == "vram" || w.Remote == "vram"
		bounces := vram && slices.ContainsFunc(hostOnly, w.Over)
		switch {
		case d.bypasses(w):
			text := fmt.Sprintf("%s-%s goes between hosts over %s: they share a kernel, and these bytes pass no network; UCX_TLS=tcp",
				w.Op+" "+w.Local, w.Remote, w.over())
			if !slices.Contains(list, text) { // one for all sizes
				list = append(list, text)
			}
		case w.Emulated():
			text := fmt.Sprintf("%s is emulated: %s has no such operation, and the target's CPU moves the bytes", what, w.over())
			list = append(list, text+emulationHint(w, vram))
		case bounces:
			list = append(list, fmt.Sprintf("%s goes through the memory of the host, by %s: UCX_TLS has to leave UCX a transport "+
				"for GPUs, such as cuda_ipc, or rc with GPUDirect", what, w.over()))
		case vram && w.Reach == "network" && strings.Contains(strings.ReplaceAll(w.How, "zero-copy", ""), "copy") &&
			w.MaxBytes == 0:
			list = append(list, fmt.Sprintf("%s is copied (%s): %s does not reach the GPU's memory itself; load nvidia-peermem, and "+
				"UCX_IB_GPU_DIRECT_RDMA=yes", what, w.How, w.over()))
		}
	}
	list = append(list, d.railWarnings()...)
	if n := d.smallestGPUBlock(); strings.HasPrefix(d.Paths.Source, "UCX") && n > 0 && n <= gpuBlock {
		list = append(list, fmt.Sprintf("GPU memory in blocks of %s: UCX takes about 10 us for each block of 20 KiB and less, "+
			"whatever its size; larger blocks cost no more", size.Binary(n)))
	}
	return list
}

// sharedMemory are UCX's transports that stay inside a machine, whatever its containers and namespaces are called.
var sharedMemory = []string{"posix", "sysv", "cma", "xpmem", "knem", "cuda_ipc"}

// Copies reports whether the threads that post move the bytes themselves: the engine has no others, or all bytes go
// through the memory of a machine.
func (d *Document) Copies() bool {
	if d.Engine != nil && strings.HasPrefix(d.Engine.Params["progress"], "poll") {
		return true
	}
	return d.Paths != nil && len(d.Paths.Uses) > 0 && !slices.ContainsFunc(d.Paths.Uses, func(u PathUse) bool {
		return !slices.ContainsFunc(sharedMemory, u.Over)
	})
}

// bypasses reports whether a way leads between hosts through the memory of one machine: UCX takes ranks for neighbours
// that share a kernel, though their names, networks or processes are apart. Where several ranks are on a host such a
// way may be inside it; but then messages between hosts have another.
func (d *Document) bypasses(w way) bool {
	inMemory := slices.ContainsFunc(sharedMemory, w.Over)
	if !inMemory || w.Reach == "network" || w.Reach == "self" {
		return inMemory && w.Reach == "network"
	}
	network := slices.ContainsFunc(d.Paths.Uses, func(u PathUse) bool { return u.Reach == "network" })
	return !network && d.sendsBetweenHosts()
}

// sendsBetweenHosts reports whether messages go from one host to another by the matrices of what was played, or by
// block transfers where every rank has a host for itself.
func (d *Document) sendsBetweenHosts() bool {
	hostOf := hostNumbers(d)
	if len(d.World.Hosts) == d.World.Size && d.World.Size > 1 &&
		slices.ContainsFunc(d.Lanes, func(l Lanes) bool { return l.Local != "file" && l.Remote != "file" }) {
		return true
	}
	return slices.ContainsFunc(d.Patterns, func(p Pattern) bool {
		return slices.ContainsFunc(d.Matrices[p.Matrix].Cells, func(c [3]int64) bool {
			return c[2] > 0 && hostOf[int(c[0])] != hostOf[int(c[1])]
		})
	})
}

// emulationHint says what changes an emulation.
func emulationHint(w way, vram bool) string {
	switch {
	case vram && w.Op == "READ" && w.Reach != "network":
		return "; set UCX_CUDA_IPC_ENABLE_GET_ZCOPY=on (READ of an H100: 1040 GB/s with it, 0.35 without)"
	case vram:
		return "; UCX_TLS has to leave UCX a transport for GPUs: cuda_ipc inside a host, rc with GPUDirect between hosts"
	case w.Over("tcp"):
		return "; UCX_TLS has to leave UCX another transport than tcp (cma inside a host, rc between hosts)"
	case w.Reach != "network":
		return "; UCX_TLS has to leave UCX cma, and the host cross-memory attach (perigee doctor)"
	}
	return ""
}

// railWarnings are about the adapters between hosts.
func (d *Document) railWarnings() (list []string) {
	ports, hosts := math.MaxInt, 0 // ports of the host that has fewest of those that have any
	for _, h := range d.World.Hosts {
		if n := h.Hardware.rdmaPorts(); n > 0 {
			hosts, ports = hosts+1, min(ports, n)
		}
	}
	var used []string
	overTCP := false
	for _, w := range d.Paths.ways() {
		if w.Reach != "network" {
			continue
		}
		overTCP = overTCP || w.Over("tcp")
		if !w.Over("tcp") && w.Transport != "unknown" {
			used = append(used, w.devices...)
		}
	}
	slices.Sort(used)
	used = slices.Compact(used)
	switch {
	case overTCP && hosts > 1:
		list = append(list, fmt.Sprintf("TCP between hosts of which %d have RDMA adapters that are up: look at UCX_TLS and "+
			"UCX_NET_DEVICES, at ulimit -l, and whether a container has /dev/infiniband (perigee doctor on each host)", hosts))
	case len(used) == 1 && hosts > 1 && ports > 1:
		list = append(list, fmt.Sprintf("%s alone moves the bytes between hosts that have %d ports each: UCX_MAX_RMA_RAILS=%d, or "+
			"UCX_NET_DEVICES by rank, uses more", used[0], ports, ports))
	}
	return list
}

// rdmaPorts counts the ports of RDMA adapters that have a speed.
func (h *Hardware) rdmaPorts() (n int) {
	if h == nil {
		return 0
	}
	for _, nic := range h.NICs {
		if strings.Contains(nic.Name, ":") && nic.Mbps > 0 {
			n++
		}
	}
	return n
}

// gpuBlock is up to which size the time of a block between GPUs is the library's, seen with UCX 1.23 on an H100.
const gpuBlock = 20 << 10

// smallestGPUBlock is the size of the smallest descriptor in GPU memory, 0 where there is none.
func (d *Document) smallestGPUBlock() int64 {
	least := int64(math.MaxInt64)
	for _, p := range d.Patterns {
		if p.Mem != "vram" || p.Shards < 1 || p.Matrix >= len(d.Matrices) {
			continue
		}
		for _, c := range d.Matrices[p.Matrix].Cells {
			least = min(least, max(c[2]/int64(p.Shards), 1))
		}
	}
	for i := range d.Lanes {
		if l := &d.Lanes[i]; l.Local == "vram" || l.Remote == "vram" {
			least = min(least, l.BlockBytes)
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// Observed are the sentences that a run prints of what it saw beside the times, but for the path of the bytes: three
// accounts of them, congestion, the line and the ceiling.
func (d *Document) Observed() (list []string) {
	add := func(name, text string) {
		if text != "" {
			list = append(list, name+": "+text)
		}
	}
	if d.Accounts != nil && d.Accounts.Speaks() {
		add("accounts", d.Accounts.String())
	}
	add("network", d.NetworkText())
	add("ceiling", d.CeilingText())
	add("line", d.LineText())
	return list
}

// NetworkText is what counters say of congestion, in one line.
func (d *Document) NetworkText() string {
	texts := d.Congestion()
	if len(texts) == 0 {
		return ""
	}
	return strings.Join(texts, "; ") + " (all traffic of the hosts counts)"
}
