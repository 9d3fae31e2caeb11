package launchers

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/spmd/spmdtest"
)

// Every launcher, 2 and 8 ranks, both engines, each two of them together: bytes arrive where they should.
func TestTraffic(t *testing.T) {
	for i, w := range ways {
		for k, engine := range []string{"shm", "nixl"} {
			ranks := []int{2, 8}[(i+k)%2]
			t.Run(fmt.Sprintf("%s/%d/%s", w.name, ranks, engine), func(t *testing.T) {
				if engine == "nixl" {
					harness.NeedNIXL(t)
				}
				config := workload(t, ranks)
				path := filepath.Join(t.TempDir(), "r.json")
				out := launch(t, w, ranks, nil, "sequential-ct-perftest", config,
					"--engine", engine, "--verify-buffers", "--result", path).MustEnd().Stdout
				harness.Contains(t, "stdout", out, fmt.Sprintf(", %d ranks on 1 host: ", ranks), ", launcher "+w.launcher+"\n", "# engine: "+engine)
				doc, err := result.Read(path)
				must.Do(t, err)
				if doc.Status != result.Complete || doc.World.Size != ranks || doc.World.Launcher != w.launcher || doc.Engine.Name != engine {
					t.Errorf("status %s, %d ranks, launcher %s, engine %s", doc.Status, doc.World.Size, doc.World.Launcher, doc.Engine.Name)
				}
			})
		}
	}
}

// workload writes two matrices of odd sizes and their configuration.
func workload(t testing.TB, ranks int) string {
	t.Helper()
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, uint64(ranks)))
	for _, name := range []string{"a.txt", "b.txt"} {
		var b strings.Builder
		for from := range ranks {
			for to := range ranks {
				n := 0
				if from != to {
					n = 1 + random.IntN(100_000)
				}
				fmt.Fprintf(&b, "%d ", n)
			}
			b.WriteString("\n")
		}
		write(t, filepath.Join(dir, name), b.String())
	}
	config := filepath.Join(dir, "c.yaml")
	write(t, config, "iters: 2\nisolation_iters: 2\nwarmup_iters: 1\ntraffic_patterns:\n- matrix_file: a.txt\n- matrix_file: b.txt\n  shards: 3\n  xfer_op: READ\n")
	return config
}

func write(t testing.TB, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// placements are ways in which only the places of the ranks are of interest.
var placements = []way{
	{"cyclic", "slurm", srun("--mpi=none", "-m", "cyclic"), cycles, ""},
	{"plane", "slurm", srun("--mpi=none", "-N2", "-w", "node1,node2", "-m", "plane=1"), func(r, n int) string { return fmt.Sprint("node", 1+r%2) }, ""},
	{"cyclic pmi2", "pmi2", srun("--mpi=pmi2", "-m", "cyclic"), cycles, ""},
	{"reversed node list", "slurm", srun("--mpi=none", "-N2", "-w", "node4,node3"), func(r, n int) string { return fmt.Sprint("node", 3+r*2/n) }, ""},
	{"last nodes", "slurm", srun("--mpi=none", "-N2", "-r2", "--overcommit"), func(r, n int) string { return fmt.Sprint("node", 3+r*2/n) }, ""},
	{"one node", "slurm", srun("--mpi=none", "-N1", "-w", "node1", "--overcommit"), func(r, n int) string { return "node1" }, ""},
	{"host file", "slurm", func(t testing.TB, n int) ([]string, []string) {
		file := filepath.Join(t.TempDir(), "hosts")
		write(t, file, "node3\nnode1\nnode3\nnode2\n")
		words, env := srun("--mpi=none", "-m", "arbitrary")(t, n)
		return words, append(env, "SLURM_HOSTFILE="+file)
	}, func(r, n int) string { return []string{"node3", "node1", "node3", "node2"}[r] }, ""},
}

// Every rank knows its number, its number on its node, and its node, wherever
// the launcher has put it.
func TestWho(t *testing.T) {
	machine, err := os.Hostname()
	must.Do(t, err)
	for _, w := range slices.Concat(ways, placements) {
		t.Run(w.name, func(t *testing.T) {
			n := 4
			out := launch(t, w, n, nil, "run", harness.Script(t, "whoami.lua")).MustEnd().Stdout
			local := map[string]int{}
			var want []string
			for r := range n {
				host := w.host(r, n)
				// Ranks on fake hosts count anew, or not, as their launcher does.
				group := host
				if host == "" {
					host = machine
				}
				if w.name == "hydra hosts" {
					group = fmt.Sprint(r * 2 / n)
				}
				want = append(want, fmt.Sprintf("rank %d of %d, local rank %d, on %s", r, n, local[group], host))
				local[group]++
			}
			harness.Contains(t, "stdout", out, strings.Join(want, "\n"))
		})
	}
}

// A rank never reads its standard input, and never waits for its end: what was
// there before perigee is there after it.
func TestStandardInput(t *testing.T) {
	const after = `"$@" && if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PMI_ID:-$SLURM_PROCID}}}" = 0 ]; then head -n 1; fi`
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			words, env := w.command(t, 2)
			in, out, err := os.Pipe()
			must.Do(t, err)
			defer in.Close()
			defer out.Close() // not before the job has ended
			if _, err := out.WriteString("not touched\n"); err != nil {
				t.Fatal(err)
			}
			stdout := start(t, harness.Command{Argv: slices.Concat(words, []string{"sh", "-c", after, "sh", harness.Program, "run", harness.Script(t, "whoami.lua")}), Env: env, Stdin: in}).MustEnd().Stdout
			harness.Contains(t, "stdout", stdout, "rank 1 of 2", "not touched")
		})
	}
}

