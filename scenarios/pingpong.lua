-- Two ranks send one message to and fro.
return {
  about = "Two ranks send a message to and fro; prints the latency of each direction.",
  options = {
    options.size { "size", "64K", "bytes in the message", min = 1 },
    options.int { "iters", 1000, "messages in each direction", min = 1 },
  },
  ranks = 2,
  run = function(opt)
    local ping = transfer.prepare { name = "ping", matrix = matrix.from { { 0, opt.size }, { 0, 0 } } }
    local pong = transfer.prepare { name = "pong", matrix = matrix.from { { 0, 0 }, { opt.size, 0 } } }
    transfer.warmup({ ping, pong }, 10)
    for _ = 1, opt.iters do
      world.barrier()
      ping:run()
      world.barrier()
      pong:run()
    end
    local rows = {}
    for i, plan in ipairs(transfer.collect { ping, pong } or {}) do
      rows[i] = { i == 1 and "0 -> 1" or "1 -> 0", opt.size, plan.isolated * 1e6, opt.size / plan.isolated / 1e9 }
    end
    result.table {
      columns = { { "Direction" }, { "Size (B)", "%d" }, { "Latency (us)", "%.2f" }, { "BW (GB/s)", "%.3f" } },
      rows = rows,
    }
  end,
}
