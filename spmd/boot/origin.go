package boot

import (
	"cmp"
	"slices"
	"strconv"

	"perigee/spmd/host"
)

// Origin holds what the environment says of a process that a launcher has started as
// a rank, before it has met anybody.
type Origin struct {
	Launcher string
	Rank     int
	Host     string // in the launcher's words, or else the machine's own
	// Variables are the names of those in the environment that belong to launchers, to
	// this one and of others. Some of them may hold secrets; their names do not.
	Variables []string
}

// telltale are the variables that any of the launchers, or the user, may set.
var telltale = slices.Concat(
	[]string{EnvLauncher, EnvIface, EnvNoWatch, EnvSecret, EnvMungeSocket, EnvPMIxLibrary},
	[]string{EnvRank, EnvSize, EnvControl},
	[]string{EnvEtcdNamespace, EnvEtcdEndpoints, EnvEtcdRanks},
	torchrunVariables, []string{"LOCAL_RANK", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"},
	[]string{"PMIX_RANK", "PMIX_NAMESPACE"}, pmixServers,
	[]string{"PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMI_ID", "PMI_JOBID"},
	slurmVariables, []string{"SLURM_LOCALID", "SLURM_STEP_NUM_NODES", "SLURMD_NODENAME", "SLURM_DISTRIBUTION"},
	unservedVariables(),
)

// OriginOf describes this process. ok is false, and Rank -1, where no launcher
// started it.
func OriginOf(env Environ) (o Origin, ok bool, err error) {
	o = Origin{Rank: -1, Host: cmp.Or(nodeName(env), host.Name())}
	for _, name := range telltale {
		if _, set := env(name); set {
			o.Variables = append(o.Variables, name)
		}
	}
	o.Launcher, ok, err = Started(env)
	if ok && o.Launcher != "etcd" { // which gives out ranks later
		o.Rank = rankFrom(env, o.Launcher)
	}
	return o, ok, err
}

// rankFrom reads the rank, which the launcher's detector has looked at already.
func rankFrom(env Environ, launcher string) int {
	name := map[string]string{
		"local": EnvRank, "torchrun": "RANK", "pmix": "PMIX_RANK", "pmi2": "PMI_RANK", "pmi1": "PMI_RANK",
		"slurm": "SLURM_PROCID",
	}[launcher]
	if _, port := env("PMI_PORT"); port && launcher == "pmi1" {
		name = "PMI_ID"
	}
	text, _ := env(name)
	rank, _ := strconv.Atoi(text) // the detector has refused what is no number
	return rank
}
