package spmd

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"perigee/internal/fault"
	"perigee/spmd/boot/watch"
	"perigee/spmd/wire"
)

// hearsNothing is the monitor of a job in which nothing has failed yet.
type hearsNothing struct{ ignoresFailures }

func (hearsNothing) Failed() <-chan watch.Failure { return make(chan watch.Failure) }

// Before the ranks have met, a rank that finds a forged frame reports it at once, before the other end of the link
// reports that the link has ended.
func TestForgedFrameIsReportedFirst(t *testing.T) {
	worlds, _ := NewInMemory(2)
	finder, other := worlds[0], worlds[1]
	for _, w := range worlds {
		w.monitor = hearsNothing{}
		w.entered.Store(false)
	}
	reported := make(chan error, 2)
	go func() { reported <- other.All().explain(opGather, errors.New("link from rank 0: closed by the peer")) }()
	time.Sleep(20 * time.Millisecond)
	go func() { reported <- finder.All().explain(opGather, fmt.Errorf("link from rank 1: %w", wire.ErrForged)) }()
	first, second := <-reported, <-reported
	if fault.KindOf(first) != fault.RankLost || fault.HintOf(first) != alteredHint || fault.HintOf(second) != "" {
		t.Errorf("first %v, then %v", first, second)
	}
}
