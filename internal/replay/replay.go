// Package replay makes a schedule of transfers of a serving trace: which worker prefills each request and which one
// decodes it, how many bytes of its cache move between which ranks in how many pieces, and when.
//
// Everything is a pure function of the trace and the [Options], so every rank derives the same schedule by itself.
//
// Workers are chosen, and their caches change, request by request in the order of arrival: a worker has the blocks of a
// prompt as soon as it is given the request. Which rank receives what is that of [model.Move].
package replay

import (
	"time"

	"perigee/internal/model"
	"perigee/internal/traffic/load"
	"perigee/nixl"
)

// Routing says how a worker is chosen for a request.
type Routing string

// The ways of choosing workers.
const (
	// RoundRobin takes the workers of either side in turn, so that all pairs of them come equally often.
	RoundRobin Routing = "round-robin"
	// LeastLoaded is the prefill worker that would begin first, and the decode worker that has been sent the fewest
	// tokens.
	LeastLoaded Routing = "least-loaded"
	// PrefixAware is the prefill worker that would end first, with what its cache has of the prompt, and the decode
	// worker that would have been sent the fewest tokens after what its own cache lacks of the prompt.
	PrefixAware Routing = "prefix-aware"
)

// Moved says which bytes of a request move.
type Moved string

// The parts of a prompt that move.
const (
	WholePrompt Moved = "prompt" // all of it
	Missing     Moved = "miss"   // the blocks that the decode worker has not got from earlier requests
)

// Options say how a trace becomes transfers.
type Options struct {
	// Model is the cache of a request. With an engine or a size of pages each page is a descriptor a layer, and moves
	// whole, also the last one, which need not be full; else there is one descriptor of exact bytes for a group of
	// layers and pair of ranks.
	Model           *model.Cache
	Replicas        model.Replicas // empty: full
	Prefill, Decode model.Workers  // prefill ranks come first

	Routing Routing
	Moved   Moved
	// CacheBlocks are the blocks of prompts that each worker of either side keeps, the least recently used going first;
	// 0: all of them.
	CacheBlocks int
	BlockTokens int64 // of a hash id, where [trace.Options] had it, too

	// RunLength are the contiguous pages of a layer that are one descriptor, in the memory of both ends: how fragmented
	// an engine's list of blocks is. 0 and 1: each page is a descriptor.
	RunLength int64

	// LayerRuns are runs of layers that leave one after the other while the prompt is prefilled. 0 and 1: all at once.
	LayerRuns int
	// FLOPS are the operations per second that a GPU reaches in prefill: a transfer then waits for its prefill, and
	// prefills of a worker follow each other. 0: a request is prefilled when it comes.
	FLOPS float64

	// From and To select requests by their times in the trace, both included; a To of 0 is the end. Caches are empty
	// and workers free at From.
	From, To time.Duration
	SpeedUp  float64 // all times are divided by it
	Scale    float64 // all bytes are multiplied by it, as matgen's --scale
	Spread   bool    // requests of one tick of the trace's grid are spread over the tick, drawn from Seed
	Seed     uint64

	Mem  nixl.Mem
	Op   nixl.Op // Read: decode ranks fetch; Write: prefill ranks send
	Pool int64   // as load.Schedule has it
}

// DueRequest is a request as it is replayed.
type DueRequest struct {
	Index           int   // of the trace, from 0
	DueNS           int64 // of its first transfer, after the schedule's zero
	ArrivalNS       int64
	PrefillNS       int64 // of its prefill at FLOPS, or at model.PrefillFLOPS where that is 0; sped up, too
	Input, Cached   int64 // tokens of the prompt, and those that the prefill worker has
	Moved           int64 // tokens whose cache moves, the last ones; with pages, from the beginning of a page
	Bytes           int64 // that move, of all ranks, scaled
	Prefill, Decode int   // workers, from 0
}

// Schedule is what is replayed, and what was left out.
type Schedule struct {
	Options
	Requests  []DueRequest
	Transfers []Transfer // by the time at which they are due
	SpanNS    int64      // from the schedule's zero, which is From, until the last transfer is due
	Bytes     int64      // of all requests
	// Whole are the bytes, scaled, of the whole prompts of all requests from From to To, also of those of which nothing
	// moves: what Missing saves is Whole - Bytes.
	Whole int64

	Outside, Empty int           // requests outside of From and To, and those of which nothing moves
	Grid           time.Duration // of the trace's timestamps; 0: none
	Notes          []string      // what users must know of it, a sentence each

	geometry geometry
}

// Transfer is a request's cache, or a run of its layers, on its way.
type Transfer struct {
	Request int // index into Schedule.Requests
	Run     int // of layers, from 0
	DueNS   int64
}

// Load is the schedule as the transfers of ranks.
func (s *Schedule) Load() load.Schedule {
	due := make([]int64, len(s.Transfers))
	for i, t := range s.Transfers {
		due[i] = t.DueNS
	}
	return load.Schedule{Name: "replay", Mem: s.Mem, Op: s.Op, Due: due, Parts: s.Parts, Pool: s.Pool}
}
