package experts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/nixl/device"
)

// Mode selects the operations of an iteration.
type Mode uint8

// The modes of the NIXL EP tests.
const (
	Dispatch Mode = iota
	Combine
	EndToEnd
)

// ParseMode reads dispatch, combine or e2e. Any other word is an error of the kind Usage.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "dispatch":
		return Dispatch, nil
	case "combine":
		return Combine, nil
	case "e2e":
		return EndToEnd, nil
	}
	return 0, fault.New(fault.Usage, "unknown mode %q, want dispatch, combine or e2e", s)
}

// String returns the mode's name on the command line.
func (m Mode) String() string { return [...]string{"dispatch", "combine", "e2e"}[m] }

func (m Mode) has(kind int) bool {
	return m == EndToEnd || m == Dispatch && kind == dispatching || m == Combine && kind == combining
}

// Entry is where iterations begin, and what of them is timed.
type Entry uint8

// The entries.
const (
	Steady Entry = iota // one iteration right after the other
	Fresh               // all ranks meet in a barrier before each
	Moving              // the same messages again and again, as a plain all-to-all moves them; see Play
)

var entryNames = []string{"steady", "fresh", "moving"}

// ParseEntry reads steady, fresh or moving. Any other word is an error of the kind Usage.
func ParseEntry(s string) (Entry, error) {
	if i := slices.Index(entryNames, s); i >= 0 {
		return Entry(i), nil
	}
	return 0, fault.New(fault.Usage, "unknown entry %q, want one of %s", s, strings.Join(entryNames, ", "))
}

// String returns the entry's name on the command line.
func (e Entry) String() string { return entryNames[e] }

// Part is the time of one operation of an iteration, in nanoseconds. The send half lasts from the start until all
// own messages are known to be at their receivers, the receive half from there until the result is there.
type Part struct {
	Send, Recv int64
	Fill       int64 // of the send half: quantise and write headers
	Stage      int64 // of the send half: copy messages to where they depart
	Own        int64 // of the receive half: copy messages to own experts
	Wait       int64 // of the receive half: wait for the messages of others
	Finish     int64 // of the receive half: pack, or reduce
}

// fields are all of them, in the order in which they are sent.
func (p *Part) fields() []*int64 {
	return []*int64{&p.Send, &p.Recv, &p.Fill, &p.Stage, &p.Own, &p.Wait, &p.Finish}
}

func (p *Part) add(other Part) {
	for i, v := range other.fields() {
		*p.fields()[i] += *v
	}
}

// Total is the time of the operation.
func (p Part) Total() int64 { return p.Send + p.Recv }

// Iteration is one at one rank. Parts of operations that the mode does not have are 0.
type Iteration struct{ Parts [kinds]Part }

// Total is the time of the iteration.
func (i Iteration) Total() int64 { return i.Parts[dispatching].Total() + i.Parts[combining].Total() }

// Log holds the measurements of one rank.
type Log struct {
	Iterations []Iteration
	// Waits are by half of the iterations and source: how long this rank waited for its messages after it was ready
	// for them, over these iterations, in nanoseconds.
	Waits [kinds][halves][]int64
	NICs  device.Traffic // of the host, at its first rank
}

// Play does so many iterations. What comes before the first measured one must have been played with record false.
//
// With Moving the messages of a dispatch are quantised and staged once, before the first iteration, and what arrives is
// packed or summed once, after the last. All ranks meet in a barrier before each, so one of the two areas of the
// receive half is enough. A plain all-to-all of the same bytes does that, too, so that the times can be compared.
//
// In a GPU's memory messages are made once, too, whatever the entry, and what arrives is packed or summed after the
// last iteration: both are work of the host here, and of kernels elsewhere. An iteration is the transfers alone, those
// of the rank to itself included.
func (p *Plane) Play(mode Mode, n int, entry Entry, record bool) (*Log, error) {
	log := &Log{}
	for kind := range log.Waits {
		for half := range halves {
			log.Waits[kind][half] = make([]int64, p.Selection.Ranks)
		}
	}
	if record {
		const most = 1 << 20 // beyond that memory is taken as iterations come, so that what watches it can end the job
		log.Iterations = make([]Iteration, 0, min(n, most))
	} else if n > 0 {
		p.pace, p.ended = math.MaxInt64, clock.Now()
	}
	if entry == Moving {
		return log, p.move(mode, n, record, log)
	}
	if p.port.onGPU() && n > 0 {
		if err := p.load(mode); err != nil {
			return nil, err
		}
	}
	for i := range n {
		if entry == Fresh {
			if err := p.Meet(); err != nil {
				return nil, err
			}
		}
		var it Iteration
		for kind := range kinds {
			if !mode.has(kind) {
				continue
			}
			if err := p.step(kind, &it.Parts[kind], log.Waits[kind][i*halves/n]); err != nil {
				return nil, err
			}
		}
		p.end(it, record, log)
	}
	if p.port.onGPU() && n > 0 {
		return log, p.unload(mode)
	}
	return log, nil
}

