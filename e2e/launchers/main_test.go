// Package launchers tests perigee under real launchers: a private Slurm, MPICH's
// mpiexec and Open MPI's mpirun. It needs their packages, which make test
// installs, and root, as which Slurm's daemons run here. No traffic leaves the
// machine.
package launchers

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
)

// together is how many tests run at a time: most of them wait most of the time.
const together = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", together)
	os.Exit(harness.Main(m))
}

// way is a way to start ranks.
type way struct {
	name     string
	launcher string // as perigee should call it
	// command returns the words before perigee's own, and variables to add.
	command func(t testing.TB, ranks int) (words, env []string)
	// hosts is where rank r of n should say that it is: "" is the machine's name.
	host func(r, n int) string
	// obituary is in the report of a launcher that itself kills all ranks when
	// one dies of a signal. perigee has only a moment then to say more.
	obituary string
}

func srun(flags ...string) func(t testing.TB, n int) ([]string, []string) {
	return func(t testing.TB, n int) ([]string, []string) {
		s := slurmCluster(t)
		words := []string{"srun", "--jobid=" + s.job, "--overlap", "-n", fmt.Sprint(n), "-N", fmt.Sprint(min(n, nodes))}
		if n < nodes { // or Slurm would avoid nodes on which a step is just ending
			words = append(words, "-w", strings.Join([]string{"node1", "node2", "node3"}[:n], ","))
		}
		return append(words, flags...), []string{"SLURM_CONF=" + s.Conf} // whose AuthInfo names munged's socket
	}
}

func hydra(flags ...string) func(t testing.TB, n int) ([]string, []string) {
	return func(t testing.TB, n int) ([]string, []string) {
		harness.Need(t, "mpich", "mpiexec.hydra")
		return append([]string{"mpiexec.hydra", "-launcher", "fork", "-iface", "lo", "-n", fmt.Sprint(n)}, flags...), []string{"PERIGEE_IFACE=lo"}
	}
}

func mpirun(t testing.TB, n int) ([]string, []string) {
	harness.Need(t, "openmpi-bin", "mpirun.openmpi")
	harness.Need(t, "libpmix2", "mpirun.openmpi")
	return []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "oob_tcp_if_include", "lo", "-n", fmt.Sprint(n)},
		[]string{"PERIGEE_IFACE=lo"}
}

func here(int, int) string { return "" }

// blocks is where Slurm puts ranks by default, on as many nodes as there are.
func blocks(r, n int) string {
	used := min(n, nodes)
	return fmt.Sprint("node", 1+r*used/n)
}

func cycles(r, n int) string { return fmt.Sprint("node", 1+r%min(n, nodes)) }

var ways = []way{
	{"hydra", "pmi1", hydra(), here, "BAD TERMINATION"},
	{"hydra port", "pmi1", hydra("-pmi-port"), here, "BAD TERMINATION"},
	{"hydra hosts", "pmi1", func(t testing.TB, n int) ([]string, []string) {
		return hydra("-hosts", fmt.Sprintf("h1:%d,h2:%d", n/2, n-n/2))(t, n)
	}, here, "BAD TERMINATION"},
	{"srun pmi2", "pmi2", srun("--mpi=pmi2"), blocks, ""},
	{"srun none", "slurm", srun("--mpi=none"), blocks, ""},
	{"srun pmix", "pmix", srun("--mpi=pmix"), blocks, ""},
	{"mpirun", "pmix", mpirun, here, "exited on signal 9"},
}

// launch starts perigee in ranks processes. Nothing of it may be left when the
// test ends.
func launch(t *testing.T, w way, ranks int, env []string, args ...string) *harness.Process {
	t.Helper()
	words, wayEnv := w.command(t, ranks)
	return start(t, harness.Command{
		Argv: slices.Concat(words, []string{harness.Program}, args), Env: slices.Concat(wayEnv, env),
	})
}

// start starts any command.
func start(t *testing.T, c harness.Command) *harness.Process {
	t.Helper()
	c.Env = append([]string{"UCX_NET_DEVICES=lo"}, c.Env...)
	p := harness.Start(t, c)
	t.Cleanup(func() {
		p.Wait()
		p.CheckNothingLeft(atOnce) // slurmstepd may start ranks after srun has been killed
	})
	return p
}
