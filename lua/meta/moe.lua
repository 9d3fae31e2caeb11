---@meta

---@class Routing
---@field family? string one of moe.families(), default "uniform"
---@field seed? integer default: the job's --seed
---@field hot? number khot: share of the tokens that choose hot experts only, default 0.9
---@field hot_experts? integer khot: the first so many experts are hot, default 32
---@field exponent? number zipf, default 1
---@field sigma? number lognormal, default 1
---@field imbalance? number imbalance: load of the busiest expert over the mean, default 2
---@field masked? integer random choices of each rank that name no expert, default 0
---@field matrix? Matrix matrix: only proportions count; of a larger one the first ranks
---@field spread? number matrix without matrix, 0 to 1, default 1

---@class PlaneSpec
---@field tokens? integer of each rank, default 512
---@field hidden? integer channels of a token, a multiple of 128, default 4096
---@field experts_per_rank? integer default 8
---@field topk? integer experts for each token, default 2
---@field shared_experts? integer experts of each rank that get all its tokens, with weight 1; default 0
---@field payload? "fp8"|"bf16" of dispatched tokens, default "fp8"
---@field staging? "auto"|"on"|"off" on: a dispatch copies what a rank is sent into one piece; auto: on with NIXL, off with shared memory and in vram; default "auto"
---@field mem? "dram"|"cpu"|"vram"|"cuda" where messages leave and arrive; in vram a time is that of the transfers alone, without kernels; default "dram"
---@field routing? Routing
---@field placement? "contiguous"|"eplb" default "contiguous"
---@field redundant? integer eplb: slots of each rank beyond its experts, default 1
---@field groups? integer eplb: groups of experts, each kept on a node, default 1
---@field nodes? integer eplb: nodes that the ranks are divided among, default 1
---@field loads? number[] of all experts: for the routing loads, and for eplb instead of the loads of the tokens themselves

---@class PlaneMeasure
---@field mode? "dispatch"|"combine"|"e2e" default "e2e"
---@field iterations? integer default 100; the first is left out if there are more
---@field warmup? integer default 10
---@field entry? "steady"|"fresh"|"moving" fresh: a barrier before each iteration; moving: the same messages again and again after a barrier, until all are there; default "steady"
---@field fresh? boolean true: entry "fresh"
---@field metric? string one of the scenario's: the times of the slowest rank become its samples
---@field labels? table<string, string|number|boolean> of these samples
---@field record? boolean false: the result does not hold the figures, nor samples of metric

---@class PlaneVerify
---@field sabotage? string one of moe.sabotages(): a fault that must be found
---@field arrived? boolean false: do not look at what was dispatched, only at what was combined
---@field state? "dispatch"|"combine"|"e2e" move nothing, look at what the last iterations of this mode have left

---@class PlaneChecked
---@field messages integer compared bit by bit after the dispatch
---@field tokens integer compared after the combine
---@field difference number 1 - 2<a,b>/(<a,a>+<b,b>) of results and ideal results
---@field shifted number the same of both plus 1
---@field relative number largest relative difference of a channel from the oracle's

---An open data plane of expert parallelism.
---@class Plane
local Plane = {}

---Measures iterations. Returns the figures at rank 0, nil at the others, and stores them in the result under values.ep. Collective.
---@param case PlaneMeasure
---@return table?
function Plane:measure(case) end

---The bytes that the messages of a mode take from each rank to each, itself included.
---@param mode "dispatch"|"combine"|"e2e"
---@return Matrix
function Plane:matrix(mode) end

---@class PlaneBeside
---@field plan Plan of transfer.prepare, at the same ranks
---@field mode? "dispatch"|"combine"|"e2e" default "e2e"
---@field iterations? integer 2 or more, default 100
---@field warmup? integer default 10
---@field runs? integer of the plan alone, default 20
---@field record? boolean false: the result does not hold the figures

---@class Contention
---@field alone_us number mean time of an iteration alone
---@field beside_us number the same beside the plan
---@field slowdown number beside_us / alone_us
---@field other_alone_us number mean time of a run of the plan alone
---@field other_beside_us number the same beside the iterations
---@field other_slowdown number other_beside_us / other_alone_us
---@field other_runs integer runs of the plan beside the iterations, of all ranks
---@field busy_us number mean time of an iteration beside threads that only poll, one on each rank that initiates the plan
---@field other_busy_us number mean time of a run of the plan beside such threads, one on each rank

---Measures iterations alone, a plan alone, and both at the same time. Returns the figures at rank 0, nil at the others. Collective.
---@param case PlaneBeside
---@return Contention?
function Plane:beside(case) end

