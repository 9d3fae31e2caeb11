-- A list of traffic patterns, such as the KV caches of a series of batches:
-- first each alone, then all in their order with the pauses between them, so
-- that patterns of different initiators overlap and may disturb each other.
-- Both are measured alike: the same ranks meet, pause and run.

local schema = {
  { name = "traffic_patterns", type = "list", required = true, min = 1, elem = { type = "map", fields = patterns.fields } },
  { name = "iters", type = "int", min = 1, max = 1e8, aliases = { "n_iters" }, help = "times the whole list is played" },
  { name = "isolation_iters", type = "int", min = 1, max = 1e8, aliases = { "n_isolation_iters" }, help = "runs of each pattern alone" },
  { name = "warmup_iters", type = "int", min = 0, max = 1e8, help = "unmeasured runs to each destination" },
  { name = "meet", type = "enum", enum = { "initiators", "all" }, help = "who meets and sleeps before a pattern" },
  { name = "start", type = "enum", enum = { "barrier", "clock" }, help = "how initiators start: as they leave the barrier, or at an instant" },
  { name = "isolation_gap", type = "float", min = 0, help = "longest pause before a run alone, in seconds" },
  { name = "sleep_from", type = "enum", enum = { "end", "launch" }, help = "from when a rank's pause before a pattern counts: the end of its pattern before, or that one's launch" },
  { name = "generator", type = "any", help = "how perigee matgen made the workload" },
}

local function median(values)
  table.sort(values)
  local n = #values
  return (values[math.floor((n + 1) / 2)] + values[math.floor(n / 2) + 1]) / 2
end

-- Lets the ranks of a plan meet: its initiators, or all that take part. Returns whether this rank is one of them.
local function meet(plan, who)
  if who == "all" then
    plan:barrier()
    return plan.takes_part
  end
  plan:initiators_barrier()
  return plan.initiates
end

-- Seconds that an iteration of the workload takes: those of the last rank to end. alone(i) is how long pattern i takes.
-- Each rank is free from the end of its pattern before, and a pattern starts once all that meet are.
local function duration(plans, config, alone)
  local free, launched, last = {}, {}, 0
  for i, plan in ipairs(plans) do
    local pattern, start = config.traffic_patterns[i], 0
    local ranks = config.meet == "all" and plan.ranks or plan.initiators
    for _, rank in ipairs(ranks) do
      start = math.max(start, free[rank] or 0)
    end
    for _, rank in ipairs(ranks) do
      local computed = config.sleep_from == "launch" and launched[rank] and start - launched[rank] or 0
      launched[rank] = start + math.max(0, pattern.sleep_before_launch_sec - computed)
      free[rank] = launched[rank] + alone(i) + pattern.sleep_after_launch_sec
      last = math.max(last, free[rank])
    end
  end
  return last
end

-- The iterations of such a duration that fit into a minute, within bounds.
local function default_iterations(seconds)
  return math.max(3, math.floor(math.min(10, 60 / seconds)))
end

-- Says how many iterations of the workload there will be: by how long each pattern took alone, as rank 0 knows.
local function announce(plans, config, isolated)
  local iters
  if isolated then
    local each = duration(plans, config, function(i) return isolated[i].isolated or 0 end)
    iters = default_iterations(each)
    result.note(string.format("%d iterations of the workload, about %s each; --iters N sets another number", iters,
      each < 1 and string.format("%.1f ms", each * 1e3) or string.format("%.1f s", each)))
  end
  return world.broadcast(iters)
end

-- Every pattern alone, in turn, so that caches and connections are as warm as in the workload. gap bounds the
-- pause before each run. From the turn from on every byte is checked.
local function run_isolated(plans, config, iterations, bar, from)
  for turn = 1, iterations do
    local verify = turn >= from
    for i, plan in ipairs(plans) do
      if verify then
        plan:fill(turn)
      end
      world.barrier()
      if meet(plan, config.meet) then
        clock.sleep(math.min(config.traffic_patterns[i].sleep_before_launch_sec, config.isolation_gap))
        plan:run()
      end
      if verify then
        plan:check(turn)
      end
      bar:add(1, math.min(config.traffic_patterns[i].sleep_before_launch_sec, config.isolation_gap))
    end
    transfer.save(plans)
  end
  return transfer.collect(plans)
