---@meta
-- Serving traces that are replayed as transfers.

---Which trace, and how it becomes transfers. Names and defaults are those of the options of perigee replay.
---@class ReplaySpec
---@field trace string a file: JSON lines of Mooncake, Bailian or dynamo, or CSV; may be gzip
---@field trace_unit? "s"|"ms"|"us"|"ns" of its timestamps, where it does not say it
---@field model string a model's name, its config.json, or a file of your own
---@field kv_cache_dtype? string by default bf16
---@field state_dtype? "float32"|"bfloat16" of states; by default that of the file, the class or the engine
---@field serving? "none"|"vllm"|"sglang"|"trtllm" whose pages and windows move; default "none", what the model keeps
---@field kv_replicas? "full"|"split" what decode ranks that hold the same cache receive; default "full", each all of it
---@field prefill string workers such as "4xTP8"; their ranks come first
---@field decode string likewise
---@field routing? "round-robin"|"least-loaded"|"prefix-aware" default "round-robin"
---@field moved? "prompt"|"miss" default "prompt"
---@field cache? integer blocks that each worker keeps; by default all
---@field block_size? integer tokens of a hash id; by default as the trace says
---@field page_size? integer tokens of a page, each a descriptor a layer; by default the engine's own
---@field run_length? integer contiguous pages of a layer that are one descriptor; by default 1
---@field flops? number operations per second of a GPU in prefill, for which transfers then wait
---@field layer_runs? integer runs of layers that leave one by one during the prefill
---@field in_flight? integer transfers that a decode rank admits at a time; by default all
---@field from? number seconds of the trace
---@field to? number seconds of the trace; by default its end
---@field speed_up? number default 1
---@field scale? number of all bytes, default 1
---@field spread? boolean over the ticks of the trace's grid
---@field seed? integer of spread; by default the job's --seed
---@field mem? "dram"|"cpu"|"vram"|"cuda" by default vram if every rank has a GPU, else dram
---@field op? "READ"|"WRITE" default "READ"
---@field pool? Size bytes of each of a rank's two buffers

---A prepared replay.
---@class Replay
---@field requests integer that are replayed
---@field transfers integer requests, times runs of layers
---@field bytes integer of all requests
---@field seconds number from zero until the last transfer is due
local Replay = {}

---Moves all transfers as fast as possible, and checks every byte. Collective.
---@param how? { progress?: ProgressBar } a bar of result.progress
function Replay:verify(how) end

---Plays transfers of several sizes alone, in turn. Collective.
---@param how? { seconds?: number } 3 by default
function Replay:isolated(how) end

---Lets all ranks move transfers as fast as they can. Collective.
---@param how? { seconds?: number } 3 by default
function Replay:capacity(how) end

---Plays the schedule, each transfer at its time. Returns the figures at rank 0, nil at the others: the field replay of
---the result without its requests, and answer, a list of sentences. Collective.
---@param how? { max_late?: number, progress?: ProgressBar } seconds of P99, 0.001 by default; a bar of result.progress
---@return table?
function Replay:play(how) end

replay = {}

---Reads a trace and prepares its transfers. Collective.
---@param spec ReplaySpec
---@return Replay
function replay.open(spec) end

---How many ranks a replay needs. What cannot be replayed is refused. Collective where there is a world.
---@param spec ReplaySpec
---@return integer
function replay.ranks(spec) end
