package disagg

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	queue "perigee/internal/kit/slurm"
)

// All ways of the stand-in at once: what is good passes, and everything else fails
// with its reason.
func TestWays(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	reasons := map[string]string{
		"good": "", "scancel": cancelled, "failing": "1 of 6 requests failed", "empty": "no token was generated", "silent": "the log is empty",
		"midway": "level 4 has no end line", "crash": "CLIENT on node", "worker": "mpi4py.MPI.Comm.allgather",
	}
	for way := range reasons {
		s.add(way, way, 0.2, "")
	}
	s.add("invalid", "good", 0, "  nodes: many\n")
	reasons["invalid"] = "Validation failed: "
	began := time.Now()
	got := s.run(12, "--batch-size", "0")
	if took := time.Since(began); took > harness.Patience {
		t.Errorf("took %s: the early failure was not early", took)
	}
	for way, reason := range reasons {
		c := got[way]
		if green := reason == ""; (c.State == "passed") != green || !strings.Contains(strings.Join(c.Reasons, "\n")+c.Diagnosis, reason) {
			t.Errorf("%s: %s, %q\n%s\nwant %q", way, c.State, c.Reasons, c.Diagnosis, reason)
		}
		if _, err := os.Stat(c.Dir); way != "invalid" && (err != nil || strings.HasSuffix(c.Dir, "_ERROR") != (reason != "")) {
			t.Errorf("%s: the folder %s, %v", way, c.Dir, err)
		}
	}
	// The warm-up's figures are not those of a level.
	for _, l := range got["good"].Levels {
		if want := 90 + 3*float64(l.Concurrency) + .5; l.Metrics["SERVER_MEDIAN_TTFT"] != want || !l.Complete {
			t.Errorf("level %d: %v, want %v", l.Concurrency, l.Metrics, want)
		}
	}
	csv := s.lines("perf_script_test_results.csv")
	if len(csv) != 1+2*2 { // one case, two levels, two metrics
		t.Errorf("%d lines\n%s", len(csv), strings.Join(csv, "\n"))
	}
	const columns = "network_name,network_hash,sm_clk,mem_clk,gpu_idx,perf_case_name,test_name,original_test_name," +
		"perf_metric,total_time__sec,"
	if !strings.HasPrefix(csv[0], columns) {
		t.Error(csv[0])
	}
	// Rows come in the order in which the cases end.
	first := slices.IndexFunc(csv, func(l string) bool {
		return strings.HasPrefix(l, "test_benchmark[disagg_perf_good]_con:2,")
	})
	const end = ",valid,disagg_benchmark --model=toy --fp8 --concurrency=2,,,SERVER_MEDIAN_TTFT"
	if first < 0 || !strings.Contains(csv[first], ",96.5,") || !strings.HasSuffix(csv[first], end) {
		t.Errorf("no row of the good case's first level in\n%s", strings.Join(csv, "\n"))
	}
	junit := strings.Join(s.lines("junit.xml"), "\n")
	if !strings.Contains(junit, `tests="9" failures="8"`) || !strings.Contains(junit, `name="disagg_perf_crash"`) {
		t.Error(junit)
	}
	session := s.lines("session_properties.csv")
	if len(session) != 2 || !strings.HasPrefix(session[0], "username,start_timestamp,hostname,ip,nvidia_driver_version,") {
		t.Errorf("%q", session)
	}
	if jobs := s.lines("jobs.txt"); len(jobs) != 8 {
		t.Errorf("%d jobs: %v", len(jobs), jobs)
	}
}

// The jobs of a batch run at the same time, and the next batch after them.
func TestBatchesOverlap(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		s.add(name, "good", 3, "")
	}
	p := s.start("run", "--batch-size", "3")
	got := s.cases(p, 0)
	// Three at a time, and then one. Slurm's times sort as text.
	starts, ends := []string{}, []string{}
	for _, name := range []string{"a", "b", "c", "d"} {
		start, end := s.span(got[name].Job)
		starts, ends = append(starts, start), append(ends, end)
	}
	if slices.Max(starts[:3]) >= slices.Min(ends[:3]) {
		t.Errorf("the jobs of a batch did not run together: from %v to %v", starts, ends)
	}
	if starts[3] < slices.Max(ends[:3]) {
		t.Errorf("the second batch did not wait for the first: from %v to %v", starts, ends)
	}
	out := p.Wait()
	for _, text := range []string{"Batch size: 3 jobs per batch", "Total test configs: 4", "Total batches: 2", "Submitting Batch 0\nRange: [0:3] (3 jobs)",
		"Submitting Batch 1\nRange: [3:4] (1 jobs)", "  [  3/3] Job ", " <- disagg_perf_c", "3/3 submitted successfully"} {
		if !strings.Contains(out.Stderr, text) {
			t.Errorf("the log lacks %q\n%s", text, out.Stderr)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d cases", len(got))
	}
}

