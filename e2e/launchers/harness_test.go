// Package launchers tests perigee under real launchers: a private Slurm, MPICH's
// mpiexec and Open MPI's mpirun. It needs their packages, which make test
// installs, and root, as which Slurm's daemons run here. No traffic leaves the
// machine.
package launchers

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	home    string // the tests' folder
	program string // the perigee under test
	token   string // carried by all processes of the tests; a test adds to it
)

func TestMain(m *testing.M) {
	if order := os.Getenv(envGuard); order != "" {
		os.Exit(guard(order))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if home, err = os.MkdirTemp("", "e2e-launchers-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	token = rand.Text()
	stop, err := startGuard(token, home)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Temporary files of perigee, its libraries and the launchers are found here.
	temporary := filepath.Join(home, "tmp")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv("TMPDIR", temporary)
	program = filepath.Join(home, "perigee")
	if out, err := exec.Command("go", "build", "-o", program, "perigee").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		stop()
		return 1
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "clean up:", err)
		return 1
	}
	return code
}

// steering are the prefixes of variables that would steer perigee or a launcher.
var steering = []string{"PERIGEE_", "SLURM", "SALLOC_", "SBATCH_", "PMI", "OMPI_", "MPI_", "HYDRA_", "RANK=", "WORLD_SIZE=", "MASTER_", "LOCAL_RANK=", "TORCHELASTIC_"}

func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return slices.ContainsFunc(steering, func(p string) bool { return strings.HasPrefix(kv, p) })
	})
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
		return append(words, flags...), []string{"SLURM_CONF=" + s.conf, "PERIGEE_MUNGE_SOCKET=" + s.sock}
	}
}

func hydra(flags ...string) func(t testing.TB, n int) ([]string, []string) {
	return func(t testing.TB, n int) ([]string, []string) {
		need(t, "mpich", "mpiexec.hydra")
		return append([]string{"mpiexec.hydra", "-launcher", "fork", "-iface", "lo", "-n", fmt.Sprint(n)}, flags...), []string{"PERIGEE_IFACE=lo"}
	}
}

func mpirun(t testing.TB, n int) ([]string, []string) {
	need(t, "openmpi-bin", "mpirun.openmpi")
	need(t, "libpmix2", "mpirun.openmpi")
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

// job is a launched perigee.
type job struct {
	t              testing.TB
	cmd            *exec.Cmd
	token          string
	dir            string
	stdout, stderr *output
	started        time.Time
	ended          chan struct{}
}

// launch starts perigee in ranks processes.
func launch(t *testing.T, w way, ranks int, env []string, args ...string) *job {
	t.Helper()
	words, wayEnv := w.command(t, ranks)
	return launchWords(t, slices.Concat(words, []string{program}, args), slices.Concat(wayEnv, env), nil)
}

// launchWords starts any command. stdin may be nil.
func launchWords(t *testing.T, words, env []string, stdin *os.File) *job {
	t.Helper()
	j := &job{t: t, token: token + rand.Text(), dir: t.TempDir(), stdout: &output{}, stderr: &output{}, ended: make(chan struct{})}
	leavesNothing(t, j.token)
	j.cmd = exec.Command(words[0], words[1:]...)
	j.cmd.Dir, j.cmd.Stdout, j.cmd.Stderr = j.dir, j.stdout, j.stderr
	if stdin != nil {
		j.cmd.Stdin = stdin
	}
	j.cmd.Env = slices.Concat(cleanEnv(), []string{marker + "=" + j.token, "UCX_NET_DEVICES=lo"}, env)
	j.cmd.WaitDelay = 2 * time.Second
	j.started = time.Now()
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		j.cmd.Wait()
		close(j.ended)
	}()
	t.Cleanup(func() { killAll(j.token) })
	return j
}

// wait returns the exit code.
func (j *job) wait() int {
	j.t.Helper()
	select {
	case <-j.ended:
	case <-time.After(40 * time.Second):
		killAll(j.token)
		j.t.Fatalf("still running: %v\nstdout:\n%s\nstderr:\n%s", j.cmd.Args, j.stdout, j.stderr)
	}
	return j.cmd.ProcessState.ExitCode()
}

// mustEnd waits for a good end and returns stdout.
func (j *job) mustEnd() string {
	j.t.Helper()
	if code := j.wait(); code != 0 {
		j.t.Fatalf("exit code %d of %v\nstdout:\n%s\nstderr:\n%s", code, j.cmd.Args, j.stdout, j.stderr)
	}
	return j.stdout.String()
}

// untilPrints waits for a text on stdout.
func (j *job) untilPrints(text string) {
	j.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(j.stdout.String(), text); {
		ended := false
		select {
		case <-j.ended:
			ended = true
		case <-time.After(2 * time.Millisecond):
		}
		if ended || time.Now().After(deadline) {
			killAll(j.token)
			j.t.Fatalf("%q did not come from %v (ended: %v)\nstdout:\n%s\nstderr:\n%s", text, j.cmd.Args, ended, j.stdout, j.stderr)
		}
	}
}

// output collects what a process writes, and can be read meanwhile.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func contains(t testing.TB, where, text string, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("%s lacks %q:\n%s", where, w, text)
		}
	}
}

// script is the path of a scenario in testdata.
func script(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return path
}
