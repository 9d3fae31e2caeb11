-- Ranks join, leave and are killed; the others go on, checked and timed in every phase.

local defaults = { hidden = 7168, experts_per_rank = 2, topk = 8 }

-- "0-3,5" for { 0, 1, 2, 3, 5 }.
local function ranges(list)
  local parts, i = {}, 1
  while i <= #list do
    local j = i
    while list[j + 1] == list[j] + 1 do
      j = j + 1
    end
    parts[#parts + 1] = i == j and tostring(list[i]) or string.format("%d-%d", list[i], list[j])
    i = j + 1
  end
  return #parts > 0 and table.concat(parts, ",") or "-"
end

local function among(list, wanted)
  for _, v in ipairs(list) do
    if v == wanted then
      return true
    end
  end
  return false
end

-- The mean, and the largest, of a figure over the ranks that have it.
local function over(phase, name)
  local sum, n, most = 0, 0, 0
  for _, e in ipairs(phase.by_rank) do
    if e[name] > 0 then
      sum, n = sum + e[name], n + 1
      most = math.max(most, e[name])
    end
  end
  return n > 0 and sum / n or nil, n > 0 and most or nil
end

return {
  about = "An expert-parallel data plane whose ranks join, leave and are killed, phase by phase.",
  options = {
    options.string { "plan", "replace", "static, grow, steps, replace, shrink, large, single, deaths; or phases such as \"0-3; 0-5,-6@combine,7\"" },
    options.int { "tokens", 128, "tokens of each rank", min = 1, max = 2 ^ 27 },
    options.int { "hidden", nil, "channels of a token, a multiple of 128 (default: 7168)", min = 1, max = 2 ^ 20 },
    options.int { "experts-per-rank", nil, "(default: 2)", min = 1, max = 2 ^ 20 },
    options.int { "topk", nil, "experts for each token; fewer where there are fewer experts (default: 8)", min = 1, max = 1024 },
    options.path { "model", nil, "a model's name, its config.json, or a file of your own: hidden size, topk, and experts, spread over all ranks of the plan" },
    options.int { "warmup", 50, "iterations of each phase that are not measured", min = 0 },
    options.int { "iters", 50, "measured iterations of each phase; the first is left out", min = 1 },
    options.number { "patience", 2, "seconds after which a silent rank counts as dead", min = 0.01, max = 3600 },
  },
  metrics = { { "ep_phase_us", "mean time of an iteration of the slowest rank in a phase", better = "lower" } },
  ranks = function(opt)
    local n = moe.plan_ranks(opt.plan)
    patterns.experts(opt, n, defaults)
    return n
  end,
  run = function(opt)
    opt = patterns.experts(opt, moe.plan_ranks(opt.plan), defaults)
    local topk = math.min(opt.topk, opt.experts_per_rank * world.size)
    local phases = moe.elastic {
      plan = opt.plan, warmup = opt.warmup, iterations = opt.iters, patience = opt.patience, exit = true,
      plane = {
        tokens = opt.tokens, hidden = opt.hidden, experts_per_rank = opt.experts_per_rank, topk = topk, routing = { family = "distinct" },
      },
    }
    local rows = {}
    for i, p in ipairs(phases or {}) do
      for _, rank in ipairs(p.killed or {}) do
        if not among(p.ended or {}, rank) then
          result.note(string.format("phase %d: rank %d only falls silent, and its process goes on: %s", i, rank,
            rank == 0 and "it keeps the result" or "the plan needs it again"))
        end
      end
      local mean, slowest = over(p, "mean_us")
      local _, connect = over(p, "connect_ms")
      local _, detected = over(p, "detected_ms")
      local _, messages = over(p, "messages")
      rows[i] = { i, ranges(p.present), ranges(p.killed or {}), ranges(p.masked or {}), connect, detected, messages, mean, slowest }
      result.sample("ep_phase_us", slowest)
    end
    result.table {
      title = "phases; every message and result of the survivors was checked",
      columns = {
        { "Phase", "%d" }, { "Ranks", "%s" }, { "Killed", "%s" }, { "Masked", "%s" }, { "Connect (ms)", "%.2f" }, { "Detected (ms)", "%.1f" },
        { "Messages", "%d" }, { "Mean (us)", "%.1f" }, { "Slowest (us)", "%.1f" },
      },
      rows = rows,
    }
    moe.lost(opt.plan)
  end,
}
