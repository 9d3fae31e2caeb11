package launchers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
	"perigee/spmd/spmdtest"
)

// small are sizes of expert-parallel traffic whose every byte is checked.
var small = []string{"--engine", "nixl", "--tokens", "8", "--hidden", "256", "--experts-per-rank", "4", "--topk", "3", "--iters", "4", "--verify"}

// The ranks that a launcher starts play perigee ep, and are all that play.
func TestExperts(t *testing.T) {
	harness.NeedNIXL(t)
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "r.json")
			out := launch(t, w, 4, nil, append([]string{"ep", "data-plane", "--result", path}, small...)...).MustEnd().Stdout
			harness.Contains(t, "stdout", out, "Data Plane (e2e): 4/4 ranks passed\n", "checked what e2e fresh left: 96 messages")
			doc, err := result.Read(path)
			must.Do(t, err)
			if doc.World.Size != 4 || doc.World.Launcher != w.launcher {
				t.Errorf("%d ranks, launcher %s", doc.World.Size, doc.World.Launcher)
			}
			out = launch(t, w, 4, nil, "ep", "elastic", "--plan", "0-3; 0-2,-3; 0-2", "--engine", "nixl", "--tokens", "8", "--hidden", "256", "--iters", "3",
				"--warmup", "1").MustEnd().Stdout
			harness.Contains(t, "stdout", out, "# note: phase 2: rank 3 was killed, as planned; its process has ended\n", "ranks 0-2 -> end phase 2\n")
			launch(t, w, 4, nil, "ep", "control-plane", "--engine", "nixl", "--num-tokens", "8", "--hidden", "256", "--experts-per-rank", "4").MustEnd()
		})
	}
}

// commandOfNode starts the ranks of a node.
func commandOfNode() []string {
	return []string{"sh", "-c", `WORLD_SIZE=$SLURM_NNODES RANK=$SLURM_NODEID MASTER_ADDR=127.0.0.2 exec "$@"`, "sh", harness.Program, "ep",
		"data-plane", "--num-processes", "2"}
}

// The ranks of a node end with what has started its command.
func TestDeathOfTheLauncherOfNodes(t *testing.T) {
	harness.NeedNIXL(t)
	stepd := func(of int) func(*testing.T, *harness.Process, []int) []int {
		return func(t *testing.T, _ *harness.Process, ranks []int) []int {
			return []int{parent(t, parent(t, ranks[of]))}
		}
	}
	for name, victims := range map[string]func(t *testing.T, p *harness.Process, ranks []int) []int{
		"srun, all of it":       func(t *testing.T, p *harness.Process, _ []int) []int { return named("srun", false)(t, p) },
		"slurmstepd, of rank 0": stepd(0),
		"slurmstepd, of rank 3": stepd(3),
	} {
		launcher, _, _ := strings.Cut(name, ",")
		t.Run(name, func(t *testing.T) {
			port := spmdtest.FreePort(t)
			words, env := srun("--mpi=none")(t, 2)
			path := filepath.Join(t.TempDir(), "r.json")
			words = slices.Concat(words, commandOfNode(),
				[]string{"--iters", "1000000", "--tokens", "8", "--hidden", "128", "--result", path})
			p := start(t, harness.Command{Argv: words, Env: append(env, fmt.Sprint("MASTER_PORT=", port),
				"PERIGEE_SECRET=of the test of nodes", "PERIGEE_IFACE=lo"), Group: true})
			p.UntilPrints("Measure: 1000000 iterations")
			ranks := make([]int, 4)
			for pid, env := range harness.Owned(p.Token) {
				if rank, err := strconv.Atoi(env["RANK"]); err == nil && env["LOCAL_RANK"] != "" {
					ranks[rank] = pid
				}
			}
			if slices.Contains(ranks, 0) {
				t.Fatalf("ranks %v", ranks)
			}
			untilSaved(p, path, launcher)
			for _, pid := range victims(t, p, ranks) {
				kill(t, pid)
			}
			endOfRanks(t, p, ranks)
			checkObituary(t, path, launcher)
		})
	}
}

