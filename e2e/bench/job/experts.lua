-- Prints medians over iterations of the slowest rank, in nanoseconds: a dispatch, a combine and both after a barrier;
-- the messages of a dispatch and of a combine, again and again, from a barrier until all are there (moving); and a plain
-- all-to-all of the same routed bytes from a barrier until they are there (plain). The last two take turns.
-- Then the bytes of the dispatch from each rank to each.

local function median(list)
  table.sort(list)
  return list[math.floor(#list / 2) + 1]
end

-- Runs a plan so many times, each after a barrier, until the bytes of all ranks are there. Appends the times of the slowest
-- rank to a list, at rank 0. What the ranks have measured they exchange afterwards: a message between two runs would wake
-- threads, and move ranks from CPU to CPU.
local function measure(plan, runs, list)
  local unrecorded, times = { iterations = 1, record = false }, {}
  for i = -1, runs do
    world.barrier()
    local start = clock.now()
    plan:run(unrecorded)
    world.barrier()
    if i > 0 then
      times[i] = clock.now() - start
    end
  end
  local all = world.gather(times)
  for i = 1, all and runs or 0 do
    local most = 0
    for rank = 0, world.size - 1 do
      most = math.max(most, all[rank][i])
    end
    list[#list + 1] = most * 1e9
  end
end

return {
  about = "Dispatch and combine against a plain all-to-all of the same bytes.",
  options = {
    options.int { "tokens", 128, "" }, options.int { "hidden", 7168, "" }, options.int { "topk", 8, "" }, options.int { "iters", 8, "" },
    options.int { "turns", 3, "" },
  },
  ranks = 2,
  run = function(opt)
    local plane = moe.open { tokens = opt.tokens, hidden = opt.hidden, topk = opt.topk, experts_per_rank = 36, routing = { family = "distinct" } }
    for _, mode in ipairs { "dispatch", "combine", "e2e" } do
      local m = plane:measure { mode = mode, iterations = opt.iters * 2, warmup = 3, entry = "fresh" }
      if m then
        print(string.format("%s %.0f", mode, m.slowest_us.p50 * 1e3))
      end
    end
    for _, mode in ipairs { "dispatch", "combine" } do
      local plan = transfer.prepare { matrix = plane:matrix(mode), mem = "dram" }
      local moving, plain = {}, {}
      for turn = 1, opt.turns do
        local m = plane:measure { mode = mode, iterations = opt.iters + 1, warmup = 2, entry = "moving" }
        for _, us in ipairs(m and m.most_us or {}) do
          moving[#moving + 1] = us * 1e3
        end
        measure(plan, opt.iters, plain)
      end
      if world.rank == 0 then
        print(string.format("moving%s %.0f", mode, median(moving)))
        print(string.format("plain%s %.0f", mode, median(plain)))
      end
    end
    local bytes, numbers = plane:matrix("dispatch"), {}
    for i = 0, world.size - 1 do
      for j = 0, world.size - 1 do
        numbers[#numbers + 1] = string.format("%d", bytes[i][j])
      end
    end
    if world.rank == 0 then
      print("bytes: " .. table.concat(numbers, " "))
    end
    plane:close()
  end,
}
