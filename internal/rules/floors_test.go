package rules

// floors lists every package, from the ground up. A package imports only from
// the floors below its own; a new package goes on the lowest floor that is above
// everything it imports.
var floors = []string{
	`docs e2e e2e/disagg e2e/dist e2e/hosts e2e/launchers internal/ep/moe/numeric internal/kit/clock
	internal/kit/crowd internal/kit/fuzztest internal/kit/jsonkeys internal/kit/lazyre internal/kit/memory
	internal/kit/pack internal/kit/page/pagetest internal/kit/plaintext internal/kit/procfs internal/kit/sbom
	internal/kit/secret internal/kit/size internal/kit/slurm internal/kit/stats internal/kit/version
	internal/rules internal/serving internal/serving/runs/runstest internal/trace/blockcache internal/trace/grid
	internal/traffic nixl/device/devicetest spmd/boot/pmix spmd/spmdtest spmd/wire`,
	`internal/kit/fault internal/kit/page internal/kit/value internal/serving/benchlog
	internal/traffic/series nixl spmd/host`,
	`internal/kit/expr internal/kit/file internal/kit/must internal/traffic/cpuwait internal/traffic/overlap
	nixl/internal/kernel spmd/boot/watch`,
	`internal/kit/cli internal/kit/conf internal/kit/junit internal/model/parity internal/traffic/matrix
	lua/pattern nixl/device nixl/nixltest scenarios spmd/boot`,
	`internal/ep/moe internal/kit/sheet internal/model internal/result internal/serving/config internal/trace
	internal/traffic/load lua/vm nixl/capi nixl/shm spmd spmd/launch`,
	`internal/dashboard internal/figures/contention internal/replay internal/result/resulttest
	internal/serving/probe internal/serving/runs internal/trace/figures internal/traffic/session
	internal/traffic/traffictest lua/option nixl/engines tools/doctor tools/matgen`,
	`e2e/bench/transfer e2e/internal/harness internal/ep/experts internal/figures internal/figures/metric
	internal/serving/judge internal/serving/plan internal/traffic/play lua/files tools/sweep/plot`,
	`e2e/bench/barrier e2e/bench/job e2e/bench/replay e2e/bench/truth internal/replay/outcome
	internal/serving/batch internal/serving/given lua/objects tools/disagg/report tools/inspect tools/sweep tools/trace`,
	`internal/experiment tools/disagg tools/simulate`,
	`lua/modules tools/compare tools/report`,
	// One floor, so that no module imports another.
	`lua/modules/clock lua/modules/config lua/modules/matrix lua/modules/moe lua/modules/options
	lua/modules/replay lua/modules/result lua/modules/transfer lua/modules/world`,
	`lua`,
	`tools/run`,
	`tools/ep tools/kvbench tools/rerun`,
	`. e2e/bench`,
}
