// Package doctor is `perigee doctor`: it looks at what perigee needs of a machine, and says for each thing whether it
// is there and what to do if it is not. It is the first thing to run on a new cluster, and its table the first thing
// to send with a question.
//
// doctor.go has the checks, in the order in which a job meets their subjects: launcher, network interfaces, shared
// memory, host memory, locked memory, open files, the kernel's rule for other processes' memory, NIXL and its plugins,
// GPUs, adapters. slurm.go looks at munge and at PMIx, which srun and mpirun need. Under a launcher all ranks meet,
// one of each host looks at it, and rank 0 prints what all have found (together.go): a cluster of which one node is
// set up differently is the usual trouble.
//
// A check takes a machine, which is a value with a root folder, an environment and functions, so that tests make up
// machines; it returns a Finding with a verdict, what was found, and the remedy. Missing is no fault: it is for what
// some jobs can do without. Only problems make the command fail. A check tries what a job would do, such as loading
// the library and making an agent, instead of guessing by versions.
package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/version"
	"perigee/nixl"
	"perigee/nixl/capi"
	"perigee/nixl/device"
	"perigee/spmd/boot"
	"perigee/spmd/boot/pmix"
	"perigee/spmd/host"
)

// Verdict says how serious a finding is.
type Verdict string

// The verdicts. Missing is no fault: some jobs can do without it.
const (
	Good    Verdict = "ok"
	Missing Verdict = "none"
	Poor    Verdict = "warning"
	Bad     Verdict = "problem"
)

// Finding is the outcome of one check.
type Finding struct {
	Host    string  `json:"host"`
	What    string  `json:"what"`
	Verdict Verdict `json:"verdict"`
	Found   string  `json:"found"`
	Remedy  string  `json:"remedy,omitempty"` // what to do; empty where all is well
}

// Cmd is the command perigee doctor.
type Cmd struct {
	Format  string `enum:"text,json" default:"text" help:"text or json."`
	JSON    bool   `name:"json" hidden:"" help:"The same as --format json."`
	NixlLib string `name:"nixl-lib" placeholder:"FILE" help:"libnixl_capi.so to look at (default: searched for)."`
}

// Run prints the findings. It fails if any is a problem. Under a launcher all ranks meet,
// one of each host looks at it, and rank 0 prints what they have found.
func (c *Cmd) Run(s cli.Streams) error {
	m := machine{root: "/", env: os.LookupEnv, nixlLib: c.NixlLib, loads: pmix.Check}
	findings, mine, err := together(context.Background(), m)
	if err != nil {
		findings = append(findings, Finding{Host: host.Name(), What: "the ranks", Verdict: Bad, Found: err.Error(),
			Remedy: fault.HintOf(err)})
	} else if !mine {
		return nil // rank 0 prints
	}
	if err := c.print(s, findings); err != nil {
		return err
	}
	return problems(findings)
}

// problems is the error of findings some of which are problems.
func problems(findings []Finding) error {
	hosts := hostsOf(findings)
	var bad []string
	for _, f := range findings {
		if f.Verdict == Bad && len(hosts) > 1 {
			bad = append(bad, f.What+" on "+f.Host)
		} else if f.Verdict == Bad {
			bad = append(bad, f.What)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	what := "this machine has"
	if len(hosts) > 1 {
		what = "these machines have"
	}
	return fault.New(fault.Resource, "%s problems: %s", what, strings.Join(bad,
		", ")).WithHint("see the remedies above")
}

// hostsOf returns the hosts of findings in their order.
func hostsOf(findings []Finding) (hosts []string) {
	for _, f := range findings {
		if !slices.Contains(hosts, f.Host) {
			hosts = append(hosts, f.Host)
		}
	}
	return hosts
}

// print writes findings as JSON, or a table for each host.
func (c *Cmd) print(s cli.Streams, findings []Finding) error {
	if c.JSON || c.Format == "json" {
		return cli.WriteJSON(s.Out, findings)
	}
	b := version.Get()
	hosts := hostsOf(findings)
	fmt.Fprintf(s.Out, "# perigee %s, %s, on %s\n", b, b.Go, strings.Join(hosts, ", "))
	for _, host := range hosts {
		ofHost := slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Host != host })
		if len(hosts) > 1 {
			fmt.Fprintf(s.Out, "# host %s\n", host)
		}
		if err := printHost(s.Out, ofHost); err != nil {
			return err
		}
	}
	return nil
}

