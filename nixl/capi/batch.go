//go:build cgo

package capi

/*
#include "papi.h"

static void set_req(papi_batch *b, int64_t i, void *req) { b->reqs[i] = req; }
static void set_weight(papi_batch *b, int64_t i, uint32_t w) { b->weight[i] = w; }
static void *get_req(papi_batch *b, int64_t i) { return b->reqs[i]; }
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
	"unsafe"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/nixl"
	"perigee/nixl/device"
)

// task is the Go side of a prepared transfer with a peer or a file.
type task struct {
	number  int
	local   int // number of the own buffer
	peer    *peer
	file    *device.File
	objects *objects
	writes  func() // notes that the objects are in the store; nil if none is written
	notice  []byte // sent when the transfer is complete, if not nil
	noticed bool   // the notice was sent, in the current run
	busy    bool   // scratch space of announce
}

// name names the other end in messages.
func (t task) name() string {
	switch {
	case t.file != nil:
		return "file " + t.file.Path()
	case t.objects != nil:
		return "objects " + t.objects.key
	}
	return nixl.PeerName(t.number)
}

// gone reports whether the peer's process has ended.
func (t task) gone() bool { return t.peer != nil && t.peer.process.Gone() }

type batch struct {
	agent *agent
	c     *C.papi_batch // in C memory; nil after Release
	tasks []task
	// owners are the transfers that requests belong to: the library may not take a transfer in one.
	owners   []int
	bytes    int64
	prep     int64
	posted   bool
	broken   error // why the batch cannot run again
	stamps   []int64
	notices  int // tasks that have one
	released bool
}

func (a *agent) newBatch(transfers []nixl.Transfer) (*batch, error) {
	requests, room := a.requests(transfers)
	if room > 0 {
		// Of the whole, for errors that count its descriptors.
		for _, t := range transfers {
			if _, _, _, err := a.other(t); err != nil {
				return nil, err
			}
		}
	}
	b, err := a.allocBatch(len(transfers), len(requests), room)
	if err != nil {
		return nil, err
	}
	for i, r := range requests {
		task, req, err := b.prepare(r.Transfer)
		if err != nil {
			return nil, errors.Join(err, b.Release())
		}
		if room > 0 && r.Peer == nixl.Self {
			C.set_weight(b.c, C.int64_t(i), C.uint32_t(len(r.Local)))
		}
		b.add(i, r.owner, task, req, r.Notice, r.Bytes())
	}
	return b, nil
}

// allocBatch returns a batch without requests; room is papi_batch_new's.
func (a *agent) allocBatch(transfers, requests, room int) (*batch, error) {
	b := &batch{agent: a, c: C.papi_batch_new(a.c, C.int64_t(requests), C.int64_t(room))}
	if b.c == nil {
		return nil, fault.New(fault.Resource, "no memory for %d transfers", transfers)
	}
	a.batches[b] = struct{}{}
	b.tasks = make([]task, transfers)
	return b, nil
}

// add takes request number i, of the transfer owner.
func (b *batch) add(i, owner int, t task, req unsafe.Pointer, notice []byte, bytes int64) {
	C.set_req(b.c, C.int64_t(i), req)
	if notice != nil {
		t.notice = slices.Clone(notice)
		b.notices++
	}
	b.tasks[owner] = t
	b.owners = append(b.owners, owner)
	b.bytes += bytes
}

// uses reports whether a transfer is with this peer.
func (b *batch) uses(peer int) bool {
	return slices.ContainsFunc(b.tasks, func(t task) bool { return t.peer != nil && t.number == peer })
}

// prepare checks a transfer and makes the library's request of it.
func (b *batch) prepare(t nixl.Transfer) (task, unsafe.Pointer, error) {
	k, there, name, err := b.agent.other(t)
	if err != nil {
		return k, nil, err
	}
	local := b.agent.buffers[t.LocalBuffer]
	here := local.side()
	var req unsafe.Pointer
	var took C.int64_t
	// nixl.Desc has the layout of papi_desc.
	status := C.papi_prepare(b.agent.c, operation(t.Op), here, (*C.papi_desc)(unsafe.Pointer(&t.Local[0])),
		there, (*C.papi_desc)(unsafe.Pointer(&t.Remote[0])), C.size_t(len(t.Local)), name, &req, &took)
	b.prep += int64(took)
	if status < 0 {
		return k, nil, fail(status, "preparing %d descriptors with %s", len(t.Local), k.name())
	}
	return k, req, nil
}

// other checks a transfer and finds what is at its other end, and the name of the agent that has it.
func (a *agent) other(t nixl.Transfer) (task, C.papi_side, *C.char, error) {
	none := C.papi_side{}
	k := task{number: t.Peer, local: t.LocalBuffer}
	if t.LocalBuffer < 0 || t.LocalBuffer >= len(a.buffers) {
		return k, none, nil, fmt.Errorf("transfer with %s: no local buffer %d", k.name(), t.LocalBuffer)
	}
	local := a.buffers[t.LocalBuffer]
	if local.remote() {
		return k, none, nil, fmt.Errorf("transfer with %s: local buffer %d is a file; "+
			"files are at the remote end, with Peer Self", k.name(), t.LocalBuffer)
	}
	if t.Peer == nixl.Self {
		return a.ownFile(t, local)
	}
	p := a.peers[t.Peer]
	if p == nil {
		return k, none, nil, fmt.Errorf("peer %d was not added", t.Peer)
	}
	if t.RemoteBuffer < 0 || t.RemoteBuffer >= len(p.card.buffers) {
		return k, none, nil, fmt.Errorf("transfer with peer %d: it has no buffer %d", t.Peer, t.RemoteBuffer)
	}
	remote := p.card.buffers[t.RemoteBuffer]
	if err := t.Check(local.Size(), remote.size); err != nil {
		return k, none, nil, err
	}
	if p.process.Gone() {
		return k, none, nil, gone(t.Peer)
	}
	k.peer = p
	return k, remote.side(), p.name, nil
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
func (b *batch) Prep() int64  { return b.prep }

// Measured implements nixl.Measured where the user has the library count: it stores the bytes of the last run of each
// request.
func (b *batch) Measured() (int64, bool) {
	if b.released || b.posted || b.broken != nil || !TelemetryOf(os.Getenv).On {
		return 0, false
	}
	var bytes C.uint64_t
	status := C.papi_measured(b.c, &bytes)
	return int64(bytes), status == 0
}

// usable returns an error if the batch must not be started.
func (b *batch) usable() error {
	if err := nixl.Usable("nixl", b.broken, b.released, b.posted); err != nil {
		return err
	}
	for _, t := range b.tasks {
		if t.gone() {
			b.broken = gone(t.number)
			return b.broken
		}
		if t.writes != nil {
			t.writes()
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
	if times == nil && b.notices == 0 {
		return b.run(ctl, n, nil)
	}
	if times != nil && len(times) != n {
		return fmt.Errorf("nixl: %d runs but room for %d stamps", n, len(times))
	}
	if b.notices > 0 {
		return b.runWithNotices(ctl, n, times)
	}
	width := 3 + len(b.owners)
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
			b.unpack(&times[done+i], stamps[i*width:(i+1)*width])
		}
		done += k
	}
	return nil
}

func (b *batch) unpack(t *nixl.Times, stamps []int64) {
	t.Start, t.Posted, t.End = stamps[0], stamps[1], stamps[2]
	b.stamp(t, stamps[3:])
}

// stamp sets when each transfer was complete: with its last request.
func (b *batch) stamp(t *nixl.Times, done []int64) {
	if len(t.Done) != len(b.tasks) {
		return
	}
	clear(t.Done)
	for i, at := range done {
		owner := b.owners[i]
		t.Done[owner] = max(t.Done[owner], at)
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

// outcome turns a status into an error, and keeps the batch from running again unless it is success.
func (b *batch) outcome(status C.int) error {
	switch {
	case status == 0:
		return nil
	case status == C.PAPI_ABORTED:
		b.broken = nixl.ErrAborted
	case status == C.PAPI_LATE:
		b.broken = &nixl.TimeoutError{Peers: b.pending()}
	default:
		t := b.tasks[b.owners[b.c.failed]]
		b.broken = t.failed(status)
	}
	return b.broken
}

// failed says why a transfer failed. The library does not say what is wrong with a file, so the file is asked.
func (t task) failed(status C.int) error {
	if t.gone() {
		return gone(t.number)
	}
	err := fail(status, "transfer with %s", t.name())
	if t.peer != nil && t.peer.process == nil {
		return fault.New(fault.Engine, "%w", err).WithHint("has the network between the two failed, if only for seconds? %s",
			fault.HintOf(err))
	}
	if t.objects != nil {
		return fault.New(fault.Engine, "%w", err).WithHint("%s", backendHint(t.objects.agent.backendForFiles()))
	}
	if t.file == nil {
		return err
	}
	if why := t.file.Trouble(); why != "" {
		return fault.New(fault.Resource, "%w: %s", err, why).WithHint("use another file or folder")
	}
	return err
}

// pending lists the peers whose transfers are not complete.
func (b *batch) pending() []int {
	var peers []int
	for _, i := range unsafe.Slice(b.c.order, b.c.left) {
		peers = append(peers, b.tasks[b.owners[i]].number)
	}
	for _, owner := range b.owners[b.c.next:] {
		peers = append(peers, b.tasks[owner].number)
	}
	slices.Sort(peers)
	return slices.Compact(peers)
}

func (b *batch) Post() error {
	if err := b.usable(); err != nil {
		return err
	}
	for i := range b.tasks {
		b.tasks[i].noticed = false
	}
	if err := b.outcome(C.papi_post(b.c)); err != nil {
		return err
	}
	b.posted = true
	return b.announce()
}

func (b *batch) Done() (bool, error) {
	if !b.posted {
		return false, errors.New("nixl: the batch was not posted")
	}
	if err := b.outcome(C.papi_poll(b.c)); err != nil {
		b.posted = false
		return false, err
	}
	if err := b.announce(); err != nil {
		return false, err
	}
	return b.all(), nil
}

// all reports whether all requests were posted and seen complete.
func (b *batch) all() bool { return b.c.left == 0 && b.c.next == b.c.count }

func (b *batch) Wait(ctl nixl.Control, t *nixl.Times) error {
	if !b.posted {
		return errors.New("nixl: the batch was not posted")
	}
	err := b.complete(ctl)
	b.posted = false
	if err != nil {
		return err
	}
	if t == nil {
		return nil
	}
	t.Start, t.Posted, t.End = int64(b.c.start), int64(b.c.posted), int64(b.c.end)
	b.stamp(t, unsafe.Slice((*int64)(b.c.done), len(b.owners)))
	return nil
}

// releaseTimeout is how long Release waits for transfers that are under way before it has the
// library cancel them.
const releaseTimeout = 500 * time.Millisecond

func (b *batch) Release() error {
	if b.released {
		return nil
	}
	b.released = true
	delete(b.agent.batches, b)
	if b.posted {
		C.papi_wait(b.c, C.int64_t(clock.Now()+int64(releaseTimeout)), nil)
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
