package play

import (
	"errors"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/nixl"
)

// requests are those of a schedule that are prepared: ahead of their time, and used again for transfers of the same
// geometry, which are the same bytes at the same places. Their caller holds the lane.
type requests struct {
	own     *load.Own
	prepare func(list []load.Transfer) (nixl.Batch, error)
	known   map[string]*geometry
	unused  []*geometry // that no transfer ahead wants, the oldest first; some may be wanted again
	weight  int64       // of all batches
	cost    int64       // to prepare a descriptor, in nanoseconds, as it was lately
	key     []byte
}

// geometry is what transfers have in common, and the batches for them.
type geometry struct {
	key    string
	weight int64        // of a batch
	free   []nixl.Batch // not under way
	all    int          // batches
	wanted int          // transfers that will use them
	unused bool         // listed as such
}

const (
	// firstCost is cost before anything was measured.
	firstCost = 100
	// handle is what a batch weighs beside its descriptors, in memory and in time.
	handle = 32
	// horizon bounds what is prepared, and what is kept though nothing wants it.
	horizon = 1 << 17
)

func newRequests(own *load.Own, prepare func(list []load.Transfer) (nixl.Batch, error)) *requests {
	return &requests{own: own, prepare: prepare, known: map[string]*geometry{}, cost: firstCost}
}

// want notes that the k-th of this rank's transfers is to come.
func (r *requests) want(k int) *geometry {
	var descriptors int64
	r.key, descriptors = r.own.Key(r.key[:0], k)
	g := r.known[string(r.key)]
	if g == nil {
		g = &geometry{key: string(r.key), weight: handle + descriptors}
		r.known[g.key] = g
	}
	g.wanted++
	return g
}

// takes is about how long it takes to prepare a batch, in nanoseconds.
func (r *requests) takes(g *geometry) int64 { return g.weight * r.cost }

// add prepares a batch for the k-th transfer, and for others like it.
func (r *requests) add(g *geometry, k int) error {
	if err := r.trim(g.weight); err != nil {
		return err
	}
	began := clock.Now()
	b, err := r.prepare(r.own.Transfers(k))
	if err != nil {
		return fault.New(fault.KindOf(err), "prepare transfer %d: %w", r.own.Number(k), err)
	}
	r.cost = (3*r.cost + (clock.Now()-began)/g.weight) / 4
	g.free, g.all = append(g.free, b), g.all+1
	r.weight += g.weight
	return nil
}

// take returns a batch for the k-th transfer, which want was called for: one that is free, or a new one.
func (r *requests) take(g *geometry, k int) (nixl.Batch, error) {
	if len(g.free) == 0 {
		if err := r.add(g, k); err != nil {
			return nil, err
		}
	}
	g.wanted--
	last := len(g.free) - 1
	b := g.free[last]
	g.free = g.free[:last]
	return b, nil
}

// put takes a batch back.
func (r *requests) put(g *geometry, b nixl.Batch) {
	g.free = append(g.free, b)
	r.offer(g)
}

// unwant takes a call of want back.
func (r *requests) unwant(g *geometry) {
	g.wanted--
	r.offer(g)
}

// offer lists a geometry that nothing wants.
func (r *requests) offer(g *geometry) {
	if g.wanted == 0 && !g.unused {
		r.unused, g.unused = append(r.unused, g), true
	}
}

// trim releases what nothing wants, the oldest first, until there is room for a batch.
func (r *requests) trim(weight int64) error {
	for len(r.unused) > 0 && r.weight+weight > 2*horizon {
		g := r.unused[0]
		r.unused[0] = nil
		r.unused, g.unused = r.unused[1:], false
		if g.wanted > 0 {
			continue
		}
		if err := r.drop(g); err != nil {
			return err
		}
	}
	return nil
}

// drop releases the free batches of a geometry.
func (r *requests) drop(g *geometry) (err error) {
	for _, b := range g.free {
		err = errors.Join(err, b.Release())
	}
	g.all -= len(g.free)
	r.weight -= int64(len(g.free)) * g.weight
	if g.free = nil; g.all == 0 {
		delete(r.known, g.key)
	}
	return err
}

// release releases all that is not under way.
func (r *requests) release() (err error) {
	for _, g := range r.known {
		err = errors.Join(err, r.drop(g))
	}
	r.unused = nil
	return err
}
