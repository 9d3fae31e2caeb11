-- How long ranks take to make their agents, to connect them, and to take them down again.

local names = moe.phases()
local defaults = { hidden = 4096, experts_per_rank = "8,32", topk = 2 }
local rule, dashes = string.rep("=", 70), string.rep("-", 70)

local function say(...)
  if world.rank == 0 then
    print(string.format(...))
  end
end

local function plane_of(opt, experts)
  return { tokens = opt.num_tokens, hidden = opt.hidden, topk = opt.topk, experts_per_rank = experts, mem = opt.mem_type }
end

local function banner(opt, backend)
  say("%s\nNIXL EP Control Plane Performance Test\n%s", rule, rule)
  say("Ranks: %d", world.size)
  say("Experts/rank: %s", opt.experts_per_rank)
  say("Test: %s", opt.test)
  say("Backend: %s", backend)
  say("Warmup: %d, Measure: %s rounds\n%s\n", opt.warmup, opt.rounds or string.format("%g s of", opt.duration), rule)
end

-- The table of the original, over all rounds and ranks.
local function cycle_table(experts, n, figures)
  say("%s\nControl Plane: %d experts/rank x %d ranks = %d total\n%s", rule, experts, n, experts * n, rule)
  say("%-15s %-12s %-12s %-12s\n%s", "Operation", "Avg (ms)", "Min (ms)", "Max (ms)", dashes)
  local total = 0
  for _, f in ipairs(figures) do
    say("%-15s %-12.2f %-12.2f %-12.2f", f.phase, f.avg_ms, f.min_ms, f.max_ms)
    total = total + f.avg_ms
  end
  say("%s\n%-15s %-12.2f\n%s\n", dashes, "TOTAL", total, rule)
end

local function show(opt, experts, n, figures)
  if opt.test == "cycle" then
    cycle_table(experts, n, figures)
    return
  end
  local f = figures[1]
  say("%s: %.2fms avg across %d ranks (min=%.2f, max=%.2f) [%d experts/rank]\n", string.upper(f.phase), f.avg_ms, n, f.min_ms, f.max_ms, experts)
end