// A run that is killed outright goes on with its jobs: nothing is submitted twice.
func TestResume(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"a", "b", "c"} {
		s.add(name, "good", 4, "")
	}
	p := s.start("run", "--batch-size", "2")
	until(t, "two jobs", func() bool { return len(s.ids()) == 2 })
	harness.Signal(t, p.Cmd.Process.Pid, syscall.SIGKILL)
	p.Wait()
	before := s.ids()
	if o := s.start("run", "--batch-size", "2").Wait(); o.Code != 2 || !strings.Contains(o.Stderr, "--resume goes on with it") {
		t.Errorf("without --resume: exit code %d\n%s", o.Code, o.Stderr)
	}
	got := s.run(0, "--batch-size", "2", "--resume")
	jobs := s.ids()
	if len(jobs) != 3 || strings.Join(jobs[:2], " ") != strings.Join(before, " ") {
		t.Errorf("jobs %v, before %v", jobs, before)
	}
	if len(got) != 3 || got["a"].Job != before[0] || got["b"].Job != before[1] {
		t.Errorf("%+v", got)
	}
	// All is recorded now: a third run with --resume has nothing to resume.
	if csv := s.lines("perf_script_test_results.csv"); len(csv) != 1+3*4 {
		t.Errorf("%d lines", len(csv))
	}
}

// ids are the jobs that the output folder knows.
func (s *site) ids() []string {
	data, err := os.ReadFile(filepath.Join(s.output, "jobs.txt"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// Ctrl-C cancels the jobs of the run, and a stranger's job of the same name lives.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "hang", 0, "")
	s.add("b", "hang", 0, "")
	out, err := s.s.Tool("sbatch", "--job-name=toy", "--output=/dev/null", "--wrap", "sleep 300")
	if err != nil {
		t.Fatal(err, out)
	}
	stranger := out[strings.LastIndexByte(strings.TrimSpace(out), ' ')+1:]
	t.Cleanup(func() { s.s.Tool("scancel", strings.TrimSpace(stranger)) })
	p := s.start("run")
	until(t, "running jobs", func() bool {
		ids := s.ids()
		return len(ids) == 2 && s.state(ids[0]) == "RUNNING" && s.state(ids[1]) == "RUNNING"
	})
	harness.Signal(t, p.Cmd.Process.Pid, syscall.SIGTERM)
	o := p.Wait()
	if o.Code != 130 || !strings.Contains(o.Stderr, "interrupted; 2 jobs cancelled") {
		t.Errorf("exit code %d\n%s", o.Code, o.Stderr)
	}
	for _, id := range s.ids() {
		if state := s.state(id); state != "CANCELLED" && state != "COMPLETING" {
			t.Errorf("job %s is %s", id, state)
		}
	}
	// Other tests may still have its nodes.
	if state := s.state(strings.TrimSpace(stranger)); state != "RUNNING" && state != "PENDING" {
		t.Errorf("the stranger's job is %s", state)
	}
}

// clean leaves alone the jobs that a ledger names and that its run has not submitted: of this user, and of another.
func TestCleanLeavesForeignJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	submit := func(args ...string) string {
		t.Helper()
		out, err := s.s.Tool("sbatch", append(args, "--chdir=/", "--output=/dev/null", "--wrap", "sleep 300")...)
		words := strings.Fields(out)
		if err != nil || len(words) == 0 {
			t.Fatal(err, out)
		}
		id := words[len(words)-1]
		t.Cleanup(func() { s.s.Tool("scancel", id) })
		return id
	}
	own, others := submit("--comment=perigee-mine"), submit("--uid=65534", "--hold")
	must.Do(t, os.MkdirAll(s.output, 0o755))
	const stamp = `{"time":"2026-01-01T00:00:00Z",`
	ledger := stamp + `"event":"began"}` + "\n" + stamp + `"event":"submitted","task":"a","job":"` + own + `"}` + "\n" + stamp +
		`"event":"submitted","task":"b","comment":"perigee-ABCDEFGHIJKLMNOPQRSTUVWXYZ","job":"` + others + `"}` + "\n"
	must.Do(t, os.WriteFile(filepath.Join(s.output, "jobs.jsonl"), []byte(ledger), 0o644))
	o := s.start("clean").Wait()
	if o.Code != 0 || o.Stdout != "0 jobs cancelled\n" || !strings.Contains(o.Stderr, "left alone: a: job "+own+" is yours, but") ||
		!strings.Contains(o.Stderr, "left alone: b: Slurm has no job "+others+" of yours") {
		t.Errorf("exit code %d\n%s%s", o.Code, o.Stdout, o.Stderr)
	}
	for _, id := range []string{own, others} {
		if state := s.state(id); state != "RUNNING" && state != "PENDING" {
			t.Errorf("job %s is %s", id, state)
		}
	}
	// A user who may cancel all jobs, as root, cancels none of another user by its number.
	q := queue.Queue{Env: append(os.Environ(), "SLURM_CONF="+s.s.Conf)}
	for id, stays := range map[string]bool{own: false, others: true} {
		if err := q.Cancel(t.Context(), id); err != nil {
			t.Error(err)
		}
		if state := s.state(id); (state == "RUNNING" || state == "PENDING") != stays {
			t.Errorf("job %s is %s", id, state)
		}
	}
}

// clean cancels what a killed run has left.
func TestClean(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "hang", 0, "")
	p := s.start("run")
	until(t, "a job", func() bool { return len(s.ids()) == 1 })
	if o := s.start("clean").Wait(); o.Code == 0 || !strings.Contains(o.Stderr, "another run of perigee disagg is using this folder") {
		t.Errorf("beside a run: exit code %d\n%s", o.Code, o.Stderr)
	}
	harness.Signal(t, p.Cmd.Process.Pid, syscall.SIGKILL)
	p.Wait()
	if o := s.start("clean").Wait(); o.Code != 0 || o.Stdout != "1 job cancelled\n" {
		t.Errorf("exit code %d\n%s%s", o.Code, o.Stdout, o.Stderr)
	}
	until(t, "the end of the job", func() bool { return s.state(s.ids()[0]) == "CANCELLED" })
	if o := s.start("clean").Wait(); o.Code != 0 || o.Stdout != "0 jobs cancelled\n" {
		t.Errorf("again: exit code %d\n%s%s", o.Code, o.Stdout, o.Stderr)
	}
}

