package experiment

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/pack"
	"perigee/internal/replay"
	"perigee/internal/replay/outcome"
	"perigee/internal/result"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/play"
	"perigee/nixl"
	"perigee/spmd"
)

// PreparedReplay is a schedule whose transfers are prepared at all ranks. All of them call its methods alike.
type PreparedReplay struct {
	*replay.Schedule
	e        *Experiment
	plan     *play.LoadPlan
	inFlight int            // transfers of a decode rank under way; 0: all that are due
	log      *outcome.Log   // at rank 0, as is
	doc      *result.Replay // what is known so far
}

// OpenReplay prepares a schedule. about says of it what the result holds besides, and how many transfers may be under
// way.
func (e *Experiment) OpenReplay(s *replay.Schedule, about result.Replay) (*PreparedReplay, error) {
	session, err := e.Session()
	if err != nil {
		return nil, err
	}
	// Of a GPU it is not known what fits.
	fits := func(l load.Schedule) bool { return s.Mem != nixl.DRAM || session.HasRoom([]load.Load{l}) }
	placed, err := s.Place()
	if fault.KindOf(err) == fault.Input {
		return nil, fault.Wrap(err, "--pool").WithHint("%s", s.Fitting(fits))
	}
	if err != nil {
		return nil, err
	}
	r := &PreparedReplay{Schedule: s, e: e, inFlight: about.InFlight}
	if r.plan, err = play.New(session, placed); fault.KindOf(err) == fault.Resource {
		return nil, fault.Wrap(err, "replay").WithHint("%s", s.Fitting(fits))
	}
	if err != nil {
		return nil, err
	}
	e.Prepared(r.plan.Reserved)
	if e.Doc == nil {
		return r, nil
	}
	about.Copies = session.Info().Can.CopiesInPost && placed.Mem == nixl.DRAM
	if about.Copies {
		e.Note("all ranks are on one host, where UCX copies while it posts: a transfer delays the posts after it")
	}
	r.doc, r.log = &about, outcome.New(s)
	r.log.Fill(r.doc)
	m := matrix.New(e.World.Size())
	for pair, bytes := range r.log.Sent() {
		if err := m.Set(pair[0], pair[1], bytes); err != nil {
			return nil, err
		}
	}
	e.Doc.Patterns = append(e.Doc.Patterns, result.Pattern{
		Name: placed.Name, Kind: "replay", Matrix: e.Doc.AddMatrix(m, ""), Senders: len(m.Senders()),
		Mem: placed.Mem.String(), Op: placed.Op.String(),
	})
	return r, nil
}

// Verify plays the whole schedule as fast as it can and checks every byte. progress is as with [play.VerifySchedule].
func (r *PreparedReplay) Verify(progress func(transfers int)) error {
	return play.VerifySchedule(r.plan, progress)
}

const (
	aloneSizes = 7 // transfers that are played alone
	aloneTurns = 3 // of each of them, at least
	// aloneLead is when they start, so that all ranks know of it.
	aloneLead = 2 * time.Millisecond
	// busyDepth is how many transfers of a rank are under way while the capacity is measured, busyPieces in how many
	// stretches, after one that is not measured.
	busyDepth  = 8
	busyPieces = 3
	// mostCut is the share of bytes that may be of transfers which were under way when all began or ended: how fast
	// they went within the stretches is not known. About half of it may be wrong then.
	mostCut = 0.1
)

// Isolated plays transfers of several sizes alone, in turn, for some seconds.
func (r *PreparedReplay) Isolated(seconds float64) error {
	w := r.e.World
	chosen, err := spmd.BroadcastValue(w.All(), 0, r.sizes())
	if err != nil {
		return err
	}
	took := make([][]int64, len(chosen))
	began := time.Now()
	for turn := 0; ; turn++ {
		more := turn <= aloneTurns || time.Since(began).Seconds() < seconds
		if more, err = spmd.BroadcastValue(w.All(), 0, more); err != nil || !more {
			break
		}
		if err := w.SyncClocks(); err != nil {
			return err
		}
		for i, t := range chosen {
			ns, err := r.alone(t)
			if err != nil {
				return err
			}
			if turn > 0 { // the first is a warm-up
				took[i] = append(took[i], ns)
			}
		}
	}
	if err != nil || r.doc == nil {
		return err
	}
	list := make([]result.ReplayAlone, len(chosen))
	for i, t := range chosen {
		slices.Sort(took[i])
		list[i] = result.ReplayAlone{
			Request: r.Transfers[t].Request, Bytes: r.log.Bytes(t), NS: took[i][len(took[i])/2], Runs: len(took[i]),
		}
	}
	outcome.Alone(r.doc, list)
	r.save()
	return nil
}

// alone plays a transfer alone, and returns at all ranks how long it took, from its first post until its last end.
func (r *PreparedReplay) alone(transfer int) (ns int64, err error) {
	zero, err := r.meet(aloneLead)
	if err != nil {
		return 0, err
	}
	const far = int64(1) << 62
	var latest [2]int64 // end after zero; and far less the first post, so that the latest is of the first
	pace := play.Pace{First: transfer, End: transfer + 1, AtOnce: true, Zero: zero}
	err = r.plan.Follow(pace, func(done []play.Timed) {
		latest = [2]int64{done[0].End - zero, far - (done[0].Posted - zero)}
	})
	if err != nil {
		return 0, err
	}
	latest, err = r.e.World.All().Latest(latest)
	return latest[0] - (far - latest[1]), err
}

