package launchers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/tools/doctor"
)

// block is a block of the documentation.
type block struct {
	how  string // as the comment before it says: run or says, and a name
	text string
}

func (b block) lines() []string { return strings.Split(strings.TrimSuffix(b.text, "\n"), "\n") }

func documented(t *testing.T) []block {
	t.Helper()
	var data []byte
	for _, name := range []string{"launchers.md", "logs.md"} {
		text := must.Read(t, filepath.Join("../../docs", name))
		data = append(data, text...)
	}
	var list []block
	for _, m := range regexp.MustCompile("(?m)(?:^<!-- (\\w+: \\w+) -->\n)?^```\\w*\n((?s:.*?))^```$").FindAllStringSubmatch(string(data), -1) {
		list = append(list, block{m[1], m[2]})
	}
	return list
}

// Every command of the documentation runs as it is written, and what perigee is said
// to say it says.
func TestDocs(t *testing.T) {
	tests := map[string]func(t *testing.T, b block){
		"run: here": runHere, "run: slurm": runSlurm, "run: sbatch": runBatch, "run: mpi": runMPI, "run: doctor": runDoctor, "run: torchrun": runTorchrun,
		"run: alone": runAlone, "run: pods": runPods, "run: secret": runSecret, "says: killed": saysKilled, "says: waiting": saysWaiting,
		"run: logs": runLogs, "says: log": saysLog,
	}
	for _, b := range documented(t) {
		test := tests[b.how]
		if test == nil {
			t.Errorf("no test for the block %q:\n%s", b.how, b.text)
			continue
		}
		delete(tests, b.how)
		t.Run(b.how, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
	for how := range tests {
		t.Errorf("the documentation has no block %q", how)
	}
}

// documentedRanks is how many ranks most of the examples start.
const documentedRanks = 8

// desk is a folder with the files that the examples name.
func desk(t *testing.T) string {
	t.Helper()
	config := workload(t, documentedRanks)
	must.Do(t, os.Rename(config, filepath.Join(filepath.Dir(config), "metadata.yaml")))
	return filepath.Dir(config)
}

// path is a PATH on which perigee is, and the programs in testdata.
func path(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("PATH=%s:%s:%s", filepath.Dir(harness.Program), filepath.Dir(harness.Script(t, "torchrun")), os.Getenv("PATH"))
}

// shell runs lines of the documentation.
func shell(t *testing.T, dir, lines string, env ...string) *harness.Process {
	t.Helper()
	return start(t, harness.Command{Dir: dir, Argv: []string{"sh", "-ec", lines}, Env: append([]string{path(t)}, env...)})
}

// shellElsewhere is shell on a machine that has only a loopback interface, where the
// documentation's names lead, and all of whose ports are free.
func shellElsewhere(t *testing.T, dir, lines string, env ...string) *harness.Process {
	t.Helper()
	harness.Need(t, "util-linux", "unshare")
	harness.Need(t, "iproute2", "ip")
	hosts := filepath.Join(t.TempDir(), "hosts")
	write(t, hosts, "127.0.0.1 localhost "+harness.Hostname(t)+" node1 node2 perigee-0.perigee\n")
	const enter = `mount --bind "$1" /etc/hosts && ip link set lo up && exec sh -ec "$2"`
	return start(t, harness.Command{
		Dir: dir, Argv: []string{"unshare", "--mount", "--net", "sh", "-c", enter, "sh", hosts, lines}, Env: append([]string{path(t)}, env...),
	})
}

// inSlurm are the variables with which Slurm's commands run in the tests' allocation,
// which has fewer processors than the examples have ranks.
func inSlurm(t *testing.T) []string {
	s := slurmCluster(t)
	return []string{"SLURM_CONF=" + s.Conf, "PERIGEE_MUNGE_SOCKET=" + s.Munge, "SLURM_JOB_ID=" + s.job, "SLURM_OVERLAP=1", "SLURM_OVERCOMMIT=1"}
}

func runHere(t *testing.T, b block) {
	out := shell(t, t.TempDir(), b.text).MustEnd().Stdout
	harness.Contains(t, "stdout", out, "8 ranks on 1 host", "launcher local\n")
}

func runSlurm(t *testing.T, b block) {
	launchers := []string{"pmix", "pmi2", "slurm"}
	if len(b.lines()) != len(launchers) {
		t.Fatalf("want %d lines:\n%s", len(launchers), b.text)
	}
	for i, line := range b.lines() {
		out := shell(t, desk(t), line, inSlurm(t)...).MustEnd().Stdout
		onTwoNodes(t, out, launchers[i])
	}
}

// onTwoNodes looks at the header of a job. Which nodes it gets is Slurm's business.
func onTwoNodes(t *testing.T, out, launcher string) {
	t.Helper()
	if !regexp.MustCompile(`(?m), 8 ranks on 1 host: node\d\+node\d \(8\), launcher ` + launcher + "$").MatchString(out) {
		t.Errorf("want 8 ranks on two nodes, launcher %s:\n%s", launcher, out)
	}
}

// The script itself is no rank; its step has as many as its second line says.
func runBatch(t *testing.T, b block) {
	s := slurmCluster(t)
	dir := desk(t)
	write(t, filepath.Join(dir, "job.sh"), b.text)
	shell(t, dir, "sbatch job.sh", "SLURM_CONF="+s.Conf).MustEnd()
	var doc *result.Document
	if err := harness.WaitFor("result of the batch job", func() bool {
		var err error
		doc, err = result.Read(filepath.Join(dir, "r.json.zst"))
		return err == nil && doc.Status == result.Complete
	}); err != nil {
		out, _ := filepath.Glob(filepath.Join(dir, "slurm-*.out"))
		for _, name := range out {
			text, _ := os.ReadFile(name)
			t.Logf("%s:\n%s", name, text)
		}
		t.Fatal(err)
	}
	if doc.World.Size != documentedRanks || doc.World.Launcher != "pmi2" {
		t.Errorf("%d ranks, launcher %s", doc.World.Size, doc.World.Launcher)
	}
	if err := harness.WaitFor("end of the batch job", func() bool {
		jobs, err := s.Tool("squeue", "-h", "-o", "%j")
		return err == nil && !strings.Contains(jobs, "job.sh")
	}); err != nil {
		t.Error(err)
	}
}

// Both launchers start the processes of node1 and node2 here: Open MPI by a
// stand-in for ssh, hydra by its own means.
func runMPI(t *testing.T, b block) {
	harness.Need(t, "openmpi-bin", "mpirun.openmpi")
	harness.Need(t, "mpich", "mpiexec.hydra")
	ssh := filepath.Join(t.TempDir(), "ssh")
	must.Do(t, os.WriteFile(ssh, []byte("#!/bin/sh\nshift\nexec sh -c \"$*\"\n"), 0o700))
	// Which of several MPIs is called mpirun is the machine's business.
	bin := t.TempDir()
	openMPI, err := exec.LookPath("mpirun.openmpi")
	if err == nil {
		err = os.Symlink(openMPI, filepath.Join(bin, "mpirun"))
	}
	must.Do(t, err)
	for i, launcher := range []string{"pmix", "pmi1"} {
		line := b.lines()[i]
		out := shellElsewhere(t, desk(t), "PATH="+bin+":$PATH\n"+line,
			"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_plm_rsh_agent="+ssh, "OMPI_MCA_oob_tcp_if_include=lo", "HYDRA_LAUNCHER=fork", "HYDRA_IFACE=lo",
		).MustEnd().Stdout
		harness.Contains(t, line, out, "8 ranks on 1 host: ", "(8), launcher "+launcher+"\n")
	}
}

// The line is run on both nodes.
func runTorchrun(t *testing.T, b block) {
	lines := b.lines() // the secret, the command
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	both := fmt.Sprintf("%s\nNODE=1 %s &\nNODE=0 %[2]s\nwait", lines[0], lines[1])
	out := shellElsewhere(t, t.TempDir(), both).MustEnd().Stdout
	harness.Contains(t, "stdout", out, "4 ranks on 1 host", "launcher torchrun\n")
}

func runDoctor(t *testing.T, b block) {
	lines := b.lines()
	out := shell(t, t.TempDir(), lines[0]).MustEnd().Stdout
	harness.Contains(t, lines[0], out, ", on "+harness.Hostname(t)+"\n", "none: perigee run starts the ranks", "PMIx", "Slurm's plugin opens libpmix.so")
	out = shell(t, t.TempDir(), lines[1], inSlurm(t)...).MustEnd().Stdout
	var findings []doctor.Finding
	if err := json.Unmarshal([]byte(out), &findings); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The nodes of the tests' Slurm are one host; which two are free depends on the other tests.
	nodes := regexp.MustCompile(`^node[1-4]\+node[1-4]$`)
	for _, f := range findings {
		if !nodes.MatchString(f.Host) || f.What == "launcher" && f.Found != "this process is a rank of pmi2" {
			t.Errorf("%+v", f)
		}
	}
}

func runAlone(t *testing.T, b block) {
	out := shellElsewhere(t, t.TempDir(), b.text+"wait").MustEnd().Stdout
	harness.Contains(t, "stdout", out, "2 ranks on 1 host", "launcher torchrun\n")
}

// job is what the test reads of a job of Kubernetes.
type job struct {
	Metadata struct{ Name string }
	Spec     struct {
		Completions, Parallelism int
		CompletionMode           string `yaml:"completionMode"`
		Template                 struct {
			Spec struct {
				Subdomain  string
				Containers []struct {
					Command []string
					Env     []struct {
						Name, Value string
						ValueFrom   struct {
							SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
						} `yaml:"valueFrom"`
					}
				}
			}
		}
	}
}

// Each pod is a process here, with the variables that Kubernetes would give it.
func runPods(t *testing.T, b block) {
	var j job
	must.Do(t, yaml.Unmarshal([]byte(b.text), &j))
	n, pod := j.Spec.Completions, j.Spec.Template.Spec
	if n < 2 || j.Spec.Parallelism != n || j.Spec.CompletionMode != "Indexed" || len(pod.Containers) != 1 {
		t.Fatalf("%+v", j)
	}
	c := pod.Containers[0]
	env := map[string]string{}
	for _, v := range c.Env {
		env[v.Name] = v.Value
		if v.ValueFrom.SecretKeyRef.Key != "" {
			env[v.Name] = "the secret of " + v.ValueFrom.SecretKeyRef.Name
		}
	}
	if env["WORLD_SIZE"] != fmt.Sprint(n) || env["PERIGEE_SECRET"] == "" || env["MASTER_ADDR"] != j.Metadata.Name+"-0."+pod.Subdomain {
		t.Errorf("environment of the pods: %q", env)
	}
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "JOB_COMPLETION_INDEX=%d %s -c '%s' &\n", i, c.Command[0], c.Command[2])
	}
	if len(c.Command) != 3 || c.Command[1] != "-c" || strings.Contains(c.Command[2], "'") {
		t.Fatalf("command: %q", c.Command)
	}
	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	out := shellElsewhere(t, t.TempDir(), lines.String()+"wait", list...).MustEnd().Stdout
	harness.Contains(t, "stdout", out, fmt.Sprintf("%d ranks on 1 host", n), "launcher torchrun\n")
	if strings.Contains(out, "# note: PERIGEE_SECRET") {
		t.Errorf("the pods have no secret:\n%s", out)
	}
}

