package rules

// floors lists every package, from the ground up. A package imports only from
// the floors below its own; a new package goes on the lowest floor that is above
// everything it imports.
var floors = []string{
	`internal/plaintext internal/procfs`,
	`docs e2e e2e/disagg e2e/dist e2e/hosts e2e/launchers internal/clock internal/fault internal/fuzztest
	internal/memory internal/moe/numeric internal/pack internal/page/pagetest internal/rules internal/sbom
	internal/secret internal/size internal/slurm internal/stats internal/traffic internal/version spmd/spmdtest
	spmd/wire tools/disagg/benchlog`,
	`internal/file spmd/host`,
	`internal/cli internal/conf internal/expr internal/page internal/table internal/traffic/matrix
	internal/traffic/series nixl scenarios spmd/boot/pmix spmd/boot/watch tools/disagg/accuracy
	tools/disagg/pattern`,
	`internal/model internal/moe internal/result internal/trace internal/traffic/load internal/traffic/overlap
	nixl/internal/kernel spmd/boot tools/disagg/config tools/disagg/record`,
	`internal/contention internal/result/resulttest nixl/device nixl/nixltest spmd spmd/launch
	tools/disagg/catalog tools/disagg/history tools/disagg/probe tools/disagg/verdict tools/matgen
	tools/sweep/runs`,
	`e2e/internal/harness internal/metric nixl/capi nixl/shm tools/disagg/launch tools/disagg/page
	tools/report/figures tools/sweep/plot`,
	`e2e/bench/truth internal/traffic/session internal/traffic/traffictest nixl/engines tools/compare
	tools/disagg/batch tools/doctor tools/inspect tools/report tools/sweep`,
	`e2e/bench/transfer internal/experts internal/traffic/play tools/disagg`,
	`e2e/bench/barrier e2e/bench/job`,
	`internal/experiment tools/simulate`,
	`lua`,
	`tools/run`,
	`tools/ep tools/kvbench tools/rerun`,
	`e2e/bench .`,
}
