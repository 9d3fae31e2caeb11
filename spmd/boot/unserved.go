package boot

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
)

// unserved is a launcher that numbers its processes and offers them nothing by which perigee could let them meet.
type unserved struct {
	name       string
	rank, size string   // its variables; no size: it does not say how many there are
	leader     string   // the variable with the address of rank 0, if it has one
	unless     []string // variables beside which these are another launcher's, or left over
	notFirst   bool     // what rank 0 has, others have too
}

// unservedLaunchers in the order in which they are looked for: some set the variables of others, too.
var unservedLaunchers = []unserved{
	{name: "MVAPICH", rank: "MV2_COMM_WORLD_RANK", size: "MV2_COMM_WORLD_SIZE"},
	{name: "MVAPICH", rank: "MVP_COMM_WORLD_RANK", size: "MVP_COMM_WORLD_SIZE"},
	{name: "Open MPI without PMIx", rank: "OMPI_COMM_WORLD_RANK", size: "OMPI_COMM_WORLD_SIZE",
		unless: []string{"PMIX_NAMESPACE"}},
	{name: "PALS", rank: "PALS_RANKID", size: "PMI_SIZE"},
	{name: "PALS", rank: "PALS_RANKID"},
	{name: "Flux", rank: "FLUX_TASK_RANK", size: "FLUX_JOB_SIZE"},
	{name: "JSM", rank: "JSM_NAMESPACE_RANK", size: "JSM_NAMESPACE_SIZE"},
	{name: "a launcher with PMI", rank: "PMI_RANK", size: "PMI_SIZE", unless: []string{"PMI_FD", "PMI_PORT"}},
	{name: "Horovod", rank: "HOROVOD_RANK", size: "HOROVOD_SIZE"},
	{name: "LeaderWorkerSet", rank: "LWS_WORKER_INDEX", size: "LWS_GROUP_SIZE", leader: "LWS_LEADER_ADDRESS"},
	{name: "a PyTorchJob or TrainJob", rank: "PET_NODE_RANK", size: "PET_NNODES", leader: "PET_MASTER_ADDR"},
	{name: "an indexed job of Kubernetes", rank: "JOB_COMPLETION_INDEX"},
	{name: "Slurm without a step", rank: "SLURM_PROCID", size: "SLURM_NTASKS", unless: []string{"SLURM_STEP_ID"},
		notFirst: true}, // a batch script is 0
}

// Unserved looks, in a process for which [Started] names no launcher, for one that perigee cannot serve: ranks that
// each process starts would know nothing of those of the others. The error, of kind Launch, has the line to type. note
// is about a launcher that does not say how many processes there are, and about variables that may be those of another
// program. Neither is there where the user has said by [EnvLauncher] who starts the ranks. names are those of all
// variables.
func Unserved(env Environ, names []string) (note string, err error) {
	if name := variable(env, EnvLauncher); name != "" && name != "auto" {
		return "", nil
	}
	for _, u := range unservedLaunchers {
		rank, failed := strconv.Atoi(variable(env, u.rank))
		other := slices.ContainsFunc(u.unless, func(name string) bool { return variable(env, name) != "" })
		if failed != nil || rank < 0 || other || u.notFirst && rank == 0 {
			continue
		}
		if u.size == "" {
			return fmt.Sprintf("%s=%d is a variable of %s: %s: %s", u.rank, rank, u.name, byItself, u.line(env)), nil
		}
		_, most, isRange := strings.Cut(variable(env, u.size), ":") // PET_NNODES may be MIN:MAX
		if !isRange {
			most = variable(env, u.size)
		}
		if size, failed := strconv.Atoi(most); failed != nil || size < 2 {
			if most != "" {
				return "", nil // it is alone
			}
			continue
		}
		return "", u.refused(env)
	}
	u := unknownLauncher(env, names)
	switch {
	case u == nil:
		return "", nil
	case strings.Contains(u.rank+u.size, "WORLD_"):
		return "", u.refused(env)
	}
	return fmt.Sprintf("%s=%s and %s=%s may be variables of %s: %s: %s", u.rank, variable(env, u.rank), u.size, variable(env, u.size),
		u.name, byItself, u.line(env)), nil
}

