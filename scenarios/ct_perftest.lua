-- One traffic pattern, many times.

local schema = {
  { name = "traffic_pattern", type = "map", required = true, fields = patterns.fields },
  { name = "iters", type = "int", min = 1, max = 1e8, default = 1, aliases = { "n_iters" }, help = "measured runs" },
  { name = "warmup_iters", type = "int", min = 0, max = 1e8, default = 0, help = "unmeasured runs first" },
  { name = "start", type = "enum", enum = { "barrier", "clock" }, help = "how initiators start the first run: as they leave the barrier, or at an instant" },
}

-- The configuration. One with a list of patterns is refused with the name of the command that plays it.
local function load(opt)
  local any = config.load(opt.config)
  if type(any) == "table" and any.traffic_patterns and not any.traffic_pattern then
    options.reject(opt.config .. " has a list of patterns, traffic_patterns", "perigee sequential-ct-perftest plays it; ct-perftest plays one traffic_pattern")
  end
  return config.load(opt.config, schema)
end

-- Bandwidth of each initiator over all runs: its bytes by its own time.
local function by_rank(plan, total)
  local rows = {}
  for _, rank in ipairs(plan.initiators) do
    local seconds, bytes = total.rank_seconds[rank], total.rank_bytes[rank]
    rows[#rows + 1] = { rank, bytes / 1e9, seconds / total.runs * 1e3, bytes / seconds / 1e9 }
  end
  return rows
end

-- So many runs are gathered at once: to gather tiny ones takes several times as long as to play them, and until they are
-- gathered a job that is killed loses them.
local most_at_once = 10000

-- Of a stretch of runs so many are kept at least, if any: how initiators drift apart shows in runs that follow each other.
local least_kept = 20

-- Pieces of n runs, for `for k in ...`, which take about half a second each, and the first one by the seconds that each run is
-- to take; it has one run where these are not known, math.huge. Between two the ranks agree on the next by what the last
-- took: that gap is no part of the total time.
local function brief(n, each, plan)
  local piece, began
  return function()
    if piece and n > 0 then
      each = world.reduce(clock.now() - began, "max") / piece
      plan:gap()
    end
    if n == 0 then
      return nil
    end
    piece = math.max(1, math.floor(math.min(n, 0.5 / each, most_at_once)))
    n, began = n - piece, clock.now()
    return piece
  end
end

-- all are the totals of the runs; false where no rank sends.
local function report(opt, plan, all, iters)
  local total, size = all and all.seconds or nil, plan.bytes * iters / 1e9
  if not total then
    result.note("no rank sends anything in this pattern")
  end
  result.table {
    columns = {
      { "Iters", "%d" }, { "Total time (s)", "%.6f" }, { "Avg latency/iter (s)", "%.9f" }, { "Total size (GB)", "%.3f" },
      { "Algorithm BW (GB/s)", "%.3f" },
    },
    rows = { { iters, total, total and total / iters, size, total and size / total } },
  }
  local ranks = total and by_rank(plan, all) or {}
  result.table {
    title = "bandwidth by rank",
    columns = { { "Rank", "%d" }, { "Size (GB)", "%.3f" }, { "Mean latency (ms)", "%.6f" }, { "BW (GB/s)", "%.3f" } },
    rows = ranks,
  }
  if not opt.json_output_path then
    return
  end
  local bandwidth = {}
  for i, row in ipairs(ranks) do
    bandwidth[i] = { rank = row[1], size_gb = row[2], mean_latency_ms = row[3], bw_gb_per_s = row[4] }
  end
  result.save(opt.json_output_path, {
    iters = iters, total_size_gb = size, bandwidth_by_rank = bandwidth,
    total_time_s = total or result.null, avg_latency_s = total and total / iters or result.null,
  })
end

return {
  about = "One traffic pattern, many times: total latency, time per iteration, bandwidth by rank.",
  options = {
    options.path { "config", nil, "YAML, TOML or JSON file with traffic_pattern", arg = true },
    options.bool { "verify", false, "check every byte of the last measured run; =every: of every measured run, with other bytes each time", choices = { "every" }, aliases = { "verify-buffers" } },
    options.bool { "verify-every", false, "the same as --verify=every", hidden = true },
    options.bool { "print-recv-buffers", false, "print the beginning of every received message" },
    options.output { "json-output-path", nil, "write the measurements as JSON", original = true },
    patterns.mem_type "memory of the buffers, instead of the config's",
    options.enum { "op", nil, "operation, instead of the config's", choices = { "WRITE", "READ" } },
    options.int { "iters", nil, "measured runs, instead of the config's", min = 1, max = 1e8 },
    patterns.duration "iters",
    options.int { "warmup-iters", nil, "unmeasured runs first, instead of the config's", min = 0, max = 1e8 },
    options.enum { "start", nil, "how the initiators start the first run: as they leave the barrier, or at an instant that they agree on (config, else barrier)", choices = { "barrier", "clock" } },
    options.int { "isolation-iters", nil, "accepted for symmetry; one pattern is always alone", min = 1, max = 1e8, original = true },
  },
  ranks = function(opt)
    return patterns.ranks(load(opt).traffic_pattern)
  end,
  run = function(opt)
    local config = load(opt)
    if opt.isolation_iters then
      result.note("--isolation-iters has no effect: one pattern is always alone")
    end
    local iters = not opt.duration and (opt.iters or config.iters) or nil

    world.phase("prepare")
    local plan = patterns.prepare({ config.traffic_pattern }, { mem = opt.mem_type, op = opt.op, start = opt.start or config.start })[1]
    transfer.expect({ plan }, iters or 1)
    result.note("op: " .. plan.op)

    world.phase("warmup")
    world.barrier()
    local warmup, began = opt.warmup_iters or config.warmup_iters, clock.now()
    plan:run { iterations = warmup, record = false }
    local each = warmup > 0 and world.reduce((clock.now() - began) / warmup, "max") or math.huge

    world.phase("workload")
    local bar = result.progress(iters or 0, "iterations", opt.duration)
    world.barrier()
    if plan.takes_part then
      clock.sleep(config.traffic_pattern.sleep_before_launch_sec)
    end
    local every, done = opt.verify_every or opt.verify == "every", 0
    local function play(n, verified)
      if verified then
        plan:fill(done + 1)
      end
      plan:run(n)
      if verified then
        plan:check(done + 1)
      end
      done = done + n
      bar:add(n)
    end
    -- In pieces of half a second: a job that ends early loses those runs that were not saved, and the bar moves. The
    -- last run comes alone where it is checked.
    local last = opt.verify and not every and 1 or 0
    local pieces = iters and brief(iters - last, every and math.huge or each, plan)
      or patterns.pieces(nil, opt.duration, { plan }, patterns.kept(1), most_at_once)
    local waiting = 0 -- runs since the last that were many
    local owed = 0 -- runs that may be kept of those so far
    for piece, nth in pieces do
      local thin = opt.duration and nth > 1
      if thin then
        if waiting > 0 then -- all of these are kept
          transfer.save({ plan }, false, true)
          waiting = 0
        end
        owed = owed + piece / nth
        local keep = owed >= least_kept and math.floor(owed) or 0
        transfer.keep(keep)
        owed = owed - keep
      else
        transfer.keep()
      end
      for _ = 1, every and piece or 1 do
        play(every and 1 or piece, every)
      end
      waiting = waiting + piece
      local many = waiting >= most_at_once or thin -- before the next piece, of which others are kept
      transfer.save({ plan }, false, many)
      waiting = many and 0 or waiting
    end
    if last > 0 then
      world.barrier() -- all runs before are over
      play(1, true)
    end
    bar:finish()
    if plan.takes_part then
      clock.sleep(config.traffic_pattern.sleep_after_launch_sec)
    end
    local collected = transfer.collect { plan }
    if every then
      result.note("verified: every byte of " .. done .. " measured runs arrived as it was sent")
    elseif opt.verify then
      result.note("verified: every byte of the last measured run arrived as it was sent")
    end
    if opt.print_recv_buffers then
      patterns.print_received(plan)
    end
    if world.rank ~= 0 then
      return
    end

    report(opt, plan, transfer.totals({ plan })[1], done)
    patterns.print_storage({ plan }, { collected })
  end,
}
