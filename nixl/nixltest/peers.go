package nixltest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"perigee/nixl"
)

// refuse makes a call that has to fail with an error that has these words.
func (c *cluster) refuse(i int, q request, words ...string) {
	c.t.Helper()
	err := c.workers[i].do(q).err()
	if err == nil {
		c.t.Errorf("agent %d: %s: no error, want one with %q", i, q.Call, words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			c.t.Errorf("agent %d: %s: %q: want %q in it", i, q.Call, err, w)
		}
	}
}

// letter is message number k from one agent to another; its length differs from number to number.
func letter(from, to, k int) []byte {
	sizes := []int{0, 1, 7, 8, 100, 2048, 5000, nixl.MaxNotice}
	return noise(sizes[(k+from+to)%len(sizes)], uint64(from)<<32|uint64(to), uint64(k))
}

// collect receives at all agents until agent i has got count notices; it returns them by agent and sender.
func (c *cluster) collect(count func(to int) int) [][][][]byte {
	c.t.Helper()
	n := len(c.workers)
	got, missing := make([][][][]byte, n), 0
	for to := range n {
		got[to] = make([][][]byte, n)
		missing += count(to)
	}
	for deadline := time.Now().Add(patience); missing > 0; {
		for to := range n {
			for _, notice := range c.must(to, request{Call: callReceive}).Notices {
				if notice.Peer < 0 || notice.Peer >= n {
					c.t.Fatalf("agent %d: notice from peer %d", to, notice.Peer)
				}
				got[to][notice.Peer] = append(got[to][notice.Peer], notice.Data)
				missing--
			}
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%d notices have not arrived", missing)
		}
	}
	return got
}

// testNotices sends many messages of all sizes between all agents, more than any queue holds before the
// receivers look, and expects each once and in order.
func testNotices(t *testing.T, s Setup, place func(int) bool) {
	const n, count = 3, 120
	c := ready(t, s, place, n, 10)
	for k := range count {
		for from := range n {
			for to := range n {
				c.must(from, request{Call: callNotify, Number: to, Data: letter(from, to, k)})
			}
		}
	}
	got := c.collect(func(int) int { return n * count })
	for to := range n {
		for from, list := range got[to] {
			if len(list) != count {
				t.Fatalf("agent %d has %d notices of agent %d, want %d", to, len(list), from, count)
			}
			for k, message := range list {
				if !bytes.Equal(message, letter(from, to, k)) {
					t.Fatalf("agent %d: notice %d of agent %d has %d other bytes", to, k, from, len(message))
				}
			}
		}
	}
}

// testNoticeAfterBytes looks at the bytes as soon as the notice of their transfer is there, for notices that
// belong to a transfer, run, posted or picked, and for those that are sent after it.
func testNoticeAfterBytes(t *testing.T, s Setup, place func(int) bool) {
	const size, rounds = 200_000, 12
	c := ready(t, s, place, 2, size)
	tr := whole(nixl.Write, 1, 0, 0, size)
	plain := c.batch(0, tr)
	tr.Notice = []byte("arrived")
	attached := c.batch(0, tr)
	for round := range rounds {
		data := noise(size, uint64(round), 99)
		c.must(0, request{Call: callStore, Number: 0, Data: data})
		copy(c.want[0][0], data)
		switch round % 3 {
		case 0:
			c.run(0, plain, 1)
			c.must(0, request{Call: callNotify, Number: 1, Data: tr.Notice})
		case 1:
			c.run(0, attached, 1)
		case 2:
			c.must(0, request{Call: callPost, Number: attached})
			c.must(0, request{Call: callWait, Number: attached, Within: patience})
		}
		got := c.collect(func(to int) int { return to })
		if words := string(got[1][0][0]); words != "arrived" {
			t.Fatalf("round %d: notice %q", round, words)
		}
		c.expect(0, tr)
		c.verify()
	}
	// A run of many sends as many.
	c.run(0, attached, 5)
	c.collect(func(to int) int { return 5 * to })
}

