---@meta
-- Prepared traffic.

---What a rank reads from a file and writes to it, beside the messages of a plan.
---@class StorageOp
---@field file_path string a file; it is made, and vanishes in the end, if it is not there
---@field file_size Size bytes of it that are used
---@field read_offset? Size 0 by default
---@field read_size? Size bytes that are read, 0 by default
---@field write_offset? Size 0 by default
---@field write_size? Size bytes that are written, 0 by default; a file that is there is written with --allow-io only

---One run of reading or writing a file beside the messages.
---@class StorageRun
---@field iteration integer number of the run of its plan since the last collect, from 1
---@field rank integer
---@field op "READ"|"WRITE"
---@field bytes integer
---@field start number before the rank's first post, on the common time line
---@field stop number when all bytes had been moved
---@field seconds number stop - start

---Pieces that one rank sends to another in an exchange. Offsets are bytes in the sender's send half and in the
---receiver's receive half.
---@class ExchangeMessage
---@field from integer rank
---@field to integer rank
---@field bytes Size of each piece
---@field count? integer pieces, one descriptor each; 1 by default
---@field send? Size|Size[] where the first piece begins, or every piece; by default behind what the rank sends so far
---@field recv? Size|Size[] likewise at the receiver, where no two pieces may overlap
---@field send_stride? Size from one piece to the next; bytes by default
---@field recv_stride? Size likewise at the receiver

---What to prepare: matrix or exchange.
---@class TransferSpec
---@field matrix? Matrix how many bytes each rank sends to each other; as many rows as there are ranks
---@field exchange? ExchangeMessage[] instead of matrix: a personalised all-to-all whose pieces have their own places
---@field lane? integer plans on different lanes have their own buffers and connections, and overlap when posted; 0 by default
---@field mem? "dram"|"cpu"|"vram"|"cuda" memory of the buffers; by default vram if every rank has a GPU, else dram
---@field op? "WRITE"|"READ" who moves the bytes: the sender (default) or the receiver
---@field shards? integer descriptors per message, 1 (default) to 1048576; not with exchange
---@field name? string for messages and the result
---@field storage? table<integer, StorageOp> files that ranks read and write beside the messages, keyed by rank; not with exchange
---@field metadata? table kept in the result
---@field start? "barrier"|"clock" clock: the initiators agree on an instant before each run or post and start at it, which makes these calls collective among them
---@field meet? "initiators"|"all" who the script lets meet and sleep before a run, kept in the result; prepare itself lets none wait
---@field sleep_before? number seconds that the script sleeps before a run, kept in the result; prepare itself never sleeps
---@field sleep_after? number likewise after a run

---One run of a plan, over all initiators. Times are in seconds on the common time line.
---@class Run
---@field start number first start of any initiator
---@field stop number last end of any initiator
---@field latency number stop - start, in seconds
---@field uncertainty number how far latency may be off, in seconds; 0 within a host
---@field barrier_exit_skew? number how far apart the initiators left the barrier before the run, in seconds; nil without one
---@field filled? boolean whether buffers were filled, or runs saved, since the run before; nil if not
---@field start_skew? number how far apart the initiators started, in seconds; nil with a single one
---@field late integer initiators that were ready only after the instant agreed on; 0 without one
---@field mean_bandwidth number mean over the initiators of bytes / seconds of each, in bytes per second
---@field rank_seconds table<integer, number> each initiator's own seconds, keyed by rank
---@field rank_bytes table<integer, integer> bytes that each initiator moved, keyed by rank

---What transfer.collect gives for a plan.
---@class Collected
---@field runs Run[] the recorded runs since the last collect, in their order
---@field storage StorageRun[] the recorded runs of storage operations
---@field mean? number the largest of the initiators' own mean seconds per run; nil without runs
---@field isolated? number the same of the runs in the phase isolated; nil without such runs

---A prepared traffic pattern. Every rank has it, also one that takes no part.
---@class Plan
---@field name string name that it was given
---@field bytes integer sum of the matrix in bytes
---@field mem "dram"|"vram" memory of the buffers
---@field op "WRITE"|"READ" who moves the bytes
---@field shards integer descriptors per message; 0 for an exchange
---@field lane integer the lane that it was prepared on
---@field ranks integer[] those that send or receive, or have storage, ascending
---@field senders integer[] those that send, ascending
---@field initiators integer[] those that post transfers, ascending: the senders of a WRITE, the receivers of a READ
---@field takes_part boolean whether this rank sends or receives, or has storage
---@field prep_seconds number what the engine took to prepare this rank's transfers, without buffers and connections
---@field initiates boolean whether this rank posts transfers or has storage
local Plan = {}