// meet lets all ranks meet, and returns the instant that comes so long after the last of them: they would leave a
// barrier one after the other.
func (r *PreparedReplay) meet(lead time.Duration) (instant int64, err error) {
	latest, err := r.e.World.All().Latest([2]int64{r.e.World.Now(), int64(lead)})
	return latest[0] + latest[1], err
}

// sizes chooses transfers from the smallest to the largest, no two of one size, at rank 0.
func (r *PreparedReplay) sizes() (list []int) {
	if r.log == nil {
		return nil
	}
	order := make([]int, len(r.Transfers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.log.Bytes(a), r.log.Bytes(b)) })
	for k := range aloneSizes {
		t := order[k*(len(order)-1)/(aloneSizes-1)]
		if n := len(list); n == 0 || r.log.Bytes(list[n-1]) < r.log.Bytes(t) {
			list = append(list, t)
		}
	}
	return list
}

// Capacity lets all ranks move the schedule's transfers as fast as they can, again and again, for about so many
// seconds. Where transfers take too long for a figure, a note says so instead.
func (r *PreparedReplay) Capacity(seconds float64) error {
	w := r.e.World
	if err := w.SyncClocks(); err != nil {
		return err
	}
	length := int64(seconds * 1e9 / busyPieces)
	begin, err := r.meet(time.Duration(length))
	if err != nil {
		return err
	}
	c := carried{begin: begin, length: length}
	pace := play.Pace{End: len(r.Transfers), InFlight: busyDepth, AtOnce: true, Until: c.end()}
	if err := r.plan.Follow(pace, c.add); err != nil {
		return err
	}
	select { // a rank that posts nothing has no long wait for the others, which --timeout would end
	case <-time.After(time.Duration(c.end() - w.Now())):
	case <-w.Context().Done():
	}
	sums, err := spmd.AllReduce(w.All(), append(c.stretches[:], c.cut), spmd.Sum)
	if err != nil || r.doc == nil {
		return err
	}
	rates, all, share := sums[:busyPieces], 0.0, 1.0
	for _, bytes := range rates {
		all += bytes
	}
	if all > 0 {
		share = sums[busyPieces] / all
	}
	if share > mostCut {
		r.e.Note(fmt.Sprintf("no capacity is known: %g s are too short for the time that transfers take, since %.0f %% of the bytes are "+
			"of those under way at the beginning or the end; wanted at most %.0f %%, as with --capacity %.0f, or a lower --scale",
			seconds, 100*share, 100*mostCut, math.Ceil(1.5*seconds*share/mostCut)))
		return nil
	}
	for i := range rates {
		rates[i] *= 1e9 / float64(length)
	}
	r.doc.Stretches = rates
	rates = slices.Sorted(slices.Values(rates))
	r.doc.Capacity = &rates[len(rates)/2]
	r.save()
	return nil
}

// carried adds up what a rank carries in stretches that follow each other from an instant on. Bytes of a transfer count
// evenly from its post until its end. While as many transfers are under way all the time, sums are right so, whether
// the network serves transfers together or one after the other.
type carried struct {
	begin, length int64
	stretches     [busyPieces]float64
	cut           float64 // of these, bytes of transfers that were not under way among as many as others
}

func (c *carried) end() int64 { return c.begin + busyPieces*c.length }

func (c *carried) add(done []play.Timed) {
	for _, t := range done {
		isFirst := t.Admitted == t.Due // the others wait for the end of one before
		for i := range c.stretches {
			from := c.begin + int64(i)*c.length
			part := float64(max(min(t.End, from+c.length)-max(t.Posted, from), 0)) / float64(max(t.End-t.Posted, 1))
			c.stretches[i] += part * float64(t.Bytes)
			if isFirst || t.End > c.end() {
				c.cut += part * float64(t.Bytes)
			}
		}
	}
}

// Played says how a schedule is played.
type Played struct {
	MaxLate time.Duration // of 99 % of all posts
	// Progress gets at rank 0, from time to time, how many requests are complete and how much of the schedule is over.
	Progress func(requests int, over time.Duration)
}

// lead is when the schedule's zero comes: until then all ranks know it, and have prepared the first requests.
const lead = time.Second

// Play plays the schedule: each transfer at its time, whatever is under way. What has been measured is in the result
// every few seconds. The figures are at rank 0.
func (r *PreparedReplay) Play(o Played) (*result.Replay, error) {
	w := r.e.World
	zero, err := r.meet(lead)
	if err != nil {
		return nil, err
	}
	if r.doc != nil {
		r.doc.Lateness.LimitNS = int64(o.MaxLate)
		r.log.Begin(zero)
	}
	g := &gathering{PreparedReplay: r, played: o, zero: zero, done: make(chan struct{}), ended: make(chan error, 1)}
	go func() { g.ended <- g.run() }()
	err = r.plan.Follow(play.Pace{End: len(r.Transfers), InFlight: r.inFlight, Zero: zero}, g.take)
	if err != nil {
		w.Fail(err) // or the others would gather for ever
	}
	close(g.done)
	if e := <-g.ended; err == nil {
		err = e
	}
	return r.doc, err
}

