package load

import (
	"errors"

	"perigee/nixl"
)

// Schedule is transfers that are each due at a time, whatever is under way then. Within a rank's buffers they lie one
// after the other, and from the beginning again where Pool ends. NewSchedule makes one that can be prepared.
type Schedule struct {
	Name string
	Mem  nixl.Mem
	Op   nixl.Op // Write: senders post; Read: receivers do
	Due  []int64 // of each transfer, in nanoseconds after the schedule's zero, ascending
	// Parts appends what a transfer moves to list, each pair of ranks at most once. It is called often, for any
	// transfer, and must return the same on every rank.
	Parts func(list []Part, transfer int) []Part
	// Pool bounds the bytes of each of a rank's two buffers. 0: DefaultPool, and more where one transfer needs more.
	Pool int64
}

// Part is what a transfer moves from one rank to another: runs of descriptors, one after the other.
type Part struct {
	From, To int
	Runs     []Run
}

// Run is a number of descriptors of equal length in bytes.
type Run struct{ Count, Bytes int64 }

// DefaultPool is Pool where that is 0: more than the caches of processors hold, as the KV cache of an engine is.
const DefaultPool = 256 << 20

// NewSchedule gives every part of every transfer its place at both ends, and indexes the parts by the rank that posts
// them. Due times that descend, parts of ranks that there are not, and a transfer that Pool cannot hold are errors of
// the kind Input.
func NewSchedule(s Schedule, ranks int) (Schedule, error) { return s, errors.ErrUnsupported }

// Laps are the first transfers of stretches no two of whose parts share memory, and at last the number of transfers.
func (s Schedule) Laps() []int { return nil }
