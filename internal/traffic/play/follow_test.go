package play

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/session"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/nixl/engines"
	"perigee/spmd"
)

// virtual is a clock that a step of the posting thread moves on by step, and an engine whose transfers last for a time
// on it. What is reported does not depend on how busy the machine is.
type virtual struct {
	now, step, lasts int64
	oversleep        int64             // of each sleep
	stalls           map[int]int64     // by post, how long it takes to post
	ahead            func(int64) int64 // of the common time line, at a time
	made, posts      int
	held, mostHeld   int // batches
	under, most      int
	wanted           int   // after the end
	order            []int // bytes of what was posted
}

type virtualBatch struct {
	nixl.Batch
	v     *virtual
	bytes int
	until int64
}

func (b *virtualBatch) Post() error {
	v := b.v
	v.now += v.stalls[v.posts]
	v.posts++
	v.under++
	v.most = max(v.most, v.under)
	v.order = append(v.order, b.bytes)
	b.until = v.now + v.lasts
	return nil
}

func (b *virtualBatch) Done() (bool, error) {
	b.v.now += b.v.step
	return b.v.now >= b.until, nil
}

func (b *virtualBatch) Wait(ctl nixl.Control, t *nixl.Times) error {
	if b.v.now < b.until {
		return &nixl.TimeoutError{Peers: []int{1}}
	}
	t.End = b.v.now // as seen, as on NIXL
	b.v.under--
	return nil
}

func (b *virtualBatch) Release() error { b.v.held--; return nil }

// follow follows a schedule of one descriptor a transfer from rank 0 to rank 1 on a virtual clock: transfer k has
// bytes(k) bytes. It returns what is reported, in the order of transfers.
func (v *virtual) follow(t *testing.T, due []int64, bytes func(k int) int64, o Pace) (list []Timed, err error) {
	t.Helper()
	s, err := load.NewSchedule(load.Schedule{
		Name: "hour", Due: due, Pool: 1 << 20, Parts: func(list []load.Part, k int) []load.Part {
			return append(list, load.Part{From: 0, To: 1, Runs: []load.DescriptorRun{{Count: 1, Bytes: bytes(k)}}})
		},
	}, 2)
	must.Do(t, err)
	o.End = len(due)
	mustRanks(t, 2, func(w *spmd.World, sess *session.Session) error {
		w.SetTimeout(10 * time.Second)
		p, perr := New(sess, s)
		if perr != nil || w.Rank() > 0 {
			return perr
		}
		p.requests.prepare = func(list []load.Transfer) (nixl.Batch, error) {
			v.made++
			v.held++
			v.mostHeld = max(v.mostHeld, v.held)
			return &virtualBatch{v: v, bytes: int(list[0].LocalAt[0].Len)}, nil
		}
		f := newFollower(p, &part{Bound: p.Reserved.Lanes[0]}, s, o, func(done []Timed) { list = append(list, done...) })
		f.now = func() int64 { v.now += v.step; return v.now }
		f.await = func(until int64) error { v.now = max(v.now, until+v.oversleep); return nil }
		f.common = func(now int64) int64 { return now + v.ahead(now) }
		err = f.run()
		f.give()
		for _, g := range p.requests.known {
			v.wanted += g.wanted
		}
		return nil
	})
	slices.SortFunc(list, func(a, b Timed) int { return a.Transfer - b.Transfer })
	return list, err
}

func newVirtual() *virtual {
	return &virtual{step: 200, lasts: 20_000, now: 1e9, ahead: func(int64) int64 { return 0 }}
}

func every(ns int64, n int) []int64 {
	due := make([]int64, n)
	for k := range due {
		due[k] = int64(k) * ns
	}
	return due
}

func constant(n int64) func(int) int64 { return func(int) int64 { return n } }

// lateness is that of all posts, ascending.
func lates(list []Timed) []int64 {
	late := make([]int64, len(list))
	for k, t := range list {
		late[k] = t.Posted - t.Admitted
	}
	slices.Sort(late)
	return late
}

