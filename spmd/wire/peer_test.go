package wire

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"perigee/internal/kit/must"
	"perigee/spmd/spmdtest"
)

// TestRanksThatDialEachOtherShareALink lets all ranks send to all others at once, for the first time. Each pair
// ends up with one link, and no message is lost or overtaken.
func TestRanksThatDialEachOtherShareALink(t *testing.T) {
	const n, each = 4, 5
	for range 30 {
		ends := mesh(t, n)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("a message was lost"))
		var all sync.WaitGroup
		for me, e := range ends {
			for other := range n {
				if other == me {
					continue
				}
				all.Go(func() {
					for i := range uint32(each) {
						if err := e.Send(ctx, other, Header{Channel: 1, Seq: i}, nil); err != nil {
							t.Errorf("rank %d to %d: %v", me, other, err)
							return
						}
					}
				})
				all.Go(func() {
					for i := range uint32(each) {
						h, _, err := e.Recv(ctx, other, 1)
						if err != nil || h.Seq != i {
							t.Errorf("rank %d from %d: message %d instead of %d, %v", me, other, h.Seq, i, err)
							return
						}
					}
				})
			}
		}
		all.Wait()
		cancel()
		for me, e := range ends {
			if links := e.countLinks(); links != n-1 {
				t.Errorf("rank %d has %d links to %d others", me, links, n-1)
			}
			if sent := e.Sent(); sent.Links != n-1 {
				t.Errorf("rank %d says that it has used %d links to %d others", me, sent.Links, n-1)
			}
		}
		for _, e := range ends {
			e.Close()
		}
		if t.Failed() {
			return
		}
	}
}

// A sender whose time is up does not wait for another that still opens the link to the same rank, and does not spoil
// the link for that one.
func TestOpeningWaitsOnlyAsLongAsItsContext(t *testing.T) {
	ends := mesh(t, 2)
	dialling, goOn := make(chan struct{}), make(chan struct{})
	ends[0].cfg.Resolve = func(context.Context, int) ([]string, error) {
		close(dialling)
		<-goOn
		return []string{addressOf(ends[1])}, nil
	}
	patient := make(chan error, 1)
	go func() { patient <- ends[0].Send(t.Context(), 1, Header{Channel: 1}, nil) }()
	<-dialling
	over := errors.New("time is up")
	ctx, cancel := context.WithCancelCause(t.Context())
	impatient := make(chan error, 1)
	go func() { impatient <- ends[0].Send(ctx, 1, Header{Channel: 1}, nil) }()
	cancel(over)
	select {
	case err := <-impatient:
		if err != over {
			t.Errorf("the sender whose time is up got %v", err)
		}
	case <-time.After(spmdtest.Patience):
		t.Error("the sender whose time is up still waits")
	}
	close(goOn)
	if err := <-patient; err != nil {
		t.Errorf("the other got %v", err)
	}
}

// A rank that dials an address where no one answers sends on the link that the other rank opens meanwhile, whether it
// has reached that one at another address, which has refused it, or not at all.
func TestLinkOfTheOtherEndsADial(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel only
	must.Do(t, err)
	defer silent.Close()
	for name, reaches := range map[string]bool{"reached and refused": true, "not reached": false} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), spmdtest.Patience, errors.New("a rank still waits"))
			defer cancel()
			ends := mesh(t, 2)
			zeroDials, goOn, oneDials := make(chan struct{}), make(chan struct{}), make(chan struct{})
			ends[0].cfg.Resolve = func(context.Context, int) ([]string, error) {
				close(zeroDials)
				<-goOn
				return []string{addressOf(ends[1])}, nil
			}
			ends[1].cfg.Resolve = func(context.Context, int) ([]string, error) {
				close(oneDials)
				if reaches {
					return []string{silent.Addr().String(), addressOf(ends[0])}, nil
				}
				return []string{silent.Addr().String()}, nil
			}
			sent := make(chan error, 2)
			go func() { sent <- ends[0].Send(ctx, 1, Header{Channel: 1}, nil) }()
			<-zeroDials
			go func() { sent <- ends[1].Send(ctx, 0, Header{Channel: 1}, nil) }()
			<-oneDials
			if reaches { // the second address is dialled after headStart, and refuses
				time.Sleep(2 * headStart)
			}
			close(goOn)
			for range 2 {
				if err := <-sent; err != nil || ctx.Err() != nil {
					t.Error(err, context.Cause(ctx))
				}
			}
			if n := ends[0].countLinks(); n != 1 {
				t.Errorf("there are %d links", n)
			}
		})
	}
}
