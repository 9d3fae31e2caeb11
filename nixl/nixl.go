package nixl

import (
	"errors"
	"fmt"
	"strings"
)

// Mem is a kind of memory.
type Mem uint8

// The kinds of memory. The names are NIXL's.
const (
	DRAM Mem = iota
	VRAM
	FILE // a local file; see Agent.OpenFile
)

// String returns the name as it stands in configuration files.
func (m Mem) String() string {
	switch m {
	case DRAM:
		return "dram"
	case VRAM:
		return "vram"
	case FILE:
		return "file"
	}
	return fmt.Sprintf("mem(%d)", uint8(m))
}

// ParseMem reads a kind of memory that can be allocated: dram or cpu, vram or cuda, in either case. The error lists
// what it wanted.
func ParseMem(s string) (Mem, error) {
	switch strings.ToLower(s) {
	case "dram", "cpu":
		return DRAM, nil
	case "vram", "cuda":
		return VRAM, nil
	}
	return 0, fmt.Errorf("unknown memory type %q: want dram (or cpu) or vram (or cuda)", s)
}

// Op is the direction of a transfer as its initiator sees it.
type Op uint8

// The operations. Write pushes local bytes to the peer, Read pulls the peer's.
const (
	Write Op = iota
	Read
)

// String returns WRITE or READ.
func (o Op) String() string {
	if o == Read {
		return "READ"
	}
	return "WRITE"
}

// ParseOp reads an operation, READ or WRITE in either case. The error lists what it wanted.
func ParseOp(s string) (Op, error) {
	switch strings.ToUpper(s) {
	case "WRITE":
		return Write, nil
	case "READ":
		return Read, nil
	}
	return 0, fmt.Errorf("unknown operation %q: want WRITE or READ", s)
}

// Info describes what moves the bytes. It goes into the header and the result.
type Info struct {
	Name    string            `json:"name"`              // shm or nixl
	Version string            `json:"version"`           // of the library, or of perigee for shm
	Backend string            `json:"backend"`           // UCX, or memfd for shm
	Library string            `json:"library,omitempty"` // file name of the loaded library
	Params  map[string]string `json:"params,omitempty"`  // what was set or chosen: progress thread, workers, ...
	Can     Can               `json:"-"`
}

// Can says what an engine does, so that it is never known by its name.
type Can struct {
	GPU          bool // it has buffers in the memory of GPUs
	Counts       bool // it counts the bytes of its requests, where the environment asks for it
	Copies       bool // the thread that posts moves the bytes itself, all the time
	CopiesInPost bool // it does so before it returns from a post, inside a host
}

// AgentConfig configures an agent.
type AgentConfig struct {
	Name     string // unique among all agents of the job
	OneHost  bool   // every peer runs on this host
	GPU      int    // CUDA ordinal for VRAM buffers
	VRAM     bool   // this agent or a peer has VRAM buffers that transfers between them reach
	Progress string // who makes progress: "auto", "thread" or "poll"; auto decides by OneHost and VRAM

	// HugePages says in which pages host buffers lie: HugeAuto (also if empty), HugeOn or HugeOff.
	HugePages string

	// How files are reached, for OpenFile. FileBackend is the library's plugin, POSIX if empty, with FileParams;
	// shm knows POSIX only. FileAPI is the kernel interface of POSIX: AIO (also if empty) or URING.
	FileBackend string
	FileParams  map[string]string
	FileObjects bool // the plugin has an object for each block, and no files
	FileAPI     string
}

// The choices for the pages of host buffers.
const (
	HugeAuto = "auto" // transparent huge pages where the kernel grants them
	HugeOn   = "on"   // huge pages that the administrator has reserved, else an error
	HugeOff  = "off"  // pages of the usual size, as far as the kernel lets a process choose
)

// The kernel interfaces for files.
const (
	AIO   = "AIO"
	URING = "URING"
)

// File describes the file of OpenFile.
type File struct {
	Path string
	Size int64 // bytes, from the beginning of the file, that the buffer has; at least 1

	// Make creates a file, filled with noise; it is an error if Path exists. The file is created under another name
	// in that folder and unlinked at once, so that nothing stays behind however the process ends, and other ranks
	// can create the same. Without Make the file must exist, be a regular one or a block device, and have Size
	// bytes.
	Make   bool
	Write  bool // whether an existing file may be written
	Direct bool // past the page cache (O_DIRECT)
}

