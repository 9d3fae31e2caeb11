package launchers

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/kit/procfs"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
	"perigee/spmd/spmdtest"
)

// kill -9 of a launcher: the ranks end within five seconds, and where they are not
// killed themselves the partial result names the launcher.

// end is the death of a launcher.
type end struct {
	way
	name string
	// victims returns the processes to kill.
	victims func(t *testing.T, p *harness.Process) []int
	// wrapper stands between the launcher and perigee.
	wrapper []string
	// culprit is what the result names; "" where the launcher's other processes kill the
	// ranks before they can write.
	culprit string
}

// itself is the launcher as it was started.
func itself(_ *testing.T, p *harness.Process) []int { return []int{p.Cmd.Process.Pid} }

// named are all processes of a job with this name; at most one of them if one is true.
func named(name string, one bool) func(*testing.T, *harness.Process) []int {
	return func(t *testing.T, p *harness.Process) (pids []int) {
		for pid := range harness.Owned(p.Token) {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			if strings.TrimSpace(string(comm)) == name {
				pids = append(pids, pid)
			}
		}
		if len(pids) == 0 {
			t.Fatalf("no process %s", name)
		}
		slices.Sort(pids)
		if one {
			pids = pids[:1]
		}
		return pids
	}
}

// parentOfRank is the process that has started the rank, or its wrapper.
func parentOfRank(rank, generations int) func(*testing.T, *harness.Process) []int {
	return func(t *testing.T, p *harness.Process) []int {
		pid := p.Rank(rank)
		for range generations {
			pid = parent(t, pid)
		}
		return []int{pid}
	}
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	s, err := procfs.ReadStat(procfs.Dir(pid))
	must.Do(t, err)
	return s.Parent
}

// agent starts ranks as torchrun does on one node.
func agent(t testing.TB, n int) ([]string, []string) {
	port := spmdtest.FreePort(t)
	// Its MASTER_PORT is the next one; nothing listens at the endpoint itself.
	words := []string{harness.Script(t, "torchrun"), "--nnodes", "1", "--nproc_per_node", fmt.Sprint(n), "--rdzv_backend", "c10d",
		"--rdzv_endpoint", fmt.Sprint("localhost:", port-1), "--no_python"}
	return words, []string{"NODE=0", "PERIGEE_SECRET=of the test of orphans"}
}

// storingAgent starts ranks as [agent] does, listens at their MASTER_PORT, and has not torchrun's name.
func storingAgent(t testing.TB, n int) ([]string, []string) {
	port := spmdtest.FreePort(t)
	return []string{harness.Script(t, "storing"), fmt.Sprint(n), fmt.Sprint(port)}, []string{"PERIGEE_SECRET=of the test of orphans"}
}

// withoutVariables is as in containers that share the host's processes, whose starter does not have the rank's
// variables.
var withoutVariables = []string{"sh", "-c", `export -p >env.$$; exec env -i sh -c '. "$0"; "$@"; code=$?; echo ended; exit $code' ./env.$$ "$@"`, "sh"}

