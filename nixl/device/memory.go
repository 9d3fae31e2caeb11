package device

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/nixl"
	"perigee/nixl/internal/kernel"
)

// Memory is a piece of memory of one kind: host memory (Host), memory of a GPU (CUDA.Memory) or a local file
// (OpenFile). It knows how to allocate, copy and free it; an engine registers it by Address, Size and Device
// without looking at the kind.
type Memory interface {
	Mem() nixl.Mem
	Size() int64

	// Address is where transfers find it in the address space of the process or of its GPU, 0 for a
	// file and where Size is 0.
	Address() uintptr
	// Device is NIXL's number of what holds it: the CUDA ordinal of a GPU, the descriptor of a file, 0 for the host.
	Device() uint64

	// Bytes is the memory itself, for host memory; nil for other kinds.
	Bytes() []byte
	// ReadAt and WriteAt copy between it and host memory. An access outside of it is an error.
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)

	// Free gives it back; after that its size is 0. A second call does nothing.
	Free() error
}

// host is anonymous private memory.
type host struct {
	data    []byte
	mapping []byte // that data is part of
}

// hugePage is the size of a huge page on the usual processors.
const hugePage = 2 << 20

// Host allocates host memory whose pages are present. huge is one of nixl.HugeAuto (also if empty), nixl.HugeOn and
// nixl.HugeOff; HugeOn is an error where none are reserved. size may be 0.
//
// The memory begins on the boundary of a huge page and has room for whole ones, so that buffers smaller
// than one can lie in one too.
func Host(size int64, huge string) (Memory, error) {
	flags, advice, err := hugeFlags(huge)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		return &host{data: []byte{}}, nil
	}
	if err := kernel.Room(size); err != nil {
		return nil, err
	}
	room := (size+hugePage-1)/hugePage*hugePage + hugePage
	mapping, err := unix.Mmap(-1, 0, int(room), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|flags)
	if err != nil {
		return nil, noRoom(size, huge, err)
	}
	if advice != 0 {
		// A wish that the kernel need not grant. Where it does, cross-memory attach, which pins pages one by
		// one, is up to three times as fast.
		_ = unix.Madvise(mapping, advice)
	}
	skip := -uintptr(unsafe.Pointer(&mapping[0])) % hugePage
	h := &host{data: mapping[skip:][:size:size], mapping: mapping}
	if err := kernel.Populate(h.data); err != nil {
		return nil, errors.Join(err, h.Free())
	}
	return h, nil
}

// hugeFlags are the flags of mmap and the advice that make or avoid huge pages.
func hugeFlags(huge string) (flags, advice int, err error) {
	switch huge {
	case "", nixl.HugeAuto:
		return 0, unix.MADV_HUGEPAGE, nil
	case nixl.HugeOff:
		return 0, unix.MADV_NOHUGEPAGE, nil
	case nixl.HugeOn:
		return unix.MAP_HUGETLB | 21<<unix.MAP_HUGE_SHIFT, 0, nil // 1<<21 is hugePage
	}
	return 0, 0, fault.New(fault.Usage, "huge pages %q: want %s, %s or %s", huge, nixl.HugeAuto, nixl.HugeOn,
		nixl.HugeOff)
}

// NoHugePages is the hint where reserved huge pages do not suffice.
const NoHugePages = "reserve huge pages of 2 MiB, one more for each buffer than it needs (sysctl vm.nr_hugepages), " +
	"or leave them to the kernel"

func noRoom(size int64, huge string, err error) error {
	if huge == nixl.HugeOn {
		return fault.New(fault.Resource, "no reserved huge pages for a buffer of %s: %w", kernel.Human(size), err).
			WithHint(NoHugePages)
	}
	return fault.New(fault.Resource, "no memory for a buffer of %s: %w", kernel.Human(size), err).
		WithHint("use smaller matrices or fewer ranks on this host")
}

func (h *host) Mem() nixl.Mem  { return nixl.DRAM }
func (h *host) Size() int64    { return int64(len(h.data)) }
func (h *host) Device() uint64 { return 0 }
func (h *host) Bytes() []byte  { return h.data }

func (h *host) Address() uintptr {
	if len(h.data) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(&h.data[0]))
}

func (h *host) ReadAt(p []byte, off int64) (int, error)  { return CopyOut(h.data, p, off) }
func (h *host) WriteAt(p []byte, off int64) (int, error) { return CopyIn(h.data, p, off) }

func (h *host) Free() error {
	mapping := h.mapping
	h.data, h.mapping = nil, nil
	if mapping == nil {
		return nil
	}
	return unix.Munmap(mapping)
}

// CopyOut is ReadAt of memory that this process has in data.
func CopyOut(data, p []byte, off int64) (int, error) {
	if err := nixl.CheckAccess(off, len(p), int64(len(data))); err != nil {
		return 0, err
	}
	return copy(p, data[off:]), nil
}

// CopyIn is WriteAt of memory that this process has in data.
func CopyIn(data, p []byte, off int64) (int, error) {
	if err := nixl.CheckAccess(off, len(p), int64(len(data))); err != nil {
		return 0, err
	}
	return copy(data[off:], p), nil
}

// vram is memory of a GPU.
type vram struct {
	gpu     *CUDA
	address uintptr
	size    int64
}

// Memory allocates memory of the GPU. size may be 0. A lack of memory is an error of the kind Resource.
func (c *CUDA) Memory(size int64) (Memory, error) {
	m := &vram{gpu: c}
	if size == 0 {
		return m, nil
	}
	address, err := c.Alloc(size)
	if err != nil {
		return nil, err
	}
	m.address, m.size = address, size
	return m, nil
}

func (m *vram) Mem() nixl.Mem    { return nixl.VRAM }
func (m *vram) Size() int64      { return m.size }
func (m *vram) Address() uintptr { return m.address }
func (m *vram) Device() uint64   { return uint64(m.gpu.Ordinal()) }
func (m *vram) Bytes() []byte    { return nil }

func (m *vram) ReadAt(p []byte, off int64) (int, error) {
	return m.copy(p, off, func() error { return m.gpu.CopyOut(p, m.address+uintptr(off)) })
}

func (m *vram) WriteAt(p []byte, off int64) (int, error) {
	return m.copy(p, off, func() error { return m.gpu.CopyIn(m.address+uintptr(off), p) })
}

func (m *vram) copy(p []byte, off int64, f func() error) (int, error) {
	if err := nixl.CheckAccess(off, len(p), m.size); err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (m *vram) Free() error {
	address := m.address
	m.address, m.size = 0, 0
	if address == 0 {
		return nil
	}
	return m.gpu.Free(address)
}

// Mem implements Memory.
func (d *File) Mem() nixl.Mem { return nixl.FILE }

// Address implements Memory: a file is at no address.
func (d *File) Address() uintptr { return 0 }

// Device implements Memory.
func (d *File) Device() uint64 { return uint64(d.FD()) }

// Bytes implements Memory.
func (d *File) Bytes() []byte { return nil }

// Free implements Memory: it closes the file.
func (d *File) Free() error {
	d.size = 0
	return d.Close()
}
