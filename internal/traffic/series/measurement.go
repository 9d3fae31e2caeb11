package series

// RankPart is one rank's part of a measurement. Stamps are on the common time line.
type RankPart struct {
	Rank       int     `json:"rank"`
	StartNS    int64   `json:"start_ns"` // before its first post; 0 for a rank that only is a peer
	EndNS      int64   `json:"end_ns"`   // when its last transfer was complete
	Bytes      int64   `json:"bytes"`    // that it moved
	CPUSeconds float64 `json:"cpu_seconds"`
}

// Measurement holds the figures of a case. Durations of an iteration are those of one lane: all requests that it
// posts together.
type Measurement struct {
	Op         string `json:"op"`
	Local      string `json:"local_mem"`
	Remote     string `json:"remote_mem"`
	BlockBytes int64  `json:"block_bytes"`
	Batch      int64  `json:"batch"`
	Threads    int    `json:"threads"`
	Iterations int    `json:"iterations"`
	// Asked is how many iterations were to be measured, as long as not all of them are.
	Asked    int  `json:"asked_iterations,omitempty"`
	Recreate bool `json:"recreate"`

	// StartNS is the first start, EndNS the last end over all lanes.
	StartNS       int64   `json:"start_ns"`
	EndNS         int64   `json:"end_ns"`
	UncertaintyNS int64   `json:"uncertainty_ns"` // of their difference
	Bytes         int64   `json:"bytes"`
	Bandwidth     float64 `json:"bandwidth_bytes_per_s"` // Bytes by EndNS - StartNS
	CPUSeconds    float64 `json:"cpu_seconds"`           // of all ranks

	Latency Stats      `json:"latency"` // from before the first post until all is complete
	Prep    Stats      `json:"prep"`    // preparing the requests
	Post    Stats      `json:"post"`    // from before the first post until after the last
	Tx      Stats      `json:"tx"`      // from after the last post until all is complete
	Ranks   []RankPart `json:"ranks"`
}
