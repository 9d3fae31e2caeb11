package plan

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/serving/config"
)

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "case.yaml")
	must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	c := config.Load(file, config.Ident{Type: "disagg", Category: "perf", Stem: "case"}, config.Options{Rules: config.Strict})[0]
	if !c.Valid() {
		t.Fatal(c.Problems)
	}
	return c
}

func golden(t *testing.T, swaps ...string) *config.Config {
	t.Helper()
	text := must.Read(t, "../../../tools/disagg/testdata/configs/00_base_valid.yaml")
	return load(t, strings.NewReplacer(append(swaps, "script_file: local.slurm", "script_file: trtllm")...).Replace(string(text)))
}

// shellcheck is bash -n.
func shellcheck(t *testing.T, text string) {
	t.Helper()
	cmd := exec.Command("bash", "-n")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s\n%s", err, out, text)
	}
}

// S4: nodes and tasks as TensorRT-LLM's launcher computes them.
func TestNodes(t *testing.T) {
	for _, c := range []struct {
		swaps        []string
		nodes, tasks string
	}{
		{[]string{"num_gen_servers: 2", "num_gen_servers: 4"}, "9", "36"}, // ctx 1 x tp4, gen 4 x tp8
		{[]string{"num_gen_servers: 2", "num_gen_servers: 6", "tensor_parallel_size: 4", "tensor_parallel_size: 1",
			"enable_attention_dp: true\n    pipeline_parallel_size: 1", "enable_attention_dp: true\n    pipeline_parallel_size: 4",
			"enable_attention_dp: false\n    pipeline_parallel_size: 1", "enable_attention_dp: false\n    pipeline_parallel_size: 4"}, "49", "196"},
	} {
		p, err := New(golden(t, c.swaps...), Options{Dir: "/r/case", GPU: config.FindGPU("GB200"), Comment: "x"})
		must.Do(t, err)
		if !slices.Contains(p.Args, "--nodes="+c.nodes) || !slices.Contains(p.Args, "--ntasks="+c.tasks) {
			t.Errorf("%v, want %s nodes and %s tasks", p.Args, c.nodes, c.tasks)
		}
		shellcheck(t, p.Text)
	}
}

func TestTRTLLM(t *testing.T) {
	p, err := New(golden(t, "container_image: ''", "container_image: 'a b.sqsh'", "work_dir: /tmp", "work_dir: /w"), Options{Dir: "/r/it's", GPU: config.FindGPU("GB200")})
	must.Do(t, err)
	shellcheck(t, p.Text)
	want := []string{"--partition=debug", "--time=00:05:00", "--job-name=toy", "--nodes=5", "--ntasks=20", "--ntasks-per-node=4",
		"--output=/r/it's/slurm-%j.out", "--error=/r/it's/slurm-%j.err"}
	if !slices.Equal(p.Args, want) {
		t.Errorf("got  %v\nwant %v", p.Args, want)
	}
	for _, text := range []string{"'--container-image=a b.sqsh'", "start_worker.sh\" GEN 1 /models/toy 8001 false", "start_worker.sh\" CTX 0 /models/toy 8002",
		`start_server.sh" "$perigee_dir/server_config.yaml" &>`, `"$perigee_dir/gen_config.yaml" 0,1,2,3 &>`, "8333 64 &> 6_bench.log",
		"'1 2 4 8'", "step SERVER $? 4_output_server.log", "8_done_$SLURM_JOB_ID.txt"} {
		if !strings.Contains(p.Text, text) {
			t.Errorf("the script lacks %s\n%s", text, p.Text)
		}
	}
	if got := p.Files["server_config_base.yaml"]; !strings.Contains(got, "- <node4_placeholder>:8002") || !strings.Contains(got, "- <node2_placeholder>:8001") {
		t.Error(got)
	}
	if !strings.Contains(p.Files["gen_config.yaml"], "num_nextn_predict_layers: 3") {
		t.Error(p.Files["gen_config.yaml"])
	}
	other, err := New(golden(t, "use_nv_sa_benchmark: false", "use_nv_sa_benchmark: true"), Options{Dir: "/r/x"})
	if err != nil || !strings.Contains(other.Text, "8333 64 &> 6_bench.log") {
		t.Errorf("%v\n%s", err, other.Text)
	}
	// A capped job says both numbers.
	capped, err := New(golden(t), Options{Dir: "/r/x", GPU: config.FindGPU("LOCAL"), Nodes: 1})
	if err != nil || capped.Nodes != 1 || capped.Computed != 5 || !slices.Contains(capped.Args, "--ntasks=1") {
		t.Errorf("%+v, %v", capped.Args, err)
	}
	shellcheck(t, capped.Text)
}

