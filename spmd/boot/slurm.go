package boot

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/slurm"
	"perigee/spmd/boot/watch"
)

// Plain Slurm (srun --mpi=none) has no key-value store: all it gives is
// variables. So rank 0 listens on a port that follows from the job and the step,
// and its secret travels in a munge credential.

// slurmVariables are those of a step. PROCID and NTASKS are in a batch script
// too, where the process is no rank.
var slurmVariables = []string{
	"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
	"SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE",
}

// firstSpecialStep and above are the steps that Slurm makes for batch scripts,
// interactive shells and the like.
const firstSpecialStep = 0xfffffff0

// inStep reports whether srun has started this process, or what has started it.
func inStep(env Environ) bool {
	step := variable(env, "SLURM_STEP_ID")
	n, err := strconv.ParseUint(step, 10, 64)
	return step != "" && (err != nil || n < firstSpecialStep) && !ofOtherStep(env, "slurm")
}

// IsTask reports whether this process is a task of srun, or below one. SLURM_PROCID alone does not say so: a batch
// script and an interactive shell have it, too.
func IsTask(env Environ) bool {
	_, numbered := env("SLURM_PROCID")
	return numbered && inStep(env)
}

func detectSlurm(env Environ) (connect, error) {
	if !inStep(env) {
		return nil, nil
	}
	// Who sets all of torchrun's variables for a process means them: srun may
	// have started a script that starts the ranks. torchrun itself may have started srun.
	if id, _ := env("TORCHELASTIC_RUN_ID"); id == "" && len(readVariables(env, torchrunVariables...).lack) == 0 {
		return nil, nil
	}
	return requireSlurm(env)
}

// detectTask recognises any task of srun, whatever else its variables may mean.
func detectTask(env Environ) (connect, error) {
	if !IsTask(env) {
		return nil, nil
	}
	return requireSlurm(env)
}

func requireSlurm(env Environ) (connect, error) {
	s, err := readSlurm(env)
	if err != nil {
		return nil, err
	}
	return s.join, nil
}

// slurmStep is a step, as the variables describe it.
type slurmStep struct {
	env        Environ
	job, step  string
	rank, size int
	nodes      []string // at which rank 0 may be, the likely one first
	oneHost    bool
}

