package boot

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Debian gives a host's own name an address of the loopback interface. Only if Slurm itself
// says that the nodes are there do the ranks meet where no other host can.
func TestWhereTheRanksOfAStepMeet(t *testing.T) {
	dir := t.TempDir()
	scontrol := "#!/bin/sh\n[ $4 = n..1 ] && echo NodeName=$4 NodeAddr=127.0.1.1 State=IDLE || echo NodeAddr=203.0.113.8\n"
	if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte(scontrol), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	for _, c := range []struct {
		nodes string // with two dots, names that no resolver knows
		host  string // to which the ranks confine themselves
		meet  string
	}{
		{"127.0.1.1,203.0.113.9", "", "127.0.1.1"}, // as the resolver of rank 0's host has it
		{"203.0.113.8,127.0.1.1", "", "203.0.113.8"},
		{"n..1,n..2", "127.0.1.1", "127.0.1.1"},
		{"n..2,n..1", "", "203.0.113.8"},
	} {
		for _, rank := range []string{"0", "1", "3"} {
			env := vars(slurmEnv + EnvSecret + "=0123456789abcdef SLURM_STEP_NODELIST=" + c.nodes)
			env["SLURM_PROCID"] = rank
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
			if r.host != c.host || listen != c.host || meet != c.meet {
				t.Errorf("rank %s of %s: confined to %q, listens at %q, looks at %q; want %+v", rank, c.nodes, r.host, listen, meet, c)
			}
		}
	}
}
