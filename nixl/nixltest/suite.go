package nixltest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/nixl"
)

// Setup describes the engine under test.
type Setup struct {
	Open   func() (nixl.Engine, error) // the same that was given to Main
	Config nixl.AgentConfig            // for every agent; the suite adds the name
	Brief  bool                        // only with some agents in this process and some in others
	Lives  int                         // how many agents live and die in the test of leaks

	// Mem is the kind of memory of a buffer of an agent; nil: host memory. With Mem the suite leaves out what
	// other memory has no part in.
	Mem func(agent, buffer int) nixl.Mem
}

// threads reports whether the agents have progress threads.
func (s Setup) threads() bool {
	return s.Config.Progress == "thread" || s.Config.Progress == "auto" && (s.Config.VRAM || !s.Config.OneHost)
}

// Run runs the whole suite.
func Run(t *testing.T, s Setup) {
	if _, err := s.Open(); err != nil {
		t.Fatalf("%v\n%s", err, fault.HintOf(err))
	}
	places := []struct {
		name  string
		place func(i int) bool
	}{
		{"OneProcess", func(int) bool { return false }},
		{"OwnProcesses", func(int) bool { return true }},
		{"Mixed", func(i int) bool { return i%2 == 1 }},
	}
	tests := []struct {
		name string
		test func(t *testing.T, s Setup, place func(int) bool)
	}{
		{"Shapes", testShapes},
		{"SeveralBuffersAndNewCards", testNewCards},
		{"BatchToSeveralPeers", testSeveralPeers},
		{"SleepingTarget", testSleepingTarget},
		{"PostDoneWait", testPostDoneWait},
		{"Refusals", testRefusals},
		{"GarbageCards", testGarbage},
		{"AbortAndDeadline", testAbortAndDeadline},
		{"EmptyBatch", testEmptyBatch},
		{"ReleaseAndClose", testReleaseAndClose},
		{"Notices", testNotices},
		{"NoticeAfterBytes", testNoticeAfterBytes},
		{"NoticeRefusals", testNoticeRefusals},
		{"Lists", testLists},
		{"ListRefusals", testListRefusals},
		{"Reconnect", testReconnect},
		{"Rejoin", testRejoin},
	}
	if s.Brief {
		places = places[2:]
	}
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) { test.test(t, s, p.place) })
			}
		})
	}
	t.Run("KilledPeer", func(t *testing.T) { testKilledPeer(t, s) })
	if s.Mem != nil {
		return
	}
	for _, api := range FileAPIs(t) {
		t.Run("Files"+api, func(t *testing.T) { testFiles(t, s, api) })
	}
	t.Run("AbortFromOutside", func(t *testing.T) { testAbortFromOutside(t, s) })
	t.Run("StoppedPeer", func(t *testing.T) { testStoppedPeer(t, s) })
	t.Run("KilledDuringRun", func(t *testing.T) { testKilledDuringRun(t, s) })
	t.Run("HugePages", func(t *testing.T) { testHugePages(t, s) })
	t.Run("Pipeline", func(t *testing.T) { testPipeline(t, s) })
	t.Run("Reregister", func(t *testing.T) { testReregister(t, s) })
	t.Run("MaskedPeer", func(t *testing.T) { testMaskedPeer(t, s) })
	t.Run("NoLeaks", func(t *testing.T) { testNoLeaks(t, s) })
	t.Run("ManyLives", func(t *testing.T) { testManyLives(t, s) })
}

var ops = []nixl.Op{nixl.Write, nixl.Read}

// testShapes moves one and many descriptors of odd sizes and places, to
// another agent and to itself, and looks at every byte of all buffers.
func testShapes(t *testing.T, s Setup, place func(int) bool) {
	const size = 300_007
	c := ready(t, s, place, 2, size, size)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, op := range ops {
		for _, count := range []int{1, 2, 3, 17, 256, 2500} {
			for peer := range 2 {
				tr := nixl.Transfer{Op: op, Peer: peer, LocalBuffer: 0, RemoteBuffer: 1}
				tr.Local, tr.Remote = spread(rng, count, size, size)
				b := c.batch(0, tr)
				c.run(0, b, 1)
				c.expect(0, tr)
				c.verify()
				c.must(0, request{Call: callRelease, Number: b})
			}
		}
	}
}