// What the modes of the benchmark are is in the environment of workers and front end.
func TestModes(t *testing.T) {
	const overlap, noContext = "TRTLLM_DISABLE_KV_CACHE_TRANSFER_OVERLAP=1", "TRTLLM_DISAGG_BENCHMARK_GEN_ONLY=1"
	for mode, want := range map[string]struct{ gen, ctx, front string }{
		"e2e": {"A=1", "A=1", "B=2"}, "gen_only_no_context": {"A=1 " + noContext, "A=1 " + noContext, "B=2 " + noContext},
		"gen_only": {"A=1 " + overlap + " TLLM_BENCHMARK_REQ_QUEUES_SIZE=8", "A=1 " + overlap, "B=2"},
	} {
		d := &Data{Config: golden(t, "mode: e2e", "mode: "+mode, "concurrency_list: 1 2 4 8", "concurrency_list: 8",
			"build_wheel: false", "build_wheel: false\n  worker_env_var: A=1\n  server_env_var: B=2")}
		gen, ctx := d.WorkerEnv(Worker{Role: "GEN", Devices: "0"}), d.WorkerEnv(Worker{Role: "CTX", Devices: "0"})
		for _, pair := range [][2]string{
			{strings.Join(gen, " "), want.gen + " CUDA_VISIBLE_DEVICES=0"}, {strings.Join(ctx, " "), want.ctx + " CUDA_VISIBLE_DEVICES=0"},
			{strings.Join(d.FrontEnv(), " "), want.front},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s: got %s, want %s", mode, pair[0], pair[1])
			}
		}
		p, err := New(d.Config, Options{Dir: "/r/x"})
		front := "private SERVER 'export " + strings.ReplaceAll(want.front, " ", "' 'export ") + "'\n"
		if err != nil || !strings.Contains(p.Text, front) {
			t.Errorf("%s: %v\n%s", mode, err, p.Text)
		}
	}
}

// The container has the result folder, where servers find their configuration.
func TestMounts(t *testing.T) {
	for mounts, want := range map[string]string{
		"": "/tmp:/tmp,/r/x:/r/x", "/m:/m": "/m:/m,/tmp:/tmp,/r/x:/r/x", "/m:/m,/r:/r": "/m:/m,/r:/r,/tmp:/tmp", "/:/": "/:/",
		"/r/x/:/r/x/,/tmp:/tmp": "/r/x/:/r/x/,/tmp:/tmp", "/tmp:/tmp,/r:/results": "/tmp:/tmp,/r:/results,/r/x:/r/x",
		"/tmp:/tmp,/r/x:/r/x:ro": "/tmp:/tmp,/r/x:/r/x:ro,/r/x:/r/x", "/tmp:/tmp,/r/xy:/r/xy": "/tmp:/tmp,/r/xy:/r/xy,/r/x:/r/x",
	} {
		p, err := New(golden(t, "container_image: ''", "container_image: i", "container_mount: ''", "container_mount: '"+mounts+"'"), Options{Dir: "/r/x"})
		if err != nil || !strings.Contains(p.Text, "--container-name=disaggr-test --container-mounts="+want+" --no-container-mount-home)") {
			t.Errorf("%q: %v, want %s\n%s", mounts, err, want, p.Text)
		}
	}
}