func ends() []end {
	torchrun := way{"torchrun", "torchrun", agent, here, ""}
	shell := []string{"sh", "-c", `"$@"; echo "the shell goes on"`, "sh"}
	contained := []string{"unshare", "-pf", "--mount-proc"}
	// As in containers whose init does not have the rank's variables.
	withInit := []string{"sh", "-c", `export -p >env.$$; exec unshare -pf --mount-proc env -i sh -c '. "$0"; "$@"; echo ended' ./env.$$ "$@"`, "sh"}
	// As in containers with fewer rights, or user namespaces, where the files of other processes are closed to the rank.
	closed := []string{"setpriv", "--bounding-set=-sys_ptrace"}
	const srunDied = `its launcher srun has died`
	return []end{
		{wayNamed("mpirun"), "mpirun, behind what drops the variables", itself, withoutVariables, `its launcher mpirun\S* \(process \d+\) has died`},
		{wayNamed("hydra"), "hydra's proxy, behind what drops the variables", named("hydra_pmi_proxy", false), withoutVariables, `its launcher hydra_pmi_proxy \(process \d+\) has died`},
		{wayNamed("srun pmi2"), "slurmstepd of one node, behind what drops the variables", parentOfRank(2, 2), withoutVariables, `its launcher slurmstepd \(process \d+\) has died`},
		{torchrun, "torchrun's agent, behind what drops the variables", itself, withoutVariables, `its launcher (sh|torchrun) \(process \d+\) has died`},
		{wayNamed("srun none"), "all of srun, in a container with an init", named("srun", false), withInit, srunDied},
		{wayNamed("srun none"), "all of srun, in a container, plain", named("srun", false), contained, srunDied},
		{wayNamed("srun pmi2"), "all of srun, in a container, PMI-2", named("srun", false), contained, srunDied},
		{wayNamed("srun pmix"), "all of srun, in a container, PMIx", named("srun", false), contained, srunDied},
		{wayNamed("srun pmi2"), "all of srun, closed, PMI-2", named("srun", false), closed, srunDied},
		{wayNamed("srun none"), "all of srun, closed, plain", named("srun", false), closed, srunDied},
		{local, "perigee run", itself, nil, `lost the connection to the launcher \(perigee run\): it has died`},
		{wayNamed("mpirun"), "mpirun", itself, nil, `its launcher mpirun\S* \(process \d+\) has died`},
		{wayNamed("mpirun"), "mpirun, behind a shell", itself, shell, `its launcher mpirun\S* \(process \d+\) has died`},
		{wayNamed("hydra"), "mpiexec", itself, nil, ""},
		{wayNamed("hydra"), "mpiexec, behind a session", itself, []string{"setsid", "-w"}, ""},
		{wayNamed("hydra"), "hydra's proxy", named("hydra_pmi_proxy", false), nil, `its launcher hydra_pmi_proxy \(process \d+\) has died`},
		{wayNamed("hydra port"), "hydra's proxy, by its port", named("hydra_pmi_proxy", false), nil, `its launcher hydra_pmi_proxy \(process \d+\) has died`},
		{wayNamed("srun none"), "srun", itself, nil, ""},
		{wayNamed("srun none"), "all of srun, plain", named("srun", false), nil, srunDied},
		{wayNamed("srun pmi2"), "all of srun, PMI-2", named("srun", false), nil, srunDied},
		{wayNamed("srun pmix"), "all of srun, PMIx", named("srun", false), nil, srunDied},
		{wayNamed("srun pmi2"), "slurmstepd of one node", parentOfRank(2, 1), nil, `its launcher slurmstepd \(process \d+\) has died`},
		{torchrun, "torchrun's agent", itself, nil, `its launcher (sh|torchrun) \(process \d+\) has died`},
		{torchrun, "torchrun's agent, behind a shell", itself, shell, `its launcher (sh|torchrun) \(process \d+\) has died`},
	}
}

// alive reports whether a process has not ended. Its first thread may have, while another keeps its sockets open.
func alive(pid int) bool {
	threads, _ := filepath.Glob(filepath.Join(procfs.Dir(pid), "task", "*"))
	return slices.ContainsFunc(threads, func(dir string) bool {
		s, err := procfs.ReadStat(dir)
		return err == nil && !s.Ended()
	})
}

func TestDeathOfTheLauncher(t *testing.T) {
	for _, e := range ends() {
		for _, stay := range []string{"barrier", "transfer"} {
			t.Run(e.name+"/"+stay, func(t *testing.T) {
				t.Parallel()
				killLauncher(t, e, stay)
			})
		}
	}
}

// kill kills a process, which may have ended with one that was killed before it.
func kill(t *testing.T, pid int) {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
}

