package load

import "perigee/nixl"

// Schedule is transfers that are each due at a time, whatever is under way then. Within a rank's buffers they lie one
// after the other, and from the beginning again where Pool ends.
type Schedule struct {
	Name string
	Mem  nixl.Mem
	Op   nixl.Op // Write: senders post; Read: receivers do
	Due  []int64 // of each transfer, in nanoseconds after the schedule's zero, ascending
	// Parts appends what a transfer moves to list, each pair of ranks at most once. It is called often, for any
	// transfer, and must return the same on every rank.
	Parts func(list []Part, transfer int) []Part
	Pool  int64 // bytes of a rank's buffers; at least those of its largest part
}

// Part is what a transfer moves from one rank to another: runs of descriptors, one after the other.
type Part struct {
	From, To int
	Runs     []Run
}

// Run is a number of descriptors of equal length in bytes.
type Run struct{ Count, Bytes int64 }
