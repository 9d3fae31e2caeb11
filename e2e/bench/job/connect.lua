-- Prints the time of connecting, in nanoseconds: of each round the slowest rank's.
return {
  about = "Connects agents again and again.",
  ranks = 2,
  run = function()
    local phases = moe.control { test = "connect", rounds = 5, warmup = 1, plane = { tokens = 64, hidden = 1024 } }
    for _, ms in ipairs(phases and phases[1].rounds_ms or {}) do
      print(string.format("connect %.0f", ms * 1e6))
    end
  end,
}
