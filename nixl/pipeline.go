package nixl

import (
	"fmt"
	"math/rand/v2"
)

// Pipeline runs the same transfers n times with as many runs under way as there are batches, each prepared from the
// same transfers: run i uses batches[i % len(batches)] and is posted when that batch's previous run is complete. A run
// is stamped from its own post to its own end, so the stamps of runs overlap; the time of all n is that from the
// first start to the last end. times has n elements or is nil, as for Batch.Run.
//
// Inside a host UCX copies small transfers while they are posted, and the engine shm copies in one goroutine per
// batch: there a pipeline hides the cost of posting at best. Over a network it keeps the link busy.
//
// After an error the batches are unusable.
func Pipeline(ctl Control, batches []Batch, n int, times []Times) error {
	if len(batches) == 0 {
		return fmt.Errorf("a pipeline of no batches")
	}
	if times != nil && len(times) != n {
		return fmt.Errorf("%d runs but room for %d stamps", n, len(times))
	}
	depth := len(batches)
	for i := range n + depth {
		b := batches[i%depth]
		if done := i - depth; done >= 0 && done < n {
			var t *Times
			if times != nil {
				t = &times[done]
			}
			if err := b.Wait(ctl, t); err != nil {
				return err
			}
		}
		if i >= n {
			continue
		}
		if err := b.Post(); err != nil {
			return err
		}
	}
	return nil
}

// Shuffle brings descriptors into an order that depends on the seed alone. Applied to one side of a transfer, it
// makes the places in that buffer random, block by block, while the other side stays in order.
func Shuffle(descs []Desc, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(descs), func(i, j int) { descs[i], descs[j] = descs[j], descs[i] })
}
