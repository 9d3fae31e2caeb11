-- Every rank says who and where it is.
return {
  about = "Prints rank, local rank and host.",
  run = function()
    world.phase("roll call")
    local lines = world.gather(string.format("rank %d of %d, local rank %d, on %s", world.rank, world.size, world.local_rank, world.host))
    if lines then
      for rank = 0, world.size - 1 do
        print(lines[rank])
      end
    end
  end,
}
