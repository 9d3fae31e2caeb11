package launchers

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/spmd/spmdtest"
)

// A private Slurm: munged, slurmctld and four slurmd on this machine, which
// Slurm takes for the nodes node1 to node4 with six CPUs each: two for the
// allocation in which most tests run, four for batch jobs. Its files are in
// the tests' folder and its sockets at 127.0.0.0/8.

const (
	nodes   = 4
	perNode = 2
	inBatch = 4
)

// cluster is the Slurm of all tests of this package; it starts with the first
// that needs it.
var cluster = sync.OnceValues(startCluster)

type slurm struct {
	dir  string
	conf string
	sock string // munged's
	job  string // an allocation of all nodes, in which the steps of the tests run
}

// slurmCluster starts Slurm or fails the test.
func slurmCluster(t testing.TB) *slurm {
	t.Helper()
	harness.Need(t, "slurm-wlm", "srun", "slurmctld", "slurmd")
	harness.Need(t, "munge", "munged", "munge", "unmunge")
	s, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func startCluster() (*slurm, error) {
	dir := filepath.Join(harness.Home, "slurm")
	s := &slurm{dir: dir, conf: filepath.Join(dir, "slurm.conf"), sock: filepath.Join(dir, "munge.sock")}
	if err := s.writeFiles(); err != nil {
		return nil, err
	}
	// munged insists on folders that only their owner may write to.
	if err := s.daemon("munged", "--foreground", "--force", "--key-file="+s.path("munge.key"), "--socket="+s.sock,
		"--pid-file="+s.path("munged.pid"), "--log-file="+s.path("munged.log"), "--seed-file="+s.path("munged.seed")); err != nil {
		return nil, err
	}
	if err := harness.WaitFor("munged", func() bool { _, err := os.Stat(s.sock); return err == nil }); err != nil {
		return nil, err
	}
	if err := s.daemon("slurmctld", "-D", "-c", "-f", s.conf); err != nil {
		return nil, err
	}
	for i := 1; i <= nodes; i++ {
		if err := s.daemon("slurmd", "-D", "-f", s.conf, "-N", fmt.Sprint("node", i)); err != nil {
			return nil, err
		}
	}
	if err := harness.WaitFor("the nodes of Slurm", s.allIdle); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.logs())
	}
	return s, s.allocate()
}

func (s *slurm) path(name string) string { return filepath.Join(s.dir, name) }

func (s *slurm) writeFiles() error {
	for i := 1; i <= nodes; i++ {
		for _, d := range []string{"spool", "tmp"} {
			if err := os.MkdirAll(filepath.Join(s.dir, d, fmt.Sprint("node", i)), 0o700); err != nil {
				return err
			}
		}
	}
	key := make([]byte, 128)
	rand.Read(key)
	if err := os.WriteFile(s.path("munge.key"), key, 0o600); err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	name, _, _ = strings.Cut(name, ".")
	ports, err := spmdtest.FreePorts(1 + nodes)
	if err != nil {
		return err
	}
	var conf bytes.Buffer
	fmt.Fprintf(&conf, `ClusterName=test
SlurmctldHost=%s(127.0.0.1)
SlurmctldPort=%d
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%s
CredType=%s
StateSaveLocation=%[5]s
SlurmctldPidFile=%[5]s/slurmctld.pid
SlurmctldLogFile=%[5]s/slurmctld.log
SlurmdSpoolDir=%[5]s/spool/%%n
TmpFS=%[5]s/tmp/%%n
SlurmdPidFile=%[5]s/slurmd-%%n.pid
SlurmdLogFile=%[5]s/slurmd-%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
`, name, ports[0], s.sock, credType(), s.dir)
	for i := 1; i <= nodes; i++ {
		fmt.Fprintf(&conf, "NodeName=node%d NodeHostname=%s NodeAddr=127.0.1.%d Port=%d CPUs=%d RealMemory=1000\n", i, name, i, ports[i], perNode+inBatch)
	}
	conf.WriteString("PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n")
	return os.WriteFile(s.conf, conf.Bytes(), 0o600)
}

// credType is how slurmctld signs steps for slurmd: not at all if Slurm offers that. The
// cred/munge of Slurm 22.05 verifies all of them with one context of libmunge, which must
// not be shared: a slurmd that starts many steps at a time now and then corrupts its heap,
// and aborts.
func credType() string {
	if none, _ := filepath.Glob("/usr/lib/*/slurm-wlm/cred_none.so"); len(none) > 0 {
		return "cred/none"
	}
	return "cred/munge"
}

// daemon starts a program that ends with the tests, in whatever way they end:
// it carries their token, and the guard kills what carries it.
func (s *slurm) daemon(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = harness.Environ(harness.Token, "SLURM_CONF="+s.conf)
	out, err := os.OpenFile(s.path(name+".out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		err := cmd.Wait()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL { // that is how the guard ends it
			fmt.Fprintf(os.Stderr, "%v has ended: %v\n%s", cmd, err, s.logs())
		}
	}()
	return nil
}

// tool runs a command of Slurm.
func (s *slurm) tool(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = harness.Environ(harness.Token, "SLURM_CONF="+s.conf)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *slurm) allIdle() bool {
	out, err := s.tool("sinfo", "-h", "-N", "-o", "%t")
	return err == nil && strings.Count(out, "idle\n") == nodes
}

// allocate takes all nodes for one job: its steps never wait for each other's
// resources to be given back.
func (s *slurm) allocate() error {
	out, err := s.tool("salloc", "--no-shell", "-N", fmt.Sprint(nodes), "--ntasks-per-node", fmt.Sprint(perNode))
	if err != nil {
		return fmt.Errorf("salloc: %w: %s", err, out)
	}
	jobs, err := s.tool("squeue", "-h", "-o", "%i")
	s.job = strings.TrimSpace(jobs)
	if err == nil && s.job == "" {
		err = fmt.Errorf("no job after salloc: %s", out)
	}
	return err
}

func (s *slurm) logs() string {
	var b strings.Builder
	names, _ := filepath.Glob(s.path("*.log"))
	for _, n := range append(names, s.path("slurmctld.out"), s.path("slurmd.out"), s.path("munged.out")) {
		data, _ := os.ReadFile(n)
		fmt.Fprintf(&b, "--- %s\n%s", filepath.Base(n), data[max(0, len(data)-2000):])
	}
	return b.String()
}
