-- Says where the ranks are.
return {
  about = "Says where the ranks are.",
  ranks = 3,
  run = function()
    local hosts = world.all_gather(world.host)
    if world.rank == 0 then
      print(hosts[0], hosts[1], hosts[2])
    end
  end,
}