// testNewCards allocates in three steps; batches of before must go on working.
func testNewCards(t *testing.T, s Setup, place func(int) bool) {
	c := ready(t, s, place, 2, 1000)
	first := whole(nixl.Write, 1, 0, 0, 1000)
	old := c.batch(0, first)
	c.alloc(0)
	c.alloc(5000)
	c.exchange()
	c.connect()
	second := whole(nixl.Read, 1, 2, 2, 5000)
	b := c.batch(0, first, second)
	c.run(0, b, 1)
	c.expect(0, first, second)
	c.verify()

	// Other contents, and the old batch again.
	data := noise(1000, 77, 78)
	c.must(0, request{Call: callStore, Number: 0, Data: data})
	copy(c.want[0][0], data)
	c.run(0, old, 1)
	c.expect(0, first)
	c.verify()
}

// whole is a transfer of all bytes of a buffer as one descriptor.
func whole(op nixl.Op, peer, local, remote, size int) nixl.Transfer {
	d := []nixl.Desc{{Off: 0, Len: int64(size)}}
	return nixl.Transfer{Op: op, Peer: peer, LocalBuffer: local, RemoteBuffer: remote, Local: d, Remote: d}
}

// testSeveralPeers posts to all peers together, several times, and checks stamps.
func testSeveralPeers(t *testing.T, s Setup, place func(int) bool) {
	const n, size, runs = 4, 64_000, 5
	c := ready(t, s, place, n, size, n*size)
	var all []nixl.Transfer
	var total int64
	for peer := range n {
		tr := whole(ops[peer%2], peer, 0, 1, size)
		if tr.Op == nixl.Read {
			tr.LocalBuffer, tr.Local = 1, []nixl.Desc{{Off: int64(peer * size), Len: size}}
		}
		all = append(all, tr)
		total += tr.Bytes()
	}
	b := c.batch(0, all...)
	before := clock.Now()
	times := c.run(0, b, runs)
	after := clock.Now()
	c.expect(0, all...)
	c.verify()
	if len(times) != runs {
		t.Fatalf("%d stamps of %d runs", len(times), runs)
	}
	// clock.Now in another process may differ by a fraction of a microsecond.
	const tolerance = 2000
	last := before - tolerance
	for i, s := range times {
		if s.Start < last || s.Posted < s.Start || s.End < s.Posted || s.End > after+tolerance {
			t.Errorf("run %d: start %d, posted %d, end %d are not in order between %d and %d", i, s.Start, s.Posted,
				s.End, last, after)
		}
		for k, done := range s.Done {
			if done < s.Start || done > s.End {
				t.Errorf("run %d: transfer %d is done at %d: want between %d and %d", i, k, done, s.Start, s.End)
			}
		}
		last = s.End
	}
}

// testSleepingTarget sends sizes of every protocol to a target that does not call
// the library any more once it is connected.
func testSleepingTarget(t *testing.T, s Setup, place func(int) bool) {
	sizes := []int{1, 8, 4 << 10, 64 << 10, 1 << 20, 8<<20 + 3}
	c := ready(t, s, place, 2, sizes[len(sizes)-1])
	for _, size := range sizes {
		for _, op := range ops {
			tr := whole(op, 1, 0, 0, size)
			data := noise(size, uint64(size), uint64(op))
			from := 0
			if op == nixl.Read {
				from = 1
			}
			c.must(from, request{Call: callStore, Number: 0, Data: data})
			copy(c.want[from][0], data)
			c.run(0, c.batch(0, tr), 3)
			c.expect(0, tr)
		}
		c.verify()
	}
}

// testPostDoneWait takes a batch through the halves of Run, twice, and tries the orders that are forbidden.
func testPostDoneWait(t *testing.T, s Setup, place func(int) bool) {
	const size = 3 << 20
	c := ready(t, s, place, 2, size)
	tr := whole(nixl.Write, 1, 0, 0, size)
	b := c.batch(0, tr)
	for range 2 {
		c.must(0, request{Call: callPost, Number: b})
		if err := c.workers[0].do(request{Call: callPost, Number: b}).err(); err == nil {
			t.Error("a second Post before Wait is not an error")
		}
		if err := c.workers[0].do(request{Call: callRun, Number: b, Runs: 1}).err(); err == nil {
			t.Error("Run between Post and Wait is not an error")
		}
		for deadline := time.Now().Add(patience); !c.must(0, request{Call: callDone, Number: b}).Flag; {
			if time.Now().After(deadline) {
				t.Fatal("Done never becomes true")
			}
		}
		s := c.must(0, request{Call: callWait, Number: b, Within: patience}).Times[0]
		if s.Start == 0 || s.Posted < s.Start || s.End < s.Posted || s.Done[0] < s.Start || s.Done[0] > s.End {
			t.Errorf("stamps %+v are not in order", s)
		}
	}
	c.expect(0, tr)
	c.verify()
	if err := c.workers[0].do(request{Call: callWait, Number: b}).err(); err == nil {
		t.Error("Wait without Post is not an error")
	}
	c.must(0, request{Call: callPost, Number: b})
	err := c.workers[0].do(request{Call: callWait, Number: b, Aborted: true}).err()
	if err != nil && !errors.Is(err, nixl.ErrAborted) {
		t.Errorf("Wait with the abort flag set: got %v, want %v or nothing", err, nixl.ErrAborted)
	}
}

