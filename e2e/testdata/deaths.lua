-- Plays a plan whose ranks die, and ends well, or does with --after what the ranks that are left cannot do.
return {
  about = "A plan whose ranks die.",
  options = {
    options.string { "plan", "0-1,-2", "" },
    options.int { "warmup", 1, "", min = 0 },
    options.number { "patience", 3, "" },
    options.bool { "after", false, "" },
  },
  ranks = function(opt)
    return moe.plan_ranks(opt.plan)
  end,
  run = function(opt)
    local phases = moe.elastic {
      plan = opt.plan, warmup = opt.warmup, iterations = 2, patience = opt.patience, exit = true,
      plane = { tokens = 4, hidden = 128, experts_per_rank = 2, topk = 3, routing = { family = "distinct" } },
    }
    for i, p in ipairs(phases or {}) do
      print("phase", i, "killed", table.concat(p.killed or {}, " "), "ended", table.concat(p.ended or {}, " "))
    end
    if opt.after then
      world.barrier()
    end
  end,
}
