// Package crowd says where processes have less than a CPU each.
package crowd

import (
	"fmt"
	"strings"
)

// Machine is hosts with one kernel, such as containers or network namespaces of one machine.
type Machine struct {
	Hosts []string `json:"hosts"`
	Ranks int      `json:"ranks"` // on all of them
	CPUs  int      `json:"cpus"`  // that at least one of these may use
}

// String says which hosts are one machine.
func (m *Machine) String() string {
	const named = 4
	last := len(m.Hosts) - 1
	if last >= named {
		return fmt.Sprintf("%s and %d more hosts are one machine", strings.Join(m.Hosts[:named], ", "), last+1-named)
	}
	return strings.Join(m.Hosts[:last], ", ") + " and " + m.Hosts[last] + " are one machine"
}

// Host is a host and what its ranks may use of its CPUs.
type Host struct {
	Name    string
	Ranks   int
	CPUs    int      // that at least one of the ranks may use; 0 where that is not known
	Quota   float64  // CPUs that cgroups let the ranks use, 0 if none limits them
	Machine *Machine // nil where the host has a kernel, and so its CPUs, for itself
}

// Short says that the ranks have less than one CPU each, "" if they have one: "h has 1 CPU for 2 ranks" or "h has a CPU
// quota of 0.5 for 2 ranks". share is how much of a CPU that leaves for each.
func (h Host) Short() (text string, share float64) {
	has, wants := 1., float64(h.Ranks)
	switch m := h.Machine; {
	case h.Quota > 0 && h.Quota < wants && !(h.CPUs > 0 && float64(h.CPUs) <= h.Quota):
		text, has = fmt.Sprintf("%s has a CPU quota of %g for %s", h.Name, h.Quota, count(h.Ranks, "rank")), h.Quota
	case h.CPUs > 0 && h.CPUs < h.Ranks:
		has = float64(h.CPUs)
		text = fmt.Sprintf("%s has %s for %s", h.Name, count(h.CPUs, "CPU"), count(h.Ranks, "rank"))
	case m != nil && m.CPUs > 0 && m.CPUs < m.Ranks:
		text, has = fmt.Sprintf("%s, with %s for %d ranks", m, count(m.CPUs, "CPU"), m.Ranks), float64(m.CPUs)
		wants = float64(m.Ranks)
	default:
		return "", 1
	}
	return text, has / wants
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
