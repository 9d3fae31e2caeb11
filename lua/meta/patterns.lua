---@meta
-- Traffic patterns as they stand in configuration files.

---@class patterns
---@field fields ConfigField[] the keys of a traffic pattern, for config.load
patterns = {}

---Loads the matrices of patterns that config.load has read, and prepares their transfers. Collective.
---@param list table[] patterns with the keys of patterns.fields
---@param override? {mem?: string, op?: string} instead of what the patterns say
---@return Plan[]
function patterns.prepare(list, override) end

---How many ranks a pattern's matrix is for. Collective where there is a world.
---@param first table a pattern with the keys of patterns.fields
---@return integer
function patterns.ranks(first) end

---Checks every byte of every plan, one plan after the other. Collective.
---@param plans Plan[]
function patterns.verify(plans) end

---Prints the beginning of each message in this rank's receive buffer.
---@param plan Plan
function patterns.print_received(plan) end

---Prints a table of what was read and written beside the traffic, over all runs; none where nothing was. For rank 0.
---@param plans Plan[]
---@param collected Collected[][] what transfer.collect has returned, once or several times
function patterns.print_storage(plans, collected) end
