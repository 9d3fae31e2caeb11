package nixltest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"perigee/nixl"
)

// patience bounds every wait that has to end.
const patience = 5 * time.Minute

var agents atomic.Int64

// cluster is a number of workers, each with an agent, and the contents that
// their buffers must have.
type cluster struct {
	t       *testing.T
	workers []worker
	configs []nixl.AgentConfig
	mem     func(agent, buffer int) nixl.Mem
	want    [][][]byte // [worker][buffer]
}

// newCluster starts n agents. place says which of them run in their
// own processes.
func newCluster(t *testing.T, s Setup, place func(i int) bool, n int) *cluster {
	t.Helper()
	c := &cluster{t: t, want: make([][][]byte, n), mem: s.Mem}
	if c.mem == nil {
		c.mem = func(int, int) nixl.Mem { return nixl.DRAM }
	}
	for i := range n {
		var w worker = local{&server{open: s.Open}}
		if place(i) {
			w = startRemote(t)
		}
		c.workers = append(c.workers, w)
		t.Cleanup(func() { w.close(t) })
		cfg := s.Config
		cfg.Name = fmt.Sprintf("agent-%d-%d", os.Getpid(), agents.Add(1))
		c.must(i, request{Call: callOpen, Config: cfg})
		c.configs = append(c.configs, cfg)
	}
	return c
}

// killAll ends the agents, each in its own process, without closing them. A peer that is killed may have
// taken a place in UCX's queues in shared memory and not filled it. A progress thread looks for what comes there for
// ever, so that an agent with one is never closed. A rank of a failed job ends its process, too.
func (c *cluster) killAll() {
	c.t.Cleanup(func() {
		for _, w := range c.workers {
			if r := w.(*remote); !r.killed {
				r.kill(c.t)
			}
		}
	})
}

// must makes a call that has to work.
func (c *cluster) must(i int, q request) response {
	c.t.Helper()
	r := c.workers[i].do(q)
	if err := r.err(); err != nil {
		c.t.Fatalf("agent %d: %s: %v", i, q.Call, err)
	}
	return r
}

// alloc gives every agent a buffer of this size, filled with bytes that no other
// buffer has at the same place.
func (c *cluster) alloc(size int) {
	c.t.Helper()
	for i := range c.workers {
		r := c.must(i, request{Call: callAlloc, Mem: c.mem(i, len(c.want[i])), Size: int64(size)})
		if r.Number != len(c.want[i]) {
			c.t.Fatalf("agent %d: buffer has ID %d: want %d", i, r.Number, len(c.want[i]))
		}
		data := noise(size, uint64(i), uint64(r.Number))
		c.want[i] = append(c.want[i], data)
		c.must(i, request{Call: callStore, Number: r.Number, Data: data})
	}
}

func noise(size int, seed1, seed2 uint64) []byte {
	rng := rand.New(rand.NewPCG(seed1, seed2))
	data := make([]byte, size)
	for k := range data {
		data[k] = byte(rng.Uint32())
	}
	return data
}

// exchange makes every agent a peer of every other and of itself.
func (c *cluster) exchange() {
	c.t.Helper()
	for j := range c.workers {
		card := c.must(j, request{Call: callCard}).Data
		for i := range c.workers {
			c.must(i, request{Call: callAddPeer, Number: j, Data: card})
		}
	}
}

// connect connects all agents; all of them poll until they are connected.
func (c *cluster) connect() {
	c.t.Helper()
	var all []int
	for i := range c.workers {
		all = append(all, i)
	}
	for i := range c.workers {
		c.must(i, request{Call: callConnect, Peers: all})
	}
	deadline := time.Now().Add(patience)
	for len(all) > 0 {
		if time.Now().After(deadline) {
			c.t.Fatalf("agents %v are not connected after %v", all, patience)
		}
		// An agent that is connected need not poll any more.
		all = slices.DeleteFunc(all, func(i int) bool { return c.must(i, request{Call: callConnected}).Flag })
	}
}

// ready is a cluster with buffers, connected.
func ready(t *testing.T, s Setup, place func(int) bool, n int, sizes ...int) *cluster {
	t.Helper()
	c := newCluster(t, s, place, n)
	for _, size := range sizes {
		c.alloc(size)
	}
	c.exchange()
	c.connect()
	return c
}

// batch prepares transfers of agent i.
func (c *cluster) batch(i int, transfers ...nixl.Transfer) int {
	c.t.Helper()
	return c.must(i, request{Call: callBatch, Transfers: transfers}).Number
}

// run runs a batch and returns the stamps.
func (c *cluster) run(i, batch, runs int) []nixl.Times {
	c.t.Helper()
	return c.must(i, request{Call: callRun, Number: batch, Runs: runs, Stamps: true, Within: patience}).Times
}

// expect notes what transfers of agent i do to the contents.
func (c *cluster) expect(i int, transfers ...nixl.Transfer) {
	for _, t := range transfers {
		here, there := c.want[i][t.LocalBuffer], c.want[t.Peer][t.RemoteBuffer]
		for k, l := range t.Local {
			r := t.Remote[k]
			if t.Op == nixl.Write {
				copy(there[r.Off:r.Off+r.Len], here[l.Off:])
			} else {
				copy(here[l.Off:l.Off+l.Len], there[r.Off:])
			}
		}
	}
}

// verify compares every byte of every buffer of the living.
func (c *cluster) verify() {
	c.t.Helper()
	for i, w := range c.workers {
		if w, ok := w.(*remote); ok && w.killed {
			continue
		}
		for b, want := range c.want[i] {
			got := c.must(i, request{Call: callLoad, Number: b}).Data
			if bytes.Equal(got, want) {
				continue
			}
			for k := range want {
				if got[k] != want[k] {
					c.t.Fatalf("agent %d, buffer %d, offset %d: got %#02x, want %#02x", i, b, k, got[k], want[k])
				}
			}
		}
	}
}

// spread cuts disjoint descriptors out of two buffers: count pieces of odd sizes at
// odd places, in mixed order.
func spread(rng *rand.Rand, count, localSize, remoteSize int) (local, remote []nixl.Desc) {
	slot := min(localSize, remoteSize) / count
	localOrder, remoteOrder := rng.Perm(count), rng.Perm(count)
	for k := range count {
		length := 1 + rng.IntN(slot)
		slack := slot - length
		local = append(local, nixl.Desc{Off: int64(localOrder[k]*slot + rng.IntN(slack+1)), Len: int64(length)})
		remote = append(remote, nixl.Desc{Off: int64(remoteOrder[k]*slot + rng.IntN(slack+1)), Len: int64(length)})
	}
	return local, remote
}
