-- Senders whose messages meet at a receiver, or do not: the answer is known.
return {
  about = "Patterns that share a link, for a known time.",
  options = {
    options.enum { "case", "together", "what runs at the same time", choices = { "together", "apart", "later", "half", "disjoint" } },
    options.size { "bytes", "8M", "bytes of each message" },
    options.int { "alone", 6, "runs of each pattern alone", min = 1 },
    options.int { "iters", 8, "runs of the workload", min = 1 },
  },
  run = function(opt)
    local plans = {}
    local receiver = world.size - 1
    local ways = opt.case == "disjoint" and { { 0, 1 }, { 2, 3 } } or {}
    if opt.case ~= "disjoint" then
      for sender = 0, receiver - 1 do
        ways[sender + 1] = { sender, receiver }
      end
    end
    for i, way in ipairs(ways) do
      local m = matrix.new(world.size)
      m[way[1]][way[2]] = opt.bytes
      plans[i] = transfer.prepare { name = way[1] .. " to " .. way[2], matrix = m, mem = "dram" }
    end
    transfer.warmup(plans, 2)

    world.phase("isolated")
    for _ = 1, opt.alone do
      for _, plan in ipairs(plans) do
        world.barrier()
        plan:run()
      end
    end
    local all = transfer.collect(plans)
    local half = 0
    if all then
      local times = {}
      for i, run in ipairs(all[1].runs) do
        times[i] = run.latency
      end
      table.sort(times)
      half = times[math.ceil(#times / 2)] / 2
    end
    half = world.broadcast(half, 0)

    world.phase("workload")
    for i = 1, opt.iters do
      world.barrier()
      for k, plan in ipairs(plans) do
        if opt.case == "apart" then
          world.barrier()
        end
        if opt.case == "later" and k == 2 and plan.initiates then
          clock.sleep(half)
        end
        if opt.case ~= "half" or k == 1 or i % 2 == 0 then
          plan:run()
        end
      end
    end
    transfer.collect(plans)
  end,
}
