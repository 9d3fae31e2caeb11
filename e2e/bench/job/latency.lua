-- Runs one message between two ranks many times and prints the median of its
-- latency in seconds.
return {
  about = "Median latency of one message between two ranks.",
  options = {
    options.size { "size", "64K", "bytes in the message" },
    options.int { "iters", 1000, "measured runs", min = 1 },
  },
  ranks = 2,
  run = function(opt)
    local plan = transfer.prepare { matrix = matrix.from { { 0, opt.size }, { 0, 0 } }, mem = "dram" }
    plan:run { iterations = math.max(3, opt.iters / 10 - opt.iters / 10 % 1), record = false }
    world.barrier()
    plan:run(opt.iters)
    local collected = transfer.collect { plan }
    if collected then
      local list = {}
      for i, run in ipairs(collected[1].runs) do
        list[i] = run.latency
      end
      table.sort(list)
      print(string.format("median %.9f", list[math.floor(#list / 2) + 1]))
    end
  end,
}
