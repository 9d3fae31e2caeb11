package launchers

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
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

// A host's loopback interface may have no IPv4. An address that no interface has is named as that.
func TestLoopbackWithoutIPv4(t *testing.T) {
	harness.Need(t, "iproute2", "ip")
	run := func(env []string, ranks ...string) harness.Command {
		const enter = `ip link set lo up && ip address delete 127.0.0.1/8 dev lo && exec "$@"`
		return harness.Command{Env: env, Argv: slices.Concat([]string{"unshare", "--net", "sh", "-c", enter, "sh", harness.Program, "run"},
			ranks, []string{harness.Script(t, "whoami.lua")})}
	}
	harness.Contains(t, "stdout", start(t, run(nil, "-n", "2")).MustEnd().Stdout, "rank 1 of 2")
	alone := func(address string) []string {
		return []string{"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=" + address, "MASTER_PORT=29500", "PERIGEE_SECRET=of the test of IPv6"}
	}
	harness.Contains(t, "stdout", start(t, run(alone("localhost"))).MustEnd().Stdout, "rank 0 of 1")
	o := start(t, run(alone("127.0.0.1"))).Wait()
	if o.Code != int(fault.Launch) {
		t.Errorf("exit code %d, want %d", o.Code, fault.Launch)
	}
	harness.Contains(t, "stderr", o.Stderr, "127.0.0.1:29500", "no interface of ", "has this address")
}

// Hydra kills the ranks that are left at once, so that none removes what the killed one has left in /dev/shm: the user's
// next job does. What is young, of another user, or held by a living process stays.
func TestNextJobSweeps(t *testing.T) {
	library := harness.NeedNIXL(t)
	words, env := wayNamed("hydra").command(t, 2)
	ranks := strings.Join(append(words, harness.Program), " ")
	p := start(t, harness.Command{
		Argv: []string{"unshare", "-m", "sh", "-c", `
			mount -t tmpfs tmpfs /dev/shm && cd /dev/shm || exit 1
			touch ucx_shm_posix_held ucx_shm_posix_foreign ucx_shm_posix_young
			exec 9<ucx_shm_posix_held
			chown 65534 ucx_shm_posix_foreign
			touch -d '1 hour ago' ucx_shm_posix_held ucx_shm_posix_foreign
			touch -d '1 day' ucx_shm_posix_young
			` + ranks + ` run "$0" --engine nixl --stay transfer
			touch -d '1 hour ago' ucx_shm_posix_left
			echo "before:" ucx_shm_posix_*
			` + ranks + ` run "$0" --engine nixl --rounds 1 --log-dir "$1" || exit 1
			echo "after:" ucx_shm_posix_*
			grep -h "that earlier jobs have left" "$1"/*
		`, harness.Script(t, "stay.lua"), t.TempDir()},
		Env: append(env, "NIXL_LIBRARY="+library),
	})
	p.UntilPrints("all are here")
	folder := fmt.Sprintf("/proc/%d/root/dev/shm", p.Rank(1))
	must.Do(t, os.WriteFile(filepath.Join(folder, "ucx_shm_posix_left"), nil, 0o600))
	harness.Signal(t, p.Rank(1), syscall.SIGKILL)
	out := p.Wait()
	left := "ucx_shm_posix_foreign ucx_shm_posix_held ucx_shm_posix_left ucx_shm_posix_young\n"
	harness.Contains(t, "stdout", out.Stdout, "before: "+left)
	want := strings.Replace(left, " ucx_shm_posix_left", "", 1)
	if strings.Contains(out.Stdout, "in a container") { // it has to stay; see capi.SweepOld
		want = left
	}
	harness.Contains(t, "stdout", out.Stdout, "after: "+want)
}
