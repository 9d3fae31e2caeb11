package launchers

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/result/resulttest"
)

// etcdStep starts a rank as CloudAI does: a step of one task on a node, by a shell.
func etcdStep(t *testing.T, dir, mpi, node, etcd, options string) *harness.Process {
	t.Helper()
	s := slurmCluster(t)
	return start(t, harness.Command{
		Dir: dir,
		Argv: []string{"srun", "--export=ALL", "--mpi=" + mpi, "--jobid=" + s.job, "--overlap", "--nodelist=" + node,
			"--ntasks-per-node=1", "--ntasks=1", "-N1", "bash", "-c", harness.Program + " kvbench nixlbench --etcd-endpoints=http://" + etcd +
				" --backend=UCX --engine=shm " + options},
		Env: []string{"SLURM_CONF=" + s.Conf, "NIXL_ETCD_NAMESPACE=/nixl/kvbench/" + strings.ReplaceAll(t.Name(), "/", "-"), "NIXL_ETCD_ENDPOINTS=" + etcd},
	})
}

// Two steps of one task each, in one allocation, are one world, whatever Slurm gives to each step by itself.
func TestStepsMeetAtEtcd(t *testing.T) {
	for _, mpi := range []string{"pmix", "pmi2", "none"} {
		for _, second := range []string{"node1", "node2"} {
			t.Run(fmt.Sprint(mpi, " ", second), func(t *testing.T) {
				t.Parallel()
				etcd, dir := harness.StartEtcd(t), t.TempDir()
				const options = "--max_block_size=8192 --num_iter=50 --check_consistency=true --result=r.json"
				first := etcdStep(t, dir, mpi, "node1", etcd, options)
				time.Sleep(2 * time.Second)
				o := etcdStep(t, dir, mpi, second, etcd, options).Wait()
				f := first.Wait()
				if o.Code != 0 || f.Code != 0 {
					t.Fatalf("exit codes %d, %d\n%s%s", f.Code, o.Code, f.Stderr, o.Stderr)
				}
				if n := strings.Count(f.Stdout+o.Stdout, "Block Size (B)      Batch Size     "); n != 1 {
					t.Errorf("%d headers in\n%s%s", n, f.Stdout, o.Stdout)
				}
				if doc := resulttest.Check(t, filepath.Join(dir, "r.json")); doc.World.Size != 2 || doc.World.Launcher != "etcd" || len(doc.Lanes) != 2 {
					t.Errorf("%+v", doc.World)
				}
			})
		}
	}
}

// A rank that is killed in its step ends the other step, which names it.
func TestKilledStepAtEtcd(t *testing.T) {
	t.Parallel()
	etcd, dir := harness.StartEtcd(t), t.TempDir()
	const options = "--start_block_size=1048576 --max_block_size=1048576 --num_iter=1000000"
	first := etcdStep(t, dir, "pmix", "node1", etcd, options)
	time.Sleep(time.Second)
	second := etcdStep(t, dir, "pmix", "node2", etcd, options)
	first.UntilPrints("Block Size (B)")
	harness.Signal(t, second.Rank(0), syscall.SIGKILL)
	killed := time.Now()
	o := first.Wait()
	if o.Code != int(fault.RankLost) || time.Since(killed) > harness.Patience {
		t.Errorf("exit code %d after %v", o.Code, time.Since(killed))
	}
	harness.Contains(t, "stderr", o.Stderr, "rank 1 on node2, ")
	second.Wait()
}