// move is Play with Moving.
func (p *Plane) move(mode Mode, n int, record bool, log *Log) error {
	p.stride = len(p.ops[dispatching].batches) // iterations of the same area
	if err := p.load(mode); err != nil {
		return err
	}
	for i := range n {
		var it Iteration
		for kind := range kinds {
			if !mode.has(kind) {
				continue
			}
			if err := p.Meet(); err != nil {
				return err
			}
			p.ops[kind].began += p.stride
			if err := p.exchange(kind, clock.Now(), &it.Parts[kind], log.Waits[kind][i*halves/n]); err != nil {
				return err
			}
		}
		p.end(it, record, log)
	}
	p.stride = 1
	if n > 0 {
		if err := p.unload(mode); err != nil {
			return err
		}
	}
	return p.Meet() // before what comes next is counted in steps of one
}

// end keeps an iteration, or notes how long it has taken, the barrier before it included.
func (p *Plane) end(it Iteration, record bool, log *Log) {
	if record {
		log.Iterations = append(log.Iterations, it)
		return
	}
	now := clock.Now()
	p.pace, p.ended = min(p.pace, now-p.ended), now
}

// load makes what the iterations to come send again and again, where it departs.
func (p *Plane) load(mode Mode) error {
	if mode.has(dispatching) {
		p.fill(p.ops[dispatching].began + p.stride)
		p.stage()
		if err := p.port.push(0, p.areas.rows); err != nil {
			return err
		}
	}
	if mode.has(combining) {
		return p.port.push(p.areas.rows, p.areas.send)
	}
	return nil
}

// unload packs and sums what the last iteration has brought.
func (p *Plane) unload(mode Mode) error {
	for kind := range kinds {
		if !mode.has(kind) {
			continue
		}
		areas, size := p.areas.slots, p.areas.message*int64(len(p.arrivals))
		if kind == combining {
			areas, size = p.areas.places, p.areas.row*int64(p.Layout.Selections(p.me))
		}
		at := areas[p.parity(kind)]
		if err := p.port.pull(at, at+size); err != nil {
			return err
		}
		p.finish(kind)
	}
	return nil
}

// finish packs or sums what the last iteration has brought.
func (p *Plane) finish(kind int) {
	if kind == dispatching {
		p.pack(p.parity(kind))
	} else {
		p.reduce(p.parity(kind))
	}
}

// Meet is a barrier of all ranks that take part.
func (p *Plane) Meet() error { return p.group.Barrier() }

// First does the dispatch that comes before everything else, and computes what the experts return.
func (p *Plane) First() error {
	if _, err := p.Play(Dispatch, 1, Steady, false); err != nil {
		return err
	}
	p.apply(p.parity(dispatching))
	return p.Meet() // rows of one rank must be there before another rank's combine needs them
}

// parity returns the area of an operation's last iteration.
func (p *Plane) parity(kind int) int { return p.ops[kind].began & 1 }

// step plays one operation.
func (p *Plane) step(kind int, t *Part, waits []int64) error {
	start := clock.Now()
	p.ops[kind].began += p.stride
	if kind == dispatching && !p.port.onGPU() {
		p.fill(p.ops[kind].began)
		filled := clock.Now()
		p.stage()
		t.Fill, t.Stage = filled-start, clock.Now()-filled
	}
	if err := p.exchange(kind, start, t, waits); err != nil {
		return err
	}
	if p.port.onGPU() {
		return nil // unload does the rest
	}
	arrived := clock.Now()
	p.finish(kind)
	t.Finish = clock.Now() - arrived
	t.Recv += t.Finish
	return nil
}