func killLauncher(t *testing.T, e end, stay string) {
	dir := t.TempDir()
	words, env := e.command(t, ranks)
	engine := "shm"
	if strings.Contains(strings.Join(e.wrapper, " "), "unshare") { // then each rank is a host
		engine, env = "nixl", append(env, "UCX_NET_DEVICES=lo", "PERIGEE_IFACE=lo", "NIXL_LIBRARY="+harness.NeedNIXL(t))
	}
	args := []string{harness.Program, "run", harness.Script(t, "stay.lua"), "--engine", engine, "--stay", stay, "--result", "r.json"}
	if e.way.name == "local" {
		args = append(args, "-n", fmt.Sprint(ranks))
	}
	p := start(t, harness.Command{Dir: dir, Argv: slices.Concat(words, e.wrapper, args), Env: env, Group: true})
	p.UntilPrints("all are here")
	pids := slices.Collect(maps.Values(p.Ranks()))
	if len(pids) != ranks {
		t.Fatalf("%d ranks", len(pids))
	}
	victims := e.victims(t, p)
	watch, since := harness.StartWatch(), time.Now()
	for _, pid := range victims {
		kill(t, pid)
	}
	for slices.ContainsFunc(pids, alive) {
		if time.Since(since) > harness.Patience {
			t.Fatal("ranks go on without their launcher")
		}
		time.Sleep(2 * time.Millisecond)
	}
	watch.Check(t, "the end of the ranks", time.Now(), atOnce, 0)
	for pid := range harness.Owned(p.Token) { // srun waits for a slurmstepd that is dead
		kill(t, pid)
	}
	sessions, _ := filepath.Glob(filepath.Join(p.Temp, "ompi.*")) // what mpirun would have removed
	for _, s := range sessions {
		os.RemoveAll(s)
	}
	doc := resulttest.Check(t, filepath.Join(dir, "r.json"))
	if doc.Status != result.Partial || len(doc.Measurements) != 1 { // of one rank there is no traffic
		t.Errorf("status %s with %d measurements, want a partial result with one", doc.Status, len(doc.Measurements))
	}
	culprit := e.culprit
	bySlurm := strings.HasPrefix(e.name, "all of srun") // which may kill the ranks before they notice, or one before the others
	if bySlurm {
		culprit = "(" + culprit + "|its process is gone)"
	}
	switch f := doc.Failure; {
	case f == nil && bySlurm:
	case f == nil && e.culprit != "":
		t.Error("the partial result does not say why it is one")
	case f != nil && culprit != "" && (f.Kind != fault.RankLost || !regexp.MustCompile("^"+culprit+"$").MatchString(f.Cause)):
		t.Errorf("failure %+v, want kind %d and %s", *f, fault.RankLost, culprit)
	}
}

// Under a wrapper that takes its time srun may be dead before perigee looks for it.
func TestDeathOfSrunBeforehand(t *testing.T) {
	for _, c := range []struct {
		name, mpi string
		wrapper   []string
	}{
		{"none", "none", nil}, {"pmi2", "pmi2", nil}, {"pmix", "pmix", nil},
		{"none, behind what drops the variables", "none", withoutVariables}, {"pmi2, behind what drops the variables", "pmi2", withoutVariables},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			words, env := wayNamed("srun "+c.mpi).command(t, ranks)
			const slow = `echo $$ >pid.$SLURM_PROCID.new; mv pid.$SLURM_PROCID.new pid.$SLURM_PROCID
until [ -e go ]; do sleep 0.02; done
exec "$@" >out.$SLURM_PROCID 2>&1`
			p := start(t, harness.Command{Dir: dir, Env: env, Argv: slices.Concat(words, []string{"sh", "-c", slow, "sh"}, c.wrapper,
				[]string{harness.Program, "run", harness.Script(t, "stay.lua"), "--engine", "shm"})})
			files := func() []string {
				found, _ := filepath.Glob(filepath.Join(dir, "pid.?"))
				return found
			}
			p.Until("all tasks", func() bool { return len(files()) == ranks })
			var tasks []int
			for _, f := range files() {
				data, _ := os.ReadFile(f)
				pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
				must.Do(t, err)
				tasks = append(tasks, pid)
			}
			sruns := named("srun", false)(t, p)
			for _, pid := range sruns { // one that outlives the other ends the step
				harness.Signal(t, pid, syscall.SIGSTOP)
			}
			must.Do(t, harness.WaitFor("stop of srun", func() bool { return !slices.ContainsFunc(sruns, runs) }))
			for _, pid := range sruns {
				kill(t, pid)
			}
			must.Do(t, harness.WaitFor("end of srun", func() bool { return !slices.ContainsFunc(sruns, alive) }))
			watch := harness.StartWatch()
			must.Do(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
			must.Do(t, harness.WaitFor("end of the ranks", func() bool { return !slices.ContainsFunc(tasks, alive) }))
			watch.Check(t, "the end of the ranks", time.Now(), atOnce, 0)
			out, _ := os.ReadFile(filepath.Join(dir, "out.0"))
			harness.Contains(t, "output of rank 0", string(out), "its launcher srun has died")
		})
	}
}

