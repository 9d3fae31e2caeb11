// Package disagg tests perigee disagg on a private Slurm of four nodes, with a
// stand-in for the benchmark. It needs Slurm and munge, and root, as which their
// daemons run here.
package disagg

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
)

const (
	nodes = 4
	cpus  = 16 // of a node: jobs of many cases at a time
)

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "4")
	os.Exit(harness.Main(m))
}

// slurm is the cluster of all tests; it starts with the first.
var slurm = sync.OnceValues(func() (*harness.Slurm, error) { return harness.StartSlurm(nodes, cpus) })

func cluster(t testing.TB) *harness.Slurm {
	t.Helper()
	harness.Need(t, "slurm-wlm", "sbatch", "squeue", "slurmctld", "slurmd")
	harness.Need(t, "munge", "munged")
	s, err := slurm()
	must.Do(t, err)
	return s
}

// site is a tree of tests with an output folder.
type site struct {
	t      *testing.T
	s      *harness.Slurm
	root   string
	output string
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t, cluster(t), filepath.Join(dir, "test_configs"), filepath.Join(dir, "output")}
	t.Cleanup(func() { // a job that is just ending still writes into its folder
		for _, id := range s.ids() {
			s.s.Tool("scancel", id)
			until(t, "the end of job "+id, func() bool {
				return !slices.Contains([]string{"PENDING", "RUNNING", "COMPLETING"}, s.state(id))
			})
		}
	})
	return s
}

// written lists the files of a name that cases have in their folders.
func (s *site) written(name string) []string {
	files, _ := filepath.Glob(filepath.Join(s.output, "slurm_logs", "*", name))
	return files
}

// slurm adds an option to the section slurm of a case.
func (s *site) slurm(name, option string) {
	s.t.Helper()
	file := filepath.Join(s.root, "disagg", "perf", name+".yaml")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(text), "job_name: toy", "job_name: toy, "+option, 1)), 0o644)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// add adds a case whose client goes a way of bench.sh. more is further YAML of the
// section job.
func (s *site) add(name, way string, seconds float64, more string) {
	s.t.Helper()
	bench, err := filepath.Abs("testdata/bench.sh")
	if err != nil {
		s.t.Fatal(err)
	}
	text := fmt.Sprintf(`metadata: {model_name: toy, precision: fp8, supported_gpus: [LOCAL]}
slurm: {job_time: "00:10:00", job_name: toy}
benchmark: {concurrency_list: 2 4, multi_round: 3, input_length: 10, output_length: 10}
job:
  command: bash %s %s %g
%s`, bench, way, seconds, more)
	path := filepath.Join(s.root, "disagg", "perf", name+".yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// start starts perigee disagg with short intervals.
func (s *site) start(command string, args ...string) *harness.Process {
	s.t.Helper()
	return s.startBehind(nil, command, args...)
}

// startBehind is start, with words in front of the command.
func (s *site) startBehind(front []string, command string, args ...string) *harness.Process {
	s.t.Helper()
	argv := append(front, harness.Program, "disagg", command, "--output", s.output)
	if command == "run" {
		argv = append(argv, "--root", s.root, "--gpu", "LOCAL", "--poll", "200ms", "--watch", "100ms", "--settle", "100ms", "--format", "json")
	}
	return harness.Start(s.t, harness.Command{Argv: append(argv, args...), Env: []string{"SLURM_CONF=" + s.s.Conf}})
}

// one is a case in the JSON of run.
type one struct {
	ID, State, Job, Diagnosis string
	Repeat                    int
	Dir                       string
	Reasons, Warnings         []string
	Levels                    []struct {
		Concurrency int
		Complete    bool
		Metrics     map[string]float64
	}
	Probe struct {
		Error, Engine string
		Median        float64 `json:"median_bytes_per_s"`
		Pairs         []struct{ From, To string }
		Of            int `json:"of_pairs"`
	}
	Queue float64 `json:"queue_s"`
	Run   float64 `json:"run_s"`
}

// run runs to the end and returns the cases by name.
func (s *site) run(code int, args ...string) map[string]one {
	s.t.Helper()
	return s.cases(s.start("run", args...), code)
}

func (s *site) cases(p *harness.Process, code int) map[string]one {
	s.t.Helper()
	o := p.Wait()
	if o.Code != code {
		s.t.Fatalf("exit code %d, want %d\n%s%s", o.Code, code, o.Stdout, o.Stderr)
	}
	var list []one
	if err := json.Unmarshal([]byte(o.Stdout), &list); err != nil {
		s.t.Fatalf("%v\n%s%s", err, o.Stdout, o.Stderr)
	}
	all := map[string]one{}
	for _, c := range list {
		name := strings.TrimPrefix(c.ID, "disagg_perf_")
		if c.Repeat > 1 {
			name += fmt.Sprint("#", c.Repeat)
		}
		all[name] = c
	}
	return all
}

// lines returns the lines of a file in the output folder.
func (s *site) lines(name string) []string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.output, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// jobs asks Slurm for the names and states of all jobs it knows.
func (s *site) state(job string) string {
	s.t.Helper()
	out, err := s.s.Tool("squeue", "-h", "--states=all", "--jobs="+job, "-o", "%T")
	if err != nil {
		s.t.Fatal(err, out)
	}
	return strings.TrimSpace(out)
}

// span asks Slurm from when to when a job ran.
func (s *site) span(job string) (start, end string) {
	s.t.Helper()
	out, err := s.s.Tool("squeue", "-h", "--states=all", "--jobs="+job, "-o", "%S %e")
	start, end, ok := strings.Cut(strings.TrimSpace(out), " ")
	if err != nil || !ok {
		s.t.Fatal(err, out)
	}
	return start, end
}

func until(t *testing.T, what string, ready func() bool) {
	t.Helper()
	must.Do(t, harness.WaitFor(what, ready))
}

const second = time.Second