// untilSaved waits for the journal of the result if srun is to die: Slurm may kill all ranks before they notice that.
func untilSaved(p *harness.Process, path, launcher string) {
	if launcher == "srun" {
		p.Until("journal", func() bool {
			_, err := os.Stat(path + result.PartEnding)
			return err == nil
		})
	}
}

// checkObituary looks for the launcher that has died in the partial result, which may say nothing of srun; see
// untilSaved.
func checkObituary(t *testing.T, path, launcher string) {
	t.Helper()
	doc := resulttest.Check(t, path)
	switch f := doc.Failure; {
	case doc.Status != result.Partial:
		t.Errorf("status %s", doc.Status)
	case f == nil && launcher == "srun":
	case f == nil || f.Kind != fault.RankLost || !regexp.MustCompile(`^its launcher `+launcher+`( \(process \d+\))? has died$`).
		MatchString(f.Cause):
		t.Errorf("failure %+v, want that of %s", f, launcher)
	}
}

// srun starts one command on each node, with the variables of the document: each starts the ranks of its node.
func TestExpertsOnNodes(t *testing.T) {
	harness.NeedNIXL(t)
	port := spmdtest.FreePort(t)
	words, env := srun("--mpi=none")(t, 2)
	words = append(words, commandOfNode()...)
	out := start(t, harness.Command{Argv: append(words, small...), Env: append(env, fmt.Sprint("MASTER_PORT=", port),
		"PERIGEE_SECRET=of the test of nodes", "PERIGEE_IFACE=lo")}).MustEnd().Stdout
	harness.Contains(t, "stdout", out, "Ranks: 4, Tokens: 8", "Data Plane (e2e): 4/4 ranks passed\n", "checked what e2e fresh left: 96 messages")
	if n := strings.Count(out, "ranks passed"); n != 1 {
		t.Errorf("%d nodes printed a result, want the first alone:\n%s", n, out)
	}
}

// The documented line holds where srun inherits from the job that each node has several tasks. One that says only how
// many of them each node has, which srun leaves aside then, is refused by all tasks.
func TestExpertsOnNodesOfSeveralTasks(t *testing.T) {
	data := must.Read(t, "../../docs/ep.md")
	line := regexp.MustCompile(`(?m)^srun .*MASTER_ADDR=node1 perigee ep data-plane --num-processes 8'$`).
		FindString(string(data))
	if line == "" {
		t.Fatal("docs/ep.md does not have the line")
	}
	run := func(line string) *harness.Process {
		port := spmdtest.FreePort(t)
		line = strings.NewReplacer("MASTER_ADDR=node1", "MASTER_ADDR=127.0.0.2", "srun ", "srun -w node1,node2 ",
			"processes 8", "processes 2 --iters 4 --tokens 8 --hidden 256").Replace(line)
		return shell(t, t.TempDir(), line, append(inSlurm(t), "SLURM_NTASKS=4", "SLURM_NPROCS=4", "SLURM_NTASKS_PER_NODE=2",
			fmt.Sprint("MASTER_PORT=", port), "PERIGEE_SECRET=of the test of nodes", "PERIGEE_IFACE=lo")...)
	}
	out := run(line).MustEnd().Stdout
	harness.Contains(t, "stdout", out, "4 ranks on 1 host", "launcher torchrun\n")
	o := run(strings.Replace(line, "--ntasks 2", "--ntasks-per-node 1", 1)).Wait()
	harness.Contains(t, "stderr", o.Stderr, "WORLD_SIZE is 2, but this step of srun has 4 tasks on 2",
		"srun --nodes 2 --ntasks 2")
	if o.Code != int(fault.Usage) || strings.Contains(o.Stdout, "ranks on") {
		t.Errorf("exit code %d, want %d\n%s", o.Code, fault.Usage, o.Stdout)
	}
}

