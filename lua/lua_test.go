package lua

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/traffictest"
	"perigee/spmd"
)

// What the functions give, said in Lua itself.
func TestScripts(t *testing.T) {
	for name, script := range map[string]string{
		"world": `
			assert(world.size == 3 and world.host == "memory" .. world.rank and #world.hosts == 3)
			assert(world.host_of(2) == "memory2")
			world.barrier() ; world.barrier { 0, 1, 2 }
			assert(world.broadcast(world.rank + 10) == 10)
			assert(world.broadcast(world.rank + 10, 2) == 12)
			local all = world.all_gather { r = world.rank, list = { 1, 2 } }
			assert(all[0].r == 0 and all[2].r == 2 and all[1].list[2] == 2 and all[3] == nil)
			local got = world.gather(world.rank * 2, 1)
			assert(world.rank == 1 and got[2] == 4 or world.rank ~= 1 and got == nil)
			local mail = world.all_to_all { [0] = world.rank .. ">0", [1] = world.rank .. ">1", [2] = world.rank .. ">2" }
			for r = 0, 2 do assert(mail[r] == r .. ">" .. world.rank) end
			assert(world.reduce(world.rank) == 3 and world.reduce(world.rank, "max") == 2 and world.reduce(world.rank + 5, "min") == 5)
			local sums = world.reduce({ 1, world.rank })
			assert(sums[1] == 3 and sums[2] == 3)
			assert(#world.reduce {} == 0)
			if world.rank > 0 then
				assert(world.broadcast("from " .. world.rank, nil, { 2, 1 }) == "from 2")
				local pair = world.all_gather(world.rank, { 1, 2 })
				assert(pair[0] == nil and pair[1] == 1 and pair[2] == 2)
			end
			local messages, bytes = world.traffic()
			assert(messages > 0 and bytes > 0)`,
		"nothing and everything can be sent": `
			assert(world.broadcast(nil) == nil)
			local v = world.broadcast { a = {}, b = { { true, false } }, c = 1.5, d = "\0\255", e = math.huge }
			assert(#v.a == 0 and v.b[1][2] == false and v.c == 1.5 and v.d == "\0\255" and v.e == math.huge)
			local m = world.broadcast(matrix.ring { bytes = 3 })
			assert(m[1][2] == 3 and m[3][1] == 3 and m[1][1] == 0)`,
		"clock": `
			local before = clock.now()
			clock.sleep(0.002)
			assert(clock.now() - before >= 0.002 and clock.now() - before < 5)
			assert(clock.wall() > 1.7e9 and clock.uncertainty() >= 0)`,
		"random numbers are the same everywhere": `
			local x, y, z = math.random(), math.random(6), math.random(-3, 3)
			assert(world.reduce(x, "min") == x and world.reduce(y, "max") == y and world.reduce(z, "max") == z)
			assert(x >= 0 and x < 1 and y >= 1 and y <= 6 and z >= -3 and z <= 3)
			math.randomseed(9)
			local a = math.random()
			math.randomseed(9)
			assert(math.random() == a)
			assert(not pcall(math.random, 0) and not pcall(math.random, 5, 4))`,
		"matrix": `
			local m = matrix.from { { 0, "1K", 0 }, { 0, 0, 5 }, { 0, 0, 0 } }
			assert(m:ranks() == 3 and m:total() == 1029 and m[0][1] == 1024 and m[2][2] == 0)
			assert(m:row_sum(0) == 1024 and m:column_sum(2) == 5)
			assert(table.concat(m:senders(), ",") == "0,1" and table.concat(m:receivers(), ",") == "1,2")
			assert(table.concat(m:participants(), ",") == "0,1,2")
			assert(m:transpose()[1][0] == 1024 and m:scale(2)[1][2] == 10)
			m[2][0] = 7
			assert(m[2][0] == 7 and m:total() == 1036 and #m:digest() == 64)
			assert(m == matrix.from { { 0, 1024, 0 }, { 0, 0, 5 }, { 7, 0, 0 } } and m ~= matrix.new(3))
			assert(tostring(m) == "matrix of 3 x 3 ranks, 1036 bytes")
			assert(matrix.all_to_all { bytes = 2 }:total() == 12 and matrix.all_to_all { bytes = 2, self = true }:total() == 18)
			assert(matrix.ring { ranks = 4, bytes = 1, step = -1 }[0][3] == 1)
			assert(matrix.incast { bytes = 1, root = 2 }[0][2] == 1 and matrix.outcast { bytes = 1, root = 2 }[2][0] == 1)
			local p = matrix.permutation { ranks = 8, bytes = 1 }
			for r = 0, 7 do assert(p:row_sum(r) == 1 and p:column_sum(r) == 1 and p[r][r] == 0) end
			assert(p == matrix.permutation { ranks = 8, bytes = 1 } and p ~= matrix.permutation { ranks = 8, bytes = 1, seed = 1 })
			local d = matrix.random { ranks = 20, density = 0.5, min_bytes = 3, max_bytes = 4, seed = 2 }
			assert(d:total() > 300 and d:total() < 1200)
			assert(matrix.size("64K") == 65536 and matrix.size(7) == 7)`,
		"a prepared matrix does not change": `
			local m = matrix.ring { bytes = 10 }
			local plan = transfer.prepare { matrix = m }
			m[0][1] = 1000000
			m[0][2] = 5
			assert(plan.bytes == 30 and m:total() == 1000025)
			plan:run(2)
			local runs = transfer.collect { plan }
			if runs then assert(runs[1].runs[2].rank_bytes[0] == 10) end
			plan:verify()`,
		"plan": `
			local m = matrix.from { { 0, 100, 50 }, { 0, 0, 0 }, { 0, 0, 0 } }
			local plan = transfer.prepare { name = "p", matrix = m, mem = "cpu", op = "read", shards = 2, metadata = { isl = 5 } }
			assert(plan.name == "p" and plan.bytes == 150 and plan.mem == "dram" and plan.op == "READ" and plan.shards == 2)
			assert(table.concat(plan.ranks, ",") == "0,1,2" and #plan.senders == 1 and plan.senders[1] == 0)
			assert(table.concat(plan.initiators, ",") == "1,2" and plan.takes_part and plan.initiates == (world.rank > 0))
			assert(tostring(plan) == "plan 0 p")
			assert(plan:times() == nil and plan:peer_times() == nil)
			plan:barrier() ; plan:initiators_barrier()
			plan:run() ; plan:run(2) ; plan:run { iterations = 3, record = false } ; plan:run(0)
			plan:post()
			while not plan:done() do clock.sleep(0.0001) end
			plan:wait()
			if plan.initiates then
				local t, peers = plan:times(), plan:peer_times()
				assert(t.total > 0 and t.post >= 0 and t.post <= t.total and peers[0] <= t.total and peers[0] > 0)
			end
			local runs = transfer.collect { plan }
			assert((runs ~= nil) == (world.rank == 0))
			if runs then
				assert(#runs[1].runs == 4 and runs[1].mean > 0 and runs[1].isolated == nil)
				local run = runs[1].runs[1]
				assert(run.latency > 0 and run.stop > run.start and run.uncertainty >= 0 and run.mean_bandwidth > 0)
				assert(math.abs(run.latency - (run.stop - run.start)) < 1e-6)
				assert(run.rank_bytes[1] == 100 and run.rank_bytes[2] == 50 and run.rank_seconds[2] > 0 and run.rank_seconds[0] == nil)
			end
			plan:verify()
			local heads = plan:received(4)
			if world.rank > 0 then assert(#heads[0] == 8) else assert(next(heads) == nil) end
			assert(#(plan:received()[0] or ("x"):rep(32)) == 32)
			plan:release() ; plan:release()`,
		"prepare_all, warmup, engine": `
			local a = matrix.ring { bytes = 10 }
			local plans = transfer.prepare_all { { matrix = a }, { matrix = a, op = "READ" } }
			assert(#plans == 2 and plans[1].op == "WRITE" and #transfer.prepare_all {} == 0)
			transfer.warmup(plans, 2)
			local runs = transfer.collect(plans)
			if runs then assert(#runs[1].runs == 0 and runs[1].mean == nil) end
			assert(transfer.engine().name == "shm" and transfer.default_mem() == "dram")`,
		"result": `
			result.set("x", { a = 0 / 0, b = { result.null, 2 } })
			result.note("two\nlines")
			local bar = result.progress(3, "things")
			bar:add() ; bar:add(2, 0.5) ; bar:expect(4, 1) ; bar:finish() ; bar:finish() ; bar:add()`,
		"outlier": `
			local times = {}
			for i = 1, 99 do times[i] = 500 end
			assert(patterns.outlier(times) == nil)
			times[40] = 116000
			assert(patterns.outlier(times) == "one of 99 took 116000.0 us and makes the mean 1666.7 us; without it 500.0 us")
			times[40] = 20000
			assert(patterns.outlier(times) == nil and patterns.outlier { 1, 1, 100 } == nil and patterns.outlier {} == nil)`,
		"pieces": `
			local got = {}
			for k in patterns.pieces(7) do table.insert(got, k) end
			assert(#got == 1 and got[1] == 7)
			-- An iteration takes the slowest rank 20 ms at least, so that no more than 11 begin within 200 ms.
			local plan = transfer.prepare { matrix = matrix.ring { bytes = 8 } }
			local start, begun, count, largest = clock.now(), 0, 0, 1
			for k in patterns.pieces(nil, 0.2, { plan }) do
				assert(k >= 1 and k <= 10 * largest)
				begun, count, largest = clock.now() - start, count + k, math.max(largest, k)
				for _ = 1, k do plan:run() clock.sleep(0.01 * world.rank) end
			end
			assert(world.reduce(count, "min") == world.reduce(count, "max") and count >= 1 and count <= 11)
			assert(world.reduce(clock.now() - start, "max") >= 0.2)
			local collected = transfer.collect { plan }
			if collected then assert(collected[1].runs[1].filled) end
			-- Of many runs, of a millisecond and more, a few are recorded, over the whole time.
			local few = transfer.prepare { matrix = matrix.ring { bytes = 8 } }
			local recorded, runs, late, began = 0, 0, 0, clock.now()
			for k, every in patterns.pieces(nil, 0.3, { few }, 10) do
				for i = 1, k do
					local keep = i % every == 0
					few:run { record = keep }
					clock.sleep(0.001)
					runs, recorded = runs + 1, recorded + (keep and 1 or 0)
					late = late + (keep and clock.now() - began > 0.1 and 1 or 0)
				end
			end
			local of = transfer.collect { few }
			assert(recorded <= 10 and runs > recorded and late > 0, recorded .. " of " .. runs .. ", late " .. late)
			assert(not of or #of[1].runs == recorded)
			-- What is short is done in few pieces.
			local pieces = 0
			count = 0
			for k in patterns.pieces(nil, 0.3) do pieces, count = pieces + 1, count + k end
			assert(count > pieces and world.reduce(pieces, "min") == world.reduce(pieces, "max"))
			-- However long the whole time is, a piece takes a second at most.
			local second
			for k in patterns.pieces(nil, 1000) do
				if second then second = k break end
				second = k
				clock.sleep(0.25)
			end
			assert(second <= 4, second)
			assert(not pcall(patterns.pieces))`,
		"fitting": `
			-- An iteration takes 4 ms at least.
			local tried = 0
			local n = patterns.fitting(1, function(k) tried = tried + k clock.sleep(0.002 * k * world.rank) end)
			assert(world.reduce(n, "min") == world.reduce(n, "max") and n >= 1 and n <= 250 - tried)`,
		"the order of ranks does not matter to a barrier": `
			local order = world.rank == 0 and { 2, 1, 0 } or { 0, 1, 2 }
			world.barrier(order)
			assert(world.reduce(world.rank, "sum", order) == 3)`,
		"coroutines": `
			local co = coroutine.wrap(function()
				local m = matrix.ring { bytes = 1 }
				coroutine.yield(m:total())
				world.barrier()
				return pcall(matrix.size, "12Q")
			end)
			assert(co() == 3)
			assert(co() == false)`,
		"errors can be caught where no rank waits": `
			local ok, err = pcall(matrix.size, "12Q")
			assert(not ok and err:match("^test.lua:%d+: wanted a size in bytes"), err)
			ok, err = pcall(function() return matrix.new(2).bytes end)
			assert(not ok and err:match('a matrix has no "bytes"'), err)
			ok, err = xpcall(function() matrix.new(2)[5] = 1 end, function(e) return "handled: " .. e end)
			assert(not ok and err:match("^handled: "), err)
			world.barrier()`,
		"metatables are out of reach": `
			assert(getmetatable(matrix.new(1)) == "perigee.matrix" and getmetatable(matrix.new(1)[0]) == "perigee.matrix.row")
			assert(io == nil and os == nil and not pcall(require, "io") and not pcall(require, "package") and dofile == nil and debug == nil and package == nil)`,
	} {
		t.Run(name, func(t *testing.T) { mustPlay(t, 3, body(script)) })
	}
}

