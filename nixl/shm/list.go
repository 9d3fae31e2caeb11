package shm

import (
	"errors"
	"fmt"
	"slices"

	"perigee/internal/kit/clock"
	"perigee/nixl"
)

// list is a prepared list of descriptors: the pieces of memory themselves.
type list struct {
	agent    *agent
	number   int // of the peer, or nixl.Self
	peer     *peer
	pieces   [][]byte
	lengths  []int64
	prep     int64
	released bool
}

func (l *list) Len() int    { return len(l.lengths) }
func (l *list) Prep() int64 { return l.prep }

// Release implements nixl.List.
func (l *list) Release() error {
	l.released, l.pieces = true, nil
	delete(l.agent.lists, l)
	return nil
}

// PrepareList implements nixl.Agent.
func (a *agent) PrepareList(number, buffer int, descs []nixl.Desc) (nixl.List, error) {
	if a.closed {
		return nil, errClosed
	}
	l := &list{agent: a, number: number}
	size, memory, err := a.side(l, buffer)
	if err != nil {
		return nil, fmt.Errorf("shm: list of %s: %w", nixl.Owner(number), err)
	}
	if err := nixl.CheckDescs(descs, size); err != nil {
		return nil, fmt.Errorf("shm: list of %s, buffer %d: %w", nixl.Owner(number), buffer, err)
	}
	data, err := memory()
	if err != nil {
		return nil, fmt.Errorf("shm: list of %s: %w", nixl.Owner(number), err)
	}
	start := clock.Now()
	l.pieces, l.lengths = make([][]byte, len(descs)), make([]int64, len(descs))
	for i, d := range descs {
		l.pieces[i], l.lengths[i] = data[d.Off:d.Off+d.Len:d.Off+d.Len], d.Len
	}
	l.prep = clock.Now() - start
	a.lists[l] = struct{}{}
	return l, nil
}

// side finds the buffer of a list, and how to get at its memory once the descriptors were checked.
func (a *agent) side(l *list, buffer int) (size int64, memory func() ([]byte, error), err error) {
	if l.number == nixl.Self {
		if buffer < 0 || buffer >= len(a.buffers) || a.buffers[buffer].file() != nil {
			return 0, nil, fmt.Errorf("no buffer %d of memory", buffer)
		}
		data := a.buffers[buffer].Bytes()
		return int64(len(data)), func() ([]byte, error) { return data, nil }, nil
	}
	p := a.peers[l.number]
	if p == nil {
		return 0, nil, errors.New("it was not added")
	}
	if buffer < 0 || buffer >= len(p.card.buffers) {
		return 0, nil, fmt.Errorf("it has no buffer %d", buffer)
	}
	l.peer = p
	return p.card.buffers[buffer].size, func() ([]byte, error) { return a.reach(p, buffer) }, nil
}

// PickBatch implements nixl.Agent.
func (a *agent) PickBatch(picks []nixl.Pick) (nixl.Batch, error) {
	if a.closed {
		return nil, errClosed
	}
	tasks := make([]task, 0, len(picks))
	for i, p := range picks {
		k, err := a.pick(p)
		if err != nil {
			return nil, fmt.Errorf("shm: pick %d: %w", i, err)
		}
		tasks = append(tasks, k)
	}
	return a.batchOf(tasks), nil
}

// pick checks one pick and pairs its pieces.
func (a *agent) pick(p nixl.Pick) (task, error) {
	local, ok1 := p.Local.(*list)
	remote, ok2 := p.Remote.(*list)
	if !ok1 || !ok2 || local.agent != a || remote.agent != a {
		return task{}, errors.New("a list is not of this agent")
	}
	with := nixl.Owner(remote.number)
	switch {
	case local.released || remote.released:
		return task{}, fmt.Errorf("transfer with %s: a list was released", with)
	case local.number != nixl.Self || remote.number == nixl.Self:
		return task{}, fmt.Errorf("transfer with %s: want a local list of own memory and a remote one of a peer", with)
	}
	bytes, err := nixl.CheckPick(p, local.lengths, remote.lengths)
	if err != nil {
		return task{}, fmt.Errorf("transfer with %s: %w", with, err)
	}
	start := clock.Now()
	k := task{number: remote.number, op: p.Op, peer: remote.peer, notice: slices.Clone(p.Notice), bytes: bytes}
	k.pieces = make([]piece, len(p.LocalIndex))
	for i, index := range p.LocalIndex {
		k.pieces[i] = pair(p.Op, local.pieces[index], remote.pieces[p.RemoteIndex[i]])
	}
	k.prep = clock.Now() - start
	return k, nil
}

// pair says which side is copied to which.
func pair(op nixl.Op, here, there []byte) piece {
	if op == nixl.Write {
		return piece{dst: there, src: here}
	}
	return piece{dst: here, src: there}
}