end

-- The whole list once. A rank waits only for those that it meets. Without record nothing is recorded. With sleep_from =
-- "launch" a rank computes while its last pattern is under way: what that has taken is no longer slept.
local function run_workload(plans, config, record)
  world.barrier()
  local started, starts, stops, launched = clock.wall(), {}, {}, nil
  for i, plan in ipairs(plans) do
    starts[i], stops[i] = result.null, result.null
    if meet(plan, config.meet) then
      local elapsed = launched and config.sleep_from == "launch" and clock.now() - launched or 0
      clock.sleep(math.max(0, config.traffic_patterns[i].sleep_before_launch_sec - elapsed))
      starts[i], launched = clock.wall(), clock.now()
      plan:run { record = record }
      stops[i] = clock.wall()
      clock.sleep(config.traffic_patterns[i].sleep_after_launch_sec)
    end
  end
  world.barrier()
  return { start_ts = started, tps_start_ts = starts, tps_end_ts = stops }
end

-- Plays the list once more, no two patterns in the same memory, so that every byte is still there in the end. Those with
-- storage_ops run, but are not checked: their files are shared.
local function verify_workload(plans, config)
  local apart = transfer.apart(plans)
  if not apart then
    result.note("the workload was not verified: its patterns share memory, and apart from each other they take more than a host or a GPU has left")
    return
  end
  local checked = {}
  for i, plan in ipairs(apart) do
    if not config.traffic_patterns[i].storage_ops then
      table.insert(checked, plan)
      plan:fill(1)
    end
  end
  run_workload(apart, config, false)
  for _, plan in ipairs(checked) do
    plan:check(1)
  end
  result.note("verified: every byte of " .. #checked .. " of " .. #plans .. (#plans == 1 and " pattern" or " patterns") .. " in one more iteration of the workload, in which no two share memory, arrived as it was sent")
end

-- Median over runs of the latency in ms; nil without runs.
local function latency(runs)
  local values = {}
  for k, run in ipairs(runs) do
    values[k] = run.latency * 1e3
  end
  return #values > 0 and median(values) or nil
end

-- One iteration in the units of the table: GB, ms, GB/s, seconds since 1970.
-- What a pattern without senders lacks is null, so that every key is always there.
local function describe(plans, isolated, runs)
  local list = {}
  local since_1970 = clock.wall() - clock.now()
  for i, plan in ipairs(plans) do
    local run = runs[i].runs[1]
    list[i] = {
      size = plan.bytes / 1e9,
      num_senders = #plan.senders,
      latency = run and run.latency * 1e3 or result.null,
      isolated_latency = isolated[i].isolated and isolated[i].isolated * 1e3 or result.null,
      isolated_latency_median = #plan.senders > 0 and latency(isolated[i].runs) or result.null,
      mean_bw = run and run.mean_bandwidth / 1e9 or result.null,
      min_start_ts = run and run.start + since_1970 or result.null,
      max_end_ts = run and run.stop + since_1970 or result.null,
    }
  end
  return list
end

-- What is printed of the workload: the latency and bandwidth of each pattern in each iteration that is kept.
local function printed(plans)
  local kept = {}
  for i = 1, #plans do
    kept[i] = { latencies = {}, bandwidths = {} }
  end
  return kept
end

-- Adds an iteration.
local function print_later(kept, collected)
  for i, one in ipairs(collected) do
    local run, n = one.runs[1], #kept[i].latencies + 1
    if run then
      kept[i].latencies[n], kept[i].bandwidths[n] = run.latency, run.mean_bandwidth
    end
  end
end

-- kept is what printed has begun, totals are those of transfer.totals.
local function print_table(plans, kept, totals, isolated, iterations)
  local rows = {}
  for i, plan in ipairs(plans) do
    local empty, all = #plan.senders == 0, totals[i]
    rows[i] = {
      plan.bytes / 1e9,
      not empty and (all.latency or median(kept[i].latencies)) * 1e3 or nil,
      not empty and latency(isolated[i].runs) or nil,
      #plan.senders,
      not empty and median(kept[i].bandwidths) / 1e9 or nil,
    }
  end
  result.note("latencies and bandwidth: median of " .. iterations .. (iterations == 1 and " iteration" or " iterations") .. ", alone of " .. #isolated[1].runs .. "; - marks a pattern in which no rank sends")
  result.table {
    columns = {
      { "Transfer size (GB)", "%.3f" }, { "Latency (ms)", "%.3f" }, { "Isolated Latency (ms)", "%.3f" },
      { "Num Senders", "%d" }, { "Mean BW (GB/s)", "%.3f" },
    },
    rows = rows,
  }
end

-- Whether a pattern reads or writes files.
local function has_files(config)
  for _, pattern in ipairs(config.traffic_patterns) do
    if pattern.storage_ops then
      return true
    end
  end
  return false
end

-- Says where the report will not say what contention costs.
local function hint(count, iters, isolation_iters)
  local enough = 5 -- contention.MinRuns
  local few = iters < enough and "iters" or isolation_iters < enough and "isolation-iters"
  if count > 1 and few then
    result.note(string.format("too few runs to say what contention costs, if patterns overlap: that takes %d; --%s %d, or more", enough,
      few, enough))
  end
end

return {
  about = "A list of traffic patterns, each alone and then one after the other: what does contention cost?",
  options = {
    options.path { "config", nil, "YAML, TOML or JSON file with traffic_patterns", arg = true },
    options.bool { "verify", false, "check every byte of the last isolated run of each pattern, and of one more iteration of the workload, in which no two patterns share memory; =every: of every isolated run, with other bytes each time", choices = { "every" }, aliases = { "verify-buffers" } },
    options.bool { "verify-every", false, "the same as --verify=every", hidden = true },
    options.bool { "print-recv-buffers", false, "print the beginning of every received message" },
    options.output { "json-output-path", nil, "write the measurements as JSON, in the layout of NIXL's CTPerftest", original = true },
    patterns.mem_type "memory of the buffers, instead of the config's",
    options.enum { "op", nil, "operation, instead of the config's", choices = { "WRITE", "READ" } },
    options.int { "iters", nil, "times the whole list is played (config, else as many as fit into a minute, 3 to 10)", min = 1, max = 1e8 },
    patterns.duration "iters",
    options.int { "isolation-iters", nil, "runs of each pattern alone (config, else 30)", min = 1, max = 1e8 },
    options.int { "warmup-iters", nil, "unmeasured runs to each destination (config, else 30)", min = 0, max = 1e8 },
    options.number { "isolation-gap", nil, "longest pause before a run alone, in seconds (config, else 0.005); a pause is never longer than that of the workload", min = 0 },
    options.enum { "meet", nil, "who meets and sleeps before a pattern (config, else initiators)", choices = { "initiators", "all" } },
    options.enum { "start", nil, "how the initiators of a pattern start: as they leave the barrier, or at an instant that they agree on (config, else barrier)", choices = { "barrier", "clock" } },
  },
  ranks = function(opt)
    return patterns.ranks(config.load(opt.config, schema).traffic_patterns[1])
  end,
  run = function(opt)
    local config = config.load(opt.config, schema)
    local iters = not opt.duration and (opt.iters or config.iters) or nil
    config.meet = opt.meet or config.meet or "initiators"
    config.isolation_gap = opt.isolation_gap or config.isolation_gap or 0.005
    local isolation_iters = opt.isolation_iters or config.isolation_iters or 30
    local timeline = { ts = clock.wall(), iters = {} }

    world.phase("prepare")
    local before, preparing = clock.now(), 0
    local plans = patterns.prepare(config.traffic_patterns, { mem = opt.mem_type, op = opt.op, start = opt.start or config.start, meet = config.meet, generator = config.generator })
    for _, plan in ipairs(plans) do
      preparing = preparing + plan.prep_seconds
    end
    timeline.engine_prepare_time = world.reduce(preparing, "max")
    timeline.prepare_tp_time = world.reduce(clock.now() - before, "max")
    result.note(string.format("prepared %d pattern%s in %.3f s", #plans, #plans == 1 and "" or "s", timeline.prepare_tp_time))

    -- Pauses are known beforehand: those of an iteration, and of each pattern alone. Without a number of iterations there
    -- are at most those that the pauses leave room for.
    local pauses, gaps = duration(plans, config, function() return 0 end), 0
    for _, pattern in ipairs(config.traffic_patterns) do
      gaps = gaps + math.min(pattern.sleep_before_launch_sec, config.isolation_gap)
    end
    local most = opt.duration and 1 or iters or default_iterations(pauses)
    transfer.expect(plans, isolation_iters + most)

    world.phase("warmup")
    transfer.warmup(plans, opt.warmup_iters or config.warmup_iters or 30)

    world.phase("isolated")
    local bar = result.progress(#plans * (isolation_iters + (opt.duration and 0 or most)), "runs",
      isolation_iters * gaps + (opt.duration or most * pauses))
    timeline.sol_calculation_ts = clock.wall()
    local every = opt.verify_every or opt.verify == "every"
    local from = every and 1 or opt.verify and isolation_iters or math.huge
    local isolated = run_isolated(plans, config, isolation_iters, bar, from)

    if every then
      result.note("verified: every byte of " .. #plans * isolation_iters .. " isolated runs arrived as it was sent")
    elseif opt.verify then
      result.note("verified: every byte of the last isolated run of " .. (#plans == 1 and "the pattern" or "each of " .. #plans .. " patterns") .. " arrived as it was sent")
    end

    if not iters and not opt.duration then
      iters = announce(plans, config, isolated)
      bar:expect(#plans * (isolation_iters + iters), isolation_iters * gaps + iters * pauses)
    end
    world.phase("workload")
    -- A job of given duration keeps some of its iterations, evenly over the time: owed is how many of those so far.
    local iterations, stored, kept, done, owed = {}, {}, printed(plans), 0, 0
    local files = has_files(config)
    local room = patterns.kept(opt.json_output_path and 3 * #plans or #plans) -- an entry for JSON takes several times as much
    for piece, nth in patterns.pieces(iters, opt.duration, plans, opt.duration and room, opt.duration and math.huge) do
      for _ = 1, piece do
        owed = owed + 1 / nth
        local keep = owed >= 1 - 1e-9
        if keep then
          owed = owed - 1
          transfer.keep()
        else
          transfer.keep(0)
        end
        local start = clock.now()
        local played = run_workload(plans, config, true)
        local runs = transfer.collect(plans)
        bar:add(#plans, opt.duration and clock.now() - start or pauses)
        done = done + 1
        if runs and keep then
          print_later(kept, runs)
          if files then
            stored[#stored + 1] = runs
          end
          if opt.json_output_path then
            local n = #iterations + 1
            iterations[n], timeline.iters[n] = describe(plans, isolated, runs), played
          end
        end
      end
    end
    local totals = transfer.totals(plans)
    bar:finish()
    if every or opt.verify then
      world.phase("verify")
      verify_workload(plans, config)
    end

    if opt.print_recv_buffers then
      for _, plan in ipairs(plans) do
        patterns.print_received(plan)
      end
    end
    timeline.finished_ts = clock.wall()
    if world.rank == 0 then
      print_table(plans, kept, totals, isolated, done)
      patterns.print_storage(plans, stored)
      hint(#plans, done, isolation_iters)
    end
    if opt.json_output_path then
      result.save(opt.json_output_path, { iterations_results = iterations, metadata = timeline })
    end
  end,
}
