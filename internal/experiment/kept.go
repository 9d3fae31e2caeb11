package experiment

import (
	"fmt"
	"math"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/internal/kit/size"
	"perigee/internal/traffic/session"
)

// Recorded runs stay in memory until the result is written: the stamps at each initiator until they are collected,
// and at rank 0 a measurement in the result and the table that a script gets of it. What they take follows from the
// load alone, so that runs which cannot fit are refused before the first of them starts.

// What a recorded run takes, in bytes, as a test has measured it.
const (
	stampsBytes  = 96   // at an initiator
	stampBytes   = 8    // and for each of its transfers
	runBytes     = 2400 // at rank 0: the run itself, most of it the script's table,
	partBytes    = 220  // each initiator's part,
	messageBytes = 104  // and each message, a third of it for waits for CPUs
)

const (
	// keptShare is how much of the host's available memory recorded runs may take. The rest is for garbage that is
	// not collected yet, which may be as much again, and for everything else.
	keptShare = 0.4
	// worthSaying is how many bytes are announced.
	worthSaying = 256 << 20
)

// kept is the account of what recorded runs take on this rank's host, in bytes.
type kept struct {
	budget    float64   // that they may take; 0 until it is known
	taken     float64   // by runs so far
	announced bool      // the user has been told of much
	costs     []float64 // of one run, by the number of the plan
}

// Prepared enters plans of the session into the account. It is called after they were prepared, and before they run.
func (e *Experiment) Prepared(plans ...*session.Reserved) {
	k := &e.kept
	if k.budget == 0 {
		k.budget = math.Inf(1)
		available := e.Available
		if available == nil {
			available = func() (int64, error) { return memory.Available("/") }
		}
		if bytes, err := available(); err == nil {
			k.budget = keptShare * float64(bytes)
		}
	}
	for _, p := range plans {
		for len(k.costs) <= p.Number {
			k.costs = append(k.costs, 0)
		}
		k.costs[p.Number] = e.cost(p)
	}
}

// cost counts the memory that a recorded run of a plan takes on this rank's host.
func (e *Experiment) cost(p *session.Reserved) (bytes float64) {
	w := e.World
	host := w.HostOf(w.Rank())
	collected := w.HostOf(0) == host
	if collected {
		bytes = runBytes
	}
	for i, r := range p.Actors {
		lanes, posts := float64(p.Shares[i].Lanes), float64(p.Shares[i].Posts)
		if w.HostOf(r) == host {
			bytes += stampsBytes*lanes + stampBytes*posts
		}
		if collected {
			bytes += partBytes*lanes + messageBytes*posts
		}
	}
	return bytes
}

// Expect announces that each of some plans will be recorded so many times: the user is told what that takes if it is
// much, and the error, of the kind Resource, says that it does not fit. All ranks call it before the runs.
func (e *Experiment) Expect(plans []*session.Reserved, runs int64) error {
	var each float64
	for _, p := range plans {
		each += e.kept.costs[p.Number]
	}
	what := cli.Count(len(plans), "pattern")
	if len(plans) == 1 {
		what = plans[0].Label()
	}
	if err := e.fits(what, runs, each); err != nil {
		return err
	}
	e.announceRuns(runs, each)
	return nil
}

// Recording enters runs of a plan that are about to be recorded. The error is as that of Expect.
func (e *Experiment) Recording(p *session.Reserved, runs int64) error {
	k := &e.kept
	each := k.costs[p.Number]
	runs = e.thin.staying(p.Number, runs) // the others are gone once they are gathered
	if total := k.taken + float64(runs)*each; total > k.budget {
		return e.fits(p.Label(), runs, each)
	}
	if runs > 1 {
		e.announceRuns(runs, each)
	}
	k.taken += float64(runs) * each
	return nil
}

// fits refuses runs that take more than there is.
func (e *Experiment) fits(what string, runs int64, each float64) error {
	k := &e.kept
	want := float64(runs) * each
	if k.taken+want <= k.budget {
		return nil
	}
	w := e.World
	return fault.New(fault.Resource, "%s: recording %s would take %s of memory on %s, %s each; recorded runs may take %s there, %.0f %% of what was available, and take %s already",
		what, cli.Count(int(runs), "more run"), bytesText(want), w.HostName(w.Rank()), bytesText(each),
		bytesText(k.budget), keptShare*100, bytesText(k.taken)).
		WithHint("at most %.0f more fit: fewer iterations or less time, fewer ranks or messages, or runs that are not recorded (in scripts, plan:run{iterations = n, record = false})",
			math.Floor((k.budget-k.taken)/each))
}

// announceRuns notes, at rank 0, what runs are going to take, if that is much. Once there are runs it only logs that: a
// note would break into a table that grows.
func (e *Experiment) announceRuns(runs int64, each float64) {
	k := &e.kept
	want := float64(runs) * each
	if k.taken+want > worthSaying && !k.announced {
		k.announced = true
		w := e.World
		text := fmt.Sprintf("recording %s takes about %s of memory on %s, %s each; at most %s may be taken",
			cli.Count(int(runs), "run"), bytesText(want), w.HostName(w.Rank()), bytesText(each), bytesText(k.budget))
		if k.taken > 0 {
			w.Log().Info(text)
			return
		}
		e.Note(text)
	}
}

// bytesText is a number of bytes for people, however large.
func bytesText(bytes float64) string { return size.Decimal(int64(min(bytes, math.MaxInt64/2))) }
