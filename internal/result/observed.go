package result

// Paths holds the transports and devices that served the transfers of a run, summed over its ranks.
type Paths struct {
	Source  string      `json:"source"`            // who says so: UCX 1.23.0, LIBFABRIC, perigee
	Unknown string      `json:"unknown,omitempty"` // why not all is known
	Uses    []PathUse   `json:"uses,omitempty"`    // the most frequent first
	Lanes   []PathLanes `json:"lanes,omitempty"`
}

// PathUse is one way of serving one operation between two kinds of memory.
type PathUse struct {
	Op        string `json:"op"`                  // READ or WRITE
	Local     string `json:"local"`               // memory of the initiator: dram, vram
	Remote    string `json:"remote"`              // memory of the target
	Reach     string `json:"reach"`               // self, host (inside one) or network
	Transport string `json:"transport"`           // several with ", " between them; unknown
	Device    string `json:"device"`              // likewise
	How       string `json:"how"`                 // zero-copy, multi-frag copy-in, software emulation, ...
	MinBytes  int64  `json:"min_bytes"`           // of the messages that are served so
	MaxBytes  int64  `json:"max_bytes,omitempty"` // 0: no end
	Count     int64  `json:"count"`               // of descriptors, or of pieces into which the library cuts them
	Ranks     int    `json:"ranks"`               // that used it
}

// PathLanes are the transports that connections have in reserve for each purpose, as the library words them.
type PathLanes struct {
	Reach string `json:"reach"`
	Lanes string `json:"lanes"` // rma(posix/memory) am(posix/memory cma/memory)
	Ranks int    `json:"ranks"` // that have such connections
}

// Network holds the counters of the hosts' networks: all traffic of a host, also that of other processes.
type Network struct {
	Windows []NetworkWindow `json:"windows"` // by time, then by host
}

// NetworkWindow is what the counters of a host have gained in a phase. A counter that the host does not have, or that
// was set back meanwhile, is absent.
type NetworkWindow struct {
	Host    int              `json:"host"`  // index into World.Hosts
	Phase   string           `json:"phase"` // FirstPhase for a run without phases
	StartNS int64            `json:"start_ns"`
	EndNS   int64            `json:"end_ns"`
	TCP     map[string]int64 `json:"tcp,omitempty"` // of the host's network namespace
	NICs    []NICWindow      `json:"nics,omitempty"`
	Note    string           `json:"note,omitempty"` // a NIC that went away, a counter that went back
}

// NICWindow is what a NIC has counted in a phase.
type NICWindow struct {
	Name     string           `json:"name"`           // eth0, or mlx5_0:1 for a port
	Mbps     int64            `json:"mbps,omitempty"` // as in NIC
	Sent     int64            `json:"sent_bytes"`
	Received int64            `json:"received_bytes"`
	Counters map[string]int64 `json:"counters,omitempty"` // of congestion, by the names of docs/network.md
}

// Line is what the wire between hosts can carry at most.
type Line struct {
	Rate    float64  `json:"bytes_per_s,omitempty"`      // of one rank's messages, one direction; 0: unknown
	Host    float64  `json:"host_bytes_per_s,omitempty"` // of all messages of a host, one direction; 0: unknown
	From    string   `json:"from"`                       // the devices and who says so, or why it is unknown
	Given   bool     `json:"given,omitempty"`            // by --line, whatever devices say
	Ceiling *Ceiling `json:"ceiling,omitempty"`          // nil where it was not measured
}

// Ceiling is the rate of one large message between two ranks, measured in the same job.
type Ceiling struct {
	Sender   int     `json:"sender"`
	Receiver int     `json:"receiver"`
	Op       string  `json:"op"`
	Mem      string  `json:"mem"`
	Bytes    int64   `json:"bytes"`
	Runs     int     `json:"runs"`
	Rate     float64 `json:"bytes_per_s"` // median
}