// Every mistake is an error of the kind Script that says where and what.
func TestMistakes(t *testing.T) {
	const at = "test.lua:1: "
	for script, want := range map[string]string{
		`matrix.new(0)`:                              at + "argument 1: wanted a whole number of at least 1, got 0",
		`matrix.new(1.5)`:                            at + "argument 1: wanted a whole number of at least 1, got 1.5",
		`matrix.new("x")`:                            at + `argument 1: wanted a whole number of at least 1, got the string "x"`,
		`matrix.new(1e300)`:                          at + "argument 1: wanted a whole number of at least 1, got 1e+300",
		`matrix.new(2^50)`:                           at + "a matrix of 1125899906842624 ranks: wanted 1 to 1048576",
		`matrix.size(-1)`:                            at + "wanted a size in bytes, such as 4096, 64K or 1.5G, got -1",
		`matrix.size {}`:                             at + `wanted a size in bytes, such as 4096, 64K or 1.5G, got a table`,
		`matrix.from(5)`:                             "test.lua:1: bad argument #1 to from (table expected, got number)",
		`matrix.from { 5 }`:                          at + "row 0 is 5, want a list of sizes",
		`matrix.from { { 1, 2 }, { 3 } }`:            at + "row 1 has 1 cells: wanted 2",
		`matrix.from { { "x" } }`:                    at + `row 0, column 0: wanted a size in bytes, such as 4096, 64K or 1.5G`,
		`matrix.new(2):total(); matrix.new(2).x = 1`: "attempt to index",
		`local m = matrix.new(2); m.total(5)`:        at + "argument 1: wanted a matrix, got 5",
		`local r = matrix.new(2)[0]; r[2] = 1`:       at + "2 is no rank of a matrix of 2 ranks, which count from 0",
		`local r = matrix.new(2)[0]; r[0] = -1`:      at + "wanted a size in bytes, such as 4096, 64K or 1.5G, got -1",
		`local r = matrix.new(2)[0]; r.x = 1`:        at + `the string "x" is no rank`,
		`return matrix.new(2)[-1]`:                   at + "-1 is no rank",
		`matrix.new(2):scale(0/0)`:                   at + "scale by NaN",
		`matrix.ring { byte = 1 }`:                   at + `matrix.ring has an unknown field "byte"; it takes bytes, ranks, step`,
		`matrix.ring { bytes = 1, step = "a" }`:      at + `matrix.ring: step: wanted a whole number, got the string "a"`,
		`matrix.random { density = 2 }`:              at + "density 2: wanted a number of 0 to 1",
		`matrix.incast { root = 7 }`:                 at + "root 7: wanted a rank of 0 to 1",
		`matrix.new(2):save("/tmp/x")`:               at + "the scenario may not write /tmp/x",
		`result.save("/tmp/x", 1)`:                   at + "the scenario may not write /tmp/x",
		`matrix.load_all { 5 }`:                      at + "element 1: wanted the name of a file, got 5",
		`clock.sleep(-1)`:                            at + "sleep of -1 seconds: want 0 to 3.1536e+07",
		`clock.sleep(0/0)`:                           at + "sleep of NaN seconds",
		`world.barrier { 0, 0 }`:                     at + "rank 0 is twice in a group",
		`world.barrier { 5 }`:                        at + "rank 5 does not exist in a world of 2",
		`world.barrier { -1 }`:                       at + "element 1 of the list of ranks: wanted a whole number of at least 0, got -1",
		`world.barrier {}`:                           at + "a group needs at least one rank",
		`world.barrier(7)`:                           "test.lua:1: bad argument #1 to barrier (table expected, got number)",
		`world.broadcast(print)`:                     at + "a function is no data that can be sent or stored",
		`world.broadcast(1, 9)`:                      at + "root is rank 9, which is not in the group",
		`world.broadcast(1, {})`:                     at + "argument 2: wanted a whole number of at least 0, got a table",
		`local t = {}; t.t = t; world.broadcast(t)`:  at + "a table is nested more than 64 deep, or contains itself",
		`local t = {}; for i = 1, 50 do t = { t, t } end; world.broadcast(t)`:              at + "a table has more than 16777216 values",
		`world.broadcast { [{}] = 1 }`:                                                     at + "a table that is sent or stored has a key of type table",
		`world.broadcast { [2] = 1, ["2"] = 1 }`:                                           at + "a table that is sent or stored has both numbers and strings as keys: 2 and the string \"2\"",
		`world.reduce("x")`:                                                                at + `world.reduce: element 1 is the string "x", want a finite number`,
		`world.reduce(0/0)`:                                                                at + "world.reduce: element 1 is NaN, want a finite number",
		`world.reduce(1, "mean")`:                                                          at + `unknown reduction "mean": want sum, min or max`,
		`world.host_of(2)`:                                                                 at + "rank 2 does not exist in a world of 2",
		`transfer.prepare {}`:                                                              at + "transfer.prepare: matrix: wanted a matrix (or exchange, a list of messages), got nothing",
		`transfer.prepare { matrix = 5 }`:                                                  at + "transfer.prepare: matrix: wanted a matrix (or exchange, a list of messages), got 5",
		`transfer.prepare { matrix = result.null }`:                                        at + "transfer.prepare: matrix: wanted a matrix (or exchange, a list of messages), got a userdata",
		`transfer.prepare { matrix = matrix.new(2), op = "COPY" }`:                         at + `transfer.prepare: op: unknown operation "COPY": want WRITE or READ`,
		`transfer.prepare { matrix = matrix.new(2), mem = "hbm" }`:                         at + `transfer.prepare: mem: unknown memory type "hbm"`,
		`transfer.prepare { matrix = matrix.new(2), shards = 0 }`:                          at + "transfer.prepare: shards: wanted a whole number of at least 1, got 0",
		`transfer.prepare { matrix = matrix.new(2), metadata = { 1 } }`:                    at + "transfer.prepare: metadata: wanted a table with names as keys, got a table",
		`transfer.prepare { matrix = matrix.new(2), sleep_before = -1 }`:                   at + "transfer.prepare: sleep_before: wanted a number of seconds, 0 or more, got -1",
		`transfer.prepare { matrix = matrix.new(2), start = "now" }`:                       at + `transfer.prepare: start: wanted "barrier" or "clock", got the string "now"`,
		`transfer.prepare { matrix = matrix.new(2), meet = "none" }`:                       at + `transfer.prepare: meet: wanted "initiators" or "all", got the string "none"`,
		`transfer.prepare { matrix = matrix.new(2), metadata = { x = print } }`:            at + "transfer.prepare: metadata: a function is no data",
		`transfer.prepare_all { 7 }`:                                                       at + "element 1: wanted a table as for transfer.prepare, got 7",
		`transfer.warmup({ 1 }, 1)`:                                                        at + "element 1 of the list of plans is 1, want a plan",
		`transfer.warmup({}, -1)`:                                                          at + "argument 2: wanted a whole number of at least 0, got -1",
		`transfer.collect { matrix.new(1) }`:                                               at + "element 1 of the list of plans is a userdata, want a plan",
		`local p = transfer.prepare { matrix = matrix.new(2) }; p.run()`:                   at + "argument 1: wanted a plan; methods are called with a colon: plan:run(), got nothing",
		`local p = transfer.prepare { matrix = matrix.new(2) }; p:run(-1)`:                 at + "argument 2: wanted a whole number of at least 0, got -1",
		`local p = transfer.prepare { matrix = matrix.new(2) }; p:run { n = 1 }`:           at + `plan:run has an unknown field "n"; it takes iterations, record`,
		`local p = transfer.prepare { matrix = matrix.new(2) }; p:received(-1)`:            at + "argument 2: wanted a whole number of at least 0, got -1",
		`local p = transfer.prepare { matrix = matrix.new(2) }; return p.byte`:             at + `a plan has no "byte"`,
		`local p = transfer.prepare { matrix = matrix.new(2) }; p:release() p:run()`:       at + "traffic pattern: the plan has been released",
		`local p = transfer.prepare { matrix = matrix.new(2) }; p:wait()`:                  at + "traffic pattern: the plan has not been posted",
		`local p = transfer.prepare { matrix = matrix.new(2) }; transfer.collect { p, p }`: at + "collect: traffic pattern is there twice",
		`result.progress(-1)`:                                                              at + "argument 1: wanted a whole number of at least 0, got -1",
		`result.progress(1):add("x")`:                                                      at + `argument 2: wanted a whole number of at least 0, got the string "x"`,
		`result.progress(1).total()`:                                                       at + `a progress bar has no "total"`,
		`result.set("\255", 1)`:                                                            at + `what is stored has the key "\xff", want keys in UTF-8`,
		`result.set("x", { { ["\255"] = 1 } })`:                                            at + `what is stored has the key "\xff", want keys in UTF-8`,
		`world.phase("\255")`:                                                              at + `world.phase is "\xff", want text in UTF-8`,
		`result.set("x", print)`:                                                           at + "a function is no data",
		`result.table { columns = {} }`:                                                    at + "result.table needs columns and rows",
		`result.table { columns = { "A" }, rows = {} }`:                                    at + `result.table: column 1: wanted {name, format}, got the string "A"`,
		`result.table { columns = { {} }, rows = {} }`:                                     at + "result.table: the name of column 1 is missing, want a string",
		`result.table { columns = { { "A", "%d%d" } }, rows = {} }`:                        at + `result.table: column A has the format "%d%d", want one such as`,
		`result.table { columns = { { "A", "%x" } }, rows = {} }`:                          at + `result.table: column A has the format "%x"`,
		`result.table { columns = { { "A", "%9999999d" } }, rows = {} }`:                   at + `result.table: column A has the format "%9999999d"`,
		`result.table { columns = { { "A", "%d" } }, rows = { { 1.5 } } }`:                 at + "result.table: row 1, column A is 1.5, which does not go with the format %d",
		`result.table { columns = { { "A", "%.1f" } }, rows = { { 1 }, { "x" } } }`:        at + `result.table: row 2, column A is the string "x", which does not go with the format %.1f`,
		`result.table { columns = { { "A" } }, rows = { 5 } }`:                             at + "result.table: row 1 is 5, want a list",
		`result.table { columns = { { "A" } }, rows = { { 1, 2 } } }`:                      at + "result.table: row 1 has 2 cells for 1 columns",
		`result.table { columns = { { "A" }, { "A" } }, rows = {} }`:                       at + `result.table: table: two columns named "A"`,
		`config.load("/no/such/file.yaml")`:                                                "/no/such/file.yaml",
		`config.load("x.yaml", { { name = "a", type = "integer" } })`:                      `integer`,
		`config.load("/etc/hostname")`:                                                     `wanted a file that ends in .yaml, .yml, .json, .toml, .csv, .jsonl or .ndjson`,
		`error("mine")`:                                                                    at + "mine",
		`error({})`:                                                                        at + "error was called with a table",
		`error(nil)`:                                                                       at + "error was called with nil",
		`os.time()`:                                                                        at + "os is nil, and time is asked of it; scripts have no os",
		`io.open("x")`:                                                                     at + "io is nil, and open is asked of it; scripts have no io",
		`matrix.new(2):set(0, 1, 5)`:                                                       at + `a matrix has no "set": m[i][j] = bytes sets a cell`,
		`matrix.new { { 0, 1 }, { 1, 0 } }`:                                                at + "matrix.new takes a number of ranks; matrix.from makes a matrix of the rows",
		`clock.sleep("2ms")`:                                                               at + `sleep takes a number of seconds, such as 0.002, got the string "2ms"`,
		`local x = nil; x.y = 1`:                                                           at + "x is nil, and y is asked of it",
		`local function f() return f() + 1 end f()`:                                        "stack overflow",
	} {
		t.Run(script, func(t *testing.T) {
			p := playScript(t, 2, body(script), nil)
			err := p.errs[0]
			if err == nil {
				t.Fatalf("no error, want %s", want)
			}
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if kind := fault.KindOf(err); kind != fault.Script && kind != fault.Input {
				t.Errorf("%v is of kind %v", err, kind)
			}
		})
	}
}

