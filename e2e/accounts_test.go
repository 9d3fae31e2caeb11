package e2e

import (
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// manyRuns moves 64 KiB to the other rank 5,000 times.
const manyRuns = `return { ranks = 2, run = function()
  local plan = transfer.prepare { name = "ring", matrix = matrix.ring { bytes = "64KiB" } }
  world.barrier()
  plan:run(5000)
end }
`

// NIXL's exporter loses events where its buffer is as small as it is by default: the bytes that it counts and those of
// the events that it lost, four for each request, are those of the plan. With a larger buffer, and where each request
// is asked, all is counted.
func TestAccountsOfNIXL(t *testing.T) {
	harness.NeedNIXL(t)
	const message, plan = 64 << 10, 2 * 5000 * 64 << 10
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	play := func(env ...string) (string, *result.Accounts) {
		t.Helper()
		dir := harness.Files(t, map[string]string{"many.lua": manyRuns})
		env = append(env, "NIXL_TELEMETRY_PROMETHEUS_PORT="+port, "NIXL_TELEMETRY_PROMETHEUS_LOCAL=y",
			"NIXL_TELEMETRY_MULTIPROC_DIR="+filepath.Join(dir, "telemetry"))
		out := harness.Start(t, harness.Command{Dir: dir, Env: env,
			Args: []string{"run", "many.lua", "--engine", "nixl", "--result", "r.json"}}).MustEnd().Stdout
		doc, err := result.Read(filepath.Join(dir, "r.json"))
		must.Do(t, err)
		if doc.Accounts == nil || doc.Accounts.Total.Plan != plan || doc.Accounts.Missing != 0 {
			t.Fatalf("accounts %+v\n%s", doc.Accounts, out)
		}
		return out, doc.Accounts
	}
	exporter := []string{"NIXL_TELEMETRY_ENABLE=y", "NIXL_TELEMETRY_EXPORTER=prometheus_mp"}

	out, a := play(append(exporter, "NIXL_TELEMETRY_BUFFER_SIZE=1024")...)
	if a.Total.Library == nil || a.Total.Lost == nil || *a.Total.Lost == 0 || *a.Total.Library >= plan ||
		*a.Total.Library+*a.Total.Lost/4*message != plan {
		t.Errorf("%+v %s", a, a)
	}
	harness.Contains(t, "stdout", out, "# accounts: plan 655 MB, NIXL ", " events lost, raise NIXL_TELEMETRY_BUFFER_SIZE)\n")

	out, _ = play(append(exporter, "NIXL_TELEMETRY_BUFFER_SIZE=262144")...)
	harness.Contains(t, "stdout", out, "# accounts: plan 655 MB, NIXL 655 MB (1.000: every byte)\n")
	out, _ = play("NIXL_TELEMETRY_ENABLE=y")
	harness.Contains(t, "stdout", out, "# accounts: plan 655 MB, NIXL 655 MB (1.000: by request)\n")
	if _, a = play(); a.Total.Library != nil || a.Speaks() {
		t.Errorf("not asked: %+v", a)
	}
}
