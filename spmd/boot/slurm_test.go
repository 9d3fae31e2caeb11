package boot

import (
	"fmt"
	"net"
	"testing"
)

// Debian gives a host's own name an address of the loopback interface. Only where the
// names of other nodes lead there, too, do the ranks meet where no other host can.
func TestWhereTheRanksOfAStepMeet(t *testing.T) {
	for _, c := range []struct {
		nodes  string
		rank   int
		host   string // to which rank 0 confines itself
		listen string
		meet   string
	}{
		{"127.0.1.1,203.0.113.9", 0, "", "", "127.0.1.1"},
		{"127.0.1.1,203.0.113.9", 1, "", "", "127.0.1.1"}, // beside rank 0
		{"203.0.113.8,127.0.1.1", 0, "", "", "203.0.113.8"},
		{"203.0.113.8,127.0.1.1", 3, "", "", "203.0.113.8"},
		{"127.0.1.1,127.0.1.2", 0, "127.0.1.1", "127.0.1.1", "127.0.1.1"},
		{"127.0.1.1,127.0.1.2", 3, "127.0.1.1", "127.0.1.1", "127.0.1.1"},
	} {
		env := vars(slurmEnv + EnvSecret + "=x SLURM_STEP_NODELIST=" + c.nodes)
		env["SLURM_PROCID"] = fmt.Sprint(c.rank)
		delete(env, "SLURMD_NODENAME")
		s, err := readSlurm(environ(env))
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.rendezvous(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		listen, _, _ := net.SplitHostPort(r.listen[0])
		meet, _, _ := net.SplitHostPort(r.meet[0])
		if r.host != c.host || listen != c.listen || meet != c.meet {
			t.Errorf("rank %d of %s: host %q, listens at %q, looks at %q; want %+v", c.rank, c.nodes, r.host, listen, meet, c)
		}
	}
}
