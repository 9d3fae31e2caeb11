//go:build cgo

package capi

/*
#include <stdlib.h>
#include "papi.h"

static void set_only(papi_batch *b, void *req) { b->reqs[0] = req; }
*/
import "C"

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/nixl/internal/kernel"
)

// objects is a buffer in an object store. The library writes whole objects only, so each block is one: its key is
// KEY-LENGTH-NUMBER, as in perigee-4096-17. Blocks of a batch have one length, and blocks of another length are other
// objects. The library removes none, so they stay.
type objects struct {
	agent *agent
	key   string
	size  int64
	block int64            // length of the blocks of the last batch
	kinds map[int64]*equal // by length
}

// equal are the objects of one length.
type equal struct {
	device uint64           // of object 0; the next has the next number
	lists  []unsafe.Pointer // registrations
	known  int64            // how many are registered
	stored int64            // how many of these are in the store
}

// openObjects returns objects under a key. They come to the store when they are written, or are to be read.
func (a *agent) openObjects(f nixl.File) (device.Memory, error) {
	switch {
	case f.Direct:
		return nil, fault.New(fault.Usage, "direct I/O is for files, and %s has objects", a.backendForFiles())
	case !f.Make:
		return nil, fault.New(fault.Input, "%s is a file that is there, and %s makes objects under the names of new files",
			f.Path, a.backendForFiles()).WithHint("name a folder, or what does not exist: it begins the keys of the objects")
	}
	return &objects{agent: a, key: strings.TrimPrefix(f.Path, "/"), size: f.Size, kinds: map[int64]*equal{}}, nil
}

// The methods of device.Memory.

func (o *objects) Mem() nixl.Mem    { return nixl.FILE }
func (o *objects) Size() int64      { return o.size }
func (o *objects) Address() uintptr { return 0 }
func (o *objects) Device() uint64   { return 0 }
func (o *objects) Bytes() []byte    { return nil }
func (o *objects) Free() error      { o.size = 0; return nil }

// ReadAt reads those blocks that p overlaps.
func (o *objects) ReadAt(p []byte, off int64) (int, error) {
	return o.each(p, off, func(memory []byte, number int64, part, within []byte) error {
		err := o.move(nixl.Read, number, memory)
		copy(part, within)
		return err
	})
}

// WriteAt writes those blocks that p overlaps. What p has not of a block becomes 0 if the block was not there.
func (o *objects) WriteAt(p []byte, off int64) (int, error) {
	return o.each(p, off, func(memory []byte, number int64, part, within []byte) error {
		clear(memory)
		if len(part) < len(memory) && number < o.kinds[o.block].stored {
			if err := o.move(nixl.Read, number, memory); err != nil {
				return err
			}
		}
		copy(within, part)
		return o.move(nixl.Write, number, memory)
	})
}

// each calls f for the blocks that p overlaps: with memory for a block, its number, the part of p, and the same part of
// the memory.
func (o *objects) each(p []byte, off int64, f func(memory []byte, number int64, part, within []byte) error,
) (int, error) {
	if err := nixl.CheckAccess(off, len(p), o.size); err != nil {
		return 0, err
	}
	if o.block == 0 {
		return 0, errors.New("objects have no length before a batch has been prepared")
	}
	memory := make([]byte, o.block)
	for done := int64(0); done < int64(len(p)); {
		number, at := (off+done)/o.block, (off+done)%o.block
		n := min(o.block-at, int64(len(p))-done)
		if err := o.register(number + 1); err != nil {
			return int(done), err
		}
		if err := f(memory, number, p[done:done+n], memory[at:at+n]); err != nil {
			return int(done), err
		}
		done += n
	}
	return len(p), nil
}

