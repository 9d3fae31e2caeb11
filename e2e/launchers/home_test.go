package launchers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
)

// Ranks run no components of PMIx out of a home into which others can write, whether HOME names it or the password file
// alone does. mpirun, which is not ours, does, so the component is one that PMIx loads.
func TestRanksKeepHomesFromPMIx(t *testing.T) {
	harness.Need(t, "util-linux", "unshare")
	home := t.TempDir()
	components, notes := filepath.Join(home, ".pmix", "components"), filepath.Join(home, "notes")
	if err := os.MkdirAll(components, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-DNOTES=\""+notes+"\"", "-o",
		filepath.Join(components, "pmix_mca_gds_stranger.so"), harness.Script(t, "component.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Chmod(home, 0o777); err != nil {
		t.Fatal(err)
	}
	passwd := filepath.Join(home, "passwd")
	if err := os.WriteFile(passwd, []byte("root:x:0:0:root:"+home+":/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"export HOME=" + home, "unset HOME"} {
		os.Remove(notes)
		words, env := wayNamed("mpirun").command(t, 2)
		p := start(t, harness.Command{Env: env, Argv: append([]string{"unshare", "-m", "sh", "-c",
			"mount --bind " + passwd + " /etc/passwd && " + variable + ` && exec "$@"`, "sh"},
			append(words, harness.Program, "run", harness.Script(t, "whoami.lua"))...)})
		if out := p.Wait(); out.Code != 0 {
			t.Errorf("%s: exit code %d\n%s", variable, out.Code, out.Stderr)
		}
		text, err := os.ReadFile(notes)
		if programs := string(text); err != nil || !strings.Contains(programs, "mpirun") || strings.Contains(programs, "perigee") {
			t.Errorf("%s: loaded by %q, %v", variable, programs, err)
		}
	}
}
