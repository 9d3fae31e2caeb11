package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// Two builds in one job are named, each with its commit and host, at once and by both: their first difference would say
// nothing of the cause.
func TestTwoBuilds(t *testing.T) {
	const one, other = "a1a1a1a1a1a1a1a1", "b2b2b2b2b2b2b2b2"
	dir := t.TempDir()
	builds := [2]string{filepath.Join(dir, "one"), filepath.Join(dir, "other")}
	build := exec.Command("go", "build", "-o", builds[0], "-ldflags", "-X perigee/internal/kit/version.Commit="+one, "perigee")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	program := must.Read(t, builds[0])
	stamped := bytes.ReplaceAll(program, []byte(one), []byte(other)) // as a second link would, which takes seconds
	must.Do(t, os.WriteFile(builds[1], stamped, 0o755))
	harness.LookAtSources(t)
	port := freePort(t)
	start := func(rank int, program string) *harness.Process {
		return harness.Start(t, harness.Command{Argv: []string{program, "run", "pingpong", "--engine", "shm"}, Env: []string{
			fmt.Sprint("RANK=", rank), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, "PERIGEE_SECRET=the secret of e2e " + port,
		}})
	}
	for rank, p := range []*harness.Process{start(0, builds[0]), start(1, builds[1])} {
		o := p.Wait()
		if o.Code != int(fault.Launch) || o.Took > harness.Patience {
			t.Errorf("rank %d: exit code %d after %v", rank, o.Code, o.Took)
		}
		for _, want := range []string{"is perigee 0.1.0 " + other + ", rank 0 on ", " perigee 0.1.0 " + one, "install one version of perigee on all hosts"} {
			if rank == 0 && !strings.Contains(o.Stderr, want) {
				t.Errorf("lacks %q:\n%s", want, o.Stderr)
			}
		}
	}
	port = freePort(t)
	for _, p := range []*harness.Process{start(0, builds[0]), start(1, builds[0])} {
		if o := p.Wait(); o.Code != 0 {
			t.Errorf("one build: exit code %d\n%s", o.Code, o.Stderr)
		}
	}
}