// A job that does not end is cancelled at its time limit.
func TestTimeout(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "hang", 0, "")
	c := s.run(12, "--timeout", "2s")["a"]
	if c.State != "failed" || !strings.Contains(c.Reasons[0], "the job has not ended within 2s") {
		t.Errorf("%s, %q", c.State, c.Reasons)
	}
	if state := s.state(c.Job); state != "CANCELLED" {
		t.Errorf("job %s is %s", c.Job, state)
	}
	// A run that goes on with this one would know why.
	if ledger, err := os.ReadFile(filepath.Join(s.output, "jobs.jsonl")); err != nil || strings.Count(string(ledger), `"event":"stopping","task":"disagg_perf_a","job":"`+c.Job+`","reason":"the job has not ended within 2s`) != 1 {
		t.Errorf("%v\n%s", err, ledger)
	}
}

// A job that Slurm runs again is not judged by the logs of its first attempt.
func TestLogsOfAnEarlierAttempt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "good", 0, `  setup: echo begin >> attempts; [ $(wc -l < attempts) = 1 ] || { scancel $SLURM_JOB_ID; sleep 600; }
  evaluate: scontrol requeue $SLURM_JOB_ID; sleep 600
`)
	s.slurm("a", "extra_args: --requeue")
	p := s.start("run")
	// Slurm lets the job wait for two minutes before it runs again.
	until(t, "the second attempt", func() bool {
		attempts := s.written("attempts")
		if len(attempts) == 0 || s.state(s.ids()[0]) != "PENDING" {
			return false
		}
		time.Sleep(second) // as always, perigee hears that it waits
		_, err := s.s.Tool("scontrol", "update", "JobId="+s.ids()[0], "StartTime=now")
		return err == nil
	})
	c := s.cases(p, 12)["a"]
	if attempts, err := os.ReadFile(filepath.Join(c.Dir, "attempts")); err != nil || strings.Count(string(attempts), "begin") != 2 {
		t.Fatalf("%q, %v, %+v", attempts, err, c)
	}
	if c.State != "failed" || len(c.Levels) > 0 && c.Levels[0].Complete {
		t.Errorf("%+v", c)
	}
}