// printHost writes the findings of one host: a table, and under it the remedies.
func printHost(w io.Writer, findings []Finding) error {
	t := sheet.New("", "", "|What", "|Verdict", "|Found")
	for _, f := range findings {
		t.AddRow(f.What, string(f.Verdict), f.Found)
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	for _, f := range findings {
		if f.Remedy != "" {
			fmt.Fprintf(plaintext.Folded(w), "%s: %s\n", f.What, f.Remedy)
		}
	}
	return nil
}

// machine stands for the machine to examine, as a value so that tests can make one up.
type machine struct {
	root    string // of /proc and /sys
	env     boot.Environ
	nixlLib string
	loads   func(library string) error // why a PMIx library cannot be loaded
}

// examine makes all checks, in the order in which a job meets their subjects. host is the
// name under which they are reported.
func examine(m machine, host string) []Finding {
	var all []Finding
	for _, check := range []func(machine) []Finding{
		launcher, interfaces, sharedMemory, hostMemory, locked, files, attach, library, gpus, adapters, munge,
		pmixLibraries,
	} {
		all = append(all, check(m)...)
	}
	for i := range all {
		all[i].Host = host
	}
	return all
}

func one(f Finding) []Finding { return []Finding{f} }

func launcher(m machine) []Finding {
	f := Finding{What: "launcher", Verdict: Good}
	name, started, err := boot.Started(m.env)
	switch {
	case err != nil:
		f.Verdict, f.Found, f.Remedy = Bad, err.Error(), fault.HintOf(err)
	case started:
		f.Found = "this process is a rank of " + name
	default:
		f.Found = "none: perigee run starts the ranks on this machine itself"
		note, err := boot.Unserved(m.env, boot.Names())
		if err != nil {
			f.Verdict, f.Found, f.Remedy = Bad, err.Error(), fault.HintOf(err)
		} else if note != "" {
			f.Verdict, f.Found, f.Remedy = Poor, note, "-n N says that ranks start here"
		}
	}
	return one(f)
}

// interfaces looks for a network interface that ranks of several hosts could use. One host needs none, so that their
// lack is no problem.
func interfaces(m machine) []Finding {
	nics, err := device.NICs(filepath.Join(m.root, "sys"))
	f := Finding{What: "network", Verdict: Good}
	if err != nil {
		f.Verdict, f.Found = Poor, err.Error()
		return one(f)
	}
	var up []string
	for _, n := range nics {
		if n.RDMA || n.Kind == "loopback" || n.State == "down" {
			continue
		}
		text := n.Name
		if n.Mbps > 0 {
			text += fmt.Sprintf(" (%g Gbit/s)", float64(n.Mbps)/1000)
		}
		up = append(up, text)
	}
	f.Found = strings.Join(up, ", ")
	devices, _ := m.env("UCX_NET_DEVICES")
	if why := device.Lacking("UCX_NET_DEVICES", nics, devices); why != "" {
		f.Verdict, f.Found, f.Remedy = Poor, why, "name devices of this host, or unset UCX_NET_DEVICES"
	} else if len(up) == 0 {
		f.Verdict, f.Found = Missing, "no interface but loopback is up"
		f.Remedy = "jobs on this host work; for several hosts bring a network interface up"
	}
	return one(f)
}

// sharedMemory tries what barriers and the shm engine need.
func sharedMemory(machine) []Finding {
	f := Finding{What: "shared memory", Verdict: Good, Found: "memory files can be made and opened through /proc"}
	s, err := host.Create(0)
	if err == nil {
		var again *host.Segment
		if again, err = host.Open(os.Getpid(), s.FD(), 0); err == nil {
			again.Close()
		}
		s.Close()
	}
	if err != nil {
		f.Verdict, f.Found = Bad, err.Error()
		f.Remedy = "allow memfd_create and access to /proc/PID/fd (seccomp profile, hidepid) for this user"
	}
	return one(f)
}

func hostMemory(m machine) []Finding {
	available, err := memory.Available(m.root)
	if err != nil {
		return one(Finding{What: "memory", Verdict: Poor, Found: err.Error()})
	}
	f := Finding{What: "memory", Verdict: Good}
	f.Found = fmt.Sprintf("%.1f GiB available, %d CPUs", float64(available)/(1<<30), runtime.NumCPU())
	huge, err := os.ReadFile(filepath.Join(m.root, "sys/kernel/mm/transparent_hugepage/enabled"))
	if err == nil && strings.Contains(string(huge), "[never]") {
		f.Verdict, f.Remedy = Poor, "transfers inside a host are faster with huge pages: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
	}
	return append(one(f), cpuQuota(m)...)
}

// cpuQuota is a finding where a cgroup limits the ranks' CPU time.
func cpuQuota(m machine) []Finding {
	quota := float64(host.CPUQuota(m.root).MilliCPUs) / 1000
	f := Finding{What: "CPU quota", Verdict: Good, Found: fmt.Sprintf("%g CPUs", quota)}
	switch {
	case quota == 0:
		return nil
	case quota < float64(runtime.NumCPU()):
		f.Verdict, f.Remedy = Poor, "ranks beyond this number wait for a CPU: start no more, or raise the limit of the container or cgroup (limits.cpu, --cpus)"
	}
	return one(f)
}

// lowLocked is less locked memory than RDMA adapters usually need for a
// benchmark's buffers.
const lowLocked = 1 << 30

// locked looks at the limit of locked memory, which only RDMA adapters need.
func locked(m machine) []Finding {
	f := Finding{What: "locked memory", Verdict: Good}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		f.Verdict, f.Found = Poor, err.Error()
		return one(f)
	}
	if limit.Cur == unix.RLIM_INFINITY {
		f.Found = "no limit"
		return one(f)
	}
	f.Found = fmt.Sprintf("limit %d KiB", limit.Cur>>10)
	if limit.Cur < lowLocked && len(rdmaPorts(m)) > 0 {
		f.Verdict, f.Remedy = Poor, "RDMA needs to lock its buffers: ulimit -l unlimited (limits.conf, or LimitMEMLOCK of slurmd)"
	}
	return one(f)
}

