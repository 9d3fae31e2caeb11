package spmd

import (
	"cmp"
	"time"
)

// SaveEvery is the time between two answers of [Interval.Due] that it is time.
const SaveEvery = time.Second

// ReplayEvery is the time between two gatherings of what ranks record in a replay, while they go on.
const ReplayEvery = 2 * SaveEvery

// SaveShare is how many times as long as saving took passes before the next: it takes a fiftieth of the time at most.
const SaveShare = 50

const (
	intervalLooks  = 2 // in which the ranks meet to see whether it is time: calls may become slower
	intervalGrowth = 8 // times as many calls as before are left out at once at most: they may become faster
)

// latestGroup stands for a *Group, which tests of one rank do without.
type latestGroup interface {
	// Latest returns the largest first number and the largest second number of all members.
	Latest([2]int64) ([2]int64, error)
}

// Interval lets ranks agree, without meeting often, that it is time again for something that takes time, such as saving
// what they have measured. Begin starts it, Due asks, and Did notes how long it took.
type Interval struct {
	// Every and Share stand in the place of SaveEvery and SaveShare where they are not 0, the same at all ranks.
	Every time.Duration
	Share int

	calls, left int           // since the ranks last met, and until they meet next
	met         time.Time     // when they last met, or began
	since       time.Duration // until then, since they last did it, or began
	took        time.Duration // what it took last
}

// Due reports, at all ranks of a group alike, whether it is time. All ranks call it equally often, and between two
// calls they do much the same. met is whether they have met to find that out, which they do in few of the calls only:
// in the first, as it is not known how long one takes, and then about twice a second.
func (p *Interval) Due(g latestGroup) (due, met bool, err error) {
	p.calls++
	if p.left--; p.left > 0 {
		return false, false, nil
	}
	// The ranks go by the longest time of any of them. Their numbers of calls are equal.
	longest, err := g.Latest([2]int64{int64(time.Since(p.met)), int64(p.took)})
	if err != nil {
		return false, true, err
	}
	p.since += time.Duration(longest[0])
	each := max(time.Duration(longest[0])/time.Duration(p.calls), 1)
	every := cmp.Or(p.Every, SaveEvery)
	look := every / intervalLooks
	wait := max(every, time.Duration(cmp.Or(p.Share, SaveShare))*time.Duration(longest[1])) - p.since
	if due = wait <= 0; due {
		wait = look
	}
	p.left = int(min(min(wait, look)/each, time.Duration(intervalGrowth*p.calls)))
	p.calls, p.met = 0, time.Now()
	if due {
		p.since = 0
	}
	return due, true, nil
}

// Did notes how long it took, from Due on: the ranks leave fifty times as long until they do it again.
func (p *Interval) Did() { p.took, p.met = time.Since(p.met), time.Now() }

// Begin forgets the calls so far: those to come may take another time. All ranks call it.
func (p *Interval) Begin() {
	*p = Interval{Every: p.Every, Share: p.Share, took: p.took, met: time.Now()}
}
