return {
  about = "Waits while somebody looks at the ranks' memory.",
  run = function()
    world.barrier()
    if world.rank == 0 then
      print("ready")
    end
    clock.sleep(3)
  end,
}
