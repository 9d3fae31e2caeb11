package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result/resulttest"
)

// Perigee in the place of NIXL's benchmarks under CloudAI, NVIDIA's runner of benchmarks on Slurm: with its command
// lines, its way to start them, and what it looks for in their output. docs/cloudai.md is about it.

// benchRow is what CloudAI reads of a row.
type benchRow struct {
	block, batch int
	lat, bw      float64
}

// readAsCloudAI reads nixlbench's table as CloudAI does: after the first line that looks like the header, all lines of
// 6 or 10 words that begin with two whole numbers. A table that it finds no row in is a failed run.
func readAsCloudAI(t *testing.T, stdout string) (rows []benchRow, headers int) {
	t.Helper()
	for line := range strings.Lines(stdout) {
		if strings.Contains(line, "Block Size (B)      Batch Size     ") && strings.Contains(line, "Avg Lat. (us)") && strings.Contains(line, "B/W (GB/Sec)") {
			headers++
			continue
		}
		words := strings.Fields(line)
		if headers == 0 || len(words) != 6 && len(words) != 10 {
			continue
		}
		block, errBlock := strconv.Atoi(words[0])
		batch, errBatch := strconv.Atoi(words[1])
		if errBlock != nil || errBatch != nil {
			continue
		}
		lat, bw := words[2], words[5]
		if len(words) == 10 {
			lat, bw = words[3], words[2]
		}
		row := benchRow{block: block, batch: batch}
		var errLat, errBW error
		row.lat, errLat = strconv.ParseFloat(lat, 64)
		row.bw, errBW = strconv.ParseFloat(bw, 64)
		if errLat != nil || errBW != nil {
			t.Errorf("CloudAI fails at %q", line)
		}
		rows = append(rows, row)
	}
	return rows, headers
}

// steps starts the same command line several times, a moment apart, as CloudAI starts the ranks of nixlbench: each is
// a separate job step. They share the variables, and what they print goes into one file.
func steps(t *testing.T, n int, etcd, command string) (all []*harness.Process) {
	t.Helper()
	dir := harness.Files(t, map[string]string{"env_vars.sh": "export FROM_FILE=1\n"})
	for _, name := range []string{"nixlbench", "perigee"} {
		must.Do(t, os.Symlink(harness.Program, filepath.Join(dir, name)))
	}
	for i := range n {
		if i > 0 {
			time.Sleep(2 * time.Second)
		}
		all = append(all, harness.Start(t, harness.Command{
			Dir: dir, Argv: []string{"bash", "-c", "source " + dir + "/env_vars.sh; " + command},
			Env: []string{"NIXL_ETCD_NAMESPACE=/nixl/kvbench/" + strings.ReplaceAll(t.Name(), "/", "-"),
				"NIXL_ETCD_ENDPOINTS=" + etcd, "PATH=" + dir + ":" + os.Getenv("PATH")},
		}))
	}
	return all
}

// checkSteps waits for steps that must succeed, and returns the rows that CloudAI reads of their common output.
func checkSteps(t *testing.T, all []*harness.Process) []benchRow {
	t.Helper()
	var stdout strings.Builder
	for i, p := range all {
		o := p.MustEnd()
		if o.Code != 0 {
			t.Fatalf("step %d: exit code %d\n%s", i, o.Code, o.Stderr)
		}
		stdout.WriteString(o.Stdout)
	}
	rows, headers := readAsCloudAI(t, stdout.String())
	if headers != 1 {
		t.Errorf("%d headers in\n%s", headers, stdout.String())
	}
	return rows
}

func TestCloudAINixlbench(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		etcd := harness.StartEtcd(t)
		all := steps(t, 2, etcd, "./nixlbench --etcd-endpoints=http://$NIXL_ETCD_ENDPOINTS --backend=UCX --initiator_seg_type=DRAM --target_seg_type=DRAM "+
			"--op_type=READ --total_buffer_size=8000000000 --max_block_size=65536 --max_batch_size=2 --num_iter=64 --check_consistency=True "+
			"--result r.json --engine "+engine)
		rows := checkSteps(t, all)
		var sizes []string
		for _, r := range rows {
			sizes = append(sizes, fmt.Sprint(r.block, "x", r.batch))
		}
		want := []string{"4096x1", "4096x2", "8192x1", "8192x2", "16384x1", "16384x2", "32768x1", "32768x2", "65536x1", "65536x2"}
		if !slices.Equal(sizes, want) {
			t.Errorf("rows for %v, want %v", sizes, want)
		}
		doc := resulttest.Check(t, filepath.Join(all[0].Dir, "r.json"))
		if doc.World.Size != 2 || doc.World.Launcher != "etcd" || doc.Engine.Name != engine || doc.Lanes[0].Op != "READ" || doc.Lanes[0].Iterations != 64 {
			t.Errorf("%d ranks by %s, %s, %+v", doc.World.Size, doc.World.Launcher, doc.Engine.Name, doc.Lanes[0])
		}
		for i, cells := range doc.Tables[0].Rows {
			if bw, lat := cells[2].(float64), cells[3].(float64); math.Abs(rows[i].bw-bw) > 1e-6 || math.Abs(rows[i].lat-lat) > 0.006 {
				t.Errorf("row %d: %+v, the result has %v", i, rows[i], cells)
			}
		}
	})
}