func TestCommandTemplate(t *testing.T) {
	c := load(t, `benchmark: {concurrency_list: 1 2, multi_round: 3}
slurm: {extra_args: --exclusive --mem=0}
job: {nodes: 2, client: "echo '$CONCURRENCY'", server: sleep 9, ready: 'true', env: {A: "it's"}}
`)
	p, err := New(c, Options{Dir: "/r/x", GPU: config.FindGPU("GB200"), Comment: "c"})
	must.Do(t, err)
	shellcheck(t, p.Text)
	want := []string{"--job-name=unified-benchmark", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--output=/r/x/slurm-%j.out", "--error=/r/x/slurm-%j.err",
		"--comment=c", "--exclusive", "--mem=0"}
	if !slices.Equal(p.Args, want) {
		t.Errorf("got  %v\nwant %v", p.Args, want)
	}
	if _, err := New(c, Options{Dir: `/r/a\b`}); fault.KindOf(err) != fault.Output || !strings.Contains(err.Error(), "has a backslash") {
		t.Error(err)
	}
	if p.Files["client.sh"] != "#!/bin/bash\necho '$CONCURRENCY'\n" {
		t.Errorf("the client has changed: %q", p.Files["client.sh"])
	}
	for _, text := range []string{"Benchmarking with concurrency 2 ... 6 prompts", `'A=it'\''s'`} {
		if !strings.Contains(p.Text, text) {
			t.Errorf("the script lacks %s\n%s", text, p.Text)
		}
	}
}

// What srun's log says of the first task that has failed.
func TestFate(t *testing.T) {
	text := function(t, "fate")
	failed := func(how string) string {
		return "1: srun: error: n9: task 9: Killed\nsrun: error: node2: task 1: " + how + "\n"
	}
	const cancelled = "error: *** STEP 4.1 ON node1 CANCELLED AT 2026-11-25T03:11:05 ***\n"
	for log, want := range map[string]string{
		failed("Exited with exit code 3"): "3 node2", failed("Out Of Memory"): "137 node2", "srun: error: node[1-2]: tasks 0-1: Killed\n": "137 node[1-2]",
		failed("Bus error (core dumped)") + "0: slurmstepd: " + cancelled + failed("Killed"): "135 node2",
		" 0: slurmstepd-node1: " + cancelled + failed("Terminated"):                          "", "slurmstepd: " + cancelled + failed("Terminated"): "",
		"": "", "srun: error: Unable to create step for job 5: Invalid node name specified\n": "", failed("Vanished"): "128 node2",
	} {
		checkFate(t, text, log, want)
	}
	for _, number := range []syscall.Signal{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 31} {
		word := map[syscall.Signal]string{14: "Alarm clock"}[number] // Go has other words for some
		if word == "" {
			word = strings.ToUpper(number.String()[:1]) + number.String()[1:]
		}
		checkFate(t, text, failed(word), fmt.Sprint(128+int(number), " node2"))
	}
}

func checkFate(t *testing.T, function, log, want string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "log")
	must.Do(t, os.WriteFile(file, []byte(log), 0o644))
	out, err := exec.Command("bash", "-uc", function+"fate "+file).CombinedOutput()
	if strings.TrimSpace(string(out)) != want || (err != nil) != (want == "") {
		t.Errorf("%q: %q, %v, want %q", log, out, err, want)
	}
}

