package nixl

import "fmt"

// Check says what is wrong with a transfer between a local buffer of
// localSize bytes and a remote one of remoteSize bytes: lists of different
// length, pairs of different length, a descriptor that leaves its buffer.
func (t Transfer) Check(localSize, remoteSize int64) error {
	if len(t.Local) != len(t.Remote) {
		return fmt.Errorf("transfer with peer %d: %d local descriptors but %d remote ones", t.Peer, len(t.Local), len(t.Remote))
	}
	if len(t.Local) == 0 {
		return fmt.Errorf("transfer with peer %d: no descriptors", t.Peer)
	}
	for k, l := range t.Local {
		r := t.Remote[k]
		if l.Len != r.Len {
			return fmt.Errorf("transfer with peer %d, descriptor %d: %d local bytes but %d remote ones", t.Peer, k, l.Len, r.Len)
		}
		if err := l.within(localSize); err != nil {
			return fmt.Errorf("transfer with peer %d, local descriptor %d in buffer %d: %w", t.Peer, k, t.LocalBuffer, err)
		}
		if err := r.within(remoteSize); err != nil {
			return fmt.Errorf("transfer with peer %d, remote descriptor %d in buffer %d: %w", t.Peer, k, t.RemoteBuffer, err)
		}
	}
	return nil
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
