package hosts

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/contention"
	"perigee/internal/result"
)

// tc shapes the network of the host. It fails where the kernel lacks a scheduler.
func (h *host) tc(format string, args ...any) error {
	words := []string{"--target", strconv.Itoa(h.holder), "--net", "tc"}
	out, err := exec.Command("nsenter", append(words, strings.Fields(fmt.Sprintf(format, args...))...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("tc %s: %w: %s", fmt.Sprintf(format, args...), err, out)
	}
	return nil
}

// shape limits what each host receives, by the hierarchical token bucket that every distribution's kernel has; tbf is
// missing in some. Its queue is shared out packet by packet, so that flows get equal parts.
func (c *cluster) shape(t testing.TB, rate string) {
	t.Helper()
	for _, h := range c.hosts {
		for _, command := range []string{
			"qdisc add dev port%[1]d root handle 1: htb default 1",
			"class add dev port%[1]d parent 1: classid 1:1 htb rate %[2]s ceil %[2]s burst 64k cburst 64k",
			"qdisc add dev port%[1]d parent 1:1 handle 10: sfq perturb 10",
		} {
			text := fmt.Sprintf(command+"%.0[2]s", h.number, rate)
			if err := c.fabric.tc("%s", text); err != nil {
				if strings.Contains(command, "sfq") {
					continue // then the flows share a plain queue
				}
				t.Skipf("the kernel can not shape traffic: %v", err)
			}
		}
	}
}

// known is a scenario with known answers. Of three plans, a and b go to one receiver, c shares nothing with b. After all
// have run alone, a runs in each iteration and b in every other, at the same instant; or b and c in each.
const known = `return {
  ranks = 3, options = { options.enum { "rival", "half", "what runs together", choices = { "half", "disjoint" } } },
  run = function(opt)
    local function plan(name, from, to)
      local rows = { { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } }
      rows[from + 1][to + 1] = 2000000
      return transfer.prepare { name = name, matrix = matrix.from(rows), mem = "dram" }
    end
    local a, b, c = plan("a", 0, 2), plan("b", 1, 2), plan("c", 2, 0)
    transfer.warmup({ a, b, c }, 2)
    world.phase("isolated")
    for _ = 1, 6 do
      for _, p in ipairs { a, b, c } do
        world.barrier()
        p:run()
      end
    end
    transfer.collect { a, b, c }
    world.phase("workload")
    for i = 1, 20 do
      world.barrier()
      if opt.rival == "disjoint" then
        b:run()
        c:run()
      else
        a:run()
        if i % 2 == 0 then
          b:run()
        end
      end
    end
    transfer.collect { a, b, c }
  end,
}`

// Two senders to one receiver over one limited link take twice as long as one while both send: that is what the report says,
// within 15 %, against the runs in which the rival was silent. Pairs that share nothing have no contention, though they run together.
func TestContentionHasTheKnownSize(t *testing.T) {
	harness.NeedNIXL(t)
	harness.Need(t, "iproute2", "tc")
	c := newCluster(t, ipv4)
	c.shape(t, "200mbit")
	for _, rival := range []string{"half", "disjoint"} {
		t.Run(rival, func(t *testing.T) {
			dir := harness.Files(t, map[string]string{"known.lua": known})
			j := c.start(t, spec{ranks: 3, dir: dir, args: []string{"run", "known.lua", "--rival", rival, "--result", "r.json"}})
			j.mustEnd()
			doc, err := result.Read(filepath.Join(j.dir, "r.json"))
			if err != nil {
				t.Fatal(err)
			}
			var collector contention.Collector
			for i := range doc.Measurements {
				collector.Add(doc, &doc.Measurements[i])
			}
			r := collector.Report()
			if rival == "disjoint" {
				if r.Marked != 0 || r.Messages != 40 || r.Shown() {
					t.Errorf("got %+v, want no overlap of 40 messages", r)
				}
				return
			}
			// Two flows that halve a link for a share s of a message's time leave it 1 - s/2 of its bandwidth: with s = 1 it
			// takes twice as long. A plain queue may favour one flow, which then ends first, so s stays below 1.
			want := 1 / (1 - r.Share/2)
			if r.Marked != 20 || r.Of != contention.Workload || !r.Slows() || math.Abs(r.Ratio/want-1) > 0.15 || r.Share < 0.8 {
				t.Errorf("got %+v, want %.2f times against the workload's other half", r, want)
			}
		})
	}
}
