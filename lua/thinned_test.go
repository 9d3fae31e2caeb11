package lua

import "testing"

// Of many runs the result and the script keep some; totals are those of all.
func TestSomeRunsAreKept(t *testing.T) {
	p := mustPlay(t, 3, body(`
			local plan = transfer.prepare { matrix = matrix.ring { bytes = 8 } }
			world.phase("workload")
			for i = 1, 100 do
				if i % 10 == 1 then transfer.keep() else transfer.keep(0) end
				world.barrier()
				plan:run()
				local collected = transfer.collect { plan }
				if collected then
					assert(#collected[1].runs == (i % 10 == 1 and 1 or 0))
					assert(i == 1 or #collected[1].runs == 0 or collected[1].runs[1].filled)
				end
			end
			-- The first six, in whatever calls.
			transfer.keep(6)
			for _ = 1, 25 do
				plan:gap()
				plan:run(4)
			end
			local collected = transfer.collect { plan }
			assert(not collected or #collected[1].runs == 6)
			local all = transfer.totals { plan }
			assert((all ~= nil) == (world.rank == 0))
			if all then
				assert(all[1].runs == 200 and all[1].kept == 16, all[1].runs .. " " .. all[1].kept)
				assert(all[1].latency > 0 and all[1].seconds > 0 and all[1].rank_bytes[1] == 1600)
				assert(all[1].rank_seconds[0] > 0 and all[1].rank_seconds[0] < all[1].seconds * 200)
			end
			world.phase("later")
			local none = transfer.totals { plan }
			assert(not none or none[1] == false)`))
	if n, all := len(p.doc.Measurements), p.doc.TotalsOf(0, "workload"); n != 16 || all == nil || all.Runs != 200 || all.Kept != n {
		t.Errorf("%d measurements, totals %+v", n, all)
	}
}
