return {
  about = "Waits while the ranks' memory is measured.",
  run = function()
    world.barrier()
    if world.rank == 0 then
      print("ready")
    end
    clock.sleep(3)
  end,
}
