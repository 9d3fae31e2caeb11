package series

// Stamps are the times of one run of a list of transfers, in nanoseconds of the
// host's monotonic clock. The fields are those of nixl.Times.
type Stamps struct {
	Start  int64   // before the first post
	Posted int64   // after the last post
	End    int64   // when the last transfer was seen to be complete
	Done   []int64 // per transfer, when it was seen to be complete
}

// Exit is when a rank left a barrier, by its host's clock. Barrier distinguishes
// barriers; 0 means that there was none.
type Exit struct {
	Barrier uint64
	NS      int64
}

// Agreed is the instant at which initiators agreed to start, by the host's clock; NS 0 means that there was none.
type Agreed struct {
	NS   int64
	Late int64 // by how much the rank was ready after the instant, in nanoseconds; 0 if it was in time
}

// Logged is a recorded run, the barrier before it if there was one since the previous run, the instant agreed
// on if there was one, whether the buffers were filled before it, and the rank's phase when it began.
type Logged struct {
	Stamps
	Left   Exit
	Agreed Agreed
	Filled bool
	Phase  string
}

// Skew is how far apart ranks left a barrier: the last exit minus the first, in
// nanoseconds. It is nil for fewer than two ranks, and where they did not leave
// the same barrier.
func Skew(exits []Exit) *int64 {
	if len(exits) < 2 {
		return nil
	}
	first, last := exits[0].NS, exits[0].NS
	for _, e := range exits {
		if e.Barrier == 0 || e.Barrier != exits[0].Barrier {
			return nil
		}
		first, last = min(first, e.NS), max(last, e.NS)
	}
	skew := last - first
	return &skew
}

// Look is how long threads of a rank had waited for a CPU until an instant, in nanoseconds of the host's clock: the one
// that posts and polls, and the one that moves the bytes beside it, where there is one.
type Look struct {
	NS     int64
	Own    int64
	Moving int64
}
