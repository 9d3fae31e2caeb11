// Package lanes measures block transfers: each of some ranks posts, from one or several threads,
// requests of many equal blocks to its peers, or to files of its own.
//
// A lane is one thread's way: an agent with buffers of its own at the initiator, and its
// counterpart at each peer. Lanes share nothing, so threads really post in parallel. All
// functions that take part in a measurement are called by all ranks in the same order.
package lanes

import (
	"math"
	"slices"

	"perigee/internal/fault"
	"perigee/nixl"
)

// Spec says which lanes there are. It is the same at all ranks.
type Spec struct {
	// Peers lists, for each rank, the ranks with which it initiates transfers; empty for one that does not.
	// With Remote FILE each list is empty or the rank itself.
	Peers   [][]int
	Threads int // lanes of each initiator
	Op      nixl.Op
	Local   nixl.Mem // at the initiator: DRAM or VRAM
	Remote  nixl.Mem // at the peer: DRAM or VRAM, or FILE
	Block   int64    // the largest block, in bytes
	Batch   int64    // the most blocks that one lane exchanges with one peer at a time
	Limit   int64    // the most bytes of buffers in a rank; 0 for none
	Files   Files
	GPU     int    // CUDA ordinal for VRAM
	Backend string // for files, as in nixl.AgentConfig
	API     string // likewise
}

// Files says where the bytes of FILE go.
type Files struct {
	Path      string // a folder, a file that is there, or one that is to be made
	Count     int    // of each lane; its blocks go to them in turn
	Direct    bool
	Overwrite bool // allow to write to a file that is there
}

// The most of each that makes sense.
const (
	mostThreads = 1 << 10
	mostFiles   = 1 << 10
	mostBatch   = 1 << 24
)

// check refuses what cannot be, at all ranks alike.
func (s Spec) check(ranks int) error {
	switch {
	case len(s.Peers) != ranks:
		return fault.New(fault.Script, "lanes: peers of %d ranks in a world of %d", len(s.Peers), ranks)
	case s.Threads < 1 || s.Threads > mostThreads:
		return fault.New(fault.Input, "%d threads: want 1 to %d", s.Threads, mostThreads)
	case s.Block < 1:
		return fault.New(fault.Input, "blocks of %d bytes: want at least 1", s.Block)
	case s.Batch < 1 || s.Batch > mostBatch:
		return fault.New(fault.Input, "batches of %d blocks: want 1 to %d", s.Batch, mostBatch)
	case s.Batch > math.MaxInt64/2/s.Block:
		return fault.New(fault.Input, "%d blocks of %d bytes are more than any machine has", s.Batch, s.Block)
	case s.Local == nixl.FILE:
		return fault.New(fault.Input, "files are at the remote end of a transfer; the local memory is dram or vram")
	case s.Remote == nixl.FILE && (s.Files.Count < 1 || s.Files.Count > mostFiles):
		return fault.New(fault.Input, "%d files: want 1 to %d", s.Files.Count, mostFiles)
	case s.Remote == nixl.FILE && s.Files.Path == "":
		return fault.New(fault.Input, "files need a path")
	}
	for rank, peers := range s.Peers {
		if err := s.checkPeers(rank, peers, ranks); err != nil {
			return err
		}
	}
	return s.checkLimit(ranks)
}

func (s Spec) checkPeers(rank int, peers []int, ranks int) error {
	for i, p := range peers {
		switch {
		case p < 0 || p >= ranks:
			return fault.New(fault.Script, "lanes: rank %d has the peer %d in a world of %d", rank, p, ranks)
		case slices.Contains(peers[:i], p):
			return fault.New(fault.Script, "lanes: rank %d has the peer %d twice", rank, p)
		case s.Remote == nixl.FILE && p != rank:
			return fault.New(fault.Script, "lanes: rank %d has the peer %d, but files are its own", rank, p)
		}
	}
	return nil
}