func TestSyntaxErrors(t *testing.T) {
	for source, want := range map[string]string{
		"x = = 1":                                     "bad.lua:1: near '=': syntax error",
		"\n\nlocal x = (1":                            "bad.lua: at EOF: syntax error",
		"lokal x = 1":                                 `bad.lua:1: near 'x': parse error at column 7; lokal: did you mean "local"?`,
		"local t = { 1, 2\nprint(t)":                  "bad.lua:2: near 'print': syntax error at column 1",
		"\nfor":                                       "bad.lua",
		"return 5":                                    "bad.lua: the script returned number, want a table",
		"return {}":                                   "bad.lua: the scenario has no function run",
		"return { run = 5 }":                          "bad.lua: the scenario: run: wanted a function, got 5",
		"error('no')":                                 "bad.lua:1: no",
		"\nlocal x = nil + 1":                         "bad.lua:2: cannot perform add operation between nil and number",
		"world.barrier()":                             "bad.lua:1: there is no world yet: only the function run has one",
		"transfer.engine()":                           "bad.lua:1: there is no world yet",
		"config.load('x.yaml')":                       "bad.lua:1: config.load of x.yaml at the top level of a script, which every rank runs by itself",
		"\nmatrix.load('m.txt')":                      "bad.lua:2: matrix.load of m.txt at the top level of a script",
		"matrix.load_all {'a', 'b'}":                  "bad.lua:1: matrix.load of a, b at the top level of a script",
		"matrix.ring{bytes=1}":                        "bad.lua:1: matrix.ring: ranks: wanted a number of ranks, since there is no world yet, got nothing",
		"return { run = print, rnaks = 2 }":           `bad.lua: the scenario has an unknown field "rnaks"; it takes about, metrics, options, ranks, run`,
		"return { run = print, ranks = 'two' }":       `bad.lua: the scenario: ranks: wanted a number or a function, got the string "two"`,
		"return { run = print, about = {} }":          "bad.lua: the scenario: about: wanted a string, got a table",
		"return { run = print, options = { 5 } }":     "bad.lua: options: element 1: wanted options.int{...} or the like, got 5",
		"return { run = print, options = { {'a'} } }": "bad.lua: options: element 1: a is not made by the module options",
		"return { run = print, options = { options.int {'A b'} } }":                            `bad.lua: options: element 1: the name "A b" must be small letters, digits and hyphens`,
		"return { run = print, options = { options.int {'a', 'x'} } }":                         "bad.lua: options: element 1: --a: wanted a whole number, got the text \"x\"",
		"return { run = print, options = { options.int {'a', 1e9, max = 1e8} } }":              "bad.lua: options: element 1: --a: wanted a whole number of at most 100000000, got 1000000000",
		"return { run = print, options = { options.int {'a', 5, min = 6} } }":                  "bad.lua: options: element 1: --a: wanted a whole number of at least 6, got 5",
		"return { run = print, options = { options.int {'a', maximum = 6} } }":                 `bad.lua: options: element 1: option has an unknown field "maximum"`,
		"return { run = print, options = { options.enum {'a'} } }":                             "bad.lua: options: element 1: a: choices go with options.enum",
		"return { run = print, options = { options.string {'a', min = 1} } }":                  "bad.lua: options: element 1: a: min and max go with int, number, size and tokens only",
		"return { run = print, options = { options.bool {'a', arg = true} } }":                 "bad.lua: options: element 1: a: a bool cannot be an argument",
		"return { run = print, options = { options.int {'a', instead_of = 'b'} } }":            `bad.lua: options: a: instead_of names "b", which is no option of the list`,
		"return { run = print, options = { options.int {'a'}, options.int {'a'} } }":           "bad.lua: options: a is there twice",
		"return { run = print, options = { options.bool {'help'} } }":                          "bad.lua: options: element 1: no option can have the name help: --help is perigee's own",
		"return { run = print, options = { options.string {'version'} } }":                     "bad.lua: options: element 1: no option can have the name version: --version is perigee's own",
		"return { run = print, options = { options.enum {'a', 'b', choices = {'b', '-c'}} } }": "bad.lua: options: element 1: a: choices cannot begin with a hyphen",
		"return { run = print, options = { options.bool {'a', choices = {'--b'}} } }":          "bad.lua: options: element 1: a: choices cannot begin with a hyphen",
		strings.Repeat("x = {", 300):                                                           "bad.lua",
	} {
		r, err := Load("bad.lua", source, io.Discard)
		if err == nil {
			r.Close()
			t.Errorf("%s: no error, want %s", source, want)
			continue
		}
		if !strings.HasPrefix(err.Error(), want) || fault.KindOf(err) != fault.Script {
			t.Errorf("%s:\ngot  %v (%v)\nwant %s", source, err, fault.KindOf(err), want)
		}
	}
}