---Posts this rank's transfers and waits for them, once or several times, in native code. Does nothing at a rank that initiates nothing.
---@param how? integer|{iterations?: integer, record?: boolean} number of runs, 1 by default; record = false keeps them from transfer.collect
function Plan:run(how) end

---Starts this rank's transfers; wait ends them. Plans on one lane may be moved one after the other. On lane 0 NIXL copies inside a host while it posts; on other lanes post returns at once, so that what follows overlaps.
function Plan:post() end

---Waits for what post has started, and records the run.
function Plan:wait() end

---Whether wait would return at once.
---@return boolean
function Plan:done() end

---Runs once on known bytes and checks every byte that arrives, in memory and in files; a wrong one ends the job. Files that the plan writes are written. All ranks call it. Collective.
function Plan:verify() end

---Writes known bytes where the plan sends from and their opposite where it receives, for a run that check checks. No other plan on its lane may run between. Collective.
---@param round? integer changes every byte; 0 by default
function Plan:fill(round) end

---Checks every byte since fill, where the plan receives and where it sends from; a wrong one ends the job. Collective.
---@param round? integer as for fill
function Plan:check(round) end

---Says that time passes before the next run that is in no figure: the run has filled = true.
function Plan:gap() end

---Frees the prepared transfers. Recorded runs can still be collected.
function Plan:release() end

---Returns when all ranks of the plan have called it; at others at once. Collective among plan.ranks.
function Plan:barrier() end

---Returns when all ranks where plan.initiates is true have called it; at others at once. Collective among these: plan.initiators, and ranks with storage.
function Plan:initiators_barrier() end

---Seconds of this rank's last run: post until all was posted, total until all was complete; nil if it has not run.
---@return {post: number, total: number}?
function Plan:times() end

---Seconds of this rank's last run until the message with each peer was complete, keyed by peer; nil if it has not run.
---@return table<integer, number>?
function Plan:peer_times() end

---The first bytes of each message in this rank's receive buffer, as they are now, in hex digits, keyed by sender.
---@param most? integer bytes of each message, 16 by default, at most 1 MiB
---@return table<integer, string>
function Plan:received(most) end

---Which lanes to open. The same at all ranks.
---@class LanesSpec
---@field peers table<integer, integer[]> the ranks with which each rank initiates transfers, keyed by rank; for files each initiator has itself
---@field threads? integer lanes of each initiator, 1 by default; each posts from its own thread
---@field op? "WRITE"|"READ" from the initiator to the peer or file (default), or the other way
---@field local_mem? "dram"|"cpu"|"vram"|"cuda" memory of the initiators, dram by default
---@field remote_mem? "dram"|"cpu"|"vram"|"cuda"|"file" memory of the peers, dram by default, or files of the initiators
---@field block Size the largest block
---@field batch? integer the most blocks that a lane exchanges with a peer at a time, 1 by default
---@field limit? Size the most bytes of buffers in a rank; 0, the default, for none
---@field path? string for files: a folder, a name for files that are made, or a file that is there
---@field files? integer files of each lane, 1 by default; its blocks go to them in turn
---@field direct? boolean past the page cache
---@field overwrite? boolean whether a file that is there may be written
---@field backend? string NIXL's plugin for files: POSIX (default), GDS, GDS_MT
---@field api? "AIO"|"URING" the kernel's interface for files, with POSIX; AIO by default
---@field huge_pages? boolean host memory in huge pages that the administrator has reserved
---@field shuffle? boolean the blocks at the remote end, or in files, in a random order
---@field shuffle_seed? integer seed of that order, 0 by default

---What lanes shall do.
---@class LanesCase
---@field block Size bytes in a block, one descriptor
---@field batch? integer blocks that each lane exchanges with each peer at a time, 1 by default
---@field iterations? integer of each lane, measured, 1 by default; not for verify
---@field warmup? integer of each lane before, not measured, 0 by default; not for verify
---@field recreate? boolean prepare the requests anew for every iteration; not for verify
---@field depth? integer iterations of a lane under way at the same time, 1 by default; not for verify
---@field prepared? boolean pick the requests from prepared lists of descriptors; not for verify
---@field reregister? boolean register the initiator's memory anew for every iteration, and prepare the requests; not for verify
---@field progress? ProgressBar a bar in MiB that follows the bytes of this rank; not for verify
---@field record? boolean store it in the result, true by default; not for verify

