package nixl

import (
	"errors"
	"fmt"
)

// MaxNotice is the largest message that Agent.Notify and Transfer.Notice take, in bytes.
const MaxNotice = 16 << 10

// Notice is a short message from a peer.
type Notice struct {
	Peer int // the number under which the sender was added last
	Data []byte
}

// List is a prepared list of descriptors of one buffer: the buffer was looked up and every descriptor
// was checked when it was made. Pick refers to its descriptors by their position.
type List interface {
	Len() int
	// Prep is how long the preparation took in nanoseconds, without the checks.
	Prep() int64
	// Release frees the list. Batches made from it stay usable. A second call does nothing.
	Release() error
}

// Pick is a transfer between descriptors picked out of two prepared lists. LocalIndex[k] and
// RemoteIndex[k] are positions in Local and Remote whose descriptors have equal length; a position may
// be picked any number of times.
type Pick struct {
	Op          Op
	Local       List // of Self
	Remote      List // its peer is the peer of the transfer
	LocalIndex  []int32
	RemoteIndex []int32
	Notice      []byte // as Transfer.Notice
}

// CheckNotice says what is wrong with a notice.
func CheckNotice(notice []byte) error {
	if len(notice) > MaxNotice {
		return fmt.Errorf("notice of %d bytes: want at most %d", len(notice), MaxNotice)
	}
	return nil
}

// CheckPick returns the bytes of a pick, given the lengths of the descriptors in both lists, or an
// error that says what is wrong with its positions or its notice.
func CheckPick(p Pick, localLengths, remoteLengths []int64) (bytes int64, err error) {
	if err := CheckNotice(p.Notice); err != nil {
		return 0, err
	}
	local, remote := p.LocalIndex, p.RemoteIndex
	if len(local) != len(remote) {
		return 0, fmt.Errorf("%d local positions but %d remote ones", len(local), len(remote))
	}
	if len(local) == 0 {
		return 0, errors.New("no positions")
	}
	for k, i := range local {
		j := remote[k]
		if i < 0 || int(i) >= len(localLengths) {
			return 0, fmt.Errorf("local position %d: the list has %d descriptors", i, len(localLengths))
		}
		if j < 0 || int(j) >= len(remoteLengths) {
			return 0, fmt.Errorf("remote position %d: the list has %d descriptors", j, len(remoteLengths))
		}
		if localLengths[i] != remoteLengths[j] {
			return 0, fmt.Errorf("local descriptor %d has %d bytes but remote descriptor %d has %d",
				i, localLengths[i], j, remoteLengths[j])
		}
		bytes += localLengths[i]
	}
	return bytes, nil
}

// CheckDescs says what is wrong with a list of descriptors of a buffer of size bytes.
func CheckDescs(descs []Desc, size int64) error {
	if len(descs) == 0 {
		return errors.New("no descriptors")
	}
	for k, d := range descs {
		if err := d.within(size); err != nil {
			return fmt.Errorf("descriptor %d: %w", k, err)
		}
	}
	return nil
}