// A job that is preempted during its evaluation fails, though its script passes over the step that Slurm has ended, and
// ends well before the time of grace is over.
func TestPreempted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "good", 0, "  evaluate: touch began; srun --overlap sleep 600; touch ignored; exit 0\n")
	s.slurm("a", "partition: low")
	p := s.start("run")
	until(t, "the evaluation", func() bool {
		began := s.written("began")
		return len(began) > 0
	})
	time.Sleep(time.Second) // its step begins
	s.preempt(s.ids()[0])
	c := s.cases(p, 12)["a"]
	if _, err := os.Stat(filepath.Join(c.Dir, "ignored")); err != nil {
		t.Errorf("the script has not gone on: %v", err)
	}
	if c.State != "failed" || !strings.Contains(fmt.Sprint(c.Reasons), "preempted") {
		t.Errorf("%+v", c)
	}
}

// preempt submits a job that needs all of the node of another, which it may preempt.
func (s *site) preempt(job string) {
	s.t.Helper()
	node, err := s.s.Tool("squeue", "--noheader", "--format=%N", "--jobs="+job)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.s.Tool("sbatch", "--partition=high", "--nodes=1", "--nodelist="+strings.TrimSpace(node),
		"--ntasks="+fmt.Sprint(cpus), "--time=1", "--output=/dev/null", "--wrap=true"); err != nil {
		s.t.Fatal(err)
	}
}

// A job that Slurm preempts to run it again, after a time of grace, waits for that, and is judged by what it does then.
// It is not preempted by another test's job: nothing runs beside it.
func TestPreemptedToRunAgain(t *testing.T) {
	for name, job := range map[string]string{
		"measuring": "  evaluate: echo ${SLURM_RESTART_COUNT-0} >> began; [ $(wc -l < began) = 2 ] || srun --overlap sleep 600\n",
		"starting a server that ends well": "  server: \"trap 'exit 0' TERM; sleep 600 & wait\"\n" +
			"  ready: echo ${SLURM_RESTART_COUNT-0} >> began; sleep 1; [ ${SLURM_RESTART_COUNT-0} = 1 ]\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.add("a", "good", 0, job)
			s.slurm("a", "partition: again")
			p := s.start("run")
			until(t, "what it waits for", func() bool { return len(s.written("began")) > 0 })
			time.Sleep(second) // its step begins
			s.preempt(s.ids()[0])
			until(t, "the job to wait", func() bool { return s.state(s.ids()[0]) == "PENDING" })
			until(t, "the job to run again", func() bool { // for which Slurm lets it wait for two minutes
				time.Sleep(second)
				_, err := s.s.Tool("scontrol", "update", "JobId="+s.ids()[0], "StartTime=now")
				return err == nil
			})
			c := s.cases(p, 0)["a"]
			began, err := os.ReadFile(filepath.Join(c.Dir, "began"))
			if runs := slices.Compact(strings.Fields(string(began))); err != nil || !slices.Equal(runs, []string{"0", "1"}) || c.State != "passed" {
				t.Errorf("%v, %q, %+v", err, began, c)
			}
		})
	}
}

// A job that is held is named at once, and again when its time is over.
func TestHeld(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "good", 0, "")
	s.slurm("a", "extra_args: --hold")
	p := s.start("run", "--timeout", "12s")
	c := s.cases(p, 12)["a"]
	if !strings.Contains(c.Reasons[0], "the job has not ended within 12s: it was waiting (JobHeldUser)") {
		t.Errorf("%q", c.Reasons)
	}
	if said := p.Wait().Stderr; strings.Count(said, "Slurm holds job "+c.Job+" (JobHeldUser)") != 1 {
		t.Error(said)
	}
}

// A server that dies is known in seconds, with its role, node and first error.
func TestServerDies(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "hang", 0, `  nodes: 2
  server: 'echo starting; sleep 1; echo "RuntimeError: no such device mlx5_7"; exit 3'
  ready: test -e never
`)
	began := time.Now()
	c := s.run(12)["a"]
	if took := time.Since(began); took > harness.Patience {
		t.Errorf("took %s", took)
	}
	if !strings.Contains(c.Reasons[0], "SERVER_0 on node") || !strings.Contains(c.Diagnosis, "RuntimeError: no such device mlx5_7") || !strings.Contains(c.Diagnosis, "on node") {
		t.Errorf("%q\n%s", c.Reasons, c.Diagnosis)
	}
}

