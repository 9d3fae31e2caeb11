package ep

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// What the document's variables mean depends on who has started the process.
func TestNodes(t *testing.T) {
	step := "SLURM_PROCID=1 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS="
	alone := "SLURM_PROCID=0 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=1 "
	single := "SLURM_PROCID=1 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS="
	batch := "SLURM_JOB_ID=7 SLURM_STEP_ID=0 WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 "
	pmix := "PMIX_RANK=1 PMIX_SERVER_URI4=pmix-server.1;tcp4://127.0.0.1:1 PMIX_NAMESPACE="
	hydra := "PMI_FD=1000000 PMI_RANK=1 PMI_SIZE=2"
	pmi2 := hydra + " PMI_JOBID="
	second := nodes{count: 2, node: 1, perNode: 8, master: "n1", port: "9999"}
	for _, test := range []struct {
		args, env string
		want      nodes // without count: one node, or a launcher's rank
		complaint string
	}{
		{"", "", nodes{}, ""},
		{"", "WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1", second, ""},
		{"--world-size 2 --rank=1 --master-addr n1", "WORLD_SIZE=3", second, ""},
		// A launcher's ranks, and torchrun's.
		{"", "WORLD_SIZE=16 RANK=9 LOCAL_RANK=1", nodes{}, ""},
		{"", step + "16", nodes{}, ""},
		{"", step + "16 WORLD_SIZE=16 RANK=1", nodes{}, ""},
		{"", step + "2 WORLD_SIZE=16 RANK=9 LOCAL_RANK=1", nodes{}, ""},
		// One command on each node, started by srun.
		{"", step + "2 WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1", second, ""},
		{"--world-size 2 --rank 1 --master-addr n1", step + "2", second, ""},
		// One command on each node, on one of them by a batch script, or by a shell of salloc.
		{"", "SLURM_PROCID=0 WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1", second, ""},
		{"--world-size 2 --rank 1 --master-addr n1", "SLURM_PROCID=0 SLURM_STEP_ID=4294967290", second, ""},
		{"--world-size 2", step + "16", nodes{}, "--world-size, --rank and --master-addr have no effect"},
		{"--world-size 2", hydra, nodes{}, "--world-size, --rank and --master-addr have no effect"},
		{"--world-size 2", pmix + "prterun-h-1@1", nodes{}, "--world-size, --rank and --master-addr have no effect"},
		{"", step + "2 WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 " + hydra, nodes{}, ""}, // mpiexec in each task
		// The same with the other plugins of Slurm.
		{"", step + "16 " + pmi2 + "7.0", nodes{}, ""},
		{"", step + "2 WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 " + pmi2 + "7.0", second, ""},
		{"", step + "2 WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 " + pmix + "slurm.pmix.7.0", second, ""},
		// srun starts the command of the only node.
		{"", alone + "WORLD_SIZE=1 RANK=0 MASTER_ADDR=n1", nodes{count: 1}, ""},
		{"", alone + "WORLD_SIZE=1 RANK=0 MASTER_ADDR=n1 " + pmi2 + "7.0", nodes{count: 1}, ""},
		{"--world-size 1 --rank 0", alone, nodes{count: 1}, ""},
		{"", alone, nodes{}, ""},
		{"", alone + "WORLD_SIZE=1 RANK=0 LOCAL_RANK=0", nodes{}, ""},
		{"", alone + "WORLD_SIZE=1 RANK=0 " + hydra, nodes{}, ""},
		{"", alone + "WORLD_SIZE=1 RANK=1", nodes{}, "RANK: wanted a whole number 0, got 1"},
		{"--world-size 1", step + "16", nodes{}, "--world-size, --rank and --master-addr have no effect"},
		// A step for each node, or srun --pty bash on one of them.
		{"", alone + "WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1", second, ""},
		{"", alone + "WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 MASTER_PORT=9999", second, ""},
		{"", alone + "WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 " + pmi2 + "7.0", second, ""},
		{"", alone + "WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 " + pmix + "slurm.pmix.7.0", second, ""},
		{"--world-size 2 --rank 1 --master-addr n1", alone, second, ""},
		{"--rank 1", alone + "WORLD_SIZE=2 MASTER_ADDR=n1", second, ""},
		{"", alone + "WORLD_SIZE=2 RANK=2 MASTER_ADDR=n1", nodes{}, "RANK: wanted a whole number from 0 to 1, got 2"},
		{"", alone + "WORLD_SIZE=2 RANK=x MASTER_ADDR=n1", nodes{}, `RANK: wanted a whole number of at least 0, got "x"`},
		{"", alone + "WORLD_SIZE=16 RANK=9 LOCAL_RANK=1", nodes{}, ""},
		{"", alone + "WORLD_SIZE=16 RANK=9 LOCAL_RANK=1 TORCHELASTIC_RUN_ID=x MASTER_ADDR=n1 MASTER_PORT=1", nodes{}, ""},
		{"", alone + "WORLD_SIZE=2", nodes{}, ""}, // which may be left from anything
		{"--world-size 2", alone, nodes{}, "have no effect"},
		{"", alone + "WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 " + hydra, nodes{}, ""},
		{"", alone + "WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 " + pmix + "prterun-h-1@1", nodes{}, ""},
		// More tasks than nodes: srun has taken their number from the job.
		{"", step + "4 WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1", nodes{}, "WORLD_SIZE is 2, but this step of srun has 4 tasks on 2"},
		{"", step + "4 WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 " + pmi2 + "7.0", nodes{}, "WORLD_SIZE is 2, but this step of srun has 4"},
		{"--world-size 2 --rank 1", step + "4", nodes{}, "WORLD_SIZE is 2, but this step of srun has 4 tasks"},
		{"", single + "2 WORLD_SIZE=1 RANK=0", nodes{}, "WORLD_SIZE is 1, but this step of srun has 2 tasks on 1"},
		{"", single + "4 WORLD_SIZE=4 RANK=2", nodes{}, "RANK is 2, but this is task 1 of 4 that srun has started on one node"},
		// Ranks of Slurm, with variables of a batch script, in which SLURM_PROCID is 0.
		{"", single + "2 WORLD_SIZE=2 RANK=0 MASTER_ADDR=n1", nodes{}, ""},
		// The user has said that they are ranks.
		{"", step + "2 WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 PERIGEE_LAUNCHER=slurm", nodes{}, ""},
		{"", single + "2 WORLD_SIZE=1 RANK=0 PERIGEE_LAUNCHER=slurm", nodes{}, ""},
		{"", single + "4 WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 MASTER_PORT=1 PERIGEE_LAUNCHER=torchrun", nodes{}, ""},
		{"", alone + "WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 MASTER_PORT=1 PERIGEE_LAUNCHER=torchrun", nodes{}, ""},
		{"", single + "4 WORLD_SIZE=4 RANK=2 MASTER_ADDR=n1 MASTER_PORT=1", nodes{}, ""}, // in another order
		{"", step + "4 WORLD_SIZE=2 RANK=1 LOCAL_RANK=0", nodes{}, ""},
		{"", step + "4 WORLD_SIZE=2", nodes{}, ""},
		{"", step + "4 WORLD_SIZE=2 RANK=1 " + hydra, nodes{}, ""},
		// Fewer tasks than nodes, or than ranks that a script in each starts.
		{"", step + "2 WORLD_SIZE=4 RANK=1 MASTER_ADDR=n1", nodes{}, "WORLD_SIZE is 4, but this step of srun has 2 tasks on 2"},
		{"", step + "2 WORLD_SIZE=4 RANK=1 MASTER_ADDR=n1 PERIGEE_LAUNCHER=local", nodes{4, 1, 8, "n1", "9999"}, ""},
		// Ranks that have torchrun's variables from the tasks' numbers, in any order.
		{"", single + "2 WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1 MASTER_PORT=1", nodes{}, ""},
		{"", step + "4 WORLD_SIZE=4 RANK=2 MASTER_ADDR=n1 MASTER_PORT=1", nodes{}, ""},
		{"", step + "4 WORLD_SIZE=4 RANK=1 " + pmi2 + "7.0", nodes{}, ""},
		// What Slurm does not say.
		{"", "PMI_JOBID=7.0 " + hydra + " WORLD_SIZE=4 RANK=1 MASTER_ADDR=n1", nodes{}, ""},
		// srun --pty bash is a rank, unless the user says otherwise.
		{"--world-size 2 --rank 1 --master-addr n1", alone + "PERIGEE_LAUNCHER=local", second, ""},
		// A batch script that has been submitted in a step has the variables of that. That SLURM_STEP_ID is one of them
		// only the title of slurmstepd says.
		{"", batch + pmi2 + "6.0", second, ""},
		{"", batch + pmix + "slurm.pmix.6.0", second, ""},
		{"--world-size 2 --rank 1 --master-addr n1", batch + pmi2 + "6.0", second, ""},
	} {
		var f nodeFlags
		if _, err := cli.Take(&f, strings.Fields(test.args)); err != nil {
			t.Fatal(err)
		}
		got, err := f.nodes(variables(test.env))
		if test.complaint != "" {
			must.Fail(t, err, fault.Usage, test.complaint)
			continue
		}
		if got == nil {
			got = &nodes{}
		}
		if err != nil || *got != test.want {
			t.Errorf("%s with %s: %+v, %v; want %+v", test.args, test.env, *got, err, test.want)
		}
	}
}

