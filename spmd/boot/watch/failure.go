package watch

import (
	"context"
	"errors"
	"fmt"

	"perigee/internal/kit/fault"
)

// Store is where ranks leave their cards for each other at the start.
type Store interface {
	// Put publishes this rank's card. It is called once.
	Put(ctx context.Context, card []byte) error
	// Fence waits until all ranks have put their cards.
	Fence(ctx context.Context) error
	// Get returns the card of a rank, after the Fence.
	Get(ctx context.Context, rank int) ([]byte, error)
}

// Monitor connects a rank to the state of the job: it reports the rank's failure, and
// learns of the job's.
type Monitor interface {
	// Phase sets what this rank is doing now, for the report of its death.
	Phase(name string)
	// Abort reports that this rank has failed, which ends the job. It returns the
	// failure of the job: another rank may have failed first, or be the cause.
	Abort(f Failure) Failure
	// Failed yields the job's first failure, once, if there is one.
	Failed() <-chan Failure
	// Leave disconnects: from now on this rank's end is no failure. On the rank
	// that coordinates the job it waits until all others have left. After a
	// failure it does not wait for that, but makes sure that all have been
	// informed. It must be called last, and releases everything.
	Leave(ctx context.Context) error
}

// MayBeEcho reports whether a failure of this kind may be what another rank's
// failure looks like from afar. Then the coordinator probes for the cause, and informs
// all ranks, including the one that reported.
func MayBeEcho(k fault.Kind) bool {
	return k == fault.Timeout || k == fault.RankLost || k == fault.Engine
}

// Failure is why a job ended early.
type Failure struct {
	Rank  int        `json:"rank"` // -1 if no rank is the cause
	Host  string     `json:"host,omitempty"`
	Phase string     `json:"phase,omitempty"`
	Kind  fault.Kind `json:"kind"`
	Cause string     `json:"cause"`
	Hint  string     `json:"hint,omitempty"`
	// Alone says that this rank has found out by itself, and that the rank which
	// coordinates the job, and would report to the user, cannot.
	Alone bool `json:"-"`
}

// Error names the culprit, where it was and what happened.
func (f Failure) Error() string {
	return fault.At(f.Rank, f.Host, f.Phase, f.Cause)
}

// Unwrap gives the failure its kind and hint as an error.
func (f Failure) Unwrap() error { return &fault.Error{Kind: f.Kind, Msg: f.Cause, Hint: f.Hint} }

// Fault turns the failure into an error with a kind, for main.
func (f Failure) Fault() *fault.Error {
	return fault.New(f.Kind, "%w", f).WithHint("%s", f.Hint)
}

// FailureOf describes any error as a failure; one that is a Failure already
// comes back as it is.
func FailureOf(err error) Failure {
	if f, ok := errors.AsType[Failure](err); ok {
		return f
	}
	return Failure{Rank: -1, Kind: fault.KindOf(err), Cause: err.Error(), Hint: fault.HintOf(err)}
}

// GaveUp describes the end of a wait whose context ended. A cause that has a kind,
// as an interrupt does, keeps it.
func GaveUp(ctx context.Context, format string, args ...any) *fault.Error {
	cause := context.Cause(ctx)
	kind := fault.Launch
	if e, ok := errors.AsType[*fault.Error](cause); ok {
		kind = e.Kind
	}
	return fault.New(kind, "%s: %w", fmt.Sprintf(format, args...), cause)
}