func readSlurm(env Environ) (*slurmStep, error) {
	v := readVariables(env, slurmVariables...)
	if err := v.incomplete("Slurm's step"); err != nil {
		return nil, err
	}
	rank, size, err := v.rankAndSize("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
	if err != nil {
		return nil, err
	}
	nodes, err := slurm.ExpandHosts(v.values["SLURM_STEP_NODELIST"])
	if err != nil {
		return nil, fault.New(fault.Launch, "SLURM_STEP_NODELIST: %w", err)
	}
	tasks, err := slurm.ExpandCounts(v.values["SLURM_STEP_TASKS_PER_NODE"])
	if err != nil {
		return nil, fault.New(fault.Launch, "SLURM_STEP_TASKS_PER_NODE: %w", err)
	}
	if sum := total(tasks); len(tasks) != len(nodes) || sum != size {
		return nil, fault.New(fault.Launch, "Slurm's variables contradict each other: %d nodes in SLURM_STEP_NODELIST=%s, %d nodes with %d tasks in SLURM_STEP_TASKS_PER_NODE=%s, SLURM_STEP_NUM_TASKS=%d",
			len(nodes), v.values["SLURM_STEP_NODELIST"], len(tasks), sum, v.values["SLURM_STEP_TASKS_PER_NODE"], size)
	}
	distribution, _ := env("SLURM_DISTRIBUTION")
	return &slurmStep{
		env: env, job: v.values["SLURM_JOB_ID"], step: v.values["SLURM_STEP_ID"], rank: rank, size: size,
		nodes: firstNodes(nodes, tasks, distribution), oneHost: len(nodes) == 1,
	}, nil
}

// maxFirstNodes bounds the search for rank 0.
const maxFirstNodes = 256

// firstNodes returns the nodes on which rank 0 may be. Blocks, planes and
// cycles all begin with the first node that has tasks. An arbitrary
// distribution, which follows a host file, begins anywhere.
func firstNodes(nodes []string, tasks []int, distribution string) []string {
	first := slices.IndexFunc(tasks, func(n int) bool { return n > 0 })
	if !strings.Contains(distribution, "arbitrary") {
		return nodes[first : first+1]
	}
	return nodes[:min(len(nodes), maxFirstNodes)]
}

func total(numbers []int) int {
	sum := 0
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// nodeName returns Slurm's name of this host.
func nodeName(env Environ) string {
	if step, _ := env("SLURM_STEP_ID"); step == "" {
		return ""
	}
	s, _ := env("SLURMD_NODENAME")
	return s
}

// slurmLocalRank is the rank among those of the node, or -1.
func slurmLocalRank(env Environ, size int) int {
	n, err := readVariables(env, "SLURM_LOCALID").integer("SLURM_LOCALID", 0, size-1)
	if err != nil {
		return -1
	}
	return n
}

func slurmOneHost(env Environ) bool {
	s, _ := env("SLURM_STEP_NUM_NODES")
	return s == "1"
}

// slurmPorts is how many ports all ranks try. Another program may have the first.
const slurmPorts = 4

// name is that of the step, which all its ranks know. A job that has been requeued keeps its
// number: what is left of it must not take part in the next attempt.
func (s *slurmStep) name() string {
	name := s.job + "." + s.step
	if n, _ := s.env("SLURM_RESTART_COUNT"); n != "" && n != "0" {
		name += " restart " + n
	}
	return name
}

func (s *slurmStep) ports() []string {
	var ports []string
	for i := range slurmPorts {
		ports = append(ports, strconv.Itoa(derivedPort(fmt.Sprintf("slurm/%s/%d", s.name(), i))))
	}
	return ports
}

func (s *slurmStep) join(ctx context.Context, watch Watcher) (*Process, error) {
	r, err := s.rendezvous(ctx)
	if err != nil {
		return nil, err
	}
	return r.join(ctx, watch)
}

// rendezvous works out where the ranks of the step meet.
func (s *slurmStep) rendezvous(ctx context.Context) (*rendezvous, error) {
	r := &rendezvous{
		launcher: "slurm", rank: s.rank, size: s.size, localRank: slurmLocalRank(s.env, s.size),
		node: nodeName(s.env), iface: ifaceOf(s.env), oneHost: s.oneHost,
		job: "slurm " + s.name(), siblings: siblingsOf(s.env, "slurm", s.rank),
		hints: hints{
			occupied: "other programs have these ports, which follow from the job and the step: start another step, or use srun --mpi=pmi2",
			refused: "set the same " + EnvSecret +
				" for all ranks, or start another step: another program may have the port",
			silent:  "is rank 0 running, and may its node be reached on these ports? srun --mpi=pmi2 or --mpi=pmix chooses ports freely",
			missing: "have they all started? srun --mpi=pmi2 or --mpi=pmix shows more",
		},
	}
	if err := s.agreeOnSecret(ctx, r); err != nil {
		return nil, alike{err, r.localRank}
	}
	addresses, alone, err := s.addresses(ctx)
	if err != nil {
		return nil, err
	}
	if alone {
		r.host = addresses[0]
	}
	for _, port := range s.ports() {
		r.listen = append(r.listen, net.JoinHostPort(loopback(r.host), port))
		for _, a := range addresses {
			r.meet = append(r.meet, net.JoinHostPort(a, port))
		}
	}
	return r, nil
}

// agreeOnSecret takes the secret from the environment, or lets rank 0 make one
// and munge carry it.
func (s *slurmStep) agreeOnSecret(ctx context.Context, r *rendezvous) error {
	given, err := givenSecret(s.env)
	if given != nil || err != nil {
		r.secret = given
		return err
	}
	r.secret = newSecret()
	if s.size == 1 {
		return nil // no other rank needs the secret
	}
	m, err := findMunge(s.env, s.name())
	if err != nil {
		return err
	}
	r.seal = m
	if s.rank > 0 {
		// Rank 0 does so anyway. Where munge is down on all nodes every rank should
		// fail at once, not wait for rank 0.
		_, err = m.seal(ctx, r.secret)
	}
	return err
}

// addresses are where rank 0 may listen. alone says that they are of the loopback
// interface and that there is no other host.
func (s *slurmStep) addresses(ctx context.Context) (ips []string, alone bool, err error) {
	if s.oneHost {
		return []string{localhost()}, true, nil
	}
	if s.rank == 0 {
		// It may not be on the first node; its own name must resolve here.
		return s.resolve(ctx, []string{cmp.Or(nodeName(s.env), s.nodes[0])})
	}
	return s.resolve(ctx, s.nodes)
}

// resolve turns nodes into addresses: by the host's resolver, or where it does
// not know them by Slurm's own table. simulated says that the table has loopback
// addresses, as tests do; that of the resolver means nothing, since Debian gives a
// host's own name 127.0.1.1.
func (s *slurmStep) resolve(ctx context.Context, nodes []string) (all []string, simulated bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, node := range nodes {
		ips, address, err := lookUp(bounded, node)
		if err != nil && ctx.Err() != nil {
			return nil, false, watch.GaveUp(ctx, "rank %d looked for the address of node %s", s.rank, node)
		}
		if err != nil {
			return nil, false, fault.New(fault.Launch, "rank %d cannot find the address of node %s, where rank 0 runs: %w",
				s.rank, node, err).
				WithHint("use srun --mpi=pmi2 or --mpi=pmix, which need no names, or make the node's name resolve")
		}
		if address != "" {
			simulated = loopback(address) != ""
		}
		all = append(all, ips...)
	}
	return all, simulated, nil
}

// lookUp returns the addresses of a node. inSlurm is what Slurm calls it, where the resolver does not know its name.
func lookUp(ctx context.Context, node string) (ips []string, inSlurm string, err error) {
	ips, unknown := net.DefaultResolver.LookupHost(ctx, node)
	if unknown == nil {
		return ips, "", nil
	}
	if inSlurm, err = slurm.NodeAddress(ctx, node); err != nil {
		return nil, "", fmt.Errorf("%w; %w", unknown, err)
	}
	if ips, err = net.DefaultResolver.LookupHost(ctx, inSlurm); err != nil {
		return nil, "", fmt.Errorf("Slurm calls it %s: %w", inSlurm, err)
	}
	return ips, inSlurm, nil
}