// use takes the length of the blocks of a transfer, and registers and, for a Read, stores them. A Write calls writes.
func (o *objects) use(t nixl.Transfer) (writes func(), err error) {
	most, block := int64(0), t.Remote[0].Len
	for k, d := range t.Remote {
		if d.Len != block || d.Off%block != 0 {
			return nil, fault.New(fault.Input, "objects %s, descriptor %d: %d bytes at offset %d: wanted blocks of one length at multiples of it",
				o.key, k, d.Len, d.Off).WithHint("an object is written as a whole; files have no such limit: --backend POSIX")
		}
		most = max(most, d.Off/block+1)
	}
	o.block = block
	if err := o.register(most); err != nil {
		return nil, err
	}
	kind := o.kinds[block]
	if t.Op == nixl.Write {
		return func() { kind.stored = max(kind.stored, most) }, nil
	}
	noise := make([]byte, block)
	rand.Read(noise)
	for kind.stored < most {
		if err := o.move(nixl.Write, kind.stored, noise); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// register makes the first objects of the length known to the library.
func (o *objects) register(count int64) error {
	kind := o.kinds[o.block]
	if kind == nil {
		const most = 1 << 32 // objects of a length
		o.agent.objectKinds++
		kind = &equal{device: o.agent.objectKinds * most}
		o.kinds[o.block] = kind
	}
	if count <= kind.known {
		return nil
	}
	prefix := C.CString(fmt.Sprintf("%s-%d", o.key, o.block))
	defer C.free(unsafe.Pointer(prefix))
	var list unsafe.Pointer
	status := C.papi_register_objects(o.agent.c, C.uint64_t(kind.device), C.uint64_t(kind.known),
		C.uint64_t(count-kind.known), C.size_t(o.block), prefix, &list)
	if status < 0 {
		return fail(status, "registering %d objects with %s", count-kind.known, o.agent.files())
	}
	kind.lists, kind.known = append(kind.lists, list), count
	return nil
}

// deregister forgets all objects.
func (o *objects) deregister() (errs []error) {
	for _, kind := range o.kinds {
		for _, list := range kind.lists {
			if status := C.papi_deregister(o.agent.c, true, list); status < 0 {
				errs = append(errs, fail(status, "deregistering objects"))
			}
		}
		kind.lists, kind.known = nil, 0
	}
	return errs
}

// side is the objects as one side of a transfer.
func (o *objects) side() C.papi_side {
	return C.papi_side{dev: C.uint64_t(o.kinds[o.block].device), mem: C.PAPI_OBJECT, block: C.int64_t(o.block)}
}

// patience bounds the move of one object, which is not part of any measurement.
const patience = time.Minute

// move reads a block to memory, or writes it, without being timed.
func (o *objects) move(op nixl.Op, number int64, p []byte) error {
	host, err := device.Host(o.block, nixl.HugeOff)
	if err != nil {
		return err
	}
	scratch := &buffer{Memory: host, agent: o.agent, id: -1}
	if err := scratch.registerForFiles(); err != nil {
		return errors.Join(err, host.Free())
	}
	defer func() { errors.Join(scratch.deregister(), host.Free()) }()
	if op == nixl.Write {
		copy(host.Bytes(), p)
	}
	here := C.papi_desc{len: C.int64_t(o.block)}
	there := C.papi_desc{off: C.int64_t(number * o.block), len: here.len}
	var req unsafe.Pointer
	var took C.int64_t
	name := fmt.Sprintf("object %s-%d-%d", o.key, o.block, number)
	if status := C.papi_prepare(o.agent.c, operation(op), scratch.side(), &here, o.side(), &there, 1, o.agent.name,
		&req, &took); status < 0 {
		return fail(status, "preparing a %s of %s", op, name)
	}
	b := C.papi_batch_new(o.agent.c, 1, 0)
	if b == nil {
		return fault.New(fault.Resource, "no memory for a transfer")
	}
	C.set_only(b, req)
	status := C.papi_post(b)
	if status >= 0 {
		status = C.papi_wait(b, C.int64_t(clock.Now()+int64(patience)), nil)
	}
	C.papi_batch_free(b)
	C.papi_release(o.agent.c, req)
	switch {
	case status == C.PAPI_LATE:
		return fault.New(fault.Engine, "%s of %s (%s) was not complete after %v", op, name,
			kernel.Human(o.block), patience)
	case status < 0:
		return fault.New(fault.Engine, "%w", fail(status, "%s of %s", op, name)).
			WithHint("%s", backendHint(o.agent.backendForFiles()))
	}
	if op == nixl.Read {
		copy(p, host.Bytes())
	} else {
		kind := o.kinds[o.block]
		kind.stored = max(kind.stored, number+1)
	}
	return nil
}
