package play

import (
	"cmp"
	"time"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/series"
	"perigee/internal/traffic/session"
	"perigee/nixl"
)

// Run runs this rank's transfers n times. The parts of a run on different lanes, such as messages and a storage
// operation, start together, and the next run begins when all are through. With record set the stamps of each run
// are kept for Collect.
func (p *LoadPlan) Run(n int, record bool) error {
	if err := p.checkRuns(n); err != nil {
		return err
	}
	switch {
	case len(p.parts) == 0 || n == 0:
		return nil
	case len(p.parts) == 1 && p.parts[0].Number != load.Files:
		b, err := p.agree()
		if err != nil {
			return err
		}
		return p.runPart(p.parts[0], n, record, b)
	}
	b, err := p.agree()
	for ; n > 0 && err == nil; n-- {
		err = p.runTogether(record, b)
		b = b.next()
	}
	return err
}

// before holds the barrier, the agreed instant and the gap that a run of a plan comes after, and the rank's phase.
type before struct {
	left   series.Exit
	agreed series.Agreed
	gap    bool
	phase  string
}

// next is before of a run that follows at once.
func (b before) next() before { return before{phase: b.phase} }

// agree takes note of the barrier that this rank has left, and agrees on an instant with the other initiators if
// the plan starts by the clock.
func (p *LoadPlan) agree() (b before, err error) {
	p.disturb()
	b.left, b.gap, p.gap, b.phase = p.s.TakeExit(), p.gap, false, p.s.World().CurrentPhase()
	if !p.clocked {
		return b, nil
	}
	g, err := p.s.World().Group(p.Actors)
	if err == nil {
		b.agreed, err = p.s.Agree(g)
	}
	return b, err
}

// MarkGap notes that something was done that takes time between two runs, such as filling the buffers or
// saving what was recorded.
func (p *LoadPlan) MarkGap() { p.gap = true }

// await returns when the instant agreed on has come, and notes if it had passed before.
func (b *before) await(p *LoadPlan) (err error) {
	if b.agreed.NS != 0 {
		b.agreed.Late, err = p.s.Await(b.agreed)
	}
	return err
}

// runTogether runs all parts once: the first one here, unless it is for files, the others beside it.
func (p *LoadPlan) runTogether(record bool, b before) error {
	here := p.parts[0]
	if here.Number == load.Files {
		here = nil
	}
	for _, k := range p.parts {
		if k != here {
			p.start(k, record, b)
		}
	}
	var err error
	if here != nil {
		if err = p.runPart(here, 1, record, b); err != nil {
			p.s.World().Fail(err) // or the other parts would go on
		}
	}
	return cmp.Or(err, p.join(here))
}

// start runs a part once in its own goroutine.
func (p *LoadPlan) start(k *part, record bool, b before) {
	k.running = make(chan error, 1)
	done := k.running
	k.Running.Go(func() {
		p.s.Waits.Polling()
		done <- p.runPart(k, 1, record, b)
	})
}

// join waits for the parts that start started, except one. It returns the first error.
func (p *LoadPlan) join(except *part) (err error) {
	for _, k := range p.parts {
		if k == except || k.running == nil {
			continue
		}
		if e := <-k.running; err == nil {
			err = e
		}
		k.running = nil
	}
	return err
}

// runPart runs a part n times, the first of them after what is in b. Runs go to the engine in pieces, which
// bounds the memory for their stamps.
func (p *LoadPlan) runPart(k *part, n int, record bool, b before) error {
	return k.Use(func() error {
		return p.pieces(k, k.batch.Run, n, max(mostStamps/(3+len(k.posts)), 1), func() error { return b.await(p) },
			func(times []nixl.Times) {
				k.keep(times, b, record)
				b = b.next()
			})
	})
}

// mostStamps bounds the stamps that are held in one piece.
const mostStamps = 1 << 20

// runner runs something prepared n times, as [nixl.Batch.Run] does.
type runner func(ctl nixl.Control, n int, times []nixl.Times) error

