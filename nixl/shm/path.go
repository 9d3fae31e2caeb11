package shm

import "perigee/nixl"

// way is how pieces were copied.
type way struct {
	op   nixl.Op
	self bool // within one process
}

// count adds the pieces of a batch that is released.
func (a *agent) count(b *batch) {
	for _, k := range b.tasks {
		if k.file == nil {
			a.copied[way{k.op, k.peer.card.owner == a.own}] += b.runs * int64(len(k.pieces))
		}
	}
}

// Path implements nixl.PathAgent: the initiator of a transfer copies the bytes itself.
func (a *agent) Path() nixl.Path {
	p := nixl.Path{Source: "perigee"}
	dram := nixl.DRAM.String()
	for w, n := range a.copied {
		if n == 0 {
			continue
		}
		u := nixl.PathUse{Op: w.op.String(), Local: dram, Remote: dram, Reach: nixl.ReachHost, Transport: "memfd",
			Device: "memory", How: "copy by the initiator", Count: n}
		if w.self {
			u.Reach = nixl.ReachSelf
		}
		p.Uses = append(p.Uses, u)
	}
	return p
}