const ms = int64(time.Millisecond)

// 50,000 posts 200 us apart: none is dropped, none is late, and the last is posted 10 s after the first.
func TestFollowKeepsTheRate(t *testing.T) {
	const n, apart = 50_000, 200_000
	v := newVirtual()
	list, err := v.follow(t, every(apart, n), constant(8), Pace{Zero: 2e9})
	if err != nil || len(list) != n || v.posts != n {
		t.Fatalf("%d of %d transfers, %d posts, %v", len(list), n, v.posts, err)
	}
	for k, x := range list {
		due := 2e9 + int64(k)*apart
		if x.Transfer != k || x.Due != due || x.Admitted != due || x.Bytes != 8 || x.Posted < due || x.End < x.Posted+v.lasts {
			t.Fatalf("%+v", x)
		}
	}
	if late := lates(list); late[n-1] > ms {
		t.Errorf("lateness p50 %d ns, max %d", late[n/2], late[n-1])
	}
	if span := list[n-1].Posted - list[0].Posted; span < (n-1)*apart-ms || span > (n-1)*apart+ms {
		t.Errorf("posted in %d ns", span)
	}
}

// A delay of 50 ms of every post is reported as 50 ms: lateness has no other zero than the schedule's.
func TestConstantDelayIsReported(t *testing.T) {
	v := newVirtual()
	v.oversleep = 50 * ms
	list, err := v.follow(t, every(80*ms, 50), constant(8), Pace{Zero: 1e9 + 80*ms}) // shorter than the longest sleep
	must.Do(t, err)
	if late := lates(list); late[0] < 50*ms || late[49] > 51*ms {
		t.Errorf("lateness %d to %d ns, want 50 ms", late[0], late[49])
	}
}

// A stall of 50 ms is in the maximum and not in the median: what became overdue is posted at once, in its order, and
// the schedule stays where it was. Completions are seen meanwhile.
func TestStallIsReportedAndNotForgiven(t *testing.T) {
	const n = 5000
	v := newVirtual()
	v.stalls = map[int]int64{1000: 50 * ms}
	list, err := v.follow(t, every(ms/5, n), constant(8), Pace{Zero: 2e9})
	if err != nil || len(list) != n {
		t.Fatalf("%d transfers, %v", len(list), err)
	}
	late := lates(list)
	if late[n/2] > ms/10 || late[n-1] < 49*ms || late[n-1] > 50*ms {
		t.Errorf("lateness p50 %d ns, max %d", late[n/2], late[n-1])
	}
	over := 0
	for _, l := range late {
		if l > ms {
			over++
		}
	}
	if over < 200 || over > 260 {
		t.Errorf("%d posts were late, and 250 came due in the stall", over)
	}
	if x := list[n-1]; x.Posted-x.Due > ms/10 {
		t.Errorf("the last post was %d ns late", x.Posted-x.Due)
	}
	for k, x := range list {
		if k > 0 && x.Posted < list[k-1].Posted {
			t.Fatalf("transfer %d was posted before %d", k, k-1)
		}
		if k != 1000 && x.End-x.Posted > v.lasts+ms/10 { // that one was posted for 50 ms
			t.Fatalf("the end of transfer %d was seen %d ns after its post", k, x.End-x.Posted)
		}
	}
}

// Hundreds under way do not delay a post.
func TestFollowWithHundredsUnderWay(t *testing.T) {
	v := newVirtual()
	v.lasts = 100 * ms
	list, err := v.follow(t, every(ms/5, 3000), constant(8), Pace{Zero: 2e9})
	must.Do(t, err)
	if late := lates(list); v.most < 490 || late[len(late)-1] > ms/10 {
		t.Errorf("%d under way, lateness %d ns at most", v.most, late[len(late)-1])
	}
}