// testNoticeRefusals sends notices to a peer that is not there, that are too long, and from an agent that is closed.
func testNoticeRefusals(t *testing.T, s Setup, place func(int) bool) {
	c := ready(t, s, place, 2, 100)
	c.refuse(0, request{Call: callNotify, Number: 7}, "peer 7", "not added")
	long := make([]byte, nixl.MaxNotice+1)
	c.refuse(0, request{Call: callNotify, Number: 1, Data: long}, "peer 1", fmt.Sprint(nixl.MaxNotice))
	tr := whole(nixl.Write, 1, 0, 0, 100)
	tr.Notice = long
	c.refuse(0, request{Call: callBatch, Transfers: []nixl.Transfer{tr}}, "peer 1", fmt.Sprint(nixl.MaxNotice))
	c.must(0, request{Call: callNotify, Number: 1, Data: long[1:]})
	c.collect(func(to int) int { return to })
	c.must(0, request{Call: callClose})
	c.refuse(0, request{Call: callNotify, Number: 1}, "closed")
	c.refuse(0, request{Call: callReceive}, "closed")
	c.refuse(0, request{Call: callDisconnect, Peers: []int{1}}, "closed")
}

// list prepares descriptors of a buffer.
func (c *cluster) list(i, peer, buffer int, descs []nixl.Desc) int {
	c.t.Helper()
	return c.must(i, request{Call: callList, Number: peer, Size: int64(buffer), Descs: descs}).Number
}

// testLists picks descriptors out of two lists, several times out of the same, and looks at every byte.
func testLists(t *testing.T, s Setup, place func(int) bool) {
	const count, slot, size = 301, 1000, 301 * 1000
	c := ready(t, s, place, 2, size, size)
	var descs []nixl.Desc
	for k := range count {
		descs = append(descs, nixl.Desc{Off: int64(k * slot), Len: int64(1 + k%7*140)})
	}
	// The lengths repeat every seven, so each descriptor has a partner of the same length at the other end.
	partner := func(i int) int { return (count/7-1-i/7)*7 + i%7 }
	for peer := range 2 {
		local, remote := c.list(0, nixl.Self, 0, descs), c.list(0, peer, 1, descs)
		rng := rand.New(rand.NewPCG(5, uint64(peer)))
		var last int
		for round := range 4 {
			op := ops[round%2]
			tr := nixl.Transfer{Op: op, Peer: peer, LocalBuffer: 0, RemoteBuffer: 1}
			p := pick{Op: op, Local: local, Remote: remote}
			order := rng.Perm(count)[:1+rng.IntN(count)]
			for _, i := range order {
				p.LocalIndex, p.RemoteIndex = append(p.LocalIndex, int32(i)), append(p.RemoteIndex, int32(partner(i)))
				tr.Local, tr.Remote = append(tr.Local, descs[i]), append(tr.Remote, descs[partner(i)])
			}
			last = c.must(0, request{Call: callPick, Picks: []pick{p}}).Number
			for range 2 {
				c.run(0, last, 1)
				c.expect(0, tr)
			}
			c.verify()
		}
		for range 2 {
			c.must(0, request{Call: callReleaseList, Number: local})
			c.must(0, request{Call: callReleaseList, Number: remote})
		}
		c.run(0, last, 1) // a batch needs its lists no more
		c.verify()
	}
}

