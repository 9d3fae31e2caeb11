-- One, two, three ranks write to rank 0 at the same time.
return {
  options = { options.size { "bytes", "20M", "bytes of each message" } },
  run = function(opt)
    local function senders(n, bytes)
      local m = matrix.new(world.size)
      for sender = 1, n do
        m[sender][0] = bytes
      end
      return transfer.prepare { name = n .. " senders", matrix = m, mem = "dram" }
    end
    local plans = {}
    for n = 1, world.size - 1 do
      plans[n] = senders(n, opt.bytes)
    end
    transfer.warmup({ senders(world.size - 1, 65536) }, 1)
    for n, plan in ipairs(plans) do
      world.barrier()
      world.phase(n == 1 and "1 sender" or n .. " senders")
      world.barrier()
      plan:run()
      world.barrier()
    end
    world.phase("collect")
    transfer.collect(plans)
  end,
}