const byItself = "what this process starts is a job by itself. For one of all of them"

// refused is the error for a process of which there are several.
func (u unserved) refused(env Environ) error {
	return fault.New(fault.Launch, "%s=%s and %s=%s say that this is one of several processes of %s, which perigee cannot "+
		"serve: each would be a job by itself", u.rank, variable(env, u.rank), u.size, variable(env, u.size), u.name).
		WithHint("let it start, with one PERIGEE_SECRET for all, %s; or start ranks in this process, by -n N or "+
			"--launcher local", u.line(env))
}

// The ends of the names by which launchers number their processes and count them.
var (
	rankEnds = []string{"_RANK", "_RANKID", "_PROCID"}
	sizeEnds = []string{"_SIZE", "_WORLD_SIZE", "_NPROCS", "_NTASKS"}
)

// notLaunchers are words of the names of ranks and sizes within a host, within a group, and of matrices, and of
// programs, and of launchers that are looked for otherwise.
var notLaunchers = []string{
	"LOCAL", "NODE", "CROSS", "GROUP", "ROLE", "SHARD", "LORA", "TP", "PP", "DP", "EP", "CP", "TENSOR", "PIPELINE",
	"DATA", "EXPERT", "CONTEXT", "PARALLEL", "MODEL", "NCCL", "RCCL", "SLURM", "KERAS", "TORCH", "TORCHELASTIC", "PMI",
	"PMIX", "OMPI", "PERIGEE",
}

// unknownLauncher finds a rank and a number of more than one that have one prefix and fit each other, nil for none.
func unknownLauncher(env Environ, names []string) *unserved {
	for _, name := range slices.Sorted(slices.Values(names)) {
		for _, end := range rankEnds {
			prefix, isRank := strings.CutSuffix(name, end)
			if !isRank || prefix == "" || isListed(name) || slices.ContainsFunc(strings.Split(prefix, "_"), isNoLauncher) {
				continue
			}
			rank, failed := strconv.Atoi(variable(env, name))
			for _, end := range sizeEnds {
				size, none := strconv.Atoi(variable(env, prefix+end))
				if failed == nil && none == nil && 0 <= rank && rank < size && size > 1 {
					return &unserved{name: "an unknown launcher", rank: name, size: prefix + end}
				}
			}
		}
	}
	return nil
}

func isNoLauncher(word string) bool { return slices.Contains(notLaunchers, word) }

// isListed reports whether a variable is that of a listed launcher.
func isListed(name string) bool {
	return slices.ContainsFunc(unservedLaunchers, func(u unserved) bool { return u.rank == name })
}

// line starts a rank by torchrun's variables.
func (u unserved) line(env Environ) string {
	size, leader := "NUMBER", "HOST_OF_RANK_0"
	if u.size != "" && !strings.Contains(variable(env, u.size), ":") {
		size = "$" + u.size
	}
	if u.leader != "" && variable(env, u.leader) != "" {
		leader = "$" + u.leader
	}
	return fmt.Sprintf("sh -c 'RANK=$%s WORLD_SIZE=%s MASTER_ADDR=%s MASTER_PORT=29500 exec perigee ...'", u.rank, size,
		leader)
}

// unservedVariables are those of the table.
func unservedVariables() (names []string) {
	for _, u := range unservedLaunchers {
		for _, name := range []string{u.rank, u.size} {
			if name != "" && !slices.Contains(names, name) && !slices.Contains(slurmVariables, name) &&
				!strings.HasPrefix(name, "PMI_") {
				names = append(names, name)
			}
		}
	}
	return names
}