// runs reports whether a process has not ended and is not stopped.
func runs(pid int) bool {
	s, err := procfs.ReadStat(procfs.Dir(pid))
	return err == nil && !s.Ended() && s.State != 'T'
}

// Unprivileged containers make a user namespace for each rank, and the kernel keeps these from each other's memory.
func TestOwnUsers(t *testing.T) {
	words, env := wayNamed("hydra").command(t, 2)
	p := start(t, harness.Command{Env: env, Argv: slices.Concat(words, []string{"unshare", "--user", "--map-current-user",
		harness.Program, "run", "pingpong", "--engine", "nixl", "--size", "4K", "--iters", "3"})})
	if o := p.Wait(); o.Code != 0 || !strings.Contains(o.Stdout, "2 ranks on 2 hosts") {
		t.Errorf("exit code %d\n%s%s", o.Code, o.Stdout, o.Stderr)
	}
}

// In its own network namespace a rank cannot see who listens outside. PMIx does not work there.
func TestOwnNetwork(t *testing.T) {
	harness.Need(t, "iproute2", "ip")
	for _, mpi := range []string{"none", "pmi2"} {
		t.Run(mpi, func(t *testing.T) {
			t.Parallel()
			words, env := srun("--mpi="+mpi)(t, 1)
			p := start(t, harness.Command{Env: env, Argv: slices.Concat(words, []string{
				"unshare", "--net", "sh", "-c", `ip link set lo up && exec "$@"`, "sh", harness.Program, "run", harness.Script(t, "whoami.lua")})})
			if o := p.Wait(); o.Code != 0 || !strings.Contains(o.Stdout, "rank 0 of 1") {
				t.Errorf("exit code %d\n%s%s", o.Code, o.Stdout, o.Stderr)
			}
		})
	}
}

// wayNamed returns one of ways.
func wayNamed(name string) way {
	return ways[slices.IndexFunc(ways, func(w way) bool { return w.name == name })]
}

// A wrapper that is ended with its launcher by a SIGTERM may keep that from the rank, as timeout(1) does, which gives it its
// own group, and a container's starter, which gives it its own session, whether or not it drops the rank's variables.
func TestWrapperKeepsSignals(t *testing.T) {
	group := []string{"sh", "-c", `timeout 600 "$@"; exit $?`, "sh"}
	session := []string{"sh", "-c", `export -p >env.$$; exec env -i sh -c '. "$0"; setsid -w "$@"; exit $?' ./env.$$ "$@"`, "sh"}
	plain := []string{"setsid", "-w"}
	for _, c := range []struct {
		way
		name    string
		wrapper []string
	}{
		{wayNamed("mpirun"), "mpirun", group}, {wayNamed("hydra"), "hydra", group},
		{wayNamed("mpirun"), "mpirun, session", session}, {wayNamed("hydra"), "hydra, session", session},
		{wayNamed("mpirun"), "mpirun, plain session", plain}, {wayNamed("hydra"), "hydra, plain session", plain},
		{way{"torchrun", "torchrun", agent, here, ""}, "torchrun, plain session", plain},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			words, env := c.command(t, 2)
			p := start(t, harness.Command{Env: env, Argv: slices.Concat(words, c.wrapper, []string{harness.Program, "run", harness.Script(t, "stay.lua"), "--engine", "shm",
				"--result", "r.json"})})
			p.UntilPrints("all are here")
			watch := harness.StartWatch()
			harness.Signal(t, p.Cmd.Process.Pid, syscall.SIGTERM)
			must.Do(t, harness.WaitFor("end of the ranks", func() bool { return len(harness.Owned(p.Token)) == 0 }))
			watch.Check(t, "the end of the ranks", time.Now(), atOnce, 0)
			doc := resulttest.Check(t, filepath.Join(p.Dir, "r.json"))
			if f := doc.Failure; doc.Status != result.Partial || f == nil || !regexp.MustCompile(`^(sh|timeout|setsid) \(process \d+\) has died, which is between this rank and its launcher |^its launcher \S+ \(process \d+\) has died`).MatchString(f.Cause) {
				t.Errorf("status %s, failure %+v", doc.Status, f)
			}
		})
	}
}

