package rules

// floors lists every package, from the ground up. A package imports only from
// the floors below its own; a new package goes on the lowest floor that is above
// everything it imports.
var floors = []string{
	`docs e2e e2e/disagg e2e/dist e2e/hosts e2e/launchers internal/kit/clock internal/kit/fuzztest
	internal/kit/jsonkeys internal/kit/lazyre internal/kit/memory internal/moe/numeric internal/kit/pack internal/kit/page/pagetest
	internal/kit/plaintext internal/kit/procfs internal/rules internal/kit/sbom internal/kit/secret internal/kit/size
	internal/kit/slurm internal/kit/stats internal/trace/blockcache internal/trace/grid internal/traffic
	internal/kit/version nixl/device/devicetest spmd/boot/pmix spmd/spmdtest spmd/wire tools/laws`,
	`internal/kit/fault internal/kit/page internal/kit/table internal/traffic/series nixl spmd/host
	tools/disagg/benchlog`,
	`internal/kit/expr internal/kit/file internal/traffic/cpuwait internal/traffic/overlap nixl/internal/kernel spmd/boot/watch`,
	`internal/kit/cli internal/kit/conf internal/kit/junit internal/parity internal/traffic/matrix lua/pattern
	nixl/device nixl/nixltest scenarios spmd/boot`,
	`internal/model internal/moe internal/result internal/trace internal/traffic/load lua/vm nixl/capi
	nixl/shm spmd spmd/launch tools/disagg/config`,
	`internal/contention internal/dashboard internal/replay internal/result/resulttest
	internal/trace/figures internal/traffic/session internal/traffic/traffictest lua/option nixl/engines
	tools/disagg/probe tools/doctor tools/matgen tools/sweep/runs`,
	`e2e/bench/transfer e2e/internal/harness internal/experts internal/metric internal/traffic/play
	lua/files tools/disagg/judge tools/disagg/plan tools/report/figures tools/sweep/plot tools/trace`,
	`e2e/bench/barrier e2e/bench/job e2e/bench/replay e2e/bench/truth internal/replay/outcome lua/objects
	tools/compare tools/disagg/batch tools/disagg/report tools/inspect tools/report
	tools/sweep`,
	`internal/experiment tools/disagg tools/simulate`,
	`lua/modules`,
	// One floor, so that no module imports another.
	`lua/modules/clock lua/modules/config lua/modules/matrix lua/modules/moe lua/modules/options
	lua/modules/replay lua/modules/result lua/modules/transfer lua/modules/world`,
	`lua`,
	`tools/run`,
	`tools/ep tools/kvbench tools/rerun`,
	`. e2e/bench`,
}