// pieces runs a batch n times, at most most at once, each after ready, and gives the stamps to take. Where there is a
// timeout, which is meant for a single run and not for many, pieces begin small and grow as long as they take a small
// part of it.
func (p *LoadPlan) pieces(k *part, run runner, n, most int, ready func() error, take func([]nixl.Times)) error {
	w := p.s.World()
	size := most
	if w.Timeout() > 0 {
		size = 1
	}
	for n > 0 {
		size = min(size, n, most)
		began := clock.Now()
		times := k.makeTimes(size)
		p.s.Waits.Look()
		if err := ready(); err != nil {
			return err
		}
		if err := run(session.Control(w), size, times); err != nil {
			return session.Explain(w, p.what(k), err)
		}
		p.s.Waits.Look()
		take(times)
		n -= size
		if time.Duration(clock.Now()-began) < w.Timeout()/8 {
			size *= 2
		}
	}
	return nil
}

func (k *part) makeTimes(n int) []nixl.Times {
	times := make([]nixl.Times, n)
	done := make([]int64, n*len(k.posts))
	for i := range times {
		times[i].Done, done = done[:len(k.posts)], done[len(k.posts):]
	}
	return times
}

// keep notes the stamps of runs, the first of which came after what is in b.
func (k *part) keep(times []nixl.Times, b before, record bool) {
	last := times[len(times)-1]
	k.last = &last
	if !record {
		return
	}
	for _, t := range times {
		k.log = append(k.log, series.Logged{Stamps: series.Stamps(t), Left: b.left, Agreed: b.agreed, Filled: b.gap,
			Phase: b.phase})
		b = b.next()
	}
}

// inline reports whether Post starts a part by the engine's own post. On other lanes a goroutine runs it, so that
// Post returns at once even where an engine copies bytes while it posts.
func (k *part) inline() bool { return k.Number.Given() == 0 }

// Post starts this rank's transfers; Wait ends them and keeps their times. Plans that are posted on one lane may be
// moved one after the other, as the engine likes. What is posted on lane 0 may have ended when Post returns; on other
// lanes it overlaps with what is posted next.
func (p *LoadPlan) Post() error {
	if err := p.runnable(); err != nil {
		return err
	}
	if len(p.parts) == 0 {
		p.posted = true
		return nil
	}
	b, err := p.agree()
	if err != nil {
		return err
	}
	p.posted = true
	for _, k := range p.parts {
		if !k.inline() {
			p.start(k, true, b)
		}
	}
	for _, k := range p.parts {
		if !k.inline() {
			continue
		}
		k.before = b
		p.s.Waits.Look()
		if err := k.before.await(p); err != nil {
			return err
		}
		if err := k.Use(k.batch.Post); err != nil {
			return session.Explain(p.s.World(), p.what(k), err)
		}
	}
	return nil
}

// UnderWay reports whether the plan has been posted and not waited for.
func (p *LoadPlan) UnderWay() bool { return p.posted }

// waitable returns an error unless Post started the plan.
func (p *LoadPlan) waitable() error {
	if !p.posted {
		return fault.New(fault.Script, "%s: the plan has not been posted", p.Label())
	}
	return p.s.World().Err()
}

// Done reports whether Wait would return at once.
func (p *LoadPlan) Done() (bool, error) {
	if err := p.waitable(); err != nil {
		return true, err
	}
	all := true
	for _, k := range p.parts {
		if !k.inline() {
			all = all && len(k.running) > 0
			continue
		}
		err := k.Use(func() error {
			done, err := k.batch.Done()
			all = all && done
			return err
		})
		if err != nil {
			return false, session.Explain(p.s.World(), p.what(k), err)
		}
	}
	return all, nil
}

// Wait waits for what Post has started. With record set the stamps are kept for Collect. A timeout names the peers
// that are not through, and makes the plan unusable.
func (p *LoadPlan) Wait(record bool) error {
	if err := p.waitable(); err != nil {
		return err
	}
	p.posted = false
	for _, k := range p.parts {
		if !k.inline() {
			continue
		}
		times := k.makeTimes(1)
		err := k.Use(func() error { return k.batch.Wait(session.Control(p.s.World()), &times[0]) })
		if err != nil {
			return p.give(k, session.Explain(p.s.World(), p.what(k), err))
		}
		k.keep(times, k.before, record)
	}
	p.s.Waits.Look()
	err := p.join(nil)
	for _, k := range p.parts {
		if n := len(k.log); !k.inline() && !record && err == nil {
			k.log = k.log[:n-1] // Post could not know
		}
	}
	return err
}

// give ends what other lanes still run after one failed.
func (p *LoadPlan) give(k *part, err error) error {
	p.s.World().Fail(err)
	p.join(k)
	return err
}
