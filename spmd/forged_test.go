package spmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/spmd/boot/watch"
	"perigee/spmd/wire"
)

// leads is the monitor of a rank 0 that coordinates a job which one rank has left.
type leads struct {
	ignoresFailures
	left int
}

func (l leads) HasLeft(rank int) bool { return rank == l.left }

// The links of a rank that has left may end one long after the other, or fall silent since its host is down. Forged
// frames end the job all the same.
func TestLostLinksOfThoseWhoHaveLeft(t *testing.T) {
	const left, lost, stays = 2, 3, 1
	for _, c := range []struct {
		name string
		why  error
		want string
	}{
		{"silent", fmt.Errorf("no answer for 5s: %w", syscall.ETIMEDOUT), "nothing comes any more from rank 1 on"},
		{"forged", wire.ErrForged, "link from rank 2 on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			worlds, _ := NewInMemory(4)
			w := worlds[0]
			w.monitor, w.lostLinks = leads{left: left}, make(chan lostLink, 3)
			must.Do(t, w.Lose([]int{lost}))
			for _, rank := range []int{left, lost, stays} {
				w.lostLinks <- lostLink{rank, c.why}
			}
			w.watchLinks()
			if err := context.Cause(w.ctx); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the job ended with %v, want %q", err, c.want)
			}
		})
	}
}

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
