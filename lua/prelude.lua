-- What scripts share: traffic patterns as they stand in configuration files.

patterns = {}

-- The keys of a traffic pattern, as a schema for config.load.
patterns.fields = {
  { name = "matrix_file", type = "path", required = true, help = "text matrix, relative to this file" },
  { name = "shards", type = "int", min = 1, default = 1, help = "descriptors per message" },
  { name = "mem_type", type = "enum", enum = { "cuda", "vram", "cpu", "dram" }, help = "memory of the buffers" },
  { name = "xfer_op", type = "enum", enum = { "WRITE", "READ" }, default = "WRITE", help = "who moves the bytes: sender or receiver" },
  { name = "sleep_before_launch_sec", type = "float", min = 0, default = 0, help = "seconds before the transfers" },
  { name = "sleep_after_launch_sec", type = "float", min = 0, default = 0, help = "seconds after the transfers" },
  { name = "metadata", type = "map", help = "carried into the result" },
}

-- Loads the matrices of a list of patterns that config.load has read, and
-- prepares their transfers. override may hold mem and op. Returns the plans.
function patterns.prepare(list, override)
  override = override or {}
  local files, specs = {}, {}
  for i, p in ipairs(list) do
    files[i] = p.matrix_file
  end
  for i, m in ipairs(matrix.load_all(files)) do
    local p = list[i]
    specs[i] = {
      name = "pattern " .. i - 1 .. " (" .. p.matrix_file:match("[^/]*$") .. ")",
      matrix = m,
      mem = override.mem or p.mem_type,
      op = override.op or p.xfer_op,
      shards = p.shards,
      metadata = p.metadata,
      sleep_before = p.sleep_before_launch_sec,
      sleep_after = p.sleep_after_launch_sec,
    }
  end
  return transfer.prepare_all(specs)
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
