-- Three patterns on two ranks; the second moves more bytes by a share, so that it is known how much slower it is.
return {
  about = "Three patterns, of which the second is larger by a share.",
  options = { options.number { "more", 0, "by which share the second pattern is larger", min = 0 } },
  ranks = 2,
  run = function(opt)
    local plans = {}
    for i, bytes in ipairs { 4 * 2 ^ 20, 4 * 2 ^ 20 * (1 + opt.more), 65536 } do
      plans[i] = transfer.prepare { name = "p" .. i, matrix = matrix.from { { 0, math.floor(bytes) }, { 0, 0 } } }
    end
    transfer.warmup(plans, 3)
    world.phase("workload")
    for _ = 1, 30 do
      for _, plan in ipairs(plans) do
        world.barrier()
        plan:run()
      end
    end
    transfer.collect(plans)
  end,
}
