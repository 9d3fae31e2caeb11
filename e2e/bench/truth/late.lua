-- A sender, and by the time that it is through as a rule, another one to the same receiver. The first is stopped from
-- outside again and again, so that it lasts until the other one sends.
return {
  about = "Two senders that meet only where one of them is late.",
  options = { options.int { "iters", 80, "runs of the workload", min = 1 } },
  ranks = 3,
  run = function(opt)
    local plans = {}
    for sender = 0, 1 do
      local m = matrix.new(world.size)
      m[sender][2] = "64M"
      plans[sender + 1] = transfer.prepare { matrix = m, mem = "dram" }
    end
    transfer.warmup(plans, 3)
    world.phase("isolated")
    for _ = 1, 15 do
      for _, plan in ipairs(plans) do
        world.barrier()
        plan:run()
      end
    end
    local longest = 0
    for _, pattern in ipairs(transfer.collect(plans) or {}) do
      for _, run in ipairs(pattern.runs) do
        longest = math.max(longest, run.latency)
      end
    end
    longest = world.broadcast(longest, 0)
    world.phase("workload")
    for i = 1, opt.iters do
      world.barrier()
      if i == 1 and world.rank == 0 then
        print("stop rank 0")
      end
      plans[1]:run()
      if plans[2].initiates then
        clock.sleep(2 * longest)
      end
      plans[2]:run()
    end
    transfer.collect(plans)
  end,
}
