package launchers

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
)

// A private Slurm of four nodes with six CPUs each: two for the allocation in
// which most tests run, four for batch jobs.

const (
	nodes   = 4
	perNode = 2
	inBatch = 4
)

// cluster is the Slurm of all tests of this package; it starts with the first
// that needs it.
var cluster = sync.OnceValues(startCluster)

type slurm struct {
	*harness.Slurm
	job string // an allocation of all nodes, in which the steps of the tests run
}

// slurmCluster starts Slurm or fails the test.
func slurmCluster(t testing.TB) *slurm {
	t.Helper()
	harness.Need(t, "slurm-wlm", "srun", "slurmctld", "slurmd")
	harness.Need(t, "munge", "munged", "munge", "unmunge")
	s, err := cluster()
	must.Do(t, err)
	return s
}

func startCluster() (*slurm, error) {
	s, err := harness.StartSlurm(nodes, perNode+inBatch)
	if err != nil {
		return nil, err
	}
	c := &slurm{Slurm: s}
	return c, c.allocate()
}

// allocate takes all nodes for one job: its steps never wait for each other's
// resources to be given back.
func (s *slurm) allocate() error {
	out, err := s.Tool("salloc", "--no-shell", "-N", fmt.Sprint(nodes), "--ntasks-per-node", fmt.Sprint(perNode))
	if err != nil {
		return fmt.Errorf("salloc: %w: %s", err, out)
	}
	jobs, err := s.Tool("squeue", "-h", "-o", "%i")
	s.job = strings.TrimSpace(jobs)
	if err == nil && s.job == "" {
		err = fmt.Errorf("no job after salloc: %s", out)
	}
	return err
}