// What has been detached on purpose goes on: the launcher may end before it. PERIGEE_NO_WATCH says so of what is below
// the launcher.
func TestDetached(t *testing.T) {
	// The shell is what the launcher starts; its own end is that of the rank to the launcher.
	const background = `"$@" >out.$PPID.$$ 2>&1 </dev/null &
until grep -q "all are here" out.*; do sleep 0.05; done`
	const setsid = `setsid -f "$@" >out.$PPID.$$ 2>&1 </dev/null
until grep -q "all are here" out.*; do sleep 0.05; done`
	const script = `for i in 0 1; do RANK=$i "$@" >out.$i 2>&1 </dev/null & done
until grep -q "all are here" out.*; do sleep 0.05; done`
	const nohup = `nohup "$@" >out.0 2>err </dev/null & echo started; wait`
	// whole puts a shell above the launcher, split below it.
	whole := func(words, perigee []string, text string) []string {
		return slices.Concat([]string{"sh", "-c", text, "sh"}, words, perigee)
	}
	split := func(words, perigee []string, text string) []string {
		return slices.Concat(words, []string{"sh", "-c", text, "sh"}, perigee)
	}
	alone := way{"a script", "torchrun", func(t testing.TB, _ int) ([]string, []string) {
		port := spmdtest.FreePort(t)
		return nil, []string{"WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", port), "PERIGEE_SECRET=of the test of orphans"}
	}, here, ""}
	torchrun := way{"torchrun", "torchrun", agent, here, ""}
	for _, c := range []struct {
		name string
		way
		argv func(words, perigee []string, text string) []string
		text string
		kill bool // the shell
	}{
		{"background, mpirun", wayNamed("mpirun"), split, background, false},
		{"setsid, mpirun", wayNamed("mpirun"), split, setsid, false},
		{"background, torchrun", torchrun, split, background, false},
		{"setsid, torchrun", torchrun, split, setsid, false},
		{"script", alone, split, script, false},
		{"nohup mpirun", wayNamed("mpirun"), whole, nohup, true},
		{"nohup mpiexec", wayNamed("hydra"), whole, nohup, true},
		{"nohup torchrun", torchrun, whole, nohup, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			words, env := c.command(t, 2)
			if c.text == background || c.text == setsid {
				env = append(env, "PERIGEE_NO_WATCH=1")
			}
			perigee := []string{harness.Program, "run", harness.Script(t, "stay.lua"), "--engine", "shm", "--rounds", "300", "--result", "r.json"}
			p := start(t, harness.Command{Dir: dir, Argv: c.argv(words, perigee, c.text), Env: env, Group: true})
			if c.kill {
				p.Until("first rounds", func() bool {
					out, _ := os.ReadFile(filepath.Join(dir, "out.0"))
					return strings.Contains(string(out), "all are here")
				})
				harness.Signal(t, p.Cmd.Process.Pid, syscall.SIGKILL)
			}
			p.Wait()
			must.Do(t, harness.WaitFor("end of the ranks", func() bool { return len(harness.Owned(p.Token)) == 0 }))
			outputs, _ := filepath.Glob(filepath.Join(dir, "out.*"))
			for _, o := range outputs {
				data, _ := os.ReadFile(o)
				if strings.Contains(string(data), "perigee: ") {
					t.Errorf("%s:\n%s", filepath.Base(o), data)
				}
			}
			if doc := resulttest.Check(t, filepath.Join(dir, "r.json")); doc.Status != result.Complete {
				t.Errorf("status %s, failure %v; the ranks should have gone on to the end", doc.Status, doc.Failure)
			}
		})
	}
}
