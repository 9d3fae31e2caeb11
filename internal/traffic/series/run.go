package series

import "math"

// PeerRun is one message of a run: EndNS is when the initiator saw it complete,
// on the common time line.
type PeerRun struct {
	Peer  int   `json:"peer"`
	Bytes int64 `json:"bytes"`
	EndNS int64 `json:"end_ns"`
	// Overlap says what it shared with messages of other patterns; nil for nothing.
	Overlap *Overlap `json:"overlap,omitempty"`
	// MayMeetNS is how long it may have lasted when it first met another, if the clocks of the hosts are off as far as
	// they may be; nil if that is no earlier than Overlap says.
	MayMeetNS *int64 `json:"may_meet_ns,omitempty"`
	// CPUWaitNS is how long the thread that moves its bytes waited for a CPU meanwhile: that of its sender or that of
	// its receiver, whichever waited longer. PollWaitNS is the same of the initiator's thread that posts and polls,
	// nil where that is the one which moves the bytes. Both are nil where nothing is known.
	CPUWaitNS  *int64 `json:"cpu_wait_ns,omitempty"`
	PollWaitNS *int64 `json:"poll_wait_ns,omitempty"`
}

// Resources lists what messages can share, in the order in which it is written.
var Resources = []string{"sender", "receiver", "sending host", "receiving host"}

// Overlap is how much of the time of a message other patterns used what it used.
type Overlap struct {
	Share    float64 `json:"share"`    // of the message's time, above 0, at most 1
	Messages int     `json:"messages"` // of other patterns that ran meanwhile
	Shared   string  `json:"shared"`   // what was shared: sender, receiver, sending host, receiving host
	// FirstNS is how long the message had lasted when it first met another.
	FirstNS int64 `json:"first_ns,omitempty"`
	// By says the same of each of these, in that order, where they are several.
	By []OverlapBy `json:"by,omitempty"`
}

// OverlapBy is the overlap of a message with those that used one of what it used.
type OverlapBy struct {
	Resource string  `json:"resource"`
	Share    float64 `json:"share"`
	Messages int     `json:"messages"`
}

// Each lists the overlap by resource, also where there is only one.
func (o *Overlap) Each() []OverlapBy {
	if len(o.By) == 0 {
		return []OverlapBy{{o.Shared, o.Share, o.Messages}}
	}
	return o.By
}

// RankRun is one initiator's part of a run. Stamps are nanoseconds on the
// common time line.
type RankRun struct {
	Rank    int       `json:"rank"`
	StartNS int64     `json:"start_ns"`
	PostNS  int64     `json:"posted_ns"`
	EndNS   int64     `json:"end_ns"`
	Bytes   int64     `json:"bytes"`
	LateNS  int64     `json:"late_ns,omitempty"` // by how much it missed the run's AgreedNS
	Peers   []PeerRun `json:"peers,omitempty"`
}

// DurationNS is the initiator's own time, from before its first post until its
// last transfer was complete.
func (r RankRun) DurationNS() int64 { return r.EndNS - r.StartNS }

// Bandwidth is in bytes per second.
func (r RankRun) Bandwidth() float64 {
	return float64(r.Bytes) / (float64(max(r.DurationNS(), 1)) * 1e-9)
}

// Run is one run of a pattern over all its initiators.
type Run struct {
	// StartNS is the first start, EndNS the last end, on the common time line.
	StartNS int64 `json:"start_ns"`
	EndNS   int64 `json:"end_ns"`
	// UncertaintyNS is how far the difference of the two may be off, because
	// they were read off different hosts' clocks; 0 within a host.
	UncertaintyNS int64 `json:"uncertainty_ns"`
	// BarrierExitSkewNS is how far apart the initiators were when they left the
	// barrier before the run: the last exit minus the first, to within
	// UncertaintyNS. It is nil without such a barrier, or with one initiator.
	BarrierExitSkewNS *int64 `json:"barrier_exit_skew_ns,omitempty"`
	// StartSkewNS is how far apart the initiators started: the last start minus the first, to within
	// UncertaintyNS. It is nil with one initiator.
	StartSkewNS *int64 `json:"start_skew_ns,omitempty"`
	// Filled says that the buffers were filled and checked since the run before, or the runs so far saved: the time in
	// between belongs to no figure.
	Filled bool `json:"filled,omitempty"`
	// AgreedNS is the instant at which the initiators agreed to start; nil if they did not.
	AgreedNS *int64    `json:"agreed_ns,omitempty"`
	Ranks    []RankRun `json:"ranks"`
	// Phase is that of its first initiator when it began. Results have it beside the run.
	Phase string `json:"-"`
}

// Late is how many initiators were ready only after the instant agreed on.
func (r Run) Late() (n int) {
	for _, k := range r.Ranks {
		if k.LateNS > 0 {
			n++
		}
	}
	return n
}

// LatencyNS is the last end minus the first start over the initiators, and 0
// for a pattern in which no rank sends.
func (r Run) LatencyNS() int64 { return r.EndNS - r.StartNS }

// LongestNS is the time of the initiator that took longest, from its own start to its own end.
func (r Run) LongestNS() (ns int64) {
	for _, k := range r.Ranks {
		ns = max(ns, k.DurationNS())
	}
	return ns
}

// MeanBandwidth is the mean, over the initiators, of the bytes that each moved
// divided by its own time, in bytes per second.
func (r Run) MeanBandwidth() float64 {
	if len(r.Ranks) == 0 {
		return 0
	}
	var sum float64
	for _, k := range r.Ranks {
		sum += k.Bandwidth()
	}
	return sum / float64(len(r.Ranks))
}

// Mean is the latency of a pattern that ran several times, in nanoseconds: the maximum over initiators of the mean over
// runs of that initiator's own time.
func Mean(runs []Run) float64 {
	if len(runs) == 0 {
		return math.NaN()
	}
	var worst float64
	for i := range runs[0].Ranks {
		var sum float64
		for _, r := range runs {
			sum += float64(r.Ranks[i].DurationNS())
		}
		worst = max(worst, sum/float64(len(runs)))
	}
	return worst
}

// Add joins another initiator's part to the run.
func (r *Run) Add(k RankRun) {
	if len(r.Ranks) == 0 {
		r.StartNS, r.EndNS = k.StartNS, k.EndNS
	}
	r.StartNS, r.EndNS = min(r.StartNS, k.StartNS), max(r.EndNS, k.EndNS)
	r.Ranks = append(r.Ranks, k)
}

// startSkew is how long after the first initiator the last one started; nil with one.
func (r *Run) startSkew() *int64 {
	if len(r.Ranks) < 2 {
		return nil
	}
	last := r.StartNS
	for _, k := range r.Ranks {
		last = max(last, k.StartNS)
	}
	skew := last - r.StartNS
	return &skew
}

// Complete sets what follows from the parts of all initiators, after the last Add.
func (r *Run) Complete(uncertainty int64, exits []Exit) {
	r.UncertaintyNS, r.BarrierExitSkewNS, r.StartSkewNS = uncertainty, Skew(exits), r.startSkew()
}

// StorageRun is one run of one half of a rank's storage operation. Stamps are on the common time line.
type StorageRun struct {
	Rank      int    `json:"rank"`
	Op        string `json:"op"`        // READ or WRITE
	Iteration int    `json:"iteration"` // from 0, since the last collect
	StartNS   int64  `json:"start_ns"`  // before the first post of the rank's operation
	EndNS     int64  `json:"end_ns"`    // when all bytes of this half had been moved
	Bytes     int64  `json:"bytes"`
	Phase     string `json:"-"` // of the rank when it began
}
