package nixl

import "fmt"

// Check says what is wrong with a transfer between a local buffer of
// localSize bytes and a remote one of remoteSize bytes: lists of different
// length, pairs of different length, a descriptor that leaves its buffer.
func (t Transfer) Check(localSize, remoteSize int64) error {
	with := PeerName(t.Peer)
	if len(t.Local) != len(t.Remote) {
		return fmt.Errorf("transfer with %s: %d local descriptors but %d remote ones", with, len(t.Local),
			len(t.Remote))
	}
	if len(t.Local) == 0 {
		return fmt.Errorf("transfer with %s: no descriptors", with)
	}
	if err := CheckNotice(t.Notice); err != nil {
		return fmt.Errorf("transfer with %s: %w", with, err)
	}
	for k, l := range t.Local {
		r := t.Remote[k]
		if l.Len != r.Len {
			return fmt.Errorf("transfer with %s, descriptor %d: %d local bytes but %d remote ones", with, k, l.Len,
				r.Len)
		}
		if err := l.within(localSize); err != nil {
			return fmt.Errorf("transfer with %s, local descriptor %d in buffer %d: %w", with, k, t.LocalBuffer, err)
		}
		if err := r.within(remoteSize); err != nil {
			return fmt.Errorf("transfer with %s, remote descriptor %d in buffer %d: %w", with, k, t.RemoteBuffer, err)
		}
	}
	return nil
}

// PeerName says in a message who is at the other end.
func PeerName(peer int) string {
	if peer == Self {
		return "a file"
	}
	return fmt.Sprintf("peer %d", peer)
}

// Usable returns an error if a batch of an engine must not be started.
func Usable(engine string, broken error, released, posted bool) error {
	switch {
	case broken != nil:
		return fmt.Errorf("%s: the batch cannot run again: %w", engine, broken)
	case released:
		return fmt.Errorf("%s: the batch was released", engine)
	case posted:
		return fmt.Errorf("%s: the batch was posted and not waited for", engine)
	}
	return nil
}

// Owner says in a message whose memory a list is of.
func Owner(number int) string {
	if number == Self {
		return "own memory"
	}
	return PeerName(number)
}

func (d Desc) within(size int64) error {
	if d.Len <= 0 {
		return fmt.Errorf("length %d: want at least 1", d.Len)
	}
	// Written so that no sum can overflow.
	if d.Off < 0 || d.Len > size || d.Off > size-d.Len {
		return fmt.Errorf("%d bytes at offset %d do not fit into %d bytes", d.Len, d.Off, size)
	}
	return nil
}

// CheckAccess says what is wrong with an access to n bytes at offset off of a
// buffer of size bytes.
func CheckAccess(off int64, n int, size int64) error {
	if off < 0 || int64(n) > size || off > size-int64(n) {
		return fmt.Errorf("access to %d bytes at offset %d of a buffer of %d bytes", n, off, size)
	}
	return nil
}
