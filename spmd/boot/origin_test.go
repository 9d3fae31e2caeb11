package boot

import (
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/spmd/host"
)

func TestOrigin(t *testing.T) {
	host := host.Name()
	for _, c := range []struct {
		name, env string
		want      Origin
	}{
		{"no launcher", "HOME=/ PERIGEE_SECRET=s", Origin{Rank: -1, Host: host, Variables: []string{"PERIGEE_SECRET"}}},
		{"local", "PERIGEE_RANK=2 PERIGEE_SIZE=3 PERIGEE_CONTROL_FD=3", Origin{"local", 2, host, []string{"PERIGEE_RANK", "PERIGEE_SIZE", "PERIGEE_CONTROL_FD"}}},
		{"torchrun", "RANK=1 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=29500", Origin{"torchrun", 1, host, []string{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}}},
		{"pmix", "PMIX_RANK=7 PMIX_NAMESPACE=n PMIX_SERVER_URI4=u", Origin{"pmix", 7, host, []string{"PMIX_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_URI4"}}},
		{"pmi2", "PMI_FD=5 PMI_JOBID=9.0 PMI_RANK=3 PMI_SIZE=4", Origin{"pmi2", 3, host, []string{"PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_JOBID"}}},
		{"pmi1", "PMI_FD=5 PMI_RANK=3 PMI_SIZE=4", Origin{"pmi1", 3, host, []string{"PMI_FD", "PMI_RANK", "PMI_SIZE"}}},
		{"pmi1 by port", "PMI_PORT=h:1 PMI_ID=6", Origin{"pmi1", 6, host, []string{"PMI_PORT", "PMI_ID"}}},
		{"slurm", "SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_TASKS_PER_NODE=1(x2) SLURMD_NODENAME=n2",
			Origin{"slurm", 1, "n2", append(append([]string(nil), slurmVariables...), "SLURMD_NODENAME")}},
		{"sbatch in a step of PMIx", "PMIX_RANK=0 PMIX_NAMESPACE=slurm.pmix.8.0 PMIX_SERVER_URI4=u SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_TASKS_PER_NODE=1(x2) SLURMD_NODENAME=n2",
			Origin{"slurm", 1, "n2", append(append([]string{"PMIX_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_URI4"}, slurmVariables...), "SLURMD_NODENAME")}},
		{"slurm's batch script", "SLURM_JOB_ID=9 SLURM_PROCID=0", Origin{Rank: -1, Host: host, Variables: []string{"SLURM_JOB_ID", "SLURM_PROCID"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := map[string]string{}
			for kv := range strings.FieldsSeq(c.env) {
				key, value, _ := strings.Cut(kv, "=")
				env[key] = value
			}
			got, ok, err := OriginOf(func(k string) (string, bool) { v, ok := env[k]; return v, ok })
			if err != nil || ok != (c.want.Rank >= 0) {
				t.Fatalf("%v, %v", ok, err)
			}
			must.Equal(t, c.want, got)
		})
	}
}
