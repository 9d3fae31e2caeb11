-- What scripts share: traffic patterns as they stand in configuration files.

patterns = {}

-- The keys of a traffic pattern, as a schema for config.load.
patterns.fields = {
  { name = "matrix_file", type = "path", required = true, help = "text matrix, relative to this file" },
  { name = "shards", type = "int", min = 1, max = 1048576, default = 1, help = "descriptors per message" },
  { name = "mem_type", type = "enum", enum = { "cuda", "vram", "cpu", "dram" }, help = "memory of the buffers" },
  { name = "xfer_op", type = "enum", enum = { "WRITE", "READ" }, default = "WRITE", help = "who moves the bytes: sender or receiver" },
  { name = "sleep_before_launch_sec", type = "float", min = 0, default = 0, help = "seconds before the transfers" },
  { name = "sleep_after_launch_sec", type = "float", min = 0, default = 0, help = "seconds after the transfers" },
  {
    name = "storage_ops", type = "map", help = "files that ranks read and write beside the traffic, by rank",
    elem = {
      type = "map",
      fields = {
        { name = "file_path", type = "path", required = true, help = "a file; it is made if it is not there" },
        { name = "file_size", type = "size", required = true, min = 1, help = "bytes of it that are used" },
        { name = "read_offset", type = "size", default = 0 },
        { name = "read_size", type = "size", default = 0, help = "bytes that are read" },
        { name = "write_offset", type = "size", default = 0 },
        { name = "write_size", type = "size", default = 0, help = "bytes that are written" },
      },
    },
  },
  { name = "class", type = "string", help = "of the traffic, for its share in the report" },
  { name = "slo_ms", type = "float", min = 1e-6, help = "time within which a run is to end, for the report" },
  { name = "weight", type = "float", min = 1e-6, help = "of its class, for the report; 1 without it" },
  { name = "metadata", type = "map", help = "carried into the result" },
}

-- Loads the matrices of a list of patterns that config.load has read, and
-- prepares their transfers. override may hold mem, op, start and meet, and the generator of the list. Returns the plans.
function patterns.prepare(list, override)
  override = override or {}
  local files, specs = {}, {}
  for i, p in ipairs(list) do
    files[i] = p.matrix_file
  end
  for i, m in ipairs(matrix.load_all(files)) do
    local p = list[i]
    for _, key in ipairs { "class", "slo_ms", "weight" } do
      if p[key] ~= nil then
        p.metadata = p.metadata or {}
        p.metadata[key] = p[key]
      end
    end
    specs[i] = {
      name = "pattern " .. i - 1 .. " (" .. p.matrix_file:match("[^/]*$") .. ")",
      matrix = m,
      mem = override.mem or p.mem_type,
      op = override.op or p.xfer_op,
      shards = p.shards,
      start = override.start,
      meet = override.meet,
      storage = p.storage_ops,
      metadata = p.metadata,
      sleep_before = p.sleep_before_launch_sec,
      sleep_after = p.sleep_after_launch_sec,
    }
  end
  local plans = transfer.prepare_all(specs)
  if type(override.generator) == "table" then
    result.workload(override.generator)
  end
  return plans
end

-- Options for a range of sizes, named as in nccl-tests, in front of a scenario's own.
function patterns.size_options(list)
  local all = {
    options.size { "minbytes", nil, "sweep messages from this size (default: 8)", min = 1, short = "b" },
    options.size { "maxbytes", nil, "... to this one (default: 128M)", min = 1, short = "e" },
    options.number { "stepfactor", nil, "... each so many times the one before (default: 2)", min = 1.01, short = "f" },
    options.size { "stepbytes", nil, "... or each larger by so many bytes", min = 1 },
  }
  for i, option in ipairs(all) do
    table.insert(list, i, option)
  end
  return list
end