// Ranks with their own secret need no munge.
func runSecret(t *testing.T, b block) {
	bin := t.TempDir()
	// There may be no openssl where tests run.
	must.Do(t, os.WriteFile(filepath.Join(bin, "openssl"), []byte("#!/bin/sh\n[ \"$*\" = 'rand -hex 32' ] && exec od -An -N8 -tx8 /dev/urandom\n"), 0o700))
	env := append(inSlurm(t), "PERIGEE_MUNGE_SOCKET="+filepath.Join(bin, "no.socket"))
	p := shell(t, t.TempDir(), "PATH=$PATH:"+bin+"\n"+b.text, env...)
	onTwoNodes(t, p.MustEnd().Stdout, "slurm")
	without := strings.Join(slices.DeleteFunc(b.lines(), func(l string) bool { return strings.HasPrefix(l, "export ") }), "\n")
	if code := shell(t, t.TempDir(), without, env...).Wait().Code; code != int(fault.Launch) {
		t.Errorf("without a secret and without munge: exit code %d, want %d", code, fault.Launch)
	}
}

// said turns a documented message into a pattern for one line that perigee says.
func said(t *testing.T, b block, change ...string) *regexp.Regexp {
	t.Helper()
	if len(b.lines()) != 1 {
		t.Fatalf("want one line:\n%s", b.text)
	}
	return regexp.MustCompile("(?m)^" + strings.NewReplacer(change...).Replace(regexp.QuoteMeta(b.lines()[0])) + "$")
}

