// Package host lets the ranks of one host meet in shared memory: package spmd uses it for barriers and maxima inside a
// host, which need no messages then, and for the mark of a failed job, which ends all waits at once.
//
// A Segment (host.go) is a small piece of memory that all ranks of a host have mapped. It has no name in any file
// system: one rank makes it, the others open it through /proc, and it is gone with the last of them. In it lie the
// counters of barriers and the mark of a failed job. A Barrier belongs to a group of ranks, found by the hash of its
// members (members.go). Its calls are numbered, so that a rank that is late in one call is not counted in the next,
// and others can see in which call it waits.
//
// A party spins at first, since the others usually come within microseconds, and then sleeps in the kernel (futex);
// with more parties than cores it does not spin, as it would keep the rank that it waits for from its core. A wait
// ends with ErrTimeout, ErrAborted or ErrClosed; it never hangs in a job that has failed.
//
// ID (name.go) decides which processes can meet so: those with the same kernel, network name, and the same process,
// network, time and user namespaces. Containers of one machine are separate hosts unless they share all of these.
package host

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/memory"
)

const (
	slotSize   = 128 // two cache lines, since CPUs fetch them in pairs
	slotCount  = 1 << 15
	probeLimit = 1 << 10
	segSize    = slotSize*(1+slotCount) + int(unsafe.Sizeof(roll{}))
)

// slot is the meeting point of one group of ranks.
type slot struct {
	key      atomic.Uint64    // the group; 0 is a free slot
	came     [3]atomic.Uint32 // how many ranks have brought something along, as most
	_        [44]byte
	arrivals atomic.Uint64 // ever increasing: a barrier is over at the next multiple of the group's size
	sleepers atomic.Uint32 // ranks that wait in the kernel
	call     atomic.Uint32 // what the last of them said it waits in
	// most holds the numbers that the ranks of a meeting bring along, for Max: those of three meetings in turn. When a
	// rank leaves one, all have left the one before, and none is in the next but one.
	most [3][2]atomic.Int64
}

// head is the first slot's place.
type head struct {
	aborted atomic.Uint32
	led     atomic.Uint32 // whether a leader was elected
	job     uint64        // is set before others know of the segment
}

// Segment is a host's shared memory.
type Segment struct {
	mem  []byte
	fd   int
	used sync.Map // *slot -> struct{}: the slots in which this process may sleep

	// Memory must not be unmapped under a rank that waits in it.
	users  atomic.Int64
	closed atomic.Bool
}

// mapped is how many segments this process has mapped: one, unless it has several ranks.
var mapped atomic.Int32

// enter makes sure that the memory stays until leave, or says that it is gone.
func (s *Segment) enter() bool {
	s.users.Add(1)
	if s.closed.Load() {
		s.users.Add(-1)
		return false
	}
	return true
}

func (s *Segment) leave() { s.users.Add(-1) }