// exchange moves the messages of an operation that began at start.
func (p *Plane) exchange(kind int, start int64, t *Part, waits []int64) error {
	o, parity := &p.ops[kind], p.parity(kind)
	if err := p.send(o, parity); err != nil {
		return p.explain(kind, err)
	}
	sent := clock.Now()
	ready := sent
	if !p.port.onGPU() { // whose batches have them, too
		p.copyOwn(kind, parity)
		ready = clock.Now()
	}
	if err := p.await(o, kind); err != nil {
		return p.explain(kind, err)
	}
	arrived := clock.Now()
	t.Send, t.Recv, t.Own, t.Wait = sent-start, arrived-sent, ready-sent, arrived-ready
	for source := range waits {
		if source != p.me {
			waits[source] += max(0, o.at[source]-ready)
		}
	}
	return nil
}

// send writes the messages and notifies their receivers, and also the peers for which there is nothing to write.
func (p *Plane) send(o *operation, parity int) error {
	var dead []int
	for _, peer := range o.bare {
		err := p.port.agent.Notify(peer, o.notices[parity][peer])
		if err != nil && !p.deadly {
			return err
		}
		if err != nil {
			dead = append(dead, peer)
		}
	}
	var err error
	if o.batches[parity] != nil {
		err = o.batches[parity].Run(p.control(), 1, nil)
	}
	if late, ok := errors.AsType[*nixl.TimeoutError](err); ok {
		dead = append(dead, late.Peers...)
	}
	if p.late = dead; err == nil && len(dead) > 0 {
		err = &nixl.TimeoutError{Peers: dead}
	}
	return err
}

// control bounds a wait.
func (p *Plane) control() nixl.Control {
	ctl := session.Control(p.world)
	if p.patience > 0 {
		ctl.Deadline = clock.Now() + int64(p.patience)
	}
	return ctl
}

// await waits until the notices of all others are here.
func (p *Plane) await(o *operation, kind int) error {
	var inbox []nixl.Notice
	err := nixl.Poll(p.control(), func() (bool, error) {
		var err error
		if inbox, err = p.port.agent.Receive(inbox[:0]); err != nil {
			return false, err
		}
		for _, n := range inbox {
			if err := p.take(n); err != nil {
				return false, err
			}
		}
		return p.complete(o), nil
	})
	if errors.Is(err, nixl.ErrDeadline) {
		return p.tooLate(o, kind)
	}
	return err
}

// complete reports whether no rank is missing.
func (p *Plane) complete(o *operation) bool {
	for _, source := range p.ranks {
		if o.arrived[source] < o.began && source != p.me {
			return false
		}
	}
	return true
}

// missing lists the ranks whose notice of the present iteration is not here.
func (p *Plane) missing(o *operation) (ranks []int) {
	for _, source := range p.ranks {
		if o.arrived[source] < o.began && source != p.me {
			ranks = append(ranks, source)
		}
	}
	return ranks
}

// take checks a notice against the routing, and notes that its sender's messages are here.
func (p *Plane) take(n nixl.Notice) error {
	if len(n.Data) < 3 || n.Data[0] >= kinds {
		return fault.New(fault.Engine, "rank %d sent a notice of %d bytes that is none of expert parallelism", n.Peer,
			len(n.Data))
	}
	if n.Data[2] != byte(p.spec.epoch) {
		return nil // of a layout that was given up
	}
	o := &p.ops[n.Data[0]]
	o.arrived[n.Peer] += p.stride
	o.at[n.Peer] = clock.Now()
	if want := o.wanted[o.arrived[n.Peer]&1][n.Peer]; !bytes.Equal(n.Data, want) {
		return fault.New(fault.Corrupt, "%s %d: rank %d announces other messages than its routing says",
			kindNames[n.Data[0]], o.arrived[n.Peer], n.Peer)
	}
	return nil
}

// tooLate says who is missing when the deadline has passed.
func (p *Plane) tooLate(o *operation, kind int) error {
	missing := p.missing(o)
	p.late = missing
	var names []string
	for _, rank := range missing {
		names = append(names, fmt.Sprintf("%d (%s)", rank, p.world.HostName(rank)))
	}
	what := "the messages of rank " + strings.Join(plaintext.First(names, 8, "and %d more"), ", ") + " have not arrived"
	return fault.New(fault.Timeout, "%s %d at rank %d (%s): %s after %v",
		kindNames[kind], o.began, p.me, p.world.HostName(p.me), what, cmp.Or(p.patience, p.world.Timeout())).
		WithHint("are those ranks alive? A longer --timeout helps if they are only slow")
}

func (p *Plane) explain(kind int, err error) error {
	if fault.KindOf(err) != fault.Internal {
		return err
	}
	return session.Explain(p.world, fmt.Sprintf("%s %d", kindNames[kind], p.ops[kind].began), err)
}