func TestOwnTemplate(t *testing.T) {
	c := golden(t)
	c.Slurm.ScriptFile = "own.slurm"
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(filepath.Dir(c.File), "own.slurm"), []byte(text), 0o644))
	}
	if _, err := New(c, Options{Dir: "/r/x"}); err == nil || !strings.Contains(err.Error(), `no job template "own.slurm"`) {
		t.Errorf("a missing template: %v", err)
	}
	write("#!/bin/bash\necho {{.ID}} {{quote .Dir}}\n")
	p, err := New(c, Options{Dir: "/r/x y"})
	if err != nil || p.Text != "#!/bin/bash\necho disagg_perf_case '/r/x y'\n" {
		t.Errorf("%q, %v", p.Text, err)
	}
	for _, bad := range []string{"{{.Nonsense}}", "{{", "{{template \"none\"}}"} {
		write(bad)
		if _, err := New(c, Options{Dir: "/r/x"}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// What is no template, or makes no script, is an error.
func TestBombs(t *testing.T) {
	for _, size := range []string{"4194304\n    context_parallel_size: 4398046", "40000"} {
		c := golden(t, "tensor_parallel_size: 8", "tensor_parallel_size: "+size)
		if _, err := New(c, Options{Dir: "/r/x", GPU: config.FindGPU("GB200")}); err == nil || !strings.Contains(err.Error(), "wanted at most 65536 GPUs") {
			t.Errorf("%s: %v", size, err)
		}
	}
	c := golden(t)
	file := func(name, text string) string {
		path := filepath.Join(filepath.Dir(c.File), name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	long := file("long", strings.Repeat("{{if 1}}", 1<<18))
	for file, want := range map[string]string{
		long: "it is larger than 1048576 bytes", file("own", `{{define "x"}}{{template "x"}}{{end}}{{template "x"}}`): "exceeded maximum template depth",
		"/dev/zero": "it is larger than 1048576 bytes",
	} {
		c.Slurm.ScriptFile = file
		if _, err := New(c, Options{Dir: "/r/x"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs", "case")
	p, err := New(golden(t), Options{Dir: dir})
	must.Do(t, err)
	for range 2 { // the second time the first folder is set aside
		must.Do(t, p.Write())
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(p.Files)+1 || p.Files[Effective] == "" {
		t.Errorf("%v, %v", files, err)
	}
	for _, file := range files { // whatever umask is
		if info, err := file.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", file.Name(), info.Mode(), err)
		}
	}
}

// Variables of workers and front end come to them, and to no command line, which all users of a node see.
func TestPrivateVariables(t *testing.T) {
	bin, work := t.TempDir(), t.TempDir()
	dir := filepath.Join(work, "it's")
	wait := "for i in $(seq 200); do [ ! -e " + work + "/done ] || exit 0; /bin/sleep 0.1; done"
	writeTools(t, bin, map[string]string{
		"srun":     `echo "$*" >> ` + work + `/lines; while [ $# -gt 0 ] && [ "$1" != bash ]; do shift; done; exec "$@"`,
		"scontrol": "echo node1", "curl": `[ -e ` + work + `/CTX_0 ] && [ -e ` + work + `/GEN_1 ] && [ -e ` + work + `/SERVER ] && printf 200`, "squeue": "",
		"sleep": "exec /bin/sleep 0.1",
	})
	writeTools(t, work, map[string]string{
		"start_worker.sh":  `echo "$A $HF_TOKEN $CUDA_VISIBLE_DEVICES" > ` + work + `/${1}_$2; ` + wait,
		"start_server.sh":  `echo "$A ${HF_TOKEN-} ${CUDA_VISIBLE_DEVICES-}" > ` + work + `/SERVER; ` + wait,
		"run_benchmark.sh": "touch " + work + "/done",
	})
	p, err := New(golden(t, "work_dir: /tmp", "work_dir: "+work, "build_wheel: false",
		"build_wheel: false\n  worker_env_var: HF_TOKEN=hf_hidden A=~/it's$(x)\n  server_env_var: A=hidden"),
		Options{Dir: dir, GPU: config.FindGPU("LOCAL"), Nodes: 1})
	must.Do(t, err)
	out, err := runJob(t, p, work, bin)
	lines, _ := os.ReadFile(filepath.Join(work, "lines"))
	if err != nil || strings.Contains(string(lines), "hidden") || !strings.Contains(string(lines), "start_worker.sh GEN 1") {
		t.Errorf("%v\n%s\n%s", err, lines, out)
	}
	for name, want := range map[string]string{"GEN_1": "~/it's$(x) hf_hidden 0,1,2,3\n", "CTX_0": "~/it's$(x) hf_hidden 0,1,2,3\n", "SERVER": "hidden  \n"} {
		if got, _ := os.ReadFile(filepath.Join(work, name)); string(got) != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		if info, err := os.Stat(filepath.Join(dir, "exits", "."+name+".sh")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// On a disk that becomes full the end of a server is noticed at once, by the job and by its task, though not how it has ended.
func TestFullDisk(t *testing.T) {
	for _, server := range []string{"false", "exit 0"} {
		bin, disk := t.TempDir(), t.TempDir()
		must.Do(t, unix.Mount("none", disk, "tmpfs", 0, "size=256k"))
		t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
		writeTools(t, bin, map[string]string{"scontrol": "echo node1", "squeue": "",
			"srun": `case "$*" in *server.sh*) dd if=/dev/zero of=fill bs=4096; while [ "$1" != bash ]; do shift; done; exec "$@";; esac`})
		p, err := New(load(t, "benchmark: {concurrency_list: 1}\njob: {client: 'true', server: '"+server+"', ready: 'false', ready_timeout: 20}\n"),
			Options{Dir: filepath.Join(disk, "case"), GPU: config.FindGPU("LOCAL"), Nodes: 1})
		must.Do(t, err)
		began := time.Now()
		out, err := runJob(t, p, bin, bin)
		if took := time.Since(began); err == nil || took > 5*time.Minute {
			t.Errorf("%s: after %s: %v\n%s", server, took, err, out)
		}
		for _, part := range []string{"SERVER_0", "WAIT"} {
			if info, err := os.Stat(filepath.Join(disk, "case", "exits", part)); err != nil || info.Size() != 0 {
				t.Errorf("%s: %s: %v, %v\n%s", server, part, info, err, out)
			}
		}
	}
}

// A job does not go on without what it could not write on a disk that was full before.
func TestFullDiskAtTheStart(t *testing.T) {
	disk := t.TempDir()
	must.Do(t, unix.Mount("none", disk, "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	for _, c := range []struct{ file, when string }{
		{"exits/.attempt", "rm"}, {"nodes.txt", "scontrol"}, {"task.sh", "scontrol with room for nodes.txt"},
	} {
		bin, dir := t.TempDir(), filepath.Join(disk, "case")
		fill := "dd if=/dev/zero of=" + disk + "/fill bs=4096 2> /dev/null\n"
		tools := map[string]string{"srun": "touch " + bin + "/went_on", "squeue": "", "scontrol": "echo node1", "rm": `exec /bin/rm "$@"`}
		name, room, _ := strings.Cut(c.when, " ")
		if room != "" {
			fill += "truncate -s -4096 " + disk + "/fill\n"
		}
		tools[name] = fill + tools[name]
		writeTools(t, bin, tools)
		p, err := New(load(t, "benchmark: {concurrency_list: 1}\njob: {command: 'true'}\n"),
			Options{Dir: dir, GPU: config.FindGPU("LOCAL"), Nodes: 1})
		must.Do(t, err)
		out, err := runJob(t, p, bin, bin)
		_, wentOn := os.Stat(filepath.Join(bin, "went_on"))
		if _, marked := os.Stat(filepath.Join(dir, "exits", "SCRIPT")); err == nil || marked != nil || wentOn == nil ||
			!strings.Contains(string(out), dir+"/"+c.file+" could not be written\n") {
			t.Errorf("%s: %v, %v, %v\n%s", c.file, err, marked, wentOn, out)
		}
		must.Do(t, errors.Join(os.RemoveAll(dir), os.Remove(filepath.Join(disk, "fill"))))
	}
}

// writeTools writes shell scripts into a folder, in place of programs that a job calls.
func writeTools(t *testing.T, bin string, bodies map[string]string) {
	t.Helper()
	for name, body := range bodies {
		must.Do(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755))
	}
}

// runJob runs the script of a job in a folder, as job 7 on node1, with the programs of the folder bin before others.
func runJob(t *testing.T, p *Plan, dir, bin string, env ...string) ([]byte, error) {
	t.Helper()
	must.Do(t, p.Write())
	cmd := exec.Command("bash", p.Script)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + bin + ":/usr/bin:/bin", "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=node1", "SLURM_NNODES=1"}, env...)
	return cmd.CombinedOutput()
}

// A probe that fails does not end the job, while the server is waited for either.
func TestFailedProbe(t *testing.T) {
	bin, work := t.TempDir(), t.TempDir()
	writeTools(t, bin, map[string]string{
		"srun": `case "$*" in *"/no/perigee"*) exit 3;; *start_*) exec /bin/sleep 2;; esac`, "scontrol": "echo node1",
		"curl": `[ -e asked ] && printf 200; : > asked`, "sleep": "exec /bin/sleep 0.1", "squeue": "",
	})
	p, err := New(golden(t), Options{Dir: filepath.Join(work, "case"), GPU: config.FindGPU("LOCAL"), Perigee: "/no/perigee"})
	must.Do(t, err)
	out, err := runJob(t, p, t.TempDir(), bin)
	probe, _ := os.ReadFile(filepath.Join(work, "case", "exits", "PROBE"))
	if _, missing := os.Stat(filepath.Join(work, "case", "8_done_7.txt")); err != nil || missing != nil || string(probe) != "3 node1\n" {
		t.Errorf("%v, %v, probe %q\n%s", err, missing, probe, out)
	}
}

// Variables that a script has for itself hide none of the user's from the job, and none of a case's from the script.
func TestVariablesOfTheScript(t *testing.T) {
	given := map[string]string{} // names that a script may well use
	for name := range strings.FieldsSeq("DIR NODES WORK CONTAINER MPI FRONT state preempted told deadline hosts i part termed code " +
		"new node known how line log now said began states ask HEAD_NODE NODE_COUNT") {
		given[name] = "of the user, " + name
	}
	bin, work := t.TempDir(), t.TempDir()
	wait := "for i in $(seq 200); do [ ! -e " + work + "/done ] || exit 0; /bin/sleep 0.1; done"
	writeTools(t, bin, map[string]string{
		"srun":     `echo "${SLURM_EXPORT_ENV-} ${SRUN_EXPORT_ENV-}" >> ` + work + `/exports; while [ $# -gt 0 ] && [ "$1" != bash ]; do shift; done; exec "$@"`,
		"scontrol": "echo node1", "curl": "[ -e " + work + "/SERVER ] && printf 200", "squeue": "", "sleep": "exec /bin/sleep 0.1",
	})
	writeTools(t, work, map[string]string{
		"start_worker.sh": "env -0 > " + work + "/${1}_$2; " + wait, "start_server.sh": "env -0 > " + work + "/SERVER; " + wait,
		"run_benchmark.sh": "env -0 > " + work + "/CLIENT; touch " + work + "/done",
	})
	var pairs []string
	env := []string{"SLURM_EXPORT_ENV=NONE", "SRUN_EXPORT_ENV=NONE"} // as sbatch --export=NONE, and sites, have it
	for name, value := range given {
		env = append(env, name+"="+value)
		pairs = append(pairs, fmt.Sprintf("%s: %q", name, value))
	}
	check := func(who, file string, ours ...string) {
		data, err := os.ReadFile(file)
		got := map[string]string{}
		for pair := range strings.SplitSeq(string(data), "\x00") {
			name, value, _ := strings.Cut(pair, "=")
			got[name] = value
		}
		for name, want := range given {
			if !slices.Contains(ours, name) && got[name] != want {
				t.Errorf("%s: %s is %q (%v)", who, name, got[name], err)
			}
		}
	}
	p, err := New(golden(t, "work_dir: /tmp", "work_dir: "+work), Options{Dir: filepath.Join(work, "a"), GPU: config.FindGPU("LOCAL"), Nodes: 1})
	must.Do(t, err)
	if out, err := runJob(t, p, work, bin, env...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range []string{"CTX_0", "GEN_0", "SERVER", "CLIENT"} {
		check("trtllm, "+name, filepath.Join(work, name), "HEAD_NODE", "NODE_COUNT")
	}
	if exports, err := os.ReadFile(filepath.Join(work, "exports")); err != nil || strings.Trim(string(exports), "AL \n") != "" {
		t.Errorf("steps get %q, %v", exports, err)
	}
	p, err = New(load(t, "benchmark: {concurrency_list: 1}\njob: {setup: 'env -0 > setup', server: 'env -0 > server; sleep 1', ready: 'env -0 > ready',\n"+
		"  client: 'env -0 > client', evaluate: 'env -0 > evaluate', env: {"+strings.Join(pairs, ", ")+"}}\n"),
		Options{Dir: filepath.Join(work, "b"), GPU: config.FindGPU("LOCAL"), Nodes: 1})
	must.Do(t, err)
	if out, err := runJob(t, p, work, bin); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range []string{"setup", "server", "ready", "client", "evaluate"} {
		check("command, "+name, filepath.Join(work, "b", name))
	}
}

// A command that asks whether the server is ready, and hangs, has as long as the server.
func TestHangingReady(t *testing.T) {
	bin, work := t.TempDir(), filepath.Join(t.TempDir(), "case")
	writeTools(t, bin, map[string]string{"srun": `case "$*" in *server.sh*) exec /bin/sleep 3;; esac`, "scontrol": "echo node1", "squeue": ""})
	p, err := New(load(t, "benchmark: {concurrency_list: 1}\n"+
		"job: {client: 'true', server: 'true', ready: 'echo asked; sleep 20', ready_timeout: 1}\n"),
		Options{Dir: work, GPU: config.FindGPU("LOCAL"), Nodes: 1})
	must.Do(t, err)
	began := time.Now()
	out, err := runJob(t, p, t.TempDir(), bin)
	wait, _ := os.ReadFile(filepath.Join(work, "exits", "WAIT"))
	log, _ := os.ReadFile(filepath.Join(work, "5_wait_server.log"))
	if took := time.Since(began); err == nil || took > 5*time.Minute || !strings.HasPrefix(string(wait), "124 ") ||
		!strings.Contains(string(log), "asked\n") || !strings.Contains(string(log), "the server was not ready within 1 seconds") {
		t.Errorf("after %s: %v, exits/WAIT %q\n%s%s", took, err, wait, log, out)
	}
}

// Logs that a config names itself are removed with the others where Slurm runs a job again; no other file is.
func TestOwnLogs(t *testing.T) {
	for names, want := range map[[2]string]string{
		{"my.log", ""}: "./my.log", {"", ""}: "", {"it's $(x).log", "acc_*.txt"}: `./acc_*.txt './it'\''s $(x).log'`,
		{"effective.yaml", "*"}: "", {"*.sh", "[a"}: "", {"-rf", ""}: "./-rf", {"job.sh", "task.*"}: "",
	} {
		d := Data{Config: &config.Config{Metrics: &config.Metrics{LogFile: names[0]}, AccuracyLog: names[1]},
			planned: []string{Effective, scriptFile}}
		if got := strings.Join(d.OwnLogs(), " "); got != want {
			t.Errorf("%q: got %s, want %s", names, got, want)
		}
	}
	if got := (&Data{Config: &config.Config{}}).OwnLogs(); got != nil {
		t.Errorf("got %q", got)
	}
	p, err := New(load(t, "metadata: {model_name: toy, metrics: {log_file: my.log}}\nbenchmark: {concurrency_list: 1}\njob: {command: 'true'}\n"),
		Options{Dir: filepath.Join(t.TempDir(), "case"), GPU: config.FindGPU("LOCAL"), Nodes: 1})
	if err != nil || !strings.Contains(p.Text, `"8_done_$SLURM_JOB_ID.txt" ./my.log`+"\n") {
		t.Errorf("%v\n%s", err, p.Text)
	}
}

// An attempt that was cut off, and whose job Slurm runs elsewhere by the time squeue answers, writes no end mark.
func TestCutOffAtTheEnd(t *testing.T) {
	for _, cut := range []bool{false, true} {
		bin, work := t.TempDir(), filepath.Join(t.TempDir(), "case")
		squeue := ""
		if cut {
			squeue = `echo "1 node2 77" > exits/.attempt`
		}
		writeTools(t, bin, map[string]string{"srun": "", "scontrol": "echo node1", "squeue": squeue})
		p, err := New(load(t, "metadata: {model_name: toy}\nbenchmark: {concurrency_list: 1}\njob: {command: 'true'}\n"),
			Options{Dir: work, GPU: config.FindGPU("LOCAL"), Nodes: 1})
		must.Do(t, err)
		out, _ := runJob(t, p, t.TempDir(), bin)
		marks, _ := filepath.Glob(filepath.Join(work, "8_*"))
		if (len(marks) == 0) != cut {
			t.Errorf("cut off %v: marks %q\n%s", cut, marks, out)
		}
	}
}

// Whatever a config says, a job script takes it as a text, but for the commands of the section job.
func TestHostileFields(t *testing.T) {
	dir := t.TempDir()
	mark, bin, work := filepath.Join(dir, "mark"), filepath.Join(dir, "bin"), filepath.Join(dir, "it's $(touch mark)")
	for _, d := range []string{bin, work} {
		must.Do(t, os.Mkdir(d, 0o755))
	}
	writeTools(t, bin, map[string]string{"srun": "", "pip": "", "lm_eval": "", "scontrol": "echo node1", "curl": "printf 200", "sbatch": ""})
	evil := "a'$(touch " + mark + ")`touch " + mark + "`\"; touch " + mark + " & | > " + mark
	flow := "'" + strings.ReplaceAll(evil, "'", "''") + "'"
	words := "'A=$(touch${IFS}" + mark + ") B=`touch${IFS}" + mark + "`'"
	trtllm := golden(t, "model_name: toy-moe", "model_name: "+flow, "model_path: /models/toy", "model_path: "+flow, "container_image: ''", "container_image: "+flow,
		"container_mount: ''", "container_mount: "+flow, "trtllm_repo: ''", "trtllm_repo: "+flow, "build_wheel: false", "build_wheel: true\n  cuda_architectures: "+flow+
			"\n  worker_env_var: "+words+"\n  gen_worker_env_var: "+words+"\n  server_env_var: "+words+"\n  dataset_file: "+flow,
		"enable_accuracy_test: false", "enable_accuracy_test: true\n  env_var: {X: "+flow+"}\n  tasks: {gsm8k: {model: "+flow+", model_args_extra: "+flow+", extra_kwargs: {"+flow+": "+flow+", custom_config: "+flow+"}}}",
		"nsys_on: false", "nsys_on: true\n  gen_profile_range: "+flow, "streaming: true", "streaming: true\n  env_var: {Y: "+flow+"}")
	command := load(t, "metadata: {model_name: "+flow+"}\nenvironment: {model_path: "+flow+"}\nbenchmark: {concurrency_list: 1, env_var: {Y: "+flow+"}, dataset_file: "+flow+"}\n"+
		"job: {client: 'true', env: {X: "+flow+"}}\n")
	for name, c := range map[string]*config.Config{"trtllm": trtllm, "command": command} {
		p, err := New(c, Options{Dir: filepath.Join(work, name), GPU: config.FindGPU("LOCAL"), Nodes: 1})
		must.Do(t, err)
		out, err := runJob(t, p, dir, bin, "SSH_PRIVATE_KEY=first\nsecond=line\n", "MY_TOKEN=a", "PLAIN=b", "DB_PASS=hidden", "GITHUB_PAT=hidden", "KEY=hidden", "COMPATIBLE=c", "http_proxy=http://user:hidden@proxy:1")
		kept, _ := os.ReadFile(filepath.Join(work, name, "environment.txt"))
		if text := string(kept); !strings.Contains(text, "PLAIN=b\n") || !strings.Contains(text, "COMPATIBLE=c\n") || !strings.Contains(text, "http_proxy=http://proxy:1\n") || strings.Contains(text, "hidden") || strings.Contains(text, "second") || strings.Contains(text, "TOKEN") {
			t.Errorf("%s: environment.txt:\n%s", name, text)
		}
		if _, bad := os.Stat(mark); bad == nil {
			t.Fatalf("%s: a field of the config has run\n%s", name, p.Text)
		}
		if marks, _ := filepath.Glob(filepath.Join(work, name, "8_done_7.txt")); err != nil || len(marks) != 1 {
			t.Errorf("%s: the script has not come to its end: %v\n%s", name, err, out)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "mark*")); len(left) > 0 {
			t.Errorf("%s: %v", name, left)
		}
	}
}
