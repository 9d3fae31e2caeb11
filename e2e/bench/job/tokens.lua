-- Prints the median time of an iteration of dispatch and combine, of the slowest rank, in nanoseconds.

return {
  about = "What a token costs.",
  options = { options.int { "tokens", 128, "" }, options.int { "hidden", 1024, "" }, options.int { "iters", 8, "" } },
  ranks = 2,
  run = function(opt)
    local plane = moe.open { tokens = opt.tokens, hidden = opt.hidden, topk = 8, experts_per_rank = 36, routing = { family = "distinct" } }
    local m = plane:measure { mode = "e2e", iterations = opt.iters + 1, warmup = 2, entry = "steady" }
    if m then
      print(string.format("steady %.0f", m.slowest_us.p50 * 1e3))
    end
    plane:close()
  end,
}
