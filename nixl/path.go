package nixl

// Path is what an engine says of how the bytes of some agents were moved.
type Path struct {
	Source  string      `json:"source"`            // who says so: UCX 1.23.0, LIBFABRIC, perigee
	Unknown string      `json:"unknown,omitempty"` // why not all is known
	Hint    string      `json:"-"`                 // what to do about that
	Uses    []PathUse   `json:"uses,omitempty"`
	Lanes   []PathLanes `json:"lanes,omitempty"`
}

// PathUse is one way of serving one operation between two kinds of memory.
type PathUse struct {
	Op        string `json:"op"`        // of the initiator, READ or WRITE
	Local     string `json:"local"`     // memory of the initiator: dram, vram, or the engine's word
	Remote    string `json:"remote"`    // memory of the target
	Reach     string `json:"reach"`     // one of the constants below
	Transport string `json:"transport"` // several with ", " between them, or UnknownTransport
	Device    string `json:"device"`    // several likewise
	How       string `json:"how"`       // in the engine's words: zero-copy, software emulation, ...
	MinBytes  int64  `json:"min_bytes"` // of the descriptors that are served so
	MaxBytes  int64  `json:"max_bytes"` // 0: no end
	Count     int64  `json:"count"`     // as the engine counts: of descriptors, or of pieces into which it cuts them
}

// PathLanes are the transports that connections have for each purpose, in the engine's words.
type PathLanes struct {
	Reach string `json:"reach"`
	Lanes string `json:"lanes"`
}

// Where the target of a transfer is.
const (
	ReachSelf    = "self"    // the rank itself
	ReachHost    = "host"    // another one of its host
	ReachNetwork = "network" // one of another host
)

// UnknownTransport stands for one that an engine names in a form that perigee does not know.
const UnknownTransport = "unknown"

// PathEngine is an engine that says what moved the bytes of its agents.
type PathEngine interface {
	Engine
	// Path is about the agents of this process whose names begin with a prefix, and complete when all of these are
	// closed: until then, and where the engine cannot say it, Unknown says why.
	Path(prefix string) Path
}
