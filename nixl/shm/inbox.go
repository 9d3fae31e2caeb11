package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/nixl"
	"perigee/nixl/internal/kernel"
)

// An inbox is the memfd into which the peers of an agent put their notices. Each sender has a ring in it, so
// that a sender that dies in the middle of a notice does not block the others. All of it but the
// first page is sparse: a sender reserves the pages of its slot when it claims it.
//
//	page 0           doorbell uint64, used uint32
//	slotTable        slots times: state, length of the name, head; and, in the next cache line, tail
//	nameTable        slots times: the sender's name
//	ringTable        slots times: the ring
//
// head counts the bytes that the sender has put in, tail those that the owner has taken out. A notice is its
// length in 8 bytes and its bytes, padded to 8. The sender rings the doorbell after each, so that an
// owner that has nothing to receive looks at one number.
const (
	slots     = 256
	slotSize  = 128
	nameSize  = 256
	ringSize  = 32 << 10
	slotTable = 4096
	nameTable = slotTable + slots*slotSize
	ringTable = nameTable + slots*nameSize
	inboxSize = ringTable + slots*ringSize
)

// The states of a slot. Only a sender takes a slot from free or closed to claimed and then to open, and from open to
// closed; only the owner frees one.
const (
	slotFree uint32 = iota
	slotClaimed
	slotOpen
	slotClosed
)

// slotHead is a slot's entry in the table.
type slotHead struct {
	state uint32
	name  uint32 // length
	head  uint64
	_     [48]byte
	tail  uint64
	_     [56]byte
}

type inboxHead struct {
	doorbell uint64
	used     uint32 // no slot from this number on was ever claimed
}

// shared is a mapped inbox, one's own or a peer's.
type shared []byte

func (m shared) head() *inboxHead     { return (*inboxHead)(unsafe.Pointer(&m[0])) }
func (m shared) slot(i int) *slotHead { return (*slotHead)(unsafe.Pointer(&m[slotTable+i*slotSize])) }
func (m shared) name(i int) []byte    { return m[nameTable+i*nameSize:][:nameSize] }
func (m shared) ring(i int) []byte    { return m[ringTable+i*ringSize:][:ringSize] }

