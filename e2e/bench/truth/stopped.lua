-- Two ranks send to each other, again and again; one of them is stopped from outside for a while, in the pause between
-- the barrier and the run.
return {
  about = "A pattern whose initiators pause before each run.",
  options = {
    options.int { "iters", 20, "runs of the workload", min = 1 },
    options.enum { "start", "barrier", "how the initiators start", choices = { "barrier", "clock" } },
  },
  ranks = 2,
  run = function(opt)
    local plan = transfer.prepare { matrix = matrix.all_to_all { bytes = "256K" }, mem = "dram", start = opt.start }
    transfer.warmup({ plan }, 3)
    world.phase("isolated")
    for _ = 1, 10 do
      plan:initiators_barrier()
      plan:run()
    end
    transfer.collect { plan }
    world.phase("workload")
    for i = 1, opt.iters do
      plan:initiators_barrier()
      if i == math.ceil(opt.iters / 2) and world.rank == 0 then
        print("stop rank 1")
      end
      clock.sleep(0.03)
      plan:run()
    end
    transfer.collect { plan }
  end,
}
