package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
	"perigee/nixl/device/devicetest"
)

// The figures that stand in the output, the JSON and the result.
func TestExperts(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := t.TempDir()
		o := harness.MustRun(t, dir, "ep", "data-plane", "--engine", engine, "--num-processes", "3", "--tokens", "8,16", "--hidden", "256",
			"--experts-per-rank", "4", "--topk", "3", "--mode", "dispatch,combine,e2e", "--iters", "6", "--warmup", "1", "--verify", "--timeout", "60",
			"--json-output-path", "out.json", "--result", "r.json", "--threshold", "ep_fresh_us{tokens=8}.count == 15",
			"--threshold", `ep_bandwidth_gb_per_s{tokens=16, phase="combine steady"}.count == 3`)
		for _, mode := range []string{"dispatch", "combine", "e2e"} {
			harness.Contains(t, "stdout", o.Stdout, fmt.Sprintf("Data Plane (%s): 3/3 ranks passed\n", mode), "Mode: "+mode+"\nRanks: 3, Tokens: 8, Hidden: 256\n")
		}
		harness.Contains(t, "stdout", o.Stdout, "Experts: 4/rank (12 total), TopK: 3\nBackend: "+map[string]string{"shm": "memfd", "nixl": "UCX"}[engine]+"\nWarmup: 1, Measure: 6 iterations\n",
			"Latency (μs):     avg=", "  Mode    Entry    Tokens    GB/s    mean (us)  ", "checked before: 72 messages bit by bit, 24 results", "checked what combine steady left")
		doc := resulttest.Check(t, filepath.Join(dir, "r.json"))
		if list, _ := doc.Values["ep"].([]any); len(list) != 2*3*2 { // sizes, modes, entries
			t.Errorf("the result has %d measurements", len(list))
		}
		if table := doc.Tables[len(doc.Tables)-1]; len(table.Columns) != 25 || len(table.Rows) != 12 || len(table.Rows[0]) != 25 {
			t.Errorf("the table has %d columns and %d rows", len(table.Columns), len(table.Rows))
		}
		checkExpertsJSON(t, filepath.Join(dir, "out.json"))
		sizes := harness.MustRun(t, dir, "compare", "r.json", "r.json", "--format", "csv", "--columns", "metric,name,phase").Stdout
		harness.Contains(t, "rows", sizes, "ep_fresh_us,{tokens=8},e2e fresh\n", "ep_fresh_us,{tokens=16},e2e fresh\n", "ep_bandwidth_gb_per_s,{tokens=16},e2e steady\n")
	})
}

func checkExpertsJSON(t *testing.T, path string) {
	t.Helper()
	data := must.Read(t, path)
	var got struct {
		Config  struct{ Tokens []int } `json:"config"`
		Results map[string]struct {
			Test    string
			Results []struct {
				Rank    int
				Passed  bool
				Metrics map[string]any
			}
		}
	}
	must.Do(t, json.Unmarshal(data, &got))
	one := got.Results["combine_t16_h256_e4"]
	if len(got.Results) != 6 || one.Test != "combine" || len(one.Results) != 3 {
		t.Fatalf("%+v", got)
	}
	r := one.Results[2]
	us, _ := r.Metrics["avg_latency_us"].(float64)
	rate, _ := r.Metrics["bandwidth_gbps"].(float64)
	// 16 tokens x 3 choices x 2 bytes x 256 channels.
	if want := 16 * 3 * 512 / us / 1e3; r.Rank != 2 || !r.Passed || rate < want*0.999 || rate > want*1.001 {
		t.Errorf("%+v: the bandwidth must be %v", r, want)
	}
}

