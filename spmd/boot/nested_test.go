package boot

import (
	"strings"
	"testing"
)

// Variables that a launcher passes on are not those of the process that lacks them.
func TestPassesOn(t *testing.T) {
	for _, c := range []struct {
		launcher, above, env string
		want                 bool
	}{
		{"pmix", "slurmstepd", "PMIX_NAMESPACE=slurm.pmix.7.1 SLURM_JOB_ID=7 SLURM_STEP_ID=1", false},
		{"pmix", "slurmstepd", "PMIX_NAMESPACE=slurm.pmix.7.0 SLURM_JOB_ID=7 SLURM_STEP_ID=1", true}, // a step in a step
		{"pmix", "slurmstepd", "PMIX_NAMESPACE=prterun-h-1@1 SLURM_JOB_ID=7 SLURM_STEP_ID=1", true},  // srun under mpirun
		{"pmix", "slurmstepd", "PMIX_NAMESPACE=slurm.pmix.7.0", false},                               // an old Slurm
		{"pmi2", "slurmstepd", "PMI_JOBID=7.1 SLURM_JOB_ID=7 SLURM_STEP_ID=1", false},
		{"pmi2", "slurmstepd", "PMI_JOBID=6.1 SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_HET_SIZE=2", false}, // the leader of a heterogeneous job
		{"pmi2", "slurmstepd", "PMI_JOBID=6.1 SLURM_JOB_ID=7 SLURM_STEP_ID=1", true},                   // sbatch in a step
		{"pmix", "slurmstepd", "PMIX_NAMESPACE=slurm.pmix.6.1 SLURM_JOB_ID=7 SLURM_STEP_ID=1", true},   // the same
		{"pmi2", "slurmstepd", "PMI_JOBID=7.0 SLURM_JOB_ID=7 SLURM_STEP_ID=1", true},
		{"pmi1", "bash", "PMI_FD=1000000 PMI_JOBID=6.1 SLURM_JOB_ID=7 SLURM_STEP_ID=1", true}, // sbatch in a step of pmi2
		{"pmi1", "bash", "PMI_FD=0 PMI_JOBID=6.1 SLURM_JOB_ID=7 SLURM_STEP_ID=1", false},      // mpiexec.hydra there
		{"slurm", "slurmstepd", "SLURM_JOB_ID=7 SLURM_STEP_ID=1", false},
		{"pmi1", "slurmstepd", "SLURM_JOB_ID=7 SLURM_STEP_ID=1", true},
		{"torchrun", "slurmstepd", "SLURM_JOB_ID=7 SLURM_STEP_ID=1", true},
		{"pmi1", "hydra_pmi_proxy", "", false},
		{"pmix", "hydra_pmi_proxy", "PMIX_NAMESPACE=slurm.pmix.7.0 SLURM_JOB_ID=7 SLURM_STEP_ID=0", true},
		{"slurm", "hydra_pmi_proxy", "", true},
		{"pmix", "orted", "PMIX_NAMESPACE=123", false},
		{"pmix", "prted", "PMIX_NAMESPACE=prterun-h.example.com-9@1 SLURM_JOB_ID=7 SLURM_STEP_ID=1", false}, // mpirun in a step
		{"pmix", "", "PMIX_NAMESPACE=123", false},                                                           // hidden
	} {
		env := map[string]string{}
		for kv := range strings.FieldsSeq(c.env) {
			key, value, _ := strings.Cut(kv, "=")
			env[key] = value
		}
		look := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
		if got := passesOn(look, c.launcher, c.above) || ofOtherStep(look, c.launcher); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A batch script that was submitted in a step has the variables of that.
func TestIsOtherStep(t *testing.T) {
	for title, want := range map[string]bool{
		"slurmstepd: [7.batch]": true, "slurmstepd: [7.interactive]": true, "slurmstepd: [7.extern]": true, "slurmstepd: [7.0]": false, "slurmstepd: [7.1]": false,
		"slurmstepd: [7.3+0]": false, "slurmstepd: [7.3+1]": false, // srun A : B
		"slurmstepd: [6.batch]": false, "slurmstepd: [7]": false, "slurmstepd": false, "": false, "/usr/sbin/slurmstepd infinity": false,
	} {
		env := map[string]string{"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "1"}
		look := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
		if got := isOtherStep(look, title); got != want {
			t.Errorf("%s: %v", title, got)
		}
	}
}