// Never more than the limit are under way, they are admitted in their order, and each when one of those before it
// ended.
func TestInFlight(t *testing.T) {
	v := newVirtual()
	v.lasts = 3 * ms
	sizes := func(k int) int64 { return int64(k%50 + 1) }
	list, err := v.follow(t, every(ms, 200), sizes, Pace{Zero: 2e9, InFlight: 2})
	if err != nil || v.most != 2 {
		t.Fatalf("%d under way, want 2, %v", v.most, err)
	}
	for k, x := range list {
		if v.order[k] != int(sizes(k)) {
			t.Fatalf("post %d has %d bytes", k, v.order[k])
		}
		want := x.Due
		if k >= 2 {
			want = max(want, list[k-2].End) // all last equally long
		}
		if x.Admitted != want || x.Posted < want || x.Posted > want+ms/10 {
			t.Fatalf("%+v was admitted, want at %d", x, want)
		}
	}
	if last := list[199]; last.Admitted-last.Due < 90*ms { // 2 each 3 ms, and one a millisecond comes
		t.Errorf("the last one waited for %d ns", last.Admitted-last.Due)
	}
	v = newVirtual()
	v.lasts = ms
	list, err = v.follow(t, every(ms, 20), constant(8), Pace{AtOnce: true, InFlight: 4})
	if err != nil || v.most != 4 || list[19].Due != list[0].Due || list[19].Posted-list[0].Posted > 5*ms {
		t.Errorf("at once: %d under way, %v, the last %+v, %v", v.most, list[0], list[19], err)
	}
}

// Transfers come again and again until an instant, never more than the limit under way, also where there are fewer, and
// what was prepared for later can be released.
func TestFollowAgain(t *testing.T) {
	for _, own := range []int{1, 3, 5000} {
		v := newVirtual()
		v.lasts = ms
		until := v.now + 100*ms
		list, err := v.follow(t, every(ms, own), func(k int) int64 { return int64(k%4096 + 1) }, Pace{AtOnce: true, InFlight: 8, Until: until})
		if err != nil || v.most != 8 || len(list) < 700 || len(list) > 808 || v.posts != len(list) {
			t.Fatalf("%d: %d done of %d posts, %d under way, %v", own, len(list), v.posts, v.most, err)
		}
		for k, bytes := range v.order {
			if bytes != k%own%4096+1 {
				t.Fatalf("%d: post %d has %d bytes", own, k, bytes)
			}
		}
		for _, x := range list {
			if x.Posted > until+ms/10 {
				t.Fatalf("%d: posted %d ns too late", own, x.Posted-until)
			}
		}
		if v.wanted > 0 {
			t.Errorf("%d: %d requests are wanted for ever", own, v.wanted)
		}
	}
}

// A clock that is seconds ahead, and that is found to be a little more ahead on the way, makes no post late and no
// transfer end before it began.
func TestFollowOnTheCommonClock(t *testing.T) {
	v := newVirtual()
	v.lasts = ms
	v.ahead = func(now int64) int64 {
		if now > 1300*ms {
			return -700*ms - 400_000
		}
		return -700 * ms
	}
	list, err := v.follow(t, every(ms, 1000), constant(8), Pace{Zero: 500 * ms})
	must.Do(t, err)
	for _, x := range list {
		if x.Due != 500*ms+int64(x.Transfer)*ms || x.Posted < x.Due || x.End-x.Posted < ms || x.End-x.Posted > ms+ms/10 {
			t.Fatalf("%+v", x)
		}
	}
	if late := lates(list); late[998] > ms/10 {
		t.Errorf("lateness %d ns", late[998])
	}
}