// Four processes are two pairs; CloudAI starts one on each of four nodes.
func TestCloudAIFourSteps(t *testing.T) {
	rows := checkSteps(t, steps(t, 4, harness.StartEtcd(t), "./nixlbench --etcd-endpoints=http://$NIXL_ETCD_ENDPOINTS --backend=UCX "+
		"--num_initiator_dev=2 --num_target_dev=2 --max_block_size=4096 --num_iter=2000 --engine shm"))
	if len(rows) != 1 {
		t.Errorf("rows %v", rows)
	}
}

func TestCloudAIKVBench(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		all := steps(t, 2, harness.StartEtcd(t), "perigee kvbench profile --backend UCX --model deepseek-r1 --model_config block-tp1-pp16 "+
			"--num_requests 1 --num_iter 16 --warmup_iter 2 --recreate_xfer False --engine "+engine+" --etcd_endpoints http://$NIXL_ETCD_ENDPOINTS")
		rows := checkSteps(t, all)
		if len(rows) != 1 || rows[0].block != 36864 || rows[0].batch != 954 {
			t.Errorf("rows %v, want the plan's 954 blocks of 36864 bytes", rows)
		}
	})
}

// A back end for files is one step, which meets no other.
func TestCloudAIStorage(t *testing.T) {
	for name, command := range map[string]string{
		"nixlbench": "./nixlbench --etcd-endpoints=http://$NIXL_ETCD_ENDPOINTS --backend=POSIX --filepath=. --max_block_size=8192 --num_iter=32",
		"kvbench": "perigee kvbench profile --backend POSIX --source memory --filepath . --model deepseek-r1 --model_config block-tp1-pp16 " +
			"--scale 0.01 --num_iter 16 --etcd_endpoints http://$NIXL_ETCD_ENDPOINTS",
	} {
		t.Run(name, func(t *testing.T) {
			if rows := checkSteps(t, steps(t, 1, "127.0.0.1:1", command)); len(rows) == 0 {
				t.Error("no rows")
			}
		})
	}
}

// A step without a partner, and one too many, measure nothing and say what is missing.
func TestCloudAIWrongNumberOfSteps(t *testing.T) {
	etcd := harness.StartEtcd(t)
	alone := steps(t, 1, etcd, "./nixlbench --etcd-endpoints=http://$NIXL_ETCD_ENDPOINTS --backend=UCX --timeout 3s")[0].Wait()
	if alone.Code != int(fault.Launch) || alone.Stdout != "" {
		t.Errorf("alone: exit code %d\n%s", alone.Code, alone.Stdout)
	}
	harness.Contains(t, "stderr", alone.Stderr, "1 of 2 ranks have not come: 1", "NIXL_ETCD_NAMESPACE")

	three := steps(t, 3, etcd, "./nixlbench --etcd-endpoints=http://$NIXL_ETCD_ENDPOINTS --backend=UCX --start_block_size=1048576 --max_block_size=1048576 --num_iter=1000000 --engine shm")
	o := three[2].Wait()
	if o.Code != int(fault.Launch) || o.Stdout != "" {
		t.Errorf("one too many: exit code %d\n%s", o.Code, o.Stdout)
	}
	harness.Contains(t, "stderr", o.Stderr, "all 2 ranks of /nixl/kvbench/", "this process is one too many")

	// A killed rank is named by the other, which ends soon.
	victim, other := three[1].Cmd.Process.Pid, three[0]
	for pid := range harness.Owned(three[1].Token) {
		harness.Signal(t, pid, syscall.SIGKILL)
	}
	killed := time.Now()
	o = other.Wait()
	if o.Code != int(fault.RankLost) || time.Since(killed) > harness.Patience {
		t.Errorf("after the death of process %d: exit code %d after %v", victim, o.Code, time.Since(killed))
	}
	harness.Contains(t, "stderr", o.Stderr, "rank 1 on ")
}

// A killed process leaves nothing in etcd that the next run of the namespace could meet.
func TestCloudAIAfterCrash(t *testing.T) {
	const command = "./nixlbench --etcd-endpoints=http://$NIXL_ETCD_ENDPOINTS --backend=UCX --max_block_size=4096 --num_iter=64 --engine shm"
	etcd := harness.StartEtcd(t)
	crashed := steps(t, 1, etcd, command)[0]
	crashed.UntilComplains("waiting for 1 of 2 ranks: 1") // it has left its keys
	for pid := range harness.Owned(crashed.Token) {
		harness.Signal(t, pid, syscall.SIGKILL)
	}
	crashed.Wait()
	time.Sleep(12 * time.Second) // docs/cloudai.md says nine
	if rows := checkSteps(t, steps(t, 2, etcd, command)); len(rows) != 1 {
		t.Errorf("rows %v", rows)
	}
}

