-- Measures once, and then stays in one phase for ever.
return {
  about = "Stays in one phase.",
  options = { options.enum { "stay", "transfer", "the phase to stay in", choices = { "barrier", "collect", "transfer" } } },
  ranks = 3,
  run = function(opt)
    local plan = transfer.prepare { matrix = matrix.all_to_all { bytes = "1M" }, mem = "dram", name = "mesh" }
    plan:run()
    transfer.collect { plan }
    world.phase(opt.stay)
    local function round()
      if opt.stay == "transfer" then
        plan:run { iterations = 10, record = false }
      else
        plan:run()
        transfer.collect { plan }
      end
    end
    -- All know of the phase when the first round is over.
    world.barrier()
    if opt.stay ~= "barrier" then
      round()
    end
    world.barrier()
    if world.rank == 0 then
      print("in " .. opt.stay)
    end
    if opt.stay == "barrier" then
      if world.rank == 1 then
        clock.sleep(100000)
      end
      world.barrier()
    end
    while true do
      round()
    end
  end,
}
