//go:build cgo

package capi

/*
#include "papi.h"

static void set_req(papi_batch *b, int64_t i, void *req) { b->reqs[i] = req; }
static void *get_req(papi_batch *b, int64_t i) { return b->reqs[i]; }
*/
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"perigee/internal/clock"
	"perigee/internal/fault"
	"perigee/nixl"
)

// task is what Go keeps of a prepared transfer.
type task struct {
	number int
	peer   *peer
}

type batch struct {
	agent    *agent
	c        *C.papi_batch // in C memory; nil after Release
	tasks    []task
	bytes    int64
	posted   bool
	broken   error // why the batch cannot run again
	stamps   []int64
	released bool
}

func (a *agent) newBatch(transfers []nixl.Transfer) (*batch, error) {
	b := &batch{agent: a, c: C.papi_batch_new(a.c, C.int64_t(len(transfers)))}
	if b.c == nil {
		return nil, fault.New(fault.Resource, "no memory for %d transfers", len(transfers))
	}
	a.batches[b] = struct{}{}
	for i, t := range transfers {
		p, req, err := a.prepare(t)
		if err != nil {
			return nil, errors.Join(err, b.Release())
		}
		C.set_req(b.c, C.int64_t(i), req)
		b.tasks = append(b.tasks, task{t.Peer, p})
		b.bytes += t.Bytes()
	}
	return b, nil
}

// prepare checks a transfer and makes the library's request of it.
func (a *agent) prepare(t nixl.Transfer) (*peer, unsafe.Pointer, error) {
	p := a.peers[t.Peer]
	if p == nil {
		return nil, nil, fmt.Errorf("peer %d was not added", t.Peer)
	}
	if t.LocalBuffer < 0 || t.LocalBuffer >= len(a.buffers) {
		return nil, nil, fmt.Errorf("transfer with peer %d: no local buffer %d", t.Peer, t.LocalBuffer)
	}
	if t.RemoteBuffer < 0 || t.RemoteBuffer >= len(p.card.buffers) {
		return nil, nil, fmt.Errorf("transfer with peer %d: it has no buffer %d", t.Peer, t.RemoteBuffer)
	}
	local, remote := a.buffers[t.LocalBuffer], p.card.buffers[t.RemoteBuffer]
	if err := t.Check(local.size, remote.size); err != nil {
		return nil, nil, err
	}
	if p.process.Gone() {
		return nil, nil, gone(t.Peer)
	}
	here := C.papi_side{base: C.uintptr_t(local.address), dev: local.dev(), mem: C.int(local.mem)}
	there := C.papi_side{base: C.uintptr_t(remote.address), dev: C.uint64_t(remote.device), mem: C.int(remote.mem)}
	var req unsafe.Pointer
	// nixl.Desc has the layout of papi_desc.
	status := C.papi_prepare(a.c, operation(t.Op), here, (*C.papi_desc)(unsafe.Pointer(&t.Local[0])),
		there, (*C.papi_desc)(unsafe.Pointer(&t.Remote[0])), C.size_t(len(t.Local)), p.name, &req)
	if status < 0 {
		return nil, nil, fail(status, "preparing %d descriptors with peer %d", len(t.Local), t.Peer)
	}
	return p, req, nil
}

// operation is the library's number of an operation.
func operation(op nixl.Op) C.int {
	if op == nixl.Read {
		return 0
	}
	return 1
}

func gone(peer int) error {
	return fault.New(fault.RankLost, "transfer with peer %d: its process is gone", peer)
}

func (b *batch) Len() int     { return len(b.tasks) }
func (b *batch) Bytes() int64 { return b.bytes }

// usable says why the batch cannot be started.
func (b *batch) usable() error {
	switch {
	case b.released:
		return errors.New("nixl: the batch was released")
	case b.broken != nil:
		return fmt.Errorf("nixl: the batch cannot run again: %w", b.broken)
	case b.posted:
		return errors.New("nixl: the batch was posted and not waited for")
	}
	for _, t := range b.tasks {
		if t.peer.process.Gone() {
			b.broken = gone(t.number)
			return b.broken
		}
	}
	return nil
}

// maxStamps bounds the numbers that one native loop writes; longer runs are cut in pieces.
const maxStamps = 1 << 16

