package hosts

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// ring sends 2 MiB from each rank to the next, 10 times, and then stays for some time.
const ring = `return {
  options = { options.int { "stay", 0, "seconds to stay after the transfers" } },
  run = function(opt)
    local plan = transfer.prepare { name = "ring", matrix = matrix.ring { bytes = "2MiB" } }
    world.barrier()
    plan:run(10)
    world.barrier()
    if world.rank == 0 then print("all is sent") end
    clock.sleep(opt.stay)
  end,
}
`

// What the NICs count of a known plan: headers in segments of 1448 bytes, whatever else the hosts send, and nothing
// where all ranks are on one host.
func TestAccounts(t *testing.T) {
	harness.NeedNIXL(t)
	harness.Need(t, "bash", "bash", "dd")
	t.Parallel()
	c := newCluster(t, ipv4)
	for _, h := range c.hosts {
		h.ip("link set eth0 gso_max_segs 1") // the NIC counts segments as they are on a wire
	}
	c.hosts[0].ip("route add 239.0.0.0/8 dev eth0")
	play := func(s spec, during func(j *job)) (out string, a *result.Accounts) {
		t.Helper()
		s.dir = harness.Files(t, map[string]string{"ring.lua": ring})
		s.ranks, s.args = 3, append([]string{"run", "ring.lua", "--result", "r.json"}, s.args...)
		j := c.start(t, s)
		if during != nil {
			j.untilPrints("all is sent")
			during(j)
		}
		out = j.mustEnd()
		doc, err := result.Read(filepath.Join(s.dir, "r.json"))
		must.Do(t, err)
		if a = doc.Accounts; a == nil || a.Total.Plan != 3*10*2<<20 || a.Total.Sent == nil || a.Total.Received == nil {
			t.Fatalf("accounts %+v of %+v\n%s", a, doc.Network, out)
		}
		return out, a
	}
	// whole is the account of the only phase, which is that of the run.
	check := func(a *result.Accounts, out string, least, most float64, verdict string) {
		t.Helper()
		if n := a.Total.Resent; n == 1 {
			verdict = strings.TrimSuffix(verdict, ", or bytes sent again") + ", and 1 segment sent again"
		} else if n > 1 {
			verdict = fmt.Sprintf("%s, and %d segments sent again", strings.TrimSuffix(verdict, ", or bytes sent again"), n)
		}
		ratio, ok := a.Total.NICRatio()
		if !ok || ratio < least || ratio > most || a.Total.Verdict != fmt.Sprintf("NICs %.3f: %s", ratio, verdict) {
			t.Errorf("ratio %.3f, want %v to %v; %+v", ratio, least, most, a.Total)
		}
		harness.Contains(t, "stdout", out, "# accounts: plan 62.9 MB, NICs ", verdict+")\n")
		if len(a.Phases) != 1 || *a.Phases[0].Sent != *a.Total.Sent {
			t.Errorf("phases %+v", a.Phases)
		}
	}

	out, a := play(spec{}, nil)
	check(a, out, 1.02, 1.08, "headers")

	out, a = play(spec{args: []string{"--stay", "3"}}, func(*job) {
		dd := c.hosts[0].Enter("/")
		dd = append(dd, "bash", "-c", "dd if=/dev/zero bs=1400 count=40000 status=none > /dev/udp/239.1.1.1/9")
		if text, err := exec.Command(dd[0], dd[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	})
	check(a, out, 1.5, 2.2, "other traffic on the hosts, or bytes sent again")

	out, a = play(spec{local: true, env: []string{"UCX_TLS=tcp"}}, nil)
	if a.Total.Between != 0 || *a.Total.Sent > 100_000 || a.Total.Verdict != "" || strings.Contains(out, "# accounts:") {
		t.Errorf("one host: %+v\n%s", a.Total, out)
	}
}