// What a layer of a model moves; both ways of sending, and all entries, are checked.
func TestExpertsOfModels(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "tiny.yaml"), []byte(tinyModel), 0o600))
		for _, staging := range []string{"on", "off"} {
			o := harness.MustRun(t, dir, "ep", "data-plane", "--engine", engine, "--num-processes", "2", "--tokens", "8", "--model", "./tiny.yaml",
				"--entry", "moving,fresh,steady", "--staging", staging, "--iters", "3", "--verify", "--result", "r.json")
			// 16 tokens of 3 routed experts and 2 shared ones.
			harness.Contains(t, "stdout", o.Stdout, "Ranks: 2, Tokens: 8, Hidden: 256\nExperts: 4/rank (8 total), TopK: 3\n", "checked before: 80 messages bit by bit",
				"checked what e2e moving left: 80 messages", "2/2 ranks passed")
			doc := resulttest.Check(t, filepath.Join(dir, "r.json"))
			list, _ := doc.Values["ep"].([]any)
			one, _ := list[0].(map[string]any)
			bytes, _ := one["bytes_per_rank"].(map[string]any)
			if len(list) != 3 || one["entry"] != "moving" || one["shared_experts"] != 2.0 || bytes["assignment"] != 8.0*3*(256+8+16+512) {
				t.Errorf("%d measurements, first %v", len(list), one)
			}
		}
		o := harness.Start(t, harness.Command{Dir: dir, Args: []string{"ep", "data-plane", "--engine", engine, "--num-processes", "3", "--model", "./tiny.yaml"}}).Wait()
		if o.Code != int(fault.Usage) || !strings.Contains(o.Stderr, "8 experts cannot be spread evenly over 3 ranks") {
			t.Errorf("exit code %d, %s", o.Code, o.Stderr)
		}
	})
}

const tinyModel = `model_name: tiny
family: gqa
num_layers: 2
num_query_heads: 4
num_kv_heads: 2
query_head_dimension: 8
hidden_size: 256
num_model_params: 1000
num_experts: 8
experts_per_token: 3
num_shared_experts: 2
`

// If the job fails, the JSON says so of every rank.
func TestExpertsFailedInJSON(t *testing.T) {
	dir := t.TempDir()
	o := harness.Start(t, harness.Command{Dir: dir, Args: []string{"ep", "data-plane", "--engine", "shm", "--num-processes", "2", "--tokens", "8", "--hidden", "128",
		"--verify", "--sabotage", "drop", "--json-output-path", "out.json"}}).Wait()
	if o.Code != int(fault.Corrupt) {
		t.Fatalf("exit code %d, %s", o.Code, o.Stderr)
	}
	harness.Contains(t, "stdout", o.Stdout, "Data Plane (e2e): 0/2 ranks passed\n", "\n  Rank 1: ")
	data := must.Read(t, filepath.Join(dir, "out.json"))
	var got struct {
		Results map[string]struct {
			Results []struct {
				Rank   int
				Passed bool
				Error  string
			}
		}
	}
	must.Do(t, json.Unmarshal(data, &got))
	list := got.Results["e2e_t8_h128_e8"].Results
	if len(list) != 2 || list[1].Rank != 1 || list[1].Passed || !strings.Contains(list[1].Error, "dispatch to rank 1") {
		t.Errorf("%s", data)
	}
}

// onTwoNodes starts the command of each of two nodes, which have n ranks each and work without an end.
func onTwoNodes(t *testing.T, n int, args ...string) (nodes []*harness.Process) {
	port := freePort(t)
	for node := range 2 {
		nodes = append(nodes, harness.Start(t, harness.Command{
			Args: slices.Concat([]string{"ep", "data-plane", "--engine", "shm", "--num-processes", fmt.Sprint(n), "--iters", "1000000", "--tokens", "64",
				"--hidden", "128"}, args),
			Env: []string{
				"WORLD_SIZE=2", fmt.Sprint("RANK=", node), "MASTER_ADDR=127.0.0.2", "MASTER_PORT=" + port,
				"PERIGEE_SECRET=the secret of e2e " + port,
			},
		}))
	}
	nodes[0].Until("a second of work", func() bool { // nothing is written by then that the commands would pass on
		ticks := 0
		for pid := range harness.Owned(nodes[0].Token) {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if fields := strings.Fields(string(stat)); len(fields) > 14 {
				user, _ := strconv.Atoi(fields[13])
				ticks += user
			}
		}
		return ticks >= 100
	})
	return nodes
}