// Where the same bytes go to the same places again, requests are used again; where they do not, those that are over are
// released.
func TestFollowPreparesFewRequests(t *testing.T) {
	v := newVirtual()
	if _, err := v.follow(t, every(50_000, 20_000), constant(1<<14), Pace{Zero: 2e9}); err != nil || v.made > 70 {
		t.Errorf("%d requests for 64 places, %v", v.made, err)
	}
	for _, apart := range []int64{50_000, 1} { // in time, and late all the time
		v = newVirtual()
		size := func(k int) int64 { return int64(k + 1) }
		list, err := v.follow(t, every(apart, 30_000), size, Pace{Zero: 2e9})
		if most := 2*horizon/handle + 100; err != nil || len(list) != 30_000 || v.made != 30_000 || v.mostHeld > most {
			t.Errorf("%d ns: %d transfers with %d requests, %d at a time, %v", apart, len(list), v.made, v.mostHeld, err)
		}
	}
}

// A transfer that does not end in time is an error that names the peer.
func TestFollowTimesOut(t *testing.T) {
	v := newVirtual()
	v.lasts, v.step = 11e9, 100_000
	_, err := v.follow(t, every(ms, 3), constant(8), Pace{Zero: 2e9})
	must.Fail(t, err, fault.Timeout, "hour: transfer with peer 1 did not complete in time")
}

// handoffs is a schedule of requests from 2 prefill ranks to 2 decode ranks, in pages and in one piece.
func handoffs(t testing.TB, op nixl.Op, transfers, ranks int, gap, pool int64) load.Schedule {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 8))
	sizes := make([]load.DescriptorRun, transfers)
	for k := range sizes {
		sizes[k] = load.DescriptorRun{Count: 1 + rng.Int64N(5), Bytes: 1 + rng.Int64N(9000)}
	}
	s, err := load.NewSchedule(load.Schedule{
		Name: "hour", Op: op, Due: every(gap, transfers), Pool: pool, Parts: func(list []load.Part, k int) []load.Part {
			half := ranks / 2
			for i := range 1 + k%min(2, half) {
				list = append(list, load.Part{From: (k + i) % half, To: half + k/2%half,
					Runs: []load.DescriptorRun{sizes[k], {Count: 1, Bytes: int64(i + 1)}}})
			}
			return list
		},
	}, ranks)
	must.Do(t, err)
	return s
}

// Both engines fetch and send every byte, in as many laps as the pool takes, and then follow the schedule while other
// goroutines gather and compare clocks.
func TestFollowOnEngines(t *testing.T) {
	for _, name := range []string{"shm", "nixl"} {
		t.Run(name, func(t *testing.T) {
			var engine nixl.Engine = new(traffictest.Engine)
			if name == "nixl" {
				var err error
				if engine, _, err = engines.Open("nixl", "", true, "", nixl.Backend{}); err != nil {
					t.Skipf("no NIXL here: %v", err)
				}
			}
			for _, op := range []nixl.Op{nixl.Read, nixl.Write} {
				followOn(t, engine, op)
			}
		})
	}
}

func followOn(t *testing.T, engine nixl.Engine, op nixl.Op) {
	const transfers, ranks = 200, 4
	s := handoffs(t, op, transfers, ranks, ms/5, 128<<10)
	if laps := len(s.Laps()); laps < 4 {
		t.Fatalf("only %d laps", laps)
	}
	var done atomic.Int64
	for r, err := range onRanks(t, ranks, engine, nixl.AgentConfig{OneHost: true}, func(w *spmd.World, sess *session.Session) error {
		p, err := New(sess, s)
		if err != nil {
			return err
		}
		var steps []int
		err = VerifySchedule(p, func(transfers int) { steps = append(steps, transfers) })
		if err != nil {
			return err
		}
		checked := 0
		for _, n := range steps {
			checked += n
		}
		if checked != transfers || len(steps) != len(s.Laps())-1 {
			return fmt.Errorf("progress of %v, want the laps %v", steps, s.Laps())
		}
		zero, err := spmd.BroadcastValue(w.All(), 0, w.Now()+20*ms)
		if err != nil {
			return err
		}
		gathered := make(chan error, 1)
		go func() {
			for range 20 {
				if err := errors.Join(w.SyncClocks(), w.All().Barrier()); err != nil {
					gathered <- err
					return
				}
			}
			gathered <- nil
		}()
		seen := map[int]bool{}
		err = p.Follow(Pace{End: transfers, Zero: zero}, func(list []Timed) {
			for _, x := range list {
				if seen[x.Transfer] || x.Posted < x.Due || x.End < x.Posted || x.Bytes < 1 {
					t.Errorf("%+v", x)
				}
				seen[x.Transfer] = true
				done.Add(1)
			}
		})
		return errors.Join(err, <-gathered, p.Release())
	}) {
		if err != nil {
			t.Errorf("%v, rank %d: %v", op, r, err)
		}
	}
	want := int64(transfers)
	if op == nixl.Write {
		want = transfers * 3 / 2 // every other one has two senders
	}
	if done.Load() != want {
		t.Errorf("%v: %d transfers are done, want %d", op, done.Load(), want)
	}
}