// A batch script may start a step for each node, which has one task.
func TestExpertsOfSteps(t *testing.T) {
	port := spmdtest.FreePort(t)
	for _, mpi := range []string{"none", "pmi2"} {
		t.Run(mpi, func(t *testing.T) {
			script := fmt.Sprintf(`
for i in 0 1; do
	RANK=$i srun --mpi=%s -N1 -n1 -w node$((i+1)) timeout 30 perigee ep control-plane --num-processes 2 --engine shm \
		--num-tokens 8 --hidden 256 --experts-per-rank 4 &
	pids="$pids $!"
done
for pid in $pids; do wait $pid; done`, mpi)
			out := shell(t, t.TempDir(), script, append(inSlurm(t), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.2",
				fmt.Sprint("MASTER_PORT=", port), "PERIGEE_SECRET=of the test of nodes", "PERIGEE_IFACE=lo")...).MustEnd().Stdout
			harness.Contains(t, "stdout", out, "4 ranks on 1 host", "launcher torchrun\n")
		})
	}
}

// Ranks that perigee itself starts in a step, since the user says that its task is none, end with the step all the
// same.
func TestDeathOfTheStepOfLocalRanks(t *testing.T) {
	s := slurmCluster(t)
	for command, c := range map[string]struct {
		words []string
		says  string // when it measures
	}{
		"ep": {[]string{"ep", "data-plane", "--num-processes", "2", "--iters", "1000000", "--tokens", "8", "--hidden", "128"},
			"Measure: 1000000 iterations"},
		"run": {[]string{"run", harness.Script(t, "stay.lua"), "-n", "2"}, "all are here"},
	} {
		for _, launcher := range []string{"srun", "slurmstepd"} {
			t.Run(command+" "+launcher, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "r.json")
				step := []string{"srun", "--jobid=" + s.job, "--overlap", "-N1", "-n1",
					"sh", "-c", `"$@"; exit $?`, "sh", harness.Program}
				words := slices.Concat(step, c.words, []string{"--engine", "shm", "--launcher", "local", "--result", path})
				p := start(t, harness.Command{Argv: words, Env: []string{"SLURM_CONF=" + s.Conf}, Group: true})
				p.UntilPrints(c.says)
				ranks := localRanks(t, p)
				untilSaved(p, path, launcher)
				victims := []int{parent(t, parent(t, parent(t, ranks[0])))} // above perigee and the shell
				if launcher == "srun" {
					victims = named("srun", false)(t, p)
				}
				for _, pid := range victims {
					kill(t, pid)
				}
				endOfRanks(t, p, ranks)
				checkObituary(t, path, launcher)
			})
		}
	}
}

// localRanks are the processes of the two ranks that perigee itself has started.
func localRanks(t *testing.T, p *harness.Process) (ranks []int) {
	t.Helper()
	for pid, env := range harness.Owned(p.Token) {
		if env["PERIGEE_RANK"] != "" {
			ranks = append(ranks, pid)
		}
	}
	if len(ranks) != 2 {
		t.Fatalf("%d ranks", len(ranks))
	}
	return ranks
}

// endOfRanks waits until ranks have ended whose launcher was killed, which must be at once, and ends what is left.
func endOfRanks(t *testing.T, p *harness.Process, ranks []int) {
	t.Helper()
	watch := harness.StartWatch()
	must.Do(t, harness.WaitFor("end of the ranks", func() bool { return !slices.ContainsFunc(ranks, alive) }))
	watch.Check(t, "the end of the ranks", time.Now(), atOnce, 0)
	for pid := range harness.Owned(p.Token) { // srun waits for a slurmstepd that is dead
		kill(t, pid)
	}
}

// The same line starts the ranks of a single node, and these end with srun, too.
func TestExpertsOnOneNode(t *testing.T) {
	s := slurmCluster(t)
	words := append([]string{"srun", "-N1", "-n1"}, commandOfNode()...)
	env := []string{"SLURM_CONF=" + s.Conf}
	out := start(t, harness.Command{Argv: append(words, "--engine", "shm", "--tokens", "8", "--hidden", "256"), Env: env}).MustEnd().Stdout
	harness.Contains(t, "stdout", out, "2 ranks on 1 host", "launcher local\n")
	p := start(t, harness.Command{Argv: append(words, "--engine", "shm", "--iters", "1000000", "--tokens", "8", "--hidden", "128"), Env: env, Group: true})
	p.UntilPrints("2 ranks on")
	ranks := localRanks(t, p)
	for _, pid := range named("srun", false)(t, p) {
		kill(t, pid)
	}
	endOfRanks(t, p, ranks)
}

