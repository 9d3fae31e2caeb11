package wire

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// TestRanksThatDialEachOtherShareALink lets all ranks send to all others at once, for the first time. Each pair
// ends up with one link, and no message is lost or overtaken.
func TestRanksThatDialEachOtherShareALink(t *testing.T) {
	const n, each = 4, 5
	for range 30 {
		ends := mesh(t, n)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("a message was lost"))
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
