-- Stays in one phase for ever, all ranks working and waiting for each other.
local phases = { "prepare", "warmup", "isolated", "workload", "verify" }

return {
  about = "Stays in one phase.",
  options = {
    options.enum { "stay", "workload", "the phase to stay in", choices = phases },
    options.size { "size", "64K", "bytes in each message" },
  },
  ranks = 3,
  run = function(opt)
    local pattern = { name = "mesh", matrix = matrix.all_to_all { bytes = opt.size } }
    local plan = nil
    local work = {
      prepare = function()
        plan = transfer.prepare(pattern)
        world.barrier()
      end,
      warmup = function()
        transfer.warmup({ plan }, 10)
      end,
      isolated = function()
        plan:initiators_barrier()
        plan:run { record = opt.stay ~= "isolated" }
      end,
      workload = function()
        plan:barrier()
        clock.sleep(0.002)
        plan:run { record = false }
      end,
      verify = function()
        plan:verify()
      end,
    }
    for _, phase in ipairs(phases) do
      world.phase(phase)
      work[phase]()
      if phase == opt.stay then
        -- The launcher has surely heard of the phase when some rounds are done.
        for round = 1, math.huge do
          if phase == "prepare" then
            plan:release()
          end
          work[phase]()
          if round == 20 then
            print("in " .. phase)
          end
        end
      end
      if phase == "isolated" then
        transfer.collect { plan }
      end
    end
  end,
}