// So is one whose own code a pipe hides, as long as it was not ready, also if another answers in its place.
func TestServerEndsBeforeItIsReady(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, ready := range map[string]string{"a": "test -e never", "b": "until [ -e $RESULT_DIR/exits/SERVER_0 ]; do sleep 0.1; done"} {
		s.add(name, "good", 0, `  server: '(echo starting; echo "RuntimeError: no such device mlx5_7"; exit 3) 2>&1 | tee server.log'
  ready: `+ready+"\n")
	}
	for name, c := range s.run(12) {
		if len(c.Reasons) == 0 || !strings.Contains(c.Reasons[0], "has ended with code 0 before it was ready") || !strings.Contains(c.Reasons[0], "SERVER_0 on node") ||
			!strings.Contains(c.Diagnosis, "RuntimeError: no such device mlx5_7") {
			t.Errorf("%s: %q\n%s", name, c.Reasons, c.Diagnosis)
		}
	}
}

// A server on one of several nodes that dies ends the case as well: the others alone give other figures.
func TestOneOfTwoServersDies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dies, lives string
		code        int
	}{
		"ends": {"exit 3", "exec sleep 600", 3}, "killed": {"kill -9 $$", "exec sleep 600", 137}, "bus error": {"kill -BUS $$", "exec sleep 600", 135},
		"the other takes its time": {"exit 3", `trap "" TERM; sleep 600`, 3},
	} {
		s := newSite(t)
		s.add("a", "hang", 0, `  nodes: 2
  server: '[ $SLURM_PROCID = 0 ] || { sleep 1; echo "RuntimeError: CUDA out of memory"; `+c.dies+`; }; `+c.lives+`'
  ready: "true"
`)
		want := c.code
		c := s.run(12)["a"]
		nodes := must.Read(t, filepath.Join(c.Dir, "nodes.txt"))
		text := fmt.Sprintf("SERVER_0 on %s has ended with code %d", strings.Fields(string(nodes))[1], want)
		// srun itself waits for the other server, half a minute.
		began, err := os.Stat(filepath.Join(c.Dir, "nodes.txt"))
		must.Do(t, err)
		if mark, err := os.Stat(filepath.Join(c.Dir, "exits", "SERVER_0")); err != nil || mark.ModTime().Sub(began.ModTime()) > 20*second {
			t.Errorf("%s: %v, %v", name, mark, err)
		}
		if !strings.Contains(c.Reasons[0], text) || !strings.Contains(c.Diagnosis, "RuntimeError: CUDA out of memory") {
			t.Errorf("%s: wanted %q, got %q\n%s", name, text, c.Reasons, c.Diagnosis)
		}
	}
}

// So does one that ends with its group, and with what would note that, while the client comes to its end.
func TestServerEndsWithItsGroup(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ways := map[string]struct {
		dies, lives string
		code        int
	}{
		"killed": {"kill -9 0", `trap "" TERM; sleep 600`, 137}, "trap": {`trap "trap : TERM; kill 0" EXIT; exit 3`, `trap "sleep 5; exit 0" TERM; sleep 600 & wait`, 3},
	}
	for name, w := range ways {
		s.add(name, "good", 3, `  nodes: 2
  server: '[ $SLURM_PROCID = 0 ] || { sleep 1; echo "RuntimeError: CUDA out of memory"; `+w.dies+`; }; `+w.lives+`'
  ready: "true"
`)
	}
	for name, c := range s.run(12, "--batch-size", "0") {
		nodes := must.Read(t, filepath.Join(c.Dir, "nodes.txt"))
		want := fmt.Sprintf("SERVER_0 on %s has ended with code %d", strings.Fields(string(nodes))[1], ways[name].code)
		if !strings.Contains(strings.Join(c.Reasons, "\n"), want) || !strings.Contains(c.Diagnosis, "RuntimeError: CUDA out of memory") {
			t.Errorf("%s: wanted %q, got %q\n%s", name, want, c.Reasons, c.Diagnosis)
		}
	}
}

