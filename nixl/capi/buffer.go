//go:build cgo

package capi

// #include "papi.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/nixl/internal/pages"
)

// buffer is registered memory of the host or of a GPU. An empty one has neither memory nor
// registration.
type buffer struct {
	agent   *agent
	id      int
	mem     nixl.Mem
	size    int64
	data    []byte       // DRAM only
	mapping []byte       // that data is part of
	gpu     *device.CUDA // VRAM only
	address uintptr
	file    *device.File   // FILE only
	list    unsafe.Pointer // the library's registration with the backend for peers
	listed  unsafe.Pointer // and with that for files
}

func (a *agent) Alloc(mem nixl.Mem, size int64) (nixl.Buffer, error) {
	switch {
	case a.closed:
		return nil, errClosed
	case size < 0:
		return nil, fmt.Errorf("nixl: a buffer of %d bytes", size)
	case mem != nixl.DRAM && mem != nixl.VRAM:
		return nil, fault.New(fault.Resource, "the nixl engine has no %s buffers", mem)
	case len(a.buffers) == maxBuffers:
		return nil, fault.New(fault.Resource, "nixl: more than %d buffers", maxBuffers)
	}
	b := &buffer{agent: a, id: len(a.buffers), mem: mem, size: size}
	if err := b.allocate(); err != nil {
		return nil, err
	}
	if err := b.register(); err != nil {
		return nil, errors.Join(err, b.free())
	}
	a.buffers = append(a.buffers, b)
	return b, nil
}

func (b *buffer) allocate() error {
	if b.mem == nixl.VRAM {
		// Also for an empty buffer: a machine without a GPU has no VRAM at all.
		if err := b.agent.openGPU(); err != nil {
			return err
		}
		b.gpu = b.agent.gpu
	}
	if b.size == 0 {
		if b.mem == nixl.DRAM {
			b.data = []byte{}
		}
		return nil
	}
	var err error
	if b.mem == nixl.VRAM {
		b.address, err = b.gpu.Alloc(b.size)
		return err
	}
	if b.data, b.mapping, err = anonymous(b.size); err != nil {
		return err
	}
	b.address = uintptr(unsafe.Pointer(&b.data[0]))
	return nil
}

// hugePage is the size of a transparent huge page on the usual processors.
const hugePage = 2 << 20

// anonymous returns host memory whose pages are present, and the mapping of which
// it is a part. It begins on the boundary of a huge page and has room for whole
// ones, so that buffers smaller than one, too, can lie in one.
func anonymous(size int64) (data, mapping []byte, err error) {
	if err := pages.Room(size); err != nil {
		return nil, nil, err
	}
	room := (size+hugePage-1)/hugePage*hugePage + hugePage
	mapping, err = unix.Mmap(-1, 0, int(room), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, fault.New(fault.Resource, "no memory for a buffer of %s: %w", pages.Human(size), err).
			WithHint("use smaller matrices or fewer ranks on this host")
	}
	// Only a wish, and the kernel's to grant. Where it does, cross-memory attach is up to three times
	// as fast: it pins pages one by one.
	_ = unix.Madvise(mapping, unix.MADV_HUGEPAGE)
	skip := -uintptr(unsafe.Pointer(&mapping[0])) % hugePage
	data = mapping[skip:][:size:size]
	if err := pages.Populate(data); err != nil {
		return nil, nil, errors.Join(err, unix.Munmap(mapping))
	}
	return data, mapping, nil
}

func (a *agent) openGPU() error {
	if a.gpu != nil {
		return nil
	}
	gpu, err := device.OpenCUDA(a.cfg.GPU)
	if err != nil {
		return err
	}
	a.gpu = gpu
	a.setHook(gpu.Hook())
	return nil
}

// dev is the library's number of the device that has the memory, or of the file.
func (b *buffer) dev() C.uint64_t {
	switch b.mem {
	case nixl.VRAM:
		return C.uint64_t(b.agent.cfg.GPU)
	case nixl.FILE:
		return C.uint64_t(b.file.FD())
	}
	return 0
}

// kind is the library's number of the buffer's kind of memory.
func (b *buffer) kind() C.int { return kind(b.mem) }

func kind(mem nixl.Mem) C.int {
	switch mem {
	case nixl.VRAM:
		return C.PAPI_VRAM
	case nixl.FILE:
		return C.PAPI_FILE
	}
	return C.PAPI_DRAM
}

// register makes the buffer known to the backend for peers and, if there is one, to that for files.
func (b *buffer) register() error {
	if b.size == 0 {
		return nil
	}
	if b.mem != nixl.FILE {
		status := C.papi_register(b.agent.c, false, b.kind(), C.uintptr_t(b.address), C.size_t(b.size), b.dev(), &b.list)
		if status < 0 {
			return fail(status, "registering %s of %s", pages.Human(b.size), b.mem)
		}
	}
	if b.agent.c.file_args == nil {
		return nil
	}
	return b.registerForFiles()
}

func (b *buffer) deregister() error {
	var errs []error
	for _, l := range []struct {
		list  *unsafe.Pointer
		files C.bool
	}{{&b.listed, true}, {&b.list, false}} {
		list := *l.list
		*l.list = nil
		if list == nil {
			continue
		}
		if status := C.papi_deregister(b.agent.c, l.files, list); status < 0 {
			errs = append(errs, fail(status, "deregistering buffer %d", b.id))
		}
	}
	return errors.Join(errs...)
}

func (b *buffer) free() error {
	defer func() { b.data, b.mapping, b.address, b.size = nil, nil, 0, 0 }()
	switch {
	case b.mem == nixl.FILE:
		return b.file.Close()
	case b.address == 0:
		return nil
	case b.mem == nixl.VRAM:
		return b.gpu.Free(b.address)
	}
	return unix.Munmap(b.mapping)
}

func (b *buffer) entry() cardBuffer {
	if b.mem == nixl.FILE {
		return cardBuffer{} // for peers it is empty: they cannot reach it
	}
	return cardBuffer{mem: b.mem, device: uint32(b.dev()), address: uint64(b.address), size: b.size}
}

func (b *buffer) ID() int       { return b.id }
func (b *buffer) Mem() nixl.Mem { return b.mem }
func (b *buffer) Size() int64   { return b.size }
func (b *buffer) Bytes() []byte { return b.data }

func (b *buffer) ReadAt(p []byte, off int64) (int, error) {
	if err := nixl.CheckAccess(off, len(p), b.size); err != nil {
		return 0, err
	}
	switch b.mem {
	case nixl.DRAM:
		return copy(p, b.data[off:]), nil
	case nixl.FILE:
		return b.file.ReadAt(p, off)
	}
	if err := b.gpu.CopyOut(p, b.address+uintptr(off)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (b *buffer) WriteAt(p []byte, off int64) (int, error) {
	if err := nixl.CheckAccess(off, len(p), b.size); err != nil {
		return 0, err
	}
	switch b.mem {
	case nixl.DRAM:
		return copy(b.data[off:], p), nil
	case nixl.FILE:
		return b.file.WriteAt(p, off)
	}
	if err := b.gpu.CopyIn(b.address+uintptr(off), p); err != nil {
		return 0, err
	}
	return len(p), nil
}