func (b *batch) Run(ctl nixl.Control, n int, times []nixl.Times) error {
	if err := b.usable(); err != nil {
		return err
	}
	if times == nil {
		return b.run(ctl, n, nil)
	}
	if len(times) != n {
		return fmt.Errorf("nixl: %d runs but room for %d stamps", n, len(times))
	}
	width := 3 + len(b.tasks)
	piece := max(1, maxStamps/width)
	if need := width * min(n, piece); cap(b.stamps) < need {
		b.stamps = make([]int64, need)
	}
	for done := 0; done < n; {
		k := min(piece, n-done)
		stamps := b.stamps[:k*width]
		if err := b.run(ctl, k, stamps); err != nil {
			return err
		}
		for i := range k {
			unpack(&times[done+i], stamps[i*width:(i+1)*width])
		}
		done += k
	}
	return nil
}

func unpack(t *nixl.Times, stamps []int64) {
	t.Start, t.Posted, t.End = stamps[0], stamps[1], stamps[2]
	if done := stamps[3:]; len(t.Done) == len(done) {
		copy(t.Done, done)
	}
}

// run is one native loop.
func (b *batch) run(ctl nixl.Control, n int, stamps []int64) error {
	var out *C.int64_t
	if len(stamps) > 0 {
		out = (*C.int64_t)(&stamps[0])
	}
	status := C.papi_run(b.c, C.int64_t(n), C.int64_t(ctl.Deadline), (*C.uint32_t)(ctl.Abort), out)
	return b.outcome(status)
}

// outcome words what ended a run, and keeps the batch from running again if that was not success.
func (b *batch) outcome(status C.int) error {
	switch {
	case status == 0:
		return nil
	case status == C.PAPI_ABORTED:
		b.broken = nixl.ErrAborted
	case status == C.PAPI_LATE:
		b.broken = &nixl.TimeoutError{Peers: b.pending()}
	default:
		t := b.tasks[b.c.failed]
		b.broken = fail(status, "transfer with peer %d", t.number)
		if t.peer.process.Gone() {
			b.broken = gone(t.number)
		}
	}
	return b.broken
}

// pending lists the peers whose transfers are not complete.
func (b *batch) pending() []int {
	var peers []int
	for _, i := range unsafe.Slice(b.c.order, b.c.left) {
		peers = append(peers, b.tasks[i].number)
	}
	slices.Sort(peers)
	return slices.Compact(peers)
}

func (b *batch) Post() error {
	if err := b.usable(); err != nil {
		return err
	}
	if err := b.outcome(C.papi_post(b.c)); err != nil {
		return err
	}
	b.posted = true
	return nil
}

func (b *batch) Done() (bool, error) {
	if !b.posted {
		return false, errors.New("nixl: the batch was not posted")
	}
	if err := b.outcome(C.papi_poll(b.c)); err != nil {
		b.posted = false
		return false, err
	}
	return b.c.left == 0, nil
}

func (b *batch) Wait(ctl nixl.Control, t *nixl.Times) error {
	if !b.posted {
		return errors.New("nixl: the batch was not posted")
	}
	b.posted = false
	if err := b.outcome(C.papi_wait(b.c, C.int64_t(ctl.Deadline), (*C.uint32_t)(ctl.Abort))); err != nil {
		return err
	}
	if t == nil {
		return nil
	}
	t.Start, t.Posted, t.End = int64(b.c.start), int64(b.c.posted), int64(b.c.end)
	if len(t.Done) == len(b.tasks) {
		for i, done := range unsafe.Slice(b.c.done, len(b.tasks)) {
			t.Done[i] = int64(done)
		}
	}
	return nil
}

// farewell is how long Release waits for transfers that are under way before it has the
// library cancel them.
const farewell = 500 * time.Millisecond

func (b *batch) Release() error {
	if b.released {
		return nil
	}
	b.released = true
	delete(b.agent.batches, b)
	if b.posted {
		C.papi_wait(b.c, C.int64_t(clock.Now()+int64(farewell)), nil)
	}
	var errs []error
	for i := range b.c.count {
		req := C.get_req(b.c, i)
		if req == nil {
			continue
		}
		if status := C.papi_release(b.agent.c, req); status < 0 {
			errs = append(errs, fail(status, "releasing a transfer"))
		}
	}
	C.papi_batch_free(b.c)
	b.c, b.tasks = nil, nil
	return errors.Join(errs...)
}
