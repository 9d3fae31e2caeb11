package harness

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"perigee/spmd/spmdtest"
)

// Slurm is a private cluster: munged, slurmctld and several slurmd on this
// machine, which Slurm takes for the nodes node1, node2 and so on. Its files are
// in the tests' folder and its sockets at 127.0.0.0/8.
type Slurm struct {
	Conf  string // slurm.conf
	Munge string // munged's socket
	Nodes int
	dir   string
	cpus  int
	ctld  *exec.Cmd
}

// StartSlurm starts a cluster of nodes with some CPUs each, which ends with the
// tests. A package starts one.
func StartSlurm(nodes, cpus int) (*Slurm, error) {
	dir := filepath.Join(Home, "slurm")
	s := &Slurm{dir: dir, Conf: filepath.Join(dir, "slurm.conf"), Munge: filepath.Join(dir, "munge.sock"), Nodes: nodes,
		cpus: cpus}
	if err := s.writeFiles(); err != nil {
		return nil, err
	}
	// munged insists on folders that only their owner may write to.
	if err := s.daemon("munged", "--foreground", "--force", "--key-file="+s.path("munge.key"), "--socket="+s.Munge,
		"--pid-file="+s.path("munged.pid"), "--log-file="+s.path("munged.log"),
		"--seed-file="+s.path("munged.seed")); err != nil {
		return nil, err
	}
	if err := WaitFor("munged", func() bool { _, err := os.Stat(s.Munge); return err == nil }); err != nil {
		return nil, err
	}
	if err := s.StartController("-c"); err != nil {
		return nil, err
	}
	for i := 1; i <= s.Nodes; i++ {
		if err := s.daemon("slurmd", "-D", "-f", s.Conf, "-N", fmt.Sprint("node", i)); err != nil {
			return nil, err
		}
	}
	if err := WaitFor("the nodes of Slurm", s.allIdle); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.Logs())
	}
	return s, nil
}

// StartController starts slurmctld. With -c it forgets all jobs, otherwise it
// goes on with those it had.
func (s *Slurm) StartController(args ...string) error {
	return s.daemon("slurmctld", append([]string{"-D", "-f", s.Conf}, args...)...)
}

// Saved reports whether the controller has written the state of its jobs to the
// disk since a time. A crash before that loses what has happened since.
func (s *Slurm) Saved(since time.Time) bool {
	info, err := os.Stat(s.path("job_state"))
	return err == nil && info.ModTime().After(since)
}

// KillController kills slurmctld, as a crash does.
func (s *Slurm) KillController() error { return s.ctld.Process.Kill() }

func (s *Slurm) path(name string) string { return filepath.Join(s.dir, name) }

// writeFiles writes the configuration and the key of the cluster: all daemons on this machine, each node at its own
// loopback address and port, no cgroups, no accounting.
func (s *Slurm) writeFiles() error {
	for i := 1; i <= s.Nodes; i++ {
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
	ports, err := spmdtest.FreePorts(1 + s.Nodes)
	if err != nil {
		return err
	}
	// By default a job that is not started as it comes, since another is just ending, waits
	// for the next pass over the queue: up to a minute.
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
SchedulerParameters=sched_interval=1,bf_interval=1
`, name, ports[0], s.Munge, credType(), s.dir)
	for i := 1; i <= s.Nodes; i++ {
		fmt.Fprintf(&conf, "NodeName=node%d NodeHostname=%s NodeAddr=127.0.1.%d Port=%d CPUs=%d RealMemory=1000\n", i,
			name, i, ports[i], s.cpus)
	}
	// Jobs of the partition high preempt those of the partitions low, which Slurm cancels, and again, which it runs
	// again, as a test asks for.
	conf.WriteString(`PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP PreemptMode=OFF
PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP GraceTime=20
PartitionName=again Nodes=ALL MaxTime=INFINITE State=UP GraceTime=8 PreemptMode=REQUEUE
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2
`)
	return os.WriteFile(s.Conf, conf.Bytes(), 0o600)
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
func (s *Slurm) daemon(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = Environ(Token, "SLURM_CONF="+s.Conf)
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
	if name == "slurmctld" {
		s.ctld = cmd
	}
	go func() {
		err := cmd.Wait()
		// that is how the guard ends it
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
			fmt.Fprintf(os.Stderr, "%v has ended: %v\n%s", cmd, err, s.Logs())
		}
	}()
	return nil
}

// Tool runs a command of Slurm and returns all its output.
func (s *Slurm) Tool(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = Environ(Token, "SLURM_CONF="+s.Conf)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *Slurm) allIdle() bool {
	out, err := s.Tool("sinfo", "-h", "-N", "-p", "all", "-o", "%t")
	return err == nil && strings.Count(out, "idle\n") == s.Nodes
}

// Logs returns the end of the daemons' logs.
func (s *Slurm) Logs() string {
	var b strings.Builder
	names, _ := filepath.Glob(s.path("*.log"))
	for _, n := range append(names, s.path("slurmctld.out"), s.path("slurmd.out"), s.path("munged.out")) {
		data, _ := os.ReadFile(n)
		fmt.Fprintf(&b, "--- %s\n%s", filepath.Base(n), data[max(0, len(data)-2000):])
	}
	return b.String()
}
