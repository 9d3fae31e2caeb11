-- Blocks of a KV cache from rank to rank, or between memory and files: how fast, for which sizes? The options
-- have the names that nixlbench gives them.

local function count(n, what)
  return string.format("%d %s%s", n, what, n == 1 and "" or "s")
end

-- Which ranks exchange blocks. Each scheme returns the peers of each initiator, keyed by rank.
local schemes = {}

-- Rank i of the first half with rank i of the second.
function schemes.pairwise(n)
  if n % 2 ~= 0 then
    options.reject("the scheme pairwise needs an even number of ranks, and there are " .. n, "use -n with an even number, or another scheme")
  end
  local peers = {}
  for i = 0, n / 2 - 1 do
    peers[i] = { i + n / 2 }
  end
  return peers
end

-- All ranks but the last with the last.
function schemes.manytoone(n)
  local peers = {}
  for i = 0, n - 2 do
    peers[i] = { n - 1 }
  end
  return peers
end

-- Rank 0 with all others.
function schemes.onetomany(n)
  local peers = { [0] = {} }
  for i = 1, n - 1 do
    table.insert(peers[0], i)
  end
  return peers
end

-- Two groups of tensor-parallel ranks, which hold the same cache cut into as many shards as each has ranks: a
-- rank exchanges blocks with those whose shards overlap its own.
function schemes.tp(n, opt)
  local initiators = opt.num_initiator_dev or (opt.num_target_dev and n - opt.num_target_dev) or math.floor(n / 2)
  local targets = opt.num_target_dev or n - initiators
  if initiators < 1 or targets < 1 or initiators + targets ~= n then
    options.reject(string.format("the scheme tp has %d initiators and %d targets, and there are %d ranks", initiators, targets, n),
      "give --num_initiator_dev and --num_target_dev, or -n with their sum")
  end
  local large, small = math.max(initiators, targets), math.min(initiators, targets)
  if large % small ~= 0 then
    options.reject(string.format("the scheme tp has %d initiators and %d targets; the larger must be a multiple of the smaller", initiators, targets))
  end
  local peers = {}
  for i = 0, initiators - 1 do
    peers[i] = {}
    for j = 0, targets - 1 do
      if math.floor(i * small / initiators) == math.floor(j * small / targets) then
        table.insert(peers[i], initiators + j)
      end
    end
  end
  return peers
end

-- Refuses options that would have no effect.
local function refuse_idle(opt, far)
  local idle = {}
  if far ~= "file" then
    for name, given in pairs { num_files = opt.num_files ~= 1, posix_api_type = opt.posix_api_type ~= "AIO",
      storage_enable_direct = opt.storage_enable_direct, overwrite = opt.overwrite } do
      if given then
        table.insert(idle, "--" .. name)
      end
    end
    table.sort(idle)
    if #idle > 0 then
      options.reject(table.concat(idle, ", ") .. ": only with files", "add --backend POSIX and --filepath, or --target_seg_type FILE")
    end
  end
  if far == "file" and opt.prepared_xfer then
    options.reject("--prepared_xfer: files have no prepared lists")
  end
  if opt.randomize_location_mode_seed ~= 0 and opt.randomize_location_mode == "" then
    options.reject("--randomize_location_mode_seed: only with --randomize_location_mode blockaligned")
  end
  if opt.pipeline_depth > 1 and (opt.recreate_xfer or opt.reregister_mem) then
    options.reject("--pipeline_depth with --recreate_xfer or --reregister_mem: requests that are under way cannot be prepared anew",
      "leave out one of them")
  end
  if opt.scheme ~= "tp" and (opt.num_initiator_dev or opt.num_target_dev) then
    options.reject("--num_initiator_dev and --num_target_dev: only with the scheme tp", "-n sets how many ranks the other schemes have")
  end
end

-- What is at the two ends of a transfer, as transfer.lanes wants it. Files are always at its remote end.
local function ends(opt)
  local near, far, op = opt.initiator_seg_type:lower(), opt.target_seg_type:lower(), opt.op_type
  if opt.backend_files and near ~= "file" then
    far = "file"
  end
  if near == "file" and far == "file" then
    options.reject("both ends of the transfer are files", "one of --initiator_seg_type and --target_seg_type is DRAM or VRAM")
  end
  if near == "file" then
    near, far, op = far, "file", op == "READ" and "WRITE" or "READ"
  end
  if far ~= "file" and opt.filepath then
    options.reject("--filepath goes with files", "add --backend POSIX, or --target_seg_type FILE")
  end
  if far == "file" and opt.backend and not opt.backend_files then
    options.reject("the backend " .. opt.backend .. " does not reach files", "use --backend POSIX")
  end
  if far == "file" and not opt.filepath then
    options.reject("files need --filepath", "name a folder in which files can be made, or a file")
  end
  if far == "file" and opt.scheme ~= "pairwise" then
    options.reject("the scheme " .. opt.scheme .. " is for transfers between ranks; with files each rank works alone")
  end
  refuse_idle(opt, far)
  return near, far, op