// What a measurement has so far stays when its ranks are killed, and reports say so.
func TestKilledDataPlane(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for _, entry := range []string{"steady", "fresh", "moving"} {
			dir := t.TempDir()
			path := filepath.Join(dir, "r.json")
			p := harness.Start(t, harness.Command{Dir: dir, Args: []string{"ep", "data-plane", "--engine", engine, "--num-processes", "2", "--iters", "100000000",
				"--tokens", "8", "--hidden", "128", "--entry", entry, "--result", path}})
			p.Until("partial result", func() bool { return saved(path) })
			for _, pid := range []int{p.Rank(0), p.Rank(1)} { // the launcher ends the second when it has seen the first die
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
					t.Fatal(err)
				}
			}
			p.Wait()
			doc := resulttest.Check(t, path)
			list, _ := doc.Values["ep"].([]any)
			if len(list) != 1 || doc.Status != result.Partial {
				t.Fatalf("%s: %d measurements, status %s", entry, len(list), doc.Status)
			}
			m := list[0].(map[string]any)
			n, _ := m["iterations"].(float64)
			most, _ := m["most_us"].([]any)
			samples := 0
			for _, metric := range doc.Metrics {
				samples += len(metric.Values)
			}
			if m["asked_iterations"] != 1e8 || n < 1 || len(most) != int(n) || samples != int(n) {
				t.Errorf("%s: %v iterations of %v, %d times, %d samples", entry, n, m["asked_iterations"], len(most), samples)
			}
			harness.Contains(t, "report", harness.MustRun(t, dir, "report", "--text", "r.json").Stdout,
				"# PARTIAL", fmt.Sprintf("%s, %.0f of 100000000 iterations", entry, n))
		}
	})
}

// A command on each node starts its ranks: they end with it.
func TestDeathOfTheCommandOfANode(t *testing.T) {
	nodes := onTwoNodes(t, 2)
	for _, p := range nodes {
		if err := p.Cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
	}
	for _, p := range nodes {
		p.CheckNothingLeft(harness.Patience)
		p.Wait()
	}
}

// The command of a node treats its output as that of a job on one host does.
func TestOutputOfANode(t *testing.T) {
	const plain = `exec "$@"`
	for _, c := range []struct {
		name, first, second string // what the shells of the nodes do
		code                fault.Kind
		says                string // node 0
	}{
		{"no reader", `"$@" | head -1; exit ${PIPESTATUS[0]}`, plain, fault.Output, "cannot write the output: broken pipe"},
		{"no room", `"$@" >/dev/full`, plain, fault.Output, "no space left on device"},
		{"no output", `"$@" >&-`, plain, 0, ""},
		{"no reader of what node 1 reports", plain, `"$@" --log-level debug 2>&1 >out | head -1; exit ${PIPESTATUS[0]}`, 0, ""},
	} {
		port := freePort(t)
		var nodes []*harness.Process
		for node, text := range []string{c.first, c.second} {
			nodes = append(nodes, harness.Start(t, harness.Command{
				Argv: []string{"bash", "-c", text, "bash", harness.Program, "ep", "data-plane", "--engine", "shm", "--num-processes", "2", "--iters", "20",
					"--tokens", "64", "--hidden", "128"},
				Env: []string{"WORLD_SIZE=2", fmt.Sprint("RANK=", node), "MASTER_ADDR=127.0.0.2", "MASTER_PORT=" + port, "PERIGEE_SECRET=the secret of e2e " + port},
			}))
		}
		for node, p := range nodes {
			o := p.Wait()
			if node == 0 && (o.Code != int(c.code) || !strings.Contains(o.Stderr, c.says)) || o.Code != 0 && c.code == 0 {
				t.Errorf("%s: node %d: exit code %d\n%s", c.name, node, o.Code, o.Stderr)
			}
		}
	}
}

// The job ends without a rank that is stopped, and so does the command of its node.
func TestStoppedRankOfANode(t *testing.T) {
	nodes := onTwoNodes(t, 2, "--timeout", "3s")
	for pid, env := range harness.Owned(nodes[1].Token) {
		if env["LOCAL_RANK"] == "1" {
			harness.Signal(t, pid, syscall.SIGSTOP)
		}
	}
	for i, p := range nodes {
		if o := p.Wait(); o.Code != int(fault.Timeout) || i == 0 && !strings.Contains(o.Stderr, "rank 3 ") {
			t.Errorf("node %d: exit code %d\n%s", i, o.Code, o.Stderr)
		}
		p.CheckNothingLeft(harness.Patience)
	}
}

