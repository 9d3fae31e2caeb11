package play

import (
	"cmp"
	"time"

	"perigee/internal/clock"
	"perigee/internal/fault"
	"perigee/internal/traffic/link"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/series"
	"perigee/nixl"
)

// Run runs this rank's transfers n times. The parts of a run on different lanes, such as messages and a storage
// operation, start together, and the next run begins when all are through. With record set the stamps of each run
// are kept for record.Collect.
func (p *Plan) Run(n int, record bool) error {
	if err := p.checkRuns(n); err != nil {
		return err
	}
	switch {
	case len(p.parts) == 0:
		return nil
	case len(p.parts) == 1 && p.parts[0].Number != load.Files:
		return p.runPart(p.parts[0], n, record, p.s.TakeExit())
	}
	for range n {
		if err := p.runTogether(record); err != nil {
			return err
		}
	}
	return nil
}

// runTogether runs all parts once: the first one here, unless it is for files, the others beside it.
func (p *Plan) runTogether(record bool) error {
	here := p.parts[0]
	if here.Number == load.Files {
		here = nil
	}
	left := p.s.TakeExit()
	for _, k := range p.parts {
		if k != here {
			p.start(k, record, left)
		}
	}
	var err error
	if here != nil {
		if err = p.runPart(here, 1, record, left); err != nil {
			p.s.World().Fail(err) // or the other parts would go on
		}
	}
	return cmp.Or(err, p.join(here))
}

// start runs a part once in its own goroutine.
func (p *Plan) start(k *part, record bool, left series.Exit) {
	k.running = make(chan error, 1)
	done := k.running
	k.Running.Go(func() { done <- p.runPart(k, 1, record, left) })
}

// join waits for the parts that start started, except one. It returns the first error.
func (p *Plan) join(except *part) (err error) {
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

// runPart runs a part n times, the first of them after an exit from a barrier. Runs go to the engine in pieces, which
// bounds the memory for their stamps.
func (p *Plan) runPart(k *part, n int, record bool, left series.Exit) error {
	return k.Use(func() error {
		return p.pieces(k, k.batch, n, max(mostStamps/(3+len(k.posts)), 1), func(times []nixl.Times) {
			k.keep(times, left, record)
			left = series.Exit{}
		})
	})
}

// mostStamps bounds the stamps that are held in one piece.
const mostStamps = 1 << 20

// pieces runs a batch n times, at most most at once, and gives the stamps to take. Where there is a timeout, which is
// meant for a single run and not for many, pieces begin small and grow as long as they take a small part of it.
func (p *Plan) pieces(k *part, b nixl.Batch, n, most int, take func([]nixl.Times)) error {
	w := p.s.World()
	size := most
	if w.Timeout() > 0 {
		size = 1
	}
	for n > 0 {
		size = min(size, n, most)
		began := clock.Now()
		times := k.makeTimes(size)
		if err := b.Run(link.Control(w), size, times); err != nil {
			return link.Explain(w, p.what(k), err)
		}
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

// keep notes the stamps of runs, the first of which came after the exit from a barrier.
func (k *part) keep(times []nixl.Times, left series.Exit, record bool) {
	last := times[len(times)-1]
	k.last = &last
	if !record {
		return
	}
	for _, t := range times {
		k.log = append(k.log, series.Logged{Stamps: series.Stamps(t), Left: left})
		left = series.Exit{}
	}
}

// inline reports whether Post starts a part by the engine's own post. On other lanes a goroutine runs it, so that
// Post returns at once even where an engine copies bytes while it posts.
func (k *part) inline() bool { return k.Number == 0 }

// Post starts this rank's transfers; Wait ends them and keeps their times. Plans that are posted on one lane may be
// moved one after the other, as the engine likes; on different lanes they overlap.
func (p *Plan) Post() error {
	if err := p.Usable(); err != nil {
		return err
	}
	p.posted = true
	left := p.s.TakeExit()
	for _, k := range p.parts {
		if !k.inline() {
			p.start(k, true, left)
		}
	}
	for _, k := range p.parts {
		if !k.inline() {
			continue
		}
		k.left = left
		if err := k.Use(k.batch.Post); err != nil {
			return link.Explain(p.s.World(), p.what(k), err)
		}
	}
	return nil
}

// waitable returns an error unless Post started the plan.
func (p *Plan) waitable() error {
	if !p.posted {
		return fault.New(fault.Script, "%s: the plan has not been posted", p.Label())
	}
	return p.s.World().Err()
}

// Done reports whether Wait would return at once.
func (p *Plan) Done() (bool, error) {
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
			return false, link.Explain(p.s.World(), p.what(k), err)
		}
	}
	return all, nil
}

// Wait waits for what Post has started.
func (p *Plan) Wait(record bool) error {
	if err := p.waitable(); err != nil {
		return err
	}
	p.posted = false
	for _, k := range p.parts {
		if !k.inline() {
			continue
		}
		times := k.makeTimes(1)
		err := k.Use(func() error { return k.batch.Wait(link.Control(p.s.World()), &times[0]) })
		if err != nil {
			return p.give(k, link.Explain(p.s.World(), p.what(k), err))
		}
		k.keep(times, k.left, record)
	}
	err := p.join(nil)
	for _, k := range p.parts {
		if n := len(k.log); !k.inline() && !record && err == nil {
			k.log = k.log[:n-1] // Post could not know
		}
	}
	return err
}

// give ends what other lanes still run after one failed.
func (p *Plan) give(k *part, err error) error {
	p.s.World().Fail(err)
	p.join(k)
	return err
}
