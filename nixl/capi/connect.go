//go:build cgo

package capi

/*
#include <stdlib.h>
#include "papi.h"

static int local_metadata(papi_agent *a, void **data, size_t *size) {
	return a->api->get_local_md(a->agent, data, size);
}
static int load_metadata(papi_agent *a, const void *data, size_t size, char **name) {
	return a->api->load_remote_md(a->agent, data, size, name);
}
static int make_connection(papi_agent *a, const char *name) {
	return a->api->agent_make_connection(a->agent, name, NULL);
}
static int notify(papi_agent *a, const char *name, const void *data, size_t size) {
	return a->api->gen_notif(a->agent, name, data, size, NULL);
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
	"unsafe"

	"perigee/internal/fault"
)

// link is the state of the way to one agent. It outlives cards: the same agent
// keeps its name.
type link struct {
	name     *C.char // in C memory; nil while only notifications are known
	self     bool
	metadata []byte // what the library was last given
	wanted   bool   // Connect has named it
	sent     int    // rounds
	got      int
}

// rounds of notifications make a connection; see the package comment.
const rounds = 2

// greeting is a notification. The last byte is the round, counted from '1'.
const greeting = "perigee round 1"

func (l *link) connected() bool { return l.self || l.got >= rounds && l.sent >= rounds }

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
		return fail(status, "loading its metadata")
	}
	defer C.free(unsafe.Pointer(name))
	if got := C.GoString(name); got != c.name {
		return fmt.Errorf("the metadata of agent %q came in the card of agent %q", got, c.name)
	}
	return nil
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
		return fail(status, "connecting")
	}
	l.wanted = true
	return a.greet(l)
}

// greet sends the notifications that are due: the first at once, each other for one received.
func (a *agent) greet(l *link) error {
	for l.wanted && l.sent < rounds && l.sent <= l.got {
		message := []byte(greeting)
		message[len(message)-1] += byte(l.sent)
		if status := C.notify(a.c, l.name, unsafe.Pointer(&message[0]), C.size_t(len(message))); status < 0 {
			return fail(status, "greeting agent %s", C.GoString(l.name))
		}
		l.sent++
	}
	return nil
}

// receiveSize holds two greetings of each of more than a thousand agents with the longest of names. What
// does not fit is lost.
const receiveSize = 1 << 20

func (a *agent) Progress() error {
	if a.closed {
		return errClosed
	}
	if a.inbox == nil {
		a.inbox = make([]byte, receiveSize)
	}
	var used C.size_t
	status := C.papi_receive(a.c, (*C.uchar)(&a.inbox[0]), receiveSize, &used)
	if status < 0 {
		return fail(status, "receiving notifications")
	}
	a.sort(a.inbox[:used])
	for _, l := range a.links {
		if err := a.greet(l); err != nil {
			return err
		}
	}
	return nil
}

// sort notes the rounds that have come in.
func (a *agent) sort(inbox []byte) {
	for len(inbox) > 0 {
		var name, message []byte
		name, inbox = field(inbox)
		message, inbox = field(inbox)
		if len(message) != len(greeting) || string(message[:len(message)-1]) != greeting[:len(greeting)-1] {
			continue
		}
		l := a.links[string(name)]
		if l == nil {
			l = &link{}
			a.links[string(name)] = l
		}
		l.got = max(l.got, int(message[len(message)-1]-'0'))
	}
}

// field cuts off a byte with a length and that many bytes.
func field(b []byte) (part, rest []byte) {
	end := 1 + int(b[0])
	return b[1:end], b[end:]
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