func TestControlPlane(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := t.TempDir()
		o := harness.MustRun(t, dir, "ep", "control-plane", "--engine", engine, "--num-processes", "4", "--experts-per-rank", "2, 4", "--rounds", "2",
			"--num-tokens", "16", "--hidden", "256", "--curve", "--timeout", "60", "--result", "r.json")
		harness.Contains(t, "stdout", o.Stdout, "Running: cycle (2 experts/rank, 4 total)", "Control Plane: 4 experts/rank x 4 ranks = 16 total",
			"Operation       Avg (ms)     Min (ms)     Max (ms)    \n", "\nreconnect       ", "\nTOTAL           ")
		doc := resulttest.Check(t, filepath.Join(dir, "r.json"))
		if list, _ := doc.Values["ep_control"].([]any); len(list) != 4 {
			t.Errorf("the result has %d measurements, want 4", len(list))
		}
		// Two ranks have fewer experts than a token chooses.
		o = harness.MustRun(t, dir, "ep", "control-plane", "--engine", engine, "--num-processes", "4", "--experts-per-rank", "1", "--topk", "3", "--curve",
			"--num-tokens", "16", "--hidden", "256")
		if strings.Contains(o.Stdout, "Running: cycle (1 experts/rank, 2 total)") {
			t.Error(o.Stdout)
		}
		o = harness.MustRun(t, dir, "ep", "control-plane", "--engine", engine, "--num-processes", "2", "--experts-per-rank", "2", "--test", "connect",
			"--num-tokens", "16", "--hidden", "256")
		harness.Contains(t, "stdout", o.Stdout, "CONNECT: ", "ms avg across 2 ranks (min=", ") [2 experts/rank]")
	})
}

// Both kinds of traffic run at once, and what they leave is right.
func TestExpertsBesideKV(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := t.TempDir()
		o := harness.MustRun(t, dir, "run", "ep_kv", "-n", "2", "--engine", engine, "--kv-size", "64K", "--tokens", "8", "--hidden", "256", "--iters", "10",
			"--routing", "zipf", "--exponent", "2", "--result", "r.json")
		harness.Contains(t, "stdout", o.Stdout, "routing zipf, without replacement", "checked: what both have left behind", "KV transfers")
		doc := resulttest.Check(t, filepath.Join(dir, "r.json"))
		list, _ := doc.Values["ep_beside"].([]any)
		one, _ := list[0].(map[string]any)
		for _, name := range []string{"slowdown", "busy_us", "other_slowdown", "other_busy_us", "other_runs"} {
			if value, _ := one[name].(float64); !(value > 0) {
				t.Errorf("%s: %v", name, doc.Values["ep_beside"])
			}
		}
		// The control must lie between the times alone and beside the other traffic, or nothing can be said.
		for row, prefix := range map[string]string{"experts, e2e": "", "KV transfers": "other_"} {
			alone, _ := one[prefix+"alone_us"].(float64)
			busy, _ := one[prefix+"busy_us"].(float64)
			beside, _ := one[prefix+"beside_us"].(float64)
			unknown := busy >= beside || busy < 0.95*alone
			if said := strings.Contains(o.Stdout, "# note: "+row+": "); said != unknown {
				t.Errorf("%s: %g us alone, %g beside polling, %g beside the other:\n%s", row, alone, busy, beside, o.Stdout)
			}
		}
	})
}

// Survivors go on without the ranks that the plan has killed: that is no failure.
func TestExpertsElastic(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		small := []string{"--engine", engine, "--tokens", "8", "--hidden", "256", "--warmup", "1", "--iters", "3", "--patience", "0.5"}
		o := harness.MustRun(t, t.TempDir(), append([]string{"ep", "elastic", "--plan", "0-1; 0-2; 0,2"}, small...)...)
		harness.Contains(t, "stdout", o.Stdout, "every message and result of the survivors was checked")
		// 8 ranks become 16, with 8 tokens of 8 experts each.
		o = harness.MustRun(t, t.TempDir(), append([]string{"ep", "elastic", "--plan", "large"}, small...)...)
		harness.Contains(t, "stdout", o.Stdout, "# engine: "+engine, "\n      1      0-7         -         -  ", "\n      2     0-15         -         -  ", "  1024  ")
		dir := harness.Files(t, map[string]string{"plan.json": "[[0, 1, -2],\n [0, 1]]"})
		for _, plan := range []string{"0-1,-2@combine; 0-1", "plan.json"} {
			o = harness.MustRun(t, dir, append([]string{"ep", "elastic", "--plan", plan, "--num-processes", "3", "--result", "r.json"}, small...)...)
			harness.Contains(t, "stdout", o.Stdout, "# note: phase 1: rank 2 was killed, as planned; its process has ended\n", "ranks 0-2 -> end phase 0\n",
				"ranks 0-1 -> end phase 1\n")
		}
		played := resulttest.Check(t, filepath.Join(dir, "r.json")).Values["ep_elastic"].([]any)
		if phases := played[0].(map[string]any)["phases"].([]any); len(phases) != 2 {
			t.Errorf("the result has %v", played)
		}
	})
}

