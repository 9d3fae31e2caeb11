---@meta
-- What a job leaves behind. All of it happens at rank 0; at other ranks these functions do nothing.

---A progress bar on a terminal, else a line every 10 seconds.
---@class ProgressBar
local ProgressBar = {}

---Moves the bar.
---@param n? integer steps, 1 by default
---@param seconds? number of those known beforehand that are over with them, 0 by default
function ProgressBar:add(n, seconds) end

---Corrects what is to come.
---@param total integer steps, those that are done included
---@param seconds? number known beforehand of the whole
function ProgressBar:expect(total, seconds) end

---Takes the bar off the terminal.
function ProgressBar:finish() end

---A table whose rows come one by one.
---@class ResultTable
local ResultTable = {}

---Prints a row and stores it in the result.
---@param cells any[]
function ResultTable:row(cells) end

---Ends the table. Where the terminal had no room for some columns, the whole table is printed once more, in parts.
function ResultTable:finish() end

---@class result
---@field null any is stored as null, where a table would lose nil
result = {}

---Stores a value in the result under a name.
---@param name string
---@param value any nil, boolean, number, string, or a table of such
function result.set(name, value) end

---Adds a sample to a metric that the scenario declares in its table metrics.
---@param name string
---@param value number finite
---@param labels? table<string, string|number|boolean> what distinguishes it from other samples, such as {size = 4096}; keys are names other than phase, pattern, rank, peer, block, batch, metric, value and time_ns; at most 64, and 1024 different sets of a metric
function result.sample(name, value, labels) end

---Prints a line that begins with # and stores it in the result.
---@param text string
function result.note(text) end

---Says in the header and in the result of which model's requests the prepared patterns are the traffic, if they are of any.
---@param generator table the block of that name in a configuration that perigee matgen has made
function result.workload(generator) end

---Prints a table and stores it in the result. A cell that is nil prints as -. With keys, a table that is too wide for the
---terminal is printed in parts that each repeat the first so many columns. With stream = true the headers are printed
---at once, and the rows come by t:row{...}; with silent = true it is only stored.
---@param spec {title?: string, columns: {[1]: string, [2]: string?, silent: boolean?}[], rows?: any[][], keys?: integer, stream?: boolean, silent?: boolean} each column has a header and a format such as %d, %.3f or %s; a silent one is only stored
---@return ResultTable? table with stream = true
function result.table(spec) end

---Writes a value as JSON. The file must be one that the user named, unless --allow-io is given.
---@param path string
---@param value any
function result.save(path, value) end

---Makes a progress bar. At most 1000 are open at a time.
---@param total integer steps; with 0 their number is not known, and the bar goes by seconds alone
---@param label? string of at most 512 bytes
---@param seconds? number how much of the whole is known beforehand, such as pauses; the bar then weighs steps by their mean time without these
---@return ProgressBar
function result.progress(total, label, seconds) end
