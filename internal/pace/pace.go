// Package pace lets ranks agree, without meeting often, that it is time for something that takes time, such as saving
// what they have measured.
package pace

import "time"

// Every is the time between two answers that it is time.
const Every = 2 * time.Second

const (
	share = 50 // of the time what is done may take one part at most
	// growth is how many times as many calls as ever before are left out at once: calls may become faster.
	growth = 8
)

// Group is what ranks meet in, such as a group of a world.
type Group interface {
	// Latest returns the largest first number and the largest second number of all members.
	Latest([2]int64) ([2]int64, error)
}

// Pace counts the calls of Due, after Begin.
type Pace struct {
	calls, left int           // since the ranks last did it, and until they meet next
	last        time.Time     // when they last did it, or began
	took        time.Duration // what it took last
}

// Due reports, at all ranks of a group alike, whether it is time. All ranks call it equally often, and between two
// calls they do much the same. met is whether they have met to find that out, which they do in few of the calls only:
// in the first, as it is not known how long one takes, and then when the calls so far say that it may be time.
func (p *Pace) Due(g Group) (due, met bool, err error) {
	p.calls++
	if p.left--; p.left > 0 {
		return false, false, nil
	}
	// The ranks go by the longest time of any of them. Their numbers of calls are equal.
	longest, err := g.Latest([2]int64{int64(time.Since(p.last)), int64(p.took)})
	if err != nil {
		return false, true, err
	}
	since, wait := time.Duration(longest[0]), max(Every, share*time.Duration(longest[1]))
	each := max(since/time.Duration(p.calls), 1)
	if since >= wait {
		p.left = int(min(wait/each, time.Duration(p.calls)))
		p.calls, p.last = 0, time.Now()
		return true, true, nil
	}
	p.left = int(min((wait-since+each-1)/each, time.Duration(growth*p.calls)))
	return false, true, nil
}

// Did notes how long it took: from Due on.
func (p *Pace) Did() { p.took, p.last = time.Since(p.last), time.Now() }

// Begin forgets the calls so far: those to come may take another time. All ranks call it.
func (p *Pace) Begin() { *p = Pace{took: p.took, last: time.Now()} }
