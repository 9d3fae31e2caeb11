package shm

import (
	"errors"

	"golang.org/x/sys/unix"

	"perigee/nixl"
	"perigee/nixl/device"
)

// buffer is a mapped memfd, or nothing at all where size is 0, or a file, of which peers see nothing.
type buffer struct {
	id    int
	fd    int
	data  []byte
	file  *device.File
	entry cardBuffer
}

func (b *buffer) ID() int       { return b.id }
func (b *buffer) Bytes() []byte { return b.data }

func (b *buffer) Mem() nixl.Mem {
	if b.file != nil {
		return nixl.FILE
	}
	return nixl.DRAM
}

func (b *buffer) Size() int64 {
	if b.file != nil {
		return b.file.Size()
	}
	return b.entry.size
}

func (b *buffer) ReadAt(p []byte, off int64) (int, error) {
	if b.file != nil {
		return b.file.ReadAt(p, off)
	}
	if err := nixl.CheckAccess(off, len(p), int64(len(b.data))); err != nil {
		return 0, err
	}
	return copy(p, b.data[off:]), nil
}

func (b *buffer) WriteAt(p []byte, off int64) (int, error) {
	if b.file != nil {
		return b.file.WriteAt(p, off)
	}
	if err := nixl.CheckAccess(off, len(p), int64(len(b.data))); err != nil {
		return 0, err
	}
	return copy(b.data[off:], p), nil
}

func (b *buffer) free() error {
	if b.file != nil {
		return b.file.Close()
	}
	if b.fd < 0 {
		return nil
	}
	err := errors.Join(unmap(b.data), unix.Close(b.fd))
	b.fd, b.data = -1, nil
	return err
}
