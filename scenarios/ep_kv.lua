-- Experts and KV caches at once: what each kind of traffic costs the other.

local defaults = { hidden = 4096, experts_per_rank = 8, topk = 2 }

-- The first half of the ranks sends to the second, as prefill ranks do to decode ranks.
local function caches(bytes)
  local half = math.floor(world.size / 2)
  local m = matrix.new(world.size)
  for r = 0, half - 1 do
    m[r][r + half] = bytes
  end
  return m
end

-- The families of routings and their options, but for those of the routing's own matrix: here --matrix is of KV caches.
local families, more = {}, {}
for _, family in ipairs(moe.families()) do
  families[#families + 1] = family ~= "matrix" and family or nil
end
for _, option in ipairs(moe.options()) do
  more[#more + 1] = option.name ~= "matrix" and option.name ~= "spread" and option or nil
end

return {
  about = "An expert-parallel loop and KV transfers at the same ranks: how much each slows the other down.",
  options = {
    options.path { "matrix", nil, "bytes of KV caches from each rank to each rank (default: --kv-size from each of the first half to one of the second)" },
    options.size { "kv-size", "4M", "bytes of each KV transfer, without --matrix", min = 1 },
    options.int { "shards", 16, "descriptors of each KV transfer", min = 1 },
    options.tokens { "tokens", 128, "tokens of each rank", min = 1, max = 2 ^ 27 },
    options.int { "hidden", nil, "channels of a token, a multiple of 128 (default: 4096)", min = 1, max = 2 ^ 20 },
    options.int { "experts-per-rank", nil, "(default: 8)", min = 1, max = 2 ^ 20 },
    options.int { "topk", nil, "experts for each token (default: 2)", min = 1, max = 1024 },
    options.path { "model", nil, "a model's name, its config.json, or a file of your own: hidden size, experts and topk" },
    options.enum { "mode", "e2e", "what an iteration does", choices = { "dispatch", "combine", "e2e" } },
    patterns.mem_type "memory of both; vram: transport alone, without kernels (default: dram; of KV caches vram if all ranks have a GPU)",
    options.enum { "routing", "uniform", "how experts are chosen; see docs/ep.md", choices = families },
    options.int { "routing-seed", nil, "seed of the routing, where it is not --seed", min = 0, hidden = true },
    options.int { "warmup", 10, "iterations that are not measured", min = 0 },
    options.int { "iters", 100, "measured iterations", min = 2 },
    patterns.duration "iters",
    unpack(more),
  },
  metrics = {
    { "ep_slowdown", "time of an iteration beside KV transfers, over that alone", better = "lower" },
    { "kv_slowdown", "time of the KV transfers beside iterations, over that alone", better = "lower" },
  },
  ranks = 4,
  run = function(opt)
    if world.size < 2 then
      options.reject("one rank alone sends no KV cache", "use -n 2")
    end
    moe.check_options(setmetatable({ matrix = false }, { __index = opt }))
    opt = patterns.experts(opt, world.size, defaults)
    world.phase("prepare")
    local plan = transfer.prepare { matrix = opt.matrix and matrix.load(opt.matrix) or caches(opt.kv_size), shards = opt.shards, mem = opt.mem_type }
    transfer.warmup({ plan }, 5)
    local plane = moe.open {
      tokens = opt.tokens, hidden = opt.hidden, experts_per_rank = opt.experts_per_rank, topk = opt.topk, mem = opt.mem_type,
      placement = opt.placement, redundant = opt.redundant, groups = opt.groups, nodes = opt.nodes,
      loads = opt.loads and moe.loads(opt.loads, opt.layer or 0), routing = patterns.ep_routing(opt),
    }
    world.phase("measure")
    local case = { plan = plan, mode = opt.mode, warmup = 0, record = false }
    case.iterations = opt.iters or math.max(2, patterns.fitting(opt.duration, function(n)
      case.iterations = math.max(2, n)
      plane:beside(case)
    end))
    case.warmup, case.record = opt.warmup, true
    local c = plane:beside(case)
    result.note("iterations: " .. case.iterations)
    world.phase("check")
    plan:verify()
    plane:verify { state = opt.mode }
    plane:close()
    result.note("checked: what both have left behind")
    local rows = {}
    if c then
      rows = {
        { "experts, " .. opt.mode, c.alone_us, c.busy_us, c.beside_us, c.slowdown },
        { "KV transfers", c.other_alone_us, c.other_busy_us, c.other_beside_us, c.other_slowdown },
      }
      for _, row in ipairs(rows) do
        local why
        if row[3] >= row[4] then
          why = "as slow beside a thread that only polls"
        elseif row[3] < 0.95 * row[2] then
          why = "slower alone than beside a thread that only polls"
        end
        if why then
          result.note(row[1] .. ": " .. why .. ", so nothing can be said of what the traffic costs")
        end
      end
      result.sample("ep_slowdown", c.slowdown)
      result.sample("kv_slowdown", c.other_slowdown)
    end
    result.table {
      title = "mean time alone, beside a thread that only polls, and beside the other traffic; slowdown beside it",
      columns = { { "Traffic", "%s" }, { "Alone (us)", "%.1f" }, { "Polling (us)", "%.1f" }, { "Beside (us)", "%.1f" }, { "Slowdown", "%.3f" } },
      rows = rows,
    }
  end,
}
