-- Every rank sends to every other, messages of one size or of a range of sizes.

local us = 1e6

-- Figures as in nccl-tests: its size is that of the buffer, one message for each rank, and busbw leaves out a rank's
-- message to itself.
local columns = {
  { "Message (B)", "%d" }, { "Buffer (B)", "%d" }, { "Iters", "%d" }, { "Min (us)", "%.2f" }, { "Time (us)", "%.2f" },
  { "p99 (us)", "%.2f" }, { "Algbw (GB/s)", "%.3f" }, { "Busbw (GB/s)", "%.3f" },
}

local function row(message, runs)
  local seconds = {}
  for i, run in ipairs(runs) do
    seconds[i] = run.latency
    result.sample("busbw_gb_per_s", message * (world.size - 1) / run.latency / 1e9, { message = message })
  end
  if #seconds == 0 then
    return { message, message * world.size, 0 }
  end
  local q = patterns.quantiles(seconds)
  local algbw = message * world.size / q(0.5) / 1e9
  return {
    message, message * world.size, #seconds, q(0) * us, q(0.5) * us, q(0.99) * us,
    algbw, algbw * (world.size - 1) / world.size,
  }
end

-- Where one size is measured, what each run took.
local function print_runs(runs)
  local rows = {}
  for i, run in ipairs(runs) do
    rows[i] = { i, run.latency * 1e3, run.mean_bandwidth / 1e9 }
  end
  result.table {
    title = "runs",
    columns = { { "Run", "%d" }, { "Latency (ms)", "%.3f" }, { "Mean BW per rank (GB/s)", "%.3f" } },
    rows = rows,
  }
end

return {
  about = "Every rank sends the same number of bytes to every other; prints latency and bandwidth. -b, -e and -f sweep it.",
  options = patterns.size_options {
    options.size { "size", nil, "bytes in each message, if its size is not swept (default: 1M)", min = 1 },
    options.int { "iters", 20, "measured runs of each size", min = 1 },
    patterns.duration "iters",
    patterns.mem_type(),
  },
  metrics = { { "busbw_gb_per_s", "bytes that a rank sends to others / latency; each run, by message", better = "higher" } },
  ranks = 4,
  run = function(opt)
    local sizes, specs = patterns.sizes(opt, 2 ^ 20), {}
    for i, size in ipairs(sizes) do
      specs[i] = { name = #sizes > 1 and "alltoall " .. size or nil, matrix = matrix.all_to_all { bytes = size }, mem = opt.mem_type }
    end
    local plans = transfer.prepare_all(specs)
    if #plans[1].initiators == 0 then
      result.note("no rank sends anything: one rank alone has no other")
    end
    transfer.expect(plans, opt.iters or 1)
    local most = opt.duration and patterns.recorded(#plans)
    local out = result.table {
      title = "Message: to each other rank, as -b and --size count; Buffer: a message for each rank, the size of nccl-tests",
      columns = columns, keys = 2, stream = true,
    }
    local last
    for i, plan in ipairs(plans) do
      local this = { plan }
      plan:run { iterations = 5, record = false }
      for piece, every in patterns.pieces(opt.iters, opt.duration and opt.duration / #sizes, this, most) do
        for k = 1, piece do
          world.barrier()
          plan:run { record = k % every == 0 }
          transfer.save(this)
        end
      end
      local collected = transfer.collect(this)
      if collected then
        last = collected[1].runs
        out:row(row(sizes[i], last))
      end
    end
    out:finish()
    if #sizes == 1 and last then
      print_runs(last)
    end
  end,
}