// The process of a rank that a plan kills ends, and the others go on. A death that the plan does not have ends the job.
func TestExpertsDie(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		script := harness.Script(t, "deaths.lua")
		p := harness.Start(t, harness.Command{Args: []string{"run", script, "--engine", engine, "--warmup", "2000000000", "-n", "3"}})
		victim, first := p.Rank(1), p.Rank(2)
		p.Until("end of rank 2", func() bool { return p.Ranks()[2] != first })
		select {
		case <-p.Ended():
			t.Fatalf("the job ended with rank 2: %s", p.Stderr)
		default:
		}
		harness.Signal(t, victim, syscall.SIGKILL)
		if o := p.Wait(); o.Code != int(fault.RankLost) || !strings.Contains(o.Stderr, "perigee: rank 1 on ") ||
			!strings.Contains(o.Stderr, "was killed by signal 9") {
			t.Errorf("exit code %d, %s", o.Code, o.Stderr)
		}
		o := harness.MustRun(t, t.TempDir(), "run", script, "--engine", engine, "--plan", "0-1,-2,3; -0,-1@combine,3; 0,2")
		harness.Contains(t, "stdout", o.Stdout, "phase\t1\tkilled\t2\tended\t\n", "phase\t2\tkilled\t0 1\tended\t1\n", "phase\t3\tkilled\t\tended\t\n")
		if engine != "shm" {
			return
		}
		o = harness.Start(t, harness.Command{Args: []string{"run", script, "--engine", engine, "--after"}}).Wait()
		if o.Code != int(fault.Script) || !strings.Contains(o.Stderr, "ranks [2] have ended in moe.elastic") {
			t.Errorf("exit code %d, %s", o.Code, o.Stderr)
		}
	})
}

// With a stand-in for CUDA's driver NIXL moves dispatch and combine between GPU memories: all is checked, a fault that is
// planted is found, and every command says what it measures.
func TestExpertsInGPUMemory(t *testing.T) {
	harness.NeedNIXL(t)
	folder := devicetest.Driver(t)
	env := []string{"LD_LIBRARY_PATH=" + folder, "LD_PRELOAD=" + filepath.Join(folder, "libcuda.so.1"), "UCX_MODULES=^cuda,gda,gdp"}
	run := func(args string, env []string) harness.Outcome {
		return harness.Start(t, harness.Command{Args: append(strings.Fields(args), "--engine", "nixl", "--mem-type", "vram"), Env: env}).Wait()
	}
	const plane = "ep data-plane --num-processes 2 --tokens 8 --hidden 256 --topk 2 --experts-per-rank 2 --verify --warmup 1 --iters 4"
	const what = "# note: memory vram: transport of dispatch and combine between GPU memories, posted by the host; no GPU kernels: "
	for _, test := range []struct {
		args, want string
		code       fault.Kind
	}{
		{plane + " --mode dispatch,combine,e2e --entry steady,fresh,moving --disable-ll-nvlink", "\nBackend: UCX, GPU memory, posted by the host\n", 0},
		{plane + " --disable-ll-nvlink --staging on", "UCX_TLS ^cuda_ipc", 0},
		{plane + " --nvlink-backend none", "UCX_TLS ^sm,cuda_ipc", 0},
		{plane + " --sabotage swap", what, fault.Corrupt},
		{"ep control-plane --num-processes 2 --num-tokens 8 --hidden 256 --experts-per-rank 4", "registered in GPU memory\n", 0},
		{"ep elastic --plan 0-1;0,-1 --tokens 8 --hidden 256 --topk 2 --warmup 1 --iters 4", what, 0},
		{"run ep_kv -n 2 --tokens 8 --hidden 256 --iters 10 --kv-size 64K", what, 0},
	} {
		o := run(test.args, env)
		if o.Code != int(test.code) || !strings.Contains(o.Stdout, test.want) || strings.Contains(o.Stdout, "--disable-ll-nvlink has no effect") {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", test.args, o.Code, test.code, test.want, o.Stdout, o.Stderr)
		}
	}
	o := run(plane, []string{"CUDA_VISIBLE_DEVICES=none"})
	if o.Code != int(fault.Resource) || !strings.Contains(o.Stderr, "memory type vram: rank 0 on ") || strings.Contains(o.Stdout, "memory of a rank") {
		t.Errorf("without a GPU: exit code %d\n%s%s", o.Code, o.Stdout, o.Stderr)
	}
}
