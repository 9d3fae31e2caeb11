package load

import (
	"slices"

	"perigee/nixl"
)

// Lane numbers an agent of each rank. Lanes share no buffers and no connections,
// so what is posted on different lanes overlaps even if posting takes long.
// A message travels between equal lanes of two ranks.
type Lane int

// Files is the lane on which patterns read and write files, beside their messages.
const Files Lane = -1

// of is the lane on which a load that was given this one reaches a kind of memory. GPU memory has agents apart from
// those of host memory, since these need not work while a peer reaches their buffers.
func (l Lane) of(mem nixl.Mem) Lane {
	if mem == nixl.VRAM {
		return l + MaxLanes
	}
	return l
}

// GPU reports whether the lane is one for GPU memory.
func (l Lane) GPU() bool { return l >= MaxLanes }

// Given is the number that the user has given the lane.
func (l Lane) Given() Lane {
	if l.GPU() {
		return l - MaxLanes
	}
	return l
}

// Load is the traffic of all ranks. Its methods are pure functions: any rank may
// call them for any rank, and gets what every other rank gets.
type Load interface {
	// Label names the load in messages to the user.
	Label() string
	// Check validates the load for a world of a number of ranks. All other methods
	// require a load that passed.
	Check(ranks int) error
	// Digest appends all that decides about transfers to b: ranks whose digests differ hold different loads. It begins
	// with words for the user, which end at a byte 0 if there is more.
	Digest(b []byte) []byte
	// Lanes lists the lanes that any rank uses, in the order in which they open.
	Lanes() []Lane
	// Needs counts by rank what a lane must hold, where there are so many ranks.
	Needs(ranks int, lane Lane) []Needs
	// Files lists the files that a rank reads or writes on a lane.
	Files(rank int, lane Lane) []File
	// Posts appends to list what a rank posts on a lane in one run, in the order of posting.
	Posts(list []Post, rank int, lane Lane) []Post
	// Transfers describes each of Posts to the engine.
	Transfers(rank int, lane Lane) []Transfer
	// Messages lists what leaves and what reaches a rank's memory and files on a
	// lane in one run, whichever rank posts it.
	Messages(rank int, lane Lane) (sent, received []Message)
}

// Side says which of a lane's two buffers of one kind of memory is meant.
type Side uint8

// Bytes leave from the send side and arrive at the receive side.
const (
	Send Side = iota
	Recv
)

// Place is a buffer of a lane: one side of a kind of memory, or with nixl.FILE
// the file of that index in Load.Files.
type Place struct {
	Mem  nixl.Mem
	Side Side
	File int
}

// Needs counts the bytes that a lane of a rank must hold, by nixl.Mem.
type Needs struct{ Send, Recv [2]int64 }

// File is a file that a lane reads or writes. It is opened if it exists, and made,
// filled with noise, if not. A file that is made leaves nothing behind.
type File struct {
	For       string // what the user calls it, for messages
	Path      string
	InFolder  string // the name to make a file under if Path is a folder; empty if that is an error
	Made      string // the name to make a file under if Path does not exist
	Size      int64  // bytes of a file that is made
	From      int64  // where this lane's part of an existing file begins
	Existing  int64  // bytes that an existing file must have
	Write     bool
	Overwrite bool   // whether an existing file may be written
	Allow     string // what would permit Overwrite, for the hint
	Several   int    // how many files are wanted, if more than one: then Path must not be an existing file
	Direct    bool   // past the page cache
}

// Post is one transfer as readers of results see it.
type Post struct {
	Op    nixl.Op
	Peer  int // nixl.Self for a file
	Bytes int64
}

// Transfer is one transfer: pieces of a local place, and as many pieces of equal
// length of a place at the peer, or of a file.
type Transfer struct {
	Op            nixl.Op
	Peer          int // nixl.Self for a file
	Local, Remote Place
	LocalAt       []nixl.Desc
	RemoteAt      []nixl.Desc
	Notice        []byte // as nixl.Transfer has it
}

// Message is a run of known bytes at one end: where it lies, and which bytes of
// which stream belong there. Verification fills what is sent and compares what
// is received.
type Message struct {
	Sender, Receiver int // ranks; equal for files
	Place
	Pieces []nixl.Desc
	// Key distinguishes the stream of bytes from all others of the load. Equal keys at
	// the two ends mean equal bytes.
	Key []int
	// At is where each piece begins in the stream; nil means one after the other.
	At []int64
	// Original, if not nil, is the file part whose contents belong here, in place of a stream.
	Original *Origin
	// Block is the length of the units that the user thinks in, and First the number of the first
	// of them; Step is the distance to the next. 0 means that the message has no units.
	Block, First, Step int64
}

// Origin is a part of a file.
type Origin struct {
	Place
	Pieces []nixl.Desc
}

// Bytes is the length of the message.
func (m Message) Bytes() (n int64) {
	for _, p := range m.Pieces {
		n += p.Len
	}
	return n
}

// Roles are who does what in a load. All lists of ranks ascend.
type Roles struct {
	Ranks      []int   // that send, receive, or use files
	Initiators []int   // that post transfers to ranks
	Actors     []int   // that post anything
	Shares     []Share // of each of Actors
}

// Share lists the pieces that an actor posts in one run.
type Share struct {
	Lanes int // on which it posts something
	Posts int // on all of them
}

// RolesOf works out the roles in each of loads in a world of a number of ranks. It calls
// meet for each transfer between two ranks.
func RolesOf(loads []Load, ranks int, meet func(lane Lane, rank, peer int)) []Roles {
	roles := make([]Roles, len(loads))
	var posts []Post
	var all, initiators, actors []int // lists of one load, in memory for all
	var shares []Share
	met := make([]bool, ranks)
	for i, l := range loads {
		clear(met)
		all, initiators, actors, shares = all[:0], initiators[:0], actors[:0], shares[:0]
		lanes := l.Lanes()
		for rank := range ranks {
			var share Share
			toRanks := false
			for _, lane := range lanes {
				posts = l.Posts(posts[:0], rank, lane)
				if len(posts) == 0 {
					continue
				}
				share.Lanes++
				share.Posts += len(posts)
				for _, p := range posts {
					if p.Peer != nixl.Self {
						toRanks, met[p.Peer] = true, true
						meet(lane, rank, p.Peer)
					}
				}
			}
			if toRanks {
				initiators = append(initiators, rank)
			}
			if share.Lanes > 0 {
				actors, shares, met[rank] = append(actors, rank), append(shares, share), true
			}
		}
		for rank, does := range met {
			if does {
				all = append(all, rank)
			}
		}
		r := Roles{slices.Clone(all), slices.Clone(initiators), nil, slices.Clone(shares)}
		if r.Actors = r.Initiators; len(actors) != len(initiators) {
			r.Actors = slices.Clone(actors)
		}
		roles[i] = r
	}
	return roles
}
