package launchers

import (
	"cmp"
	"path/filepath"
	"slices"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/fault"
)

// nameOf is what a message should call the host of a rank.
func nameOf(t testing.TB, w way, rank, ranks int) string {
	t.Helper()
	return cmp.Or(w.host(rank, ranks), harness.Hostname(t))
}

// Plain Slurm without a way to carry a secret refuses, and says what to do.
func TestNoMunge(t *testing.T) {
	w := ways[slices.IndexFunc(ways, func(w way) bool { return w.name == "srun none" })]
	lost := filepath.Join(t.TempDir(), "no.socket")
	j := launch(t, w, 2, []string{"PERIGEE_MUNGE_SOCKET=" + lost}, "run", harness.Script(t, "whoami.lua"))
	if code := j.Wait().Code; code != int(fault.Launch) {
		t.Errorf("exit code %d, want %d", code, fault.Launch)
	}
	harness.Contains(t, "stderr", j.Stderr.String(), "munge cannot carry one", lost, "export PERIGEE_SECRET=", "--mpi=pmi2")
	out := launch(t, w, 2, []string{"PERIGEE_MUNGE_SOCKET=" + lost, "PERIGEE_SECRET=the secret of this job"}, "run", harness.Script(t, "whoami.lua")).MustEnd().Stdout
	harness.Contains(t, "stdout", out, "launcher slurm", "rank 1 of 2")
}

// --launcher chooses among several, and --ranks cannot contradict a launcher.
func TestLauncherFlag(t *testing.T) {
	pmi2 := ways[slices.IndexFunc(ways, func(w way) bool { return w.name == "srun pmi2" })]
	out := launch(t, pmi2, 2, nil, "run", harness.Script(t, "whoami.lua"), "--launcher", "slurm").MustEnd().Stdout
	harness.Contains(t, "stdout", out, "2 ranks on 1 host: node1+node2 (2), launcher slurm\n")
	out = launch(t, pmi2, 1, nil, "run", "--launcher=local", "-n", "3", harness.Script(t, "whoami.lua")).MustEnd().Stdout
	harness.Contains(t, "stdout", out, "3 ranks on 1 host", "launcher local\n", "rank 2 of 3")
	j := launch(t, pmi2, 2, nil, "run", "-n", "3", harness.Script(t, "whoami.lua"))
	if code := j.Wait().Code; code != int(fault.Usage) {
		t.Errorf("exit code %d, want %d", code, fault.Usage)
	}
	harness.Contains(t, "stderr", j.Stderr.String(), "--ranks is 3, but the pmi2 launcher has started 2 ranks", "--launcher local")
	j = launch(t, pmi2, 1, nil, "run", harness.Script(t, "whoami.lua"), "--launcher", "pmi1x")
	if code := j.Wait().Code; code != int(fault.Usage) {
		t.Errorf("exit code %d, want %d", code, fault.Usage)
	}
	harness.Contains(t, "stderr", j.Stderr.String(), `there is no launcher "pmi1x"`)
}

// The links may use IPv6.
func TestIPv6(t *testing.T) {
	out := launch(t, ways[0], 2, []string{"PERIGEE_IFACE=fd00:bad::/32"}, "run", harness.Script(t, "whoami.lua"), "--iface", "::1").MustEnd().Stdout
	harness.Contains(t, "stdout", out, "rank 1 of 2")
	j := launch(t, ways[0], 2, []string{"PERIGEE_IFACE=fd00:bad::/32"}, "run", harness.Script(t, "whoami.lua"))
	if code := j.Wait().Code; code != int(fault.Launch) {
		t.Errorf("exit code %d, want %d", code, fault.Launch)
	}
	harness.Contains(t, "stderr", j.Stderr.String(), "fd00:bad::/32", "means no address of this host", "lo 127.0.0.1", "--iface")
}