---Durations of iterations of single lanes, in seconds.
---@class Durations
---@field count integer how many there are
---@field mean number
---@field min number
---@field p50 number
---@field p99 number
---@field p999 number the 99.9th percentile
---@field max number

---What lanes:measure found out.
---@class Measured
---@field bytes integer that all lanes moved
---@field seconds number from the first start of any lane to the last end
---@field uncertainty number of seconds, because of different hosts' clocks
---@field bandwidth number bytes / seconds
---@field cpu_seconds number processor time of all ranks meanwhile
---@field latency Durations from before the first post of an iteration until all of it is complete
---@field prep Durations preparing the requests of a lane: once, or for every iteration if recreate
---@field post Durations from before the first post until after the last
---@field tx Durations from after the last post until all is complete

---Open lanes: block transfers from several threads at a time.
---@class Lanes
local Lanes = {}

---Runs all lanes side by side. Returns what came out at rank 0, nil at the others, and stores it in the result. Collective.
---@param case LanesCase
---@return Measured?
function Lanes:measure(case) end

---Runs a case once on known bytes and checks every byte; a wrong one ends the job. Not measured. Collective.
---@param case LanesCase
function Lanes:verify(case) end

---Releases buffers and files.
function Lanes:close() end

---@class transfer
transfer = {}

---Opens lanes: agents and buffers for block transfers. Collective.
---@param spec LanesSpec
---@return Lanes
function transfer.lanes(spec) end

---Allocates buffers, exchanges their addresses and prepares the transfers of a pattern. Collective.
---@param spec TransferSpec
---@return Plan
function transfer.prepare(spec) end

---Prepares several patterns, with one exchange of addresses for all. Collective.
---@param specs TransferSpec[]
---@return Plan[]
function transfer.prepare_all(specs) end

---Prepares the same patterns again, no two of them in the same memory, so that all of them can be filled, run at the same time, and checked. Plans with storage stay as they are, and so does what is recorded. nil where a host or a GPU has too little memory. Collective.
---@param plans Plan[] the same at all ranks
---@return Plan[]?
function transfer.apart(plans) end

---Runs plans, each iterations times, until this rank has reached each of its peers. Not recorded. Called by all ranks.
---@param plans Plan[]
---@param iterations integer
function transfer.warmup(plans, iterations) end

---Announces that each of the plans will be recorded so many times. A run keeps its times in memory: what that takes is
---printed if it is much, and what cannot fit ends the job before anything is sent. Called by all ranks.
---@param plans Plan[]
---@param runs integer
function transfer.expect(plans, runs) end

---Gathers the recorded runs of plans in the result of rank 0, if it is time: every second. Called by all ranks
---between runs, such as after each: what is saved is there even where the job ends before collect, which returns
---it with the rest. Collective.
---@param plans Plan[] the same at all ranks, each once
---@param gap? boolean the runs follow each other at once: one that comes after a meeting of the ranks here has filled = true, so that this time is in no figure
---@param now? boolean it is time, whatever the clock says
function transfer.save(plans, gap, now) end

---Bounds the memory of a job that runs for a given time: of the runs of each plan that are gathered from now on, until the
---next call, the result keeps the first n, and collect returns these. The others count as well: for transfer.totals, and for
---percentiles of latencies in reports and thresholds. Called by all ranks with the same n.
---@param n? integer nil: all of them
function transfer.keep(n) end

---All recorded runs of a plan in a phase.
---@class Totals
---@field runs integer how many they are
---@field kept integer how many of them the result keeps
---@field seconds number from the first start to the last end, with storage operations, without the time before runs that have filled = true
---@field latency? number median of all, within 0.4 %; nil where all are kept
---@field rank_seconds table<integer, number> sum of each initiator's own times, keyed by rank
---@field rank_bytes table<integer, integer> bytes that each initiator moved, keyed by rank

---What the runs of plans come to that were gathered in the phase that is now, at rank 0; nil at the others.
---@param plans Plan[]
---@return (Totals|false)[]? of each plan; false for one without such runs
function transfer.totals(plans) end

---Gathers the recorded runs of plans at rank 0, and stores them in the result; nil at the others. Collective.
---@param plans Plan[] the same at all ranks, each once
---@return Collected[]?
function transfer.collect(plans) end

---The memory that is taken where none is asked for. Collective.
---@return "dram"|"vram"
function transfer.default_mem() end

---What moves the bytes. Collective when it is called first.
---@return {name: string, version: string, backend: string}
function transfer.engine() end