// One wrong bit of any byte that arrives is found.
func TestVerifyScheduleFindsEveryByte(t *testing.T) {
	s := handoffs(t, nixl.Read, 6, 2, 1, 48<<10)
	checked := 0
	for i, end := range s.Laps()[1:] {
		_, received := s.Between(s.Laps()[i], end).Messages(1, 0)
		for _, m := range received {
			for _, d := range m.Pieces {
				for _, at := range []int64{d.Off, d.Off + d.Len/2, d.Off + d.Len - 1, d.Off + d.Len} { // the last one is beside it
					checked++
					d := &traffictest.Damaged{Lost: -9, Rank: 1, Buffer: recvBuffer, Flips: map[int64]byte{session.Guard + at: 1}}
					errs := onRanks(t, 2, d, nixl.AgentConfig{}, func(_ *spmd.World, sess *session.Session) error {
						p, err := New(sess, s)
						if err != nil {
							return err
						}
						return VerifySchedule(p, nil)
					})
					if _, ok := errors.AsType[*Corruption](errs[1]); !ok || fault.KindOf(errs[1]) != fault.Corrupt {
						t.Fatalf("byte %d: got %v", at, errs[1])
					}
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d bytes", checked)
	}
}

// A rank that fails ends those that follow, whether they wait for a time or for a transfer.
func TestFollowEndsWithTheJob(t *testing.T) {
	s := handoffs(t, nixl.Read, 8, 2, int64(time.Hour), 0)
	reason := errors.New("rank 0 has enough")
	began := time.Now()
	errs := tryRanks(t, 2, func(w *spmd.World, sess *session.Session) error {
		p, err := New(sess, s)
		if err != nil {
			return err
		}
		if w.Rank() == 0 {
			time.Sleep(20 * time.Millisecond)
			return reason
		}
		return p.Follow(Pace{End: 8, Zero: w.Now()}, func([]Timed) {})
	})
	if errs[1] == nil || !strings.Contains(errs[1].Error(), reason.Error()) || time.Since(began) > 5*time.Minute {
		t.Errorf("%v after %v", errs[1], time.Since(began))
	}
}

func TestFollowRefuses(t *testing.T) {
	mustRanks(t, 2, func(_ *spmd.World, sess *session.Session) error {
		plans, err := Prepare(sess, []load.Load{
			handoffs(t, nixl.Read, 4, 2, 0, 0), load.Pattern{Matrix: fromRows(t, []int64{0, 1}, []int64{0, 0}), Shards: 1},
		})
		if err != nil {
			return err
		}
		for want, err := range map[string]error{
			"hour: follow transfers 0 to 5":            plans[0].Follow(Pace{End: 5}, nil),
			"traffic pattern: follow transfers 0 to 1": plans[1].Follow(Pace{End: 1}, nil),
			"traffic pattern is no schedule":           VerifySchedule(plans[1], nil),
			"hour: a schedule is followed":             plans[0].Run(1, false),
		} {
			if fault.KindOf(err) != fault.Script || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("got %w, want %s", err, want)
			}
		}
		return nil
	})
}