// testRefusals passes invalid arguments.
func testRefusals(t *testing.T, s Setup, place func(int) bool) {
	const size = 4096
	c := ready(t, s, place, 2, size, 0)
	d := func(pairs ...int64) (list []nixl.Desc) {
		for k := 0; k < len(pairs); k += 2 {
			list = append(list, nixl.Desc{Off: pairs[k], Len: pairs[k+1]})
		}
		return list
	}
	good := d(0, 10)
	tests := map[string]nixl.Transfer{
		"length 0":                {Peer: 1, Local: d(0, 0), Remote: d(0, 0)},
		"negative length":         {Peer: 1, Local: d(0, -1), Remote: d(0, -1)},
		"negative local offset":   {Peer: 1, Local: d(-1, 10), Remote: good},
		"negative remote offset":  {Peer: 1, Local: good, Remote: d(-1, 10)},
		"local end":               {Peer: 1, Local: d(size-9, 10), Remote: good},
		"remote end":              {Peer: 1, Local: good, Remote: d(size-9, 10)},
		"overflow":                {Peer: 1, Local: d(1<<62, 1<<62), Remote: d(1<<62, 1<<62)},
		"different lengths":       {Peer: 1, Local: d(0, 11), Remote: good},
		"more local descriptors":  {Peer: 1, Local: d(0, 10, 20, 10), Remote: good},
		"no descriptors":          {Peer: 1},
		"unknown peer":            {Peer: 7, Local: good, Remote: good},
		"no such local buffer":    {Peer: 1, LocalBuffer: 2, Local: good, Remote: good},
		"no such remote buffer":   {Peer: 1, RemoteBuffer: 2, Local: good, Remote: good},
		"negative local buffer":   {Peer: 1, LocalBuffer: -1, Local: good, Remote: good},
		"negative remote buffer":  {Peer: 1, RemoteBuffer: -1, Local: good, Remote: good},
		"into an empty buffer":    {Peer: 1, RemoteBuffer: 1, Local: good, Remote: good},
		"out of an empty buffer":  {Peer: 1, LocalBuffer: 1, Local: good, Remote: good},
		"second descriptor wrong": {Peer: 1, Local: d(0, 10, size, 1), Remote: d(0, 10, 20, 1)},
	}
	for name, tr := range tests {
		fine := whole(nixl.Write, 0, 0, 0, 10)
		err := c.workers[0].do(request{Call: callBatch, Transfers: []nixl.Transfer{fine, tr}}).err()
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if want := fmt.Sprintf("peer %d", tr.Peer); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q does not name %s", name, err, want)
		}
	}
	for _, size := range []int64{-1, 1 << 60} {
		if err := c.workers[0].do(request{Call: callAlloc, Size: size}).err(); err == nil {
			t.Errorf("a buffer of %d bytes is not an error", size)
		}
	}
	c.verify()
}