// gathering brings records to rank 0 while a schedule is played.
type gathering struct {
	*PreparedReplay
	played Played
	zero   int64
	done   chan struct{} // this rank has posted all
	ended  chan error

	mu   sync.Mutex
	mine []play.Timed

	// At rank 0: when the figures were worked out, and how long that took. Of very many posts it takes long, and ranks
	// of this host post meanwhile.
	filled time.Time
	took   time.Duration
}

// ended is until when all is known of a rank that is through: it waits in the next gathering for the others.
const ended = int64(1) << 62

// take keeps what this rank's posting thread has seen complete.
func (g *gathering) take(list []play.Timed) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mine = append(g.mine, list...)
}

// run gathers until all ranks are through.
func (g *gathering) run() error {
	w, all := g.e.World, g.e.World.All()
	every := spmd.ReplayEvery
	if t := w.Timeout(); t > 0 {
		every = min(every, t/4) // the others wait so long for a rank that still plays
	}
	if g.doc != nil {
		defer g.save()
	}
	for through := 0; through < w.Size(); { // ranks
		last, until := 0, int64(0)
		select {
		case <-g.done:
			last, until = 1, ended
		case <-time.After(every):
		case <-w.Context().Done():
		}
		until = max(until, w.Now())
		g.mu.Lock()
		mine := g.mine
		g.mine = nil
		g.mu.Unlock()
		lists, until, err := g.gather(mine, until)
		if err == nil {
			err = g.keep(lists, until)
		}
		sums := []int{0}
		if err == nil {
			sums, err = spmd.AllReduce(all, []int{last}, spmd.Sum)
		}
		if err != nil {
			return w.Fail(err)
		}
		through = sums[0]
	}
	return nil
}

// keep adds what was gathered to the result, at rank 0: all that was done until an instant.
func (g *gathering) keep(lists [][]play.Timed, until int64) error {
	if lists == nil {
		return nil
	}
	defer g.e.store()()
	for rank, list := range lists {
		if !g.log.Add(rank, list) {
			return fault.New(fault.Internal, "replay: rank %d has posted what is not in the schedule", rank)
		}
	}
	g.log.Gathered(until)
	if began := time.Now(); began.Sub(g.filled) >= spmd.SaveShare*g.took {
		g.log.Fill(g.doc)
		g.filled, g.took = time.Now(), time.Since(began)
		g.e.Doc.Replay = g.doc
		g.e.Checkpoint()
	}
	g.played.Progress(g.log.Done(), time.Duration(g.e.World.Now()-g.zero))
	return g.e.Sampled()
}

// save puts what is known into the result, at rank 0.
func (r *PreparedReplay) save() {
	defer r.e.store()()
	r.log.Fill(r.doc)
	r.e.Doc.Replay = r.doc
	r.e.Checkpoint()
}

// gather compares the clocks and brings the records of all ranks to rank 0; nil at the others. This rank's are what was
// done until an instant, of which the earliest of all ranks comes back.
func (r *PreparedReplay) gather(mine []play.Timed, until int64) (lists [][]play.Timed, earliest int64, err error) {
	w := r.e.World
	if err := w.SyncClocks(); err != nil {
		return nil, 0, err
	}
	packed, err := w.All().Gather(0, packTimed(mine, until))
	if err != nil || packed == nil {
		return nil, 0, err
	}
	lists, earliest = make([][]play.Timed, len(packed)), math.MaxInt64
	for rank, data := range packed {
		if lists[rank], until, err = readTimed(data); err != nil {
			return nil, 0, fault.New(fault.Internal, "replay: records of rank %d: %w", rank, err)
		}
		earliest = min(earliest, until)
	}
	return lists, earliest, nil
}

func packTimed(list []play.Timed, until int64) []byte {
	b := binary.AppendUvarint(binary.AppendVarint(nil, until), uint64(len(list)))
	for _, p := range list {
		since := []int64{p.Admitted - p.Due, p.Posted - p.Due, p.End - p.Due}
		for _, n := range append([]int64{int64(p.Transfer), p.Due, p.Bytes}, since...) {
			b = binary.AppendVarint(b, n)
		}
	}
	return b
}

func readTimed(data []byte) (list []play.Timed, until int64, err error) {
	p := pack.Read(data)
	until = p.Signed()
	list = make([]play.Timed, p.Count())
	for i := range list {
		t := play.Timed{Transfer: int(p.Signed()), Due: p.Signed(), Bytes: p.Signed()}
		t.Admitted, t.Posted, t.End = t.Due+p.Signed(), t.Due+p.Signed(), t.Due+p.Signed()
		list[i] = t
	}
	return list, until, p.End(fmt.Sprintf("a list of %d", len(list)))
}