// A command that is all of a step may start the ranks itself; one that is a rank may not.
func TestIsOnlyTask(t *testing.T) {
	const alone = "SLURM_PROCID=0 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=1 "
	for text, want := range map[string]bool{
		alone: true, alone + "PMIX_RANK=0 PMIX_SERVER_URI4=pmix-server.1;tcp4://127.0.0.1:1 PMIX_NAMESPACE=slurm.pmix.7.0": true,
		strings.Replace(alone, "TASKS=1", "TASKS=2", 1): false, alone + "LOCAL_RANK=0": false, alone + "PERIGEE_LAUNCHER=slurm": false,
		"SLURM_JOB_ID=7": false, "": false, "PMI_FD=1000000 PMI_RANK=0 PMI_SIZE=1": false,
	} {
		if got := isOnlyTask(variables(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// variables looks up what a text sets.
func variables(text string) func(string) string {
	return func(name string) string {
		for word := range strings.FieldsSeq(text) {
			if value, found := strings.CutPrefix(word, name+"="); found {
				return value
			}
		}
		return ""
	}
}

// Ranks that do not end are killed, but rank 0 of the job later: it may be writing the result.
func TestSupervise(t *testing.T) {
	defer func(before time.Duration) { launchGrace = before }(launchGrace)
	launchGrace = 100 * time.Millisecond
	for node, want := range []string{"rank 0 lives", "signal: killed"} {
		ctx, cancel := context.WithCancel(t.Context())
		release := filepath.Join(t.TempDir(), "release")
		var ranks []*exec.Cmd
		errs := make([]error, 2)
		var all sync.WaitGroup
		for i := range errs {
			cmd := exec.Command("sh", "-c", `trap "" TERM; echo ready; while ! [ -e "$0" ]; do sleep 0.05; done; exit 7`, release)
			out, err := cmd.StdoutPipe()
			must.Do(t, err)
			must.Do(t, cmd.Start())
			if _, err := out.Read(make([]byte, 6)); err != nil {
				t.Fatal(err)
			}
			ranks = append(ranks, cmd)
			all.Go(func() {
				errs[i] = cmd.Wait()
				if i == 1 { // rank 0 has been writing long enough
					os.WriteFile(release, nil, 0o600)
				}
			})
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		cancel()
		(&nodes{node: node}).supervise(ctx, ranks, nil, done, nil)
		<-done
		if node == 0 && errs[0].Error() == "exit status 7" {
			errs[0] = errors.New("rank 0 lives")
		}
		if errs[0].Error() != want || errs[1].Error() != "signal: killed" {
			t.Errorf("node %d: %v, want %s first, and the second killed", node, errs, want)
		}
	}
}