// A task of a server that ends well during the benchmark is a warning; one that ends before it, or with the job, is none.
func TestServerLeaves(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const group = `trap "trap : TERM; kill 0" EXIT; `
	for name, way := range map[string]string{"leaves": "sleep 2.5; exit 0", "leaves2": group + "sleep 2.5; exit 0", "early": "exit 0", "stays": `trap "exit 0" TERM; sleep 600 & wait`} {
		s.add(name, "good", 4, `  nodes: 2
  server: '[ $SLURM_PROCID = 0 ] || { touch up; `+way+`; }; sleep 600'
  ready: test -e up && sleep 0.5
`)
	}
	for name, c := range s.run(0, "--batch-size", "0") {
		if said := strings.Contains(strings.Join(c.Warnings, "\n"), "a task of SERVER_0 on node"); said != strings.HasPrefix(name, "leaves") {
			t.Errorf("%s: %q", name, c.Warnings)
		}
	}
}

const cancelled = "Slurm has ended the job as CANCELLED"

// A server that has died with its process group, while its other tasks take their time to end, is named before what has
// noticed that.
func TestServerBehindClient(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "good", 0.2, `  nodes: 2
  server: |
    touch up$SLURM_PROCID
    [ $SLURM_PROCID = 0 ] || { until [ -e go ]; do sleep 0.1; done; kill -9 0; }
    trap "sleep 3; exit 0" TERM; sleep 600 & wait
  ready: test -e up0 && test -e up1
  evaluate: touch go; sleep 1; echo ConnectionRefusedError; exit 1
`)
	if c := s.run(12)["a"]; len(c.Reasons) == 0 || !strings.Contains(c.Reasons[0], "SERVER_0 on node") {
		t.Errorf("%s, %q", c.State, c.Reasons)
	}
}

// A job that Slurm warns by a SIGTERM, and does not end, is good if it ends well.
func TestWarnedJob(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "good", 0.2, "  evaluate: kill -TERM $PPID; sleep 0.3\n") // as sbatch --signal=B:TERM@60 does
	if c := s.run(0)["a"]; c.State != "passed" {
		t.Errorf("%s, %q", c.State, c.Reasons)
	}
}

// A job that is cancelled, by itself or not, before its end mark has failed: nothing says that it has come to its end.
// Servers that Slurm ends with it have not.
func TestCancelledJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	// bash loses a SIGTERM that comes between a fork and what follows it.
	const up, job = "touch up$SLURM_PROCID; ", "  nodes: 2\n  ready: test -e up0 && test -e up1 && sleep 0.5\n  server: "
	for i := range 3 {
		for name, tail := range map[string]string{
			"plain":    job + up + []string{"exec sleep 600", "sleep 600"}[i%2] + "\n  evaluate: scancel $SLURM_JOB_ID; sleep 60\n",
			"slow":     job + "trap 'exit 1' TERM; sleep 600 & " + up + "wait\n  evaluate: scancel $SLURM_JOB_ID; sleep 60\n",
			"last":     "  evaluate: scancel $SLURM_JOB_ID\n",
			"later":    "  evaluate: scancel $SLURM_JOB_ID; sleep 60\n",
			"handler":  "  evaluate: 'echo \"Error: $1\"; scancel $SLURM_JOB_ID; exit 1'\n",
			"trap":     "  evaluate: 'set -e; trap \"scancel $SLURM_JOB_ID\" EXIT; ls /no/model'\n",
			"graceful": "  evaluate: 'trap : TERM; (sleep 1; scancel $SLURM_JOB_ID) & wait; sleep 0.3; exit 0'\n",
			"watchdog": "  evaluate: '(sleep 1; scancel $SLURM_JOB_ID; exit 1) & sleep 2; echo done'\n",
			"server":   "  nodes: 2\n  server: '[ $SLURM_PROCID = 0 ] || { sleep 2; scancel $SLURM_JOB_ID; exit 1; }; exec sleep 600'\n  evaluate: sleep 60\n",
		} {
			s.add(fmt.Sprint(name, i), "good", 0.2, tail)
		}
		s.add(fmt.Sprint("client", i), "scancel", 0.2, "")
	}
	for name, c := range s.run(12, "--batch-size", "0") {
		reasons := strings.Join(c.Reasons, "\n")
		if c.State != "failed" || !strings.Contains(reasons, cancelled) {
			t.Errorf("%s: %s, %q", name, c.State, c.Reasons)
		}
		if len(c.Levels) != 2 || strings.Contains(reasons, "SERVER") && !strings.HasPrefix(name, "server") {
			t.Errorf("%s: %d levels, %q", name, len(c.Levels), c.Reasons)
		}
	}
}