// A batch job, as docs/launchers.md has it: the script itself is no rank, its
// steps are. It may have been submitted in a step, whose variables it has then.
func TestBatch(t *testing.T) {
	for _, in := range []string{"none", "pmi2", "pmix"} {
		t.Run("in a step of "+in, func(t *testing.T) { testBatch(t, "srun", "--mpi="+in, "--nodes=1", "--ntasks=1") })
	}
	testBatch(t)
}

func testBatch(t *testing.T, in ...string) {
	t.Helper()
	s := slurmCluster(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "job.sh"), fmt.Sprintf(`#!/bin/sh
#SBATCH --nodes=2 --ntasks-per-node=1 --output=%[1]s/out
export PERIGEE_MUNGE_SOCKET=%[2]s
%[3]s run -n 3 %[4]s
srun --mpi=none %[3]s run %[4]s
echo "srun's exit code: $?"
`, dir, s.Munge, harness.Program, harness.Script(t, "whoami.lua")))
	start(t, harness.Command{Argv: append(in, "sbatch", filepath.Join(dir, "job.sh")), Env: []string{"SLURM_CONF=" + s.Conf}}).MustEnd()
	harness.Contains(t, "output", outputOfBatch(t, dir), "launcher local\n", "\nrank 0 of 3", "launcher slurm\n", "\nrank 0 of 2, local rank 0, on node", "rank 1 of 2, local rank 0, on node", "exit code: 0")
}

// The components of a heterogeneous step are one world.
func TestHeterogeneousStep(t *testing.T) {
	s := slurmCluster(t)
	for _, plugin := range []string{"none", "pmix"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "job.sh"), fmt.Sprintf(`#!/bin/sh
#SBATCH --nodes=2 --ntasks=2 --output=%[1]s/out
export PERIGEE_MUNGE_SOCKET=%[2]s PERIGEE_IFACE=lo
unset SLURM_NTASKS SLURM_NPROCS SLURM_NNODES SLURM_JOB_NUM_NODES
timeout --kill-after=5 30 srun --mpi=%[3]s -n1 %[4]s run %[5]s : -n1 %[4]s run %[5]s
echo "srun's exit code: $?"
`, dir, s.Munge, plugin, harness.Program, harness.Script(t, "whoami.lua")))
		submit := func() string {
			start(t, harness.Command{Argv: []string{"sbatch", filepath.Join(dir, "job.sh")}, Env: []string{"SLURM_CONF=" + s.Conf}}).MustEnd()
			return outputOfBatch(t, dir)
		}
		// srun of Slurm 22.05 may free twice at its own end, when its ranks have ended well: it then crashes, or hangs.
		crashed := func(out string) bool {
			hangs := strings.Contains(out, "rank 1 of 2") && strings.Contains(out, "exit code: 124")
			return hangs || strings.Contains(out, "double free or corruption")
		}
		out := submit()
		for try := 1; try < 3 && crashed(out); try++ {
			t.Logf("srun has crashed at its own end, once more:\n%s", out)
			must.Do(t, os.Remove(filepath.Join(dir, "out")))
			out = submit()
		}
		harness.Contains(t, "output", out, "2 ranks on", "rank 0 of 2", "rank 1 of 2", "exit code: 0")
	}
}

// outputOfBatch is what a batch job has written to the file out, whose last line has an exit code. sbatch --wait would
// look every ten seconds only.
func outputOfBatch(t *testing.T, dir string) string {
	t.Helper()
	var out []byte
	if err := harness.WaitFor("end of the batch job", func() bool {
		out, _ = os.ReadFile(filepath.Join(dir, "out"))
		return strings.Contains(string(out), "'s exit code: ")
	}); err != nil {
		t.Fatalf("%v; its output:\n%s", err, out)
	}
	return string(out)
}

