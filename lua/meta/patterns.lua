---@meta
-- Traffic patterns as they stand in configuration files.

---@class patterns
---@field fields ConfigField[] the keys of a traffic pattern, for config.load
patterns = {}

---Loads the matrices of patterns that config.load has read, and prepares their transfers. Collective.
---@param list table[] patterns with the keys of patterns.fields
---@param override? {mem?: string, op?: string, start?: string, meet?: string, generator?: table} instead of what the patterns say; generator says how they were made, for the header
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

---Puts options for a range of sizes in front of a scenario's own: minbytes (-b), maxbytes (-e), stepfactor (-f) and stepbytes.
---@param list table[] options
---@return table[] list the same list
function patterns.size_options(list) end

---The sizes that the options of patterns.size_options ask for: opt.size, by default fallback, where none of them is given.
---@param opt table the options
---@param fallback integer bytes
---@return integer[] sizes ascending, at most 1000
function patterns.sizes(opt, fallback) end

---An option --mem-type: memory of the buffers, as the field mem of transfer.prepare takes it; nil where it is not given.
---@param help? string
---@return Option
function patterns.mem_type(help) end

---An option --duration: how long to measure, in seconds, instead of a number of iterations.
---@param instead_of string name of the option that says how many
---@return Option
function patterns.duration(instead_of) end

---Pieces of a loop: for k in patterns.pieces(...) do, which does k iterations. Collective before each piece, where seconds are given.
---@param n? integer iterations, in one piece
---@param seconds? number instead: until they are over, at least 1 iteration; all ranks get the same pieces
---@param plans? Plan[] those that each iteration runs once: before each piece they get a gap, and what runs are to come is announced as transfer.expect does
---@param most? integer with seconds: recorded runs of each plan, some for each of about 50 pieces
---@param longest_piece? integer the most iterations of a piece; with it a piece takes half a second at most
---@return fun(): integer?, integer? iterations of the piece, and k where each k-th of them is to be recorded
function patterns.pieces(n, seconds, plans, most, longest_piece) end

---How many runs of each of some plans to record where a time is given, which a note says.
---@param plans integer
---@return integer most for patterns.pieces
function patterns.recorded(plans) end

---How many runs of each of some plans the result is to keep where a time is given, for transfer.keep.
---@param plans integer
---@return integer most for patterns.pieces
function patterns.kept(plans) end

---How many iterations take so many seconds, for what takes a number of iterations: found by trials, which are within this time. Collective.
---@param seconds number
---@param run fun(n: integer) does n iterations, unrecorded; all ranks call it
---@return integer iterations at least 1
function patterns.fitting(seconds, run) end

---The options with the sizes of experts filled in: from the model that opt.model names, whose experts are spread over the ranks, or else
---from defaults. Rejects a size that is given beside a model, and experts that cannot be spread evenly. Collective.
---@param opt table the options, model among them
---@param ranks integer
---@param defaults table hidden, experts_per_rank, topk, and shared_experts where the scenario has such; a size becomes a text where its default is one
---@return table opt what reads as the options do, and has the sizes
function patterns.experts(opt, ranks, defaults) end

---Adds the options of NIXL's EP tests about links and stores.
---@param list table[] the scenario's options
---@return table[] list with these behind them
function patterns.ep_options(list) end

---The routing of moe.open that the options of moe.options and the option routing say.
---@param opt table
---@param m? Matrix that of the family matrix
---@return table routing
function patterns.ep_routing(opt, m) end

---Notes which of these options have no effect.
---@param opt table the options
---@return string backend what moves the bytes, as NIXL's tests print it
function patterns.ep_backend(opt) end

---Names the one of the times that is a third of their mean or more.
---@param times number[] in microseconds
---@return string? text for a note
function patterns.outlier(times) end

---A function that gives quantiles of values, as docs/tables.md defines them. Sorts the values.
---@param values number[] at least one
---@return fun(q: number): number quantile of q from 0 to 1
function patterns.quantiles(values) end
