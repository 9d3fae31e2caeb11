package kernel

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The structs and numbers of the kernel's io_uring.h.
type (
	ringOffsets struct {
		head, tail, mask, entries, flags, dropped, array, reserved uint32
		address                                                    uint64
	}
	ringParams struct {
		submissions, completions, flags, threadCPU, threadIdle, features, workers uint32
		reserved                                                                  [3]uint32
		// Of cq, flags is overflow and dropped is cqes.
		sq, cq ringOffsets
	}
	submission struct {
		opcode, flags       uint8
		priority            uint16
		fd                  int32
		offset, address     uint64
		length, rwFlags     uint32
		data                uint64
		buffer, personality uint16
		splice              int32
		address3, reserved  uint64
	}
	ended struct {
		data   uint64
		result int32
		flags  uint32
	}
	waitArgument struct {
		signals     uint64
		signalsSize uint32
		reserved    uint32
		limit       uint64
	}
)

const (
	opURingRead     = 22
	opURingWrite    = 23
	enterGetEvents  = 1 << 0
	enterExtended   = 1 << 3
	featureOneMap   = 1 << 0
	featureExtended = 1 << 8
	offsetSQ        = 0
	offsetSQEs      = 0x10000000
	mostOfRequest   = 1 << 30 // the kernel moves a little less than 2 GiB at a time
)

type uring struct {
	fd           int
	rings, sqes  []byte
	tail         *uint32 // of the submissions; ours
	sqMask       uint32
	array        []uint32
	entries      []submission
	cqHead       *uint32 // ours
	cqTail       *uint32 // the kernel's
	cqMask       uint32
	results      []ended
	ready        uint32 // prepared and not taken yet
	wait         waitArgument
	limit        unix.Timespec
	pinnedForUse runtime.Pinner
}

// openURing sets up a ring. It wants both rings in one mapping and waits with a timeout, which kernels have since
// 5.11; with older ones AIO does as well.
func openURing() (*uring, error) {
	var p ringParams
	fd, _, code := unix.Syscall(unix.SYS_IO_URING_SETUP, QueueDepth, uintptr(unsafe.Pointer(&p)), 0)
	if code != 0 {
		return nil, code
	}
	k := &uring{fd: int(fd)}
	if p.features&featureOneMap == 0 || p.features&featureExtended == 0 {
		return nil, errors.Join(errors.New("the kernel is older than 5.11"), k.close())
	}
	if err := k.mapRings(&p); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

// mapRings maps the two rings and the entries, and keeps pointers to the words in them by the offsets that the kernel
// has returned.
func (k *uring) mapRings(p *ringParams) error {
	size := max(p.sq.array+p.submissions*4, p.cq.dropped+p.completions*uint32(unsafe.Sizeof(ended{})))
	var err error
	const access, how = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	if k.rings, err = unix.Mmap(k.fd, offsetSQ, int(size), access, how); err != nil {
		return err
	}
	if k.sqes, err = unix.Mmap(k.fd, offsetSQEs, int(p.submissions)*int(unsafe.Sizeof(submission{})), access,
		how); err != nil {
		return err
	}
	word := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&k.rings[offset])) }
	k.tail, k.sqMask = word(p.sq.tail), *word(p.sq.mask)
	k.array = unsafe.Slice(word(p.sq.array), p.submissions)
	k.entries = unsafe.Slice((*submission)(unsafe.Pointer(&k.sqes[0])), p.submissions)
	k.cqHead, k.cqTail, k.cqMask = word(p.cq.head), word(p.cq.tail), *word(p.cq.mask)
	k.results = unsafe.Slice((*ended)(unsafe.Pointer(&k.rings[p.cq.dropped])), p.completions)
	// The kernel follows two pointers when a timeout is given.
	k.pinnedForUse.Pin(&k.limit)
	k.wait.limit = uint64(uintptr(unsafe.Pointer(&k.limit)))
	return nil
}

// put writes an entry into the ring and moves the tail, which hands it over once flush enters the kernel. The store is
// atomic, as the kernel reads the tail from another core.
func (k *uring) put(number uint64, r FilePiece) {
	tail := *k.tail
	i := tail & k.sqMask
	k.entries[i] = submission{
		opcode: opURingRead, fd: int32(r.FD), offset: uint64(r.Off), data: number,
		address: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(r.Data)))), length: uint32(min(len(r.Data),
			mostOfRequest)),
	}
	if r.Write {
		k.entries[i].opcode = opURingWrite
	}
	k.array[i] = i
	atomic.StoreUint32(k.tail, tail+1)
	k.ready++
}

// enter hands over what is ready and, if least is not 0, waits for as many completions.
func (k *uring) enter(least uint32) error {
	var flags uintptr
	var argument unsafe.Pointer
	var size uintptr
	if least > 0 {
		flags, argument, size = enterGetEvents|enterExtended, unsafe.Pointer(&k.wait), unsafe.Sizeof(k.wait)
	}
	n, _, code := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(k.fd), uintptr(k.ready), uintptr(least), flags,
		uintptr(argument), size)
	runtime.KeepAlive(k)
	switch code {
	case 0:
		k.ready -= uint32(n)
	case unix.ETIME, unix.EINTR, unix.EAGAIN, unix.EBUSY: // too early; the caller comes again
	default:
		return code
	}
	return nil
}

func (k *uring) flush() error {
	if k.ready == 0 {
		return nil
	}
	return k.enter(0)
}

func (k *uring) reap(out []completion, wait time.Duration) (int, error) {
	if err := k.flush(); err != nil {
		return 0, err
	}
	n := k.collect(out)
	if n > 0 || wait <= 0 {
		return n, nil
	}
	k.limit = unix.NsecToTimespec(int64(wait))
	if err := k.enter(1); err != nil {
		return 0, err
	}
	return k.collect(out), nil
}

func (k *uring) collect(out []completion) int {
	head, tail := *k.cqHead, atomic.LoadUint32(k.cqTail)
	n := 0
	for ; head != tail && n < len(out); head++ {
		e := k.results[head&k.cqMask]
		out[n] = completion{e.data, int64(e.result)}
		n++
	}
	atomic.StoreUint32(k.cqHead, head)
	return n
}

func (k *uring) drop() int {
	n := k.ready
	atomic.StoreUint32(k.tail, *k.tail-n)
	k.ready = 0
	return int(n)
}

func (k *uring) close() error {
	k.pinnedForUse.Unpin()
	var errs []error
	for _, m := range [][]byte{k.sqes, k.rings} {
		if m != nil {
			errs = append(errs, unix.Munmap(m))
		}
	}
	return errors.Join(append(errs, unix.Close(k.fd))...)
}
