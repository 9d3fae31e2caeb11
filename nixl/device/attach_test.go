package device

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestAttach runs itself once more where the process has no capability.
func TestAttach(t *testing.T) {
	without := os.Getenv("PERIGEE_TEST_NO_CAPABILITIES") != ""
	for scope, want := range map[string]bool{"0": true, "1": true, "2": !without, "3": false} {
		root := tree(t, map[string]string{"proc/sys/kernel/yama/ptrace_scope": scope + "\n"})
		if got, allowed := Attach(root); got != scope || allowed != want {
			t.Errorf("scope %s, without capabilities %v: got %q, %v", scope, without, got, allowed)
		}
	}
	if got, allowed := Attach(t.TempDir()); got != "" || !allowed {
		t.Errorf("a kernel without Yama: got %q, %v", got, allowed)
	}
	if without {
		return
	}
	c := exec.Command("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", os.Args[0],
		"-test.run=^TestAttach$", "-test.v")
	c.Env = append(os.Environ(), "PERIGEE_TEST_NO_CAPABILITIES=1")
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestAttach") {
		t.Errorf("%v\n%s", err, out)
	}
}
