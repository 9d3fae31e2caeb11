package traffictest

import (
	"fmt"
	"strings"

	"perigee/nixl"
)

// Damaged is an engine one of whose ranks damages what passes it.
type Damaged struct {
	Engine
	Rank   int
	Buffer int            // ID of the buffer that Flips are in; a file counts too
	Flips  map[int64]byte // bits that reads at these offsets see inverted
	// Lost is the peer to which nothing is moved while Losing is set.
	Lost   int
	Losing bool
}

// NewAgent makes an agent, which at the damaging rank is not what it seems.
func (d *Damaged) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	a, err := d.Engine.NewAgent(cfg)
	if err != nil || !strings.HasPrefix(cfg.Name, fmt.Sprintf("perigee-%d-", d.Rank)) {
		return a, err
	}
	return damagedAgent{a, d}, nil
}

type damagedAgent struct {
	nixl.Agent
	d *Damaged
}

func (a damagedAgent) wrap(b nixl.Buffer, err error) (nixl.Buffer, error) {
	if err != nil || b.ID() != a.d.Buffer {
		return b, err
	}
	return damagedBuffer{b, a.d}, nil
}

func (a damagedAgent) Alloc(mem nixl.Mem, size int64) (nixl.Buffer, error) {
	return a.wrap(a.Agent.Alloc(mem, size))
}

func (a damagedAgent) OpenFile(f nixl.File) (nixl.Buffer, error) {
	return a.wrap(a.Agent.OpenFile(f))
}

func (a damagedAgent) NewBatch(list []nixl.Transfer) (nixl.Batch, error) {
	whole, err := a.Agent.NewBatch(list)
	if err != nil {
		return nil, err
	}
	var kept []nixl.Transfer
	for _, t := range list {
		if t.Peer != a.d.Lost {
			kept = append(kept, t)
		}
	}
	part, err := a.Agent.NewBatch(kept)
	return damagedBatch{whole, part, a.d}, err
}

// damagedBatch loses the transfers to one peer, and says that all are done.
type damagedBatch struct {
	nixl.Batch
	part nixl.Batch
	d    *Damaged
}

func (b damagedBatch) Run(ctl nixl.Control, n int, times []nixl.Times) error {
	if !b.d.Losing {
		return b.Batch.Run(ctl, n, times)
	}
	return b.part.Run(ctl, n, times)
}

func (b damagedBatch) Release() error {
	b.part.Release()
	return b.Batch.Release()
}

type damagedBuffer struct {
	nixl.Buffer
	d *Damaged
}

func (b damagedBuffer) ReadAt(p []byte, off int64) (int, error) {
	n, err := b.Buffer.ReadAt(p, off)
	for at, bits := range b.d.Flips {
		if at >= off && at < off+int64(n) {
			p[at-off] ^= bits
		}
	}
	return n, err
}
