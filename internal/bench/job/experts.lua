-- Prints medians of the slowest rank, in nanoseconds: a dispatch, a combine, both, the dispatch without what it
-- computes, and a plain all-to-all of as many bytes.
return {
  about = "Dispatch and combine against a plain all-to-all.",
  options = {
    options.int { "tokens", 128, "" }, options.int { "hidden", 7168, "" }, options.int { "topk", 8, "" }, options.int { "iters", 20, "" },
  },
  ranks = 2,
  run = function(opt)
    local message = 16 + opt.hidden + 4 * opt.hidden / 128
    local bytes = math.floor(opt.tokens * opt.topk * message / world.size)
    local plane = moe.open { tokens = opt.tokens, hidden = opt.hidden, topk = opt.topk, experts_per_rank = 36, routing = { family = "distinct" } }
    for _, mode in ipairs { "dispatch", "combine", "e2e" } do
      local m = plane:measure { mode = mode, iterations = opt.iters, warmup = 3, fresh = true }
      if m then
        local moving = 1 - m.shares.quantise - m.shares.pack - m.shares.reduce
        print(string.format("%s %.0f", mode, m.slowest_us.p50 * 1e3))
        if mode == "dispatch" then
          print(string.format("moving %.0f", m.slowest_us.p50 * 1e3 * moving))
        end
      end
    end
    plane:close()
    local plan = transfer.prepare { matrix = matrix.all_to_all { bytes = bytes, self = true }, mem = "dram" }
    local times = {}
    for i = -2, opt.iters do
      world.barrier()
      local start = clock.now()
      plan:run { iterations = 1, record = false }
      world.barrier() -- the bytes of all ranks are there
      local all = world.gather(clock.now() - start)
      if all and i > 0 then
        local most = 0
        for _, t in pairs(all) do
          most = math.max(most, t)
        end
        times[i] = most
      end
    end
    if world.rank == 0 then
      table.sort(times)
      print(string.format("plain %.0f", times[math.floor(#times / 2) + 1] * 1e9))
      print(string.format("pair %d", bytes))
    end
  end,
}
