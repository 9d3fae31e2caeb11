return {
  about = "Starts, meets once and ends.",
  run = function()
    world.barrier()
  end,
}