func saysKilled(t *testing.T, b block) {
	p := launch(t, local, 4, nil, "run", "-n", "4", harness.Script(t, "stay.lua"), "--engine", "shm", "--stay", "transfer")
	p.UntilPrints("all are here")
	harness.Signal(t, p.Rank(3), syscall.SIGKILL)
	want := said(t, b, "node1", regexp.QuoteMeta(harness.Hostname(t)), "workload", "transfer")
	if o := p.Wait(); !want.MatchString(o.Stderr) || o.Code != int(fault.RankLost) {
		t.Errorf("exit code %d, and it says\n%swant %s", o.Code, o.Stderr, want)
	}
}

func saysWaiting(t *testing.T, b block) {
	dir := t.TempDir()
	const two = `for r in 0 1; do RANK=$r WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 perigee run whoami.lua & done
until [ -e go ]; do sleep 0.02; done
RANK=2 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 perigee run whoami.lua
wait`
	source := must.Read(t, harness.Script(t, "whoami.lua"))
	write(t, filepath.Join(dir, "whoami.lua"), string(source))
	p := shellElsewhere(t, dir, two)
	want := said(t, b)
	p.Until("line about the missing rank", func() bool { return want.MatchString(p.Stderr.String()) })
	write(t, filepath.Join(dir, "go"), "")
	harness.Contains(t, "stdout", p.MustEnd().Stdout, "rank 2 of 3")
}

