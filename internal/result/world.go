package result

import (
	"strings"

	"perigee/internal/kit/crowd"
	"perigee/internal/kit/fault"
)

// World is where a run took place.
type World struct {
	Size     int     `json:"size"`
	Launcher string  `json:"launcher"`
	Hosts    []Host  `json:"hosts"`
	Clocks   []Clock `json:"clocks"` // one per host
	// Devices says, where GPU memory is used, which GPU each rank has.
	Devices []RankDevices `json:"rank_devices,omitempty"`
}

// RankDevices are those that a rank uses.
type RankDevices struct {
	Rank int `json:"rank"`
	// GPU is an index into the GPUs of the rank's host; nil if it has none, or one that is not listed.
	GPU *int `json:"gpu,omitempty"`
	// NetDevices are those that UCX may use; empty where it may use all.
	NetDevices string `json:"net_devices,omitempty"`
}

// Host is a machine and the ranks on it.
type Host struct {
	Name  string `json:"name"`
	Ranks []int  `json:"ranks"`
	CPUs  int    `json:"cpus"` // that at least one of its ranks may use
	// CPUQuota is how many CPUs their cgroups let its ranks use, 0 if none limits them.
	CPUQuota float64 `json:"cpu_quota,omitempty"`
	// Machine is nil where the host has a kernel, and so its CPUs, for itself.
	Machine *Machine `json:"machine,omitempty"`
	// Hardware is nil where it is not known, as in results of earlier versions.
	Hardware *Hardware `json:"hardware,omitempty"`
	// Memcpy is how fast one thread copies memory there, by size; nil where that was not measured.
	Memcpy []Copy `json:"memcpy,omitempty"`
}

// Machine is hosts with one kernel.
type Machine = crowd.Machine

// Crowded says what the host has that is less than a CPU for each of its ranks; empty if it is not.
func (h Host) Crowded() string {
	text, _ := crowd.Host{
		Name: h.Name, Ranks: len(h.Ranks), CPUs: h.CPUs, Quota: h.CPUQuota, Machine: h.Machine,
	}.Short()
	return text
}

// Crowded is that of the first host that is.
func (w World) Crowded() string {
	for _, h := range w.Hosts {
		if text := h.Crowded(); text != "" {
			return text
		}
	}
	return ""
}

// Copy is a copy inside the memory of a host, by one thread.
type Copy struct {
	Bytes int64   `json:"bytes"`
	Rate  float64 `json:"bytes_per_s"` // of the fastest copies
}

// Clock describes a host's clock.
type Clock struct {
	OffsetNS      int64   `json:"offset_ns"`      // time there + this = time at rank 0's host
	UncertaintyNS int64   `json:"uncertainty_ns"` // how far the offset may be off
	DriftPPM      float64 `json:"drift_ppm"`      // positive: the clock is slower than that of rank 0's host
	Samples       int     `json:"samples"`        // how often it was measured
}

// Engine describes the engine that moved the bytes.
type Engine struct {
	Name    string            `json:"name"`              // shm or nixl
	Version string            `json:"version"`           // of the library, or of perigee for shm
	Backend string            `json:"backend"`           // UCX, or memfd for shm
	Library string            `json:"library,omitempty"` // file name of the loaded library
	Params  map[string]string `json:"params,omitempty"`  // what was set or chosen: progress thread, workers, ...
}

// Failure is why a run did not complete.
type Failure struct {
	Rank  int        `json:"rank"` // that failed, -1 if none did
	Host  string     `json:"host,omitempty"`
	Phase string     `json:"phase,omitempty"`
	Kind  fault.Kind `json:"kind"`
	Cause string     `json:"cause"`
	Hint  string     `json:"hint,omitempty"`
}

// String names the rank, its host, the phase and the cause, in one line.
func (f Failure) String() string {
	return fault.At(f.Rank, f.Host, f.Phase, strings.ReplaceAll(f.Cause, "\n", "; "))
}