end

-- Powers of two times start, up to most.
local function doubling(start, most)
  local list = {}
  while start <= most do
    table.insert(list, start)
    start = start * 2
  end
  return list
end

-- Refuses options that do not go together, before anything is allocated.
local function check(opt)
  for _, what in ipairs { "block", "batch" } do
    local start, most = opt["start_" .. what .. "_size"], opt["max_" .. what .. "_size"]
    if most < start then
      options.reject(string.format("--max_%s_size is %d, less than --start_%s_size, %d", what, most, what, start))
    end
  end
  local blocks, batches = doubling(opt.start_block_size, opt.max_block_size), doubling(opt.start_batch_size, opt.max_batch_size)
  local block, batch = blocks[#blocks], batches[#batches]
  if block * batch > opt.total_buffer_size / opt.num_threads then
    options.reject(string.format("%s of %d bytes in %s need %.0f bytes, more than --total_buffer_size, %d",
      count(batch, "block"), block, count(opt.num_threads, "thread"), block * batch * opt.num_threads, opt.total_buffer_size),
      "smaller blocks or batches, fewer threads, or a larger --total_buffer_size")
  end
  return blocks, batches, ends(opt)
end

-- The scheme's peers, or for files each rank by itself.
local function peers_of(opt, far, n)
  if far ~= "file" then
    if n < 2 then
      options.reject("transfers between ranks need at least 2, and there is " .. n, "use -n 2")
    end
    return schemes[opt.scheme](n, opt)
  end
  local peers = {}
  for r = 0, n - 1 do
    peers[r] = { r }
  end
  return peers
end

-- As in nixlbench, the bandwidth is that of one pair; where there are several, that of all follows.
local function row(block, batch, m, ways)
  local us = 1e6
  return {
    block, batch, m.bandwidth / ways / 1e9, m.latency.mean / batch * us,
    m.prep.mean * us, m.prep.p99 * us, m.post.mean * us, m.post.p99 * us, m.tx.mean * us, m.tx.p99 * us,
    m.latency.p50 * us, m.latency.p99 * us, m.latency.p999 * us, m.cpu_seconds / (m.bytes / 1e9),
    ways > 1 and m.bandwidth / 1e9 or nil,
  }
end

local columns = {
  { "Block Size (B)", "%d" }, { "Batch Size", "%d" }, { "B/W (GB/Sec)", "%.6f" }, { "Avg Lat. (us)", "%.2f" },
  { "Avg Prep (us)", "%.2f" }, { "P99 Prep (us)", "%.2f" }, { "Avg Post (us)", "%.2f" }, { "P99 Post (us)", "%.2f" },
  { "Avg Tx (us)", "%.2f" }, { "P99 Tx (us)", "%.2f" },
  { "P50 Batch (us)", "%.2f" }, { "P99 Batch (us)", "%.2f" }, { "P99.9 Batch (us)", "%.2f" }, { "CPU (s/GB)", "%.4f" },
}

-- The columns, with the bandwidth of all pairs together where there are several.
local function columns_for(ways)
  if ways > 1 then
    table.insert(columns, { "Sum B/W (GB/Sec)", "%.6f" })
  end
  return columns
end

-- The width of the columns that nixlbench prints, which are the first of ours. Other programs look for its header.
local widths = { 20, 15, 15, 15, 15, 15, 15, 15, 15, 15 }

-- Prints a row as nixlbench does: cells at the left of their columns.
local function print_as_nixlbench(cells)
  for i, width in ipairs(widths) do
    cells[i] = string.format("%-" .. width .. "s", cells[i])
  end
  print((table.concat(cells, "", 1, #widths):gsub(" +$", "")))
end

-- Returns what takes the rows: the table, which with nixlbench's format is stored but not shown.
local function table_for(opt, ways)
  local columns = columns_for(ways)
  local out = result.table { columns = columns, keys = 2, stream = true, silent = opt.format == "nixlbench" }
  if opt.format ~= "nixlbench" or world.rank ~= 0 then
    return out
  end
  local names = {}
  for i = 1, #widths do
    names[i] = columns[i][1]
  end
  print_as_nixlbench(names)
  print(string.rep("-", 160))
  return {
    row = function(_, cells)
      out:row(cells)
      local texts = {}
      for i = 1, #widths do
        texts[i] = string.format(columns[i][2], cells[i])
      end
      print_as_nixlbench(texts)
    end,
    finish = function() out:finish() end,
  }
end

-- Iterations of each thread for a block: as nixlbench does, so many times fewer for blocks over 1 MiB.
local function iterations_of(opt, n, block)
  local factor = block > 2 ^ 20 and opt.large_blk_iter_ftr or 1
  return math.ceil(n / (opt.num_threads * factor))
end

-- The bytes that a size moves, the iterations that are not measured included.
local function bytes_of(opt, block, batch, ways)
  local n = iterations_of(opt, opt.iters, block) + iterations_of(opt, opt.warmup_iter, block)
  return block * batch * n * opt.num_threads * ways
end

-- How requests are prepared and posted, where it is not the usual way.
local function manner(opt)
  local list = {}
  for _, m in ipairs {
    { opt.recreate_xfer, "requests prepared anew each time" }, { opt.prepared_xfer, "requests from prepared lists" },
    { opt.reregister_mem, "memory registered anew each time" }, { opt.use_hugepages, "huge pages" },
    { opt.pipeline_depth > 1, string.format("%d iterations under way", opt.pipeline_depth) },
    { opt.randomize_location_mode ~= "", "blocks in random places, seed " .. opt.randomize_location_mode_seed },
  } do
    if m[1] then
      table.insert(list, ", " .. m[2])
    end
  end
  return table.concat(list)
end

-- A duration as people say it.
local function duration(s)
  if s < 90 then
    return string.format("%.0f s", s)
  elseif s < 5400 then
    return string.format("%.0f min", s / 60)
  end
  return string.format("%.1f h", s / 3600)
end

local long = 10e9 -- bytes; moving more takes so long that the user should know it beforehand

-- 7.86 MB of 7864320.
local function decimal(bytes)
  local units = { "B", "kB", "MB", "GB" }
  while bytes >= 999.5 and #units > 1 do
    bytes = bytes / 1000
    table.remove(units, 1)
  end
  return string.format(bytes < 999.5 and "%.3g %s" or "%.0f %s", bytes, units[1])
end

-- Announces how much will be moved. Where that is much, one iteration of the largest size shows for how long.
local function announce(opt, lanes, blocks, batches, ways)
  local total = 0
  for _, block in ipairs(blocks) do
    for _, batch in ipairs(batches) do
      total = total + bytes_of(opt, block, batch, ways)
    end
  end
  local text = string.format("moves %s in %s", decimal(total), count(#blocks * #batches, "size"))
  if total > long then
    world.phase("estimate")
    local m = lanes:measure { block = blocks[#blocks], batch = batches[#batches], iterations = 1, warmup = 1, record = false }
    if m and m.bandwidth > 0 then
      text = text .. string.format(", which takes about %s; --iters, --warmup-iter and smaller sizes make it less", duration(total / m.bandwidth))
    end
  end
  result.note(text)
  return total
end

-- One line that says what is measured. Returns the number of pairs.
local function describe(opt, near, far, op, peers)
  local initiators, ways = 0, 0
  for r = 0, world.size - 1 do
    if peers[r] then
      initiators, ways = initiators + 1, ways + #peers[r]
    end
  end
  local what = far == "file" and count(initiators, "rank") .. " with files"
    or string.format("%s, %s, %s", opt.scheme, count(initiators, "initiator"), count(ways, "way"))
  result.note(string.format("kvbench: %s, %s %s %s, %s per initiator, %s after %d%s", what, op, near, far,
    count(opt.num_threads, "thread"), opt.iters and count(opt.iters, "iteration") or "iterations for " .. duration(opt.duration),
    opt.warmup_iter, manner(opt)))
  return ways
end

return {
  about = "Blocks from rank to rank, or between memory and files, for a range of sizes; options as in nixlbench.",
  options = {
    options.enum { "scheme", "pairwise", "which ranks exchange blocks; see docs/kvbench.md", choices = { "pairwise", "manytoone", "onetomany", "tp" } },
    options.enum { "op-type", "WRITE", "from the initiator to the target, or the other way", choices = { "WRITE", "READ" }, original = true },
    options.enum { "initiator-seg-type", "DRAM", "what the initiator has", choices = { "DRAM", "VRAM", "FILE" }, original = true },
    options.enum { "target-seg-type", "DRAM", "what the target has; with FILE each rank works alone", choices = { "DRAM", "VRAM", "FILE" }, original = true },
    options.size { "start-block-size", "4K", "smallest block; doubled until max-block-size", min = 1, original = true },
    options.size { "max-block-size", "64M", "largest block", min = 1, original = true },
    options.int { "start-batch-size", 1, "fewest blocks at a time; doubled until max-batch-size", min = 1, original = true },
    options.int { "max-batch-size", 1, "most blocks at a time", min = 1, max = 2 ^ 24, original = true },
    options.int { "iters", 1000, "measured iterations of each size, divided among the threads", min = 1, max = 2 ^ 31, aliases = { "num-iter" } },
    patterns.duration "iters",
    options.int { "warmup-iter", 100, "iterations before, not measured, likewise", min = 0, max = 2 ^ 31, original = true },
    options.int { "large-blk-iter-ftr", 16, "blocks over 1 MiB have so many times fewer iterations", min = 1, max = 2 ^ 31, original = true },
    options.int { "num-threads", 1, "threads of each initiator that post at the same time", min = 1, max = 1024, original = true },
    options.bool { "check-consistency", false, "check every byte of each size, once, before it is measured", original = true },
    options.bool { "recreate-xfer", false, "prepare the requests anew for every iteration", original = true },
    options.int { "pipeline-depth", 1, "iterations of each thread under way at the same time", min = 1, max = 1024, original = true },
    options.bool { "prepared-xfer", false, "pick the requests from prepared lists of descriptors", original = true },
    options.bool { "reregister-mem", false, "register the initiator's memory anew for every iteration, and prepare the requests", original = true },
    options.bool { "use-hugepages", false, "host memory in huge pages that the administrator has reserved", original = true },
    options.enum { "randomize-location-mode", "", "blockaligned: the blocks at the target, or in files, in a random order", choices = { "", "blockaligned" }, original = true },
    options.int { "randomize-location-mode-seed", 0, "seed of that order", min = 0, max = 2 ^ 31, original = true },
    options.size { "total-buffer-size", "8G", "most bytes of buffers in a rank", min = 1, original = true },
    options.storage { "filepath", nil, "folder or new name for files, which vanish in the end; or a file that is there" },
    options.int { "num-files", 1, "files of each thread", min = 1, max = 1024, original = true },
    options.bool { "overwrite", false, "write even to a file that is there" },
    options.enum { "posix-api-type", "AIO", "the kernel's interface for files", choices = { "AIO", "URING" }, original = true },
    options.bool { "storage-enable-direct", false, "reach files past the page cache", original = true },
    options.enum { "format", "table", "nixlbench: print nixlbench's ten columns, as programs that read them want it", choices = { "table", "nixlbench" } },
    options.int { "num-initiator-dev", nil, "with the scheme tp: how many ranks are initiators (default: half)", min = 1, original = true },
    options.int { "num-target-dev", nil, "with the scheme tp: how many are targets", min = 1, original = true },
  },
  ranks = function(opt)
    local _, _, _, far = check(opt)
    if opt.num_initiator_dev and opt.num_target_dev and opt.scheme == "tp" then
      return opt.num_initiator_dev + opt.num_target_dev
    end
    return far == "file" and 1 or 2
  end,
  run = function(opt)
    local blocks, batches, near, far, op = check(opt)
    local peers = peers_of(opt, far, world.size)

    world.phase("prepare")
    local lanes = transfer.lanes {
      peers = peers, threads = opt.num_threads, op = op, local_mem = near, remote_mem = far,
      block = blocks[#blocks], batch = batches[#batches], limit = opt.total_buffer_size,
      path = opt.filepath, files = opt.num_files, direct = opt.storage_enable_direct, overwrite = opt.overwrite,
      api = opt.posix_api_type, huge_pages = opt.use_hugepages,
      shuffle = opt.randomize_location_mode ~= "", shuffle_seed = opt.randomize_location_mode_seed,
    }
    local ways = describe(opt, near, far, op, peers)
    local total = opt.duration and 0 or announce(opt, lanes, blocks, batches, ways)

    local out, fitted = table_for(opt, ways), {}
    local bar = result.progress(math.ceil(total / ways * #peers[0] / 2 ^ 20), "MiB of rank 0", opt.duration)
    for _, block in ipairs(blocks) do
      for _, batch in ipairs(batches) do
        if opt.check_consistency then
          world.phase("check consistency")
          lanes:verify { block = block, batch = batch }
        end
        world.phase("measure")
        local case = {
          block = block, batch = batch, recreate = opt.recreate_xfer, depth = opt.pipeline_depth,
          prepared = opt.prepared_xfer, reregister = opt.reregister_mem, record = false,
        }
        local iterations = opt.iters and iterations_of(opt, opt.iters, block)
          or patterns.fitting(opt.duration / (#blocks * #batches), function(n)
            case.iterations = n
            lanes:measure(case)
          end)
        table.insert(fitted, string.format("%d (%d B x %d)", iterations, block, batch))
        case.iterations, case.warmup, case.record, case.progress = iterations, iterations_of(opt, opt.warmup_iter, block), true, bar
        local measured = lanes:measure(case)
        if measured then
          out:row(row(block, batch, measured, ways))
        end
      end
    end
    bar:finish()
    out:finish()
    lanes:close()
    if opt.duration then
      result.note("iterations of each thread, by block and batch: " .. table.concat(fitted, ", "))
    end
    if opt.check_consistency then
      result.note("checked: every byte of every size arrived as it was sent")
    end
  end,
}