// fewFiles is less than a rank with links to a thousand others needs.
const fewFiles = 4096

func files(machine) []Finding {
	f := Finding{What: "open files", Verdict: Good}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		f.Verdict, f.Found = Poor, err.Error()
		return one(f)
	}
	f.Found = fmt.Sprintf("limit %d", limit.Cur)
	if limit.Cur < fewFiles {
		f.Verdict, f.Remedy = Poor, fmt.Sprintf("jobs of many ranks need more: ulimit -n %d", fewFiles)
	}
	return one(f)
}

// attach looks at the kernel's rule for reading other processes' memory, which
// UCX uses inside a host.
func attach(m machine) []Finding {
	f := Finding{What: "cross-memory attach", Verdict: Good, Found: "allowed between processes of a user"}
	scope, allowed := device.Attach(m.root)
	if scope != "" {
		f.Found += " (kernel.yama.ptrace_scope = " + scope + ")"
	}
	if !allowed {
		f.Verdict, f.Found = Poor, "restricted (kernel.yama.ptrace_scope = "+scope+")"
		f.Remedy = "NIXL inside this host is slower without it: sysctl kernel.yama.ptrace_scope=0, or --engine shm"
	}
	return one(f)
}

// library loads NIXL and makes an agent, as a job would.
func library(m machine) []Finding {
	f := Finding{What: "NIXL", Verdict: Good}
	path, err := capi.Find(m.nixlLib)
	if err != nil {
		f.Verdict, f.Found, f.Remedy = Missing, err.Error(), fault.HintOf(err)
		return one(f)
	}
	var all []Finding
	engine, err := capi.Load(path)
	if err == nil {
		var agent nixl.Agent
		tight := capi.Tight(runtime.NumCPU())
		if tight != "" {
			engine = engine.WithoutSharedMemory()
		}
		if agent, err = engine.NewAgent(nixl.AgentConfig{Name: "perigee-doctor", OneHost: true}); err == nil {
			info := agent.Info()
			f.Found = fmt.Sprintf("%s, backend %s, %s", info.Version, info.Backend, path)
			all = append(all, ucxListeners(info.Params["tls"], tight))
			err = agent.Close()
		}
	}
	if err != nil {
		f.Verdict, f.Found, f.Remedy = Bad, fmt.Sprintf("%s: %v", path, err), fault.HintOf(err)
	}
	return append(append(one(f), all...), plugins(path)...)
}

