-- Rank 1 calls another collective than the others.
return {
  about = "Ranks call different collectives.",
  ranks = 3,
  run = function()
    world.phase("talk")
    if world.rank == 1 then
      world.gather(1, 2)
    else
      world.all_gather(1)
    end
    world.barrier()
  end,
}
