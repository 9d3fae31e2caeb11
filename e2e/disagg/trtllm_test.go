package disagg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
)

// standIns are the scripts of TensorRT-LLM's launcher, as far as the job calls
// them: they take the arguments that the launcher's own take, and no fewer. The
// names of Slurm's nodes do not resolve here: curl replaces them.
func standIns(t *testing.T) (dir string) {
	t.Helper()
	bench, err := filepath.Abs("testdata/bench.sh")
	must.Do(t, err)
	const client = "echo \"$warmup requests of the warm-up\"\n" +
		"for l in $levels; do CONCURRENCIES=\"${CONCURRENCIES-} $((l * servers))\"; done\n" +
		"export OSL=1024 MULTI_ROUND RESULT_DIR CONCURRENCIES=${CONCURRENCIES# }\n"
	dir = harness.Files(t, map[string]string{
		"start_worker.sh": "set -u\necho \"worker $*\"; echo \"GPUs $9\"; exec sleep 300\n",
		"start_server.sh": "set -eu\nport=$(sed -n 's/^port: //p' \"$1\")\n" +
			"cd $(mktemp -d) && touch health && exec python3 -m http.server $port --bind 127.0.0.1\n",
		"run_benchmark.sh": "set -u\nlevels=$5 servers=$4 warmup=${10} MULTI_ROUND=$3 RESULT_DIR=$7\n" +
			client + "bash " + bench + " good 0\n",
		"run_benchmark_nv_sa.sh": "set -u\nlevels=$7 servers=$6 warmup=${12} MULTI_ROUND=$5 RESULT_DIR=$9\n" +
			client + "bash " + bench + " good 0\n",
		"curl": "#!/bin/bash\nexec /usr/bin/curl \"${@//node[1-9]/127.0.0.1}\"\n",
	})
	must.Do(t, os.Chmod(filepath.Join(dir, "curl"), 0o755))
	return dir
}

// The template trtllm from workers to client: the golden config on one node, with either client.
func TestTRTLLM(t *testing.T) {
	harness.Need(t, "curl", "curl")
	harness.Need(t, "python3", "python3")
	text := must.Read(t, "../../tools/disagg/testdata/configs/00_base_valid.yaml")
	for _, nvSA := range []string{"false", "true"} {
		t.Run("nv_sa "+nvSA, func(t *testing.T) {
			s := newSite(t)
			work := standIns(t)
			config := strings.NewReplacer("script_file: local.slurm", "script_file: trtllm",
				"work_dir: /tmp", "work_dir: "+work, "partition: debug", "partition: all",
				"use_nv_sa_benchmark: false", "use_nv_sa_benchmark: "+nvSA).Replace(string(text))
			path := filepath.Join(s.root, "disagg", "perf", "base.yaml")
			must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.Do(t, os.WriteFile(path, []byte(config), 0o644))
			t.Setenv("PATH", work+":"+os.Getenv("PATH"))
			c := s.run(0)["base"]
			if len(c.Levels) != 4 || c.Levels[3].Concurrency != 16 || !c.Levels[3].Complete {
				t.Errorf("%+v", c.Levels)
			}
			for name, want := range map[string]string{
				"3_output_GEN_1.log": "worker GEN 1 /models/toy 8001 false ",
				"3_output_CTX_0.log": "worker CTX 0 /models/toy 8002 false ",
				"3_output_GEN_0.log": "GPUs 0,1,2,3", "6_bench.log": "64 requests of the warm-up",
				"server_config.yaml": ":8001", "allocations.json": `"server_type": "CTX"`,
			} {
				data, err := os.ReadFile(filepath.Join(c.Dir, name))
				if err != nil || !strings.Contains(string(data), want) || strings.Contains(string(data), "_placeholder>") {
					t.Errorf("%s: %v\n%s\nwant %s", name, err, data, want)
				}
			}
		})
	}
}