// An indexed job of Kubernetes gives its processes a number; the rest is the
// user's, as docs/launchers.md has it. Here its processes are shells.
func TestIndexedJob(t *testing.T) {
	port := spmdtest.FreePort(t)
	const pods = `for i in 0 1 2; do JOB_COMPLETION_INDEX=$i sh -c 'RANK=$JOB_COMPLETION_INDEX exec "$@"' sh "$@" & done; wait`
	out := start(t, harness.Command{Argv: []string{"sh", "-c", pods, "sh", harness.Program, "run", harness.Script(t, "whoami.lua")}, Env: []string{"WORLD_SIZE=3", "MASTER_ADDR=localhost", fmt.Sprint("MASTER_PORT=", port), "PERIGEE_SECRET=the secret of this job"}}).MustEnd().Stdout
	harness.Contains(t, "stdout", out, "launcher torchrun\n", "rank 0 of 3, local rank 0, on ", "rank 2 of 3, local rank 2, on ")
}

// Under srun, torchrun's agents start the ranks, not Slurm.
func TestTorchrunUnderSrun(t *testing.T) {
	port := spmdtest.FreePort(t)
	// What torchrun --nproc-per-node=2 does on each of two nodes.
	const agent = `for i in 0 1; do RANK=$((SLURM_PROCID * 2 + i)) LOCAL_RANK=$i "$@" & done; wait`
	words, env := srun("--mpi=pmi2")(t, 2)
	out := start(t, harness.Command{Argv: slices.Concat(words, []string{"sh", "-c", agent, "sh", harness.Program, "run", harness.Script(t, "whoami.lua")}), Env: slices.Concat(env, []string{"TORCHELASTIC_RUN_ID=1", "WORLD_SIZE=4", "MASTER_ADDR=localhost", fmt.Sprint("MASTER_PORT=", port)})}).MustEnd().Stdout
	harness.Contains(t, "stdout", out, "launcher torchrun\n", "rank 3 of 4, local rank 1, on ")
}

// Ranks are one job of the launcher that has started them, also where that one runs as a rank of another.
func TestLaunchersWithinEachOther(t *testing.T) {
	for _, c := range []struct{ outer, inner string }{
		{"mpirun", "hydra"}, {"hydra", "mpirun"}, {"mpirun", "srun none"}, {"mpirun", "srun pmi2"}, {"mpirun", "srun pmix"}, {"hydra", "srun none"},
		{"srun pmix", "srun pmi2"}, {"srun pmix", "srun none"}, {"srun pmi2", "srun none"}, {"srun pmix", "hydra"}, {"srun pmi2", "hydra"},
		{"srun none", "python"}, {"srun pmix", "python"}, {"hydra", "python"}, {"mpirun", "python"},
	} {
		words, env := wayNamed(c.outer).command(t, 1)
		way := way{"python", "torchrun", storingAgent, here, ""}
		if c.inner != "python" {
			way = wayNamed(c.inner)
		}
		inner, innerEnv := way.command(t, 2)
		if strings.HasPrefix(c.outer, "srun") && c.inner != "python" { // which has one node
			inner, innerEnv = way.command(t, 1)
			inner[slices.Index(inner, "-n")+1] = "2"
			if at := slices.Index(inner, "-launcher"); at >= 0 { // hydra takes srun, as it does in a step by itself
				inner[at+1] = "slurm"
				inner = slices.Insert(inner, 1, "-hosts", "node1")
				innerEnv = append(innerEnv, "SLURM_MPI_TYPE="+strings.TrimPrefix(c.outer, "srun ")) // as where it is the default
			}
		}
		for _, wrapper := range [][]string{nil, withoutVariables} {
			o := start(t, harness.Command{
				Dir:  t.TempDir(),
				Argv: slices.Concat(words, inner, wrapper, []string{harness.Program, "run", "pingpong", "--iters", "3", "--engine", "shm", "--size", "4K"}),
				Env:  slices.Concat(env, innerEnv, []string{"PERIGEE_IFACE=lo"}),
			}).Wait()
			if o.Code != 0 || strings.Count(o.Stdout, ", 2 ranks on ") != 1 || !strings.Contains(o.Stdout, "launcher "+way.launcher) {
				t.Errorf("%s in %s, behind %q: exit code %d\n%s%s", c.inner, c.outer, wrapper, o.Code, o.Stdout, o.Stderr)
			}
		}
	}
}
