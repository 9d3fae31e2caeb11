//go:build cgo

package capi

/*
#include "papi.h"

static int notify(papi_agent *a, const char *name, const void *data, size_t size) {
	papi_enter(a);
	return a->api->gen_notif(a->agent, name, data, size, NULL);
}
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"perigee/internal/kit/fault"
	"perigee/nixl"
)

// A notification between agents of perigee, in little-endian order:
//
//	magic "pg", version byte, kind byte, epoch int64, sequence uint64, message
//
// The library's progress thread and its callers receive into two queues, so notifications can overtake each
// other by a few places; the sequence restores the order.
const (
	noticeMagic  = "pg\x01"
	kindHello    = 'H'
	kindAnswer   = 'A'
	kindNotice   = 'N'
	noticeHeader = len(noticeMagic) + 1 + 8 + 8
)

// inbox holds the messages of one agent that the scenario has not received yet.
type inbox struct {
	epoch int64 // of the sender's connection that next counts in
	next  uint64
	early map[uint64][]byte // messages whose predecessors are still missing
	queue [][]byte
}

// add takes a message of an epoch at its place, and returns how many became receivable.
func (b *inbox) add(epoch int64, sequence uint64, message []byte) int {
	switch {
	case epoch < b.epoch:
		return 0 // of an earlier connection
	case epoch > b.epoch:
		b.epoch, b.next, b.early = epoch, 0, nil
	}
	if sequence != b.next {
		if b.early == nil {
			b.early = map[uint64][]byte{}
		}
		b.early[sequence] = message
		return 0
	}
	before := len(b.queue)
	for ok := true; ok; message, ok = b.early[b.next] {
		delete(b.early, b.next)
		b.queue = append(b.queue, message)
		b.next++
	}
	return len(b.queue) - before
}

// send hands one notification to the library, which copies it.
func (a *agent) send(l *link, kind byte, epoch int64, sequence uint64, message []byte) error {
	m := append(a.outgoing[:0], noticeMagic...)
	m = append(m, kind)
	m = binary.LittleEndian.AppendUint64(m, uint64(epoch))
	m = binary.LittleEndian.AppendUint64(m, sequence)
	a.outgoing = append(m, message...)
	status := C.notify(a.c, l.name, unsafe.Pointer(&a.outgoing[0]), C.size_t(len(a.outgoing)))
	if status < 0 {
		return fail(status, "sending a notification")
	}
	return nil
}

// Notify implements nixl.Agent.
func (a *agent) Notify(number int, message []byte) error {
	if a.closed {
		return errClosed
	}
	p := a.peers[number]
	if p == nil {
		return fmt.Errorf("nixl: notice to peer %d: it was not added", number)
	}
	if err := nixl.CheckNotice(message); err != nil {
		return fmt.Errorf("nixl: peer %d: %w", number, err)
	}
	if p.process.Gone() {
		return fault.New(fault.RankLost, "notice to peer %d: its process is gone", number)
	}
	l := a.links[p.card.name]
	if l.self {
		l.inbox.queue = append(l.inbox.queue, slices.Clone(message))
		a.queued++
		return nil
	}
	if !l.wanted {
		return fmt.Errorf("nixl: notice to peer %d: it was not connected", number)
	}
	if err := a.send(l, kindNotice, l.epoch, l.sent, message); err != nil {
		return fmt.Errorf("nixl: notice to peer %d: %w", number, err)
	}
	l.sent++
	return nil
}

// Receive implements nixl.Agent.
func (a *agent) Receive(into []nixl.Notice) ([]nixl.Notice, error) {
	if a.closed {
		return into, errClosed
	}
	if err := a.fetch(); err != nil {
		return into, err
	}
	if a.queued == 0 {
		return into, nil
	}
	for _, l := range a.links {
		if l.number == notAdded {
			continue
		}
		for _, message := range l.inbox.queue {
			into = append(into, nixl.Notice{Peer: l.number, Data: message})
		}
		a.queued -= len(l.inbox.queue)
		l.inbox.queue = l.inbox.queue[:0]
		if a.queued == 0 {
			break
		}
	}
	return into, nil
}

// fetch makes progress, takes what has arrived, and answers the greetings in it.
func (a *agent) fetch() error {
	if status := C.papi_fetch(a.c); status < 0 {
		return fail(status, "receiving notifications")
	}
	if a.c.mailed == 0 || !a.sort(unsafe.Slice((*byte)(a.c.mail), a.c.mailed)) {
		return nil
	}
	for _, l := range a.links {
		if err := a.greet(l); err != nil {
			return err
		}
	}
	return nil
}

// sort assigns notifications to their senders, and reports whether there are greetings among them.
func (a *agent) sort(incoming []byte) (greetings bool) {
	for len(incoming) > 0 {
		var name, message []byte
		name, incoming = field(incoming)
		message, incoming = field(incoming)
		if len(message) < noticeHeader || string(message[:len(noticeMagic)]) != noticeMagic {
			continue
		}
		l := a.links[string(name)] // without a copy of the name
		if l == nil {
			l = a.link(string(name))
		}
		kind := message[len(noticeMagic)]
		epoch := int64(binary.LittleEndian.Uint64(message[len(noticeMagic)+1:]))
		switch kind {
		case kindHello:
			l.heard, greetings = max(l.heard, epoch), true
		case kindAnswer:
			l.answered, greetings = max(l.answered, epoch), true
		case kindNotice:
			sequence := binary.LittleEndian.Uint64(message[noticeHeader-8:])
			a.queued += l.inbox.add(epoch, sequence, slices.Clone(message[noticeHeader:]))
		}
	}
	return greetings
}

// field cuts off a length and that many bytes.
func field(b []byte) (part, rest []byte) {
	end := 4 + int(binary.NativeEndian.Uint32(b))
	return b[4:end], b[end:]
}

// runWithNotices is Run of a batch with notices. They differ in their sequence from run to run, so the library
// cannot send them with requests that were prepared once.
func (b *batch) runWithNotices(ctl nixl.Control, n int, times []nixl.Times) error {
	for i := range n {
		if err := b.Post(); err != nil {
			return err
		}
		var t *nixl.Times
		if times != nil {
			t = &times[i]
		}
		if err := b.Wait(ctl, t); err != nil {
			return err
		}
	}
	return nil
}

// complete waits for all posted transfers. With notices each leaves as soon as its transfer is complete.
func (b *batch) complete(ctl nixl.Control) error {
	if b.notices == 0 {
		return b.outcome(C.papi_wait(b.c, C.int64_t(ctl.Deadline), (*C.uint32_t)(ctl.Abort)))
	}
	if b.all() {
		return nil // as with what is copied while it is posted
	}
	err := nixl.Poll(ctl, b.Done)
	if errors.Is(err, nixl.ErrAborted) || errors.Is(err, nixl.ErrDeadline) {
		return b.outcome(map[bool]C.int{true: C.PAPI_ABORTED, false: C.PAPI_LATE}[errors.Is(err, nixl.ErrAborted)])
	}
	return err
}

// announce sends the notices of the transfers that have become complete.
func (b *batch) announce() error {
	if b.notices == 0 {
		return nil
	}
	for i := range b.tasks {
		b.tasks[i].busy = false
	}
	for _, i := range unsafe.Slice(b.c.order, b.c.left) {
		b.tasks[b.owners[i]].busy = true
	}
	for i := range b.tasks {
		t := &b.tasks[i]
		if t.notice == nil || t.noticed || t.busy {
			continue
		}
		if err := b.agent.Notify(t.number, t.notice); err != nil {
			b.broken = err
			return err
		}
		t.noticed = true
	}
	return nil
}
