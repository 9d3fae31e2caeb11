//go:build cgo

package capi

/*
#include <stdlib.h>
#include "papi.h"

static int local_metadata(papi_agent *a, void **data, size_t *size) {
	papi_enter(a);
	return a->api->get_local_md(a->agent, data, size);
}
static int load_metadata(papi_agent *a, const void *data, size_t size, char **name) {
	papi_enter(a);
	return a->api->load_remote_md(a->agent, data, size, name);
}
static int invalidate(papi_agent *a, const char *name) {
	papi_enter(a);
	return a->api->invalidate_remote_md(a->agent, name);
}
static int make_connection(papi_agent *a, const char *name) {
	papi_enter(a);
	return a->api->agent_make_connection(a->agent, name, NULL);
}
static void set_hook(papi_agent *a, void *f, void *context) {
	*(void **)&a->enter = f;
	a->context = context;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"perigee/internal/kit/fault"
	"perigee/nixl/internal/kernel"
)

// link is the state of the connection to one agent. It outlives cards and reconnections: the same agent
// keeps its name.
//
// An epoch numbers the connections that one agent has made to the other; it is the time of Connect. A hello
// carries the sender's epoch, an answer the epoch of the hello that it answers. The numbers keep what is left over
// of an earlier connection from being taken for a sign of the current one.
type link struct {
	name     *C.char // in C memory; nil while only notifications are known
	self     bool
	number   int    // of the peer that has this name, or notAdded
	metadata []byte // what the library was last given, nil if nothing

	wanted   bool  // Connect has named it
	epoch    int64 // of this side, 0 before Connect
	greeted  bool  // the hello of epoch was sent
	heard    int64 // the peer's epoch in its latest hello
	replied  int64 // the peer's epoch that was answered last
	answered int64 // the epoch of this side that the peer answered last

	sent  uint64 // notices sent in epoch
	inbox inbox
}

const notAdded = -1

// connected reports whether messages arrive in both directions; see the package comment.
func (l *link) connected() bool {
	return l.self || l.epoch != 0 && l.answered == l.epoch && l.heard != 0 && l.replied == l.heard
}

func (a *agent) localMetadata(data *unsafe.Pointer, size *C.size_t) C.int {
	return C.local_metadata(a.c, data, size)
}

func (a *agent) setHook(f, context unsafe.Pointer) { C.set_hook(a.c, f, context) }

// loadMetadata gives a peer's metadata to the library.
func (a *agent) loadMetadata(c card) error {
	data := C.CBytes(c.metadata)
	defer C.free(data)
	var name *C.char
	status := C.load_metadata(a.c, data, C.size_t(len(c.metadata)), &name)
	if status < 0 {
		return a.unreachable(fail(status, "loading its metadata"), c)
	}
	defer C.free(unsafe.Pointer(name))
	if got := C.GoString(name); got != c.name {
		return fmt.Errorf("the metadata of agent %q came in the card of agent %q", got, c.name)
	}
	return nil
}

// unreachable adds to the failure of an agent of another host which devices UCX had on both sides.
func (a *agent) unreachable(failed error, c card) error {
	if a.cfg.OneHost || !a.engine.usesUCX() {
		return failed
	}
	return fault.New(fault.Engine, "%w; the network devices that UCX could use: %s here, %s there", failed, a.lanes, c.lanes).
		WithHint("UCX takes what is up as a rank starts: bring adapters up before, and compare UCX_NET_DEVICES of the hosts; %s",
			fault.HintOf(failed))
}

// link finds the link of an agent's name, or makes it.
func (a *agent) link(name string) *link {
	l := a.links[name]
	if l == nil {
		l = &link{number: notAdded, self: name == a.cfg.Name}
		a.links[name] = l
	}
	return l
}

func (a *agent) Connect(peers []int) error {
	if a.closed {
		return errClosed
	}
	for _, number := range peers {
		if err := a.connect(number); err != nil {
			return fmt.Errorf("nixl: peer %d: %w", number, err)
		}
	}
	return nil
}

func (a *agent) connect(number int) error {
	p := a.peers[number]
	if p == nil {
		return errors.New("it was not added")
	}
	if err := a.attachable(p); err != nil {
		return err
	}
	l := a.links[p.card.name]
	if l.wanted || l.self {
		return nil
	}
	if status := C.make_connection(a.c, l.name); status < 0 {
		return a.unreachable(fail(status, "connecting"), p.card)
	}
	l.wanted, l.epoch, l.greeted, l.sent = true, time.Now().UnixNano(), false, 0
	return a.greet(l)
}

// greet sends the hello and the answer that are due.
func (a *agent) greet(l *link) error {
	if !l.wanted {
		return nil
	}
	if !l.greeted {
		if err := a.send(l, kindHello, l.epoch, 0, nil); err != nil {
			return fmt.Errorf("greeting agent %s: %w", C.GoString(l.name), err)
		}
		l.greeted = true
	}
	if l.replied != l.heard {
		if err := a.send(l, kindAnswer, l.heard, 0, nil); err != nil {
			return fmt.Errorf("answering agent %s: %w", C.GoString(l.name), err)
		}
		l.replied = l.heard
	}
	return nil
}

func (a *agent) Progress() error {
	if a.closed {
		return errClosed
	}
	return a.fetch()
}

func (a *agent) Connected() (bool, error) {
	if a.closed {
		return false, errClosed
	}
	for number, p := range a.peers {
		l := a.links[p.card.name]
		if !l.wanted || l.connected() {
			continue
		}
		if p.process.Gone() {
			return false, fault.New(fault.RankLost, "nixl: peer %d: its process is gone", number)
		}
		return false, nil
	}
	return true, nil
}

// Disconnect implements nixl.Agent. What the library keeps of the peer goes after everything that
// refers to it: requests hold pointers into the peer's metadata.
func (a *agent) Disconnect(peers []int) error {
	if a.closed {
		return errClosed
	}
	var errs []error
	for _, number := range peers {
		p := a.peers[number]
		if p == nil {
			continue
		}
		if err := a.disconnect(number, a.links[p.card.name]); err != nil {
			errs = append(errs, fmt.Errorf("nixl: peer %d: %w", number, err))
		}
	}
	return errors.Join(errs...)
}

func (a *agent) disconnect(number int, l *link) error {
	var errs []error
	for b := range a.batches {
		if b.uses(number) {
			errs = append(errs, b.Release())
			b.broken = disconnected(number)
		}
	}
	for list := range a.lists {
		if list.number == number {
			errs = append(errs, list.Release())
		}
	}
	delete(a.peers, number)
	a.forget()
	for other, p := range a.peers {
		if p.name == l.name { // one agent under two numbers
			l.number = other
			return errors.Join(errs...)
		}
	}
	a.queued -= len(l.inbox.queue)
	// What the peer has sent in this connection, and still sends, is dropped when it comes.
	l.inbox = inbox{epoch: l.heard + 1}
	l.number, l.metadata, l.wanted, l.epoch, l.answered, l.replied = notAdded, nil, false, 0, 0, 0
	if l.self {
		return errors.Join(errs...)
	}
	if status := C.invalidate(a.c, l.name); status < 0 {
		errs = append(errs, fail(status, "dropping its metadata"))
	}
	return errors.Join(errs...)
}

// forget ends the watches of processes that no peer has any more.
func (a *agent) forget() {
	used := map[*kernel.Watched]bool{}
	for _, p := range a.peers {
		used[p.process] = true
	}
	for b := range a.batches {
		for _, t := range b.tasks {
			if t.peer != nil {
				used[t.peer.process] = true
			}
		}
	}
	for id, w := range a.processes {
		if !used[w] {
			w.Stop()
			delete(a.processes, id)
		}
	}
}

func disconnected(peer int) error {
	return fault.New(fault.Internal, "peer %d was disconnected", peer)
}
