package session

import (
	"context"
	"errors"
	"time"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/nixl"
	"perigee/spmd"
)

// Way is an agent of this rank and the peers that it wants to reach.
type Way struct {
	Agent nixl.Agent
	Peers []int
}

// connectTimeout bounds the opening of connections where no --timeout does.
const connectTimeout = 60 * time.Second

// pollPause leaves the processor to the ranks that this one waits for.
const pollPause = 20 * time.Microsecond

// Connect opens ways, with all ranks calling it. Until all are open every rank polls, since a connection needs both
// its ends. Where that takes longer than --timeout, or a minute without one, the error is of the kind Timeout.
func Connect(w *spmd.World, ways ...Way) error {
	began := time.Now()
	if err := connect(w, ways); err != nil {
		return err
	}
	w.Log().Info("connected", "agents", len(ways), "elapsed", time.Since(began))
	return nil
}

// connect begins all connections, then lets the engines work until all are open or the time is over. --timeout bounds
// it where there is one, since a job that waits for less should not wait longer here.
func connect(w *spmd.World, ways []Way) error {
	for _, way := range ways {
		w.Log().Debug("connecting", "peers", way.Peers)
		if err := way.Agent.Connect(way.Peers); err != nil {
			return fault.New(fault.Engine, "connect to the peers: %w", err)
		}
	}
	limit := connectTimeout
	if t := w.Timeout(); t > 0 {
		limit = t
	}
	deadline := time.Now().Add(limit)
	for {
		done, err := progress(ways)
		if err != nil {
			return err
		}
		if done {
			// This rank is through, but its peers may need it to make progress.
			return pollThrough(w, ways)
		}
		if cause := context.Cause(w.Context()); cause != nil {
			return cause
		}
		if time.Now().After(deadline) {
			return fault.New(fault.Timeout, "rank %d is not connected to all of its peers after %v", w.Rank(), limit).
				WithHint("check that the hosts reach each other over the network that UCX chose (UCX_NET_DEVICES, UCX_TLS)")
		}
		time.Sleep(pollPause)
	}
}

// progress lets all agents work and reports whether all are connected.
func progress(ways []Way) (bool, error) {
	all := true
	for _, way := range ways {
		if err := way.Agent.Progress(); err != nil {
			return false, fault.New(fault.Engine, "make progress: %w", err)
		}
		done, err := way.Agent.Connected()
		if err != nil {
			return false, fault.New(fault.Engine, "connect to the peers: %w", err)
		}
		all = all && done
	}
	return all, nil
}

// pollThrough is a barrier of all ranks during which this rank keeps making
// progress for its peers.
func pollThrough(w *spmd.World, ways []Way) error {
	met := make(chan error, 1)
	go func() { met <- w.All().Barrier() }()
	for {
		select {
		case err := <-met:
			return err
		default:
		}
		if _, err := progress(ways); err != nil {
			return err
		}
		time.Sleep(pollPause)
	}
}

// Control bounds a transfer by the world's timeout and the job's failure.
func Control(w *spmd.World) nixl.Control {
	c := nixl.Control{Abort: w.AbortFlag()}
	if t := w.Timeout(); t > 0 {
		c.Deadline = clock.Now() + int64(t)
	}
	return c
}

// KindOf keeps the kind that an engine's error has, and calls others failures of the engine.
func KindOf(err error) fault.Kind {
	if k := fault.KindOf(err); k != fault.Internal {
		return k
	}
	return fault.Engine
}

// Explain words the error of a transfer: a timeout names the peer's host, and after an abort the
// error is the job's failure. what is the transfer's name.
func Explain(w *spmd.World, what string, err error) error {
	if errors.Is(err, nixl.ErrAborted) {
		<-w.Context().Done()
		return w.Err()
	}
	late, ok := errors.AsType[*nixl.TimeoutError](err)
	switch {
	case ok && len(late.Peers) > 0 && late.Peers[0] == nixl.Self:
		return fault.New(fault.Timeout, "%s: %w after %v", what, err, w.Timeout()).
			WithHint("a longer --timeout helps if the disk is only slow")
	case ok && len(late.Peers) > 0:
		peer := late.Peers[0]
		return fault.New(fault.Timeout, "%s: %w after %v (rank %d is on %s)", what, err, w.Timeout(), peer,
			w.HostName(peer)).
			WithHint("is that rank alive? A longer --timeout helps if the transfer is only slow")
	}
	return fault.New(KindOf(err), "%s: %w", what, err)
}
