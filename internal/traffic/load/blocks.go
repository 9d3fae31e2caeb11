package load

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/nixl"
)

// Blocks is batches of equal blocks: each of some ranks posts, from one or several
// lanes, requests of many blocks to its peers, or to its own files. In each lane
// every pair of an initiator and a peer has a region at both ends, large enough
// for the largest batch.
type Blocks struct {
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
	Store   Store
	Shuffle *uint64 // seed of a random order of the blocks at the remote end; nil: as at the local one

	block, batch int64 // of one case; 0 for the largest
}

// Store says where the bytes of FILE go.
type Store struct {
	Path      string // a folder, a file that is there, or one that is to be made
	Count     int    // of each lane; its blocks go to them in turn
	Direct    bool
	Overwrite bool // allow to write to a file that is there
}

// The most of each that makes sense.
const (
	mostFiles = 1 << 10
	mostBatch = 1 << 24
)

// Case is the same load with smaller blocks and batches, in the same memory. Blocks or batches that are larger than
// those of the load, or below 1, are an error.
func (b Blocks) Case(block, batch int64) (Blocks, error) {
	switch {
	case block < 1 || block > b.Block:
		return b, fault.New(fault.Script, "blocks of %d bytes: the lanes were made for 1 to %d", block, b.Block)
	case batch < 1 || batch > b.Batch:
		return b, fault.New(fault.Script, "batches of %d blocks: the lanes were made for 1 to %d", batch, b.Batch)
	}
	b.block, b.batch = block, batch
	return b, nil
}

// Size is how long the blocks are, and how many are in a batch.
func (b Blocks) Size() (block, batch int64) {
	if b.block == 0 {
		return b.Block, b.Batch
	}
	return b.block, b.batch
}

// Label says what is moved.
func (b Blocks) Label() string {
	block, batch := b.Size()
	return fmt.Sprintf("%d blocks of %d bytes", batch, block)
}

// Digest covers all that decides about transfers.
func (b Blocks) Digest(to []byte) []byte {
	shuffle := "in order"
	if b.Shuffle != nil {
		shuffle = fmt.Sprint("shuffled by ", *b.Shuffle)
	}
	b.Shuffle = nil // an address, which differs between ranks
	return fmt.Appendf(to, "blocks %+v, %s", b, shuffle)
}

// Check validates the load. The result is the same on every rank. Sizes and peers that make no sense are errors of the
// kinds Input and Script.
func (b Blocks) Check(ranks int) error {
	switch {
	case len(b.Peers) != ranks:
		return fault.New(fault.Script, "lanes: peers of %d ranks in a world of %d", len(b.Peers), ranks)
	case b.Threads < 1 || b.Threads > MaxLanes:
		return fault.New(fault.Input, "%d threads: want 1 to %d", b.Threads, MaxLanes)
	case b.Block < 1:
		return fault.New(fault.Input, "blocks of %d bytes: want at least 1", b.Block)
	case b.Batch < 1 || b.Batch > mostBatch:
		return fault.New(fault.Input, "batches of %d blocks: want 1 to %d", b.Batch, mostBatch)
	case b.Batch > math.MaxInt64/2/b.Block:
		return fault.New(fault.Input, "%d blocks of %d bytes are more than any machine has", b.Batch, b.Block)
	case b.Local == nixl.FILE:
		return fault.New(fault.Input, "files are at the remote end of a transfer; the local memory is dram or vram")
	case b.Remote == nixl.FILE && (b.Store.Count < 1 || b.Store.Count > mostFiles):
		return fault.New(fault.Input, "%d files: want 1 to %d", b.Store.Count, mostFiles)
	case b.Remote == nixl.FILE && b.Store.Path == "":
		return fault.New(fault.Input, "files need a path")
	}
	for rank, peers := range b.Peers {
		if err := b.checkPeers(rank, peers, ranks); err != nil {
			return err
		}
	}
	return b.checkLimit(ranks)
}

func (b Blocks) checkPeers(rank int, peers []int, ranks int) error {
	for i, p := range peers {
		switch {
		case p < 0 || p >= ranks:
			return fault.New(fault.Script, "lanes: rank %d has the peer %d in a world of %d", rank, p, ranks)
		case slices.Contains(peers[:i], p):
			return fault.New(fault.Script, "lanes: rank %d has the peer %d twice", rank, p)
		case b.Remote == nixl.FILE && p != rank:
			return fault.New(fault.Script, "lanes: rank %d has the peer %d, but files are its own", rank, p)
		}
	}
	return nil
}

