-- All ranks wait for each other for ever, or one of them fails.
return {
  about = "Stays in one phase.",
  options = { options.bool { "fail", false, "let rank 1 fail" } },
  run = function(opt)
    world.phase("stay")
    if opt.fail and world.rank == 1 then
      error("on purpose")
    end
    for round = 1, math.huge do
      world.barrier()
      clock.sleep(0.005)
      if round == 20 and world.rank == 0 then
        print("all are here")
      end
    end
  end,
}
