package rules

// floors lists every package, from the ground up. A package imports only from
// the floors below its own; a new package goes on the lowest floor that is above
// everything it imports.
var floors = []string{
	`internal/memfile internal/plaintext internal/procfs`,
	`docs e2e e2e/disagg e2e/dist e2e/hosts e2e/launchers internal/clock
	internal/embedded internal/fault internal/fuzztest internal/man internal/memory internal/moe/numeric internal/netns
	internal/pack
	internal/pace internal/page/pagetest internal/rules internal/sbom internal/secret
	internal/serving/pareto internal/size internal/slurm internal/stats internal/traffic
	internal/traffic/stream internal/version spmd/clock spmd/host
	spmd/spmdtest spmd/wire tools/disagg/benchlog`,
	`internal/file`,
	`internal/cli internal/conf internal/expr internal/logs internal/page internal/table
	internal/traffic/matrix internal/traffic/series nixl nixl/internal/pages nixl/internal/process scenarios spmd/boot/pmix spmd/boot/watch
	tools/disagg/pattern`,
	`internal/model internal/moe internal/result internal/trace internal/traffic/load internal/traffic/overlap nixl/device
	nixl/internal/fileio spmd/boot tools/disagg/config tools/sweep/runs`,
	`internal/contention internal/hardware internal/result/resulttest nixl/capi nixl/nixltest nixl/shm spmd spmd/launch
	tools/disagg/catalog tools/disagg/probe tools/matgen
	tools/sweep/load tools/sweep/slo`,
	`e2e/internal/harness internal/metric internal/traffic/link internal/traffic/traffictest nixl/engines
	tools/disagg/judge tools/disagg/launch tools/doctor tools/report/figures tools/sweep/page tools/sweep/plot`,
	`e2e/bench/experts e2e/bench/transfer e2e/bench/truth internal/threshold internal/traffic/session
	tools/compare tools/disagg/batch tools/disagg/report
	tools/inspect tools/report tools/sweep`,
	`e2e/bench/barrier e2e/bench/job internal/experts internal/traffic/play
	internal/traffic/sessiontest tools/disagg`,
	`e2e/bench/storage internal/traffic/record internal/traffic/verify`,
	`internal/experiment tools/simulate`,
	`lua`,
	`tools/run`,
	`tools/ep tools/kvbench tools/rerun`,
	`e2e/bench .`,
}
