-- Two ranks send one message to and fro, of one size or of a range of sizes. A plan shows its sender alone that the
-- bytes have arrived, so that the time of a round trip cannot be measured.

local us = 1e6

-- A text on a run that is much of the mean, if there is one, and a row of the table: the runs of one direction.
local function row(plan, collected, direction)
  local seconds = {}
  for i, run in ipairs(collected.runs) do
    seconds[i] = run.latency
    result.sample("bw_gb_per_s", plan.bytes / run.latency / 1e9, { size = plan.bytes, direction = direction })
  end
  local mean, q = collected.mean, patterns.quantiles(seconds)
  local times = {}
  for i, s in ipairs(seconds) do
    times[i] = s * us
  end
  return patterns.outlier(times), { plan.bytes, direction, #seconds, q(0) * us, q(0.5) * us, q(0.99) * us, mean * us, plan.bytes / mean / 1e9 }
end

return {
  about = "Two ranks send a message to and fro; prints the latency of each direction. -b, -e and -f sweep its size.",
  options = patterns.size_options {
    options.size { "size", nil, "bytes in the message, if its size is not swept (default: 64K)", min = 1 },
    options.int { "iters", 1000, "messages in each direction", min = 1 },
    patterns.duration "iters",
    patterns.mem_type(),
  },
  metrics = { { "bw_gb_per_s", "bytes / latency; each message, by size and direction", better = "higher" } },
  ranks = 2,
  run = function(opt)
    if world.size ~= 2 then
      error("pingpong needs 2 ranks, got " .. world.size, 0)
    end
    local sizes, specs = patterns.sizes(opt, 65536), {}
    for _, size in ipairs(sizes) do
      local suffix = #sizes > 1 and " " .. size or ""
      table.insert(specs, { name = "ping" .. suffix, matrix = matrix.from { { 0, size }, { 0, 0 } }, mem = opt.mem_type })
      table.insert(specs, { name = "pong" .. suffix, matrix = matrix.from { { 0, 0 }, { size, 0 } }, mem = opt.mem_type })
    end
    local plans = transfer.prepare_all(specs)
    transfer.expect(plans, opt.iters or 1)
    local most = opt.duration and patterns.recorded(#plans)
    local out = result.table {
      title = "Latency: of one message, from its post until its sender sees it complete; not half of a round trip",
      keys = 2, stream = true,
      columns = {
        { "Size (B)", "%d" }, { "Direction" }, { "Iters", "%d" }, { "Min (us)", "%.2f" }, { "p50 (us)", "%.2f" },
        { "p99 (us)", "%.2f" }, { "Latency (us)", "%.2f" }, { "BW (GB/s)", "%.3f" },
      },
    }
    local odd = {}
    for i = 1, #plans, 2 do
      local ping, pong = plans[i], plans[i + 1]
      local both = { ping, pong }
      ping:run { iterations = 10, record = false }
      pong:run { iterations = 10, record = false }
      for piece, every in patterns.pieces(opt.iters, opt.duration and opt.duration / #sizes, both, most) do
        for i = 1, piece do
          local run = { record = i % every == 0 }
          world.barrier()
          ping:run(run)
          world.barrier()
          pong:run(run)
          transfer.save(both)
        end
      end
      for k, collected in ipairs(transfer.collect(both) or {}) do
        local direction = k == 1 and "0->1" or "1->0"
        local outlier, cells = row(plans[i + k - 1], collected, direction)
        out:row(cells)
        odd[#odd + 1] = outlier and string.format("%d bytes %s: %s", cells[1], direction, outlier)
      end
    end
    out:finish()
    for _, text in ipairs(odd) do
      result.note(text)
    end
  end,
}