-- 2, 4, 8 ... and all ranks; of the former only those that have the experts of a token.
local function counts(opt, experts)
  local list, n = {}, 2
  while opt.curve and n < world.size do
    if n * experts >= opt.topk then
      list[#list + 1] = n
    end
    n = n * 2
  end
  list[#list + 1] = world.size
  return list
end

-- How the slowest rank's time of each phase grows with the ranks. Each round counts: how much they scatter says how well
-- the growth is known.
local function growth(curves)
  for _, c in ipairs(curves) do
    local g = moe.growth(c.ranks, c.ms)
    if g.refused ~= "" then
      result.note(string.format("%s: no growth fitted: %s", c.name, g.refused))
    else
      result.note(string.format("%s: time grows with ranks^%.2f (95 %%: %.2f to %.2f): %s", c.name, g.exponent, g.low, g.high, g.shape))
    end
  end
end

return {
  about = "Making, connecting, disconnecting and destroying agents, as in NIXL's EP control plane test.",
  options = patterns.ep_options {
    options.int { "num-processes", nil, "ranks; on each node, with several nodes (default: 8, or as the launcher says)", min = 1, max = 4096, original = true },
    options.enum { "test", "cycle", "all phases, or one", choices = { "cycle", "init", "connect", "disconnect", "destroy" } },
    options.string { "experts-per-rank", nil, "several with commas (default: 8,32)" },
    options.path { "model", nil, "a model's name, its config.json, or a file of your own: hidden size, experts and topk" },
    options.int { "warmup", 0, "rounds that are not measured", min = 0, max = 2 ^ 31 },
    options.int { "rounds", 1, "measured rounds", min = 1, max = 2 ^ 31 },
    patterns.duration "rounds",
    options.bool { "curve", false, "measure 2, 4, 8 ... ranks, too, and fit the growth" },
    options.enum { "buffers", "routed", "memory: what a uniform routing needs, or NIXL EP's worst case", choices = { "routed", "worst" } },
    options.tokens { "num-tokens", 512, "tokens of each rank, for the memory", min = 1, max = 2 ^ 31 },
    options.int { "hidden", nil, "channels of a token, a multiple of 128, for the memory (default: 4096)", min = 1, max = 2 ^ 31 },
    options.int { "topk", nil, "experts for each token, for the memory (default: 2)", min = 1, max = 2 ^ 31 },
  },
  metrics = {
    { "ep_init_ms", "agent and memory, slowest rank of a round", better = "lower" },
    { "ep_connect_ms", "cards and connections, slowest rank of a round", better = "lower" },
    { "ep_disconnect_ms", "dropping all peers, slowest rank of a round", better = "lower" },
    { "ep_reconnect_ms", "connecting again, slowest rank of a round", better = "lower" },
    { "ep_destroy_ms", "releasing everything, slowest rank of a round", better = "lower" },
  },
  ranks = function(opt)
    local n = opt.num_processes or 8
    opt = patterns.experts(opt, n, defaults)
    for _, experts in ipairs(options.numbers("experts-per-rank", opt.experts_per_rank)) do
      moe.check(plane_of(opt, experts), n)
    end
    return n
  end,
  run = function(opt)
    if opt.num_processes and world.size % opt.num_processes ~= 0 then
      options.reject(string.format("--num-processes is %d, but the launcher has started %d ranks", opt.num_processes, world.size),
        "leave --num-processes out: the launcher decides")
    end
    opt = patterns.experts(opt, world.size, defaults)
    local backend = patterns.ep_backend(opt)
    banner(opt, backend)
    local rows, curves, cases = {}, {}, 0
    for _, experts in ipairs(options.numbers("experts-per-rank", opt.experts_per_rank)) do
      cases = cases + #counts(opt, experts)
    end
    for _, experts in ipairs(options.numbers("experts-per-rank", opt.experts_per_rank)) do
      local curve = {}
      for _, n in ipairs(counts(opt, experts)) do
        world.phase(string.format("%s, %d experts per rank, %d ranks", opt.test, experts, n))
        say("Running: %s (%d experts/rank, %d total)", opt.test, experts, experts * n)
        local case = { test = opt.test, ranks = n, buffers = opt.buffers, plane = plane_of(opt, experts), record = false }
        local rounds = opt.rounds or patterns.fitting(opt.duration / cases, function(k)
          case.rounds = k
          moe.control(case)
        end)
        case.rounds, case.warmup, case.record = rounds, opt.warmup, true
        local figures = moe.control(case)
        if figures then
          show(opt, experts, n, figures)
          for _, f in ipairs(figures) do
            rows[#rows + 1] = { f.phase, experts, n, f.avg_ms, f.min_ms, f.max_ms, f.slowest_ms, f.slow_rank }
            local c = curve[f.phase]
            if not c then
              c = { name = string.format("%s, %d experts per rank", f.phase, experts), ranks = {}, ms = {} }
              curve[f.phase] = c
              table.insert(curves, c)
            end
            for _, ms in ipairs(f.rounds_ms) do
              table.insert(c.ranks, n)
              table.insert(c.ms, ms)
              if n == world.size then
                result.sample("ep_" .. f.phase .. "_ms", ms)
              end
            end
          end
        end
      end
    end
    result.table {
      title = "milliseconds over rounds and ranks; slowest: mean over rounds of the slowest rank",
      columns = {
        { "Phase", "%s" }, { "Exp/rank", "%d" }, { "Ranks", "%d" }, { "Avg", "%.3f" }, { "Min", "%.3f" }, { "Max", "%.3f" }, { "Slowest", "%.3f" },
        { "Slowest rank", "%d" },
      },
      rows = rows,
    }
    if opt.curve then
      growth(curves)
    end
  end,
}