// checkLimit compares what the rank with the largest buffers needs with the limit.
func (b Blocks) checkLimit(ranks int) error {
	if b.Limit == 0 {
		return nil
	}
	for r := range ranks {
		most := max(len(b.Peers[r]), len(b.reachedBy(r)))
		if regions := int64(most * b.Threads); regions > 0 && b.Block*b.Batch > b.Limit/regions {
			return fault.New(fault.Input, "%d blocks of %d bytes, %d at a time (%d threads, up to %d peers of a rank), need %d bytes, more than the total buffer size of %d",
				b.Batch, b.Block, regions, b.Threads, most, satMultiply(b.Block*b.Batch, regions), b.Limit).
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

// Regions of buffers begin at multiples of regionAlign, so that direct I/O finds aligned memory.
const regionAlign = 4096

func roundUp(n int64) int64 { return (n + regionAlign - 1) / regionAlign * regionAlign }

// region is how many bytes one lane has for one peer.
func (b Blocks) region() int64 { return roundUp(b.Block * b.Batch) }

// share is how many bytes of each of its files a lane uses. Blocks go to them in turn.
func (b Blocks) share() int64 {
	files := int64(b.Store.Count)
	return roundUp((b.Batch + files - 1) / files * b.Block)
}

// reachedBy lists the ranks that reach a rank's memory, ascending.
func (b Blocks) reachedBy(rank int) (list []int) {
	if b.Remote == nixl.FILE {
		return nil
	}
	for r, peers := range b.Peers {
		if slices.Contains(peers, rank) {
			list = append(list, r)
		}
	}
	return list
}

// GPU reports whether memory of a GPU takes part.
func (b Blocks) GPU() bool { return b.Local == nixl.VRAM || b.Remote == nixl.VRAM }

// Lanes are the threads.
func (b Blocks) Lanes() []Lane {
	list := make([]Lane, b.Threads)
	for i := range list {
		list[i] = Lane(i)
	}
	return list
}

// Needs is a region for each peer and for each initiator.
func (b Blocks) Needs(ranks int, _ Lane) []Needs {
	list := make([]Needs, ranks)
	local, remote := sides(b.Op, b.Local, b.Remote)
	add := func(rank int, p Place, regions int) {
		to := &list[rank].Send[p.Mem]
		if p.Side == Recv {
			to = &list[rank].Recv[p.Mem]
		}
		*to += satMultiply(b.region(), int64(regions))
	}
	for rank := range list {
		add(rank, local, len(b.Peers[rank]))
		if b.Remote != nixl.FILE {
			add(rank, remote, len(b.reachedBy(rank)))
		}
	}
	return list
}

// Files are there where initiators reach no ranks. Of a file that exists each lane of each initiator has its own part.
func (b Blocks) Files(rank int, lane Lane) []File {
	if b.Remote != nixl.FILE || len(b.Peers[rank]) == 0 {
		return nil
	}
	var initiators []int
	for r, peers := range b.Peers {
		if len(peers) > 0 {
			initiators = append(initiators, r)
		}
	}
	lanes := len(initiators) * b.Threads
	number := slices.Index(initiators, rank)*b.Threads + int(lane)
	list := make([]File, b.Store.Count)
	for k := range list {
		suffix := fmt.Sprintf("-%d-%d-%d", rank, lane, k)
		made := b.Store.Path + suffix
		if b.Store.Count*lanes == 1 {
			made = b.Store.Path
		}
		list[k] = File{
			For: "files", Path: b.Store.Path, InFolder: "perigee" + suffix, Made: strings.TrimSuffix(made, "/"),
			Size: b.share(), From: int64(number) * b.share(), Existing: satMultiply(b.share(), int64(lanes-1)) +
				b.Batch*b.Block,
			Write: b.Op == nixl.Write, Overwrite: b.Store.Overwrite, Direct: b.Store.Direct, Several: b.Store.Count,
			Allow: "name a file that does not exist, or a folder; or allow it with --overwrite",
		}
	}
	return list
}

// Posts are one request to each peer, or to each file.
func (b Blocks) Posts(list []Post, rank int, _ Lane) []Post {
	block, batch := b.Size()
	if b.Remote != nixl.FILE {
		for _, peer := range b.Peers[rank] {
			list = append(list, Post{b.Op, peer, block * batch})
		}
		return list
	}
	for f := range b.usedFiles(rank) {
		list = append(list, Post{b.Op, nixl.Self, block * b.blocksIn(f)})
	}
	return list
}

// usedFiles is how many files of a rank's lane have a block.
func (b Blocks) usedFiles(rank int) int64 {
	if len(b.Peers[rank]) == 0 {
		return 0
	}
	_, batch := b.Size()
	return min(int64(b.Store.Count), batch)
}

// blocksIn is how many blocks go to a file.
func (b Blocks) blocksIn(f int64) int64 {
	_, batch := b.Size()
	files := int64(b.Store.Count)
	return (batch - f + files - 1) / files
}

// Transfers have one descriptor for each block.
func (b Blocks) Transfers(rank int, _ Lane) (list []Transfer) {
	block, batch := b.Size()
	local, remote := sides(b.Op, b.Local, b.Remote)
	if b.Remote == nixl.FILE {
		for f := range b.usedFiles(rank) {
			memory, file := b.inFile(f)
			list = append(list, Transfer{
				Op: b.Op, Peer: nixl.Self, Local: local, Remote: Place{Mem: nixl.FILE, File: int(f)}, LocalAt: memory,
				RemoteAt: file,
			})
		}
		return list
	}
	for k, peer := range b.Peers[rank] {
		slot := slices.Index(b.reachedBy(peer), rank)
		list = append(list, Transfer{
			Op: b.Op, Peer: peer, Local: local, Remote: remote,
			LocalAt:  run(int64(k)*b.region(), block, batch),
			RemoteAt: b.remote(run(int64(slot)*b.region(), block, batch)),
		})
	}
	return list
}

// remote brings blocks into the order that they have at the remote end.
func (b Blocks) remote(blocks []nixl.Desc) []nixl.Desc {
	if b.Shuffle != nil {
		nixl.Shuffle(blocks, *b.Shuffle)
	}
	return blocks
}

// run lists consecutive blocks.
func run(from, block, count int64) []nixl.Desc {
	list := make([]nixl.Desc, count)
	for i := range list {
		list[i] = nixl.Desc{Off: from + int64(i)*block, Len: block}
	}
	return list
}

// inFile lists the blocks that go to a file, where they lie in memory and in the file.
func (b Blocks) inFile(f int64) (memory, file []nixl.Desc) {
	block, _ := b.Size()
	for k := range b.blocksIn(f) {
		memory = append(memory, nixl.Desc{Off: (f + k*int64(b.Store.Count)) * block, Len: block})
		file = append(file, nixl.Desc{Off: k * block, Len: block})
	}
	return memory, b.remote(file)
}

// Messages are one batch between an initiator and a peer, or the part of it in one file.
func (b Blocks) Messages(rank int, lane Lane) (sent, received []Message) {
	if b.Remote == nixl.FILE {
		return b.fileMessages(rank, lane)
	}
	block, batch := b.Size()
	local, remote := sides(b.Op, b.Local, b.Remote)
	var near, far []Message
	for k, peer := range b.Peers[rank] {
		near = append(near, b.message(rank, peer, lane, local, run(int64(k)*b.region(), block, batch)))
	}
	for slot, initiator := range b.reachedBy(rank) {
		at := b.remote(run(int64(slot)*b.region(), block, batch))
		far = append(far, b.message(initiator, rank, lane, remote, at))
	}
	if b.Op == nixl.Read {
		return far, near
	}
	return near, far
}

func (b Blocks) message(initiator, peer int, lane Lane, at Place, pieces []nixl.Desc) Message {
	m := Message{
		Sender: initiator, Receiver: peer, Place: at, Pieces: pieces,
		Key: []int{initiator, peer, int(lane)}, Block: pieces[0].Len, Step: 1,
	}
	if b.Op == nixl.Read {
		m.Sender, m.Receiver = peer, initiator
	}
	return m
}

// fileMessages compares what is read with the file as it is.
func (b Blocks) fileMessages(rank int, lane Lane) (sent, received []Message) {
	local, _ := sides(b.Op, b.Local, nixl.FILE)
	for f := range b.usedFiles(rank) {
		at, pieces := b.inFile(f)
		memory := b.message(rank, rank, lane, local, at)
		memory.First, memory.Step = f, int64(b.Store.Count)
		memory.Key[2] = int(lane)<<10 | int(f)
		inFile := memory
		inFile.Place, inFile.Pieces = Place{Mem: nixl.FILE, File: int(f)}, pieces
		if b.Op == nixl.Write {
			sent, received = append(sent, memory), append(received, inFile)
			continue
		}
		memory.Original = &Origin{inFile.Place, pieces}
		received = append(received, memory)
	}
	return sent, received
}
