package e2e

import (
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
)

// What has no effect, does not exist or cannot serve the scenario is refused, most of it before ranks start.
func TestBackendRefused(t *testing.T) {
	harness.NeedNIXL(t)
	dir := harness.Files(t, map[string]string{"c.yaml": pattern(), "m.txt": good})
	for line, wanted := range map[string][]string{
		"run pingpong --engine shm --backend UCX":                             {"--backend UCX has no effect on --engine shm"},
		"run pingpong --engine shm --backend-param a=b":                       {"--backend-param has no effect on --engine shm"},
		"run pingpong --backend posix":                                        {"scenario pingpong: --backend posix moves bytes between memory and storage"},
		"ep control-plane -n 2 --backend OBJ":                                 {"scenario ep_control_plane: --backend OBJ moves bytes between memory and storage"},
		"run pingpong --backend Nothing":                                      {"--backend Nothing: NIXL", "it has ", "POSIX", "UCX"},
		"run pingpong --backend-param num_workerss=2":                         {"UCX has no such parameter; it has ", "num_workers"},
		"run pingpong --backend-param x":                                      {`--backend-param "x": wanted KEY=VALUE`},
		"sequential-ct-perftest c.yaml --backend POSIX":                       {"--backend POSIX moves bytes between memory and storage"},
		"sequential-ct-perftest c.yaml --backend POSIX --engine shm":          {"--backend POSIX moves bytes between memory and storage"},
		"run kvbench --backend LIBFABRIC --target_seg_type FILE":              {"the backend LIBFABRIC does not reach files"},
		"run kvbench --backend OBJ --filepath . --backend-param secret_key=x": {"--backend-param secret_key: a secret"},
	} {
		checkComplaint(t, harness.Run(t, dir, strings.Fields(line)...), fault.Usage, wanted...)
	}
	o := harness.Run(t, dir, "run", "kvbench", "--backend", "OBJ", "--filepath", ".")
	checkComplaint(t, o, fault.Engine, "NIXL could not create the backend for files (OBJ)", "--backend-param bucket=NAME")
	harness.Contains(t, "stdout", o.Stdout, "# engine: nixl ", "backend OBJ")
	o = harness.Run(t, dir, "run", "pingpong", "--backend-param", "num_workers=two")
	checkComplaint(t, o, fault.Engine, "NIXL could not create the UCX backend", "does UCX take the values of --backend-param?")
}

// A scenario that has an option of that name keeps it, the other stays the job's; what the job was told is in the
// result, and in a repetition.
func TestBackendIsTheScenarios(t *testing.T) {
	harness.NeedNIXL(t)
	dir := harness.Files(t, map[string]string{"own.lua": `return {
  options = { options.string { "backend", "mine", "of the scenario" } },
  run = function(opt)
    local t = transfer.prepare { op = "WRITE", mem = "dram", matrix = matrix.ring { bytes = 4096 } }
    t:run()
    if world.rank == 0 then result.set("backend", opt.backend) end
  end, ranks = 2 }`})
	o := harness.MustRun(t, dir, "run", "--backend", "theirs", "own.lua", "--backend-param", "num_workers=2", "--result", "r.json")
	harness.Contains(t, "stdout", o.Stdout, "backend UCX", "num_workers 2")
	harness.Contains(t, "stdout", harness.MustRun(t, dir, "result", "cat", "-r", "r.json", ".values.backend").Stdout, "theirs")
	o = harness.MustRun(t, dir, "rerun", "r.json")
	harness.Contains(t, "stdout", o.Stdout, "backend UCX", "num_workers 2")
	o = harness.MustRun(t, dir, "rerun", "r.json", "--engine", "shm") // which has no parameters
	harness.Contains(t, "stdout", o.Stdout, "# engine: shm ")
}