-- The sizes that such options ask for: opt.size, by default fallback, where none of them is given.
function patterns.sizes(opt, fallback)
  local most = 1000
  if not (opt.minbytes or opt.maxbytes or opt.stepfactor or opt.stepbytes) then
    return { opt.size or fallback }
  end
  local size, last = opt.minbytes or 8, opt.maxbytes or 128 * 2 ^ 20
  if opt.size then
    options.reject("--size is one size, --minbytes, --maxbytes, --stepfactor and --stepbytes are a range", "leave one of them away")
  elseif opt.stepfactor and opt.stepbytes then
    options.reject("--stepfactor and --stepbytes: want one of them")
  elseif size > last then
    options.reject(string.format("--minbytes is %d, more than --maxbytes, %d", size, last))
  end
  local sizes = {}
  while size <= last do
    if #sizes == most then
      options.reject("the range has more than " .. most .. " sizes", "larger steps: --stepfactor or --stepbytes")
    end
    table.insert(sizes, size)
    size = opt.stepbytes and size + opt.stepbytes or math.max(math.floor(size * (opt.stepfactor or 2)), size + 1)
  end
  return sizes
end

-- A function that gives the quantile q, 0 to 1, of some values, as docs/tables.md defines it. Sorts the values.
function patterns.quantiles(values)
  table.sort(values)
  return function(q)
    local at = q * (#values - 1)
    local low = math.floor(at)
    return values[low + 1] + (at - low) * ((values[low + 2] or values[low + 1]) - values[low + 1])
  end
end

-- A text that names the one of the times, in microseconds, that is a third of their mean or more; nil if there is none.
function patterns.outlier(times)
  local sum, most, n = 0, 0, #times
  for _, t in ipairs(times) do
    sum, most = sum + t, math.max(most, t)
  end
  local rest = (sum - most) / (n - 1)
  if n < 4 or sum / n < 1.5 * rest then
    return nil
  end
  return string.format("one of %d took %.1f us and makes the mean %.1f us; without it %.1f us", n, most, sum / n, rest)
end

-- How many runs of each of n plans are recorded where a time is given: all of them together take about a second to store.
-- The header says so, since the figures are theirs alone.
function patterns.recorded(n)
  local most = math.max(1000, math.floor(40000 / n))
  result.note(string.format("recorded: at most %d runs of each pattern, evenly over the time; the figures are theirs", most))
  return most
end

-- How many runs of each of n plans the result is to keep where a time is given: what all of them take is bounded.
function patterns.kept(n)
  return math.max(50, math.floor(10000 / n))
end

-- An option --mem-type, by default nil.
function patterns.mem_type(help)
  return options.enum { "mem-type", nil, help or "memory of the buffers (default: vram if all ranks have a GPU)", choices = { "dram", "vram", "cpu", "cuda" } }
end

-- An option --duration that stands instead of another, which says how many: iterations, rounds.
function patterns.duration(instead_of)
  return options.duration { "duration", nil, "measure for so long, such as 30s, instead of --" .. instead_of
    .. "; where several are measured, all together", instead_of = instead_of }
end

-- Pieces of a loop, for `for k in ...`: n iterations at once, or, with seconds instead of n, until they
-- are over. Then the ranks agree before each piece on its size by what the last took: a fiftieth of the time, the rest of
-- it, ten times the last, or without most half a second, whatever is least. Plans are told of these gaps, and of the runs to
-- come. With most each piece comes with a second number, k: every k-th iteration of it is to be recorded, so that all
-- record at most that many. No piece has more than longest_piece iterations; with it pieces take half a second also with
-- most, and the k-th iterations are counted across pieces: piece / k of each is to be kept, in whatever it is whole.
function patterns.pieces(n, seconds, plans, most, longest_piece)
  if not (n or seconds) then
    error("patterns.pieces: neither a number nor seconds", 2)
  elseif not seconds then
    return function()
      local all = n
      n = nil
      return all, 1
    end
  end
  local piece, began, last, announced
  local longest = most and not longest_piece and seconds / 50 or math.min(seconds / 50, 0.5)
  most = most or math.huge
  return function()
    local now = world.reduce(clock.now(), "max")
    for _, plan in ipairs(plans or {}) do
      plan:gap()
    end
    if not piece then
      piece, began, last, most = 1, now, now, most - 1
      return piece, 1
    end
    local left, each = began + seconds - now, math.max(now - last, 1e-9) / piece
    if left <= 0 then
      return nil
    end
    if plans and not announced and now - began > math.min(1, seconds / 50) then
      announced = true
      transfer.expect(plans, math.ceil(math.min(left / each, most)))
    end
    piece, last = math.max(1, math.floor(math.min(left / each, longest / each, piece * 10, longest_piece or math.huge))), now
    local every = most > 0 and math.ceil(math.max(1, left / each / most)) or piece + 1
    most = most - (longest_piece and piece / every or math.floor(piece / every))
    return piece, every
  end
end

-- How many iterations take so many seconds, at least 1, for what cannot go on in pieces: run(n) does n of them, more and
-- more until that takes a tenth of the time; one alone may be slow since it is the first. What the trials take is not
-- there for the rest.
function patterns.fitting(seconds, run)
  local n, most, began = 1, 2 ^ 30, world.reduce(clock.now(), "max")
  local start = began
  while true do
    run(n)
    local now = world.reduce(clock.now(), "max")
    local took = math.max(now - start, 1e-9)
    if took >= seconds / 10 and n > 1 or took >= seconds or n >= most then
      return math.max(1, math.floor((began + seconds - now) / took * n))
    end
    n, start = math.max(n + 1, math.floor(math.min(10 * n, 1.2 * n * seconds / 10 / took, most))), now
  end
end

-- The sizes of the model opt.model for a number of ranks. shared says whether the scenario plays shared experts.
local function sizes_of_model(opt, ranks, shared)
  for _, name in ipairs { "hidden", "experts_per_rank", "topk", "shared_experts" } do
    if opt[name] ~= nil then
      options.reject(string.format("--%s: --model %s says that", string.gsub(name, "_", "-"), opt.model))
    end
  end
  local m = moe.model(opt.model)
  if m.experts % ranks ~= 0 then
    options.reject(string.format("--model %s: %d experts cannot be spread evenly over %d ranks", opt.model, m.experts, ranks))
  end
  local each, more = m.experts / ranks, ""
  if m.shared > 0 then
    more = string.format(shared and ", %d shared" or "; shared experts move no bytes here: the model has %d", m.shared)
  end
  result.note(string.format("model %s: hidden %d, %d experts, %d on each of %d ranks, topk %d%s", opt.model, m.hidden,
    m.experts, each, ranks, m.topk, more))
  return { hidden = m.hidden, experts_per_rank = each, topk = m.topk, shared_experts = m.shared }
end

-- The options with the sizes that defaults has: those of the model opt.model, or those that are given, or else the
-- defaults. A size is a text where its default is one. All ranks call it.
function patterns.experts(opt, ranks, defaults)
  local sizes = opt.model and sizes_of_model(opt, ranks, defaults.shared_experts) or {}
  local all = setmetatable({}, { __index = opt })
  for name, default in pairs(defaults) do
    local size = sizes[name] or opt[name] or default
    all[name] = type(default) == "string" and tostring(size) or size
  end
  return all
end

-- Flags of NIXL's EP tests that have nothing to act on here, and why.
local without_effect = {
  { "use-etcd", "ranks meet without a store" }, { "use-tcp-store", "ranks meet without a store" },
  { "discover-nics", "UCX takes all NICs, or those of UCX_NET_DEVICES" },
  { "skip-nic-discovery", "UCX takes all NICs, or those of UCX_NET_DEVICES" },
  { "disable-ll-nvlink", "host memory does not pass NVLink", gpu = "GPU memory: no NVLink between ranks; without effect on host memory" },
}

-- Options about memory, and those of NIXL's EP tests about links and stores, behind a scenario's own.
function patterns.ep_options(list)
  list[#list + 1] = patterns.mem_type "memory of messages; vram: their transport between GPUs, without kernels (default: dram)"
  list[#list + 1] = options.enum { "nvlink-backend", nil, "accepted, without effect: ipc, nixl; none: no shared memory and no NVLink between ranks",
    choices = { "ipc", "nixl", "none" }, original = true }
  for _, flag in ipairs(without_effect) do
    list[#list + 1] = options.bool { flag[1], false, flag.gpu or "accepted, without effect: " .. flag[2], original = true }
  end
  return list
end

-- The routing of moe.open, of the options of moe.options and routing; m is the matrix of that family.
function patterns.ep_routing(opt, m)
  return {
    family = opt.routing, seed = opt.routing_seed, hot = opt.hot, hot_experts = opt.hot_experts, exponent = opt.exponent,
    sigma = opt.sigma, imbalance = opt.imbalance, masked = opt.masked, spread = opt.spread, matrix = m,
  }
end

-- Notes which of these options have no effect. Returns the line Backend of NIXL's tests, which says what moves the bytes.
function patterns.ep_backend(opt)
  local gpu = opt.mem_type == "vram" or opt.mem_type == "cuda"
  for _, flag in ipairs(without_effect) do
    if opt[string.gsub(flag[1], "-", "_")] and not (gpu and flag.gpu) then
      result.note("--" .. flag[1] .. " has no effect here: " .. flag[2])
    end
  end
  local more = gpu and ", GPU memory, posted by the host" or ""
  if opt.nvlink_backend == "none" then
    return "none (RDMA forced)" .. more
  elseif opt.nvlink_backend then
    result.note("--nvlink-backend " .. opt.nvlink_backend .. ": " .. (gpu and "no kernels write to peers" or "not available on host memory") .. "; "
      .. transfer.engine().name .. " moves the bytes")
  end
  return transfer.engine().backend .. more
end

-- How many ranks the first pattern's matrix is for.
function patterns.ranks(first)
  return matrix.load(first.matrix_file):ranks()
end

-- Checks the bytes of every plan, one after the other. All ranks call it.
function patterns.verify(plans)
  for _, plan in ipairs(plans) do
    plan:verify()
  end
  result.note("verified: every byte of " .. #plans .. (#plans == 1 and " pattern" or " patterns") .. " arrived as it was sent")
end

-- Prints the beginning of each message in this rank's receive buffer.
function patterns.print_received(plan)
  local heads = plan:received(16)
  for sender = 0, world.size - 1 do
    if heads[sender] then
      print(string.format("%s: rank %d received from rank %d: %s...", plan.name, world.rank, sender, heads[sender]))
    end
  end
end

-- A table of what was read and written beside the traffic; none where nothing was. collected is what
-- transfer.collect has returned, once or several times.
function patterns.print_storage(plans, collected)
  local rows = {}
  for i, plan in ipairs(plans) do
    local sums = { READ = {}, WRITE = {} }
    for _, one in ipairs(collected) do
      for _, run in ipairs(one[i].storage) do
        local of = sums[run.op]
        of[run.rank] = of[run.rank] or { bytes = 0, seconds = 0, runs = 0 }
        local sum = of[run.rank]
        sum.bytes, sum.seconds, sum.runs = sum.bytes + run.bytes, sum.seconds + run.seconds, sum.runs + 1
      end
    end
    for rank = 0, world.size - 1 do
      for _, op in ipairs { "READ", "WRITE" } do
        local sum = sums[op][rank]
        if sum then
          table.insert(rows, { i - 1, rank, op, sum.bytes / sum.runs / 1e9, sum.seconds / sum.runs * 1e3, sum.bytes / sum.seconds / 1e9 })
        end
      end
    end
  end
  if #rows > 0 then
    result.table {
      title = "files, beside the traffic",
      columns = {
        { "Pattern", "%d" }, { "Rank", "%d" }, { "Op" }, { "Size (GB)", "%.3f" }, { "Mean latency (ms)", "%.3f" }, { "BW (GB/s)", "%.3f" },
      },
      rows = rows,
    }
  end
end