// checkLimit compares what the rank with the largest buffers needs with the limit.
func (s Spec) checkLimit(ranks int) error {
	if s.Limit == 0 {
		return nil
	}
	for r := range ranks {
		most := max(s.localRegions(r), s.remoteRegions(r))
		if regions := int64(most * s.Threads); regions > 0 && s.Block*s.Batch > s.Limit/regions {
			return fault.New(fault.Input, "%d blocks of %d bytes, %d at a time (%d threads, up to %d peers of a rank), need %d bytes, more than the total buffer size of %d",
				s.Batch, s.Block, regions, s.Threads, most, satMultiply(s.Block*s.Batch, regions), s.Limit).
				WithHint("smaller blocks or batches, fewer threads, or a larger --total_buffer_size")
		}
	}
	return nil
}

func satMultiply(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// regionAlign is what regions of buffers begin at, so that direct I/O finds aligned memory.
const regionAlign = 4096

// region is how many bytes one lane has for one peer.
func (s Spec) region() int64 { return roundUp(s.Block * s.Batch) }

func roundUp(n int64) int64 { return (n + regionAlign - 1) / regionAlign * regionAlign }

// share is how many bytes of each of its files a lane uses. Blocks go to them in turn.
func (s Spec) share() int64 {
	files := int64(s.Files.Count)
	return roundUp((s.Batch + files - 1) / files * s.Block)
}

func (s Spec) localRegions(rank int) int { return len(s.Peers[rank]) }

// remoteRegions is how many initiators reach a rank's memory.
func (s Spec) remoteRegions(rank int) int {
	if s.Remote == nixl.FILE {
		return 0
	}
	return len(s.initiatorsOf(rank))
}

// initiatorsOf lists the ranks that have this one as a peer, ascending.
func (s Spec) initiatorsOf(rank int) (list []int) {
	for r, peers := range s.Peers {
		if slices.Contains(peers, rank) {
			list = append(list, r)
		}
	}
	return list
}

// initiators lists the ranks that post transfers, ascending.
func (s Spec) initiators() (list []int) {
	for r, peers := range s.Peers {
		if len(peers) > 0 {
			list = append(list, r)
		}
	}
	return list
}

// need is how many bytes of host memory the lanes take at a rank.
func (s Spec) need(rank int) int64 {
	regions := 0
	if s.Local == nixl.DRAM {
		regions += s.localRegions(rank)
	}
	if s.Remote == nixl.DRAM {
		regions += s.remoteRegions(rank)
	}
	return satMultiply(s.region(), int64(regions*s.Threads))
}

// transfers lists what a lane of a rank posts for batches of equal blocks. memory is the ID of the local
// buffer; the remote one is a peer's, or is made of the IDs of files.
func (s Spec) transfers(rank int, block, batch int64, local, remote int, files []fileRegion) []nixl.Transfer {
	if s.Remote == nixl.FILE {
		return s.fileTransfers(block, batch, local, files)
	}
	list := make([]nixl.Transfer, len(s.Peers[rank]))
	for k, peer := range s.Peers[rank] {
		slot := slices.Index(s.initiatorsOf(peer), rank)
		list[k] = nixl.Transfer{
			Op: s.Op, Peer: peer, LocalBuffer: local, RemoteBuffer: remote,
			Local: blocks(int64(k)*s.region(), block, batch), Remote: blocks(int64(slot)*s.region(), block, batch),
		}
	}
	return list
}

// blocks lists consecutive blocks.
func blocks(from, block, count int64) []nixl.Desc {
	list := make([]nixl.Desc, count)
	for i := range list {
		list[i] = nixl.Desc{Off: from + int64(i)*block, Len: block}
	}
	return list
}

// fileRegion is a lane's part of a file.
type fileRegion struct {
	buffer int // its ID
	from   int64
}

// fileTransfers deals the blocks out to the files in turn.
func (s Spec) fileTransfers(block, batch int64, local int, files []fileRegion) []nixl.Transfer {
	list := make([]nixl.Transfer, min(int64(len(files)), batch))
	for f := range list {
		t := nixl.Transfer{Op: s.Op, Peer: nixl.Self, LocalBuffer: local, RemoteBuffer: files[f].buffer}
		for b, k := int64(f), int64(0); b < batch; b, k = b+int64(len(files)), k+1 {
			t.Local = append(t.Local, nixl.Desc{Off: b * block, Len: block})
			t.Remote = append(t.Remote, nixl.Desc{Off: files[f].from + k*block, Len: block})
		}
		list[f] = t
	}
	return list
}