// Engine makes agents.
type Engine interface {
	Info() Info
	NewAgent(cfg AgentConfig) (Agent, error)
}

// Buffer is a piece of registered memory. Every process must Alloc its buffers
// in the same order: a peer's buffer is named by its number in that order.
type Buffer interface {
	ID() int     // 0 for an agent's first buffer
	Mem() Mem    //
	Size() int64 // bytes

	// Bytes is the memory itself for DRAM, nil for VRAM and FILE.
	Bytes() []byte
	// ReadAt and WriteAt copy between the buffer and host memory, for filling
	// and checking. They are not timed and need not be fast. An access
	// outside the buffer is an error.
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
}

// Agent is one rank's end of all transfers. Its methods are called from one
// goroutine at a time.
type Agent interface {
	Info() Info

	// Alloc returns registered memory whose pages are present. size may be 0.
	Alloc(mem Mem, size int64) (Buffer, error)

	// VRAMLeft names the GPU that has the agent's VRAM buffers, and says how many of its bytes nothing has taken. An
	// engine or a machine without such memory is an error.
	VRAMLeft() (gpu string, bytes int64, err error)

	// Reregister gives a buffer of the agent's memory a new registration. Batches and lists that use it on this
	// side are released first. A peer that writes to the buffer or reads it must disconnect, and connect again with
	// the new card. An engine that registers nothing returns ErrNoRegistration.
	Reregister(buffer int) error

	// OpenFile makes a buffer of a local file. Only the agent itself reaches it, by
	// transfers with Peer Self: Read moves bytes from the file to memory, Write the other way.
	OpenFile(f File) (Buffer, error)

	// Card returns what peers need to reach all buffers allocated so far.
	// After further Allocs a new card replaces the old one at the peers.
	Card() ([]byte, error)

	// AddPeer makes a peer's buffers reachable, or replaces what was known.
	// The agent itself is a valid peer. An invalid card is an error.
	AddPeer(peer int, card []byte) error

	// Connect opens connections to these peers ahead of the first transfer. It
	// returns at once; both sides then call Progress until Connected returns
	// true. Engines without connections are connected at once.
	Connect(peers []int) error
	Connected() (bool, error)
	// Progress lets the engine work on what peers have started. It does not block.
	Progress() error

	// Disconnect removes these peers: it closes the connections to them, discards their
	// cards, and drops the notices that came from them and were not received. Batches and lists that
	// use one of them are released; using such a batch is an error that names the peer. Transfers with other peers
	// go on. It does not wait for the peers, so it is also how to leave out a peer that died or does not answer.
	// A peer that was not added, or was disconnected before, is ignored.
	//
	// To reconnect, call AddPeer with the peer's card (the old one will do if its buffers are the same), and
	// Connect. Both sides must have disconnected before either connects again: put a barrier between
	// the two calls. Notices that are under way when one side disconnects may get lost.
	Disconnect(peers []int) error

	// NewBatch prepares transfers that will be posted together. Every
	// Transfer's peer must have been added, and every descriptor must lie
	// within its buffer; otherwise it is an error that names it.
	NewBatch(transfers []Transfer) (Batch, error)

	// PrepareList checks descriptors of a buffer and prepares them for PickBatch. peer is Self for a
	// buffer of the agent's memory, else a peer that was added. Files have no lists.
	PrepareList(peer, buffer int, descs []Desc) (List, error)
	// PickBatch is NewBatch for descriptors of prepared lists. On NIXL it takes about 20 ns per descriptor where
	// NewBatch takes 35; a workload that moves other pieces of the same buffers in each step saves that.
	// Transfers that stay the same are better kept: posting a batch again prepares nothing.
	PickBatch(picks []Pick) (Batch, error)

	// Notify sends a message of at most MaxNotice bytes to a peer that was added and connected. It does not wait
	// for the peer: what cannot leave at once leaves during later calls of Notify, Progress or Receive. A message
	// sent after a transfer was seen complete arrives after the transfer's bytes. Messages to one peer arrive in
	// the order in which they were sent, each once.
	Notify(peer int, message []byte) error
	// Receive appends the messages that have arrived to a slice and returns it. It makes progress and does not
	// block. The messages of one peer are in order; those of a sender that has not been added wait until it is.
	Receive(into []Notice) ([]Notice, error)

	// Close releases everything the agent still holds, batches and buffers too.
	Close() error
}