// An error at one rank ends the job there and then, even if the script would
// rather go on, since the others wait.
func TestFailedCollectivesEndTheJob(t *testing.T) {
	for _, script := range []string{
		`world.broadcast(print)`, `world.barrier(5)`, `transfer.prepare { matrix = 1 }`, `matrix.load("/no/such/file")`,
		`config.load("/no/such/file.yaml")`, `world.reduce("x")`,
	} {
		p := playScript(t, 3, body(`
			if world.rank == 0 then
				while true do
					local ok, err = pcall(function() `+script+` end)
					if err:match("no world") then error(err, 0) end
					caught = (caught or 0) + 1
					if caught > 1000 then error("given up after " .. err, 0) end
				end
			end
			world.barrier()`), nil)
		if p.errs[0] == nil || p.errs[1] == nil || p.errs[2] == nil {
			t.Errorf("%s: got %v, want a failure everywhere", script, p.errs)
		}
	}
	worlds, _ := spmd.NewInMemory(2)
	r, err := Load("x.lua", body(`pcall(world.broadcast, print)`), io.Discard)
	must.Do(t, err)
	defer r.Close()
	r.Begin(testEnv(worlds[0], io.Discard))
	if err := r.Run(nil); err != nil {
		t.Errorf("the script caught the error, but the run failed: %v", err)
	}
	if err := worlds[0].Err(); err == nil || !strings.Contains(err.Error(), "x.lua:1: ") && !strings.Contains(err.Error(), "a function is no data") {
		t.Errorf("the job goes on: %v", err)
	}
}

