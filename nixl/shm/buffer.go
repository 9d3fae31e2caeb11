package shm

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"perigee/nixl"
	"perigee/nixl/device"
)

// memfd is memory that other processes can map; without a descriptor it is empty. It is the device.Memory of this
// engine's host buffers.
type memfd struct {
	fd   int
	data []byte
}

var emptyMemfd = memfd{fd: -1, data: []byte{}}

func (m *memfd) Mem() nixl.Mem    { return nixl.DRAM }
func (m *memfd) Size() int64      { return int64(len(m.data)) }
func (m *memfd) Device() uint64   { return 0 }
func (m *memfd) Bytes() []byte    { return m.data }
func (m *memfd) Address() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m.data))) }

func (m *memfd) ReadAt(p []byte, off int64) (int, error)  { return device.CopyOut(m.data, p, off) }
func (m *memfd) WriteAt(p []byte, off int64) (int, error) { return device.CopyIn(m.data, p, off) }

func (m *memfd) Free() error {
	if m.fd < 0 {
		return nil
	}
	err := errors.Join(unmap(m.data), unix.Close(m.fd))
	m.fd, m.data = -1, nil
	return err
}

// buffer is a memfd, or a file, of which peers see nothing.
type buffer struct {
	device.Memory
	id    int
	entry cardBuffer
}

// ID implements nixl.Buffer.
func (b *buffer) ID() int { return b.id }

// file is the file that the buffer is, or nil.
func (b *buffer) file() *device.File {
	f, _ := b.Memory.(*device.File)
	return f
}
