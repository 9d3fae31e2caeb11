---@meta
-- Limits on what a job measures; see docs/thresholds.md.

---Sets a limit that the job is held against. Only at the top level of a script.
---@param metric string such as latency_ms, with conditions if wanted: latency_ms{phase="isolated"}
---@param condition string aggregate, comparison and number, such as p99 < 40
---@param how? {abort?: boolean|integer} abort = true ends the job as soon as the limit is violated, abort = 20 not before there are 20 samples
function threshold(metric, condition, how) end