---Dispatches and combines once through poisoned memory and checks every byte; a wrong one ends the job. Collective.
---@param how? PlaneVerify
---@return PlaneChecked
function Plane:verify(how) end

---Releases memory and connections. Collective.
function Plane:close() end

---@class ModelSizes
---@field name string
---@field hidden integer
---@field experts integer routed experts of a layer
---@field topk integer of them for each token
---@field shared integer experts that every token uses

---@class moe
moe = {}

---Draws the routing, allocates memory and connects all ranks. Collective.
---@param spec PlaneSpec
---@return Plane
function moe.open(spec) end

---Refuses a spec that open would refuse, without a world.
---@param spec PlaneSpec
---@param ranks integer
function moe.check(spec, ranks) end

---@class ControlSpec
---@field test? "cycle"|"init"|"connect"|"disconnect"|"destroy" default "cycle": all phases
---@field rounds? integer measured, default 1
---@field warmup? integer rounds before, default 0
---@field ranks? integer the first so many ranks take part, default all
---@field buffers? "routed"|"worst" the memory of a data plane, or NIXL EP's, which grows with the experts; default "routed"
---@field plane? PlaneSpec
---@field record? boolean false: no figures, neither returned nor stored

---Measures how agents are made, connected, disconnected and destroyed. Returns the figures of each phase at rank 0, nil at the others, and
---stores them in the result under values.ep_control. Collective.
---@param spec ControlSpec
---@return table[]?
function moe.control(spec) end

---@class ElasticSpec
---@field plan? string a name of moe.plans(), or phases such as "0-3; 0-7; 0-5,-6@combine,7"; default "static"
---@field warmup? integer iterations of each phase that are not measured, default 50
---@field iterations? integer default 50
---@field patience? number seconds after which a silent rank counts as dead, default 2
---@field exit? boolean whether the process of a rank that is killed ends, if the rank is not 0 and does not come back; default false. After that the ranks that are left can do nothing together
---@field each? fun(phase: table, number: integer) called at rank 0 when a phase is over
---@field plane? PlaneSpec

---Plays an elastic plan: ranks join, leave and are killed. Returns the phases at rank 0, nil at the others, and stores them in the result
---under values.ep_elastic. Collective.
---@param spec ElasticSpec
---@return table[]?
function moe.elastic(spec) end

---The phases of a plan as text, which a JSON file of NIXL's elastic test may hold: lists of ranks, negative ones killed. Collective.
---@param name string a plan as in moe.elastic, or a file whose name ends in .json
---@return string
function moe.plan(name) end

---How many ranks an elastic plan needs.
---@param plan string
---@return integer
function moe.plan_ranks(plan) end

---The named plans.
---@return string[]
function moe.plans() end

---Fits a power law to times by numbers of ranks; refused says why it means nothing, "" if it holds.
---@param ranks number[]
---@param seconds number[]
---@return {exponent: number, low: number, high: number, r2: number, refused: string, shape: string} low and high are the 95 % interval of the exponent, shape is in words
function moe.growth(ranks, seconds) end

---The phases of the control plane in their order.
---@return string[]
function moe.phases() end

---The sizes of a model that perigee knows, or of its file. Collective.
---@param name string
---@return ModelSizes
function moe.model(name) end

---Reads a row of loads of experts. Collective.
---@param path string
---@param layer? integer from 0, default 0
---@return number[]
function moe.loads(path, layer) end

---Fits seconds = alpha + bytes/rate to points {bytes, seconds}; refused says why the line means nothing, "" if it holds.
---@param points number[][]
---@return {alpha: number, alpha_low: number, alpha_high: number, rate: number, rate_low: number, rate_high: number, r2: number, share: number, refused: string, starred: boolean} low and high are the 95 % intervals, share is of the bytes in the largest time
function moe.fit(points) end

---The bytes that the buffers of NIXL EP would take at each rank.
---@param tokens integer
---@param hidden integer
---@param ranks integer
---@param experts integer of all ranks
---@return integer
function moe.buffer_size(tokens, hidden, ranks, experts) end

---The options of a routing and a placement, for a scenario's list: options = { ..., unpack(moe.options()) }.
---@return table[]
function moe.options() end

---Refuses options of moe.options() that the routing opt.routing and the placement opt.placement do not look at.
---@param opt table what ranks and run are given
function moe.check_options(opt) end

---The families of routing.
---@return string[]
function moe.families() end

---The faults that verification can be made to find.
---@return string[]
function moe.sabotages() end