// newInbox makes the memfd of an inbox.
func newInbox() (fd int, err error) {
	if err := room(inboxSize); err != nil {
		return -1, err
	}
	fd, err = memory.CreateFile(inboxName, 0)
	if err != nil {
		return -1, fault.New(fault.Resource, "memfd_create: %w", err)
	}
	if err = unix.Ftruncate(fd, inboxSize); err == nil {
		err = reserve(fd, 0, slotTable)
	}
	if err == nil {
		err = memory.SealFile(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, noMemory(inboxSize, "inbox for notices", err)
	}
	return fd, nil
}

// mapInbox maps an inbox without making its pages present.
func mapInbox(fd int) (shared, error) {
	data, err := unix.Mmap(fd, 0, inboxSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, noMemory(inboxSize, "mmap", err)
	}
	return data, nil
}

// outbox is the way to one peer's inbox.
type outbox struct {
	owner   kernel.ProcessID
	entry   cardBuffer
	memory  shared
	slot    int
	pending [][]byte // notices for which the ring has no room
}

// openOutbox claims a slot in a peer's inbox.
func openOutbox(owner kernel.ProcessID, entry cardBuffer, name string) (*outbox, error) {
	if entry.size != inboxSize {
		return nil, fault.New(fault.Resource, "it has no inbox for notices")
	}
	fd, err := openPeer(owner, entry, inboxName)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	memory, err := mapInbox(fd)
	if err != nil {
		return nil, err
	}
	o := &outbox{owner: owner, entry: entry, memory: memory}
	if o.slot, err = claim(fd, memory, name); err != nil {
		return nil, errors.Join(err, unmap(memory))
	}
	return o, nil
}

// claim takes the slot that this sender has closed, or a free one.
func claim(fd int, m shared, name string) (int, error) {
	for i := range min(int(atomic.LoadUint32(&m.head().used)), slots) {
		s := m.slot(i)
		if atomic.LoadUint32(&s.state) == slotClosed && string(m.name(i)[:min(s.name, nameSize)]) == name &&
			atomic.CompareAndSwapUint32(&s.state, slotClosed, slotOpen) {
			return i, nil
		}
	}
	for i := range slots {
		// Pages must be there before they are touched: without memory a touch would be a signal.
		ranges := [][2]int64{{slotTable + int64(i)*slotSize, slotSize}, {nameTable + int64(i)*nameSize, nameSize},
			{ringTable + int64(i)*ringSize, ringSize}}
		if err := reserve(fd, ranges[0][0], ranges[0][1]); err != nil {
			return 0, noMemory(slotSize, "fallocate", err)
		}
		s := m.slot(i)
		if !atomic.CompareAndSwapUint32(&s.state, slotFree, slotClaimed) {
			continue
		}
		for _, r := range ranges[1:] {
			if err := reserve(fd, r[0], r[1]); err != nil {
				atomic.StoreUint32(&s.state, slotFree)
				return 0, noMemory(ringSize, "fallocate", err)
			}
		}
		s.name = uint32(copy(m.name(i), name))
		raise(&m.head().used, uint32(i)+1)
		atomic.StoreUint32(&s.state, slotOpen)
		return i, nil
	}
	return 0, fault.New(fault.Resource, "%d agents have sent notices to it already", slots)
}

// raise makes a shared number at least n.
func raise(p *uint32, n uint32) {
	for old := atomic.LoadUint32(p); old < n && !atomic.CompareAndSwapUint32(p, old, n); {
		old = atomic.LoadUint32(p)
	}
}

// send puts a notice into the ring, or behind those that wait for room there.
func (o *outbox) send(message []byte) {
	if o.flush(); len(o.pending) > 0 || !o.put(message) {
		o.pending = append(o.pending, append([]byte(nil), message...))
	}
}

// flush puts into the ring what has room now.
func (o *outbox) flush() {
	for len(o.pending) > 0 && o.put(o.pending[0]) {
		o.pending[0] = nil
		o.pending = o.pending[1:]
	}
}

const lengthSize = 8

func padded(n int) uint64 { return uint64(lengthSize + (n+7)&^7) }

// put writes a message into this sender's ring and reports whether there was room. The message is complete before the
// head moves, which the receiver reads, and the doorbell comes last, so that a receiver that sees it finds the
// message.
func (o *outbox) put(message []byte) bool {
	s, ring := o.memory.slot(o.slot), o.memory.ring(o.slot)
	head := s.head // written by this side alone
	need := padded(len(message))
	if head+need-atomic.LoadUint64(&s.tail) > ringSize {
		return false
	}
	binary.NativeEndian.PutUint64(ring[head%ringSize:], uint64(len(message)))
	at := (head + lengthSize) % ringSize
	n := copy(ring[at:], message)
	copy(ring, message[n:])
	atomic.StoreUint64(&s.head, head+need)
	atomic.AddUint64(&o.memory.head().doorbell, 1)
	return true
}

// close gives the slot back to the inbox's owner, which empties it first.
func (o *outbox) close() error {
	atomic.StoreUint32(&o.memory.slot(o.slot).state, slotClosed)
	atomic.AddUint64(&o.memory.head().doorbell, 1)
	return unmap(o.memory)
}

// take hands all notices of slot i to f, and frees the slot if its sender has closed it.
func (m shared) take(i int, f func(message []byte)) error {
	s, ring := m.slot(i), m.ring(i)
	closed := atomic.LoadUint32(&s.state) == slotClosed
	tail, head := s.tail, atomic.LoadUint64(&s.head)
	for tail != head {
		n := binary.NativeEndian.Uint64(ring[tail%ringSize:])
		if n > nixl.MaxNotice || head-tail > ringSize || padded(int(n)) > head-tail {
			return fmt.Errorf("shm: the ring of agent %q is damaged", m.sender(i))
		}
		message := make([]byte, n)
		at := (tail + lengthSize) % ringSize
		k := copy(message, ring[at:])
		copy(message[k:], ring)
		tail += padded(int(n))
		atomic.StoreUint64(&s.tail, tail)
		f(message)
	}
	if closed && atomic.CompareAndSwapUint32(&s.state, slotClosed, slotClaimed) {
		m.free(i)
	}
	return nil
}

// free empties a slot that is claimed by the caller, or whose sender is gone.
func (m shared) free(i int) {
	s := m.slot(i)
	s.head, s.tail, s.name = 0, 0, 0
	atomic.StoreUint32(&s.state, slotFree)
}

func (m shared) sender(i int) string {
	return string(m.name(i)[:min(m.slot(i).name, nameSize)])
}
