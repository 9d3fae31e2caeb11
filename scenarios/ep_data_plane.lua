-- Dispatch and combine of a mixture of experts between all ranks.

local families, sabotages = moe.families(), moe.sabotages()
local rule = string.rep("=", 70)
local defaults = { hidden = "4096", experts_per_rank = "8", topk = "2", shared_experts = 0 }

local function say(...)
  if world.rank == 0 then
    print(string.format(...))
  end
end

local modes, kinds = { "dispatch", "combine", "e2e" }, { "steady", "fresh", "moving" }

-- Every combination of the lists, the last list the fastest.
local function sweep(opt)
  local list, chosen = {}, options.words("mode", opt.mode, modes)
  for _, tokens in ipairs(options.numbers("tokens", opt.tokens)) do
    for _, hidden in ipairs(options.numbers("hidden", opt.hidden)) do
      for _, experts in ipairs(options.numbers("experts-per-rank", opt.experts_per_rank)) do
        for _, topk in ipairs(options.numbers("topk", opt.topk)) do
          list[#list + 1] = { tokens = tokens, hidden = hidden, experts_per_rank = experts, topk = topk, modes = chosen }
        end
      end
    end
  end
  return list
end

local function spec_of(case, opt, loads, m)
  return {
    tokens = case.tokens, hidden = case.hidden, experts_per_rank = case.experts_per_rank, topk = case.topk,
    shared_experts = opt.shared_experts, payload = opt.payload, staging = opt.staging, placement = opt.placement, mem = opt.mem_type, redundant = opt.redundant, groups = opt.groups, nodes = opt.nodes, loads = loads,
    routing = patterns.ep_routing(opt, m),
  }
end

local function banner(case, mode, opt, backend)
  say("%s\nNIXL EP Data Plane Performance Test\n%s", rule, rule)
  say("Mode: %s", mode)
  say("Ranks: %d, Tokens: %d, Hidden: %d", world.size, case.tokens, case.hidden)
  say("Experts: %d/rank (%d total), TopK: %d", case.experts_per_rank, case.experts_per_rank * world.size, case.topk)
  say("Backend: %s", backend)
  say("Warmup: %d, Measure: %d iterations\n%s\n", opt.warmup, case.iters, rule)
end

local function block(mode, m)
  local b, l = m.bandwidth_gb_per_s, m.latency_us
  say("%s\nData Plane (%s): %d/%d ranks passed\n%s", rule, mode, #m.by_rank, #m.by_rank, rule)
  say("Bandwidth (GB/s): avg=%.2f, min=%.2f, max=%.2f", b.avg, b.min, b.max)
  say("Latency (μs):     avg=%.1f, min=%.1f, max=%.1f\n", l.avg, l.min, l.max)
end

local columns = {
  { "Mode", "%s" }, { "Entry", "%s" }, { "Tokens", "%d" }, { "Hidden", "%d" }, { "Exp/rank", "%d" }, { "TopK", "%d" },
  { "GB/s", "%.2f" }, { "by rank", "%.2f" }, { "remote", "%.2f" }, { "wire", "%.2f" },
  { "mean (us)", "%.1f" }, { "p50", "%.1f" }, { "p90", "%.1f" }, { "p99", "%.1f" }, { "fastest", "%.1f" }, { "median", "%.1f" },
  { "send", "%.1f" }, { "recv", "%.1f" }, { "wait", "%.1f" }, { "quantise %", "%.1f" }, { "stage %", "%.1f" }, { "own %", "%.1f" },
  { "wait %", "%.1f" }, { "pack %", "%.1f" }, { "reduce %", "%.1f" },
}
local keys = 6 -- the first columns, which name a row
local usual = "Mode,Entry,Tokens,GB/s,mean (us),p50,p99,wait %"

-- The columns of which --columns leaves some to the result alone, and how many of the printed ones name a row. By
-- default these are the usual ones, and of those that name a row the ones in which rows differ.
local function printed(text, rows)
  local names, chosen, list, named = { "all" }, {}, {}, 0
  for i, c in ipairs(columns) do
    names[i + 1] = c[1]
  end
  for _, name in ipairs(options.words("columns", text or usual, names)) do
    chosen[name] = true
  end
  for i, c in ipairs(columns) do
    local shown = chosen.all or chosen[c[1]]
    for _, r in ipairs(not text and i <= keys and rows or {}) do
      shown = shown or r[i] ~= rows[1][i]
    end
    named = named + (shown and i <= keys and 1 or 0)
    list[i] = { c[1], c[2], silent = not shown }
  end
  return list, named
end

local function row(case, mode, m)
  local send, recv, wait = 0, 0, 0
  for _, r in ipairs(m.by_rank) do
    send, recv, wait = send + r.send_us / #m.by_rank, recv + r.recv_us / #m.by_rank, wait + r.wait_us / #m.by_rank
  end
  local g, s = m.gb_per_s, m.shares
  return {
    mode, m.entry, case.tokens, case.hidden, case.experts_per_rank, case.topk,
    g.assignment, g.rank, g.remote, g.wire, m.latency_us.avg, m.slowest_us.p50, m.slowest_us.p90, m.slowest_us.p99,
    m.fastest_us.p50, m.typical_us.p50, send, recv, wait, s.quantise * 100, s.stage * 100, s.own * 100, s.wait * 100, s.pack * 100,
    s.reduce * 100,
  }
end

-- A measurement in the JSON of the predecessor of the tests.
local function described(case, mode, ranks, opt)
  return {
    test = mode, results = ranks,
    config = {
      num_processes = world.size, num_tokens = case.tokens, hidden = case.hidden, num_experts_per_rank = case.experts_per_rank,
      topk = case.topk, warmup_iters = opt.warmup, measure_iters = case.iters or result.null,
    },
  }
end

local function name_of(case, mode)
  return string.format("%s_t%d_h%d_e%d", mode, case.tokens, case.hidden, case.experts_per_rank)
end

local function save(opt, out)
  if not opt.json_output_path then
    return
  end
  result.save(opt.json_output_path, {
    timestamp = clock.wall(), results = out.json,
    config = {
      num_processes = world.size, tests = options.words("mode", opt.mode, modes),
      token_counts = options.numbers("tokens", opt.tokens), hidden_dims = options.numbers("hidden", opt.hidden),
      expert_counts = options.numbers("experts-per-rank", opt.experts_per_rank), topk = options.numbers("topk", opt.topk),
      warmup_iters = opt.warmup, measure_iters = opt.iters or result.null,
    },
  })
end

local function entry(case, mode, m, opt)
  local ranks = {}
  for i, r in ipairs(m.by_rank) do
    ranks[i] = {
      rank = r.rank, passed = true, error = result.null,
      metrics = {
        mode = mode, bandwidth_gbps = r.gb_per_s, avg_latency_us = r.mean_us, min_latency_us = r.min_us, max_latency_us = r.max_us,
        tokens_per_sec = r.tokens_per_s, num_tokens = case.tokens, hidden = case.hidden, topk = case.topk,
        total_experts = case.experts_per_rank * world.size, measure_iters = m.iterations,
      },
    }
  end
  return described(case, mode, ranks, opt)
end

-- A line of time by bytes for each mode with three sizes or more.
local function fits(points)
  for _, mode in ipairs(modes) do
    if points[mode] and #points[mode] >= 3 then
      local f = moe.fit(points[mode])
      if f.refused ~= "" then
        result.note(string.format("%s: no line through the sizes: %s (R2 %.3f, share of the bytes %.2f)", mode, f.refused, f.r2, f.share))
      else
        result.note(string.format("%s: time = %.1f us%s (95 %%: %.1f to %.1f) + bytes / %.2f GB/s (%.2f to %.2f), R2 %.4f%s", mode, f.alpha * 1e6,
          f.starred and "*" or "", f.alpha_low * 1e6, f.alpha_high * 1e6, f.rate / 1e9, f.rate_low / 1e9, f.rate_high / 1e9, f.r2,
          f.starred and "; * the smallest size is more than a tenth of the largest" or ""))
      end
    end
  end
end

local function checked(what, c)
  result.note(string.format("checked %s: %d messages bit by bit, %d results; difference from the ideal %.2e (plus 1: %.2e), from the oracle %.2e",
    what, c.messages, c.tokens, c.difference, c.shifted, c.relative))
end

-- What the JSON and the output say of a mode that was not played to its end: no rank has a result.
local function failed(case, mode, err, opt, out)
  local ranks = {}
  say("%s\nData Plane (%s): 0/%d ranks passed\n%s", rule, mode, world.size, rule)
  for rank = 0, world.size - 1 do
    ranks[rank + 1] = { rank = rank, passed = false, error = err, metrics = result.null }
    say("  Rank %d: %s", rank, string.sub(err, 1, 200))
  end
  out.json[name_of(case, mode)] = described(case, mode, ranks, opt)
end

-- The sizes as labels of samples, by which thresholds choose and comparisons pair: tokens always, the others where several
-- are measured.
local function labels_of(case, opt)
  local labels = { tokens = case.tokens }
  for _, name in ipairs { "hidden", "experts_per_rank", "topk" } do
    if #options.numbers(name, opt[name]) > 1 then
      labels[name] = case[name]
    end
  end
  return labels
end

local samples = { steady = "ep_iteration_us", fresh = "ep_fresh_us", moving = "ep_moving_us" }

local function run_case(case, opt, loads, m, out)
  world.phase("prepare")
  local labels = labels_of(case, opt)
  local plane = moe.open(spec_of(case, opt, loads, m))
  if opt.verify then
    world.phase("verify")
    checked("before", plane:verify { sabotage = opt.sabotage })
  end
  for _, mode in ipairs(case.modes) do
    local entries = options.words("entry", opt.entry, kinds)
    case.iters = opt.iters or patterns.fitting(opt.duration / (out.cases * #case.modes * #entries), function(n)
      plane:measure { mode = mode, iterations = n, warmup = 0, entry = entries[1], record = false }
    end)
    banner(case, mode, opt, out.backend)
    local main = entries[1] -- whose figures are in the block and in the JSON
    local steady
    for i, kind in ipairs(entries) do
      if kind == "steady" then
        main, steady = kind, i
      elseif kind == "fresh" and steady then -- first: the verdict on the waits of steady ones takes account of it
        table.insert(entries, steady, table.remove(entries, i))
      end
    end
    for _, kind in ipairs(entries) do
      world.phase(mode .. " " .. kind)
      local figures = plane:measure {
        mode = mode, iterations = case.iters, warmup = opt.warmup, entry = kind, metric = samples[kind], labels = labels,
      }
      if opt.verify then
        checked("what " .. mode .. " " .. kind .. " left", plane:verify { state = mode })
      end
      if figures then
        out.rows[#out.rows + 1] = row(case, mode, figures)
        if kind == main then
          block(mode, figures)
          for _, r in ipairs(figures.by_rank) do
            result.sample("ep_bandwidth_gb_per_s", r.gb_per_s, labels)
          end
          out.json[name_of(case, mode)] = entry(case, mode, figures, opt)
          out.points[mode] = out.points[mode] or {}
          table.insert(out.points[mode], { figures.bytes_per_rank.assignment, figures.latency_us.avg / 1e6 })
        end
        local outlier = patterns.outlier(figures.most_us)
        if outlier then
          result.note(string.format("%s %s, iterations of the slowest rank: %s", mode, kind, outlier))
        end
        result.note("waits, " .. kind .. ": " .. figures.verdict)
        -- Without several hosts, or --nvlink-backend none, the messages pass no NIC.
        local through = figures.between_hosts_bytes > 0 or opt.nvlink_backend == "none"
        for _, h in ipairs(through and figures.nics or {}) do
          result.note(string.format("NICs of %s (%s), all its traffic: %.3f MB sent and %.3f MB received in %d iterations; messages between hosts: %.3f MB",
            h.host, table.concat(h.nics, ", "), h.sent_bytes / 1e6, h.received_bytes / 1e6, case.iters, figures.between_hosts_bytes / 1e6))
        end
      end
    end
  end
  plane:close()
end

local function check_options(opt)
  moe.check_options(opt)
  if opt.sabotage and not opt.verify then
    options.reject("--sabotage has no effect without --verify")
  end
  printed(opt.columns, {})
end

return {
  about = "Dispatch and combine of a mixture of experts: routed tokens, as in NIXL's EP data plane test.",
  options = patterns.ep_options {
    options.int { "num-processes", nil, "ranks; on each node, with several nodes (default: 8, or as the launcher says)", min = 1, max = 4096, original = true },
    options.string { "mode", "e2e", "dispatch, combine, e2e; several with commas" },
    options.string { "tokens", "512", "tokens of each rank; several with commas" },
    options.string { "hidden", nil, "channels of a token, a multiple of 128; several with commas (default: 4096)" },
    options.string { "experts-per-rank", nil, "several with commas (default: 8)" },
    options.string { "topk", nil, "experts for each token; several with commas (default: 2)" },
    options.int { "shared-experts", nil, "experts of each rank that get all its tokens, without weights (default: 0)", min = 0, max = 64 },
    options.path { "model", nil, "a model's name, its config.json, or a file of your own: hidden size, experts, topk and shared experts" },
    options.int { "warmup", 10, "iterations that are not measured", min = 0, max = 2 ^ 31 },
    options.int { "iters", 100, "measured iterations; the first is left out", min = 1, max = 2 ^ 31 },
    patterns.duration "iters",
    options.string { "entry", "steady,fresh", "steady: one iteration after the other; fresh: a barrier before each; moving: only what moves" },
    options.enum { "payload", "fp8", "dispatched channels", choices = { "fp8", "bf16" } },
    options.enum { "staging", "auto", "on: a dispatch copies what a rank is sent into one piece; auto: on with NIXL", choices = { "auto", "on", "off" } },
    options.enum { "routing", "uniform", "how experts are chosen; see docs/ep.md", choices = families },
    options.int { "routing-seed", nil, "seed of the routing, where it is not --seed", min = 0, hidden = true },
    options.bool { "verify", false, "check every byte before, and what the measured iterations leave" },
    options.enum { "sabotage", nil, "with --verify: plant a fault that must be found", choices = sabotages },
    options.string { "columns", nil, "columns of the table, with commas, or all; the result has them all (default: " .. usual .. ")" },
    options.output { "json-output-path", nil, "write the figures of all ranks as JSON", original = true },
    unpack(moe.options()),
  },
  metrics = {
    { "ep_iteration_us", "time of an iteration of the slowest rank, one after the other", better = "lower" },
    { "ep_fresh_us", "the same after a barrier", better = "lower" },
    { "ep_moving_us", "time of the slowest rank to move the messages of an iteration", better = "lower" },
    { "ep_bandwidth_gb_per_s", "bytes by assignment of a rank over its mean time", better = "higher" },
  },
  ranks = function(opt)
    check_options(opt)
    local n = opt.num_processes or 8
    opt = patterns.experts(opt, n, defaults)
    for _, case in ipairs(sweep(opt)) do
      moe.check(spec_of(case, opt, nil, nil), n)
    end
    return n
  end,
  run = function(opt)
    check_options(opt)
    if opt.num_processes and world.size % opt.num_processes ~= 0 then
      options.reject(string.format("--num-processes is %d, but the launcher has started %d ranks", opt.num_processes, world.size),
        "leave --num-processes out: the launcher decides")
    end
    opt = patterns.experts(opt, world.size, defaults)
    local backend = patterns.ep_backend(opt)
    local loads = opt.loads and moe.loads(opt.loads, opt.layer or 0)
    local m = opt.matrix and matrix.load(opt.matrix)
    local cases = sweep(opt)
    local out = { rows = {}, json = {}, points = {}, backend = backend, cases = #cases }
    for _, case in ipairs(cases) do
      local ok, err = pcall(run_case, case, opt, loads, m, out)
      if not ok then
        for _, mode in ipairs(case.modes) do
          if not out.json[name_of(case, mode)] then
            failed(case, mode, err, opt, out)
          end
        end
        save(opt, out)
        error(err, 0)
      end
    end
    local shown, named = printed(opt.columns, out.rows)
    result.table {
      title = "GB/s of a rank" .. (opt.columns and " on four bases; times in us: mean, send, recv and wait over ranks, p50 to p99 of the slowest rank"
        or " by assignment; us: mean over ranks, p50 and p99 of the slowest rank; wait: share of the mean; more with --columns all"),
      columns = shown, rows = out.rows, keys = named,
    }
    fits(out.points)
    save(opt, out)
  end,
}
