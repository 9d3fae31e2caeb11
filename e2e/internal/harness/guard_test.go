package harness

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perigee/internal/kit/must"
)

// TestMain makes the test program a guard where it is started as one.
func TestMain(m *testing.M) {
	if order := os.Getenv(envGuard); order != "" {
		os.Exit(guard(order))
	}
	os.Exit(m.Run())
}

const token = "TESTOFTHEGUARD"

// runGuard starts a guard of a folder and lets it do its work at once.
func runGuard(t *testing.T, dir string) {
	t.Helper()
	stop, err := startGuard(token, dir)
	must.Do(t, err)
	if err := stop(); err != nil {
		t.Errorf("the guard: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}

// The guard kills what carries the token and what knows the folder, removes it, and
// leaves everything else alone.
func TestGuard(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tests")
	must.Do(t, os.MkdirAll(filepath.Join(dir, "inside"), 0o700))
	sleep := func(env string) *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		cmd.Env = []string{env}
		must.Do(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill() })
		return cmd
	}
	tokened, folder := sleep(marker+"="+token+"AND MORE"), sleep("SLURM_CONF="+dir+"/slurm.conf")
	other := sleep("SLURM_CONF=" + dir + "2/slurm.conf")
	runGuard(t, dir)
	for _, cmd := range []*exec.Cmd{tokened, folder} {
		if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
			t.Errorf("%v ended with %v", cmd.Env, err)
		}
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another's process: %v", err)
	}
	other.Process.Kill()
	other.Wait()
}

// The guard unmounts what lies over the folder.
func TestGuardUnmounts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tests")
	inside := filepath.Join(dir, "mounted")
	must.Do(t, os.MkdirAll(inside, 0o700))
	mount(t, "tmpfs", inside, "size=64k")
	runGuard(t, dir)
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts: %v\n%s", err, mounts)
	}
}