// ucxListeners says whether UCX listens inside a host. tls holds the transports that perigee has chosen, "" if the user
// has; tight is why it could not choose better.
func ucxListeners(tls, tight string) Finding {
	f := Finding{What: "UCX listeners", Verdict: Good, Found: "none between ranks of this host (UCX_TLS=" + tls + ")"}
	const who = "UCX lets in every user of this host who connects to ranks"
	switch {
	case tls == "":
		f.Verdict, f.Found = Missing, "yours to choose: UCX_TLS is set"
		f.Remedy = "with tcp among its transports " + who + "; without UCX_TLS there are no listeners inside a host"
	case tls == "^sysv,tcp":
	case tight != "":
		f.Verdict, f.Found, f.Remedy = Poor, who+": "+tight, capi.RoomHint
	default:
		f.Verdict, f.Found = Poor, who+": UCX_NET_DEVICES is set"
		f.Remedy = "unset it for jobs on one host"
	}
	return f
}

// plugins lists NIXL's backends, which lie beside the library unless a variable says otherwise.
func plugins(library string) []Finding {
	dir := filepath.Join(filepath.Dir(library), "plugins")
	if d := os.Getenv("NIXL_PLUGIN_DIR"); d != "" {
		dir = d
	}
	found, _ := filepath.Glob(filepath.Join(dir, "libplugin_*.so")) // the pattern is well formed
	f := Finding{What: "NIXL plugins", Verdict: Good}
	var names []string
	for _, p := range found {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(p), "libplugin_"), ".so"))
	}
	f.Found = strings.Join(names, " ")
	if len(names) == 0 {
		f.Verdict, f.Found = Poor, "none in "+dir
		f.Remedy = "set NIXL_PLUGIN_DIR if they lie elsewhere"
	}
	return one(f)
}

// gpus compares the GPUs that the driver lists with those that this process may use: a container or
// CUDA_VISIBLE_DEVICES often hides some.
func gpus(m machine) []Finding {
	f := Finding{What: "GPUs", Verdict: Good}
	list, err := device.GPUs()
	switch {
	case err != nil:
		f.Verdict, f.Found, f.Remedy = Poor, err.Error(), "check the driver with nvidia-smi"
	case len(list) == 0:
		f.Verdict, f.Found = Missing, "none: memory type vram cannot be used"
	default:
		var names []string
		for _, g := range list {
			names = append(names, fmt.Sprintf("%d: %s%s", g.Index, g.Name, nearest(m, g)))
		}
		f.Found = strings.Join(names, ", ")
		usable, err := device.Visible()
		if hides, set := m.env("CUDA_VISIBLE_DEVICES"); set && err == nil {
			f.Found += fmt.Sprintf("; %d for this process (CUDA_VISIBLE_DEVICES=%s)", len(usable), hides)
		}
		switch {
		case err != nil:
			f.Verdict, f.Remedy = Poor, "compare the versions of driver and kernel module (nvidia-smi), or use memory type dram"
			f.Found += "; they cannot be used: " + err.Error()
		case len(usable) == 0:
			f.Verdict, f.Remedy = Poor, "check CUDA_VISIBLE_DEVICES, or use memory type dram"
		}
	}
	return one(f)
}

// nearest says where a GPU is, and which NICs are nearest to it, as far as sysfs shows that.
func nearest(m machine, g device.GPU) string {
	sys := filepath.Join(m.root, "sys")
	place, ok := device.Locate(sys, g.PCI)
	if !ok {
		return ""
	}
	text := " (" + place.Address
	if place.NUMA != nil {
		text += fmt.Sprintf(", NUMA node %d", *place.NUMA)
	}
	nics, _ := device.NICs(sys)
	if near, class := device.Nearest(device.Usable(device.Distances(sys, g.PCI, nics), "")); class != "" {
		text += fmt.Sprintf(", %s to %s", class, strings.Join(near, " "))
	}
	return text + ")"
}

func rdmaPorts(m machine) []device.NIC {
	nics, err := device.NICs(filepath.Join(m.root, "sys"))
	if err != nil {
		return nil
	}
	var ports []device.NIC
	for _, n := range nics {
		if n.RDMA {
			ports = append(ports, n)
		}
	}
	return ports
}

// adapters lists the ports of RDMA adapters, each with its state.
func adapters(m machine) []Finding {
	ports := rdmaPorts(m)
	if len(ports) == 0 {
		return one(Finding{What: "RDMA adapters", Verdict: Missing, Found: "none: UCX uses TCP between hosts"})
	}
	var all []Finding
	for _, p := range ports {
		f := Finding{What: "RDMA " + p.Name, Verdict: Good, Found: fmt.Sprintf("%s, %g Gbit/s", p.State,
			float64(p.Mbps)/1000)}
		if p.State != "ACTIVE" {
			f.Verdict, f.Remedy = Poor, "the port is not active: check cable and subnet manager (ibstat)"
		}
		all = append(all, f)
	}
	return all
}