// testGarbage gives an agent cards that are none, and a good one after them.
func testGarbage(t *testing.T, s Setup, place func(int) bool) {
	c := newCluster(t, s, place, 2)
	c.alloc(100)
	card := c.must(1, request{Call: callCard}).Data
	garbage := map[string][]byte{
		"nothing": nil, "text": []byte("hello, world"), "zeros": make([]byte, 4096),
		"noise": noise(2000, 3, 4), "longer": append(append([]byte{}, card...), 0),
	}
	for _, n := range []int{1, 4, len(card) / 2, len(card) - 1} {
		garbage[fmt.Sprintf("%d of %d bytes", n, len(card))] = card[:n]
	}
	for name, data := range garbage {
		if err := c.workers[0].do(request{Call: callAddPeer, Number: 1, Data: data}).err(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	c.exchange()
	c.connect()
	tr := whole(nixl.Write, 1, 0, 0, 100)
	c.run(0, c.batch(0, tr), 1)
	c.expect(0, tr)
	c.verify()
}

// forEver is a number of runs that does not end during a test.
const forEver = 1 << 40

// testAbortAndDeadline ends runs that would go on for ever, and looks whether the batch is unusable after that and a
// new one works.
func testAbortAndDeadline(t *testing.T, s Setup, place func(int) bool) {
	c := ready(t, s, place, 2, 1<<20)
	w := c.workers[0]
	tr := whole(nixl.Write, 1, 0, 0, 1<<20)
	err := w.do(request{Call: callRun, Number: c.batch(0, tr), Runs: forEver, Aborted: true}).err()
	if !errors.Is(err, nixl.ErrAborted) {
		t.Errorf("abort flag set before Run: got %v, want %v", err, nixl.ErrAborted)
	}
	late := c.batch(0, tr, whole(nixl.Read, 1, 0, 0, 5))
	err = w.do(request{Call: callRun, Number: late, Runs: forEver, Within: 20 * time.Millisecond}).err()
	timeout, ok := errors.AsType[*nixl.TimeoutError](err)
	if !ok || len(timeout.Peers) != 1 || timeout.Peers[0] != 1 {
		t.Errorf("deadline during Run: got %v, want a timeout that names peer 1", err)
	}
	if err := w.do(request{Call: callRun, Number: late, Runs: 1}).err(); err == nil {
		t.Error("a batch that timed out can be run again")
	}
	if err := w.do(request{Call: callRun, Number: c.batch(0, tr), Runs: 1, Within: 2 * time.Second}).err(); err != nil {
		t.Errorf("a new batch after a timeout: %v", err)
	}
	c.must(0, request{Call: callRelease, Number: late})
}

// underWay starts a run that does not end by itself, with peer 1 in its own process, and
// returns when its bytes arrive there.
func underWay(t *testing.T, s Setup, flag *uint32) (*cluster, <-chan error) {
	t.Helper()
	const size = 1 << 20
	c := ready(t, s, func(i int) bool { return i == 1 }, 2, size)
	c.must(0, request{Call: callStore, Number: 0, Data: make([]byte, size)})
	c.must(1, request{Call: callStore, Number: 0, Data: bytes.Repeat([]byte{1}, size)})
	b := c.workers[0].(local).server.batches[c.batch(0, whole(nixl.Write, 1, 0, 0, size))]
	result := make(chan error, 1)
	go func() { result <- b.Run(nixl.Control{Abort: flag}, forEver, nil) }()
	for deadline := time.Now().Add(patience); c.must(1, request{Call: callLoad, Number: 0}).Data[size-1] != 0; {
		if time.Now().After(deadline) {
			t.Fatal("nothing arrives")
		}
	}
	return c, result
}

// testAbortFromOutside sets the flag while a run is under way.
func testAbortFromOutside(t *testing.T, s Setup) {
	var flag uint32
	_, result := underWay(t, s, &flag)
	atomic.StoreUint32(&flag, 1)
	select {
	case err := <-result:
		if !errors.Is(err, nixl.ErrAborted) {
			t.Errorf("got %v, want %v", err, nixl.ErrAborted)
		}
	case <-time.After(patience):
		t.Fatal("Run does not end")
	}
}

// testKilledDuringRun kills the peer while a run is under way.
func testKilledDuringRun(t *testing.T, s Setup) {
	c, result := underWay(t, s, nil)
	c.workers[1].(*remote).kill(t)
	select {
	case err := <-result:
		if err == nil || !strings.Contains(err.Error(), "peer 1") {
			t.Errorf("got %v, want an error that names peer 1", err)
		}
	case <-time.After(patience):
		t.Fatal("Run does not end")
	}
}

func testEmptyBatch(t *testing.T, s Setup, place func(int) bool) {
	c := ready(t, s, place, 2, 10)
	b := c.batch(0)
	times := c.run(0, b, 3)
	if times[0].Start == 0 || times[2].End < times[0].Start {
		t.Errorf("stamps %+v", times)
	}
	c.must(0, request{Call: callPost, Number: b})
	c.must(0, request{Call: callWait, Number: b})
	c.verify()
}

// testReleaseAndClose releases twice, uses what was released, and leaves batches
// to Close, one of them posted.
func testReleaseAndClose(t *testing.T, s Setup, place func(int) bool) {
	c := ready(t, s, place, 2, 1<<20)
	tr := whole(nixl.Write, 1, 0, 0, 1<<20)
	b := c.batch(0, tr)
	c.run(0, b, 1)
	for range 2 {
		c.must(0, request{Call: callRelease, Number: b})
	}
	if err := c.workers[0].do(request{Call: callRun, Number: b, Runs: 1}).err(); err == nil {
		t.Error("a released batch can be run")
	}
	c.batch(0, tr)
	c.must(0, request{Call: callPost, Number: c.batch(0, tr)})
	for range 2 {
		c.must(0, request{Call: callClose})
	}
	if err := c.workers[0].do(request{Call: callAlloc, Size: 1}).err(); err == nil {
		t.Error("Alloc works on a closed agent")
	}
	if err := c.workers[0].do(request{Call: callBatch}).err(); err == nil {
		t.Error("NewBatch works on a closed agent")
	}
}

// testStoppedPeer runs against a process that the scheduler does not run. It may
// work, or end in time; it may not hang.
func testStoppedPeer(t *testing.T, s Setup) {
	for _, size := range []int{64, 4 << 20} {
		c := ready(t, s, func(i int) bool { return i == 1 }, 2, size)
		process := c.workers[1].(*remote).cmd.Process
		b := c.batch(0, whole(nixl.Write, 1, 0, 0, size))
		signal(t, process, syscall.SIGSTOP)
		start := time.Now()
		err := c.workers[0].do(request{Call: callRun, Number: b, Runs: 3, Within: 300 * time.Millisecond}).err()
		took := time.Since(start)
		signal(t, process, syscall.SIGCONT)
		timeout, ok := errors.AsType[*nixl.TimeoutError](err)
		switch {
		case err == nil:
			c.expect(0, whole(nixl.Write, 1, 0, 0, size))
			c.verify()
		case !ok || len(timeout.Peers) != 1 || timeout.Peers[0] != 1:
			t.Errorf("%d bytes: got %v, want a timeout that names peer 1", size, err)
		}
		if took > patience {
			t.Errorf("%d bytes: a deadline of 300 ms held after %v", size, took)
		}
	}
}

func signal(t *testing.T, p *os.Process, s syscall.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// testKilledPeer expects an error that names the killed peer, soon, and that transfers with others go on.
func testKilledPeer(t *testing.T, s Setup) {
	for _, size := range []int{64, 4 << 20} {
		c := ready(t, s, func(i int) bool { return i == 1 || s.threads() }, 3, size)
		if s.threads() {
			c.killAll()
		}
		w := c.workers[0]
		b := c.batch(0, whole(nixl.Write, 2, 0, 0, size), whole(nixl.Write, 1, 0, 0, size))
		c.workers[1].(*remote).kill(t)
		var err error
		start := time.Now()
		for err == nil && time.Since(start) < patience {
			err = w.do(request{Call: callRun, Number: b, Runs: 1, Within: 2 * time.Second}).err()
		}
		if err == nil || !strings.Contains(err.Error(), "peer 1") || strings.Contains(err.Error(), "peer 2") {
			t.Errorf("%d bytes: got %v, want an error that names peer 1 alone", size, err)
		}
		if took := time.Since(start); took > patience {
			t.Errorf("%d bytes: the error took %v", size, took)
		}
		// The others go on.
		tr := whole(nixl.Read, 2, 0, 0, size)
		c.run(0, c.batch(0, tr), 2)
	}
}

// testNoLeaks compares open files and goroutines after some lives of an agent with those after one.
func testNoLeaks(t *testing.T, s Setup) {
	life := func(t *testing.T) {
		c := ready(t, s, func(i int) bool { return i == 1 }, 3, 10_000, 0)
		b := c.batch(0, whole(nixl.Write, 1, 0, 0, 10_000), whole(nixl.Read, 2, 0, 0, 10_000))
		c.run(0, b, 2)
		if err := c.workers[0].do(request{Call: callBatch, Transfers: []nixl.Transfer{{Peer: 9}}}).err(); err == nil {
			t.Error("a batch with an unknown peer works")
		}
	}
	// The first life may leave what a process opens only once.
	t.Run("First", life)
	goroutines, files := goleak.IgnoreCurrent(), openFiles(t)
	for i := range 3 {
		t.Run(fmt.Sprint(i), life)
	}
	if now := openFiles(t); now > files {
		t.Errorf("%d open files, and %d after three more agents", files, now)
	}
	goleak.VerifyNone(t, goroutines)
}

func openFiles(t *testing.T) int {
	t.Helper()
	r, err := (&server{}).dispatch(request{Call: callOpenFiles})
	if err != nil {
		t.Fatal(err)
	}
	return r.Number
}