// testListRefusals prepares lists and picks that make no sense, each of which must be refused with words that name the
// mistake.
func testListRefusals(t *testing.T, s Setup, place func(int) bool) {
	c := ready(t, s, place, 2, 1000)
	d := []nixl.Desc{{Off: 0, Len: 10}, {Off: 20, Len: 30}}
	refused := map[string]request{
		"peer 7":       {Number: 7, Descs: d},
		"no buffer":    {Number: nixl.Self, Size: 1, Descs: d},
		"it has no":    {Number: 1, Size: 1, Descs: d},
		"descriptor 0": {Number: 1, Descs: []nixl.Desc{{Off: 995, Len: 6}}},
		"descriptors":  {Number: 1},
	}
	for words, q := range refused {
		q.Call = callList
		c.refuse(0, q, words)
	}
	local, remote := c.list(0, nixl.Self, 0, d), c.list(0, 1, 0, d)
	index := []int32{0, 1}
	picks := map[string]pick{
		"1 remote ones":      {Local: local, Remote: remote, LocalIndex: index, RemoteIndex: index[:1]},
		"no positions":       {Local: local, Remote: remote},
		"local position 2":   {Local: local, Remote: remote, LocalIndex: []int32{2}, RemoteIndex: index[:1]},
		"remote position -1": {Local: local, Remote: remote, LocalIndex: index[:1], RemoteIndex: []int32{-1}},
		"10 bytes but":       {Local: local, Remote: remote, LocalIndex: []int32{0}, RemoteIndex: []int32{1}},
		"a local list of":    {Local: remote, Remote: local, LocalIndex: index, RemoteIndex: index},
		fmt.Sprint(nixl.MaxNotice): {Local: local, Remote: remote, LocalIndex: index, RemoteIndex: index,
			Notice: make([]byte, nixl.MaxNotice+1)},
	}
	for words, p := range picks {
		c.refuse(0, request{Call: callPick, Picks: []pick{p}}, words)
	}
	c.must(0, request{Call: callReleaseList, Number: remote})
	c.refuse(0, request{Call: callPick, Picks: []pick{{Local: local, Remote: remote, LocalIndex: index,
		RemoteIndex: index}}}, "released")
}

// testReconnect drops a peer and takes it back, several times, while a third goes on.
func testReconnect(t *testing.T, s Setup, place func(int) bool) {
	const size = 50_000
	c := ready(t, s, place, 3, size, size)
	other := c.batch(0, whole(nixl.Read, 2, 1, 0, size))
	for round := range 3 {
		tr := whole(nixl.Write, 1, 0, 0, size)
		data := noise(size, uint64(round), 7)
		c.must(0, request{Call: callStore, Number: 0, Data: data})
		copy(c.want[0][0], data)
		b, posted := c.batch(0, tr), c.batch(0, tr)
		list := c.list(0, 1, 0, tr.Remote)
		c.run(0, b, 2)
		c.must(1, request{Call: callNotify, Number: 0, Data: []byte("never received")})
		c.must(0, request{Call: callPost, Number: posted})
		for i := range 2 {
			c.must(i, request{Call: callDisconnect, Peers: []int{1 - i}})
			c.must(i, request{Call: callDisconnect, Peers: []int{1 - i, 9}}) // nothing to do
		}
		c.expect(0, tr)
		c.refuse(0, request{Call: callRun, Number: b, Runs: 1}, "peer 1 was disconnected")
		c.refuse(0, request{Call: callBatch, Transfers: []nixl.Transfer{tr}}, "peer 1", "not added")
		c.refuse(0, request{Call: callNotify, Number: 1}, "peer 1", "not added")
		c.refuse(0, request{Call: callPick, Picks: []pick{{Local: list, Remote: list}}}, "released")
		c.run(0, other, 1)
		c.expect(0, whole(nixl.Read, 2, 1, 0, size))
		c.exchange()
		c.connect()
		for i := range 2 {
			c.must(i, request{Call: callNotify, Number: 1 - i, Data: letter(i, 1-i, round)})
		}
		got := c.collect(func(to int) int { return [3]int{1, 1, 0}[to] })
		for i := range 2 {
			if !bytes.Equal(got[i][1-i][0], letter(1-i, i, round)) {
				t.Fatalf("round %d: agent %d received another notice: %q", round, i, got[i][1-i][0])
			}
		}
		c.run(0, c.batch(0, tr), 1)
		c.expect(0, tr)
		c.verify()
	}
}

