-- Every rank sends to every other.
return {
  about = "Every rank sends the same number of bytes to every other; prints latency and bandwidth.",
  options = {
    options.size { "size", "1M", "bytes in each message", min = 1 },
    options.int { "iters", 20, "measured runs", min = 1 },
  },
  ranks = 4,
  run = function(opt)
    local plan = transfer.prepare { matrix = matrix.all_to_all { bytes = opt.size } }
    if #plan.initiators == 0 then
      result.note("no rank sends anything: one rank alone has no other")
    end
    transfer.warmup({ plan }, 5)
    for _ = 1, opt.iters do
      world.barrier()
      plan:run()
    end
    local rows = {}
    for i, run in ipairs((transfer.collect { plan } or { { runs = {} } })[1].runs) do
      rows[i] = { i, run.latency * 1e3, run.mean_bandwidth / 1e9 }
    end
    result.table {
      columns = { { "Run", "%d" }, { "Latency (ms)", "%.3f" }, { "Mean BW per rank (GB/s)", "%.3f" } },
      rows = rows,
    }
  end,
}