func TestErrorAtAnotherRank(t *testing.T) {
	p := playScript(t, 3, body("if world.rank == 2 then\n local x = nil + 1\nend\nworld.barrier()"), nil)
	if err := p.errs[2]; err == nil || err.Error() != "test.lua:2: cannot perform add operation between nil and number" {
		t.Errorf("rank 2: %v", err)
	}
	for _, r := range []int{0, 1} {
		if err := p.errs[r]; err == nil || !strings.Contains(err.Error(), "test.lua:2: cannot perform add") {
			t.Errorf("rank %d does not know why it ended: %v", r, err)
		}
	}
}

func TestRanksMustLoadTheSame(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.txt", "b.txt"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("0 1\n1 0\n"), 0o644))
	}
	p := playScript(t, 2, body(fmt.Sprintf(`matrix.load(%q .. (world.rank == 0 and "/a.txt" or "/b.txt"))`, dir)), nil)
	want := fmt.Sprintf("test.lua:1: rank 0 is in matrix.load of %s/a.txt, this rank in matrix.load of %s/b.txt", dir, dir)
	if err := p.errs[1]; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestFilesAreReadOnce(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"m.txt":   "0 5\n1K 0\n",
		"t.csv":   "name,size\nx,5\n,\n",
		"t.jsonl": "{\"a\": NaN}\n[1]\n",
		"c.yaml":  "a: 1\nbig: 1234567890123456789\nempty: {}\nlist: []\nnothing: null\ninner: {n: null, x: 1.5, y: [1, [2]]}\n",
	}
	for name, text := range files {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	p := mustPlay(t, 3, body(fmt.Sprintf(`
		local dir = %q
		local m = matrix.load(dir .. "/m.txt")
		assert(m[1][0] == 1024 and m[0][1] == 5)
		local both = matrix.load_all { dir .. "/m.txt", dir .. "/m.txt" }
		assert(#both == 2 and both[1] == both[2] and #matrix.load_all {} == 0)
		local c = config.load(dir .. "/c.yaml")
		assert(c.a == 1 and c.inner.x == 1.5 and c.inner.y[2][1] == 2 and c.nothing == nil and tostring(c.big) == "1234567890123456789")
		local t, lines = config.load(dir .. "/t.csv"), config.load(dir .. "/t.jsonl")
		assert(#t == 2 and t[1].name == "x" and t[1].size == 5 and next(t[2]) == nil)
		assert(lines[1].a ~= lines[1].a and lines[2][1] == 1)
		c = world.broadcast(c)
		result.set("config", c)`, dir)))
	got := fmt.Sprintf("%#v", p.doc.Values["config"])
	const want = `map[string]interface {}{"a":1, "big":1234567890123456789, "empty":map[string]interface {}{}, "inner":map[string]interface {}{"x":1.5, "y":[]interface {}{1, []interface {}{2}}}, "list":[]interface {}{}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Files that the user named as outputs may be written, others only with --allow-io.
func TestOutputs(t *testing.T) {
	dir := t.TempDir()
	source := fmt.Sprintf(`return {
		options = { options.output { "out" }, options.output { "other", %q } },
		run = function(opt)
			assert(not pcall(result.save, opt.other, 1)) -- it is the script that has named it
			result.save(opt.out, { list = { 1, result.null, 3 }, nan = 0 / 0, inf = { x = -1 / 0 } })
			assert(not pcall(result.save, opt.out .. "2", 1))
		end,
	}`, dir+"/other.json")
	for r, err := range playScript(t, 2, source, map[string]any{"out": dir + "/out.json"}).errs {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	data, err := os.ReadFile(dir + "/out.json")
	if want := "{\n  \"inf\": {\n    \"x\": null\n  },\n  \"list\": [\n    1,\n    null,\n    3\n  ],\n  \"nan\": null\n}\n"; err != nil || string(data) != want {
		t.Errorf("got %s, %v; want %s", data, err, want)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("files %v, %v; want only out.json", entries, err)
	}
	traffictest.Worlds(t, 1, func(w *spmd.World) error {
		r, err := Load("x.lua", body(fmt.Sprintf(`matrix.ring { bytes = 1, ranks = 2 }:save(%q)`, dir+"/m.txt")), io.Discard)
		if err != nil {
			t.Error(err)
			return err
		}
		defer r.Close()
		r.Permit(Access{AllowIO: true})
		r.Begin(testEnv(w, io.Discard))
		if err := r.Run(nil); err != nil {
			t.Error(err)
		}
		return nil
	})
	if data, err := os.ReadFile(dir + "/m.txt"); err != nil || strings.Join(strings.Fields(string(data)), " ") != "0 1 1 0" {
		t.Errorf("the saved matrix is %q, %v", data, err)
	}
}

// What scripts say lands in the result, and rank 0 prints it.
func TestResultDocument(t *testing.T) {
	p := mustPlay(t, 2, body(`
		world.phase("prepare")
		local m = matrix.ring { bytes = 10 }
		local plans = transfer.prepare_all { { name = "a", matrix = m, metadata = { isl = 7 } }, { matrix = m, op = "READ", shards = 3, sleep_before = 0.25, sleep_after = 2, meet = "all" } }
		world.phase("work")
		for _ = 1, 2 do
			plans[1]:run(2)
			transfer.collect(plans)
		end
		plans[2]:run()
		transfer.collect(plans)
		result.table { title = "t", columns = { { "Name" }, { "N", "%d" }, { "X", "%.2f" }, { "S", "%5v" } }, rows = { { "x", 1, 2, 3 }, { "y", nil, 0 / 0 } } }
		result.note("one\ntwo")
		result.set("k", 5)
		print("a", 1, nil, { } ~= nil)`))
	d := p.doc
	if len(d.Matrices) != 1 || len(d.Patterns) != 2 || d.Patterns[1].Shards != 3 || d.Patterns[1].Op != "READ" || d.Patterns[0].Metadata["isl"] != int64(7) ||
		d.Patterns[1].SleepBefore != 0.25 || d.Patterns[1].SleepAfter != 2 || d.Patterns[0].SleepBefore != 0 ||
		d.Patterns[0].Meet != "" || d.Patterns[1].Meet != "all" {
		t.Errorf("patterns %+v of %d matrices", d.Patterns, len(d.Matrices))
	}
	var got []string
	for _, m := range d.Measurements {
		got = append(got, fmt.Sprintf("%d %s %d", m.Pattern, m.Phase, m.Iteration))
	}
	if want := "[0 work 0 0 work 1 0 work 2 0 work 3 1 work 0]"; fmt.Sprint(got) != want {
		t.Errorf("measurements %v, want %s", got, want)
	}
	if len(d.Phases) != 2 || d.Phases[0].Name != "prepare" || d.Phases[1].StartNS <= d.Phases[0].StartNS || d.Values["k"] != int64(5) || d.Engine.Name != "shm" {
		t.Errorf("phases %v, values %v, engine %v", d.Phases, d.Values, d.Engine)
	}
	lines := strings.Split(p.out[0], "\n")
	want := []string{
		"# engine: shm", "# note: memory type not given, using dram",
		"# t", "  Name    N     X      S", "------", "     x    1  2.00      3", "     y    -     -      -", "# note: one", "# two", "a\t1\tnil\ttrue", "",
	}
	for i := range max(len(lines), len(want)) {
		if i >= len(lines) || i >= len(want) || !strings.HasPrefix(lines[i], want[i]) {
			t.Fatalf("rank 0 printed\n%s\nwant lines that begin with\n%s", p.out[0], strings.Join(want, "\n"))
		}
	}
	if p.out[1] != "a\t1\tnil\ttrue\n" {
		t.Errorf("rank 1 printed %q", p.out[1])
	}
}

func TestRanks(t *testing.T) {
	for script, want := range map[string]string{
		`ranks = 4`:                              "4",
		`ranks = function(opt) return opt.n end`: "7",
		`ranks = function() end`:                 "0",
		`about = "x"`:                            "0",
		`ranks = 0`:                              "x.lua: ranks: wanted a whole number of at least 1, got 0",
		`ranks = 2.5`:                            "x.lua: ranks: wanted a whole number of at least 1, got 2.5",
		`ranks = function() return "a" end`:      `x.lua: ranks: wanted a whole number of at least 1, got the string "a"`,
		`ranks = function() return nil + 1 end`:  "x.lua:1: cannot perform add operation between nil and number",
		`ranks = function() return matrix.from({{0, 1}, {0, 0}}):ranks() end`: "2",
	} {
		r, err := Load("x.lua", "return { run = print, "+script+" }", io.Discard)
		if err != nil {
			t.Errorf("%s: %v", script, err)
			continue
		}
		n, err := r.Ranks(map[string]any{"n": int64(7)})
		got := fmt.Sprint(n)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", script, got, want)
		}
		r.Close()
	}
}

// A defect of perigee itself is an error with the script's line, not a crash.
func TestPanicsBecomeErrors(t *testing.T) {
	r, err := Load("x.lua", body("\nboom()"), io.Discard)
	must.Do(t, err)
	defer r.Close()
	state(r).SetGlobal("boom", r.host.vm.Function(func(*glua.LState) (int, error) {
		var none []int
		return none[3], nil
	}))
	err = r.Run(nil)
	if err == nil || fault.KindOf(err) != fault.Internal || !strings.HasPrefix(err.Error(), "x.lua:2: panic: runtime error: index out of range") {
		t.Errorf("got %v of kind %v", err, fault.KindOf(err))
	}
}

// Errors from below keep their kind and their hint on the way through Lua, also
// if the script throws them again.
func TestKindsSurvive(t *testing.T) {
	for _, script := range []string{
		`config.load("/no/such/file.yaml")`,
		`local ok, err = pcall(config.load, "/no/such/file.yaml"); error(err, 0)`,
	} {
		r, err := Load("x.lua", body(script), io.Discard)
		must.Do(t, err)
		r.Permit(Access{Folder: "/"})
		if err := r.Run(nil); fault.KindOf(err) != fault.Input {
			t.Errorf("%s: got %v of kind %v", script, err, fault.KindOf(err))
		}
		r.Close()
	}
}

// What a script prints cannot command a terminal.
func TestPrintIsPlain(t *testing.T) {
	p := mustPlay(t, 1, body(`print("a\27]0;title\7b", "two\nlines", "ü\t|")`))
	if want := "a\\x1b]0;title\\ab\ttwo\nlines\tü\t|\n"; !strings.Contains(p.out[0], want) {
		t.Errorf("got %q, want %q", p.out[0], want)
	}
	p = mustPlay(t, 1, body(`
		result.note("note \27[2J")
		result.table { title = "title \155", columns = { { "column \27c", "%s" } }, rows = { { "cell \r" } } }
		result.table { title = "stream \27[1m", stream = true, columns = { { "A\8", "%s" } } }`))
	if strings.ContainsAny(p.out[0], "\x1b\x9b\r\b") || !strings.Contains(p.out[0], `note \x1b[2J`) ||
		!strings.Contains(p.out[0], `stream \x1b[1m`) {
		t.Errorf("got %q", p.out[0])
	}
}

// A silent column is in the result and not in the output, whether the rows come at once or one by one.
func TestSilentColumns(t *testing.T) {
	p := mustPlay(t, 1, body(`
		local columns = { { "Kept", "%d" }, { "Hidden", "%d", silent = true }, { "Last", "%d" } }
		result.table { columns = columns, rows = { { 1, 77, 3 } }, keys = 1 }
		local t = result.table { columns = columns, stream = true }
		t:row { 4, 77, 6 }
		t:finish()`))
	if out := p.out[0]; strings.Contains(out, "Hidden") || strings.Contains(out, "77") || strings.Count(out, "Last") != 2 {
		t.Errorf("got %q", out)
	}
	for i, want := range [][]any{{int64(1), int64(77), int64(3)}, {int64(4), int64(77), int64(6)}} {
		table := p.doc.Tables[i]
		if !slices.Equal(table.Columns, []string{"Kept", "Hidden", "Last"}) || !slices.Equal(table.Rows[0], want) {
			t.Errorf("table %d: %+v", i, table)
		}
	}
}

// Words with commas between them are known ones, in the order in which they are given.
func TestWords(t *testing.T) {
	if p := mustPlay(t, 1, body(`print(table.concat(options.words("columns", " by rank,p50", { "p50", "by rank" }), "|"))`)); !strings.Contains(p.out[0], "by rank|p50\n") {
		t.Errorf("got %q", p.out[0])
	}
	for text, want := range map[string]string{
		"p5":   `--columns: wanted one of p50, by rank, got "p5"; did you mean "p50"?`,
		"p50,": `--columns: wanted one of p50, by rank, got ""`,
		"":     `--columns: wanted one of p50, by rank, got ""`,
	} {
		p := playScript(t, 1, body(`options.words("columns", "`+text+`", { "p50", "by rank" })`), nil)
		must.Fail(t, p.failed(), fault.Usage, want)
	}
	if err := playScript(t, 1, body(`options.words("columns", "p50", { "p50", 3 })`), nil).failed(); fault.KindOf(err) != fault.Script {
		t.Error(err)
	}
}

// Errors of the VM name what is wrong and what was meant.
func TestMistakesAreExplained(t *testing.T) {
	for statement, want := range map[string]string{
		`wrold.barrier()`:    `wrold is nil, and barrier is asked of it; did you mean "world"?`,
		`transfer.prepar {}`: `there is no transfer.prepar; did you mean "prepare"?`,
		`prnt("x")`:          `there is no function prnt; did you mean "print"?`,
		`matrix.ring { bytes = 1 }; prnt("x" .. tstring(1))`:  `there is no function prnt; did you mean "print"?`,
		`print(matrix.ring { bytes = 1 }, "x" .. tostrin(1))`: `there is no function tostrin; did you mean "tostring"?`,
		`local x = nil; print(#x)`:                            "functions that gather, such as transfer.collect, return nil at ranks other than 0",
		`transfer.prepare { matirx = 1 }`:                     `did you mean "matrix"?`,
		`local a = {} ; a.b.c = 1`:                            "attempt to index",
	} {
		p := playScript(t, 1, body("\n"+statement), nil)
		if err := p.failed(); err == nil || !strings.HasPrefix(err.Error(), "test.lua:2: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", statement, err, want)
		}
	}
}

// A number that JSON does not have is null in the result, and a note names it, once for each value.
func TestNotFiniteValues(t *testing.T) {
	p := playScript(t, 2, body(`
		for _ = 1, 3 do result.set("x", { a = 0 / 0, b = { result.null, 2, -1 / 0 } }) end
		result.set("y", 1 / 0)
		result.set("z", { 1, "nan" })`), nil)
	must.Do(t, p.failed())
	want := []string{
		"result.set: x.a is NaN, and 1 more are NaN or infinite: null in the result",
		"result.set: y is +Inf: null in the result",
	}
	if !slices.Equal(p.doc.Notes, want) {
		t.Errorf("notes %q, want %q", p.doc.Notes, want)
	}
	for _, line := range want {
		if n := strings.Count(p.out[0], "# note: "+line+"\n"); n != 1 {
			t.Errorf("%q is %d times in the output\n%s", line, n, p.out[0])
		}
	}
}