func runLogs(t *testing.T, b block) {
	dir := t.TempDir()
	o := shell(t, dir, b.text, inSlurm(t)...).MustEnd()
	harness.Contains(t, "standard error", o.Stderr, "level=INFO msg=\"joined the world\" rank=3 ")
	if names := harness.Names(filepath.Join(dir, "logs")); fmt.Sprint(names) != "[launcher.log rank-0000.log rank-0001.log rank-0002.log rank-0003.log]" {
		t.Errorf("files: %v", names)
	}
	data := must.Read(t, filepath.Join(dir, "logs", "rank-0003.log"))
	// That of the second job is added to that of the first.
	if !regexp.MustCompile(`(?s)^# perigee [^\n]* launcher local, .*\n# perigee [^\n]* launcher pmi2, `).Match(data) {
		t.Errorf("log of rank 3:\n%s", data)
	}
}

// saysLog holds the documented lines against those of a job: their keys are the same,
// and in the same order.
func saysLog(t *testing.T, b block) {
	dir := t.TempDir()
	launch(t, local, 2, nil, "run", "-n", "2", harness.Script(t, "stay.lua"), "--rounds", "1", "--engine", "shm", "--log-dir", dir).MustEnd()
	data := must.Read(t, filepath.Join(dir, "rank-0001.log"))
	value := regexp.MustCompile(`=("[^"]*"|\S+)`)
	keys := func(line string) string {
		message, _, _ := strings.Cut(line, " rank=")
		_, message, _ = strings.Cut(message, " msg=")
		return message + value.ReplaceAllString(line, "")
	}
	var real []string
	for line := range strings.Lines(string(data)) {
		real = append(real, keys(strings.TrimSuffix(line, "\n")))
	}
	for i, line := range b.lines() {
		if i > 0 && !slices.Contains(real, keys(line)) {
			t.Errorf("no line is like %s:\n%s", line, data)
		}
	}
	if !regexp.MustCompile(`^# perigee \S+, log of rank 1 on \S+, launcher \S+, process \d+, level info\n`).MatchString(b.lines()[0] + "\n") {
		t.Errorf("the header is like %s", b.lines()[0])
	}
}
