package shm

import (
	"strings"
	"sync"

	"perigee/nixl"
)

// way is how pieces were copied.
type way struct {
	op   nixl.Op
	self bool // within one process
}

// count adds the pieces of a batch that is released.
func (a *agent) count(b *batch) {
	for _, k := range b.tasks {
		if n := b.runs * int64(len(k.pieces)); k.file == nil && n > 0 {
			a.copied[way{k.op, k.peer.card.owner == a.own}] += n
		}
	}
}

// account holds what the agents of this process have copied.
var account = ledger{open: map[string]bool{}, copied: map[string]map[way]int64{}}

type ledger struct {
	sync.Mutex
	open   map[string]bool          // agents that are not closed, by name
	copied map[string]map[way]int64 // pieces, by agents that are closed and have copied something
}

func (l *ledger) begin(name string) {
	l.Lock()
	defer l.Unlock()
	l.open[name] = true
}

func (l *ledger) end(a *agent) {
	l.Lock()
	defer l.Unlock()
	delete(l.open, a.name)
	if len(a.copied) > 0 {
		l.copied[a.name] = a.copied
	}
}

// Path implements nixl.PathEngine: the initiator of a transfer copies the bytes itself.
func (*Engine) Path(prefix string) nixl.Path {
	account.Lock()
	defer account.Unlock()
	p := nixl.Path{Source: "perigee"}
	for name := range account.open {
		if strings.HasPrefix(name, prefix) {
			p.Unknown = "an agent is open still: close() what the script has opened"
		}
	}
	dram := nixl.DRAM.String()
	for name, ways := range account.copied {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		for w, n := range ways {
			u := nixl.PathUse{Op: w.op.String(), Local: dram, Remote: dram, Reach: nixl.ReachHost, Transport: "memfd",
				Device: "memory", How: "copy by the initiator", Count: n}
			if w.self {
				u.Reach = nixl.ReachSelf
			}
			p.Uses = append(p.Uses, u)
		}
	}
	return p
}
