package lua

import (
	"strings"
	"testing"

	"perigee/internal/kit/must"
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
	must.Do(t, p.failed())
	if !strings.Contains(p.out[0], "# start skew by the clock: median ") {
		t.Errorf("rank 0 printed\n%s", p.out[0])
	}
	for _, m := range p.doc.Measurements {
		if m.AgreedNS == nil || m.StartSkewNS == nil {
			t.Errorf("a measurement without instant or skew: %+v", m)
		}
	}
}
