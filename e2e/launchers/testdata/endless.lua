-- Prints for ever.
return {
  about = "Prints for ever.",
  run = function()
    local i = 0
    while true do
      i = i + 1
      if world.rank == 0 then
        print("line " .. i)
      end
      if i % 100 == 0 then
        world.barrier()
      end
    end
  end,
}