// testRejoin closes an agent and opens another of the same name, as a rank does that leaves and joins again.
func testRejoin(t *testing.T, s Setup, place func(int) bool) {
	const size = 20_000
	c := ready(t, s, place, 3, size)
	for round := range 3 {
		c.must(1, request{Call: callClose})
		for _, i := range []int{0, 2} {
			c.must(i, request{Call: callDisconnect, Peers: []int{1}})
		}
		c.run(0, c.batch(0, whole(nixl.Read, 2, 0, 0, size)), 1)
		c.expect(0, whole(nixl.Read, 2, 0, 0, size))
		c.must(1, request{Call: callOpen, Config: c.configs[1]})
		c.want[1] = nil
		for _, bytes := range []int{10 + round, size} { // other buffers than before
			data := noise(bytes, uint64(round), 11)
			number := c.must(1, request{Call: callAlloc, Size: int64(bytes)}).Number
			c.must(1, request{Call: callStore, Number: number, Data: data})
			c.want[1] = append(c.want[1], data)
		}
		c.exchange()
		c.connect()
		back := whole(nixl.Read, 1, 0, 1, size)
		back.Notice = []byte{byte(round)}
		c.run(0, c.batch(0, back), 1)
		c.expect(0, back)
		c.must(1, request{Call: callNotify, Number: 2, Data: []byte("back again")})
		got := c.collect(func(to int) int { return [3]int{0, 1, 1}[to] })
		if got[1][0][0][0] != byte(round) || string(got[2][1][0]) != "back again" {
			t.Fatalf("round %d: notices %v", round, got)
		}
		c.verify()
	}
}

// testMaskedPeer kills a peer in the middle of things; the others leave it out and go on.
func testMaskedPeer(t *testing.T, s Setup) {
	for _, size := range []int{64, 4 << 20} {
		c := ready(t, s, func(i int) bool { return i > 0 || s.threads() }, 4, size)
		if s.threads() {
			c.killAll()
		}
		batches := map[int]int{}
		for peer := 1; peer < 4; peer++ {
			tr := whole(nixl.Write, peer, 0, 0, size)
			tr.Notice = []byte{byte(peer)}
			batches[peer] = c.batch(0, tr)
			c.run(0, batches[peer], 1)
			c.must(peer, request{Call: callNotify, Number: 0, Data: []byte("hello")})
		}
		c.workers[2].(*remote).kill(t)
		var err error
		for deadline := time.Now().Add(patience); err == nil && time.Now().Before(deadline); {
			err = c.workers[0].do(request{Call: callRun, Number: batches[2], Runs: 1, Within: 2 * time.Second}).err()
		}
		if err == nil || !strings.Contains(err.Error(), "peer 2") {
			t.Fatalf("%d bytes: got %v, want an error that names peer 2", size, err)
		}
		for i := range 4 {
			if i == 2 {
				continue
			}
			start := time.Now()
			c.must(i, request{Call: callDisconnect, Peers: []int{2}})
			if took := time.Since(start); took > patience {
				t.Errorf("%d bytes: agent %d needed %v to leave out a dead peer", size, i, took)
			}
		}
		c.refuse(0, request{Call: callNotify, Number: 2}, "peer 2")
		for peer := 1; peer < 4; peer += 2 {
			c.run(0, batches[peer], 3)
			c.expect(0, whole(nixl.Write, peer, 0, 0, size))
			c.must(peer, request{Call: callNotify, Number: 0, Data: []byte("still here")})
		}
		received := 0
		for deadline := time.Now().Add(patience); received < 2; {
			for _, notice := range c.must(0, request{Call: callReceive}).Notices {
				if string(notice.Data) == "still here" {
					received++
				} else if notice.Peer == 2 {
					t.Error("a notice of the disconnected peer")
				}
			}
			if time.Now().After(deadline) {
				t.Fatal("the living are not heard any more")
			}
		}
		c.verify()
	}
}
