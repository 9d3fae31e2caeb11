-- Ranks write to and read from rank 1's memory while it sleeps.
return {
  about = "A target sleeps during transfers.",
  ranks = 3,
  run = function()
    local target = 1
    for _, op in ipairs { "WRITE", "READ" } do
      local m = matrix.new(world.size)
      if op == "WRITE" then
        m[0][target], m[2][target] = matrix.size("8M"), 1
      else
        m[target][0], m[target][2] = matrix.size("8M"), 1
      end
      local plan = transfer.prepare { matrix = m, op = op, mem = "dram" }
      world.barrier()
      if world.rank == target then
        clock.sleep(2)
      else
        plan:run(3)
      end
      local ended = world.all_gather(clock.now())
      for rank = 0, world.size - 1 do
        if rank ~= target then
          assert(ended[rank] < ended[target], string.format("%s: rank %d waited for the sleeping target", op, rank))
        end
      end
      if world.rank == 0 then
        print(op .. ": done while the target slept")
      end
      plan:verify()
    end
  end,
}