// The figures of a job that Slurm has suspended come with a warning, also if no poll has seen it.
func TestSuspended(t *testing.T) {
	t.Parallel()
	for _, poll := range []string{"200ms", "15s"} {
		s := newSite(t)
		s.add("a", "good", 4, "")
		p := s.start("run", "--poll", poll)
		// Not before: a job that is suspended while one of its steps starts is resumed
		// by Slurm now and then only after a minute.
		until(t, "the client to sleep", func() bool {
			logs := s.written("6_bench.log")
			if len(logs) == 0 {
				return false
			}
			text, err := os.ReadFile(logs[0])
			return err == nil && strings.Contains(string(text), "warm-up done")
		})
		job := s.ids()[0]
		tool := func(command string) {
			t.Helper()
			if out, err := s.s.Tool("scontrol", command, job); err != nil {
				t.Fatal(err, out)
			}
		}
		time.Sleep(second) // in which the first poll is, however long the interval
		tool("suspend")
		time.Sleep(second)
		tool("resume")
		const want = "Slurm has suspended the job"
		c := s.cases(p, 0)["a"]
		if !strings.Contains(strings.Join(c.Warnings, "\n"), want) {
			t.Errorf("%s: %+v", poll, c)
		}
		o := harness.Start(t, harness.Command{Argv: []string{harness.Program, "disagg", "parse", c.Dir}}).Wait()
		harness.Contains(t, "parse", o.Stdout, want)
	}
}

// That no one reads the output any more is no reason to leave jobs alone: their results are collected, and then the lost output is
// an error.
func TestReaderLeaves(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "good", 1, "")
	s.add("b", "good", 2, "")
	pipe := []string{"bash", "-o", "pipefail", "-c", `"$@" 2>&1 | head -1`, "bash"}
	o := s.startBehind(pipe, "run", "--batch-size", "1").Wait()
	if o.Code != 11 || len(s.written("result.json")) != 2 || len(s.written("verdict.json")) != 2 {
		t.Errorf("exit code %d, %v\n%s%s", o.Code, s.written("result.json"), o.Stdout, o.Stderr)
	}
}

// What --export keeps from a job, as many sites and users have it, are not the variables of the case.
func TestExport(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, export := range map[string]string{"none": "NONE", "list": "PATH,HOME"} {
		s.add(name, "good", 0, "  env: {A: of the case}\n  server: 'echo \"A is $A\"; sleep 1000'\n  ready: grep -q . 3_output_SERVER_0.log\n")
		s.slurm(name, "extra_args: '--export="+export+"'")
	}
	s.run(0)
	for _, log := range s.written("3_output_SERVER_0.log") {
		if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "A is of the case\n") {
			t.Errorf("%s: %q, %v", log, text, err)
		}
	}
	if n := len(s.written("3_output_SERVER_0.log")); n != 2 {
		t.Errorf("%d cases had a server", n)
	}
}

// Bad output folders are found before anything is submitted.
func TestBadOutput(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "good", 0, "")
	s.output = filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(s.output, nil, 0o644))
	if o := s.start("run").Wait(); o.Code != 11 || !strings.Contains(o.Stderr, "the output folder") || strings.Contains(o.Stderr, "Submitting") {
		t.Errorf("exit code %d\n%s", o.Code, o.Stderr)
	}
	full := t.TempDir()
	harness.Mount(t, "tmpfs", full, "size=1m")
	harness.Fill(t, full)
	s.output = filepath.Join(full, "output")
	if o := s.start("run").Wait(); o.Code != 11 || strings.Contains(o.Stderr, "Submitting") {
		t.Errorf("a full disk: exit code %d\n%s", o.Code, o.Stderr)
	}
}

// Repetitions are interleaved.
func TestRepeat(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "good", 0, "")
	s.add("b", "good", 0, "")
	o := s.start("run", "--repeat", "2", "--batch-size", "0").Wait()
	at := -1
	for _, name := range []string{"<- disagg_perf_a\n", "<- disagg_perf_b\n", "<- disagg_perf_a#2\n", "<- disagg_perf_b#2\n"} {
		next := strings.Index(o.Stderr, name)
		if next <= at {
			t.Errorf("%q is not in its place\n%s", name, o.Stderr)
		}
		at = next
	}
	if o.Code != 0 {
		t.Errorf("exit code %d", o.Code)
	}
}