// A shell of srun --pty starts the ranks of a node where the user says that it is none itself.
func TestExpertsInAStep(t *testing.T) {
	s := slurmCluster(t)
	port := spmdtest.FreePort(t)
	script := fmt.Sprintf(`
set -- timeout 30 %s ep control-plane --world-size 2 --num-processes 2 --engine shm --num-tokens 8 --hidden 256 --experts-per-rank 4
"$@"
"$@" --launcher local --rank 1 --master-addr 127.0.0.2 &
"$@" --launcher local && wait $!`, harness.Program)
	o := start(t, harness.Command{Argv: []string{"srun", "-N1", "-n1", "sh", "-c", script}, Env: []string{"SLURM_CONF=" + s.Conf,
		"PERIGEE_SECRET=of the test of nodes", "PERIGEE_IFACE=lo", fmt.Sprint("MASTER_PORT=", port), "MASTER_ADDR=127.0.0.2"}}).MustEnd()
	harness.Contains(t, "stderr", o.Stderr, "have no effect", "--launcher local")
	harness.Contains(t, "stdout", o.Stdout, "4 ranks on 1 host", "launcher torchrun\n")
}

// The command of the first node may be started by the batch script itself, which is no rank of Slurm's, and that of another
// by ssh, without Slurm's variables. The script may have been submitted in a step, whose variables it has then.
func TestExpertsOfABatchScript(t *testing.T) {
	for _, in := range []string{"none", "pmi2", "pmix"} {
		t.Run("in a step of "+in, func(t *testing.T) {
			testExpertsOfABatchScript(t, "srun", "--mpi="+in, "--nodes=1", "--ntasks=1")
		})
	}
	testExpertsOfABatchScript(t)
}

func testExpertsOfABatchScript(t *testing.T, in ...string) {
	t.Helper()
	s := slurmCluster(t)
	port := spmdtest.FreePort(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "job.sh"), fmt.Sprintf(`#!/bin/sh
#SBATCH --nodes=1 --ntasks=1 --output=%[1]s/out
share="PERIGEE_SECRET=of-the-test-of-nodes PERIGEE_IFACE=lo MASTER_PORT=%[2]d WORLD_SIZE=2 MASTER_ADDR=127.0.0.2"
set -- timeout 30 %[3]s ep control-plane --num-processes 2 --engine shm --num-tokens 8 --hidden 256 --experts-per-rank 4
env -i PATH="$PATH" HOME="$HOME" $share RANK=1 "$@" &
env $share RANK=0 "$@"
code=$?
wait
echo "the script's exit code: $code"
`, dir, port, harness.Program))
	start(t, harness.Command{Argv: append(in, "sbatch", filepath.Join(dir, "job.sh")), Env: []string{"SLURM_CONF=" + s.Conf}}).MustEnd()
	harness.Contains(t, "output", outputOfBatch(t, dir), "4 ranks on", "the script's exit code: 0")
}

// No launcher minds that a plan's ranks end before the others.
func TestExpertsDie(t *testing.T) {
	for _, w := range append([]way{local, {"torchrun", "torchrun", agent, here, ""}}, ways...) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			words, env := w.command(t, 4)
			words = append(words, harness.Program, "run", harness.Script(t, "../../testdata/deaths.lua"), "--engine", "shm", "--plan", "0-1,-2,3; 0,-1@combine,3; 0,3")
			if w.name == "local" {
				words = append(words, "-n", "4")
			}
			out := start(t, harness.Command{Argv: words, Env: env}).MustEnd().Stdout
			harness.Contains(t, "stdout", out, "phase\t1\tkilled\t2\tended\t2\n", "phase\t2\tkilled\t1\tended\t1\n", "phase\t3\tkilled\t\tended\t\n")
		})
	}
}
