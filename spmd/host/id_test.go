package host

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"perigee/internal/kit/must"
)

// Processes whose clocks differ are on different hosts: their clocks are compared then. So are those in different user
// namespaces, as unprivileged containers make one for each process: the kernel keeps them from each other's memory.
func TestIDInOtherNamespaces(t *testing.T) {
	const ask = "PERIGEE_TEST_HOST_ID"
	if os.Getenv(ask) != "" {
		fmt.Print(ID())
		os.Exit(0)
	}
	self, err := os.Executable()
	must.Do(t, err)
	other := []string{"--time", "--monotonic", "1", "--fork"}
	if os.Geteuid() != 0 {
		other = append(other, "--user", "--map-root-user")
	}
	for _, c := range []struct {
		name string
		same bool
		args []string
	}{
		{"the same", true, []string{"--fork"}},
		{"one second ahead", false, other},
		{"another user namespace", false, []string{"--user", "--map-current-user", "--fork"}},
	} {
		cmd := exec.Command("unshare", append(c.args, self, "-test.run=^"+t.Name()+"$")...)
		cmd.Env = append(os.Environ(), ask+"=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if same := string(out) == ID(); same != c.same {
			t.Errorf("%s: %s, this process has %s", c.name, out, ID())
		}
	}
}
