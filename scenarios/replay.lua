-- A serving trace as real transfers: each request's KV cache moves from a prefill worker to a decode worker when the
-- request came, whatever is under way then.

-- What replay.open takes, under the names of the options.
local of_schedule = {
  "trace", "trace_unit", "model", "kv_cache_dtype", "state_dtype", "serving", "kv_replicas", "prefill", "decode", "routing", "moved", "cache", "block_size", "page_size", "run_length", "flops", "layer_runs",
  "in_flight", "from", "to", "speed_up", "scale", "spread", "op", "pool",
}

local function spec(opt)
  local t = { mem = opt.mem_type }
  for _, name in ipairs(of_schedule) do
    t[name] = opt[name]
  end
  if opt.duration then
    t.to = (opt.from or 0) + opt.duration * opt.speed_up
  end
  return t
end

-- A row of percentiles in a unit of so many nanoseconds.
local function times(what, t, ns)
  return t and { what, t.p50_ns / ns, t.p90_ns / ns, t.p99_ns / ns, t.max_ns / ns }
end

local function shares(what, t)
  return t and { what, t.p50, t.p90, t.p99, t.max }
end

local function report(f)
  for _, line in ipairs(f.answer) do
    print(line)
  end
  local rows = {}
  for i, x in ipairs(f.scales) do
    rows[i] = {
      x.window_s, x.peak_offered_bytes_per_s / 1e9, x.peak_carried_bytes_per_s / 1e9, x.peak_offered_bytes_per_s / f.offered_bytes_per_s,
      x.offered_of_capacity, f.capacity_bytes_per_s and x.windows_over_capacity, x.windows, x.peak_offered_to_a_decode_rank_bytes_per_s / 1e9,
    }
  end
  result.table {
    title = "load by windows of one length, in the replay's time" .. (f.speed_up ~= 1 and string.format(" (0.1 s are %.3g s of the trace)", 0.1 * f.speed_up) or ""),
    columns = {
      { "Window (s)", "%g" }, { "Peak offered (GB/s)", "%.6g" }, { "Peak carried (GB/s)", "%.6g" }, { "Offered/mean", "%.3f" }, { "Offered/capacity", "%.3f" },
      { "Beyond it", "%d" }, { "Windows", "%d" }, { "Peak to a rank (GB/s)", "%.6g" },
    },
    rows = rows,
  }
  rows = {}
  for _, row in pairs {
    times("from due to done (ms)", f.latency, 1e6), times("from posted to done (ms)", f.transfer, 1e6), times("waiting for admission (ms)", f.queue, 1e6),
    shares("slowdown against alone", f.slowdown), shares("share of TTFT", f.ttft_share),
  } do
    rows[#rows + 1] = row
  end
  result.table {
    title = "requests",
    columns = { { "Time", "%s" }, { "P50", "%.4g" }, { "P90", "%.4g" }, { "P99", "%.4g" }, { "Max", "%.4g" } },
    rows = rows,
  }
  local l = f.lateness
  result.table {
    title = "lateness of posts, by the common clock",
    columns = {
      { "P50 (us)", "%.1f" }, { "P99 (us)", "%.1f" }, { "Max (us)", "%.1f" }, { "Limit of P99 (us)", "%.1f" }, { "Posts", "%d" }, { "Late", "%d" },
      { "Stalls", "%d" }, { "P99/mean gap", "%.3f" },
    },
    rows = { { l.p50_ns / 1e3, l.p99_ns / 1e3, l.max_ns / 1e3, l.limit_ns / 1e3, l.posts, l.late_posts, l.stalls, l.p99_of_mean_gap } },
  }
  result.note(string.format("%d requests in %.3f s, and %.3f s of drain; offered: all bytes / %.3f s; carried: what moved within them", f.done,
    f.span_ns / 1e9, f.drain_ns / 1e9, f.span_ns / 1e9))
  if f.alone_fit then
    local alpha = f.alone_fit.alpha_ns > 0 and string.format("%.1f us + ", f.alone_fit.alpha_ns / 1e3) or ""
    result.note(string.format("alone: %sbytes / %.3f GB/s (r2 %.3f)", alpha, f.alone_fit.bytes_per_s / 1e9, f.alone_fit.r2))
  end
  result.note(string.format("TTFT: prefill at %g operations per second of a GPU%s, and the transfer after it. " ..
    "Prefill takes matgen's time, a lower bound for wide models, so the share is an upper bound there", f.flops,
    f.waits_for_prefill and "" or ", without queues"))
  if f.scale ~= 1 or f.speed_up ~= 1 then
    result.note("latency, slowdown and share of TTFT are those of scaled bytes and times, not of the system that the trace is of")
  end
end

return {
  about = "A serving trace as transfers of KV caches: what it offers, what is carried, and what could be.",
  options = {
    options.path { "trace", nil, "a serving trace: Mooncake, Bailian, dynamo JSON lines; Azure, BurstGPT or other CSV; may be gzip", arg = true },
    options.string { "model", nil, "whose KV cache moves: a model's name, its config.json, or a file of your own" },
    options.string { "kv-cache-dtype", nil, "precision of the cache: bf16 (the default), fp8 and others; auto for that of the model's file" },
    options.enum { "state-dtype", nil, "precision of states (default: that of the file, the class or the engine)", choices = { "float32", "bfloat16" } },
    options.enum { "serving", "none", "move what an engine moves, in its pages; none: what the model keeps", choices = { "none", "vllm", "sglang", "trtllm" } },
    options.enum { "kv-replicas", "full", "what decode ranks that hold the same cache receive: each all of it, or each a part", choices = { "full", "split" } },
    options.string { "prefill", nil, "prefill workers: 4xTP8 are 4 of 8 ranks each; their ranks come first" },
    options.string { "decode", nil, "decode workers, likewise" },
    options.enum { "routing", "round-robin", "how a request's workers are chosen", choices = { "round-robin", "least-loaded", "prefix-aware" } },
    options.enum { "moved", "prompt", "what moves: the whole prompt, or the blocks that the decode worker has not got", choices = { "prompt", "miss" } },
    options.int { "cache", nil, "blocks that each worker keeps, the least recently used going first (default: all)", min = 1 },
    options.tokens { "block-size", nil, "tokens of a hash id (default: as the trace says)", min = 1 },
    options.tokens { "page-size", nil, "tokens of a page, each a descriptor a layer (default: the engine's own; with none one descriptor a group of layers and peer)", min = 1 },
    options.int { "run-length", nil, "contiguous pages of a layer that are one descriptor: how fragmented the engine's list of blocks is (default: 1)", min = 1 },
    options.number { "flops", nil, "operations per second of a GPU in prefill, for which transfers then wait (default: they start at the arrival)", min = 1 },
    options.int { "layer-runs", nil, "runs of layers that leave one by one during the prefill; needs --flops", min = 1 },
    options.int { "in-flight", nil, "transfers that a decode rank admits at a time; needs --op READ (default: all)", min = 1 },
    options.duration { "from", nil, "where in the trace to begin" },
    options.duration { "to", nil, "where in the trace to end, itself included" },
    options.duration { "duration", nil, "play only what comes within so long from the start, such as 30s, at the run's own pace", instead_of = "to" },
    options.number { "speed-up", 1, "divide all times by this", min = 1e-9 },
    options.number { "scale", 1, "keep only this part of all bytes, such as 0.001 or 1/1000, and all descriptors", min = 1e-9, max = 1 },
    options.bool { "spread", false, "spread requests over the tick of the trace's grid, drawn with --seed" },
    options.enum { "op", "READ", "READ: decode ranks fetch; WRITE: prefill ranks send", choices = { "READ", "WRITE" } },
    patterns.mem_type(),
    options.size { "pool", nil, "bytes of each of a rank's two buffers (default: 256M, or what the largest transfer needs)" },
    options.duration { "max-late", "1ms", "99 % of all posts must not be later" },
    options.string { "trace-unit", nil, "unit of the trace's timestamps, s, ms, us or ns, where it does not say it" },
    options.bool { "verify", false, "first move the whole trace as fast as possible, and check every byte" },
    options.number { "isolated", 3, "seconds of transfers alone; 0 leaves them out", min = 0, max = 3600 },
    options.number { "capacity", 3, "seconds of all transfers as fast as possible; 0 leaves them out", min = 0, max = 3600 },
  },
  ranks = function(opt)
    return replay.ranks(spec(opt))
  end,
  run = function(opt)
    world.phase("prepare")
    local r = replay.open(spec(opt))
    if opt.verify then
      world.phase("verify")
      local bar = result.progress(r.transfers, "transfers")
      r:verify { progress = bar }
      bar:finish()
    end
    if opt.isolated > 0 then
      world.phase("isolated")
      r:isolated { seconds = opt.isolated }
    end
    if opt.capacity > 0 then
      world.phase("capacity")
      r:capacity { seconds = opt.capacity }
    end
    world.phase("replay")
    local bar = result.progress(r.requests, "requests", r.seconds)
    local figures = r:play { max_late = opt.max_late, progress = bar }
    bar:finish()
    if figures then
      report(figures)
    end
  end,
}
