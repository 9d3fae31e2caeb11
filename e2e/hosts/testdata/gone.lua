-- Bytes inside a host, and time for something to happen to its network.
return {
  run = function()
    local m = matrix.new(world.size)
    m[0][1] = 2 ^ 24
    local plan = transfer.prepare { matrix = m, mem = "dram" }
    world.phase("inside")
    for _ = 1, 10 do
      plan:run()
    end
    world.barrier()
    world.phase("change")
    if world.rank == 0 then
      print("take eth1 away")
    end
    clock.sleep(2)
    world.barrier()
    world.phase("after")
    plan:run()
    transfer.collect { plan }
  end,
}