// ID names the host such that two processes have the same ID exactly if they
// can share memory through this package, and have one clock: same kernel, same network name, same
// process, network, time and user namespaces.
func ID() string {
	h := sha256.New()
	for _, f := range []string{"/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/hostname"} {
		b, _ := os.ReadFile(f)
		h.Write(append(b, 0))
	}
	for _, ns := range []string{"pid", "net", "time", "user"} {
		link, _ := os.Readlink("/proc/self/ns/" + ns)
		h.Write(append([]byte(link), 0))
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// memoryName names the memory where the kernel shows it.
const memoryName = "perigee-host"

// Create makes a segment that others can open. job is a number that no other job on the host has, as far as can be.
func Create(job uint64) (*Segment, error) {
	fd, err := memory.CreateFile(memoryName, 0)
	if err != nil {
		return nil, fmt.Errorf("create shared memory: %w", err)
	}
	if err = unix.Ftruncate(fd, int64(segSize)); err == nil {
		err = memory.SealFile(fd)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("size shared memory to %d bytes: %w", segSize, err)
	}
	s, err := mapSegment(fd)
	if err == nil {
		s.head().job = job
	}
	return s, err
}

// Open maps the segment that another process of this host has created for the same job.
func Open(pid, fd int, job uint64) (*Segment, error) {
	own, found, err := memory.OpenFile(pid, fd, memoryName, os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("process %d of this host does not share its memory: /proc/%d/fd/%d: %w", pid, pid, fd, err)
	}
	if found.Size != int64(segSize) {
		unix.Close(own)
		return nil, fmt.Errorf("process %d of this host shares %d bytes, wanted %d: it runs another version of perigee",
			pid, found.Size, segSize)
	}
	s, err := mapSegment(own)
	if err == nil && s.head().job != job {
		return nil, errors.Join(fmt.Errorf("process %d of this host shares the memory of another job", pid), s.Close())
	}
	return s, err
}

func mapSegment(fd int) (*Segment, error) {
	mem, err := unix.Mmap(fd, 0, segSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("map shared memory: %w", err)
	}
	mapped.Add(1)
	return &Segment{mem: mem, fd: fd}, nil
}

// FD is the descriptor under which another process can Open the segment.
func (s *Segment) FD() int { return s.fd }

// Close ends the waits of this process in the segment with ErrClosed and unmaps
// it.
func (s *Segment) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	for s.users.Load() > 0 {
		s.used.Range(func(k, _ any) bool {
			wake(k.(*slot))
			return true
		})
		time.Sleep(100 * time.Microsecond)
	}
	mapped.Add(-1)
	return errors.Join(unix.Munmap(s.mem), unix.Close(s.fd))
}

func (s *Segment) head() *head { return (*head)(unsafe.Pointer(&s.mem[0])) }

func (s *Segment) slot(i uint64) *slot {
	return (*slot)(unsafe.Pointer(&s.mem[slotSize*(1+i%slotCount)]))
}

// Abort ends all waits of this process's ranks with ErrAborted, and soon those
// of the other processes.
func (s *Segment) Abort() {
	if !s.enter() {
		return
	}
	defer s.leave()
	s.head().aborted.Store(1)
	s.used.Range(func(k, _ any) bool {
		wake(k.(*slot))
		return true
	})
}

// ErrAborted ends a wait in a job that has failed.
var ErrAborted = errors.New("the job has failed")

// ErrClosed ends a wait in a segment that this process has closed.
var ErrClosed = errors.New("the shared memory is closed")

// ErrMixed is that of a Max which others have met in a Wait.
var ErrMixed = errors.New("others wait without numbers")

// ErrTimeout ends a wait that passed its deadline.
var ErrTimeout = errors.New("not all ranks came in time")

// Barrier is a meeting of a group of local ranks.
type Barrier struct {
	seg     *Segment
	slot    *slot
	parties uint64
	round   int           // of calls of Max
	spin    int           // reads before the first yield
	nap     time.Duration // a sleeper looks up this often
}

// Key derives the name of a group from its ranks.
func Key(ranks []int) uint64 {
	h := sha256.New()
	var b [8]byte
	for _, r := range ranks {
		binary.LittleEndian.PutUint64(b[:], uint64(r))
		h.Write(b[:])
	}
	k := binary.LittleEndian.Uint64(h.Sum(nil))
	return max(k, 1) // 0 marks a free slot
}

// Barrier returns the meeting point of the group with a key. All members must
// use the same key and number of parties. cores is the number of CPUs that the
// group may run on: with more parties than cores a rank that spins is in the
// way of one that works. A full table is an error.
func (s *Segment) Barrier(key uint64, parties, cores int) (*Barrier, error) {
	if !s.enter() {
		return nil, ErrClosed
	}
	defer s.leave()
	for i := range uint64(probeLimit) {
		sl := s.slot(key + i)
		if sl.key.CompareAndSwap(0, key) || sl.key.Load() == key {
			s.used.Store(sl, struct{}{})
			b := &Barrier{seg: s, slot: sl, parties: uint64(parties), nap: nap}
			if parties <= cores {
				b.spin = spinReads
			}
			return b, nil
		}
	}
	return nil, fmt.Errorf("more than %d groups of ranks meet on this host", slotCount)
}

const (
	spinReads = 2000 // about a microsecond
	// Then the rank yields, then it sleeps in the kernel. To be woken costs as much as many yields, but in a process
	// of several ranks a yield may not reach the one that works.
	yieldFor   = time.Millisecond
	yieldLess  = 50 * time.Microsecond  // in such a process
	yieldBatch = 4                      // yields between looks at the clock, which cost nearly as much
	nap        = 100 * time.Millisecond // a sleeper looks up this often: others may have failed
)

// Wait returns when all parties have called it. It waits no longer than limit,
// 0 for ever. Once it has waited long, Called shows the others the number of the call.
func (b *Barrier) Wait(call uint32, limit time.Duration) error {
	if !b.seg.enter() {
		return ErrClosed
	}
	defer b.seg.leave()
	now := b.slot.arrivals.Add(1)
	target := (now + b.parties - 1) / b.parties * b.parties
	if now == target {
		if b.slot.sleepers.Load() > 0 {
			wake(b.slot)
		}
		return nil
	}
	for range b.spin {
		if b.slot.arrivals.Load() >= target {
			return nil
		}
	}
	start, patience := time.Now(), yieldFor
	if mapped.Load() > 1 {
		patience = yieldLess
	}
	for i := 1; ; i++ {
		unix.RawSyscallNoError(unix.SYS_SCHED_YIELD, 0, 0, 0)
		if b.slot.arrivals.Load() >= target {
			return nil
		}
		if i%yieldBatch == 0 && time.Since(start) > patience {
			break
		}
	}
	return b.sleep(target, call, start, limit)
}

// Max is Wait with two numbers, none of them negative. It returns the largest of all parties, and ErrMixed where one of
// these has called Wait.
func (b *Barrier) Max(call uint32, limit time.Duration, v [2]int64) ([2]int64, error) {
	if !b.seg.enter() {
		return v, ErrClosed
	}
	defer b.seg.leave()
	mine, came := &b.slot.most[b.round%3], &b.slot.came[b.round%3]
	came.Add(1)
	for i := range mine {
		for old := mine[i].Load(); v[i] > old && !mine[i].CompareAndSwap(old, v[i]); old = mine[i].Load() {
		}
	}
	if err := b.Wait(call, limit); err != nil {
		return v, err
	}
	for i := range mine {
		v[i] = mine[i].Load()
		b.slot.most[(b.round+2)%3][i].Store(0)
	}
	if uint64(came.Load()) != b.parties {
		return v, ErrMixed
	}
	b.slot.came[(b.round+2)%3].Store(0)
	b.round++
	return v, nil
}

// Called returns the number of the call in which a party has last waited for long,
// 0 if none ever has.
func (b *Barrier) Called() uint32 {
	if !b.seg.enter() {
		return 0
	}
	defer b.seg.leave()
	return b.slot.call.Load()
}

// sleep waits in the kernel until the arrivals reach the target. It counts itself among the sleepers before it looks,
// so that the last to arrive either is seen here or sees that there is a sleeper to wake.
func (b *Barrier) sleep(target uint64, call uint32, start time.Time, limit time.Duration) error {
	b.slot.sleepers.Add(1)
	defer b.slot.sleepers.Add(^uint32(0))
	for {
		b.slot.call.Store(call) // again and again: a rank may be late to store the call before
		seen := b.slot.arrivals.Load()
		if seen >= target {
			return nil
		}
		if b.seg.closed.Load() {
			return ErrClosed
		}
		if b.seg.head().aborted.Load() != 0 {
			return ErrAborted
		}
		most := b.nap
		if limit > 0 {
			if most = min(most, limit-time.Since(start)); most <= 0 {
				return ErrTimeout
			}
		}
		futexWait(b.slot, uint32(seen), most)
	}
}

const (
	futexWaitOp = 0 // shared between processes: without FUTEX_PRIVATE_FLAG
	futexWakeOp = 1
)

// futexWord is the low half of the arrivals counter.
func futexWord(s *slot) unsafe.Pointer {
	p := unsafe.Pointer(&s.arrivals)
	if !littleEndian {
		p = unsafe.Add(p, 4)
	}
	return p
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

func futexWait(s *slot, seen uint32, most time.Duration) {
	ts := unix.NsecToTimespec(int64(most))
	unix.Syscall6(unix.SYS_FUTEX, uintptr(futexWord(s)), futexWaitOp, uintptr(seen), uintptr(unsafe.Pointer(&ts)), 0, 0)
}

func wake(s *slot) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(futexWord(s)), futexWakeOp, 1<<30, 0, 0, 0)
}
