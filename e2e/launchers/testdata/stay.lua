-- Measures one pattern, so that there is something to save, and then stays in
-- one phase, all ranks working and waiting for each other; or some of them fail
-- in it.
local phases = { "barrier", "transfer", "collect" }

return {
  about = "Stays in one phase.",
  options = {
    options.enum { "stay", "barrier", "the phase to stay in", choices = phases },
    options.enum { "fail", "none", "which ranks fail in it", choices = { "none", "one", "all" } },
    options.int { "rounds", 0, "end after so many rounds; 0 is never" },
    options.size { "size", "1M", "bytes in each message" },
  },
  run = function(opt)
    local plan = transfer.prepare { name = "mesh", matrix = matrix.all_to_all { bytes = opt.size } }
    world.phase("measure")
    plan:initiators_barrier()
    plan:run { record = true }
    transfer.collect { plan }
    world.phase(opt.stay)
    world.barrier()
    if opt.fail == "all" or opt.fail == "one" and world.rank == 1 then
      error("on purpose")
    end
    local work = {
      barrier = function()
        world.barrier()
        clock.sleep(0.005)
      end,
      transfer = function()
        plan:run { record = false, iterations = 20 }
        world.barrier()
      end,
      collect = function()
        transfer.collect { plan }
      end,
    }
    for round = 1, opt.rounds > 0 and opt.rounds or math.huge do
      work[opt.stay]()
      -- By then the process that watches the ranks has heard of the phase.
      if round == 20 then
        world.barrier()
        if world.rank == 0 then
          print("all are here")
        end
      end
    end
  end,
}
