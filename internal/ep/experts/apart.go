package experts

import (
	"errors"
	"log/slog"
	"maps"
	"slices"

	"perigee/nixl"
)

// apart are the transfers with each peer in their own batch: where one peer is dead the others get theirs.
type apart struct {
	log     *slog.Logger
	batches map[int]nixl.Batch // by peer
}

// newApart prepares a batch for each peer.
func newApart(log *slog.Logger, agent nixl.Agent, transfers []nixl.Transfer) (requests, error) {
	a := apart{log, map[int]nixl.Batch{}}
	byPeer := map[int][]nixl.Transfer{}
	for _, t := range transfers {
		byPeer[t.Peer] = append(byPeer[t.Peer], t)
	}
	for peer, list := range byPeer {
		b, err := agent.NewBatch(list)
		if err != nil {
			return nil, errors.Join(err, a.Release())
		}
		a.batches[peer] = b
	}
	return a, nil
}

// Run posts all and waits for all. The error is a TimeoutError that names the peers with which transfers have failed,
// for whatever reason, or are not complete in time.
func (a apart) Run(ctl nixl.Control, _ int, _ []nixl.Times) error {
	left := maps.Clone(a.batches)
	var late []int
	settle := func(peer int, err error) {
		delete(left, peer)
		if err != nil {
			a.log.Info("a transfer has failed where a rank was to be killed", "peer", peer, "reason", err)
			late = append(late, peer)
		}
	}
	for peer, b := range a.batches {
		if err := b.Post(); err != nil {
			settle(peer, err)
		}
	}
	err := nixl.Poll(ctl, func() (bool, error) {
		for peer, b := range left {
			done, err := b.Done()
			if done {
				err = b.Wait(ctl, nil)
			}
			if done || err != nil {
				settle(peer, err)
			}
		}
		return len(left) == 0, nil
	})
	if errors.Is(err, nixl.ErrDeadline) {
		late = slices.AppendSeq(late, maps.Keys(left))
	} else if err != nil {
		return err
	}
	if len(late) == 0 {
		return nil
	}
	slices.Sort(late)
	return &nixl.TimeoutError{Peers: late}
}

// Release frees the batches.
func (a apart) Release() error {
	var errs []error
	for _, b := range a.batches {
		errs = append(errs, b.Release())
	}
	return errors.Join(errs...)
}
