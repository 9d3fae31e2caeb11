-- Prints medians over iterations of the slowest rank, in nanoseconds: a dispatch, a combine and both after a barrier;
-- the messages of a dispatch and of a combine, again and again, from a barrier until all are there (moving); and a plain
-- all-to-all of the same routed bytes from a barrier until they are there (plain). The last two take turns.
-- Then the bytes of the dispatch from each rank to each.

local function median(list)
  table.sort(list)
  return list[math.floor(#list / 2) + 1]
end

-- A run of a plan after a barrier, until the bytes of all ranks are there; of the slowest rank, at rank 0.
local function once(plan)
  world.barrier()
  local start = clock.now()
  plan:run { iterations = 1, record = false }
  world.barrier()
  local all, most = world.gather(clock.now() - start), 0
  for _, t in pairs(all or {}) do
    most = math.max(most, t)
  end
  return most
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
        for i = -1, opt.iters do
          local t = once(plan)
          if i > 0 then
            plain[#plain + 1] = t * 1e9
          end
        end
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
