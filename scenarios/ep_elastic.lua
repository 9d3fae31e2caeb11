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

-- All ranks of a plan must be there from the start. processes is how many will be.
local function refuse_joining(opt, ranks, processes)
  local what = opt.tcp_server and "--tcp-server " .. opt.tcp_server .. ": no rank can join a run from another launch" or
    processes < ranks and string.format("--num-processes is %d, and the plan has %d ranks", processes, ranks)
  if what then
    options.reject(what .. ": all ranks of a plan start at once, and those that join later wait for their phase",
      string.format("one launch with --num-processes %d (CloudAI makes one where the plan's first phase has all ranks, on one node); "
        .. "or, with ranks on several nodes, srun -n %d perigee ep elastic --plan ...", ranks, ranks))
  end
end

-- Notes what is not as the options say.
local function note_options(opt, ranks)
  patterns.ep_backend(opt)
  if opt.validate_phase_failures then
    result.note("--validate-phase-failures: deaths that the plan does not have always end the job")
  end
  if opt.num_processes and opt.num_processes > ranks then
    result.note(string.format("--num-processes is %d: the plan has %d ranks, and no more are needed", opt.num_processes, ranks))
  end
  if world.size > ranks then
    result.note(string.format("the plan has %d ranks, and there are %d: choices of experts on the others are masked; start %d", ranks, world.size, ranks))
  end
end

-- The lines of NIXL's test about a phase, which it numbers from 0.
local function print_phase(phase, number, apart)
  for i, e in ipairs(phase.by_rank) do
    if e.mean_us > 0 then
      print(string.format("[rank %d] Dispatch + combine bandwidth: %.3f GB/s, avg_t=%.2f us, min_t=%.2f us, max_t=%.2f us", i - 1, e.gb_per_s, e.mean_us,
        e.min_us, e.max_us))
      if apart then
        print(string.format("[rank %d] Dispatch bandwidth: %.3f GB/s, avg_t=%.2f us | Combine bandwidth: %.3f GB/s, avg_t=%.2f us", i - 1,
          e.dispatch_gb_per_s, e.dispatch_us, e.combine_gb_per_s, e.combine_us))
      end
    end
  end
  print(string.format("ranks %s -> end phase %d", ranges(phase.present), number - 1))
end

-- Notes who was killed, and whose process went on.
local function note_deaths(phase, number)
  for _, rank in ipairs(phase.killed or {}) do
    local how = "its process has ended"
    if not among(phase.ended or {}, rank) then
      how = "it only falls silent, and its process goes on: " .. (rank == 0 and "it keeps the result" or "the plan needs it again")
    end
    result.note(string.format("phase %d: rank %d was killed, as planned; %s", number, rank, how))
  end
end

return {
  about = "An expert-parallel data plane whose ranks join, leave and are killed, phase by phase.",
  options = patterns.ep_options {
    options.path { "plan", "replace", "static, grow, steps, replace, shrink, large, single, deaths; or phases such as \"0-3; 0-5,-6@combine,7\"; "
      .. "or a JSON file of NIXL's elastic test" },
    options.int { "num-processes", nil, "ranks (default: those of the plan, or as the launcher says)", min = 1, max = 4096, original = true },
    options.tokens { "tokens", 128, "tokens of each rank", min = 1, max = 2 ^ 27 },
    options.int { "hidden", nil, "channels of a token, a multiple of 128 (default: 7168)", min = 1, max = 2 ^ 20 },
    options.int { "experts-per-rank", nil, "(default: 2)", min = 1, max = 2 ^ 20 },
    options.int { "topk", nil, "experts for each token; fewer where there are fewer experts (default: 8)", min = 1, max = 1024 },
    options.path { "model", nil, "a model's name, its config.json, or a file of your own: hidden size, topk, and experts, spread over all ranks of the plan" },
    options.int { "warmup", 50, "iterations of each phase that are not measured", min = 0 },
    options.int { "iters", 50, "measured iterations of each phase; the first is left out", min = 1 },
    options.number { "patience", 2, "seconds after which a silent rank counts as dead", min = 0.01, max = 3600 },
    options.int { "timeout-ms", nil, "the same in milliseconds, instead", min = 10, max = 3600000, original = true },
    options.bool { "kineto", false, "print dispatch and combine apart, too", original = true },
    options.bool { "validate-phase-failures", false, "accepted; deaths that the plan does not have always end the job", original = true },
    options.string { "tcp-server", nil, "refused: no rank can join from another launch", original = true },
  },
  metrics = { { "ep_phase_us", "mean time of an iteration of the slowest rank in a phase", better = "lower" } },
  ranks = function(opt)
    local n = moe.plan_ranks(moe.plan(opt.plan))
    refuse_joining(opt, n, opt.num_processes or n)
    patterns.experts(opt, n, defaults)
    return n
  end,
  run = function(opt)
    local plan = moe.plan(opt.plan)
    local ranks = moe.plan_ranks(plan)
    refuse_joining(opt, ranks, ranks)
    note_options(opt, ranks)
    opt = patterns.experts(opt, ranks, defaults)
    local topk = math.min(opt.topk, opt.experts_per_rank * world.size)
    local phases = moe.elastic {
      plan = plan, warmup = opt.warmup, iterations = opt.iters, patience = opt.timeout_ms and opt.timeout_ms / 1000 or opt.patience, exit = true,
      each = function(phase, number)
        print_phase(phase, number, opt.kineto)
      end,
      plane = {
        tokens = opt.tokens, hidden = opt.hidden, experts_per_rank = opt.experts_per_rank, topk = topk, mem = opt.mem_type, routing = { family = "distinct" },
      },
    }
    local rows = {}
    for i, p in ipairs(phases or {}) do
      note_deaths(p, i)
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
  end,
}
