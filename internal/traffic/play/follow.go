package play

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/series"
	"perigee/internal/traffic/session"
	"perigee/nixl"
)

// Pace is how a plan of a [load.Schedule] is followed.
type Pace struct {
	First, End int   // transfers of the schedule, End not included
	InFlight   int   // transfers of a rank under way at a time, first come first served; 0: no limit
	AtOnce     bool  // all transfers are due at Zero
	Zero       int64 // of the schedule, nanoseconds of the common time line; 0: when the first requests are prepared
	// Until lets a rank post its transfers again and again, with AtOnce and InFlight, until this instant of the common
	// time line.
	Until int64
}

// Timed is what became of a transfer at the rank that posts it, or posts its parts of it. Stamps are nanoseconds of the
// common time line.
type Timed struct {
	Transfer int
	Due      int64
	// Admitted is when it might be posted: Due, or with Pace.InFlight when one of those before it ended, if that was
	// later. Admitted - Due is its wait in the queue, and Posted - Admitted how late this rank posted it.
	Admitted int64
	Posted   int64 // before it was given to the engine
	End      int64 // when all of this rank's parts were seen complete
	Bytes    int64 // of this rank's parts
}

// Follow posts this rank's transfers of a schedule when they are due, whatever is under way then, and returns when all
// are complete. Nothing is sent between ranks but the transfers, so each rank calls it by itself; one that posts
// nothing returns at once. What is overdue is posted as soon as can be, completions being looked at in between: the
// schedule is never moved. The world's timeout bounds each transfer.
//
// The posting thread calls take from time to time with what is done since. take must be quick, and must not keep the
// slice. Meanwhile other goroutines may use the world, for collectives and to compare clocks, but not the session.
func (p *LoadPlan) Follow(o Pace, take func([]Timed)) error {
	if err := p.Usable(); err != nil {
		return err
	}
	s, ok := p.Load.(load.Schedule)
	if !ok || o.First < 0 || o.End > len(s.Due) || o.InFlight < 0 {
		return fault.New(fault.Script, "%s: follow transfers %d to %d, %d in flight: want those of a schedule",
			p.Label(), o.First, o.End, o.InFlight)
	}
	if p.requests.own.Len() == 0 {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	k := &part{Bound: p.Reserved.Lanes[0]}
	return k.Use(func() error {
		f := newFollower(p, k, s, o, take)
		err := f.run()
		f.give()
		if err != nil {
			f.abandon()
		}
		return err
	})
}

// follower is a rank's posting thread. Times that are not said to be common are of the host's clock.
type follower struct {
	Pace
	p         *LoadPlan
	part      *part
	due       []int64
	requests  *requests
	next, end int         // to be posted, counted on where they come again: see own
	ahead     int         // the first that is not known to be prepared
	wants     []*geometry // of those from next to ahead, by place behind first
	first     int
	weight    int64 // of the requests that these want

	under []flight
	at    int     // in under, the next to look at
	slots []int64 // with InFlight: when those that are free became so, in common time, the longest first
	done  []Timed
	gave  int64 // when take was called
	taken func([]Timed)

	offset, compared int64 // to add for common time, and when that was worked out
	timeout          int64
	crowded, oneCPU  bool

	now    func() int64 // these three are replaced by tests
	common func(now int64) int64
	await  func(until int64) error
}

// flight is a transfer under way.
type flight struct {
	Timed
	g        *geometry
	batch    nixl.Batch
	offset   int64 // of all its stamps: they stay in order though the clocks are compared meanwhile
	deadline int64 // 0: none
}

const (
	// postsAtOnce and looksAtOnce bound what is done before the thread turns to the other, so that a rank that catches
	// up sees completions, and one with hundreds of transfers under way posts in time.
	postsAtOnce, looksAtOnce = 4, 16
	// preparedUnderWay is how many transfers are prepared ahead while others are under way, whose ends are seen later
	// for it.
	preparedUnderWay = 16
	// mostDone and longestDone are when take is called although there is more urgent work.
	mostDone, longestDone = 4096, int64(time.Second)
	// soon is so little time that nothing else is begun in it.
	soon = int64(50 * time.Microsecond)
	// afresh is how often the offset of the clocks is looked up, and the longest sleep.
	afresh, longestSleep = int64(time.Millisecond), int64(100 * time.Millisecond)
)

func newFollower(p *LoadPlan, k *part, s load.Schedule, o Pace, take func([]Timed)) *follower {
	w := p.s.World()
	r := p.requests
	f := &follower{
		Pace: o, p: p, part: k, due: s.Due, requests: r, taken: take, timeout: int64(w.Timeout()),
		oneCPU: runtime.GOMAXPROCS(0) == 1, now: clock.Now,
		common: func(now int64) int64 { return w.ToCommon(w.Rank(), now) },
		await: func(until int64) error {
			_, err := p.s.Await(series.Agreed{NS: until})
			return err
		},
	}
	h := w.Hosts()[w.HostOf(w.Rank())]
	f.crowded = len(h.Ranks) > h.CPUs
	from := func(transfer int) int {
		return sort.Search(r.own.Len(), func(k int) bool { return r.own.Number(k) >= transfer })
	}
	f.next, f.end = from(o.First), from(o.End)
	f.first, f.ahead = f.next, f.next
	f.wants = make([]*geometry, max(f.end-f.next, 0))
	f.slots = make([]int64, min(o.InFlight, len(f.wants)))
	if o.Until > 0 && len(f.wants) > 0 {
		f.end, f.slots = math.MaxInt, make([]int64, o.InFlight)
	}
	return f
}

// place is where in wants the k-th to be posted stands.
func (f *follower) place(k int) int { return (k - f.first) % len(f.wants) }

// own is the number of the k-th to be posted among this rank's transfers.
func (f *follower) own(k int) int { return f.first + f.place(k) }

// run is the loop of the posting thread.
func (f *follower) run() error {
	f.look(f.now())
	for f.Zero == 0 {
		if did, err := f.prepare(math.MaxInt64); err != nil {
			return f.explain(err)
		} else if !did {
			now := f.now()
			f.look(now)
			f.Zero = now + f.offset
		}
	}
	w := f.p.s.World()
	for f.next < f.end || len(f.under) > 0 {
		if atomic.LoadUint32(w.AbortFlag()) != 0 {
			return f.explain(nixl.ErrAborted)
		}
		now := f.now()
		f.look(now)
		if f.Until > 0 && now+f.offset >= f.Until {
			f.end = f.next
		}
		all, err := f.postDue(now)
		if err == nil {
			err = f.poll()
		}
		if err == nil && all {
			err = f.idle()
		} else if len(f.done) > 0 && now-f.gave > longestDone {
			f.give() // a rank that is late all the time is never idle
		}
		if err != nil {
			return err
		}
	}
	for _, g := range f.wants { // with Until, what was prepared for later
		if g != nil {
			f.requests.unwant(g)
		}
	}
	return nil
}

func (f *follower) explain(err error) error {
	return session.Explain(f.p.s.World(), f.p.what(f.part), err)
}

// look looks the offset of the clocks up, now and then.
func (f *follower) look(now int64) {
	if f.compared == 0 || now-f.compared >= afresh {
		f.offset, f.compared = f.common(now)-now, now
	}
}

// dueAt is when the next transfer is due, in common time.
func (f *follower) dueAt() int64 {
	if f.AtOnce {
		return f.Zero
	}
	return f.Zero + f.due[f.requests.own.Number(f.own(f.next))]
}

// postDue posts a few of what is due, and reports whether that is all for now.
func (f *follower) postDue(now int64) (all bool, err error) {
	for range postsAtOnce {
		if f.next == f.end || f.InFlight > 0 && len(f.slots) == 0 || f.dueAt()-f.offset > now {
			return true, nil
		}
		if err := f.post(); err != nil {
			return false, f.explain(err)
		}
		now = f.now()
	}
	return false, nil
}

// post posts the next transfer.
func (f *follower) post() error {
	k, at := f.own(f.next), f.place(f.next)
	g := f.wants[at]
	if f.next < f.ahead {
		f.weight -= g.weight
	} else {
		f.ahead = f.next + 1
		if g == nil {
			g = f.requests.want(k)
		}
	}
	f.wants[at] = nil
	b, err := f.requests.take(g, k)
	if err != nil {
		return err
	}
	due := f.dueAt()
	t := flight{g: g, batch: b, offset: f.offset, Timed: Timed{
		Transfer: f.requests.own.Number(k), Due: due, Admitted: due, Bytes: f.requests.own.Bytes(k),
	}}
	if f.InFlight > 0 {
		t.Admitted = max(due, f.slots[0])
		f.slots = slices.Delete(f.slots, 0, 1)
	}
	now := f.now()
	if f.timeout > 0 {
		t.deadline = now + f.timeout
	}
	t.Posted = now + f.offset
	f.next++
	f.under = append(f.under, t)
	return b.Post()
}

// poll looks at a few of the transfers under way, in turns.
func (f *follower) poll() error {
	for range min(looksAtOnce, len(f.under)) {
		if f.at >= len(f.under) {
			f.at = 0
		}
		t := &f.under[f.at]
		done, err := t.batch.Done()
		if err == nil && !done && t.deadline != 0 && f.now() >= t.deadline {
			err = t.batch.Wait(nixl.Control{Deadline: t.deadline}, nil) // says which peers are late
			done = err == nil
		} else if err == nil && done {
			var times nixl.Times
			err = t.batch.Wait(nixl.Control{}, &times)
			t.End = times.End + t.offset
		}
		if err != nil {
			return f.explain(err)
		}
		if done {
			f.ended(f.at)
		} else {
			f.at++
		}
	}
	return nil
}

// ended takes a transfer from those under way.
func (f *follower) ended(at int) {
	t := f.under[at]
	t.End = cmp.Or(t.End, f.now()+t.offset)
	last := len(f.under) - 1
	f.under[at] = f.under[last]
	f.under[last] = flight{}
	f.under = f.under[:last]
	f.requests.put(t.g, t.batch)
	if f.InFlight > 0 {
		f.slots = append(f.slots, t.End)
	}
	f.done = append(f.done, t.Timed)
	if len(f.done) >= mostDone {
		f.give()
	}
}

// give gives what is done.
func (f *follower) give() {
	if len(f.done) > 0 {
		f.taken(f.done)
	}
	f.done, f.gave = f.done[:0], f.now()
}

// idle does what there is time for until the next transfer is due.
func (f *follower) idle() error {
	now := f.now()
	until := int64(math.MaxInt64) // nothing is due, or there is no slot for it
	if f.next < f.end && (f.InFlight == 0 || len(f.slots) > 0) {
		until = f.dueAt() - f.offset
	}
	left := until - now
	if did, err := f.prepare(left); err != nil {
		return f.explain(err)
	} else if did {
		return nil
	}
	if len(f.done) > 0 && (left > soon || now-f.gave > longestDone) {
		f.give()
		return nil
	}
	switch {
	case len(f.under) > 0:
		f.yield(left)
		return nil
	case f.next == f.end:
		return nil
	}
	return f.await(min(until, now+longestSleep))
}

// yield leaves the processor to others that want it, unless a transfer is due.
func (f *follower) yield(left int64) {
	switch {
	case f.oneCPU:
		runtime.Gosched() // an engine may copy in goroutines
		fallthrough
	case f.crowded && left > soon, left > spinning:
		unix.RawSyscallNoError(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// spinning is how long the thread keeps its processor before a transfer is due: a process that it were left to keeps it
// for about as long.
const spinning = int64(time.Millisecond)

// prepare prepares the requests of the next transfer that has none, if there is time for it, and reports whether it did
// anything.
func (f *follower) prepare(left int64) (did bool, err error) {
	ready := f.ahead - f.next
	if f.ahead >= f.end || ready == len(f.wants) {
		return false, nil
	}
	if ready > 0 && (left < soon || len(f.under) > 0 && ready >= preparedUnderWay) {
		return false, nil
	}
	k, at := f.own(f.ahead), f.place(f.ahead)
	g := f.wants[at]
	if g == nil {
		g = f.requests.want(k)
		f.wants[at] = g
	}
	if ready > 0 && (f.weight+g.weight > horizon || g.all == 0 && f.requests.takes(g) > left) {
		return false, nil
	}
	if g.all == 0 {
		if err := f.requests.add(g, k); err != nil {
			return true, err
		}
	}
	f.weight += g.weight
	f.ahead++
	return true, nil
}

// abandon ends what is under way after an error: it need not be waited for when the agent closes.
func (f *follower) abandon() {
	for _, t := range f.under {
		t.batch.Wait(nixl.Control{Deadline: 1}, nil) // the reason is known
	}
}

// VerifySchedule lets a plan of a [load.Schedule] move known bytes, as many transfers at a time as share no memory, and
// checks every byte that arrived, those beside them too. All ranks call it. progress, which may be nil, gets how many
// transfers have been checked since its last call. Wrong bytes are an error as that of Verify.
func VerifySchedule(p *LoadPlan, progress func(transfers int)) error {
	s, ok := p.Load.(load.Schedule)
	if !ok {
		return fault.New(fault.Script, "%s is no schedule", p.Label())
	}
	laps := s.Laps()
	for i, end := range laps[min(1, len(laps)):] {
		own := *p.Reserved
		own.Load = s.Between(laps[i], end)
		lap := &LoadPlan{Reserved: &own, s: p.s}
		if err := Fill(lap, i); err != nil {
			return err
		}
		pace := Pace{First: laps[i], End: end, InFlight: verifyInFlight, AtOnce: true}
		if err := p.Follow(pace, func([]Timed) {}); err != nil {
			return err
		}
		if err := Check(lap, i); err != nil {
			return err
		}
		if progress != nil {
			progress(end - laps[i])
		}
	}
	return nil
}

// verifyInFlight bounds the requests of a verification.
const verifyInFlight = 64
