package kernel

import (
	"errors"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// iocb and event are the structs of the kernel's aio_abi.h.
type iocb struct {
	data    uint64
	_       uint32 // key
	_       uint32 // flags of reads and writes
	opcode  uint16
	_       int16 // priority
	fd      uint32
	address uint64
	length  uint64
	offset  int64
	_       uint64
	_       uint32 // flags
	_       uint32 // an eventfd
}

type event struct {
	data    uint64
	object  uint64
	result  int64
	result2 int64
}

const (
	opRead  = 0
	opWrite = 1
)

type aio struct {
	context uintptr
	blocks  [QueueDepth]iocb
	ready   []*iocb // prepared and not taken yet
	spare   []*iocb // the kernel copies a block when it takes it, so it can be used again
	events  [QueueDepth]event
}

func openAIO() (*aio, error) {
	k := &aio{}
	for i := range k.blocks {
		k.spare = append(k.spare, &k.blocks[i])
	}
	if _, _, code := unix.Syscall(unix.SYS_IO_SETUP, QueueDepth, uintptr(unsafe.Pointer(&k.context)), 0); code != 0 {
		return nil, code
	}
	return k, nil
}

func (k *aio) put(number uint64, r FilePiece) {
	last := len(k.spare) - 1
	b := k.spare[last]
	k.spare = k.spare[:last]
	*b = iocb{
		data: number, opcode: opRead, fd: uint32(r.FD), offset: r.Off,
		address: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(r.Data)))), length: uint64(len(r.Data)),
	}
	if r.Write {
		b.opcode = opWrite
	}
	k.ready = append(k.ready, b)
}

// flush submits what is ready. The kernel can take fewer than it is offered; the rest stays ready.
func (k *aio) flush() error {
	for len(k.ready) > 0 {
		n, _, code := unix.Syscall(unix.SYS_IO_SUBMIT, k.context, uintptr(len(k.ready)),
			uintptr(unsafe.Pointer(&k.ready[0])))
		runtime.KeepAlive(k)
		switch {
		case code == unix.EAGAIN: // no room now; there will be after the next reap
			return nil
		case code == unix.EINTR:
			continue
		case code != 0:
			return code
		}
		k.spare = append(k.spare, k.ready[:n]...)
		k.ready = append(k.ready[:0], k.ready[n:]...)
	}
	return nil
}

// reap waits for at least one event and takes as many as there are. A signal ends the wait without any.
func (k *aio) reap(out []completion, wait time.Duration) (int, error) {
	if err := k.flush(); err != nil {
		return 0, err
	}
	limit := unix.NsecToTimespec(int64(wait))
	n, _, code := unix.Syscall6(unix.SYS_IO_GETEVENTS, k.context, 1, uintptr(min(len(out), QueueDepth)),
		uintptr(unsafe.Pointer(&k.events[0])), uintptr(unsafe.Pointer(&limit)), 0)
	if code != 0 && !errors.Is(code, unix.EINTR) {
		return 0, code
	}
	if code != 0 {
		n = 0
	}
	for i, e := range k.events[:n] {
		out[i] = completion{e.data, e.result}
	}
	return int(n), nil
}

func (k *aio) drop() int {
	n := len(k.ready)
	k.spare, k.ready = append(k.spare, k.ready...), k.ready[:0]
	return n
}

func (k *aio) close() error {
	if _, _, code := unix.Syscall(unix.SYS_IO_DESTROY, k.context, 0, 0); code != 0 {
		return code
	}
	return nil
}
