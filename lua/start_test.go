package lua

import (
	"strings"
	"testing"

	"perigee/internal/experiment"
	"perigee/internal/result"
	"perigee/spmd"
)

// Plans that start by the clock say how well they did, in runs, in the header and in the result.
func TestStartByTheClock(t *testing.T) {
	p := playWith(t, 2, `return { run = function()
		local m = matrix.from { { 0, 64 }, { 64, 0 } }
		local plan = transfer.prepare { matrix = m, mem = "dram", start = "clock" }
		for _ = 1, 5 do
			plan:initiators_barrier()
			plan:run()
		end
		plan:verify()
		local all = transfer.collect { plan }
		if all then
			for _, run in ipairs(all[1].runs) do
				assert(run.start_skew >= 0 and run.late >= 0 and run.late <= 2)
			end
		end
		result.table { columns = { { "A", "%d" } }, rows = {} }
	end }`, nil, func(*Env) {})
	if err := p.failed(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.out[0], "# start skew by the clock: median ") {
		t.Errorf("rank 0 printed\n%s", p.out[0])
	}
	for _, m := range p.doc.Measurements {
		if m.AgreedNS == nil || m.StartSkewNS == nil {
			t.Errorf("a measurement without instant or skew: %+v", m)
		}
	}
}

// More ranks than CPUs cannot start at once: a note says so, once.
func TestStartByTheClockNeedsCPUs(t *testing.T) {
	doc := &result.Document{}
	var out strings.Builder
	r := &transferModule{base: base{&Runtime{env: Env{Experiment: &experiment.Experiment{Doc: doc, Config: experiment.Config{Out: &out}}}}}}
	for range 2 {
		r.warnOfFewCPUs([]spmd.Host{{Name: "a", CPUs: 2, Ranks: []int{0, 1}}, {Name: "b", CPUs: 1, Ranks: []int{2, 3}}})
	}
	if len(doc.Notes) != 1 || !strings.Contains(doc.Notes[0], "b has 1 CPUs for 2 ranks") {
		t.Errorf("notes: %q", doc.Notes)
	}
}