// example is one of the files that we ship for CloudAI.
type example struct {
	Template string         `toml:"test_template_name"`
	Args     map[string]any `toml:"cmd_args"`
}

// settings are the arguments of CloudAI's own, which become no options.
var settings = []string{
	"docker_image_url", "etcd_image_url", "etcd_path", "wait_etcd_for", "path_to_benchmark", "python_executable", "kvbench_script", "command",
	"perftest_script", "matgen_script", "matgen_args", "subtest", "elastic_script", "plan", "num_processes_per_node",
}

// options writes the others as CloudAI does, in a format such as --%s=%v.
func (e example) options(format string, args map[string]any) (words string) {
	for _, key := range slices.Sorted(maps.Keys(args)) {
		name, value := key, args[key]
		switch {
		case slices.Contains(settings, key):
			continue
		case e.Template == "NIXLKVBench" && key == "model_cfg":
			name = "model_config"
		case strings.HasPrefix(e.Template, "NixlP"), e.Template == "NixlEP":
			name = strings.ReplaceAll(key, "_", "-")
		}
		if b, ok := value.(bool); ok {
			value = map[bool]string{true: "True", false: "False"}[b] // as Python writes them
		}
		words += fmt.Sprintf(" "+format, name, value)
	}
	return words
}

func (e example) join(keys ...string) string {
	var words []string
	for _, key := range keys {
		words = append(words, e.Args[key].(string))
	}
	return strings.Join(words, " ")
}

// The files that we ship run by CloudAI's rules, which make a command of each.
func TestCloudAIExamples(t *testing.T) {
	harness.NeedNIXL(t)
	files, err := filepath.Glob("../cloudai/*.toml")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data := must.Read(t, file)
			var e example
			must.Do(t, toml.Unmarshal(data, &e))
			switch e.Template {
			case "NIXLBench":
				rows := checkSteps(t, steps(t, 2, harness.StartEtcd(t), e.join("path_to_benchmark")+
					e.options("--%s=%v", e.Args)+" --etcd-endpoints=http://$NIXL_ETCD_ENDPOINTS"))
				if len(rows) != 9 {
					t.Errorf("%d rows for 4 KiB to 1 MiB", len(rows))
				}
			case "NIXLKVBench":
				rows := checkSteps(t, steps(t, 2, harness.StartEtcd(t), e.join("python_executable", "kvbench_script", "command")+
					e.options("--%s %v", e.Args)+" --etcd_endpoints http://$NIXL_ETCD_ENDPOINTS"))
				if len(rows) != 1 {
					t.Errorf("rows %v", rows)
				}
			case "NixlPerftest":
				e.perftest(t)
			case "NixlEP":
				e.ep(t)
			default:
				t.Errorf("template %q", e.Template)
			}
		})
	}
}

// perftest makes matrices and plays them. The variables name an etcd, which perigee does not need here.
func (e example) perftest(t *testing.T) {
	generate := e.join("python_executable", "matgen_script") + " generate --results-dir=matrices --prefill-pp=1 --prefill-cp=1 --decode-pp=1 --decode-cp=1" +
		e.options("--%s=%v", e.Args) + e.options("--%s=%v", e.Args["matgen_args"].(map[string]any))
	play := e.join("python_executable", "perftest_script", "subtest") + " matrices/metadata.yaml --json-output-path=results.json"
	again := strings.Replace(play, "env perigee", "env perigee run --result r.json.zst", 1) // the line that the file has as a comment
	p := steps(t, 1, "127.0.0.1:1", generate+" && "+play+" && rm results.json && "+again)[0]
	if o := p.Wait(); o.Code != 0 {
		t.Fatalf("exit code %d\n%s", o.Code, o.Stderr)
	}
	resulttest.Check(t, filepath.Join(p.Dir, "r.json.zst"))
	if out := readOriginal(t, filepath.Join(p.Dir, "results.json")); len(out.Iterations) == 0 || len(out.Iterations[0]) != 8 {
		t.Errorf("%d iterations, want 8 patterns in each", len(out.Iterations))
	}
}

func (e example) ep(t *testing.T) {
	var phases [][]int
	if err := json.Unmarshal([]byte(e.Args["plan"].(string)), &phases); err != nil || len(phases[0]) != int(e.Args["num_processes_per_node"].(int64)) {
		t.Fatalf("plan %v: %v", phases, err)
	}
	o := steps(t, 1, "127.0.0.1:1", fmt.Sprintf("echo '%s' >plan.json; %s --plan plan.json --num-processes %d%s", e.Args["plan"],
		e.join("python_executable", "elastic_script"), len(phases[0]), e.options("--%s %v", e.Args)))[0].Wait()
	if o.Code != 0 {
		t.Fatalf("exit code %d\n%s", o.Code, o.Stderr)
	}
	for i, ranks := range phases {
		harness.Contains(t, "stdout", o.Stdout, fmt.Sprintf("-> end phase %d", i))
		if n := strings.Count(o.Stdout, "] Dispatch + combine bandwidth: "); n < len(ranks) {
			t.Errorf("%d lines with a bandwidth", n)
		}
	}
}