// Desc is a contiguous piece of a buffer. Both values are in bytes; Len > 0.
type Desc struct {
	Off, Len int64
}

// Self is the Peer of transfers between an agent's own memory, LocalBuffer, and one of its files,
// RemoteBuffer. It needs no card.
const Self = -1

// Transfer is one initiator's exchange with one peer. Local[k] and Remote[k]
// have equal length; each pair stays one descriptor on the wire (never merged).
type Transfer struct {
	Op           Op
	Peer         int
	LocalBuffer  int // ID of the initiator's buffer
	RemoteBuffer int // ID of the peer's buffer
	Local        []Desc
	Remote       []Desc

	// Notice, if not nil, is sent to the peer each time the transfer is seen complete: at once by
	// Batch.Done and Batch.Wait, after each run by Batch.Run. Its bytes are at the peer before it. A file has no
	// notices.
	Notice []byte
}

// Bytes is the sum of the descriptors' lengths.
func (t Transfer) Bytes() int64 {
	var n int64
	for _, d := range t.Local {
		n += d.Len
	}
	return n
}

// Control bounds a wait. The zero value waits forever.
type Control struct {
	// Deadline is a clock.Now value (host monotonic nanoseconds); 0 means none.
	Deadline int64
	// Abort, if not nil, is looked at while waiting; non-zero ends the wait
	// with ErrAborted.
	Abort *uint32
}

// Times are the stamps of one run of a batch, in nanoseconds of the host's
// CLOCK_MONOTONIC.
type Times struct {
	Start  int64   // before the first post
	Posted int64   // after the last post
	End    int64   // when the last transfer was seen to be complete
	Done   []int64 // per transfer, when it was seen to be complete
}

// Batch is a set of prepared transfers. It can run any number of times, one
// run at a time.
type Batch interface {
	Len() int     // number of transfers
	Bytes() int64 // in one run

	// Prep is how long it took to prepare the transfers, in nanoseconds: from the lists of
	// descriptors to what can be posted. Checks are not part of it.
	Prep() int64

	// Run posts all transfers, waits for all and stamps both, n times in
	// one native loop. times has n elements or is nil; the Done slices are filled
	// where they have Len elements. An empty batch stamps and returns.
	Run(ctl Control, n int, times []Times) error

	// Post starts the transfers; Wait ends them and fills t. They are the
	// two halves of Run for scripts that do something in between. Done reports
	// whether Wait would return at once.
	Post() error
	Done() (bool, error)
	Wait(ctl Control, t *Times) error

	// Release frees the prepared transfers. A second call does nothing.
	Release() error
}

// Measured is a Batch whose library counts bytes itself: those of the last run, which is complete. ok is false where it
// was not asked to count, or does not know. Ask before Release.
type Measured interface {
	Measured() (bytes int64, ok bool)
}

// ErrNoRegistration says that an engine's memory needs no registration.
var ErrNoRegistration = errors.New("this engine does not register memory")

// ErrAborted ends a wait whose Control.Abort became non-zero. As after a
// TimeoutError, the batch is unusable.
var ErrAborted = errors.New("transfer aborted")

// TimeoutError ends a wait that passed its deadline. The batch is unusable
// after it; its memory stays in place until the agent is closed.
type TimeoutError struct {
	Peers []int // peers whose transfers were not complete, ascending, no duplicates; Self for files
}

func (e *TimeoutError) Error() string {
	if len(e.Peers) > 0 && e.Peers[0] == Self {
		return "the transfer with a file did not complete in time"
	}
	return fmt.Sprintf("transfer with peer %s did not complete in time", strings.Trim(fmt.Sprint(e.Peers), "[]"))
}
