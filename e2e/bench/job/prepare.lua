-- Prepares many sparse patterns and prints how long it took and how many
-- messages passed.
return {
  about = "Time to prepare many sparse patterns.",
  options = {
    options.int { "patterns", 1000, "how many" },
    options.size { "size", "64K", "most bytes in a message" },
  },
  ranks = 64,
  run = function(opt)
    local list = {}
    for i = 1, opt.patterns do
      list[i] = {
        matrix = matrix.random { density = 0.02, min_bytes = 1, max_bytes = opt.size, seed = i },
        mem = "dram",
      }
    end
    transfer.prepare { matrix = matrix.all_to_all { bytes = opt.size }, mem = "dram" }
    world.barrier()
    local messages = world.traffic()
    local before = clock.now()
    local plans = transfer.prepare_all(list)
    local after, first = clock.now(), messages
    messages = world.traffic() - first
    local seconds = world.reduce(after - before, "max")
    local sent = world.reduce(messages, "max")
    if world.rank == 0 then
      print(string.format("prepared %d patterns of %d ranks in %.3f s, at most %d messages per rank", #plans, world.size, seconds, sent))
    end
  end,
}
