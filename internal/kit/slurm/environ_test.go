package slurm

import (
	"slices"
	"testing"
)

// What users set to see their jobs as they like it leaves no job out here.
func TestEnviron(t *testing.T) {
	given := []string{"PATH=/bin", "SQUEUE_PARTITION=other", "SACCT_FORMAT=x", "SCANCEL_STATE=PENDING", "SLURM_TIME_FORMAT=relative", "SLURM_CONF=/c", "SBATCH_ACCOUNT=a"}
	if got, want := environ(given), []string{"PATH=/bin", "SLURM_CONF=/c", "SBATCH_ACCOUNT=a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Setenv("SQUEUE_QOS", "x")
	if got := environ(nil); len(got) == 0 || slices.Contains(got, "SQUEUE_QOS=x") {
		t.Errorf("of this process: %q", got)
	}
}
