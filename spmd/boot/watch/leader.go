package watch

import (
	"context"
	"time"

	"perigee/internal/kit/fault"
)

// LeadingClient is the client of rank 0 where that runs the coordinator. It stays until
// all others have left.
type LeadingClient struct {
	*Client
	Coordinator *Coordinator
	Shut        func() // stops what admits ranks to the coordinator; may be called twice
}

// HasLeft reports whether a rank has left.
func (l *LeadingClient) HasLeft(rank int) bool { return l.Coordinator.HasLeft(rank) }

// Leave waits until all ranks have left, or passes on the failure that ends the job, and
// closes the coordinator.
func (l *LeadingClient) Leave(ctx context.Context) error {
	err := l.Client.Leave(ctx)
	if err == nil {
		select {
		case <-l.Coordinator.Finished():
		case <-l.Coordinator.Failed():
		case <-ctx.Done():
			l.Coordinator.giveUp()
		}
		if f := l.Coordinator.Failure(); f != nil {
			err = *f // also if all have left since
		}
	}
	l.Close()
	return err
}

// lateWait is how long the coordinator of a job that has failed stays for ranks that have not come yet. Ranks of one
// launcher start within moments of each other.
const lateWait = 8 * time.Second

// AwaitLate waits, when the job has failed, until the ranks that have not come yet have come and heard why: they would
// look for rank 0 until their patience is over. It waits for lateWait, until ctx ends, or until the launcher dies. The
// signal that has ended the job, and ctx with it, does not end that: it may have come to this rank alone.
func (l *LeadingClient) AwaitLate(ctx context.Context) {
	over := ctx.Done()
	if fault.KindOf(context.Cause(ctx)) == fault.Interrupt {
		over = nil
	}
	limit := time.NewTimer(lateWait)
	defer limit.Stop()
	select {
	case <-l.Coordinator.all:
	case <-l.launcher.Done():
	case <-over:
	case <-limit.C:
		l.Coordinator.Log.Warn("ranks that have not come do not hear of the failure", "ranks", ListRanks(l.Coordinator.Missing()))
	}
}

// Close closes the coordinator and stops admitting ranks to it.
func (l *LeadingClient) Close() {
	l.Coordinator.Close()
	l.Shut()
}
