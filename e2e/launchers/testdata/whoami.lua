-- Every rank says who and where it is.
return {
  about = "Prints rank, local rank and host.",
  run = function()
    world.phase("roll call")
    local lines = world.gather(string.format("rank %d of %d, local rank %d, on %s", world.rank, world.size, world.local_rank, world.host))
    for _, line in ipairs(lines or {}) do
      print(line)
    end
  end,
}
