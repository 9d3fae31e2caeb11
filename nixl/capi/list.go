//go:build cgo

package capi

// #include "papi.h"
// #include <stdlib.h>
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"perigee/internal/kit/fault"
	"perigee/nixl"
)

// list is a prepared list of descriptors. The library copies what it needs into the requests made from
// it, so it can be released before them.
type list struct {
	agent    *agent
	number   int // of the peer, or nixl.Self
	buffer   int
	peer     *peer
	lengths  []int64
	handle   unsafe.Pointer // nil after Release
	prep     int64
	released bool
}

func (l *list) Len() int    { return len(l.lengths) }
func (l *list) Prep() int64 { return l.prep }

// Release implements nixl.List.
func (l *list) Release() error {
	if l.released {
		return nil
	}
	l.released = true
	delete(l.agent.lists, l)
	if l.handle != nil {
		C.papi_release_list(l.agent.c, l.handle)
		l.handle = nil
	}
	return nil
}

// PrepareList implements nixl.Agent.
func (a *agent) PrepareList(number, buffer int, descs []nixl.Desc) (nixl.List, error) {
	if a.closed {
		return nil, errClosed
	}
	l := &list{agent: a, number: number, buffer: buffer}
	side, name, size, err := a.side(l, buffer)
	if err != nil {
		return nil, fmt.Errorf("nixl: list of %s: %w", nixl.Owner(number), err)
	}
	if err := nixl.CheckDescs(descs, size); err != nil {
		return nil, fmt.Errorf("nixl: list of %s, buffer %d: %w", nixl.Owner(number), buffer, err)
	}
	l.lengths = make([]int64, len(descs))
	for i, d := range descs {
		l.lengths[i] = d.Len
	}
	var took C.int64_t
	status := C.papi_prepare_list(a.c, name, side, (*C.papi_desc)(unsafe.Pointer(&descs[0])),
		C.size_t(len(descs)), &l.handle, &took)
	l.prep = int64(took)
	if status < 0 {
		return nil, fail(status, "preparing a list of %d descriptors of %s", len(descs), nixl.Owner(number))
	}
	a.lists[l] = struct{}{}
	return l, nil
}

// noName stands for the agent's own memory. It is never freed.
var noName = C.CString("")

// side finds the buffer of a list.
func (a *agent) side(l *list, buffer int) (C.papi_side, *C.char, int64, error) {
	if l.number == nixl.Self {
		if buffer < 0 || buffer >= len(a.buffers) || a.buffers[buffer].remote() {
			return C.papi_side{}, nil, 0, fmt.Errorf("no buffer %d of memory", buffer)
		}
		b := a.buffers[buffer]
		return b.side(), noName, b.Size(), nil
	}
	p := a.peers[l.number]
	if p == nil {
		return C.papi_side{}, nil, 0, errors.New("it was not added")
	}
	if buffer < 0 || buffer >= len(p.card.buffers) {
		return C.papi_side{}, nil, 0, fmt.Errorf("it has no buffer %d", buffer)
	}
	if p.process.Gone() {
		return C.papi_side{}, nil, 0, fault.New(fault.RankLost, "its process is gone")
	}
	l.peer = p
	b := p.card.buffers[buffer]
	return b.side(), p.name, b.size, nil
}

// PickBatch implements nixl.Agent.
func (a *agent) PickBatch(picks []nixl.Pick) (nixl.Batch, error) {
	if a.closed {
		return nil, errClosed
	}
	b, err := a.allocBatch(len(picks), len(picks), 0)
	if err != nil {
		return nil, err
	}
	for i, p := range picks {
		task, req, bytes, err := b.pick(p)
		if err != nil {
			return nil, fmt.Errorf("nixl: pick %d: %w", i, errors.Join(err, b.Release()))
		}
		b.add(i, i, task, req, p.Notice, bytes)
	}
	return b, nil
}

// pick checks one pick and makes its request.
func (b *batch) pick(p nixl.Pick) (t task, req unsafe.Pointer, bytes int64, err error) {
	local, ok1 := p.Local.(*list)
	remote, ok2 := p.Remote.(*list)
	if !ok1 || !ok2 || local.agent != b.agent || remote.agent != b.agent {
		return t, nil, 0, errors.New("a list is not of this agent")
	}
	with := nixl.Owner(remote.number)
	switch {
	case local.released || remote.released:
		return t, nil, 0, fmt.Errorf("transfer with %s: a list was released", with)
	case local.number != nixl.Self || remote.number == nixl.Self:
		return t, nil, 0, fmt.Errorf("transfer with %s: want a local list of own memory and a remote one of a peer",
			with)
	case remote.peer.process.Gone():
		return t, nil, 0, gone(remote.number)
	}
	bytes, err = nixl.CheckPick(p, local.lengths, remote.lengths)
	if err != nil {
		return t, nil, 0, fmt.Errorf("transfer with %s: %w", with, err)
	}
	t = task{number: remote.number, local: local.buffer, peer: remote.peer}
	var took C.int64_t
	status := C.papi_pick(b.agent.c, operation(p.Op), local.handle, (*C.int32_t)(&p.LocalIndex[0]),
		remote.handle, (*C.int32_t)(&p.RemoteIndex[0]), C.size_t(len(p.LocalIndex)), &req, &took)
	b.prep += int64(took)
	if status < 0 {
		return t, nil, 0, fail(status, "picking %d descriptors with %s", len(p.LocalIndex), with)
	}
	return t, req, bytes, nil
}
