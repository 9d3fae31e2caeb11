package nixltest

import (
	"errors"
	"os"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/nixl"
)

// testHugePages takes buffers of each choice of pages, moves bytes between them, and gives them back. On a host without
// reserved huge pages the error says how to reserve some.
func testHugePages(t *testing.T, s Setup) {
	reserved, err := os.ReadFile("/proc/sys/vm/nr_hugepages")
	none := err != nil || strings.TrimSpace(string(reserved)) == "0"
	for _, choice := range []string{nixl.HugeAuto, nixl.HugeOff, nixl.HugeOn, "giant"} {
		t.Run(choice, func(t *testing.T) {
			s.Config.HugePages = choice
			c := newCluster(t, s, func(i int) bool { return i == 1 }, 2)
			err := c.workers[0].do(request{Call: callAlloc, Size: 100}).err()
			switch {
			case choice == "giant":
				if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), `"giant"`) {
					t.Errorf("got %v of kind %v", err, fault.KindOf(err))
				}
				return
			case choice == nixl.HugeOn && none:
				if fault.KindOf(err) != fault.Resource || !strings.Contains(err.Error(), "reserved huge pages") {
					t.Errorf("got %v of kind %v", err, fault.KindOf(err))
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			c.must(1, request{Call: callAlloc, Size: 100})
			c.want = [][][]byte{{make([]byte, 100)}, {make([]byte, 100)}}
			c.alloc(2<<20 + 1)
			c.exchange()
			c.connect()
			tr := whole(nixl.Write, 1, 1, 1, 2<<20+1)
			c.run(0, c.batch(0, tr), 2)
			c.expect(0, tr)
			c.verify()
		})
	}
}

// testPipeline keeps several runs under way.
func testPipeline(t *testing.T, s Setup) {
	const size, depth, runs = 64_000, 3, 20
	c := ready(t, s, func(i int) bool { return i == 1 }, 2, size)
	tr := whole(nixl.Write, 1, 0, 0, size)
	var batches []nixl.Batch
	for range depth {
		batches = append(batches, c.workers[0].(local).server.batches[c.batch(0, tr)])
	}
	times := stamps(runs, 1)
	if err := nixl.Pipeline(nixl.Control{}, batches, runs, times); err != nil {
		t.Fatal(err)
	}
	c.expect(0, tr)
	c.verify()
	for i, s := range times {
		if s.Start == 0 || s.Posted < s.Start || s.End < s.Posted || s.Done[0] < s.Start || s.Done[0] > s.End {
			t.Errorf("run %d: stamps %+v are not in order", i, s)
		}
		// Run i is posted before the run depth-1 before it was waited for, and not before its batch was free.
		if i >= depth && s.Start < times[i-depth].End {
			t.Errorf("run %d starts at %d, its batch was busy until %d", i, s.Start, times[i-depth].End)
		}
	}
	for _, n := range []int{0, 1, depth - 1} {
		if err := nixl.Pipeline(nixl.Control{}, batches, n, nil); err != nil {
			t.Errorf("%d runs: %v", n, err)
		}
	}
	if err := nixl.Pipeline(nixl.Control{}, nil, 1, nil); err == nil {
		t.Error("no batches: no error")
	}
	if err := nixl.Pipeline(nixl.Control{}, batches, 2, times); err == nil {
		t.Error("room for other stamps: no error")
	}
}

// testReregister expects a buffer to work after each registration, and an error from what used the old one.
func testReregister(t *testing.T, s Setup) {
	const size = 30_000
	c := ready(t, s, func(i int) bool { return i == 1 }, 2, size, size)
	agent := c.workers[0].(local).agent
	tr, other := whole(nixl.Write, 1, 0, 0, size), whole(nixl.Read, 1, 1, 1, size)
	kept := c.batch(0, other)
	for round := range 5 {
		b, list := c.batch(0, tr), c.list(0, nixl.Self, 0, tr.Local)
		c.run(0, b, 1)
		c.expect(0, tr)
		err := agent.Reregister(0)
		if errors.Is(err, nixl.ErrNoRegistration) {
			return
		}
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		c.refuse(0, request{Call: callRun, Number: b, Runs: 1}, "registered again")
		c.refuse(0, request{Call: callPick, Picks: []pick{{Local: list, Remote: list}}}, "released")
		c.run(0, kept, 1)
		c.expect(0, other)
		data := noise(size, uint64(round), 3)
		c.must(0, request{Call: callStore, Number: 0, Data: data})
		copy(c.want[0][0], data)
	}
	c.run(0, c.batch(0, tr), 1)
	c.expect(0, tr)
	c.verify()
	for _, number := range []int{-1, 2} {
		if err := agent.Reregister(number); err == nil {
			t.Errorf("buffer %d: no error", number)
		}
	}
}
