---@meta
-- The ranks of this job. Ranks count from 0. Only the function run has a world.
-- Collective functions must be called by all ranks of the group in the same order; an error in one ends the job.

---@class world
---@field rank integer this process's number, from 0
---@field size integer number of ranks
---@field local_rank integer this rank's number on its host, from 0
---@field host string name of this rank's host
---@field hosts string[] names of all hosts, in the order of their lowest ranks
world = {}

---Returns when all ranks of the group have called it. Collective.
---@param ranks? integer[] the group; all ranks by default
function world.barrier(ranks) end

---Returns root's value everywhere. Collective.
---@param value any nil, boolean, number, string, or a table of such; only root's counts
---@param root? integer a rank of the group; the first by default
---@param ranks? integer[] the group; all ranks by default
---@return any
function world.broadcast(value, root, ranks) end

---Returns all values at root, keyed by rank; nil at the others. Collective.
---@param value any
---@param root? integer a rank of the group; the first by default
---@param ranks? integer[] the group; all ranks by default
---@return table<integer, any>?
function world.gather(value, root, ranks) end

---Returns all values everywhere, keyed by rank. Collective.
---@param value any
---@param ranks? integer[] the group; all ranks by default
---@return table<integer, any>
function world.all_gather(value, ranks) end

---Sends values[r] to each rank r; returns what each rank sent here, keyed by rank. Collective.
---@param values table<integer, any>
---@param ranks? integer[] the group; all ranks by default
---@return table<integer, any>
function world.all_to_all(values, ranks) end

---Combines numbers of all ranks, everywhere; lists element by element. Collective.
---@generic T: number|number[]
---@param value T finite numbers, whose sum must be finite, too
---@param how? "sum"|"min"|"max" sum by default
---@param ranks? integer[] the group; all ranks by default
---@return T
function world.reduce(value, how, ranks) end

---Names what this rank does from now on, in failures and in the result. A run has the phase in which it began. "isolated" has a meaning: its runs are those of a pattern alone, against which those of all other phases are compared.
---@param name string
function world.phase(name) end

---The name of the host of a rank.
---@param rank integer
---@return string
function world.host_of(rank) end

---How many messages, and bytes in them, this rank has sent in collectives so far.
---@return integer messages
---@return integer bytes
function world.traffic() end
