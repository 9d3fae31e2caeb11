package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"perigee/internal/kit/must"
)

// A process in another time namespace reads other start times: it cannot watch this one.
func TestTimeNamespaces(t *testing.T) {
	const ask = "PERIGEE_TEST_PROCESS_ID"
	id, err := Self()
	must.Do(t, err)
	if os.Getenv(ask) != "" {
		fmt.Printf("%s", id.Append(nil))
		os.Exit(0)
	}
	self, err := os.Executable()
	must.Do(t, err)
	other := []string{"--time", "--boottime", "1000", "--fork"}
	if os.Geteuid() != 0 {
		other = append(other, "--user", "--map-root-user")
	}
	for _, c := range []struct {
		same bool
		args []string
	}{{true, []string{"--fork"}}, {false, other}} {
		cmd := exec.Command("unshare", append(c.args, self, "-test.run=^"+t.Name()+"$")...)
		cmd.Env = append(os.Environ(), ask+"=1")
		out, err := cmd.Output()
		if err != nil || len(out) != ProcessSize {
			t.Fatalf("%v: %d bytes, %v", c.args, len(out), err)
		}
		theirs, err := DecodeProcess(out)
		if err != nil || !theirs.SameHost(id) || theirs.SameSpace(id) != c.same {
			t.Errorf("%v: %+v, %v; this process is %+v", c.args, theirs, err, id)
		}
	}
}
